"""Parameters as a tree: dictionaries for layers in dictionaries, as libraries of functions on trees want them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def nested(params: Mapping[str, Any]) -> dict[str, Any]:
    """A dictionary for each layer, in place of dotted names.

    >>> nested({"block.0.W": 1, "block.1.W": 2, "c": 3})
    {'block': {'0': {'W': 1}, '1': {'W': 2}}, 'c': 3}
    """
    tree: dict[str, Any] = {}
    for path, value in params.items():
        *layers, name = path.split(".")
        here = tree
        for layer in layers:
            here = here.setdefault(layer, {})
            if not isinstance(here, dict):
                raise ValueError(f"{path} is below `{layer}`, which is a value")
        if name in here:
            raise ValueError(f"{path} is a value, and others are below it")
        here[name] = value
    return tree


def flat(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted names in place of dictionaries, as modules take parameters.

    >>> flat({"block": {"0": {"W": 1}, "1": {"W": 2}}, "c": 3})
    {'block.0.W': 1, 'block.1.W': 2, 'c': 3}
    """
    found: dict[str, Any] = {}
    stack: list[tuple[str, Any]] = [("", tree)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, Mapping):
            stack += [(f"{path}.{name}" if path else name, x) for name, x in reversed(list(value.items()))]
        else:
            found[path] = value
    return found

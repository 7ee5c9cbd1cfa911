"""Modules and data for tests: a text as a module, small random inputs, arrays by the paths that users see."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from dslc.builder.build import Unit
from dslc.meaning.interpret import Interpreter


def load(text: str, folder: Path, name: str = "compiled") -> ModuleType:
    """The module of a text, from a file: Triton reads the text of its kernels there."""
    file = folder / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sample(unit: Unit, rng: np.random.Generator, size: int = 8) -> tuple[dict[str, Any], dict[str, int]]:
    """Small random inputs: every symbolic size is the same, whole numbers are 0 or 1."""
    names = {s.name for x in unit.inputs.values() for n in x.shape for s in getattr(n, "free_symbols", ())}
    sizes = dict.fromkeys(names, size)
    shapes = Interpreter({}, sizes)
    inputs: dict[str, Any] = {}
    for name, node in unit.inputs.items():
        shape = shapes.shape(node.shape)
        if node.dtype in ("i32", "i64"):
            inputs[name] = rng.integers(0, 2, shape)
        elif node.dtype == "bool":
            inputs[name] = rng.integers(0, 2, shape).astype(bool)
        else:
            values = rng.normal(size=shape) * 0.3
            inputs[name] = np.abs(values) + 0.05 if node.role == "state" else values
        if unit.refinements.get(name) == "binary":
            inputs[name] = rng.integers(0, 2, shape).astype(float)
        elif unit.refinements.get(name) == "simplex":
            inputs[name] = rng.dirichlet(np.ones(shape[-1]), shape[:-1])
    return inputs, sizes


def separate(unit: Unit, arrays: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Arrays by the paths that users see: those of equal layers one by one."""
    found: dict[str, Any] = {}
    for name in names:
        value = np.asarray(arrays[name])
        layers = len(unit.layers.get(name, ()))
        each = value.reshape(-1, *value.shape[layers:]) if layers else [value]
        found.update(zip(unit.paths(name), each, strict=True))
    return found

"""Sizes that must be known when a module is made: those that parameters need, and those that no input has."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dslc.check import program as p
from dslc.check.values import Static
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Diagnostic, Label
from dslc.sizes import Polynomial, Size


def needed(instance: p.Instance) -> dict[str, str]:
    """The open sizes that parameters and states of a model have, each with the path of the first one that has it."""
    found: dict[str, str] = {}
    stack = [(instance, "")]
    while stack:
        here, path = stack.pop()
        for tensor in (*(x.tensor for x in here.params), *(x.tensor for x in here.states)):
            for symbol in _symbols(tensor.shape):
                found.setdefault(symbol, path + tensor.name)
        stack += [(child, f"{path}{name}." if name else path) for name, child in reversed(here.children.items())]
    return found


def refusals(instance: p.Instance) -> list[Diagnostic]:
    """What is wrong with a model whose parameters have open sizes, and how to mend it."""
    found = []
    for size, path in needed(instance).items():
        places = [
            place for tensor in instance.inputs for axis, (place, _) in zip(tensor.shape, tensor.origins, strict=False)
            if size in _symbols((axis,))
        ]  # fmt: skip
        help = f"give it a value: `--set {size}=8`, in Python `{size}=8`, or the number itself in the type"
        label = Label((places or [instance.span.first_line])[0])
        found.append(kinds.OPEN_PARAMETER(label, path=path, size=size, help=help))
    return found


def untold_sizes(instance: p.Instance) -> list[str]:
    """The sizes among the arguments of a model that no input has."""
    told = {x for tensor in instance.inputs for size in tensor.shape for x in _symbols((size,)) if str(size) == x}
    return [name for name, value in instance.statics.items() if _open(value) and name not in told]


def untold(instance: p.Instance) -> list[Diagnostic]:
    """What is wrong with a model that has such sizes."""
    label = Label(instance.span.first_line)
    return [kinds.UNTOLD_SIZE(label, size=name, model=instance.name) for name in untold_sizes(instance)]


def _open(value: object) -> bool:
    return isinstance(value, Static) and isinstance(value.value, Polynomial) and value.value.is_Symbol


def sizes_of(instance: p.Instance, shapes: Mapping[str, tuple[int, ...]], wanted: Collection[str]) -> dict[str, int]:
    """Open sizes, read off arrays that are given for inputs by name."""
    found: dict[str, int] = {}
    for tensor in instance.inputs:
        for axis, length in zip(tensor.shape, shapes.get(tensor.name, ()), strict=False):
            if isinstance(axis, Polynomial) and axis.is_Symbol and str(axis) in wanted:
                found.setdefault(str(axis), length)
    return found


def _symbols(shape: tuple[Size, ...]) -> list[str]:
    return sorted({s.name for size in shape if isinstance(size, Polynomial) for s in size.free_symbols})

"""Random sizes and inputs for a spec, such as its declarations allow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from dslc.builder.build import Unit
from dslc.check import program as p
from dslc.ir import nodes as ir
from dslc.meaning.interpret import Array, Interpreter
from dslc.sizes import Size

#: open sizes are drawn from these, both ends included
SMALLEST, LARGEST = 2, 6


def open_sizes(units: Iterable[Unit]) -> list[str]:
    """The names of the sizes that only data give."""
    found = {
        s.name
        for unit in units
        for x in unit.inputs.values()
        for size in x.shape
        if not isinstance(size, int)
        for s in size.free_symbols
    }
    return sorted(found)


def draw_sizes(names: Sequence[str], given: Mapping[str, int], rng: np.random.Generator) -> dict[str, int]:
    return {name: given.get(name, int(rng.integers(SMALLEST, LARGEST + 1))) for name in names}


def fits(units: Iterable[Unit], sizes: Mapping[str, int]) -> bool:
    """Whether all axes have whole lengths from 1."""
    for unit in units:
        for node in ir.schedule((*unit.outputs.values(), *unit.updates.values())):
            shapes = getattr(node, "shapes", None) or ([node.shape] if hasattr(node, "shape") else [])
            if any(not _good(size, sizes) for shape in shapes for size in shape):
                return False
    return True


def _good(size: Size, sizes: Mapping[str, int]) -> bool:
    if isinstance(size, int):
        return size >= 1
    value = size.subs({s: sizes[s.name] for s in size.free_symbols if s.name in sizes})
    return isinstance(value, int) and value >= 1


def draw_inputs(
    unit: Unit, declared: Sequence[p.Tensor], sizes: Mapping[str, int], rng: np.random.Generator
) -> dict[str, Array]:
    """Values for all inputs, parameters and states of a program.

    Data are positive, so that logarithms and rates have something to work on; parameters keep values moderate.
    """
    machine = Interpreter({}, sizes)
    by_name = {t.name: t for t in declared}
    return {
        name: _values(x, by_name.get(name), machine.shape(x.shape), machine, rng) for name, x in unit.inputs.items()
    }


def _values(
    x: ir.Input, declared: p.Tensor | None, shape: tuple[int, ...], machine: Interpreter, rng: np.random.Generator
) -> Array:
    refinement = declared.refinement if declared is not None else None
    if x.dtype == "bool":
        return np.asarray(rng.random(shape) < 0.7)
    if x.dtype in ("i32", "i64"):
        below = 2 if declared is None or declared.below is None else machine.size(declared.below)
        return rng.integers(0, below, shape)
    if refinement == "binary":
        return rng.integers(0, 2, shape).astype(float)
    if refinement == "simplex":
        return rng.dirichlet(np.ones(shape[-1]), shape[:-1])
    if x.role == "param":
        fan = int(np.prod(shape[:-1])) if len(shape) > 1 else 10
        return np.asarray(rng.standard_normal(shape) / np.sqrt(max(fan, 1)))
    return rng.uniform(0.1, 0.9, shape)

"""Dtypes other than float64: values that a module can hold, and how far from the exact results it may be.

How far a module may be from the exact results depends on the spec: where a difference cancels, or a largest entry is
nearly equalled, none in that dtype can do better. So a result may be off by some roundings, or by as much as it moves
when all inputs, and all values on the way, are off by a few.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dslc.ir import nodes as ir
from dslc.ir.build import Unit
from dslc.ir.interpret import Array, Interpreter, rounded

#: dtype -> the largest relative error of one rounding
ROUNDING = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
HALVES = ("f16", "bf16")
#: how many roundings a result may be off, and inputs are moved by; those of a value on the way; how often that is tried
ROUNDINGS, ON_THE_WAY, TRIALS = 16, 2, 3
#: what counts as nothing, as a share of the largest of the results that are compared together
SMALL = 0.1


def computed_in(dtype: str) -> str:
    """What a module with parameters of a dtype computes with, and keeps its states in."""
    return "f32" if dtype in HALVES else dtype


def is_kept(x: ir.Input) -> bool:
    """Whether an input is kept in the dtype of the module; single numbers and states stay as they are."""
    return x.dtype in ("float", "f32") and (x.role == "param" or (x.role == "input" and bool(x.shape)))


def kept(unit: Unit, values: Mapping[str, Array], dtype: str) -> dict[str, Array]:
    """Values as a module of a dtype holds them, in float64."""
    if dtype == "f64":
        return dict(values)
    return {
        name: rounded(x.astype(np.float32), dtype if dtype in HALVES and is_kept(unit.inputs[name]) else "f64")
        if x.dtype.kind == "f" and unit.inputs[name].dtype != "f64"
        else x
        for name, x in values.items()
    }


def moved(values: Mapping[str, Array], dtype: str, rng: np.random.Generator) -> dict[str, Array]:
    """The inputs with every number off by up to some roundings."""
    most = ROUNDINGS * ROUNDING[dtype]
    return {name: off(x, most, rng) for name, x in values.items()}


def off(x: Array, most: float, rng: np.random.Generator) -> Array:
    return x * (1 + most * rng.uniform(-1, 1, x.shape)) if x.dtype.kind == "f" else x


def rounding(kind: type[Interpreter], dtype: str, rng: np.random.Generator) -> type[Interpreter]:
    """An interpreter whose values are all off by up to a few roundings."""

    class Rounding(kind):  # type: ignore[valid-type, misc]
        def evaluate(self, node: ir.Node) -> Any:
            value, most = super().evaluate(node), ON_THE_WAY * ROUNDING[dtype]
            match node:
                case ir.Comp() | ir.Scatter():
                    return off(value, most, rng)
                case ir.Along() | ir.External():
                    return [off(np.asarray(x), most, rng) for x in value]
            return value

    return Rounding


@dataclass
class Wanted:
    """The exact results by name, and those for inputs that are a little off."""

    exact: dict[str, Array]
    near: list[dict[str, Array]]

    def only(self, names: list[str]) -> Wanted:
        return Wanted({k: self.exact[k] for k in names}, [{k: x[k] for k in names} for x in self.near])

    def errors(self, found: Mapping[str, Any], dtype: str) -> list[tuple[float, float, str]]:
        """Of each result its error, the one that it may have, and its name; errors are lengths of differences."""
        lengths = {name: length(x) for name, x in self.exact.items()}
        largest = max((x for x in lengths.values() if np.isfinite(x)), default=0.0)
        rows: list[tuple[float, float, str]] = []
        for name in self.exact:
            scale = max(lengths[name], SMALL * largest, 1e-6)
            error = distance(found.get(name, np.nan), self.exact[name]) / scale
            natural = max(distance(x[name], self.exact[name]) / scale for x in self.near)
            rows.append((error, max(ROUNDINGS * ROUNDING[dtype], natural), name))
        return rows


def length(x: Any) -> float:
    """The Euclidean length of the finite entries of an array."""
    x = np.asarray(x, float)
    return float(np.linalg.norm(x[np.isfinite(x)]))


def distance(found: Any, expected: Any) -> float:
    """The length of a difference; infinite where one is finite and the other is not.

    >>> distance(np.array([3.0, np.inf]), np.array([0.0, np.inf]))
    3.0
    """
    a, b = np.asarray(found, float), np.asarray(expected, float)
    finite = np.isfinite(b)
    if a.shape != b.shape or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return float("inf")
    if not np.isfinite(a[finite]).all():
        return float("inf")
    return length(a[finite] - b[finite])

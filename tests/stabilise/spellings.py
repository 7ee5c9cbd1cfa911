"""Naive spellings of formulas, where they break, and what they mean in high precision."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
from programs import evaluate, unit

from dslc.autodiff.reverse import gradients, ones
from dslc.builder.build import Unit
from dslc.ir import nodes as ir
from dslc.passes.verify import verify
from dslc.stabilise.rewriter import Fired, stabilise

#: digits of the reference: 1 - sigmoid(1000) must not vanish
DIGITS = 1000

Point = tuple[Any, ...]


@dataclass(frozen=True)
class Spelling:
    """A formula in x (and y): numbers, or vectors over k."""

    formula: str
    meaning: Callable[..., Any]
    points: tuple[Point, ...]
    #: the rules without which it goes wrong
    rules: tuple[str, ...]
    vector: bool = False
    tolerance: float = 1e-12
    #: absolute errors of gradients that are taken from the value: of y - y^2 near y = 1, say
    floor: float = 1e-300

    def __str__(self) -> str:
        return " ".join(self.formula.split())

    def text(self) -> str:
        kind = "f64[K]" if self.vector else "f64[]"
        names = "xy"[: len(self.points[0])]
        where = " where K > 2" if self.vector else ""
        return f"fn f({', '.join(f'{n}: {kind}' for n in names)}) -> r: []{where}:\n{_body(self.formula)}"


def _body(formula: str) -> str:
    """The last line of a formula is its value, those before it are equations."""
    *before, last = formula.strip().split("\n")
    return "".join(f"    {line.strip()}\n" for line in before) + f"    r = {last.strip()}\n"


@dataclass
class Program:
    """A formula and its gradient, both in stable form."""

    unit: Unit
    value: ir.Tensor
    slopes: list[ir.Tensor]
    fired: list[Fired]


def compiled(text: str, stable: bool = True) -> Program:
    """The program of a formula, stabilised before and after differentiation (or not at all)."""
    made = unit(text)
    fired: list[Fired] = []
    value = made.outputs["r"]
    if stable:
        value = stabilise({"r": value}, fired)["r"]
    found = gradients({value: ones(value.shape, value.dtype)}, list(made.inputs.values()))
    if stable:
        both = stabilise({"r": value} | {str(k): g for k, g in enumerate(found)}, fired)
        assert both["r"] is value, "the second pass changed the value"
        found = [both[str(k)] for k in range(len(found))]
    verify([value, *found])
    return Program(made, value, found, fired)


def run(program: Program, point: Point) -> tuple[float, list[Any]]:
    """Value and gradient at a point, in float64."""
    values = {n: np.asarray(v, np.float64) for n, v in zip(program.unit.inputs, point, strict=True)}
    nodes = {"r": program.value} | {str(k): g for k, g in enumerate(program.slopes)}
    with np.errstate(all="ignore"):
        found = evaluate(program.unit, values, nodes)
    return float(found["r"]), [found[str(k)] for k in range(len(program.slopes))]


@functools.cache
def reference(spelling: Spelling, point: Point) -> tuple[float, list[Any]]:
    """Value and gradient at a point by high precision."""
    with mp.workdps(DIGITS):
        exact = [[mp.mpf(float(v)) for v in p] if spelling.vector else mp.mpf(float(p)) for p in point]
        value = spelling.meaning(*exact)
        slopes: list[Any] = []
        for k, p in enumerate(exact):
            if spelling.vector:
                slopes.append([float(mp.diff(_along(spelling, exact, k, i), p[i])) for i in range(len(p))])
            else:
                slopes.append(float(mp.diff(_along(spelling, exact, k, None), p)))
        return float(value), slopes


def _along(spelling: Spelling, exact: Sequence[Any], k: int, i: int | None) -> Callable[[Any], Any]:
    """The formula as a function of one number."""

    def value(t: Any) -> Any:
        moved = [list(p) if isinstance(p, list) else p for p in exact]
        if i is None:
            moved[k] = t
        else:
            moved[k][i] = t
        return spelling.meaning(*moved)

    return value


def mistakes(spelling: Spelling, stable: bool = True) -> list[str]:
    """Where value or gradient differ from the reference."""
    program = compiled(spelling.text(), stable)
    found: list[str] = []
    for point in spelling.points:
        value, slopes = run(program, point)
        expected, exact = reference(spelling, point)
        if not _close(value, expected, spelling.tolerance, 1e-300):
            found.append(f"{spelling} at {point}: {value} instead of {expected}")
        for mine, theirs in zip(slopes, exact, strict=True):
            if not _close(mine, theirs, spelling.tolerance, spelling.floor):
                found.append(f"the gradient of {spelling} at {point}: {mine} instead of {theirs}")
    return found


def _close(mine: Any, theirs: Any, tolerance: float, floor: float) -> bool:
    """Relative to each number; what underflows may be 0."""
    return bool(np.allclose(mine, theirs, rtol=tolerance, atol=floor))


# ---- the meanings that several spellings share ------------------------------------------------------


def sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def total(f: Callable[[Any], Any], x: Sequence[Any]) -> Any:
    return mp.fsum(f(v) for v in x)


def softmax(x: Sequence[Any], k: int) -> Any:
    return mp.exp(x[k]) / total(mp.exp, x)


def softmaxes(x: Sequence[Any]) -> list[Any]:
    powers = [mp.exp(v) for v in x]
    return [power / mp.fsum(powers) for power in powers]


def logsumexp(x: Sequence[Any]) -> Any:
    return mp.log(total(mp.exp, x))


def variance(x: Sequence[Any]) -> Any:
    mean = mp.fsum(x) / len(x)
    return mp.fsum((v - mean) ** 2 for v in x) / len(x)


def covariance(x: Sequence[Any], y: Sequence[Any]) -> Any:
    return mp.fsum(a * b for a, b in zip(x, y, strict=True)) / len(x) - mp.fsum(x) * mp.fsum(y) / len(x) ** 2


def cdf(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2

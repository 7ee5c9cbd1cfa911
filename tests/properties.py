"""Properties of functions of one array: equivariance, invariance, causality, receptive fields.

Each is an error, which is 0 where the property holds: `equivariance(f, x, before, after)`. A test compares a function
that has the property with one that has not, so that it shows that it can fail:

    shown(lambda f: equivariance(f, x, shift(1, axis=1)), conv, control=dense)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Function = Callable[[Array], Array]

#: what is left of a property when sums are added in another order
EXACT = 1e-9
#: how far a control must be from having it
CLEAR = 1e-3


def shown(error: Callable[[Function], float], function: Function, control: Function, exact: float = EXACT) -> None:
    """The function has the property, and the control has it not."""
    found = error(function)
    assert found <= exact, f"the property is missed by {found:.3g}, {exact:.3g} are allowed"
    other = error(control)
    assert other >= CLEAR, f"the control has the property as well, within {other:.3g}: the test shows nothing"


# ---- errors


def equivariance(function: Function, x: Array, before: Function, after: Function | None = None) -> float:
    """How far f(g x) is from g f(x); `after` is g on the results, where it differs."""
    return difference(function(before(x)), (after or before)(function(x)))


def invariance(function: Function, x: Array, action: Function) -> float:
    """How far f(g x) is from f(x)."""
    return difference(function(action(x)), function(x))


def causality(function: Function, x: Array, axis: int = 1, after: int | None = None, lag: int = 0) -> float:
    """How much outputs change by inputs behind them.

    Of outputs along the axis `after`, those at s may depend on inputs at t <= s - lag; lag 1 forbids the present too.
    """
    after = axis if after is None else after
    rng = np.random.default_rng(11)
    usual, worst = function(x), 0.0
    for t in range(x.shape[axis]):
        moved = np.array(x)
        place = (slice(None),) * axis + (t,)
        moved[place] += rng.standard_normal(moved[place].shape)
        early = (slice(None),) * after + (slice(0, t + lag),)
        worst = max(worst, difference(function(moved)[early], usual[early]))
    return worst


def support(jacobian: Array, out: int, into: int, outputs: int) -> Array:
    """Which places of an output axis depend on which of an input axis: [outputs, inputs], true or false.

    The Jacobian has `outputs` axes of the result first; `out` counts among those, `into` among the others.
    """
    kept = (out, outputs + into)
    others = tuple(i for i in range(jacobian.ndim) if i not in kept)
    return np.asarray(np.abs(jacobian).max(axis=others, initial=0) > EXACT)


def field_error(found: Array, expected: Callable[[int, int], bool]) -> float:
    """The share of pairs (output, input) in which a support differs from what is expected of it."""
    wanted = np.array([[expected(s, t) for t in range(found.shape[1])] for s in range(found.shape[0])])
    return float((found != wanted).mean())


def jacobian(function: Function, x: Array, step: float = 1e-5) -> Array:
    """All derivatives by central differences: axes of the result, then of x."""
    columns = []
    for place in np.ndindex(x.shape):
        ahead, back = np.array(x), np.array(x)
        ahead[place] += step
        back[place] -= step
        columns.append((function(ahead) - function(back)) / (2 * step))
    return np.stack(columns, -1).reshape(*columns[0].shape, *x.shape)


def linearity(function: Function, x: Array, z: Array, a: float = 0.7, b: float = -1.3) -> float:
    """How far f(a x + b z) is from a f(x) + b f(z)."""
    return difference(function(a * x + b * z), a * function(x) + b * function(z))


def convexity(function: Callable[[Array], float], points: Sequence[tuple[Array, Array]]) -> float:
    """How far a function rises above its chords, at a quarter, at half and at three quarters of each."""
    worst = 0.0
    for x, z in points:
        for a in (0.25, 0.5, 0.75):
            worst = max(worst, float(function(a * x + (1 - a) * z) - a * function(x) - (1 - a) * function(z)))
    return worst


def difference(found: Array, expected: Array) -> float:
    """The largest difference, in units of the largest expected number or of 1; infinite for another shape."""
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    if found.shape != expected.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    return float(np.abs(found - expected).max() / max(1.0, np.abs(expected).max()))


# ---- actions of groups


def permutation(order: Sequence[int], axis: int = 0) -> Function:
    return lambda x: np.take(x, order, axis)


def shift(by: int, axis: int) -> Function:
    """Round a ring."""
    return lambda x: np.roll(x, by, axis)


def flip(axis: int) -> Function:
    return lambda x: np.flip(x, axis)


def quarter_turn(axes: tuple[int, int]) -> Function:
    return lambda x: np.rot90(x, 1, axes)


def scaling(factor: float) -> Function:
    return lambda x: factor * x


def translation(by: Array | float) -> Function:
    return lambda x: x + by


def rotation(angle: float) -> Function:
    """Of the plane of the last axis."""
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return lambda x: x @ turn.T

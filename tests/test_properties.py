"""The harness for properties tells functions that have one from those that have not."""

from __future__ import annotations

import numpy as np
import pytest
from properties import (
    Array,
    causality,
    convexity,
    equivariance,
    field_error,
    flip,
    invariance,
    jacobian,
    linearity,
    permutation,
    quarter_turn,
    rotation,
    scaling,
    shift,
    shown,
    support,
    translation,
)

RNG = np.random.default_rng(3)
SERIES = RNG.standard_normal((2, 7, 3))
IMAGE = RNG.standard_normal((2, 5, 5, 1))
MIXED = RNG.standard_normal((7, 7))


def smoothed(x: Array) -> Array:
    """A ring: each place with both neighbours."""
    return np.roll(x, 1, 1) + 2 * x + np.roll(x, -1, 1)


def mixed(x: Array) -> Array:
    return np.einsum("st,nt...->ns...", MIXED[: x.shape[1], : x.shape[1]], x)


def delayed(x: Array) -> Array:
    return np.concatenate((0 * x[:, :1], x[:, :-1]), 1)


CASES = {
    "a convolution on a ring moves with its input": (
        lambda f: equivariance(f, SERIES, shift(2, 1)), smoothed, mixed),
    "a sum over places keeps its value under permutations": (
        lambda f: invariance(f, SERIES, permutation([3, 0, 6, 1, 2, 5, 4], 1)),
        lambda x: x.sum(1), lambda x: mixed(x).sum(1)),
    "a running sum is causal": (
        lambda f: causality(f, SERIES), lambda x: np.cumsum(x, 1), lambda x: np.cumsum(x[:, ::-1], 1)),
    "a delay looks at the past alone, a running sum at the present as well": (
        lambda f: causality(f, SERIES, lag=1), delayed, lambda x: np.cumsum(x, 1)),
    "a window of three has a receptive field of three": (
        lambda f: field_error(support(jacobian(f, SERIES), 1, 1, 3), lambda s, t: (s - t) % 7 in (0, 1, 6)),
        smoothed, lambda x: smoothed(smoothed(x))),
    "a flip commutes with an even filter": (
        lambda f: equivariance(f, SERIES, flip(1)), smoothed, delayed),
    "a quarter turn commutes with a pointwise map": (
        lambda f: equivariance(f, IMAGE, quarter_turn((1, 2))), np.tanh, lambda x: np.cumsum(x, 1)),
    "a length does not see rotations": (
        lambda f: invariance(f, SERIES[..., :2], rotation(0.7)),
        lambda x: np.hypot(x[..., 0], x[..., 1]), lambda x: x.sum(-1)),
    "differences do not see translations": (
        lambda f: invariance(f, SERIES, translation(2.5)), lambda x: np.diff(x, axis=1), lambda x: x**2),
    "a maximum scales with its input": (
        lambda f: equivariance(f, SERIES, scaling(3.0)), lambda x: x.max(1), np.tanh),
    "a matrix is linear": (lambda f: linearity(f, SERIES, SERIES[::-1]), mixed, np.tanh),
    "a square is convex": (
        lambda f: convexity(f, [(SERIES[0], SERIES[1])]),
        lambda x: float((x**2).sum()), lambda x: -float((x**2).sum())),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_property_holds_and_is_missed_by_the_control(name: str) -> None:
    error, function, control = CASES[name]
    shown(error, function, control)


@pytest.mark.parametrize("name", CASES)
def test_a_function_without_the_property_is_refused(name: str) -> None:
    error, function, control = CASES[name]
    with pytest.raises(AssertionError, match="is missed by"):
        shown(error, control, function)


@pytest.mark.parametrize("name", CASES)
def test_a_control_that_has_the_property_is_refused(name: str) -> None:
    error, function, _ = CASES[name]
    with pytest.raises(AssertionError, match="shows nothing"):
        shown(error, function, function)

"""Likelihoods and their logarithms in compiled modules, where one factor or one term leaves the range of floats."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from samples import load
from spellings import compiled, run, sigmoid, softmaxes

from dslc.compiler import compile_text

Rows = Sequence[Sequence[Any]]

LABELS = (0, 1, 2)


def of_labels(x: Rows) -> list[Any]:
    return [-mp.log(softmaxes(row)[c]) for row, c in zip(x, LABELS, strict=True)]


def of_two_classes(x: Rows) -> list[Any]:
    return [mp.log(softmaxes(row)[0] + softmaxes(row)[2]) for row in x]


def of_bits(x: Rows) -> list[Any]:
    return [-mp.log(sigmoid(row[0] if c == 1 else -row[0])) for row, c in zip(x, LABELS, strict=True)]


def of_all_bits(x: Rows) -> list[Any]:
    return [mp.fsum(of_bits(x))] * 3


def of_mixtures(x: Rows) -> list[Any]:
    return [mp.log(mp.fsum(p * mp.exp(v) for p, v in zip(softmaxes([0, 1, 2]), row, strict=True))) for row in x]


def of_all_mixtures(x: Rows) -> list[Any]:
    return [mp.fsum(of_mixtures(x))] * 3


def of_chosen(x: Rows) -> list[Any]:
    return [mp.log1p(mp.exp(row[1 if c == 1 else 0])) for row, c in zip(x, LABELS, strict=True)]


ONE_HOT = "o[n, k] = one_hot[k: 3](c[n]); "
BIT = "t[n] = 1.0 if c[n] == 1 else 0.0; "
SHARES = "w[k: 3] = 1.0 * k; p[k] = softmax[k](w[k]); "

#: meaning -> spellings of it
SPELLINGS: dict[Callable[[Rows], list[Any]], list[str]] = {
    of_labels: [
        ONE_HOT + "p[n, k] = softmax[k](x[n, k]); r[n] = -log(sum[k](o[n, k] * p[n, k]))",
        "p[n, k] = softmax[k](x[n, k]); r[n] = -log(sum[k](one_hot[k: 3](c[n]) * p[n, k]))",
        "p[n, k] = softmax[k](x[n, k]); r[n] = -log(sum[k](p[n, k] if k == c[n] else 0))",
        ONE_HOT + "m[n] = max[k](x[n, k]); e[n, k] = exp(x[n, k] - m[n]); z[n] = sum[k](e[n, k])"
        "; r[n] = -log(sum[k](o[n, k] * e[n, k] / z[n]))",
        ONE_HOT + "p[n, k] = softmax[k](x[n, k]); r[n] = -log(prod[k](p[n, k]^o[n, k]))",
        ONE_HOT + "p[n, k] = softmax[k](x[n, k])"
        "; r[n] = -log(o[n, 0] * p[n, 0] + o[n, 1] * p[n, 1] + o[n, 2] * p[n, 2])",
    ],
    of_two_classes: ["p[n, k] = softmax[k](x[n, k]); r[n] = log(p[n, 0] + p[n, 2])"],
    of_bits: [
        BIT + "p[n] = sigmoid(x[n, 0]); r[n] = -log(p[n]^t[n] * (1 - p[n])^(1 - t[n]))",
        BIT + "p[n] = (1 + tanh(x[n, 0] / 2)) / 2; r[n] = -t[n] * log(p[n]) - (1 - t[n]) * log(1 - p[n])",
        BIT + "p[n] = 0.5 + 0.5 * tanh(x[n, 0] / 2); r[n] = -t[n] * log(p[n]) - (1 - t[n]) * log(1 - p[n])",
    ],
    of_all_bits: [
        BIT + "p[n] = sigmoid(x[n, 0]); l = -log(prod[n](p[n]^t[n] * (1 - p[n])^(1 - t[n]))); r[n: 3] = l",
        BIT + "p[n] = sigmoid(x[n, 0]); q[n] = 1 - p[n]"
        "; l = -log(prod[n](q[n]^(1 - t[n])) * prod[n](p[n]^t[n])); r[n: 3] = l",
    ],
    of_mixtures: [
        SHARES + "s[n] = 0 * x[n, 0]; for k in 0..3:|s[n] = s[n] + p[k] * exp(x[n, k]); r[n] = log(s[n])",
    ],
    of_all_mixtures: [SHARES + "l = log(prod[n](sum[k](p[k] * exp(x[n, k])))); r[n: 3] = l"],
    of_chosen: [BIT + "r[n] = log1p(t[n] * exp(x[n, 1]) + (1 - t[n]) * exp(x[n, 0]))"],
}
CASES = [(meaning, text) for meaning, texts in SPELLINGS.items() for text in texts]

POINTS = (
    ((-5e3, 4e3, 1.0), (1.0, 2.0, 3.5), (40.0, -1.0, 20.0)),
    ((-2000.0, -2001.0, -1999.5), (900.0, 901.0, 899.0), (1.0, 2.0, 3.0)),
    ((40.0, 35.0, 30.0), (-30.0, -40.0, -45.0), (88.5, 88.0, 87.0)),
)


@functools.cache
def reference(meaning: Callable[[Rows], list[Any]], point: Rows) -> tuple[list[float], list[list[float]]]:
    """The values, and the derivatives of their sum, in so many digits that no exponential vanishes beside another one.

    At 5000, 1 - sigmoid(x) has 2171 zeros; two numbers of a point may be twice as far apart, and the step has 30.
    """
    farthest = max(abs(v) for row in point for v in row)
    with mp.workdps(200 + int(2 * farthest / math.log(10))):
        x = [[mp.mpf(v) for v in row] for row in point]
        step = mp.mpf(10) ** -30
        slopes: list[list[float]] = []
        for row in x:
            slopes.append([])
            for k, middle in enumerate(row):
                ends = []
                for sign in (1, -1):
                    row[k] = middle + sign * step
                    ends.append(mp.fsum(meaning(x)))
                row[k] = middle
                slopes[-1].append(float((ends[0] - ends[1]) / (2 * step)))
        return [float(v) for v in meaning(x)], slopes


@pytest.mark.point("10")
@pytest.mark.parametrize(("meaning", "text"), CASES)
def test_a_likelihood_is_right_far_out(meaning: Callable[[Rows], list[Any]], text: str, tmp_path: Path) -> None:
    lines = "".join(f"    {line}\n" for line in text.replace("|", "\n        ").split("; "))
    head = "model m(x: f32[3, 3], c: i32[3] < 3) -> (r: [3], dx: [3, 3]):\n"
    spec = tmp_path / "m.dsl"
    spec.write_text(f"{head}{lines}    dx = grad(sum(r), x)\n", encoding="utf-8")
    for dtype, rtol, atol in (("f32", 1e-5, 1e-6), ("f64", 1e-12, 1e-14)):
        made = load(compile_text(spec, dtype=dtype), tmp_path, f"m_{dtype}")
        for point in POINTS:
            found = made.forward({}, np.array(point, made.DTYPE), np.array(LABELS, np.int32))
            values, slopes = reference(meaning, point)
            np.testing.assert_allclose(found["r"], values, rtol=rtol, atol=atol, err_msg=dtype)
            np.testing.assert_allclose(found["dx"], slopes, rtol=10 * rtol, atol=10 * atol, err_msg=dtype)


@pytest.mark.point("10")
def test_a_power_of_0_with_exponent_0_is_1() -> None:
    program = compiled("fn f(x: f64[], y: f64[]) -> r: []:\n    r = log(sigmoid(x)^y)\n")
    assert run(program, (-np.inf, 0.0))[0] == 0.0
    value, (_, slope) = run(program, (-40.0, 0.0))
    assert (value, slope) == (0.0, -40.0)
    assert np.isnan(run(program, (np.nan, 1.0))[0])


@pytest.mark.point("10")
@pytest.mark.parametrize(("formula", "point", "expected"), [
    ("1 / cosh(x)", 0.0, -1.0),
    ("log1p(2 * exp(x))", 0.0, 2 / 9),
    ("log1p(exp(x) + exp(2 * x))", 0.0, 2 / 3),
    ("log1p(exp(x) + exp(2 * x))", 500.0, 0.0),
    ("0.5 + 0.5 * tanh(x / 2)", 0.0, 0.0),
])  # fmt: skip
def test_second_derivatives_are_right(formula: str, point: float, expected: float) -> None:
    text = f"fn f(x: f64[]) -> r: []:\n    d = grad({formula}, x)\n    r = d\n"
    found = run(compiled(text), (point,))[1][0]
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)


@pytest.mark.point("L")
def test_a_sum_that_starts_from_0_times_a_nan_is_one() -> None:
    text = "fn f(x: f64[], y: f64[]) -> r: []:\n    s = 0 * y\n    r = log(s + exp(x) + exp(2 * x))\n"
    assert np.isnan(run(compiled(text), (1.0, np.nan))[0])
    np.testing.assert_allclose(run(compiled(text), (1000.0, 3.0))[0], 2000.0)


@pytest.mark.point("L")
@pytest.mark.parametrize("formula", ["log1p(0.5 * exp(-x^2))", "1 - 3 * tanh(x)", "0.25 + tanh(x) / 2"])
def test_what_cannot_leave_the_range_is_left_alone(formula: str) -> None:
    assert compiled(f"fn f(x: f64[]) -> r: []:\n    r = {formula}\n").fired == []

"""Gradients that users of other systems reported as NaN or wrong: here they are finite and right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from marks import rows
from spellings import compiled, run

INF, NAN = np.inf, np.nan


def gradient(text: str, *point: Any) -> list[list[float]]:
    slopes = run(compiled(text), point)[1]
    return [np.atleast_1d(g).tolist() for g in slopes]


@rows("A50")
@pytest.mark.parametrize(("formula", "point", "expected"), [
    ("exp(x) if x <= 0 else 1 + x", 1000.0, 1.0),
    ("cos(x) if x < 1 else 0", INF, 0.0),
    ("x / 2 if x == 0 else sqrt(x) + 1", 0.0, 0.5),
    ("sqrt(x) if x > 0 else x", -4.0, 1.0),
    ("x / 0 if x > 1e9 else 1", 3.0, 0.0),
    ("exp(x) if x <= 10 else 1", 1e10, 0.0),
    ("exp(x) if x <= 10 else 1", NAN, 0.0),
    ("sin(x) / x if x != 0 else 1", 0.0, 0.0),
    ("log(x) if x > 0 else 0", 0.0, 0.0),
    ("s = sqrt(x)\n    r = s if x > 0 else 0 * x", 0.0, 0.0),
    ("x^1.5 if x > 0 else 0", -1.0, 0.0),
    ("exp(-x) / 10 if x > 0 else 0", -1e5, 0.0),
])  # fmt: skip
def test_a_branch_that_is_not_taken_has_no_part(formula: str, point: float, expected: float) -> None:
    body = formula if "r =" in formula else f"r = {formula}"
    assert gradient(f"fn f(x: f64[]) -> r: []:\n    {body}\n", point) == [[expected]]


@rows("P07")
@pytest.mark.parametrize("formula", [
    "norm[k](x[k])", "sqrt(sum[k](x[k]^2))", "sqrt(mean[k](x[k]^2))", "sum[k](abs(x[k]))", "sum[k](x[k]^2)^0.5",
    "1 / rsqrt(sum[k](x[k]^2))", "3 / rsqrt(mean[k](x[k]^2))", "1 / sum[k](x[k]^2)^-0.5",
    "exp(log(sum[k](x[k]^2)) / 2)", "exp(log(mean[k](x[k]^2)) * 0.5)", "exp(0.5 * log(sum[k](x[k]^2)))",
])  # fmt: skip
def test_the_gradient_of_a_norm_at_0_is_0(formula: str) -> None:
    assert gradient(f"fn f(x: f64[K]) -> r: []:\n    r = {formula}\n", [0.0, 0.0]) == [[0, 0]]


def test_a_normalised_zero_vector_has_finite_gradients() -> None:
    found = gradient("fn f(x: f64[K]) -> r: []:\n    r = sum[k](normalize[k](x[k]))\n", [0.0, 0.0, 0.0])
    assert np.isfinite(found).all()
    found = gradient("fn f(x: f64[K]) -> r: []:\n    r = sum[k](x[k] / sum[j](abs(x[j])))\n", [0.0, 0.0, 0.2])
    np.testing.assert_allclose(found, [[5, 5, 0]], atol=1e-12)


MASK = "fn f(x: f64[K], w: f64[K]) -> r: []:\n    {}\n    r = sum[k](p[k] * k)\n"


@pytest.mark.parametrize("body", [
    "p[k] = softmax[k](x[k] if w[k] > 0 else -inf)",
    "e[k] = exp(x[k]) if w[k] > 0 else 0\n    p[k] = e[k] / sum[j](e[j])",
    "e[k] = w[k] * exp(x[k])\n    p[k] = e[k] / sum[j](e[j])",
])  # fmt: skip
def test_large_logits_behind_a_mask_do_no_harm(body: str) -> None:
    program = compiled(MASK.format(body))
    value, (slope, _) = run(program, ([1.0, 1.0, 1e4], [1.0, 1.0, 0.0]))
    assert value == 0.5
    np.testing.assert_allclose(slope, [-0.25, 0.25, 0], atol=1e-15)


def test_the_entropy_of_a_masked_softmax_that_is_normalised_again_has_a_gradient() -> None:
    text = (
        "fn f(x: f64[K], w: f64[K]) -> r: []:\n    a[k] = softmax[k](x[k] if w[k] > 0 else -inf)\n"
        "    b[k] = a[k] * sum[j](a[j])^-1\n    r = sum[k](-b[k] * log2(b[k]) if w[k] > 0 else 0)\n"
    )
    value, (slope, _) = run(compiled(text), ([1.0, 2.0, 3.0], [1.0, 1.0, 0.0]))
    p = 1 / (1 + np.exp(1))
    np.testing.assert_allclose(value, -(p * np.log2(p) + (1 - p) * np.log2(1 - p)), rtol=1e-12)
    share = p * (1 - p) / np.log(2)
    np.testing.assert_allclose(slope, [share, -share, 0], atol=1e-12)


@pytest.mark.parametrize(("formula", "expected"), [("max(x, y)", [0.5, 0.5]), ("min(x, y)", [0.5, 0.5])])
def test_a_tie_shares_its_gradient(formula: str, expected: list[float]) -> None:
    assert gradient(f"fn f(x: f64[], y: f64[]) -> r: []:\n    r = {formula}\n", 1.0, 1.0) == [[e] for e in expected]


@pytest.mark.point("L")
def test_the_angle_of_the_origin_has_gradient_0() -> None:
    assert gradient("fn f(x: f64[], y: f64[]) -> r: []:\n    r = atan2(x, y)\n", 0.0, 0.0) == [[0.0], [0.0]]


@pytest.mark.point("11")
def test_the_hinge_loss_has_slope_0_at_margin_1() -> None:
    text = "fn f(x: f64[K]) -> r: []:\n    one[k: K] = 1.0\n    r = hinge(x, one)\n"
    found = gradient(text, [-1.0, 0.0, 0.5, 1.0, 2.0])
    np.testing.assert_allclose(found, [[-0.2, -0.2, -0.2, 0, 0]])


@pytest.mark.point("L")
def test_a_derivative_by_hand_takes_a_whole_number_for_a_float() -> None:
    text = (
        "fn scaled_tanh(x, a) -> y:\n    y = a * tanh(x)\n    backward (dy) -> (dx, da):\n"
        "        dx = 10 * dy * a * (1 - tanh(x)^2)\n        da = 10 * dy * tanh(x)\n\n"
        "fn f(x: f64[K]) -> r: []:\n    r = sum[k](scaled_tanh(x[k], 2) + scaled_tanh(1, x[k]) + scaled_tanh(1, k))\n"
    )
    x = np.array([0.3, -1.0])
    np.testing.assert_allclose(gradient(text, x), [20 * (1 - np.tanh(x) ** 2) + 10 * np.tanh(1)], rtol=1e-12)

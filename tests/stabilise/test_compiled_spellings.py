"""Naive spellings in compiled NumPy modules, in float64 and in float32, against high precision."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from marks import rows
from samples import load
from spelling_table import NUMBERS
from spellings import Spelling, reference

from dslc.compiler import compile_text

SPEC = """
model m(x: f32[N, K], label: i32[N] < K) -> (
    p: [N, K], q: [N, K], loss: [N], slope: [N, K], spread: [N], length: [N], pull: [N, K], masked: [N, K]
):
    p[n, k] = exp(x[n, k]) / sum[j](exp(x[n, j]))
    e[n, k] = exp(x[n, k])
    total[n] = sum[k](e[n, k])
    q[n, k] = log(e[n, k] / total[n])
    loss[n] = -log(p[n, label[n]])
    slope = grad(sum(loss), x)
    spread[n] = mean[k](x[n, k]^2) - mean[k](x[n, k])^2
    length[n] = sqrt(sum[k](x[n, k]^2))
    pull = grad(sum(length), x)
    masked[n, k] = softmax[k](x[n, k] if x[n, k] > 1e9 else -inf)
"""


def module(folder: Path, text: str, dtype: str) -> Any:
    """The compiled module of a spec."""
    spec = folder / "m.dsl"
    spec.write_text(text, encoding="utf-8")
    return load(compile_text(spec, dtype=dtype), folder, f"m_{dtype}")


@rows("L27", "L31", "L42", "P07")
@pytest.mark.parametrize(("dtype", "rtol"), [("f64", 1e-12), ("f32", 1e-5)])
def test_naive_layers_are_stable_in_modules(dtype: str, rtol: float, tmp_path: Path) -> None:
    x = np.array([[1e4, -1e4, 0.0], [0.0, -92.1, 3.0], [0.0, 0.0, 0.0], [1e4, 1e4 + 1, 1e4 + 3]])
    label = np.array([2, 1, 0, 1])
    found = module(tmp_path, SPEC, dtype).forward({}, x, label)
    exact = [[mp.mpf(float(v)) for v in row] for row in (x if dtype == "f64" else x.astype(np.float32))]
    for n, row in enumerate(exact):
        total = mp.fsum(mp.exp(v) for v in row)
        share = [mp.exp(v) / total for v in row]
        mean = mp.fsum(row) / 3
        length = mp.sqrt(mp.fsum(v * v for v in row))
        expected = {
            "p": [float(v) for v in share],
            "q": [float(mp.log(v)) for v in share],
            "loss": float(-mp.log(share[label[n]])),
            "slope": [float(v - (k == label[n])) for k, v in enumerate(share)],
            "spread": float(mp.fsum((v - mean) ** 2 for v in row) / 3),
            "length": float(length),
            "pull": [float(v / length) if length else 0.0 for v in row],
            "masked": [0.0] * 3,
        }
        for name, value in expected.items():
            atol = 1e-3 if (name, dtype) == ("spread", "f32") else 2e-7 if dtype == "f32" else 1e-15
            np.testing.assert_allclose(found[name][n], value, rtol=rtol, atol=atol, err_msg=f"{name} of row {n}")


def holds(spelling: Spelling, point: tuple[float, ...]) -> bool:
    """Can float32 hold the point, the value there and the gradient?"""
    value, slopes = reference(spelling, point)
    return all(v == 0 or 1e-30 < abs(v) < 3e38 for v in (*point, value, *slopes))


def single(point: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(float(np.float32(v)) for v in point)


#: formulas of one line
SINGLE = tuple(s for s in NUMBERS if "\n" not in s.formula)


def with_points(formulas: Sequence[Spelling]) -> list[tuple[Spelling, tuple[tuple[float, ...], ...]]]:
    """The formulas at points for float32; only a test that runs asks, for high precision takes its time."""
    found = [(s, tuple(single(p) for p in s.points if holds(s, p))) for s in formulas]
    return [(s, points) for s, points in found if points]


def with_indices(formula: str) -> str:
    """The formula for all n."""
    return re.sub(r"\b([xy])\b", r"\1[n]", formula)


@pytest.mark.parametrize(("dtype", "rtol"), [("f64", 1e-9), ("f32", 3e-5)])
@pytest.mark.parametrize("part", range(4))
def test_naive_formulas_are_stable_in_modules(part: int, dtype: str, rtol: float, tmp_path: Path) -> None:
    chosen = with_points(SINGLE[part::4])
    head, body = [], []
    for k, (s, _) in enumerate(chosen):
        head.append(f"r{k}: [N], dx{k}: [N]")
        body.append(f"r{k}[n] = {with_indices(s.formula)}")
        body.append(f"dx{k} = grad(sum(r{k}), x)")
    text = f"model m(x: f32[N], y: f32[N]) -> ({', '.join(head)}):\n" + "".join(f"    {line}\n" for line in body)
    made = module(tmp_path, text, dtype)
    floor = 1e-7 if dtype == "f32" else 1e-15
    for k, (s, points) in enumerate(chosen):
        for point in points:
            x, y = (*point, 0.0)[:2]
            found = made.forward({}, np.array([x]), np.array([y]))
            value, slopes = reference(s, point)
            np.testing.assert_allclose(found[f"r{k}"][0], value, rtol=rtol, atol=floor, err_msg=f"{s} at {point}")
            np.testing.assert_allclose(
                found[f"dx{k}"][0], slopes[0], rtol=rtol, atol=floor, err_msg=f"d {s} at {point}"
            )

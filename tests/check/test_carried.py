"""What a definition carries along: dtypes of earlier steps of a scan, numbers of random draws."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from samples import load

import dslc
from dslc.compiler import compile_text
from dslc.frontend import check_text

SUMS = """
model m(x: f32[N, T]) -> (y: [N], s: [N, T]) where T >= 1:
    param w: [] ~ ones
    scan t in 0..T:
        last[n: N] = s[n, t-1]
        s[n: N, t] = last[n] + f64(w * x[n, t])
    start s = 0
    y[n] = f32(s[n, T - 1])

train m(x) where T >= 1:
    y, s = m(x)
    minimize sum[n](y[n])
    using sgd(lr = 0.1)
"""


@pytest.mark.parametrize(
    "body", [SUMS, SUMS.replace("        last[n: N] = s[n, t-1]\n", "").replace("last[n]", "s[n, t-1]")]
)
def test_a_sum_in_double_precision_keeps_its_digits_in_a_module_of_single_precision(body: str, tmp_path: Path) -> None:
    file = tmp_path / "sums.dsl"
    file.write_text(body, encoding="utf-8")
    module = dslc.compile(file)
    x = np.full((2, 20_000), 0.1, np.float32)
    params = {"w": np.float32(1)}
    found = module.forward(params, x)
    assert found["s"].dtype == np.float64 and found["y"].dtype == np.float32
    np.testing.assert_allclose(found["s"], np.cumsum(x.astype(np.float64), 1), rtol=1e-13)
    _, grads = module.loss_and_grad(params, x)
    np.testing.assert_allclose(grads["w"], x.astype(np.float64).sum(), rtol=1e-7)


DRAWS = """
{other}
layer noisy(x: [N, K]) -> y: [N, K]:
    y[n, k] = x[n, k] + normal[n, k]()

model m(x: f32[N, 3]) -> y: [N, 3]:
    u[n: N, k: 3] = uniform[n, k]()
    y = noisy(x + u) |> noisy
"""
OTHER = "fn unrelated(x: [N]) -> y: [N]:\n    y[n] = x[n] + normal[n]() + uniform[n]()\n"


def test_draws_do_not_change_with_other_definitions(tmp_path: Path) -> None:
    results = []
    for k, other in enumerate(("", OTHER, OTHER + OTHER.replace("unrelated", "another"))):
        file = tmp_path / f"draws{k}.dsl"
        file.write_text(DRAWS.format(other=other), encoding="utf-8")
        results.append(dslc.compile(file).forward({}, np.zeros((4, 3)), seed=7))
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])


SITES = """
fn moved(x: [K]) -> y: [K]:
    y[i] = x[i] + uniform[i: K]()

model m(x: f32[4]) -> (a: [4], b: [4], c: [4], d: [4], e: [4]):
    a[i] = uniform[i: 4]()
    b[i] = uniform[i: 4]()
    c = moved(x)
    d = moved(x)
    e = moved(moved(x))
"""


def test_every_draw_of_a_model_has_bits_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "sites.dsl"
    file.write_text(SITES, encoding="utf-8")
    found = dslc.compile(file).forward({}, np.zeros(4), seed=3)
    values = [tuple(np.asarray(v).tolist()) for v in found.values()]
    assert len(set(values)) == 5


#: the statement of a step that would change `z` from outside, and the number of steps that one does at x = 1
CHANGES = {
    "z[n, d] = z[n, d] + 0.1 * z[n, d]": 1.1**4,
    "z = z + 0.1 * z": 1.1**4,
    "z = 1.1 * z": 1.1**4,
    "z += 0.1 * x": 1.4,
    "z[n, d] += 0.1 * x[n, d]": 1.4,
    "z max= 1.5 * x": 1.5,
}


@pytest.mark.point("2")
@pytest.mark.parametrize("statement", CHANGES)
def test_a_step_does_not_change_a_value_from_outside_and_the_help_shows_how_to_carry_it(
    statement: str, tmp_path: Path
) -> None:
    head = "model m(x: [N, D], steps = 4) -> y: [N, D]:\n"
    text = f"{head}    z = x\n    scan i in 0..steps:\n        {statement}\n    y = z\n"
    (error,) = check_text(text).errors
    assert error.code == "E0607"
    step, start, last = re.findall(r"`(.*?)`", error.help or "")
    mended = f"{head}    scan i in 0..steps:\n        {step}\n    {start}\n    y = {last}\n"
    spec = tmp_path / "mended.dsl"
    spec.write_text(mended, encoding="utf-8")
    y = load(compile_text(spec, dtype="f64"), tmp_path).forward({}, np.ones((2, 3)))
    np.testing.assert_allclose(y, np.full((2, 3), CHANGES[statement]), 1e-14)


@pytest.mark.point("2")
@pytest.mark.parametrize(
    "body",
    [
        "scan t:\n        h[t] = x[t]\n        z = z + h[t]",
        "scan t reversed:\n        h[t] = x[t]\n        z += h[t]",
        "scan t:\n        h[t] = x[t]\n        if 1 < 2:\n            z = z + 1",
        "scan t:\n        h[t] = x[t]\n        for l in 0..2:\n            z = z + 1",
        "scan t:\n        h[t] = x[t]\n        scan s in 0..3:\n            g[s] = h[t]\n            z = z + 1",
        "scan t:\n        h[t] = x[t]\n        a = 1\n        scan s in 0..3:\n            g[s] = 1\n            a = 2",
    ],
)
def test_no_block_of_a_scan_changes_a_value_from_outside(body: str) -> None:
    text = f"model m(x: [T]) -> (z: [], h: [T]):\n    z = 0\n    {body}\n"
    assert [d.code for d in check_text(text).errors] == ["E0607"]


@pytest.mark.point("2")
def test_values_of_a_step_may_be_defined_again_in_it() -> None:
    body = "a = x[t]\n        a += 1\n        a = a * 2\n        h[t] = a\n"
    text = f"model m(x: [T]) -> h: [T]:\n    scan t:\n        {body}"
    assert not check_text(text).errors

"""Reads that a condition keeps inside, and indices that a reduction binds again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import dslc
from dslc.compiler import compile_text
from dslc.frontend import check_text

HEAD = "model m(x: f64[N, T], k: i32[N, T] < T) -> y: [N, T]:\n    "
TRAIN = "\n\ntrain m(x, k):\n    param_free = m(x, k)\n    minimize sum(param_free^3)\n    using sgd(lr = 0.1)\n"

# an equation, and the same in torch
EQUATIONS = {
    "y[n, t] = w * x[n, t-1] if t > 0 else 0": lambda x, w: w * torch.nn.functional.pad(x[:, :-1], (1, 0)),
    "y[n, t] = 0 if t == 0 else w * x[n, t-1]": lambda x, w: w * torch.nn.functional.pad(x[:, :-1], (1, 0)),
    "y[n, t] = w * x[n, t+1] if t != T - 1 else 0": lambda x, w: w * torch.nn.functional.pad(x[:, 1:], (0, 1)),
    "y[n, t] = w * x[n, t-2] / x[n, t-2] if not t < 2 else w": lambda x, w: w * torch.ones_like(x),
    "y[n, t] = w * (x[n, t-1] + x[n, t+1]) if t >= 1 and t + 1 < T else x[n, t]": lambda x, w: torch.cat(
        [x[:, :1], w * (x[:, :-2] + x[:, 2:]), x[:, -1:]], 1
    ),
    "y[n, t] = 0 if t == 0 or t == T - 1 else w * x[n, t-1] * x[n, t+1]": lambda x, w: torch.nn.functional.pad(
        w * x[:, :-2] * x[:, 2:], (1, 1)
    ),
    "y[n, t] = sum[s](w * x[n, t - s] if s <= t else 0) where s = T": lambda x, w: w * torch.cumsum(x, 1),
    "y[n, t] = w * x[n, t] / sum[t](x[n, t])": lambda x, w: w * x / x.sum(1, keepdim=True),
    "y[n, t] = w * x[n, t] - mean[t](x[n, t] * max[t](x[n, t]))": lambda x, w: (
        w * x - (x * x.max(1, keepdim=True).values).mean(1, keepdim=True)
    ),
    "y[n, t] = w * x[n, t] * std[t](x[n, t]) + norm[n, t](x[n, t])": lambda x, w: (
        w * x * x.std(1, correction=0, keepdim=True) + x.norm()
    ),
    "y[n, t] = w * x[n, t] * sum[n](x[n, t])": lambda x, w: w * x * x.sum(0),
}


@pytest.mark.parametrize("equation", EQUATIONS)
@pytest.mark.parametrize("length", [2, 5])
def test_conditions_keep_reads_inside_and_binders_hide_outer_indices(
    equation: str, length: int, tmp_path: Path
) -> None:
    spec = tmp_path / "m.dsl"
    spec.write_text(HEAD + "param w: [] = 1.5\n    " + equation + TRAIN)
    module = dslc.compile(spec)
    x = np.random.default_rng(0).uniform(0.5, 2, (3, length))
    k = np.zeros((3, length), np.int32)
    params = module.init()
    w = torch.tensor(params["w"], dtype=torch.float64, requires_grad=True)
    expected = EQUATIONS[equation](torch.tensor(x), w)
    loss = (expected**3).sum()
    loss.backward()
    np.testing.assert_allclose(module.forward(params, x, k), expected.detach(), rtol=1e-12, atol=1e-12)
    found, grads = module.loss_and_grad(params, x, k)
    np.testing.assert_allclose(found, loss.item(), rtol=1e-6)
    np.testing.assert_allclose(grads["w"], w.grad, rtol=1e-5)


@pytest.mark.parametrize(
    "equation",
    [
        "y[n, t] = x[n, t-1] if t >= 0 else 0",
        "y[n, t] = x[n, t-2] if t > 0 else 0",
        "y[n, t] = 0 if t > 0 else x[n, t-1]",
        "y[n, t] = x[n, t-1] if t > 0 or k[n, t] > 0 else 0",
        "y[n, t] = x[n, t+1] if t != 0 else 0",
        "y[n, t] = (1 if t > 0 else 0) * x[n, t-1]",
    ],
)
def test_a_condition_that_does_not_keep_a_read_inside_is_no_excuse(equation: str) -> None:
    assert [d.code for d in check_text(HEAD + equation + "\n").errors] == ["E0308"]


def test_a_read_that_is_inside_anyway_gets_no_guard(tmp_path: Path) -> None:
    spec = tmp_path / "m.dsl"
    spec.write_text("model m(x: f64[N, 8]) -> y: [N, 4]:\n    y[n, t] = x[n, 2*t + 1] if t > 1 else 0\n")
    assert "x[:, 1:8:2]" in compile_text(spec)


def test_an_index_on_the_left_must_be_used_outside_of_what_binds_it_again() -> None:
    assert check_text("fn f(x: [N, K]) -> y: [N, K]:\n    y[n, k] = sum[k](x[n, k])\n").errors


SCANS = """\
model m(x: f64[N, T], first: f64[N]) -> (a: [N, T], b: [N, T], c: [N, T]):
    param w: [] = 0.7
    scan t:
        a[n, t] = first[n] + x[n, t] if t == 0 else tanh(w * a[n, t-1]) + x[n, t]
    scan t reversed:
        b[n, t] = w * b[n, t+1] + x[n, t+1] if t < T - 1 else first[n]
    scan t:
        d[n, t] = x[n, t-1] - w * c[n, t-1] if t > 0 else 0
        c[n, t] = d[n, t] + x[n, t]

train m(x, first):
    a, b, c = m(x, first)
    minimize sum(a^2) + sum(b * x) + sum(c^2)
    using sgd(lr = 0.1)
"""


def test_a_scan_whose_condition_leaves_out_the_first_step_needs_no_start(tmp_path: Path) -> None:
    spec = tmp_path / "m.dsl"
    spec.write_text(SCANS)
    module = dslc.compile(spec, dtype="f64")
    rng = np.random.default_rng(0)
    x, first = rng.standard_normal((2, 5)), rng.standard_normal(2)
    params = module.init()
    w = torch.tensor(params["w"], requires_grad=True)
    xs, start = torch.tensor(x), torch.tensor(first)
    a, b, c = [start + xs[:, 0]], [start], [xs[:, 0]]
    for t in range(1, 5):
        a.append(torch.tanh(w * a[-1]) + xs[:, t])
        b.insert(0, w * b[0] + xs[:, 5 - t])
        c.append(xs[:, t - 1] - w * c[-1] + xs[:, t])
    expected = {name: torch.stack(values, 1) for name, values in {"a": a, "b": b, "c": c}.items()}
    loss = (expected["a"] ** 2).sum() + (expected["b"] * xs).sum() + (expected["c"] ** 2).sum()
    loss.backward()
    for name, found in module.forward(params, x, first).items():
        np.testing.assert_allclose(found, expected[name].detach(), rtol=1e-12)
    found, grads = module.loss_and_grad(params, x, first)
    np.testing.assert_allclose(found, loss.item(), rtol=1e-12)
    np.testing.assert_allclose(grads["w"], w.grad, rtol=1e-12)


def test_a_condition_that_holds_in_the_first_step_too_does_not_replace_a_start() -> None:
    text = "fn f(x: [T]) -> a: [T]:\n    scan t:\n        a[t] = a[t-1] + x[t] if t >= 0 else 0\n"
    assert [d.code for d in check_text(text).errors] == ["E0602"]


def test_joined_whole_numbers_are_below_the_largest_of_their_bounds() -> None:
    text = "model m(label: i32[N, U] < K, K = 6) -> y: [N, U + 1, 8]:\n"
    text += "    token[n, u] = concat[u](0, label[n, u] + 1)\n    y = embedding(token, K + 1, 8)\n"
    assert not check_text(text).errors
    assert [d.code for d in check_text(text.replace("K + 1, 8)", "K, 8)")).errors] == ["E0410"]


def test_an_expression_that_goes_on_in_the_next_line_is_told_to_stand_in_parentheses() -> None:
    text = "fn f(x: [N]) -> y: [N]:\n    y[n] = {}x[n]\n        |> tanh{}\n"
    found = check_text(text.format("", "")).errors
    assert [d.code for d in found] == ["E0107"] and "parentheses" in (found[0].help or "")
    assert not check_text(text.format("(", ")")).errors


VITERBI = """\
fn f(x: [T, K]) -> y: [T] where T >= 2:
    scan t in 1..T:
        best[t, k] = max(best[t-1, k], x[t, k])
        place[t] = argmax[k](best[t-1, k])
    start best[k] = x[0, k]
    start place = 0
    y[t] = x[t, place[t]]
"""


def test_a_whole_number_to_start_with_leaves_whole_numbers_whole() -> None:
    assert not check_text(VITERBI).errors

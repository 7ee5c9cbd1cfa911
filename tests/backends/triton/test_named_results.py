"""One result of several by its name: `f(x).loss`, on both backends, against torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dslc
from dslc.diagnostics.report import Reporter
from dslc.frontend import check_text
from dslc.source import Source
from dslc.syntax.format import format_source
from dslc.syntax.parser import parse

SPEC = """\
fn parts(a: [K]) -> (total: [], square: []):
    total = sum[k](a[k])
    square = sum[k](a[k]^2)

layer head(x: [N, K], out = 3) -> (mean: [N, O = out], scale: [N, O]):
    mean = dense(x, out)
    param s: [K, O] ~ normal
    scale[n, o] = exp(x[n, k] * s[k, o])

model net(x: f32[N, 4]) -> (y: [N, 3], energy: []):
    use shared = head
    y[n, o] = head(x).mean[n, o] * shared(x).scale[n, o] + shared(x, 3).mean[n, o] + parts(x[n, :]).square
    ordered[n, j] = top_k[k -> j: 2](x[n, k]).value
    energy = mean(y^2) + parts(ordered[:, 1]).total

train net(x):
    minimize net(x).energy + 0.1 * mean((x |> net).y)
    metric spread = x |> net().energy
    using sgd(lr = 0.1)
"""


def array(x: Any) -> np.ndarray[Any, Any]:
    return x.detach().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)


@pytest.mark.point("results")
@pytest.mark.parametrize("backend", ["numpy", "triton"])
def test_one_result_of_a_call_has_the_values_and_gradients_of_torch(tmp_path: Path, backend: str) -> None:
    file = tmp_path / "net.dsl"
    file.write_text(SPEC, encoding="utf-8")
    module = dslc.compile(file, backend=backend, dtype="f64", wrt=["x"])
    assert sorted(module.PARAMS) == [
        "head.dense.W", "head.dense.b", "head.s", "shared.dense.W", "shared.dense.b", "shared.s",
    ]  # fmt: skip
    params = module.init(1)
    data = np.random.default_rng(0).standard_normal((5, 4))
    leaves = {n: torch.tensor(array(v)) for n, v in params.items()} | {"x": torch.tensor(data)}
    for leaf in leaves.values():
        leaf.requires_grad_()
    x = leaves["x"]
    y = (x @ leaves["head.dense.W"] + leaves["head.dense.b"]) * torch.exp(x @ leaves["shared.s"])
    y = y + x @ leaves["shared.dense.W"] + leaves["shared.dense.b"] + (x**2).sum(1, keepdim=True)
    energy = (y**2).mean() + torch.topk(x, 2, dim=1).values[:, 1].sum()
    loss = energy + 0.1 * y.mean()
    slopes = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True, materialize_grads=True)
    wanted = dict(zip(leaves, slopes, strict=True))
    found, grads, metrics, _ = module.loss_grad_metrics(params, data)
    np.testing.assert_allclose(array(found), loss.item(), rtol=1e-12)
    np.testing.assert_allclose(array(metrics["spread"]), energy.item(), rtol=1e-12)
    for name, slope in wanted.items():
        np.testing.assert_allclose(array(grads[name]), slope.numpy(), rtol=1e-11, atol=1e-13, err_msg=name)


@pytest.mark.point("results")
def test_taking_one_result_is_naming_all_and_using_one(tmp_path: Path) -> None:
    """The same module, line by line, but for the line of the spec."""
    head = SPEC.split("\n\n")[1]
    taken = f"{head}\n\nmodel net(x: f32[N, 4]) -> y: [N, 3]:\n    y = head(x).scale\n"
    named = f"{head}\n\nmodel net(x: f32[N, 4]) -> y: [N, 3]:\n    _mean, scale = head(x)\n    y = scale\n"
    texts = []
    for text in (taken, named):
        file = tmp_path / "net.dsl"
        file.write_text(text, encoding="utf-8")
        module = dslc.compile(file, dtype="f64")
        params = module.init()
        texts.append((sorted(params), module.forward(params, np.arange(8.0).reshape(2, 4) / 8)))
    assert texts[0][0] == texts[1][0]
    np.testing.assert_array_equal(texts[0][1], texts[1][1])


@pytest.mark.point("results")
def test_a_result_is_taken_inside_a_scan_and_by_a_derivative(tmp_path: Path) -> None:
    file = tmp_path / "m.dsl"
    file.write_text(
        "fn cell(x: [], h: []) -> (next: [], seen: []):\n"
        "    next = tanh(x + h)\n"
        "    seen = h^2\n\n"
        "model m(x: [T]) -> (y: [T], slope: [T]):\n"
        "    scan t:\n"
        "        h[t] = cell(x[t], h[t-1]).next\n"
        "    start h = 0\n"
        "    y = h\n"
        "    slope = grad(cell(sum(x), sum(h)).seen, x)\n",
        encoding="utf-8",
    )
    module = dslc.compile(file, dtype="f64")
    x = torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64, requires_grad=True)
    h, steps = torch.zeros((), dtype=torch.float64), []
    for value in x:
        h = torch.tanh(value + h)
        steps.append(h)
    wanted = torch.stack(steps)
    (slope,) = torch.autograd.grad(wanted.sum() ** 2, x)
    found = module.forward({}, x.detach().numpy())
    np.testing.assert_allclose(found["y"], wanted.detach().numpy(), rtol=1e-14)
    np.testing.assert_allclose(found["slope"], slope.numpy(), rtol=1e-13)


NOT = "expected a layer named with `use` or a call before the dot, found"
FN = "fn polar(x: [N]) -> (radius: [N], angle: [N]):\n    radius = abs(x)\n    angle = sign(x)\n\n"


@pytest.mark.point("results")
@pytest.mark.parametrize(
    ("line", "message", "help"),
    [
        ("y = polar(x).angel", "`polar` has no result `angel`", "did you mean `angle`?"),
        ("y = polar(x).size_", "`polar` has no result `size_`", "it has `radius` and `angle`"),
        ("y = polar(x).angle.x", f"{NOT} `polar(x).angle`", ""),
        ("y = x.angle", f"{NOT} `x`", ""),
        ("y = tanh(x).y", f"{NOT} `tanh(x)`", ""),
        ("y = 2 * polar(x)", "expected one value, found 2 results", "`polar(x).radius` or `polar(x).angle`"),
        ("y = tanh(x |> polar)", "expected one value, found 2 results", "`(x |> polar).radius`"),
        ("y = polar(x)", "expected as many names as results, found 1 and 2", "take one: `polar(x).radius`"),
    ],
)  # fmt: skip
def test_what_is_no_result_is_refused(line: str, message: str, help: str) -> None:
    found = check_text(f"{FN}model m(x: [N]) -> y: [N]:\n    {line}\n").errors
    assert [d.message for d in found] == [message]
    assert help in (found[0].help or "")


@pytest.mark.point("results")
@pytest.mark.parametrize("line", ["y = polar(x).angle", "y = (x |> polar).angle", "y = x |> polar.angle"])
def test_a_result_by_name_is_laid_out_as_it_is_written(line: str) -> None:
    text = f"{FN}model m(x: [N]) -> y: [N]:\n    {line}\n"
    assert not check_text(text).errors
    assert format_source(parse(Source("m.dsl", text), Reporter())) == text

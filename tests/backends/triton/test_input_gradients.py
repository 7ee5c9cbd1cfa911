"""Gradients of a loss by inputs, and values that a training exposes: modules of both backends against torch."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import dslc
from dslc.cli.main import cli

SPEC = """\
model net(x: [N, 3], label: i32[N] < 4, hidden = 4) -> y: [N]:
    h = x
    for l in 0..3:
        h = h + tanh(dense(h, 3))
    param table: [4] ~ normal
    y[n] = sum[k](h[n, k]) * table[label[n]]

train net(x, label, t: [N], weight: [N]):
    y = net(x, label)
    error[n] = y[n] - t[n]
    expose error
    minimize mean[n](weight[n] * error[n]^2)
    metric mae = mean[n](abs(error[n]))
    using sgd(lr = 0.1)
"""

RNG = np.random.default_rng(0)
DATA = [RNG.standard_normal((5, 3)), np.array([0, 3, 1, 3, 2]), RNG.standard_normal(5), RNG.random(5)]


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "net.dsl"
    file.write_text(SPEC, encoding="utf-8")
    return file


def array(x: Any) -> np.ndarray[Any, Any]:
    return x.detach().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)


def in_torch(params: dict[str, Any], wanted: tuple[str, ...]) -> tuple[torch.Tensor, dict[str, Any]]:
    """The loss of the spec, written anew, and its gradients."""
    x, label, t, weight = (torch.tensor(v) for v in DATA)
    leaves = {n: torch.tensor(array(v)) for n, v in params.items()} | {"x": x, "weight": weight}
    for leaf in leaves.values():
        leaf.requires_grad_()
    h = x
    for k in range(3):
        h = h + torch.tanh(h @ leaves[f"dense.{k}.W"] + leaves[f"dense.{k}.b"])
    error = h.sum(1) * leaves["table"][label] - t
    loss = (weight * error**2).mean()
    names = [*params, *wanted]
    return error, dict(zip(names, torch.autograd.grad(loss, [leaves[n] for n in names]), strict=True))


def compiled(spec: Path, backend: str, **options: Any) -> ModuleType:
    return dslc.compile(spec, backend=backend, dtype="f64", **options)


@pytest.mark.wide(2)
@pytest.mark.point("wrt")
@pytest.mark.parametrize("backend", ["numpy", "triton"])
def test_gradients_by_inputs_and_exposed_values_are_those_of_torch(spec: Path, backend: str) -> None:
    module = compiled(spec, backend, wrt=["x", "weight"])
    params = module.init(3)
    error, wanted = in_torch(params, ("x", "weight"))
    _, grads = module.loss_and_grad(params, *DATA)
    assert grads.keys() == wanted.keys()
    for name, slope in wanted.items():
        np.testing.assert_allclose(array(grads[name]), slope.numpy(), rtol=1e-12, atol=1e-14, err_msg=name)
    _, named = module.evaluate(params, *DATA)
    np.testing.assert_allclose(array(named["error"]), error.detach().numpy(), rtol=1e-12)
    assert array(named["mae"]).shape == ()
    _, _, named, _ = module.loss_grad_metrics(params, *DATA)
    np.testing.assert_allclose(array(named["error"]), error.detach().numpy(), rtol=1e-12)
    plain = compiled(spec, backend)
    moved, _ = module.train_step(params, module.init_opt(params), *DATA)  # inputs are not trained
    other = plain.init(3)
    wanted_moved, _ = plain.train_step(other, plain.init_opt(other), *DATA)
    for name, value in wanted_moved.items():
        np.testing.assert_allclose(array(moved[name]), array(value), rtol=1e-12)


@pytest.mark.point("wrt")
def test_gradients_by_inputs_of_a_shared_batch_have_all_rows(spec: Path) -> None:
    module = compiled(spec, "numpy", wrt=["x"])
    module.THREADS, module.LEAST_WORK = 3, 0
    params = module.init(3)
    _, grads = module.loss_and_grad(params, *DATA)
    np.testing.assert_allclose(grads["x"], in_torch(params, ("x",))[1]["x"].numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.point("wrt")
@pytest.mark.parametrize("backend", ["numpy", "triton"])
def test_the_gradient_by_an_input_has_its_dtype_and_shape(tmp_path: Path, backend: str) -> None:
    """Also where the loss does not depend on it, and where it is a single number."""
    file = tmp_path / "m.dsl"
    file.write_text(
        "model m(x: [N], s: [], wide: f64[N], spare: [N, 2]) -> y: [N]:\n"
        "    param w: [] ~ ones\n"
        "    y[n] = x[n] * w * s + wide[n]\n\n"
        "train m(x, s, wide, spare):\n"
        "    minimize mean(m(x, s, wide, spare)^2)\n"
        "    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    module = dslc.compile(file, backend=backend, wrt=("x", "s", "wide", "spare"))
    x = np.arange(3.0)
    _, grads = module.loss_and_grad(module.init(), x, 2.0, x, np.ones((3, 2)))
    found = {n: (tuple(g.shape), str(g.dtype).removeprefix("torch.")) for n, g in grads.items() if n != "w"}
    assert found == {
        "x": ((3,), "float32"), "s": ((), "float32"), "wide": ((3,), "float64"), "spare": ((3, 2), "float32"),
    }  # fmt: skip
    np.testing.assert_allclose(array(grads["x"]), 2 * (3 * x) * 2 / 3, rtol=1e-6)
    np.testing.assert_allclose(array(grads["s"]), np.sum(2 * 3 * x * x) / 3, rtol=1e-6)
    assert not array(grads["spare"]).any()


@pytest.mark.point("wrt")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("weights", "did you mean `weight`"),
        ("image", "inputs with a gradient are `x`, `t`, `weight`"),
        ("label", "it holds whole numbers (i32)"),
        ("N", "it is a size"),
        ("hidden", "fixed when the spec is compiled"),
        ("table", "it is a parameter"),
        ("dense.0.W", "it is a parameter"),
    ],
)
def test_what_has_no_gradient_is_refused_in_words(spec: Path, name: str, words: str) -> None:
    result = CliRunner().invoke(cli, ["compile", str(spec), "--wrt", f"x,{name}"])
    assert result.exit_code == 2 and words in result.output and f"`{name}`" in result.output
    with pytest.raises(ValueError, match="cannot differentiate by"):
        dslc.compile(spec, wrt=[name])


@pytest.mark.point("wrt")
def test_a_model_without_a_train_has_no_gradient_by_inputs(tmp_path: Path) -> None:
    file = tmp_path / "m.dsl"
    file.write_text("model m(x: [N]) -> y: [N]:\n    y = tanh(x)\n", encoding="utf-8")
    with pytest.raises(ValueError, match="the spec has no `train` for `m`"):
        dslc.compile(file, wrt="x")


@pytest.mark.point("wrt")
def test_the_option_is_repeated_or_a_list(spec: Path) -> None:
    texts = [
        CliRunner().invoke(cli, ["compile", str(spec), *options]).output
        for options in (["--wrt", "x,weight"], ["--wrt", "x", "--wrt", "weight"])
    ]
    assert texts[0] == texts[1] and 'grads["weight"]' in texts[0]


@pytest.mark.point("expose")
def test_a_run_reports_the_numbers_and_not_the_tensors_that_are_exposed(spec: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **dict(zip(("x", "label", "t", "weight"), DATA, strict=True)))
    command = ["train", str(spec), "--data", str(tmp_path / "data.npz"), "--epochs", "2", "--batch", "2"]
    result = CliRunner().invoke(cli, [*command, "-o", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "mae" in result.output and "error" not in result.output

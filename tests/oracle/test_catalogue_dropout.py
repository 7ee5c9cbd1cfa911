"""Rows of the catalogue on dropout and its relatives (chapter 9): masks, expectations, Monte Carlo, DropConnect."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from catalogue import SPECS, Array, Case, Table, cases, check, model
from catalogue_layers import Layer, LayerTable, Tensors, Trained, layers
from marks import rows

from dslc import pipeline
from dslc.compiler import choose, compile_text
from dslc.frontend import check_file
from dslc.ir import nodes as ir

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"
torch.set_num_threads(1)


def kept(p: Tensors) -> torch.Tensor:
    """Which entries a draw has let through, told by the result."""
    return (p["y"] != 0).double()


def connected(x: torch.Tensor, p: Tensors) -> torch.Tensor:
    """Weights, not inputs, are dropped: which ones follows from as many rows as there are inputs."""
    weights = torch.linalg.lstsq(x.detach(), p["y"] - p["drop_connect.b"].detach()).solution
    mask = (weights.abs() > 1e-6).double()
    return x @ (p["drop_connect.W"] * mask / 0.75) + p["drop_connect.b"]


def identity(x: torch.Tensor, p: Tensors) -> torch.Tensor:
    return x


IMAGE = "[M, 4, 3, 4]"
MASKS = layers(
    Layer("9.28 9.33", "[N, D]", "[N, D]", "y = expected_dropout(x, keep = 0.7)",
          lambda x, p: x * kept(p), lambda x, p: 0.7 * x),
    Layer("9.34", "[N, D]", "[N, D]", "y = dropout(x, 0.3)", lambda x, p: x * kept(p) / 0.7, identity),
    Layer("9.35", IMAGE, IMAGE, "y = channel_dropout(x, 0.4)",
          lambda x, p: x * kept(p).amax((1, 2), keepdim=True) / 0.6, identity),
    Layer("9.36", IMAGE, IMAGE, "y = cutout(x, 2)", lambda x, p: x * kept(p).amax(3, keepdim=True), identity),
    Layer("9.29 9.17", "[N, D]", "[N, D]", "y = gaussian_noise(x, 0.5)",
          lambda x, p: x + (p["y"] - x).detach(), identity),
    Layer("9.38", "[N, D]", "[N, K]", "y = drop_connect(x, 4, 0.25)", connected,
          lambda x, p: x @ p["drop_connect.W"] + p["drop_connect.b"]),
)  # fmt: skip


@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
@pytest.mark.parametrize("table", [pytest.param(MASKS, marks=[m for x in MASKS for m in x.marks], id="masks")])
def test_masks_go_over_values_and_gradients_alike(table: list[object], backend: str, tmp_path: Path) -> None:
    LayerTable(x.values[0] for x in table).check(tmp_path, backend)  # type: ignore[attr-defined]


def _expected(x: torch.Tensor, w: torch.Tensor, act: object) -> torch.Tensor:
    total = torch.zeros(len(x), dtype=x.dtype)
    for mask in itertools.product((0.0, 1.0), repeat=3):
        ones = int(sum(mask))
        total = total + 0.7**ones * 0.3 ** (3 - ones) * act((x * torch.tensor(mask)) @ w)  # type: ignore[operator]
    return total


ENUMERATED = """
mask[m: 8, i: 3] = floor(m / 2^i) - 2 * floor(m / 2^(i + 1))
share[m] = prod[i](0.7 if mask[m, i] > 0.5 else 0.3)
h[n, m] = mask[m, i] * x[n, i] * w[i]
y[n] = sum[m](share[m] * {act}(h[n, m]))
"""
EXPECTATIONS = cases(
    Case("9.31 9.33", {"x": "[N, 3]", "w": "[3]"}, "[N]", "y[n] = 0.7 * x[n, i] * w[i]",
         lambda x, w: _expected(x, w, lambda h: h)),  # of a linear layer it is the layer of the expectation
    Case("9.31", {"x": "[N, 3]", "w": "[3]"}, "[N]", ENUMERATED.format(act="relu"),
         lambda x, w: _expected(x, w, torch.relu)),
)  # fmt: skip


@pytest.mark.parametrize("case", EXPECTATIONS)
def test_the_expectation_over_masks_is_that_of_all_masks(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@rows("9.31")
@pytest.mark.parametrize("backend", ["c", "triton"])
def test_the_expectation_over_masks_is_the_same_everywhere(backend: str, tmp_path: Path) -> None:
    table = Table(x.values[0] for x in EXPECTATIONS)
    table.compare(model(table.text(), tmp_path, backend).forward({}, *table.arguments()))


@rows("9.31")
def test_behind_a_relu_the_layer_of_the_expectation_is_another() -> None:
    x, w = torch.tensor([[1.0, -1.0, 0.5]]).double(), torch.tensor([1.0, 1.5, -0.5]).double()
    assert abs(float(_expected(x, w, torch.relu) - torch.relu(0.7 * x @ w))) > 0.05


# ---- what draws are like


@rows("9.28", "9.33", "9.34")
def test_a_mask_keeps_its_share_and_the_mean(tmp_path: Path) -> None:
    x = np.full((200, 100), 2.0)
    for body, scale, used in (
        ("y = expected_dropout(x, keep = 0.7)", 1.0, 0.7 * 2.0), ("y = dropout(x, 0.3)", 1 / 0.7, 2.0)
    ):  # fmt: skip
        layer = Trained(body, "[N, 100]", "[N, 100]", tmp_path)
        y = layer(x, seed=3)
        assert set(np.unique(y)) == {0.0, 2.0 * scale}
        five_deviations = 5 * np.sqrt(0.7 * 0.3 / x.size)
        assert abs((y != 0).mean() - 0.7) < five_deviations
        np.testing.assert_allclose(layer.used(x), used)
        np.testing.assert_allclose(y.mean(), used, rtol=0.01)  # the expectation is what inference computes
        np.testing.assert_allclose(y.var(), 0.7 * 0.3 * (2.0 * scale) ** 2, rtol=0.02)
        np.testing.assert_array_equal(layer(x, seed=3), y)
        assert (layer(x, seed=4) != y).mean() > 0.3


@rows("9.28", "9.34")
def test_all_backends_draw_the_same_mask(tmp_path: Path) -> None:
    x = np.ones((16, 8))
    for body in ("y = dropout(x, 0.3)", "y = gaussian_noise(x, 0.5)"):
        found = [
            Trained(body, "[N, 8]", "[N, 8]", tmp_path, backend)(x, seed=9) for backend in ("numpy", "c", "triton")
        ]
        assert np.std(found[0]) > 0.1
        np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
        np.testing.assert_allclose(found[2], found[0], rtol=1e-6)


@rows("9.34")
def test_nothing_of_dropout_is_left_at_inference() -> None:
    chosen, train = choose(check_file(SPECS / "mlp" / "maxout.dsl"))
    assert train is not None

    def draws(program: pipeline.Lowered) -> int:
        bodies = [b for x in ir.every_node(program.outputs.values()) for b in ir.bodies(x)]
        return sum(isinstance(s, ir.Rand) for b in bodies for s in ir.scalars(b))

    assert draws(pipeline.training(train)) > 0
    assert draws(pipeline.forward(chosen)) == 0
    forward = compile_text(SPECS / "mlp" / "maxout.dsl").partition("\ndef forward(")[2].partition("\ndef ")[0]
    assert "draw(" not in forward


@rows("9.38")
def test_dropped_weights_give_the_mean_and_the_variance_of_moment_matching(tmp_path: Path) -> None:
    layer = Trained("y = drop_connect(x, 2, 0.3)", "[N, 4]", "[N, 2]", tmp_path)
    rng = np.random.default_rng(0)
    w, b, x = rng.standard_normal((4, 2)), rng.standard_normal(2), rng.standard_normal((1, 4))
    layer.params = {"drop_connect.W": w, "drop_connect.b": b}
    found = np.concatenate([layer(x, seed=n) for n in range(3000)])
    mean, var = x @ w + b, 0.3 / 0.7 * (x**2) @ (w**2)  # of W * mask / keep
    assert (np.abs(found.mean(0) - mean) < 5 * np.sqrt(var / 3000)).all()
    np.testing.assert_allclose(found.var(0)[None], var, rtol=0.15)


@rows("9.17")
def test_noise_on_inputs_adds_the_squared_length_of_the_weights(tmp_path: Path) -> None:
    layer = Trained("y = gaussian_noise(x, 0.5)", "[N, 3]", "[N, 3]", tmp_path)
    w, t, x = np.array([0.5, -1.0, 2.0]), 0.7, np.array([1.0, 0.2, -0.3])
    many = np.tile(x, (100_000, 1))
    noise = layer(many, seed=1)
    error = (noise @ w - t) ** 2
    wanted = (x @ w - t) ** 2 + 0.25 * w @ w
    assert abs(error.mean() - wanted) < 5 * error.std() / np.sqrt(len(error))
    np.testing.assert_allclose((noise - many).std(0), 0.5, rtol=0.02)
    assert np.abs(layer(many, seed=2) - noise).max() > 0.1  # another draw each time


# ---- the network of the book: dropout before each of two linear maps

BOOK = """
model book(x: f64[N, 2]) -> y: [N, 1]:
    a = dropout(x, 0.3)
    h = a |> dense(3) |> relu
    b = dropout(h, 0.3)
    y = dense(b, 1)
    expose a, h, b

train book(x, c: f64[N, 1]):
    minimize sum(book(x) * c)
    using sgd(lr = 0.1)
"""


@rows("9.30", "7-9.B5")
@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
def test_dropout_stands_before_each_linear_map(backend: str, tmp_path: Path) -> None:
    module = model(BOOK, tmp_path, backend)
    params = module.init()
    assert sum(np.size(v) for v in params.values()) == 13
    params = {k: np.random.default_rng(2).standard_normal(v.shape) for k, v in params.items()}
    x, c = np.random.default_rng(0).standard_normal((20, 2)), np.random.default_rng(1).standard_normal((20, 1))
    loss, grads, found, *_ = module.loss_grad_metrics(params, x, c, seed=5)
    given_params = {k: torch.tensor(v, requires_grad=True) for k, v in params.items()}
    first, second = (torch.tensor(np.asarray(found[k]) != 0).double() / 0.7 for k in ("a", "b"))
    h = torch.relu((torch.tensor(x) * first) @ given_params["dense.W"] + given_params["dense.b"])
    y = (h * second) @ given_params["dense2.W"] + given_params["dense2.b"]
    wanted = (y * torch.tensor(c)).sum()
    np.testing.assert_allclose(loss, wanted.item(), rtol=1e-10)
    slopes = torch.autograd.grad(wanted, list(given_params.values()))
    for name, slope in zip(given_params, slopes, strict=True):
        np.testing.assert_allclose(grads[name], slope, rtol=1e-10, atol=1e-12)
    assert 0 < (np.asarray(found["a"]) == 0).sum() < 40  # some are dropped
    plain = module.forward(params, x)["y"]
    np.testing.assert_array_equal(module.forward(params, x)["y"], plain)  # at inference nothing is drawn
    hidden = np.maximum(x @ params["dense.W"] + params["dense.b"], 0)
    np.testing.assert_allclose(plain, hidden @ params["dense2.W"] + params["dense2.b"], rtol=1e-10)


def exact(params: dict[str, Array], x: Array, p: float) -> Array:
    """The mean over all masks of two inputs and three hidden units, each with its probability."""
    total = np.zeros(len(x))
    for mask in itertools.product((0, 1), repeat=5):
        share = np.prod([1 - p if m else p for m in mask])
        h = np.maximum((x * mask[:2] / (1 - p)) @ params["dense.W"] + params["dense.b"], 0) * mask[2:] / (1 - p)
        total += share * (h @ params["dense2.W"] + params["dense2.b"])[:, 0]
    return total


@rows("9.32", "7-9.B6")
@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
def test_monte_carlo_dropout_approaches_the_mean_over_all_masks(backend: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((16, 2))
    draws = 4000 if backend != "triton" else 500
    module = model(SPECS / "mlp" / "mc_dropout.dsl", tmp_path, backend, hidden=3, draws=draws)
    params = {k: np.random.default_rng(1).standard_normal(v.shape) for k, v in module.init().items()}
    found = module.forward(params, x, seed=1)
    spread = found["deviation"] / np.sqrt(draws)
    assert (np.abs(found["mean_y"] - exact(params, x, 0.3)) < 5 * spread).all()
    assert (found["deviation"] > 0.1).any()


@rows("9.32")
def test_the_variance_of_the_estimate_falls_as_the_number_of_draws(tmp_path: Path) -> None:
    x = np.tile([[0.4, -1.2]], (4000, 1))  # the same example many times: each has masks of its own
    variances = []
    for draws in (5, 20):
        module = model(SPECS / "mlp" / "mc_dropout.dsl", tmp_path, hidden=3, draws=draws)
        params = {k: np.random.default_rng(1).standard_normal(v.shape) for k, v in module.init().items()}
        variances.append(float(np.var(module.forward(params, x, seed=2)["mean_y"])))
    assert abs(variances[0] / variances[1] - 4) < 0.4

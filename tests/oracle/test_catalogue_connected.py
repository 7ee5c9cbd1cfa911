"""Rows of the catalogue on fully-connected models and mini-batches (chapter 5), on every backend."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import properties
import pytest
import scipy.stats
import torch
from catalogue import SPECS, Array, model
from click.testing import CliRunner
from marks import rows
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils import data as torch_data

import dslc
from dslc.cli.main import cli
from dslc.data.rows import Rows, permutation
from dslc.frontend import check_text
from dslc.training.run import Run, Settings

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"
torch.set_num_threads(1)

every_backend = pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
#: the layers of a shipped spec, without its model
LAYERS = (SPECS / "mlp/fully_connected.dsl").read_text(encoding="utf-8").partition("model ")[0]


def parameters(module: Any, seed: int = 3) -> dict[str, Array]:
    """Random parameters for all of a module's, in float64."""
    rng = np.random.default_rng(seed)
    return {name: np.asarray(0.7 * rng.standard_normal(about[0])) for name, about in module.PARAMS.items()}


def close(found: Any, expected: Any, name: str = "") -> None:
    wanted = expected.detach().numpy() if isinstance(expected, torch.Tensor) else expected
    assert np.shape(found) == np.shape(wanted), name
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11, err_msg=name)


# ---- the limits of linear models


TWO_MODELS = """
model scored(x: f64[N, 3]) -> (linear: [N], bent: [N]):
    param w: [3] ~ normal
    param W: [3, 4] ~ normal
    linear[n] = x[n, i] * w[i]
    h[n, k] = relu(x[n, i] * W[i, k])
    bent[n] = sum[k](h[n, k])
"""


@rows("F01")
@every_backend
def test_doubling_a_feature_changes_a_linear_model_by_its_weighted_value(backend: str, tmp_path: Path) -> None:
    module = model(TWO_MODELS, tmp_path, backend)
    params, x = parameters(module), np.random.default_rng(0).standard_normal((6, 3))

    def error(name: str) -> float:
        worst = 0.0
        for j in range(3):
            doubled = np.array(x)
            doubled[:, j] *= 2
            change = module.forward(params, doubled)[name] - module.forward(params, x)[name]
            worst = max(worst, float(np.abs(change - params["w"][j] * x[:, j]).max()))
        return worst

    assert error("linear") < 1e-12
    assert error("bent") > 0.1, "the control changes by a multiple of the feature as well"


XOR_INPUTS = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
XOR_LABELS = np.array([0.0, 1, 1, 0])

EXACT = """
model exact(x: f64[N, 2], t: f64[N]) -> (y: [N], w: [3]):
    s[n] = x[n, 0] + x[n, 1]
    y[n] = relu(s[n]) - 2 * relu(s[n] - 1)
    column[n: N, i: 3] = 1.0 if i == 2 else x[n, clamp(i)]
    w = least_squares(column, t)
"""


@rows("F02")
@every_backend
def test_two_rectifiers_are_xor_and_no_linear_model_is(backend: str, tmp_path: Path) -> None:
    found = model(EXACT, tmp_path, backend).forward({}, XOR_INPUTS, XOR_LABELS)
    assert found["y"].tolist() == [0, 1, 1, 0]
    column = np.column_stack((XOR_INPUTS, np.ones(4)))
    close(found["w"], np.linalg.lstsq(column, XOR_LABELS)[0])
    assert np.mean((column @ found["w"] - XOR_LABELS) ** 2) == pytest.approx(0.25)
    lines = np.random.default_rng(1).standard_normal((20_000, 3))
    assert ((lines @ column.T > 0) == XOR_LABELS).mean(1).max() == 0.75


@rows("F02", "F16")
def test_a_small_hidden_layer_learns_xor_from_the_shipped_data(tmp_path: Path) -> None:
    shipped = np.load(SPECS / "data/xor.npz")
    assert shipped["x"].tolist() == XOR_INPUTS.tolist() and shipped["target"].tolist() == XOR_LABELS.tolist()
    done = trained(SPECS / "mlp/xor.dsl", SPECS / "data/xor.npz", tmp_path / "run", "--epochs", 200)
    assert done["history"][-1]["training"]["accuracy"] == 1


def trained(spec: Path, data: Path, folder: Path, *options: object) -> Any:
    words = ["train", spec, "--data", data, "-o", folder, "--backend", "numpy", "--json", *options]
    done = CliRunner().invoke(cli, [str(x) for x in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


# ---- layers and their composition


NETWORK = f"""{LAYERS}
layer seen(x: [..., I], out: size, act: fn) -> y: [..., O = out]:
    param W: [I, O] ~ normal
    frozen param t: [O] = 0.5
    param b: [O] ~ normal
    score[..., o] = x[..., i] * W[i, o] + b[o] * t[o] * 2
    y[..., o] = act(score[..., o])
    expose score, y

model network(x: f64[N, 3]) -> (chained: [N, 4], nested: [N, 4], shown: [N, 4]):
    chained = x |> fully_connected(5, relu) |> fully_connected(4, relu)
    nested = two(x, 5, 4)
    shown = x |> seen(5, relu) |> seen(4, tanh)

train network(x, target: f64[N, 4]):
    chained, nested, shown = network(x)
    minimize mean((chained - target)^2) + mean((nested - target)^2) + mean((shown - target)^2)
    using sgd(lr = 0.1)
"""
#: by which path the parameters of each network go, and the activation behind it
PATHS = {"chained": ("fully_connected", "relu"), "nested": ("two.fully_connected", "tanh"), "shown": ("seen", "tanh")}


def twin(params: dict[str, Array], path: str, last: str) -> nn.Sequential:
    """The two layers as torch has them, with weights of ours: those of torch lie the other way."""
    layers = [nn.Linear(3, 5), nn.Linear(5, 4)]
    for layer, name in zip(layers, (path, f"{path}2"), strict=True):
        layer.weight = nn.Parameter(torch.tensor(params[f"{name}.W"].T))
        layer.bias = nn.Parameter(torch.tensor(params[f"{name}.b"]))
    return nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU() if last == "relu" else nn.Tanh())


@rows("F03", "F09", "F10", "F11", "B13", "B14", "X5.2")
@every_backend
def test_layers_in_a_row_and_as_layers_of_others_are_those_of_torch(backend: str, tmp_path: Path) -> None:
    module = model(NETWORK, tmp_path, backend)
    rng = np.random.default_rng(2)
    params, x, target = parameters(module), rng.standard_normal((6, 3)), rng.standard_normal((6, 4))
    params |= {"seen.t": np.full(5, 0.5), "seen2.t": np.full(4, 0.5)}
    found = module.forward(params, x)
    grads = module.loss_and_grad(params, x, target)[1]
    expected = {}
    for name, (path, last) in PATHS.items():
        there = twin(params, path, last)
        assert sum(p.numel() for p in there.parameters()) == 44
        assert sum(v.size for k, v in params.items() if k.startswith(path) and k[-1] != "t") == 44
        y = there(torch.tensor(x))
        close(found[name], y, name)
        torch.mean((y - torch.tensor(target)) ** 2).backward()
        for layer, key in zip((there[0], there[2]), (path, f"{path}2"), strict=True):
            expected |= {f"{key}.W": layer.weight.grad.T, f"{key}.b": layer.bias.grad}
        if name == "shown":  # pre- and post-activations by name
            first = there[0](torch.tensor(x))
            close(found["seen.score"], first, "score")
            close(found["seen.y"], torch.relu(first), "y")
    # plain tensors such as `t` have no gradient, parameters all have one
    assert grads.keys() == expected.keys()
    for name, slope in expected.items():
        close(grads[name], slope, name)


@rows("F10", "B13")
def test_a_layer_draws_its_weights_and_its_bias_as_randn_does(tmp_path: Path) -> None:
    module = model(Path("mlp/fully_connected.dsl"), tmp_path)
    drawn: dict[str, list[Array]] = {}
    for seed in range(300):
        for name, value in module.init(seed).items():
            drawn.setdefault(name, []).append(value.ravel())
    for name in ("two.fully_connected.W", "two.fully_connected.b", "two.fully_connected2.W"):
        assert scipy.stats.kstest(np.concatenate(drawn[name]), "norm").pvalue > 1e-3, name
    control = np.concatenate(drawn["dense.W"])  # the initialiser of the library: uniform
    assert scipy.stats.kstest(control, "norm").pvalue < 1e-6


@rows("F03")
def test_layers_whose_sizes_do_not_chain_are_refused() -> None:
    text = (
        "model chained(x: f32[N, 3]) -> y: [N, 2]:\n    param A: [3, {}] ~ glorot\n    param B: [5, 2] ~ glorot\n"
        "    h[n, k] = tanh(x[n, i] * A[i, k])\n    y[n, o] = h[n, k] * B[k, o]\n"
    )
    assert not check_text(text.format(5)).errors
    (error,) = check_text(text.format(4)).errors
    assert error.code == "E0302" and "`4` and `5`" in error.message


@rows("F03", "F07")
@every_backend
def test_any_number_of_layers_is_a_composition_with_parameters_of_their_own(backend: str, tmp_path: Path) -> None:
    text = (
        "model deep(x: f64[N, 3], depth = 4) -> y: [N, 3]:\n    h = x\n    for l in 0..depth:\n"
        "        h = h |> dense(3) |> tanh\n    y = h\n\n"
        "train deep(x):\n    minimize mean(deep(x)^2)\n    using sgd(lr = 0.1)\n"
    )
    module = model(text, tmp_path, backend)
    params, x = parameters(module), np.random.default_rng(3).standard_normal((5, 3))
    tensors = {name: torch.tensor(v, requires_grad=True) for name, v in params.items()}
    h = torch.tensor(x)
    for layer in range(4):
        h = torch.tanh(h @ tensors[f"dense.{layer}.W"] + tensors[f"dense.{layer}.b"])
    close(module.forward(params, x), h)
    (h**2).mean().backward()
    grads = module.loss_and_grad(params, x)[1]
    assert grads.keys() == tensors.keys()
    for name, tensor in tensors.items():
        close(grads[name], tensor.grad, name)


# ---- what a hidden layer can do, and what it costs


RISKS = """
model risk(x: f64[N, 2], w: f64[2], W: f64[2, 3], v: f64[3], t: f64[N]) -> (straight: [], bent: []):
    straight = mean[n]((sum[i](x[n, i] * w[i]) - t[n])^2)
    h[n, k] = tanh(x[n, i] * W[i, k])
    bent = mean[n]((sum[k](h[n, k] * v[k]) - t[n])^2)
"""


@rows("F13")
@every_backend
def test_the_risk_of_a_hidden_layer_is_not_convex_and_that_of_a_linear_model_is(backend: str, tmp_path: Path) -> None:
    module = model(RISKS, tmp_path, backend)
    rng = np.random.default_rng(4)
    x, w, W, v = (rng.standard_normal(s) for s in ((20, 2), 2, (2, 3), 3))
    t = np.tanh(x @ W) @ v
    # the hidden units in another order: the same function, so a line joins two minima
    order = [1, 2, 0]
    ends = (np.concatenate((W.ravel(), v)), np.concatenate((W[:, order].ravel(), v[order])))

    def bent(p: Array) -> float:
        return float(module.forward({}, x, w, p[:6].reshape(2, 3), p[6:], t)["bent"])

    def straight(p: Array) -> float:
        return float(module.forward({}, x, p[:2], W, v, t)["straight"])

    assert max(bent(ends[0]), bent(ends[1])) < 1e-12
    properties.shown(lambda f: properties.convexity(f, [ends]), straight, control=bent)  # type: ignore[arg-type]


@rows("F13")
def test_two_seeds_reach_different_minima(tmp_path: Path) -> None:
    module = model(Path("mlp/xor.dsl"), tmp_path, hidden=2)
    ends = []
    for seed in range(8):
        params = module.init(seed)
        opt = module.init_opt(params)
        for _ in range(400):
            params, opt = module.train_step(params, opt, XOR_INPUTS.astype(np.float32), XOR_LABELS)
        ends.append(float(opt["loss"]))
        slope = module.loss_and_grad(params, XOR_INPUTS.astype(np.float32), XOR_LABELS)[1]
        assert max(np.abs(x).max() for x in slope.values()) < 0.1
    assert min(ends) < 0.05 and max(ends) > 0.3, ends


@rows("F14", "F05")
@every_backend
def test_a_wide_enough_layer_of_sigmoids_is_close_to_a_continuous_function_everywhere(
    backend: str, tmp_path: Path
) -> None:
    """The network of the theorem with weights as the shipped spec makes them, away from its steep jumps."""
    x = np.linspace(0.0, 9.99, 241)
    worst = []
    for bins in (16, 64) if backend == "triton" else (16, 64, 256):
        module = model(Path("approximation/bins.dsl"), tmp_path, backend, m=bins)
        found = module.forward({}, x)
        width = 10 / bins
        grid = width * (np.arange(bins)[:, None] + (np.arange(64) + 0.5) / 64)
        heights = np.sinc(grid / np.pi).mean(1)
        network = nn.Sequential(nn.Linear(1, 2 * bins), nn.Sigmoid(), nn.Linear(2 * bins, 1)).double()
        edges = width * np.concatenate((np.arange(bins), np.arange(bins) + 1))
        with torch.no_grad():
            network[0].weight[:] = 1e4
            network[0].bias[:] = torch.tensor(-1e4 * edges)
            network[2].weight[0] = torch.tensor(np.concatenate((heights, -heights)))
            network[2].bias[:] = 0.0
        np.testing.assert_allclose(found["y"], network(torch.tensor(x)[:, None])[:, 0].detach(), rtol=0, atol=1e-7)
        away = np.abs((x / width + 0.5) % 1 - 0.5) * width > 0.005
        worst.append(np.abs(found["y"] - np.sinc(x / np.pi))[away].max())
    # a bin is off by at most the slope of the function, which is below 0.44, times its width
    assert all(error < 0.44 * 10 / bins for error, bins in zip(worst, (16, 64, 256), strict=False))
    assert worst[-1] < worst[0] / 3


@rows("F39")
def test_the_cost_of_an_activation_is_what_is_left_for_width(tmp_path: Path) -> None:
    spec = tmp_path / "wide.dsl"

    def operations(act: str, hidden: int) -> int:
        spec.write_text(
            f"model wide(x: f32[N, 4], hidden = 32) -> y: [N, 1]:\n    y = x |> dense(hidden) |> {act} |> dense(1)\n",
            encoding="utf-8",
        )
        words = ["cost", str(spec), "--set", "N=10", "--set", f"hidden={hidden}", "--json"]
        return int(json.loads(CliRunner().invoke(cli, words).stdout)["total"]["all"]["operations"])

    budget, widest = operations("relu", 64), {"relu": 64}
    for act in ("mish", "gelu"):
        unit = operations(act, 2) - operations(act, 1)  # what each unit costs
        fixed = operations(act, 1) - unit
        widest[act] = (budget - fixed) // unit
        assert operations(act, widest[act]) <= budget < operations(act, widest[act] + 1)
    assert widest["relu"] > widest["mish"] > widest["gelu"] > 40


@rows("X5.5")
@every_backend
def test_parameters_as_a_tree_go_through_functions_on_trees_and_back(backend: str, tmp_path: Path) -> None:
    module = model(NETWORK, tmp_path, backend)
    rng = np.random.default_rng(8)
    params, x, target = parameters(module), rng.standard_normal((6, 3)), rng.standard_normal((6, 4))
    tree = dslc.nested(params)
    assert set(tree) == {"fully_connected", "fully_connected2", "two", "seen", "seen2"}
    assert tree["two"]["fully_connected2"]["W"] is params["two.fully_connected2.W"]
    back = dslc.flat(tree)
    assert list(back) == list(params) and all(back[k] is v for k, v in params.items())
    leaves, shape = pytree.tree_flatten(tree)
    assert dslc.flat(pytree.tree_unflatten(leaves, shape)).keys() == params.keys()
    loss, grads = module.loss_and_grad(dslc.flat(tree), x, target)
    slopes = dslc.nested({k: grads.get(k, np.zeros_like(v)) for k, v in params.items()})
    lower = pytree.tree_map(lambda p, g: p - 1e-3 * g, tree, slopes)
    assert module.loss_and_grad(dslc.flat(lower), x, target)[0] < loss


@pytest.mark.parametrize("names", [["a", "a.b"], ["a.b", "a"], ["a.b", "a.b.c"]])
def test_a_tree_has_no_name_that_is_a_value_and_a_layer(names: list[str]) -> None:
    with pytest.raises(ValueError, match="a value"):
        dslc.nested(dict.fromkeys(names, 0))


# ---- mini-batches


@rows("F15", "F17")
@every_backend
def test_gradients_of_equal_batches_have_the_gradient_of_all_data_as_their_mean(backend: str, tmp_path: Path) -> None:
    """So a shuffled epoch is an unbiased estimate, and machines with equal shares may add up their gradients."""
    module = model(Path("mlp/mlp.dsl"), tmp_path, backend, hidden=8)
    rng = np.random.default_rng(5)
    x, label = rng.standard_normal((24, 64)), rng.integers(0, 10, 24).astype(np.int32)
    params = parameters(module)
    loss, grads = module.loss_and_grad(params, x, label)
    for size in (4, 12):
        order = rng.permutation(24).reshape(-1, size)
        parts = [module.loss_and_grad(params, x[part], label[part]) for part in order]
        close(np.mean([part[0] for part in parts]), loss)
        for name, slope in grads.items():
            close(np.mean([part[1][name] for part in parts], 0), slope, name)
    uneven = [module.loss_and_grad(params, x[part], label[part])[0] for part in (slice(0, 4), slice(4, 24))]
    assert abs(np.mean(uneven) - loss) > 1e-4, "batches of unequal sizes have the same mean by accident"


@rows("F15")
def test_the_variance_of_a_batch_gradient_falls_as_its_size_grows(tmp_path: Path) -> None:
    text = (
        "model line(x: f64[N, 3]) -> y: [N]:\n    param w: [3] ~ normal\n    y[n] = x[n, i] * w[i]\n\n"
        "train line(x, t: f64[N]):\n    minimize mean((line(x) - t)^2)\n    using sgd(lr = 0.1)\n"
    )
    module = model(text, tmp_path)
    rng = np.random.default_rng(6)
    x, t = rng.standard_normal((500, 3)), rng.standard_normal(500)
    params = parameters(module)
    variance = {}
    for size in (5, 20):
        chosen = rng.integers(0, 500, (2000, size))
        slopes = [module.loss_and_grad(params, x[part], t[part])[1]["w"] for part in chosen]
        variance[size] = np.var(slopes, 0).sum()
    assert variance[5] / variance[20] == pytest.approx(4, rel=0.15)


SPY = """
model spied(x: f32[N, 3]) -> y: [N, 1]:
    y = x |> dense(1)

train spied(x, y: f32[N, 1], batch = 20, epochs = 5):
    minimize mean((spied(x) - y)^2)
    using sgd(lr = 0.01)
"""


@rows("F16", "B15", "X5.1")
@pytest.mark.parametrize(("batch", "steps"), [(20, 250), (32, 160)])
def test_an_epoch_takes_every_row_once_in_batches(batch: int, steps: int, tmp_path: Path) -> None:
    """1000 rows: 50 batches of 20, or 31 of 32 and one of 8, as torch's loader makes them."""
    module: Any = model(SPY, tmp_path, dtype="f32")
    batches: list[Array] = []

    def spy(params: Any, opt: Any, x: Array, y: Array, step: Any = module.train_step) -> Any:
        batches.append(x[:, 0].astype(int))
        return step(params, opt, x, y)

    module.train_step = spy
    number = np.arange(1000, dtype=np.float32)
    arrays = {"x": np.stack((number, 0 * number, 0 * number), 1), "y": np.zeros((1000, 1), np.float32)}
    run = Run(module, arrays, Rows(1000, frozenset(arrays)), Settings(batch))
    for _ in range(steps):
        run.step()
        if run.at_end_of_epoch:
            run.next_epoch()
    assert run.epoch == 5
    there = torch_data.DataLoader(torch_data.TensorDataset(torch.zeros(1000, 3)), batch_size=batch, shuffle=True)
    assert [len(x) for x in batches[: steps // 5]] == [len(x) for (x,) in there]
    orders = [np.concatenate(batches[e * steps // 5 : (e + 1) * steps // 5]) for e in range(5)]
    assert all(sorted(order) == list(range(1000)) for order in orders)
    assert len({tuple(order) for order in orders}) == 5, "each epoch is shuffled anew"
    assert (orders[2] == permutation(1000, 0, 2)).all()


@rows("F16", "B15")
def test_the_command_counts_steps_epochs_and_a_shorter_last_batch(tmp_path: Path) -> None:
    spec, file = tmp_path / "spied.dsl", tmp_path / "data.npz"
    spec.write_text(SPY, encoding="utf-8")
    rng = np.random.default_rng(7)
    np.savez(file, x=rng.standard_normal((1000, 3)).astype("f4"), y=rng.standard_normal((1000, 1)).astype("f4"))
    assert trained(spec, file, tmp_path / "a")["steps"] == 250
    assert trained(spec, file, tmp_path / "b", "--batch", 32)["steps"] == 5 * 32


@rows("X5.3")
def test_the_digits_are_learnt_in_a_few_epochs(tmp_path: Path) -> None:
    done = trained(SPECS / "mlp/mlp.dsl", SPECS / "data/digits.npz", tmp_path / "run", "--epochs", 3)
    assert done["test"]["accuracy"] > 0.9

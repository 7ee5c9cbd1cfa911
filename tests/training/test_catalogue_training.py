"""Rows of chapters 3 and 4 and of appendix A: data sets, risk, pre-trained and frozen parameters, likelihood."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from catalogue import model
from marks import rows
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier
from small_runs import run, weights

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"

Array = np.ndarray[Any, np.dtype[Any]]
BACKENDS = ["numpy", "c", "triton"]
RNG = np.random.default_rng(12)

LINE = """
model line(x: f64[N, D], D = {features}, bias = true) -> y: [N]:
    param w: [D] ~ {start}
    if bias:
        param b: [] = 0
        y[n] = x[n, i] * w[i] + b
    else:
        y[n] = x[n, i] * w[i]

train line(x, t: f64[N], batch = 10, epochs = 1):
    y = line(x)
    minimize {loss}
    using sgd(lr = {lr})
"""
MEAN = "mean[n]((y[n] - t[n])^2)"


def line(features: int = 3, start: str = "zeros", loss: str = MEAN, lr: float = 0.1) -> str:
    return LINE.format(features=features, start=start, loss=loss, lr=lr)


def written(folder: Path, text: str, **arrays: Array) -> tuple[Path, Path]:
    spec, data = folder / "spec.dsl", folder / "data.npz"
    spec.write_text(text, encoding="utf-8")
    np.savez(data, **arrays)
    return spec, data


def trained(folder: Path, text: str, *options: str, **arrays: Array) -> tuple[Any, dict[str, Array]]:
    """The report of `dslc train`, and the weights at the end."""
    spec, data = written(folder, text, **arrays)
    given = ("--data", data, "-o", folder / "run", "--backend", "numpy", "--dtype", "f64", "--json", "--fresh")
    done = run("train", spec, *given, *options)
    assert done.exit_code == 0, done.stdout
    return json.loads(done.stdout), weights(folder / "run")


@rows("D01")
def test_a_data_set_is_a_number_of_pairs(tmp_path: Path) -> None:
    """One step over all of them: their mean loss and its gradient, in whatever order the pairs come."""
    x = RNG.standard_normal((30, 3))
    t = x @ [1.0, -2.0, 0.5]
    report, found = trained(tmp_path, line(), "--batch", "30", x=x, t=t)
    assert report["rows"] == 30
    assert report["history"][0]["training"]["loss"] == pytest.approx(np.mean(t**2))
    np.testing.assert_allclose(found["w"], 0.1 * 2 * x.T @ t / 30, rtol=1e-9)
    order = RNG.permutation(30)
    _, again = trained(tmp_path, line(), "--batch", "30", x=x[order], t=t[order])
    np.testing.assert_allclose(again["w"], found["w"], rtol=1e-9)
    _, torn = trained(tmp_path, line(), "--batch", "30", x=x[order], t=t)  # the control: pairs that were parted
    assert np.abs(torn["w"] - found["w"]).max() > 1e-2
    spec, data = written(tmp_path, line(), x=x, t=t[:29])
    assert run("train", spec, "--data", data, "-o", tmp_path / "run", "--fresh").exit_code == 1


COUNTED = """
model counted(id: i32[N] < 12) -> y: [N]:
    param seen: [12]
    y[n] = seen[id[n]]

train counted(id, t: f64[N], batch = 4, epochs = 1):
    y = counted(id)
    minimize sum[n](y[n])
    using sgd(lr = 1.0)
"""


@rows("D01", "D16")
def test_an_epoch_takes_each_training_pair_once_and_no_validation_pair(tmp_path: Path) -> None:
    """A parameter for each row falls by 1 in each step that has it: training and validation rows are disjoint."""
    data = {"id": np.arange(12, dtype=np.int32), "t": np.zeros(12)}
    _, found = trained(tmp_path, COUNTED, **data)
    np.testing.assert_array_equal(found["seen"], -np.ones(12))
    _, found = trained(tmp_path, COUNTED, "--validation", "0.25", "--epochs", "3", "--batch", "3", **data)
    np.testing.assert_array_equal(np.sort(found["seen"]), [-3.0] * 9 + [0.0] * 3)


@rows("D16", "D15")
def test_the_loss_on_new_data_tells_what_that_of_training_hides(tmp_path: Path) -> None:
    """As many weights as rows: training rows are fitted exactly, new rows are not. With many rows the gap closes."""
    gaps = []
    for count in (16, 600):
        x, noise = RNG.standard_normal((2 * count, 12)), RNG.standard_normal(2 * count)
        t = x[:, 0] + 0.5 * noise
        arrays = {"x": x[:count], "t": t[:count], "test_x": x[count:], "test_t": t[count:]}
        report, found = trained(tmp_path, line(12, lr=0.05), "--batch", "1000", "--epochs", "1500", **arrays)
        w, b = found["w"], found["b"]
        train, test = (float(np.mean((x[s] @ w + b - t[s]) ** 2)) for s in (slice(count), slice(count, None)))
        assert report["test"]["loss"] == pytest.approx(test)
        assert report["history"][-1]["training"]["loss"] == pytest.approx(train, rel=1e-3)
        gaps.append(test - train)
    assert gaps[0] > 0.3 > 0.03 > abs(gaps[1])


@rows("P48")
@pytest.mark.parametrize("backend", BACKENDS)
def test_descent_ends_in_one_place_from_any_start_where_the_loss_is_strictly_convex(
    backend: str, tmp_path: Path
) -> None:
    x = RNG.standard_normal((20, 3))
    t = x @ [1.0, -2.0, 0.5] + RNG.standard_normal(20)
    exact = np.linalg.lstsq(np.column_stack((x, np.ones(20))), t, rcond=None)[0]
    module = model(line(start="normal(3.0)", lr=0.3), tmp_path, backend)
    starts = []
    for seed in range(2):
        params = module.init(seed)
        starts.append(np.array(params["w"]))
        opt = module.init_opt(params)
        for _ in range(60):
            params, opt = module.train_step(params, opt, x, t)
        np.testing.assert_allclose([*params["w"], params["b"]], exact, atol=1e-6)
    assert np.abs(starts[0] - starts[1]).max() > 1


@rows("X4.2")
@pytest.mark.parametrize("backend", BACKENDS)
def test_init_and_forward_are_two_functions(backend: str, tmp_path: Path) -> None:
    """What `init` gives has the declared shapes and the same numbers for a seed; `forward` leaves it as it is."""
    module = model(line(start="normal"), tmp_path, backend)
    params, again, other = module.init(3), module.init(3), module.init(4)
    assert {name: np.shape(x) for name, x in params.items()} == {"w": (3,), "b": ()}
    np.testing.assert_array_equal(params["w"], again["w"])
    assert np.abs(params["w"] - other["w"]).max() > 1e-3
    x = RNG.standard_normal((7, 3))
    given = {"w": np.array([1.0, 2.0, 3.0]), "b": np.array(0.5)}
    np.testing.assert_allclose(module.forward(given, x), x @ given["w"] + 0.5, rtol=1e-12)
    np.testing.assert_array_equal(given["w"], [1, 2, 3])


SUMMED = "sum[n]((t[n] - y[n])^2) / 2"


@rows("X4.3", "X0.2")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_gradient_of_least_squares_is_that_by_hand_with_a_bias_and_without(
    backend: str, bias: bool, tmp_path: Path
) -> None:
    """-X'(t - X w): the update adds X'(t - X w), since descent turns the sign."""
    x, t, w = RNG.standard_normal((9, 3)), RNG.standard_normal(9), RNG.standard_normal(3)
    module = model(line(loss=SUMMED, lr=1e-3), tmp_path, backend, bias=bias)
    assert set(module.PARAMS) == ({"w", "b"} if bias else {"w"})
    params = {"w": w.copy(), **({"b": np.array(0.3)} if bias else {})}
    rest = t - x @ w - (0.3 if bias else 0)
    loss, grads = module.loss_and_grad(params, x, t)
    assert float(loss) == pytest.approx(rest @ rest / 2)
    np.testing.assert_allclose(grads["w"], -x.T @ rest, rtol=1e-10)
    if bias:
        assert float(grads["b"]) == pytest.approx(-rest.sum())
    params, _ = module.train_step(params, module.init_opt(params), x, t)
    np.testing.assert_allclose(params["w"], w + 1e-3 * x.T @ rest, rtol=1e-10)


@rows("X4.3")
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_layers_are_those_by_hand_and_fit_together(backend: str, tmp_path: Path) -> None:
    """Each layer hands its cotangent on: softmax regression on a dense layer, with and without its bias."""
    text = """
model modular(x: f64[N, 3], bias = true) -> logits: [N, 4]:
    logits = dense(x, 4, bias = bias)

train modular(x, label: i32[N] < 4):
    minimize cross_entropy(modular(x), label)
    using sgd(lr = 0.1)
"""
    x, label = RNG.standard_normal((10, 3)), RNG.integers(0, 4, 10)
    for bias in (True, False):
        module = model(text, tmp_path, backend, bias=bias)
        params = {"dense.W": RNG.standard_normal((3, 4)), **({"dense.b": RNG.standard_normal(4)} if bias else {})}
        logits = x @ params["dense.W"] + (params["dense.b"] if bias else 0)
        p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        cotangent = (p - np.eye(4)[label]) / 10
        _, grads = module.loss_and_grad(params, x, label)
        np.testing.assert_allclose(grads["dense.W"], x.T @ cotangent, rtol=1e-9, atol=1e-12)
        if bias:
            np.testing.assert_allclose(grads["dense.b"], cotangent.sum(0), rtol=1e-9, atol=1e-12)


FLOWERS = """
model flowers(x: f64[N, 4], classes = 3) -> logits: [N, classes]:
    logits = dense(x, classes)

train flowers(x, label: i32[N] < classes, batch = 30, epochs = 60):
    logits = flowers(x)
    minimize cross_entropy(logits, label)
    metric accuracy = accuracy(logits, label)
    using sgd(lr = 0.5)
"""


@rows("X4.1", "X4.4")
def test_irises_are_told_apart_about_as_well_as_by_their_neighbours(tmp_path: Path) -> None:
    """A toy data set of scikit-learn: curves of loss and accuracy, and nearest neighbours to compare with."""
    x, label = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    x, label = x[order], label[order].astype(np.int32)
    x = (x - x[:100].mean(0)) / x[:100].std(0)
    arrays = {"x": x[:100], "label": label[:100], "val_x": x[100:], "val_label": label[100:]}
    report, found = trained(tmp_path, FLOWERS, **arrays)
    losses = [epoch["training"]["loss"] for epoch in report["history"]]
    test = [epoch["validation"]["accuracy"] for epoch in report["history"]]
    assert len(losses) == len(test) == 60
    assert losses[-1] < 0.5 * losses[0] and test[-1] >= test[0]
    guess = (x[100:] @ found["dense.W"] + found["dense.b"]).argmax(1)
    assert test[-1] == pytest.approx(np.mean(guess == label[100:]))
    neighbours = KNeighborsClassifier(5).fit(x[:100], label[:100]).score(x[100:], label[100:])
    assert abs(test[-1] - neighbours) <= 0.06 and min(test[-1], neighbours) > 0.9


BASE = """
layer trunk(x: [N, 6]) -> h: [N, 5]:
    h = x |> dense(5) |> tanh

model base(x: f64[N, 6]) -> y: [N, 2]:
    use body = trunk()
    h = body(x)
    y = dense(h, 2)
    expose h

train base(x, t: f64[N, 2], batch = 20, epochs = 3):
    minimize mean((base(x) - t)^2)
    using adam(lr = 0.05)
"""
#: the trained body held fast, a new head, and with rank > 0 a few parameters added to the frozen layer
HEAD = """
layer trunk(x: [N, 6]) -> h: [N, 5]:
    h = x |> dense(5) |> tanh

model head(x: f64[N, 6], rank = 0) -> y: [N]:
    use body = frozen trunk()
    h = body(x)
    z = dense(h, 1)
    if rank > 0:
        change = low_rank(x, 1, rank)
        y[n] = z[n, 0] + change[n, 0]
    else:
        y[n] = z[n, 0]
    expose h

train head(x, t: f64[N], batch = 20, epochs = 3):
    minimize mean((head(x) - t)^2)
    using adam(lr = 0.05)
"""


@rows("D05", "D07")
@pytest.mark.parametrize("rank", [0, 2])
def test_embeddings_of_a_trained_model_are_used_by_another_which_leaves_them_as_they_are(
    rank: int, tmp_path: Path
) -> None:
    x = RNG.standard_normal((40, 6))
    t = np.tanh(x @ RNG.standard_normal((6, 2)))
    _, base = trained(tmp_path, BASE, x=x, t=t)
    embedding = np.tanh(x @ base["body.dense.W"] + base["body.dense.b"])
    (tmp_path / "base.safetensors").write_bytes((tmp_path / "run/weights.safetensors").read_bytes())
    np.savez(tmp_path / "x.npz", x=x)
    given = ("--weights", tmp_path / "base.safetensors", "--inputs", tmp_path / "x.npz", "-o", tmp_path / "y.npz")
    assert run("run", tmp_path / "spec.dsl", *given, "--dtype", "f64").exit_code == 0
    with np.load(tmp_path / "y.npz") as found:
        np.testing.assert_allclose(found["h"], embedding, rtol=1e-9)
    options = ["--weights", str(tmp_path / "base.safetensors"), "--new", "dense", "--set", f"rank={rank}"]
    report, tuned = trained(tmp_path, HEAD, *options, *(["--new", "low_rank"] if rank else []), x=x, t=t[:, 0])
    for name in ("body.dense.W", "body.dense.b"):
        assert tuned[name].tobytes() == base[name].tobytes()  # bit by bit
    assert len(tuned) == (6 if rank else 4)
    losses = [epoch["training"]["loss"] for epoch in report["history"]]
    assert losses[-1] < losses[0]


@rows("D07")
@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_is_computed_for_the_gradients_of_frozen_parameters(backend: str, tmp_path: Path) -> None:
    module = model(HEAD, tmp_path, backend)
    params = module.init(0)
    x, t = RNG.standard_normal((8, 6)), RNG.standard_normal(8)
    _, grads = module.loss_and_grad(params, x, t)
    assert set(grads) == {"dense.W", "dense.b"}
    free = tmp_path / "free"
    free.mkdir()
    done = [
        json.loads(run("cost", path, "-b", backend, "--json", "--set", "N=8").stdout)
        for path in (tmp_path / "row.dsl", text_file(free, HEAD.replace("frozen trunk", "trunk")))
    ]
    frozen, usual = (
        total["backward" if backend == "numpy" else "loss_grad_metrics"]["operations"]
        for total in (x["total"] for x in done)
    )
    assert usual - frozen >= 2 * 8 * 6 * 5 + 8 * 5  # at least the products for the gradients by W and b


def text_file(folder: Path, text: str) -> Path:
    path = folder / "row.dsl"
    path.write_text(text, encoding="utf-8")
    return path


@rows("D06")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_text_is_its_own_target_one_place_on(backend: str, tmp_path: Path) -> None:
    """A table of bigrams that predicts the next token: it learns how often each token follows each."""
    text = """
model bigram(token: i32[N, T] < 4) -> logits: [N, T, 4]:
    param W: [4, 4] ~ zeros
    logits[n, t, k] = W[token[n, t], k]

train bigram(token) where T >= 2:
    logits = bigram(token)
    ahead = token[:, 1:T]
    behind = logits[:, 0:T-1, :]
    minimize cross_entropy(behind, ahead)
    using sgd(lr = 4.0)
"""
    module = model(text, tmp_path, backend)
    token = np.array([[0, 1, 2, 3, 0, 1, 1, 2, 0, 3, 2, 1], [2, 0, 1, 2, 3, 3, 0, 2, 1, 0, 0, 1]])
    often = np.zeros((4, 4))
    for row in token:
        np.add.at(often, (row[:-1], row[1:]), 1)
    params = module.init(0)
    loss, grads = module.loss_and_grad(params, token)
    assert float(loss) == pytest.approx(np.log(4))  # nothing is known yet
    np.testing.assert_allclose(grads["W"], (often.sum(1, keepdims=True) / 4 - often) / 22, atol=1e-12)
    opt = module.init_opt(params)
    if backend == "triton":  # whose interpreter is slow: a step of the same gradient
        params, _ = module.train_step(params, opt, token)
        np.testing.assert_allclose(params["W"], -4 * grads["W"], atol=1e-12)
        return
    for _ in range(250):
        params, opt = module.train_step(params, opt, token)
    p = np.exp(params["W"]) / np.exp(params["W"]).sum(1, keepdims=True)
    np.testing.assert_allclose(p[often > 0], (often / often.sum(1, keepdims=True))[often > 0], atol=0.02)


LIKELIHOOD = """
model likelihood(x: f64[N]) -> log_p: [N]:
    param {parameters}
    {density}

train likelihood(x):
    maximize {objective}
    using sgd(lr = {lr})
"""


@rows("Q15", "Q16")
@pytest.mark.parametrize("backend", BACKENDS)
def test_descent_on_the_likelihood_finds_the_mean_of_coins(backend: str, tmp_path: Path) -> None:
    """The chance of 1 is that of 1 among the data, where the gradient is 0."""
    density = "log_p[n] = bernoulli_log_density(x[n], p)"
    text = LIKELIHOOD.format(parameters="p: [] = 0.5", density=density, objective="mean(likelihood(x))", lr=0.05)
    module = model(text, tmp_path, backend)
    x = np.array([1.0, 0, 0, 1, 0, 0, 0, 1, 0, 0])
    params = module.init(0)
    opt = module.init_opt(params)
    for _ in range(100):
        params, opt = module.train_step(params, opt, x)
    assert float(params["p"]) == pytest.approx(0.3, abs=1e-9)
    _, grads = module.loss_and_grad({"p": np.array(0.3)}, x)
    assert float(grads["p"]) == pytest.approx(0, abs=1e-12)
    _, grads = module.loss_and_grad({"p": np.array(0.5)}, x)
    assert float(grads["p"]) == pytest.approx(-(0.3 / 0.5 - 0.7 / 0.5))


@rows("Q15")
@pytest.mark.parametrize("backend", BACKENDS)
def test_descent_on_the_likelihood_finds_mean_and_deviation(backend: str, tmp_path: Path) -> None:
    density = "log_p[n] = normal_log_density(x[n], mu, exp(log_sigma))"
    parameters = "mu, log_sigma: [] = 0"
    text = LIKELIHOOD.format(parameters=parameters, density=density, objective="mean(likelihood(x))", lr=0.8)
    module = model(text, tmp_path, backend)
    x = np.array([1.0, 2.0, 4.0, 7.0])
    params = {"mu": np.array(3.0), "log_sigma": np.array(1.0)}
    opt = module.init_opt(params)
    for _ in range(110):
        params, opt = module.train_step(params, opt, x)
    assert float(params["mu"]) == pytest.approx(3.5, abs=1e-6)
    assert float(np.exp(2 * params["log_sigma"])) == pytest.approx(5.25, abs=1e-6)


@rows("X0.1", "Q15")
@pytest.mark.parametrize("backend", BACKENDS)
def test_minus_the_logarithm_of_the_likelihood_is_the_cross_entropy(backend: str, tmp_path: Path) -> None:
    """As a product of powers over 400 rows, which is 0 in floating point, and as the loss: one number, one gradient."""
    text = """
model derived(x: f64[N, 5], t: binary f64[N, 5]) -> (loss: [], d: [N, 5]):
    p[n, k] = softmax[k](x[n, k])
    loss = -log(prod[n](prod[k](p[n, k]^t[n, k]))) / N
    d = grad(loss, x)
"""
    x = 3 * RNG.standard_normal((400, 5))
    t = np.eye(5)[RNG.integers(0, 5, 400)]
    p = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    assert np.prod(p**t) == 0
    found = model(text, tmp_path, backend).forward({}, x, t)
    assert float(found["loss"]) == pytest.approx(-(t * np.log(p)).sum() / 400)
    np.testing.assert_allclose(found["d"], (p - t) / 400, rtol=1e-8, atol=1e-12)

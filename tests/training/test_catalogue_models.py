"""Rows of chapter 9 on runs: roll-back, selection by any metric, fine-tuning, models that grow."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from catalogue import SPECS, Array, Case, Table, cases, check, model
from catalogue_layers import Layer, LayerTable, Tensors, batch_norm, conv, layers, normed
from click.testing import CliRunner
from marks import rows
from sklearn import metrics
from small_runs import DIGITS, run, same_bits, weights
from small_runs import normed as normed_run
from torch.nn import functional as F

import dslc
from dslc.cli.main import cli
from dslc.compiler import choose
from dslc.frontend import check_file
from dslc.training.checkpoint import read_snapshot
from dslc.training.start import in_parts

torch.set_num_threads(1)

every_backend = pytest.mark.parametrize("backend", ["numpy", "c", "triton"])


def result(*arguments: object, backend: str = "numpy") -> Any:
    done = run("train", *arguments, "--backend", backend, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


# ---- checkpoints of epochs (9.14)


@rows("9.14")
@pytest.mark.parametrize("backend", ["numpy", "c", pytest.param("triton", marks=pytest.mark.long)])
def test_a_run_goes_back_to_an_epoch_with_the_same_bits(backend: str, tmp_path: Path) -> None:
    """Parameters, running statistics, slots of the optimiser and the place in the data; then on to the same end."""
    spec, data = normed_run(tmp_path, 20)
    options = (spec, "--data", data, "--batch", 8, "-o")
    result(*options, tmp_path / "a", "--epochs", 4, "--every-epoch", backend=backend)
    result(*options, tmp_path / "two", "--epochs", 2, backend=backend)
    last = weights(tmp_path / "a")
    assert not same_bits(last, weights(tmp_path / "two"))
    report = result(*options, tmp_path / "a", "--epochs", 2, "--roll-back", 2, backend=backend)
    assert len(report["history"]) == 2
    assert same_bits(weights(tmp_path / "a"), weights(tmp_path / "two"))
    here, there = (read_snapshot(tmp_path / x / "checkpoint.npz") for x in ("a", "two"))
    assert {"params", "opt.m", "opt.v", "opt.state"} <= here.groups.keys() == there.groups.keys()
    for group, arrays in here.groups.items():
        assert same_bits(arrays, there.groups[group]), group
    assert {k: v for k, v in here.about.items() if k != "history"} == {
        k: v for k, v in there.about.items() if k != "history"
    }
    assert sorted(x.name for x in (tmp_path / "a").glob("*epoch*")) == [f"checkpoint.epoch-{k}.npz" for k in (1, 2)]
    result(*options, tmp_path / "a", "--epochs", 4, backend=backend)
    assert same_bits(weights(tmp_path / "a"), last)


@rows("9.14")
def test_an_epoch_that_was_not_kept_is_told(tmp_path: Path) -> None:
    spec, data = normed_run(tmp_path, 20)
    options = ("train", spec, "--data", data, "--backend", "numpy", "-o", tmp_path / "a")
    assert run(*options, "--epochs", 2).exit_code == 0
    done = run(*options, "--roll-back", 1)
    assert done.exit_code == 1 and "has no checkpoint of that epoch" in done.stderr and "--every-epoch" in done.stderr
    assert run(*options, "--epochs", 4, "--every-epoch").exit_code == 0
    done = run(*options, "--roll-back", 1)
    assert done.exit_code == 1 and "it has those of 3, 4" in done.stderr
    assert run(*options, "--roll-back", 3, "--fresh").exit_code == 2
    (tmp_path / "a/checkpoint.epoch-3.npz").write_bytes(b"PK")
    before = weights(tmp_path / "a")
    done = run(*options, "--roll-back", 3)
    assert done.exit_code == 1 and "cannot be used" in done.stderr
    assert same_bits(weights(tmp_path / "a"), before)
    assert run(*options, "--epochs", 1, "--fresh").exit_code == 0
    assert not list((tmp_path / "a").glob("*epoch*"))


@rows("9.14")
def test_a_roll_back_that_is_refused_deletes_nothing(tmp_path: Path) -> None:
    spec, data = normed_run(tmp_path, 20)
    options = ("train", spec, "--data", data, "--backend", "numpy", "-o", tmp_path / "a")
    assert run(*options, "--epochs", 4, "--every-epoch", "--batch", 5).exit_code == 0
    before = {x.name: x.read_bytes() for x in (tmp_path / "a").iterdir()}
    done = run(*options, "--roll-back", 2)
    assert done.exit_code == 1 and "checkpoint.epoch-2.npz was made with --batch 5, not 8" in done.stderr
    assert {x.name: x.read_bytes() for x in (tmp_path / "a").iterdir()} == before


# ---- metrics of any kind (9.15)


def scored(score: Any, **options: Any) -> Any:
    """A score of scikit-learn for logits and targets."""

    def oracle(logit: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        choice = logit.argmax(-1) if logit.ndim == 2 else (logit > 0).long()
        found = score(target.long().numpy(), choice.numpy(), zero_division=0.0, **options)
        return torch.tensor(float(found), dtype=torch.float64)

    return oracle


def binary_case(name: str, score: Any, target: Any) -> Case:
    data = {"target": lambda rng, shape: np.asarray(target(rng, shape), float)}
    inputs = {"logit": "[40]", "target": "[40]"}
    return Case("9.15", inputs, "[]", f"y = {name}(logit, target)", scored(score), data, ("logit", "target"))


def drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.integers(0, 2, shape)


SCORES = cases(
    binary_case("precision", metrics.precision_score, drawn),
    binary_case("recall", metrics.recall_score, drawn),
    binary_case("f1", metrics.f1_score, drawn),
    binary_case("recall", metrics.recall_score, lambda rng, shape: np.zeros(shape)),
    binary_case("f1", metrics.f1_score, lambda rng, shape: np.zeros(shape)),
    Case("9.15", {"logit": "[30, 5]", "label": "i32[30] < 4"}, "[]",
         "at[n] = i32(label[n])\ny = macro_f1(logit, at)", scored(metrics.f1_score, average="macro"), {}, ("logit",)),
)  # fmt: skip


@rows("9.15")
@every_backend
def test_scores_are_those_of_scikit_learn(backend: str, tmp_path: Path) -> None:
    if backend == "numpy":
        for case in SCORES:
            check(case.values[0], tmp_path)
    table = Table(x.values[0] for x in SCORES)
    table.compare(model(table.text(), tmp_path, backend).forward({}, *table.arguments()))


RARE = """
model rare(x: f32[N, 3]) -> logit: [N]:
    y = x |> dense(24) |> tanh |> dense(1)
    logit = y[:, 0]

train rare(x, target: binary f32[N], rate = 0.05, batch = 20, epochs = 24):
    logit = rare(x)
    minimize binary_cross_entropy(logit, target)
    metric f1 = f1(logit, target)
    metric accuracy = binary_accuracy(logit, target)
    using adam(lr = rate)
"""


@rows("9.15")
def test_the_epoch_of_the_best_f1_is_kept_where_its_loss_is_not_the_best(tmp_path: Path) -> None:
    """F1 has no gradient and is no mean over rows: it is that of all validation rows, more than one part of them."""
    spec, data = tmp_path / "rare.dsl", tmp_path / "data.npz"
    spec.write_text(RARE, encoding="utf-8")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((900, 3)).astype("f4")
    target = (x[:, 0] * x[:, 1] + 0.6 * rng.standard_normal(900) > 0.8).astype("f4")
    arrays = {"x": x[:100], "target": target[:100], "val_x": x[100:], "val_target": target[100:]}
    np.savez(data, **arrays)
    report = result(spec, "--data", data, "--watch", "f1", "--every-epoch", "-o", tmp_path / "a")
    module = dslc.compile(spec)
    found, parts = [], []
    for k in range(1, 25):
        params = read_snapshot(tmp_path / f"a/checkpoint.epoch-{k}.npz").groups["params"]
        choice = module.forward(params, arrays["val_x"]) > 0
        found.append(metrics.f1_score(arrays["val_target"], choice, zero_division=0.0))
        cuts = [slice(a, a + 256) for a in range(0, 800, 256)]
        scores = [metrics.f1_score(arrays["val_target"][c], choice[c], zero_division=0.0) for c in cuts]
        parts.append(np.average(scores, weights=[len(choice[c]) for c in cuts]))
    values = [epoch["validation"]["f1"] for epoch in report["history"]]
    np.testing.assert_allclose(values, found, rtol=1e-6)
    assert np.abs(np.subtract(parts, found)).max() > 1e-3, "means over parts would do as well"
    losses = [epoch["validation"]["loss"] for epoch in report["history"]]
    assert report["best_epoch"] == int(np.argmax(values)) + 1 != int(np.argmin(losses)) + 1
    best = read_snapshot(tmp_path / f"a/checkpoint.epoch-{report['best_epoch']}.npz").groups["params"]
    assert same_bits(weights(tmp_path / "a"), best)


#: a metric of logits [N, 3], labels, and a parameter, and whether it is a mean over the rows
METRICS = {
    "accuracy(logits, label)": True,
    "cross_entropy(logits, label) + 0.1 * l2(scores.dense.W)": True,
    "-2 * mean(logits) / 3": True,
    "mean[n](max[k](logits[n, k]))": True,
    "sum[k](mean[n](logits[n, k]))": True,
    "macro_f1(logits, label)": False,
    "exp(cross_entropy(logits, label))": False,
    "sum(logits)": False,
    "max(logits)": False,
    "mean[n](logits[n, 0] * n)": False,
    "mean[n](logits[n, 0]) * mean[n](logits[n, 1])": False,
    "mean[n](logits[n, 0] - max[m](logits[m, 0]))": False,
    "mean[n: N]((logits[n + 1, 0] else 0))": False,
    "mean[n](cumsum[n](logits[n, 0]))": False,
    "sqrt(mean[n](logits[n, 2]^2))": False,
}


@rows("9.15")
@pytest.mark.parametrize("formula", METRICS)
def test_what_is_no_mean_over_rows_is_computed_of_all_rows_at_once(formula: str, tmp_path: Path) -> None:
    text = (
        "model scores(x: f64[N, 4]) -> logits: [N, 3]:\n    h = x |> layer_norm\n"
        "    for l in 0..3:\n        h = h + (h |> dense(4) |> tanh)\n    logits = dense(h, 3)\n\n"
        "train scores(x, label: i32[N] < 3):\n    logits = scores(x)\n    minimize cross_entropy(logits, label)\n"
        f"    metric score = {formula}\n    using sgd\n"
    ).replace("scores.dense.W", "scores.dense2.W")
    module = model(text, tmp_path)
    _, train = choose(check_file(tmp_path / "row.dsl"))
    assert train is not None
    assert in_parts(train) is METRICS[formula]
    rng = np.random.default_rng(4)
    params = {k: rng.standard_normal(v.shape) for k, v in module.init().items()}
    x, label = rng.standard_normal((10, 4)), rng.integers(0, 3, 10).astype(np.int32)
    whole, first, second = (
        float(module.evaluate(params, x[part], label[part])[1]["score"])
        for part in (slice(None), slice(0, 7), slice(7, None))
    )
    assert (abs(0.7 * first + 0.3 * second - whole) < 1e-12) is METRICS[formula]


# ---- fine-tuning (9.77)

TRUNK = """
layer trunk(image: [N, 8, 8, 1], statistics = "running") -> y: [N, 8]:
    h = image |> conv2d(4, pad = 1, bias = false) |> batch_norm(statistics = statistics) |> relu |> max_pool2d
    y = h |> conv2d(8, pad = 1, bias = false) |> batch_norm(statistics = statistics) |> relu |> global_avg_pool

"""
TUNED = """
model {name}(image: f32[N, 8, 8, 1]) -> logits: [N, {classes}]:
    use body = {body}
    use head = dense({classes})
    features = body(image)
    logits = head(features)
    expose features

train {name}(image, label: i32[N] < {classes}, batch = 50, epochs = 2):
    logits = {name}(image)
    minimize cross_entropy(logits, label)
    metric accuracy = accuracy(logits, label)
    using adamw(lr = 0.01)
"""


def digits(folder: Path, chosen: range, name: str) -> Path:
    """Images of some digits, numbered from 0."""
    with np.load(DIGITS) as found:
        x, label = found["x"], found["label"]
    kept = np.flatnonzero((label >= chosen.start) & (label < chosen.stop))[:250]
    path = folder / name
    np.savez(path, image=x[kept].reshape(-1, 8, 8, 1).astype("f4"), label=(label[kept] - chosen.start).astype("i4"))
    return path


@rows("9.77", "X9.4")
@pytest.mark.parametrize("frozen", [True, False])
def test_a_new_head_is_trained_on_a_trained_backbone(frozen: bool, tmp_path: Path) -> None:
    """Weights by name, the head anew; what is frozen stays bit by bit, its running statistics too."""
    base, tuned = tmp_path / "base.dsl", tmp_path / "tuned.dsl"
    base.write_text(TRUNK + TUNED.format(name="base", classes=6, body="trunk()"), encoding="utf-8")
    body = 'frozen trunk(statistics = "fixed")' if frozen else "trunk()"
    tuned.write_text(TRUNK + TUNED.format(name="tuned", classes=4, body=body), encoding="utf-8")
    old, new = digits(tmp_path, range(6), "old.npz"), digits(tmp_path, range(6, 10), "new.npz")
    result(base, "--data", old, "-o", tmp_path / "base", "--epochs", 3)
    before = weights(tmp_path / "base")
    options = (tuned, "--data", new, "--weights", tmp_path / "base/weights.safetensors", "-o")
    refused = run("train", *options, tmp_path / "refused", "--backend", "numpy")
    assert refused.exit_code == 1 and "head.W has the shape (8, 6), expected (8, 4)" in refused.stderr
    assert "`--new head` lets it begin anew" in refused.stderr
    report = result(*options, tmp_path / "tuned", "--new", "head", "--epochs", 6)
    assert report["new"] == ["head.W", "head.b"] and set(report["loaded"]) == before.keys() - {"head.W", "head.b"}
    after = weights(tmp_path / "tuned")
    assert after["head.W"].shape == (8, 4)
    same = [after[name].tobytes() == before[name].tobytes() for name in report["loaded"]]
    assert all(same) if frozen else not any(same)
    losses = [epoch["training"]["loss"] for epoch in report["history"]]
    assert losses[-1] < losses[0]
    grads = dslc.compile(tuned).loss_grad_metrics(
        {k: v for k, v in after.items() if "running" not in k}, np.zeros((2, 8, 8, 1), "f4"), np.zeros(2, "i4"),
        {k: v for k, v in after.items() if "running" in k},
    )[1]  # fmt: skip
    assert (set(grads) == {"head.W", "head.b"}) is frozen


@rows("9.77")
@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
def test_no_backward_pass_goes_into_what_is_frozen(backend: str, tmp_path: Path) -> None:
    operations = []
    for body in ("trunk()", "frozen trunk()"):
        spec = tmp_path / "tuned.dsl"
        spec.write_text(TRUNK + TUNED.format(name="tuned", classes=4, body=body), encoding="utf-8")
        done = json.loads(CliRunner().invoke(cli, ["cost", str(spec), "-b", backend, "--json", "--set", "N=8"]).stdout)
        total = done["total"]["backward" if backend == "numpy" else "loss_grad_metrics"]["operations"]
        operations.append(int(total))
    # each convolution has a product for its kernel as large as its own, and one more for its image but for the first
    first, second = 2 * 8 * 64 * 9 * 1 * 4, 2 * 8 * 16 * 9 * 4 * 8
    assert operations[0] - operations[1] > first + 2 * second


# ---- models that grow (9.79, X9.2)


def grown(x: torch.Tensor, p: Tensors, depth: int, norm: bool, skip: bool) -> torch.Tensor:
    """specs/convolution/grown.dsl in training, without dropout."""
    h = F.relu(conv(x.reshape(len(x), 8, 8, 1), p["base.conv2d.0.K"], 1, 1) + p["base.conv2d.0.b"])
    h = F.max_pool2d(h.movedim(-1, 1), 2).movedim(1, -1)
    for block in range(depth):
        at = f"grown_block.{block}."
        path = batch_norm(h, p, f"{at}batch_norm.")[0] if norm else h
        path = conv(F.relu(path), p[f"{at}conv2d.K"], 1, 1) + p[f"{at}conv2d.b"]
        h = h + path if skip else path
    return F.relu(h).mean((1, 2)) @ p["head.W"] + p["head.b"]


GROWN = SPECS / "convolution/grown.dsl"
SWITCHES = [
    *(pytest.param(*case, "numpy") for case in itertools.product((0, 2), (False, True), (False, True))),
    *(pytest.param(2, True, True, backend) for backend in ("c", "triton")),
]


@rows("9.79", "X9.2")
@pytest.mark.parametrize(("depth", "norm", "skip", "backend"), SWITCHES)
def test_one_spec_with_switches_is_each_of_the_networks(
    depth: int, norm: bool, skip: bool, backend: str, tmp_path: Path
) -> None:
    module = model(Path("convolution/grown.dsl"), tmp_path, backend, width=3, depth=depth, norm=norm, skip=skip)
    rng = np.random.default_rng(5)
    params = {k: 0.5 * rng.standard_normal(x[0]) for k, x in module.PARAMS.items()}
    x, label = rng.standard_normal((4, 64)), np.array([3, 9, 0, 1], np.int32)
    state = [module.init_state()] if getattr(module, "STATE", {}) else []
    assert bool(state) is (norm and depth > 0)
    p = {k: torch.tensor(v, requires_grad=True) for k, v in params.items()}
    stated = {k: torch.tensor(v) for part in state for k, v in part.items()}
    loss = F.cross_entropy(grown(torch.tensor(x), {**p, **stated}, depth, norm, skip), torch.tensor(label).long())
    loss.backward()
    found, grads, *_ = module.loss_grad_metrics(params, x, label, *state)
    np.testing.assert_allclose(found, loss.detach(), rtol=1e-9)
    assert grads.keys() == p.keys()
    for name, slope in grads.items():
        np.testing.assert_allclose(slope, p[name].grad, rtol=1e-7, atol=1e-10, err_msg=name)


@rows("9.79")
def test_a_deeper_network_begins_with_the_weights_of_the_one_before(tmp_path: Path) -> None:
    options = (GROWN, "--data", DIGITS, "--batch", 256, "--set", "width=4", "--steps", 2)
    result(*options, "--set", "depth=1", "-o", tmp_path / "one")
    begun = ("--weights", tmp_path / "one/weights.safetensors", "--new", "grown_block.1", "--new", "grown_block.2")
    report = result(*options, "--set", "depth=3", "--set", "rate=0.0", *begun, "-o", tmp_path / "three")
    one, three = weights(tmp_path / "one"), weights(tmp_path / "three")
    assert set(report["new"]) == {f"grown_block.{k}.conv2d.{x}" for k in (1, 2) for x in "Kb"}
    assert same_bits(one, {k: three[k] for k in one}) and len(three) == len(one) + 4
    wider = result(
        *options, "--set", "depth=1", "--set", "norm=true", "--set", "skip=true", "--set", "drop=0.1", *begun[:2],
        "--new", "grown_block.0.batch_norm", "-o", tmp_path / "normed",
    )  # fmt: skip
    assert {x.rpartition(".")[2] for x in wider["new"]} == {"scale", "shift", "running_mean", "running_var"}


def curve(depth: int, skip: bool, data: object, folder: Path, backend: str, *more: object) -> list[float]:
    """The training losses of a depth with norms, with skips or without."""
    settings = [f"depth={depth}", f"skip={str(skip).lower()}", "norm=true", "width=8", "rate=0.001"]
    options = [word for x in settings for word in ("--set", x)]
    report = result(GROWN, "--data", data, *options, "-o", folder / f"{depth}-{skip}", *more, backend=backend)
    return [epoch["training"]["loss"] for epoch in report["history"]]


@rows("X9.2")
def test_a_deep_network_learns_some_images_with_skips_and_nothing_without(tmp_path: Path) -> None:
    with np.load(DIGITS) as found:
        np.savez(tmp_path / "some.npz", x=found["x"][:100], label=found["label"][:100])
    options = ("--set", "rate=0.003", "--batch", 50, "--epochs", 12)
    plain, skipped = (curve(50, skip, tmp_path / "some.npz", tmp_path, "numpy", *options) for skip in (False, True))
    assert abs(plain[-1] - np.log(10)) < 0.04  # of one who knows nothing
    assert skipped[-1] < 2.1


@rows("X9.2")
@pytest.mark.long
def test_plain_networks_stop_learning_as_they_get_deeper_and_residual_ones_do_not(tmp_path: Path) -> None:
    """Curves at depth 5, 20 and 50 on the digits, whose loss is log(10) for one who knows nothing."""
    curves = {(d, s): curve(d, s, DIGITS, tmp_path, "c", "--epochs", 4) for d in (5, 20, 50) for s in (False, True)}
    assert curves[5, False][-1] < curves[20, False][-1] < curves[50, False][-1]
    assert curves[50, False][-1] > 2.2
    assert curves[20, True][-1] < curves[20, False][-1] and curves[50, True][-1] < curves[50, False][-1] - 0.4
    assert all(later < loss for x in curves.values() for loss, later in itertools.pairwise(x))


# ---- built-in layers by plain statements (X9.1)

BY_HAND = """
param scale: [{K}] ~ ones
param shift: [{K}] ~ zeros
state running_mean: [{K}] = 0
state running_var: [{K}] = 1
training:
    one[n: N] = 1.0
    mu = einsum("n,nk->k", one, x) / N
    centred[n, k] = x[n, k] - one[n] * mu[k]
    gram = einsum("nk,nj->kj", centred, centred) / N
    variance[k] = gram[k, k]
    running_mean <- 0.9 * running_mean + 0.1 * mu
    running_var <- 0.9 * running_var + 0.1 * variance
inference:
    mu = running_mean
    variance = running_var
    centred[n, k] = x[n, k] - mu[k]
y[n, k] = scale[k] * centred[n, k] / sqrt(variance[k] + 1e-5) + shift[k]
"""
PLAIN = layers(
    Layer("X9.1", "[N, K]", "[N, K]", BY_HAND.replace("{K}", "4"), lambda x, p: batch_norm(x, p, ""),
          lambda x, p: normed(x, p, "")),
    Layer("X9.1", "[N, K]", "[N, K]", "y = batch_norm(x)", batch_norm, normed),
    Layer("X9.1", "[N, K]", "[N, K]",
          "training:\n    keep[n: N, k: 4] = 1.0 if uniform[n, k]() < 0.7 else 0.0\n"
          "    y[n, k] = x[n, k] * keep[n, k] / 0.7\ninference:\n    y = x",
          lambda x, p: x * (p["y"] != 0) / 0.7, lambda x, p: x),
    Layer("X9.1", "[N, K]", "[N, K]", "y = dropout(x, 0.3)", lambda x, p: x * (p["y"] != 0) / 0.7, lambda x, p: x),
)  # fmt: skip


@rows("X9.1")
@every_backend
def test_norms_and_dropout_by_linear_algebra_are_the_built_in_ones(backend: str, tmp_path: Path) -> None:
    """Values, gradients and next states in training, values at inference: by hand, of the library, and of torch."""
    LayerTable(x.values[0] for x in PLAIN).check(tmp_path, backend)

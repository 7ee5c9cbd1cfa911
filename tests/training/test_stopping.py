"""When runs stop, which weights they leave, and what is measured on the way; each resumes with the same bits."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from marks import rows
from small_runs import normed, run, same_bits, weights

import dslc
from dslc.training.stopping import Rules, Watched, at_plateau, since_best

#: a convex problem without random draws: gradient descent on it can be written down
RIDGE = """
model line(x: f32[N, 3]) -> y: [N]:
    param w: [3] ~ zeros
    y[n] = x[n, i] * w[i]

train line(x, target: f32[N], lr = 0.05):
    y = line(x)
    minimize mean((y - target)^2)
    metric off = max[n](abs(y[n] - target[n]))
    using sgd(lr = lr)
"""


def line(folder: Path, count: int = 24) -> tuple[Path, Path, Any, Any]:
    """The spec above, data for it, and these as arrays."""
    spec, data = folder / "line.dsl", folder / "line.npz"
    spec.write_text(RIDGE, encoding="utf-8")
    rng = np.random.default_rng(3)
    x = rng.normal(size=(count, 3))
    target = x @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=count)
    np.savez(data, x=x, target=target)
    return spec, data, x, target


def result(*arguments: object) -> dict[str, Any]:
    done = run("train", *arguments, "--json", "--backend", "numpy")
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


@rows("L16")
def test_a_run_stops_after_the_first_step_that_is_small_enough(tmp_path: Path) -> None:
    spec, data, x, target = line(tmp_path)
    report = result(
        spec, "--data", data, "--batch", 24, "--epochs", 500, "--min-step", 1e-4, "-o", tmp_path / "a", "--dtype", "f64"
    )
    w, moves = np.zeros(3), []
    while not moves or moves[-1] > 1e-4:
        change = -0.05 * 2 / 24 * x.T @ (x @ w - target)
        w, moves = w + change, [*moves, float(np.linalg.norm(change))]
    assert 10 < report["steps"] == len(moves) < 500
    assert report["reason"].startswith("a step of length") and report["stopped_early"]
    np.testing.assert_allclose(weights(tmp_path / "a")["w"], w, rtol=1e-9)
    # once more: nothing is left to do
    again = result(
        spec, "--data", data, "--batch", 24, "--epochs", 500, "--min-step", 1e-4, "-o", tmp_path / "a", "--dtype", "f64"
    )
    assert again["resumed_at"] == again["steps"] == report["steps"]


@rows("9.12")
def test_a_run_stops_when_the_loss_changes_no_more(tmp_path: Path) -> None:
    spec, data, *_ = line(tmp_path)
    options = (spec, "--data", data, "--batch", 24, "--dtype", "f64", "-o")
    report = result(*options, tmp_path / "a", "--epochs", 500, "--min-change", 1e-3)
    losses = [e["training"]["loss"] for e in report["history"]]
    changes = np.abs(np.diff(losses))
    assert changes[-1] <= 1e-3 < changes[:-1].min()
    assert "changed by" in report["reason"]
    longer = result(*options, tmp_path / "b", "--epochs", len(losses) + 3)
    assert [e["training"]["loss"] for e in longer["history"]][: len(losses)] == losses


@rows("9.13")
def test_a_plateau_is_the_rule_of_the_book_and_patience_another() -> None:
    accuracy = Watched("accuracy", True)

    def stops(values: list[float], rules: Rules) -> int | None:
        histories = ([{"accuracy": x} for x in values[: k + 1]] for k in range(len(values)))
        return next((k for k, history in enumerate(histories) if rules.reason([], history, None)), None)

    rising = [0.5, 0.6, 0.7, 0.69, 0.68]
    assert stops(rising, Rules(plateau=2, watched=accuracy)) == 4
    assert stops(rising, Rules(patience=2, watched=accuracy)) == 4
    uneven = [0.5, 0.6, 0.7, 0.65, 0.68, 0.66]
    assert stops(uneven, Rules(plateau=3, watched=accuracy)) is None
    assert stops(uneven, Rules(patience=3, watched=accuracy)) == 5


@pytest.mark.parametrize("seed", range(5))
def test_the_rules_are_their_definitions(seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 6, 12).tolist()
    for higher in (True, False):
        by, sign = Watched("m", higher), 1 if higher else -1
        signed = [sign * x for x in values]
        assert since_best(values, by) == len(values) - 1 - signed.index(max(signed))
        for k in (1, 2, 5):
            assert at_plateau(values, k, by) == all(signed[-1] <= x for x in signed[-1 - k : -1])


@rows("X9.5", "X4.4")
def test_patience_on_a_metric_keeps_the_epoch_where_it_was_best(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    options = (spec, "--data", data, "--validation", 0.3, "--epochs", 60)
    report = result(*options, "--patience", 4, "--watch", "accuracy", "-o", tmp_path / "a")
    values = [e["validation"]["accuracy"] for e in report["history"]]
    losses = [e["validation"]["loss"] for e in report["history"]]
    best = int(np.argmax(values)) + 1
    assert report["best_epoch"] == best == len(values) - 4 and best != int(np.argmin(losses)) + 1
    assert report["kept"] == f"weights of epoch {best}, the best validation accuracy ({max(values):.4f})"
    assert report["reason"] == "no better validation accuracy for 4 epochs"
    assert run("train", spec, *options[1:-1], best, "-o", tmp_path / "b", "--backend", "numpy").exit_code == 0
    assert same_bits(weights(tmp_path / "a"), weights(tmp_path / "b"))
    last = result(*options, "--patience", 4, "--watch", "accuracy", "--keep", "last", "-o", tmp_path / "c")
    assert last["best_epoch"] is None and last["kept"] == "weights of the last step"
    assert not same_bits(weights(tmp_path / "a"), weights(tmp_path / "c"))


def test_the_best_weights_are_kept_without_patience_where_that_is_asked_for(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    report = result(spec, "--data", data, "--validation", 0.3, "--keep", "best", "--epochs", 30, "-o", tmp_path / "a")
    losses = [e["validation"]["loss"] for e in report["history"]]
    assert len(losses) == 30 and report["best_epoch"] == int(np.argmin(losses)) + 1 < 30
    assert report["validation"]["loss"] == min(losses)


def test_gradients_are_clipped_as_torch_does(tmp_path: Path) -> None:
    spec, data, x, target = line(tmp_path)
    report = result(
        spec, "--data", data, "--batch", 24, "--epochs", 3, "--clip", 0.7, "-o", tmp_path / "a", "--dtype", "f64"
    )
    w = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    sgd, norms = torch.optim.SGD([w], lr=0.05), []
    for _ in range(3):
        sgd.zero_grad()
        torch.mean((torch.tensor(x) @ w - torch.tensor(target)) ** 2).backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_([w], 0.7)))
        sgd.step()
    assert min(norms) > 0.7
    np.testing.assert_allclose(weights(tmp_path / "a")["w"], w.detach().numpy(), rtol=1e-5)
    found = [e["gradient"]["mean"] for e in report["history"]]
    np.testing.assert_allclose(found, norms, rtol=1e-5)
    assert all(e["gradient"]["largest"] == e["gradient"]["mean"] for e in report["history"])


@rows("13.23")
def test_a_gradient_within_the_bound_stays_as_it_is(tmp_path: Path) -> None:
    spec, data, *_ = line(tmp_path)
    options = (spec, "--data", data, "--epochs", 3, "--batch", 7)
    plain = result(*options, "-o", tmp_path / "plain")
    wide = result(*options, "--clip", 1e6, "-o", tmp_path / "wide")
    tight = result(*options, "--clip", 1e-3, "-o", tmp_path / "tight")
    assert same_bits(weights(tmp_path / "plain"), weights(tmp_path / "wide"))
    assert plain["history"][0]["gradient"] == {} and wide["history"][0]["gradient"]["largest"] > 1e-3
    # each of the 12 steps is as long as learning rate times bound
    assert np.linalg.norm(weights(tmp_path / "tight")["w"]) <= 12 * 0.05 * 1e-3 * (1 + 1e-6)
    assert tight["steps"] == 12


@rows("X2.4")
def test_the_length_of_the_gradient_goes_to_zero(tmp_path: Path) -> None:
    spec, data, x, target = line(tmp_path)
    report = result(
        spec, "--data", data, "--batch", 24, "--epochs", 300, "--norms", "-o", tmp_path / "a", "--dtype", "f64"
    )
    found = [e["gradient"]["mean"] for e in report["history"]]
    assert found[0] == pytest.approx(float(np.linalg.norm(2 / 24 * x.T @ target)), rel=1e-6)
    assert found[-1] < 1e-6 and all(b < a for a, b in itertools.pairwise(found))


@rows("F15")
def test_gradients_of_batches_add_up_to_that_of_the_whole(tmp_path: Path) -> None:
    spec, data, *_ = line(tmp_path, 24)
    options = (spec, "--data", data, "--epochs", 4, "--dtype", "f64", "--norms", "-o")
    whole = result(*options, tmp_path / "whole", "--batch", 24)
    for batch, count in ((6, 4), (5, 5), (7, 4)):  # the last batch of the others is smaller
        folder = tmp_path / str(batch)
        parts = result(*options, folder, "--batch", batch, "--accumulate", count)
        assert parts["steps"] == whole["steps"] == 4
        np.testing.assert_allclose(weights(folder)["w"], weights(tmp_path / "whole")["w"], rtol=1e-12)
        for a, b in zip(parts["history"], whole["history"], strict=True):
            assert a["training"]["loss"] == pytest.approx(b["training"]["loss"], rel=1e-12)
            assert a["gradient"]["mean"] == pytest.approx(b["gradient"]["mean"], rel=1e-12)


def test_each_batch_of_a_step_has_draws_of_its_own(tmp_path: Path) -> None:
    spec = tmp_path / "noisy.dsl"
    spec.write_text(
        "model noisy(x: f32[N]) -> y: [N]:\n    param w: [] ~ ones\n    y = x |> dropout(0.5)\n    y = y * w\n"
        "train noisy(x):\n    minimize mean(noisy(x))\n    using sgd(lr = 1.0)\n",
        encoding="utf-8",
    )
    data = tmp_path / "ones.npz"
    np.savez(data, x=np.ones(64))
    options = (spec, "--data", data, "--steps", 1, "--batch", 32, "--accumulate", 2, "-o", tmp_path / "a")
    result(*options)
    module = dslc.compile(spec)
    params = module.init(0)
    grads = [module.loss_grad_metrics(params, np.ones(32, np.float32), seed=k)[1]["w"] for k in (1, 2)]
    assert grads[0] != grads[1]
    np.testing.assert_allclose(weights(tmp_path / "a")["w"], 1 - (grads[0] + grads[1]) / 2, rtol=1e-6)


def test_the_exponential_average_is_that_of_torch(tmp_path: Path) -> None:
    spec, data, *_ = line(tmp_path)
    options = (spec, "--data", data, "--batch", 7, "--dtype", "f64", "-o")
    result(*options, tmp_path / "ema", "--steps", 6, "--ema", 0.8)
    average = torch.optim.swa_utils.AveragedModel(
        holder := torch.nn.ParameterList([torch.zeros(3, dtype=torch.float64)]),
        multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.8),
    )
    for step in range(1, 7):
        result(*options, tmp_path / f"{step}", "--steps", step)
        holder[0].data = torch.tensor(weights(tmp_path / f"{step}")["w"])
        average.update_parameters(holder)
    np.testing.assert_allclose(weights(tmp_path / "ema")["w"], average.module[0].detach().numpy(), rtol=1e-12)


def test_weights_are_averaged_over_epochs_and_evaluated(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    options = (spec, "--data", data, "--validation", 0.3, "-o")
    report = result(*options, tmp_path / "swa", "--epochs", 5, "--swa", 3)
    ends = []
    for epoch in (3, 4, 5):
        result(*options, tmp_path / f"{epoch}", "--epochs", epoch)
        ends.append(weights(tmp_path / f"{epoch}"))
    found = weights(tmp_path / "swa")
    for name, value in found.items():
        np.testing.assert_allclose(value, np.mean([x[name] for x in ends], 0), rtol=1e-5, atol=1e-7, err_msg=name)
    assert report["kept"] == "weights of the last step (averaged)"
    # what is evaluated after the epoch is the average
    assert report["history"][-1]["validation"] == report["validation"]
    plain = result(*options, tmp_path / "5", "--epochs", 5)
    assert plain["validation"] != report["validation"]
    assert plain["history"][1]["validation"] == report["history"][1]["validation"]


def test_weights_that_are_not_averaged_are_not_called_so(tmp_path: Path) -> None:
    """The metric only falls where it is said that more is better, so that the first epoch stays the best."""
    spec, data, *_ = line(tmp_path)
    options = (spec, "--data", data, "--validation", 0.3, "--epochs", 3, "-o", tmp_path / "a", "--swa")
    best = result(*options, 3, "--watch", "off:max")
    assert best["best_epoch"] == 1 and "epoch 1 (not averaged before the end of epoch 3)" in best["kept"]
    result(*options[:-3], "--keep", "best", "--watch", "off:max", "-o", tmp_path / "plain")
    assert same_bits(weights(tmp_path / "a"), weights(tmp_path / "plain"))
    done = run("train", *options, 9, "--fresh", "--backend", "numpy")
    assert "weights of the last step (not averaged before the end of epoch 9)" in " ".join(done.stdout.split())
    both = run("train", *options, 1, "--ema", 0.5)
    assert both.exit_code == 2 and "give one of the two" in both.stderr


@pytest.mark.parametrize(
    "more",
    [
        ("--clip", 0.5, "--ema", 0.9),
        ("--accumulate", 3, "--norms", "--swa", 2),
        ("--accumulate", 2, "--clip", 0.1, "--ema", 0.5, "--patience", 50, "--watch", "accuracy", "--min-step", 1e-9),
    ],
)
@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_a_run_in_parts_ends_with_the_same_bits(more: tuple[object, ...], backend: str, tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    options = ("train", spec, "--data", data, "--validation", 0.2, "--batch", 4, "--backend", backend, "--json", *more)
    whole = json.loads(run(*options, "-o", tmp_path / "whole", "--steps", 21).stdout)
    for steps in (1, 5, 6, 13, 21):
        parts = json.loads(run(*options, "-o", tmp_path / "parts", "--steps", steps).stdout)
    assert parts["resumed_at"] == 13
    assert same_bits(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    assert parts["history"] == whole["history"]


def test_other_settings_than_those_of_the_checkpoint_are_refused(tmp_path: Path) -> None:
    spec, data, *_ = line(tmp_path)
    options = ("train", spec, "--data", data, "--batch", 6, "--backend", "numpy", "-o", tmp_path / "a", "--steps")
    assert run(*options, 2, "--clip", 1).exit_code == 0
    for more, told in (
        ((), "--clip was 1.0, and is now without it"),
        (("--clip", 2), "--clip was 1.0, and is now 2.0"),
        (("--clip", 1, "--ema", 0.9), "--ema was without it, and is now 0.9"),
        (("--clip", 1, "--accumulate", 2), "--accumulate was 1, and is now 2"),
    ):
        done = run(*options, 4, *more)
        assert done.exit_code == 1 and told in done.stderr, done.stderr
        assert "to train anew, use --fresh" in " ".join(done.stderr.split())
    assert run(*options, 4, "--clip", 1, "--norms").exit_code == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--watch", "accuracy"), "has no metric `accuracy`"),
        (("--watch", "off"), "does not say which values of `off` are better"),
        (("--watch", "off:up"), "expected max or min behind the colon"),
        (("--patience", 2), "--patience needs validation rows"),
        (("--plateau", 2), "--plateau needs validation rows"),
        (("--keep", "best"), "--keep best needs validation rows"),
        (("--watch", "off:min"), "--watch needs validation rows"),
    ],
)
def test_what_cannot_be_done_is_told(options: tuple[object, ...], told: str, tmp_path: Path) -> None:
    spec, data, *_ = line(tmp_path)
    done = run("train", spec, "--data", data, "--backend", "numpy", "-o", tmp_path / "a", *options)
    assert done.exit_code == 1 and told in done.stderr and "= help: " in done.stderr
    assert not (tmp_path / "a").exists()


def test_a_metric_says_which_way_is_better(tmp_path: Path) -> None:
    spec, data, *_ = line(tmp_path)
    options = (spec, "--data", data, "--validation", 0.3, "--epochs", 8, "--set", "lr=0.4", "-o")
    for way, choose in (("min", np.argmin), ("max", np.argmax)):
        report = result(*options, tmp_path / way, "--watch", f"off:{way}")
        values = [e["validation"]["off"] for e in report["history"]]
        assert report["best_epoch"] == int(choose(values)) + 1


def test_several_seeds_give_mean_and_spread(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    options = (spec, "--data", data, "--validation", 0.3, "--epochs", 2)
    report = result(*options, "--seed", 5, "--seeds", 3, "-o", tmp_path / "all")
    assert report["seeds"] == [5, 6, 7]
    single = [result(*options, "--seed", k, "-o", tmp_path / f"{k}") for k in (5, 6, 7)]
    for part in ("validation",):
        for name in ("loss", "accuracy"):
            values = [x[part][name] for x in single]
            assert report["mean"][part][name] == pytest.approx(np.mean(values))
            assert report["spread"][part][name] == pytest.approx(np.std(values, ddof=1))
    for k in (5, 6, 7):
        assert same_bits(weights(tmp_path / f"{k}"), weights(tmp_path / "all" / f"seed-{k}"))
    shown = run("train", spec, *options[1:], "--seed", 5, "--seeds", 3, "-o", tmp_path / "all", "--backend", "numpy")
    mean, spread = (report[x]["validation"]["accuracy"] for x in ("mean", "spread"))
    assert f"{mean:.4f} ± {spread:.4f}" in shown.stdout and "seed-5 to seed-7" in shown.stdout

"""`dslc train` and `dslc run`: the main job, what is said about it, and weights and states on disk."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import DIGITS, MLP, normed, run, same_bits, weights

import dslc


def test_the_digits_are_learned_and_the_weights_are_used(tmp_path: Path) -> None:
    done = run("train", MLP, "--data", DIGITS, "-o", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert "test" in done.stdout and "accuracy" in done.stdout
    with np.load(DIGITS) as data:
        np.savez(tmp_path / "x.npz", x=data["test_x"])
        label = data["test_label"]
    files = (
        "--weights",
        tmp_path / "run/weights.safetensors",
        "--inputs",
        tmp_path / "x.npz",
        "-o",
        tmp_path / "y.npz",
    )
    done = run("run", MLP, *files)
    assert done.exit_code == 0, done.output
    with np.load(tmp_path / "y.npz") as found:
        assert found.files == ["logits"]
        assert float((found["logits"].argmax(1) == label).mean()) >= 0.97


def test_json_has_the_documented_form(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    done = run("train", spec, "--data", data, "-o", tmp_path / "run", "--epochs", "2", "--validation", "0.2", "--json")
    report = json.loads(done.stdout)
    assert done.stderr == ""
    assert (report["version"], report["ok"], report["rows"], report["steps"]) == (1, True, 48, 12)
    assert [e["epoch"] for e in report["history"]] == [1, 2]
    assert set(report["history"][0]["validation"]) == {"loss", "accuracy"}
    assert report["parameters"] == 4 * 8 + 8 + 8 + 8 + 8 * 3 + 3
    assert report["test"] is None and Path(report["weights"]).exists() and Path(report["checkpoint"]).exists()


def test_nothing_is_drawn_where_there_is_no_terminal(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    done = run("train", spec, "--data", data, "-o", tmp_path / "run", "--steps", "3", "--backend", "numpy")
    assert done.stderr == ""
    assert "\x1b" not in done.stdout


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_a_terminal_sees_loss_metric_and_speed(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    ours, theirs = os.openpty()
    command = [
        sys.executable,
        "-m",
        "dslc.cli.main",
        "train",
        str(spec),
        "--data",
        str(data),
        "-o",
        str(tmp_path / "run"),
    ]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "140", "NO_COLOR": "1"}
    child = subprocess.Popen([*command, "--epochs", "300"], stdout=subprocess.DEVNULL, stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # the end of a pseudo-terminal is an error
        while part := os.read(ours, 65536):
            seen += part
    assert child.wait() == 0
    assert re.search(rb"normed .*\d+/2400 .*loss \d\.\d+  accuracy \d\.\d+  [\d.]+ steps/s", seen)


def test_steps_count_all_steps(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    options = ("train", spec, "--data", data, "-o", tmp_path / "run")
    for steps in (3, 11, 5):
        done = run(*options, "--steps", steps)
        assert done.exit_code == 0
    assert "11 steps, resumed at 11" in done.stdout


def test_the_running_statistics_come_with_the_weights(tmp_path: Path) -> None:
    """The same network in torch, with the stored running statistics, gives the outputs of `dslc run`."""
    spec, data = normed(tmp_path)
    assert run("train", spec, "--data", data, "-o", tmp_path / "run").exit_code == 0
    w = {k: torch.tensor(v) for k, v in weights(tmp_path / "run").items()}
    assert not np.allclose(w["batch_norm.running_mean"], 0)
    files = ("--weights", tmp_path / "run/weights.safetensors", "--inputs", data, "-o", tmp_path / "y.npz")
    assert run("run", spec, *files).exit_code == 0
    x = torch.tensor(np.load(data)["x"])
    h = x @ w["dense.W"] + w["dense.b"]
    mean, var = w["batch_norm.running_mean"], w["batch_norm.running_var"]
    h = torch.nn.functional.batch_norm(h, mean, var, w["batch_norm.scale"], w["batch_norm.shift"])
    expected = torch.relu(h) @ w["dense2.W"] + w["dense2.b"]
    np.testing.assert_allclose(np.load(tmp_path / "y.npz")["logits"], expected, rtol=1e-4, atol=1e-5)


def test_validation_is_that_of_the_trained_model(tmp_path: Path) -> None:
    """Loss and accuracy that are reported are those of the outputs of `dslc run`: no dropout, stored statistics."""
    spec, data = normed(tmp_path)
    with np.load(data) as file:
        arrays = dict(file)
    np.savez(data, **arrays, **{f"val_{k}": v[:17] for k, v in arrays.items()})
    done = run("train", spec, "--data", data, "-o", tmp_path / "run", "--json")
    report = json.loads(done.stdout)
    files = ("--weights", tmp_path / "run/weights.safetensors", "--inputs", data, "-o", tmp_path / "y.npz")
    assert run("run", spec, *files).exit_code == 0
    logits, label = torch.tensor(np.load(tmp_path / "y.npz")["logits"][:17]), torch.tensor(arrays["label"][:17]).long()
    assert report["validation"]["loss"] == pytest.approx(
        float(torch.nn.functional.cross_entropy(logits, label)), rel=1e-5
    )
    assert report["validation"]["accuracy"] == pytest.approx(float((logits.argmax(1) == label).float().mean()))
    assert report["history"][-1]["validation"] == report["validation"]


def test_patience_stops_and_keeps_the_best_weights(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    options = ("--data", data, "--validation", "0.3", "--epochs", "200")
    done = run("train", spec, *options, "--patience", "3", "-o", tmp_path / "a", "--json")
    report = json.loads(done.stdout)
    losses = [e["validation"]["loss"] for e in report["history"]]
    best = int(np.argmin(losses)) + 1
    assert report["stopped_early"] and report["best_epoch"] == best == len(losses) - 3
    assert report["validation"]["loss"] == losses[best - 1]
    # the same run, ended at the best epoch, has the same weights
    assert run("train", spec, *options[:-1], best, "-o", tmp_path / "b").exit_code == 0
    assert same_bits(weights(tmp_path / "a"), weights(tmp_path / "b"))
    # once more: nothing is left to do
    again = json.loads(run("train", spec, *options, "--patience", "3", "-o", tmp_path / "a", "--json").stdout)
    assert again["steps"] == again["resumed_at"] == report["steps"]


def test_training_begins_with_given_weights(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    assert run("train", spec, "--data", data, "-o", tmp_path / "a").exit_code == 0
    start = ("--weights", tmp_path / "a/weights.safetensors")
    first = json.loads(run("train", spec, "--data", data, "-o", tmp_path / "b", "--steps", 8, *start, "--json").stdout)
    fresh = json.loads(run("train", spec, "--data", data, "-o", tmp_path / "c", "--steps", 8, "--json").stdout)
    assert first["history"][0]["training"]["loss"] < 0.9 * fresh["history"][0]["training"]["loss"]


def test_data_that_are_one_whole_make_one_step_of_an_epoch(tmp_path: Path) -> None:
    """The edges of a graph name its nodes, so no nodes can be left out of a step."""
    spec = tmp_path / "graph.dsl"
    spec.write_text(
        "model graph(x: f32[V, 2], src: i32[M] < V) -> y: [V]:\n"
        "    param w: [2] ~ ones\n"
        "    h[v] = x[v, i] * w[i]\n"
        "    y[src[m]] += h[src[m]]\n"
        "train graph(x, src, epochs = 3):\n"
        "    minimize mean(graph(x, src))\n"
        "    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    np.savez(tmp_path / "data.npz", x=np.ones((100, 2), np.float32), src=np.arange(7))
    done = run("train", spec, "--data", tmp_path / "data.npz", "-o", tmp_path / "run", "--json")
    assert json.loads(done.stdout)["steps"] == 3
    done = run("train", spec, "--data", tmp_path / "data.npz", "-o", tmp_path / "run", "--batch", "10")
    assert done.exit_code == 1
    assert "`src` holds positions along the axis `V`" in done.stderr


def test_several_outputs_are_written_under_their_names(tmp_path: Path) -> None:
    spec = tmp_path / "two.dsl"
    spec.write_text(
        "model two(x: f32[N, 2]) -> (file: [N], y: [N, 2]):\n"
        "    param w: [2] ~ ones\n"
        "    file[n] = x[n, i] * w[i]\n"
        "    y = 2 * x\n",
        encoding="utf-8",
    )
    from safetensors.numpy import save_file

    save_file({"w": np.ones(2, np.float32)}, tmp_path / "w.safetensors")
    np.savez(tmp_path / "x.npz", x=np.arange(6).reshape(3, 2))
    files = ("--weights", tmp_path / "w.safetensors", "--inputs", tmp_path / "x.npz", "-o", tmp_path / "y.npz")
    done = run("run", spec, *files, "--json")
    assert json.loads(done.stdout)["outputs"]["y"] == {"shape": [3, 2], "dtype": "float32"}
    with np.load(tmp_path / "y.npz") as found:
        np.testing.assert_array_equal(found["file"], [1, 5, 9])
        np.testing.assert_array_equal(found["y"], [[0, 2], [4, 6], [8, 10]])


def test_single_numbers_keep_their_shape(tmp_path: Path) -> None:
    """Parameters, states and slots without axes: saved, resumed and loaded."""
    spec = tmp_path / "single.dsl"
    spec.write_text(
        "model single(x: f32[N]) -> y: [N]:\n"
        "    param a: [] ~ ones\n"
        "    state seen: [] = 0\n"
        "    training:\n"
        "        seen <- seen + 1\n"
        "    y = a * x\n"
        "train single(x):\n"
        "    minimize mean((single(x) - 3)^2)\n"
        "    using adam(lr = 0.1)\n",
        encoding="utf-8",
    )
    np.savez(tmp_path / "x.npz", x=np.ones(4, np.float32))
    for steps in (3, 5):
        done = run("train", spec, "--data", tmp_path / "x.npz", "-o", tmp_path / "run", "--steps", steps)
        assert done.exit_code == 0, done.output
    found = weights(tmp_path / "run")
    assert found["a"].shape == found["seen"].shape == () and found["seen"] == 5
    files = (
        "--weights",
        tmp_path / "run/weights.safetensors",
        "--inputs",
        tmp_path / "x.npz",
        "-o",
        tmp_path / "y.npz",
    )
    assert run("run", spec, *files).exit_code == 0
    module = dslc.compile(spec)
    module.save(module.init(0), tmp_path / "again.safetensors")
    assert module.load(tmp_path / "again.safetensors")["a"] == 1


def test_a_spec_without_training_is_a_usage_error(tmp_path: Path) -> None:
    spec = tmp_path / "plain.dsl"
    spec.write_text("model plain(x: f32[N]) -> y: [N]:\n    y = 2 * x\n", encoding="utf-8")
    done = run("train", spec, "--data", "x.npz")
    assert done.exit_code == 2
    assert "has no `train`" in done.stderr


@pytest.mark.point("J")
def test_weights_are_never_ignored(tmp_path: Path) -> None:
    """Beside a checkpoint, --weights must be those that the run began with; the same command goes on in any case."""
    spec, data = normed(tmp_path)
    options = ("train", spec, "--data", data, "-o")
    assert run(*options, tmp_path / "a", "--steps", 3).exit_code == 0
    start = ("--weights", tmp_path / "a/weights.safetensors")
    assert run(*options, tmp_path / "plain", "--steps", 3).exit_code == 0
    done = run(*options, tmp_path / "plain", "--steps", 5, *start)
    assert done.exit_code == 1
    assert "is of a run that did not begin with the weights of --weights" in done.stderr
    assert "leave out --weights to go on" in done.stderr and "--fresh" in done.stderr
    assert run(*options, tmp_path / "b", "--steps", 3, *start).exit_code == 0
    for more in (start, (), start):
        done = run(*options, tmp_path / "b", "--steps", 5, *more)
        assert done.exit_code == 0 and "resumed at" in done.stdout, done.output
    assert run(*options, tmp_path / "whole", "--steps", 5, *start).exit_code == 0
    assert same_bits(weights(tmp_path / "b"), weights(tmp_path / "whole"))
    assert run(*options, tmp_path / "plain", "--steps", 5, *start, "--fresh").exit_code == 0
    assert same_bits(weights(tmp_path / "plain"), weights(tmp_path / "whole"))


def test_given_weights_are_kept_in_16_bits_too(tmp_path: Path) -> None:
    """Where an optimiser keeps parameters in float32 of its own, those are the given ones."""
    spec, data = normed(tmp_path)
    options = ("train", spec, "--data", data, "--dtype", "f16", "-o")
    assert run(*options, tmp_path / "a", "--epochs", 6).exit_code == 0
    start = ("--weights", tmp_path / "a/weights.safetensors", "--steps", 1)
    assert run(*options, tmp_path / "b", *start).exit_code == 0
    before, after = weights(tmp_path / "a"), weights(tmp_path / "b")
    assert max(np.abs(after["dense.W"] - before["dense.W"]).max(), 0) < 0.02


@pytest.mark.point("J")
def test_a_metric_cannot_take_the_place_of_the_loss(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    text = spec.read_text(encoding="utf-8")
    for name, why in (("loss", "which is what is minimised"), ("accuracy", "which is another metric already")):
        more = f"    metric {name} = mean(logits)\n"
        spec.write_text(text.replace("    using", more + "    using"), encoding="utf-8")
        process = subprocess.run(
            [sys.executable, "-m", "dslc.cli.main", "train", str(spec), "--data", str(data)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert process.returncode == 1
        assert f"error[E0714]: expected a name of its own for the metric, found `{name}`, {why}" in process.stderr


HEAD = """\
model net(x: [N, 3], classes = 2) -> y: [N, classes]:
    use body = dense(4)
    use head = dense(classes)
    y = head(tanh(body(x)))

train net(x, t: [N, classes]):
    minimize mean((net(x) - t)^2)
    using sgd(lr = 0.1)
"""


@pytest.mark.point("weights")
def test_a_new_head_is_trained_on_an_old_body(tmp_path: Path) -> None:
    spec = tmp_path / "net.dsl"
    spec.write_text(HEAD, encoding="utf-8")
    rng = np.random.default_rng(0)
    data, wide = tmp_path / "data.npz", tmp_path / "wide.npz"
    np.savez(data, x=rng.standard_normal((8, 3)), t=rng.standard_normal((8, 2)))
    np.savez(wide, x=rng.standard_normal((8, 3)), t=rng.standard_normal((8, 5)))
    assert run("train", spec, "--data", data, "--steps", 3, "-o", tmp_path / "a", "--dtype", "f64").exit_code == 0
    old = tmp_path / "a/weights.safetensors"
    command = (
        "train",
        spec,
        "--data",
        wide,
        "--set",
        "classes=5",
        "--steps",
        1,
        "-o",
        tmp_path / "b",
        "--weights",
        old,
    )
    refused = run(*command)
    assert refused.exit_code == 1 and "head" in refused.stderr
    assert run(*command, "--new", "head", "--seed", 7, "--dtype", "f64").exit_code == 0
    module = dslc.compile(spec, dtype="f64", classes=5)
    params = {**module.init(7), **{n: x for n, x in weights(tmp_path / "a").items() if n.startswith("body")}}
    arrays = np.load(wide)
    params, _ = module.train_step(params, module.init_opt(params), arrays["x"], arrays["t"])
    for name, value in weights(tmp_path / "b").items():
        np.testing.assert_allclose(value, params[name], rtol=1e-12, err_msg=name)
    for new, words in (("hed", "did you mean `head`"), ("body", "head.W has the shape (4, 2), expected (4, 5)")):
        told = run(*command, "--new", new, "--fresh")
        assert told.exit_code == 1 and words in told.stderr
    told = run("train", spec, "--data", data, "--new", "head", "-o", tmp_path / "c")
    assert told.exit_code == 2 and "--new is for --weights" in told.stderr


TUNED = """
layer body(x: [N, 4]) -> y: [N, 8]:
    y = x |> dense(8) |> batch_norm |> tanh

model tuned(x: f32[N, 4], classes = 3) -> y: [N, classes]:
    use head = dense(classes)
    h = body(x)
    y = head(h)

train tuned(x, label: i32[N] < classes, batch = 8):
    minimize cross_entropy(tuned(x), label)
    using adam(lr = 1e-3)
"""


def test_a_new_head_is_trained_on_weights_of_another(tmp_path: Path) -> None:
    _, data = normed(tmp_path)
    spec = tmp_path / "tuned.dsl"
    spec.write_text(TUNED, encoding="utf-8")
    options = ("train", spec, "--data", data, "-o")
    assert run(*options, tmp_path / "a", "--steps", 20).exit_code == 0
    start = ("--set", "classes=5", "--weights", tmp_path / "a/weights.safetensors")
    done = run(*options, tmp_path / "b", "--steps", 1, *start)
    assert done.exit_code == 1 and "head.W has the shape (8, 3), expected (8, 5)" in done.stderr
    assert "`--new head` lets it begin anew" in done.stderr and "the same --set and --model" in done.stderr
    done = run(*options, tmp_path / "b", "--steps", 1, *start, "--new", "head")
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in done.stdout.splitlines()]
    begins = {words[1]: words[-2] for words in lines if len(words) > 4 and words[-2] in ("loaded", "new")}
    assert begins["head.W"] == begins["head.b"] == "new"
    assert {k for k, v in begins.items() if v == "loaded"} == weights(tmp_path / "a").keys() - {"head.W", "head.b"}
    before, after = weights(tmp_path / "a"), weights(tmp_path / "b")
    assert after["head.W"].shape == (8, 5)
    kept = [k for k in before if not k.startswith("head") and "running" not in k]
    assert kept and all(np.abs(after[k] - before[k]).max() < 2e-3 for k in kept)
    fresh = dslc.compile(spec, classes=5).init(0)
    assert np.abs(after["head.W"] - fresh["head.W"]).max() < 2e-3
    # the same command goes on, and another start is refused
    assert "resumed at 1" in run(*options, tmp_path / "b", "--steps", 2, *start, "--new", "head").stdout
    done = run(*options, tmp_path / "b", "--steps", 3, *start, "--new", "head", "--new", "body")
    assert done.exit_code == 1 and "did not begin with the weights" in done.stderr
    report = json.loads(run(*options, tmp_path / "c", "--steps", 1, *start, "--new", "head", "--json").stdout)
    assert report["new"] == ["head.W", "head.b"] and not {"head.W", "head.b"} & {*report["loaded"]}


@pytest.mark.parametrize("text", ["batch = 0", "epochs = 0", "batch = 2.5"])
def test_a_length_of_a_run_that_cannot_be_is_refused(text: str, tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    name = text.split()[0]
    spec.write_text(re.sub(rf"{name} = \d+", text, spec.read_text(encoding="utf-8")), encoding="utf-8")
    done = run("train", spec, "--data", data, "--backend", "numpy", "-o", tmp_path / "run")
    assert done.exit_code == 1 and f"expected a whole number from 1 on for `{name}`" in done.stderr
    assert not (tmp_path / "run").exists()

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
    done = run("train", spec, "--data", data, "-o", tmp_path / "run", "--steps", "3")
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

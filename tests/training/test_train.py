"""`dslc train` and `dslc run`: the main job, resuming, and bad input that loses nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dslc.cli.main import cli

ROOT = Path(__file__).parents[2]
MLP = str(ROOT / "specs/mlp/mlp.dsl")
DIGITS = str(ROOT / "specs/data/digits.npz")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def weights(folder: Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    return load_file(folder / "weights.safetensors")


def test_the_digits_are_learned_and_the_weights_are_used(tmp_path: Path) -> None:
    done = run("train", MLP, "--data", DIGITS, "-o", str(tmp_path / "run"))
    assert done.exit_code == 0, done.output
    out = tmp_path / "y.npz"
    with np.load(DIGITS) as data:
        np.savez(tmp_path / "x.npz", x=data["test_x"])
        label = data["test_label"]
    done = run(
        "run",
        MLP,
        "--weights",
        str(tmp_path / "run/weights.safetensors"),
        "--inputs",
        str(tmp_path / "x.npz"),
        "-o",
        str(out),
    )
    assert done.exit_code == 0, done.output
    with np.load(out) as found:
        accuracy = float((found["output"].argmax(1) == label).mean())
    assert accuracy >= 0.97


def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert run("train", MLP, "--data", DIGITS, "--epochs", "3", "-o", str(whole)).exit_code == 0
    assert run("train", MLP, "--data", DIGITS, "--epochs", "1", "-o", str(parts)).exit_code == 0
    assert run("train", MLP, "--data", DIGITS, "--epochs", "3", "-o", str(parts)).exit_code == 0
    a, b = weights(whole), weights(parts)
    assert all(np.array_equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((4, 64), np.float32)}, "has no array `label`"),
        ({"x": np.zeros((4, 64), np.float32), "label": np.zeros(3, np.int32)}, "differ in length"),
        ({"x": np.zeros((4, 63), np.float32), "label": np.zeros(4, np.int32)}, "expected 64 along axis 1, found 63"),
        ({"x": np.full((4, 64), np.nan, np.float32), "label": np.zeros(4, np.int32)}, "`x` holds nan at (0, 0)"),
        ({"x": np.zeros((4, 64), np.float32), "label": np.full(4, 11)}, "found 11 at (0,)"),
        ({"x": np.zeros((4, 64), np.float32), "label": np.zeros(4)}, "label: expected int64, found float64"),
    ],
)
def test_bad_data_is_named(arrays: dict[str, np.ndarray], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    done = run("train", MLP, "--data", str(tmp_path / "bad.npz"), "-o", str(tmp_path / "run"))
    assert done.exit_code == 1
    assert message in done.output


def test_a_damaged_checkpoint_is_named_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert run("train", MLP, "--data", DIGITS, "--epochs", "1", "-o", str(folder)).exit_code == 0
    (folder / "checkpoint.npz").write_bytes(b"not a checkpoint")
    done = run("train", MLP, "--data", DIGITS, "--epochs", "2", "-o", str(folder))
    assert done.exit_code == 1
    assert "is damaged" in done.output
    assert (folder / "checkpoint.npz").read_bytes() == b"not a checkpoint"


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert run("train", MLP, "--data", DIGITS, "--epochs", "1", "-o", str(folder)).exit_code == 0
    inputs = ["--inputs", DIGITS, "-o", str(tmp_path / "y.npz")]
    done = run("run", MLP, "--set", "hidden=64", "--weights", str(folder / "weights.safetensors"), *inputs)
    assert done.exit_code == 1
    assert "has the shape" in done.output


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    spec = tmp_path / "bad.dsl"
    spec.write_text(
        "model bad(x: f32[N, 2]) -> y: [N]:\n"
        "    param w: [2] ~ ones\n"
        "    y[n] = x[n, i] * w[i]\n"
        "train bad(x):\n"
        "    minimize mean(exp(bad(x)))\n"
        "    using sgd(lr = 1.0)\n",
        encoding="utf-8",
    )
    np.savez(tmp_path / "x.npz", x=np.full((4, 2), 1e3, np.float32))
    done = run("train", str(spec), "--data", str(tmp_path / "x.npz"), "-o", str(tmp_path / "run"))
    assert done.exit_code == 1
    assert "the loss is inf at step 1" in done.output

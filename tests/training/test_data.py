"""Data that do not fit a spec: each mistake is named, with the line of the spec and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_runs import DIGITS, MLP, normed, run

GOOD = {"x": np.zeros((4, 64), np.float32), "label": np.zeros(4, np.int32)}


def changed(array: Any, at: tuple[int, ...], value: float) -> Any:
    array = np.array(array)
    array[at] = value
    return array


@pytest.mark.parametrize(
    ("arrays", "message", "help"),
    [
        ({"label": None}, "has no array `label`; it has `x`", "store an array i32[N] < 10 as `label`"),
        ({"label": None, "labels": GOOD["label"]}, "has no array `label`", "did you mean `labels`?"),
        ({"x": None, "label": None}, "has no array `x`; it has no arrays", "store an array f32[N, 64] as `x`"),
        ({"label": np.zeros(3, np.int32)}, "expected N = 4 along axis 0 of `label`, as in `x`, found 3", "i32[N]"),
        ({"x": np.zeros((4, 63), np.float32)}, "expected 64 along axis 1 of `x`, found 63", "declared f32[N, 64]"),
        ({"x": np.zeros(4, np.float32)}, "expected 2 axes in `x`, found the shape (4,)", "declared f32[N, 64]"),
        ({"x": np.zeros((0, 64)), "label": np.zeros(0, int)}, "`x` is empty: its shape is (0, 64)", "at least one row"),
        ({"x": changed(GOOD["x"], (2, 5), np.nan)}, "expected finite numbers in `x`, found nan at [2, 5]", "remove or"),
        ({"x": changed(GOOD["x"], (1, 0), -np.inf)}, "found -inf at [1, 0]", "remove or replace it"),
        ({"x": GOOD["x"] + 1j}, "expected numbers in `x`, found complex64", "declared f32[N, 64]"),
        ({"x": GOOD["x"].astype(str)}, "expected numbers in `x`, found <U32", "declared f32[N, 64]"),
        ({"label": np.array([0, 1, 10, 11])}, "whole numbers from 0 to 9 in `label`, found 10 at [2] (2 such", "< 10"),
        ({"label": np.array([0, -1, 1, 1])}, "found -1 at [1]", "numbers start from 0"),
        ({"label": np.zeros(4)}, "expected whole numbers in `label`, found float64", "`label.astype(numpy.int32)`"),
        ({"label": np.zeros((4, 10), np.int32)}, "expected 1 axis in `label`, found the shape (4, 10)", "i32[N]"),
        ({"test_x": GOOD["x"]}, "has no array `test_label`", "store an array"),
        ({"val_x": GOOD["x"], "val_label": changed(GOOD["label"], (0,), 10)}, "in `val_label`, found 10", "< 10"),
    ],
)  # fmt: skip
def test_a_mistake_is_named(arrays: dict[str, Any], message: str, help: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", **{k: v for k, v in {**GOOD, **arrays}.items() if v is not None})
    done = run("train", MLP, "--data", tmp_path / "bad.npz", "-o", tmp_path / "run")
    assert done.exit_code == 1
    assert message in done.stderr
    assert f"mlp.dsl:{8}:" in done.stderr
    assert help in done.stderr.partition("= help: ")[2]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no file"),
        (b"", "cannot read"),
        (b"x,label\n1,2\n", "cannot read"),
        (b"PK\x03\x04 and then nothing", "cannot read"),
    ],
)
def test_a_file_of_another_kind_is_named(content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    if content is not None:
        path.write_bytes(content)
    done = run("train", MLP, "--data", path, "-o", tmp_path / "run")
    assert done.exit_code == 1
    assert f"error: {message}" in done.stderr and str(path) in done.stderr and "help:" in done.stderr


def test_one_array_without_a_name_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", GOOD["x"])
    done = run("train", MLP, "--data", tmp_path / "x.npy")
    assert done.exit_code == 1
    assert "holds one array without a name" in done.stderr and "numpy.savez(path, name=array, ...)" in done.stderr


def test_a_folder_is_refused(tmp_path: Path) -> None:
    done = run("train", MLP, "--data", tmp_path)
    assert done.exit_code == 1
    assert "no input takes the images of" in done.stderr and "declare one as f32[N, 32, 32, 3]" in done.stderr


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    trap = tmp_path / "trap"

    class Trap:
        def __reduce__(self) -> Any:
            return Path.touch, (trap,)

    np.savez(tmp_path / "bad.npz", x=np.array([Trap()], object), label=GOOD["label"])
    done = run("train", MLP, "--data", tmp_path / "bad.npz", "-o", tmp_path / "run")
    assert done.exit_code == 1
    assert "`x` holds Python objects" in done.stderr
    assert not trap.exists()


def test_a_damaged_array_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", **GOOD)
    data = bytearray((tmp_path / "bad.npz").read_bytes())
    data[500] ^= 1
    (tmp_path / "bad.npz").write_bytes(bytes(data))
    done = run("train", MLP, "--data", tmp_path / "bad.npz", "-o", tmp_path / "run")
    assert done.exit_code == 1
    assert "bad.npz: `x` is damaged" in done.stderr


def test_whole_numbers_and_bytes_are_numbers_too(tmp_path: Path) -> None:
    np.savez(tmp_path / "ok.npz", x=np.ones((4, 64), np.uint8), label=np.zeros(4, np.uint8))
    assert run("train", MLP, "--data", tmp_path / "ok.npz", "-o", tmp_path / "run", "--steps", 1).exit_code == 0


def test_refined_inputs_are_checked(tmp_path: Path) -> None:
    spec = tmp_path / "refined.dsl"
    spec.write_text(
        "model refined(p: simplex f32[N, 3], b: binary f32[N], m: bool[N]) -> y: [N]:\n"
        "    param w: [3] ~ ones\n"
        "    y[n] = p[n, k] * w[k] * b[n] if m[n] else 0\n"
        "train refined(p, b, m):\n"
        "    minimize mean(refined(p, b, m)^2)\n"
        "    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    good: dict[str, Any] = {"p": np.full((2, 3), 1 / 3), "b": np.array([0.0, 1.0]), "m": np.array([True, False])}
    for change, message in (
        ({}, ""),
        ({"p": np.full((2, 3), 0.5)}, "expected 1 along the last axis in `sum of p`, found 1.5"),
        ({"p": np.array([[2.0, -1.0, 0.0]] * 2)}, "expected probabilities in `p`, found -1.0 at [0, 1]"),
        ({"b": np.array([0.0, 0.5])}, "expected 0 and 1 alone in `b`, found 0.5 at [1]"),
        ({"m": np.array([2, 0])}, "expected 0 and 1 alone in `m`, found 2 at [0]"),
    ):
        np.savez(tmp_path / "d.npz", **{**good, **change})
        done = run("train", spec, "--data", tmp_path / "d.npz", "-o", tmp_path / "run", "--steps", 1, "--fresh")
        assert done.exit_code == (1 if message else 0), done.output
        assert message in done.stderr


def test_the_where_of_a_spec_is_checked(tmp_path: Path) -> None:
    spec = tmp_path / "halves.dsl"
    spec.write_text(
        "model halves(x: f32[N, T], w: f32[K], near = 3) -> y: [N] where T % 2 == 0, near <= K:\n"
        "    param a: [] ~ ones\n"
        "    y[n] = a * sum[t](x[n, t]) + a * sum[k](w[k])\n"
        "train halves(x, w, epochs = 1):\n"
        "    minimize mean(halves(x, w))\n"
        "    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    for shapes, message in (
        (((2, 4), (3,)), ""),
        (((2, 5), (3,)), "the spec needs `T % 2 == 0`, found T = 5"),
        (((2, 4), (2,)), "the spec needs `near <= K`, found K = 2"),
    ):
        np.savez(tmp_path / "d.npz", x=np.ones(shapes[0]), w=np.ones(shapes[1]))
        done = run("train", spec, "--data", tmp_path / "d.npz", "-o", tmp_path / "run")
        assert done.exit_code == (1 if message else 0), done.output
        assert message in done.stderr


def test_options_that_the_data_cannot_serve_are_refused(tmp_path: Path) -> None:
    spec, data = normed(tmp_path, rows=1)
    assert "--patience needs validation rows" in run("train", spec, "--data", data, "--patience", 2).stderr
    assert "there are 1 rows" in run("train", spec, "--data", data, "--validation", 0.5).stderr
    np.savez(data, **{k: v for n in ("x", "label") for k, v in ((n, np.load(data)[n]), (f"val_{n}", np.load(data)[n]))})
    assert "has rows for validation" in run("train", spec, "--data", data, "--validation", 0.5).stderr


def test_errors_as_json(tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", x=GOOD["x"])
    done = run("train", MLP, "--data", tmp_path / "bad.npz", "-o", tmp_path / "run", "--json")
    assert done.exit_code == 1 and done.stderr == ""
    report = json.loads(done.stdout)
    assert report["version"] == 1 and report["ok"] is False
    assert report["error"]["line"] == 8 and "has no array `label`" in report["error"]["message"]


@pytest.mark.parametrize(
    "command",
    [("train", "--data", "d.npz"), ("run", "--weights", "w", "--inputs", "x", "-o", "y"), ("cost",), ("verify",)],
)
def test_errors_of_the_spec_as_json(command: tuple[str, ...], tmp_path: Path) -> None:
    spec = tmp_path / "bad.dsl"
    spec.write_text("model bad(x: f32[N]) -> y: [N]:\n    y = z\n", encoding="utf-8")
    done = run(command[0], spec, *command[1:], "--json")
    assert done.exit_code == 1 and done.stderr == ""
    report = json.loads(done.stdout)
    assert (report["version"], report["ok"]) == (1, False)
    assert [d["code"] for d in report["diagnostics"]] == ["E0201"]


# ---- dslc run --------------------------------------------------------------------------------------------


def test_weights_that_do_not_fit_are_named(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    assert run("train", spec, "--data", data, "-o", tmp_path / "run", "--steps", 1).exit_code == 0
    good = tmp_path / "run/weights.safetensors"
    (tmp_path / "cut.safetensors").write_bytes(good.read_bytes()[:-10])

    def told(spec: object, weights: Path, inputs: object, *more: object) -> str:
        done = run("run", spec, "--weights", weights, "--inputs", inputs, "-o", tmp_path / "y.npz", *more)
        assert done.exit_code == 1
        assert not (tmp_path / "y.npz").exists()
        return done.stderr

    assert "holds the weights of another model: missing" in told(MLP, good, DIGITS)
    assert "dense2.W has the shape (8, 3), expected (8, 4)" in told(spec, good, data, "--set", "classes=4")
    assert "same --set and --model as for `dslc train`" in told(spec, good, data, "--set", "classes=4")
    assert "is damaged, or no safetensors file" in told(spec, tmp_path / "cut.safetensors", data)
    assert "does not exist" in told(spec, tmp_path / "none.safetensors", data)
    assert "is a folder" in told(spec, tmp_path, data)
    np.savez(tmp_path / "x.npz", X=np.zeros((2, 4)))
    assert "did you mean `X`?" in told(spec, good, tmp_path / "x.npz")
    done = run("run", spec, "--weights", good, "--inputs", data, "-o", tmp_path / "no/y.npz")
    assert done.exit_code == 1 and "cannot write" in done.stderr

"""Receptive fields and strides, as `dslc cost --fields` reports them, beside the support of Jacobians (chapter 7)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from catalogue import model
from click.testing import CliRunner
from marks import rows
from properties import field_error, support

from dslc.cli.main import cli
from dslc.compiler import compile_text

SPECS = Path(__file__).parents[2] / "specs"


def fields(spec: str | Path, folder: Path, *options: str) -> dict[str, dict[str, Any]]:
    """What is reported of each value, by its name; of equal names the last."""
    file = spec if isinstance(spec, Path) else folder / "fields.dsl"
    if isinstance(spec, str):
        file.write_text(spec, encoding="utf-8")
    result = CliRunner().invoke(cli, ["cost", str(file), "--fields", "--json", *options])
    assert result.exit_code == 0, result.output
    return {x["name"]: x for x in json.loads(result.stdout)["fields"]}


#: layers one after the other on x[n, t, c]; their fields by hand: 1 + the sum of (taps - 1) * steps before, and steps
STACKS = {
    "1 layer": ("x |> conv1d(2, pad = 1)", 3, 1),
    "3 layers": ("x |> conv1d(2, pad = 1) |> conv1d(2, pad = 1) |> conv1d(2, pad = 1)", 7, 1),
    "dilated": ("x |> conv1d(2, dilation = 1, pad = 1) |> conv1d(2, dilation = 2, pad = 2)", 7, 1),
    "strided": ("x |> conv1d(2, kernel = 5, stride = 2, pad = 2) |> conv1d(2, pad = 1)", 9, 2),
    "pooled": ("x |> conv1d(2, pad = 1) |> avg_pool1d(2) |> conv1d(2, pad = 1) |> avg_pool1d(2)", 10, 4),
    "same": ("x |> conv1d(2, stride = 2, same = true) |> conv1d(2, same = true)", 7, 2),
}


@rows("7.22", "7.09")
@pytest.mark.parametrize("name", STACKS)
def test_the_field_of_a_stack_is_the_support_of_its_jacobian(name: str, tmp_path: Path) -> None:
    """2Lk + 1 entries after L layers of radius k, more after strides; at the border what is inside of them."""
    call, size, step = STACKS[name]
    text = f"model stack(x: [1, 24, 1]) -> (y, J):\n    y = {call}\n    J = jacobian(y, x)\n"
    reported = fields(text, tmp_path)["y"]
    assert (reported["of"], reported["field"][1], reported["step"][1]) == ("x", size, step)
    module = model(text, tmp_path)
    rng = np.random.default_rng(2)
    params = {k: rng.uniform(0.5, 1.0, v.shape) for k, v in module.init().items()}
    found = support(module.forward(params, rng.standard_normal((1, 24, 1)))["J"], 1, 1, 3)
    middle = len(found) // 2
    low = int(np.flatnonzero(found[middle])[0]) - middle * step
    assert field_error(found, lambda s, t: low <= t - step * s < low + size) == 0
    assert field_error(found, lambda s, t: low <= t - step * s < low + size - 1) > 0  # one entry less is too few


@rows("7.22", "7.39")
def test_without_overlap_a_value_sees_its_part_of_the_image(tmp_path: Path) -> None:
    """Two poolings leave 2 by 2 values, each of a quarter of the image; convolutions between them reach further."""
    pools = "model m(image: [N, 8, 8, 3]) -> y:\n    y = image |> max_pool2d |> max_pool2d\n"
    assert fields(pools, tmp_path)["y"]["field"] == [1, 4, 4, 1]
    assert fields(pools, tmp_path)["y"]["step"] == [1, 4, 4, 1]
    seen = fields(SPECS / "convolution/cnn.dsl", tmp_path)
    assert (seen["h"]["shape"], seen["h"]["field"]) == (["N", 2, 2, 32], [1, 10, 10, 1])
    assert (seen["logits"]["of"], seen["logits"]["step"]) == ("image", [1, 0, 0, 0])


@rows("7.22")
def test_passes_of_a_loop_and_open_sizes_are_followed(tmp_path: Path) -> None:
    text = "model m(x: [N, H, 3]) -> y:\n    h = x |> dense(8)\n    for l in 0..6:\n"
    text += "        h = h |> conv1d(8, pad = 1) |> relu\n    y = global_avg_pool(h)\n"
    found = fields(text, tmp_path)
    assert [found[f"conv1d.h.{n}"]["field"][1] for n in range(6)] == [3, 5, 7, 9, 11, 13]
    assert found["y"]["field"] == [1, "H + 12", 3]
    assert fields(text, tmp_path, "--set", "H=50")["y"]["field"] == [1, 62, 3]


def test_what_is_no_interval_is_told_as_unknown(tmp_path: Path) -> None:
    text = """
model m(x: [N, 8], at: i32[N, 3] < 8) -> (picked, ordered, turned, twice):
    picked[n, k] = x[n, at[n, k]]
    ordered[n, t] = sort[t](x[n, t])
    turned[n, t] = x[n, 7 - t]
    twice[n, t: 4] = x[n, 3 - t] + x[n, 2 * t]
"""
    file = tmp_path / "rows.dsl"
    file.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(cli, ["cost", str(file), "--fields", "--json"])
    found = {(x["name"], x["of"]): (x["field"], x["step"]) for x in json.loads(result.stdout)["fields"]}
    assert found["picked", "x"] == ([1, None], [1, None])
    assert found["picked", "at"] == ([1, 1], [1, 1])
    assert found["ordered", "x"] == ([1, 8], [1, 0])
    assert found["turned", "x"] == ([1, 1], [1, -1])
    assert found["twice", "x"] == ([1, None], [1, None])
    assert "?" in CliRunner().invoke(cli, ["cost", str(file), "--fields"]).stdout


@rows("7.05", "7-9.B7")
def test_strides_are_those_of_row_major_arrays(tmp_path: Path) -> None:
    """(96, 3, 1) for an image of 32 by 32 pixels, as NumPy and torch have it, and as kernels count."""
    text = (
        "model m(x: f32[32, 32, 3], z: f32[N, 5, 4, 3]) -> y:\n    y[j, i] = 2 * x[i, j, 1] + sum[n](z[n, 0, 0, 0])\n"
    )
    found = fields(text, tmp_path)
    assert found["x"]["strides"] == [96, 3, 1]
    assert found["z"]["strides"] == [60, 12, 3, 1]
    assert [x // 4 for x in np.zeros((32, 32, 3), "f4").strides] == found["x"]["strides"]
    (tmp_path / "kernel.dsl").write_text("model m(x: f32[32, 32, 3]) -> y:\n    y[j, i] = 2 * x[i, j, 1]\n")
    kernel = compile_text(tmp_path / "kernel.dsl", "triton")
    read = next(x for x in kernel.splitlines() if "x_ptr +" in x)
    assert "* 96" in read and "* 3" in read, read

"""Long sums that few programs would make are made in parts; histories of loops are made where they are kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from triton_modules import ROOT, check_spec

from dslc.compiler import compile_text

WEIGHTS = """\
model m(x: f32[N, {width}]) -> y: [N, {width}]:
    param W: [{width}, {width}] ~ glorot
    param b: [{width}] ~ zeros
    y[n, o] = tanh(x[n, i] * W[i, o] + b[o])

train m(x):
    minimize mean[n, o](m(x)[n, o]^2)
    using sgd(lr = 0.1)
"""

LAYERS = """\
layer step(h: [N, 20]) -> y: [N, 20]:
    param W: [20, 20] ~ glorot
    param b: [20] ~ normal
    y[n, o] = tanh(h[n, i] * W[i, o] + b[o])

model m(x: f32[N, 20]) -> y: [N, 20]:
    h = x
    for l in 0..5:
        h = h |> step
    y = h

train m(x):
    minimize mean[n, o](m(x)[n, o]^2)
    using sgd(lr = 0.1)
"""

CARRIED = """\
model m(x: f32[N, T, 5]) -> y: [N, T, 5]:
    param U: [5, 5] ~ glorot
    param h0: [5] ~ normal
    scan t:
        g[n, k] = h[n, t-1, k] - last[n, t-1, k]
        h[n, t, k] = tanh(x[n, t, j] * U[j, k] + h[n, t-1, j] * U[j, k] + 0.5 * g[n, k])
        last[n, t, k] = h[n, t-1, k]
    start h[n: N, k] = h0[k]
    start last = 0
    y = h

train m(x):
    minimize mean[n, t, k](m(x)[n, t, k]^2)
    using sgd(lr = 0.1)
"""


TIMES = """\
model m(x: f32[N, 20]) -> y: [N, 20]:
    param W: [20, 20] ~ glorot
    param a: [20] ~ normal
    scan t in 0..5:
        path[t, n, o] = tanh(path[t-1, n, i] * W[i, o] + float(t) * a[o])
    start path[n, o] = x[n, o]
    y = path[4, :, :]

train m(x):
    minimize mean[n, o](m(x)[n, o]^2)
    using sgd(lr = 0.1)
"""


def written(text: str, folder: Path) -> Path:
    spec = folder / "parts.dsl"
    spec.write_text(text, encoding="utf-8")
    return spec


def test_the_gradient_of_a_small_matrix_is_made_in_parts(tmp_path: Path) -> None:
    text = compile_text(written(WEIGHTS.format(width=64), tmp_path), "triton")
    assert re.search(r"d_W_parts_kernel\[\(1, 1, 16\)\]", text)
    assert text.index("d_W_parts_kernel[") < text.index("add_up_kernel[")


def test_all_parts_of_a_function_are_added_up_in_one_launch(tmp_path: Path) -> None:
    spec = written(WEIGHTS.format(width=20), tmp_path)
    text = compile_text(spec, "triton")
    gradient = text[text.index("def loss_grad_metrics") : text.index("def evaluate")]
    assert len(re.findall(r"_parts_kernel\[", gradient)) == 3  # of the loss, of W and of b
    assert gradient.count("add_up_kernel[") == 1 and "_rows_kernel[" not in gradient
    kernel = text[text.index("def add_up_kernel(") :].split("\n\n")[0]
    assert re.findall(r"(\w+)\(program", kernel) == ["add_up_loss", "add_up_d_W", "add_up_d_b"]


def test_parts_that_are_needed_at_once_do_not_wait(tmp_path: Path) -> None:
    spec = tmp_path / "needed.dsl"
    spec.write_text(
        "model m(x: f32[N, 20]) -> y: [N, 20]:\n    param a: [] ~ normal\n"
        "    mu[i] = mean[n](a * x[n, i])\n    spread[i] = mean[n]((a * x[n, i] - mu[i])^2)\n"
        "    y[n, i] = (a * x[n, i] - mu[i]) / sqrt(spread[i] + 0.1)\n\n"
        "train m(x):\n    minimize mean[n, i](tanh(m(x)[n, i] + x[n, i]))\n    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    check_spec(spec, tmp_path, 37)


def test_a_large_matrix_has_tiles_enough(tmp_path: Path) -> None:
    text = compile_text(written(WEIGHTS.format(width=1024), tmp_path), "triton")
    assert "d_W_parts" not in text
    assert re.search(r"d_W_dot_kernel\[\(16, 16\)\]", text)


@pytest.mark.wide(3)
@pytest.mark.parametrize("rows", [1, 15, 37, 300])
def test_parts_may_be_empty_or_ragged(rows: int, tmp_path: Path) -> None:
    check_spec(written(WEIGHTS.format(width=20), tmp_path), tmp_path, rows)


@pytest.mark.wide(2)
@pytest.mark.parametrize("rows", [3, 37])
def test_parts_of_all_layers_are_added_up_after_the_loop(rows: int, tmp_path: Path) -> None:
    spec = written(LAYERS, tmp_path)
    text = compile_text(spec, "triton")
    gradient = text[text.index("def loss_grad_metrics") : text.index("def evaluate")]
    loop = gradient[gradient.index("reversed(") :]
    assert re.search(r"^        d_W_parts_kernel\[", loop, re.MULTILINE)
    assert re.search(r"^    add_up_kernel\[", loop, re.MULTILINE)
    assert "d_step_W_parts = torch.empty((5, 16, 20, 20)" in gradient
    check_spec(spec, tmp_path, rows)


@pytest.mark.wide(2)
@pytest.mark.parametrize("rows", [3, 37])
def test_sums_over_the_steps_of_a_loop_wait_for_the_parts_of_each_step(rows: int, tmp_path: Path) -> None:
    spec = written(TIMES, tmp_path)
    text = compile_text(spec, "triton")
    gradient = text[text.index("def loss_grad_metrics") : text.index("def evaluate")]
    after = gradient[gradient.index("reversed(") :]
    assert re.search(r"^    add_up_kernel\[.*?^    d_a\w*_kernel\[", after, re.MULTILINE | re.DOTALL)
    check_spec(spec, tmp_path, rows)


def test_what_a_loop_carries_is_made_where_its_history_is_kept(tmp_path: Path) -> None:
    spec = written(LAYERS, tmp_path)
    text = compile_text(spec, "triton")
    gradient = text[text.index("def loss_grad_metrics") : text.index("def evaluate")]
    assert re.search(r"torch\.empty\(\(6, N, 20\)", gradient)
    assert re.search(r"_steps\[l \+ 1\]", gradient)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_value_that_is_only_handed_on_keeps_its_history_too(length: int, tmp_path: Path) -> None:
    check_spec(written(CARRIED, tmp_path), tmp_path, length)


@pytest.mark.wide(3)
@pytest.mark.parametrize("name", ["transformer/gpt", "recurrent/lstm", "recurrent/gru", "convolution/resnet"])
def test_loops_copy_nothing(name: str) -> None:
    text = compile_text(ROOT / f"specs/{name}.dsl", "triton")
    gradient = text[text.index("def loss_grad_metrics") : text.index("def evaluate")]
    assert "copy_(" not in gradient

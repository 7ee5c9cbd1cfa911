"""Rows of the catalogue on linear maps that `--fold` merges for inference (chapters 5, 7 and 9), beside torch."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from catalogue import SPECS, model
from click.testing import CliRunner
from marks import rows
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from dslc.cli.main import cli
from dslc.compiler import compile_text

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"
torch.set_num_threads(1)

BACKENDS = ["numpy", "c", "triton"]
CLOSE = {"f64": 1e-12, "f32": 2e-6}


def told(command: str, text: str, folder: Path, *options: str) -> str:
    file = folder / "told.dsl"
    file.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(cli, [command, str(file), "--fold", *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def weights(text: str, folder: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of the weights that were multiplied, by their names."""
    shown = told("show", text, folder, "--stage", "simplified")
    found = re.findall(r"^ *([\w.]+_folded\w*)\[(.*?)\] = ", shown, re.MULTILINE)
    return {name: tuple(int(x.split(":")[1]) for x in axes.split(", ")) for name, axes in found}


def operations(text: str, folder: Path, *options: str, inference: str = "--fold") -> Any:
    file = folder / "counted.dsl"
    file.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(cli, ["cost", str(file), "--json", inference, *options], catch_exceptions=False)
    total = json.loads(done.stdout)["total"]
    return total.get("all", total["forward"])["operations"]


def uniform(rng: np.random.Generator, arrays: dict[str, Any]) -> dict[str, Any]:
    return {k: rng.uniform(0.5, 1.0, x.shape) for k, x in arrays.items()}


# ---- batch norms after linear maps


@dataclass(frozen=True)
class Pair:
    """A linear map and the batch norm after it, in the language and in torch."""

    input: str
    body: str
    linear: nn.Module
    norm: nn.Module


def pairs() -> list[Pair]:
    torch.manual_seed(1)
    made = [
        Pair("[N, 4]", "dense(6)", nn.Linear(4, 6), nn.BatchNorm1d(6)),
        Pair("[N, 4]", "dense(6, bias = false)", nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6)),
        Pair("[N, 9, 4]", "conv1d(6, pad = 1)", nn.Conv1d(4, 6, 3, padding=1), nn.BatchNorm1d(6)),
        Pair("[N, 7, 6, 4]", "conv2d(5, stride = 2, pad = 1, bias = false)",
             nn.Conv2d(4, 5, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(5)),
        Pair("[N, 7, 6, 4]", "conv2d(5, dilation = 2)", nn.Conv2d(4, 5, 3, dilation=2), nn.BatchNorm2d(5)),
        Pair("[N, 4, 5, 4, 4]", "conv3d(3)", nn.Conv3d(4, 3, 3), nn.BatchNorm3d(3)),
    ]  # fmt: skip
    for pair in made:
        for x in (*pair.norm.parameters(), *pair.norm.buffers()):
            if x.is_floating_point():
                nn.init.uniform_(x, 0.5, 2.0)
        pair.linear.double().eval()
        pair.norm.double().eval()
    return made


def side_by_side(made: list[Pair], between: str = "") -> str:
    layers = "".join(
        f"layer pair_{n}(x: {pair.input}) -> y:\n    y = x |> {pair.body}{between} |> batch_norm\n\n"
        for n, pair in enumerate(made)
    )
    inputs = ", ".join(f"x_{n}: {pair.input}" for n, pair in enumerate(made))
    calls = "".join(f"    y_{n} = pair_{n}(x_{n})\n" for n in range(len(made)))
    return f"{layers}model pairs({inputs}) -> ({', '.join(f'y_{n}' for n in range(len(made)))}):\n{calls}"


def arrays(made: list[Pair], dtype: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and states of all pairs: kernels are [taps..., in, out] here, [out, in, taps...] in torch."""
    params, state = {}, {}
    for n, pair in enumerate(made):
        layer = pair.body.partition("(")[0]
        kernel, bias = pair.linear.weight, pair.linear.bias
        params[f"pair_{n}.{layer}.{'W' if layer == 'dense' else 'K'}"] = kernel.movedim((0, 1), (-1, -2))
        if bias is not None:
            params[f"pair_{n}.{layer}.b"] = bias
        params |= {f"pair_{n}.batch_norm.scale": pair.norm.weight, f"pair_{n}.batch_norm.shift": pair.norm.bias}
        state[f"pair_{n}.batch_norm.running_mean"] = pair.norm.running_mean
        state[f"pair_{n}.batch_norm.running_var"] = pair.norm.running_var
    to = np.float64 if dtype == "f64" else np.float32
    return tuple({k: x.detach().numpy().astype(to) for k, x in table.items()} for table in (params, state))  # type: ignore[return-value]


def drawn(pair: Pair, n: int) -> np.ndarray[Any, Any]:
    shape = [int(x) if x.isdigit() else 3 for x in pair.input.strip("[]").split(", ")]
    return np.random.default_rng(n).standard_normal(shape)


def fused(pair: Pair, x: torch.Tensor) -> torch.Tensor:
    """What torch computes with the weights that torch has merged."""
    fuse = fuse_linear_bn_eval if isinstance(pair.linear, nn.Linear) else fuse_conv_bn_eval
    whole = fuse(pair.linear, pair.norm)  # type: ignore[type-var]
    return whole(x.movedim(-1, 1)).movedim(1, -1)  # type: ignore[no-any-return]


@rows("9.44")
@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_batch_norm_goes_into_the_weights_before_it(backend: str, dtype: str, tmp_path: Path) -> None:
    made = pairs()
    assert len(weights(side_by_side(made), tmp_path)) == len(made)
    module = model(side_by_side(made), tmp_path, backend, dtype, fold=True)
    params, state = arrays(made, dtype)
    xs = [drawn(pair, n) for n, pair in enumerate(made)]
    found = module.forward(params, *(x.astype(params["pair_0.dense.W"].dtype) for x in xs), state)
    for n, (pair, x) in enumerate(zip(made, xs, strict=True)):
        wanted = fused(pair, torch.tensor(x)).detach().numpy()
        np.testing.assert_allclose(found[f"y_{n}"], wanted, rtol=0, atol=CLOSE[dtype] * np.abs(wanted).max())


@rows("9.44")
def test_a_function_between_the_two_keeps_them_apart(tmp_path: Path) -> None:
    made = pairs()
    assert weights(side_by_side(made, " |> relu"), tmp_path) == {}
    params, state = arrays(made, "f64")
    xs = [drawn(pair, n) for n, pair in enumerate(made)]
    found = model(side_by_side(made, " |> relu"), tmp_path, fold=True).forward(params, *xs, state)
    for n, (pair, x) in enumerate(zip(made, xs, strict=True)):
        wanted = pair.norm(torch.relu(pair.linear(torch.tensor(x).movedim(-1, 1)))).movedim(1, -1)
        np.testing.assert_allclose(found[f"y_{n}"], wanted.detach(), rtol=1e-9, atol=1e-12)


@rows("9.44")
def test_only_inference_is_folded(tmp_path: Path) -> None:
    """Of all functions of a module, `forward` alone differs."""

    def functions(folded: bool) -> dict[str, str]:
        text = compile_text(SPECS / "convolution/resnet.dsl", folded=folded).partition("MANIFEST = ")[0]
        return {part.partition("(")[0]: part for part in text.split("\ndef ")}

    plain, folded = functions(False), functions(True)
    assert plain.keys() == folded.keys()
    assert [name for name in plain if plain[name] != folded[name]] == ["forward"]


@rows("9.44")
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_layers_of_a_loop_are_folded_pass_by_pass(backend: str, tmp_path: Path) -> None:
    text = (
        "layer block(x: [N, C]) -> y: [N, C]:\n    y = x |> dense(C) |> batch_norm |> relu\n\n"
        "model deep(x: f64[N, 5], depth = 4) -> y:\n    y = x\n    for l in 0..depth:\n        y = y |> block\n"
    )
    assert list(weights(text, tmp_path).values()) == [(5, 5)]
    module = model(text, tmp_path, backend, fold=True)
    rng = np.random.default_rng(2)
    params, state = uniform(rng, module.init()), uniform(rng, module.init_state())
    y = x = rng.standard_normal((7, 5))
    for n in range(4):
        h = y @ params[f"block.{n}.dense.W"] + params[f"block.{n}.dense.b"]
        p = {k.rpartition(".")[2]: torch.tensor(v) for k, v in (params | state).items() if f".{n}.batch_norm." in k}
        y = nn.functional.batch_norm(
            torch.tensor(h), p["running_mean"], p["running_var"], p["scale"], p["shift"], eps=1e-5
        ).relu().numpy()  # fmt: skip
    np.testing.assert_allclose(module.forward(params, x, state), y, rtol=1e-10)


@rows("9.44")
@pytest.mark.parametrize("backend", BACKENDS)
def test_folded_maps_take_fewer_operations(backend: str, tmp_path: Path) -> None:
    """The norm of N rows takes 4 operations for each entry beside the map: b, mean, scale, shift; folded, an offset."""
    text = "model pair(x: f32[N, 20]) -> y:\n    y = x |> dense(30) |> batch_norm\n"
    plain, folded = (
        operations(text, tmp_path, "-b", backend, "--set", "N=1000", inference=x) for x in ("--inference", "--fold")
    )
    assert plain - folded == pytest.approx(3 * 1000 * 30, rel=0.02)


@rows("9.44")
def test_weights_that_are_larger_than_the_data_stay_as_they_are(tmp_path: Path) -> None:
    text = "model pair(x: f32[{}, 100]) -> y:\n    y = x |> dense(200) |> batch_norm\n"
    assert weights(text.format("N"), tmp_path) == weights(text.format("40"), tmp_path) == {"dense.W_folded": (100, 200)}
    assert weights(text.format("30"), tmp_path) == {}  # 3 * 30 * 200 operations less, 100 * 200 more


@rows("9.44")
def test_what_has_another_reader_stays_as_it_is(tmp_path: Path) -> None:
    text = "model pair(x: f32[N, 4]) -> (y, h):\n    h = x |> dense(3)\n    y = batch_norm(h)\n"
    assert weights(text, tmp_path) == {}
    assert weights(text.replace("(y, h)", "y"), tmp_path) == {"dense.W_folded": (4, 3)}


# ---- maps after maps


@rows("F04")
@pytest.mark.parametrize("backend", BACKENDS)
def test_dense_layers_without_a_function_between_are_one(backend: str, tmp_path: Path) -> None:
    text = "model stacked(x: f64[N, 5]) -> y:\n    y = x |> dense(16) |> dense(12) |> dense(3)\n"
    assert list(weights(text, tmp_path).values()) == [(5, 12), (5, 3)]
    plain, folded = (
        operations(text, tmp_path, "-b", backend, "--set", "N=1000", inference=x) for x in ("--inference", "--fold")
    )
    assert plain == 1000 * (2 * (5 * 16 + 16 * 12 + 12 * 3) + 16 + 12 + 3)
    assert folded == pytest.approx(1000 * (2 * 5 * 3 + 3), rel=0.1)
    module = model(text, tmp_path, backend, fold=True)
    rng = np.random.default_rng(3)
    p = {k: rng.standard_normal(x.shape) for k, x in module.init().items()}
    x = rng.standard_normal((7, 5))
    h = (x @ p["dense.W"] + p["dense.b"]) @ p["dense2.W"] + p["dense2.b"]
    np.testing.assert_allclose(module.forward(p, x), h @ p["dense3.W"] + p["dense3.b"], rtol=1e-9, atol=1e-12)
    narrow = "model narrow(x: f64[N, 5]) -> y:\n    y = x |> dense(2) |> dense(6)\n"  # 2 * (5 + 6) < 5 * 6
    assert weights(narrow, tmp_path) == {}


@dataclass(frozen=True)
class Stack:
    """Two convolutions of x[n, t, c], their options, and how long the one kernel in their place is; 0 for none."""

    first: dict[str, int] = field(default_factory=dict)
    second: dict[str, int] = field(default_factory=dict)
    taps: int = 0

    def text(self, channels: int = 8) -> str:
        calls = [
            f"conv1d({out}{''.join(f', {k} = {n}' for k, n in options.items())})"
            for out, options in ((channels, self.first), (2, self.second))
        ]
        return f"model stack(x: f64[N, 30, 1]) -> y:\n    y = x |> {' |> '.join(calls)}\n"


STACKS = {
    "as they are": Stack(taps=5),
    "of other lengths": Stack({"kernel": 4}, {"kernel": 2}, taps=5),
    "strides": Stack({"stride": 2}, {"stride": 3}, taps=7),
    "dilations": Stack({"dilation": 2}, {"dilation": 4}, taps=7),
    "a dilation that the other does not divide": Stack({"dilation": 3}, {"dilation": 2}, taps=11),
    "zeros around the first": Stack({"pad": 2}, taps=5),
    "zeros around the second": Stack({}, {"pad": 1}),
}


@rows("7.23")
@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_convolution_of_a_convolution_is_one_with_a_longer_kernel(backend: str, name: str, tmp_path: Path) -> None:
    stack = STACKS[name]
    folded = weights(stack.text(), tmp_path)
    assert list(folded.values()) == ([(stack.taps, 1, 2)] if stack.taps else [])
    module = model(stack.text(), tmp_path, backend, fold=True)
    rng = np.random.default_rng(4)
    p = {k: torch.tensor(rng.standard_normal(x.shape)) for k, x in module.init().items()}
    x = rng.standard_normal((3, 30, 1))
    y = torch.tensor(x).movedim(-1, 1)
    for layer, options in (("conv1d", stack.first), ("conv1d2", stack.second)):
        given = {"padding" if k == "pad" else k: n for k, n in options.items() if k != "kernel"}
        y = nn.functional.conv1d(y, p[f"{layer}.K"].movedim(0, -1).movedim(0, 1), p[f"{layer}.b"], **given)
    found = module.forward({k: w.numpy() for k, w in p.items()}, x)
    np.testing.assert_allclose(found, y.movedim(1, -1), rtol=1e-9, atol=1e-12)


@rows("7.23")
def test_zeros_between_two_convolutions_are_not_those_around_one() -> None:
    """Why the last stack is not merged: the one kernel gives the same inside, and something else at the border."""
    torch.manual_seed(5)
    x, K, L = torch.randn(1, 1, 30), torch.randn(8, 1, 3), torch.randn(2, 8, 3)
    stacked = nn.functional.conv1d(nn.functional.conv1d(x, K, padding=1), L, padding=1)
    kernel = nn.functional.conv1d(K.movedim(0, 1), L.flip(-1), padding=2)  # K over all channels, at all shifts
    one = nn.functional.conv1d(x, kernel.movedim(0, 1), padding=2)
    difference = (stacked - one).abs().amax((0, 1))
    assert difference[1:-1].max() < 1e-4 and min(difference[0], difference[-1]) > 1e-2


@rows("7.23")
@pytest.mark.parametrize("backend", BACKENDS)
def test_images_are_convolved_once(backend: str, tmp_path: Path) -> None:
    text = "model stack(x: f64[N, 9, 8, 1]) -> y:\n    y = x |> conv2d(8) |> batch_norm |> conv2d(2)\n"
    assert list(weights(text, tmp_path).values())[-1] == (5, 5, 1, 2)
    module = model(text, tmp_path, backend, fold=True)
    rng = np.random.default_rng(6)
    params, state = uniform(rng, module.init()), uniform(rng, module.init_state())
    p = {k: torch.tensor(w) for k, w in (params | state).items()}
    x = rng.standard_normal((3, 9, 8, 1))
    conv = nn.functional.conv2d
    h = conv(torch.tensor(x).movedim(-1, 1), p["conv2d.K"].permute(3, 2, 0, 1), p["conv2d.b"])
    names = ("running_mean", "running_var", "scale", "shift")
    h = nn.functional.batch_norm(h, *(p[f"batch_norm.{n}"] for n in names), eps=1e-5)
    y = conv(h, p["conv2d2.K"].permute(3, 2, 0, 1), p["conv2d2.b"]).movedim(1, -1)
    np.testing.assert_allclose(module.forward(params, x, state), y, rtol=1e-9, atol=1e-12)


@rows("7.23")
def test_what_would_cost_more_stays_as_it_is(tmp_path: Path) -> None:
    """3 taps of 16 by 16 channels twice are 6 * 256 products, 5 taps once are 5 * 256; over two axes 18 and 25."""
    line = "model m(x: f64[N, 30, 16]) -> y:\n    y = x |> conv1d(16) |> conv1d(16)\n"
    plane = "model m(x: f64[N, 30, 30, 16]) -> y:\n    y = x |> conv2d(16) |> conv2d(16)\n"
    assert list(weights(line, tmp_path).values()) == [(5, 16, 16)]
    assert weights(plane, tmp_path) == {}
    assert weights(STACKS["as they are"].text().replace("conv1d(8)", "conv1d(8) |> relu"), tmp_path) == {}

"""Rows of the catalogue on residual networks (chapter 9): blocks, their parts, and equations that they step along."""

from __future__ import annotations

import itertools
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from catalogue import SPECS, Array, compiled, model
from catalogue_layers import Layer, LayerTable, Oracle, Result, Tensors, Trained, batch_norm, conv, layers, normed
from marks import rows
from torch.nn import functional as F

from dslc.builder.build import build
from dslc.compiler import choose, compile_text
from dslc.diagnostics.spec_error import SpecError
from dslc.frontend import check_file

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"
torch.set_num_threads(1)


class Norms:
    """Batch norms one after the other, in training or at inference: each with its own parameters and states."""

    def __init__(self, p: Tensors, trained: bool) -> None:
        self.p, self.trained = p, trained
        self.states: dict[str, torch.Tensor] = {}

    def __call__(self, x: torch.Tensor, at: str) -> torch.Tensor:
        if not self.trained:
            return normed(x, self.p, f"{at}.")
        y, states = batch_norm(x, self.p, f"{at}.")
        self.states.update(states)
        return y


def both(block: object) -> tuple[Oracle, Oracle]:
    """A block of x, parameters and norms as it is trained and as it is used."""

    def trained(x: torch.Tensor, p: Tensors) -> Result:
        norms = Norms(p, True)
        return block(x, p, norms), norms.states  # type: ignore[operator]

    def used(x: torch.Tensor, p: Tensors) -> torch.Tensor:
        return block(x, p, Norms(p, False))  # type: ignore[operator, no-any-return]

    return trained, used


def resnet_path(x: torch.Tensor, p: Tensors, norm: Norms, stride: int = 1) -> torch.Tensor:
    h = F.relu(norm(conv(x, p["resnet_path.conv2d.K"], stride, 1), "resnet_path.batch_norm"))
    return norm(conv(h, p["resnet_path.conv2d2.K"], 1, 1), "resnet_path.batch_norm2")


def bottleneck_path(x: torch.Tensor, p: Tensors, norm: Norms) -> torch.Tensor:
    at = "bottleneck_path."
    h = F.relu(norm(conv(x, p[f"{at}conv2d.K"]), f"{at}batch_norm"))
    h = F.relu(norm(conv(h, p[f"{at}conv2d2.K"], 1, 1), f"{at}batch_norm2"))
    return norm(conv(h, p[f"{at}conv2d3.K"]), f"{at}batch_norm3")


def convnext_path(x: torch.Tensor, p: Tensors) -> torch.Tensor:
    at = "residual.convnext_path."
    h = conv(x, p[f"{at}depthwise_conv2d.K"], 1, 1, groups=x.shape[-1]) + p[f"{at}depthwise_conv2d.b"]
    h = F.layer_norm(h, h.shape[-1:], p[f"{at}layer_norm.scale"], p[f"{at}layer_norm.shift"])
    h = F.gelu(h @ p[f"{at}dense.W"] + p[f"{at}dense.b"])
    return h @ p[f"{at}dense2.W"] + p[f"{at}dense2.b"]


def stem(x: torch.Tensor, p: Tensors, norm: Norms) -> torch.Tensor:
    h = F.relu(norm(conv(x, p["stem.conv2d.K"], 2, 3), "stem.batch_norm"))
    return F.max_pool2d(h.movedim(-1, 1), 3, 2, 1).movedim(1, -1)


def euler(x: torch.Tensor, p: Tensors) -> torch.Tensor:
    for t in range(4):
        x = x + 0.25 * torch.tanh(x @ p["f.W"] + p["f.b"] * t)
    return x


IMAGE = "[M, 4, 3, 4]"
BLOCKS = layers(
    Layer("9.57 9.58", "[N, D]", "[N, D]", "y = residual(x, dense(5))",
          lambda x, p: x + x @ p["residual.dense.W"] + p["residual.dense.b"]),
    Layer("9.60", "[N, D]", "[N, D]", "y = x + (x |> dense(5, bias = false) |> batch_norm)",
          *both(lambda x, p, norm: x + norm(x @ p["dense.W"], "batch_norm"))),
    Layer("9.62", IMAGE, "[M, 4, 3, 2]",
          "f = x |> conv2d(2, pad = 1, bias = false) |> tanh\ny = f + (x |> conv2d(2, kernel = 1, bias = false))",
          lambda x, p: torch.tanh(conv(x, p["conv2d.K"], 1, 1)) + conv(x, p["conv2d2.K"])),
    Layer("9.61", IMAGE, "[M, 2, 2, 6]", "y = resnet_path(x, 6, 2) + shortcut(x, 6, 2)",
          *both(lambda x, p, norm: resnet_path(x, p, norm, 2)
                + norm(conv(x, p["shortcut.conv2d.K"], 2), "shortcut.batch_norm"))),
    Layer("9.63", IMAGE, IMAGE, "y = x + (x |> conv2d(4, pad = 1, bias = false) |> batch_norm |> relu)",
          *both(lambda x, p, norm: x + F.relu(norm(conv(x, p["conv2d.K"], 1, 1), "batch_norm")))),
    Layer("9.64", IMAGE, IMAGE, "y = x + resnet_path(x, 4)", *both(lambda x, p, norm: x + resnet_path(x, p, norm))),
    Layer("9.66", IMAGE, IMAGE, "y = relu(x + bottleneck_path(x, 2, expand = 2))",
          *both(lambda x, p, norm: F.relu(x + bottleneck_path(x, p, norm)))),
    Layer("9.67 9.68", IMAGE, IMAGE, "y = residual(x, convnext_path(kernel = 3, expand = 2))",
          lambda x, p: x + convnext_path(x, p)),
    Layer("9.65", "[M, 9, 8, 3]", "[M, 3, 2, 4]", "y = stem(x, 4)", *both(stem)),
    Layer("9.71 9.72", "[N, D]", "[N, D]",
          "use f = slope()\ny = x\nfor t in 0..4:\n    y = y + 0.25 * f(y, t)", euler),
)  # fmt: skip

SLOPE = """
layer slope(x: [N, D], t: int) -> v: [N, D]:
    param W: [D, D] ~ glorot
    param b: [D] ~ normal
    v[n, e] = tanh(x[n, d] * W[d, e] + b[e] * t)
"""


@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
@pytest.mark.parametrize("table", [pytest.param(BLOCKS, marks=[m for x in BLOCKS for m in x.marks], id="blocks")])
def test_residual_blocks_have_the_values_gradients_and_states_of_torch(
    table: list[object], backend: str, tmp_path: Path
) -> None:
    LayerTable((x.values[0] for x in table), SLOPE).check(tmp_path, backend)  # type: ignore[attr-defined]


# ---- properties


def drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def weights(layer: Trained) -> int:
    return sum(np.size(x) for x in layer.params.values())


@rows("9.57")
def test_a_block_whose_path_is_nothing_is_the_identity(tmp_path: Path) -> None:
    for body in ("y = residual(x, dense(4))", "y = x + resnet_path(x, 4)", "y = x + bottleneck_path(x, 2, expand = 2)"):
        block = Trained(body, "[N, 3, 3, 4]", "[N, 3, 3, 4]", tmp_path)
        x = drawn(2, 3, 3, 4)
        assert np.abs(block(x) - x).max() > 1e-3
        block.params = {k: np.zeros_like(v) for k, v in block.params.items()}
        np.testing.assert_array_equal(block(x), x)


@rows("9.57")
def test_a_path_of_another_shape_is_refused_with_both_shapes(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"expected equal shapes, found \[N, 3\] and \[N, 4\]"):
        compiled("model m(x: f64[N, 4]) -> y: [N, 4]:\n    y = dense(x, 3) + x\n", tmp_path)


@rows("9.58")
def test_the_skip_hands_the_cotangent_on_unchanged(tmp_path: Path) -> None:
    x, v = drawn(6, 5), drawn(6, 5, seed=1)
    path = Trained("y = x |> dense(5) |> tanh", "[N, 5]", "[N, 5]", tmp_path)
    block = Trained("y = x + (x |> dense(5) |> tanh)", "[N, 5]", "[N, 5]", tmp_path)
    block.params = path.params
    path(x, v), block(x, v)
    np.testing.assert_allclose(block.grads["x"], path.grads["x"] + v, rtol=1e-12)


@rows("9.58", "9.59")
def test_gradients_vanish_in_a_deep_plain_network_and_not_in_a_residual_one(tmp_path: Path) -> None:
    lengths = []
    for skip in ("", "h + "):
        body = f"h = x\nfor l in 0..50:\n    h = {skip}(h |> dense(8) |> tanh)\ny = h"
        net = Trained(body, "[N, 8]", "[N, 8]", tmp_path)
        net.params = {k: 0.5 * v for k, v in net.params.items()}
        x = drawn(6, 8)
        net(x, np.ones((6, 8)))
        lengths.append(float(np.linalg.norm(net.grads["x"])))
    assert lengths[0] < 1e-10 and lengths[1] > 1


DEEP = """
model deep(x: f32[N, 8, 8, 4], depth = 4) -> y: [N, 8, 8, 4]:
    y = x
    for l in 0..depth:
        y = relu(resnet_path(y, 4) + y)

train deep(x):
    minimize mean(deep(x)^2)
    using sgd(lr = 0.1)
"""


@rows("9.59")
def test_a_network_of_48_blocks_compiles_to_as_many_lines_as_one_of_4(tmp_path: Path) -> None:
    spec = tmp_path / "deep.dsl"
    spec.write_text(DEEP, encoding="utf-8")
    lines = [len(compile_text(spec, settings={"depth": depth}).splitlines()) for depth in (4, 48)]
    assert lines[0] == lines[1]


@rows("9.60")
def test_a_norm_with_scale_0_makes_a_block_the_identity_at_first(tmp_path: Path) -> None:
    block = Trained("y = x + (x |> dense(4) |> relu |> dense(4) |> batch_norm)", "[N, 4]", "[N, 4]", tmp_path)
    block.params["batch_norm.scale"] = np.zeros(4)
    x = drawn(6, 4)
    np.testing.assert_array_equal(block(x, drawn(6, 4, seed=1)), x)
    assert np.abs(block.grads["batch_norm.scale"]).min() > 1e-6  # and it can learn to be another


@rows("9.62", "9.64", "9.66", "9.67")
@pytest.mark.parametrize(
    ("body", "kind", "result", "count"),
    [
        ("y = x |> conv2d(12, kernel = 1, bias = false)", "[N, 4, 4, 8]", "[N, 4, 4, 12]", 8 * 12),
        ("y = x + resnet_path(x, 16)", "[N, 4, 4, 16]", "[N, 4, 4, 16]", 18 * 16**2 + 4 * 16),
        ("y = x + bottleneck_path(x, 64)", "[N, 4, 4, 256]", "[N, 4, 4, 256]", 69_632 + 2 * (64 + 64 + 256)),
        ("y = residual(x, convnext_path)", "[N, 8, 8, 96]", "[N, 8, 8, 96]", 79_200),
    ],
)
def test_blocks_have_the_weights_that_papers_count(
    body: str, kind: str, result: str, count: int, tmp_path: Path
) -> None:
    assert weights(Trained(body, kind, result, tmp_path)) == count


@rows("9.63", "9.64")
def test_a_path_that_ends_in_relu_can_only_raise_its_input(tmp_path: Path) -> None:
    kind, x = "[N, 4, 4, 3]", drawn(4, 4, 4, 3)
    ends = Trained("y = x + (x |> conv2d(3, pad = 1) |> batch_norm |> relu)", kind, kind, tmp_path)
    assert (ends(x) >= x).all()
    original = Trained("y = x + resnet_path(x, 3)", kind, kind, tmp_path)
    assert (original(x) < x).any()


@rows("9.69", "9.70")
def test_linear_blocks_are_the_sum_of_all_paths_through_them(tmp_path: Path) -> None:
    net = Trained("y = x\nfor l in 0..4:\n    y = y + dense(y, 3, bias = false)", "[N, 3]", "[N, 3]", tmp_path)
    x, matrices = drawn(5, 3), list(net.params.values())
    paths = [
        np.linalg.multi_dot([x, *chosen, np.eye(3)])
        for count in range(5)
        for chosen in itertools.combinations(matrices, count)
    ]
    assert len(paths) == 2**4
    np.testing.assert_allclose(net(x), sum(paths), rtol=1e-12)
    gone = next(iter(net.params))  # a block without its path is left out of every one of them
    net.params[gone] = np.zeros((3, 3))
    y = x
    for matrix in matrices[1:]:
        y = y + y @ matrix
    np.testing.assert_allclose(net(x), y, rtol=1e-12)


GROWTH = """
model growth(x: f64[N], a: f64[], steps = 8) -> (euler: [N], runge: [N]):
    scan t in 0..steps:
        e[t, n] = e[t-1, n] + a * e[t-1, n] / steps
    start e[n] = x[n]
    scan t in 0..steps:
        h = 1 / steps
        old[n] = r[t-1, n]
        k[n] = a * old[n]
        l[n] = a * (old[n] + h / 2 * k[n])
        m[n] = a * (old[n] + h / 2 * l[n])
        o[n] = a * (old[n] + h * m[n])
        r[t, n] = old[n] + h / 6 * (k[n] + 2 * l[n] + 2 * m[n] + o[n])
    start r[n] = x[n]
    euler[n] = e[steps-1, n]
    runge[n] = r[steps-1, n]
"""


@rows("9.72", "9.73")
def test_steps_of_euler_grow_as_a_power_and_err_in_first_order(tmp_path: Path) -> None:
    x, a = np.array([1.0, -2.0]), np.array(0.7)
    errors: dict[str, list[float]] = {"euler": [], "runge": []}
    for steps in (8, 16, 32):
        found = model(GROWTH, tmp_path, steps=steps).forward({}, x, a)
        np.testing.assert_allclose(found["euler"], (1 + 0.7 / steps) ** steps * x, rtol=1e-12)
        for name, value in found.items():
            errors[name].append(float(np.abs(value - np.exp(0.7) * x).max()))
    for name, order in {"euler": 1, "runge": 4}.items():
        found_order = math.log2(errors[name][1] / errors[name][2])
        assert abs(found_order - order) < 0.15, name


@rows("9.71", "9.72")
def test_the_steps_of_an_equation_share_one_set_of_weights() -> None:
    spec = SPECS / "derivatives" / "euler_ode.dsl"
    counts = []
    for steps in (5, 20):
        checked = check_file(spec, {"steps": steps})
        inputs = build(choose(checked)[0], "inference").inputs
        counts.append(sum(math.prod(x.shape) for x in inputs.values() if x.role == "param"))
    assert counts[0] == counts[1] == 2 * 32 + 32 + 32 + 32 * 2


@rows("9.59", "9.65", "9.66", "X9.3")
@pytest.mark.parametrize(
    ("settings", "count"),
    [({}, 25_557_032), ({"d": 23}, 44_549_160), ({"basic": True, "b": 2, "c": 2, "d": 2, "e": 2}, 11_689_512)],
)
def test_residual_networks_have_the_parameters_that_are_published(settings: dict[str, object], count: int) -> None:
    spec = SPECS / "convolution" / "resnet50.dsl"
    assert len(spec.read_text(encoding="utf-8").splitlines()) <= 40
    unit = build(choose(check_file(spec, settings))[0], "inference")
    assert sum(math.prod(unit.inputs[name].shape) for name in unit.params) == count

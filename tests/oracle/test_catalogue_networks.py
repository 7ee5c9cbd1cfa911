"""Rows of the catalogue on convolutional networks (chapter 7): blocks, whole models, and what they are blind to."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from catalogue import SPECS, Array, model
from catalogue_layers import Layer, LayerTable, Tensors, batch_norm, conv, layers, normed
from click.testing import CliRunner
from marks import rows
from shipped import SMALL
from torch import nn
from torch.nn import functional as F

import dslc
from dslc.cli.main import cli
from dslc.library import entries

torch.set_num_threads(1)

every_backend = pytest.mark.parametrize("backend", ["numpy", "c", "triton"])


def pooled(x: torch.Tensor, window: int = 2, stride: int = 2) -> torch.Tensor:
    return F.max_pool2d(x.movedim(-1, 1), window, stride).movedim(1, -1)


def conv_block(x: torch.Tensor, p: Tensors, at: str, convs: int = 1, act: Any = F.relu) -> torch.Tensor:
    for n in range(convs):
        kernel = p[f"{at}conv2d.{n}.K"]
        x = act(conv(x, kernel, 1, kernel.shape[0] // 2) + p[f"{at}conv2d.{n}.b"])
    return pooled(x)


def conv_blocks(x: torch.Tensor, p: Tensors, count: int, convs: int = 1) -> torch.Tensor:
    for b in range(count):
        x = conv_block(x, p, f"conv_block.{b}.", convs)
    return x


def strided(x: torch.Tensor, p: Tensors) -> torch.Tensor:
    h = F.relu(conv(x, p["conv2d.K"], 2, 1) + p["conv2d.b"])
    return F.relu(conv(h, p["conv2d2.K"], 2, 1) + p["conv2d2.b"])


BLOCKS = layers(
    Layer("7.28", "[M, 6, 5, 3]", "[M, 3, 2, 4]", "y = conv_block(x, 4)", lambda x, p: conv_block(x, p, "conv_block.")),
    Layer("7.28 7-9.B10", "[M, 7, 6, 3]", "[M, 3, 3, 4]", "y = conv_block(x, 4, convs = 3, kernel = 5, act = tanh)",
          lambda x, p: conv_block(x, p, "conv_block.", 3, torch.tanh)),
    Layer("7.29 7.30", "[M, 9, 8, 2]", "[M, 1, 1, 8]",
          "h = x\nfor b in 0..3:\n    h = conv_block(h, 2 * 2^b, 2)\ny = h",
          lambda x, p: conv_blocks(x, p, 3, 2)),
    Layer("7.29", "[M, 9, 8, 2]", "[M, 3, 2, 4]",
          "y = x |> conv2d(2, stride = 2, pad = 1) |> relu |> conv2d(4, stride = 2, pad = 1) |> relu", strided),
    Layer("9.01", "[M, 2, 3, 7]", "[M, 2, 3, 7]", "y = local_response_norm(x, alpha = 0.3)",
          lambda x, p: F.local_response_norm(x.movedim(-1, 1), 5, 5 * 0.3, 0.75, 2.0).movedim(1, -1)),
    Layer("9.01", "[N, D]", "[N, D]", "y = local_response_norm(x, 4, 0.5, 0.6, 1.5)",
          lambda x, p: F.local_response_norm(x[..., None], 4, 4 * 0.5, 0.6, 1.5)[..., 0]),
)  # fmt: skip


def tokens(x: torch.Tensor) -> torch.Tensor:
    return (4 * torch.sigmoid(x.detach())).floor().long()


#: the layers of the book's libraries by the names that torch has for them
NAMED = layers(
    Layer("7-9.B10", "[N, D]", "[N, K]", "y = dense(x, 4)", lambda x, p: F.linear(x, p["dense.W"].mT, p["dense.b"])),
    Layer("7-9.B10", "[N, D]", "[N, D, E]",
          "id[n, d] = clip(i32(floor(4 * sigmoid(x[n, d]))), 0, 3)\ny = embedding(id, 4, 3)",
          lambda x, p: F.embedding(tokens(x), p["embedding.W"])),
    Layer("7-9.B10", "[M, 8, 3]", "[M, 6, 4]", "y = conv1d(x, 4)",
          lambda x, p: F.conv1d(x.mT, p["conv1d.K"].permute(2, 1, 0), p["conv1d.b"]).mT),
    Layer("7-9.B10", "[M, 5, 6, 3]", "[M, 5, 6, 4]", "y = conv2d(x, 4, kernel = 5, pad = 2)",
          lambda x, p: conv(x, p["conv2d.K"], 1, 2) + p["conv2d.b"]),
    Layer("7-9.B10", "[2, 4, 3, 5, 2]", "[2, 2, 1, 3, 3]", "y = conv3d(x, 3)",
          lambda x, p: F.conv3d(x.movedim(-1, 1), p["conv3d.K"].permute(4, 3, 0, 1, 2), p["conv3d.b"]).movedim(1, -1)),
    Layer("7-9.B10", "[M, 6, 5, 3]", "[M, 3, 2, 3]", "y = max_pool2d(x)", lambda x, p: pooled(x)),
    Layer("7-9.B10", "[N, D]", "[N, D]", "y = dropout(x, 0.4)", lambda x, p: x * (p["y"] != 0) / 0.6, lambda x, p: x),
    Layer("7-9.B10", "[M, 3, 2, K]", "[M, 3, 2, K]", "y = batch_norm(x)", batch_norm, normed),
    Layer("7-9.B10", "[N, D]", "[N, D]", "y = layer_norm(x)",
          lambda x, p: F.layer_norm(x, (5,), p["layer_norm.scale"], p["layer_norm.shift"])),
    Layer("7-9.B10", "[M, 3, 2, K]", "[M, 3, 2, K]", "y = group_norm(x, groups = 2)",
          lambda x, p: F.group_norm(x.movedim(-1, 1), 2, p["group_norm.scale"], p["group_norm.shift"]).movedim(1, -1)),
    Layer("7-9.B10", "[M, 3, 2, K]", "[M, 3, 2, K]", "y = instance_norm(x)",
          lambda x, p: F.instance_norm(x.movedim(-1, 1), None, None, p["instance_norm.scale"],
                                       p["instance_norm.shift"]).movedim(1, -1)),
    Layer("7-9.B10", "[N, D]", "[N, D]", "y = rms_norm(x)",
          lambda x, p: F.rms_norm(x, (5,), p["rms_norm.scale"], 1e-6)),
)  # fmt: skip


@pytest.mark.parametrize(
    ("table", "backend"),
    [
        *(
            pytest.param(BLOCKS, backend, marks=[m for x in BLOCKS for m in x.marks], id=f"blocks-{backend}")
            for backend in ("numpy", "c", "triton")
        ),
        # what other tables have on the other backends
        pytest.param(NAMED, "numpy", marks=[m for x in NAMED for m in x.marks], id="names"),
    ],
)
def test_blocks_have_the_values_and_gradients_of_torch(table: list[Any], backend: str, tmp_path: Path) -> None:
    LayerTable(x.values[0] for x in table).check(tmp_path, backend)


@rows("7-9.B10")
def test_the_library_has_the_layers_that_chapters_7_to_9_name() -> None:
    wanted = "conv1d conv2d conv3d max_pool2d embedding dense dropout batch_norm layer_norm group_norm instance_norm"
    wanted += " rms_norm unfold2d fold2d avg_pool2d flatten residual depthwise_conv2d"
    assert set(wanted.split()) <= {x.name for file in entries().values() for x in file}


@rows("7.28", "7.29")
def test_each_block_halves_an_image_and_no_block_takes_a_single_pixel() -> None:
    text = "model m(x: f32[N, {0}, {0}, 3]) -> y:\n    y = x\n    for b in 0..4:\n        y = conv_block(y, 4)\n"
    for side, left in ((16, 1), (31, 1), (32, 2), (100, 6)):
        shape = dslc.frontend.check_text(text.format(side)).program.models["m"].outputs[0].shape[1:3]
        assert [int(str(x)) for x in shape] == [left, left] == [side // 2**4] * 2
    (error,) = dslc.frontend.check_text(text.format(15)).errors
    assert "H >= 2" in error.message


# ---- whole models


def cnn(x: torch.Tensor, p: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The first activation map, the last one, and logits of specs/convolution/cnn.dsl."""
    h, first = x.reshape(len(x), 8, 8, 1), None
    for at in ("conv_block", "conv_block2"):
        h = F.relu(conv(h, p[f"{at}.conv2d.K"], 1, 1) + p[f"{at}.conv2d.b"])
        first = h if first is None else first
        h = pooled(h)
    assert first is not None
    return first, h, h.mean((1, 2)) @ p["dense.W"] + p["dense.b"]


def drawn(module: Any, seed: int = 0, scale: float = 0.5) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {k: scale * rng.standard_normal(shape[0]) for k, shape in module.PARAMS.items()}


def tensors(params: Mapping[str, Array]) -> dict[str, torch.Tensor]:
    return {k: torch.tensor(v, requires_grad=True) for k, v in params.items()}


def same_gradients(grads: Mapping[str, Any], wanted: Mapping[str, torch.Tensor]) -> None:
    assert grads.keys() == wanted.keys()
    for name, x in wanted.items():
        assert x.grad is not None
        np.testing.assert_allclose(grads[name], x.grad, rtol=1e-8, atol=1e-11, err_msg=name)


@rows("7.21", "7.35", "7.36", "7.38")
@every_backend
def test_the_prototype_of_a_classifier_is_that_of_torch(backend: str, tmp_path: Path) -> None:
    """Blocks, the mean over places, and a head; the map before it and the gradient of the logits by name."""
    module = model(Path("convolution/cnn.dsl"), tmp_path, backend, width=3)
    rng = np.random.default_rng(4)
    params, x, label = drawn(module), rng.standard_normal((4, 64)), rng.integers(0, 10, 4).astype(np.int32)
    p = tensors(params)
    _, h, logits = cnn(torch.tensor(x), p)
    found = module.forward(params, x)
    assert found["logits"].shape == (4, 10) and found["h"].shape == (4, 2, 2, 6)
    np.testing.assert_allclose(found["logits"], logits.detach(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["h"][:, :, :, 4], h.detach()[..., 4], rtol=1e-9, atol=1e-12)
    loss, grads = module.loss_and_grad(params, x, label)
    wanted = F.cross_entropy(logits, torch.tensor(label).long())
    wanted.backward()
    np.testing.assert_allclose(loss, wanted.detach(), rtol=1e-9)
    same_gradients(grads, p)
    share = torch.softmax(logits.detach(), 1).numpy() - np.eye(10)[label]
    np.testing.assert_allclose(grads["dense.b"], share.mean(0), rtol=1e-9, atol=1e-12)


@rows("7.36")
def test_all_gradients_of_the_classifier_are_slopes_of_its_loss(tmp_path: Path) -> None:
    module = model(Path("convolution/cnn.dsl"), tmp_path, width=2, classes=3)
    rng = np.random.default_rng(5)
    params, x, label = drawn(module, 1), rng.standard_normal((3, 64)), np.array([0, 2, 1], np.int32)
    _, grads = module.loss_and_grad(params, x, label)
    step = 1e-6
    for name, value in params.items():
        for at in np.ndindex(value.shape):
            ends = []
            for by in (step, -step):
                moved = value.copy()
                moved[at] += by
                ends.append(float(module.loss_and_grad({**params, name: moved}, x, label)[0]))
            assert abs((ends[0] - ends[1]) / (2 * step) - grads[name][at]) < 1e-7, (name, at)


SEEN = "    map = x |> conv2d(out, pad = 1) |> relu\n    expose map\n    y = max_pool2d(map)"


@rows("7.21")
@every_backend
def test_an_activation_map_is_read_by_its_name(backend: str, tmp_path: Path) -> None:
    text = (SPECS / "convolution/cnn.dsl").read_text(encoding="utf-8")
    seen = text.replace("    y = x |> conv2d(out, kernel = 3, pad = 1) |> relu |> max_pool2d(2)", SEEN)
    assert seen != text
    plain = model(text, tmp_path, backend, width=3)
    module = model(seen, tmp_path, backend, width=3)
    params, x = drawn(module), np.random.default_rng(6).standard_normal((2, 64))
    first, *_ = cnn(torch.tensor(x), tensors(params))
    found = module.forward(params, x)
    assert found.keys() - plain.forward(params, x).keys() == {"conv_block.map", "conv_block2.map"}
    image = found["conv_block.map"][0, :, :, 1]
    assert image.shape == (8, 8)
    np.testing.assert_allclose(image, first.detach()[0, :, :, 1], rtol=1e-9, atol=1e-12)
    if backend == "numpy":  # the command writes it, too
        module = dslc.compile(tmp_path / "row.dsl", width=3)
        module.save({k: v.astype("f4") for k, v in params.items()}, str(tmp_path / "w.safetensors"))
        np.savez(tmp_path / "x.npz", x=x.astype("f4"))
        words = ["run", tmp_path / "row.dsl", "--weights", tmp_path / "w.safetensors", "--inputs", tmp_path / "x.npz"]
        done = CliRunner().invoke(
            cli, [*map(str, words), "-o", str(tmp_path / "y.npz"), "--set", "width=3", "--backend", "numpy"]
        )
        assert done.exit_code == 0, done.output
        with np.load(tmp_path / "y.npz") as arrays:
            np.testing.assert_allclose(arrays["conv_block.map"][0, :, :, 1], image, rtol=1e-4, atol=1e-5)


OPEN = """
model open(image: f64[N, H, W, 3]) -> logits: [N, 5] where H >= 4, W >= 4:
    h = image
    for b in 0..2:
        h = conv_block(h, 2 * 2^b)
    logits = h |> global_avg_pool |> dense(5)

train open(image, label: i32[N] < 5):
    minimize cross_entropy(open(image), label)
    using sgd
"""


@rows("7.37", "7.35", "7.29")
@every_backend
def test_a_network_with_a_global_mean_takes_images_of_any_size(backend: str, tmp_path: Path) -> None:
    """One module and one set of weights for images of 16 and of 24 pixels, and for others."""
    module = model(OPEN, tmp_path, backend)
    params, rng = drawn(module, 2), np.random.default_rng(7)
    for height, width in ((16, 16), (9, 5)) if backend == "triton" else ((16, 16), (24, 24), (9, 5)):
        image, label = rng.standard_normal((2, height, width, 3)), np.array([1, 4], np.int32)
        p = tensors(params)
        h = conv_blocks(torch.tensor(image), p, 2)
        logits = h.mean((1, 2)) @ p["dense.W"] + p["dense.b"]
        assert h.shape[1:3] == (height // 4, width // 4)
        np.testing.assert_allclose(module.forward(params, image), logits.detach(), rtol=1e-9, atol=1e-12)
        F.cross_entropy(logits, torch.tensor(label).long()).backward()
        same_gradients(module.loss_and_grad(params, image, label)[1], p)
    with pytest.raises(ValueError, match="H >= 4"):
        module.forward(params, np.zeros((2, 3, 9, 3)))


@rows("7.35", "7.37")
def test_a_flat_head_has_weights_for_every_place(tmp_path: Path) -> None:
    text = OPEN.replace("f64[N, H, W, 3]", "f64[N, side, side, 3], side = 16").replace(" where H >= 4, W >= 4", "")
    flat = text.replace("global_avg_pool", "flatten")
    sizes = {}
    for name, spec in (("mean", text), ("flat", flat)):
        modules = [model(spec, tmp_path, side=side) for side in (16, 24)]
        sizes[name] = [sum(math.prod(x[0]) for x in m.PARAMS.values()) for m in modules]
    assert sizes["mean"][0] == sizes["mean"][1]
    assert [n - sizes["mean"][0] for n in sizes["flat"]] == [4 * 5 * (side**2 // 16 - 1) for side in (16, 24)]


def backbone(x: torch.Tensor, p: Mapping[str, torch.Tensor], at: str, stages: int, blocks: int) -> torch.Tensor:
    """That of specs/convolution/resnet.dsl at inference."""

    def part(x: torch.Tensor, where: str, stride: int = 1, n: str = "", act: bool = True) -> torch.Tensor:
        kernel = p[f"{where}conv2d{n}.K"]
        h = normed(conv(x, kernel, stride, kernel.shape[0] // 2), p, f"{where}batch_norm{n}.")
        return F.relu(h) if act else h

    h = part(x, at)
    for s in range(stages):
        if s:
            where = f"{at}down_block.{s}."
            skip = part(h, where, 2, "3", act=False)
            h = F.relu(skip + part(part(h, where, 2), where, 1, "2", act=False))
        for b in range(blocks):
            where = f"{at}basic_block.{s}.{b}."
            h = F.relu(h + part(part(h, where), where, 1, "2", act=False))
    return h.mean((1, 2))


HEAD = """
layer trunk(x: [N, 6, 6, 2]) -> y: [N, 4]:
    y = x |> conv_block(3) |> conv_block(4) |> global_avg_pool

model head(image: f64[N, 6, 6, 2]) -> logits: [N, 5]:
    use body = {} trunk()
    features = body(image)
    logits = features |> dense(3) |> relu |> dense(5)
    expose features

train head(image, label: i32[N] < 5):
    minimize cross_entropy(head(image), label)
    using sgd
"""


@rows("7.38")
@every_backend
@pytest.mark.parametrize("frozen", ["frozen", ""])
def test_a_backbone_gives_features_and_a_head_is_trained_on_them(frozen: str, backend: str, tmp_path: Path) -> None:
    """What the backbone gives is exposed by its name; where it is frozen, no gradient goes into it."""
    module = model(HEAD.format(frozen), tmp_path, backend)
    rng = np.random.default_rng(8)
    params, image, label = drawn(module, 3), rng.standard_normal((3, 6, 6, 2)), np.array([0, 3, 1], np.int32)
    p = tensors(params)
    h = conv_block(torch.tensor(image), p, "body.conv_block.")
    features = conv_block(h, p, "body.conv_block2.").mean((1, 2))
    hidden = F.relu(features @ p["dense.W"] + p["dense.b"])
    logits = hidden @ p["dense2.W"] + p["dense2.b"]
    found = module.forward(params, image)
    np.testing.assert_allclose(found["features"], features.detach(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["logits"], logits.detach(), rtol=1e-9, atol=1e-12)
    F.cross_entropy(logits, torch.tensor(label).long()).backward()
    trained = {k: x for k, x in p.items() if not (frozen and k.startswith("body."))}
    assert len(trained) == (4 if frozen else 8)
    same_gradients(module.loss_and_grad(params, image, label)[1], trained)


@rows("7.38")
def test_the_features_of_the_shipped_residual_network_are_those_of_torch(tmp_path: Path) -> None:
    module = model(Path("convolution/resnet.dsl"), tmp_path, width=2, classes=4)
    rng = np.random.default_rng(8)
    params, image = drawn(module, 3), rng.standard_normal((2, 8, 8, 3))
    state = {k: rng.uniform(0.5, 1.5, x[0]) for k, x in module.STATE.items()}
    p = {k: torch.tensor(v) for k, v in {**params, **state}.items()}
    features = backbone(torch.tensor(image), p, "backbone.", 3, 2)
    found = module.forward(params, image, state)
    np.testing.assert_allclose(found["features"], features, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found["logits"], features @ p["dense.W"] + p["dense.b"], rtol=1e-8, atol=1e-10)


# ---- models with a name (7.30, 9.01)


def reported(spec: str, *options: str) -> int:
    """Parameters as `dslc cost` counts them, which allocates none of them."""
    words = ["cost", str(SPECS / f"convolution/{spec}.dsl"), "--inference", "--json", *options]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    return int(json.loads(done.stdout)["parameters"])


@rows("7.30", "9.01", "X7.1")
@pytest.mark.parametrize(
    ("spec", "settings", "count"),
    [
        ("vgg", [], 138_357_544),
        ("vgg", ["late=4"], 143_667_240),
        ("vgg", ["late=2"], 133_047_848),
        ("vgg", ["early=1", "late=2"], 132_863_336),
        ("alexnet", [], 60_965_224),
        ("lenet", [], 62_006),
    ],
)
def test_networks_have_the_parameters_that_are_published(spec: str, settings: list[str], count: int) -> None:
    assert reported(spec, *(word for x in settings for word in ("--set", x))) == count


@rows("9.01")
def test_alexnet_in_one_tower_has_the_weights_that_two_towers_save() -> None:
    """Groups halve the inputs of the filters of three layers; most weights are in the dense layers anyway."""
    shapes = {k: x[0] for k, x in dslc.compile(SPECS / "convolution/alexnet.dsl", groups=1).PARAMS.items()}
    one = sum(math.prod(x) for x in shapes.values())
    saved = 256 * 25 * 48 + 384 * 9 * 192 + 256 * 9 * 192
    assert one - 60_965_224 == saved
    dense = sum(math.prod(x) for k, x in shapes.items() if k.startswith("dense"))
    assert dense == (9216 + 1) * 4096 + (4096 + 1) * 4096 + (4096 + 1) * 1000 > 0.9 * one


@rows("7.30")
def test_vgg_has_one_size_of_kernel_and_doubles_its_channels(tmp_path: Path) -> None:
    shapes = {k: x[0] for k, x in dslc.compile(SPECS / "convolution/vgg.dsl").PARAMS.items() if k.endswith("K")}
    assert {x[:2] for x in shapes.values()} == {(3, 3)}
    outs = [sorted({x[3] for k, x in shapes.items() if k.startswith(f"conv_block.{b}.")}) for b in range(5)]
    assert outs == [[64], [128], [256], [512], [512]]
    assert [sum(k.startswith(f"conv_block.{b}.") for k in shapes) for b in range(5)] == [2, 2, 3, 3, 3]


def vgg(x: torch.Tensor, p: Mapping[str, torch.Tensor]) -> torch.Tensor:
    for b, convs in enumerate((2, 2, 3)):
        x = conv_block(x, p, f"conv_block.{b}.", convs)
    h = x.flatten(1)
    for at in ("dense", "dense2"):
        h = F.relu(h @ p[f"{at}.W"] + p[f"{at}.b"])
    return h @ p["dense3.W"] + p["dense3.b"]


def in_groups(x: torch.Tensor, p: Mapping[str, torch.Tensor], at: str, pad: int) -> torch.Tensor:
    kernel = p[f"{at}.K"]  # [height, width, groups, channels in, channels out] of each group
    weight = kernel.permute(2, 4, 3, 0, 1).flatten(0, 1)
    return F.conv2d(x.movedim(-1, 1), weight, p[f"{at}.b"], padding=pad, groups=2).movedim(1, -1)


def alexnet(x: torch.Tensor, p: Mapping[str, torch.Tensor]) -> torch.Tensor:
    def quenched(h: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(F.local_response_norm(F.relu(h).movedim(-1, 1), 5, 5e-4, 0.75, 2.0), 3, 2).movedim(1, -1)

    h = quenched(conv(x, p["conv2d.K"], 4) + p["conv2d.b"])
    h = quenched(in_groups(h, p, "group_conv2d", 2))
    h = F.relu(conv(h, p["conv2d2.K"], 1, 1) + p["conv2d2.b"])
    h = F.relu(in_groups(h, p, "group_conv2d2", 1))
    h = pooled(F.relu(in_groups(h, p, "group_conv2d3", 1)), 3).flatten(1)
    for at in ("dense", "dense2"):
        h = F.relu(h @ p[f"{at}.W"] + p[f"{at}.b"])
    return h @ p["dense3.W"] + p["dense3.b"]


NETWORKS = {"vgg": vgg, "alexnet": alexnet}


@rows("7.30", "9.01")
@pytest.mark.parametrize(
    ("name", "backend"),
    [
        *itertools.product(NETWORKS, ("numpy", "c")),
        ("vgg", "triton"),
        pytest.param("alexnet", "triton", marks=pytest.mark.long),  # its image has 67 pixels
    ],
)
def test_small_ones_have_the_values_and_gradients_of_torch(name: str, backend: str, tmp_path: Path) -> None:
    module = model(Path(f"convolution/{name}.dsl"), tmp_path, backend, **SMALL[name], drop=0.0)
    side = SMALL[name]["side"]
    rng = np.random.default_rng(9)
    params, image, label = drawn(module, 5, 0.2), rng.standard_normal((2, side, side, 3)), np.array([1, 4], np.int32)
    p = tensors(params)
    logits = NETWORKS[name](torch.tensor(image), p)
    np.testing.assert_allclose(module.forward(params, image), logits.detach(), rtol=1e-9, atol=1e-12)
    F.cross_entropy(logits, torch.tensor(label).long()).backward()
    same_gradients(module.loss_and_grad(params, image, label)[1], p)


# ---- the tutorials of the exercises (X7.1, X7.2)


class Net(nn.Module):
    """The network of the tutorial, as it is written for torch."""

    def __init__(self, channels: int, kernel: int, pad: int, flat: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 6, kernel, padding=pad)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, kernel, padding=pad)
        self.fc1, self.fc2, self.fc3 = nn.Linear(flat, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = x.permute(0, 2, 3, 1).flatten(1)  # channels last, as dslc flattens
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))  # type: ignore[no-any-return]


def twin(params: Mapping[str, Array], **sizes: int) -> Net:
    net = Net(**sizes).double()
    names = {"conv1": "conv2d", "conv2": "conv2d2", "fc1": "dense", "fc2": "dense2", "fc3": "dense3"}
    with torch.no_grad():
        for there, here in names.items():
            layer = getattr(net, there)
            if there.startswith("conv"):
                layer.weight[:] = torch.tensor(params[f"{here}.K"]).permute(3, 2, 0, 1)
            else:
                layer.weight[:] = torch.tensor(params[f"{here}.W"]).mT
            layer.bias[:] = torch.tensor(params[f"{here}.b"])
    return net


@rows("X7.1", "X7.2")
@pytest.mark.parametrize(
    ("backend", "side", "channels", "pad"),
    [("numpy", 16, 3, 0), ("c", 16, 3, 0), ("numpy", 8, 1, 2), ("triton", 8, 1, 2)],
)
def test_ten_steps_of_the_tutorial_are_those_of_torch(
    backend: str, side: int, channels: int, pad: int, tmp_path: Path
) -> None:
    """Forward, gradients and ten steps of SGD with momentum, on each backend as in the other framework."""
    module = model(Path("convolution/lenet.dsl"), tmp_path, backend, side=side, channels=channels, pad=pad)
    rng = np.random.default_rng(10)
    if channels == 1:
        with np.load(SPECS / "data/digits.npz") as digits:
            images, labels = digits["x"][:20].reshape(-1, 8, 8, 1).astype(float), digits["label"][:20]
    else:
        images, labels = rng.uniform(0, 1, (20, side, side, 3)), rng.integers(0, 10, 20).astype(np.int32)
    params = {k: np.array(v) for k, v in module.init(0).items()}
    net = twin(params, channels=channels, kernel=5, pad=pad, flat=params["dense.W"].shape[0])
    sgd = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    opt = module.init_opt(params)
    for step in range(10):
        part = slice(2 * step, 2 * step + 2)
        x, label = images[part], labels[part].astype(np.int32)
        logits = net(torch.tensor(x).movedim(-1, 1))
        loss = F.cross_entropy(logits, torch.tensor(label).long())
        if step == 0:
            np.testing.assert_allclose(module.forward(params, x), logits.detach(), rtol=1e-9, atol=1e-12)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        params, opt = module.train_step(params, opt, x, label)
        np.testing.assert_allclose(float(opt["loss"]), float(loss.detach()), rtol=1e-8)
    np.testing.assert_allclose(params["conv2d.K"], net.conv1.weight.detach().permute(2, 3, 1, 0), rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(params["dense3.W"], net.fc3.weight.detach().mT, rtol=1e-7, atol=1e-10)

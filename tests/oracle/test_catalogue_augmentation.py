"""Rows of the catalogue on data augmentation (chapter 9): images turned, zoomed, mirrored, mixed; draws."""

from __future__ import annotations

import itertools
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from catalogue import SPECS, Array, Case, Table, cases, check, compiled, given, model, simplex
from catalogue_layers import Trained
from marks import rows
from scipy import ndimage
from torch.nn import functional as F

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"
torch.set_num_threads(1)


def seen(x: torch.Tensor, row: torch.Tensor, column: torch.Tensor, mode: str = "bilinear") -> torch.Tensor:
    """Images at places between their pixels, by torch; 0 outside."""
    high, wide = x.shape[1:3]
    grid = torch.stack((2 * column / (wide - 1) - 1, 2 * row / (high - 1) - 1), -1)
    padded = {"mode": mode, "padding_mode": "zeros", "align_corners": True}
    return F.grid_sample(x.movedim(-1, 1), grid, **padded).movedim(1, -1)


def centred(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, float, float]:
    high, wide = x.shape[1:3]
    down = torch.arange(high, dtype=x.dtype)[None, :, None].expand(len(x), high, wide) - (high - 1) / 2
    right = torch.arange(wide, dtype=x.dtype)[None, None].expand(len(x), high, wide) - (wide - 1) / 2
    return down, right, (high - 1) / 2, (wide - 1) / 2


def turned(x: torch.Tensor, angle: torch.Tensor, mode: str = "bilinear") -> torch.Tensor:
    down, right, middle, centre = centred(x)
    c, s = torch.cos(angle)[:, None, None], torch.sin(angle)[:, None, None]
    return seen(x, middle + c * down + s * right, centre - s * down + c * right, mode)


def zoomed(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    down, right, middle, centre = centred(x)
    f = factor[:, None, None]
    return seen(x, middle + down / f, centre + right / f)


def mixed(x: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    s = share.reshape(-1, *[1] * (x.ndim - 1))
    return s * x + (1 - s) * x.roll(-1, 0)


def patched(x: torch.Tensor, top: torch.Tensor, left: torch.Tensor) -> torch.Tensor:
    h, w = torch.arange(x.shape[1])[:, None], torch.arange(x.shape[2])
    t, u = top[:, None, None], left[:, None, None]
    inside = (h >= t) & (h < t + 2) & (w >= u) & (w < u + 2)
    return torch.where(inside[..., None], x, x.roll(-1, 0))


IMAGES, KIND = {"x": "[3, 5, 4, 2]"}, "[3, 5, 4, 2]"
ANGLES = given(0.3, -1.1, 2.5)
PLACES = {"top": "i32[3] < 4", "left": "i32[3] < 3"}

CHANGES = cases(
    Case("9.19 9.18", {**IMAGES, "angle": "[3]"}, KIND, "y = rotate(x, angle)", turned, {"angle": ANGLES}),
    Case("9.19", {**IMAGES, "angle": "[3]"}, KIND, "y = rotate(x, angle, nearest = true)",
         lambda x, angle: turned(x, angle, "nearest") + 0 * angle.sum(), {"angle": ANGLES}),
    Case("9.20 9.18", {**IMAGES, "factor": "[3]"}, KIND, "y = zoom(x, factor)", zoomed,
         {"factor": given(0.7, 1.3, 2.1)}),
    Case("9.19 9.20", {**IMAGES, "row": "[3, 2, 3]", "column": "[3, 2, 3]"}, "[3, 2, 3, 2]",
         "y = resample(x, row, column)", seen),
    Case("9.21", IMAGES, KIND, "y = mirror(x)", lambda x: x.flip(2)),
    Case("9.22 9.18", {**IMAGES, "by": "[3]"}, KIND, "y = brightness(x, by)", lambda x, b: x + b[:, None, None, None]),
    Case("9.23 9.18", {**IMAGES, "factor": "[3]"}, KIND, "y = contrast(x, factor)",
         lambda x, f: (m := x.mean((1, 2, 3), keepdim=True)) + f[:, None, None, None] * (x - m)),
    Case("9.26", {**IMAGES, "share": "[3]"}, KIND, "y = mixup(x, share)", mixed),
    Case("9.26", {"t": "[N, K]", "share": "[N]"}, "[N, K]", "y = mixup(t, share)", mixed, {"t": simplex}),
    Case("9.27", {**IMAGES, **PLACES}, KIND, "y = cutmix(x, top, left, side = 2)", patched),
    Case("9.26 9.27", {"z": "[N, K]", "t": "[N, K]", "share": "[N]"}, "[]",
         "y = soft_cross_entropy(z, mixup(t, share))",
         lambda z, t, s: (s * F.cross_entropy(z, t, reduction="none")
                          + (1 - s) * F.cross_entropy(z, t.roll(-1, 0), reduction="none")).mean(), {"t": simplex}),
)  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
def test_changes_of_images_are_those_of_torch(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("backend", ["c", "triton"])
@pytest.mark.parametrize("table", [pytest.param(CHANGES, marks=[m for x in CHANGES for m in x.marks], id="changes")])
def test_changes_of_images_are_the_same_everywhere(table: list[object], backend: str, tmp_path: Path) -> None:
    made = Table(x.values[0] for x in table)  # type: ignore[attr-defined]
    with np.errstate(all="ignore"):  # Triton's interpreter warns of what branches not taken hold
        found = model(made.text(), tmp_path, backend).forward({}, *made.arguments())
    made.compare(found)


# ---- properties


def images(*shape: int) -> Array:
    return np.random.default_rng(list(shape)).standard_normal(shape)


CHANGED = """
model changed(x: f64[N, H, W, C], c: f64[N]) -> (
    turned: [N, H, W, C], near: [N, H, W, C], zoomed: [N, H, W, C], lighter: [N, H, W, C], stronger: [N, H, W, C],
    twice: [N, H, W, C]
):
    turned = rotate(x, c)
    near = rotate(x, c, nearest = true)
    zoomed = zoom(x, exp(c))
    lighter = brightness(x, c)
    stronger = contrast(x, exp(c))
    twice = mirror(mirror(x))
"""


@rows("9.18", "9.19", "9.20", "9.21", "9.22", "9.23")
def test_every_change_has_a_parameter_that_changes_nothing(tmp_path: Path) -> None:
    module, x = compiled(CHANGED, tmp_path), images(3, 6, 6, 2)
    same, other = (module.forward({}, x, np.full(3, c)) for c in (0.0, 0.4))
    for name, value in same.items():
        np.testing.assert_allclose(value, x, rtol=1e-12, atol=1e-12, err_msg=name)
        assert name == "twice" or np.abs(other[name] - x).max() > 0.1, name


@rows("9.19")
def test_a_quarter_turn_moves_pixels_and_any_other_is_that_of_scipy(tmp_path: Path) -> None:
    module = compiled(CHANGED, tmp_path)
    x = images(2, 5, 5, 1)
    quarter = module.forward({}, x, np.full(2, np.pi / 2))
    np.testing.assert_allclose(quarter["near"], np.rot90(x, 1, (1, 2)), atol=1e-12)
    np.testing.assert_allclose(quarter["turned"], np.rot90(x, 1, (1, 2)), atol=1e-12)
    # inside of the border, where scipy fades to 0 in another way
    smooth = ndimage.gaussian_filter(images(1, 21, 21, 1), (0, 2, 2, 0))
    found = module.forward({}, smooth, np.array([np.radians(10.0)]))["turned"]
    inside = np.s_[:, 4:-4, 4:-4]
    with_and_against = [ndimage.rotate(smooth, a, (1, 2), reshape=False, order=1) for a in (10.0, -10.0)]
    errors = [float(np.abs(found - x)[inside].max()) for x in with_and_against]
    assert errors[0] < 1e-12 < 1e-2 < errors[1]


@rows("9.26")
def test_mixed_labels_are_distributions_and_shares_0_and_1_mix_nothing(tmp_path: Path) -> None:
    module = compiled("model m(t: f64[N, 3], s: f64[N]) -> y: [N, 3]:\n    y = mixup(t, s)\n", tmp_path)
    hot = np.eye(3)[[0, 2, 1, 1]]
    found = module.forward({}, hot, np.array([1.0, 0.0, 0.3, 0.8]))
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-15)
    np.testing.assert_array_equal(found[:2], [hot[0], hot[2]])


@rows("9.27")
def test_a_patch_of_32_pixels_comes_from_one_image_and_all_else_from_the_next(tmp_path: Path) -> None:
    kind = "[N, 64, 64, 3]"
    text = f"model m(x: f64{kind}, top: i32[N] < 33, left: i32[N] < 33) -> y: {kind}:\n"
    text += "    y = cutmix(x, top, left, side = 32)\n"
    x, top, left = images(2, 64, 64, 3), np.array([5, 32]), np.array([0, 20])
    y = compiled(text, tmp_path).forward({}, x, top, left)
    own = (y == x).all(3)
    for n in range(2):
        assert own[n].sum() == 32 * 32  # the same pixels in all channels
        patch = np.s_[n, top[n] : top[n] + 32, left[n] : left[n] + 32]
        np.testing.assert_array_equal(y[patch], x[patch])
        np.testing.assert_array_equal(y[n][~own[n]], x[1 - n][~own[n]])


# ---- draws


@rows("9.18", "9.25")
def test_changes_are_drawn_anew_in_training_and_none_is_made_at_inference(tmp_path: Path) -> None:
    x = images(12, 6, 6, 2)
    for call in (
        "random_flip(x)", "random_shift(x)", "random_rotation(x, 20.0)", "cutout(x)", "rand_augment(x)",
        "gaussian_noise(x)",
    ):  # fmt: skip
        layer = Trained(f"y = {call}", "[N, 6, 6, 2]", "[N, 6, 6, 2]", tmp_path)
        first = layer(x, seed=1)
        np.testing.assert_array_equal(layer(x, seed=1), first)
        assert np.abs(layer(x, seed=2) - first).max() > 1e-3, call
        np.testing.assert_array_equal(layer.used(x), x)
        assert len(np.unique(np.abs(first - x).sum((1, 2, 3)).round(6))) > 1, call  # images are changed each by itself


@rows("9.25")
def test_augmentation_inside_of_a_model_leaves_inference_as_it_is(tmp_path: Path) -> None:
    text = (SPECS / "convolution" / "augmented.dsl").read_text(encoding="utf-8")
    layers = "|> random_flip |> random_shift |> cutout |> gaussian_noise(0.05)"
    assert layers in text
    x = np.abs(images(3, 64))
    modules = [model(t, tmp_path) for t in (text, text.replace(layers, ""))]
    params = modules[0].init()
    np.testing.assert_array_equal(modules[0].forward(params, x), modules[1].forward(params, x))


@rows("9.21")
@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
def test_a_flip_comes_to_its_share_of_the_images(backend: str, tmp_path: Path) -> None:
    kind = "[N, 2, 3, 1]"
    layer = Trained("y = random_flip(x, p = 0.3)", kind, kind, tmp_path, backend)
    x, c = images(2000, 2, 3, 1), images(2000, 2, 3, 1) + 1
    y = layer(x, c, seed=4)
    flipped = (y == x[:, :, ::-1]).all((1, 2, 3))
    assert abs(flipped.mean() - 0.3) < 5 * math.sqrt(0.21 / 2000)
    np.testing.assert_array_equal(y[~flipped], x[~flipped])
    np.testing.assert_allclose(layer.grads["x"], np.where(flipped[:, None, None, None], c[:, :, ::-1], c))


@rows("9.18", "9.19")
def test_angles_are_drawn_between_both_ends(tmp_path: Path) -> None:
    """A ramp from left to right tells the angle by its slope in the middle."""
    kind = "[N, 9, 9, 1]"
    ramp = np.tile((np.arange(9.0) - 4)[None, None, :, None], (400, 9, 1, 1))
    y = Trained("y = random_rotation(x, 20.0)", kind, kind, tmp_path)(ramp, seed=1)
    sine, cosine = y[:, 4, 4, 0] - y[:, 5, 4, 0], y[:, 4, 5, 0] - y[:, 4, 4, 0]
    degrees = np.degrees(np.arctan2(sine, cosine))
    np.testing.assert_allclose(np.hypot(sine, cosine), 1, rtol=1e-9)
    assert -20 < degrees.min() < -18 and 18 < degrees.max() < 20
    assert abs(degrees.mean()) < 5 * 40 / math.sqrt(12 * 400)


@rows("9.24")
@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
def test_rand_augment_is_some_sequence_of_its_changes(backend: str, tmp_path: Path) -> None:
    kind, x = "[N, 6, 6, 2]", images(4, 6, 6, 2)
    layer = Trained("y = rand_augment(x, count = 2, magnitude = 0.3)", kind, kind, tmp_path, backend)
    changes = [
        lambda z, s: turned(z, s), lambda z, s: zoomed(z, torch.exp(s)), lambda z, s: z + s[:, None, None, None],
        lambda z, s: (m := z.mean((1, 2, 3), keepdim=True)) + torch.exp(s)[:, None, None, None] * (z - m),
    ]  # fmt: skip
    kinds = []
    for seed in range(6 if backend != "triton" else 2):
        with np.errstate(all="ignore"):  # Triton's interpreter warns of what branches not taken hold
            y = layer(x, seed=seed)
        found = []
        for a, b in itertools.product(range(4), repeat=2):
            every = []
            for s, t in itertools.product((-0.3, 0.3), repeat=2):
                sign, other = (torch.full((4,), z, dtype=torch.float64) for z in (s, t))
                every.append(changes[b](changes[a](torch.tensor(x), sign), other).numpy())
            near = [min(np.abs(y[n] - each[n]).max() for each in every) for n in range(4)]
            if max(near) < 1e-6:
                found.append((a, b))
        assert found, "the result is that of no two changes"
        kinds.append(found[0])
    assert backend == "triton" or len(set(kinds)) > 1


@rows("9.24")
def test_rand_augment_of_magnitude_0_is_the_identity(tmp_path: Path) -> None:
    kind, x = "[N, 6, 6, 2]", images(4, 6, 6, 2)
    layer = Trained("y = rand_augment(x, count = 3, magnitude = 0.0)", kind, kind, tmp_path)
    np.testing.assert_allclose(layer(x, seed=3), x, rtol=1e-12)


BOX = """
layer flip_and_turn(x: i32[N, 3, H, W] < 256) -> y: [N, 3, H, W]:
    image[n, h, w, c] = float(x[n, c, h, w])
    z = image |> random_flip(0.5) |> random_rotation(10.0)
    y[n, c, h, w] = z[n, h, w, c]

model box(x: i32[N, 3, H, W] < 256) -> y: [N, 3, H, W]:
    param unused: [] = 0
    y[n, c, h, w] = flip_and_turn(x)[n, c, h, w] + unused

train box(x):
    y = box(x)
    expose y
    minimize mean(y)
    using sgd(lr = 0.1)
"""


@rows("7-9.B4")
@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
def test_whole_numbers_are_flipped_and_turned_by_at_most_ten_degrees(backend: str, tmp_path: Path) -> None:
    module = model(BOX, tmp_path, backend)
    x = np.random.default_rng(0).integers(0, 256, (8, 3, 12, 12)).astype(np.int32)
    params = module.init()
    outputs = [np.asarray(module.loss_grad_metrics(params, x, seed=seed)[2]["y"]) for seed in (1, 1, 2)]
    assert outputs[0].shape == x.shape and outputs[0].min() >= 0 and outputs[0].max() <= 255
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert np.abs(outputs[0] - outputs[2]).max() > 1
    np.testing.assert_array_equal(module.forward(params, x), x)
    # the middle of an image, or of its mirror image, turned by the angle that fits best
    last = torch.tensor(x[:1], dtype=torch.float64).permute(0, 2, 3, 1)
    angles = torch.linspace(-math.radians(10), math.radians(10), 2001, dtype=torch.float64)
    tried = [turned(z.expand(2001, -1, -1, -1), angles).permute(0, 3, 1, 2).numpy() for z in (last, last.flip(2))]
    assert min(np.abs(outputs[0][:1] - y).max((1, 2, 3)).min() for y in tried) < 0.5

"""Rows of the catalogue on normalisation (chapter 9): batch, layer, group, instance and RMS norms, on all backends."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from catalogue import Array
from catalogue_layers import Layer, LayerTable, Result, Tensors, Trained, batch_norm, layers, normed
from marks import rows
from properties import difference, invariance, scaling, shown, translation
from torch.nn import functional as F

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"
torch.set_num_threads(1)


def placed(x: torch.Tensor, p: Tensors) -> Result:
    """relu(BN(x W)), the bias of W left out."""
    y, states = batch_norm(x @ p["dense.W"], p)
    return F.relu(y), states


def merged(x: torch.Tensor, p: Tensors) -> Result:
    """Statistics of all data so far: those of the states and the batch put together."""
    y, _ = batch_norm(x, p)
    count, mean, var = (p[f"batch_norm.{name}"] for name in ("count", "running_mean", "running_var"))
    x, n = x.detach(), len(x)
    total = count + n
    centre = (count * mean + x.sum(0)) / total
    second = (count * (var + mean**2) + (x**2).sum(0)) / total
    return y, {
        "batch_norm.count": total, "batch_norm.running_mean": centre, "batch_norm.running_var": second - centre**2
    }  # fmt: skip


def group_norm(x: torch.Tensor, p: Tensors, groups: int) -> torch.Tensor:
    return F.group_norm(x.movedim(-1, 1), groups, p["group_norm.scale"], p["group_norm.shift"]).movedim(1, -1)


def rms_norm(x: torch.Tensor, p: Tensors) -> torch.Tensor:
    return F.rms_norm(x, x.shape[-1:], p["rms_norm.scale"], 1e-6)


NORMS = layers(
    Layer("9.41 9.47", "[N, D]", "[N, D]", "y = batch_norm(x)", batch_norm, normed),
    Layer("9.45", "[M, 3, 2, K]", "[M, 3, 2, K]", "y = batch_norm(x)", batch_norm, normed),
    Layer("9.45", "[M, 5, K]", "[M, 5, K]", "y = batch_norm(x)", batch_norm, normed),
    Layer("9.47", "[N, D]", "[N, D]", 'y = batch_norm(x, statistics = "fixed")', normed),
    Layer("9.46", "[N, D]", "[N, D]", 'y = batch_norm(x, statistics = "dataset")', merged, normed),
    Layer("9.43", "[N, D]", "[N, K]", "y = x |> dense(4, bias = false) |> batch_norm |> relu", placed,
          lambda x, p: F.relu(normed(x @ p["dense.W"], p))),
    Layer("9.51", "[N, 3, 2, K]", "[N, 3, 2, K]", "y = group_norm(x, groups = 1)",
          lambda x, p: group_norm(x, p, 1)),
    Layer("9.51", "[N, 3, 2, K]", "[N, 3, 2, K]", "y = layer_norm(x)",
          lambda x, p: F.layer_norm(x, (4,), p["layer_norm.scale"], p["layer_norm.shift"])),
    Layer("9.52 7-9.B9", "[N, 3, 2, K]", "[N, 3, 2, K]", "y = example_norm(x)",
          lambda x, p: F.layer_norm(x, (3, 2, 4), p["example_norm.scale"], p["example_norm.shift"])),
    Layer("9.53", "[N, 3, 2, K]", "[N, 3, 2, K]", "y = group_norm(x, groups = 2)",
          lambda x, p: group_norm(x, p, 2)),
    Layer("9.53", "[N, 5, K]", "[N, 5, K]", "y = group_norm(x, groups = 2)", lambda x, p: group_norm(x, p, 2)),
    Layer("9.54", "[N, 3, 2, K]", "[N, 3, 2, K]", "y = instance_norm(x)",
          lambda x, p: F.instance_norm(x.movedim(-1, 1), weight=p["instance_norm.scale"],
                                       bias=p["instance_norm.shift"]).movedim(1, -1)),
    Layer("9.55", "[N, D]", "[N, D]", "y = rms_norm(x)", rms_norm),
)  # fmt: skip


@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
@pytest.mark.parametrize("table", [pytest.param(NORMS, marks=[m for x in NORMS for m in x.marks], id="norms")])
def test_norms_have_the_values_gradients_and_states_of_torch(table: list[object], backend: str, tmp_path: Path) -> None:
    LayerTable(x.values[0] for x in table).check(tmp_path, backend)  # type: ignore[attr-defined]


# ---- properties


def drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape) * 2 + 1


def with_random_scales(layer: Trained) -> Trained:
    for n, (name, value) in enumerate(layer.params.items()):
        layer.params[name] = drawn(*np.shape(value), seed=n)
    return layer


@rows("9.41")
def test_batch_norm_sets_mean_and_variance_of_each_column(tmp_path: Path) -> None:
    norm = with_random_scales(Trained("y = batch_norm(x)", "[N, 5]", "[N, 5]", tmp_path))
    x = drawn(40, 5)
    y, scale, shift = norm(x), norm.params["batch_norm.scale"], norm.params["batch_norm.shift"]
    assert sum(p.size for p in norm.params.values()) == 2 * 5
    np.testing.assert_allclose(y.mean(0), shift, atol=1e-12)
    np.testing.assert_allclose(y.var(0), scale**2 * x.var(0) / (x.var(0) + 1e-5), rtol=1e-12)


@rows("9.41", "9.43")
def test_a_bias_before_batch_norm_changes_nothing(tmp_path: Path) -> None:
    norm = with_random_scales(Trained("y = x |> dense(4) |> batch_norm |> relu", "[N, 5]", "[N, 4]", tmp_path))
    x, c = drawn(40, 5), drawn(40, 4, seed=1)
    first = norm(x, c)
    assert np.abs(norm.grads["dense.b"]).max() < 1e-12 < 1e-3 < np.abs(norm.grads["dense.W"]).max()
    norm.params["dense.b"] = norm.params["dense.b"] + 3.0
    np.testing.assert_allclose(norm(x, c), first, atol=1e-12)


@rows("9.41")
def test_batch_norm_is_invariant_to_shifts_of_columns_and_layer_norm_is_not(tmp_path: Path) -> None:
    batch = Trained("y = batch_norm(x, eps = 1e-12)", "[N, 5]", "[N, 5]", tmp_path)
    layer = Trained("y = layer_norm(x, eps = 1e-12)", "[N, 5]", "[N, 5]", tmp_path)
    x = drawn(40, 5)
    by = np.arange(1.0, 6.0)
    for action in (translation(by), lambda x: by * x):
        shown(lambda f, action=action: invariance(f, x, action), batch, layer)  # type: ignore[misc]


@rows("9.42")
def test_a_constant_column_is_normalised_to_the_shift(tmp_path: Path) -> None:
    norm = with_random_scales(Trained("y = batch_norm(x)", "[N, 3]", "[N, 3]", tmp_path))
    x = drawn(8, 3)
    x[:, 1] = 0.5
    y = norm(x, drawn(8, 3, seed=1))
    np.testing.assert_array_equal(y[:, 1], norm.params["batch_norm.shift"][1])
    assert all(np.isfinite(slope).all() for slope in norm.grads.values())


@rows("9.46")
def test_one_pass_over_the_data_gives_the_statistics_of_the_data_set(tmp_path: Path) -> None:
    norm = Trained('y = batch_norm(x, statistics = "dataset")', "[N, 2, 3]", "[N, 2, 3]", tmp_path)
    data = drawn(50, 2, 3)
    for batch in np.split(data, [16, 32, 48]):  # the last one is shorter
        norm(batch)
        norm.state = norm.after
    assert norm.state is not None
    flat = data.reshape(-1, 3)
    np.testing.assert_allclose(norm.state["batch_norm.running_mean"], flat.mean(0), rtol=1e-12)
    np.testing.assert_allclose(norm.state["batch_norm.running_var"], flat.var(0), rtol=1e-12)
    np.testing.assert_allclose(norm.used(data), (data - flat.mean(0)) / np.sqrt(flat.var(0) + 1e-5), rtol=1e-12)


@rows("9.47")
def test_a_running_mean_approaches_a_constant_one_as_a_power(tmp_path: Path) -> None:
    norm = Trained("y = batch_norm(x, momentum = 0.8)", "[N, 3]", "[N, 3]", tmp_path)
    x = drawn(16, 3)
    for t in range(1, 8):
        norm(x)
        norm.state = norm.after
        np.testing.assert_allclose(norm.after["batch_norm.running_mean"], (1 - 0.8**t) * x.mean(0), rtol=1e-12)
    np.testing.assert_allclose(norm.used(x)[:1], norm.used(x[:1]), rtol=1e-14)  # no matter what else is in the batch
    assert np.abs(norm(x)[:1] - norm(x[:4])[:1]).max() > 1e-3  # in training it matters


@rows("9.48")
def test_batch_norm_of_one_example_is_its_shift(tmp_path: Path) -> None:
    norm = with_random_scales(Trained("y = batch_norm(x)", "[N, 3]", "[N, 3]", tmp_path))
    np.testing.assert_array_equal(norm(drawn(1, 3)), norm.params["batch_norm.shift"][None])


@rows("9.45", "9.51")
def test_norms_of_images_are_those_of_tables_of_pixels(tmp_path: Path) -> None:
    x = drawn(6, 3, 2, 4)
    for name in ("batch_norm", "layer_norm"):
        image = with_random_scales(Trained(f"y = {name}(x)", "[N, 3, 2, 4]", "[N, 3, 2, 4]", tmp_path))
        table = with_random_scales(Trained(f"y = {name}(x)", "[N, 4]", "[N, 4]", tmp_path))
        np.testing.assert_allclose(image(x).reshape(-1, 4), table(x.reshape(-1, 4)), rtol=1e-12)


@rows("9.50", "9.51", "9.52", "9.53", "9.54", "9.55")
def test_norms_of_single_examples_see_no_batch(tmp_path: Path) -> None:
    x = drawn(6, 3, 2, 4)
    control = Trained("y = batch_norm(x)", "[N, 3, 2, 4]", "[N, 3, 2, 4]", tmp_path)
    for call in ("layer_norm(x)", "example_norm(x)", "group_norm(x, groups = 2)", "instance_norm(x)", "rms_norm(x)"):
        norm = Trained(f"y = {call}", "[N, 3, 2, 4]", "[N, 3, 2, 4]", tmp_path)
        shown(lambda f: difference(f(x)[:1], f(x[:1])), norm, control)
        np.testing.assert_array_equal(norm(x), norm.used(x))  # the same in training and at inference


@rows("9.52", "7-9.B9")
def test_the_norm_of_an_example_has_a_scale_and_a_shift_for_each_entry(tmp_path: Path) -> None:
    norm = Trained("y = example_norm(x)", "[N, 32, 32, 3]", "[N, 32, 32, 3]", tmp_path)
    assert sum(p.size for p in norm.params.values()) == 2 * 3 * 32 * 32 == 6144


@rows("9.53", "9.54")
def test_group_norm_lies_between_that_of_an_example_and_that_of_a_channel(tmp_path: Path) -> None:
    kind, x = "[N, 3, 2, 4]", drawn(6, 3, 2, 4)
    norms = {
        call: Trained(f"y = {call}", kind, kind, tmp_path)(x)
        for call in ("group_norm(x, groups = 1)", "group_norm(x, groups = 4)", "example_norm(x)", "instance_norm(x)")
    }
    one, four, example, instance = norms.values()
    np.testing.assert_allclose(one, example, rtol=1e-12)
    np.testing.assert_allclose(four, instance, rtol=1e-12)
    assert np.abs(one - four).max() > 1e-2


@rows("9.55")
def test_rms_norm_is_layer_norm_of_centred_rows_and_ignores_their_length(tmp_path: Path) -> None:
    rms = with_random_scales(Trained("y = rms_norm(x, eps = 1e-12)", "[N, 5]", "[N, 5]", tmp_path))
    layer = Trained("y = layer_norm(x, eps = 1e-12)", "[N, 5]", "[N, 5]", tmp_path)
    layer.params["layer_norm.scale"] = rms.params["rms_norm.scale"]
    assert [p.shape for p in rms.params.values()] == [(5,)]
    x = drawn(6, 5)
    centred = x - x.mean(1, keepdims=True)
    np.testing.assert_allclose(rms(centred), layer(centred), rtol=1e-10)
    assert np.abs(rms(x) - layer(x)).max() > 1e-2
    shown(lambda f: invariance(f, x, scaling(3.0)), rms, lambda x: x)


@rows("9.50", "9.51")
def test_statistics_over_any_axes_are_named_in_brackets(tmp_path: Path) -> None:
    x = drawn(6, 3, 2, 4)
    for axes, places in {"h, w, c": (1, 2, 3), "w": (2,), "n, h": (0, 1)}.items():
        body = f"y[n, h, w, c] = standardize[{axes}](x[n, h, w, c])"
        norm = Trained(body, "[N, 3, 2, 4]", "[N, 3, 2, 4]", tmp_path)
        wanted = (x - x.mean(places, keepdims=True)) / np.sqrt(x.var(places, keepdims=True) + 1e-5)
        np.testing.assert_allclose(norm(x), wanted, rtol=1e-10)

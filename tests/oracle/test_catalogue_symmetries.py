"""Rows of the catalogue on symmetries (chapter 7): shifts, shared filters, groups and their matrices."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from catalogue import SPECS, Array, model
from catalogue_layers import conv
from marks import rows
from properties import difference, equivariance, invariance, quarter_turn, shift, shown

torch.set_num_threads(1)

every_backend = pytest.mark.parametrize("backend", ["numpy", "c", "triton"])

LAYERS_OF_IMAGES = """
import "local.dsl"

model images(
    x: f64[N, H, W, 2]
) -> (cyclic: [N, H, W, 3], valid: [N, H - 2, W - 2, 3], same: [N, H, W, 3]) where H > 2, W > 2:
    cyclic = cyclic_conv(x, 3)
    valid = conv2d(x, 3)
    same = conv2d(x, 3, pad = 1)

train images(x):
    cyclic, valid, same = images(x)
    minimize sum(sin(cyclic)) + sum(sin(valid)) + sum(sin(same))
    using sgd
"""


@rows("7.13")
@every_backend
def test_convolutions_commute_with_shifts_and_local_layers_do_not(backend: str, tmp_path: Path) -> None:
    (tmp_path / "local.dsl").write_text((SPECS / "convolution/local.dsl").read_text(encoding="utf-8"), "utf-8")
    module = model(LAYERS_OF_IMAGES, tmp_path, backend, wrt=["x"])
    local = model(
        'import "local.dsl"\nmodel m(x: f64[N, 6, 7, 2]) -> y:\n    y = locally_connected(x, 3)\n', tmp_path, backend
    )
    rng = np.random.default_rng(0)
    params = {k: rng.standard_normal(v.shape) for k, v in module.init().items()}
    filters = {k: rng.standard_normal(v.shape) for k, v in local.init().items()}
    x = rng.standard_normal((2, 6, 7, 2))

    def layer(name: str) -> Any:
        return lambda image: module.forward(params, image)[name]

    def control(image: Array) -> Array:
        return np.asarray(local.forward(filters, image))

    kernel = {k.partition(".")[0]: torch.tensor(v) for k, v in params.items() if k.endswith("K")}
    bias = {k.partition(".")[0]: torch.tensor(v) for k, v in params.items() if k.endswith("b")}
    wanted = conv(torch.tensor(x), kernel["conv2d2"], 1, 1) + bias["conv2d2"]
    np.testing.assert_allclose(layer("same")(x), wanted, rtol=1e-9, atol=1e-12)
    for down, right in ((1, 0), (0, -2), (3, 2)):
        turned = lambda image, by=(down, right): np.roll(image, by, (1, 2))  # noqa: E731
        shown(lambda f, g=turned: equivariance(f, x, g), layer("cyclic"), control)
        # zeros around an image are no part of it: what is as near to the border as a kernel reaches is another
        inside = (slice(None), slice(abs(down) + 1, 5 - abs(down)), slice(abs(right) + 1, 6 - abs(right)))
        if all(s.start < s.stop for s in inside[1:]):
            shown(lambda f, g=turned, s=inside: difference(f(g(x))[s], g(f(x))[s]), layer("same"), control)
            assert difference(layer("same")(turned(x)), turned(layer("same")(x))) > 1e-3
    # without zeros a shift is exact wherever there is an output, and equal patches give equal numbers
    np.testing.assert_array_equal(layer("valid")(x[:, 1:, 2:]), layer("valid")(x)[:, 1:, 2:])
    tiles = np.tile(x[:, :3, :3], (1, 2, 2, 1))
    np.testing.assert_allclose(layer("valid")(tiles)[:, 0, 0], layer("valid")(tiles)[:, 3, 3], rtol=1e-12)
    # the gradient moves with the image, too
    slope = lambda image: np.asarray(module.loss_and_grad(params, image)[1]["x"])  # noqa: E731
    alone = {**params, **{k: 0 * v for k, v in params.items() if not k.startswith("cyclic")}}
    only = lambda image: np.asarray(module.loss_and_grad(alone, image)[1]["x"])  # noqa: E731
    shown(lambda f: equivariance(f, x, shift(2, axis=1)), only, slope)


SHARED = """
model shared(x: f64[N, 4, 5, 2]) -> (shared: [N, 4, 5, 3], own: [N, 4, 5, 3]):
    param W: [3, 3, 2, 3] ~ normal
    param V: [4, 5, 3, 3, 2, 3] ~ normal
    shared[n, i, j, o] = (x[n, i + a - 1, j + b - 1, c] else 0) * W[a, b, c, o]
    own[n, i, j, o] = (x[n, i + a - 1, j + b - 1, c] else 0) * V[i, j, a, b, c, o]

train shared(x, cotangent: f64[N, 4, 5, 3]):
    one, other = shared(x)
    minimize sum(one * cotangent) + sum(other * cotangent)
    using sgd
"""


@rows("7.14")
@every_backend
def test_a_shared_filter_has_the_gradients_of_all_places_together(backend: str, tmp_path: Path) -> None:
    module = model(SHARED, tmp_path, backend, wrt=["x"])
    rng = np.random.default_rng(1)
    W, x, cotangent = (rng.standard_normal(s) for s in ((3, 3, 2, 3), (2, 4, 5, 2), (2, 4, 5, 3)))
    params = {"W": W, "V": np.broadcast_to(W, (4, 5, 3, 3, 2, 3)).copy()}
    found = module.forward(params, x)
    np.testing.assert_allclose(found["own"], found["shared"], rtol=1e-12)
    _, grads = module.loss_and_grad(params, x, cotangent)
    np.testing.assert_allclose(grads["W"], grads["V"].sum((0, 1)), rtol=1e-9)
    assert np.abs(grads["V"] - grads["W"] / 20).max() > 1e-3  # places differ: only their sum is that of the filter
    image, kernel = torch.tensor(x, requires_grad=True), torch.tensor(W, requires_grad=True)
    y = conv(image, kernel, 1, 1)
    np.testing.assert_allclose(found["shared"], y.detach(), rtol=1e-9, atol=1e-12)
    (y * torch.tensor(cotangent)).sum().backward()
    np.testing.assert_allclose(grads["W"], kernel.grad, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(grads["x"], 2 * image.grad, rtol=1e-9, atol=1e-12)
    assert math.prod(module.PARAMS["V"][0]) == 4 * 5 * math.prod(module.PARAMS["W"][0])


#: a function of an image, and the means of it over quarter turns, of its results or of its turned back results
TURNS = """
fn turned(x: [N, H, W], count: int) -> y: [N, H, W] where H == W:
    y = x
    for k in 0..count:
        y[n, h, w] = y[n, w, H - 1 - h]

layer plain(x: [N, 4, 4]) -> (y: [N, 3], z: [N, 4, 4]):
    param V: [4, 4, 3] ~ normal
    param W: [4, 4, 4, 4] ~ normal
    y[n, o] = tanh(x[n, h, w] * V[h, w, o])
    z[n, p, q] = tanh(x[n, h, w] * W[h, w, p, q])

model turns(x: f64[N, 4, 4]) -> (y: [N, 3], mean: [N, 3], z: [N, 4, 4], framed: [N, 4, 4]):
    use f = plain()
    y, z = f(x)
    mean = 0 * y
    framed = 0 * z
    for k in 0..4:
        part, image = f(turned(x, k))
        mean = mean + part / 4
        framed = framed + turned(image, (4 - k) % 4) / 4

train turns(x):
    y, mean, z, framed = turns(x)
    minimize sum(mean^2) + sum(framed^3)
    using sgd
"""


@rows("7.32")
@every_backend
def test_a_mean_over_a_group_is_blind_to_it_or_moves_with_it(backend: str, tmp_path: Path) -> None:
    """Frame averaging over the four turns of a square makes any function invariant, or equivariant."""
    module = model(TURNS, tmp_path, backend, wrt=["x"])
    rng = np.random.default_rng(2)
    params, x = {k: rng.standard_normal(v.shape) for k, v in module.init().items()}, rng.standard_normal((3, 4, 4))
    turn = quarter_turn((1, 2))

    def result(name: str) -> Any:
        return lambda image: module.forward(params, image)[name]

    shown(lambda f: invariance(f, x, turn), result("mean"), control=result("y"))
    shown(lambda f: equivariance(f, x, turn), result("framed"), control=result("z"))
    V, W = (torch.tensor(params[f"f.{name}"]) for name in "VW")
    image = torch.tensor(x, requires_grad=True)
    frames = [torch.rot90(image, k, (1, 2)) for k in range(4)]
    mean = sum(torch.tanh(torch.einsum("nhw,hwo->no", t, V)) for t in frames) / 4
    framed = sum(torch.rot90(torch.tanh(torch.einsum("nhw,hwpq->npq", t, W)), -k, (1, 2)) for k, t in enumerate(frames))
    framed = framed / 4
    np.testing.assert_allclose(result("mean")(x), mean.detach(), rtol=1e-9)
    np.testing.assert_allclose(result("framed")(x), framed.detach(), rtol=1e-9)
    ((mean**2).sum() + (framed**3).sum()).backward()
    np.testing.assert_allclose(module.loss_and_grad(params, x)[1]["x"], image.grad, rtol=1e-8, atol=1e-11)


@rows("7.32")
@every_backend
def test_the_matrices_of_shifts_are_a_representation(backend: str, tmp_path: Path) -> None:
    """One after the other they are the matrix of both; a circulant filter commutes with all of them."""
    text = """
model m(x: f64[5], w: f64[5], by: i32[] < 5, more: i32[] < 5) -> (P, Q, both, circulant, filtered):
    P[i: 5, j: 5] = 1.0 if (j + by) % 5 == i else 0.0
    Q[i: 5, j: 5] = 1.0 if (j + more) % 5 == i else 0.0
    both = einsum("ij,jk->ik", P, Q)
    circulant[i: 5, j: 5] = w[(i - j + 5) % 5]
    filtered[i] = circulant[i, j] * x[j]
"""
    module = model(text, tmp_path, backend)
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal(5), rng.standard_normal(5)
    for a, b in ((0, 1), (2, 2), (3, 4)):
        found = module.forward({}, x, w, np.int32(a), np.int32(b))
        np.testing.assert_array_equal(found["P"] @ x, np.roll(x, a))
        np.testing.assert_array_equal(found["both"], np.roll(np.eye(5), (a + b) % 5, 0))
        np.testing.assert_array_equal(found["P"] @ found["P"].T, np.eye(5))
        np.testing.assert_allclose(found["circulant"] @ found["P"], found["P"] @ found["circulant"], atol=1e-12)
        moved = module.forward({}, np.roll(x, a), w, np.int32(a), np.int32(b))["filtered"]
        np.testing.assert_allclose(moved, np.roll(found["filtered"], a), atol=1e-12)
        wanted = np.fft.ifft(np.fft.fft(w) * np.fft.fft(x)).real
        np.testing.assert_allclose(found["filtered"], wanted, atol=1e-12)
    other = rng.standard_normal((5, 5))
    assert difference(other @ found["P"], found["P"] @ other) > 1e-3

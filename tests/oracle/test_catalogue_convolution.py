"""Rows of the catalogue on convolutions (chapter 7): the layers of the library with all their options, beside torch."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from catalogue import model
from marks import rows
from torch.nn import functional as F

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"
torch.set_num_threads(1)

Tensors = dict[str, torch.Tensor]

#: inputs by name: a sequence, an image, a volume, an image with its channels first
INPUTS = {"t": (2, 7, 4), "x": (2, 7, 6, 4), "v": (2, 3, 4, 5, 2), "f": (2, 4, 5, 6)}


def first(x: torch.Tensor) -> torch.Tensor:
    return x.movedim(-1, 1)


def last(x: torch.Tensor) -> torch.Tensor:
    return x.movedim(1, -1)


def conv(x: torch.Tensor, p: Tensors, **options: Any) -> torch.Tensor:
    """Kernels are [taps..., channels in, channels out] here, [out, in, taps...] in torch."""
    weight = p["K"].movedim((-1, -2), (0, 1))
    by_rank = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}
    return last(by_rank[x.ndim](first(x), weight, p.get("b"), **options))


def depthwise(x: torch.Tensor, p: Tensors, **options: Any) -> torch.Tensor:
    weight = p["K"].movedim(-1, 0)[:, None]
    by_rank = {3: F.conv1d, 4: F.conv2d}
    return last(by_rank[x.ndim](first(x), weight, p["b"], groups=x.shape[-1], **options))


def grouped(x: torch.Tensor, p: Tensors, groups: int, **options: Any) -> torch.Tensor:
    kernel = p["K"]  # [taps, taps, groups, channels in, channels out] of each group
    weight = kernel.permute(2, 4, 3, 0, 1).flatten(0, 1)
    return last(F.conv2d(first(x), weight, p.get("b"), groups=groups, **options))


def separable(x: torch.Tensor, p: Tensors) -> torch.Tensor:
    h = depthwise(x, {"K": p["depthwise_conv2d.K"], "b": p["depthwise_conv2d.b"]}, padding=1)
    return h @ p["dense.W"] + p["dense.b"]


def transposed(x: torch.Tensor, p: Tensors, **options: Any) -> torch.Tensor:
    return last(F.conv_transpose2d(first(x), p["K"].permute(3, 2, 0, 1), p.get("b"), **options))


def padded(x: torch.Tensor, *counts: int, value: float = 0.0) -> torch.Tensor:
    """Border entries before and behind the last spatial axis, then the one before it, and so on."""
    return last(F.pad(first(x), counts, value=value))


@dataclass(frozen=True)
class Layer:
    """A call of the library, and what torch has for it."""

    ids: str
    input: str
    call: str
    oracle: Callable[[torch.Tensor, Tensors], torch.Tensor]


LAYERS = (
    Layer("7.15 7.11 7.17", "x", "conv2d(3, pad = 1)", lambda x, p: conv(x, p, padding=1)),
    Layer("7.11", "x", "conv2d(3, bias = false)", conv),
    Layer("7.11", "x", "conv2d(3, kernel = 5, same = true)", lambda x, p: conv(x, p, padding="same")),
    # the book's patches are of odd size; an even one has its odd zero behind
    Layer("7.11", "x", "conv2d(2, kernel = 2, dilation = 2, same = true)",
          lambda x, p: conv(x, p, padding="same", dilation=2)),
    Layer("7.31", "x", "conv2d(3, stride = 2, pad = 1)", lambda x, p: conv(x, p, padding=1, stride=2)),
    # 7 and 6 entries by steps of 2: four and three places, which takes two zeros and one
    Layer("7.31 7.11", "x", "conv2d(3, stride = 2, same = true)",
          lambda x, p: conv(padded(x, 0, 1, 1, 1), p, stride=2)),
    Layer("7.40", "x", "conv2d(3, kernel = 1, bias = false)", lambda x, p: x @ p["K"][0, 0]),
    Layer("7.41", "x", "depthwise_conv2d(dilation = 2)", lambda x, p: depthwise(x, p, padding=1, dilation=2)),
    Layer("7.42", "x", "group_conv2d(6, groups = 2, stride = 2)",
          lambda x, p: grouped(x, p, 2, padding=1, stride=2)),
    Layer("7.42", "x", "group_conv2d(4, groups = 4, bias = false, same = true)",
          lambda x, p: grouped(x, p, 4, padding="same")),
    Layer("7.43", "x", "separable_conv2d(3)", separable),
    Layer("7.31", "x", "conv_transpose2d(3, kernel = 3, stride = 2, pad = 1)",
          lambda x, p: transposed(x, p, stride=2, padding=1)),
    Layer("7.15 7.01", "f", "channels_first(conv2d(3, kernel = 5, pad = 2))",
          lambda x, p: first(conv(last(x), {k.rsplit(".")[-1]: w for k, w in p.items()}, padding=2))),
    Layer("7.15", "t", "conv1d(3, pad = 2, dilation = 2)", lambda x, p: conv(x, p, padding=2, dilation=2)),
    Layer("7.31", "t", "conv1d(3, stride = 3, same = true)", lambda x, p: conv(padded(x, 1, 1), p, stride=3)),
    Layer("7.41", "t", "depthwise_conv1d(kernel = 4, same = true)", lambda x, p: depthwise(padded(x, 1, 2), p)),
    Layer("7.15", "v", "conv3d(3, kernel = 2, stride = 2, pad = 1)", lambda x, p: conv(x, p, stride=2, padding=1)),
    Layer("7.15", "v", "conv3d(2, same = true, bias = false)", lambda x, p: conv(x, p, padding="same")),
)  # fmt: skip


def stack() -> str:
    """All layers side by side in one model, so that a backend compiles them at once."""
    inputs = ", ".join(f"{name}: [{', '.join(map(str, shape))}]" for name, shape in INPUTS.items())
    results = ", ".join(f"y_{n}" for n in range(len(LAYERS)))
    calls = "".join(f"    use layer_{n} = {x.call}\n    y_{n} = layer_{n}({x.input})\n" for n, x in enumerate(LAYERS))
    loss = " + ".join(f"sum(sin(y_{n}))" for n in range(len(LAYERS)))
    return (
        f"model stack({inputs}) -> ({results}):\n{calls}\ntrain stack({', '.join(INPUTS)}):\n"
        f"    {results} = stack({', '.join(INPUTS)})\n    minimize {loss}\n    using sgd\n"
    )


@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
@rows(*dict.fromkeys(" ".join(x.ids for x in LAYERS).split()))
def test_the_layers_have_the_values_and_gradients_of_torch(backend: str, tmp_path: Path) -> None:
    module = model(stack(), tmp_path, backend, wrt=INPUTS)
    rng = np.random.default_rng(3)
    inputs = {name: rng.standard_normal(shape) for name, shape in INPUTS.items()}
    params = {name: rng.standard_normal(x.shape) for name, x in module.init().items()}
    found = module.forward(params, *inputs.values())
    _, slopes = module.loss_and_grad(params, *inputs.values())

    tensors = {name: torch.tensor(x, requires_grad=True) for name, x in (inputs | params).items()}
    for n, layer in enumerate(LAYERS):
        own = {name.partition(".")[2]: p for name, p in tensors.items() if name.startswith(f"layer_{n}.")}
        y = layer.oracle(tensors[layer.input], own)
        np.testing.assert_allclose(found[f"y_{n}"], y.detach(), 1e-9, 1e-10, err_msg=layer.call)
        torch.sin(y).sum().backward()
    assert slopes.keys() == tensors.keys()
    for name, x in tensors.items():
        assert x.grad is not None
        np.testing.assert_allclose(slopes[name], x.grad, 1e-9, 1e-10, err_msg=name)

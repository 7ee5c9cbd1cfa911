"""Rows of the catalogue on sequences (chapter 8): convolutions along one and three axes, forecasts, tokens."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from catalogue import Array, Case, Table, cases, check, given, model
from layer_table import Layer, Layers, Parameters, layers
from marks import rows
from torch.nn import functional as F

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"

torch.set_num_threads(1)

ALL = ["numpy", "c", "triton"]
rng = np.random.default_rng(8)

#: a series with 3 sensors, a sound in stereo, a video of 3 frames, and text
INPUTS = {
    "series": "f64[N, 11, 3]", "sound": "f64[1, 60, 2]", "video": "f64[N, D, H, W, 2]", "token": "i32[N, 11] < 9",
}  # fmt: skip
DATA = {
    "series": rng.standard_normal((2, 11, 3)),
    "sound": rng.standard_normal((1, 60, 2)),
    "video": rng.standard_normal((2, 3, 4, 3, 2)),
    "token": rng.integers(0, 9, (2, 11)).astype(np.int32),
}


def conv1d(x: torch.Tensor, p: Parameters, name: str = "", dilation: int = 1, pad: int = 0) -> torch.Tensor:
    weight = p[f"{name}K"].permute(2, 1, 0)
    return F.conv1d(x.mT, weight, p[f"{name}b"], padding=pad, dilation=dilation).mT


def causal(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, dilation: int = 1) -> torch.Tensor:
    """Zeros on the left alone; the last tap of the weight, [u, in, out], is the present."""
    left = F.pad(x.mT, (dilation * (len(weight) - 1), 0))
    return F.conv1d(left, weight.permute(2, 1, 0), bias, dilation=dilation).mT


def dilated(p: Parameters, x: torch.Tensor) -> torch.Tensor:
    for level in range(3):
        x = F.relu(conv1d(x, p, f"conv1d.{level}.", dilation=2**level, pad=2**level))
    return x


def causal_dilated(p: Parameters, x: torch.Tensor) -> torch.Tensor:
    for level in range(3):
        name = f"causal_conv1d.{level}."
        x = torch.tanh(causal(x, p[f"{name}K"].flip(0), p[f"{name}b"], 2**level))
    return x


def classifier(p: Parameters, token: torch.Tensor) -> torch.Tensor:
    h = F.embedding(token.long(), p["embedding.W"])
    h = F.max_pool1d(F.relu(conv1d(h, p, "conv1d.", pad=2)).mT, 2).mT
    return F.relu(conv1d(h, p, "conv1d2.", pad=2)).mean(1) @ p["dense.W"] + p["dense.b"]


#: the text classifier of the book's box, with its widths made small
CLASSIFIER = """
layer classifier(token: i32[N, T] < 9) -> y: [N, 10] where T >= 2:
    h = token |> embedding(9, 4) |> conv1d(3, kernel = 5, pad = 2) |> relu |> max_pool1d(2)
    y = h |> conv1d(6, kernel = 5, pad = 2) |> relu |> global_avg_pool |> dense(10)

layer next_value(x: [N, T, C]) -> y: [N, C]:
    param A: [T, C, C] ~ normal
    y[n, e] = 0.3 * A[t, c, e] * x[n, t, c]
"""


def rolled(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Four steps by a linear map of the whole window."""
    found = []
    for _ in range(4):
        found.append(0.3 * torch.einsum("tce,ntc->ne", weight, x))
        x = torch.cat([x[:, 1:], found[-1][:, None]], 1)
    return torch.stack(found, 1)


def slid(p: Parameters, x: torch.Tensor) -> torch.Tensor:
    """Five steps of a causal model that is given what is known, at most 13 rows, and nothing else."""
    found = []
    for _ in range(5):
        h = x[:, -13:]
        for level in range(2):
            name = f"predict.causal_conv1d.{level}."
            h = F.relu(causal(h, p[f"{name}K"].flip(0), p[f"{name}b"], 2**level))
        found.append(h[:, -1])
        x = torch.cat([x, found[-1][:, None]], 1)
    return torch.stack(found, 1)


LAYERS = layers(
    Layer("8.01 8.07", "sensors", "conv1d(4, pad = 1)", "series", "[N, 11, 4]",
          lambda p, x: conv1d(x, p, pad=1)),
    Layer("8.02 8.26", "stereo", "conv1d(3, kernel = 3, dilation = 4, pad = 4)", "sound", "[1, 60, 3]",
          lambda p, x: conv1d(x, p, dilation=4, pad=4)),
    Layer("8.03 8.08", "frames", "conv3d(3, kernel = 3, pad = 1)", "video", "[N, D, H, W, 3]",
          lambda p, x: F.conv3d(x.movedim(-1, 1), p["K"].permute(4, 3, 0, 1, 2), p["b"], padding=1).movedim(1, -1)),
    Layer("8.27", "wide", "dilated_stack(3, depth = 3)", "series", "[N, 11, 3]", dilated),
    Layer("8.34", "hidden", "masked_conv1d(4, kernel = 5)", "series", "[N, 11, 4]",
          lambda p, x: causal(x, p["W"][:3], p["b"])),
    Layer("8.34", "sparse", "masked_conv1d(4, kernel = 3, dilation = 2)", "series", "[N, 11, 4]",
          lambda p, x: causal(x, p["W"][:2], p["b"], 2)),
    Layer("8.35", "past", "causal_conv1d(4, kernel = 3, dilation = 2)", "series", "[N, 11, 4]",
          lambda p, x: causal(x, p["K"].flip(0), p["b"], 2)),
    Layer("8.36", "sounds", "causal_stack(3, depth = 3, act = tanh)", "series", "[N, 11, 3]", causal_dilated),
    Layer("8.24 7-9.B3", "textual", "classifier", "token", "[N, 10]", classifier),
    Layer("8.30", "forecast", "rollout(f = next_value, steps = 4)", "series", "[N, 4, 3]",
          lambda p, x: rolled(p["predict.A"], x)),
    Layer("8.38", "later", "causal_rollout(f = causal_stack(3, depth = 2), steps = 5, context = 13)", "series",
          "[N, 5, 3]", slid),
)  # fmt: skip


@pytest.mark.parametrize("backend", [pytest.param(x, marks=[m for y in LAYERS for m in y.marks]) for x in ALL])
def test_layers_along_sequences_are_those_of_torch(backend: str, tmp_path: Path) -> None:
    Layers([x.values[0] for x in LAYERS], INPUTS, DATA, CLASSIFIER).check(backend, tmp_path)


@rows("8.06", "8.19", "8.22")
@pytest.mark.parametrize("backend", ALL)
def test_pieces_of_a_large_vocabulary_are_looked_up_by_their_numbers(backend: str, tmp_path: Path) -> None:
    ids = np.array([2028, 374, 74252, 287, 0], np.int32)  # "This is perplexing!" in a vocabulary of 100,000 pieces
    module = model("""
model pieces(token: i32[M] < 100000) -> y: [M, 2]:
    y = token |> embedding(100000, 2)

train pieces(token, v: f64[M, 2]):
    y = pieces(token)
    minimize sum(y * v)
    using sgd
""", tmp_path, backend)  # fmt: skip
    params = module.init(0)
    (table,) = params.values()
    np.testing.assert_array_equal(module.forward(params, ids), table[ids])
    with pytest.raises(ValueError, match="100000"):
        module.forward(params, ids + np.array([0, 0, 25748, 0, 0], np.int32))
    if backend == "triton":
        return  # its interpreter takes half a minute to fill a table of this size with zeros
    cotangent = rng.standard_normal((5, 2))
    _, grads = module.loss_and_grad(params, ids, cotangent)
    (slope,) = grads.values()
    np.testing.assert_allclose(slope[ids], cotangent)
    assert np.count_nonzero(slope) == cotangent.size


# ---- functions


def lengths(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.array([5, 1, 3, 4, 2, 5], np.int32)


def _masked_mean(x: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    return torch.stack([row[:n].mean(0) for row, n in zip(x, length.tolist(), strict=True)])


def _log_probability(logits: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
    return -F.cross_entropy(logits[:, :-1].mT, token[:, 1:].long(), reduction="none").sum(1)


PADDED = {"x": "[N, 5, E]", "length": "i32[N]"}
TEXT = {"logits": "[N, 5, K]", "token": "i32[N, 5] < K"}

FUNCTIONS = cases(
    Case("8.12", {"length": "i32[N]"}, "bool[N, 5]", "y = within(length, 5)",
         lambda n: torch.arange(5) < n[:, None], {"length": lengths}),
    Case("8.12 8.10", PADDED, "[N, E]", "y = masked_mean(x, within(length, 5))", _masked_mean, {"length": lengths}),
    Case("8.12", PADDED, "[N, 5, E]", "y = masked(x, within(length, 5))",
         lambda x, n: x * (torch.arange(5) < n[:, None])[..., None], {"length": lengths}),
    Case("8.11 7-9.B2", {"a": "[3, 8]", "b": "[5, 8]", "c": "[2, 8]"}, "[3, 5, 8]",
         "y[r, t: 5, i] = concat[r]((a[t, i] else 0), b[t, i], (c[t, i] else 0))",
         lambda *x: torch.nn.utils.rnn.pad_sequence(list(x), batch_first=True)),
    Case("8.09", {"x": "[N, 9, E]"}, "[N, 4, E]", "y = max_pool1d(x)", lambda x: F.max_pool1d(x.mT, 2).mT),
    Case("8.09", {"x": "[2, 4, 7, 6, O]"}, "[2, 2, 3, 3, O]",
         "y[n, p: 2, q: 3, r: 3, c] = max[u: 2, v: 2, w: 2](x[n, 2*p + u, 2*q + v, 2*r + w, c])",
         lambda x: F.max_pool3d(x.movedim(-1, 1), 2).movedim(1, -1)),
    Case("8.28", {"x": "[9, E]"}, "[5, 4, E]", "y, next = windows(x, 4)", lambda x: x[:-1].unfold(0, 4, 1).mT),
    Case("8.28", {"x": "[9, E]"}, "[5, E]", "past, y = windows(x, 4)", lambda x: x[4:]),
    Case("8.29", {"x": "[9, E]", "A": "[4, E, E]"}, "[]",
         "past, next = windows(x, 4)\nf[n, i] = A[t, j, i] * past[n, t, j]\ny = mean_squared_error(f, next)",
         lambda x, a: F.mse_loss(torch.einsum("tji,njt->ni", a, x[:-1].unfold(0, 4, 1)), x[4:])),
    Case("8.29", {"f": "[N, K]", "next": "i32[N] < K"}, "[]", "y = cross_entropy(f, next)",
         lambda f, t: F.cross_entropy(f, t.long())),
    Case("8.25", {"E": "[7, D]", "q": "[N, D]"}, "i64[N]", "y[n] = argmin[r](sum[k]((E[r, k] - q[n, k])^2))",
         lambda e, q: torch.cdist(q, e).argmin(1)),
    Case("8.31", {"f": "[N, K]"}, "i64[N]", "y[n] = argmax[k](softmax[k](f[n, k]))", lambda f: f.argmax(1)),
    Case("8.37", {"Y": "[N, 5, E]", "x": "[N, 5, E]", "y_last": "[N, E]"}, "[]",
         "z[n, t: 5, c] = x[n, t + 1, c] if t < 4 else y_last[n, c]\ny = sum[n, t, c]((Y[n, t, c] - z[n, t, c])^2)",
         lambda f, x, y: ((f - torch.cat([x[:, 1:], y[:, None]], 1)) ** 2).sum()),
    Case("8.43 8.44", TEXT, "[N]", "y = log_probability(logits, token)", _log_probability),
    Case("8.44", TEXT, "[N]",
         "p[n, t, k] = softmax[k](logits[n, t, k])\ny[n] = log(prod[t](p[n, t, token[n, t + 1]] if t < 4 else 1))",
         _log_probability),
    Case("8.46", {"z": "[N, K]", "T": "[]"}, "[N, K]", "y[n, k] = softmax[k](z[n, k] / T)",
         lambda z, t: torch.softmax(z / t, 1), {"T": given(0.3)}),
    Case("8.46", {"z": "[N, K]"}, "[N, K]", "y[n, k] = softmax[k](z[n, k] / 1e-6)",
         lambda z: F.one_hot(z.argmax(1), 4).double() + 0 * z),
    Case("8.46", {"z": "[N, K]"}, "[N, K]", "y[n, k] = softmax[k](z[n, k] / 1e13)",
         lambda z: torch.full((6, 4), 0.25, dtype=z.dtype) + 0 * z),
)  # fmt: skip


@pytest.mark.parametrize("case", FUNCTIONS)
def test_functions_of_sequences_have_the_values_and_gradients_of_torch(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("backend", [pytest.param(x, marks=[m for y in FUNCTIONS for m in y.marks]) for x in ALL[1:]])
def test_functions_of_sequences_are_the_same_on_other_backends(backend: str, tmp_path: Path) -> None:
    table = Table(x.values[0] for x in FUNCTIONS)
    module = model(table.text(), tmp_path, backend)
    with np.errstate(all="ignore"):  # Triton's interpreter warns of what branches not taken hold
        table.compare(module.forward({}, *table.arguments()))

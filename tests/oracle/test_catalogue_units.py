"""Rows of the catalogue on activations and layers of an MLP (chapter 5, appendix B)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from catalogue import Array, Case, cases, check, given, positive
from torch.nn import functional as F

torch.set_num_threads(1)

ONE = {"x": "[N]"}


def wide(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return 3 * rng.standard_normal(shape)


ACTIVATIONS = cases(
    Case("L34 F20", ONE, "[N]", "y = sigmoid(x)", torch.sigmoid, {"x": given(-1000, -3, -0.1, 0.2, 4, 1000)}),
    Case("F06", ONE, "[N]", "y = relu(x)", F.relu),
    Case("F18", ONE, "[N]", "y = x^3", lambda x: x**3),
    Case("F18", ONE, "[N]", "y = sqrt(x)", torch.sqrt, {"x": positive}),
    Case("F19", ONE, "[N]", "y = heaviside(x)", lambda x: torch.heaviside(x, torch.ones((), dtype=x.dtype)),
         {"x": given(-1, -0.1, 0, 0.1, 1, 2)}, ("x",)),
    Case("F20", {"x": "[N]", "a": "[]"}, "[N]", "y = sigmoid(a * x)", lambda x, a: torch.sigmoid(a * x)),
    Case("F21", ONE, "[N]", "y = 2 * sigmoid(2 * x) - 1", torch.tanh),
    Case("F23", ONE, "[N]", "y = leaky_relu(x)", F.leaky_relu),
    Case("F24", {"x": "[N, D]", "a": "[D]"}, "[N, D]",
         "y[n, i] = x[n, i] if x[n, i] >= 0 else a[i] * x[n, i]", F.prelu),
    Case("F25", ONE, "[N]", "y = softplus(x)", F.softplus, {"x": given(-40, -3, 0, 0.5, 19, 300)}),
    Case("F26", ONE, "[N]", "y = elu(x)", F.elu, {"x": given(-40, -3, -0.1, 0.5, 19, 800)}),
    Case("F27", ONE, "[N]", "y = x * heaviside(x)", F.relu),
    Case("F28", ONE, "[N]", "y = gelu(x)", F.gelu, {"x": wide}),
    Case("F29", ONE, "[N]", "y = silu(x)", F.silu, {"x": wide}),
    Case("F30", {"x": "[N]", "a": "[]", "b": "[]", "c": "[]", "d": "[]"}, "[N]", "y = sigmoid(a * x + b) * (c * x + d)",
         lambda x, a, b, c, d: torch.sigmoid(a * x + b) * (c * x + d)),
    Case("F31 F33", {"x": "[N, D]", "a": "[K]"}, "[N, D]", "y[n, i] = a[k] * exp(-(x[n, i] - k)^2)",
         lambda x, a: (a * torch.exp(-((x[..., None] - torch.arange(4)) ** 2))).sum(-1)),
    Case("F32", {"x": "[N]", "a": "[K]", "b": "[K]"}, "[N]", "y[n] = relu(x[n]) + sum[k](a[k] * relu(b[k] - x[n]))",
         lambda x, a, b: F.relu(x) + (a * F.relu(b - x[:, None])).sum(1)),
    Case("U01", {"x": "[N]", "a": "[]", "s": "[]"}, "[N]", "y = a * sigmoid(10000 * (x - s))",
         lambda x, a, s: a * torch.sigmoid(10000 * (x - s)), {"s": given(0.3)}),
    Case("U02 U03", {"x": "[N]", "a": "[K]", "s": "[K]"}, "[N]",
         "y[n] = sum[k](a[k] * (sigmoid(50 * (x[n] - s[k] + 0.1)) - sigmoid(50 * (x[n] - s[k] - 0.1))))",
         lambda x, a, s: (torch.sigmoid(50 * (x[:, None] - s + 0.1)) - torch.sigmoid(50 * (x[:, None] - s - 0.1))) @ a),
)  # fmt: skip


@pytest.mark.parametrize("case", ACTIVATIONS)
def test_activations_have_the_values_and_gradients_of_torch(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


GATED = {"x": "[N, D]", "W": "[D, K]", "V": "[D, K]"}

LAYERS = cases(
    Case("F04", {"x": "[N, D]", "W": "[D, K]", "b": "[K]", "w": "[K]", "c": "[]"}, "[N]",
         "h[n, k] = x[n, i] * W[i, k] + b[k]\ny[n] = h[n, k] * w[k] + c",
         lambda x, W, b, w, c: x @ (W @ w) + (b @ w + c)),
    Case("F05 F07", {"x": "[N, D]", "W": "[D, K]", "b": "[K]", "w": "[K]", "c": "[]"}, "[N]",
         "h[n, k] = relu(x[n, i] * W[i, k] + b[k])\ny[n] = h[n, k] * w[k] + c",
         lambda x, W, b, w, c: F.linear(F.relu(F.linear(x, W.T, b)), w[None], c[None])[:, 0]),
    Case("F08", {"x": "[N, D]", "W": "[D, K]", "b": "[K]"}, "[N, K]", "y[n, k] = tanh(x[n, i] * W[i, k] + b[k])",
         lambda x, W, b: torch.tanh(F.linear(x, W.T, b))),
    Case("F35", GATED, "[N, K]", "y[n, k] = sigmoid(x[n, i] * W[i, k]) * (x[n, j] * V[j, k])",
         lambda x, W, V: F.glu(torch.cat((x @ V, x @ W), 1), 1)),
    Case("F36", GATED, "[N, K]", "y[n, k] = silu(x[n, i] * W[i, k]) * (x[n, j] * V[j, k])",
         lambda x, W, V: F.silu(x @ W) * (x @ V)),
    Case("F37", {"x": "[N, D]", "W": "[K, D, E]", "b": "[K, E]"}, "[N, E]",
         "y[n, e] = max[k](x[n, i] * W[k, i, e] + b[k, e])",
         lambda x, W, b: (torch.einsum("ni,kie->nke", x, W) + b).amax(1)),
    Case("F38", {"x": "[N, D]", "A": "[E, D, 3]"}, "[N, E]",
         "basis[n, i, r] = concat[r](x[n, i], sin(x[n, i]), x[n, i]^2)\ny[n, e] = A[e, i, r] * basis[n, i, r]",
         lambda x, A: torch.einsum("eir,nir->ne", A, torch.stack((x, torch.sin(x), x**2), -1))),
)  # fmt: skip


@pytest.mark.parametrize("case", LAYERS)
def test_layers_of_an_mlp_have_the_values_and_gradients_of_torch(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)

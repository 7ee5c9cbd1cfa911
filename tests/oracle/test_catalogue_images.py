"""Rows of the catalogue on images (chapter 7): operators in the language, beside torch, on all backends."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from catalogue import Case, Table, cases, check, given, model
from scipy import spatial
from torch.nn import functional as F

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"
torch.set_num_threads(1)

#: an image [height, width, channels], and a batch of them
ONE = {"X": "[4, 5, 3]"}
BATCH = {"x": "[2, 7, 6, 3]"}


def first(x: torch.Tensor) -> torch.Tensor:
    return x.movedim(-1, 1)


def last(x: torch.Tensor) -> torch.Tensor:
    return x.movedim(1, -1)


def patches(x: torch.Tensor, size: int, **options: int) -> torch.Tensor:
    """[n, place, tap, channel]: torch has channels before taps."""
    found = F.unfold(first(x), size, **options)
    return found.unflatten(1, (x.shape[-1], size * size)).permute(0, 3, 2, 1)


def pooled(function: Callable[..., torch.Tensor], *args: Any, **options: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: last(function(first(x), *args, **options))


def bordered(function: Callable[..., torch.Tensor], value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """Pooling over 7 by 6 pixels by windows of 3 and steps of 2 with as many places as steps: 4 by 3."""
    return lambda x: last(function(F.pad(first(x), (0, 1, 1, 1), value=value), 3, 2))


def mean_inside(x: torch.Tensor) -> torch.Tensor:
    """Means by windows of 3 and steps of 2 of the entries inside: sums of x, divided by sums of ones."""
    total = bordered(lambda z, size, step: F.avg_pool2d(z, size, step), 0.0)
    return total(x) / total(torch.ones_like(x))


def local(X: torch.Tensor, W: torch.Tensor) -> torch.Tensor:
    """Every pixel has filters of its own: W is [h, w, out, tap, channel]."""
    taken = patches(X[None], 3, padding=1)[0].unflatten(0, X.shape[:2])
    return F.relu(torch.einsum("ijzad,ijad->ijz", W.flatten(3, 4), taken))


LAYOUT = cases(
    Case("7.01", BATCH, "[2, 3, 7, 6]", "y[n, c, i, j] = x[n, i, j, c]", first),
    Case("7.02 7-9.B8", ONE, "[60]", "y[(i j d)] = X[i, j, d]", lambda X: X.reshape(-1)),
    Case("7.02 7-9.B8", BATCH, "[2, 126]", "y = flatten(x)", lambda x: x.flatten(1)),
    Case("7.03", ONE, "[4, 5, 3]", "v[(i j d)] = X[i, j, d]\ny[i, j, d] = v[(i j d)] where i = 4, j = 5", lambda X: X),
    Case("7.03 7.04", {**ONE, "W": "[40, 60]"}, "[4, 5, 2]",
         "v[(i j d)] = X[i, j, d]\nh[o] = relu(W[o, m] * v[m])\ny[i, j, z] = h[(i j z)] where i = 4, j = 5",
         lambda X, W: F.relu(W @ X.reshape(-1)).reshape(4, 5, 2)),
    Case("7.06", {}, "i64[4, 3, 4, 3]", "y[i: 4, j: 3, k: 4, l: 3] = max(abs(i - k), abs(j - l))",
         lambda: (lambda at: torch.tensor(spatial.distance.cdist(at, at, "chebyshev").reshape(4, 3, 4, 3)))(
             np.stack(np.mgrid[:4, :3], -1).reshape(-1, 2))),
    Case("7.08 7.44", BATCH, "[2, 5, 4, 27]", "y = unfold2d(x)",
         lambda x: patches(x, 3).flatten(2).unflatten(1, (5, 4))),
    Case("7.08", {"x": "[2, 7, 3]"}, "[2, 4, 9]", "y = unfold1d(x, stride = 2, pad = 1)",
         lambda x: F.pad(x, (0, 0, 1, 1)).unfold(1, 3, 2).mT.flatten(2)),
    Case("7.44", {"p": "[2, 4, 3, 27]"}, "[2, 7, 6, 3]", "y = fold2d(p, 7, 6, stride = 2, pad = 1)",
         lambda p: last(F.fold(p.reshape(2, 12, 9, 3).permute(0, 3, 2, 1).flatten(1, 2), (7, 6), 3, padding=1,
                               stride=2))),
    Case("7.44 7.15 X7.3", {**BATCH, "W": "[2, 27]"}, "[2, 7, 6, 2]",
         "p = unfold2d(x, pad = 1)\ny[n, i, j, z] = W[z, m] * p[n, i, j, m]",
         lambda x, W: last(F.conv2d(first(x), W.reshape(2, 3, 3, 3).permute(0, 3, 1, 2), padding=1))),
    Case("7.10", {**ONE, "W": "[4, 5, 2, 3, 3, 3]"}, "[4, 5, 2]",
         "y[i, j, z] = relu(sum[a, b, d](W[i, j, z, a, b, d] * (X[i + a - 1, j + b - 1, d] else 0)))", local),
    # the toy of the book: filters shortened at the border are filters on zeros
    Case("7.10 7.11", {"X": "[4]", "W": "[4, 4]"}, "[4]",
         "y[i] = sum[j]((W[i, j] if abs(i - j) <= 1 else 0) * X[j])",
         lambda X, W: torch.triu(torch.tril(W, 1), -1) @ X),
    Case("7.16", {"X": "[6]", "w": "[3]"}, "[6]",
         "T[i: 6, j: 6] = (w[j - i + 1] else 0)\ny[i] = T[i, j] * X[j]",
         lambda X, w: F.conv1d(X[None, None], w[None, None], padding=1)[0, 0]),
    Case("7.18", {"X": "[6]", "w": "[3]"}, "[8]", "y[i] = sum[a]((X[i - a] else 0) * w[a])",
         lambda X, w: F.conv1d(X[None, None], w.flip(0)[None, None], padding=2)[0, 0]),
    Case("7.19", {"X": "[5, 6]"}, "[3, 4]",
         "W[a: 3, b: 3] = 8 if a == 1 and b == 1 else -1\ny[i, j] = W[a, b] * X[i + a, j + b]",
         lambda X: 9 * X[1:-1, 1:-1] - 9 * F.avg_pool2d(X[None], 3, 1)[0]),
    Case("7-9.B1 7.17", {"x": "[2, 3, 6, 5]", "w": "[4, 3, 5, 5]"}, "[2, 4, 6, 5]",
         "y[n, z, i, j] = w[z, d, a, b] * (x[n, d, i + a - 2, j + b - 2] else 0)",
         lambda x, w: F.conv2d(x, w, padding="same")),
    Case("7.24", {**BATCH, "K": "[3, 3, 3, 4]", "L": "[3, 3, 4, 2]"}, "[2, 3, 2, 2]",
         "h[n, i, j, o] = relu(x[n, i + a, j + b, d] * K[a, b, d, o])\n"
         "y[n, i, j, o] = relu(h[n, i + a, j + b, d] * L[a, b, d, o])",
         lambda x, K, L: last(F.relu(F.conv2d(F.relu(F.conv2d(first(x), K.permute(3, 2, 0, 1))),
                                              L.permute(3, 2, 0, 1))))),
    Case("7.40", {**BATCH, "W": "[2, 3]"}, "[2, 7, 6, 2]", "y[n, i, j, z] = W[z, t] * x[n, i, j, t]",
         lambda x, W: F.linear(x, W)),
    Case("7.45 X7.4", {"x": "[2, 9]", "w": "[7]"}, "[2, 15]",
         "a[n, t: 15] = (x[n, t] else 0)\nb[t: 15] = (w[t] else 0)\n"
         "ar[n, f], ai[n, f] = fft[t -> f](a[n, t])\nbr[f], bi[f] = fft[t -> f](b[t])\n"
         "cr[n, f] = ar[n, f] * br[f] - ai[n, f] * bi[f]\nci[n, f] = ar[n, f] * bi[f] + ai[n, f] * br[f]\n"
         "y[n, t], rest[n, t] = ifft[f -> t](cr[n, f], ci[n, f])",
         lambda x, w: F.conv1d(x[:, None], w.flip(0)[None, None], padding=6)[:, 0]),
)  # fmt: skip

POOLING = cases(
    Case("7.25", BATCH, "[2, 3]", "y = global_sum_pool(x)", lambda x: x.sum((1, 2))),
    Case("7.26", BATCH, "[2, 3]", "y = global_max_pool(x)", lambda x: F.adaptive_max_pool2d(first(x), 1)[:, :, 0, 0]),
    Case("7.34", BATCH, "[2, 3]", "y = global_avg_pool(x)", lambda x: F.adaptive_avg_pool2d(first(x), 1)[:, :, 0, 0]),
    Case("7.34", {"x": "[2, 3, 4, 3, 2]"}, "[2, 2]", "y = global_avg_pool(x)", lambda x: x.mean((1, 2, 3))),
    # the pixels of the figure, and an odd size: the last column stays out
    Case("7.27", {"x": "[1, 4, 4, 1]"}, "[1, 2, 2, 1]", "y = max_pool2d(x)",
         lambda x: torch.tensor([5.0, 7, 13, 15], dtype=x.dtype).reshape(1, 2, 2, 1), {"x": given(np.arange(16))},
         ("x",)),
    Case("7.27", BATCH, "[2, 3, 3, 3]", "y = max_pool2d(x)", pooled(F.max_pool2d, 2)),
    Case("7.27", BATCH, "[2, 4, 3, 3]", "y = max_pool2d(x, ceil = true)", pooled(F.max_pool2d, 2, ceil_mode=True)),
    Case("7.27", BATCH, "[2, 4, 4, 3]", "y = max_pool2d(x, 3, pad = 1, ceil = true)",
         pooled(F.max_pool2d, 3, 2, 1, ceil_mode=True)),
    Case("7.27", BATCH, "[2, 4, 3, 3]", "y = max_pool2d(x, 3, same = true)", bordered(F.max_pool2d, -torch.inf)),
    Case("7.27", {"x": "[2, 8, 3]"}, "[2, 3, 3]", "y = max_pool1d(x, 3, 3, pad = 1)", pooled(F.max_pool1d, 3, 3, 1)),
    Case("7.27", {"x": "[2, 4, 3, 5, 2]"}, "[2, 2, 1, 2, 2]", "y = max_pool3d(x)", pooled(F.max_pool3d, 2)),
    Case("7.27", {"x": "[2, 4, 3, 5, 2]"}, "[2, 2, 2, 3, 2]", "y = max_pool3d(x, same = true)",
         pooled(F.max_pool3d, 2, ceil_mode=True)),
    Case("7.34", BATCH, "[2, 3, 2, 3]", "y = avg_pool2d(x, 3)", pooled(F.avg_pool2d, 3, 2)),
    Case("7.34", BATCH, "[2, 4, 3, 3]", "y = avg_pool2d(x, 3, same = true)", mean_inside),
    Case("7.34", BATCH, "[2, 4, 4, 3]", "y = avg_pool2d(x, 3, pad = 1, ceil = true)",
         pooled(F.avg_pool2d, 3, 2, 1, ceil_mode=True, count_include_pad=False)),
    Case("7.34", {"x": "[2, 8, 3]"}, "[2, 3, 3]", "y = avg_pool1d(x, 3, 3, ceil = true)",
         pooled(F.avg_pool1d, 3, 3, ceil_mode=True)),
    Case("7.34", {"x": "[2, 4, 3, 5, 2]"}, "[2, 3, 2, 3, 2]", "y = avg_pool3d(x, pad = 1)",
         pooled(F.avg_pool3d, 2, 2, 1, count_include_pad=False)),
    Case("7.11", BATCH, "[2, 10, 7, 3]", "y = pad2d(x, top = 1, bottom = 2, right = 1, value = 0.5)",
         lambda x: last(F.pad(first(x), (0, 1, 1, 2), value=0.5))),
    Case("7.11", {"x": "[2, 8, 3]"}, "[2, 11, 3]", "y = pad1d(x, before = 3)", lambda x: F.pad(x, (0, 0, 3, 0))),
    Case("7.11", {"x": "[2, 2, 3, 2, 2]"}, "[2, 4, 4, 4, 2]",
         "y = pad3d(x, front = 2, bottom = 1, left = 1, right = 1)",
         lambda x: last(F.pad(first(x), (1, 1, 0, 1, 2, 0)))),
)  # fmt: skip


@pytest.mark.parametrize("case", LAYOUT + POOLING)
def test_operators_on_images_have_the_values_and_gradients_of_torch(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("backend", ["c", "triton"])
@pytest.mark.parametrize(
    "table", [pytest.param(x, marks=[m for case in x for m in case.marks]) for x in (LAYOUT, POOLING)], ids=len
)
def test_their_tables_have_them_on_the_other_backends(table: list[Any], backend: str, tmp_path: Path) -> None:
    made = Table(x.values[0] for x in table)
    module = model(made.text(), tmp_path, backend)
    with np.errstate(all="ignore"):  # Triton's interpreter warns of what branches not taken hold
        found = module.forward({}, *made.arguments())
    made.compare(found)

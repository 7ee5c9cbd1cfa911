"""Rows of chapters 1 to 4 and appendix A as equations: code boxes, partial derivatives, a function of two numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from catalogue import Array, Case, between_0_and_1, binary, cases, check, given, simplex
from torch.func import grad, vmap

torch.set_num_threads(1)


def box(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Points of the square from 0 to 10."""
    return np.asarray(rng.uniform(0.0, 10.0, shape))


SURFACE = """
fn surface(x: [2]) -> (z: [], g: [2]):
    z = sin(x[0]) * cos(x[1]) + sin(x[0] / 2) * cos(x[1] / 2)
    g = grad(z, x)
"""


def surface(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x[..., 0]) * torch.cos(x[..., 1]) + torch.sin(x[..., 0] / 2) * torch.cos(x[..., 1] / 2)


def slope_by_hand(x: torch.Tensor) -> torch.Tensor:
    a, b = x[..., 0], x[..., 1]
    first = torch.cos(a) * torch.cos(b) + 0.5 * torch.cos(a / 2) * torch.cos(b / 2)
    second = -torch.sin(a) * torch.sin(b) - 0.5 * torch.sin(a / 2) * torch.sin(b / 2)
    return torch.stack((first, second), -1)


ALONG = """
fn along(x: [5], e: [5]) -> d: []:
    z = sin(x[i]) * x[wrap(i + 1)]
    d = jvp(z, x, e)
"""


def bent(x: torch.Tensor) -> torch.Tensor:
    return (torch.sin(x) * torch.roll(x, -1)).sum()


LOTTERY = given([[0.58, 0.02], [0.27, 0.03], [0.02, 0.08]])

EQUATIONS = cases(
    Case("N01", {"s": "[]", "v": "[K]", "A": "[K, E]", "T": "[K, E, D]"}, "[K, E, D]",
         "y[k, e, d] = s * v[k] * A[k, e] + T[k, e, d]", lambda s, v, a, t: (s * v[:, None] * a)[..., None] + t),
    Case("P04 B01", {"x": "[4, 1]", "z": "[4]"}, "[4, 4]", "y[i, j] = x[i, 0] + z[j]", torch.add),
    Case("P04", {"x": "[D]", "A": "[D, E]"}, "[E]", "row[r: 1, i] = x[i]\np[r, e] = row[r, i] * A[i, e]\ny = p[0, :]",
         lambda x, a: x @ a),
    Case("B02", {"A": "[5, 5]"}, "[2, 5, 5]", "whole = matexp(A)\ny[r, i, j] = concat[r](exp(A[i, j]), whole[i, j])",
         lambda a: torch.stack((torch.exp(a), torch.linalg.matrix_exp(a)))),
    Case("B03", {"X": "[N, D]"}, "[N]", "y[i] = sum[j](X[i, j])", lambda x: x.sum(axis=1)),
    Case("B04", {"X": "[4, 5, 2]", "Z": "[4, 2, 3]"}, "[4, 5, 3]", "y[n, i, k] = X[n, i, j] * Z[n, j, k]",
         torch.matmul),
    Case("B05 B06", {"A": "[4, 5, 2]", "B": "[4, 2, 3]"}, "[4, 5, 3]", 'y = einsum("ijz,izk->ijk", A, B)',
         lambda a, b: torch.einsum("ijz,izk->ijk", a, b)),
    Case("B05 B06", {"A": "[4, 5, 2]", "B": "[4, 5, 2]"}, "[]", 'y = einsum("ijk,ijk->", A, B)',
         lambda a, b: (a * b).sum()),
    Case("B07", {"A": "[4, 5, 2]", "B": "[4, 3, 2]"}, "[4, 5, 3]", 'y = einsum("ijz,ikz->ijk", A, B)',
         lambda a, b: a @ b.transpose(1, 2)),
    Case("B08", {"x": "[N]", "at": "[]"}, "[N]",
         "z = at^2 - 1.5 * at\nslope = grad(z, at)\ny[n] = z + slope * (x[n] - at)",
         lambda x, at: at**2 - 1.5 * at + (2 * at - 1.5) * (x - at)),
    Case("P34", {"x": "[5]"}, "[5]",
         "e[i: 5, k: 5] = 1.0 if i == k else 0.0\nat[i: 5, k] = x[k]\ny[i] = along(at[i, :], e[i, :])",
         grad(bent), before=ALONG),
    Case("X2.1 X2.5", {"X": "[N, 2]"}, "[N]", "y[n], g[n, :] = surface(X[n, :])", vmap(surface), {"X": box},
         before=SURFACE),
    Case("X2.1", {"X": "[N, 2]"}, "[N]",
         "a = X[:, 0]\nb = X[:, 1]\ny = sin(a) * cos(b) + sin(0.5 * a) * cos(0.5 * b)", surface, {"X": box}),
    Case("X2.2 X2.5", {"X": "[N, 2]"}, "[N, 2]", "z[n], y[n, :] = surface(X[n, :])", slope_by_hand, {"X": box},
         before=SURFACE),
    Case("B09", {"w": "[K]", "b": "[]", "X": "[N, K]"}, "[N]", "y[n] = X[n, i] * w[i] + b",
         lambda w, b, x: torch.nn.functional.linear(x, w[None], b[None])[:, 0]),
    Case("B10", {"X": "[N, E]", "t": "[N]"}, "[E]",
         "A[i, j] = X[n, i] * X[n, j]\nb[i] = X[n, i] * t[n]\ny = solve(A, b)",
         lambda x, t: torch.linalg.lstsq(x, t[:, None]).solution[:, 0]),
    Case("B10", {"X": "[N, E]", "t": "[N]"}, "[E]",
         "A[i, j] = X[n, i] * X[n, j]\nB = inv(A)\ny[i] = B[i, j] * X[n, j] * t[n]",
         lambda x, t: torch.linalg.lstsq(x, t[:, None]).solution[:, 0]),
    Case("L32", {"x": "[N, 4]"}, "[N]",
         "p[n, k] = softmax[k](x[n, k])\nothers = p[:, 0:3]\ny[n] = 1 - sum[k](others[n, k])",
         lambda x: torch.softmax(x, 1)[:, -1]),
    Case("Q03", {"J": "[3, 2]"}, "[3, 2]",
         "p = marginal(J)\nT[w, r] = J[r, w]\nq = marginal(T)\ny[r, w] = J[r, w] - q[r] * p[w]",
         lambda j: j - torch.outer(j.sum(1), j.sum(0)), {"J": LOTTERY}),
    Case("Q03", {"q": "[3]", "p": "[2]"}, "[3, 2]", "J[r, w] = q[r] * p[w]\ny = conditional(J)",
         lambda q, p: torch.outer(q, p) / torch.outer(q, p).sum(0), {"q": simplex, "p": simplex}),
    Case("Q16 X0.1", {"x": "[N]", "p": "[]"}, "[]", "y = -mean[n](bernoulli_log_density(x[n], p))",
         lambda x, p: torch.nn.functional.binary_cross_entropy(p.expand(len(x)), x),
         {"x": binary, "p": given(0.3)}, ("x",)),
)  # fmt: skip

BOXES = cases(
    Case("B12", {"f": "[N]", "t": "[N]"}, "[]", "y = binary_cross_entropy(f, t)",
         torch.nn.functional.binary_cross_entropy_with_logits, {"t": between_0_and_1}, ("t",)),
    Case("B12", {"f": "[N]", "t": "[N]"}, "[]", "y = binary_cross_entropy_p(f, t)",
         torch.nn.functional.binary_cross_entropy, dict.fromkeys("ft", between_0_and_1), ("t",)),
    Case("B12", {"f": "[N, K]", "label": "i32[N] < K"}, "[]", "y = cross_entropy(f, label)",
         lambda f, label: torch.nn.functional.cross_entropy(f, label.long())),
    Case("B12", {"f": "[N, K]", "label": "i32[N] < K"}, "[]", "p[n, k] = log_softmax[k](f[n, k])\ny = nll(p, label)",
         lambda f, label: torch.nn.functional.nll_loss(torch.log_softmax(f, 1), label.long())),
    Case("B12 X0.1", {"f": "[N, K]", "t": "[N, K]"}, "[]", "y = soft_cross_entropy(f, t)",
         torch.nn.functional.cross_entropy, {"t": simplex}, ("t",)),
)  # fmt: skip


ROWS = {"X": "[6, 4]", "at": "i32[7] < 6"}

#: what is done to arrays in NumPy by brackets, reductions, comparisons and orders
INDEXING = cases(
    Case("X2.0", {"X": "[6, 4]"}, "[6]", "y = X[:, 0]", lambda x: x[:, 0]),
    Case("X2.0", {"X": "[6, 4]"}, "[4, 4]", "y = X[1:5, :]", lambda x: x[1:-1]),
    Case("X2.0", {"X": "[6, 4]"}, "[6, 4]", "y = X[::-1, :]", lambda x: x.flip(0)),
    Case("X2.0", {"X": "[6, 4]"}, "[3, 2]", "y = X[::2, 1:4:2]", lambda x: x[::2, 1:4:2]),
    Case("X2.0", {"X": "[6, 4]"}, "[4]", "y[k] = X[5, k]", lambda x: x[-1]),
    Case("X2.0", ROWS, "[7, 4]", "y[m, k] = X[at[m], k]", lambda x, at: x[at.long()]),
    Case("X2.0", {**ROWS, "col": "i32[7] < 4"}, "[7]", "y[m] = X[at[m], col[m]]",
         lambda x, at, col: x[at.long(), col.long()]),
    Case("X2.0", {"X": "[7, 4]", "at": "i32[7] < 6"}, "[6, 4]", "y[at[m], k] += X[m, k]",
         lambda x, at: torch.zeros(6, 4, dtype=x.dtype).index_add(0, at.long(), x)),
    Case("X2.0", {"X": "[6, 4]"}, "[6, 4]", "y[n, k] = X[n, k] if X[n, k] > 0 else -2 * X[n, k]",
         lambda x: torch.where(x > 0, x, -2 * x)),
    Case("X2.0", {"X": "[4, 4]"}, "[4]", "y[i] = X[i, i] + X[i, 3 - i]", lambda x: x.diagonal() + x.flip(1).diagonal()),
    Case("X2.0", {"X": "[4, 4]"}, "[4, 4]", "y[i, j] = X[j, i] if i > j else 0", lambda x: x.T.tril(-1)),
    Case("X2.0", {"X": "[6, 4]"}, "[24]", "y[(n k)] = X[n, k]", lambda x: x.reshape(-1)),
    Case("X2.0", {"X": "[6, 4]"}, "[6, 2, 2]", "y[n, a, b] = X[n, (a b)] where a = 2", lambda x: x.reshape(6, 2, 2)),
    Case("X2.0", {"X": "[6, 4]"}, "[6, 4]", "y[n, k] = X[wrap(n + 2), wrap(k - 1)]", lambda x: x.roll((-2, 1), (0, 1))),
    Case("X2.0", {"X": "[6, 4]", "Z": "[7, 4]"}, "[13, 4]", "y[n, k] = concat[n](X[n, k], Z[n, k])",
         lambda x, z: torch.cat((x, z))),
    Case("X2.0", {"X": "[6, 4]"}, "[8, 6]", "y[p: 8, q: 6] = (X[p - 1, q - 1] else 0)",
         lambda x: torch.nn.functional.pad(x, (1, 1, 1, 1))),
    Case("X2.0", {"X": "[6, 4]"}, "[6, 4]",
         "y[n, k] = (X[n, k] - min[n](X[n, k])) / (max[n](X[n, k]) - min[n](X[n, k]))",
         lambda x: (x - x.amin(0)) / (x.amax(0) - x.amin(0))),
    Case("X2.0", {"X": "[6, 4]"}, "[6, 4]", "y[n, k] = cumsum[n](X[n, k])", lambda x: x.cumsum(0)),
    Case("X2.0", {"X": "[6, 4]"}, "[6, 4]", "y[n, k] = sort[n](X[n, k])", lambda x: x.sort(0).values),
    Case("X2.0", {"X": "[6, 4]"}, "i64[6]", "y[n] = argmax[k](X[n, k])", lambda x: x.argmax(1)),
    Case("X2.0", {"c": "i32[6] < 4"}, "[6, 4]", "y[n, k] = one_hot[k: 4](c[n])",
         lambda c: torch.nn.functional.one_hot(c.long(), 4).double()),
    Case("X2.0", {"c": "i32[6] < 4"}, "[4]", "y[c[n]] += 1.0", lambda c: torch.bincount(c, minlength=4).double()),
    Case("X2.0", {"X": "[6, 4]"}, "[3, 2]", "y[p, q] = sum[a, b](X[(p a), (q b)]) where p = 3, q = 2",
         lambda x: x.reshape(3, 2, 2, 2).sum((1, 3))),
    Case("X2.0", {"x": "[6]", "z": "[7]"}, "[6, 7]", "y[n, m] = 1 / (abs(x[n] - z[m]) + 1)",
         lambda x, z: 1 / ((x[:, None] - z).abs() + 1)),
)  # fmt: skip


@pytest.mark.parametrize("case", EQUATIONS + BOXES + INDEXING)
def test_equations_of_the_first_chapters_have_the_values_and_gradients_of_torch(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)

"""Rows of the catalogue on linear algebra and derivatives (chapters 2 and 6)."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from catalogue import Case, cases, check, covariance, positive, well_conditioned
from marks import rows
from torch.func import hessian, jacrev

torch.set_num_threads(1)

VECTORS = {"x": "[D]", "z": "[D]"}
MATRICES = {"A": "[N, K]", "B": "[K, E]"}

ALGEBRA = cases(
    Case("P06", {**VECTORS, "a": "[]", "b": "[]"}, "[D]", "y = a * x + b * z", lambda x, z, a, b: a * x + b * z),
    Case("P07", {"x": "[D]"}, "[]", "y = norm[i](x[i])", torch.linalg.vector_norm),
    Case("P08", VECTORS, "[]", "y = x[i] * z[i]", torch.dot),
    Case("P09", VECTORS, "[]", "y = cosine[i](x[i], z[i])", lambda x, z: torch.cosine_similarity(x, z, 0)),
    Case("P11", {"x": "[D]"}, "[]", "one[i: D] = 1.0\ny = x[i] * one[i]", torch.sum),
    Case("P12", {"x": "[N, D]", "z": "[M, D]"}, "[N, M]",
         "y[n, m] = x[n, i] * x[n, i] + z[m, i] * z[m, i] - 2 * x[n, i] * z[m, i]",
         lambda x, z: torch.cdist(x, z, compute_mode="donot_use_mm_for_euclid_dist") ** 2),
    Case("P13", {"a": "[D]", "b": "[D]"}, "[2, D]", "y[r, i] = concat[r](a[i], b[i])",
         lambda a, b: torch.stack((a, b))),
    Case("P14", MATRICES, "[N, E]", "y[n, e] = A[n, k] * B[k, e]", torch.matmul),
    Case("P15", {"X": "[N, D]", "W": "[O, D]"}, "[N, O]", "y[n, o] = X[n, i] * W[o, i]",
         lambda x, w: torch.vmap(lambda row: w @ row)(x)),
    Case("P16", {"X": "[N, D]"}, "[N, N]", "y[n, m] = X[n, i] * X[m, i]", lambda x: x @ x.T),
    Case("P17", {"A": "[N, K]", "B": "[N, K]"}, "[N, K]", "y = A * B", torch.mul),
    Case("P18", {"A": "[N, K]"}, "[N, K]", "y = exp(A)", torch.exp),
    Case("P19", {"A": "[K, K]"}, "[K, K]", "y = matexp(A)", torch.matrix_exp),
    Case("P20", {"A": "[K, K]"}, "[K, K]", "y = inv(A)", torch.linalg.inv, {"A": well_conditioned}),
    Case("P20", {"A": "[K, K]"}, "[]", "y = det(A)", torch.linalg.det, {"A": well_conditioned}),
    Case("P21", {"A": "[N, K]"}, "[N]", "y[n] = sum[k](A[n, k])", lambda a: a.sum(1)),
    Case("P21", {"A": "[N, K]"}, "[K]", "y[k] = mean[n](A[n, k])", lambda a: a.mean(0)),
    Case("P22", {"A": "[O, K]", "B": "[K, D]", "x": "[D]"}, "[O]", "h[k] = B[k, i] * x[i]\ny[o] = A[o, k] * h[k]",
         lambda a, b, x: (a @ b) @ x),
    Case("P27", {"A": "[N, O, K]", "B": "[N, K, E]"}, "[N, O, E]", "y[n, o, e] = A[n, o, k] * B[n, k, e]", torch.bmm),
    Case("P28", {"A": "[N, K, E]", "B": "[N, K, E]"}, "[]", "y = A[n, k, e] * B[n, k, e]",
         lambda a, b: torch.dot(a.flatten(), b.flatten())),
    Case("P41", {"W": "[O, D]"}, "[O * D]", "y[(o i)] = W[o, i]", torch.flatten),
    Case("L18", {"A": "[K, K]"}, "[]", "w, V = eigh(A)\ny = max[i](w[i]) / min[i](w[i])",
         lambda a: torch.linalg.eigvalsh(a)[-1] / torch.linalg.eigvalsh(a)[0], {"A": covariance}, ("A",)),
)  # fmt: skip


@pytest.mark.parametrize("case", ALGEBRA)
def test_linear_algebra_has_the_values_and_gradients_of_torch(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


#: pattern, and the types of its operands
EINSUMS = {
    "ijz,izk->ijk": ("[N, O, K]", "[N, K, E]", "[N, O, E]"),
    "ijz,ikz->ijk": ("[N, O, K]", "[N, E, K]", "[N, O, E]"),
    "ijk,ijk->": ("[N, K, E]", "[N, K, E]", "[]"),
    "i,j->ij": ("[D]", "[E]", "[D, E]"),
    "nc,c->n": ("[N, K]", "[K]", "[N]"),
    "ij,ij->i": ("[N, K]", "[N, K]", "[N]"),
    "ab,cb->ca": ("[N, K]", "[M, K]", "[M, N]"),
    "ijk,njk->ni": ("[O, D, K]", "[N, D, K]", "[N, O]"),
}


def _einsum(pattern: str, left: str, right: str, result: str, as_string: bool) -> Case:
    names, _, kept = pattern.partition("->")
    a, b = (", ".join(x) for x in names.split(","))
    target = f"y[{', '.join(kept)}]" if kept else "y"
    body = f'y = einsum("{pattern}", A, B)' if as_string else f"{target} = A[{a}] * B[{b}]"
    return Case("P29", {"A": left, "B": right}, result, body, lambda x, z: torch.einsum(pattern, x, z))


@rows("P29")
@pytest.mark.parametrize("as_string", [True, False])
@pytest.mark.parametrize("pattern", EINSUMS)
def test_einsum_and_its_equation_are_those_of_torch(pattern: str, as_string: bool, tmp_path: Path) -> None:
    check(_einsum(pattern, *EINSUMS[pattern], as_string), tmp_path)


def _net(x: torch.Tensor, w: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    return torch.tanh(u @ torch.sin(w @ x))


NET = {"x": "[D]", "W": "[K, D]", "U": "[E, K]"}
LAYERS = "h[k] = sin(W[k, i] * x[i])\nz[e] = tanh(U[e, k] * h[k])\n"

DERIVATIVES = cases(
    Case("P33", {"x": "[D]", "z": "[D]"}, "[D]", "y = sin(x) * exp(z) + exp(sin(x) * z)",
         lambda x, z: torch.sin(x) * torch.exp(z) + torch.exp(torch.sin(x) * z)),
    Case("P35 A35", {"x": "[D]"}, "[D]", "e = sum[i](x[i]^2)\ny = grad(e, x)", lambda x: 2 * x),
    Case("P36 A27", {**NET, "v": "[D]"}, "[E]", f"{LAYERS}y = jvp(z, x, v)",
         lambda x, w, u, v: jacrev(_net)(x, w, u) @ v),
    Case("P37 A29", NET, "[E, D]", f"{LAYERS}y = jacobian(z, x)", jacrev(_net)),
    Case("P38", NET, "[E, D]",
         f"{LAYERS}first = jacobian(h, x)\nlast = jacobian(z, h)\ny[e, i] = last[e, k] * first[k, i]", jacrev(_net)),
    Case("P39", {"x": "[D]", "at": "[D]"}, "[]",
         "f = sum[i](at[i]^2 - 1.5 * at[i])\nslope = grad(f, at)\ny = f + slope[i] * (x[i] - at[i])",
         lambda x, at: (at**2 - 1.5 * at).sum() + ((2 * at - 1.5) * (x - at)).sum()),
    Case("P40 A04 A05", {"W": "[O, D]", "x": "[D]"}, "[O, O, D]", "z[o] = W[o, i] * x[i]\ny = jacobian(z, W)",
         lambda w, x: torch.einsum("ab,i->abi", torch.eye(len(w), dtype=w.dtype), x)),
    Case("A08", {"x": "[D]"}, "[D]", "s = sin(x)\ny = x * x + s * x + s", lambda x: x * x + torch.sin(x) * (x + 1)),
    Case("A09", {"w": "[K, K]", "x": "[K]"}, "[K]", "h[k] = tanh(w[k, i] * x[i])\ny[k] = tanh(w[k, i] * h[i])",
         lambda w, x: torch.tanh(w @ torch.tanh(w @ x))),
    Case("A11", {"x": "[D]", "a": "[]", "b": "[]"}, "[D]",
         "f = sum[i](a * sin(x[i]) + b * x[i] * sin(x[i]))\ny = grad(f, x)",
         lambda x, a, b: a * torch.cos(x) + b * x * torch.cos(x) + b * torch.sin(x)),
    Case("A19 A20 A21", NET, "[K, D]", f"{LAYERS}f = sum[e](z[e])\ny = grad(f, W)",
         jacrev(lambda x, w, u: _net(x, w, u).sum(), 1)),
    Case("A26 A30", {"W": "[O, D]", "x": "[D]", "v": "[O]"}, "[D]", "z[o] = W[o, i] * x[i]\ny = vjp(z, x, v)",
         lambda w, x, v: w.T @ v + 0 * x),
    Case("A31", {"W": "[O, D]", "x": "[D]", "v": "[O]"}, "[O, D]", "z[o] = W[o, i] * x[i]\ny = vjp(z, W, v)",
         lambda w, x, v: torch.outer(v, x) + 0 * w),
    Case("A31", {"W": "[O, D]", "X": "[N, D]", "V": "[N, O]"}, "[O, D]",
         "z[n, o] = W[o, i] * X[n, i]\ny = vjp(z, W, V)",
         lambda w, x, v: torch.einsum("no,ni->oi", v, x) + 0 * w),
    Case("A32", {"x": "[D]", "v": "[D]"}, "[D]", "z = tanh(x)\ny = vjp(z, x, v)",
         lambda x, v: v * (1 - torch.tanh(x) ** 2)),
    Case("A37 P53", {"x": "[D]"}, "[D, D]", "f = exp(sum[i](sin(x[i])^2))\ny = hessian(f, x)",
         hessian(lambda x: torch.exp((torch.sin(x) ** 2).sum()))),
    Case("A45", {"x": "[D]"}, "[D]", "f = sum[i](sigmoid(x[i]))\ny = grad(f, x)",
         lambda x: torch.sigmoid(x) * (1 - torch.sigmoid(x))),
    Case("Q06", {"x": "[D]"}, "[D]", "f = sum[i]((1 + erf(x[i] / sqrt(2))) / 2)\ny = grad(f, x)",
         lambda x: torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)),
    Case("P32", {"x": "[D]"}, "[D]", "f = sum[i](x[i]^2.5 + log(x[i]) + sin(x[i]))\ny = grad(f, x)",
         lambda x: 2.5 * x**1.5 + 1 / x + torch.cos(x), {"x": positive}),
)  # fmt: skip


@pytest.mark.parametrize("case", DERIVATIVES)
def test_derivatives_in_a_spec_are_those_of_torch_and_have_derivatives(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)

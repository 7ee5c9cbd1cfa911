"""Sums of products under a condition, at points where the part that is not taken has no value; and torch's word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from samples import load

from dslc.compiler import compile_text

#: formula with indices n and m -> what torch makes of x [N], q [N] and w [N, M], with `where` before what is unsafe
SUMS: dict[str, Any] = {
    "entropy[n](x[n])": lambda x, q, w: -torch.where(x > 0, x * safe(x, x > 0).log(), 0).sum(),
    "kl_divergence(x, q)": lambda x, q, w: torch.where(
        x > 0, x * (safe(x, x > 0) / safe(q, x > 0)).log(), 0
    ).sum(),
    "mean[n](x[n] / x[n] if x[n] != 0 else 0)": lambda x, q, w: torch.where(x != 0, x / safe(x, x != 0), 0).mean(),
    "sum[n](q[n] * log_x[n] if x[n] != 0 else 0)": lambda x, q, w: torch.where(
        x != 0, q * safe(x, x != 0).log(), 0
    ).sum(),
    "sum[n](0 if x[n] == 0 else q[n] / x[n]^2)": lambda x, q, w: torch.where(
        x != 0, q / safe(x, x != 0) ** 2, 0
    ).sum(),
    "sum[m, n](w[n, m] * log_x[n] if x[n] != 0 else 0)": lambda x, q, w: torch.where(
        (x != 0)[:, None], w * safe(x, x != 0).log()[:, None], 0
    ).sum(),
    "sum[m](w[n, m] / x[n] if w[n, m] != 0 else 0)": lambda x, q, w: torch.where(
        w != 0, w / torch.where((w != 0).any(1), x, 1.0)[:, None], 0
    ).sum(1),
    "sum[m](sqrt(w[n, m]) * exp(1000 * (1 - x[n])) if x[n] > 1/2 else 0)": lambda x, q, w: torch.where(
        (x > 0.5)[:, None], w.sqrt() * (1000 * (1 - safe(x, x > 0.5))).exp()[:, None], 0
    ).sum(1),
}  # fmt: skip

POINT = (np.array([0.0, 0.9, 0.7]), np.array([0.0, 0.5, 0.5]), np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]]))


def safe(x: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return torch.where(wanted, x, torch.ones_like(x))


def model() -> str:
    """All sums, and their gradients by x."""
    head, body = [], ["log_x[n] = log(x[n])"]
    for k, formula in enumerate(SUMS):
        axis = "[n]" if "sum[m](" in formula else ""
        head.append(f"r{k}: [{'N' if axis else ''}], d{k}: [N]")
        body += [f"r{k}{axis} = {formula}", f"d{k} = grad({f'sum(r{k})' if axis else f'r{k}'}, x)"]
    lines = "".join(f"    {line}\n" for line in body)
    return f"model m(x: f64[N], q: f64[N], w: f64[N, M]) -> ({', '.join(head)}):\n{lines}"


def compare(folder: Path, backend: str) -> None:
    spec = folder / "m.dsl"
    spec.write_text(model(), encoding="utf-8")
    module = load(compile_text(spec, backend, dtype="f64"), folder, f"guarded_{backend}")
    given: Any = POINT if backend == "numpy" else [torch.as_tensor(a) for a in POINT]
    with np.errstate(all="ignore"):
        found = module.forward({}, *given)
    for k, (formula, meaning) in enumerate(SUMS.items()):
        x, q, w = (torch.tensor(a, requires_grad=True) for a in POINT)
        value = meaning(x, q, w)
        (slope,) = torch.autograd.grad(value.sum(), x)
        np.testing.assert_allclose(found[f"r{k}"], value.detach(), rtol=1e-12, err_msg=formula)
        np.testing.assert_allclose(found[f"d{k}"], slope, rtol=1e-12, atol=1e-15, err_msg=f"gradient of {formula}")


def scatter(folder: Path, backend: str, columns: tuple[int, ...]) -> None:
    """Rows that are infinite or NaN, added at places that are data; the gradient of a gather does the same."""
    index, axes = ("m, o", "O") if columns else ("m", "")
    rows, table = (f"f64[{x}, {axes}]" if axes else f"f64[{x}]" for x in ("M", "4"))
    text = (
        f"model m(x: {rows}, w: {table}, at: i32[M] < 4) -> (y: {table}, d: {table}):\n"
        f"    y[at[{index[0]}]{index[1:]}] += x[{index}]\n    z[{index}] = w[at[{index[0]}]{index[1:]}] * x[{index}]\n"
        "    d = grad(sum(z), w)\n"
    )
    spec = folder / "m.dsl"
    spec.write_text(text, encoding="utf-8")
    x = np.arange(1.0, 7.0).reshape(6, *(1 for _ in columns)) * np.ones((6, *columns))
    x[1], x[4] = np.inf, np.nan
    at = np.array([0, 1, 3, 3, 2, 0])
    expected = np.zeros((4, *columns))
    np.add.at(expected, at, x)
    given: Any = (x, np.ones((4, *columns)), at)
    if backend == "triton":
        given = [torch.as_tensor(a) for a in given]
    found = load(compile_text(spec, backend, dtype="f64"), folder).forward({}, *given)
    np.testing.assert_array_equal(found["y"], expected)
    np.testing.assert_array_equal(found["d"], expected)

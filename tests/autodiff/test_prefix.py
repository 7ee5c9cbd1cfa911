"""Gradients of running combinations by an operation with kinks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from samples import load

from dslc.compiler import compile_text

ONLINE = """
fn online(m1, L1, o1, m2, L2, o2) -> (m, L, o):
    m = max(m1, m2)
    L = L1 * exp(m1 - m) + L2 * exp(m2 - m)
    o = o1 * exp(m1 - m) + o2 * exp(m2 - m)

model m(x: f64[N, T], v: f64[N, T]) -> (z: [N, T], y: [N, T], dx: [N, T], dv: [N, T]):
    one[n: N, t: T] = 1.0
    m[n, t], L[n, t], o[n, t] = prefix[t](online, x[n, t], one[n, t], v[n, t])
    z[n, t] = m[n, t] + log(L[n, t])
    y[n, t] = o[n, t] / L[n, t]
    total = sum[n, t](y[n, t]^2 * (t + 1)) + sum[n, t](z[n, t] * (n + 1))
    dx = grad(total, x)
    dv = grad(total, v)
"""


@pytest.mark.point("16")
def test_an_online_softmax_has_the_gradient_of_the_softmax(tmp_path: Path) -> None:
    spec = tmp_path / "m.dsl"
    spec.write_text(ONLINE, encoding="utf-8")
    rng = np.random.default_rng(0)
    given = rng.normal(size=(2, 7)) * 5, rng.normal(size=(2, 7))
    given[0][0, 3] = given[0][0, :3].max()  # a tie
    found = load(compile_text(spec, dtype="f64"), tmp_path).forward({}, *given)
    x, v = (torch.tensor(a, requires_grad=True) for a in given)
    z = torch.logcumsumexp(x, 1)
    y = torch.cumsum(torch.exp(x) * v, 1) / torch.cumsum(torch.exp(x), 1)
    total = (y**2 * torch.arange(1, 8)).sum() + (z * torch.arange(1, 3)[:, None]).sum()
    dx, dv = torch.autograd.grad(total, [x, v])
    for name, expected in {"z": z.detach(), "y": y.detach(), "dx": dx, "dv": dv}.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-9, atol=1e-12, err_msg=name)

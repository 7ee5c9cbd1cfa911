"""Jacobians and Hessians in functions that are mapped over indices: every element has its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from samples import load

from dslc.cli.main import main
from dslc.compiler import compile_text

SPEC = """
fn field(x: [D], w: [D]) -> y: [D]:
    y[d] = tanh(x[d]) * w[d]^2 * sum[e](x[e] * w[e])

fn energy(x: [D], w: [D]) -> e: []:
    e = sum[d](x[d]^3 * w[d]^2) * sum[d](sin(x[d]) * w[d])

fn every(x: [D], w: [D]) -> (J: [D, D], H: [D, D], trace: [], Jw: [D, D], gw: [D], Hw: [D, D]):
    y = field(x, w)
    e = energy(x, w)
    J = jacobian(y, x)
    H = hessian(e, x)
    trace = sum[d](H[d, d])
    Jw = jacobian(y, w)
    gw = grad(e, w)
    Hw = hessian(e, w)

model m(x: f64[N, M, D], w: f64[D]) -> (
    J: [N, M, D, D], H: [N, M, D, D], trace: [N, M], Jw: [N, M, D, D], gw: [N, M, D], Hw: [N, M, D, D], d: [N, M, D]
):
    J[n, m, :, :], H[n, m, :, :], trace[n, m], Jw[n, m, :, :], gw[n, m, :], Hw[n, m, :, :] = every(x[n, m, :], w)
    d = grad(sum(trace), x)
"""


def field(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * w**2 * (x * w).sum()


def energy(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x**3 * w**2).sum() * (torch.sin(x) * w).sum()


@pytest.mark.point("19")
def test_every_element_has_its_own_jacobian_and_hessian(tmp_path: Path) -> None:
    from torch.func import grad, hessian, jacrev, vmap

    spec = tmp_path / "m.dsl"
    spec.write_text(SPEC, encoding="utf-8")
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 3, 4)), rng.normal(size=4)
    found = load(compile_text(spec, dtype="f64"), tmp_path).forward({}, x, w)

    def every(f: Any) -> torch.Tensor:
        value: torch.Tensor = vmap(vmap(f, (0, None)), (0, None))(torch.tensor(x), torch.tensor(w))
        return value

    def trace(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.trace(hessian(energy)(x, w))

    expected = {
        "J": every(jacrev(field)), "H": every(hessian(energy)), "trace": every(trace), "Jw": every(jacrev(field, 1)),
        "gw": every(grad(energy, 1)), "Hw": every(hessian(energy, 1)), "d": every(grad(trace)),
    }  # fmt: skip
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.point("19")
def test_a_mapped_hessian_is_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tmp_path / "m.dsl"
    spec.write_text(SPEC, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(spec), "-b", "numpy"])
    assert not ended.value.code, capsys.readouterr()

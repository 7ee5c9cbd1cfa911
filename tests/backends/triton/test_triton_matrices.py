"""Operations on matrices and along an axis, against NumPy and torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from triton_modules import numpy_module, triton_module

SPEC = """
model m(a: f64[N, 5, 5], b: f64[N, 5], s: f64[N, 5, 5]) -> (
    x: [N, 5], i: [N, 5, 5], d: [N], l: [N], e: [N, 5, 5], c: [N, 5, 5], w: [N, 5], v: [N, 5, 5]
):
    x[n, :] = solve(a[n, :, :], b[n, :])
    i[n, :, :] = inv(a[n, :, :])
    d[n] = det(a[n, :, :])
    l[n] = logdet(a[n, :, :])
    e[n, :, :] = matexp(a[n, :, :])
    c[n, :, :] = cholesky(s[n, :, :])
    w[n, :], v[n, :, :] = eigh(s[n, :, :])
"""


def test_matrices(tmp_path: Path) -> None:
    spec = tmp_path / "matrices.dsl"
    spec.write_text(SPEC, encoding="utf-8")
    module = triton_module(spec, tmp_path, "f64")
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 5, 5)), rng.normal(size=(3, 5))
    a[0, 0, 0] = 0.0  # a pivot must be looked for
    s = a @ a.swapaxes(-1, -2) + np.eye(5)
    out = module.forward({}, *(torch.as_tensor(x) for x in (a, b, s)))
    wanted = {
        "x": np.linalg.solve(a, b[..., None])[..., 0], "i": np.linalg.inv(a), "d": np.linalg.det(a),
        "l": np.linalg.slogdet(a)[1], "e": torch.linalg.matrix_exp(torch.as_tensor(a)).numpy(),
        "c": np.linalg.cholesky(s), "w": np.linalg.eigvalsh(s),
    }  # fmt: skip
    for name, value in wanted.items():
        np.testing.assert_allclose(out[name].numpy(), value, rtol=1e-9, atol=1e-9, err_msg=name)
    v, w = out["v"].numpy(), out["w"].numpy()
    np.testing.assert_allclose(s @ v, v * w[:, None, :], atol=1e-9)
    np.testing.assert_allclose(v.swapaxes(-1, -2) @ v, np.broadcast_to(np.eye(5), v.shape), atol=1e-9)


@pytest.mark.point("emitted")
def test_eigenvalues_are_those_of_the_lower_triangle(tmp_path: Path) -> None:
    spec = tmp_path / "eigen.dsl"
    spec.write_text("model m(s: f64[4, 4]) -> (w: [4], v: [4, 4]):\n    w, v = eigh(s)\n", encoding="utf-8")
    s = np.random.default_rng(3).normal(size=(4, 4))
    out = triton_module(spec, tmp_path, "f64").forward({}, torch.as_tensor(s))
    wanted = torch.linalg.eigh(torch.as_tensor(s))
    torch.testing.assert_close(out["w"], wanted.eigenvalues)
    torch.testing.assert_close((out["v"] * wanted.eigenvectors).sum(0).abs(), torch.ones(4, dtype=torch.float64))


ALONG = """
model m(x: f64[N, T, K]) -> (s: [N, T, K], p: [N, T, K], u: [N, T, K], o: [N, T, K], g: [N, T, K]):
    s[n, t, k] = cumsum[t](x[n, t, k])
    p[n, t, k] = cumprod[t](x[n, t, k])
    u[n, t, k] = cummax[k](x[n, t, k])
    o[n, t, k] = sort[t](x[n, t, k])
    g[n, t, k] = argsort[k](x[n, t, k])
"""


def test_along_an_axis(tmp_path: Path) -> None:
    spec = tmp_path / "along.dsl"
    spec.write_text(ALONG, encoding="utf-8")
    module = triton_module(spec, tmp_path, "f64")
    x = np.round(np.random.default_rng(0).normal(size=(2, 130, 3)), 1)  # with ties, and longer than a block
    out = module.forward({}, torch.as_tensor(x))
    wanted = {
        "s": x.cumsum(1), "p": x.cumprod(1), "u": np.maximum.accumulate(x, 2), "o": np.sort(x, 1),
        "g": np.argsort(x, 2, kind="stable"),
    }  # fmt: skip
    for name, value in wanted.items():
        np.testing.assert_allclose(out[name].numpy(), value, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("make", [triton_module, numpy_module])
def test_the_exponential_of_a_matrix_is_off_by_few_roundings(make: Callable[..., ModuleType], tmp_path: Path) -> None:
    spec = tmp_path / "exponential.dsl"
    spec.write_text("model m(a: f32[5, 5]) -> e: [5, 5]:\n    e = matexp(a)\n", encoding="utf-8")
    module = make(spec, tmp_path, "f32")
    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0, 3.0):
        a = (scale * rng.normal(size=(5, 5))).astype(np.float32)
        wanted = torch.linalg.matrix_exp(torch.as_tensor(a, dtype=torch.float64)).numpy()
        error = np.abs(np.asarray(module.forward({}, a)) - wanted).max() / np.abs(wanted).max()
        assert error < 32 * np.finfo(np.float32).eps, scale

"""Complex numbers as pairs: torch's own complex numbers as the oracle, on all backends, and NumPy's at the edges."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from catalogue import Array, Case, Table, cases, check, model, positive

import dslc

torch.set_num_threads(1)
# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"


def pair(z: torch.Tensor) -> torch.Tensor:
    """The two parts, one after the other along the first axis."""
    return torch.stack((z.real, z.imag))


ONE = {"a": "[N]", "b": "[N]"}
TWO = {**ONE, "c": "[N]", "d": "[N]"}
PARTS = "y[r, n] = concat[r](re[n], im[n])"
SQUARE = {"A": "[K, K]", "B": "[K, K]"}
z = torch.complex


def hermitian(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.complex(a + a.T, b - b.T)


#: A + A' + i (B - B') is its own conjugate transpose, and the derivatives by A and B are free
HERMITIAN = "S[i, j] = A[i, j] + A[j, i]\nT[i, j] = B[i, j] - B[j, i]\nvalue, u, v = hermitian_eigh(S, T)\n"

PAIRS = cases(
    Case("", TWO, "[2, N]", f"re, im = complex_product(a, b, c, d)\n{PARTS}",
         lambda a, b, c, d: pair(z(a, b) * z(c, d))),
    Case("", TWO, "[2, N]", f"re, im = complex_quotient(a, b, c, d)\n{PARTS}",
         lambda a, b, c, d: pair(z(a, b) / z(c, d))),
    Case("", ONE, "[2, N]", f"re, im = conjugate(a, b)\n{PARTS}", lambda a, b: pair(z(a, b).conj())),
    Case("", ONE, "[N]", "y = modulus(a, b)", lambda a, b: z(a, b).abs()),
    Case("", ONE, "[N]", "y = argument(a, b)", lambda a, b: z(a, b).angle()),
    Case("", {"r": "[N]", "t": "[N]"}, "[2, N]", f"re, im = from_polar(r, t)\n{PARTS}",
         lambda r, t: pair(torch.polar(r, t)), {"r": positive}),
    Case("", ONE, "[2, N]", f"re, im = complex_exp(a, b)\n{PARTS}", lambda a, b: pair(z(a, b).exp())),
    Case("", ONE, "[2, N]", f"re, im = complex_log(a, b)\n{PARTS}", lambda a, b: pair(z(a, b).log())),
    Case("", ONE, "[2, N]", f"re, im = complex_sqrt(a, b)\n{PARTS}", lambda a, b: pair(z(a, b).sqrt())),
    Case("", ONE, "[2, N]", f"re, im = complex_power(a, b, 2.5)\n{PARTS}", lambda a, b: pair(z(a, b) ** 2.5)),
    Case("", {"A": "[N, K]", "B": "[N, K]", "P": "[K, D]", "Q": "[K, D]"}, "[2, N, D]",
         "re, im = complex_matmul(A, B, P, Q)\ny[r, n, d] = concat[r](re[n, d], im[n, d])",
         lambda a, b, c, d: pair(z(a, b) @ z(c, d))),
    Case("", {"a": "[N, K]", "b": "[N, K]", "c": "[N, K]", "d": "[N, K]"}, "[2, N]",
         f"re, im = complex_dot(a, b, c, d)\n{PARTS}",
         lambda a, b, c, d: pair((z(a, b).conj() * z(c, d)).sum(1))),
    Case("", {**SQUARE, "c": "[K]", "d": "[K]"}, "[2, K]",
         "re, im = complex_solve(A, B, c, d)\ny[r, k] = concat[r](re[k], im[k])",
         lambda a, b, c, d: pair(torch.linalg.solve(z(a, b), z(c, d)))),
    Case("", SQUARE, "[K]", f"{HERMITIAN}y = value", lambda a, b: torch.linalg.eigvalsh(hermitian(a, b))),
    Case("", {**SQUARE, "c": "[K]"}, "[K, K]", f"{HERMITIAN}y[i, k] = (u[i, k]^2 + v[i, k]^2) * (c[k] + value[k])",
         lambda a, b, c: (lambda w, vector: vector.abs() ** 2 * (c + w))(*torch.linalg.eigh(hermitian(a, b)))),
)  # fmt: skip


@pytest.mark.parametrize("case", PAIRS)
def test_pairs_have_the_values_and_gradients_of_complex_numbers(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("backend", ["c", "triton"])
def test_pairs_have_them_on_the_other_backends(backend: str, tmp_path: Path) -> None:
    table = Table(x.values[0] for x in PAIRS)
    with np.errstate(all="ignore"):
        found = model(table.text(), tmp_path, backend).forward({}, *table.arguments())
    table.compare(found)


EDGES = """
model edges(a: f64[N], b: f64[N]) -> (root: [2, N], log: [2, N], length: [N], back: [2, N]):
    re, im = complex_sqrt(a, b)
    root[r, n] = concat[r](re[n], im[n])
    f, g = complex_log(a, b)
    log[r, n] = concat[r](f[n], g[n])
    length = modulus(a, b)
    p, q = complex_product(re, im, re, im)
    back[r, n] = concat[r](p[n], q[n])
"""


@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
def test_branches_and_large_numbers_are_those_of_numpy(backend: str, tmp_path: Path) -> None:
    """On both sides of the cut, at its end, on the axes, and where squares overflow or vanish."""
    a = np.array([-4.0, -4.0, -4.0, 0.0, 0.0, 4.0, -1.0, 3e200, -3e-200, 1.0])
    b = np.array([0.0, 1e-12, -1e-12, 2.0, -2.0, 0.0, 1e-9, 4e200, 4e-200, -1e-12])
    number = a + 1j * b
    found = model(EDGES, tmp_path, backend).forward({}, a, b)

    def same(name: str, expected: Array, least: float) -> None:
        np.testing.assert_allclose(found[name], [expected.real, expected.imag], rtol=1e-12, atol=least, err_msg=name)

    same("root", np.sqrt(number), 1e-300)
    same("log", np.log(number), 1e-16)  # log |z| where |z| is 1 to the last digit
    np.testing.assert_allclose(found["length"], np.abs(number), rtol=1e-12)
    np.testing.assert_allclose(found["back"][0], a, rtol=1e-9, atol=1e-11)
    zero = model(EDGES, tmp_path, backend).forward({}, np.zeros(1), np.zeros(1))
    np.testing.assert_array_equal(zero["root"], np.zeros((2, 1)))


SLOPES = """
model root(a: f64[N], b: f64[N]) -> (re: [N], im: [N]):
    re, im = complex_sqrt(a, b)

train root(a, b):
    re, im = root(a, b)
    minimize sum[n](re[n] * (n + 1)) + 2 * sum(im)
    using sgd()
"""


@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
def test_the_slope_of_a_root_on_the_axes_is_that_of_torch(backend: str, tmp_path: Path) -> None:
    a = torch.tensor([0.0, 0.0, 4.0, -4.0, -1e-8], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([2.0, -3.0, 0.0, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    root = z(a, b).sqrt()
    ((root.real * torch.arange(1, 6)).sum() + 2 * root.imag.sum()).backward()
    path = tmp_path / "root.dsl"
    path.write_text(SLOPES)
    module = dslc.compile(path, backend=backend, dtype="f64", wrt=["a", "b"])
    given = [x.detach() if backend == "triton" else x.detach().numpy() for x in (a, b)]
    grads = module.loss_and_grad(module.init(), *given)[1]
    for name, x in (("a", a), ("b", b)):
        assert x.grad is not None
        np.testing.assert_allclose(np.asarray(grads[name]), x.grad.numpy(), rtol=1e-12, atol=1e-12, err_msg=name)


QUOTIENT = """
model quotient(a: f32[N], b: f32[N], c: f32[N], d: f32[N]) -> (re: [N], im: [N]):
    re, im = complex_quotient(a, b, c, d)

train quotient(a, b, c, d):
    re, im = quotient(a, b, c, d)
    minimize sum(re) + 2 * sum(im)
    using sgd()
"""


@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
def test_a_quotient_needs_no_square_of_its_divisor(backend: str, tmp_path: Path) -> None:
    """The square of 1e25 is inf in float32, that of 1e-25 is 0."""
    parts = [
        np.array(x, np.float32)
        for x in (
            [1e25, -1e25, 1e-25, 3],
            [1e25, 1e20, -1e-25, 4],
            [1e25, 1e24, 1e-25, 0],
            [-1e24, -1e25, 2e-25, 1e-30],
        )
    ]
    exact = [torch.tensor(x.astype(np.float64), requires_grad=True) for x in parts]
    value = z(exact[0], exact[1]) / z(exact[2], exact[3])
    (value.real.sum() + 2 * value.imag.sum()).backward()
    path = tmp_path / "quotient.dsl"
    path.write_text(QUOTIENT)
    module = dslc.compile(path, backend=backend, wrt=["a", "b", "c", "d"])
    given = [torch.tensor(x) if backend == "triton" else x for x in parts]
    found = module.forward({}, *given)
    np.testing.assert_allclose(np.asarray(found["re"]), value.real.detach(), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(found["im"]), value.imag.detach(), rtol=1e-6)
    grads = module.loss_and_grad(module.init(), *given)[1]
    for name, x in zip("abcd", exact, strict=True):
        assert x.grad is not None
        fits = x.grad.abs() < 1e38  # the slopes of the last quotient are larger than floats
        np.testing.assert_allclose(np.asarray(grads[name])[fits], x.grad[fits], rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
def test_a_skew_matrix_has_eigenvalues_on_the_imaginary_axis(backend: str, tmp_path: Path) -> None:
    """A real skew matrix B is i times the Hermitian -iB: what diagonal state space models begin with."""
    text = """
model skew(B: f64[K, K]) -> (value: [K], re: [K, K], im: [K, K]):
    zero[i, j] = 0.0 * B[i, j]
    turned[i, j] = -B[i, j]
    value, x, y = hermitian_eigh(zero, turned)
    f, g = complex_matmul(zero, turned, x, y)
    re[i, k] = f[i, k] - value[k] * x[i, k]
    im[i, k] = g[i, k] - value[k] * y[i, k]
"""
    rng = np.random.default_rng(0)
    B = rng.standard_normal((4, 4))
    B = B - B.T
    found = model(text, tmp_path, backend).forward({}, B)
    np.testing.assert_allclose(found["value"], np.sort(np.linalg.eigvals(B).imag), atol=1e-12)
    np.testing.assert_allclose([found["re"], found["im"]], 0, atol=1e-12)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_the_sign_of_a_zero_tells_the_sides_of_the_cut_apart(backend: str, tmp_path: Path) -> None:
    spec = tmp_path / "root.dsl"
    spec.write_text(
        "model root(a: f32[N], b: f32[N]) -> (re: [N], im: [N], da: [N], db: [N]):\n"
        "    re[n], im[n] = complex_sqrt(a[n], b[n])\n"
        "    total = sum[n](re[n] + 2 * im[n])\n    da = grad(total, a)\n    db = grad(total, b)\n",
        encoding="utf-8",
    )
    a, b = np.array([-1, -1, -1, -4, 0, 2], np.float32), np.array([0.0, -0.0, -1e-30, 3, -2, -0.0], np.float32)
    z = torch.complex(torch.from_numpy(a), torch.from_numpy(b)).requires_grad_()
    root = torch.sqrt(z)
    (root.real + 2 * root.imag).sum().backward()
    found = dslc.compile(spec, backend=backend).forward({}, a, b)
    wanted = {"re": root.real, "im": root.imag, "da": z.grad.real, "db": z.grad.imag}
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value.detach().numpy(), rtol=1e-6, atol=1e-7)
    assert found["im"][1] == -1

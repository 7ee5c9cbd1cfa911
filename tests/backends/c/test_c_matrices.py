"""Linear algebra in C: as accurate as LAPACK, with a code where NumPy raises."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from compiled import Library

SIZES = (1, 2, 3, 7, 17, 33, 65, 130)
DTYPES = {"f32": np.float32, "f64": np.float64}
REALS = {"f32": ctypes.c_float, "f64": ctypes.c_double}
NAMES = ("solve", "inv", "det", "logdet", "cholesky", "eigh", "matexp", "matrix_scratch")


@pytest.fixture(scope="session")
def matrices(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(tmp_path_factory.mktemp("matrices"), [f"{name}_{kind}" for kind in DTYPES for name in NAMES])


class Call:
    """Functions on n x n matrices of one kind: results and scratch memory stand between NaNs, which must stay."""

    def __init__(self, matrices: Library, kind: str) -> None:
        self.matrices, self.kind, self.dtype = matrices, kind, DTYPES[kind]
        self.unit = float(np.finfo(self.dtype).eps)

    def __call__(self, name: str, n: int, *inputs: Any, results: list[tuple[int, ...]], scratch: bool = True) -> Any:
        shapes = [*results, (self.matrices[f"matrix_scratch_{self.kind}"](n),)][: len(results) + scratch]
        around = [np.full(int(np.prod(shape)) + 64, np.nan, self.dtype) for shape in shapes]
        inside = [a[32:-32].reshape(shape) for a, shape in zip(around, shapes, strict=True)]
        real = REALS[self.kind] if name in ("det", "logdet") else ctypes.c_int
        code = self.matrices.returning(f"{name}_{self.kind}", real)(n, *inputs, *inside)
        assert all(np.isnan(a[:32]).all() and np.isnan(a[-32:]).all() for a in around)
        return code, *inside[: len(results)]

    def random(self, *shape: int, seed: int = 0) -> np.ndarray:
        return np.random.default_rng(seed).standard_normal(shape).astype(self.dtype)


@pytest.fixture(params=DTYPES)
def call(matrices: Library, request: pytest.FixtureRequest) -> Call:
    return Call(matrices, request.param)


def size(a: np.ndarray) -> float:
    return float(np.abs(a).max())


@pytest.mark.parametrize("n", SIZES)
def test_solutions_solve(call: Call, n: int) -> None:
    for m in (1, 3, 20):
        a, b = call.random(n, n), call.random(n, m, seed=1)
        code, x = call("solve", n, m, a, b, results=[(n, m)])
        wide = a.astype(np.float64)
        assert code == 0
        assert size(wide @ x - b) <= 4 * n * call.unit * max(size(wide) * size(x), size(b))
    code, y = call("inv", n, a, results=[(n, n)])
    assert code == 0
    assert size(wide @ y - np.eye(n)) <= 4 * n * call.unit * np.linalg.cond(wide)


@pytest.mark.parametrize("n", SIZES)
def test_determinants(call: Call, n: int) -> None:
    a = call.random(n, n) / np.sqrt(n).astype(call.dtype)
    sign, log = np.linalg.slogdet(a.astype(np.float64))
    error = 4 * n * call.unit * np.linalg.cond(a.astype(np.float64))
    assert abs(call("logdet", n, a, results=[])[0] - log) <= error
    assert abs(call("det", n, a, results=[])[0] / (sign * np.exp(log)) - 1) <= error


def test_a_singular_matrix_is_reported(call: Call) -> None:
    for n in (1, 2, 5, 40):
        a = np.zeros((n, n), call.dtype)
        a[: n - 1, : n - 1] = np.eye(n - 1)
        assert call("solve", n, 1, a, np.ones(n, call.dtype), results=[(n,)])[0] != 0
        assert call("inv", n, a, results=[(n, n)])[0] != 0
        assert call("det", n, a, results=[])[0] == 0
        assert call("logdet", n, a, results=[])[0] == -np.inf


@pytest.mark.parametrize("n", SIZES)
def test_cholesky_factors(call: Call, n: int) -> None:
    a = call.random(n, n)
    a = a @ a.T + np.eye(n, dtype=call.dtype)
    broken = np.where(np.tri(n, dtype=bool), a, np.nan).astype(call.dtype)
    code, lower = call("cholesky", n, broken, results=[(n, n)], scratch=False)
    assert code == 0
    assert (np.triu(lower, 1) == 0).all() and (np.diag(lower) > 0).all()
    assert size(lower.astype(np.float64) @ lower.T - a) <= 4 * n * call.unit * size(a)


def test_a_matrix_that_is_not_positive_definite_is_reported(call: Call) -> None:
    for diagonal in ([-1.0], [1, 0], [1, 2, -3]):
        a = np.diag(np.array(diagonal, call.dtype))
        with pytest.raises(np.linalg.LinAlgError):
            np.linalg.cholesky(a)
        assert call("cholesky", len(a), a, results=[a.shape], scratch=False)[0] != 0


def test_what_is_no_number_passes_through_factors_as_in_numpy(call: Call) -> None:
    a = np.diag(np.array([1, np.nan, 4], call.dtype))
    code, lower = call("cholesky", 3, a, results=[a.shape], scratch=False)
    assert code == 0 and np.isnan(lower[1, 1]) and lower[0, 0] == 1
    code, x = call("solve", 3, 1, a, np.ones(3, call.dtype), results=[(3,)])
    assert code == 0 and np.isnan(x).any()
    assert np.isnan(call("det", 3, a, results=[])[0]) and np.isnan(call("logdet", 3, a, results=[])[0])


def symmetric(call: Call, n: int) -> Iterator[np.ndarray]:
    """Generic, of low rank, diagonal, with a cluster of eigenvalues, and far from 1 in size."""
    a = call.random(n, n)
    yield a + a.T
    yield np.outer(a[0], a[0])
    yield np.diag(np.arange(n)[::-1]).astype(call.dtype)
    q = np.linalg.qr(a.astype(np.float64))[0]
    yield (q * (1 + 1e-3 * (np.arange(n) % 2)) @ q.T).astype(call.dtype)
    yield ((a + a.T) * 1e30).astype(call.dtype)
    yield ((a + a.T) * 1e-30).astype(call.dtype)
    yield np.zeros((n, n), call.dtype)


@pytest.mark.parametrize("n", SIZES)
def test_eigenvalues_and_vectors(call: Call, n: int) -> None:
    for a in symmetric(call, n):
        code, values, vectors = call("eigh", n, np.tril(a), results=[(n,), (n, n)])
        a = np.tril(a).astype(np.float64)
        a += np.tril(a, -1).T
        wanted = np.linalg.eigvalsh(a)
        assert code == 0
        assert (np.diff(values) >= 0).all()
        norm = max(size(wanted), np.finfo(call.dtype).tiny)
        assert size(values - wanted) <= 4 * np.sqrt(n) * call.unit * norm + 4 * call.unit * norm
        wide = vectors.astype(np.float64)
        assert size(wide.T @ wide - np.eye(n)) <= 8 * np.sqrt(n) * call.unit + 8 * call.unit
        assert size(a / norm @ wide - wide * (values / norm)) <= 8 * np.sqrt(n) * call.unit + 8 * call.unit
        peaks = np.abs(vectors).argmax(0)
        assert (vectors[peaks, np.arange(n)] > 0).all()


def test_eigenvalues_of_what_is_no_number_are_reported(call: Call) -> None:
    a = np.full((4, 4), np.nan, call.dtype)
    assert call("eigh", 4, a, results=[(4,), (4, 4)])[0] != 0


@pytest.mark.parametrize("n", SIZES)
def test_exponentials(call: Call, n: int) -> None:
    for scale in (0.01, 1.0, 3.0):
        a = (scale * call.random(n, n) / np.sqrt(n)).astype(call.dtype)
        _, found = call("matexp", n, a, results=[(n, n)])
        wanted = scipy.linalg.expm(a.astype(np.float64))
        doublings = max(1, np.abs(a).sum(1).max())
        assert size(found - wanted) <= 4 * (n + 4) * doublings * call.unit * size(wanted)


def test_an_exponential_of_what_is_not_finite_ends(call: Call) -> None:
    for value in (np.inf, np.nan):
        a = np.full((3, 3), value, call.dtype)
        assert not np.isfinite(call("matexp", 3, a, results=[(3, 3)])[1]).any()

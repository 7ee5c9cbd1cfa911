"""The Fourier transform in C: right to the last digits at every length, prime or not."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import Library

LENGTHS = [*range(1, 36), 49, 64, 65, 97, 100, 121, 128, 130, 210, 211, 240, 243, 289, 512, 1000, 1013, 1024, 1155]
DTYPES = {"f32": np.float32, "f64": np.float64}
GUARD = 99


@pytest.fixture(scope="session")
def fourier(tmp_path_factory: pytest.TempPathFactory) -> Library:
    names = ["fourier_table", "fourier_table_bytes", "fourier_work_bytes", *(f"fourier_{kind}" for kind in DTYPES)]
    return Library(tmp_path_factory.mktemp("fourier"), names)


def by_definition(x: np.ndarray, y: np.ndarray, inverse: int) -> np.ndarray:
    """The sums themselves, with more digits than a double has."""
    n = len(x)
    angle = 2 * np.arccos(np.longdouble(-1)) * np.arange(n) / n
    at = np.arange(n)[:, None] * np.arange(n) % n
    cos, sin = np.cos(angle)[at], np.sin(angle)[at] * (-1 if inverse else 1)
    re, im = cos @ x + sin @ y, cos @ y - sin @ x
    return np.asarray(re + 1j * im) / (n if inverse else 1)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("inverse", [0, 1])
def test_transforms_are_the_sums_that_define_them(fourier: Library, kind: str, inverse: int) -> None:
    rng = np.random.default_rng(0)
    for n in LENGTHS:
        table = np.full(fourier["fourier_table_bytes"](n) + 64, GUARD, np.uint8)
        work = np.full(fourier["fourier_work_bytes"](n) + 64, GUARD, np.uint8)
        fourier["fourier_table"](n, table, work)
        x, y = rng.standard_normal((2, n)).astype(DTYPES[kind])
        for imaginary in (y, None):
            re, im = np.full((2, 2 * n + 1), 5, x.dtype)
            fourier[f"fourier_{kind}"](n, inverse, x, 1, imaginary, 1, re, 2, im, 2, table, work)
            wide = x.astype(np.longdouble), (0 * y if imaginary is None else y).astype(np.longdouble)
            wanted = by_definition(*wide, inverse)
            size = np.sqrt((abs(wanted) ** 2).mean())
            found = re[: 2 * n : 2] + 1j * im[: 2 * n : 2]
            assert abs(found - wanted).max() <= 8 * np.finfo(x.dtype).eps * size, n
            assert (re[1::2] == 5).all() and (im[1::2] == 5).all() and re[-1] == im[-1] == 5
        assert (table[-64:] == GUARD).all() and (work[-64:] == GUARD).all()


def test_a_row_may_be_replaced_by_its_transform(fourier: Library) -> None:
    rng = np.random.default_rng(1)
    for n in (12, 17):
        table = np.zeros(fourier["fourier_table_bytes"](n), np.uint8)
        work = np.zeros(fourier["fourier_work_bytes"](n), np.uint8)
        fourier["fourier_table"](n, table, work)
        x, y = rng.standard_normal((2, n))
        wanted = np.fft.fft(x + 1j * y)
        fourier["fourier_f64"](n, 0, x, 1, y, 1, x, 1, y, 1, table, work)
        assert np.allclose(x + 1j * y, wanted, 1e-13, 1e-13)

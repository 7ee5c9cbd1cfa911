"""Sorting of rows in C: as NumPy's stable sort, and the largest entries with ties in their order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from compiled import Library

SIZES = (1, 2, 3, 7, 8, 9, 17, 33, 65, 130, 1000)
DTYPES = {"f32": np.float32, "f64": np.float64}
GUARD = 99


@pytest.fixture(scope="session")
def ordering(tmp_path_factory: pytest.TempPathFactory) -> Library:
    names = [f"{name}_{kind}" for kind in DTYPES for name in ("sort", "argsort", "top_k", "ordering_bytes")]
    return Library(tmp_path_factory.mktemp("ordering"), names)


def rows(kind: str) -> Iterator[np.ndarray]:
    """Rows with many ties, both zeros, infinities and NaNs, and rows that are in order already."""
    rng = np.random.default_rng(0)
    for n in SIZES:
        x = rng.standard_normal(n)
        for row in (x, np.round(x), np.sort(x), np.sort(x)[::-1], np.zeros(n)):
            for odd in ((), (np.nan, np.inf, -np.inf, -0.0, 0.0)):
                row = np.array(row, DTYPES[kind])
                for value in odd:
                    row[rng.integers(n, size=1 + n // 10)] = value
                yield row


def memory(ordering: Library, kind: str, n: int) -> np.ndarray:
    return np.full(ordering[f"ordering_bytes_{kind}"](n) + 64, GUARD, np.uint8)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("step", [1, 3, -1])
def test_rows_are_sorted_as_by_numpy(ordering: Library, kind: str, step: int) -> None:
    for x in rows(kind):
        n = len(x)
        spread = np.full(n * abs(step), np.nan, x.dtype)
        spread[:: abs(step)] = x[::-1] if step < 0 else x
        first = spread[n - 1 :] if step < 0 else spread
        scratch, out = memory(ordering, kind, n), np.full(2 * n + 1, 5, x.dtype)
        places = np.full(2 * n + 1, -5, np.int64)
        ordering[f"sort_{kind}"](n, first, step, out, 2, scratch)
        ordering[f"argsort_{kind}"](n, first, step, places, 2, scratch)
        wanted = np.argsort(x, kind="stable")
        assert (places[: 2 * n : 2] == wanted).all()
        assert out[: 2 * n : 2].tobytes() == x[wanted].tobytes()
        assert (out[1::2] == 5).all() and (places[1::2] == -5).all() and out[-1] == 5 and places[-1] == -5
        assert (scratch[-64:] == GUARD).all()


@pytest.mark.parametrize("kind", DTYPES)
def test_the_largest_entries_come_first_and_ties_in_order(ordering: Library, kind: str) -> None:
    for x in rows(kind):
        n = len(x)
        wanted = np.argsort(-x, kind="stable")
        for count in {1, min(n, 3), min(n, 32), min(n, 33), n}:
            scratch, out = memory(ordering, kind, n), np.full(count + 1, 5, x.dtype)
            places = np.full(count + 1, -5, np.int64)
            ordering[f"top_k_{kind}"](n, count, x, 1, out, 1, places, 1, scratch)
            assert (places[:count] == wanted[:count]).all() and places[count] == -5
            assert out[:count].tobytes() == x[wanted[:count]].tobytes() and out[count] == 5
            assert (scratch[-64:] == GUARD).all()

"""The limits of the machine as NumPy reaches them: the rate of a large matrix product, and that of a large copy."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import numpy as np

SIDE = 2048
COPIED = 64 * 2**20
ROUNDS = 7


def best(run: Callable[[], object]) -> float:
    """Seconds of the quickest of a few runs."""
    run()
    times = []
    for _ in range(ROUNDS):
        start = perf_counter()
        run()
        times.append(perf_counter() - start)
    return min(times)


def measure(threads: int) -> dict[str, float]:
    """`matmul` in GFLOP/s in f32, `copy` in GB/s read and written, on this many threads."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((SIDE, SIDE), np.float32) for _ in range(2))
    c = np.empty_like(a)
    matmul = 2.0 * SIDE**3 / best(lambda: np.matmul(a, b, out=c)) / 1e9
    source, target = np.ones(COPIED // 4, np.float32), np.zeros(COPIED // 4, np.float32)
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads), strict=True))
    with ThreadPoolExecutor(threads) as pool:
        # copyto lets other threads run meanwhile
        seconds = best(lambda: list(pool.map(lambda pair: np.copyto(*pair), parts)))
    return {"matmul": matmul, "copy": 2.0 * COPIED / seconds / 1e9}

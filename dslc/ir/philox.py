"""Random bits: Philox 4x32-10, a counter-based generator, bit for bit as Triton's."""

from __future__ import annotations

from typing import Any

import numpy as np

MASK = np.uint64(0xFFFFFFFF)


def philox(seed: int, counter: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
    """Four 32-bit words for each counter (ten rounds)."""
    c = [np.asarray(x).astype(np.int64).astype(np.uint64) & MASK for x in counter]
    k0, k1 = seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF
    a, b, shift = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57), np.uint64(32)
    for _ in range(10):
        high, low = c[0] * a, c[2] * b
        c = [
            (low >> shift) ^ c[1] ^ np.uint64(k0),
            low & MASK,
            (high >> shift) ^ c[3] ^ np.uint64(k1),
            high & MASK,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c[0], c[1], c[2], c[3]


def uniform(seed: int, site: int, element: Any, lane: int = 0) -> Any:
    """Numbers in [0, 1) for the elements of a draw; `lane` picks one of the four words."""
    element = np.asarray(element)
    words = philox(seed, (element & 0xFFFFFFFF, element >> 32, np.full_like(element, site), np.zeros_like(element)))
    signed = words[lane].astype(np.uint32).view(np.int32)
    return np.where(signed < 0, ~signed, signed).astype(np.float32) * np.float32(4.6566127342e-10)

"""Random bits are those of Philox 4x32-10, with the documented counter."""

from __future__ import annotations

import numpy as np
import pytest
from marks import rows
from programs import run

from dslc.ir.philox import philox, uniform


def words(*counter: int, seed: int) -> list[str]:
    return [f"{int(w):08x}" for w in philox(seed, counter)]  # type: ignore[arg-type]


ONES = 0xFFFFFFFF
PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)


@rows("N05")
def test_known_answers_of_random123() -> None:
    assert words(0, 0, 0, 0, seed=0) == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]
    assert words(ONES, ONES, ONES, ONES, seed=2**64 - 1) == ["408f276d", "41c83b0e", "a20bc7c6", "6d5451fd"]
    key = 0x299F31D0 << 32 | 0xA4093822
    assert words(*PI, seed=key) == ["d16cfe09", "94fdcceb", "5001e420", "24126ea1"]


def rand(seed: int, offset: np.ndarray, site: int, lane: int) -> np.ndarray:  # type: ignore[type-arg]
    """The generator written anew, one number at a time: counter (element low, element high, site, 0)."""
    out = []
    for element in offset.ravel().tolist():
        c = [element & ONES, (element >> 32) & ONES, site, 0]
        k = [seed & ONES, (seed >> 32) & ONES]
        for _ in range(10):
            a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
            c = [(b >> 32) ^ c[1] ^ k[0], b & ONES, (a >> 32) ^ c[3] ^ k[1], a & ONES]
            k = [(k[0] + 0x9E3779B9) & ONES, (k[1] + 0xBB67AE85) & ONES]
        word = c[lane] - (1 << 32) if c[lane] >> 31 else c[lane]
        out.append(np.float32(~word if word < 0 else word) * np.float32(4.6566127342e-10))
    return np.array(out, np.float32).reshape(offset.shape)


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**63 - 1])
@pytest.mark.parametrize("site", [0, 7, 2**31 - 1])
def test_a_uniform_draw_is_the_float_of_one_word(seed: int, site: int) -> None:
    """The layout that Triton's tl.rand has at site 0, written anew; Triton itself is not run here."""
    elements = np.array([0, 1, 2, 1000, 2**31, 2**40 + 3])
    for lane in range(4):
        found = uniform(seed, site, elements, lane)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, rand(seed, elements, site, lane))
        assert np.all((found >= 0) & (found < 1))


def test_the_first_number_of_site_0_is_that_of_the_known_answer() -> None:
    assert uniform(0, 0, np.array(0)) == np.float32(0x6627E8D5) * np.float32(4.6566127342e-10)


def test_elements_are_numbered_row_major() -> None:
    wide = run("fn f(x: f64[N, K]) -> y: [N, K]:\n    y[n, k] = x[n, k] + uniform[n, k]()\n", x=np.zeros((3, 4)))
    flat = run("fn f(x: f64[M]) -> y: [M]:\n    y[m] = x[m] + uniform[m]()\n", x=np.zeros(12))
    np.testing.assert_array_equal(wide.ravel(), flat)

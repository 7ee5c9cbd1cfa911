"""The text of a size is read back as that size: by a person, and by Python in a generated module."""

from __future__ import annotations

import random

import pytest
from dslc.backends.numpy.text import size_code

from dslc.sizes import Size, floor_div, show, symbol, tidy

N, T = symbol("N"), symbol("T")


def drawn(rng: random.Random, depth: int) -> Size:
    if depth == 0:
        return rng.choice([N, T, rng.randint(-3, 5)])
    a, b = drawn(rng, depth - 1), drawn(rng, depth - 1)
    match rng.choice("+-*/"):
        case "+":
            return tidy(a + b)
        case "-":
            return tidy(a - b)
        case "*":
            return tidy(a * b)
    return floor_div(a, rng.randint(2, 4))


@pytest.mark.point("1", "23", "25")
def test_python_reads_the_text_of_a_size_as_that_size() -> None:
    """-(T // 2) was written as -T // 2, which is (-T) // 2."""
    rng = random.Random(0)
    for _ in range(1500):
        size = drawn(rng, 3)
        for n, length in ((3, 5), (4, 7), (2, 2), (1, 9)):
            wanted = size if isinstance(size, int) else size.subs({N: n, T: length})
            assert eval(size_code(size), {"N": n, "T": length}) == wanted, show(size)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (-floor_div(T, 2), "-(T // 2)"),
        (3 - floor_div(T, 2), "3 - T // 2"),
        (N - floor_div(T, 2), "N - T // 2"),
        (-2 * floor_div(T, 2), "-2*(T // 2)"),
        (floor_div(-T, 2), "-T // 2"),
        (-N * T, "-N*T"),
    ],
)
def test_a_minus_before_a_floor_does_not_go_into_it(size: Size, text: str) -> None:
    assert show(tidy(size)) == text

"""In blocks of rows a formula is computed where a value lies that nothing reads after it, and nowhere else."""

from __future__ import annotations

import pytest
from dslc.backends.numpy.in_place import in_place

SHAPES = dict.fromkeys(("gap", "u", "e", "w"), ("count", 8)) | {"root": ("count",)}


def after(*lines: str) -> list[str]:
    return [text for texts in in_place(lines, SHAPES) for text in texts]


def test_a_chain_of_operations_runs_at_the_place_of_its_operand() -> None:
    found = after("gap = x[rows] - mu", "u = scale * gap / root[:, None] + shift", "y[rows] = u")
    assert found == [
        "gap = x[rows] - mu",
        "u = np.multiply(scale, gap, out=gap)",
        "u /= root[:, None]",
        "u += shift",
        "y[rows] = u",
    ]


def test_functions_and_right_operands_keep_their_order() -> None:
    found = after("gap = x[rows] - mu", "u = 1 - np.exp(a / gap)", "total += row_sums(u)")
    assert found[1:4] == [
        "u = np.divide(a, gap, out=gap)",
        "np.exp(u, out=u)",
        "np.subtract(1, u, out=u)",
    ]


def test_an_operand_may_be_both_sides_of_the_first_operation() -> None:
    assert after("gap = x[rows] - mu", "u = gap * gap + 1")[1:] == ["u = np.multiply(gap, gap, out=gap)", "u += 1"]


@pytest.mark.parametrize(
    "lines",
    [
        ("gap = x[rows] - mu", "u = gap * 2", "total += row_sums(gap)"),  # read later
        ("gap = x[rows] - mu", "u = gap * 2 + np.max(gap, axis=1)[:, None]"),  # read by a later operation of the line
        ("gap = x[rows] - mu", "w = gap.reshape(count, 8)", "u = gap * 2", "total += row_sums(w)"),  # seen by another
        ("gap = x[rows] - mu", "w = windows(gap)", "u = gap * 2", "total += row_sums(w)"),
        ("root = np.sqrt(v + 1)", "u = x[rows] / root"),  # of another shape
        ("gap = x[rows]", "u = gap * 2"),  # a part of an array of others
        ("u = given * 2",),  # not of this block
    ],
)
def test_a_value_that_is_needed_stays(lines: tuple[str, ...]) -> None:
    kept = {x for line in after(*lines) for x in ("gap", "root", "given") if f"out={x}" in line}
    assert not kept


def test_a_choice_is_an_array_of_its_own() -> None:
    found = after("gap = np.where(mask, x[rows], -np.inf)", "u = np.exp(gap - peak[:, None])", "total += row_sums(u)")
    assert found[1:3] == ["u = np.subtract(gap, peak[:, None], out=gap)", "np.exp(u, out=u)"]

"""Recurrences over two indices, as alignments and edit distances are written."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from natural import BACKENDS, agree, normal
from torch import Tensor

from dslc.frontend import check_text

STARTED = """\
fn f(x: [P, Q], w: []) -> y: [P, Q]:
    scan p:
        scan q:
            y[p, q] = x[p, q] + w * (y[p-1, q] + y[p, q-1])
        start y = 0
    start y = 0
"""
GUARDED = """\
fn f(x: [P, Q], w: []) -> y: [P, Q]:
    scan p:
        scan q:
            up = y[p-1, q] if p > 0 else 0
            left = y[p, q-1] if q > 0 else 0
            y[p, q] = x[p, q] + w * (up + left)
"""
#: the row is written by the user, as it had to be
BY_HAND = """\
fn f(x: [P, Q], w: []) -> y: [P, Q]:
    scan p:
        scan q:
            row[q] = x[p, q] + w * (y[p-1, q] + row[q-1])
        start row = 0
        y[p, q] = row[q]
    start y = 0
"""
BACKWARDS = """\
fn f(x: [P, Q], w: []) -> y: [P, Q]:
    scan p reversed:
        scan q:
            y[p, q] = x[p, q] + w * (y[p+1, q] + y[p, q-1])
        start y[p] = 0
    start y[q: Q] = 0
"""
DIAGONAL = """\
fn f(x: [P, Q], w: []) -> y: [P, Q]:
    scan p:
        scan q:
            y[p, q] = x[p, q] * (y[p-1, q-1] if p > 0 and q > 0 else 1) + w * (y[p, q-1] if q > 0 else 0)
"""


def grid(x: Tensor, w: Tensor, up: int = -1) -> Tensor:
    rows, columns = x.shape
    found: dict[tuple[int, int], Tensor] = {}
    for p in range(rows) if up < 0 else reversed(range(rows)):
        for q in range(columns):
            zero = torch.zeros((), dtype=x.dtype)
            found[p, q] = x[p, q] + w * (found.get((p + up, q), zero) + found.get((p, q - 1), zero))
    return torch.stack([torch.stack([found[p, q] for q in range(columns)]) for p in range(rows)])


def diagonal(x: Tensor, w: Tensor) -> Tensor:
    rows, columns = x.shape
    found: dict[tuple[int, int], Tensor] = {}
    for p in range(rows):
        for q in range(columns):
            before = found[p - 1, q - 1] if p and q else torch.ones((), dtype=x.dtype)
            found[p, q] = x[p, q] * before + w * (found[p, q - 1] if q else 0)
    return torch.stack([torch.stack([found[p, q] for q in range(columns)]) for p in range(rows)])


@pytest.mark.point("25")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", [STARTED, GUARDED, BY_HAND])
def test_a_recurrence_over_two_indices_reads_its_row_and_the_row_before(
    text: str, backend: str, tmp_path: Path
) -> None:
    agree(text, grid, {"x": normal(3, 4), "w": normal()}, tmp_path, backend)


@pytest.mark.point("25")
def test_rows_may_come_in_the_other_order_and_be_read_across(tmp_path: Path) -> None:
    agree(BACKWARDS, lambda x, w: grid(x, w, 1), {"x": normal(3, 4), "w": normal()}, tmp_path, "numpy")
    agree(DIAGONAL, diagonal, {"x": normal(3, 4), "w": normal()}, tmp_path, "numpy")


def test_a_grid_without_a_start_is_told_what_it_lacks() -> None:
    text = STARTED.replace("        start y = 0\n", "", 1)
    assert [d.code for d in check_text(text).errors] == ["E0602"]

"""Positions that are whole-number formulas of indices: rounded down, with a remainder, kept in a tensor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from natural import BACKENDS, agree, normal

from dslc.frontend import check_text

pytestmark = pytest.mark.point("25")


def twice(x: torch.Tensor, axis: int) -> torch.Tensor:
    return x.repeat_interleave(2, axis)


#: text, meaning in torch, shape of x
CASES: dict[str, tuple[str, Callable[[torch.Tensor], Any], tuple[int, ...]]] = {
    "upsampling": (
        "fn f(x: [N, C, H, W]) -> y: [N, C, 2*H, 2*W]:\n    y[n, c, p, q] = x[n, c, p // 2, q // 2]\n",
        lambda x: twice(twice(x, 2), 3),
        (2, 3, 1, 3),
    ),
    "positions kept in a tensor": (
        "fn f(x: [N, H]) -> y: [N, 2*H]:\n    row[p: 2*H] = p // 2\n    y[n, p] = x[n, row[p]]\n",
        lambda x: twice(x, 1),
        (2, 3),
    ),
    "half a turn": (
        "fn f(x: [M, M]) -> y: [M] where M % 2 == 0:\n    size N = M / 2\n    y[i] = x[i, (i + N) % (2*N)]\n",
        lambda x: x.roll(-(x.shape[1] // 2), 1).diagonal(),
        (4, 4),
    ),
    "the next one, all around": (
        "fn f(x: [N, T]) -> y: [N, T]:\n    y[n, i] = x[n, (i + 1) % T] * x[n, i]\n",
        lambda x: x.roll(-1, 1) * x,
        (2, 3),
    ),
    "a remainder that is no wrap": (
        "fn f(x: [N, T]) -> y: [N, 2*T]:\n    y[n, i] = x[n, i % T]\n",
        lambda x: torch.cat([x, x], 1),
        (2, 3),
    ),
    "a sum with a floor": (
        "fn f(x: [N, S]) -> y: [N, S / 3] where S % 3 == 0:\n    y[n, t] = x[n, 2*t + t // 2]\n",
        lambda x: torch.stack([x[:, 2 * t + t // 2] for t in range(x.shape[1] // 3)], 1),
        (2, 9),
    ),
    "a product of indices": (
        "fn f(x: [9]) -> y: [3, 4]:\n    y[i: 3, j: 4] = x[i*j + i]\n",
        lambda x: torch.stack([torch.stack([x[i * j + i] for j in range(4)]) for i in range(3)]),
        (9,),
    ),
    "added up at halves": (
        "fn f(x: [N, S]) -> y: [N, S / 2] where S % 2 == 0:\n    y[n, p // 2: S / 2] += x[n, p]\n",
        lambda x: x[:, ::2] + x[:, 1::2],
        (2, 6),
    ),
    "blanks between labels": (
        "fn f(x: [N, L]) -> y: [N, 2 * L + 1]:\n    y[n, s] = x[n, (s - 1) // 2] if s % 2 == 1 else 7\n",
        lambda x: torch.nn.functional.pad(torch.stack([torch.full_like(x, 7), x], 2).flatten(1), (0, 1), value=7),
        (2, 3),
    ),
    "blanks between labels, at halves": (
        "fn f(x: [N, L]) -> y: [N, 2 * L + 1]:\n    y[n, s] = x[n, s // 2] if s % 2 == 1 else 7\n",
        lambda x: torch.nn.functional.pad(torch.stack([torch.full_like(x, 7), x], 2).flatten(1), (0, 1), value=7),
        (2, 3),
    ),
    "one kept of three": (
        "fn f(x: [N, L]) -> y: [N, 3 * L + 1]:\n    y[n, s] = x[n, s // 3] if s % 3 == 1 else 0\n",
        lambda x: torch.nn.functional.pad(
            torch.stack([torch.zeros_like(x), x, torch.zeros_like(x)], 2).flatten(1), (0, 1)
        ),
        (2, 3),
    ),
    "two kept of three": (
        "fn f(x: [N, L]) -> y: [N, 3 * L + 1]:\n    y[n, s] = x[n, (s - 1) // 3] if s % 3 != 0 else 0\n",
        lambda x: torch.nn.functional.pad(torch.stack([torch.zeros_like(x), x, x], 2).flatten(1), (0, 1)),
        (2, 3),
    ),
    "one step late": (
        "fn f(x: [N, L]) -> y: [N, 2 * L]:\n    y[n, s] = x[n, (s - 2) // 2] if s >= 2 else 0\n",
        lambda x: torch.nn.functional.pad(twice(x, 1)[:, :-2], (2, 0)),
        (2, 3),
    ),
    "a mean over pairs by position": (
        "fn f(x: [N, H]) -> y: [N]:\n    y[n] = mean[p: 2*H](x[n, p // 2])\n",
        lambda x: x.mean(1),
        (2, 3),
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_torch(name: str, backend: str, tmp_path: Path) -> None:
    text, meaning, shape = CASES[name]
    agree(text, meaning, {"x": normal(*shape)}, tmp_path, backend)


def test_a_position_that_may_leave_its_axis_is_refused() -> None:
    (found,) = check_text("fn f(x: [N, T]) -> y: [N, 2*T]:\n    y[n, i] = x[n, (i + 2) // 2]\n").errors
    assert (found.code, found.labels[0].span.text) == ("E0307", "(i + 2) // 2")


@pytest.mark.parametrize("condition", ["s % 2 == 0", "s % 2 != 1", "s % 2 >= 0", "s % 2 == s", "(s - 1) % 2 == 1"])
def test_a_condition_that_lets_0_through_keeps_no_position_inside(condition: str) -> None:
    text = f"fn f(x: [N, L]) -> y: [N, 2 * L + 1]:\n    y[n, s] = x[n, (s - 1) // 2] if {condition} else 0\n"
    assert [e.code for e in check_text(text).errors] == ["E0307"]


@pytest.mark.parametrize("condition", ["s % 2 == 0", "s % 2 != 1", "s % 4 != 1", "s % 1 == 0", "s % 2 == 2"])
def test_a_condition_that_lets_the_last_through_keeps_no_position_inside(condition: str) -> None:
    text = f"fn f(x: [N, L]) -> y: [N, 2 * L + 1]:\n    y[n, s] = x[n, s // 2] if {condition} else 0\n"
    assert [e.code for e in check_text(text).errors] == ["E0307"]


def test_an_operation_is_quoted_with_its_parentheses() -> None:
    text = "fn f(x: [N, T]) -> y: [N, T]:\n    y[n, i] = x[n, (i + 2) * 3 // (1 + 1)]\n"
    (found,) = check_text(text).errors
    assert found.labels[0].span.text == "(i + 2) * 3 // (1 + 1)"

"""`(y[n, t-1] else 0)` in the scan that builds `y`: the value at steps that have none before them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from natural import BACKENDS, agree, normal

from dslc.frontend import check_text


def running(x: torch.Tensor) -> torch.Tensor:
    y: list[torch.Tensor] = []
    for t in range(x.shape[1]):
        y.append(x[:, t] + 0.5 * (y[-1] if t else 2 * x[:, 0]))
    return torch.stack(y, 1)


def from_three(x: torch.Tensor) -> torch.Tensor:
    y: list[torch.Tensor] = []
    for t in range(x.shape[1]):
        y.append(x[:, t] + 0.5 * (y[-1] if t else 3))
    return torch.stack(y, 1)


def two_back(x: torch.Tensor) -> torch.Tensor:
    y: list[torch.Tensor] = []
    for t in range(x.shape[1]):
        y.append(x[:, t] + (torch.sin(y[-2]) if t >= 2 else torch.full_like(x[:, 0], t)) * (y[-1] if t else 1))
    return torch.stack(y, 1)


def backwards(x: torch.Tensor) -> torch.Tensor:
    length = x.shape[1]
    y: dict[int, torch.Tensor] = {}
    for t in reversed(range(length)):
        y[t] = x[:, t] + 0.5 * (torch.tanh(y[t + 1]) if t + 1 < length else x[:, 0])
    return torch.stack([y[t] for t in range(length)], 1)


def shifted(x: torch.Tensor) -> torch.Tensor:
    y: list[torch.Tensor] = []
    for t in range(x.shape[1]):
        before = torch.cat([torch.full((1,), 3.0, dtype=x.dtype), y[-1][:-1]]) if t else torch.full_like(x[:, 0], 3)
        y.append(x[:, t] + 0.5 * before)
    return torch.stack(y, 1)


HEAD = "fn f(x: [N, T]) -> y: [N, T]:\n"
CASES: dict[str, tuple[str, Callable[[torch.Tensor], Any]]] = {
    "one step back": (HEAD + "    scan t:\n        y[n, t] = x[n, t] + 0.5 * (y[n, t-1] else 2 * x[n, 0])\n", running),
    "a slice": (
        HEAD + "    scan t:\n        p = (y[:, t-1] else 3)\n        y[n, t] = x[n, t] + 0.5 * p[n]\n",
        from_three,
    ),
    "reads of two steps": (
        HEAD
        + "    scan t:\n        p[n] = (y[n, t-2] else 0)\n"
        + "        y[n, t] = x[n, t] + (sin(p[n]) if t >= 2 else t) * (y[n, t-1] else 1)\n",
        two_back,
    ),
    "reversed": (
        HEAD
        + "    scan t in 0..T reversed:\n"
        + "        y[n, t] = x[n, t] + 0.5 * (tanh(y[n, t+1]) if t < T - 1 else x[n, 0])\n",
        backwards,
    ),
    "reversed, by else": (
        HEAD
        + "    scan t in 0..T reversed:\n        p[n] = (y[n, t+1] else 0)\n"
        + "        y[n, t] = x[n, t] + 0.5 * (tanh(p[n]) if t < T - 1 else x[n, 0])\n",
        backwards,
    ),
    "reversed, over as many steps as there are data": (
        HEAD
        + "    scan t reversed:\n        p[n] = (y[n, t+1] else 0)\n"
        + "        y[n, t] = x[n, t] + 0.5 * (tanh(p[n]) if t < T - 1 else x[n, 0])\n",
        backwards,
    ),
    "reversed, of a value whose length nothing tells before": (
        HEAD
        + "    scan t reversed:\n        u[n, t] = 0.5 * (p[n, t+1] else x[n, 0]) + x[n, t]\n"
        + "        p[n, t] = tanh(u[n, t])\n    y = u\n",
        backwards,
    ),
    "beyond another axis as well": (
        HEAD + "    scan t:\n        y[n, t] = x[n, t] + 0.5 * (y[n-1, t-1] else 3)\n",
        shifted,
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", CASES)
def test_else_stands_for_the_steps_before_the_first(case: str, backend: str, tmp_path: Path) -> None:
    text, meaning = CASES[case]
    agree(text, meaning, {"x": normal(3, 5)}, tmp_path, backend)


@pytest.mark.parametrize("read", ["(y[n, t-1] else 0)", "(y[n, t-1] if t > 1 else 0)"])
def test_a_scan_from_one_still_needs_what_stands_before_it(read: str) -> None:
    text = f"fn f(x: [N, T]) -> y: [N, T] where T >= 2:\n    scan t in 1..T:\n        y[n, t] = x[n, t] + {read}\n"
    (found,) = check_text(text, "from_one.dsl").diagnostics
    assert found.code == "E0602"


@pytest.mark.parametrize("call", ["tanh(y[n, t-1] else 0)", "y[n, t-1] else 0", "tanh(y[n, clamp(t-1)] else 0)"])
def test_parentheses_of_its_own_are_asked_for_and_cure(call: str) -> None:
    (found,) = check_text(f"{HEAD}    scan t:\n        y[n, t] = x[n, t] + {call}\n", "call.dsl").diagnostics
    read = call[call.index("y") : call.index(" else")]
    assert found.code == "E0101" and f"`({read} else ...)`" in (found.help or "")
    if "clamp" not in call:
        cured = call.replace(f"{read} else 0", f"({read} else 0)")
        assert not check_text(f"{HEAD}    scan t:\n        y[n, t] = x[n, t] + {cured}\n", "call.dsl").diagnostics

"""Scans that do not begin at 0: what `start` says stands at the places before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from natural import BACKENDS, agree, normal

from dslc.frontend import check_text

pytestmark = pytest.mark.point("25")


def smoothed(x: torch.Tensor) -> torch.Tensor:
    h = [x[:, 0]]
    for t in range(1, x.shape[1]):
        h.append(0.5 * h[-1] * t + x[:, t])
    return torch.stack(h, 1)


def from_two(x: torch.Tensor) -> torch.Tensor:
    h = [torch.ones_like(x[:, 0])] * 2
    for t in range(2, x.shape[1]):
        h.append(torch.sin(h[-1]) + 0.3 * h[-2] * x[:, t - 2] + x[:, t])
    return torch.stack(h, 1)


def last(x: torch.Tensor) -> torch.Tensor:
    return smoothed(x)[:, -1] * smoothed(x)[:, 0]


STEP = """    scan t in 1..T:
        h[n, t] = 0.5 * h[n, t-1] * t + x[n, t]
    start h[n] = x[n, 0]
"""
CASES: dict[str, tuple[str, Callable[[torch.Tensor], Any]]] = {
    "a value": (f"fn f(x: [N, T]) -> y: [N, T] where T >= 2:\n{STEP}    y = h\n", smoothed),
    "an output": (
        "fn f(x: [N, T]) -> y: [N, T] where T >= 2:\n" + STEP.replace("h[", "y["),
        smoothed,
    ),
    "its ends": (f"fn f(x: [N, T]) -> y: [N] where T >= 2:\n{STEP}    y[n] = h[n, T-1] * h[n, 0]\n", last),
    "from two on": (
        """fn f(x: [N, T]) -> y: [N, T] where T >= 3:
    scan t in 2..T:
        y[n, t] = sin(y[n, t-1]) + 0.3 * y[n, t-2] * x[n, t-2] + x[n, t]
    start y = 1
""",
        from_two,
    ),
    "the sequence first": (
        """fn f(x: [N, T]) -> y: [N, T] where T >= 2:
    scan t in 1..T:
        g[t, n] = 0.5 * g[t-1, n] * t + x[n, t]
    start g[n] = x[n, 0]
    y[n, t] = g[t, n]
""",
        smoothed,
    ),
    "a condition on the index": (
        """fn f(x: [N, T]) -> y: [N, T] where T >= 2:
    scan t in 1..T:
        y[n, t] = 0.5 * (x[n, 0] if t == 1 else y[n, t-1]) * t + x[n, t]
    start y[n] = x[n, 0]
""",
        smoothed,
    ),
}


@pytest.mark.wide(2)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_torch(name: str, backend: str, tmp_path: Path) -> None:
    text, meaning = CASES[name]
    for length in (3, 5):
        agree(text, meaning, {"x": normal(2, length)}, tmp_path, backend)


def test_it_needs_a_step_and_a_start() -> None:
    text = CASES["a value"][0]
    found = check_text(text.replace(" where T >= 2", "")).errors
    assert [(d.code, d.help) for d in found] == [("E0323", "state it: `where T >= 2`")]
    found = check_text(text.replace("    start h[n] = x[n, 0]\n", "")).errors
    assert [d.code for d in found] == ["E0602"]
    found = check_text(text.replace("0.5 * h[n, t-1] * t + ", "").replace("    start h[n] = x[n, 0]\n", "")).errors
    assert [d.code for d in found] == ["E0602"]


def test_reads_are_proved_inside_from_the_first_step_on() -> None:
    text = (
        "fn f(x: [N, T], z: [N, M]) -> y: [N, T] where T >= 3:\n    scan t in 2..T:\n        y[n, t] = y[n, t-1] + {}\n"
    )
    text += "    start y[n] = x[n, 0]\n"
    for read, code in {"z[n, t-2]": "E0307", "x[n, t+1]": "E0308", "x[n, t-3]": "E0308", "x[n, t-2]": None}.items():
        assert [d.code for d in check_text(text.format(read)).errors][:1] == ([code] if code else []), read

"""Sizes that nothing determines, and places that small sizes do not have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from natural import BACKENDS, agree, normal

from dslc.frontend import check_text

pytestmark = pytest.mark.point("H")


@pytest.mark.parametrize("steps", ["3", "K"])
def test_an_axis_that_only_steps_of_itself_index_has_no_size(steps: str) -> None:
    text = f"""model m(x: f32[N, K]) -> y: [N]:
    scan t in 0..{steps}:
        h[t, n, j] = 0.5 * h[t-1, n, j] + x[n, 0]
    start h = 0
    y[n] = sum[j](h[2, n, j]) + x[n, 0]
""".replace("h[2", f"h[{steps} - 1")
    (found,) = check_text(text).errors
    assert (found.code, found.message) == ("E0306", "nothing says how far the index `j` runs")
    assert check_text(text.replace("h[t, n, j] =", "h[t, n, j: 4] =")).errors == []


def test_a_later_equation_of_an_outer_scan_may_give_the_size() -> None:
    text = """model m(x: f32[N, T]) -> y: [N]:
    scan t in 0..T:
        scan s in 0..3:
            g[s, n, j] = 0.5 * g[s-1, n, j] + h[t-1, n, j]
        start g = 0
        h[t, n, j: 4] = g[2, n, j] + x[n, t]
    start h = 0
    y[n] = mean[j](h[T-1, n, j])
"""
    assert check_text(text).errors == []


def place(x: torch.Tensor, n: int, outside: float) -> torch.Tensor:
    return x[n] if 0 <= n < len(x) else torch.full_like(x[0], outside)


PLACES: dict[str, tuple[str, Callable[[torch.Tensor], Any]]] = {
    "the second": ("[N]:\n    y[n] = x[n] * (x[1] else -0.5)", lambda x: x * place(x, 1, -0.5)),
    "the third, alone": ("[]:\n    y = (x[2] else 2) * x[0]", lambda x: place(x, 2, 2.0) * x[0]),
    "before the first": ("[N]:\n    y[n] = x[n] * (x[-1] else 3)", lambda x: x * 3),
    "the last but one": ("[N]:\n    y[n] = x[n] * (x[N - 2] else 3)", lambda x: x * place(x, len(x) - 2, 3.0)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("name", PLACES)
def test_a_place_that_the_axis_may_not_have(name: str, length: int, backend: str, tmp_path: Path) -> None:
    body, meaning = PLACES[name]
    agree(f"fn f(x: [N]) -> y: {body}\n", meaning, {"x": normal(length)}, tmp_path, backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("width", [1, 3])
def test_a_place_of_an_inner_axis(width: int, backend: str, tmp_path: Path) -> None:
    text = "fn f(x: [N, K, D]) -> y: [N, D]:\n    y[n, d] = (x[n, 2, d] else 1) * x[n, 0, d]\n"

    def meaning(x: torch.Tensor) -> torch.Tensor:
        return x[:, 0] * (x[:, 2] if width > 2 else 1)

    agree(text, meaning, {"x": normal(2, width, 3)}, tmp_path, backend)

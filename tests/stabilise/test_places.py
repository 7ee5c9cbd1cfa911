"""A softmax of values that are read at other places than one after the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dslc.compiler import compile_module

X = np.random.default_rng(0).normal(size=(3, 8)) * 500


@pytest.mark.parametrize(("place", "columns"), [
    ("x[n, 2*i]", [0, 2, 4]),
    ("x[n, 6 - 3*i]", [6, 3, 0]),
    ("x[n, i + 5]", [5, 6, 7]),
    ("x[n, clamp(i - 1)]", [0, 0, 1]),
    ("x[n, wrap(i - 1)]", [7, 0, 1]),
    ("x[n, i + n]", [[0, 1, 2], [1, 2, 3], [2, 3, 4]]),
    ("x[n, i * i]", [0, 1, 4]),
])  # fmt: skip
@pytest.mark.parametrize("function", ["softmax", "log_softmax"])
def test_a_softmax_of_some_places_is_that_of_torch(
    function: str, place: str, columns: list[int], tmp_path: Path
) -> None:
    text = f"model m(x: f64[3, 8]) -> y: [3, 3]:\n    y[n: 3, i: 3] = {function}[i: 3]({place})\n"
    (tmp_path / "m.dsl").write_text(text)
    found = compile_module(tmp_path / "m.dsl", dtype="f64").forward({}, X)
    taken = torch.tensor(X).gather(1, torch.tensor(np.broadcast_to(columns, (3, 3)).copy()))
    np.testing.assert_allclose(found, getattr(torch, function)(taken, 1), rtol=1e-12, atol=1e-300)

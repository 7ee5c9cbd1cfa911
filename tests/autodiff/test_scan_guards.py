"""A branch of a scan that is not taken adds nothing to the gradients of what the steps share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from samples import load

from dslc.compiler import compile_text

SPEC = """
model m(x: f64[T], w: f64[]) -> (y: [T], d: []):
    scan t:
        y[t] = y[t-1] / 2 + (asin(w * x[t]) if abs(w * x[t]) < 1 else x[t])
    start y = 0
    d = grad(sum(y), w)
"""


@pytest.mark.point("H")
def test_an_arcsine_that_is_not_taken_has_no_part_in_the_gradient_of_a_weight(tmp_path: Path) -> None:
    spec = tmp_path / "m.dsl"
    spec.write_text(SPEC, encoding="utf-8")
    x = np.array([0.5, 2.0, -3.0, 0.1, 5.0, 0.2])
    found = load(compile_text(spec, dtype="f64"), tmp_path).forward({}, x, np.array(0.7))
    w = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    y = total = torch.zeros((), dtype=torch.float64)
    for value in x:
        y = y / 2 + (torch.asin(w * value) if abs(0.7 * value) < 1 else value)
        total = total + y
    np.testing.assert_allclose(found["d"], torch.autograd.grad(total, w)[0], rtol=1e-12)

"""What entries have in common stands once in a C file: `evaluate` calls `forward`, one adjoint is for both modes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dslc import compile as compiled
from dslc.compiler import compile_files

ROOT = Path(__file__).parents[3]

TWO = """
model two(x: f32[N, T, 5], y: f32[N]) -> (a: [N, T, 3], b: [N]):
    param W: [5, 3] ~ glorot
    a[n, t, o] = tanh(x[n, t, i] * W[i, o])
    b[n] = sum[t, o](a[n, t, o]) * y[n]

train two(x, y, goal: f32[N]):
    a, b = two({given}, y)
    minimize mean((b - goal)^2) {term}
    metric square = mean(b^2)
    using sgd(lr = 0.1)
"""


@pytest.mark.parametrize(("given", "term", "calls"), [
    ("x", "", True),  # an output that the loss does not read has its memory all the same
    ("x", "+ mean(a^2)", True),
    ("2 * x", "", False),
    ("x", "+ mean(two.W^2)", False),
])  # fmt: skip
def test_evaluate_calls_forward_where_the_loss_reads_its_outputs(
    given: str, term: str, calls: bool, tmp_path: Path
) -> None:
    path = tmp_path / "two.dsl"
    path.write_text(TWO.format(given=given, term=term), encoding="utf-8")
    text = compile_files(path, "c")["two.c"]
    assert ("two_forward(&f.forward, " in text) == calls
    rng = np.random.default_rng(0)
    x, y, goal = (rng.standard_normal(shape) for shape in ((4, 3, 5), (4,), (4,)))
    found = []
    for backend in ("c", "numpy"):
        module = compiled(path, backend=backend, dtype="f64")
        loss, metrics = module.evaluate(module.init(0), x, y, goal)
        found.append((loss, metrics["square"]))
    assert np.allclose(*found, rtol=1e-13, atol=0)


def test_layers_of_a_loop_without_dropout_have_one_adjoint() -> None:
    """Scans are told apart by numbers: those of two equal programs are the same ones."""
    text = compile_files(ROOT / "bench/specs/gpt.dsl", "c")["gpt.c"]
    assert "gpt_adjoint(" in text and "training" not in text

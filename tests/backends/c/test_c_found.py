"""Programs that were wrong once in C, each cut down to what it takes to show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dslc import compile as compiled

#: a spec, and arguments of its gradient
FOUND: dict[str, tuple[str, list[Any]]] = {
    "a state carried through an odd number of steps, in each of two layers": (
        """
layer running(x: [T, 3]) -> y: [T, 3]:
    param w: [3, 3] ~ normal
    scan t:
        y[t, i] = tanh(x[t, i] + seen[t-1, j] * w[j, i])
        seen[t, i] = 0.5 * seen[t-1, i] + y[t, i]
    start seen = 0

model m(x: f32[T, 3]) -> y: [T, 3]:
    y = x
    for l in 0..3:
        y = y + running(y)

train m(x: f32[T, 3]):
    minimize sum(m(x)^2)
    using sgd(lr = 0.1)
""",
        [np.random.default_rng(0).normal(size=(5, 3))],
    ),
    "a size that is read in a formula alone": (
        """
model m(x: f32[T]) -> y: [2]:
    param gain: [] ~ normal
    y[i: 2] = gain * 2 / (T + 1) * 2

train m(x: f32[T]):
    minimize sum(m(x))
    using sgd(lr = 0.1)
""",
        [np.ones(5)],
    ),
    "a matrix with an open number of columns that is packed for a product": (
        """
model m(z: f32[T], y: f32[T, 5]) -> slope: [5, T]:
    curve[o] = tanh(z[k] * y[k, o])
    slope = jacobian(curve, z)
""",
        [np.ones(3), np.ones((3, 5))],
    ),
    "a whole number that a gradient is multiplied by": (
        """
model m(y: f32[T, 1]) -> tone: [1, T]:
    param gain: [] ~ normal
    tone[f: 1, n] = log_softmax[n](((f + 1) / 1) * gain + y[n, f])

train m(y: f32[T, 1]):
    minimize sum(m(y))
    using sgd(lr = 0.1)
""",
        [np.array([[0.3], [-0.5]])],
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_program_that_was_wrong_once_is_that_of_numpy(name: str, tmp_path: Path) -> None:
    text, data = FOUND[name]
    (tmp_path / "spec.dsl").write_text(text, encoding="utf-8")
    numpy, c = (compiled(tmp_path / "spec.dsl", backend=backend, dtype="f64") for backend in ("numpy", "c"))
    params = numpy.init(0)
    wanted, found = (module.forward(params, *data) for module in (numpy, c))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    if hasattr(numpy, "loss_and_grad"):
        wanted, found = (module.loss_and_grad(params, *data) for module in (numpy, c))
        np.testing.assert_allclose(found[0], wanted[0], rtol=1e-12)
        for path, slope in wanted[1].items():
            np.testing.assert_allclose(found[1][path], slope, rtol=1e-9, atol=1e-12, err_msg=path)


def test_a_formula_of_doubles_times_a_matrix_of_floats(tmp_path: Path) -> None:
    spec = """
model m(x: f64[N, 8]) -> y: f64[N, 8]:
    param B: [8, 8] ~ normal
    y[n, k] = (x[n, j] * x[n, j] + 1) * B[j, k]
"""
    (tmp_path / "spec.dsl").write_text(spec, encoding="utf-8")
    module = compiled(tmp_path / "spec.dsl", backend="c")
    params, x = module.init(0), np.random.default_rng(0).normal(size=(65, 8))
    np.testing.assert_allclose(module.forward(params, x), (x * x + 1) @ params["B"].astype(np.float64), rtol=1e-12)


@pytest.mark.parametrize("flags", ["-O1", "-O2", "-O2 -funswitch-loops"])
def test_a_read_at_a_product_of_indices_is_not_taken_away(
    flags: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GCC 12 drops a loop for vectors over j that reads x[i * j + i]."""
    monkeypatch.setenv("DSLC_CFLAGS", f"{flags} -march=native -fopenmp-simd -fno-math-errno -ffp-contract=fast")
    (tmp_path / "spec.dsl").write_text(
        "model m(x: [9]) -> (y: [3, 4], d_x: [9]):\n    y[i: 3, j: 4] = x[i*j + i]\n    d_x = grad(sum(y^2) / 2, x)\n",
        encoding="utf-8",
    )
    x = np.random.default_rng(0).normal(size=9)
    found = compiled(tmp_path / "spec.dsl", backend="c", dtype="f64").forward({}, x)
    i, j = np.arange(3)[:, None], np.arange(4)
    np.testing.assert_allclose(found["y"], x[i * j + i], rtol=1e-12)
    np.testing.assert_allclose(found["d_x"], np.bincount((i * j + i).ravel(), x[i * j + i].ravel(), 9), rtol=1e-12)

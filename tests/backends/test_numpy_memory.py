"""Modules pass the memory of values on the way from call to call; what a caller holds is never overwritten."""

from __future__ import annotations

import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import dslc

ROOT = Path(__file__).parents[2]
N = 6


def data(path: str, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    if "gpt" in path:
        return [rng.integers(0, 20, (N, 9))]
    return [rng.standard_normal((N, 64)), rng.integers(0, 10, N)]


PATHS = ["specs/mlp/mlp.dsl", "specs/transformer/gpt.dsl", "specs/recurrent/gru.dsl"]


@pytest.fixture(scope="module", params=PATHS)
def case(request: pytest.FixtureRequest) -> tuple[str, ModuleType]:
    settings = {"depth": 3, "vocabulary": 20} if "gpt" in request.param else {}
    return request.param, dslc.compile(ROOT / request.param, backend="numpy", **settings)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return np.array_equal(a, b)


def copied(a: Any) -> Any:
    return {k: np.array(v) for k, v in a.items()} if isinstance(a, dict) else np.array(a)


def inputs_of(module: ModuleType, values: list[Any]) -> list[Any]:
    return [*values, *([module.init_state()] if hasattr(module, "init_state") else [])]


def test_results_are_not_overwritten_by_later_calls(case: tuple[str, ModuleType]) -> None:
    path, m = case
    params = m.init(0)
    first, second = (inputs_of(m, data(path, seed)) for seed in (1, 2))
    forward = m.forward(params, first[0])
    loss, grads = m.loss_and_grad(params, *first)
    held = copied(forward), copied(loss), copied(grads)
    opt = m.init_opt(params)
    m.forward(params, second[0])
    m.loss_and_grad(params, *second)
    m.train_step(params, opt, *data(path, 2))
    m.evaluate(params, *second)
    assert all(same(a, b) for a, b in zip(held, (forward, loss, grads), strict=True))


def test_calls_in_several_threads_do_not_meet(case: tuple[str, ModuleType]) -> None:
    path, m = case
    params = m.init(0)
    batches = [data(path, seed)[0] for seed in range(4)]
    expected = [copied(m.forward(params, x)) for x in batches]
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(20):
            if not same(expected[k], copied(m.forward(params, batches[k]))):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


#: `y` shows the memory of `h` where a batch has one row, and is a copy of it otherwise
SHOWN = """
model m(x: f64[N, T]) -> {result}:
    param w: [] ~ normal
    h = w * x
    y[(j i)] = h[i, j]
{rest}"""


def shown(folder: Path, result: str, rest: str = "") -> ModuleType:
    path = folder / "shown.dsl"
    path.write_text(SHOWN.format(result=result, rest=rest), encoding="utf-8")
    return dslc.compile(path, backend="numpy", dtype="f64")


@pytest.mark.parametrize("rows", [1, 3])
def test_a_result_that_shows_a_value_is_not_overwritten_by_later_calls(tmp_path: Path, rows: int) -> None:
    m = shown(tmp_path, "y")
    x = np.arange(4.0 * rows).reshape(rows, 4)
    found = m.forward({"w": np.array(1.0)}, x)
    m.forward({"w": np.array(2.0)}, x)
    assert np.array_equal(found, x.T.ravel())


@pytest.mark.parametrize("rows", [1, 3])
def test_the_place_of_a_value_is_not_free_while_a_view_of_it_is_read(tmp_path: Path, rows: int) -> None:
    m = shown(tmp_path, "q", "    z = cos(x)\n    q[i, k] = z[i, j] * z[k, j] * y[0]\n")
    x = np.arange(4.0 * rows).reshape(rows, 4) + 2
    z = np.cos(x)
    np.testing.assert_allclose(m.forward({"w": np.array(1.0)}, x), z @ z.T * x[0, 0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_formula_does_not_overwrite_what_another_operand_shows(tmp_path: Path, rows: int) -> None:
    m = shown(tmp_path, "q", "    z[i, j] = cos(h[i, j]) + y[N * T - 1 - i - N * j]\n    q[i, k] = z[i, j] * z[k, j]\n")
    x = np.arange(4.0 * rows).reshape(rows, 4)
    z = np.cos(x) + x[::-1, ::-1]
    np.testing.assert_allclose(m.forward({"w": np.array(1.0)}, x), z @ z.T, rtol=1e-12)


REPEATED = """
model m(x: f64[N, T], z: [N]) -> (u, v) where T >= 3:
    param w: [4, 2] ~ normal
    first = argmin[i](z[i])
    u[i: T, j: T, k: N] = abs(w[wrap(2*i + 1), wrap(first)])
    v = einsum("ij,k->i", w, z) / 4.0

train m(x, z):
    u, v = m(x, z)
    minimize sum[i, j, k](u[i, j, k] * cos(0.6 * i + 0.9 * j + 1.2 * k)) + sum[i](v[i] * cos(0.6 * i + 2.4))
    using sgd(lr = 0.1)
"""


def test_a_gradient_that_is_the_same_along_an_axis_is_copied_before_anything_is_added_to_it(tmp_path: Path) -> None:
    """NumPy has such an array once for all entries along the axis: adding to one of them would change all."""
    spec = tmp_path / "repeated.dsl"
    spec.write_text(REPEATED, encoding="utf-8")
    module = dslc.compile(spec, backend="numpy", dtype="f64")
    params, x, z = module.init(0), np.ones((2, 4)), np.array([0.3, 0.8])
    _, grads = module.loss_and_grad(params, x, z)
    wanted = np.empty((4, 2))
    for at in np.ndindex(4, 2):
        sides = []
        for step in (1e-6, -1e-6):
            moved = params["w"].copy()
            moved[at] += step
            sides.append(module.evaluate({"w": moved}, x, z)[0])
        wanted[at] = (sides[0] - sides[1]) / 2e-6
    np.testing.assert_allclose(grads["w"], wanted, atol=1e-6)
    assert grads["w"].flags.writeable


def test_a_part_of_two_gradients_is_copied_before_anything_is_added_to_it(tmp_path: Path) -> None:
    spec = tmp_path / "least.dsl"
    spec.write_text(
        "model least(at: i32[5] < 4) -> y: [5]:\n    param gain: [5] ~ normal\n    param shift: [4] ~ normal\n"
        "    y[p] = min(gain[clamp(2*p - 1)], gain[p] + shift[at[p]])\n\n"
        "train least(at):\n    minimize sum(least(at))\n    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    module = dslc.compile(spec, backend="numpy", dtype="f64")
    rng = np.random.default_rng(0)
    at = rng.integers(0, 4, 5)
    params = {"gain": rng.normal(size=5), "shift": rng.normal(size=4)}
    _, grads = module.loss_and_grad(params, at)
    gain, shift = (torch.tensor(params[k], requires_grad=True) for k in ("gain", "shift"))
    p = torch.arange(5)
    torch.minimum(gain[(2 * p - 1).clamp(0, 4)], gain + shift[torch.tensor(at)]).sum().backward()
    np.testing.assert_allclose(grads["gain"], gain.grad)
    np.testing.assert_allclose(grads["shift"], shift.grad)

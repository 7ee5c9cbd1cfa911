"""Modules called from several threads and processes, and with batches that do not fit."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dslc
from dslc.compiler import compile_text

ROOT = Path(__file__).parents[2]

MODEL = """
model m(x: f32[N, 6]) -> y: [N, 3]:
    h = x |> dense(8) |> batch_norm |> relu |> dropout(0.5)
    y = h |> dense(3)

train m(x, label: i32[N] < 3):
    y = m(x)
    minimize cross_entropy(y, label)
    metric accuracy = accuracy(y, label)
    using sgd(lr = 0.1)
"""


def compiled(text: str, folder: Path, dtype: str = "f64") -> ModuleType:
    file = folder / "spec.dsl"
    file.write_text(text, encoding="utf-8")
    module = ModuleType("compiled")
    exec(compile(compile_text(file, dtype=dtype), "compiled.py", "exec"), module.__dict__)
    return module


def batch(rows: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, 6)), rng.integers(0, 3, rows)


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return compiled(MODEL, tmp_path_factory.mktemp("threads"))


def trained(m: ModuleType, steps: int, rows: int) -> dict[str, Any]:
    params = m.init(0)
    opt = m.init_opt(params, seed=3)
    for k in range(steps):
        m.train_step(params, opt, *batch(rows, k))
    return {**params, **opt["state"], "loss": opt["loss"]}


RESULTS = """
model m(x: f32[N, 4]) -> (y: [N, 4], z: [4, N], mu: [4], k):
    y[n, i] = x[n, i] * 2 + n
    z[i, n] = exp(x[n, i])
    mu[i] = mean[n](x[n, i])
    k = max[n, i](x[n, i])
"""


def test_results_have_the_rows_of_a_batch_in_order(tmp_path: Path) -> None:
    m = compiled(RESULTS, tmp_path)
    x = np.random.default_rng(0).standard_normal((7, 4))
    found = m.forward({}, x)
    np.testing.assert_array_equal(found["y"], x * 2 + np.arange(7)[:, None])
    np.testing.assert_array_equal(found["z"], np.exp(x).T)
    np.testing.assert_allclose(found["mu"], x.mean(0))
    assert found["k"] == x.max()
    assert found["y"].shape == (7, 4) and found["z"].shape == (4, 7)


def test_a_size_may_be_that_of_an_unread_input(tmp_path: Path) -> None:
    text = "model m(x: f32[N, T], k: i32[T] < N) -> y: [N]:\n    y[k[t]: N] max= float(t + 1)\n"
    m = compiled(text, tmp_path)
    np.testing.assert_array_equal(m.forward({}, np.zeros((3, 5)), np.array([0, 1, 1, 2, 0])), [5, 3, 4])


def test_errors_name_the_row(module: ModuleType) -> None:
    m = module
    x, label = batch(8)
    label[6] = 9
    with pytest.raises(ValueError, match=r"label: expected 0 <= value < 3, found 9 at \(6,\)"):
        m.loss_and_grad(m.init(0), x, label, m.init_state())


def test_arrays_of_unequal_length_are_refused(module: ModuleType) -> None:
    m = module
    x, label = batch(8)
    with pytest.raises(ValueError, match="label: expected N = 8 along axis 0, as in x, found 7"):
        m.loss_and_grad(m.init(0), x, label[:7], m.init_state())


def test_calls_from_several_threads_do_not_meet(module: ModuleType) -> None:
    m = module
    params = m.init(0)
    expected = [m.loss_and_grad(params, *batch(12, k), m.init_state(), seed=k)[1] for k in range(4)]
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(20):
            found = m.loss_and_grad(params, *batch(12, k), m.init_state(), seed=k)[1]
            if not all(np.array_equal(found[n], expected[k][n]) for n in found):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs fork")
def test_a_forked_process_computes_the_same(module: ModuleType) -> None:
    m = module
    params = m.init(0)
    expected = float(m.evaluate(params, *batch(10), m.init_state())[0])
    process = multiprocessing.get_context("fork")
    queue = process.Queue()
    child = process.Process(target=lambda: queue.put(float(m.evaluate(params, *batch(10), m.init_state())[0])))
    child.start()
    assert queue.get(timeout=60) == expected
    child.join(60)


def test_an_empty_batch_is_refused(module: ModuleType) -> None:
    with pytest.raises(
        ValueError, match=r"x: expected 2 axes \('N', 6\), none of them empty, found the shape \(0, 6\)"
    ):
        module.loss_grad_metrics(module.init(), *batch(0), module.init_state())


@pytest.mark.point("22")
def test_many_threads_that_call_a_module_do_not_stand_still(tmp_path: Path) -> None:
    spec = tmp_path / "m.dsl"
    spec.write_text("model m(x: f32[N, 3]) -> y: [N, 3]:\n    y[n, k] = x[n, k] - mean[m](x[m, k])\n", encoding="utf-8")
    module = dslc.compile(spec)
    x = np.arange(48, dtype=np.float32).reshape(16, 3)
    found: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: found.append(module.forward({}, x)), daemon=True) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 40
    for y in found:
        np.testing.assert_allclose(y, x - x.mean(0), rtol=1e-6)

"""Threads share the rows of a batch: what they compute together is what one computes alone."""

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


def shared(m: ModuleType, threads: int) -> ModuleType:
    m.THREADS, m.LEAST_WORK = threads, 0  # type: ignore[attr-defined]
    return m


def batch(rows: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, 6)), rng.integers(0, 3, rows)


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return compiled(MODEL, tmp_path_factory.mktemp("teams"))


def trained(m: ModuleType, steps: int, rows: int) -> dict[str, Any]:
    params = m.init(0)
    opt = m.init_opt(params, seed=3)
    for k in range(steps):
        m.train_step(params, opt, *batch(rows, k))
    return {**params, **opt["state"], "loss": opt["loss"]}


@pytest.mark.parametrize("threads", [2, 3, 7])
@pytest.mark.parametrize("rows", [1, 2, 5, 64])
def test_training_with_dropout_and_batch_norm_is_the_same_in_threads(
    module: ModuleType, threads: int, rows: int
) -> None:
    alone = trained(shared(module, 1), 6, rows)
    together = trained(shared(module, threads), 6, rows)
    for name, value in alone.items():
        np.testing.assert_allclose(together[name], value, rtol=1e-7, atol=1e-10, err_msg=name)


def test_the_same_number_of_threads_gives_the_same_bits(module: ModuleType) -> None:
    first, second = (trained(shared(module, 3), 20, 50) for _ in range(2))
    assert all(np.array_equal(first[name], second[name]) for name in first)


RESULTS = """
model m(x: f32[N, 4]) -> (y: [N, 4], z: [4, N], mu: [4], k):
    y[n, i] = x[n, i] * 2 + n
    z[i, n] = exp(x[n, i])
    mu[i] = mean[n](x[n, i])
    k = max[n, i](x[n, i])
"""


def test_results_have_the_rows_of_all_members_in_order(tmp_path: Path) -> None:
    m = shared(compiled(RESULTS, tmp_path), 3)
    x = np.random.default_rng(0).standard_normal((7, 4))
    found = m.forward({}, x)
    np.testing.assert_array_equal(found["y"], x * 2 + np.arange(7)[:, None])
    np.testing.assert_array_equal(found["z"], np.exp(x).T)
    np.testing.assert_allclose(found["mu"], x.mean(0))
    assert found["k"] == x.max()
    assert found["y"].shape == (7, 4) and found["z"].shape == (4, 7)


def test_a_model_that_compares_its_rows_is_not_shared(tmp_path: Path) -> None:
    text = "model m(x: f32[N, 4]) -> s: [N, N]:\n    s[n, m] = x[n, i] * x[m, i]\n"
    assert "share(" not in compile_text(_written(text, tmp_path))
    neighbours = "model m(x: f32[N, 4]) -> y: [N, 4]:\n    y[n, i] = x[n, i] - (x[n - 1, i] else 0)\n"
    assert "share(" not in compile_text(_written(neighbours, tmp_path))
    running = "model m(x: f32[N]) -> y: [N]:\n    y[n] = cumsum[n](x[n])\n"
    assert "share(" not in compile_text(_written(running, tmp_path))


def _written(text: str, folder: Path) -> Path:
    file = folder / "spec.dsl"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_size_that_an_unread_input_has_along_another_axis_counts_no_rows(tmp_path: Path) -> None:
    text = "model m(x: f32[N, T], k: i32[T] < N) -> y: [N]:\n    y[k[t]: N] max= float(t + 1)\n"
    m = shared(compiled(text, tmp_path), 2)
    np.testing.assert_array_equal(m.forward({}, np.zeros((3, 5)), np.array([0, 1, 1, 2, 0])), [5, 3, 4])


def test_errors_name_rows_of_the_whole_batch(module: ModuleType) -> None:
    m = shared(module, 2)
    x, label = batch(8)
    label[6] = 9
    with pytest.raises(ValueError, match=r"label: expected 0 <= value < 3, found 9 at \(6,\)"):
        m.loss_and_grad(m.init(0), x, label, m.init_state())


def test_arrays_of_unequal_length_are_refused(module: ModuleType) -> None:
    m = shared(module, 2)
    x, label = batch(8)
    with pytest.raises(ValueError, match="label: expected N = 8 along axis 0, as in x, found 7"):
        m.loss_and_grad(m.init(0), x, label[:7], m.init_state())


def test_an_error_in_one_member_ends_the_call_and_leaves_the_next_one_alone(module: ModuleType) -> None:
    m = shared(module, 3)
    x, label = batch(9)
    params = m.init(0)
    whole = m.loss_and_grad(params, x, label, m.init_state(), seed=1)
    before, task = m.Blas.threads(), m.loss_grad_metrics_of_rows

    def fails(team: Any, *arguments: Any) -> Any:
        if team.number == 1:
            raise KeyError("lost")
        return task(team, *arguments)

    m.loss_grad_metrics_of_rows = fails  # type: ignore[attr-defined]
    try:
        with pytest.raises(KeyError, match="lost"):
            m.loss_and_grad(params, x, label, m.init_state(), seed=1)
    finally:
        m.loss_grad_metrics_of_rows = task  # type: ignore[attr-defined]
    assert m.Blas.threads() == before
    again = m.loss_and_grad(params, x, label, m.init_state(), seed=1)
    assert all(np.array_equal(whole[1][k], again[1][k]) for k in whole[1])


def test_calls_from_several_threads_do_not_meet(module: ModuleType) -> None:
    m = shared(module, 2)
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
def test_a_forked_process_has_threads_of_its_own(module: ModuleType) -> None:
    m = shared(module, 2)
    params = m.init(0)
    expected = float(m.evaluate(params, *batch(10), m.init_state())[0])
    process = multiprocessing.get_context("fork")
    queue = process.Queue()
    child = process.Process(target=lambda: queue.put(float(m.evaluate(params, *batch(10), m.init_state())[0])))
    child.start()
    assert queue.get(timeout=60) == expected
    child.join(60)


def test_small_work_stays_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    m = dslc.compile(ROOT / "specs/mlp/mlp.dsl")
    m.THREADS = 2  # type: ignore[attr-defined]
    sizes: list[int] = []
    task = m.forward_of_rows
    monkeypatch.setattr(m, "forward_of_rows", lambda team, *rest: sizes.append(team.size) or task(team, *rest))
    for rows in (1, 32, 20_000):
        m.forward(m.init(0), np.zeros((rows, 64), np.float32))
    assert sizes[:2] == [1, 1] and sorted(sizes[2:]) == [2, 2]


@pytest.mark.parametrize(
    ("blas", "work", "size"),
    [(1, 1e12, 1), (2, 1e7, 1), (2, 2e8, 2), (2, 1e12, 2), (8, 1e9, 3), (16, 1e12, 8), (64, 1e12, 1)],
)
def test_threads_are_as_many_as_the_work_pays_for(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, blas: int, work: float, size: int
) -> None:
    monkeypatch.setattr(module.Blas, "threads", lambda: blas)
    monkeypatch.setattr(module, "THREADS", None)
    monkeypatch.setattr(module, "LEAST_WORK", 100_000_000)
    assert module.members(work) == size


def test_as_many_members_share_a_call_whatever_runs_beside_it(module: ModuleType) -> None:
    alone = module.Blas.threads()
    with module.Blas():
        assert module.Blas.threads() == alone
    assert module.Blas.threads() == alone


def test_an_empty_batch_is_refused(module: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"x: expected at least one entry along each axis, found the shape \(0, 6\)"):
        module.loss_grad_metrics(module.init(), *batch(0), module.init_state())


@pytest.mark.point("22")
def test_many_threads_that_call_a_module_with_many_members_do_not_stand_still(tmp_path: Path) -> None:
    """Members of a call wait for each other, so they may not wait for threads that other calls hold."""
    spec = tmp_path / "m.dsl"
    spec.write_text("model m(x: f32[N, 3]) -> y: [N, 3]:\n    y[n, k] = x[n, k] - mean[m](x[m, k])\n", encoding="utf-8")
    module = dslc.compile(spec)
    module.THREADS, module.LEAST_WORK = 8, 0
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

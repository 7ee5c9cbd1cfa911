"""C modules in use: the same bits from any number of threads, calls from many threads, after a fork, and a thousand."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import QUICK, Case

PATHS = ["specs/mlp/mlp.dsl", "specs/transformer/gpt.dsl", "specs/convolution/cnn.dsl", "specs/recurrent/gru.dsl"]
MADE: dict[str, tuple[Any, list[Any], list[Any]]] = {}


def module_of(path: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[Any], list[Any]]:
    """The module of a spec, and the arguments of its outputs and of its gradient."""
    if path not in MADE:
        monkeypatch.setenv("DSLC_CFLAGS", QUICK)
        case = Case(path, 17)
        calls = [x.rounded("f32") for x in (case.forward, case.training)]
        MADE[path] = case.module("c", "f32"), *([x.params, *(np.concatenate([d] * 9) for d in x.data)] for x in calls)
    return MADE[path]


def results(module: Any, given: list[Any], trained: list[Any]) -> dict[str, bytes]:
    loss, grads, metrics, _ = module.loss_grad_metrics(*trained)
    outputs = module.forward(*given)
    outputs = outputs if isinstance(outputs, dict) else {"output": outputs}
    found = {"loss": loss, **grads, **{f"metric {k}": v for k, v in metrics.items()}}
    found |= {f"output {k}": v for k, v in outputs.items()}
    return {k: np.asarray(x).tobytes() for k, x in found.items()}


@pytest.mark.parametrize("path", PATHS)
def test_the_bits_do_not_depend_on_the_number_of_threads(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, *arguments = module_of(path, monkeypatch)
    try:
        module.threads(1)
        wanted = results(module, *arguments)
        for count in (2, 3, 5):
            module.threads(count)
            found = results(module, *arguments)
            assert [k for k in wanted if found[k] != wanted[k]] == [], f"{count} threads"
    finally:
        module.threads(1)


def test_eight_threads_call_one_module_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module, *arguments = module_of(PATHS[0], monkeypatch)
    wanted, wrong = results(module, *arguments), []

    def call() -> None:
        for _ in range(20):
            if results(module, *arguments) != wanted:
                wrong.append(threading.get_ident())

    callers = [threading.Thread(target=call) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this machine")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_module_works_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    module, *arguments = module_of(PATHS[0], monkeypatch)
    module.threads(3)
    wanted = results(module, *arguments)
    child = os.fork()
    if not child:
        os._exit(0 if results(module, *arguments) == wanted else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert results(module, *arguments) == wanted
    module.threads(1)


def memory() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="how much memory is used is not told here")
def test_a_thousand_calls_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    module, _, given = module_of(PATHS[0], monkeypatch)
    params, *data = given[0], *(x[:8] for x in given[1:])
    opt = module.init_opt(params)
    for count in (100, 1000):
        before = memory()
        for _ in range(count):
            module.train_step(params, opt, *data)
            module.forward(params, data[0])
            module.loss_and_grad(params, *data)
    assert memory() - before < 1 << 20

"""A process that holds one candidate and runs blocks of its steps when it is told to.

Each candidate has a process of its own, so that no pool of threads meets another one and memory can be told apart.
"""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

from bench import machine
from bench.compile_time import with_libraries
from bench.workloads import WORKLOADS, Data, Named, Sizes

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")

#: steps before memory and time are looked at
WARM_STEPS = 2


class WorkerError(Exception):
    """A candidate failed in its process; the text is its traceback."""


class Bench:
    """The requests that a worker answers."""

    def __init__(self, name: str, threads: int) -> None:
        self.name = name
        self.threads = threads
        self.module: ModuleType | None = None
        self.candidate: Any = None
        self.before = 0.0

    def load(self, file: str) -> None:
        """Import what the candidate needs: none of that is memory of a step."""
        from bench import candidates

        if self.name == candidates.OURS:
            os.environ.update(with_libraries(Path(file)))
            self.module = candidates.load_module(Path(file))
            if hasattr(self.module, "threads"):
                self.module.threads(self.threads)
        elif self.name == "jax":
            from bench import jax_models

            jax_models.warm()
        else:
            from bench import torch_models

            torch_models.warm()
        self.before = machine.memory()["RssAnon"] if machine.known() else 0.0

    def build(self, workload: str, sizes: Sizes, data: Data, params: Named | None) -> None:
        """Make the candidate at given parameters; a compiled module can begin with its own."""
        from bench import candidates

        chosen = WORKLOADS[workload]
        if self.module is not None:
            self.candidate = candidates.Compiled(chosen, self.module, params, data)
        else:
            assert params is not None
            self.candidate = candidates.build_peer(self.name, chosen, sizes, params, data, self.threads)

    def params(self) -> Any:
        return self.candidate.params

    def first(self) -> Any:
        return self.candidate.first()

    def compare(self, ours: Any) -> dict[str, float]:
        """How far this candidate's loss and gradients are from those of the compiled module."""
        from bench.candidates import differences

        return differences(self.candidate.matching(ours), self.candidate.first())

    def peak(self) -> float | None:
        """The memory of this process at its highest during a step, over that before there was a model, in MB."""
        self.block(WARM_STEPS, 0)
        if not machine.known():
            return None
        machine.forget_peak()
        self.block(WARM_STEPS, 0)
        return machine.peak_of_own() - self.before

    def block(self, steps: int, warm: int = 1) -> list[float]:
        """Seconds of each step, after some that are not counted: a pause leaves processors and caches cold."""
        step: Callable[[], object] = self.candidate.step
        for _ in range(warm):
            step()
        times = []
        for _ in range(steps):
            start = perf_counter()
            step()
            times.append(perf_counter() - start)
        return times

    def limits(self) -> dict[str, float]:
        from bench.limits import measure

        return measure(self.threads)


def serve(pipe: Connection, name: str, threads: int) -> None:
    """Answer requests until the pipe closes."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, machine.processors(threads))
    bench = Bench(name, threads)
    while True:
        try:
            request, arguments = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            answer = (True, getattr(bench, request)(*arguments))
        except Exception:
            answer = (False, traceback.format_exc())
        pipe.send(answer)


class Worker:
    """The process of one candidate, seen from outside: `worker("block", 10)`; use it in a `with`."""

    def __init__(self, name: str, threads: int) -> None:
        self.name = name
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, name, threads), daemon=True)
        saved = {variable: os.environ.get(variable) for variable in THREAD_VARIABLES}
        os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
        try:
            self.process.start()
        finally:
            for variable, value in saved.items():
                if value is None:
                    del os.environ[variable]
                else:
                    os.environ[variable] = value
        theirs.close()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def __call__(self, request: str, *arguments: Any) -> Any:
        try:
            self.pipe.send((request, arguments))
            good, answer = self.pipe.recv()
        except (EOFError, BrokenPipeError):
            self.process.join(5)
            raise WorkerError(f"the process of {self.name} ended with code {self.process.exitcode}") from None
        if not good:
            raise WorkerError(answer)
        return answer

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *failure: object) -> None:
        self.pipe.close()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()

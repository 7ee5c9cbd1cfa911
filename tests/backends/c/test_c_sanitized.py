"""The C modules of specs do nothing that sanitizers of memory, of undefined behaviour and of threads report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cases import SPECS
from compiled import compiler

HERE = Path(__file__).parent
#: each call of a module, at ragged sizes; inputs lie in memory of exactly their size
CALLS = f"""
import os
import sys
del os.environ["LD_PRELOAD"]  # the compiler is not watched
sys.path[:0] = {[str(HERE), str(HERE.parents[1]), str(HERE.parents[2])]!r}
import numpy as np
from cases import Case
from dslc import pipeline

path, threads, *sizes = sys.argv[1:]
module = Case(path).module("c", "f32")
module.threads(int(threads))
for size in map(int, sizes):
    case = Case(path, size)
    given = case.given(pipeline.forward(case.model).unit, case.model, {{}}).rounded("f32")
    module.forward(given.params, *given.data, *given.state)
    if case.train is not None:
        given = case.given(pipeline.training(case.train).unit, case.train.instance, {{}}).rounded("f32")
        module.evaluate(given.params, *given.data, *given.state)
        module.loss_grad_metrics(given.params, *given.data, *given.state)
        opt = module.init_opt(given.params)
        if given.state:
            opt["state"] = given.state[0]
        module.train_step(given.params, opt, *given.data)
print("done")
"""
FAST = ("specs/mlp/mlp.dsl", "specs/recurrent/gru.dsl")


def run(path: str, kind: str, library: str, threads: int, sizes: list[int], cache: Path) -> None:
    found = subprocess.run([compiler(), f"-print-file-name={library}"], capture_output=True, text=True, check=True)
    if not Path(found.stdout.strip()).is_absolute():
        pytest.skip(f"there is no {library} on this machine")
    level = "-O1" if kind == "thread" else "-O0"  # where no read is left out
    environment = os.environ | {
        "LD_PRELOAD": found.stdout.strip(),
        "DSLC_CACHE": str(cache),
        "DSLC_CFLAGS": f"{level} -march=native -fopenmp-simd -fno-math-errno -ffp-contract=fast -fsanitize={kind}",
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "TSAN_OPTIONS": "halt_on_error=1:report_signal_unsafe=0",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONMALLOC": "malloc",  # tables of pointers stand in memory of Python
    }
    done = subprocess.run(
        [sys.executable, "-c", CALLS, path, str(threads), *map(str, sizes)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "Skipped" in done.stderr:
        pytest.skip("no model")
    assert done.returncode == 0 and done.stdout == "done\n", (done.stdout + done.stderr)[-6000:]
    assert "runtime error" not in done.stderr and "WARNING" not in done.stderr, done.stderr[-6000:]


@pytest.mark.parametrize("path", [pytest.param(p, marks=() if p in FAST else pytest.mark.long) for p in SPECS])
def test_no_read_or_write_outside_of_memory_and_nothing_undefined(path: str, tmp_path: Path) -> None:
    run(path, "address,undefined", "libasan.so", 2, [1, 3, 17, 65, 130], tmp_path)


@pytest.mark.parametrize("path", FAST[:1])
def test_no_race_in_a_step_of_training(path: str, tmp_path: Path) -> None:
    run(path, "thread", "libtsan.so", 4, [130, 1030], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("path", ["transformer/gpt", "convolution/cnn", "recurrent/gru"])
def test_no_race_in_loops_and_windows(path: str, threads: int, tmp_path: Path) -> None:
    run(f"specs/{path}.dsl", "thread", "libtsan.so", threads, [17, 65], tmp_path)

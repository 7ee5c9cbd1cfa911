"""Random pairs of a spec and a torch program, both written from one plan: the same results, gradients and steps."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.pairs.compare import NotComparable, compare
from tests.pairs.generate import FIRST, KINDS, plan_of
from tests.pairs.run import dtype_of
from tests.pairs.shrink import report, shrunk

#: programs of the default suite and of the long one, in groups of this size
GROUP, DEFAULT, LONG = 50, 1000, 20000
GROUPS = range(0, DEFAULT, GROUP)
LONG_GROUPS = range(DEFAULT, LONG, 500)


def check(seeds: range, backend: str = "numpy", dtype: str = "", kinds: Sequence[str] = tuple(KINDS)) -> None:
    compared = 0
    for seed in seeds:
        plan, kind = plan_of(seed, kinds=kinds), dtype or dtype_of(seed)
        try:
            failure = compare(plan, backend, kind)
        except NotComparable:
            continue
        compared += 1
        if failure:
            small, failure = shrunk(plan, failure, backend, kind, tries=60)
            pytest.fail("\n" + report(small, failure, seed, backend, kind), pytrace=False)
    assert compared >= 0.9 * len(seeds)


@pytest.mark.parametrize("first", GROUPS)
def test_random_pairs_agree(first: int) -> None:
    check(range(first, first + GROUP))


@pytest.mark.parametrize("seed", [4617, 10898])
def test_what_roundings_move_far_is_no_mistake(seed: int) -> None:
    """A sine of a large number, and an axis of one element whose deviation is 0."""
    check(range(seed, seed + 1), kinds=FIRST)


@pytest.mark.parametrize("seed", [10735, 11737, 12737])
def test_programs_that_once_differed_agree(seed: int) -> None:
    check(range(seed, seed + 1), kinds=FIRST)


@pytest.mark.long
@pytest.mark.parametrize("first", LONG_GROUPS)
def test_many_random_pairs_agree(first: int) -> None:
    check(range(first, first + 500))


TRITON = """
import os, sys
os.environ["TRITON_INTERPRET"] = "1"
sys.path.insert(0, {root!r})
from tests.pairs.test_pairs import check
check(range({first}, {last}), "triton")
"""


@pytest.mark.parametrize(("first", "last"), [(0, 6), pytest.param(1000, 1200, marks=pytest.mark.long)])
def test_random_pairs_agree_on_triton(first: int, last: int) -> None:
    """In a process of its own: the interpreter is chosen when triton is imported."""
    root = str(Path(__file__).parents[2])
    script = TRITON.format(root=root, first=first, last=last)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=root, env=os.environ.copy()
    )
    assert done.returncode == 0, done.stdout + done.stderr


#: the flags of a C module with less optimisation, which takes half the time to compile
QUICK = "-O1 -march=native -fopenmp-simd -fno-math-errno -fno-trapping-math -ffp-contract=fast"


@pytest.mark.parametrize(("first", "last"), [(0, 30), pytest.param(1000, 1500, marks=pytest.mark.long)])
def test_random_pairs_agree_in_c(first: int, last: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSLC_CFLAGS", QUICK)
    check(range(first, last), "c")


def test_a_program_that_once_differed_in_c_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSLC_CFLAGS", QUICK)
    check(range(1154, 1155), "c", kinds=FIRST)


def test_every_kind_of_statement_is_among_the_default_programs() -> None:
    made = {s.kind.split(".")[0] for seed in range(DEFAULT) for s in plan_of(seed).statements}
    assert made >= set(KINDS)


def test_a_plan_depends_on_its_seed_alone() -> None:
    assert [plan_of(7).spec(), plan_of(7).torch()] == [plan_of(7).spec(), plan_of(7).torch()]


def test_a_wrong_torch_program_is_noticed_and_made_small() -> None:
    """The comparison sees a value that is off by a part in a million, and shrinking keeps what makes it so."""
    for seed in range(1000):
        plan = plan_of(seed)
        cells = [s for s in plan.statements if s.kind == "scan" and "torch.tanh" in " ".join(s.torch)]
        if cells and len(plan.statements) > 2:
            break
    cells[0].torch[:] = [line.replace("torch.tanh(", "1.000001 * torch.tanh(") for line in cells[0].torch]
    failure = compare(plan, "numpy", "f64")
    assert failure is not None
    small, failure = shrunk(plan, failure, "numpy", "f64", tries=60)
    assert failure is not None and [s.kind for s in small.statements] == ["scan"]

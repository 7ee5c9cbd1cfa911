"""The specs and the library are good, and checking a large model is quick because its layers are checked once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from generate import ROOT, SPECS

from dslc.check import program_check
from dslc.check.frame import Checker
from dslc.diagnostics.render import render_all
from dslc.frontend import check_file

GPT = ROOT / "specs/transformer/gpt12.dsl"

#: Checks a spec in a process that has imported all there is to import, and prints the processor time that it took:
#: other work on the machine is no failure.
STOPWATCH = """
import sys, time
from pathlib import Path
from dslc.frontend import check_file
start = time.process_time()
checked = check_file(Path(sys.argv[1]))
print(time.process_time() - start)
sys.exit(len(checked.diagnostics))
"""


@pytest.mark.parametrize("path", SPECS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_specs_and_library_have_neither_errors_nor_warnings(path: Path) -> None:
    checked = check_file(path)
    assert not checked.diagnostics, render_all(checked.diagnostics)
    assert checked.program is not None


def seconds_in_a_fresh_process(path: Path) -> float:
    command = [sys.executable, "-c", STOPWATCH, str(path)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_a_gpt_of_twelve_layers_is_checked_in_half_a_second() -> None:
    assert min(seconds_in_a_fresh_process(GPT) for _ in range(3)) < 0.5


def work(depth: int, monkeypatch: pytest.MonkeyPatch) -> Checker:
    """The checker after it checked a GPT of some layers: it counts its steps and keeps its instances."""
    made: list[Checker] = []

    def noted(*args: object, **named: object) -> Checker:
        made.append(Checker(*args, **named))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(program_check, "Checker", noted)
    assert not check_file(GPT, {"depth": depth}).diagnostics
    (checker,) = made
    return checker


def test_layers_that_are_alike_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shallow, deep = work(4, monkeypatch), work(48, monkeypatch)
    assert len(deep.instances) == len(shallow.instances)


def test_another_layer_costs_a_tenth_of_the_first_four(monkeypatch: pytest.MonkeyPatch) -> None:
    shallow, deep = work(4, monkeypatch), work(48, monkeypatch)
    assert (deep.steps - shallow.steps) / 44 <= shallow.steps / 10

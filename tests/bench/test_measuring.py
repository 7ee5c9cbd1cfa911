"""The harness: who is measured when, which rounds count, and what is said about peers that are missing or wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from bench import candidates, machine, rounds
from bench.__main__ import bench
from bench.candidates import OURS, differences
from bench.report import failures, geometric_means, goal_cell, missing_peers, slowdown
from bench.rounds import Times, Watch, ratio
from bench.run import Options, Result, judge, run_workload
from bench.worker import Worker, WorkerError
from bench.workloads import WORKLOADS

ROOT = Path(__file__).parents[2]
LINUX = pytest.mark.skipif(not machine.known(), reason="reads /proc")


class Recorded:
    """A worker that notes when it was asked, and answers with given times."""

    def __init__(self, name: str, log: list[str], seconds: float) -> None:
        self.name, self.log, self.seconds, self.pid = name, log, seconds, os.getpid()

    def __call__(self, request: str, steps: int) -> list[float]:
        self.log.append(self.name)
        return [self.seconds] * steps


def measured(
    monkeypatch: pytest.MonkeyPatch, others: list[float], wanted: int
) -> tuple[rounds.Measured, list[str], list[float]]:
    """What `measure` makes of rounds in which others used that much of the processors."""
    log: list[str] = []
    pauses: list[float] = []
    left = iter(others)

    class Given:
        def __init__(self, *_: object) -> None: ...

        def others(self) -> float:
            return next(left)

    monkeypatch.setattr(rounds, "Watch", Given)
    monkeypatch.setattr(rounds, "sleep", pauses.append)
    workers = [Recorded("dslc", log, 0.2), Recorded("torch", log, 0.1)]
    result = rounds.measure(workers, wanted, 0.12, 1, lambda text: None)  # type: ignore[arg-type]
    return result, log, pauses


@LINUX
def test_a_process_holds_a_processor_for_as_long_as_it_is_wanted() -> None:
    with rounds.held(machine.processors(1)) as pid:
        before = machine.used([pid])
        end = time.perf_counter() + 60
        while machine.used([pid]) < before + 0.5 and time.perf_counter() < end:
            time.sleep(0.1)
        assert machine.used([pid]) >= before + 0.5
        assert os.sched_getaffinity(pid) == set(machine.processors(1))
    assert not Path(f"/proc/{pid}").exists()


@LINUX
def test_each_round_is_measured_beside_a_busy_processor_too() -> None:
    log: list[str] = []
    workers = [Recorded("dslc", log, 0.2), Recorded("torch", log, 0.1)]
    done = rounds.measure(workers, 2, 1e9, 1, lambda text: None, busy=True)  # type: ignore[arg-type]
    assert {name: len(times.rounds) for name, times in done.beside.items()} == {"dslc": 2, "torch": 2}
    assert log[2:] == ["dslc", "torch", "dslc", "torch", "torch", "dslc", "torch", "dslc"]
    result = Result(WORKLOADS["mlp"], 1.0, measured=done)
    assert slowdown(result, "dslc") == (0.2, 1.0)
    assert slowdown(result, "jax") is None


def test_candidates_take_turns_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    result, log, pauses = measured(monkeypatch, [0.0] * 3, 3)
    assert log[2:] == ["dslc", "torch", "torch", "dslc", "dslc", "torch"]
    assert pauses == [0.16] * 6
    assert (result.kept, result.dropped) == (3, 0)


def test_a_disturbed_round_is_dropped_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    result, log, _ = measured(monkeypatch, [0.0, 0.5, 0.12], 2)
    assert (result.kept, result.dropped) == (2, 1)
    assert [len(times.rounds) for times in result.times.values()] == [2, 2]
    assert len(log) == 2 + 3 * 2


def test_a_machine_that_is_never_quiet_gives_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    result, _, _ = measured(monkeypatch, [0.9] * 6, 2)
    assert (result.kept, result.dropped) == (0, 6)
    workload = WORKLOADS["mlp"]
    assert Result(workload, 1.0, measured=result).ratios() == {}
    assert Result(workload, 1.0, measured=result).shares({"matmul": 1, "copy": 1}) == {}


def test_ratios_are_of_medians_of_minima_and_by_round() -> None:
    found = ratio(Times([[2.0, 4.0, 6.0], [8.0, 4.0, 8.0]]), Times([[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]]))
    assert (found.median, found.least, found.low, found.high) == (2.5, 2.0, 2.0, 4.0)


def test_the_best_peer_is_that_with_the_least_median_and_minima_meet_the_least_of_all() -> None:
    times = {OURS: Times([[1.0, 2.0, 3.0]]), "torch": Times([[0.5, 8.0, 8.0]]), "jax": Times([[2.0, 4.0, 4.0]])}
    result = Result(WORKLOADS["mlp"], 1.0, measured=rounds.Measured(times, 0, []))
    best = result.best()
    assert best is not None
    peer, found = best
    assert (peer, found.median, found.least) == ("jax", 0.5, 2.0)


def test_the_geometric_mean_is_of_the_ratios_to_the_best_peers() -> None:
    def of(ours: float, peer: float) -> Result:
        times = {OURS: Times([[ours]]), "torch": Times([[peer]])}
        return Result(WORKLOADS["mlp"], 1.0, measured=rounds.Measured(times, 0, []))

    assert geometric_means([of(1.0, 2.0), of(1.0, 8.0), Result(WORKLOADS["gpt"], 1.0)]) == pytest.approx((0.25, 0.25))
    assert geometric_means([Result(WORKLOADS["gpt"], 1.0)]) is None


@pytest.mark.parametrize(("backend", "style"), [("numpy", "green"), ("c", "red")])
def test_goals_of_numpy_are_of_torch_and_those_of_c_of_the_best_peer(backend: str, style: str) -> None:
    times = {OURS: Times([[1.0]]), "torch": Times([[2.0]]), "jax": Times([[0.5]])}
    result = Result(WORKLOADS["mlp"], 1.0, measured=rounds.Measured(times, 0, []))
    assert goal_cell(result, backend).style == style


def test_shares_are_parts_of_the_limits() -> None:
    done = rounds.Measured({OURS: Times([[0.5]])}, 0, [])
    result = Result(WORKLOADS["mlp"], flops=2e9, moved=1e9, measured=done)
    assert result.shares({"matmul": 16.0, "copy": 8.0}) == {"matmul": 0.25, "copy": 0.25}


@LINUX
def test_the_work_of_others_is_seen_and_our_own_is_not() -> None:
    script = "import time\nend = time.time() + 30\nprint(flush=True)\nwhile time.time() < end: pass"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as busy:
        assert busy.stdout is not None
        busy.stdout.readline()
        cpus = sorted(os.sched_getaffinity(0))
        unknown, known = Watch(cpus, [os.getpid()]), Watch(cpus, [os.getpid(), busy.pid])
        before = machine.used([busy.pid])
        while machine.used([busy.pid]) < before + 0.3:
            pass
        seen, hidden = unknown.others(), known.others()
        busy.kill()
    assert seen is not None and hidden is not None
    assert seen > hidden


@LINUX
def test_the_peak_is_that_of_memory_given_back_too() -> None:
    machine.forget_peak()
    before = machine.memory()["RssAnon"]
    block = np.ones(64 * 2**20, np.uint8)
    del block
    assert 60 < machine.peak_of_own() - before < 80
    machine.forget_peak()
    assert machine.peak_of_own() - before < 20


# ---- peers that are wrong, missing or broken ------------------------------------------------------------


def test_differences_are_relative_to_the_largest_value() -> None:
    wanted = {"w": np.array([4.0, 1.0], np.float32), "z": np.zeros(2, np.float32)}
    found = {"w": np.array([4.0, 1.5], np.float32), "z": np.zeros(2, np.float32)}
    assert differences(found, wanted) == {"w": 0.125, "z": 0.0}
    with pytest.raises(ValueError, match=r"the names differ: \['z'\]"):
        differences({"w": found["w"]}, wanted)
    with pytest.raises(ValueError, match="shapes"):
        differences({"w": np.zeros((2, 1), np.float32), "z": found["z"]}, wanted)


@pytest.mark.parametrize(("gap", "good"), [(1e-5, True), (1e-3, False), (float("nan"), False)])
def test_a_mismatch_is_a_failure(gap: float, good: bool) -> None:
    result = Result(WORKLOADS["mlp"], 1.0)
    assert judge(result, "torch", {"loss": 1e-7, "0.weight": gap}) == good
    assert bool(result.failures) != good
    assert result.agreement["torch"][1] == "0.weight"


def test_a_missing_peer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., object] = candidates.importlib.util.find_spec
    monkeypatch.setattr(
        candidates.importlib.util, "find_spec", lambda name, *a: None if name == "jax" else real(name, *a)
    )
    assert candidates.missing("torch") is None
    assert candidates.missing("jax") == "jax is not installed: pip install 'dslc[bench]'"


def test_a_failure_in_a_worker_comes_back_with_its_traceback() -> None:
    with Worker(OURS, 1) as worker, pytest.raises(WorkerError, match="FileNotFoundError"):
        worker("load", "/nowhere/module.py")


def test_a_workload_is_compared_and_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(rounds, "BLOCK", 0.001)
    options = Options("numpy", ("torch", "jax"), rounds=1, threads=1, most_others=1e9, tiny=True)
    monkeypatch.setattr("bench.run.missing", lambda peer: "not here" if peer == "jax" else None)
    result = run_workload(WORKLOADS["chain"], options, tmp_path, lambda text: None)
    assert failures([result], None) == []
    assert missing_peers([result]) == {"jax": "not here"}
    assert result.agreement["torch"][0] < 1e-4
    assert result.ratios()["torch"].median > 0
    assert set(result.memory) == {OURS, "torch"}
    assert result.moved == 2 * 4 * 6 * 11
    assert result.compile is not None and result.compile.lines > 10


def test_a_c_module_is_measured_and_its_library_lies_beside_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(rounds, "BLOCK", 0.001)
    options = Options("c", ("torch",), rounds=1, threads=1, most_others=1e9, tiny=True)
    result = run_workload(WORKLOADS["chain"], options, tmp_path, lambda text: None)
    assert failures([result], None) == []
    assert result.agreement["torch"][0] < 1e-4
    assert result.compile is not None
    assert result.compile.lines == len((tmp_path / "chain_module.c").read_text().splitlines())
    assert list((tmp_path / "libraries").iterdir())


# ---- the command -----------------------------------------------------------------------------------------


def test_the_command_lists_its_workloads() -> None:
    command = [sys.executable, "-m", "bench", "--list"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == [*WORKLOADS, "compile"]


def test_wrong_arguments_are_refused_before_anything_is_measured() -> None:
    done = CliRunner().invoke(bench, ["nothing"])
    assert done.exit_code == 2 and "'nothing' is not one of" in done.output
    done = CliRunner().invoke(bench, ["mlp", "--against", "torch,abacus"])
    assert done.exit_code == 2 and "there is no peer 'abacus'" in done.output
    done = CliRunner().invoke(bench, ["mlp", "--json", "nowhere/at/all.json"])
    assert done.exit_code == 2 and "there is no folder nowhere/at" in done.output


def test_the_command_reports_missing_peers_and_failures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def found(workload: object, *_: object) -> Result:
        result = Result(WORKLOADS["mlp"], 1.0, missing={"jax": "jax is not installed"})
        result.measured = rounds.Measured({OURS: Times([[0.002]]), "torch": Times([[0.001]])}, 0, [0.0])
        return result

    monkeypatch.setattr("bench.__main__.run_workload", found)
    monkeypatch.setattr("bench.__main__.measure_limits", lambda options: {"matmul": 100.0, "copy": 10.0})
    file = tmp_path / "figures.json"
    done = CliRunner().invoke(bench, ["mlp", "--json", str(file)])
    assert done.exit_code == 0, done.output
    assert "2.00x" in done.output and "missing: jax: jax is not installed" in done.output
    figures = json.loads(file.read_text())
    assert figures["workloads"]["mlp"]["ratios"]["torch"]["median"] == 2.0
    assert figures["workloads"]["mlp"]["best"]["peer"] == "torch"
    assert figures["geometric_mean"] == {"median": 2.0, "least": 2.0}
    assert "geometric mean of dslc / best: 2.00x" in done.output
    assert figures["workloads"]["mlp"]["missing"] == {"jax": "jax is not installed"}

    monkeypatch.setattr(
        "bench.__main__.run_workload", lambda *_: Result(WORKLOADS["mlp"], 1.0, failures=["it differs"])
    )
    done = CliRunner().invoke(bench, ["mlp"])
    assert done.exit_code == 1
    assert "failure: it differs" in done.output

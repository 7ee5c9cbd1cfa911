"""`dslc cost -b c` counts what the steps of a schedule do, and the workspace of C modules."""

from __future__ import annotations

import json
import os
import timeit
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dslc.cli.main import cli
from dslc.compiler import compile_module

SPECS = Path(__file__).parents[2] / "specs"
PRODUCT = "model product(x: f32[N, 64]) -> y: [N, 32]:\n    y = relu(x |> dense(32))\n"


def report(spec: Path, *options: object) -> Any:
    done = CliRunner().invoke(cli, ["cost", str(spec), "-b", "c", "--json", *map(str, options)])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_a_region_reads_what_is_outside_once_and_writes_what_has_memory(tmp_path: Path) -> None:
    spec = tmp_path / "product.dsl"
    spec.write_text(PRODUCT, encoding="utf-8")
    (row,) = report(spec, "--set", "N=10")["steps"]
    assert (row["step"], row["kind"], row["runs"]) == ("0", "region", 1)
    assert row["read"] == 4 * (10 * 64 + 64 * 32 + 32)
    assert row["written"] == 4 * 10 * 32  # the result: rows of the product are in a buffer
    assert 10 * 32 * 2 * 64 <= row["operations"] <= 10 * 32 * (2 * 64 + 2)
    assert row["lines"] == ["dense.dsl:8", "product.dsl:2"]


def test_sizes_that_are_open_stay_symbols_and_all_is_counted_in_the_total() -> None:
    found = report(SPECS / "mlp/mlp.dsl")
    assert found["sizes"] == ["N"] and found["total"]["loss_grad_metrics"]["workspace"] == "2144*N + 168960"
    found = report(SPECS / "mlp/mlp.dsl", "--set", "N=64")
    for column in ("operations", "read", "written", "runs"):
        assert found["total"]["loss_grad_metrics"][column] == sum(row[column] for row in found["steps"])


def test_steps_of_loops_run_once_for_each_pass() -> None:
    runs = {row["step"]: row["runs"] for row in report(SPECS / "recurrent/lstm.dsl", "--set", "T=7")["steps"]}
    assert runs["2.0"] == 2 and runs["2.2.0"] == 14 and runs["3"] == 1


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("mlp/mlp", {"N": 64}), ("transformer/gpt", {"N": 2, "T": 33}), ("recurrent/lstm", {"N": 3, "T": 9})],
)
def test_the_workspace_of_a_module_has_room_for_all_of_it(name: str, sizes: dict[str, int]) -> None:
    told = [x for k, v in sizes.items() for x in ("--set", f"{k}={v}")]
    total = report(SPECS / f"{name}.dsl", *told)["total"]["loss_grad_metrics"]
    function = compile_module(SPECS / f"{name}.dsl", "c").c_loss_grad_metrics
    fields = len(function.pack.__self__.format) - 1
    given = [*sizes.values()]
    found = function.room(function.pack(*given, *[0] * (fields - len(given))))
    # each slot begins at a multiple of 64 bytes; what fills up vectors comes on top; few rows do not need all threads
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    assert total["workspace"] <= found <= 1.02 * (total["workspace"] + threads * total["thread"]) + 4096
    assert total["thread"] > 0 or name == "recurrent/lstm"
    assert 0 < total["packed"] < total["workspace"]


def test_the_table_has_a_row_for_each_step() -> None:
    done = CliRunner().invoke(cli, ["cost", str(SPECS / "mlp/mlp.dsl"), "-b", "c", "--inference", "--set", "N=64"])
    assert done.exit_code == 0
    assert "total of forward" in done.output and "bytes of workspace" in done.output


def test_an_unknown_size_is_refused() -> None:
    done = CliRunner().invoke(cli, ["cost", str(SPECS / "mlp/mlp.dsl"), "-b", "c", "--set", "M=64"])
    assert done.exit_code == 2 and "M is neither an argument of the model nor an open size" in " ".join(
        done.output.split()
    )


def test_steps_are_measured_beside_what_the_machine_can_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dslc.cli.step_times.SECONDS", 0.2)
    spec = tmp_path / "product.dsl"
    text = PRODUCT.replace("N, 64", "N, 512").replace("32]", "512]").replace("(32)", "(512)")
    spec.write_text(text, encoding="utf-8")
    found = report(spec, "--set", "N=512", "--measure")
    (row,), limits = found["steps"], found["limits"]
    # NumPy is on one thread in tests: it multiplies no quicker than all threads can, a disturbed measurement apart
    a = np.ones((1024, 1024), np.float32)
    rate = 2 * 1024**3 / min(timeit.repeat(lambda: a @ a, number=1, repeat=5))
    assert rate < 1.5 * limits["arithmetic"] and 1e8 < limits["memory"] < 1e13
    module = compile_module(spec, "c")
    given = module.init(0), np.ones((512, 512), np.float32)
    seconds = min(timeit.repeat(lambda: module.forward(*given), number=1, repeat=20))
    assert seconds / 5 < row["seconds"] < 5 * seconds
    wanted = row["operations"] / row["seconds"] / limits["arithmetic"]
    assert row["of_arithmetic"] == pytest.approx(wanted, abs=1e-3) and 0.01 < wanted < 1.5
    done = CliRunner().invoke(cli, ["cost", str(spec), "-b", "c", "--set", "N=512", "--measure"])
    assert "of arithmetic" in done.output and "billion operations a second in registers" in done.output


def test_each_step_of_a_loop_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dslc.cli.step_times.SECONDS", 0.0)
    found = report(SPECS / "recurrent/lstm.dsl", "--set", "T=5", "--set", "N=3", "--measure")
    total = found["total"]["loss_grad_metrics"]
    assert all(row["seconds"] > 0 for row in found["steps"]) and len(found["steps"]) > 10
    assert total["seconds"] == pytest.approx(sum(row["seconds"] for row in found["steps"]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-b", "c"], "--measure needs a number for N: add --set N=64"),
        (["-b", "c", "--set", "N=3"], "needs N % 2 == 0"),
        (["--set", "N=4"], "--measure times the steps of C modules: add -b c"),
    ],
)
def test_what_cannot_be_measured_is_refused(options: list[str], message: str, tmp_path: Path) -> None:
    spec = tmp_path / "even.dsl"
    spec.write_text("model even(x: f32[N]) -> y: [N] where N % 2 == 0:\n    y[n] = tanh(x[n])\n", encoding="utf-8")
    done = CliRunner().invoke(cli, ["cost", str(spec), "--measure", *options])
    assert done.exit_code == 2 and message in " ".join(done.output.split())

"""`--tune`: the quickest of a few configurations is written as constants; without a GPU it is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from samples import load
from triton_modules import ROOT

from dslc.cli.main import cli
from dslc.compiler import compile_text
from dslc.tuning import CANDIDATES, quickest, tuned, written

SPEC = ROOT / "specs/linear/softmax_regression.dsl"


def countdown() -> Callable[[Callable[[], object]], float]:
    """A clock by which every launch is quicker than the one before."""
    times = iter(range(10**6, 0, -1))
    return lambda run: float(next(times))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to tune on")
def test_without_a_gpu_it_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["compile", str(SPEC), "-b", "triton", "--tune", "1", "-o", str(tmp_path / "m.py")])
    assert done.exit_code == 1 and "torch finds none here" in done.output
    assert not (tmp_path / "m.py").exists()


def test_it_is_for_triton_alone() -> None:
    done = CliRunner().invoke(cli, ["compile", str(SPEC), "--tune", "1"])
    assert done.exit_code == 2 and "backend triton" in done.output


def test_the_quickest_configuration_is_written_at_every_launch(tmp_path: Path) -> None:
    text = compile_text(SPEC, "triton")
    module = load(text, tmp_path, "before")
    rng = np.random.default_rng(0)
    data = rng.normal(size=(5, 64)), np.eye(10)[rng.integers(0, 10, 5)]
    chosen = quickest(module, [lambda: module.loss_grad_metrics(module.init(0), *data)], 60, countdown())
    assert chosen and set(chosen.values()) == {CANDIDATES[-1]}
    new = written(text, chosen)
    warps, stages = CANDIDATES[-1]
    for name in chosen:
        launches = re.findall(rf"\b{name}\[\(.*?num_warps=(\d+),\s+num_stages=(\d+)", new, re.S)
        assert launches and set(launches) == {(str(warps), str(stages))}
    after = load(new, tmp_path, "after")
    for name, about in after.MANIFEST["kernels"].items():
        old = module.MANIFEST["kernels"][name]
        assert (about["warps"], about["stages"]) == chosen.get(name, (old["warps"], old["stages"]))
    a, b = (m.loss_grad_metrics(m.init(0), *data)[0] for m in (module, after))
    assert torch.equal(a, b)


def test_nothing_is_tried_after_the_deadline(tmp_path: Path) -> None:
    module = load(compile_text(SPEC, "triton"), tmp_path, "late")
    data = np.zeros((3, 64)), np.ones((3, 10))

    def never(run: Callable[[], object]) -> float:
        raise AssertionError("timed after the deadline")

    assert quickest(module, [lambda: module.loss_grad_metrics(module.init(0), *data)], -1, never) == {}


def test_a_spec_is_tuned_on_data_of_its_own(tmp_path: Path) -> None:
    text = compile_text(SPEC, "triton")
    found = tuned(text, SPEC, {}, None, 60, lambda run: 1.0)  # all are as quick: what was there stays
    assert found == text
    assert tuned(text, SPEC, {}, None, 60, countdown()) != text

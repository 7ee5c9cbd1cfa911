"""Random programs in Triton's interpreter: loss, gradients and outputs are those of the reference interpreter."""

from __future__ import annotations

import inspect
import sys
import tempfile
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from samples import load
from triton_modules import ROOT

sys.path.append(str(ROOT / "tests" / "random_programs"))

from comparison import Case
from generator import CONSTRUCTS, Program, programs
from hypothesis import HealthCheck, Phase, given, seed, settings
from programs import by_path
from test_found_programs import FOUND, written

from dslc.builder.build import build
from dslc.compiler import compile_text

#: programs for each construct: about 190 by default, about 3,300 in the long run
QUICK, LONG = 2, 36


def check(program: Program) -> None:
    """Raise where the Triton module of a program disagrees with the reference interpreter.

    Its inputs are multiplied by parameters, which are 1: modules have gradients by parameters alone, and the losses of
    many programs depend on inputs alone.
    """
    case = Case(program)
    text, slopes = case.scaled()
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        module = compiled(text, Path(folder))
        data = [torch.as_tensor(case.values[n]) for n, x in case.inputs.items() if x.role == "input"]
        params = table(case, "param") | {name: torch.ones((), dtype=torch.float64) for name in slopes}
        states = [table(case, "state")] if any(x.role == "state" for x in case.inputs.values()) else []
        check_training(case, module, slopes, params, data, states)
        check_outputs(case, module, params, data, states)


def compiled(text: str, folder: Path) -> ModuleType:
    spec = folder / "program.dsl"
    spec.write_text(text, encoding="utf-8")
    return load(compile_text(spec, "triton", dtype="f64"), folder, f"program_{zlib.crc32(text.encode())}")


def table(case: Case, role: str) -> dict[str, torch.Tensor]:
    values = {n: case.values[n] for n, x in case.inputs.items() if x.role == role}
    return {k: torch.as_tensor(np.asarray(v)) for k, v in by_path(case.unit, values).items()}


def called(module: ModuleType, function: str, program: Program, *args: Any) -> Any:
    """A function of the module, with the seed where it takes one."""
    chosen = getattr(module, function)
    options = {"seed": program.seed} if "seed" in inspect.signature(chosen).parameters else {}
    return chosen(*args, **options)


def check_training(case: Case, module: ModuleType, slopes: dict[str, Any], params: Any, data: Any, states: Any) -> None:
    """Loss, gradients and next states."""
    loss, grads, _, updates = called(module, "loss_grad_metrics", case.program, params, *data, *states)
    case.same(loss.numpy(), "", "Triton module")
    expected = by_path(case.unit, {n: x for n, x in case.expected.items() if n}) | slopes
    assert grads.keys() == params.keys()
    for name, slope in grads.items():
        np.testing.assert_allclose(slope.numpy(), expected[name], rtol=0, atol=1e-9 * case.scale, err_msg=name)
    for name, value in by_path(case.unit, case.machine().run(case.unit.updates)).items():
        np.testing.assert_allclose(updates[name].numpy(), value, rtol=1e-9, atol=1e-9, err_msg=name)


def check_outputs(case: Case, module: ModuleType, params: Any, data: Any, states: Any) -> None:
    """The outputs for inference."""
    found = called(module, "forward", case.program, params, *data, *states)
    expected = case.machine().run(build(case.model).outputs)
    found = found if isinstance(found, dict) else dict.fromkeys(expected, found)
    for name, value in expected.items():
        size = float(np.abs(value).max(initial=1.0))
        np.testing.assert_allclose(found[name].numpy(), value, rtol=0, atol=1e-9 * size, err_msg=f"{name}: forward")


def run(construct: str, count: int, start: int) -> None:
    """The same programs every time; a failing one is printed."""
    options = settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),
    )  # fmt: skip
    seed(zlib.crc32(construct.encode()) + start)(options(given(programs(construct))(check)))()


@pytest.mark.wide(12)
@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_random_programs(construct: str) -> None:
    run(construct, QUICK, 0)


@pytest.mark.long
@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_many_random_programs(construct: str) -> None:
    run(construct, LONG // 6, 0)
    run(construct, LONG - LONG // 6, 1)


@pytest.mark.wide(5)
@pytest.mark.parametrize("what", FOUND)
def test_programs_that_were_wrong_once(what: str) -> None:
    check(written(FOUND[what]))
    check(written(FOUND[what], N=1, T=3))

"""Random programs in Triton's interpreter: loss, gradients and outputs are those of the reference interpreter."""

from __future__ import annotations

import inspect
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from triton_modules import ROOT, load

sys.path.append(str(ROOT / "tests" / "random_programs"))

from comparison import Case
from generator import CONSTRUCTS, Program, programs
from hypothesis import HealthCheck, Phase, given, seed, settings
from programs import by_path

from dslc.compiler import compile_text
from dslc.diagnostics.report import SpecError

#: every fourth construct by default; all of them, and more of each, in the long run
QUICK, LONG = 1, 10


def check(program: Program, folder: Path) -> None:
    case = Case(program)
    spec = folder / "program.dsl"
    spec.write_text(program.text, encoding="utf-8")
    try:
        text = compile_text(spec, "triton", dtype="f64")
    except SpecError as error:
        if "triton" not in str(error):
            raise
        return  # refused by this backend
    module = load(text, folder, f"program_{zlib.crc32(text.encode())}")
    data = [torch.as_tensor(case.values[n]) for n, x in case.inputs.items() if x.role == "input"]
    tables = [
        {k: torch.as_tensor(np.asarray(v)) for k, v in by_path(case.unit, values).items()}
        for role in ("param", "state")
        if (values := {n: case.values[n] for n, x in case.inputs.items() if x.role == role}) or role == "param"
    ]
    options = {"seed": program.seed} if "seed" in inspect.signature(module.loss_grad_metrics).parameters else {}
    with np.errstate(all="ignore"):
        loss, grads, _, updates = module.loss_grad_metrics(tables[0], *data, *tables[1:], **options)
        case.same(loss.numpy(), "", "Triton module")
        expected = by_path(case.unit, {n: x for n, x in case.expected.items() if n})
        nexts = by_path(case.unit, case.machine().run(case.unit.updates))
    for name, slope in grads.items():
        np.testing.assert_allclose(slope.numpy(), expected[name], rtol=0, atol=1e-9 * case.scale, err_msg=name)
    for name, value in nexts.items():
        np.testing.assert_allclose(updates[name].numpy(), value, rtol=1e-9, atol=1e-9, err_msg=name)


def run(construct: str, count: int, folder: Path) -> None:
    def body(program: Program) -> None:
        check(program, folder)

    options = settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),
    )  # fmt: skip
    seed(zlib.crc32(construct.encode()))(options(given(programs(construct))(body)))()


@pytest.mark.parametrize("construct", sorted(CONSTRUCTS)[::4])
def test_a_random_program(construct: str, tmp_path: Path) -> None:
    run(construct, QUICK, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("construct", sorted(CONSTRUCTS))
def test_many_random_programs(construct: str, tmp_path: Path) -> None:
    run(construct, LONG, tmp_path)

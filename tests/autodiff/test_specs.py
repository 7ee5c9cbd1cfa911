"""The gradient of every training in specs/ along a random direction agrees with finite differences in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marks import rows
from programs import check_gradient
from shipped import SMALL

from dslc.builder.build import Unit, build_train
from dslc.frontend import check_file
from dslc.ir import nodes as ir
from dslc.meaning.interpret import Interpreter
from dslc.passes.verify import verify

ROOT = Path(__file__).parents[2]
#: rounded to 16 bits: small differences of the loss are steps there (tests/oracle compares its gradient)
OTHERS = {"half"}
SPECS = sorted(p for p in ROOT.glob("specs/**/*.dsl") if "\ntrain " in p.read_text() and p.stem not in OTHERS)

#: hyper-parameters for models that are large by default
SETTINGS: dict[str, dict[str, object]] = {
    **SMALL,
    "gpt12": {"vocabulary": 7, "context": 6, "width": 4, "heads": 2},
    "vit": {"side": 8, "width": 16, "depth": 2},
    "metaformer": {"side": 8, "width": 16},
    "mixer": {"side": 8, "width": 16},
}
#: sizes that only the data know; all others are 3
SIZES = {"T": 5, "S": 4, "H": 8, "W": 8, "V": 4, "M": 7}
#: and of these specs: the truncated recurrence must pass a border between windows, and a batch norm of three numbers
#: is too curved for differences
LONGER = {"truncated": {"T": 18}, "resnet50": {"H": 16, "W": 16}}
#: many maxima and rectifiers: only a small step stays on one side of all kinks
SMALL_STEP = {"alexnet", "vgg", "cnn", "grown", "lenet", "resnet", "resnet50", "finetune", "multiview"}


def data(program: Unit, rng: np.random.Generator, **known: int) -> dict[str, Any]:
    """Values for all inputs: positive data, labels 0 and 1 (which all bounds allow), parameters of moderate length."""
    symbols = {
        y.name for x in program.inputs.values() for s in x.shape if not isinstance(s, int) for y in s.free_symbols
    }
    machine = Interpreter({}, {s: known.get(s, SIZES.get(s, 3)) for s in symbols})
    return {name: value(x, machine.shape(x.shape), rng) for name, x in program.inputs.items()}


def value(x: ir.Input, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    if x.dtype == "bool":
        return rng.random(shape) < 0.7
    if x.dtype in ("i32", "i64"):
        return rng.integers(0, 2, shape)
    if x.role == "param":
        return rng.standard_normal(shape) * (0.3 if len(shape) < 2 else 1 / np.sqrt(np.prod(shape[:-1])))
    return rng.uniform(0.1, 0.9, shape)


@rows("X0.4")
@pytest.mark.wide(2)
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_gradient_of_a_training(path: Path) -> None:
    checked = check_file(path, SETTINGS.get(path.stem))
    assert not checked.errors
    assert checked.program is not None
    for train in checked.program.trains:
        program = build_train(train)
        verify([*program.outputs.values(), *program.updates.values()])
        values = data(program, np.random.default_rng(0), **LONGER.get(path.stem, {}))
        if path.stem == "implicit":
            # its derivative by hand is that of the fixed point, which 50 steps reach only for a contraction
            values["W"] = 0.2 * values["W"]
        wrt = [name for name, x in program.inputs.items() if x.role == "param"]
        eps = 1e-7 if path.stem in SMALL_STEP else 1e-6
        # hard attention has a straight-through estimator, written with stop_grad: its derivative is that of the loss
        # with the stopped values held fixed, and this is what check_gradient takes differences of
        check_gradient(program, values, loss=program.outputs["loss"], wrt=wrt, eps=eps)

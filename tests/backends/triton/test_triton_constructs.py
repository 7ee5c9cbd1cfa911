"""Every construct of the language in Triton's interpreter: its meaning in NumPy, and gradients by the interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from constructs import CONSTRUCTS, Construct
from programs import is_float, sizes, unit
from samples import load

from dslc.autodiff.reverse import gradients
from dslc.compiler import compile_text
from dslc.ir import nodes as ir
from dslc.meaning.interpret import Interpreter

#: some of their outputs are whole numbers, so that there is no `Module` for them
WHOLE = {"argmax, argmin, any, all", "argmax of ties takes the first", "sort, argsort, top_k"}


@pytest.mark.wide(3)
@pytest.mark.parametrize("construct", CONSTRUCTS, ids=str)
def test_values_and_gradients(construct: Construct, tmp_path: Path) -> None:
    spec = tmp_path / "construct.dsl"
    spec.write_text(construct.text.replace("fn f(", "model f("), encoding="utf-8")
    module = load(compile_text(spec, "triton", construct.settings, "f64"), tmp_path, f"construct_{id(construct)}")
    expected = construct.meaning(**construct.values)
    with np.errstate(all="ignore"):
        found = module.forward({}, *construct.values.values())
        if not isinstance(expected, dict):
            expected, found = {"": expected}, {"": found}
        for name, value in expected.items():
            np.testing.assert_allclose(found[name].numpy(), value, rtol=1e-9, atol=1e-11, err_msg=name)
        if construct.name not in WHOLE:
            check_gradients(construct, module.adjoint)


def check_gradients(construct: Construct, adjoint: object) -> None:
    """Adjoints of the inputs, from random ones of the outputs."""
    program = unit(construct.text, construct.mode, **construct.settings)
    known = sizes(program.inputs.values(), construct.values)
    rng = np.random.default_rng(0)
    given = {
        name: rng.normal(size=Interpreter(construct.values, known).shape(x.shape))
        for name, x in program.outputs.items()
    }
    cotangents = {x: ir.intern(ir.Input(f"d_{name}", "input", x.dtype, x.shape)) for name, x in program.outputs.items()}
    names = [n for n, x in program.inputs.items() if is_float(x)]
    slopes = gradients(cotangents, [program.inputs[n] for n in names])
    machine = Interpreter({**construct.values, **{f"d_{n}": v for n, v in given.items()}}, known)
    data = [torch.as_tensor(np.asarray(v)) for v in (*construct.values.values(), *given.values())]
    _, found = adjoint({}, *data)  # type: ignore[operator]
    assert found.keys() == set(names)
    for name, slope in zip(names, slopes, strict=True):
        wanted = machine.tensor(slope)
        scale = max(float(np.abs(wanted).max(initial=0.0)), 1.0)
        np.testing.assert_allclose(found[name].numpy(), wanted, rtol=0, atol=1e-9 * scale, err_msg=name)

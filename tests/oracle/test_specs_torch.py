"""Values, gradients and Hessian-vector products of every spec, by dslc and by torch on the checked program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch_operations
import torch_program
from programs import by_path, is_float, sizes
from shipped import SMALL

from dslc import pipeline
from dslc.autodiff.reverse import gradients, ones
from dslc.builder.build import Unit, build, build_train
from dslc.frontend import Checked, check_file
from dslc.ir import nodes as ir
from dslc.meaning.interpret import Interpreter

torch.set_num_threads(1)

ROOT = Path(__file__).parents[2]
SPECS = sorted(ROOT.glob("specs/*/*.dsl"))
SETTINGS: dict[str, dict[str, object]] = {
    **SMALL,
    "gpt12": {"vocabulary": 7, "context": 6, "width": 4, "heads": 2},
    "vit": {"side": 8, "width": 16, "depth": 2},
    "metaformer": {"side": 8, "width": 16},
    "mixer": {"side": 8, "width": 16},
}
#: sizes that only the data know; all others are 3
SIZES = {"T": 5, "S": 4, "H": 8, "W": 8, "V": 6, "M": 7}
#: with 8 pixels the last batch norm has three numbers, and gradients are 0 but for rounding
LONGER = {"resnet50": {"H": 16, "W": 16}}
RTOL = 1e-9


def check(path: Path) -> Checked:
    checked = check_file(path, SETTINGS.get(path.stem))
    assert not checked.errors
    return checked


def data(program: Unit, rng: np.random.Generator, **known: int) -> dict[str, Any]:
    """Values for all inputs: positive data, labels 0 and 1 (which all bounds allow), parameters of moderate length."""
    symbols = {y.name for x in program.inputs.values() for s in x.shape for y in getattr(s, "free_symbols", ())}
    machine = Interpreter({}, {s: known.get(s, SIZES.get(s, 3)) for s in symbols})
    return {name: value(x, machine.shape(x.shape), rng) for name, x in program.inputs.items()}


def value(x: ir.Input, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    if x.dtype == "bool":
        return rng.random(shape) < 0.7
    if not is_float(x):
        return rng.integers(0, 2, shape)
    if x.role == "param":
        return rng.standard_normal(shape) * (0.3 if len(shape) < 2 else 1 / np.sqrt(np.prod(shape[:-1])))
    return torch_operations.rounded(torch.from_numpy(rng.uniform(0.1, 0.9, shape)), x.dtype).numpy()


def same(found: Any, expected: Any, name: str, rtol: float = RTOL) -> None:
    """Equal up to rounding, measured by the largest element."""
    expected = expected.detach().numpy() if isinstance(expected, torch.Tensor) else expected
    finite = expected[np.isfinite(expected)]
    scale = float(np.abs(finite).max(initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * max(scale, 1e-6), err_msg=name)


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_the_outputs_of_a_model_are_those_of_torch(path: Path) -> None:
    checked = check(path)
    assert checked.program is not None
    for model in checked.program.models.values():
        program = build(model)
        values = data(program, np.random.default_rng(1))
        known = sizes(program.inputs.values(), values)
        found = Interpreter(values, known).run({k: v for k, v in program.outputs.items() if "." not in k})
        tensors = torch_program.as_tensors(values, [n for n, x in program.inputs.items() if is_float(x)])
        outputs, frame = torch_program.run(model, by_path(program, tensors), known)
        expected = {x.name: y for x, y in zip(model.outputs, outputs, strict=True)}
        expected.update({k: v for k, v in frame.machine.exposed.items() if k in found})
        assert found.keys() == expected.keys()
        for name, y in expected.items():
            same(found[name], y, name)


@pytest.mark.wide(2)
@pytest.mark.parametrize("path", [p for p in SPECS if "\ntrain " in p.read_text()], ids=lambda p: p.stem)
def test_the_gradient_of_a_training_is_that_of_torch(path: Path) -> None:
    checked = check(path)
    assert checked.program is not None
    for train in checked.program.trains:
        program = build_train(train)
        values = data(program, np.random.default_rng(0), **LONGER.get(path.stem, {}))
        known = sizes(program.inputs.values(), values)
        # the gradient by data of 16 bits has 16 bits itself
        free = {n: x for n, x in program.inputs.items() if x.dtype not in torch_operations.HALVES}
        wrt = [name for name, x in free.items() if is_float(x) and x.role != "state"]
        sources = [program.inputs[name] for name in wrt]
        loss = pipeline.EARLY["stabilise"]({"loss": program.outputs["loss"]})["loss"]
        slopes = gradients({loss: ones(())}, sources)
        directions = {n: np.random.default_rng(2).standard_normal(np.shape(values[n])) for n in wrt}
        curved = hessian_product(slopes, sources, wrt)

        machine = Interpreter({**values, **{f"along {n}": x for n, x in directions.items()}}, known)
        tensors = torch_program.as_tensors(values, wrt)
        expected, metrics = torch_program.train(train, by_path(program, tensors), known)
        same(machine.tensor(loss), expected, "loss")
        for name, metric in metrics.items():
            same(machine.tensor(program.outputs[name]), metric, name)

        given = [tensors[n] for n in wrt]
        first = torch.autograd.grad(expected, given, create_graph=True, materialize_grads=True)
        for name, mine, theirs in zip(wrt, slopes, first, strict=True):
            same(machine.tensor(mine), theirs, f"gradient by {name}")
        along = sum((g * torch.tensor(directions[n])).sum() for n, g in zip(wrt, first, strict=True))
        second = torch.autograd.grad(along, given, materialize_grads=True)
        for name, mine, theirs in zip(wrt, curved, second, strict=True):
            same(machine.tensor(mine), theirs, f"second derivative by {name}", 10 * RTOL)


def hessian_product(slopes: list[ir.Tensor], sources: list[ir.Input], names: list[str]) -> list[ir.Tensor]:
    """The derivative of the gradients along inputs called `along NAME`."""
    seeds: dict[ir.Tensor, ir.Tensor] = {}
    for slope, source, name in zip(slopes, sources, names, strict=True):
        along: ir.Tensor = ir.intern(ir.Input(f"along {name}", "input", "f64", source.shape))
        if slope in seeds:  # two parameters with equal gradients: one node
            both = ir.op("+", (ir.whole(seeds[slope]), ir.whole(along)), "f64")
            along = ir.comp(source.shape, both)
        seeds[slope] = along
    return gradients(seeds, sources)

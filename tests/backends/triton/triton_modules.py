"""What the tests of the Triton backend share: modules from specs, sample data, values of the reference interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from samples import load, sample, separate

from dslc import pipeline
from dslc.compiler import choose, compile_text
from dslc.frontend import check_file
from dslc.meaning.interpret import Interpreter

ROOT = Path(__file__).parents[3]


def triton_module(spec: Path, folder: Path, dtype: str = "f32", **settings: object) -> ModuleType:
    return load(compile_text(spec, "triton", settings, dtype), folder, f"{spec.stem}_triton")


def numpy_module(spec: Path, folder: Path, dtype: str = "f32", **settings: object) -> ModuleType:
    return load(compile_text(spec, "numpy", settings, dtype), folder, f"{spec.stem}_numpy")


def tensors(arrays: Mapping[str, Any], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    return {k: tensor(v, dtype) for k, v in arrays.items()}


def tensor(value: Any, dtype: torch.dtype) -> torch.Tensor:
    made = torch.as_tensor(np.array(value))
    return made.to(dtype) if made.is_floating_point() else made


def agree(found: Any, wanted: Any, tolerance: float, name: str) -> None:
    np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=tolerance, atol=tolerance, err_msg=name)


def check_spec(
    path: Path, folder: Path, size: int, dtype: str = "f64", tolerance: float = 1e-9, **settings: object
) -> None:
    """Outputs, loss and gradients of the module of a spec agree with the reference interpreter."""
    checked = check_file(path, settings)
    assert checked.program is not None
    if not checked.program.models:
        return  # a file of layers for others to import
    model, train = choose(checked)
    module = triton_module(path, folder, dtype, **settings)
    float_type = torch.float64 if dtype == "f64" else torch.float32
    rng = np.random.default_rng(size)
    programs = [("forward", pipeline.forward(model))] + ([("train", pipeline.training(train))] if train else [])
    for kind, program in programs:
        unit = program.unit
        inputs, sizes = sample(unit, rng, size)
        params = tensors(separate(unit, inputs, unit.params), float_type)
        data = [tensor(inputs[k], float_type) for k, x in unit.inputs.items() if x.role == "input"]
        state = [tensors(separate(unit, inputs, unit.states), float_type)] if unit.states else []
        with np.errstate(all="ignore"):
            wanted = Interpreter(inputs, sizes).run(program.outputs)
            if kind == "forward":
                found = module.forward(params, *data, *state)
                found = found if isinstance(found, dict) else dict.fromkeys(wanted, found)
                for name, value in wanted.items():
                    agree(found[name], value, tolerance, name)
                continue
            loss, grads, metrics, states = module.loss_grad_metrics(params, *data, *state)
        agree(loss, wanted["loss"], tolerance, "loss")
        slopes = separate(unit, {k: wanted[f"gradient {k}"] for k in program.gradients()}, program.gradients())
        assert grads.keys() == slopes.keys()
        for name, value in slopes.items():
            agree(grads[name], value, tolerance, f"gradient of {name}")
        nexts = separate(unit, {k: wanted[f"state {k}"] for k in program.states()}, program.states())
        for name, value in nexts.items():
            agree(states[name], value, tolerance, f"state {name}")
        for name, value in metrics.items():
            agree(value, wanted[name], tolerance, name)

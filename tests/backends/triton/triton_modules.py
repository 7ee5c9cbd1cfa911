"""What the tests of the Triton backend share: modules from specs, sample data, values of the reference interpreter."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from dslc import pipeline
from dslc.compiler import choose, compile_text
from dslc.frontend import check_file
from dslc.ir.build import Unit
from dslc.ir.interpret import Interpreter

ROOT = Path(__file__).parents[3]


def load(text: str, folder: Path, name: str = "compiled") -> ModuleType:
    file = folder / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def triton_module(spec: Path, folder: Path, dtype: str = "f32", **settings: object) -> ModuleType:
    return load(compile_text(spec, "triton", settings, dtype), folder, f"{spec.stem}_triton")


def numpy_module(spec: Path, folder: Path, dtype: str = "f32", **settings: object) -> ModuleType:
    return load(compile_text(spec, "numpy", settings, dtype), folder, f"{spec.stem}_numpy")


def sample(unit: Unit, rng: np.random.Generator, size: int) -> tuple[dict[str, Any], dict[str, int]]:
    """Small random inputs: every symbolic size is the same, whole numbers are 0 or 1."""
    names = {s.name for x in unit.inputs.values() for n in x.shape for s in getattr(n, "free_symbols", ())}
    sizes = dict.fromkeys(names, size)
    shapes = Interpreter({}, sizes)
    inputs: dict[str, Any] = {}
    for name, node in unit.inputs.items():
        shape = shapes.shape(node.shape)
        if node.dtype in ("i32", "i64"):
            inputs[name] = rng.integers(0, 2, shape)
        elif node.dtype == "bool":
            inputs[name] = rng.integers(0, 2, shape).astype(bool)
        else:
            values = rng.normal(size=shape) * 0.3
            inputs[name] = np.abs(values) + 0.05 if node.role == "state" else values
    return inputs, sizes


def separate(unit: Unit, arrays: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Arrays by path, those of equal layers one by one."""
    out: dict[str, Any] = {}
    for name in names:
        value = np.asarray(arrays[name])
        depth = len(unit.layers.get(name, ()))
        rows = value.reshape(-1, *value.shape[depth:]) if depth else [value]
        out |= dict(zip(unit.paths(name), rows, strict=True))
    return out


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

"""Rows of the catalogue as small specs: compiled to NumPy in float64, values and gradients against another library."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from marks import rows

from dslc.compiler import compile_text

Array = np.ndarray[Any, np.dtype[Any]]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]

#: how long the axes are, by their names
SIZES = {"N": 6, "M": 7, "K": 4, "D": 5, "E": 3, "O": 2}


@dataclass(frozen=True)
class Case:
    """What rows ask for: `y` of some inputs, in the language and in torch."""

    ids: str
    #: types of inputs by name: "[N, K]" is a float one, "i32[N] < K" labels
    inputs: Mapping[str, str]
    #: type of y; gradients are compared where it is a float
    result: str
    #: statements that end with `y = ...`
    body: str
    oracle: Callable[..., torch.Tensor]
    #: how inputs are drawn that are not normal
    data: Mapping[str, Draw] = field(default_factory=dict)
    #: inputs that y is not differentiated by
    fixed: tuple[str, ...] = ()
    #: definitions in front of the model
    before: str = ""


def cases(*table: Case) -> list[Any]:
    """The parameters of a test, each marked with its rows."""
    return [pytest.param(x, marks=rows(*x.ids.split()), id=f"{x.ids} {_title(x)}") for x in table]


def _title(case: Case) -> str:
    return re.sub(r"\W+", "_", case.body.strip().splitlines()[-1].partition("=")[2])[:40].strip("_")


def check(case: Case, folder: Path) -> None:
    """Value and gradients by all float inputs, at a random cotangent."""
    rng = np.random.default_rng(5)
    values = {name: _draw(case, name, kind, rng) for name, kind in case.inputs.items()}
    varied = [name for name, kind in case.inputs.items() if kind.startswith("[") and name not in case.fixed]
    if not case.result.startswith("["):
        varied = []
    module = compiled(spec(case, varied), folder)
    tensors = {name: torch.tensor(x, requires_grad=name in varied) for name, x in values.items()}
    expected = case.oracle(*tensors.values())
    cotangent = rng.standard_normal(expected.shape)
    found = module.forward({}, *values.values(), *([cotangent] if varied else []))
    if not varied:
        same(found, expected, "y")
        return
    same(found["y"], expected, "y")
    slopes = torch.autograd.grad(expected, [tensors[x] for x in varied], torch.tensor(cotangent), allow_unused=True)
    for name, slope in zip(varied, slopes, strict=True):
        same(found[f"d_{name}"], torch.zeros_like(tensors[name]) if slope is None else slope, f"gradient by {name}")


def spec(case: Case, varied: Iterable[str]) -> str:
    """A model that gives y and its products with a cotangent, so that the module is differentiated as a whole."""
    types = {name: f"f64{kind}" if kind.startswith("[") else kind for name, kind in case.inputs.items()}
    outputs = {"y": case.result, **{f"d_{name}": case.inputs[name] for name in varied}}
    if len(outputs) > 1:
        types["cotangent"] = f"f64{case.result}"
    arguments = ", ".join(f"{name}: {kind}" for name, kind in types.items())
    results = ", ".join(f"{name}: {kind}" for name, kind in outputs.items())
    lines = [line.strip() for line in case.body.strip().splitlines()]
    lines += [f"d_{name} = vjp(y, {name}, cotangent)" for name in varied]
    body = "\n".join(f"    {line}" for line in lines)
    result = f"({results})" if len(outputs) > 1 else results
    return f"{case.before}\nmodel row({arguments}) -> {result}:\n{body}\n"


def compiled(text: str, folder: Path) -> ModuleType:
    file = folder / "row.dsl"
    file.write_text(text, encoding="utf-8")
    module = ModuleType("row")
    exec(compile(compile_text(file, dtype="f64"), "row.py", "exec"), module.__dict__)
    return module


def same(found: Any, expected: torch.Tensor, name: str) -> None:
    wanted = expected.detach().numpy()
    assert np.shape(found) == wanted.shape, name
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11, err_msg=name)


def _draw(case: Case, name: str, kind: str, rng: np.random.Generator) -> Array:
    match = re.fullmatch(r"(\w*)\[(.*)\](?: < (\w+))?", kind)
    assert match, kind
    names = [x.strip() for x in match[2].split(",") if x.strip()]
    shape = tuple(SIZES[x] if x in SIZES else int(x) for x in names)
    if name in case.data:
        return case.data[name](rng, shape)
    if match[3]:
        return rng.integers(0, SIZES.get(match[3]) or int(match[3]), shape)
    return rng.standard_normal(shape)


# ---- draws


def positive(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.uniform(0.3, 2.0, shape))


def between_0_and_1(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.uniform(0.05, 0.95, shape))


def binary(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.integers(0, 2, shape), float)


def signs(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return 2 * binary(rng, shape) - 1


def simplex(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    x = rng.uniform(0.1, 1.0, shape)
    return np.asarray(x / x.sum(-1, keepdims=True))


def well_conditioned(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape) + 4 * np.eye(shape[-1])


def covariance(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    x = rng.standard_normal(shape)
    return x @ x.T + np.eye(shape[-1])


def given(*numbers: Any) -> Draw:
    """Always these numbers."""
    return lambda rng, shape: np.asarray(numbers[0] if len(numbers) == 1 else numbers, float).reshape(shape)

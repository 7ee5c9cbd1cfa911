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
from dslc.backends.registry import BACKENDS
from marks import rows

from dslc.cli.plain import Plain
from dslc.compiler import compile_text, imported

Array = np.ndarray[Any, np.dtype[Any]]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]

SPECS = Path(__file__).parents[1] / "specs"
#: the flags of a C module with less optimisation, which takes half the time to compile
QUICK = "-O1 -march=native -fopenmp-simd -fno-math-errno -fno-trapping-math -ffp-contract=fast"

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
    given = Given(case)
    module = compiled(spec(case, given.varied), folder)
    found = module.forward({}, *given.arguments())
    given.compare(found if given.varied else {"y": found})


class Given:
    """Inputs of a case, drawn, and what comes of them by its oracle."""

    def __init__(self, case: Case) -> None:
        rng = np.random.default_rng(5)
        self.case = case
        self.values = {name: _draw(case, name, kind, rng) for name, kind in case.inputs.items()}
        self.varied = [name for name, kind in case.inputs.items() if kind.startswith("[") and name not in case.fixed]
        if not case.result.startswith("["):
            self.varied = []
        tensors = {name: torch.tensor(x, requires_grad=name in self.varied) for name, x in self.values.items()}
        self.expected = case.oracle(*tensors.values())
        self.cotangent = rng.standard_normal(self.expected.shape)
        self.slopes: dict[str, torch.Tensor] = {}
        if self.varied:
            inputs = [tensors[x] for x in self.varied]
            slopes = torch.autograd.grad(self.expected, inputs, torch.tensor(self.cotangent), allow_unused=True)
            self.slopes = {
                name: torch.zeros_like(tensors[name]) if slope is None else slope
                for name, slope in zip(self.varied, slopes, strict=True)
            }

    def arguments(self) -> list[Array]:
        return [*self.values.values(), *([self.cotangent] if self.varied else [])]

    def compare(self, found: Mapping[str, Any]) -> None:
        same(found["y"], self.expected, "y")
        for name, slope in self.slopes.items():
            same(found[f"d_{name}"], slope, f"gradient by {name}")


class Table:
    """Cases as one model, so that a backend compiles them at once: each case is a function of it."""

    def __init__(self, table: Iterable[Case]) -> None:
        self.parts = [Given(x) for x in table]

    def text(self) -> str:
        definitions, inputs, outputs, lines = dict.fromkeys(x.case.before for x in self.parts), [], [], []
        for n, given in enumerate(self.parts):
            case = given.case
            arguments = ", ".join(f"{name}: {kind}" for name, kind in case.inputs.items())
            body = "".join(f"    {x.strip()}\n" for x in case.body.strip().splitlines())
            definitions[f"fn row_{n}({arguments}) -> y: {case.result}:\n{body}"] = None
            names = [f"{name}_{n}" for name in case.inputs]
            inputs += [f"{name}: {kind}" for name, kind in zip(names, case.inputs.values(), strict=True)]
            outputs.append(f"y_{n}: {case.result}")
            lines.append(f"y_{n} = row_{n}({', '.join(names)})")
            if given.varied:
                inputs.append(f"cotangent_{n}: {case.result}")
            outputs += [f"d_{name}_{n}: {case.inputs[name]}" for name in given.varied]
            lines += [f"d_{name}_{n} = vjp(y_{n}, {name}_{n}, cotangent_{n})" for name in given.varied]
        head = f"model table({', '.join(inputs)}) -> ({', '.join(outputs)}):\n"
        return "\n".join(definitions) + "\n" + head + "".join(f"    {x}\n" for x in lines)

    def arguments(self) -> list[Array]:
        return [x for given in self.parts for x in given.arguments()]

    def compare(self, found: Mapping[str, Any]) -> None:
        for n, given in enumerate(self.parts):
            try:
                given.compare({name: found[f"{name}_{n}"] for name in ("y", *(f"d_{x}" for x in given.varied))})
            except AssertionError as fault:
                raise AssertionError(f"{given.case.ids}: {given.case.body}\n{fault}") from None


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
    return model(text, folder)


def model(
    spec: str | Path, folder: Path, backend: str = "numpy", dtype: str = "f64", wrt: Iterable[str] = (),
    fold: bool = False, **settings: Any,
) -> Any:  # fmt: skip
    """The module of a text, or of a file in specs/, on any backend: it takes NumPy arrays and gives them."""
    file = SPECS / spec if isinstance(spec, Path) else folder / "row.dsl"
    if isinstance(spec, str):
        file.write_text(spec, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSLC_CFLAGS", QUICK)
        module = imported(compile_text(file, backend, settings, dtype, wrt=wrt, folded=fold), "row")
        arrays = BACKENDS[backend].arrays
        return module if backend == "numpy" or arrays is None else Plain(module, arrays())


def same(found: Any, expected: torch.Tensor, name: str) -> None:
    wanted = expected.detach().resolve_neg().numpy()  # parts of conjugates are negated late
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

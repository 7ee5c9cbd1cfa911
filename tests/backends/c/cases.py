"""A spec with small random data for its modules, and what the reference interpreter makes of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from samples import separate
from shipped import SMALL

from dslc import pipeline
from dslc.builder.build import Unit
from dslc.check import program as p
from dslc.compiler import choose, compile_module
from dslc.frontend import check_file
from dslc.meaning.interpret import Interpreter

ROOT = Path(__file__).parents[3]
#: what is too large for a quick test, made narrower
SETTINGS: dict[str, dict[str, object]] = {
    **SMALL,
    "gpt12": {"vocabulary": 7, "context": 64, "width": 4, "heads": 2},
    "resnet50": {"width": 4, "b": 1, "c": 2, "d": 1, "e": 1, "basic": True, "classes": 5},
}
SPECS = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("specs/*/*.dsl"))
#: the flags of a C module with less optimisation, which takes half the time to compile; pointers are what they seem
QUICK = (
    "-O1 -march=native -fopenmp-simd -fno-math-errno -fno-trapping-math -ffp-contract=fast"
    " -Werror=incompatible-pointer-types"
)

#: conditions of a `where`
HOLDS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "%": lambda a, b: a % b == 0,
}  # fmt: skip

Arrays = dict[str, Any]


@dataclass
class Given:
    """Arguments of a module for an entry, and what its outputs should be."""

    params: Arrays
    data: list[Any]
    state: list[Arrays]
    wanted: Arrays

    def rounded(self, dtype: str) -> Given:
        """The same with floats in a dtype."""
        kind = np.float32 if dtype == "f32" else np.float64

        def one(x: Any) -> Any:
            return x.astype(kind) if x.dtype == np.float64 else x

        params, state = ({k: one(x) for k, x in part.items()} for part in (self.params, *(self.state or [{}])))
        return Given(params, [one(x) for x in self.data], [state] if self.state else [], self.wanted)


class Case:
    """A spec at one choice of its open sizes."""

    def __init__(self, path: str, size: int = 8, seed: int = 0) -> None:
        self.path, self.size = ROOT / path, size
        self.settings = SETTINGS.get(self.path.stem, {})
        checked = check_file(self.path, self.settings)
        assert checked.program is not None
        if not checked.program.models:
            pytest.skip("a file of layers for others to import")
        self.model, self.train = choose(checked)
        self.rng = np.random.default_rng(seed)

    def module(self, backend: str, dtype: str) -> ModuleType:
        return compile_module(self.path, backend, dtype, **self.settings)

    @cached_property
    def forward(self) -> Given:
        program = pipeline.forward(self.model)
        return self.given(program.unit, self.model, dict(program.stages)["stabilise"])

    @cached_property
    def training(self) -> Given:
        """What is wanted are the loss, the gradients and the next states."""
        assert self.train is not None
        program = pipeline.training(self.train)
        made = self.given(program.unit, self.train.instance, dict(program.stages)["differentiate"])
        unit = program.unit
        found = {k.removeprefix(pipeline.GRADIENT): v for k, v in made.wanted.items()}
        states = {k.removeprefix(pipeline.STATE): v for k, v in found.items() if k.startswith(pipeline.STATE)}
        made.wanted = {"loss": found["loss"], **separate(unit, found, pipeline.trained(unit, self.train))}
        made.wanted |= separate(unit, states, unit.states)
        return made

    def given(self, unit: Unit, instance: p.Instance, outputs: Mapping[str, Any]) -> Given:
        inputs, sizes = self.sample(unit, instance)
        with np.errstate(all="ignore"):
            wanted = Interpreter(inputs, sizes).run(outputs)
        data = [inputs[k] for k, x in unit.inputs.items() if x.role == "input"]
        state = [separate(unit, inputs, unit.states)] if unit.states else []
        return Given(separate(unit, inputs, unit.params), data, state, wanted)

    def sizes(self, unit: Unit, where: list[p.SizeCondition]) -> dict[str, int]:
        """The first sizes from the wanted ones on that a `where` allows; past 17, one is large and the others are 3, as
        where no others are allowed."""
        names = sorted({s.name for x in unit.inputs.values() for n in x.shape for s in getattr(n, "free_symbols", ())})
        for more in range(128):
            large = names if self.size <= 17 and more < 64 else names[:1]
            sizes = {name: self.size + more % 64 if name in large else 3 + more % 64 for name in names}
            whole = Interpreter({}, sizes)
            if all(HOLDS[c.op](*whole.shape((c.left, c.right))) for c in where if known(c, names)):
                return sizes
        raise AssertionError(f"no sizes for {self.path}")

    def sample(self, unit: Unit, instance: p.Instance) -> tuple[Arrays, dict[str, int]]:
        """Random inputs, exact in float32."""
        rng, sizes = self.rng, self.sizes(unit, list(instance.where))
        declared = {x.name: x for x in instance.inputs}
        whole = Interpreter({}, sizes)
        inputs: Arrays = {}
        for name, node in unit.inputs.items():
            shape = whole.shape(node.shape)
            if node.dtype in ("i32", "i64"):
                below = getattr(declared.get(name), "below", None)
                inputs[name] = rng.integers(0, 2 if below is None else whole.shape((below,))[0], shape)
            elif node.dtype == "bool" or unit.refinements.get(name) == "binary":
                inputs[name] = rng.integers(0, 2, shape).astype(bool if node.dtype == "bool" else float)
            elif unit.refinements.get(name) == "simplex":
                inputs[name] = rng.dirichlet(np.ones(shape[-1]), shape[:-1])
            else:
                values = rng.normal(size=shape) * 0.3
                values = np.abs(values) + 0.05 if node.role == "state" else values
                inputs[name] = np.asarray(values, np.float32).astype(np.float64)
        return inputs, sizes


def known(condition: p.SizeCondition, names: Iterable[str]) -> bool:
    sides = (condition.left, condition.right)
    return {s.name for x in sides for s in getattr(x, "free_symbols", ())} <= set(names)

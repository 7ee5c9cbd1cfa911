"""A model run over a sequence position by position, and all at once by the reference interpreter."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from samples import separate

from dslc import pipeline
from dslc.check import program as p
from dslc.compiler import choose, compile_module
from dslc.frontend import check_file
from dslc.incremental.program import StepProgram
from dslc.ir import nodes as ir
from dslc.meaning.interpret import Interpreter
from dslc.passes.verify import verify

ROOT = Path(__file__).parents[2]
Arrays = dict[str, Any]


@dataclass
class Sequence:
    """A model with random parameters and inputs, and what the interpreter makes of the first positions of these."""

    model: p.Instance
    path: Path
    settings: Mapping[str, object]
    step: StepProgram
    forward: pipeline.Lowered
    inputs: Arrays
    sizes: dict[str, int]

    @property
    def length(self) -> str:
        return self.step.length.name

    def axis(self, node: ir.Input | ir.Tensor) -> int | None:
        return node.shape.index(self.step.length) if self.step.length in node.shape else None

    def cut(self, count: int) -> Arrays:
        """The inputs at the first positions."""
        axes = {n: self.axis(x) for n, x in self.forward.unit.inputs.items()}
        return {n: x if axes[n] is None else np.take(x, range(count), axes[n]) for n, x in self.inputs.items()}

    def at(self, position: int) -> Arrays:
        """The inputs that have positions, at one of them."""
        nodes = {n: self.forward.unit.inputs[n] for n in self.step.inputs}
        return {n: np.take(self.inputs[n], position, self.axis(x)) for n, x in nodes.items()}

    def expected(self) -> Iterator[Arrays]:
        """The outputs at each position, of outputs for the whole sequence those of the positions up to it."""
        outputs = dict(self.forward.stages)["stabilise"]
        with np.errstate(all="ignore"):
            whole = Interpreter(self.inputs, self.sizes).run(outputs)
            for t in range(self.sizes[self.length]):
                axes = {k: self.axis(x) for k, x in outputs.items()}
                rest = {k: x for k, x in outputs.items() if axes[k] is None}
                sizes = {**self.sizes, self.length: t + 1}
                found = Interpreter(self.cut(t + 1), sizes).run(rest)
                yield {k: found[k] if axes[k] is None else np.take(whole[k], t, axes[k]) for k in outputs}

    def module(self, backend: str = "numpy") -> ModuleType:
        return compile_module(self.path, backend, dtype="f64", **self.settings)

    def params(self) -> Arrays:
        return separate(self.forward.unit, self.inputs, self.forward.unit.params)

    def state(self) -> list[Arrays]:
        unit = self.forward.unit
        return [separate(unit, self.inputs, unit.states)] if unit.states else []

    def fixed(self) -> list[Any]:
        """The inputs without positions."""
        roles = {n: x.role for n, x in self.forward.unit.inputs.items()}
        return [x for n, x in self.inputs.items() if roles[n] == "input" and n not in self.step.inputs]


def sequence(path: Path, positions: int = 6, **settings: object) -> Sequence:
    """A model with random parameters and inputs; raises NoStep where it has no step."""
    checked = check_file(path, settings)
    assert checked.program is not None, [d.message for d in checked.errors]
    model, _ = choose(checked)
    with ir.compilation():  # equal nodes of specs that were read before have the places of those
        step, forward = pipeline.stepping(model), pipeline.forward(model)
    rng = np.random.default_rng(0)
    names = {
        s.name for x in forward.unit.inputs.values() for size in x.shape for s in getattr(size, "free_symbols", ())
    }
    sizes = {**dict.fromkeys(sorted(names), 3), step.length.name: positions}
    below = {x.name: x.below for x in model.inputs}
    shapes = Interpreter({}, sizes)
    inputs: Arrays = {}
    for name, node in forward.unit.inputs.items():
        shape = shapes.shape(node.shape)
        if node.dtype == "bool":
            inputs[name] = rng.random(shape) < 0.7
        elif node.dtype in ("i32", "i64"):
            limit = below.get(name)
            inputs[name] = rng.integers(0, 3 if limit is None else min(shapes.size(limit), 50), shape)
        else:
            inputs[name] = rng.normal(size=shape) * 0.5
            if node.role == "state":
                inputs[name] = np.abs(inputs[name]) + 0.1
    return Sequence(model, path, settings, step, forward, inputs, sizes)


def run_module(run: Sequence, module: ModuleType, given: Callable[[Arrays], Arrays] = lambda x: x) -> Iterator[Arrays]:
    """The outputs of the functions of a module, position by position; `given` makes its parameters and states."""
    asked = inspect.signature(module.init_cache).parameters.values()
    sizes = {x.name: run.sizes.get(x.name, run.sizes[run.length]) for x in asked if x.kind is x.KEYWORD_ONLY}
    state = [given(x) for x in run.state()]
    params = given(run.params())
    cache = module.init_cache(params, *run.fixed(), **sizes)
    with_state = "state" in inspect.signature(module.step).parameters
    for t in range(run.sizes[run.length]):
        found, cache = module.step(params, cache, *run.at(t).values(), *(state if with_state else []))
        yield found if isinstance(found, dict) else dict.fromkeys(run.step.outputs, found)


def run_program(run: Sequence) -> Iterator[Arrays]:
    """The same by the reference interpreter: the cache is handed from one step to the next."""
    verify([*run.step.outputs.values(), *run.step.updates.values()])
    verify(list(run.step.starts.values()))
    rest = {n: x for n, x in run.inputs.items() if n not in run.step.inputs}
    with np.errstate(all="ignore"):
        starts = Interpreter(rest, run.sizes).run(run.step.starts)
    cache: Arrays = {}
    for slot in run.step.slots:
        empty = Interpreter({}, {**run.sizes, run.length: 0}).shape(slot.input.shape)
        cache[slot.name] = np.zeros(empty) if slot.start is None else starts[slot.name]
        if slot.start is not None:
            cache[slot.name] = np.broadcast_to(cache[slot.name], empty)
    for t in range(run.sizes[run.length]):
        sizes = {**run.sizes, run.length: t + 1}
        for slot in run.step.slots:
            if slot.kind == "history":  # room for the newest
                widths = [(0, 0)] * cache[slot.name].ndim
                widths[len(slot.loops) + slot.axis] = (0, 1)
                cache[slot.name] = np.pad(cache[slot.name], widths)
        given = {slot.input.name: cache[slot.name] for slot in run.step.slots}
        with np.errstate(all="ignore"):
            machine = Interpreter({**rest, **run.at(t), **given}, sizes)
            found, updates = machine.run(run.step.outputs), machine.run(run.step.updates)
        cache |= updates
        yield found


def agree(found: Iterator[Arrays], expected: Iterator[Arrays]) -> None:
    """All outputs are equal at all positions, and not all the same."""
    seen: dict[str, list[Any]] = {}
    for t, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        assert set(mine) == set(theirs)
        for name, value in theirs.items():
            np.testing.assert_allclose(mine[name], value, rtol=1e-9, atol=1e-9, err_msg=f"{name} at {t}")
            seen.setdefault(name, []).append(value)
    assert all(np.ptp(np.stack(x), axis=0).max() > 1e-6 for x in seen.values())

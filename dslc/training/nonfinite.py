"""Which value of a step was the first that is not finite: the step is computed again, one named value at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dslc import pipeline
from dslc.arrays import Array, as_numbers
from dslc.builder.paths import together
from dslc.check import program as p
from dslc.ir import nodes as ir
from dslc.ir.naming import name_of
from dslc.meaning.contracting import Contracting
from dslc.run_errors import RunError
from dslc.sizes import Symbol
from dslc.source import NOWHERE, Span
from dslc.training.run import Run


@dataclass(frozen=True)
class Found:
    """A value that is not finite: one of the forward pass, or a gradient."""

    name: str
    span: Span
    value: float
    at: tuple[int, ...]
    backward: bool

    def text(self) -> str:
        what = f"the gradient of `{self.name.removeprefix('d_')}`" if self.backward else f"`{self.name}`"
        if not self.name:
            what = "a gradient of this line" if self.backward else "one of this line"
        return f"{what}, which is {self.value:g}" + (f" at {list(self.at)}" if self.at else "")


class Probe(Contracting):
    """The interpreter with values rounded as the module rounds them; it notes the first bad one, inside scans too."""

    def __init__(self, inputs: Mapping[str, Array], sizes: Mapping[str, int], seed: int, dtype: Any):
        super().__init__(inputs, sizes, seed)
        self.dtype = dtype
        self.backward = False
        #: the first bad value, and the first one that has a name
        self.first: Found | None = None
        self.named: Found | None = None

    def evaluate(self, node: ir.Node) -> Any:
        value = super().evaluate(node)
        value = [self.rounded(x) for x in value] if isinstance(value, list) else self.rounded(value)
        if self.named is None:
            self.look(node, value)
        return value

    def one(self, s: ir.Scalar, variables: list[Array], done: Mapping[int, Any]) -> Any:
        return self.rounded(super().one(s, variables, done))

    def rounded(self, value: Any) -> Any:
        if isinstance(value, np.ndarray | np.generic) and value.dtype.kind == "f":
            with np.errstate(over="ignore"):
                return value.astype(self.dtype)
        return value

    def look(self, node: ir.Node, value: Any) -> None:
        for part in value if isinstance(value, list) else [value]:
            at = _bad(node, part, self)
            if at is not None:
                name = name_of(node)
                found = Found(name, getattr(node, "span", NOWHERE), float(np.asarray(part)[at]), at, self.backward)
                self.first = self.first or found
                self.named = self.named or (found if name else None)


def first_nonfinite(train: p.TrainProgram, values: Mapping[str, Array], seed: int, dtype: Any) -> Found | None:
    """The first value that is not finite, in the order of computation; first the loss, then the gradients."""
    program = pipeline.training(train)
    unit = program.unit
    values = together(unit, {name: as_numbers(x) for name, x in values.items()}, unit.inputs)
    sizes = {
        size.name: length
        for name, x in unit.inputs.items()
        for size, length in zip(x.shape, values[name].shape, strict=True)
        if isinstance(size, Symbol)
    }
    probe = Probe(values, sizes, seed, dtype)
    forward = ir.schedule((program.values()["loss"], *program.states().values()))
    found = _search(probe, forward)
    if found is not None:
        return found
    done = set(forward)
    backward = [x for x in ir.schedule(tuple(program.gradients().values())) if x not in done]
    probe.backward = True
    found = _search(probe, backward)
    if found is not None and not found.span.source.text:
        spans = {f"d_{getattr(x, 'name', '')}": getattr(x, "span", NOWHERE) for x in forward}
        spans |= {f"d_{name}": declaration.tensor.span for name, declaration in unit.params.items()}
        found = replace(found, span=spans.get(found.name, NOWHERE))
    return found


def _search(probe: Probe, order: Sequence[ir.Node]) -> Found | None:
    """The first bad value that has a name, or else the first bad one."""
    for node in order:
        if id(node) not in probe.done:
            with np.errstate(all="ignore"):
                probe.done[id(node)] = probe.evaluate(node)
        if probe.named is not None:
            return probe.named
    return probe.first


def _bad(node: ir.Node, value: Any, probe: Probe) -> tuple[int, ...] | None:
    """Where a value is NaN, or infinite for no reason that the spec gives (a mask of -inf is a reason).

    Once a value was bad, it is reason enough for others to be.
    """
    if np.asarray(value).dtype.kind != "f" or np.isfinite(value).all():
        return None
    wrong = np.isnan(value)
    if not wrong.any():
        arguments = itertools.chain.from_iterable(_arrays(probe.done.get(id(a))) for a in ir.arguments(node))
        if _says_infinity(node) or (
            probe.first is None and any(x.dtype.kind == "f" and np.isinf(x).any() for x in arguments)
        ):
            return None
        wrong = np.isinf(value)
    return tuple(int(i) for i in np.argwhere(wrong)[0])


def _arrays(value: Any) -> list[Array]:
    return value if isinstance(value, list) else [] if value is None else [np.asarray(value)]


def _says_infinity(node: ir.Node) -> bool:
    return any(
        isinstance(s, ir.Const) and isinstance(s.value, float) and math.isinf(s.value)
        for body in ir.bodies(node)
        for s in ir.scalars(body)
    )


def explain(train: p.TrainProgram, dtype: str, run: Run, message: str) -> RunError:
    """What to say about the step that `run` is about to do."""
    number = np.float64 if dtype == "f64" else np.float32
    help = "a smaller learning rate, scaled inputs or another formula may help"
    found = None
    try:
        for rows, seed in run.batches():
            batch = dict(zip(run.data, run.rows.take(run.data, rows), strict=True))
            found = found or first_nonfinite(train, {**run.weights(), **batch}, seed, number)
    except MemoryError:
        return RunError(message, help=help)
    if found is None:
        return RunError(f"{message}; computed one value at a time, the step is finite", help=help)
    step = f" of step {run.step_number + 1}" if f"step {run.step_number + 1}" not in message else ""
    return RunError(f"{message}: the first value{step} that is not finite is {found.text()}", found.span, help)

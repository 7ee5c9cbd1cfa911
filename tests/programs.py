"""Small programs for tests: from a text to values and gradients by the reference interpreter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dslc.autodiff.reverse import gradients, ones
from dslc.builder.build import Unit, build
from dslc.frontend import check_text
from dslc.ir import nodes as ir
from dslc.meaning.interpret import Interpreter
from dslc.passes.verify import verify

Array = np.ndarray[Any, np.dtype[Any]]


def unit(text: str, mode: str = "inference", name: str | None = None, **settings: object) -> Unit:
    """The last definition of a spec, or the one called `name`, as a program in the IR."""
    checked = check_text(text, settings=settings)
    assert not checked.errors, [d.message for d in checked.errors]
    assert checked.program is not None
    known = {**checked.program.definitions, **checked.program.models}
    wanted = name or next(reversed([d.name for d in checked.parsed.module.definitions]))  # type: ignore[union-attr]
    made = build(known[wanted], mode)
    verify([*made.outputs.values(), *made.updates.values()])
    return made


def sizes(inputs: Iterable[ir.Input], values: Mapping[str, Any]) -> dict[str, int]:
    """The sizes that follow from the shapes of values."""
    found: dict[str, int] = {}
    for x in inputs:
        shape = np.shape(values[x.name])
        assert len(shape) == len(x.shape), f"{x.name} has {len(x.shape)} axes"
        for size, given in zip(x.shape, shape, strict=True):
            if isinstance(size, int):
                assert size == given, f"{x.name} is {given} long instead of {size}"
            elif size.is_Symbol:
                assert found.setdefault(size.name, given) == given
    return found


def evaluate(
    program: Unit, values: Mapping[str, Any], nodes: Mapping[str, ir.Tensor] | None = None, seed: int = 0
) -> dict[str, Array]:
    """Outputs and next states (or other nodes) of a program."""
    machine = Interpreter(values, sizes(program.inputs.values(), values), seed)
    return machine.run({**program.outputs, **program.updates} if nodes is None else nodes)


def run(text: str, mode: str = "inference", seed: int = 0, settings: Mapping[str, object] | None = None, **values: Any):  # type: ignore[no-untyped-def]
    """The outputs of the last definition of a spec; the value itself when there is one."""
    found = evaluate(unit(text, mode, **(settings or {})), values, seed=seed)
    return next(iter(found.values())) if len(found) == 1 else found


def total(outputs: Mapping[str, ir.Tensor], rng: np.random.Generator) -> ir.Tensor:
    """A single number that depends on all elements of all float outputs, each with a weight of its own."""
    body: ir.Scalar = ir.const(0.0, "float")
    for k, (_, x) in enumerate(sorted(outputs.items())):
        if x.dtype in ("i32", "i64", "bool"):
            continue
        phase: ir.Scalar = ir.const(float(rng.uniform(0.3, 1.0)) + k, "float")
        for n in range(len(x.shape)):
            step = ir.op("*", (ir.const(float(rng.uniform(0.3, 1.0)), "float"), ir.var(n)), "float")
            phase = ir.op("+", (phase, step), "float")
        weighted = ir.op("*", (ir.whole(x), ir.op("cos", (phase,), "float")), "float")
        part = ir.comp((), weighted, "sum", x.shape) if x.shape else ir.comp((), weighted)
        body = ir.op("+", (body, ir.whole(part)), "float")
    return ir.comp((), body, name="total")


class Held(Interpreter):
    """An interpreter in which `stop_grad(x)` keeps the value that it had in the first run: what its derivative says."""

    def __init__(self, inputs: Mapping[str, Any], known: Mapping[str, int], seed: int, held: dict[int, list[Any]]):
        super().__init__(inputs, known, seed)
        self.held = held
        self.count: dict[int, int] = {}

    def one(self, s: ir.Scalar, variables: list[Array], done: Mapping[int, Any]) -> Any:
        value = super().one(s, variables, done)
        if not isinstance(s, ir.Op) or s.name != "stop_grad":
            return value
        past = self.held.setdefault(id(s), [])
        turn = self.count[id(s)] = self.count.get(id(s), -1) + 1
        if turn == len(past):
            past.append(value)
        return past[turn]


def is_float(x: ir.Tensor) -> bool:
    return x.dtype not in ("i32", "i64", "bool")


def check_gradient(
    program: Unit,
    values: Mapping[str, Any],
    order: int = 1,
    eps: float = 1e-6,
    rtol: float = 1e-6,
    loss: ir.Tensor | None = None,
    wrt: Iterable[str] | None = None,
    seed: int = 0,
) -> None:
    """Derivatives along random directions agree with central differences, up to the given order.

    The function is a fixed mixture of all outputs; the second derivative is that of the first one along a direction.
    """
    rng = np.random.default_rng(0)
    values = {k: np.asarray(v) for k, v in values.items()}
    names = list(wrt) if wrt is not None else [n for n, x in program.inputs.items() if is_float(x)]
    sources = [program.inputs[n] for n in names]
    f = total(program.outputs, rng) if loss is None else loss
    known = sizes(program.inputs.values(), values)
    directions = {n: rng.standard_normal(values[n].shape) for n in names}

    def at(distance: float, node: ir.Tensor) -> float:
        moved = {n: values[n] + distance * directions[n] for n in names}
        return float(Held({**values, **moved, **given}, known, seed, held).tensor(node))

    given: dict[str, Array] = {}
    for _ in range(order):
        slopes = gradients({f: ones(())}, sources)
        verify(slopes)
        along: ir.Scalar = ir.const(0.0, "float")
        for name, source, slope in zip(names, sources, slopes, strict=True):
            direction = ir.intern(ir.Input(f"along {name}", "input", "f64", source.shape))
            given[f"along {name}"] = directions[name]
            product = ir.op("*", (ir.whole(direction), ir.whole(slope)), "float")
            part = ir.comp((), product, "sum", source.shape) if source.shape else ir.comp((), product)
            along = ir.op("+", (along, ir.whole(part)), "float")
        slope_along = ir.comp((), along)
        held: dict[int, list[Any]] = {}
        found, here = at(0.0, slope_along), at(0.0, f)
        expected = (at(eps, f) - at(-eps, f)) / (2 * eps)
        scale = max(abs(expected), abs(here), 1e-3)
        assert abs(found - expected) <= rtol * scale, f"gradient {found}, difference {expected}"
        f = slope_along


def by_path(program: Unit, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of inputs and results by path: those that hold one for each layer (`block.*.W`) are taken apart."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        paths = program.paths(name)
        rank = len(program.layers.get(name, ()))
        parts = [value] if not rank else value.reshape((len(paths), *value.shape[rank:]))
        found.update(zip(paths, parts, strict=True))
    return found

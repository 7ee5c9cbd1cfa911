"""Random well-typed specs, with data to run them on: a model of several statements and a training of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import blocks
import numpy as np
import operations
import statements
from hypothesis import strategies as st
from statements import Production
from writer import Axis, Drawn, Numbered, Value, Writer, fixed, letters

equation = statements.equation

#: construct -> the production that writes it, and the choices that lead to it
CONSTRUCTS: dict[str, tuple[Production, tuple[str, ...]]] = {
    **{f"equation with {n} indices": (equation, ()) for n in range(4)},
    "power": (equation, ("binary", "^")),
    "select": (equation, ("select",)),
    "condition on indices": (equation, ("select", "index")),
    **{
        kind: (equation, ("reduction", kind))
        for kind in ("sum", "mean", "max", "min", "prod", "var", "logsumexp", "naive logsumexp", "softmax")
    },
    "log_softmax": (equation, ("special", "softmax", "log_softmax")),
    "stop_grad": (equation, ("special", "stop_grad")),
    "cast": (equation, ("special", "cast")),
    "random draw": (equation, ("special", "draw")),
    "index as a number": (equation, ()),
    "affine index with else": (equation, ("else",)),
    **{kind: (equation, (kind,)) for kind in ("flip", "wrap", "clamp", "gather")},
    "gather that may miss": (equation, ("loose gather",)),
    "bool data": (equation, ("select", "mask")),
    "bool value": (statements.mask, ()),
    "implied sum": (statements.contraction, ()),
    "outer product": (statements.contraction, ()),
    "three factors": (statements.contraction, ()),
    "einsum": (statements.einsum, ()),
    "whole tensors": (statements.whole_tensors, ()),
    "+= without a scatter": (statements.added, ()),
    "where": (statements.ranged, ()),
    "slice": (statements.slices, ()),
    "concat": (statements.concat, ()),
    **{f"{kind} convolution": (statements.convolution, ("weights", kind)) for kind in ("padded", "valid", "strided")},
    **{f"{kind} pooling": (statements.convolution, ("no weights", kind)) for kind in ("padded", "valid", "strided")},
    "grouped axes": (statements.joined_axes, ()),
    "split axis": (statements.split_axis, ()),
    **{f"scatter {kind}": (operations.scatter, (kind,)) for kind in ("+=", "max=", "min=")},
    **{kind: (operations.best_place, (kind,)) for kind in ("argmax", "argmin", "argsort", "top_k")},
    "one_hot": (operations.one_hot, ()),
    **{kind: (operations.running, (kind,)) for kind in ("cumsum", "cumprod", "cummax", "cummin", "sort")},
    "fft": (operations.fourier, ()),
    "prefix": (operations.prefix, ()),
    "external": (operations.matrices, ()),
    **{
        kind: (operations.matrices, (kind,)) for kind in ("solve", "inv", "det", "logdet", "matexp", "cholesky", "eigh")
    },
    "scan": (blocks.scan, ("forward",)),
    "reversed scan": (blocks.scan, ("backwards",)),
    "two carried values": (blocks.scan, ("two",)),
    "lag of two steps": (blocks.scan, ("two steps",)),
    "call inside a scan": (blocks.scan, ("call",)),
    "scan inside a scan": (blocks.scan, ("call", "scan")),
    "scalar function of the user": (blocks.scalar_function, ()),
    "function with an axis": (blocks.axis_function, ()),
    "derivative by hand": (blocks.derivative_by_hand, ()),
    "tensor function of the user": (blocks.tensor_function, ()),
    "mapped call": (blocks.tensor_function, ("mapped",)),
    "mapped scan": (blocks.tensor_function, ("mapped", "scan")),
    "layer of the user": (blocks.layer, ()),
    "shared layer": (blocks.layer, ("shared",)),
    "for": (blocks.repeated_layer, ()),
    **{kind: (blocks.library, (kind,)) for kind in ("dense", "layer_norm", "dropout")},
    "state and modes": (blocks.modes, ()),
    "checkpoint": (blocks.checkpoint, ()),
    **{kind: (blocks.derivative, (kind,)) for kind in ("grad", "jvp", "vjp", "jacobian", "hessian")},
}
PRODUCTIONS = list(dict.fromkeys(production for production, _ in CONSTRUCTS.values()))


@dataclass(frozen=True)
class Program:
    """A spec and what is needed to run it."""

    text: str
    sizes: dict[str, int]
    #: name -> bounds of the data, for floats; the others by kind
    inputs: dict[str, Value]
    seed: int
    tags: Counter[str]

    def __repr__(self) -> str:
        return f"\n{self.text}\n# {self.sizes}, seed {self.seed}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))  # for hypothesis

    def data(self, name: str, shape: tuple[int, ...], dtype: str, role: str) -> Any:
        """Random values for an input, a parameter or a state."""
        rng = np.random.default_rng([self.seed, *name.encode()])
        if role != "input":
            return rng.uniform(0.2, 0.9, shape) if role == "state" else rng.uniform(-1.4, 1.4, shape)
        value = self.inputs[name]
        if dtype == "bool":
            return rng.random(shape) < 0.6
        if value.kind == "int":
            return rng.integers(0, value.below.value, shape) if value.below else rng.integers(-3, 8, shape)
        return rng.uniform(value.low, value.high, shape)


@st.composite
def programs(draw: st.DrawFn, construct: str) -> Program:
    """Programs of a construct, for hypothesis."""
    return written(Writer(Drawn(draw)), construct)


def numbered(number: int) -> Program:
    """The program of a number; constructs take turns."""
    return written(Writer(Numbered(number)), list(CONSTRUCTS)[number % len(CONSTRUCTS)])


def written(w: Writer, construct: str) -> Program:
    """A program that ends with the production of a construct, after a few others."""
    symbols = {"N": w.number(1, 4), "T": w.number(3, 5)}
    w.axes = [Axis("N", symbols["N"], 1), Axis("T", symbols["T"], 3), fixed(2), fixed(3), fixed(4)]
    last, wishes = CONSTRUCTS[construct]
    declared = inputs(w, wishes)
    parameters(w)
    leaves = len(w.values)
    for production in [*(w.pick(PRODUCTIONS) for _ in range(w.number(0, 3))), last]:
        w.wishes = list(wishes) if production is last else []
        w.sources.clear()
        production(w)
    made = [v for v in w.values[leaves:] if v.kind == "float"] or [w.values[0]]
    outputs = made[-1:] + [v for v in made[:-1] if w.chance(2)][:2]
    facts = "N >= 1, T >= 3"
    results = ", ".join(v.name for v in outputs)
    head = f"model m({', '.join(declared)}) -> {results if len(outputs) == 1 else f'({results})'} where {facts}:"
    names = ", ".join(text.split(":")[0] for text in declared)
    text = "\n".join(
        [
            *w.definitions,
            head,
            *w.lines,
            "",
            f"train m({names}) where {facts}:",
            f"    {results} = m({names})",
            f"    minimize {' + '.join(weighted(v, k) for k, v in enumerate(outputs))}",
            "    using sgd(lr = 0.1)",
            "",
        ]
    )
    known = {v.name: v for v in w.values[:leaves] if not v.name.startswith("w")}
    return Program(text, symbols, known, w.number(0, 999), w.tags)


def inputs(w: Writer, wishes: tuple[str, ...]) -> list[str]:
    """Declarations of inputs; the first one fixes all symbolic sizes. What a construct needs is there."""
    n, t = w.axes[:2]
    declared = []

    def declare(value: Value, type_: str, suffix: str = "") -> None:
        w.add(value)
        shape = ", ".join(a.text for a in value.shape)
        declared.append(f"{value.name}: {type_}[{shape}]{suffix}")

    def leaf(shape: tuple[Axis, ...], low: float, high: float) -> Value:
        name = w.fresh("x")
        return Value(name, shape, low, high, sources=frozenset({name}))

    declare(leaf((n, t), -1.5, 1.5), "f64")
    for _ in range(w.number(0, 2)):
        low, high = w.pick([(-1.5, 1.5), (0.3, 1.9)])
        declare(leaf(tuple(statements.some_axes(w)), low, high), w.pick(["f64", "f32", ""]))
    if w.chance(2) or "gather" in wishes or any(x.endswith("=") for x in wishes):
        below = w.pick(w.axes)
        name = w.fresh("x")
        declare(Value(name, (w.pick(w.axes),), kind="int", below=below), w.pick(["i32", "i64"]), f" < {below.text}")
    if w.chance(3) or "loose gather" in wishes:
        declare(Value(w.fresh("x"), (w.pick(w.axes),), kind="int"), "i32")
    if w.chance(3) or "mask" in wishes:
        declare(Value(w.fresh("x"), tuple(statements.some_axes(w, 1, 2)), kind="bool"), "bool")
    return declared


def parameters(w: Writer) -> None:
    for _ in range(w.number(1, 2)):
        shape = tuple(w.pick(w.axes[2:]) for _ in range(w.number(0, 2)))
        name = w.fresh("w")
        w.add(Value(name, shape, -1.4, 1.4, sources=frozenset({name})))
        w.line(f"param {name}: [{', '.join(a.text for a in shape)}] ~ normal")


def weighted(value: Value, number: int) -> str:
    """A single number from all elements, each with a weight of its own."""
    names = letters(len(value.shape))
    if not names:
        return f"{0.7 + number} * {value.name}"
    angle = " + ".join(f"{0.6 + 0.3 * k:.1f} * {n}" for k, n in enumerate(names))
    return f"sum[{', '.join(names)}]({value.name}[{', '.join(names)}] * cos({angle} + {number + 0.4}))"

"""How far a module may be from the exact results, in float64 and in other dtypes, and the values that it can hold.

That depends on the spec: where a difference cancels, or a largest entry is nearly equalled, no module can do better. So
the interpreter says it: a result may be off by a few roundings, or by as much as it moves when all values on the way,
and the terms of all sums, are off by a few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from dslc.builder.build import Unit
from dslc.ir import nodes as ir
from dslc.meaning.contracting import Contracting, as_product
from dslc.meaning.interpret import Array, Interpreter, rounded
from dslc.ops.table import EXACT

#: dtype -> the largest relative error of one rounding
ROUNDING = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
#: dtype -> the error of a rounding near zero, where numbers have no more digits; those of other dtypes are next to none
NEAR_ZERO = {"f16": 2.0**-25}
HALVES = ("f16", "bf16")
#: how many roundings a result may be off, and values on the way are moved by; how often that is tried
ROUNDINGS, TRIALS = 4, 4
#: results of less than this share of the largest one are shown as shares of that
SMALL = 0.1


def computed_in(dtype: str) -> str:
    """What a module with parameters of a dtype computes with, and keeps its states in."""
    return "f32" if dtype in HALVES else dtype


def is_kept(x: ir.Input) -> bool:
    """Whether an input is kept in the dtype of the module; single numbers and states stay as they are."""
    return x.dtype in ("float", "f32") and (x.role == "param" or (x.role == "input" and bool(x.shape)))


def kept(unit: Unit, values: Mapping[str, Array], dtype: str) -> dict[str, Array]:
    """Values as a module of a dtype holds them, in float64."""
    if dtype == "f64":
        return dict(values)
    return {
        name: rounded(x.astype(np.float32), dtype if dtype in HALVES and is_kept(unit.inputs[name]) else "f64")
        if x.dtype.kind == "f" and unit.inputs[name].dtype != "f64"
        else x
        for name, x in values.items()
    }


def off(x: Array, most: float, rng: np.random.Generator, least: float = 0.0) -> Array:
    """Floats that are off by up to a share of their size; zero, which needs no digits, stays as it is."""
    if x.dtype.kind != "f":
        return x
    size = np.where(x == 0, 0.0, np.maximum(most * np.abs(x.astype(float)), least))
    return x + np.where(np.isfinite(x), size, 0.0) * rng.uniform(-1, 1, x.shape)


def rounding(kind: type[Interpreter], dtype: str, rng: np.random.Generator) -> type[Interpreter]:
    """An interpreter whose formulas are off by up to a few roundings, and what is kept of them, sums too, once more."""

    class Rounding(kind):  # type: ignore[valid-type, misc]
        most = 0.0

        def evaluate(self, node: ir.Node) -> Any:
            stored = stored_in(node, dtype)
            self.most = ROUNDINGS * ROUNDING[stored] if rounds(node) else 0.0
            least = ROUNDINGS * NEAR_ZERO.get(stored, 0.0) if rounds(node) else 0.0
            value = super().evaluate(node)
            match node:
                case ir.Comp() if as_product(node) is not None and issubclass(kind, Contracting):
                    return off(value + self.terms_of(node), self.most, rng, least)
                case ir.Comp() | ir.Scatter():
                    return off(value, self.most, rng, least)
                case ir.Along() | ir.External():
                    return [off(np.asarray(x), self.most, rng, least) for x in value]
            return value

        def scalar(self, root: ir.Scalar, variables: list[Array]) -> Any:
            value = np.asarray(super().scalar(root, variables))
            shape = np.broadcast_shapes(value.shape, *(v.shape for v in variables))
            return off(np.broadcast_to(value, shape), self.most, rng) if self.most else value

        def reduced(self, op: str, terms: Array) -> Any:
            value = super().reduced(op, terms)
            if op != "sum" or dtype != "f64" or terms.dtype.kind != "f" or not self.most:
                return value
            # what is added up so far is a value on the way: it may be large where all of the sum cancels
            squares = (np.cumsum(terms, -1) ** 2).sum(-1)
            return value + self.most * np.sqrt(squares / 3) * rng.standard_normal(np.shape(squares))

        def terms_of(self, node: ir.Node) -> Any:
            """How far a sum of products moves with its terms: they are off by chance, so their squares add up."""
            axes, reads = cast("tuple[str, list[ir.Read]]", as_product(node))
            squares = np.einsum(axes, *(self.done[id(r.tensor)] ** 2 for r in reads), optimize=True)
            return self.most * np.sqrt(squares / 3) * rng.standard_normal(np.shape(squares))

    return Rounding


#: dtype -> the largest number that it has, where results of models can pass it
LARGEST = {"f16": 65504.0}


def watching(kind: type[Interpreter], dtype: str, past: list[ir.Node]) -> type[Interpreter]:
    """An interpreter that notes the nodes whose values are too large for what they are kept in."""

    class Watching(kind):  # type: ignore[valid-type, misc]
        def evaluate(self, node: ir.Node) -> Any:
            value = super().evaluate(node)
            if isinstance(node, ir.Comp) and value.dtype.kind == "f":
                size = np.abs(value[np.isfinite(value)]).max(initial=0.0)
                past.extend([node] if size > LARGEST.get(stored_in(node, dtype), np.inf) else [])
            return value

    return Watching


#: operations that divide by a matrix, and the condition number past which it is a singular one but for roundings
DIVIDING, SINGULAR = ("solve", "inv", "logdet"), 1e12


def solving(kind: type[Interpreter], singular: list[ir.Node]) -> type[Interpreter]:
    """An interpreter that notes the nodes that divide by a matrix which is nearly singular."""

    class Solving(kind):  # type: ignore[valid-type, misc]
        def evaluate(self, node: ir.Node) -> Any:
            if isinstance(node, ir.External) and node.op in DIVIDING:
                matrix = self.done[id(node.args[0])]
                finite = bool(np.isfinite(matrix).all())
                singular.extend([] if finite and np.all(np.linalg.cond(matrix) < SINGULAR) else [node])
            return super().evaluate(node)

    return Solving


def rounds(node: ir.Node) -> bool:
    """Whether a value is computed and not chosen: the largest of some numbers is one of them, and is found again."""
    match node:
        case ir.Comp(op=None):
            return any(isinstance(s, ir.Op) and s.name not in EXACT for s in ir.scalars(node.body))
        case ir.Comp():
            return node.op in ("sum", "prod")
        case ir.Scatter():
            return node.op == "+"
        case ir.Along():
            return node.op in ("cumsum", "cumprod", "fft", "ifft")
    return isinstance(node, ir.External)


def stored_in(node: ir.Node, dtype: str) -> str:
    """The dtype that a module keeps a value in: in one of 16 bits, numbers and plain reductions stay in float32.

    A sum of products may be taken in another order, of factors that were kept: the sum over keys in the adjoint of
    softmax is that of the result of attention times its adjoint. What is drawn at random is always drawn in float32.
    """
    if dtype == "f64":
        drawn = any(isinstance(s, ir.Rand) for body in ir.bodies(node) for s in ir.scalars(body))
        return "f32" if drawn else dtype
    if dtype not in HALVES or isinstance(node, ir.Along):
        return dtype
    if isinstance(node, ir.Comp) and node.shape and (node.op is None or sums_products(node)):
        return dtype
    return "f32"


def sums_products(node: ir.Comp) -> bool:
    return node.op == "sum" and len({s.tensor for s in ir.scalars(node.body) if isinstance(s, ir.Read)}) > 1


@dataclass
class Noise:
    """Roundings in the steps of a module: loss, gradients and states are off, and parameters by a few roundings.

    In any case its gradients are those for parameters that are rounded to bfloat16, where that is the dtype: a module
    in bfloat16 moves them in float32 and computes with them as they are kept.
    """

    #: how far the results of a step may be off, by name; none for a step without noise
    sizes: Mapping[str, Array]
    dtype: str
    rng: np.random.Generator

    @contextmanager
    def on(self, module: Any) -> Iterator[None]:
        plain = module.loss_grad_metrics

        def noisy(params: Mapping[str, Array], *arguments: Any, **options: Any) -> Any:
            if self.dtype == "bf16":
                params = {
                    k: rounded(x, "bf16").astype(x.dtype) if x.dtype.kind == "f" else x for k, x in params.items()
                }
            loss, grads, metrics, states = plain(params, *arguments, **options)
            return self.of("loss", loss), self.all("gradient", grads), metrics, self.all("state", states)

        module.loss_grad_metrics = noisy
        try:
            yield
        finally:
            module.loss_grad_metrics = plain

    def kept(self, x: Array) -> Array:
        return rounded(x, self.dtype).astype(x.dtype) if x.dtype == np.float32 else x

    def all(self, kind: str, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.of(f"{kind} {name}", x) for name, x in values.items()}

    def of(self, name: str, x: Any) -> Any:
        if not self.sizes:
            return x
        size = self.sizes[name]
        return np.asarray(x + size * self.rng.choice((-1.0, 1.0), np.shape(size)), np.asarray(x).dtype)

    def round(self, values: Mapping[str, Array]) -> None:
        for x in values.values() if self.sizes else ():
            x[...] = off(x, ROUNDINGS * ROUNDING[computed_in(self.dtype)], self.rng)


@dataclass
class Wanted:
    """The exact results by name, and a function that gives them for values that are a little off."""

    exact: Mapping[str, Array]
    off: Callable[[], Sequence[Mapping[str, Array]]]
    #: the same for the formulas that kernels compute in 16 bits, which round other values than the formulas of the spec
    other: Callable[[], Sequence[Mapping[str, Array]]] | None = None

    @cached_property
    def near(self) -> Sequence[Mapping[str, Array]]:
        return self.off()

    def only(self, names: list[str]) -> Wanted:
        def chosen(found: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
            return [{k: x[k] for k in names} for x in found]

        other = self.other
        exact = {k: self.exact[k] for k in names}
        return Wanted(exact, lambda: chosen(self.near), other and (lambda: chosen(other())))

    def otherwise(self) -> Wanted | None:
        return None if self.other is None else Wanted(self.exact, self.other)

    def movement(self) -> dict[str, float]:
        """How far each result may move: its mean movement, as many times as any result went beyond its own."""
        moved = {k: [distance(near[k], x) for near in self.near] for k, x in self.exact.items()}
        means = {k: max(float(np.sqrt(np.mean(np.square(x)))), LEAST) for k, x in moved.items()}
        beyond = max(max(x) / means[k] for k, x in moved.items() if np.isfinite(means[k]))
        return {k: beyond * x for k, x in means.items()}

    def errors(self, found: Mapping[str, Any], dtype: str, largest: float) -> list[tuple[float, float, str]]:
        """Of each result its error, the one that it may have, and its name; errors are lengths of differences.

        `largest` is the length of the largest result that is compared together with these.
        """
        lengths = {name: length(x) for name, x in self.exact.items()}
        movement = self.movement()
        rows: list[tuple[float, float, str]] = []
        for name, x in self.exact.items():
            scale = max(lengths[name], SMALL * largest, LEAST)
            most = max(ROUNDINGS * ROUNDING[dtype] * lengths[name], movement[name])
            rows.append((distance(found.get(name, np.nan), x) / scale, max(most, LEAST) / scale, name))
        return rows


#: a length that counts as nothing: squares of numbers below it vanish
LEAST = 1e-150


def length(x: Any) -> float:
    """The Euclidean length of the finite entries of an array."""
    x = np.asarray(x, float)
    return float(np.linalg.norm(x[np.isfinite(x)]))


def distance(found: Any, expected: Any) -> float:
    """The length of a difference; infinite where one is finite and the other is not.

    >>> distance(np.array([3.0, np.inf]), np.array([0.0, np.inf]))
    3.0
    """
    a, b = np.asarray(found, float), np.asarray(expected, float)
    finite = np.isfinite(b)
    if a.shape != b.shape or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return float("inf")
    if not np.isfinite(a[finite]).all():
        return float("inf")
    return length(a[finite] - b[finite])

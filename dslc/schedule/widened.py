"""Numbers of 16 bits in memory: formulas make them wider where they read them, and products and calls read floats.

x: bf16[N, 64] in a formula       x[n, i], which the target makes wider
W: bf16[64, 32] in a product      W_wide[i, o] = W[i, o], a value of its own; in a loop over layers, that of a layer
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile

from dslc.builder.unit import Unit
from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.passes.elementwise import contraction
from dslc.passes.narrow import HALVES, OPEN, narrow_input
from dslc.passes.transform import Outputs, Transform, with_body

#: numbers that any float has
EXACT = (0.0, float("inf"), float("-inf"))


class _Inputs(Transform):
    """Some inputs as values of other dtypes; formulas read what `formula` makes of their reads of these."""

    def __init__(self, kept: Callable[[ir.Input], ir.Input | None]) -> None:
        super().__init__()
        self.kept = kept
        #: the whole of an input as another dtype -> the input
        self.inputs: dict[ir.Node, ir.Input] = {}

    def visit(self, node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Input) and (kept := self.kept(node)) is not None:
            wide = converted(kept, (), node.dtype)
            self.inputs[wide] = kept
            return wide
        return with_body(node, self.formula(node)) if isinstance(node, ir.Comp) else node

    def formula(self, node: ir.Comp) -> ir.Scalar:
        return ir.with_reads(node.body, self.direct)

    def direct(self, s: ir.Read) -> ir.Scalar:
        """A read of the input itself, converted, where what stands outside of it has its dtype, too."""
        kept = self.inputs.get(s.tensor)
        if kept is None:
            return s
        outside = s.outside
        if outside is not None:
            if not isinstance(outside, ir.Const) or outside.value not in EXACT:
                return s
            outside = ir.const(outside.value, kept.dtype)
        return ir.cast(ir.read(kept, s.places, outside), s.dtype)


def converted(kept: ir.Input, steps: tuple[ir.Place, ...], dtype: str) -> ir.Tensor:
    """An input as another dtype, or what some steps of loops read of it."""
    shape = kept.shape[len(steps) :]
    read = ir.read(kept, (*steps, *(ir.plain(i) for i in range(len(shape)))))
    return ir.comp(shape, ir.op("cast", (read,), dtype), name=kept.name, dtype=dtype)


class _Narrow(_Inputs):
    """A program whose parameters and inputs are kept in 16 bits."""

    def __init__(self, half: str) -> None:
        def kept(node: ir.Input) -> ir.Input | None:
            found = kept_as(node, half)
            return None if found is node else found

        super().__init__(kept)


class _Widened(_Inputs):
    """A program whose inputs of 16 bits are read in formulas alone; products read wider copies of them."""

    def __init__(self) -> None:
        super().__init__(lambda node: node if node.dtype in HALVES else None)

    def formula(self, node: ir.Comp) -> ir.Scalar:
        if not contraction(node):
            return super().formula(node)
        done: dict[ir.Scalar, ir.Scalar] = {}
        for s in ir.scalars(node.body):
            read = s.args[0] if isinstance(s, ir.Op) and s.name == "cast" else s
            if isinstance(read, ir.Read) and read.tensor in self.inputs:
                done[s] = self.side(read, s.dtype)
            else:
                done[s] = ir.rebuild(s, lambda x: done[x])
        return done[node.body]

    def side(self, s: ir.Read, dtype: str) -> ir.Scalar:
        """The side of a product as it lies in memory; of what loops read, that of one step."""
        if any(isinstance(x, ir.Data) for x in s.places) or (
            s.outside is not None and not (isinstance(s.outside, ir.Const) and s.outside.value in EXACT)
        ):
            return ir.cast(self.direct(s), dtype)
        steps = tuple(takewhile(lambda x: isinstance(x, ir.At), s.places))
        wide = converted(self.inputs[s.tensor], steps, dtype)
        outside = None if s.outside is None else ir.const(s.outside.value, dtype)
        return ir.read(wide, s.places[len(steps) :], outside)


def widened(outputs: Outputs) -> dict[str, ir.Tensor]:
    """A program that reads inputs of 16 bits in formulas alone, and in no products."""
    return _Widened().outputs(outputs)


def in_halves(unit: Unit, outputs: Outputs, half: str) -> tuple[Unit, dict[str, ir.Tensor]]:
    """A program whose parameters and inputs are kept in 16 bits and computed with as what the spec says they are.

    Numbers without axes that are no parameters, and states, are kept as they are.
    """
    inputs = {n: kept_as(x, half) if x.role == "input" else x for n, x in unit.inputs.items()}
    return replace(unit, inputs=inputs), _Narrow(half).outputs(outputs)


def kept_as(node: ir.Input, half: str) -> ir.Input:
    """An input as a caller hands it over: parameters have one dtype, whatever the spec says."""
    if node.role == "param" and is_float(node.dtype):
        return ir.intern(replace(node, dtype=half))
    return narrow_input(node, half)


def rounded(outputs: Outputs, half: str) -> dict[str, ir.Tensor]:
    """Results in 16 bits, but for numbers without axes."""
    return {
        name: ir.comp(x.shape, ir.cast(ir.whole(x), half), name=x.name, dtype=half)
        if x.dtype in OPEN and x.shape
        else x
        for name, x in outputs.items()
    }

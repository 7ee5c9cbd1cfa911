"""Everything as comprehensions: small scatters become sums of selects, Fourier transforms sums of products."""

from __future__ import annotations

from dataclasses import replace

from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, Form, keep, plain_variable, zero
from dslc.passes.transform import Outputs, Transform
from dslc.sizes import Size


class AsComprehensions(Transform):
    """A graph without scatters to small targets, Fourier transforms and custom derivatives."""

    def _one(self, node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Part) and isinstance(node.of, ir.Custom):
            return self.done[node.of.values[node.number]]
        if isinstance(node, ir.Part) and isinstance(node.of, ir.Along) and node.of.op in ("fft", "ifft"):
            return fourier_part(node.of, node.number, self.all(node.of.args))
        new = super()._one(node)
        if isinstance(new, ir.Scatter):
            return without_base(new) if is_large(new) else gathered(new)
        return new


def as_comprehensions(outputs: Outputs) -> dict[str, ir.Tensor]:
    return AsComprehensions().outputs(outputs)


# ---- scatter -----------------------------------------------------------------------------------------


#: a scatter to more rows than these costs less when its sources are sorted than as a sum of selects
FEW_ROWS = 1024


def is_large(node: ir.Scatter) -> bool:
    """Does a scatter add up sources for many rows? Axes that are plain variables do not count.

    Where every variable is a place itself, as in the adjoint of `x[n, label[n]]`, a row has one source: nothing is
    added up, and the result is a select, however many rows there are.
    """
    rows: Size = 1
    for axis, place in enumerate(node.places):
        if isinstance(place, ir.Affine) and place.divisor != 1:
            return False
        if axis not in solved_axes(node).values():
            rows = rows * node.shape[axis]
    if len(solved_axes(node)) == len(node.ranges):
        return False
    return not isinstance(rows, int) or rows > FEW_ROWS


def solved_axes(node: ir.Scatter) -> dict[int, int]:
    """The variables of a scatter that are places themselves, each with its axis."""
    solved: dict[int, int] = {}
    for axis, place in enumerate(node.places):
        variable = plain_variable(place)
        if variable is not None and variable not in solved and node.ranges[variable] == node.shape[axis]:
            solved[variable] = axis
    return solved


def without_base(node: ir.Scatter) -> ir.Tensor:
    """A scatter to nothing, and a map that joins it with what was there."""
    if node.base is None:
        return node
    alone = ir.intern(replace(node, base=None))
    return ir.comp(
        node.shape, ir.op(node.op, (ir.whole(node.base), ir.whole(alone)), node.dtype), name=node.name, span=node.span
    )


def gathered(node: ir.Scatter) -> ir.Tensor:
    """`for all m: y[p(m)] += f(m)` as `y[i] = sum[m](f(m) if p(m) == i else 0)`.

    A variable that is itself a place is the index of the result there, and needs no sum. The order of addition is
    fixed, so the result is the same in every run.
    """
    rank = len(node.shape)
    solved = solved_axes(node)
    summed = [v for v in range(len(node.ranges)) if v not in solved]
    forms = {v: keep(axis) for v, axis in solved.items()} | {v: keep(rank + k) for k, v in enumerate(summed)}
    change = Change(forms)
    tests = tuple(
        ir.op("==", (position(change, place, size), ir.var(axis)), "bool")
        for axis, (place, size) in enumerate(zip(node.places, node.shape, strict=True))
        if axis not in solved.values()
    )
    body = change.scalar(node.body)
    if tests:
        test = tests[0] if len(tests) == 1 else ir.op("and", tests, "bool")
        body = chosen(node, test, body)
    op = {"+": "sum"}.get(node.op, node.op) if summed else None
    value = ir.comp(node.shape, body, op, tuple(node.ranges[v] for v in summed), node.name, node.span, node.dtype)
    if node.base is None:
        return value
    both = ir.op(node.op, (ir.whole(node.base), ir.whole(value)), node.dtype)
    return ir.comp(node.shape, both, name=node.name, span=node.span)


def chosen(node: ir.Scatter, test: ir.Scalar, body: ir.Scalar) -> ir.Scalar:
    """The body where the test holds. It is no factor: 0 times a row that is not finite would not be 0."""
    if node.op == "+":
        return ir.op("select", (test, body, zero(node.dtype)), node.dtype)
    if node.dtype in ("i32", "i64"):
        bits = 31 if node.dtype == "i32" else 63
        limit = ir.const(-(2**bits) if node.op == "max" else 2**bits - 1, node.dtype)
    else:
        limit = ir.const(float("-inf") if node.op == "max" else float("inf"), node.dtype)
    return ir.op("select", (test, body, limit), node.dtype)


def position(change: Change, place: ir.Place, size: Size) -> ir.Scalar:
    """A place as a number."""
    if isinstance(place, ir.At):
        at: ir.Scalar = ir.read(place.step, ())
        if place.offset != 0:
            at = ir.op("+", (at, ir.intern(ir.SizeOf(place.offset))), "i64")
        return at
    if isinstance(place, ir.Data):
        at = change.scalar(place.value)
    else:
        at = change.scalar(Change(change.forms).value(Form(place.terms, place.offset, place.divisor)))
    top = ir.intern(ir.SizeOf(size))
    if place.mode == "wrap":
        return ir.op("%", (at, top), "i64")
    if place.mode == "clamp":
        last = ir.op("-", (top, ir.const(1, "i64")), "i64")
        return ir.op("min", (ir.op("max", (at, ir.const(0, "i64")), "i64"), last), "i64")
    return at


# ---- Fourier -----------------------------------------------------------------------------------------


def fourier_part(node: ir.Along, number: int, args: tuple[ir.Tensor, ...]) -> ir.Tensor:
    """Re and Im of `sum[j]((re[j] + i im[j]) exp(-2 pi i j k / n))`; the other sign, and / n, for the inverse."""
    shape, dtype, axis = node.shapes[0], node.dtypes[0], node.axis
    size, rank = shape[axis], len(shape)
    turn = ir.op("%", (ir.op("*", (ir.var(axis), ir.var(rank)), "i64"), ir.intern(ir.SizeOf(size))), "i64")
    angle = ir.op("/", (ir.op("cast", (turn,), dtype), ir.intern(ir.SizeOf(size, "float"))), dtype)
    angle = ir.op("*", (ir.const(6.283185307179586, dtype), angle), dtype)
    places = tuple(ir.plain(rank if k == axis else k) for k in range(rank))
    sign = 1 if node.op == "ifft" else -1

    def summed(x: ir.Tensor, wave: str) -> ir.Scalar:
        body = ir.op("*", (ir.read(x, places), ir.op(wave, (angle,), dtype)), dtype)
        return ir.whole(ir.comp(shape, body, "sum", (size,), node.name, node.span))

    def signed(s: ir.Scalar, by: int) -> ir.Scalar:
        return s if by > 0 else ir.op("neg", (s,), dtype)

    parts = [summed(args[0], "cos") if number == 0 else signed(summed(args[0], "sin"), sign)]
    if len(args) == 2:
        parts.append(signed(summed(args[1], "sin"), -sign) if number == 0 else summed(args[1], "cos"))
    total = parts[0] if len(parts) == 1 else ir.op("+", (parts[0], parts[1]), dtype)
    if node.op == "ifft":
        total = ir.op("/", (total, ir.intern(ir.SizeOf(size, "float"))), dtype)
    return ir.comp(shape, total, name=node.name, span=node.span)

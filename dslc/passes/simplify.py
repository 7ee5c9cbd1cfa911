"""Algebra on numbers that are known: constants of a product become one, neutral elements go.

Nothing here changes a derivative: the rules hold for every value of what is not known, kinks and NaN included.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dslc import decimals
from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, keep
from dslc.passes.products import Product, join, split, variables
from dslc.passes.transform import Outputs, Transform, with_body


def simplify(outputs: Outputs) -> dict[str, ir.Tensor]:
    return _Simplify().outputs(outputs)


class _Simplify(Transform):
    def __init__(self) -> None:
        super().__init__()
        self.simple: dict[ir.Scalar, ir.Scalar] = {}

    def visit(self, node: ir.Node) -> ir.Node:
        match node:
            case ir.Comp():
                found = with_body(node, self.scalar(node.body))
                return repeated(found) if isinstance(found, ir.Comp) else found
            case ir.Scatter():
                return ir.intern(replace(node, body=self.scalar(node.body)))
        return node

    def scalar(self, root: ir.Scalar) -> ir.Scalar:
        for s in ir.scalars(root):
            if s not in self.simple:
                new = known_number(ir.rebuild(s, lambda x: self.simple[x]))
                self.simple[s] = simpler(new) if isinstance(new, ir.Op) else new
        return self.simple[root]


def repeated(node: ir.Comp) -> ir.Tensor:
    """sum[k](x) = K x and max[k](x) = x where x does not depend on k."""
    kept, used = len(node.shape), variables(node.body)
    left = [k for k in range(len(node.reduced)) if kept + k in used]
    if node.op not in ("sum", "max", "min") or not is_float(node.dtype) or len(left) == len(node.reduced):
        return node
    forms = {n: keep(n) for n in range(kept)} | {kept + k: keep(kept + j) for j, k in enumerate(left)}
    body = Change(forms).scalar(node.body)
    for k, size in enumerate(node.reduced):
        if k not in left and node.op == "sum":
            body = ir.op("*", (ir.intern(ir.SizeOf(size, "float")), body), node.dtype)
    reduced = tuple(node.reduced[k] for k in left)
    return ir.comp(node.shape, body, node.op if left else None, reduced, node.name, node.span, node.dtype)


def known_number(s: ir.Scalar) -> ir.Scalar:
    """The number that a tensor has at all places, for a read of it."""
    if isinstance(s, ir.Read) and s.outside is None and isinstance(s.tensor, ir.Comp) and is_float(s.dtype):
        body = s.tensor.body
        if s.tensor.op is None and isinstance(body, ir.Const) and _number(body) is not None:
            return ir.const(body.value, s.dtype)
    return s


def simpler(s: ir.Op) -> ir.Scalar:
    """One operation on simple operands."""
    if not is_float(s.dtype):
        return s
    match s.name:
        case "*" | "/" | "neg":
            return product(s)
        case "+" | "-":
            a, b = s.args
            if _number(a) is not None and _number(b) is not None:
                x, y = float(_number(a) or 0), float(_number(b) or 0)
                return ir.const(decimals.fold(s.name, x, y), s.dtype)
            if (joined := _same_choice(s, a, b)) is not None:
                return joined
            if _is(b, 0.0) and a.dtype == s.dtype:
                return a
            if _is(a, 0.0) and s.name == "+" and b.dtype == s.dtype:
                return b
        case "^" if _is(s.args[1], 0.0):
            return ir.const(1.0, s.dtype)
        case "select" if _is_zero_at_zero(s):
            return s.args[1]
        case "sqrt":
            square = _number(s.args[0])
            if square is not None and square >= 0:
                return ir.const(math.sqrt(square), s.dtype)
    return s


def _is_zero_at_zero(s: ir.Op) -> bool:
    """select(x != 0, c sign(x), 0) = c sign(x) for a known number or size c: the derivative of c |x|."""
    condition, chosen, other = s.args
    if not (
        isinstance(condition, ir.Op) and condition.name == "!=" and _is(condition.args[1], 0.0) and _is(other, 0.0)
    ):
        return False
    parts = split(chosen, sink=False)
    unknown = [x for x in (*parts.above, *parts.below) if _number(x) is None and not isinstance(x, ir.SizeOf)]
    return chosen.dtype == s.dtype and unknown == [ir.op("sign", (condition.args[0],), condition.args[0].dtype)]


def _same_choice(s: ir.Op, a: ir.Scalar, b: ir.Scalar) -> ir.Scalar | None:
    """select(c, x, 0) + select(c, y, 0) = select(c, x + y, 0)"""
    if not (isinstance(a, ir.Op) and isinstance(b, ir.Op) and a.name == b.name == "select" and a.args[0] is b.args[0]):
        return None
    for k in (1, 2):
        if _is(a.args[k], 0.0) and _is(b.args[k], 0.0):
            both = simpler(ir.op(s.name, (a.args[3 - k], b.args[3 - k]), s.dtype))
            nothing = ir.const(0.0, s.dtype)
            return ir.op("select", (a.args[0], both, nothing) if k == 2 else (a.args[0], nothing, both), s.dtype)
    return None


def product(s: ir.Op) -> ir.Scalar:
    """A product with one constant at most, in front."""
    parts = split(s, sink=False)
    numbers = [x for x in (*parts.above, *parts.below) if _number(x) is not None]
    if not numbers or (len(numbers) == 1 and not _is(numbers[0], 1.0) and not _halves(s)):
        return s
    value = -1.0 if parts.negative else 1.0
    for x in parts.above:
        value *= 1.0 if (n := _number(x)) is None else n
    for x in parts.below:
        value /= 1.0 if (n := _number(x)) is None else (n or math.nan)
    value = decimals.shortest(value, 2 * len(numbers))  # numbers such as sqrt(2) are rounded themselves
    above = [x for x in parts.above if _number(x) is None]
    below = [x for x in parts.below if _number(x) is None]
    if not math.isfinite(value) or not is_float(s.dtype) or any(_number(x) == 0 for x in numbers):
        return s
    negative = value == -1.0
    if value not in (1.0, -1.0) or not above:
        above.insert(0, ir.const(abs(value) if negative else value, s.dtype))
    result = join(Product(tuple(above), tuple(below), negative), s.dtype)
    return result if result.dtype == s.dtype else s


def _halves(s: ir.Op) -> bool:
    """A quotient by a power of two is the product with its inverse, exactly."""
    x = _number(s.args[1]) if s.name == "/" else None
    return x is not None and x > 0 and math.frexp(x)[0] == 0.5


def _number(s: ir.Scalar) -> float | None:
    if isinstance(s, ir.Const) and not isinstance(s.value, bool) and math.isfinite(s.value):
        return float(s.value)
    return None


def _is(s: ir.Scalar, value: float) -> bool:
    return isinstance(s, ir.Const) and not isinstance(s.value, bool) and s.value == value

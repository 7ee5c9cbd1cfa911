"""Where constants stand in formulas, so that formulas which mean the same are the same.

A factor is in front of its product; it leaves the sums and choices with 0 that it can leave, and enters choices with
infinity. A constant multiple of a tensor is read as that multiple by contractions, whose sums it then leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.passes.elementwise import Inlined, contraction
from dslc.passes.products import Product, join, split
from dslc.passes.transform import Outputs, Transform, with_body


@dataclass(frozen=True)
class Multiple:
    """c x, or x / c where `below`."""

    c: ir.Scalar
    below: bool
    x: ir.Scalar

    @property
    def value(self) -> float:
        c = number(self.c) or 1.0
        return 1.0 / c if self.below else c

    def of(self, x: ir.Scalar, dtype: str) -> ir.Scalar:
        """The same multiple of another scalar."""
        return ir.op("/", (x, self.c), dtype) if self.below else ir.op("*", (self.c, x), dtype)


def multiple(s: ir.Scalar) -> Multiple | None:
    """A scalar as a multiple, if it is one and of the same dtype."""
    if isinstance(s, ir.Op) and s.name in ("*", "/"):
        c, x = s.args if s.name == "*" else reversed(s.args)
        if number(c) is not None and x.dtype == s.dtype:
            return Multiple(c, s.name == "/", x)
    return None


def number(s: ir.Scalar) -> float | None:
    if isinstance(s, ir.Const) and not isinstance(s.value, bool) and math.isfinite(s.value) and s.value != 0:
        return float(s.value)
    return None


def is_infinite(s: ir.Scalar) -> bool:
    return isinstance(s, ir.Const) and math.isinf(float(s.value))


def is_contracted(s: ir.Scalar) -> bool:
    return isinstance(s, ir.Read) and isinstance(s.tensor, ir.Comp) and contraction(s.tensor)


# ---- rules -------------------------------------------------------------------------------------------


def of_numbers(s: ir.Op) -> ir.Scalar | None:
    """1 / 4 = 0.25"""
    a, b = (number(x) for x in s.args)
    return None if a is None or b is None else ir.const(a / b, s.dtype)


def in_front(s: ir.Op) -> ir.Scalar | None:
    """x c y = c (x y); x / c y = (x y) / c, and that is (1 / c) (x y) where a contraction is among them"""
    parts = split(s, sink=False)
    divisors = [x for x in parts.below if number(x) is not None]
    numbers = [x for x in parts.above if number(x) is not None]
    if not numbers and not divisors:
        return None
    divided = not numbers and not any(map(is_contracted, parts.above))
    sign = -1.0 if parts.negative else 1.0
    value = sign * math.prod(number(x) or 1.0 for x in numbers) / math.prod(number(x) or 1.0 for x in divisors)
    above = tuple(x for x in parts.above if x not in numbers)
    below = tuple(x for x in parts.below if x not in divisors)
    if not above or not 1e-30 < abs(value) < 1e30:
        return None
    unit = abs(value) == 1.0
    rest = join(Product(above, below, (unit or divided) and value < 0), s.dtype)
    if rest.dtype != s.dtype:
        return None
    if divided:
        made: ir.Scalar = ir.op(
            "/", (rest, divisors[0] if len(divisors) == 1 else ir.const(1.0 / abs(value), s.dtype)), s.dtype
        )
    else:
        made = rest if unit else ir.op("*", (ir.const(value, s.dtype), rest), s.dtype)
    return None if made is s else made


def into_choice(s: ir.Op) -> ir.Scalar | None:
    """c (x if p else -inf) = (c x if p else -inf), c > 0"""
    found = multiple(s)
    if found is None or not (isinstance(found.x, ir.Op) and found.x.name == "select"):
        return None
    test, *sides = found.x.args
    if not any(is_infinite(x) for x in sides) or found.value < 0:
        return None
    return ir.op("select", (test, *(x if is_infinite(x) else front(found.of(x, s.dtype)) for x in sides)), s.dtype)


def front(s: ir.Scalar) -> ir.Scalar:
    return (in_front(s) if isinstance(s, ir.Op) else None) or s


def out_of_choice(s: ir.Op) -> ir.Scalar | None:
    """(c x if p else 0) = c (x if p else 0)"""
    test, a, b = s.args
    found = multiple(a)
    if found is None or not (isinstance(b, ir.Const) and b.value == 0) or a.dtype != s.dtype:
        return None
    return found.of(ir.op("select", (test, found.x, b), s.dtype), s.dtype)


def out_of_sum(s: ir.Op) -> ir.Scalar | None:
    """c x + c y = c (x + y)"""
    a, b = (multiple(x) for x in s.args)
    if a is None or b is None or a.value != b.value:
        return None
    return (b if a.below else a).of(ir.op(s.name, (a.x, b.x), s.dtype), s.dtype)


def difference(s: ir.Op) -> ir.Scalar | None:
    """x + -y = x - y"""
    a, b = s.args
    if isinstance(b, ir.Op) and b.name == "neg" and b.args[0].dtype == s.dtype:
        return ir.op("-", (a, b.args[0]), s.dtype)
    return None


RULES: tuple[tuple[str, Callable[[ir.Op], ir.Scalar | None]], ...] = (
    ("/", of_numbers),
    ("*", into_choice),
    ("/", into_choice),
    ("*", in_front),
    ("/", in_front),
    ("neg", in_front),
    ("select", out_of_choice),
    ("+", out_of_sum),
    ("+", difference),
    ("-", out_of_sum),
)


def rewritten(s: ir.Op) -> ir.Scalar:
    for name, rule in RULES:
        if s.name == name and (new := rule(s)) is not None:
            return new
    return s


# ---- passes ------------------------------------------------------------------------------------------


class Normal(Transform):
    """A graph whose formulas have their constants in the standard places."""

    def __init__(self) -> None:
        super().__init__()
        self.normal: dict[ir.Scalar, ir.Scalar] = {}

    def visit(self, node: ir.Node) -> ir.Node:
        return with_body(node, self.scalar(node.body)) if isinstance(node, ir.Comp) else node

    def scalar(self, root: ir.Scalar) -> ir.Scalar:
        for s in ir.scalars(root):
            if s not in self.normal:
                new = ir.rebuild(s, lambda x: self.normal[x])
                self.normal[s] = rewritten(new) if isinstance(new, ir.Op) and is_float(new.dtype) else new
        return self.normal[root]


def normalised(outputs: Outputs) -> dict[str, ir.Tensor]:
    return Normal().outputs(outputs)


class Multiples(Inlined):
    """A graph in which contractions read constant multiples as what they are multiples of."""

    def worth(self, node: ir.Comp, user: ir.Comp) -> bool:
        found = multiple(node.body)
        if found is None or not contraction(user):
            return False
        return isinstance(found.x, ir.Read) and not any(isinstance(p, ir.Data) for p in found.x.places)


def unscaled(outputs: Outputs) -> dict[str, ir.Tensor]:
    return Multiples(outputs).outputs(outputs)

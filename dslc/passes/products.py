"""Products of scalars taken apart: factors above and below the bar, and the sign."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.ir.algebra import is_zero
from dslc.ir.nodes import variables as variables
from dslc.passes.finite import is_finite
from dslc.stabilise.moments import is_scaled


@dataclass(frozen=True)
class Product:
    """`sign * above / below`."""

    above: tuple[ir.Scalar, ...]
    below: tuple[ir.Scalar, ...]
    negative: bool = False


def split(body: ir.Scalar, sink: bool = True) -> Product:
    """The factors of a float product; with `sink`, a condition around it goes to factors that have all its variables.

    select(c, a * b, 0) = select(c, a, 0) * b where b is finite
    """
    above: list[ir.Scalar] = []
    below: list[ir.Scalar] = []
    negative = False
    stack: list[tuple[ir.Scalar, bool]] = [(body, False)]
    while stack:
        s, under = stack.pop()
        match s:
            case ir.Op("*", (a, b)) if is_float(s.dtype) and is_float(a.dtype) and is_float(b.dtype):
                stack += [(b, under), (a, under)]
            case ir.Op("/", (a, b)) if is_float(s.dtype) and is_float(a.dtype) and not is_scaled(s):
                stack += [(b, not under), (a, under)]
            case ir.Op("neg", (a,)) if is_float(s.dtype):
                negative = not negative
                stack.append((a, under))
            case ir.Op("select") if sink and not under and (moved := _sink(s)) is not None:
                stack.append((moved, under))
            case _:
                (below if under else above).append(s)
    return Product(tuple(above), tuple(below), negative)


def _sink(s: ir.Op) -> ir.Scalar | None:
    """A product with its condition moved to its factors; None where that is not possible."""
    condition, a, b = s.args
    if not is_zero(a) and not is_zero(b):
        return None
    value = a if is_zero(b) else b
    if not (isinstance(value, ir.Op) and value.name in ("*", "/", "neg")):
        return None
    product = split(value)
    if len(product.above) + len(product.below) < 2:
        return None
    found = masked(product, condition, value is a)
    return None if found is None else join(found, value.dtype)


def masked(product: Product, condition: ir.Scalar, holds: bool = True) -> Product | None:
    """The product where a condition holds (or does not), 0 elsewhere: the condition stands on factors.

    It goes to factors that have all its variables: to one above the bar, and to those that may be infinite where the
    product is not wanted. Where another factor may be, a factor 0 would not make the product 0: None.
    """
    needed = variables(condition)

    def chosen(factor: ir.Scalar, neutral: float) -> ir.Scalar:
        other = ir.const(neutral, factor.dtype)
        return ir.op("select", (condition, *((factor, other) if holds else (other, factor))), factor.dtype)

    first = next((k for k, x in enumerate(product.above) if needed <= variables(x)), None)
    if first is None:
        return None
    above: list[ir.Scalar] = []
    for k, x in enumerate(product.above):
        covers = needed <= variables(x)
        if not covers and not is_finite(x):
            return None
        above.append(chosen(x, 0.0) if k == first or (covers and not is_finite(x, data=True)) else x)
    below: list[ir.Scalar] = []
    for x in product.below:
        covers = needed <= variables(x)
        inverse = ir.op("/", (ir.const(1.0, x.dtype), x), "float")
        if not covers and not is_finite(inverse):
            return None
        below.append(chosen(x, 1.0) if covers and not is_finite(inverse, data=True) else x)
    return replace(product, above=tuple(above), below=tuple(below))


def times(factors: Iterable[ir.Scalar], dtype: str) -> ir.Scalar | None:
    result: ir.Scalar | None = None
    for x in factors:
        if result is None:
            result = x
        else:  # sizes stay whole numbers
            result = ir.op("*", (result, x), dtype if is_float(result.dtype) or is_float(x.dtype) else "i64")
    return result


def join(product: Product, dtype: str) -> ir.Scalar:
    """The product as one scalar."""
    above = times(product.above, dtype)
    below = times(product.below, dtype)
    if above is None:
        above = ir.const(1.0, dtype)
    result = above if below is None else ir.op("/", (above, below), dtype)
    return ir.op("neg", (result,), dtype) if product.negative else result


def select(product: Product, keep: Sequence[bool]) -> tuple[Product, Product]:
    """The factors (first those above, then those below) that are kept, with the sign, and the others."""
    marks = list(keep)
    above = tuple(zip(product.above, marks[: len(product.above)], strict=True))
    below = tuple(zip(product.below, marks[len(product.above) :], strict=True))
    kept = Product(tuple(x for x, k in above if k), tuple(x for x, k in below if k), product.negative)
    rest = Product(tuple(x for x, k in above if not k), tuple(x for x, k in below if not k))
    return kept, rest

"""Factors with few variables are multiplied first, so that large arrays meet few operations.

    scale[c] * (x[n, c] - mu[c]) / sqrt(v[c])   =   (scale[c] / sqrt(v[c])) * (x[n, c] - mu[c])
    lr * m[i] / c                               =   (lr / c) * m[i]

A sum of products stays as it is: its factors belong to a matrix product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.passes.products import split, variables
from dslc.passes.transform import Outputs, Transform
from dslc.sizes import Size, estimate


def gather_factors(outputs: Outputs) -> dict[str, ir.Tensor]:
    return _Gather().outputs(outputs)


class _Gather(Transform):
    def visit(self, node: ir.Node) -> ir.Node:
        match node:
            case ir.Comp():
                body = gathered(node.body, (*node.shape, *node.reduced), node.op == "sum")
                if body is not node.body:
                    return ir.comp(node.shape, body, node.op, node.reduced, node.name, node.span, node.dtype)
            case ir.Scatter():
                body = gathered(node.body, node.ranges, True)
                if body is not node.body:
                    return ir.intern(replace(node, body=body))
        return node


def gathered(root: ir.Scalar, sizes: tuple[Size, ...], keep_root: bool = False) -> ir.Scalar:
    """A formula with the factors of its products in the cheapest order."""
    if not any(isinstance(s, ir.Op) and s.name in ("*", "/") for s in ir.scalars(root)):
        return root
    weights = [estimate(s, 256) for s in sizes]
    inner = {x for s in ir.scalars(root) if _is_product(s) for x in ir.operands(s) if _is_product(x)}
    done: dict[ir.Scalar, ir.Scalar] = {}
    for s in ir.scalars(root):
        new = ir.rebuild(s, lambda x: done[x])
        whole = _is_product(s) and s not in inner and not (keep_root and s is root)
        done[s] = ordered(new, weights) if whole else new
    return done[root]


def _is_product(s: ir.Scalar) -> bool:
    return isinstance(s, ir.Op) and s.name in ("*", "/") and is_float(s.dtype)


@dataclass
class Group:
    """Factors over the same variables."""

    over: frozenset[int]
    above: list[ir.Scalar] = field(default_factory=list)
    below: list[ir.Scalar] = field(default_factory=list)


def ordered(s: ir.Scalar, weights: list[float]) -> ir.Scalar:
    """A product in its cheapest order, or as it is when that costs no more."""
    parts = split(s, sink=False)
    groups: dict[frozenset[int], Group] = {}
    for x in parts.above:
        groups.setdefault(variables(x), Group(variables(x))).above.append(x)
    for x in parts.below:
        groups.setdefault(variables(x), Group(variables(x))).below.append(x)
    if len(groups) < 2:
        return s

    def weight(over: frozenset[int]) -> float:
        total = 1.0
        for n in over:
            total *= weights[n]
        return total

    waiting = sorted(groups.values(), key=lambda g: weight(g.over))
    while len(waiting) > 1:
        small = waiting.pop(0)
        target = min(waiting, key=lambda g: (weight(g.over | small.over), weight(g.over)))
        target.over |= small.over
        if small.above:
            target.above.insert(0, _value(small, s.dtype))
        else:
            target.below += small.below
        waiting.sort(key=lambda g: weight(g.over))
    result = _value(waiting[0], s.dtype)
    if parts.negative:
        result = ir.op("neg", (result,), s.dtype)
    if result.dtype != s.dtype or _cost(result, weight) >= _cost(s, weight):
        return s
    return result


def _value(group: Group, dtype: str) -> ir.Scalar:
    above = group.above or [ir.const(1.0, dtype)]
    result = above[0]
    for x in above[1:]:
        result = ir.op("*", (result, x), _common(result, x, dtype))
    for x in group.below:
        result = ir.op("/", (result, x), dtype)
    return result


def _common(a: ir.Scalar, b: ir.Scalar, dtype: str) -> str:
    """Sizes stay whole numbers until they meet a float."""
    return dtype if is_float(a.dtype) or is_float(b.dtype) else "i64"


def _cost(s: ir.Scalar, weight: Callable[[frozenset[int]], float]) -> float:
    """What the products of a formula cost; a value that is used twice counts once."""
    counted = (x for x in ir.scalars(s) if isinstance(x, ir.Op) and x.name in ("*", "/", "neg"))
    return sum(weight(variables(x)) for x in counted)

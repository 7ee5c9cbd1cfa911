"""Which values are certainly finite, so that a factor 0 wipes them out.

    sum[n](x[n] * log(x[n]) if x[n] > 0 else 0)   is not   sum[n]((x[n] if x[n] > 0 else 0) * log(x[n])),

for log(0) is infinite. What goes in is taken to be finite, or with `data` only parameters are: data may hold NaN where
a mask hides it. Overflow of sums and products of finite numbers does not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.meaning.signs import not_negative, positive, shifted
from dslc.ops.record import FiniteFor
from dslc.ops.table import RECORDS

Known = dict[ir.Node, bool]

#: what is asked of finite arguments for a finite result
FINITE: dict[FiniteFor, Callable[[ir.Scalar], bool]] = {
    "any": lambda s: True, "not negative": not_negative, "positive": positive, "none": lambda s: False,
}  # fmt: skip


@ir.remembered
def _known(data: bool) -> Known:
    """What is known about the nodes of this compilation."""
    return {}


def is_finite(s: ir.Scalar, data: bool = False, known: Known | None = None) -> bool:
    """Is a scalar finite wherever inputs are? With `data`, whatever the data are, beside what is `known` already."""
    known = _known(data) if known is None else known
    for x in ir.scalars(s):
        if isinstance(x, ir.Read):
            _learn(x.tensor, known, data)
    return _scalar(s, known)


def _learn(root: ir.Node, known: Known, data: bool) -> None:
    stack = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if node in known:
            continue
        if ready:
            known[node] = _node(node, known, data)
        else:
            stack.append((node, True))
            stack.extend((x, False) for x in _below(node) if x not in known)


def _below(node: ir.Node) -> tuple[ir.Node, ...]:
    match node:
        case ir.Scan():
            return (*ir.arguments(node), *ir.inside(node)[0])
        case ir.Part(of=ir.Scan() as scan):  # other results of a loop do not matter
            return (*scan.starts, *scan.carries, *scan.results[node.number : node.number + 1])
    return ir.arguments(node)


def _node(node: ir.Node, known: Known, data: bool) -> bool:
    match node:
        case ir.Input():
            return not is_float(node.dtype) or not data or node.role == "param"
        case ir.Step():
            return True
        case ir.Comp():
            return not is_float(node.dtype) or _scalar(node.body, known)
        case ir.Scatter():
            filled = node.op == "+" or node.base is not None
            return filled and _scalar(node.body, known) and (node.base is None or known[node.base])
        case ir.External():
            return False
    return all(known[x] for x in _below(node))


def _scalar(root: ir.Scalar, known: Known) -> bool:
    finite: dict[ir.Scalar, bool] = {}
    for s in ir.scalars(root):
        below = all(finite[x] for x in ir.operands(s))
        match s:
            case ir.Const():
                finite[s] = math.isfinite(s.value)
            case ir.Read():
                finite[s] = below and known[s.tensor]
            case ir.Op("/", (_, b)):
                finite[s] = below and _is_nonzero(b)
            case ir.Op("exp", (a,)):
                finite[s] = shifted(a)
            case ir.Op("^", (_, ir.Const() as n)):
                finite[s] = below and n.value in (1, 2, 3, 4)
            case ir.Op():
                finite[s] = below and all(map(FINITE[RECORDS[s.name].finite_for], s.args))
            case _:
                finite[s] = True
    return finite[root]


def _is_nonzero(s: ir.Scalar) -> bool:
    """Is it positive, a number, or 1 in place of 0?"""
    match s:
        case ir.Const():
            return s.value != 0
        case ir.Op("neg", (a,)):
            return _is_nonzero(a)
        case ir.Op("select", (ir.Op("==", (a, ir.Const() as none)), ir.Const() as instead, b)):
            return a is b and none.value == 0 and instead.value != 0
    return positive(s)

"""The normal distribution by a function of its own: NumPy has no error function, and this one takes fewer passes.

erfc(-x / sqrt(2)) = 2 normal_cdf(x)
x normal_cdf(x) = gelu(x)               where nothing else needs normal_cdf(x)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from dslc.ir import nodes as ir
from dslc.passes.simplify import simplify
from dslc.passes.transform import Outputs, Transform, everything, with_body


def use_normal(outputs: Outputs) -> dict[str, ir.Tensor]:
    """The same program with normal_cdf(x) in place of erfc(-x / sqrt(2)) / 2."""
    if not any(_is_normal(s) for s in _scalars(outputs)):
        return dict(outputs)
    found = simplify(_Normal().outputs(outputs))
    uses: dict[ir.Scalar, set[ir.Scalar]] = {}
    for s in _scalars(found):
        for x in ir.operands(s):
            uses.setdefault(x, set()).add(s)
    nodes = {
        node for node in everything(found) for body in ir.bodies(node)
        if (gates := [cdf for s in ir.scalars(body) if (cdf := _gate(s)) is not None])
        and all(len(uses[cdf]) == 1 for cdf in gates)
    }  # fmt: skip
    return _Gelu(nodes).outputs(found) if nodes else found


def _scalars(outputs: Outputs) -> Iterator[ir.Scalar]:
    return (s for node in everything(outputs) for body in ir.bodies(node) for s in ir.scalars(body))


def _gate(s: ir.Scalar) -> ir.Scalar | None:
    """normal_cdf(x), when a scalar is x normal_cdf(x)."""
    if not isinstance(s, ir.Op) or s.name != "*":
        return None
    for x, cdf in (s.args, s.args[::-1]):
        if isinstance(cdf, ir.Op) and cdf.name == "normal_cdf" and cdf.args == (x,):
            return cdf
    return None


def _gated(s: ir.Scalar) -> ir.Scalar | None:
    """x, when a scalar is x normal_cdf(x)."""
    cdf = _gate(s)
    return cdf.args[0] if isinstance(cdf, ir.Op) else None


def _is_normal(s: ir.Scalar) -> bool:
    return _argument(s) is not None


def _argument(s: ir.Scalar) -> ir.Scalar | None:
    """x, when a scalar is erfc(-x / sqrt(2))."""
    if not isinstance(s, ir.Op) or s.name != "erfc":
        return None
    quotient, sign = _unsigned(s.args[0], 1)
    if not isinstance(quotient, ir.Op) or quotient.name != "/":
        return None
    above, sign = _unsigned(quotient.args[0], sign)
    below, sign = _unsigned(quotient.args[1], sign)
    value = float(below.value) if isinstance(below, ir.Const) else math.nan
    return above if math.isclose(sign * value, -math.sqrt(2), rel_tol=1e-15) else None


def _unsigned(s: ir.Scalar, sign: int) -> tuple[ir.Scalar, int]:
    """A scalar without the minus before it, and the sign with it."""
    while isinstance(s, ir.Op) and s.name == "neg":
        s, sign = s.args[0], -sign
    return s, sign


class _Normal(Transform):
    def visit(self, node: ir.Node) -> ir.Node:
        return _mapped(node, _argument, lambda x: ir.op("*", (ir.const(2.0, x.dtype), _of("normal_cdf", x)), x.dtype))


class _Gelu(Transform):
    def __init__(self, nodes: set[ir.Node]):
        super().__init__()
        self.nodes = nodes

    def _one(self, node: ir.Node) -> ir.Node:
        new = super()._one(node)
        return _mapped(new, _gated, lambda x: _of("gelu", x)) if node in self.nodes else new


def _of(function: str, x: ir.Scalar) -> ir.Scalar:
    return ir.op(function, (x,), x.dtype)


def _mapped(
    node: ir.Node, argument: Callable[[ir.Scalar], ir.Scalar | None], made: Callable[[ir.Scalar], ir.Scalar]
) -> ir.Node:
    """A comprehension with `made(x)` in place of the scalars whose `argument` is x."""
    if not isinstance(node, ir.Comp) or all(argument(s) is None for s in ir.scalars(node.body)):
        return node
    done: dict[ir.Scalar, ir.Scalar] = {}
    for s in ir.scalars(node.body):
        x = argument(s)
        done[s] = ir.rebuild(s, lambda below: done[below]) if x is None else made(done[x])
    return with_body(node, done[node.body])

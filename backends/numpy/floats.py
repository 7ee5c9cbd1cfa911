"""Whole numbers that meet floats are made floats of the module's dtype first.

k[i] x[i]  gives  float(k[i]) x[i],  and a float value i + 1  float(i + 1)

NumPy would make float64 of an array of int64 and one of float32. Python's numbers (constants, sizes, steps of loops)
take the dtype of what they meet, and stay as they are.
"""

from __future__ import annotations

from dslc.backends.numpy.body import is_plain

from dslc.dtypes import is_float, is_int
from dslc.ir import nodes as ir
from dslc.passes.transform import Outputs, Transform, everything, with_body


def use_floats(outputs: Outputs) -> dict[str, ir.Tensor]:
    """The same program in which all operands of an operation on floats are floats, or numbers of Python."""
    return _Floats().outputs(outputs) if any(map(_needs_floats, everything(outputs))) else dict(outputs)


def _needs_floats(node: ir.Node) -> bool:
    return _is_whole_inside(node) or any(_is_mixed(s) for body in ir.bodies(node) for s in ir.scalars(body))


def _is_whole_inside(node: ir.Node) -> bool:
    """Whether a float value is computed in whole numbers, as the slope i + 1 of (i + 1) x[k] is."""
    return isinstance(node, ir.Comp) and is_float(node.dtype) and _is_whole_array(node.body)


def _is_mixed(s: ir.Scalar) -> bool:
    return isinstance(s, ir.Op) and is_float(s.dtype) and s.name != "cast" and any(map(_is_whole_array, s.args))


def _is_whole_array(s: ir.Scalar) -> bool:
    return is_int(s.dtype) and not all(is_plain(x) and not isinstance(x, ir.Var) for x in ir.scalars(s))


class _Floats(Transform):
    def visit(self, node: ir.Node) -> ir.Node:
        if not _needs_floats(node):
            return node
        if isinstance(node, ir.Scatter):
            parts = (node.shape, node.ranges, node.places, node.op, _converted(node.body), node.base)
            return ir.intern(ir.Scatter(*parts, node.dtype, node.name, node.span))
        assert isinstance(node, ir.Comp)
        body = _converted(node.body)
        return with_body(node, ir.op("cast", (body,), _float(node.dtype)) if _is_whole_inside(node) else body)


def _converted(body: ir.Scalar) -> ir.Scalar:
    done: dict[ir.Scalar, ir.Scalar] = {}
    for s in ir.scalars(body):
        new = ir.rebuild(s, lambda below: done[below])
        if _is_mixed(new):
            assert isinstance(new, ir.Op)
            args = tuple(ir.op("cast", (x,), _float(new.dtype)) if _is_whole_array(x) else x for x in new.args)
            new = ir.op(new.name, args, new.dtype)
        done[s] = new
    return done[body]


def _float(dtype: str) -> str:
    return "f64" if dtype == "f64" else "float"

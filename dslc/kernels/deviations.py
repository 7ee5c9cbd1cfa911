"""The sum of the deviations from a mean is 0: the adjoints of layer norm and batch norm ask for it, and need not.

sum[e](x[e] - mean[e](x[e])) = 0
"""

from __future__ import annotations

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.kernels.constants import number
from dslc.kernels.sums import plain_variable
from dslc.passes.transform import Outputs, Transform
from dslc.sizes import Size, tidy


class Deviations(Transform):
    """A graph without sums of deviations, and without the terms that they are factors of."""

    def __init__(self) -> None:
        super().__init__()
        self.nothing: set[ir.Node] = set()

    def _one(self, node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Comp) and is_sum_of_deviations(node):
            self.nothing.add(node)
            return ir.comp(node.shape, ir.const(0.0, node.dtype), name=node.name, span=node.span, dtype=node.dtype)
        if isinstance(node, ir.Comp) and any(a in self.nothing for a in ir.arguments(node)):
            body = self.without(node.body)
            if body is None and node.op in (None, "sum"):
                self.nothing.add(node)
            left = ir.const(0.0, node.body.dtype) if body is None else body
            node = ir.intern(ir.Comp(node.shape, node.reduced, node.op, left, node.dtype, node.name, node.span))
        return super()._one(node)

    def without(self, root: ir.Scalar) -> ir.Scalar | None:
        """A formula without what is 0 in it; None if nothing is left."""
        done: dict[ir.Scalar, ir.Scalar | None] = {}

        def value(s: ir.Scalar) -> ir.Scalar:
            found = done[s]
            return ir.const(0.0, s.dtype) if found is None else found

        for s in ir.scalars(root):
            done[s] = ir.rebuild(s, value)
            if isinstance(s, ir.Read) and s.tensor in self.nothing and s.outside is None:
                done[s] = None
            elif isinstance(s, ir.Op) and is_float(s.dtype):
                gone = [done[x] is None for x in s.args]
                if (s.name == "*" and any(gone)) or (s.name in ("/", "neg") and gone[0]):
                    done[s] = None
                elif s.name in ("+", "-") and any(gone):
                    a, b = s.args
                    rest = None if all(gone) else value(a) if gone[1] else value(b)
                    done[s] = ir.op("neg", (rest,), s.dtype) if rest is not None and s.name == "-" and gone[0] else rest
        return done[root]


def is_sum_of_deviations(node: ir.Comp) -> bool:
    """Is it the sum of x - mean x, the mean over what is summed?"""
    s = node.body
    if node.op != "sum" or not (isinstance(s, ir.Op) and s.name == "-" and all(isinstance(x, ir.Read) for x in s.args)):
        return False
    a, b = (opened(x) for x in s.args if isinstance(x, ir.Read))
    mean = mean_of(b[1])
    if mean is None or a[0] != b[0] or a[1] is not mean.tensor or len(a[2]) != len(mean.places):
        return False
    rank, outer = len(node.shape), len(b[2])
    used: set[int] = set()
    for here, there in zip(a[2], mean.places, strict=True):
        v = plain_variable(there)
        w = plain_variable(here)
        if v is None or w is None:
            return False
        if v < outer:
            if here is not b[2][v] or w >= rank:
                return False
        elif w < rank or w in used:
            return False
        used.add(w)
    return {w for w in used if w >= rank} == set(range(rank, rank + len(node.reduced)))


def opened(s: ir.Read) -> tuple[object, ir.Tensor, tuple[ir.Place, ...]]:
    """A read of what a scan has stacked as one of the value that was stacked, and of which step."""
    tensor = s.tensor
    if isinstance(tensor, ir.Part) and isinstance(tensor.of, ir.Scan) and tensor.number < len(tensor.of.results):
        if s.places and isinstance(s.places[0], ir.At) and s.places[0].offset == 0:
            return (tensor.of.number, s.places[0]), tensor.of.results[tensor.number], s.places[1:]
    return None, tensor, s.places


def mean_of(tensor: ir.Tensor) -> ir.Read | None:
    """x[k, e] of a tensor m[k] = sum[e](x[k, e]) / size of e."""
    if not isinstance(tensor, ir.Comp) or tensor.op is not None or not isinstance(tensor.body, ir.Op):
        return None
    s = tensor.body
    if s.name == "/":
        top, count = s.args[0], size_of(s.args[1])
    elif s.name == "*" and (c := number(s.args[0])) is not None:
        top, count = s.args[1], 1.0 / c
    else:
        return None
    if not isinstance(top, ir.Read) or not isinstance(top.tensor, ir.Comp) or top.outside is not None:
        return None
    total = top.tensor
    whole = [plain_variable(p) for p in top.places] == list(range(len(tensor.shape)))
    if total.op != "sum" or not whole or not isinstance(total.body, ir.Read) or total.body.outside is not None:
        return None
    extent: Size = 1
    for n in total.reduced:
        extent = tidy(extent * n)
    return total.body if count == extent else None


def size_of(s: ir.Scalar) -> Size | float | None:
    return s.size if isinstance(s, ir.SizeOf) else number(s)


def without_deviations(outputs: Outputs) -> dict[str, ir.Tensor]:
    return Deviations().outputs(outputs)

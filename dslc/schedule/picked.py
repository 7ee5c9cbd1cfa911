"""Scatters in which no two elements meet, as selects: they can share the loops of what reads them."""

from __future__ import annotations

from dslc.ir import nodes as ir
from dslc.passes.comprehensions import gathered, solved_axes
from dslc.passes.transform import Outputs, Transform


class Picked(Transform):
    """A graph in which `for all n: y[n, label[n]] = f(n)` is `y[n, k] = f(n) if k == label[n] else 0`."""

    def _one(self, node: ir.Node) -> ir.Node:
        new = super()._one(node)
        if isinstance(new, ir.Scatter) and new.base is None and len(solved_axes(new)) == len(new.ranges) > 0:
            if all(not isinstance(x, ir.Affine) or x.divisor == 1 for x in new.places):
                return gathered(new)
        return new


def as_selects(outputs: Outputs) -> dict[str, ir.Tensor]:
    return Picked().outputs(outputs)

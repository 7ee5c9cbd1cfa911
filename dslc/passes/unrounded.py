"""Values of 16 bits that have no name keep float32: only a name rounds, and that is a cast of its own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from dslc.ir import nodes as ir
from dslc.passes.narrow import HALVES
from dslc.passes.transform import Outputs, Transform

#: of numbers of 16 bits, these give numbers of 16 bits
EXACT = ("select", "neg", "abs", "max", "min")


class Unrounded(Transform):
    """A program in which sums and formulas of 16-bit numbers are float32; `fixed` nodes keep their dtype."""

    def __init__(self, fixed: Collection[ir.Node]) -> None:
        super().__init__()
        self.fixed = fixed

    def _one(self, node: ir.Node) -> ir.Node:
        new = super()._one(node)
        if not isinstance(new, ir.Comp) or new.dtype not in HALVES or node in self.fixed:
            return new
        if new.op in (None, "max", "min") and is_exact(new.body):
            return new
        return ir.intern(replace(new, dtype="float"))


def is_exact(root: ir.Scalar) -> bool:
    """Is a formula a number of 16 bits whatever its parts are rounded to?"""
    exact: dict[ir.Scalar, bool] = {}
    for s in ir.scalars(root):
        match s:
            case ir.Read():
                exact[s] = s.tensor.dtype in HALVES and (s.outside is None or exact[s.outside])
            case ir.Op() if s.name in EXACT:
                exact[s] = all(exact[x] for x in (s.args[1:] if s.name == "select" else s.args))
            case ir.Op():
                exact[s] = s.name == "cast" and s.dtype in HALVES
            case _:
                exact[s] = isinstance(s, ir.Const)
    return exact[root]


def unrounded(outputs: Outputs) -> dict[str, ir.Tensor]:
    """The results without roundings that no name asks for; results themselves and what loops carry stay as they are."""
    nodes = ir.every_node(outputs.values())
    carried = [x for n in nodes if isinstance(n, ir.Scan) for x in (*n.starts, *n.carries, *n.results)]
    return Unrounded({*outputs.values(), *carried}).outputs(outputs)

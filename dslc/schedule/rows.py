"""What a reduction of a row computes at cost is kept for the map that reads its result, while the row is in the cache.

    s[n] = sum[k](exp(x[n, k] - m[n])),    y[n, k] = exp(x[n, k] - m[n]) / s[n]
becomes
    e[n, k] = exp(x[n, k] - m[n]),    s[n] = sum[k](e[n, k]),    y[n, k] = e[n, k] / s[n]
"""

from __future__ import annotations

from dslc.ir import nodes as ir
from dslc.ops.table import COSTLY
from dslc.passes.transform import Outputs, Transform, everything, with_body
from dslc.schedule.target import Target
from dslc.sizes import Size


class Kept(Transform):
    """A graph in which rows of costly values are computed once."""

    def __init__(self, outputs: Outputs, target: Target) -> None:
        super().__init__()
        self.target = target
        #: the costly parts of a formula that another one shares, by their numbers in the formula
        self.shared: dict[ir.Node, set[int]] = {}
        for user in everything(outputs):
            if isinstance(user, ir.Comp) and user.op is None:
                for s in ir.scalars(user.body):
                    if isinstance(s, ir.Read) and isinstance(s.tensor, ir.Comp) and s.tensor.op and at_row(s):
                        self.share(s.tensor, user)

    def share(self, total: ir.Comp, user: ir.Comp) -> None:
        if not total.shape or domain(total) != user.shape or not self.target.holds(total.reduced):
            return
        own, theirs = costly(total), costly(user)
        for s in own:
            if s in theirs:
                self.shared.setdefault(total, set()).add(own.index(s))
                self.shared.setdefault(user, set()).add(theirs.index(s))

    def visit(self, node: ir.Node) -> ir.Node:
        numbers = self.shared.get(self.origin.get(node, node))
        if numbers is None or not isinstance(node, ir.Comp):
            return node
        found = costly(node)
        if max(numbers) >= len(found):
            return node
        rows = {found[k]: ir.whole(ir.comp(domain(node), found[k], span=node.span)) for k in numbers}
        done: dict[ir.Scalar, ir.Scalar] = {}
        for s in ir.scalars(node.body):
            done[s] = rows[s] if s in rows else ir.rebuild(s, done.__getitem__)
        return with_body(node, done[node.body])


def domain(node: ir.Comp) -> tuple[Size, ...]:
    """The sizes of all variables of a formula."""
    return (*node.shape, *node.reduced)


def costly(node: ir.Comp) -> list[ir.Scalar]:
    """The costly parts of a formula that depend on all of its variables."""
    all_of_them = frozenset(range(len(domain(node))))
    return [
        s for s in ir.scalars(node.body) if isinstance(s, ir.Op) and s.name in COSTLY and ir.variables(s) == all_of_them
    ]


def at_row(s: ir.Read) -> bool:
    return all(x is ir.plain(k) for k, x in enumerate(s.places))


def costly_rows_kept(outputs: Outputs, target: Target) -> dict[str, ir.Tensor]:
    return Kept(outputs, target).outputs(outputs)

"""Sums over several axes in two steps, so that there is work for all threads.

    y[c] = sum[n, h, w](x[n, h, w, c])    becomes    part[n, c] = sum[h, w](x[n, h, w, c]),    y[c] = sum[n](part[n, c])

The parts are added up in the same order whatever the number of threads.
"""

from __future__ import annotations

from dataclasses import replace

from dslc.ir import nodes as ir
from dslc.ir.naming import name_of
from dslc.ir.rewrite import Change, keep
from dslc.passes.transform import Outputs, Transform
from dslc.schedule.products import product_of
from dslc.schedule.target import Target
from dslc.sizes import about

SPLIT = ("sum", "prod", "max", "min", "any", "all")


class Parted(Transform):
    """A graph in which long sums to few results have parts."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target

    def visit(self, node: ir.Node) -> ir.Node:
        if not isinstance(node, ir.Comp) or node.op not in SPLIT or len(node.reduced) < 2:
            return node
        if product_of(node) is not None or not self.worth(node):
            return node
        rank, first = len(node.shape), node.reduced[0]
        forms = {v: keep(v + 1) for v in range(rank)} | {rank: keep(0)}
        forms |= {rank + k: keep(rank + k) for k in range(1, len(node.reduced))}
        body = Change(forms).scalar(node.body)
        part = ir.intern(
            replace(
                node,
                shape=(first, *node.shape),
                reduced=node.reduced[1:],
                body=body,
                name=f"{name_of(node) or node.op}_part",
            )
        )
        places = (ir.plain(rank), *(ir.plain(v) for v in range(rank)))
        return ir.intern(replace(node, reduced=(first,), body=ir.read(part, places)))

    def worth(self, node: ir.Comp) -> bool:
        return about(node.shape) <= self.target.results and about(node.reduced[1:]) >= self.target.part


def in_parts(outputs: Outputs, target: Target) -> dict[str, ir.Tensor]:
    return Parted(target).outputs(outputs)

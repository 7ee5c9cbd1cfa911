"""Inputs of 16 bits as wider numbers, once: products and calls read numbers as they lie in memory.

x: bf16[N, 64]   becomes   bf16(x)[n, i], which is a formula like any other: passes put it into those that read it.
"""

from __future__ import annotations

from dslc.ir import nodes as ir
from dslc.ir.rewrite import Substitute
from dslc.passes.transform import Outputs, everything

HALVES = ("f16", "bf16")


def widened(outputs: Outputs) -> dict[str, ir.Tensor]:
    """A program that reads inputs of 16 bits in formulas alone."""
    found: dict[ir.Node, ir.Node] = {}
    for node in everything(outputs):
        if isinstance(node, ir.Input) and node.dtype in HALVES:
            wide = ir.op("cast", (ir.whole(node),), node.dtype)
            found[node] = ir.comp(node.shape, wide, name=node.name, dtype=node.dtype)
    put = Substitute({}, plain=found, everywhere=True)
    return {name: put.tensor(x) for name, x in outputs.items()} if found else dict(outputs)

"""Statements for comprehensions, views and inputs; the rules of all other kinds come with them."""

from __future__ import annotations

from dslc.backends.numpy import loops as loops
from dslc.backends.numpy import others as others
from dslc.backends.numpy.lower import Lowering as Lowering
from dslc.backends.numpy.lower import statement
from dslc.backends.numpy.text import atom_code, bare, size_code

from dslc.ir import nodes as ir


@statement(ir.Comp)
def comprehension(low: Lowering, node: ir.Node) -> None:
    assert isinstance(node, ir.Comp)
    star = loops.star(low, node) if ir.slice_of_input(node) else ""
    low.assign(node, star or low.full(low.comp(node), node.shape, node.dtype))


@statement(ir.Reshape)
def reshape(low: Lowering, node: ir.Node) -> None:
    assert isinstance(node, ir.Reshape)
    of = atom_code(bare(low.tensor(node.of)))
    low.assign(node, f"{of}.reshape({', '.join(size_code(s) for s in node.shape)})")


@statement(ir.Custom)
def custom(low: Lowering, node: ir.Node) -> None:
    low.names[node] = ""


@statement(ir.Input)
def given(low: Lowering, node: ir.Node) -> None:
    assert isinstance(node, ir.Input) and node in low.layers.stars, f"input {getattr(node, 'name', '')} has no name"


@statement(ir.Step)
def step(low: Lowering, node: ir.Node) -> None:
    assert node in low.names, "a step has the name of its loop"

"""Maps of a value that was only another one in groups are maps of that: then they can be one.

    g[p, a] = f(p, a),   y[i] = h(i, reshape(g)[i])   becomes   z[p, a] = h(2 p + a, g[p, a]),   y = reshape(z)

The gradient of a pooling is such a value, with an axis for the places in a window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, Form, NotAffine
from dslc.passes.transform import Outputs, Transform, everything
from dslc.sizes import Size, product


class Regrouped(Transform):
    """A graph in which maps have the axes of what they read in other groups, and alone."""

    def __init__(self, outputs: Outputs) -> None:
        super().__init__()
        #: how often a node is read, or is a result
        self.users: dict[ir.Node, int] = dict.fromkeys(outputs.values(), 1)
        for node in everything(outputs):
            below = ir.arguments(node)
            if isinstance(node, ir.Scan):
                below = (*below, *node.carries, *node.results)
            for a in below:
                self.users[a] = self.users.get(a, 0) + 1

    def visit(self, node: ir.Node) -> ir.Node:
        if not isinstance(node, ir.Comp) or node.op is not None:
            return node
        for s in ir.scalars(node.body):
            if isinstance(s, ir.Read) and isinstance(s.tensor, ir.Reshape) and whole(s, node):
                groups = self.alone(s.tensor) and grouped(node.shape, s.tensor.of.shape)
                if groups:
                    try:
                        return self.regrouped(node, s.tensor, groups)
                    except NotAffine:
                        continue
        return node

    def alone(self, view: ir.Reshape) -> bool:
        """Is a view of a map all that reads it, and is it read once itself?"""
        node, old = self.origin.get(view.of, view.of), self.origin.get(view, view)
        return (
            isinstance(view.of, ir.Comp)
            and view.of.op is None
            and self.users.get(node, 0) == 1
            and self.users.get(old, 0) == 1
        )

    def regrouped(self, node: ir.Comp, view: ir.Reshape, groups: Sequence[Sequence[int]]) -> ir.Node:
        shape = view.of.shape
        forms: dict[int, Form] = {}
        for v, group in enumerate(groups):
            terms: list[tuple[int, Size]] = []
            step: Size = 1
            for axis in reversed(group):
                terms.append((axis, step))
                step = step * shape[axis]
            forms[v] = Form(tuple(reversed(terms)))
        change = Change(forms)

        def read(s: ir.Read) -> ir.Scalar:
            if not whole(s, node):
                return change.scalar(s)
            of = s.tensor.of if isinstance(s.tensor, ir.Reshape) else s.tensor
            same = of if of.shape == shape else ir.intern(replace(view, of=s.tensor, shape=shape, dtype=s.tensor.dtype))
            return ir.intern(ir.Read(same, ir.whole(same).places, s.dtype))

        done: dict[ir.Scalar, ir.Scalar] = {}
        for s in ir.scalars(node.body):
            if isinstance(s, ir.Read):
                done[s] = read(s)
            elif isinstance(s, ir.Var):
                done[s] = change.scalar(s)
            else:
                done[s] = ir.rebuild(s, done.__getitem__)
        made = ir.comp(shape, done[node.body], name=node.name, span=node.span, dtype=node.dtype)
        return ir.intern(replace(view, of=made, shape=node.shape, dtype=node.dtype))


def whole(s: ir.Read, node: ir.Comp) -> bool:
    """Is a read one of the same place of a value of the same shape?"""
    return (
        s.outside is None
        and s.tensor.shape == node.shape
        and all(place is ir.plain(k) for k, place in enumerate(s.places))
    )


def grouped(shape: Sequence[Size], finer: Sequence[Size]) -> list[list[int]] | None:
    """Which axes of a finer shape each axis of a shape is made of; None where that cannot be said."""
    groups: list[list[int]] = []
    axes = iter(range(len(finer)))
    for size in shape:
        group: list[int] = []
        while not group or product(finer[v] for v in group) != size:
            axis = next(axes, None)
            if axis is None:
                return None
            group.append(axis)
        groups.append(group)
    return groups if next(axes, None) is None else None


def regrouped(outputs: Outputs) -> dict[str, ir.Tensor]:
    return Regrouped(outputs).outputs(outputs)

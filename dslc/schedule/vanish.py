"""Where nothing is left of a formula: blocks of a kernel that need not be visited."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from dslc.ir import nodes as ir
from dslc.ir.rewrite import plain_variable
from dslc.meaning.known import INF, Value, value_given, value_where_not
from dslc.schedule.form import Kernel, Member, Pass, Product, Region, based
from dslc.schedule.group import is_here


def triangle(kernel: Kernel, members: Sequence[Member]) -> str:
    """Which half of the matrix is empty: "above" or "below" the diagonal, or "" if neither is.

    Above: nothing is left of any member where the column is greater than the row.
    """
    if len(kernel.rows) != 1 or len(kernel.columns) != 1:
        return ""
    row, column = ir.var(kernel.rows[0]), ir.var(kernel.columns[0])
    forms = {
        ("<=", column, row): "above", ("<", column, row): "above", (">=", row, column): "above",
        (">", row, column): "above", ("<=", row, column): "below", ("<", row, column): "below",
        (">=", column, row): "below", (">", column, row): "below",
    }  # fmt: skip
    every = [s for m in members for s in ir.scalars(m.body)]
    tests = dict.fromkeys(s for s in every if isinstance(s, ir.Op) and (s.name, *s.args) in forms)
    for test in tests:
        wanted = {"sum": 0.0, "max": -INF, "argmax": -INF, "min": INF, "argmin": INF}
        if all(value_where_not(m.body, test) == wanted[m.node.op or "sum"] for m in members):
            assert isinstance(test, ir.Op)
            return forms[(test.name, *test.args)]  # type: ignore[index]
    return ""


# ---- in regions ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Triangle:
    """Members of a region that are needed up to the diagonal alone: where the variable `column` is at most `row`."""

    row: int
    column: int
    members: frozenset[ir.Node]

    def bounds(self, p: Pass) -> bool:
        """Do the loops of a pass along the columns end at the diagonal?"""
        return any(m in self.members or self.reads(m) for m in p.members)

    def reads(self, node: ir.Comp) -> bool:
        return any(a in self.members for a in ir.arguments(node))


def below_diagonal(region: Region, local: Collection[ir.Node]) -> Triangle | None:
    """What a region need not compute above the diagonal of its last two axes; `local` are values that it alone reads.

    Whoever reads such an element computes one that is not needed either, or adds nothing for it to a sum or a maximum.
    """
    shape = next((x.shape for x in region.nodes if x.op is None and len(x.shape) > 1 and _tests(x)), None)
    if shape is None or region.depth > len(shape) - 1:
        return None
    row, column = len(shape) - 2, len(shape) - 1
    products = {x.node: x for x in region.items if isinstance(x, Product)}
    values: dict[ir.Node, Value] = {}
    members: set[ir.Node] = set()
    for x in region.nodes:
        if x.shape == shape and x.op is None:
            values[x] = _above(x, values, column)
        product = products.get(x)
        if x in local and x.shape == shape:
            if x.op is None or (product is not None and (product.rows, product.columns) == (row, column)):
                members.add(x)
    while True:
        bad = {z for x in region.nodes for z in _needed_above(x, members, values, products.get(x), row, column)}
        for p in region.items:
            if isinstance(p, Pass) and Triangle(row, column, frozenset(members)).bounds(p):
                if not all(m in members or _adds_nothing(m, values, column) for m in p.members):
                    bad |= {z for m in p.members for z in (m, *ir.arguments(m)) if z in members}
        if not bad & members:
            break
        members -= bad
    multiplied = any(
        x in members or (isinstance(p.left, ir.Read) and p.left.tensor in members) for x, p in products.items()
    )
    return Triangle(row, column, frozenset(members)) if multiplied else None


def _tests(node: ir.Comp) -> list[ir.Scalar]:
    """What is false above the diagonal of the last two axes of a formula."""
    row, column = ir.var(len(node.shape) - 2), ir.var(len(node.shape) - 1)
    forms = {("<=", column, row), ("<", column, row), (">=", row, column), (">", row, column)}
    return [s for s in ir.scalars(node.body) if isinstance(s, ir.Op) and (s.name, *s.args) in forms]


def _above(node: ir.Comp, values: Mapping[ir.Node, Value], column: int) -> Value:
    """The value of a formula above the diagonal, or of the terms of a reduction along the columns."""
    whole = node if node.op is None else ir.comp((*node.shape, *node.reduced), node.body)
    tests = set(_tests(whole)) if isinstance(whole, ir.Comp) else set()

    def known(s: ir.Scalar) -> Value:
        if s in tests:
            return False
        here = isinstance(s, ir.Read) and len(s.places) == column + 1 and is_here(s)
        return values.get(s.tensor) if here and isinstance(s, ir.Read) else None

    return value_given(node.body, known)


def _adds_nothing(node: ir.Comp, values: Mapping[ir.Node, Value], column: int) -> bool:
    """Is a member a reduction along the columns to which those above the diagonal add nothing?"""
    neutral: dict[str, float] = {"sum": 0.0, "max": -INF, "min": INF}
    if node.op not in neutral or len(node.shape) != column or len(node.reduced) != 1:
        return False
    return _above(node, values, column) == neutral[node.op]


def _needed_above(
    node: ir.Comp, members: Collection[ir.Node], values: Mapping[ir.Node, Value], product: Product | None,
    row: int, column: int,
) -> set[ir.Node]:  # fmt: skip
    """Those of some members that a node needs above the diagonal."""
    bad: set[ir.Node] = set()
    for s in ir.scalars(node.body):
        if not isinstance(s, ir.Read) or based(s.tensor) not in members:
            continue
        z = based(s.tensor)
        if s.tensor is z and is_here(s) and (node in members or _adds_nothing(node, values, column)):
            continue
        if product is not None and s is product.left and s.tensor is z and len(node.reduced) == 1:
            axes = {plain_variable(s.places[row]), plain_variable(s.places[column])}
            if values.get(z) == 0.0 and axes == {product.rows, len(node.shape)}:
                continue
        bad.add(z)
    return bad

"""Scatters with large targets: which sources go to which row of the target, so that rows can be summed one by one.

`for all m, c: y[p(m), c] += f(m, c)`: the sources m are sorted by their row p(m); each row of the target is then the
sum of a stretch of them. Axes of the target that are plain variables are columns, all others together are the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, keep, plain_variable
from dslc.passes.comprehensions import position
from dslc.sizes import Size, product


@dataclass(frozen=True)
class Segments:
    """The parts of a scatter: variables of the sources, target axes of rows, and columns with their variables."""

    node: ir.Scatter
    sources: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @property
    def column_variables(self) -> tuple[int, ...]:
        found = [plain_variable(self.node.places[axis]) for axis in self.columns]
        return tuple(v for v in found if v is not None)

    @property
    def row_count(self) -> Size:
        return product([self.node.shape[axis] for axis in self.rows])

    @property
    def source_count(self) -> Size:
        return product([self.node.ranges[v] for v in self.sources])


def segments(node: ir.Scatter) -> Segments:
    in_data: set[int] = set()
    plain: dict[int, int] = {}
    for axis, place in enumerate(node.places):
        variable = plain_variable(place)
        if variable is not None and variable not in plain.values() and node.ranges[variable] == node.shape[axis]:
            plain[axis] = variable
        elif isinstance(place, ir.Data):
            in_data |= ir.variables(place.value)
        elif isinstance(place, ir.Affine):
            in_data |= {n for n, _ in place.terms}
    columns = tuple(axis for axis, v in plain.items() if v not in in_data)
    kept = {plain[axis] for axis in columns}
    rows = tuple(axis for axis in range(len(node.shape)) if axis not in columns)
    return Segments(node, tuple(v for v in range(len(node.ranges)) if v not in kept), rows, columns)


def row_of(found: Segments) -> ir.Tensor:
    """The row that each source goes to; one past the last for a source whose place is outside."""
    node = found.node
    change = Change({v: keep(k) for k, v in enumerate(found.sources)})
    row: ir.Scalar | None = None
    tests: list[ir.Scalar] = []
    for axis in found.rows:
        place, size = node.places[axis], ir.intern(ir.SizeOf(node.shape[axis]))
        at = position(change, place, node.shape[axis])
        if plain_variable(place) is None and getattr(place, "mode", "inside") == "inside":
            tests.append(ir.op(">=", (at, ir.const(0, "i64")), "bool"))
            tests.append(ir.op("<", (at, size), "bool"))
        row = at if row is None else ir.op("+", (ir.op("*", (row, size), "i64"), at), "i64")
    assert row is not None
    if tests:
        last = ir.intern(ir.SizeOf(found.row_count))
        row = ir.op("select", (ir.op("and", tuple(tests), "bool"), row, last), "i64")
    shape = tuple(node.ranges[v] for v in found.sources)
    return ir.comp(shape, row, name=f"{node.name or 'target'}_row", span=node.span, dtype="i64")

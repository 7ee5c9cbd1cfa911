"""Which results are means over the rows of the data: those of parts, weighted by their rows, add up to that of all.

A loss such as `mean[n](...)` is one, F1 is not. What is not shown to be one here may be one all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dslc.ir import nodes as ir
from dslc.sizes import Size, quotient

#: what a value is as a function of the rows: the same for all data, a value for each row, or of all rows their sum or
#: their mean, up to what is the same for all data
FREE, EACH, SUM, MEAN = "free", "each", "sum", "mean"


def means(values: Iterable[ir.Tensor], rows: Size) -> bool:
    """Whether all values are means over the rows, or the same for all data."""
    kinds: dict[ir.Node, str | None] = {}
    return all(_kind(x, rows, kinds) in (FREE, MEAN) for x in values)


def _kind(root: ir.Tensor, rows: Size, kinds: dict[ir.Node, str | None]) -> str | None:
    for node in ir.every_node([root]):
        if node not in kinds:
            kinds[node] = _of_node(node, rows, kinds)
    return kinds[root]


def _of_node(node: ir.Node, rows: Size, kinds: Mapping[ir.Node, str | None]) -> str | None:
    if isinstance(node, ir.Input | ir.Step):
        return _of_shape(node.shape, rows)
    if isinstance(node, ir.Comp):
        return _of_comp(node, rows, kinds)
    below = {kinds[x] for x in ir.arguments(node)}
    if below <= {FREE}:
        return FREE
    if not below <= {FREE, EACH}:
        return None
    match node:
        case ir.Reshape():
            return EACH if node.shape[0] == node.of.shape[0] == rows and _of_shape(node.shape, rows) == EACH else None
        case ir.Along():
            kept = all(_of_shape(s[: node.axis] + s[node.axis + 1 :], rows) for s in node.shapes)
            return EACH if kept and all(a.shape[node.axis] != rows for a in node.args) else None
        case ir.External():
            return EACH if all(rows in s[: node.mapped] and _of_shape(s, rows) == EACH for s in node.shapes) else None
        case ir.Scan():
            made = {kinds[x] for x in (*node.carries, *node.results)}
            return EACH if made <= {FREE, EACH} and not _has(node.length, rows) else None
        case ir.Part():
            return _of_shape(node.shape, rows)
        case ir.Custom():
            return EACH
    return None


def _of_shape(shape: tuple[Size, ...], rows: Size) -> str | None:
    """That of a tensor whose rows lie along one axis, if each row depends on its own data alone."""
    count = sum(size == rows for size in shape)
    if any(_has(size, rows) for size in shape if size != rows) or count > 1:
        return None
    return EACH if count else FREE


def _has(size: Size, rows: Size) -> bool:
    return not isinstance(size, int) and rows in size.free_symbols


def _of_comp(node: ir.Comp, rows: Size, kinds: Mapping[ir.Node, str | None]) -> str | None:
    ranges = (*node.shape, *node.reduced)
    if _of_shape(ranges, rows) is None:
        return None
    row = ranges.index(rows) if rows in ranges else None
    kind = _of_scalar(node.body, rows, row, kinds)
    if row is None or kind is None:
        return kind if node.op in (None, "sum") or kind == FREE else None
    if row < len(node.shape):
        return EACH if kind in (FREE, EACH) else None
    return SUM if node.op == "sum" and kind in (FREE, EACH) else None


def _of_scalar(root: ir.Scalar, rows: Size, row: int | None, kinds: Mapping[ir.Node, str | None]) -> str | None:
    found: dict[ir.Scalar, str | None] = {}
    for s in ir.scalars(root):
        match s:
            case ir.Const():
                found[s] = FREE
            case ir.SizeOf():
                found[s] = None if _has(s.size, rows) else FREE
            case ir.Var():
                found[s] = None if s.number == row else FREE
            case ir.Read():
                found[s] = _of_read(s, rows, row, kinds, found)
            case ir.Op():
                found[s] = _of_op(s, rows, [found[x] for x in s.args])
            case _:
                found[s] = None  # a draw goes with the place of its element
    return found[root]


def _of_read(
    s: ir.Read, rows: Size, row: int | None, kinds: Mapping[ir.Node, str | None], found: Mapping[ir.Scalar, str | None]
) -> str | None:
    kind = kinds[s.tensor]
    for size, place in zip(s.tensor.shape, s.places, strict=True):
        if size == rows:
            if row is None or place != ir.plain(row):
                return None
        elif isinstance(place, ir.Affine):
            if any(number == row for number, _ in place.terms) or _has(place.offset, rows):
                return None
        elif isinstance(place, ir.Data):
            kind = _joined([kind, found[place.value]])
    return kind if s.outside is None else _joined([kind, found[s.outside]])


def _of_op(s: ir.Op, rows: Size, kinds: list[str | None]) -> str | None:
    below = set(kinds)
    if s.name == "/" and kinds[0] == SUM and (of := _size(s.args[1])) is not None and _has(of, rows):
        return MEAN if not _has(quotient(of, rows), rows) else None
    if below <= {FREE, EACH}:
        return _joined(kinds)
    if s.name in ("+", "-"):
        return MEAN if below <= {FREE, MEAN} else SUM if below == {SUM} else None
    if s.name == "neg" or (s.name == "cast" and s.dtype not in ("i32", "i64", "bool")):
        return kinds[0]
    if (s.name == "*" and FREE in kinds) or (s.name == "/" and kinds[1] == FREE):
        return next(x for x in kinds if x != FREE)
    return None


def _size(s: ir.Scalar) -> Size | None:
    while isinstance(s, ir.Op) and s.name == "cast":
        s = s.args[0]
    return s.size if isinstance(s, ir.SizeOf) else None


def _joined(kinds: list[str | None]) -> str | None:
    """What depends on values of these kinds in any way."""
    below = set(kinds)
    return FREE if below <= {FREE} else EACH if below <= {FREE, EACH} else None

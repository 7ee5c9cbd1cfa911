"""Recurrences over two indices: the inner scan builds one row, the outer scan keeps the rows.

`D[p, q] = D[p-1, q] + D[p, q-1]` in `scan q` in `scan p` is `D_row[q] = D[p-1, q] + D_row[q-1]` in `scan q`, and then
`D[p, q] = D_row[q]`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import fields, replace

from dslc.syntax import tree as t


def with_rows(node: t.Scan, taken: Collection[str]) -> t.Scan:
    """The scan, with a row for each value that a scan inside of it builds along both indices."""
    body: list[t.Statement] = []
    rows: dict[str, str] = {}
    for statement in node.body:
        if isinstance(statement, t.Scan):
            targets = {x.name: x for x in _grids(statement, node.name)}
            rows = {name: _free(f"{name}_row", taken) for name in targets}
            body.append(_in_rows(statement, node.name, rows) if rows else statement)
            body += [_kept(target, node.name, rows[name]) for name, target in targets.items()]
        elif isinstance(statement, t.Start) and statement.target.name in rows:
            place = next(i for i in range(len(body) - 1, -1, -1) if isinstance(body[i], t.Scan | t.Start))
            body.insert(place + 1, _in_rows(statement, node.name, rows))
        else:
            rows = {}
            body.append(statement)
    return replace(node, body=tuple(body))


def _grids(inner: t.Scan, outer: str) -> Iterator[t.Target]:
    """The values that an inner scan builds along its own index and the outer one."""
    for node in inner.walk():
        for target in node.targets if isinstance(node, t.Equation) else ():
            names = {x.id for x in target.items or () if isinstance(x, t.Name)}
            if {outer, inner.name} <= names and all(isinstance(x, t.Name) or _bounded(x) for x in target.items or ()):
                yield target


def _bounded(item: t.Item) -> bool:
    return isinstance(item, t.Slice) and isinstance(item.low, t.Name)


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _without(items: tuple[t.Item, ...], outer: str) -> tuple[t.Item, ...]:
    return tuple(x for x in items if not (isinstance(x, t.Name) and x.id == outer))


def _in_rows(statement: t.Statement, outer: str, rows: dict[str, str]) -> t.Statement:
    """A statement of the inner scan: the present row in the place of the grid; earlier rows stay what they are."""

    def change(node: t.Node) -> t.Node:
        if isinstance(node, t.Target) and node.name in rows and node.items is not None:
            return replace(node, name=rows[node.name], items=_without(node.items, outer))
        if isinstance(node, t.Target) and node.name in rows:
            return replace(node, name=rows[node.name])
        if isinstance(node, t.Access) and isinstance(node.base, t.Name) and node.base.id in rows:
            kept = _without(node.items, outer)
            if len(kept) < len(node.items):
                return replace(node, base=replace(node.base, id=rows[node.base.id]), items=kept)
        return node

    return _replaced(statement, change)  # type: ignore[return-value]


def _kept(target: t.Target, outer: str, row: str) -> t.Equation:
    """`D[p, q] = D_row[q]`"""
    items = tuple(x.low if isinstance(x, t.Slice) and x.low is not None else x for x in target.items or ())
    span = target.span
    value = t.Access(t.Name(row, span=span), _without(items, outer), span=span)
    return t.Equation((replace(target, items=items),), value, span=span)


def _replaced(root: t.Node, change: Callable[[t.Node], t.Node]) -> t.Node:
    """A tree with every node changed, the parts of a node before the node."""
    done: dict[int, t.Node] = {}

    def new(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(new(x) for x in value)
        return done[id(value)] if isinstance(value, t.Node) else value

    for node in reversed(list(root.walk())):
        parts = {f.name: getattr(node, f.name) for f in fields(node) if f.name != "span"}
        done[id(node)] = change(replace(node, **{k: new(x) for k, x in parts.items()}))  # type: ignore[arg-type]
    return done[id(root)]

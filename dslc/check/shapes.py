"""Shapes that should be equal and are not: what to write instead."""

from __future__ import annotations

from collections.abc import Sequence

from dslc.check import wording
from dslc.check.frame import Frame
from dslc.check.program import Index
from dslc.check.values import Val, whole_tensor
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.sizes import Size
from dslc.syntax import tree as t

LETTERS = "ijkl"

#: The operators whose two operands a message can show with indices.
INFIX = ("+", "-", "*", "/", "^", "<", "<=", ">", ">=", "==", "!=", "//", "%")


def report(frame: Frame, op: str, left: tuple[t.Expr, Val], right: tuple[t.Expr, Val]) -> None:
    """Two operands without indices have different shapes."""
    found = [frame.show_shape(a.size for a in val.axes) for _, val in (left, right)]
    labels = [Label(node.span, f"shape {shape}") for (node, _), shape in zip((left, right), found, strict=True)]
    for node, val in (left, right):
        tensor = whole_tensor(val)
        if tensor is not None and isinstance(node, t.Name) and node.id and tensor.span.source.text:
            labels.append(Label(tensor.span, f"`{node.id}` is declared here"))
    frame.report(kinds.SHAPES_DIFFER(*labels, a=found[0], b=found[1], help=advice(frame, op, left, right)))


def advice(frame: Frame, op: str, left: tuple[t.Expr, Val], right: tuple[t.Expr, Val]) -> str:
    """The same operation with indices, where one reading of it is likely."""
    (a_node, a), (b_node, b) = left, right
    rank = max(len(a.axes), len(b.axes))
    items = indexed(frame, a.axes, b.axes) if rank <= len(LETTERS) else None
    if op == "*" and _is_product(frame, a.axes, b.axes):
        return "`*` goes element by element; a matrix product sums over an index: `y[i, k] = a[i, j] * b[j, k]`"
    if items is None:
        sizes = ([axis.size for axis in val.axes if axis.size is not None] for val in (a, b))
        return always_equal(frame, *sizes) or "make the sizes equal; they do not broadcast"
    help = "sizes do not broadcast; write the indices to say which axes go together"
    names = [node.id if isinstance(node, t.Name) else "" for node in (a_node, b_node)]
    if op not in INFIX or not all(names):
        return help
    reads = [f"{name}[{', '.join(places)}]" for name, places in zip(names, items, strict=True)]
    result = next(name for name in "zyw" if name not in names)
    return f"{help}, for example `{result}[{', '.join(LETTERS[:rank])}] = {reads[0]} {op} {reads[1]}`"


def _is_product(frame: Frame, a: Sequence[Index], b: Sequence[Index]) -> bool:
    """Could two tensors be the factors of a matrix product?"""
    inner = (a[-1].size, b[0].size) if len(a) == 2 == len(b) else (None, None)
    return inner[0] is not None and inner[1] is not None and frame.facts.equal(inner[0], inner[1]) is True


def always_equal(frame: Frame, a: Sequence[Size], b: Sequence[Size]) -> str | None:
    """Advice to state that two shapes are equal, when they may be."""
    if len(a) != len(b):
        return None
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if frame.facts.equal(x, y) is not True]
    unknown = all(frame.facts.equal(x, y) is None for x, y in pairs)
    return wording.always_equal(frame, *pairs[0]) if unknown else None


def indexed(frame: Frame, a: Sequence[Index], b: Sequence[Index]) -> tuple[list[str], list[str]] | None:
    """Indices for the axes of two tensors of different shapes; None when no choice fits.

    An axis of size 1 is read at 0, as if it stretched. Else the smaller tensor takes those axes of the larger one
    that have its sizes, the last ones that do.
    """
    rank = max(len(a), len(b))
    if any(axis.size == 1 for axis in (*a, *b)):
        columns = [[None] * (rank - len(axes)) + list(axes) for axes in (a, b)]
        for x, y in zip(*columns, strict=True):
            sizes = [axis.size for axis in (x, y) if axis is not None and axis.size not in (None, 1)]
            if len(sizes) == 2 and frame.facts.equal(*sizes) is not True:
                return None
        first, second = (
            ["0" if axis.size == 1 else LETTERS[place] for place, axis in enumerate(axes) if axis is not None]
            for axes in columns
        )
        return first, second
    if len(a) == len(b):
        return None
    large, small = (a, b) if len(a) > len(b) else (b, a)
    letters: list[str] = []
    place = len(large)
    for axis in reversed(small):
        fits = [
            p for p in range(place) if (size := large[p].size) is not None and axis.size is not None
            and frame.facts.equal(size, axis.size) is True
        ]  # fmt: skip
        if not fits:
            return None
        place = fits[-1]
        letters.insert(0, LETTERS[place])
    every = list(LETTERS[:rank])
    return (every, letters) if large is a else (letters, every)

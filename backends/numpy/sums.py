"""Reductions as NumPy text: sums of products are matrix products."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dslc.backends.numpy.body import Body, is_plain
from dslc.backends.numpy.text import (
    ATOM,
    PLUS,
    TIMES,
    UNARY,
    Text,
    atom,
    atom_code,
    size_code,
    transposed,
    transposition,
)  # fmt: skip

from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, Form, keep
from dslc.passes.products import split
from dslc.sizes import tidy

if TYPE_CHECKING:
    from dslc.backends.numpy.lower import Rows


def layout(node: ir.Comp) -> list[int]:
    """In which order the variables of a reduction are best walked: that of the largest array that it reads."""
    count = len(node.shape) + len(node.reduced)
    best: list[int] = []
    for s in ir.scalars(node.body):
        if isinstance(s, ir.Read):
            numbers = [n for x in s.places if isinstance(x, ir.Affine) for n, _ in x.terms]
            if len(numbers) == len(set(numbers)) and len(numbers) > len(best):
                best = numbers
    first = [n for n in range(count) if n not in best and n < len(node.shape)]
    last = [n for n in range(count) if n not in best and n >= len(node.shape)]
    return [*first, *best, *last] if best else list(range(count))


def natural(node: ir.Comp) -> tuple[ir.Scalar, list[int]]:
    """The body of a node with its variables in the order in which it is best walked, and that order."""
    count = len(node.shape) + len(node.reduced)
    order = layout(node) if node.op not in (None, "argmax", "argmin") else list(range(count))
    flipped = _flipped(node) if node.op == "sum" else set()
    if order == sorted(order) and not flipped:
        return node.body, order
    forms = {n: keep(k) for k, n in enumerate(order)}
    for n in flipped:
        forms[n] = Form(((order.index(n), -1),), tidy(node.reduced[n - len(node.shape)] - 1))
    return Change(forms).scalar(node.body), order


def _flipped(node: ir.Comp) -> set[int]:
    """Summed variables that walk windows backwards: summed the other way round, windows walk forwards."""
    found: set[int] = set()
    for s in ir.scalars(node.body):
        if isinstance(s, ir.Read):
            for place in s.places:
                if isinstance(place, ir.Affine) and len(place.terms) == 2:
                    found |= {n for n, c in place.terms if c == -1 and n >= len(node.shape)}
    return found


@dataclass
class Sums(Body):
    """A body under a reduction: `out` are the variables of the result in order, all others are reduced."""

    out: tuple[int, ...] = ()

    def node(self, node: ir.Comp) -> Text:
        assert node.op is not None
        body, order = natural(node)
        sizes = tuple(self.sizes[n] for n in order)
        out = tuple(order.index(n) for n in range(len(node.shape)))
        inner = Sums(self.lowering, sizes, out=out)
        text = inner.total(body) if node.op == "sum" else inner.reduce(node.op, inner.scalar(body))
        if not text.axes and all(is_plain(x) for x in ir.scalars(body)):  # what looks at dtypes may read it
            return Text(f"{self.lowering.numpy_dtype(node.dtype)}({text.code})", ())
        code, axes = text.raw or (text.code, text.axes)
        places = [out.index(a) for a in axes]
        if places == sorted(places):
            if text.raw is None:
                return text.over({a: out.index(a) for a in text.axes})
            return Text(code, tuple(places), text.raw_level, mean=text.mean)
        wanted = sorted(places)
        turn = transposition(places, wanted)
        return Text(atom_code(code) + turn, tuple(wanted), ATOM, (code, tuple(places)))

    def reduce(self, op: str, text: Text) -> Text:
        """Reduce all variables that are not in the result."""
        gone = [i for i, a in enumerate(text.axes) if a not in self.out]
        axes = tuple(a for a in text.axes if a in self.out)
        missing = [n for n in range(len(self.sizes)) if n not in text.axes and n not in self.out]
        if op in ("argmax", "argmin", "prod") and missing:
            shape = tuple(sorted({*text.axes, *missing}))
            sizes = ", ".join(size_code(self.sizes[n]) for n in shape)
            text = Text(f"np.broadcast_to({self.lowering.expand(text, shape).code}, ({sizes},))", shape)
            return self.reduce(op, text)
        if not gone:
            return text
        if op in ("argmax", "argmin") and len(gone) > 1:
            sizes = ", ".join([*(size_code(self.sizes[a]) for a in axes), "-1"])
            return Text(f"np.{op}({text.at(ATOM)}.reshape({sizes}), axis=-1)", axes)
        return Text(f"np.{op}({text.code}{_axes(gone, len(text.axes))})", axes)

    # ---- sums

    def total(self, body: ir.Scalar) -> Text:
        """A sum: products as matrix products; factors that are numbers stand outside."""
        counted = self.count(body)
        if counted is not None:
            return counted
        arrays, numbers, negative = self.factors(body)
        missing = [n for n in range(len(self.sizes)) if n not in self.out and not any(n in t.axes for t in arrays)]
        result = self.product_sum(arrays)
        for extra in [*numbers, *(Text(size_code(self.sizes[n]), (), PLUS) for n in missing)]:
            result = extra if result is None else Text(f"{result.at(TIMES)} * {extra.at(UNARY)}", result.axes, TIMES)
        if result is None:
            result = Text("1", ())
        return result.negative if negative else result

    def count(self, body: ir.Scalar) -> Text | None:
        """How often a condition holds: a sum of ones and zeros."""
        if not isinstance(body, ir.Op) or body.name != "select":
            return None
        test, one, nothing = body.args
        if not (isinstance(one, ir.Const) and one.value == 1 and isinstance(nothing, ir.Const) and nothing.value == 0):
            return None
        text = self.scalar(test)
        gone = [i for i, a in enumerate(text.axes) if a not in self.out]
        if not gone or len(gone) + len(self.out) != len(self.sizes):
            return None
        axes = tuple(a for a in text.axes if a in self.out)
        code = f"np.count_nonzero({text.code}{_axes(gone, len(text.axes))})"
        target = self.lowering.numpy_dtype(body.dtype)
        size = tidy(math.prod(self.sizes[text.axes[i]] for i in gone))
        mean = size, f"np.mean({text.code}{_axes(gone, len(text.axes))}, dtype={target})"
        return Text(f"{code}.astype({target})" if axes else f"{target}({code})", axes, mean=mean)

    def factors(self, body: ir.Scalar) -> tuple[list[Text], list[Text], bool]:
        """The factors of a product that are arrays, those that are numbers, and the sign."""
        product = split(body)
        arrays: list[Text] = []
        numbers: list[Text] = []
        inverses: list[ir.Scalar] = [ir.op("/", (ir.const(1.0, x.dtype), x), x.dtype) for x in product.below]
        over = dict(zip(inverses, product.below, strict=True))
        whole = [*product.above, *inverses]
        if product.below and len(product.above) == 1:
            whole = [ir.op("/", (product.above[0], product.below[0]), body.dtype), *whole[2:]]
        for factor in whole:
            text = self.scalar(factor)
            if (below := over.get(factor)) is not None and below in self.done:
                text = replace(text, inverse=self.done[below])
            squared = isinstance(factor, ir.Op) and factor.name == "^" and _is_two(factor.args[1]) and len(whole) == 1
            if squared and (inner := ir.operands(factor)[0]) in self.done:  # else the square has a line of its own
                base = self.done[inner]
                base = self.named(inner, base) if isinstance(inner, ir.Op) else base
                arrays += [base, base]
            else:
                (arrays if text.axes else numbers).append(text)
        return arrays, numbers, product.negative

    def product_sum(self, texts: list[Text]) -> Text | None:
        parts = list(texts)
        while len(parts) > 1:
            i, j = self.pick(parts)
            others = [p for k, p in enumerate(parts) if k not in (i, j)]
            later = {x for p in others for x in p.axes} | set(self.out)
            parts = [self.pair(parts[i], parts[j], later), *others]
        if not parts:
            return None
        gone = [a for a in parts[0].axes if a not in self.out]
        return self.presum(parts[0], gone)

    def pick(self, parts: list[Text]) -> tuple[int, int]:
        """Which two factors to multiply next: one inside the other first, then those that share summed variables."""
        best: tuple[tuple[int, int], tuple[int, int]] | None = None
        for i in range(len(parts)):
            for j in range(i + 1, len(parts)):
                a, b = set(parts[i].axes), set(parts[j].axes)
                later = {x for k, p in enumerate(parts) if k not in (i, j) for x in p.axes} | set(self.out)
                result = len((a | b) & later) if not (a <= b or b <= a) else -1
                key = (result, -len(a & b))
                if best is None or key < best[0]:
                    best = (key, (i, j))
        assert best is not None
        return best[1]

    def pair(self, a: Text, b: Text, later: set[int]) -> Text:
        """The product of two arrays, summed over what nothing later needs."""
        sa, sb = set(a.axes), set(b.axes)
        summed = (sa | sb) - later
        common = sa & sb
        a = self.presum(a, [x for x in a.axes if x in summed and x not in common])
        b = self.presum(b, [x for x in b.axes if x in summed and x not in common])
        leading = a if b.windows is not None else b  # windows are copied anyway
        contracted = [x for x in (leading.raw[1] if leading.raw else leading.axes) if x in common & summed]
        batch = sorted(common - summed)
        rows = [x for x in a.axes if x not in common]
        columns = [x for x in b.axes if x not in common]
        if len(contracted) == 1 and batch and not (rows and columns):
            wide, narrow = (a, b) if rows else (b, a)
            in_place = [*batch, *(rows or columns), *contracted] == [*wide.axes]  # a stack of matrices as it lies there
            if wide.raw is None and not in_place and wide.axes[-1] == narrow.axes[-1] == contracted[0]:
                narrow = self.lowering.expand(narrow, wide.axes)
                return Text(f"np.vecdot({wide.code}, {narrow.code})", wide.axes[:-1])
        if contracted and (rows or columns) and not self.weighted(a, b, contracted):
            return self.matmul(a, b, batch, rows, columns, contracted)
        if len(contracted) == 1 and a.axes == b.axes and a.axes[-1] == contracted[0]:
            code = f"np.vecdot({a.code}, {b.code})" if batch else f"{a.at(TIMES)} @ {b.at(TIMES + 1)}"
            return Text(code, tuple(batch), ATOM if batch else TIMES)
        a, b = (b, a) if a.inverse is not None and b.inverse is None else (a, b)
        (first, last), axes = self.align([a, b.inverse or b])
        symbol = "*" if b.inverse is None else "/"
        return self.presum(Text(f"{first.at(TIMES)} {symbol} {last.at(UNARY)}", axes, TIMES), contracted)

    @staticmethod
    def weighted(a: Text, b: Text, contracted: list[int]) -> bool:
        """Are the rows of an array added up, those of several axes, with a number for each?"""
        wide, narrow = (a, b) if len(a.axes) > len(b.axes) else (b, a)
        leading = list(wide.axes[: len(contracted)]) == sorted(contracted) == list(narrow.axes)
        return leading and len(contracted) > 1 and wide.windows is None

    def presum(self, text: Text, axes: list[int]) -> Text:
        if not axes:
            return text
        code, order = text.raw or (text.code, text.axes)
        rest = [x for x in order if x not in axes]
        where = sorted(order.index(x) for x in axes)
        given, size = f"({code}{_axes(where, len(order))})", tidy(math.prod(self.sizes[x] for x in axes))
        positive = None if text.positive is None else self.presum(text.positive, axes)
        return replace(self.arranged(f"np.sum{given}", rest), mean=(size, f"np.mean{given}"), positive=positive)

    def matmul(self, a: Text, b: Text, batch: list[int], rows: list[int], columns: list[int], inner: list[int]) -> Text:
        if columns and (not rows or min(map(self.rank, columns)) < min(map(self.rank, rows))):
            a, b, rows, columns = b, a, columns, rows
        order = [*batch, *rows, *columns]
        given = (a.raw or (a.code, a.axes))[1]
        if not batch and len(inner) == 1 and list(given) == [*rows, *inner]:  # NumPy takes stacks of rows as they are
            left, whole = Text(*(a.raw or (a.code, ())), a.raw_level if a.raw else a.level), len(columns) < 2
        else:
            left, whole = self.matrix(a, batch, rows, inner), len(rows) < 2 and len(columns) < 2
        right = self.matrix(b, batch, inner, columns)
        if columns or not batch:
            result = Text(f"{left.at(UNARY)} @ {right.at(UNARY)}", (), TIMES)
        else:
            result = Text(f"({left.at(UNARY)} @ {right.at(ATOM)}[..., None])[..., 0]", (), ATOM)
        if not whole:
            result = Text(f"{result.at(ATOM)}.reshape({', '.join(size_code(self.sizes[x]) for x in order)})", ())
        if order == sorted(order):
            return Text(result.code, tuple(order), result.level)
        turned = self.arranged(result.at(ATOM), order)
        return replace(turned, raw=(result.code, tuple(order)), raw_level=result.level)

    def rank(self, number: int) -> int:
        """Where a variable stands in the result; summed ones come last."""
        return self.out.index(number) if number in self.out else len(self.out) + number

    def matrix(self, x: Text, batch: list[int], first: list[int], second: list[int]) -> Text:
        """An array as a stack of matrices with grouped rows and columns."""
        if x.windows is not None and not batch:
            known = self.lowering.beside_already(x.windows, self.rows(x, first, second))
            if known:
                return Text(known, (), ATOM)
        source, given = x.raw or (x.at(ATOM), x.axes)
        code = atom_code(source)
        flip = ".T" if not batch else ".swapaxes(-1, -2)"
        if list(given) == [*batch, *second, *first] and first and second:
            return Text(self.grouped(x, code, batch, second, first) + flip, (), ATOM)
        order = [*batch, *first, *second]
        if list(given) != order and len(first) > 1 and len(second) > 1 and given[-1] == first[-1]:
            # a copy is needed: one that keeps the last axis of the source last is faster, and its transpose is free
            return Text(
                self.grouped(x, transposed(code, given, [*batch, *second, *first]), batch, second, first) + flip,
                (),
                ATOM,
            )
        code = code if list(given) == order else transposed(code, given, order)
        return Text(self.grouped(x, code, batch, first, second), tuple(order), ATOM)

    def grouped(self, x: Text, code: str, batch: list[int], first: list[int], second: list[int]) -> str:
        """An array whose axes are in order, those of a group as one."""
        if len(first) < 2 and len(second) < 2:
            return code
        sizes = [size_code(self.sizes[n]) for n in batch]
        open_ = True  # NumPy finds one of the sizes itself
        for group in (first, second):
            known = [size_code(self.sizes[n]) for n in group]
            sizes += ["-1" if open_ and len(group) > 1 and not _number(known) else _product(known)] if group else []
            open_ = open_ and sizes[-1:] != ["-1"]
        made = f"{code}.reshape({', '.join(sizes)})"
        if x.windows is None or batch:
            return made
        return self.lowering.side_by_side(x.windows, self.rows(x, first, second), made)

    def rows(self, x: Text, first: list[int], second: list[int]) -> Rows:
        """What tells matrices of windows apart."""
        windows, axes = x.raw or (x.code, x.axes)
        return windows, tuple(map(axes.index, first)), tuple(map(axes.index, second))


def _number(sizes: list[str]) -> bool:
    return all(size.isdigit() for size in sizes)


def _product(sizes: list[str]) -> str:
    """
    >>> _product(["4", "16"]), _product(["N", "T"])
    ('64', 'N * T')
    """
    number = 1
    rest = []
    for size in sizes:
        if size.isdigit():
            number *= int(size)
        else:
            rest.append(atom(size))
    return " * ".join([*rest, str(number)] if number != 1 or not rest else rest)


def _axes(gone: list[int], rank: int) -> str:
    """The axis argument of a reduction; nothing when all axes go."""
    if len(gone) == rank:
        return ""
    return f", axis={gone[0]}" if len(gone) == 1 else f", axis=({', '.join(map(str, gone))})"


def _is_two(s: ir.Scalar) -> bool:
    return isinstance(s, ir.Const) and s.value == 2

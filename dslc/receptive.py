"""Which entries of its inputs a value sees: receptive fields and steps, where reads are affine with known coefficients.

    y[p] = sum[u:3](x[2*p + u - 1])        sees 3 entries of x, 2 further on for each p: field 3, step 2

The fields of a stack follow from those of its parts: where i sees `step * i + low .. step * i + high` of x, a read at
i = 2*p + u - 1 sees `2*step*p - step + low .. 2*step*p + step + high`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dslc.ir import nodes as ir
from dslc.ir.naming import name_of
from dslc.sizes import Size, extreme, tidy
from dslc.source import NOWHERE, Span

#: so many passes of a loop over layers are followed
MAX_PASSES = 1000


@dataclass(frozen=True)
class Seen:
    """Of one axis of an input, the entries from `low` to `high` beyond a sum of steps along axes of the value.

    Without terms they are the same for all of the value. Where terms are None, which of them is not known.
    """

    #: axes of the value in order, with their steps
    terms: tuple[tuple[int, int], ...] | None
    low: Size
    high: Size

    @property
    def field(self) -> Size | None:
        """How many entries one of the value sees, from the first to the last."""
        return None if self.terms is None or len(self.terms) > 1 else tidy(self.high - self.low + 1)

    @property
    def step(self) -> int | None:
        """How much further on its neighbour sees."""
        if self.terms is None or len(self.terms) > 1:
            return None
        return self.terms[0][1] if self.terms else 0

    def everywhere(self, shape: tuple[Size, ...]) -> Seen:
        """What all of a value of a shape sees."""
        low, high = self.low, self.high
        for axis, step in self.terms or ():
            low, high = widened(low, high, tidy(step * (shape[axis] - 1)), step)
        return Seen((), low, high)

    def joined(self, other: Seen) -> Seen | None:
        """What two reads see together, where that is an interval of this form."""
        if self.terms != other.terms:
            return self if self.terms == () else other if other.terms == () else None
        return Seen(self.terms, extreme("min", [self.low, other.low]), extreme("max", [self.high, other.high]))


def widened(low: Size, high: Size, reach: Size, step: int) -> tuple[Size, Size]:
    return (low, tidy(high + reach)) if step > 0 else (tidy(low + reach), high)


#: of each axis of an input what is seen; None where that is no such interval
Fields = Mapping[ir.Node, tuple[Seen | None, ...]]


@dataclass(frozen=True)
class Row:
    """A value that the spec names, with what it sees of one input, or of a value whose axes were split."""

    name: str
    span: Span
    shape: tuple[Size, ...]
    of: str
    seen: tuple[Seen | None, ...]


def receptive_fields(outputs: Iterable[ir.Tensor]) -> list[Row]:
    """A row for each input and each named value that outputs need, in order of computation."""
    return Walk().rows_of(outputs)


class Walk:
    """One walk over a program; passes of loops over layers are followed one by one."""

    def __init__(self) -> None:
        self.fields: dict[ir.Node, Fields] = {}
        #: parts of one formula that see the same are one row
        self.rows: dict[object, Row] = {}

    def rows_of(self, outputs: Iterable[ir.Tensor]) -> list[Row]:
        self.follow(ir.schedule(tuple(outputs)), "")
        return list(self.rows.values())

    def follow(self, order: Iterable[ir.Node], suffix: str) -> None:
        for node in order:
            if isinstance(node, ir.Step) and node in self.fields:
                continue
            found = self.of(node, suffix)
            name, span = name_of(node), getattr(node, "span", NOWHERE)
            if isinstance(node, ir.Input | ir.Comp | ir.Scatter | ir.Part) and name:
                seen_axes = [x for seen in found.values() for x in seen if x is not None]
                if isinstance(node, ir.Comp) and any(len(x.terms or ()) > 1 for x in seen_axes):
                    found = itself(node)  # its axes are parts of one axis: what follows sees them
                for base, seen in found.items():
                    row = Row(name + suffix, span, node.shape, name_of(base), seen)
                    self.rows.setdefault((row.name, span.place, row.of, seen), row)
            self.fields[node] = found

    def of(self, node: ir.Node, suffix: str) -> Fields:
        match node:
            case ir.Input(role="input"):
                return itself(node)
            case ir.Comp():
                return self.read(node)
            case ir.Reshape():
                return self.reshaped(node)
            case ir.Part(of=ir.Along() as along):
                kept = [n for n in range(len(node.shape)) if n != along.axis]
                return self.mixed(along.args, kept)
            case ir.Part(of=ir.External() as matrices):
                return self.mixed(matrices.args, range(matrices.mapped))
            case ir.Part(of=ir.Custom() as custom):
                self.follow([x for x in ir.schedule((custom.values[node.number],)) if x not in self.fields], suffix)
                return self.fields[custom.values[node.number]]
            case ir.Part(of=ir.Scan() as scan):
                last = node.number - len(scan.results)
                found = self.fields[scan]
                if scan.kind == "layers" and isinstance(scan.length, int) and last >= 0:
                    return self.fields.get(scan.carries[last], found)
                return found
            case ir.Scan():
                return self.passes(node, suffix)
            case ir.Scatter():
                return unknown(self.fields.get(x, {}) for x in ir.arguments(node))
        return {}

    def read(self, node: ir.Comp) -> Fields:
        """By the places of its reads; what is read at data may be any entry."""
        found: dict[ir.Node, list[Seen | None]] = {}
        for s in ir.scalars(node.body):
            if isinstance(s, ir.Read):
                for base, seen in self.fields.get(s.tensor, {}).items():
                    moved = [None if x is None else self.placed(x, s, node) for x in seen]
                    before = found.setdefault(base, moved)
                    if before is not moved:
                        pairs = zip(before, moved, strict=True)
                        found[base] = [None if a is None or b is None else a.joined(b) for a, b in pairs]
        return {base: tuple(seen) for base, seen in found.items()}

    def placed(self, seen: Seen, read: ir.Read, node: ir.Comp) -> Seen | None:
        """What is seen through a read: each axis of what is read is a place, a sum of variables."""
        if seen.terms is None:
            return self.part(seen, read, node)
        rank, low, high = len(node.shape), seen.low, seen.high
        steps: dict[int, int] = {}
        for axis, step in seen.terms:
            place = read.places[axis]
            if not isinstance(place, ir.Affine) or place.divisor != 1:
                return None
            low, high = tidy(low + step * place.offset), tidy(high + step * place.offset)
            for number, coefficient in place.terms:
                if not isinstance(coefficient, int):
                    return None
                by = step * coefficient
                if number < rank:
                    steps[number] = steps.get(number, 0) + by
                else:
                    low, high = widened(low, high, tidy(by * (node.reduced[number - rank] - 1)), by)
        return Seen(tuple(sorted((n, c) for n, c in steps.items() if c)), low, high)

    def part(self, seen: Seen, read: ir.Read, node: ir.Comp) -> Seen | None:
        """Of a value whose axes were joined: if all of it is summed over, all of it is seen."""
        whole = {
            place.terms[0][0]: size
            for place, size in zip(read.places, read.tensor.shape, strict=True)
            if isinstance(place, ir.Affine) and len(place.terms) == 1 and place.terms[0][1] == 1 and place.offset == 0
        }
        full = [n for n, size in whole.items() if n >= len(node.shape) and node.reduced[n - len(node.shape)] == size]
        return Seen((), seen.low, seen.high) if len(full) == len(read.places) - 1 else None

    def reshaped(self, node: ir.Reshape) -> Fields:
        """Axes that were split are sums of their parts; of axes that were joined, any entry may be seen."""
        blocks = same_blocks(node.of.shape, node.shape)
        return {
            base: tuple(None if x is None else regrouped(x, node, blocks) for x in seen)
            for base, seen in self.fields.get(node.of, {}).items()
        }

    def mixed(self, args: Iterable[ir.Tensor], kept: Iterable[int]) -> Fields:
        """All of what is seen along axes that an operation mixes; the others stay."""
        kept, found = set(kept), {}
        for x in args:
            for base, seen in self.fields.get(x, {}).items():
                found[base] = tuple(
                    s if s is None or all(axis in kept for axis, _ in s.terms or ()) else s.everywhere(x.shape)
                    for s in seen
                )
        return found

    def passes(self, scan: ir.Scan, suffix: str) -> Fields:
        """Equal layers one after the other; of steps of a recurrence is only known what they begin with."""
        inner, outside = ir.inside(scan)
        if scan.kind != "layers" or not isinstance(scan.length, int) or scan.length > MAX_PASSES:
            return unknown(self.fields.get(x, {}) for x in (*scan.starts, *outside))
        carries = [x for x in inner if isinstance(x, ir.Step) and x.kind == "carry"]
        values: list[Fields] = [self.fields.get(x, {}) for x in scan.starts]
        for number in range(scan.length):
            for x in inner:
                self.fields.pop(x, None)
            self.fields |= {x: values[x.place] for x in carries if x.scan == scan.number}
            self.follow(inner, f"{suffix}.{number}")
            values = [self.fields.get(x, {}) for x in scan.carries]
        return unknown(values)


def unknown(many: Iterable[Fields]) -> Fields:
    return {base: (None,) * len(seen) for fields in many for base, seen in fields.items()}


def itself(node: ir.Input | ir.Comp | ir.Scatter) -> Fields:
    return {node: tuple(Seen(((axis, 1),), 0, 0) for axis in range(len(node.shape)))}


def regrouped(seen: Seen, node: ir.Reshape, blocks: list[tuple[range, range]]) -> Seen | None:
    """The same entries by the axes of a reshape."""
    steps: dict[int, int] = {}
    for axis, step in seen.terms or ():
        before, after = next(x for x in blocks if axis in x[0])
        if len(before) > 1:
            whole = seen.everywhere(node.of.shape)
            return Seen(None, whole.low, whole.high)
        for part in reversed(after):
            size = node.shape[part]
            steps[part] = step
            if part != after[0]:
                if not isinstance(size, int):
                    return None
                step *= size
    return seen if seen.terms is None else Seen(tuple(sorted(steps.items())), seen.low, seen.high)


def same_blocks(before: tuple[Size, ...], after: tuple[Size, ...]) -> list[tuple[range, range]]:
    """The axes of two shapes of the same elements side by side: one that is split, or several that are joined.

    >>> same_blocks((8, 3), (4, 2, 3))
    [(range(0, 1), range(0, 2)), (range(1, 2), range(2, 3)), (range(2, 2), range(3, 3))]
    """
    found = []
    i = j = 0
    while i < len(before) and j < len(after):
        split, join = same_product(before[i], after[j:]), same_product(after[j], before[i:])
        k, m = (1, split) if split else (join, 1) if join else (len(before) - i, len(after) - j)
        found.append((range(i, i + k), range(j, j + m)))
        i, j = i + k, j + m
    return [*found, (range(i, len(before)), range(j, len(after)))]  # axes of one entry may be left


def same_product(size: Size, others: tuple[Size, ...]) -> int:
    """How many of the others have a size as their product; 0 if it is none of their products."""
    total: Size = 1
    for count, other in enumerate(others, 1):
        total = tidy(total * other)
        if total == size:
            return count
    return 0

"""Two sums in the other order, where the inner one is there already: a row of attention is not run over twice.

The adjoint of a softmax needs  sum[s](dA[t, s] * A[t, s])  with  dA[t, s] = sum[d](dY[t, d] * V[s, d]).  Summed over s
first, that is

    sum[s](sum[d](dY[t, d] * V[s, d]) * A[t, s]) = sum[d](dY[t, d] * Y[t, d]),    Y[t, d] = sum[s](A[t, s] * V[s, d])

and Y is the result of the attention, which the forward pass has. In the adjoint of a scan, A and V are stacked results
of the scan, and so must Y be. A sum that is not there is not made: it would be a run over s of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, keep, plain_variable
from dslc.passes.contract import Factor, factors
from dslc.passes.sides import contraction_sides
from dslc.passes.tiles import tile_roles
from dslc.passes.transform import Outputs, Transform, everything


@dataclass(frozen=True)
class Stacked:
    """A scan whose stacked results are read at the step of another one."""

    scan: ir.Scan
    step: ir.Step


class Exchanged(Transform):
    """A graph in which sums over a long side of a tile are sums over its short axis, where that can be."""

    def __init__(self, outputs: Outputs) -> None:
        super().__init__()
        self.users: dict[ir.Node, list[ir.Comp]] = {}
        order = everything(outputs)
        self.tiles = {x for x in order if tile_roles(x) is not None}
        for node in order:
            if isinstance(node, ir.Comp) and node.op == "sum":
                for a in ir.arguments(node):
                    self.users.setdefault(a, []).append(node)

    def _one(self, node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Comp) and node.op == "sum" and any(a in self.tiles for a in ir.arguments(node)):
            made = self.exchanged(node)
            if made is not None:
                for a in ir.arguments(made):
                    self.node(a)
                return super()._one(made)
        return super()._one(node)

    def exchanged(self, node: ir.Comp) -> ir.Tensor | None:
        """The sum along the short axis of a tile, if the rest of it is a value that the graph has."""
        parts = factors(node.body, len(node.shape))
        if any(f.below for f in parts):
            return None
        for k, f in enumerate(parts):
            s = f.scalar
            if isinstance(s, ir.Read) and s.tensor in self.tiles and s.outside is None:
                made = self.through(node, s, [*parts[:k], *parts[k + 1 :]])
                if made is not None:
                    return made
        return None

    def through(self, node: ir.Comp, tile_read: ir.Read, rest: Sequence[Factor]) -> ir.Tensor | None:
        tile, rank = tile_read.tensor, len(node.shape)
        assert isinstance(tile, ir.Comp)
        sides = contraction_sides(tile)
        places = [plain_variable(p) for p in tile_read.places]
        if sides is None or None in places or len(set(places)) != len(places):
            return None
        total = rank + len(node.reduced)
        inner = range(total, total + len(tile.reduced))
        mapping = dict(enumerate([*(v for v in places if v is not None), *inner]))
        change = Change({v: keep(w) for v, w in mapping.items()})
        goes = set(range(rank, total))
        for stays, other in ((sides[0], sides[1]), (sides[1], sides[0])):
            a, b = change.scalar(stays), change.scalar(other)
            if ir.variables(a) & goes or not goes <= ir.variables(b):
                continue
            wanted = [*(f.scalar for f in rest), b]
            for found, stacked, names in self.equal_sums(wanted, goes):
                value = reading(found, stacked, names)
                if value is None or not set(inner) <= ir.variables(value):
                    continue
                order = {v: keep(v) for v in range(rank)} | {v: keep(rank + k) for k, v in enumerate(inner)}
                body = Change(order).scalar(ir.op("*", (a, value), node.body.dtype))
                return ir.comp(node.shape, body, "sum", tile.reduced, node.name, node.span, node.dtype)
        return None

    def equal_sums(
        self, wanted: list[ir.Scalar], goes: set[int]
    ) -> Iterator[tuple[ir.Comp, Stacked | None, dict[int, int]]]:
        """Sums of the same product over the same variables, with their variables as those of the product."""
        for s in wanted:
            if not isinstance(s, ir.Read):
                continue
            for stacked in (None, stack_of(s)):
                tensor = s.tensor if stacked is None else origin(s, stacked)
                for user in self.users.get(tensor, ()) if tensor is not None else ():
                    parts = [f.scalar for f in factors(user.body, len(user.shape)) if not f.below]
                    names = matched(parts, wanted, stacked)
                    sizes = range(len(user.shape), len(user.shape) + len(user.reduced))
                    if names is not None and {names.get(v) for v in sizes} == goes and len(sizes) == len(goes):
                        yield user, stacked, names


def stack_of(s: ir.Read) -> Stacked | None:
    """The scan of which a read takes a stacked result, and the step that it is of."""
    first = s.places[0] if s.places else None
    if not isinstance(s.tensor, ir.Part) or not isinstance(s.tensor.of, ir.Scan) or not isinstance(first, ir.At):
        return None
    scan = s.tensor.of
    return Stacked(scan, first.step) if first.offset == 0 and s.tensor.number < len(scan.results) else None


def origin(s: ir.Read, stacked: Stacked) -> ir.Tensor | None:
    """The tensor inside a scan that a read takes the stack of."""
    found = stack_of(s)
    if found is None or found.scan is not stacked.scan or found.step is not stacked.step:
        return None
    assert isinstance(s.tensor, ir.Part)
    return stacked.scan.results[s.tensor.number]


def reading(found: ir.Comp, stacked: Stacked | None, names: Mapping[int, int]) -> ir.Read | None:
    """A read of a sum, or of its stack, at the given variables."""
    places = tuple(ir.plain(names[v]) for v in range(len(found.shape)))
    if stacked is None:
        return ir.read(found, places)
    scan = stacked.scan
    if found not in scan.results:
        return None
    shape = (scan.length, *found.shape)
    part = ir.intern(ir.Part(scan, scan.results.index(found), found.dtype, shape, found.name))
    return ir.read(part, (ir.intern(ir.At(stacked.step)), *places))


def matched(parts: Sequence[ir.Scalar], wanted: Sequence[ir.Scalar], stacked: Stacked | None) -> dict[int, int] | None:
    """How the variables of one product are to be named for it to be another; None if it is a different one."""
    if len(parts) != len(wanted):
        return None
    names: dict[int, int] = {}
    left = list(wanted)
    for s in parts:
        for other in left:
            new = unified(s, other, dict(names), stacked)
            if new is not None:
                names = new
                left.remove(other)
                break
        else:
            return None
    return names if len(set(names.values())) == len(names) else None


def unified(s: ir.Scalar, wanted: ir.Scalar, names: dict[int, int], stacked: Stacked | None) -> dict[int, int] | None:
    """The names with those added that make two reads the same."""
    if s is wanted and not ir.variables(s):
        return names
    if not isinstance(s, ir.Read) or not isinstance(wanted, ir.Read) or s.outside is not None:
        return None
    tensor, places = wanted.tensor, wanted.places
    if stacked is not None and s.tensor is not tensor:
        inside = origin(wanted, stacked)
        if inside is None:
            return None
        tensor, places = inside, places[1:]
    if s.tensor is not tensor or wanted.outside is not None:
        return None
    for mine, theirs in zip(s.places, places, strict=True):
        a, b = plain_variable(mine), plain_variable(theirs)
        if a is None or b is None:
            if not same_step(mine, theirs, stacked):
                return None
        elif names.setdefault(a, b) != b:
            return None
    return names


def same_step(mine: ir.Place, theirs: ir.Place, stacked: Stacked | None) -> bool:
    """Are two places the same step, one inside a scan and one where its stack is read?"""
    if mine is theirs:
        return isinstance(mine, ir.At)
    if stacked is None or not isinstance(mine, ir.At) or not isinstance(theirs, ir.At):
        return False
    return mine.step.scan == stacked.scan.number and theirs.step is stacked.step and mine.offset == theirs.offset


def exchanged(outputs: Outputs) -> dict[str, ir.Tensor]:
    pass_ = Exchanged(outputs)
    return pass_.outputs(outputs) if pass_.tiles else dict(outputs)

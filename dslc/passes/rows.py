"""A program for some rows of a batch: several members compute it at the same time, and add up what goes over all rows.

    mu[c] = sum[n, t](x[n, t, c]) / (N * T)     becomes     mu[c] = team sum(sum[n, t](x[n, t, c])) / (N_all * T)

Every axis of the batch size `N` then counts the rows of one member only. A value without such an axis is the same for
all members. That is right where no value has two axes of this size and each reads others in its own row; a maximum, a
minimum or a sum over the rows is one of the members' rows, then one of the members. A program for which it is not
right (batches that are compared with themselves, graphs whose nodes are the rows) stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from dslc.ir import nodes as ir
from dslc.passes.transform import Transform, everything
from dslc.sizes import Size, Symbol

#: what the members of a team do together: on their sums, maxima, minima
TOGETHER = {"sum": "team sum", "+": "team sum", "max": "team max", "min": "team min"}


@dataclass
class Shared:
    """A program for one member of a team."""

    outputs: dict[str, ir.Tensor]
    #: the number of rows of a member, and of the whole batch
    rows: Symbol
    all_rows: Symbol
    #: the number of the member's first row
    first: ir.Input
    #: the axis of the rows, for results that have them
    axes: dict[str, int]
    #: results that are still to be added up over the members
    partial: set[str] = field(default_factory=set)


def share(
    outputs: Mapping[str, ir.Tensor], rows: Symbol, all_rows: Symbol, gradients: Iterable[str] = ()
) -> Shared | None:
    """The program for one member, or nothing where rows cannot be told apart; `gradients` may be left to be added."""
    nodes = list(dict.fromkeys(everything(outputs)))
    if not all(separate(x, rows) for x in nodes):
        return None
    left = Left(nodes, {k: outputs[k] for k in gradients}, rows)
    made = _Share(rows, all_rows, left.nodes)
    values = made.outputs(outputs)
    axes = {k: axis for k, x in outputs.items() if (axis := axis_of(x.shape, rows)) is not None}
    return Shared(values, rows, all_rows, made.first, axes, left.names)


# ---- which programs can be shared ----------------------------------------------------------------------


def mentions(size: Size, rows: Symbol) -> bool:
    return not isinstance(size, int) and rows in size.free_symbols


def axis_of(shape: tuple[Size, ...], rows: Symbol) -> int | None:
    """The axis that counts rows."""
    return next((i for i, s in enumerate(shape) if mentions(s, rows)), None)


def _well_shaped(shape: tuple[Size, ...], rows: Symbol) -> bool:
    """Has a shape the rows at most once, and as an axis of their own?"""
    found = [s for s in shape if mentions(s, rows)]
    return len(found) <= 1 and all(s == rows for s in found)


def separate(node: ir.Node, rows: Symbol) -> bool:
    """Is a node computed row by row, or a sum, maximum or minimum over the rows?"""
    match node:
        case ir.Input():
            axis = axis_of(node.shape, rows)
            return _well_shaped(node.shape, rows) and axis in (None, 0) and (axis is None or node.role == "input")
        case ir.Comp():
            sizes = (*node.shape, *node.reduced)
            v = axis_of(sizes, rows)
            over_rows = v is not None and v >= len(node.shape)
            return (
                _well_shaped(sizes, rows)
                and (not over_rows or node.op in TOGETHER)
                and _body_is_separate(node.body, v, rows)
            )
        case ir.Scatter():
            v = axis_of(node.ranges, rows)
            over_rows = v is not None and axis_of(node.shape, rows) is None
            return (
                _well_shaped(node.ranges, rows)
                and _well_shaped(node.shape, rows)
                and (not over_rows or node.base is None)
                and all(_place_is_separate(x, s, v, rows) for x, s in zip(node.places, node.shape, strict=True))
                and all(_body_is_separate(x, v, rows) for x in ir.bodies(node))
            )
        case ir.Reshape():
            before, after = axis_of(node.of.shape, rows), axis_of(node.shape, rows)
            lead = before == after and (before is None or node.of.shape[:before] == node.shape[:before])
            return lead and _well_shaped(node.shape, rows)
        case ir.Along():
            return all(_well_shaped(s, rows) and axis_of(s, rows) != node.axis for s in _shapes(node))
        case ir.External():
            return all(_well_shaped(s, rows) and (axis_of(s, rows) or 0) < max(1, node.mapped) for s in _shapes(node))
        case ir.Scan():
            if mentions(node.length, rows):
                return False
            inner = ir.inside(node)[0]  # members would wait for each other in every step
            return node.name == "layers" or not any(_goes_over(x, rows) for x in inner)
        case ir.Part() | ir.Step():
            return _well_shaped(node.shape, rows)
    return True


def _shapes(node: ir.Along | ir.External) -> list[tuple[Size, ...]]:
    return [*(x.shape for x in node.args), *node.shapes]


def _goes_over(node: ir.Node, rows: Symbol) -> bool:
    """Is a value without rows made of one with rows?"""
    match node:
        case ir.Comp():
            return axis_of(node.reduced, rows) is not None
        case ir.Scatter():
            return axis_of(node.ranges, rows) is not None and axis_of(node.shape, rows) is None
    return False


def _body_is_separate(body: ir.Scalar, v: int | None, rows: Symbol) -> bool:
    reads = [s for s in ir.scalars(body) if isinstance(s, ir.Read)]
    return all(
        _place_is_separate(place, size, v, rows)
        for s in reads
        for place, size in zip(s.places, s.tensor.shape, strict=True)
    )


def _place_is_separate(place: ir.Place, size: Size, v: int | None, rows: Symbol) -> bool:
    """Along rows only the variable of the rows, elsewhere anything but it."""
    if mentions(size, rows):
        plain = isinstance(place, ir.Affine) and place.terms == ((v, 1),) and place.offset == 0
        return plain and isinstance(place, ir.Affine) and place.divisor == 1
    match place:
        case ir.Affine():
            numbers = (place.offset, place.divisor, *(c for _, c in place.terms))
            return all(n != v for n, _ in place.terms) and not any(mentions(x, rows) for x in numbers)
        case ir.At():
            return not mentions(place.offset, rows)
    return True


# ---- results that nothing else reads ---------------------------------------------------------------------


class Left:
    """Sums over the rows that only leave the function: members need not wait for each other to add them up."""

    def __init__(self, nodes: Iterable[ir.Node], gradients: Mapping[str, ir.Tensor], rows: Symbol):
        self.readers: dict[ir.Node, list[ir.Node]] = {}
        for node in nodes:
            for a in _direct(node):
                self.readers.setdefault(a, []).append(node)
        self.nodes: dict[ir.Node, None] = {}
        self.names: set[str] = set()
        for name, value in gradients.items():
            source = self.source(value)
            if source is not None and source.shape and _goes_over(source, rows):
                self.nodes[source] = None
                self.names.add(name)

    def source(self, node: ir.Tensor) -> ir.Tensor | None:
        """The value that a result is, alone or one for each layer, if nothing reads it on the way."""
        readers = self.readers.get(node, [])
        if isinstance(node, ir.Comp | ir.Scatter):
            return node if not readers or self._is_result(node, readers) else None
        if isinstance(node, ir.Part) and isinstance(node.of, ir.Scan) and node.of.name == "layers":
            if node.number < len(node.of.results) and (not readers or self._is_result(node, readers)):
                return self.source(node.of.results[node.number])
        return None

    def _is_result(self, node: ir.Tensor, readers: list[ir.Node]) -> bool:
        """Do only loops over layers take a value, to stack it, and once each?"""
        return all(isinstance(x, ir.Scan) and x.name == "layers" and x.results.count(node) == 1 for x in readers) and (
            not any(node in (*x.carries, *x.starts) for x in readers if isinstance(x, ir.Scan))
        )


def _direct(node: ir.Node) -> tuple[ir.Node, ...]:
    if isinstance(node, ir.Scan):
        return tuple(dict.fromkeys((*node.starts, *node.carries, *node.results)))
    if isinstance(node, ir.Part) and isinstance(node.of, ir.Scan):
        return ()
    return ir.arguments(node)


# ---- the program of a member ---------------------------------------------------------------------------------


class _Share(Transform):
    def __init__(self, rows: Symbol, all_rows: Symbol, left: Mapping[ir.Node, None]) -> None:
        super().__init__()
        self.rows, self.all_rows, self.left = rows, all_rows, left
        self.first = ir.intern(ir.Input("first row", "team", "i64", ()))

    def _one(self, node: ir.Node) -> ir.Node:
        made = super()._one(node)
        over_rows = _goes_over(node, self.rows) and node not in self.left
        match made:
            case ir.Comp():
                body = self.scalar(made.body, axis_of((*made.shape, *made.reduced), self.rows))
                made = ir.intern(replace(made, body=body))
            case ir.Scatter():
                v = axis_of(made.ranges, self.rows)
                places = tuple(
                    ir.intern(ir.Data(self.scalar(x.value, v), x.mode)) if isinstance(x, ir.Data) else x
                    for x in made.places
                )
                made = ir.intern(replace(made, body=self.scalar(made.body, v), places=places))
        if not over_rows:
            return made
        assert isinstance(node, ir.Comp | ir.Scatter) and isinstance(made, ir.Comp | ir.Scatter) and node.op is not None
        mine = replace(made, name=f"{made.name}_here" if made.name else "")  # not the node of that name: a new one
        together = ir.External(TOGETHER[node.op], (mine,), 0, (mine.shape,), (mine.dtype,), made.name, made.span)
        return ir.intern(ir.Part(ir.intern(together), 0, mine.dtype, mine.shape, made.name, made.span))

    def scalar(self, root: ir.Scalar, v: int | None) -> ir.Scalar:
        """A body in which the rows count from the member's first on, and their number is that of all members."""
        done: dict[ir.Scalar, ir.Scalar] = {}
        for s in ir.scalars(root):
            match s:
                case ir.Var() if s.number == v:
                    done[s] = ir.op("+", (s, ir.read(self.first, ())), "i64")
                case ir.SizeOf():
                    done[s] = ir.intern(ir.SizeOf(self.whole(s.size), s.dtype))
                case ir.Rand():
                    places = tuple(done[x] for x in s.places)
                    done[s] = ir.intern(replace(s, places=places, sizes=tuple(self.whole(x) for x in s.sizes)))
                case _:
                    done[s] = ir.rebuild(s, lambda x: done[x])
        return done[root]

    def whole(self, size: Size) -> Size:
        return size if isinstance(size, int) else size.subs({self.rows: self.all_rows})

"""What the index variables of a program are called: a side table of names that no node holds.

The builder notes the indices of the equations of a spec. All other comprehensions (of passes, of gradients) take their
names from the axes that they read: the adjoint of `h[n, o]` has indices `n` and `o` too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count

from dslc.ir import nodes as ir
from dslc.ir.interning import table
from dslc.sizes import Size
from dslc.sizes import show as show_size

#: for variables that nothing gives a name to
LETTERS = "ijklmnpqrstuvwabcdefgh"

#: an axis of a tensor, or (below 0) a variable of a scatter, which no axis has to go with
Axis = tuple[ir.Node, int]


def note(node: ir.Tensor, names: Sequence[str]) -> None:
    """The spec calls the variables of a node so: the axes of its result, then the reduced ones; "" for no name."""
    table().index_names.setdefault(node, tuple(names))


def same_axes(node: ir.Tensor, other: ir.Node) -> None:
    """The last axes of a node are those of another: of what it was before a pass, of what it is the adjoint of."""
    if node is not other and not isinstance(other, ir.Scan | ir.Custom | ir.Along | ir.External):
        table().axes_of.setdefault(node, other)


def index_names(order: Iterable[ir.Node]) -> Mapping[ir.Node, tuple[str, ...]]:
    """The names of the variables of all nodes of a program (of its scans too), for each node different ones."""
    noted, like = table().index_names, table().axes_of
    nodes = list(dict.fromkeys((*noted, *like, *order)))
    axes: dict[Axis, str] = {}
    for node in nodes:
        axes.update({_variable(node, k): name for k, name in enumerate(noted.get(node, ())) if name})
    for _ in range(2):  # what is read before the equation that names it gets the name in the second round
        for node in nodes:
            _pass_on(node, axes)
    return {node: _different(node, axes) for node in nodes if isinstance(node, ir.Comp | ir.Scatter)}


def _variable(node: ir.Node, number: int) -> Axis:
    """A variable of a node; those of a comprehension are the axes of its result, then the reduced ones."""
    return (node, -1 - number) if isinstance(node, ir.Scatter) else (node, number)


def _pass_on(node: ir.Node, axes: dict[Axis, str]) -> None:
    """From axes to the variables that run along them, and back."""
    for one, other in chain(_likewise(node), _same(node)):
        name = axes.get(one) or axes.get(other)
        if name:
            axes.setdefault(one, name)
            axes.setdefault(other, name)


def _likewise(node: ir.Node) -> Iterator[tuple[Axis, Axis]]:
    other = table().axes_of.get(node)
    if other is not None and not isinstance(node, ir.Scan | ir.Custom | ir.Along | ir.External):
        rank, lead = len(other.shape), len(node.shape) - len(other.shape)
        yield from (((node, k + lead), (other, k)) for k in range(rank) if lead >= 0)


def _same(node: ir.Node) -> Iterator[tuple[Axis, Axis]]:
    """Pairs of axes that one index runs along."""
    match node:
        case ir.Comp() | ir.Scatter():
            for tensor, axis, number in _plain_places(node):
                yield _variable(node, number), (tensor, axis)
        case ir.Part(of=ir.Along() as along):
            alike = (x for x in along.args if x.shape == node.shape)
            yield from (((node, k), (x, k)) for x in alike for k in range(len(node.shape)))
        case ir.Part(of=ir.Custom() as custom):
            yield from (((node, k), (custom.values[node.number], k)) for k in range(len(node.shape)))
        case ir.Part(of=ir.Scan() as scan):
            stacked = node.number < len(scan.results)
            inner = scan.results[node.number] if stacked else scan.carries[node.number - len(scan.results)]
            yield from (((node, k + stacked), (inner, k)) for k in range(len(inner.shape)))
        case ir.Scan():
            steps = [x for x in ir.inside(node)[0] if isinstance(x, ir.Step) and x.scan == node.number]
            for step in (x for x in steps if x.kind == "carry"):
                for k in range(len(step.shape)):
                    yield (step, k), (node.carries[step.place], k)
                    yield (step, k), (node.starts[step.place], k)


def _plain_places(node: ir.Comp | ir.Scatter) -> Iterator[tuple[ir.Tensor, int, int]]:
    """The axes that a body reads at one of its variables and nothing else, and the number of that variable."""
    reads = (s for s in chain(*map(ir.scalars, ir.bodies(node))) if isinstance(s, ir.Read))
    touched: list[tuple[ir.Tensor, tuple[ir.Place, ...]]] = [(x.tensor, x.places) for x in reads]
    if isinstance(node, ir.Scatter):
        touched += [(x, node.places) for x in (node, node.base) if x is not None]
    for tensor, places in touched:
        for axis, place in enumerate(places):
            if isinstance(place, ir.Affine) and len(place.terms) == 1 and place is ir.plain(place.terms[0][0]):
                yield tensor, axis, place.terms[0][0]


def _different(node: ir.Comp | ir.Scatter, axes: Mapping[Axis, str]) -> tuple[str, ...]:
    """The names of the variables of one node: of two with the same name the second is numbered."""
    sizes = (*node.shape, *node.reduced) if isinstance(node, ir.Comp) else node.ranges
    variables = [_variable(node, k) for k in range(len(sizes))]
    wishes: list[list[str]] = [[axes[x]] if x in axes else [] for x in variables]
    for tensor, axis, number in _plain_places(node):
        if (tensor, axis) in axes:
            wishes[number].append(axes[tensor, axis])
    found: list[str] = []
    steps = {x.name for x in ir.arguments(node) if isinstance(x, ir.Step) and x.kind == "number"}
    for size, names in zip(sizes, wishes, strict=True):
        found.append(next(x for x in _candidates(names, size) if x not in found and x not in steps))
    return tuple(found)


def _candidates(names: Sequence[str], size: Size) -> Iterator[str]:
    yield from names
    if names:
        yield from (f"{names[0]}{k}" for k in count(2))
    own = show_size(size).lower()
    if len(own) == 1 and own.isalpha():
        yield own
    yield from LETTERS
    yield from (f"i{k}" for k in count(2))

"""What a program costs: operations, bytes read and written, bytes saved for the backward pass; as formulas of sizes.

    y[n:N, o:256] = sum[i:64](x[n, i] * W[i, o])             2 * N * 256 * 64 operations

An operation is arithmetic on floats, or a function of them: it is counted over the indices that it depends on.
Comparisons, selects, casts and whole-number arithmetic are free. A value reads each element that it needs once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.ir.naming import name_of
from dslc.ops.table import FREE
from dslc.polynomials import log2
from dslc.sizes import Polynomial, Size, extreme, product, quotient
from dslc.source import NOWHERE, Span

BYTES = {"bool": 1, "f16": 2, "bf16": 2, "f32": 4, "i32": 4, "f64": 8, "i64": 8}

#: operations on one n by n matrix, to leading order
MATRIX: dict[str, Callable[[Size], Size]] = {
    "solve": lambda n: quotient(2 * n**3, 3),
    "inv": lambda n: 2 * n**3,
    "det": lambda n: quotient(2 * n**3, 3),
    "logdet": lambda n: quotient(2 * n**3, 3),
    "cholesky": lambda n: quotient(n**3, 3),
    "eigh": lambda n: 9 * n**3,
    "matexp": lambda n: 20 * n**3,
}


@dataclass
class Cost:
    """Operations and bytes; sizes that are open stay symbols."""

    operations: Size = 0
    read: Size = 0
    written: Size = 0
    saved: Size = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.operations + other.operations, self.read + other.read, self.written + other.written,
            self.saved + other.saved,
        )  # fmt: skip

    def times(self, count: Size) -> Cost:
        return Cost(self.operations * count, self.read * count, self.written * count, self.saved * count)

    def at(self, sizes: Mapping[str, int]) -> Cost:
        """With numbers for some symbols, multiplied out."""
        return Cost(*(settle(x, sizes) for x in (self.operations, self.read, self.written, self.saved)))


@dataclass
class Row:
    """A named value of the spec with the parts of its formula, or what no equation names; `count` nodes are in it."""

    name: str
    span: Span
    backward: bool
    count: int = 0
    cost: Cost = field(default_factory=Cost)


def settle(size: Size, sizes: Mapping[str, int]) -> Size:
    """A formula with numbers for some of its symbols.

    >>> from dslc.sizes import symbol
    >>> settle(symbol("N") * 3 + symbol("N") * 2, {"N": 4}), settle(symbol("N") * 3 + symbol("N") * 2, {})
    (20, 5*N)
    """
    if isinstance(size, int):
        return size
    value = size.subs({s: sizes[s.name] for s in size.free_symbols if s.name in sizes})
    return round(float(value)) if isinstance(value, Polynomial) and value.is_number else value


def costs(forward: Iterable[ir.Tensor], backward: Iterable[ir.Tensor] = (), dtype: str = "f32") -> list[Row]:
    """A row for each value that the results need, in order of computation; `backward` are the gradients."""
    first = ir.schedule(tuple(forward))
    known = set(first)
    second = [x for x in ir.schedule(tuple(backward)) if x not in known]
    counter = Counter(BYTES[dtype])
    saved = _saved(second, known)
    parts = _parts((*first, *second))
    rows: dict[tuple[str, str, int, bool], Row] = {}
    for order, is_backward in (([*first, *(x for x in saved if x not in known)], False), (second, True)):
        for node, times, place in _flat(order):
            cost = counter.node(node).times(times)
            if not is_backward and node in saved:
                cost.saved = counter.bytes(node)
            if cost == Cost():
                continue
            span = _place(node, place)
            name = name_of(node) or ", ".join(parts.get(node, ())) or _function(span)
            key = (name, span.source.name, span.line if span.source.text else 0, is_backward)
            row = rows.setdefault(key, Row(name, span, is_backward))
            row.count += 1
            row.cost += cost
    return list(rows.values())


#: `fn logsumexp[k](x) = ...`
FUNCTION = re.compile(r"fn\s+([A-Za-z_]\w*)")


def _function(span: Span) -> str:
    """The function of one formula that a line of the forward pass defines; empty for other lines."""
    found = FUNCTION.match(span.source.line(span.line)) if span.source.text and not span.derived else None
    return found.group(1) if found else ""


def _parts(order: Iterable[ir.Node]) -> dict[ir.Node, list[str]]:
    """The names of the results of operations that have several."""
    found: dict[ir.Node, dict[int, str]] = {}
    for node, _, _ in _flat(order):
        if isinstance(node, ir.Part) and node.name and not isinstance(node.of, ir.Scan):
            found.setdefault(node.of, {})[node.number] = node.name
    return {node: [names[k] for k in sorted(names)] for node, names in found.items()}


def _saved(backward: Iterable[ir.Node], known: set[ir.Node]) -> dict[ir.Node, None]:
    """The values of the forward pass that the backward pass reads; those of a scan may have no other reader."""
    found: dict[ir.Node, None] = {}
    for node in backward:
        if not isinstance(node, ir.Part):
            for x in ir.arguments(node):
                if not isinstance(x, ir.Input) and (x in known or (isinstance(x, ir.Part) and x.of in known)):
                    found[x] = None
    return found


def _place(node: ir.Node, around: Span) -> Span:
    """Where a node comes from: its own place, that of the node it is a part of, or that of the scan around it."""
    for x in (node, node.of if isinstance(node, ir.Part) else node):
        span: Span = getattr(x, "span", NOWHERE)
        if span.source.text:
            return span
    return around


def total(rows: Iterable[Row]) -> Cost:
    result = Cost()
    for row in rows:
        result += row.cost
    return result


def _flat(order: Iterable[ir.Node]) -> Iterable[tuple[ir.Node, Size, Span]]:
    """All nodes with how often they are computed, and the place of the scan around them."""
    stack: list[tuple[ir.Node, Size, Span]] = [(x, 1, NOWHERE) for x in reversed(list(order))]
    while stack:
        node, times, place = stack.pop()
        yield node, times, place
        if isinstance(node, ir.Scan):
            inner, _ = ir.inside(node)
            place = node.span if node.span.source.text else place
            stack += [(x, times * node.length, place) for x in reversed(inner) if not isinstance(x, ir.Step)]


class Counter:
    """Costs of single nodes."""

    def __init__(self, float_bytes: int):
        self.float_bytes = float_bytes

    def width(self, dtype: str) -> int:
        return BYTES.get(dtype, self.float_bytes)

    def bytes(self, node: ir.Node) -> Size:
        if isinstance(node, ir.Along | ir.External):
            pairs = zip(node.shapes, node.dtypes, strict=True)
            return sum((product(shape) * self.width(dtype) for shape, dtype in pairs), 0)
        if isinstance(node, ir.Scan | ir.Custom):
            return 0  # its values are counted where they are computed, and taken apart by Part
        return product(node.shape) * self.width(node.dtype)

    def node(self, node: ir.Node) -> Cost:
        if ir.slice_of_input(node):
            return Cost()  # the parameters of one layer: a view
        match node:
            case ir.Comp():
                ranges = (*node.shape, *node.reduced)
                cost = self.body(node.body, ranges)
                cost.operations += product(ranges) if node.op in ("sum", "prod", "max", "min") else 0
                cost.written = self.bytes(node)
                return cost
            case ir.Scatter():
                cost = self.body(node.body, node.ranges)
                cost.operations += product(node.ranges)
                cost.read += 0 if node.base is None else self.bytes(node.base)
                cost.written = self.bytes(node)
                return cost
            case ir.Along():
                return Cost(self.along(node), sum((self.bytes(a) for a in node.args), 0), self.bytes(node))
            case ir.External():
                square = node.args[0].shape
                each = MATRIX[node.op](square[-1])
                count = product(square[:-2]) * each
                return Cost(count, sum((self.bytes(a) for a in node.args), 0), self.bytes(node))
        return Cost()

    def along(self, node: ir.Along) -> Size:
        size = product(node.args[0].shape)
        if node.op in ("cumsum", "cumprod", "cummax", "cummin"):
            return size
        if node.op in ("fft", "ifft"):
            return 5 * size * log2(node.args[0].shape[node.axis])
        return 0

    def body(self, root: ir.Scalar, ranges: tuple[Size, ...]) -> Cost:
        """Each operation over the variables that it depends on; each element that is read once."""
        cost = Cost(read=sum(self.touched(root, ranges).values(), 0))
        depends = _depends(root)
        for s in ir.scalars(root):
            if isinstance(s, ir.Op) and is_float(s.dtype) and s.name not in FREE:
                cost.operations += product(ranges[n] for n in depends[s]) * max(1, len(s.args) - 1)
        return cost

    def touched(self, root: ir.Scalar, ranges: tuple[Size, ...]) -> dict[ir.Tensor, Size]:
        """The bytes of each tensor that a body reads."""
        depends = _depends(root)
        counts: dict[ir.Tensor, list[Size]] = {}
        for s in ir.scalars(root):
            if isinstance(s, ir.Read):
                counts.setdefault(s.tensor, []).append(_elements(s, ranges, depends))
        return {tensor: _largest(found) * self.width(tensor.dtype) for tensor, found in counts.items()}


def _depends(root: ir.Scalar) -> dict[ir.Scalar, frozenset[int]]:
    """The variables that each scalar of a body depends on."""
    depends: dict[ir.Scalar, frozenset[int]] = {}
    for s in ir.scalars(root):
        below = frozenset[int]().union(*(depends[x] for x in ir.operands(s)))
        match s:
            case ir.Var():
                below = frozenset((s.number,))
            case ir.Read():
                for place in s.places:
                    if isinstance(place, ir.Affine):
                        below |= {n for n, _ in place.terms}
        depends[s] = below
    return depends


def _elements(read: ir.Read, ranges: tuple[Size, ...], depends: Mapping[ir.Scalar, frozenset[int]]) -> Size:
    """How many elements a read touches: one for each value of the variables in its places, or whole axes."""
    axes: list[Size] = []
    variables: set[int] = set()
    for place, size in zip(read.places, read.tensor.shape, strict=True):
        if isinstance(place, ir.Data):
            variables |= depends[place.value]
        elif isinstance(place, ir.Affine) and place.terms:
            if len(place.terms) == 1 and place.terms[0][1] == 1 and place.divisor == 1:
                variables.add(place.terms[0][0])
            else:
                axes.append(size)
    return product((*axes, *(ranges[n] for n in sorted(variables))))


def _largest(counts: list[Size]) -> Size:
    """The same tensor may be read in several ways: the way that touches most, if that is known."""
    return extreme("max", counts)

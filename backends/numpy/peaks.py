"""Softmax and logsumexp without guards that cannot matter: where the largest exponent is certainly a number.

m = max[k](x[k]), S = sum[k](exp(x[k] - m)):   m if isfinite(m) else 0  =  m        1 if S == 0 else S  =  S

An exponent is a number where data come into it through sums of products alone: an infinity among them is lost there,
since it makes others NaN. Data that are read as they are may be a mask of infinities, and keep the guard. Under a
condition on positions, such as `s <= t`, one position must be left for each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dslc.backends.numpy.known import folded

from dslc.ir import nodes as ir
from dslc.ir.algebra import is_zero
from dslc.passes.finite import is_finite
from dslc.passes.products import split
from dslc.passes.transform import Outputs, Transform, everything, with_body
from dslc.stabilise.matching import inlined
from dslc.stabilise.membership import is_at


def use_peaks(outputs: Outputs, numbers: Iterable[ir.Node] = ()) -> dict[str, ir.Tensor]:
    """The same program without such guards; some inputs are known as `numbers`."""
    found = Certain(outputs, numbers)
    return _Unguarded(found.guarded).outputs(outputs) if found.guarded else dict(outputs)


def numbers_among(outputs: Outputs) -> set[str]:
    """Which results of a program are numbers in this sense."""
    found = Certain(outputs)
    return {name for name, x in outputs.items() if found.is_number(ir.whole(x))}


class Certain:
    """What is certain in a program: which values are numbers, and which maxima and sums need no guard."""

    def __init__(self, outputs: Outputs, numbers: Iterable[ir.Node] = ()) -> None:
        #: which values are certainly finite
        self.numbers = dict.fromkeys(numbers, True)
        self.guarded: set[ir.Node] = set()
        nodes = [x for x in everything(outputs) if isinstance(x, ir.Comp)]
        for node in nodes:  # arguments first
            if node.op == "sum" and len(split(node.body).above) > 1 and is_finite(ir.whole(node)):
                self.numbers[node] = True
            if self.is_peak(node) or self.is_total(node):
                self.guarded.add(node)

    def is_number(self, s: ir.Scalar) -> bool:
        return is_finite(s, True, self.numbers)

    def is_peak(self, node: ir.Comp) -> bool:
        """Is it the largest of some values, of which one at least is a number and none is more?"""
        return node.op == "max" and self.has_a_number(node.body, node)

    def is_total(self, node: ir.Comp) -> bool:
        """Is it the sum of exp(x - m) with such a maximum, which has exp(0) among its terms?"""
        match node:
            case ir.Comp(op="sum", body=ir.Op("exp", (ir.Op("-", (x, shift)),))):
                read = shifted_by(shift)
                of = None if read is None else each_step(read.tensor)
                if read is None or not isinstance(of, ir.Comp) or of not in self.guarded or of.op != "max":
                    return False
                return len(of.reduced) == len(node.reduced) and is_at(of.body, x, read, of)
        return False

    def has_a_number(self, s: ir.Scalar, node: ir.Comp) -> bool:
        match s:
            case ir.Op("select", (condition, a, ir.Const() as b)) if b.value == -float("inf"):
                return self.is_number(a) and leaves_one(condition, node)
            case ir.Read(tensor=ir.Comp(op=None), outside=None) if not self.is_number(s):
                body = inlined(s)
                return body is not None and self.has_a_number(body, node)
        return self.is_number(s)


def shifted_by(s: ir.Scalar) -> ir.Read | None:
    """The maximum that is taken off an exponent, with its guard."""
    match s:
        case ir.Op("select", (ir.Op("isfinite", (a,)), b, ir.Const())) if a is b:
            return shifted_by(a)
        case ir.Op("stop_grad", (a,)):
            return shifted_by(a)
        case ir.Read(outside=None):
            return s
    return None


def each_step(node: ir.Tensor) -> ir.Tensor:
    """What a loop has kept of all its steps, as the value of one of them."""
    while isinstance(node, ir.Part) and isinstance(node.of, ir.Scan) and node.number < len(node.of.results):
        node = node.of.results[node.number]
    return node


class _Unguarded(Transform):
    def __init__(self, guarded: set[ir.Node]) -> None:
        super().__init__()
        self.guarded = guarded

    def visit(self, node: ir.Node) -> ir.Node:
        if not isinstance(node, ir.Comp):
            return node
        done: dict[ir.Scalar, ir.Scalar] = {}
        for s in ir.scalars(node.body):
            new = ir.rebuild(s, lambda x: done[x])
            match new:
                case ir.Op("isfinite", (m,)) if self.is_guarded(m):
                    new = ir.const(True, "bool")
                case ir.Op("==", (total, zero)) if is_zero(zero) and self.is_guarded(total):
                    new = ir.const(False, "bool")
                case ir.Op():
                    new = folded(new)
            done[s] = new
        return with_body(node, done[node.body])

    def is_guarded(self, s: ir.Scalar) -> bool:
        read = shifted_by(s)
        node = None if read is None else each_step(read.tensor)
        return node is not None and self.origin.get(node, node) in self.guarded


#: a sum of variables with whole factors, and of a number under None
Place = dict[int | None, int]


def leaves_one(condition: ir.Scalar, node: ir.Comp) -> bool:
    """Does a condition on positions hold for some place of the reduced variables, wherever in the result? Tried are the
    first place, and those of axes of the result that are as long."""
    kept = len(node.shape)
    if len(node.reduced) != 1:
        return False
    places: list[Place] = [{}]
    places += [{n: 1} for n, size in enumerate(node.shape) if size == node.reduced[0]]
    return any(holds(condition, {kept: place}) for place in places)


def holds(s: ir.Scalar, places: Mapping[int, Place]) -> bool:
    """Is a condition on positions certainly true, with some variables at given places? Variables are 0 or more."""
    match s:
        case ir.Op("and", (a, b)):
            return holds(a, places) and holds(b, places)
        case ir.Op("or", (a, b)):
            return holds(a, places) or holds(b, places)
        case ir.Op("<=", (a, b)):
            return _not_negative(b, a, places, 0)
        case ir.Op("<", (a, b)):
            return _not_negative(b, a, places, 1)
        case ir.Op(">=", (a, b)):
            return _not_negative(a, b, places, 0)
        case ir.Op(">", (a, b)):
            return _not_negative(a, b, places, 1)
        case ir.Op("==", (a, b)):
            return _not_negative(a, b, places, 0) and _not_negative(b, a, places, 0)
    return False


def _not_negative(a: ir.Scalar, b: ir.Scalar, places: Mapping[int, Place], least: int) -> bool:
    above, below = linear(a, places), linear(b, places)
    if above is None or below is None:
        return False
    gap = {n: above.get(n, 0) - below.get(n, 0) for n in {*above, *below}}
    return gap.pop(None, 0) >= least and all(c >= 0 for c in gap.values())


def linear(s: ir.Scalar, places: Mapping[int, Place]) -> Place | None:
    """A position as such a sum."""
    match s:
        case ir.Var(number):
            return places.get(number, {number: 1})
        case ir.Const(int() as value) | ir.SizeOf(int() as value):
            return {None: value}
        case ir.Op("cast", (a,)):
            return linear(a, places)
        case ir.Op("+" | "-" as sign, (a, b)):
            left, right = linear(a, places), linear(b, places)
            if left is None or right is None:
                return None
            factor = 1 if sign == "+" else -1
            return {n: left.get(n, 0) + factor * right.get(n, 0) for n in {*left, *right}}
    return None

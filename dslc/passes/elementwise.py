"""Elementwise values move into the formulas that use them, where that saves a trip through memory."""

from __future__ import annotations

from functools import cached_property

from dslc.ir import nodes as ir
from dslc.ir.rewrite import NotAffine, Put, plain_variable
from dslc.ops.table import CHEAP
from dslc.passes.contract import entries, factors
from dslc.passes.sides import contraction_sides
from dslc.passes.transform import Outputs, Transform, everything, with_body

#: a formula of this many operations is worth a kernel of its own rather than a second evaluation
SMALL = 6


class Inlined(Transform):
    """A graph in which elementwise values stand where they are used, as far as that is worth it."""

    def __init__(self, outputs: Outputs) -> None:
        super().__init__()
        self.order = everything(outputs)
        self.users: dict[ir.Node, dict[ir.Node, None]] = {}
        self.fixed: set[ir.Node] = set(outputs.values())
        for node in self.order:
            for a in ir.arguments(node):
                self.users.setdefault(a, {})[node] = None
            if not isinstance(node, ir.Comp):
                self.fixed.update(ir.arguments(node))
            if isinstance(node, ir.Scan):
                self.fixed.update((*node.carries, *node.results, *node.starts))

    def visit(self, node: ir.Node) -> ir.Node:
        if not isinstance(node, ir.Comp):
            return node
        user = node
        return with_body(node, ir.with_reads(node.body, lambda s: self.inlined(s, user) or s))

    def inlined(self, s: ir.Read, user: ir.Comp) -> ir.Scalar | None:
        """The value that a read stands for, if it is to be computed in place."""
        node = s.tensor
        if not isinstance(node, ir.Comp) or node.op is not None or not self.worth(node, user):
            return None
        if s.outside is not None:
            return permuted(s, node)
        try:
            body = Put(dict(enumerate(s.places)), node.shape).scalar(node.body)
        except NotAffine:
            return None
        return body if body.dtype == s.dtype else ir.op("cast", (body,), s.dtype)

    def worth(self, node: ir.Comp, user: ir.Comp) -> bool:
        old = self.origin.get(node, node)
        reads = [x for x in ir.scalars(node.body) if isinstance(x, ir.Read)]
        ops = [x for x in ir.scalars(node.body) if isinstance(x, ir.Op)]
        if not reads or is_view(node):
            return len(ops) <= 4 * SMALL
        if not node.shape and len(ops) <= SMALL and not any(has_many(x) for x in reads):
            return True
        if old in self.spread and len(ops) <= MOST_AGAIN:
            return True
        if len(self.users.get(old, ())) != 1 or old in self.fixed:
            return False
        if user.op is None:
            return True
        cheap = all(x.name in CHEAP for x in ops) and len(ops) <= SMALL
        if contraction(user):
            return cheap and not any(isinstance(x.tensor, ir.Comp) and x.tensor.op is not None for x in reads)
        return True

    @cached_property
    def spread(self) -> set[ir.Node]:
        """Maps with many more entries than all that they are made of, and that only reductions read in the end.

        To compute such an entry again, as those of `exp(k[s, e] + w[t, s])`, costs less than a trip through memory:
        what it is made of is small, and at hand. A matrix product would compute it for each block of its other side.
        """
        reduced: set[ir.Node] = set()
        for node in reversed(self.order):
            users = self.users.get(node, {})
            if isinstance(node, ir.Comp) and node.op is None and node not in self.fixed and users:
                if all(u in reduced or (isinstance(u, ir.Comp) and u.op and not contraction_sides(u)) for u in users):
                    reduced.add(node)
        found: dict[ir.Node, float] = {}
        compared = set().union(*(extremes(node) for node in self.order))
        for node in self.order:
            if node in reduced and node not in compared and isinstance(node, ir.Comp):
                reads = [s.tensor for s in ir.scalars(node.body) if isinstance(s, ir.Read)]
                of = max((found.get(x, entries(x.shape)) for x in reads), default=0.0)
                if SPREAD * of <= entries(node.shape):
                    found[node] = of
        return set(found)


def extremes(node: ir.Node) -> set[ir.Node]:
    """The tensors that a formula asks to be equal to others: computed again, they might be rounded in another way."""
    tests = [s for body in ir.bodies(node) for s in ir.scalars(body) if isinstance(s, ir.Op) and s.name == "=="]
    return {x.tensor for test in tests for x in ir.scalars(test) if isinstance(x, ir.Read)}


#: and a formula of more operations is not computed again at all
MOST_AGAIN = 64
#: a map with this many times the entries of each tensor that it reads is not stored
SPREAD = 4


def spreads(node: ir.Comp) -> bool:
    """Has a map many more entries than all that it reads?"""
    own = entries(node.shape)
    return all(SPREAD * entries(s.tensor.shape) <= own for s in ir.scalars(node.body) if isinstance(s, ir.Read))


def has_many(s: ir.Read) -> bool:
    return bool(s.tensor.shape)


def is_view(node: ir.Comp) -> bool:
    """A tensor that only reads another one, or converts it."""
    body = node.body
    if isinstance(body, ir.Op) and body.name in ("cast", "stop_grad"):
        body = body.args[0]
    return isinstance(body, ir.Read) and not any(isinstance(p, ir.Data) for p in body.places)


def contraction(node: ir.Comp) -> bool:
    """Is it a sum of products of different variables, as a matrix product is?"""
    if node.op != "sum":
        return False
    parts = [f for f in factors(node.body) if f.axes]
    return len({f.axes for f in parts}) > 1


def permuted(s: ir.Read, node: ir.Comp) -> ir.Scalar | None:
    """A read that may be outside, of a tensor that is another one with its axes in another order."""
    body = node.body
    if not isinstance(body, ir.Read) or body.outside is not None:
        return None
    variables = [plain_variable(p) for p in body.places]
    if None in variables or sorted(v for v in variables if v is not None) != list(range(len(node.shape))):
        return None
    if any(node.shape[v] != n for v, n in zip(variables, body.tensor.shape, strict=True) if v is not None):
        return None
    places = tuple(s.places[v] for v in variables if v is not None)
    return ir.intern(ir.Read(body.tensor, places, s.dtype, s.outside))


def inlined(outputs: Outputs) -> dict[str, ir.Tensor]:
    return Inlined(outputs).outputs(outputs)

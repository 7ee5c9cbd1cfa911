"""Reverse mode on the IR: adjoints of all nodes from cotangents of some; the result is ordinary IR.

    y[i] = sum over r of body(i, r)   gives, for each read x[place(i, r)] in the body with adjoint a(i, r),
    dx[u] = sum over all (i, r) with place(i, r) = u of a(i, r)

The places are affine, so the sum is solved for the variables: a gather, with a guard where the solution leaves its
range or is not whole (a strided convolution). Only places that are data need a scatter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from dslc.autodiff import scalar as d
from dslc.autodiff.support import Known, guarded, support
from dslc.autodiff.transpose import inside, transposed
from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.ir.index_names import same_axes
from dslc.ir.rewrite import Change, keep, shift, zero
from dslc.ops.table import COSTLY, EXACT, having
from dslc.sizes import Size
from dslc.source import NOWHERE, Span

#: functions whose derivative is cheap given their value
BY_RESULT = having(lambda r: r.slope_from_value)

#: their derivatives are numbers
LINEAR = having(lambda r: r.linear)


N = TypeVar("N", ir.Comp, ir.Scatter)


class NoDerivative(Exception):
    """An operation that dslc cannot differentiate."""

    def __init__(self, what: str, node: ir.Node):
        self.what = what
        self.span: Span = getattr(node, "span", NOWHERE)
        super().__init__(what)


def gradients(
    seeds: Mapping[ir.Tensor, ir.Tensor], wrt: Sequence[ir.Tensor], lead: tuple[Size, ...] = ()
) -> list[ir.Tensor]:
    """Adjoints of `wrt`, given cotangents of other tensors. With `lead`, cotangents have extra axes in front.

    >>> x = ir.intern(ir.Input("x", "input", "f64", (3,)))
    >>> y = ir.comp((), ir.op("*", (ir.whole(x), ir.whole(x)), "f64"), "sum", (3,))
    >>> gradients({y: ones(())}, [x])[0].shape
    (3,)
    """
    reverse = Reverse(lead)
    for node, cotangent in seeds.items():
        reverse.contribute(node, cotangent)
    reverse.run(tuple(seeds), wrt)
    return [reverse.total(x) or zeros((*lead, *x.shape), x.dtype) for x in wrt]


def ones(shape: tuple[Size, ...], dtype: str = "float") -> ir.Tensor:
    return ir.comp(shape, ir.const(1.0, dtype))


def zeros(shape: tuple[Size, ...], dtype: str = "float") -> ir.Tensor:
    return ir.comp(shape, zero(dtype))


class Reverse:
    """The bookkeeping of one backward pass."""

    def __init__(self, lead: tuple[Size, ...] = ()):
        self.lead = lead
        self.parts: dict[ir.Node, list[ir.Tensor]] = {}
        self.totals: dict[ir.Node, ir.Tensor] = {}
        #: for nodes with several values, by the number of the value
        self.part_cotangents: dict[ir.Node, dict[int, ir.Tensor]] = {}
        #: nodes that depend on what is differentiated by
        self.needed: set[ir.Node] = set()
        #: the line that is differentiated now
        self.line: Span = NOWHERE

    def contribute(self, node: ir.Node, part: ir.Tensor) -> None:
        self.mark(part)
        self.parts.setdefault(node, []).append(part)
        self.totals.pop(node, None)

    def mark(self, part: ir.Tensor) -> None:
        """What is new in a contribution comes from the line that is differentiated now."""
        stack: list[ir.Node] = [part] if self.line is not NOWHERE else []
        while stack:
            node = stack.pop()
            if getattr(node, "span", None) is NOWHERE and not ir.slice_of_input(node):
                object.__setattr__(node, "span", self.line)  # spans are no part of what a node is
                stack += ir.arguments(node)

    def total(self, node: ir.Node) -> ir.Tensor | None:
        """The sum of all contributions to a node, in its dtype."""
        parts = self.parts.get(node)
        if not parts:
            return None
        if node not in self.totals:
            if len(parts) > 1:
                for part in parts:  # the name belongs to the sum
                    if isinstance(part, ir.Comp) and part.name == _name(node):
                        ir.rename(part, "")
            body: ir.Scalar = ir.whole(parts[0])
            for part in parts[1:]:
                body = d.add(body, ir.whole(part))
            body = d.cast(body, getattr(node, "dtype", body.dtype))
            spans = (getattr(x, "span", NOWHERE) for x in parts)  # the first is that of the last reader
            span = next((x for x in spans if x is not NOWHERE), derived(node))
            self.totals[node] = ir.comp(parts[0].shape, body, name=_name(node), span=span)
            same_axes(self.totals[node], node)
        return self.totals[node]

    def run(self, roots: tuple[ir.Node, ...], wrt: Iterable[ir.Node]) -> None:
        """Visit the nodes between the roots and `wrt`, last first. What lies behind a node of `wrt` is not visited."""
        order = ir.schedule(roots)
        targets = set(wrt)
        for node in order:
            if node in targets or any(a in self.needed for a in ir.arguments(node)):
                self.needed.add(node)
        for node in reversed(order):
            if node in self.needed and node not in targets:
                self.visit(node)

    def visit(self, node: ir.Node) -> None:
        self.line = derived(node)
        match node:
            case ir.Comp():
                cotangent = self.total(node)
                if cotangent is not None:
                    self.comp(node, cotangent)
            case ir.Scatter():
                cotangent = self.total(node)
                if cotangent is not None:
                    self.scatter(node, cotangent)
            case ir.Reshape():
                cotangent = self.total(node)
                if cotangent is not None:
                    shape = (*self.lead, *node.of.shape)
                    self.contribute(node.of, ir.intern(ir.Reshape(cotangent, shape, cotangent.dtype, _name(node.of))))
            case ir.Along() | ir.External() | ir.Custom() | ir.Scan():
                self.several(node)
            case ir.Part():
                cotangent = self.total(node)
                if cotangent is not None:
                    self.part_cotangents.setdefault(node.of, {})[node.number] = cotangent

    # ---- comprehensions

    def comp(self, node: ir.Comp, cotangent: ir.Tensor) -> None:
        count = len(self.lead)
        kept = len(node.shape)
        sizes = (*self.lead, *node.shape, *node.reduced)
        body = shift(node.body, count, kept + len(node.reduced))
        seed = guarded(node, ir.whole(cotangent))
        if node.op in ("max", "min"):
            seed = self.shared_maximum(node, seed)
        elif node.op == "prod":
            seed = d.mul(seed, self.other_factors(node, body))
        elif node.op not in (None, "sum"):
            return
        if node.op is None and (slope := self.slope(node)) is not None:
            read, factor = slope
            here = ir.read(factor, tuple(ir.plain(count + i) for i in range(kept)))
            places = Change({n: keep(n + count) for n in range(kept)})
            self.transpose(ir.read(read.tensor, tuple(places.place(x) for x in read.places)), d.mul(seed, here), sizes)
            return
        own = {body: ir.read(node, tuple(ir.plain(count + i) for i in range(kept)))} if node.op is None else None
        if node.op is None and isinstance(seed, ir.Read):
            slopes = self.adjoints(node, body, ir.const(1.0, node.dtype))
            if not any(isinstance(s, ir.Op) and s.name == "select" for a in slopes.values() for s in ir.scalars(a)):
                # the cotangent stands once, before all that depends on the forward pass alone
                found = {read: d.mul(seed, replaced(slope, own or {})) for read, slope in slopes.items()}
                self.contributions(node, found, sizes)
                return
        self.reads(node, body, seed, sizes, own)

    def contributions(self, node: ir.Comp, found: Mapping[ir.Read, ir.Scalar], sizes: tuple[Size, ...]) -> None:
        """Adjoints of reads as contributions; what several reads of a sum have in common is computed once."""
        shared: list[ir.Scalar] = [a for a in found.values() if isinstance(a, ir.Op)]
        for read, adjoint in found.items():
            if shared.count(adjoint) > 1:
                name = _name(node)
                adjoint = ir.whole(ir.comp(sizes, adjoint, name=f"{name}_in" if name else ""))
            self.transpose(read, adjoint, sizes)

    def slope(self, node: ir.Comp) -> tuple[ir.Read, ir.Tensor] | None:
        """For a costly function of one value: that value, and the derivative as a tensor of its own.

        It depends on nothing of the backward pass, so it can be computed beside the value, with which it shares work.
        """
        operations = [s for s in ir.scalars(node.body) if isinstance(s, ir.Op)]
        if not any(s.name in COSTLY for s in operations):
            return None
        if isinstance(node.body, ir.Op) and node.body.name in BY_RESULT and isinstance(node.body.args[0], ir.Read):
            return None
        active = {s for s in ir.scalars(node.body) if isinstance(s, ir.Read) and s.tensor in self.needed}
        if len(active) != 1 or any(s.name in ("select", "stop_grad") for s in operations):
            return None
        (read,) = active
        if read.outside is not None or not all(isinstance(x, ir.Affine) and x.mode == "inside" for x in read.places):
            return None
        adjoint = self.adjoints(node, node.body, ir.const(1.0, node.dtype)).get(read)
        if adjoint is None:
            return None
        name = f"{node.name}_slope" if node.name else ""
        return read, ir.comp(node.shape, adjoint, name=name, span=node.span, dtype=node.dtype)

    def shared_maximum(self, node: ir.Comp, seed: ir.Scalar) -> ir.Scalar:
        """Every place that reaches the maximum gets an equal share."""
        kept, every = len(node.shape), len(node.shape) + len(node.reduced)
        body, best = stored(node, (*node.shape, *node.reduced))
        here = ir.read(best, tuple(ir.plain(i) for i in range(kept)))
        hit = ir.op("==", (body, here), "bool")
        one = ir.op("select", (hit, d.number(1.0), d.number(0.0)), node.dtype)
        hits = ir.read(ir.comp(node.shape, one, "sum", node.reduced), tuple(ir.plain(i) for i in range(kept)))
        share = d.div(seed, shift(hits, len(self.lead), every))
        return d.choose(shift(hit, len(self.lead), every), share, zero(seed.dtype))

    def other_factors(self, node: ir.Comp, body: ir.Scalar) -> ir.Scalar:
        """The product of all factors but one, so that zeros do no harm."""
        kept, reduced = len(node.shape), len(node.reduced)
        shape = (*node.shape, *node.reduced)
        forms = {n: keep(n if n < kept else n + reduced) for n in range(kept + reduced)}
        other = Change(forms).scalar(node.body)
        same: ir.Scalar | None = None
        for k in range(reduced):
            equal = ir.op("==", (ir.var(kept + k), ir.var(kept + reduced + k)), "bool")
            same = equal if same is None else ir.op("and", (same, equal), "bool")
        assert same is not None
        rest = ir.comp(shape, d.choose(same, d.number(1.0), other), "prod", node.reduced)
        return ir.read(rest, tuple(ir.plain(len(self.lead) + i) for i in range(kept + reduced)))

    def reads(
        self,
        node: ir.Node,
        body: ir.Scalar,
        seed: ir.Scalar,
        sizes: tuple[Size, ...],
        known: Mapping[ir.Scalar, ir.Scalar] | None = None,
    ) -> None:
        """Adjoints of all reads of a body, each turned into a contribution to the tensor it reads.

        `known` says what can be read instead of being computed again: the value of the node itself.
        """
        for read, adjoint in self.adjoints(node, body, seed).items():
            self.transpose(read, replaced(adjoint, known) if known else adjoint, sizes)

    def adjoints(self, node: ir.Node, body: ir.Scalar, seed: ir.Scalar) -> dict[ir.Read, ir.Scalar]:
        """The adjoints of the reads of needed tensors in a body, given that of the body."""
        adjoint: dict[ir.Scalar, ir.Scalar] = {body: seed}
        found: dict[ir.Read, ir.Scalar] = {}
        known: Known = {}
        order = list(ir.scalars(body))
        active: set[ir.Scalar] = set()
        for s in order:
            if isinstance(s, ir.Read):
                alive = s.tensor in self.needed or (s.outside is not None and s.outside in active)
            else:
                alive = isinstance(s, ir.Op) and s.name not in d.FLAT and any(x in active for x in s.args)
            if alive and is_float(s.dtype):
                active.add(s)
        for s in reversed(order):
            a = adjoint.get(s)
            if a is None or s not in active or d.is_zero(a):
                continue
            if isinstance(s, ir.Read):
                if s.outside is not None and s.outside in active:
                    test = inside(s.tensor.shape, s.places)
                    if test is not None:
                        _accumulate(adjoint, s.outside, d.choose(test, zero(a.dtype), a))
                if s.tensor in self.needed:
                    found[s] = a
            elif isinstance(s, ir.Op):
                if s.name not in d.RULES:
                    raise NoDerivative(f"`{s.name}`", node)
                a = a if s.name in LINEAR else _visible(a, known)
                for argument, part in zip(s.args, d.RULES[s.name](s, a), strict=True):
                    if part is not None and argument in active:
                        _accumulate(adjoint, argument, part)
        return found

    # ---- reads to contributions

    def transpose(self, read: ir.Read, adjoint: ir.Scalar, sizes: tuple[Size, ...]) -> None:
        """Turn `for all variables: dx[places] += adjoint` into a tensor."""
        count = len(self.lead)
        shape = (*self.lead, *read.tensor.shape)
        places = (*(ir.plain(k) for k in range(count)), *read.places)
        loose = read.outside is not None
        self.contribute(read.tensor, transposed(shape, places, adjoint, sizes, _name(read.tensor), loose))

    def scatter(self, node: ir.Scatter, cotangent: ir.Tensor) -> None:
        """The adjoint of a scatter is a gather."""
        count = len(self.lead)
        sizes = (*self.lead, *node.ranges)
        change = Change({n: keep(n + count) for n in range(len(node.ranges))})
        body = change.scalar(node.body)
        places = (*(ir.plain(k) for k in range(count)), *(change.place(x) for x in node.places))
        seed = guarded(node, ir.read(cotangent, places))
        if node.base is not None and node.base in self.needed:
            self.contribute(node.base, cotangent)
        if node.op != "+":
            operand, best = stored(node, node.ranges)
            hit = ir.op("==", (operand, ir.read(best, node.places)), "bool")
            one = ir.op("select", (hit, d.number(1.0), d.number(0.0)), node.dtype)
            hits = ir.intern(ir.Scatter(node.shape, node.ranges, node.places, "+", one, None, node.dtype))
            share = d.div(seed, change.scalar(ir.read(hits, node.places)))
            seed = d.choose(change.scalar(hit), share, zero(seed.dtype))
        self.reads(node, body, seed, sizes)

    # ---- nodes with several values

    def several(self, node: ir.Along | ir.External | ir.Custom | ir.Scan) -> None:
        cotangents = self.part_cotangents.get(node)
        if cotangents:
            RULES[type(node)](self, node, cotangents)


#: adjoints of nodes with several values, from cotangents of these by number; `rules.py` fills the table
RULES: dict[type, Callable[[Reverse, Any, Mapping[int, ir.Tensor]], None]] = {}


def stored(node: N, ranges: tuple[Size, ...]) -> tuple[ir.Scalar, N]:
    """What a maximum runs over, and the maximum: both made of the same numbers, so that one is equal to the other.

    A formula that is computed twice may be rounded in two ways. So its values become a tensor of their own.
    """
    if all(s.name in EXACT for s in ir.scalars(node.body) if isinstance(s, ir.Op)):
        return node.body, node
    operand = ir.comp(ranges, node.body, name=f"{node.name}_from" if node.name else "", span=node.span)
    return ir.whole(operand), ir.intern(replace(node, body=ir.whole(operand)))


def replaced(root: ir.Scalar, known: Mapping[ir.Scalar, ir.Scalar]) -> ir.Scalar:
    """A scalar with parts of it replaced."""
    if not any(s in known for s in ir.scalars(root)):
        return root
    done: dict[ir.Scalar, ir.Scalar] = {}
    for s in ir.scalars(root):
        done[s] = known[s] if s in known else ir.rebuild(s, lambda x: done[x])
    return done[root]


def _accumulate(table: dict[ir.Scalar, ir.Scalar], key: ir.Scalar, part: ir.Scalar) -> None:
    table[key] = _sum(table[key], part) if key in table else part


def _sum(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    """a + b; where both are 0 outside of one condition, so is the sum."""
    match a, b:
        case ir.Op("select", (p, x, u)), ir.Op("select", (q, y, v)) if p is q and d.is_zero(u) and d.is_zero(v):
            return d.where(p, _sum(x, y))
    return d.add(a, b)


def _visible(a: ir.Scalar, known: Known) -> ir.Scalar:
    """A sum that is 0 outside of a condition, as a select: what it is multiplied with sinks into that.

    The sum may stand inside of other selects, or be negated.
    """
    around: list[tuple[ir.Scalar, bool]] = []
    inner = a
    while (
        isinstance(inner, ir.Op) and inner.name == "select" and (d.is_zero(inner.args[1]) or d.is_zero(inner.args[2]))
    ):
        taken = d.is_zero(inner.args[2])
        around.append((inner.args[0], taken))
        inner = inner.args[1 if taken else 2]
    if not isinstance(inner, ir.Op) or inner.name not in ("+", "-", "neg", "cast"):
        return a
    condition = support(inner, 0, known)
    if condition is None:
        return a
    made = d.where(condition, inner)
    for test, taken in reversed(around):
        made = d.choose(test, made, zero(made.dtype)) if taken else d.choose(test, zero(made.dtype), made)
    return made


def derived(node: ir.Node) -> Span:
    """The line of a node, for what its derivative consists of."""
    span: Span = getattr(node, "span", NOWHERE)
    return replace(span, derived=True) if span is not NOWHERE else NOWHERE


def _name(node: ir.Node) -> str:
    name = getattr(node, "name", "")
    return f"d_{name}" if name else ""

"""Linear maps merged into one, for inference and on request (`--fold`): weights are multiplied before they meet data.

    scale[o] * (sum[i](x[n, i] * W[i, o]) + b[o] - mu[o]) + shift[o]
        = sum[i](x[n, i] * V[i, o]) + (scale[o] * (b[o] - mu[o]) + shift[o])      V[i, o] = W[i, o] * scale[o]
    sum[k](sum[i](x[n, i] * A[i, k]) * B[k, o])
        = sum[i](x[n, i] * V[i, o])                                               V[i, o] = sum[k](A[i, k] * B[k, o])
    sum[b](sum[a](x[n, t + b + a] * K[a]) * L[b])
        = sum[u](x[n, t + u] * V[u])                                              V[u] = sum[b](K[u - b] * L[b])

Weights, scales and offsets are what parameters, states and numbers alone decide. What is merged has one reader, and is
read inside its axes only: a convolution that pads what another one gives stays apart, since zeros around a value are
not the value of zeros. Nothing is merged that would take more operations, axes of open size counting as long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, prod

from dslc.dtypes import alike, is_float
from dslc.ir import nodes as ir
from dslc.ir.algebra import add, div, is_zero, mul, neg, number, sub
from dslc.ir.bounds import Linear, lies_within
from dslc.ir.rewrite import Change, Form, NotAffine, Put, keep, plain_variable
from dslc.passes.products import join, select, split, variables
from dslc.passes.transform import Outputs, Transform, readers, with_body
from dslc.sizes import Size, estimate, tidy
from dslc.source import Span
from dslc.stabilise.rewriter import Fired

#: what a size counts that only the data give
OPEN = 1 << 20


def fold(outputs: Outputs, fired: list[Fired] | None = None) -> dict[str, ir.Tensor]:
    """The same outputs with fewer and cheaper linear maps; `fired` collects what was merged where."""
    return _Fold(readers(outputs), [] if fired is None else fired).outputs(outputs)


@dataclass(frozen=True)
class Line:
    """A formula that is `factor * read + offset` with a fixed factor and offset, to which so many terms are added."""

    read: ir.Read
    formula: ir.Scalar
    factor: ir.Scalar | None = None
    terms: int = 0

    def times(self, formula: ir.Scalar, factor: ir.Scalar, below: bool = False) -> Line:
        own = number(1) if self.factor is None else self.factor
        return replace(self, formula=formula, factor=(div if below else mul)(own, factor))

    @property
    def work(self) -> int:
        """The operations on data in it; its factors are multiplied first."""
        return self.terms + (self.factor is not None)

    def seen(self, value: ir.Scalar) -> ir.Scalar:
        """The formula with another one in the place of its read."""
        return ir.with_reads(self.formula, lambda s: value if s is self.read else s)

    @cached_property
    def offset(self) -> ir.Scalar | None:
        """What the formula is where the value is 0; None for 0."""
        at: dict[ir.Scalar, ir.Scalar] = {self.read: number(0)}
        for s in ir.scalars(self.formula):
            if s not in at:
                new = ir.rebuild(s, lambda x: at[x])
                at[s] = new if new is s or not isinstance(new, ir.Op) else _ALGEBRA[new.name](*new.args)
        return None if is_zero(at[self.formula]) else at[self.formula]


_ALGEBRA: dict[str, Callable[..., ir.Scalar]] = {
    "+": add, "-": lambda a, b: neg(b) if is_zero(a) else sub(a, b), "*": mul, "/": div, "neg": neg,
}  # fmt: skip


@dataclass(frozen=True)
class Weighted:
    """A sum of products of data and fixed factors; axes and summed variables are numbered as in its node."""

    node: ir.Comp
    data: ir.Scalar
    fixed: ir.Scalar | None


class _Fold(Transform):
    def __init__(self, uses: Counter[ir.Node], fired: list[Fired]):
        super().__init__()
        self.fired = fired
        #: how often nodes are read, before the change and after it
        self.before, self.uses = uses, Counter[ir.Node]()
        self.decided: dict[ir.Node, bool] = {}

    def _one(self, node: ir.Node) -> ir.Node:
        new = super()._one(node)
        self.uses[new] += self.before[node]
        return new

    def visit(self, node: ir.Node) -> ir.Node:
        if not isinstance(node, ir.Comp) or not is_float(node.dtype) or not alike(node.dtype, node.body.dtype):
            return node
        sizes = (*node.shape, *node.reduced)
        made = with_body(
            node, ir.with_reads(node.body, lambda s: ir.read(s.tensor, s.places) if _stays(s, sizes) else s)
        )
        assert isinstance(made, ir.Comp)
        return (self.scaled(made) if node.op is None else self.merged(made) if node.op == "sum" else None) or made

    # ---- what is fixed -------------------------------------------------------------------------------

    def is_fixed(self, s: ir.Scalar) -> bool:
        """Do parameters, states and numbers alone decide it?"""
        for x in ir.scalars(s):
            if isinstance(x, ir.Rand):
                return False
            if isinstance(x, ir.Read):
                steps = [place.step for place in x.places if isinstance(place, ir.At)]
                if not all(map(self.fixed_node, (x.tensor, *steps))):
                    return False
        return True

    def fixed_node(self, root: ir.Node) -> bool:
        stack = [root]
        while stack:
            node = stack[-1]
            waiting = [x for x in ir.arguments(node) if x not in self.decided]
            if waiting and not isinstance(node, ir.Scan | ir.Custom):
                stack += waiting
                continue
            stack.pop()
            self.decided[node] = self._fixed(node)
        return self.decided[root]

    def _fixed(self, node: ir.Node) -> bool:
        match node:
            case ir.Input():
                return node.role in ("param", "state")
            case ir.Step():
                return node.kind == "number"
            case ir.Scan() | ir.Custom():
                return False
        drawn = any(isinstance(s, ir.Rand) for body in ir.bodies(node) for s in ir.scalars(body))
        return not drawn and all(self.decided[x] for x in ir.arguments(node))

    # ---- formulas ------------------------------------------------------------------------------------

    def line(self, root: ir.Scalar) -> Line | None:
        """A formula as a line in the one value of data that it reads; None where it is none."""
        found: dict[ir.Scalar, Line | None] = {}
        for s in ir.scalars(root):
            if not self.is_fixed(s):
                found[s] = self._line(s, found)
        return found.get(root)

    def _line(self, s: ir.Scalar, found: dict[ir.Scalar, Line | None]) -> Line | None:
        if isinstance(s, ir.Read):
            return Line(s, s) if s.outside is None and is_float(s.dtype) else None
        if not isinstance(s, ir.Op) or not all(alike(s.dtype, x.dtype) for x in s.args if x in found):
            return None
        match s.name, s.args:
            case "neg", (a,):
                one = found[a]
                return None if one is None else one.times(s, number(-1))
            case ("+" | "-" | "*" | "/") as name, (a, b) if (a in found) != (b in found):
                one, other = (found[a], b) if a in found else (found[b], a)
                if one is None or (name == "/" and b in found):
                    return None
                if name in ("*", "/"):
                    return one.times(s, other, below=name == "/")
                if name == "-" and b in found:
                    return one.times(s, number(-1))
                return replace(one, formula=s, terms=one.terms + 1)
        return None

    def weighted(self, node: ir.Node) -> Weighted | None:
        """A node that is read once as data times weights, summed."""
        if not isinstance(node, ir.Comp) or node.op != "sum" or self.uses[node] != 1:
            return None
        return None if not alike(node.dtype, node.body.dtype) else self.parted(node)

    def parted(self, node: ir.Comp) -> Weighted | None:
        product = split(node.body, sink=False)
        fixed, data = select(product, [self.is_fixed(x) for x in (*product.above, *product.below)])
        if not data.above or data.below:
            return None
        weights = join(fixed, node.dtype) if fixed.above or fixed.below or fixed.negative else None
        return Weighted(node, join(data, node.dtype), weights)

    def origin_of(self, line: Line) -> Line:
        """A line in the first value of a chain of lines, each of which has one reader."""
        while True:
            node = line.read.tensor
            if not isinstance(node, ir.Comp) or node.op is not None or self.uses[node] != 1:
                return line
            below = self.line(node.body) if alike(node.dtype, node.body.dtype) else None
            if below is None:
                return line
            try:
                put = Put(dict(enumerate(line.read.places)), node.shape)
                read, formula = put.scalar(below.read), put.scalar(below.formula)
                factor = None if below.factor is None else put.scalar(below.factor)
            except NotAffine:
                return line
            assert isinstance(read, ir.Read)
            made = Line(read, formula, factor)
            whole = line.seen(formula)
            terms = below.terms + line.terms
            line = replace(made if line.factor is None else made.times(whole, line.factor), formula=whole, terms=terms)

    # ---- a scale and an offset after a sum -----------------------------------------------------------

    def scaled(self, node: ir.Comp) -> ir.Tensor | None:
        """Factors after a linear map are multiplied into its weights, terms after it are added up first."""
        line = self.line(node.body)
        line = None if line is None else self.origin_of(line)
        below = None if line is None else self.weighted(line.read.tensor)
        if line is None or below is None or below.fixed is None:
            return None
        places = [plain_variable(x) for x in line.read.places]
        if sorted(x for x in places if x is not None) != list(range(len(node.shape))):
            return None
        back = {n: keep(k) for k, n in enumerate(places) if n is not None}
        factor = None if line.factor is None else Change(back).scalar(line.factor)
        over = variables(below.fixed)
        if factor is not None and not variables(factor) <= over:
            return None
        sizes = (*below.node.shape, *below.node.reduced)
        added = _count(over, sizes) if factor is not None else 0
        if line.offset is not None:
            added += _count(variables(line.offset), node.shape)
        saved = (line.work - (line.offset is not None)) * _count(range(len(node.shape)), node.shape)
        if saved <= added:
            return None
        made: ir.Tensor = below.node
        if factor is not None:
            weight = self.tensor_of(mul(below.fixed, factor), sizes, _weight_name(below.fixed), node.span)
            made = self.sum_of(below.data, weight, below.node, "" if line.offset is not None else node.name)
        self.fired.append(Fired("scaled", " ".join((self.scaled.__doc__ or "").split()), node.span))
        return self.shifted(node, replace(line.read, tensor=made), line.offset)

    def shifted(self, node: ir.Comp, read: ir.Read, offset: ir.Scalar | None) -> ir.Tensor:
        """A sum with an offset, in the place of a node."""
        body: ir.Scalar = ir.read(read.tensor, read.places)
        if offset is None:
            return ir.comp(node.shape, body, name=node.name, span=node.span, dtype=node.dtype)
        self.uses[read.tensor] = 1
        if len(variables(offset)) < len(node.shape) and not isinstance(offset, ir.Read | ir.Const):
            offset = self.tensor_of(offset, node.shape, f"{node.name}_offset" if node.name else "", node.span)
        return ir.comp(node.shape, add(body, offset), name=node.name, span=node.span, dtype=node.dtype)

    def tensor_of(self, body: ir.Scalar, sizes: Sequence[Size], name: str, span: Span) -> ir.Scalar:
        """A formula as a tensor over its variables, read at them; its axes are in the order in which it reads them."""
        order = _order(body)
        shape = tuple(sizes[n] for n in order)
        made = ir.comp(shape, Change({n: keep(k) for k, n in enumerate(order)}).scalar(body), name=name, span=span)
        return ir.read(made, tuple(map(ir.plain, order)))

    def sum_of(self, data: ir.Scalar, weight: ir.Scalar, like: ir.Comp, name: str) -> ir.Tensor:
        body = ir.op("*", (data, weight), like.dtype)
        return ir.comp(like.shape, body, "sum", like.reduced, name, like.span, like.dtype)

    # ---- a sum of a sum ------------------------------------------------------------------------------

    def merged(self, node: ir.Comp) -> ir.Tensor | None:
        """A linear map of a linear map is one whose weights are the product of theirs."""
        above = self.parted(node)
        if above is None or not isinstance(above.data, ir.Read) or above.data.outside is not None:
            return None
        line = self.origin_of(Line(above.data, above.data))
        below = self.weighted(line.read.tensor)
        if below is None or not isinstance(below.data, ir.Read):
            return None
        first, inner = len(node.shape) + len(node.reduced), below.node
        places = dict(enumerate((*line.read.places, *(ir.plain(first + n) for n in range(len(inner.reduced))))))
        if not all(isinstance(x, ir.Affine) and x.mode == "inside" for x in places.values()):
            return None
        try:
            put = Put(places, (*inner.shape, *inner.reduced))
            data = put.scalar(below.data)
            factors = [x for x in (above.fixed, line.factor) if x is not None]
            if below.fixed is not None:
                factors.append(put.scalar(below.fixed))
        except NotAffine:
            return None
        weight = number(1) if not factors else factors[0]
        for x in factors[1:]:
            weight = mul(weight, x)
        assert isinstance(data, ir.Read)
        windows = Windows(data, weight, [*node.shape, *node.reduced, *inner.reduced], len(node.shape))
        if not windows.join():
            return None
        offset = self.offset_after(node, above.fixed, line.offset)
        costs = _count(range(len(node.shape) + len(node.reduced)), (*node.shape, *node.reduced))
        costs += _count(range(len(inner.shape) + len(inner.reduced)), (*inner.shape, *inner.reduced))
        if windows.cost() + (0 if offset is None else offset[1]) >= costs:
            return None
        made = windows.sum(node, _weight_name(weight), "" if offset is not None else node.name)
        self.fired.append(Fired("merged", " ".join((self.merged.__doc__ or "").split()), node.span))
        if offset is None:
            return made
        read = ir.read(made, tuple(map(ir.plain, range(len(node.shape)))))
        return self.shifted(node, read, offset[0])

    def offset_after(
        self, node: ir.Comp, weight: ir.Scalar | None, offset: ir.Scalar | None
    ) -> tuple[ir.Scalar, float] | None:
        """What the offsets of a map become in the map that reads it, and what that costs."""
        if offset is None:
            return None
        body = offset if weight is None else mul(offset, weight)
        kept, sizes = len(node.shape), (*node.shape, *node.reduced)
        order = [n for n in _order(body) if n < kept]
        forms = {n: keep(k) for k, n in enumerate([*order, *range(kept, len(sizes))])}
        shape = tuple(sizes[n] for n in order)
        name = f"{node.name}_offset" if node.name else ""
        made = ir.comp(shape, Change(forms).scalar(body), "sum", node.reduced, name, node.span, node.dtype)
        return ir.read(made, tuple(map(ir.plain, order))), _count([*order, *range(kept, len(sizes))], sizes)


@dataclass
class Windows:
    """Data times weights, summed over variables from number `kept` on, some of which move the same place of the data.

    x[t + b + a] * K[a] * L[b], summed over a and b  =  x[t + u] * (K[u - b] * L[b], summed over b), summed over u
    """

    data: ir.Read
    weight: ir.Scalar
    sizes: list[Size]
    kept: int

    def join(self) -> bool:
        """One variable for those that move a place together; False where that is not possible."""
        self.summed = list(range(self.kept, len(self.sizes)))
        for axis, place in enumerate(self.data.places):
            if isinstance(place, ir.Affine) and sum(n >= self.kept for n, _ in place.terms) > 1:
                if not self._join(axis, place):
                    return False
        reads = [n for x in self.data.places if isinstance(x, ir.Affine) for n, _ in x.terms]
        own = dict.fromkeys((*reads, *sorted(variables(self.data))))
        self.outer = [n for n in own if n in self.summed]
        self.inner = [n for n in self.summed if n not in own]
        return bool(self.outer)

    def _join(self, axis: int, place: ir.Affine) -> bool:
        steps = {n: c for n, c in place.terms if n >= self.kept}
        lengths = {n: self.sizes[n] for n in steps}
        if place.divisor != 1 or not all(isinstance(c, int) and c > 0 for c in (*steps.values(), *lengths.values())):
            return False
        rest = ir.affine(tuple(x for x in place.terms if x[0] not in steps), place.offset, place.mode)
        places = [*self.data.places]
        places[axis] = rest
        if variables(replace(self.data, places=tuple(places))) & steps.keys():
            return False  # they move other places too
        last = next((n for n in steps if self._selects(n)), None)
        if last is None:
            return False
        common = gcd(*steps.values())  # type: ignore[arg-type]
        step = {n: c // common for n, c in steps.items()}  # type: ignore[operator]
        new = len(self.sizes)
        self.sizes.append(1 + sum(c * (lengths[n] - 1) for n, c in step.items()))
        places[axis] = ir.affine((*rest.terms, (new, common)), rest.offset, rest.mode)
        self.data = ir.intern(replace(self.data, places=tuple(places)))
        forms = {n: keep(n) for n in range(new)}
        forms[last] = Form(((new, 1), *((n, -c) for n, c in step.items() if n != last)), 0, step[last])
        self.weight = Change(forms, guard=frozenset({last})).scalar(self.weight)
        self.summed = [*(n for n in self.summed if n != last), new]
        return True

    def _selects(self, n: int) -> bool:
        """Does a variable stand for entries of a factor alone, one for each, so that it may leave its range there?"""
        for s in ir.scalars(self.weight):
            if isinstance(s, ir.Var) and s.number == n:
                return False
            if isinstance(s, ir.Read):
                at = [k for k, x in enumerate(s.places) if isinstance(x, ir.Affine) and n in dict(x.terms)]
                alone = all(plain_variable(s.places[k]) == n and s.tensor.shape[k] == self.sizes[n] for k in at)
                if at and (not alone or s.outside is not None):
                    return False
        factors = split(self.weight, sink=False)
        return any(isinstance(x, ir.Read) and n in variables(x) for x in factors.above) and not any(
            n in variables(x) for x in factors.below
        )

    def cost(self) -> float:
        weights = variables(self.weight) | set(self.inner)
        return _count([*range(self.kept), *self.outer], self.sizes) + _count(weights, self.sizes)

    def sum(self, node: ir.Comp, weight_name: str, name: str) -> ir.Tensor:
        """The sum in the place of a node, and its weights as a tensor of their own."""
        over = variables(self.weight) - set(self.inner)
        order = [*(n for n in self.outer if n in over), *sorted(over - set(self.outer))]
        forms = {n: keep(k) for k, n in enumerate([*order, *self.inner])}
        shape, inner = (tuple(self.sizes[n] for n in some) for some in (order, self.inner))
        body = Change(forms).scalar(self.weight)
        weight = ir.comp(shape, body, "sum" if inner else None, inner, weight_name, node.span, node.dtype)
        whole = ir.op("*", (self.data, ir.read(weight, tuple(map(ir.plain, order)))), node.dtype)
        forms = {n: keep(k) for k, n in enumerate([*range(self.kept), *self.outer])}
        outer = tuple(self.sizes[n] for n in self.outer)
        return ir.comp(node.shape, Change(forms).scalar(whole), "sum", outer, name, node.span, node.dtype)


def _stays(s: ir.Read, sizes: Sequence[Size]) -> bool:
    """Does a read that has a value for places outside never leave its axes?"""
    return s.outside is not None and all(
        isinstance(x, ir.Affine)
        and (x.mode, x.divisor) == ("inside", 1)
        and lies_within(Linear(dict(x.terms), x.offset), sizes, 0, tidy(n - 1))
        for x, n in zip(s.places, s.tensor.shape, strict=True)
    )


def _count(numbers: Iterable[int], sizes: Sequence[Size]) -> float:
    """How many values some variables take."""
    return prod(estimate(sizes[n], OPEN) for n in numbers)


def _order(body: ir.Scalar) -> list[int]:
    """The variables of a formula, in the order in which its reads have them."""
    reads = [s for s in ir.scalars(body) if isinstance(s, ir.Read)]
    plain = [plain_variable(x) for s in sorted(reads, key=lambda s: -len(s.places)) for x in s.places]
    return list(dict.fromkeys([*(n for n in plain if n is not None), *sorted(variables(body))]))


def _weight_name(weight: ir.Scalar) -> str:
    """The name of the largest tensor in it, folded."""
    reads = [s for s in ir.scalars(weight) if isinstance(s, ir.Read) and s.tensor.name]
    largest = max(reads, key=lambda s: len(s.places), default=None)
    return "" if largest is None else f"{largest.tensor.name.removesuffix('_folded')}_folded"

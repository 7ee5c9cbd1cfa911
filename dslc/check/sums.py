"""Where implied sums go: an index absent on the left is summed over the smallest product that holds all its uses,
separately in each additive term.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from dslc.check import wording
from dslc.check.frame import Frame
from dslc.check.indices import Scope
from dslc.check.program import Tensor
from dslc.check.values import FunctionValue, Poison, Static, Val, is_int
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Diagnostic, Label
from dslc.ops.table import ALONG_AXIS, CASTS, DRAWS, REDUCTIONS
from dslc.resolve.files import Defined
from dslc.syntax import tree as t
from dslc.syntax.printer import print_node

REST = "..."
Op = Literal["*", "/"]

#: Functions of one argument that a sum may pass through.
LINEAR = ("sum", "mean", "cumsum", "stop_grad", *CASTS)


# ---- which names are indices ---------------------------------------------------------------------


def collect_index_names(frame: Frame, nodes: list[t.Node]) -> set[str]:
    """The names that a statement uses as indices: between brackets, and not already a number there."""
    found: set[str] = set()
    callees = {id(n.callee) for root in nodes for n in root.walk() if isinstance(n, t.Call)}
    for root in nodes:
        for node in root.walk():
            items = node.items if isinstance(node, t.Access | t.Target) else None
            if items is None:
                continue
            binder = id(node) in callees
            for item in items:
                if isinstance(item, t.Rest):
                    found.add(REST)
                elif isinstance(item, t.Group):
                    found.update(n.id for n in item.names)
                elif isinstance(item, t.Into):
                    found.update((item.source.id, item.target.id))
                elif isinstance(item, t.Slice):
                    bound = binder or isinstance(node, t.Target)
                    if bound and isinstance(item.low, t.Name):
                        found.add(item.low.id)
                    elif bound and item.low is not None:
                        found.update(_names_in_position(frame, item.low))
                elif binder and isinstance(item, t.Name):
                    found.add(item.id)
                else:
                    found.update(_names_in_position(frame, item))
    return found


def _names_in_position(frame: Frame, item: t.Expr) -> Iterator[str]:
    stack: list[t.Node] = [item]
    while stack:
        node = stack.pop()
        if isinstance(node, t.Name):
            if not _is_number(frame, node.id):
                yield node.id
        elif isinstance(node, t.Access | t.Member):
            continue  # its own items are looked at by the caller's walk
        elif isinstance(node, t.Call):
            stack.extend(a.value for a in node.arguments)
        else:
            stack.extend(node.children())


def _is_number(frame: Frame, name: str) -> bool:
    """Is the name a size, a static number or a scalar in scope, so that it cannot be an index?"""
    binding = frame.names.get(name)
    if isinstance(binding, Static | Val | Poison):
        return True
    return isinstance(binding, Tensor) and not binding.shape and is_int(binding.dtype)


# ---- what a call with bracketed indices does to them ---------------------------------------------


def binder_names(items: tuple[t.Item, ...]) -> tuple[list[str], list[str]]:
    """Names that a bracket binds inside, and names that it gives outside (`v -> j` binds v and gives j)."""
    inside: list[str] = []
    outside: list[str] = []
    for item in items:
        if isinstance(item, t.Rest):
            inside.append(REST)
            outside.append(REST)
        elif isinstance(item, t.Into):
            inside.append(item.source.id)
            outside.append(item.target.id)
        elif isinstance(item, t.Slice) and isinstance(item.low, t.Name):
            inside.append(item.low.id)
            outside.append(item.low.id)
        elif isinstance(item, t.Name):
            inside.append(item.id)
            outside.append(item.id)
    return inside, outside


def binder_kind(frame: Frame, name: str) -> str | None:
    """`reduce` (the index disappears), `keep` (it stays), `join` (own range in each argument), or None."""
    binding = frame.lookup_function(name)
    if isinstance(binding, Val):
        binding = binding.function
    if not isinstance(binding, FunctionValue):
        return None
    if binding.builtin is not None:
        if binding.builtin in REDUCTIONS:
            return "reduce"
        if binding.builtin in ALONG_AXIS or binding.builtin in DRAWS or binding.builtin in ("one_hot", "prefix"):
            return "keep"
        if binding.builtin in ("concat", "top_k", "fft", "ifft"):
            return "join"
        return None
    assert binding.defined is not None
    node = binding.defined.node
    if not isinstance(node, t.Fn) or node.axis is None:
        return None
    return "keep" if keeps_axis(binding.defined) else "reduce"


def keeps_axis(defined: Defined, depth: int = 0) -> bool:
    """Does an axis function give one result per element (softmax) or one for the axis (logsumexp)?"""
    node = defined.node
    assert isinstance(node, t.Fn)
    if node.expression is None or depth > 20:
        return True
    formals = {f.name for f in node.formals}
    stack: list[t.Node] = [node.expression]
    while stack:
        here = stack.pop()
        if isinstance(here, t.Name) and (here.id in formals or here.id == node.axis):
            return True
        if isinstance(here, t.Call) and isinstance(here.callee, t.Access) and isinstance(here.callee.base, t.Name):
            inside, _ = binder_names(here.callee.items)
            if node.axis in inside:
                name = here.callee.base.id
                inner = defined.file.lookup(name)
                if name in REDUCTIONS and (inner is None):
                    continue
                if inner is not None and isinstance(inner.node, t.Fn) and not keeps_axis(inner, depth + 1):
                    continue
                return True
        if isinstance(here, t.Call):
            stack.extend(a.value for a in here.arguments)
        else:
            stack.extend(here.children())
    return False


# ---- uses ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lone:
    """An index that no implied sum takes: its name, its place, and the function or quotient around that."""

    name: str
    place: t.Expr
    around: t.Expr
    in_denominator: bool = False

    def diagnostic(self, names: Sequence[str]) -> Diagnostic:
        """What is wrong with it; `names` are all indices for which the same is."""
        place, inner = self.place.span, f"sum[{', '.join(names)}]({self._before().span.text})"
        outer = f"sum[{', '.join(names)}]({self.around.span.text})"
        if self.in_denominator:
            help = f"write `{outer}`, or `{inner}` in the denominator, whichever is meant"
            return kinds.ONLY_IN_DENOMINATOR(Label(place), name=self.name, help=help)
        what = _called(self.around)
        help = f"write `{outer}` to sum the results"
        if self.around is not self.place and isinstance(self.place, t.Access | t.OrElse):
            help += f", or `{inner}` inside to sum before `{what}`"
        return kinds.LONE_INDEX(Label(place), name=self.name, what=what, help=help)

    def _before(self) -> t.Expr:
        """What would be summed before the function: its argument, `x[k]^2` of `sqrt(x[k]^2)`."""
        single = isinstance(self.around, t.Call) and len(self.around.arguments) == 1
        return self.around.arguments[0].value if single else self.place  # type: ignore[union-attr]


class Placement:
    """Places the implied sums of one right-hand side into `scope.sums`."""

    def __init__(self, scope: Scope):
        self.scope = scope
        self.frame = scope.frame
        self._uses: dict[int, frozenset[str]] = {}
        #: indices that cannot be summed
        self.lone: list[Lone] = []
        #: indices that are summed
        self.summed: set[str] = set()
        #: those of them that no product of reads contracts
        self.alone: set[str] = set()

    def run(self, root: t.Expr, kept: Set[str]) -> None:
        """Everything used in `root` and not `kept` is to be summed somewhere inside it."""
        names = [n for n in sorted(self.uses(root)) if n not in kept]
        for name in names:
            self.place(root, name, None)

    def report(self, root: t.Expr, unnamed: Sequence[t.Target] = ()) -> None:
        """Report the indices that cannot be summed, once the expression has been looked at.

        When a target has no brackets, that is what is wrong.
        """
        lone = [x for x in self.lone if x.name not in self.scope.unreduced]
        if not unnamed or not lone:
            for x in lone:
                together = {y.name for y in lone if y.place is x.place and y.around is x.around}
                self.frame.report(x.diagnostic(self.in_order(root, together)))
            return
        names = self.in_order(root, {x.name for x in lone} | self.alone)
        target, place = unnamed[0], lone[0].place
        lefts = ", ".join(f"{x.name}[{', '.join(names)}]" for x in unnamed)
        help = "name the axes: " + (self._whole_arguments(root, names, unnamed) or wording.equation(lefts, root))
        if isinstance(root, t.Call) and any(isinstance(x.value, t.Call) and not self.uses(x) for x in root.arguments):
            help = f"name the arguments on lines before, and index them there, and `{target.name}` on the left"
        labels = (Label(target.span, "no axes are named here"), Label(place.span))
        self.frame.report(kinds.INDICES_LEFT(*labels, target=target.name, names=wording.indices(names), help=help))

    def _whole_arguments(self, root: t.Expr, names: Sequence[str], unnamed: Sequence[t.Target]) -> str | None:
        """`y[i, j, c] = concat[c](a[i, j, c], b[i, j, c])` for whole tensors joined along an index."""
        if not isinstance(root, t.Call) or len(names) != 1 or len(unnamed) != 1 or not root.arguments:
            return None
        given: list[str] = []
        parts: list[str] = []
        ranks: set[int] = set()
        for argument in root.arguments:
            x = argument.value
            base = x.base if isinstance(x, t.Access) and all(isinstance(i, t.Slice) for i in x.items) else x
            tensor = self.frame.names.get(base.id) if isinstance(base, t.Name) else None
            ranks.add(len(tensor.shape) if isinstance(tensor, Tensor) else 0)
            given.append(base.span.text if base is x else f"{base.span.text}_part")
            parts += [] if base is x else [f"`{given[-1]} = {x.span.text}`"]
        if len(ranks) != 1 or ranks == {0}:
            return None
        axes = ", ".join([*wording.letters(ranks.pop() - 1, self.frame, names), *names])
        arguments = ", ".join(f"{name}[{axes}]" for name in given)
        joined = f"`{unnamed[0].name}[{axes}] = {root.callee.span.text}({arguments})`, wherever `{names[0]}` stands"
        return f"{joined}, after {' and '.join(parts)}" if parts else joined

    def in_order(self, root: t.Expr, names: Set[str]) -> list[str]:
        """Names of indices in the order in which an expression first uses them, in reads before those in binders."""
        nodes = list(root.walk())
        binders = {id(x) for n in nodes if isinstance(n, t.Call) for x in n.callee.walk()}
        nodes.sort(key=lambda n: id(n) in binders)
        found = (n.id if isinstance(n, t.Name) else REST for n in nodes if isinstance(n, t.Name | t.Rest))
        return [name for name in dict.fromkeys(found) if name in names]

    def uses(self, root: t.Node) -> frozenset[str]:
        """Index names that occur free in an expression."""
        if id(root) not in self._uses:
            for node in reversed(list(root.walk())):  # children before parents
                if id(node) not in self._uses:
                    self._uses[id(node)] = self._uses_of(node)
        return self._uses[id(root)]

    def _uses_of(self, node: t.Node) -> frozenset[str]:
        if isinstance(node, t.Name):
            return frozenset({node.id}) if self.scope.is_index(node.id) else frozenset()
        if isinstance(node, t.Rest):
            return frozenset({REST})
        if isinstance(node, t.Call):
            inner: frozenset[str] = frozenset().union(*(self._uses.get(id(a), frozenset()) for a in node.arguments))
            if isinstance(node.callee, t.Access) and isinstance(node.callee.base, t.Name):
                kind = binder_kind(self.frame, node.callee.base.id)
                inside, outside = binder_names(node.callee.items)
                if kind == "reduce":
                    return inner - set(inside)
                if kind in ("keep", "join"):
                    return (inner - set(inside)) | set(outside)
                return inner | self._uses.get(id(node.callee), frozenset())
            return inner
        if isinstance(node, t.Access):
            return frozenset().union(*(self._uses.get(id(i), frozenset()) for i in node.items))
        return frozenset().union(*(self._uses.get(id(c), frozenset()) for c in node.children()))

    # ---- placing

    def place(self, node: t.Expr, name: str, inside: t.Expr | None) -> None:
        """Mark the node under which `name` is summed. `inside`: the outermost nonlinear function passed so far."""
        while True:
            if name not in self.uses(node):
                return
            if isinstance(node, t.Negative):
                node = node.operand
            elif isinstance(node, t.Member):
                node = node.base
            elif isinstance(node, t.Sum):
                for _, term in node.terms:
                    self.place(term, name, inside)
                return
            elif isinstance(node, t.Product):
                holders = [(op, f) for op, f in node.factors if name in self.uses(f)]
                if all(op == "/" for op, _ in holders) and not (len(holders) == 1 and self.closes(holders[0][1], name)):
                    self.lone.append(Lone(name, holders[0][1], node, in_denominator=True))
                    return
                if len(holders) > 1:
                    self.compare(node, holders, name)
                    self.mark(node, name, all(isinstance(f, t.Access | t.OrElse) for _, f in holders))
                    return
                node = holders[0][1]
            elif isinstance(node, t.Access | t.Name | t.OrElse):
                if inside is not None:
                    self.lone.append(Lone(name, node, inside))
                else:
                    self.mark(node, name, False)
                return
            elif name in self.given_back(node):
                self.lone.append(Lone(name, node, inside or node))
                return
            else:
                children = self.linear_children(node)
                if children is None:
                    inside = inside or node
                    children = list(_operands(node))
                holders_ = [c for c in children if name in self.uses(c)]
                if len(holders_) > 1 and all(self.closes(x, name) for x in holders_):
                    for x in holders_:
                        self.place(x, name, inside)
                    return
                if len(holders_) != 1:
                    self.lone.append(Lone(name, node, inside or node))
                    return
                node = holders_[0]

    def closes(self, root: t.Expr, name: str) -> bool:
        """Does each use of an index stand in a product of two or more factors that have it?"""
        return None not in self.contractions(root, name)

    def contractions(self, root: t.Expr, name: str) -> list[t.Product | None]:
        """The smallest products with two or more factors that have an index; None for a use outside of any."""
        found: list[t.Product | None] = []
        stack = [root]
        while stack:
            node = stack.pop()
            if name not in self.uses(node):
                continue
            factors = [f for _, f in node.factors if name in self.uses(f)] if isinstance(node, t.Product) else []
            if isinstance(node, t.Product) and len(factors) > 1:
                if all(self.closes(f, name) for f in factors):  # as |x| |y| does, with a sum in each
                    stack += reversed(factors)
                else:
                    found.append(node)
            elif isinstance(node, t.Access | t.Name | t.OrElse) or name in self.given_back(node):
                found.append(None)
            else:
                stack += reversed(list(_operands(node)))
        return found

    def compare(self, product: t.Product, holders: Sequence[tuple[Op, t.Expr]], name: str) -> None:
        """Refuse a product in which an index is contracted more than once: one sum, or one for each contraction?

        (x W) sigmoid(x V) has two; in x sigmoid(b x) the first x by itself is none.
        """
        closed = [f for _, f in holders if self.closes(f, name)]
        rest = [(op, f) for op, f in holders if f not in closed]
        if not closed or len(rest) == 1 or len(closed) + bool(rest) < 2:
            return
        help = f"write `{print_node(_summed(product, name))}` for one sum"
        if all(op == "*" for op, _ in rest):
            inner = {id(p): _summed(p, name) for f in closed for p in self.contractions(f, name) if p is not None}
            each: list[tuple[Op, t.Expr]] = []
            if rest:
                each.append(("*", _summed(replace(product, factors=tuple(rest)), name)))
            each += [(op, _swapped(f, inner)) for op, f in product.factors if all(f is not x for _, x in rest)]
            help += f", or `{print_node(replace(product, factors=tuple(each)))}` for one in each part"
        self.frame.report(kinds.CONTRACTED_TWICE(*(Label(f.span) for f in closed[::-1]), name=name, help=help))

    def given_back(self, node: t.Expr) -> list[str]:
        """The indices for each of which a call gives a result: `k` of `softmax[k](x[n, k])`."""
        if not isinstance(node, t.Call) or not isinstance(node.callee, t.Access):
            return []
        base = node.callee.base
        kind = binder_kind(self.frame, base.id) if isinstance(base, t.Name) else None
        return binder_names(node.callee.items)[1] if kind in ("keep", "join") else []

    def linear_children(self, node: t.Expr) -> list[t.Expr] | None:
        """The argument of a linear function (sum, mean, casts, stop_grad), through which a sum may pass."""
        if not isinstance(node, t.Call) or len(node.arguments) != 1:
            return None
        callee = node.callee.base if isinstance(node.callee, t.Access) else node.callee
        if not isinstance(callee, t.Name):
            return None
        binding = self.frame.lookup_function(callee.id)
        linear = isinstance(binding, FunctionValue) and binding.builtin in LINEAR
        return [node.arguments[0].value] if linear else None

    def mark(self, node: t.Expr, name: str, contracted: bool) -> None:
        self.summed.add(name)
        if not contracted:
            self.alone.add(name)
        names = self.scope.sums.setdefault(id(node), [])
        if name not in names:
            names.append(name)


def _summed(node: t.Expr, name: str) -> t.Expr:
    """`sum[name](node)`"""
    callee = t.Access(t.Name("sum", span=node.span), (t.Name(name, span=node.span),), span=node.span)
    return t.Call(callee, (t.Argument(node, span=node.span),), span=node.span)


def _swapped(node: t.Node, others: Mapping[int, t.Node]) -> Any:
    """An expression with other nodes in the place of some."""

    def inside(part: object) -> object:
        if isinstance(part, t.Node):
            return _swapped(part, others)
        return tuple(map(inside, part)) if isinstance(part, tuple) else part

    if id(node) in others:
        return others[id(node)]
    parts: dict[str, Any] = {f.name: inside(getattr(node, f.name)) for f in fields(node) if f.name != "span"}
    return replace(node, **parts)


def _operands(node: t.Expr) -> Iterator[t.Expr]:
    if isinstance(node, t.Call):
        for argument in node.arguments:
            yield argument.value
    else:
        yield from node.children()  # type: ignore[misc]


def _called(node: t.Expr) -> str:
    if isinstance(node, t.Call):
        return node.callee.span.text
    if isinstance(node, t.Binary):
        return node.op
    if isinstance(node, t.Compare):
        return node.op
    return "if" if isinstance(node, t.Choose) else "this expression"

"""Sums of products in binary steps: factors leave the sums that they do not depend on, three factors become two sums.

Intermediate sums number their variables in order of appearance, so that equal ones in forward and backward passes
are one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, keep
from dslc.passes import products
from dslc.passes.transform import Outputs, Transform, everything
from dslc.sizes import Size, about

#: what a symbolic size counts for when costs are compared
TYPICAL = 256


def entries(shape: Iterable[Size]) -> float:
    """About how many entries a tensor has."""
    return about(shape, TYPICAL)


@dataclass(frozen=True)
class Factor:
    """A part of a product; `below`: it divides."""

    scalar: ir.Scalar
    below: bool
    axes: frozenset[int]


class Contracted(Transform):
    """Every sum of products in binary steps."""

    def __init__(self, outputs: Outputs) -> None:
        super().__init__()
        self.order: dict[ir.Node, int] = {x: k for k, x in enumerate(everything(outputs))}

    def visit(self, node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Comp) and node.op == "sum" and node.dtype not in ("i32", "i64", "bool"):
            return self.summed(node)
        return node

    def summed(self, node: ir.Comp) -> ir.Tensor:
        kept = len(node.shape)
        sizes = (*node.shape, *node.reduced)
        parts = factors(node.body, kept)
        outer = [f for f in parts if all(v < kept for v in f.axes)]
        inner = merged([f for f in parts if any(v >= kept for v in f.axes)], node.body.dtype)
        if not inner:
            return node
        if len(inner) == 1 and not outer:
            return node
        while len(inner) > 2:
            pair = best_pair(inner, kept, sizes)
            if pair is None:
                break
            inner = merged(self.combined(inner, pair, kept, sizes, node), node.body.dtype)
        total = self.trimmed(node, inner, kept, sizes)
        if not outer:
            return total
        here = Factor(ir.whole(total), False, frozenset(range(kept)))
        value = product([here, *outer], node.body.dtype)
        return ir.comp(node.shape, value, name=node.name, span=node.span, dtype=node.dtype)

    def trimmed(self, node: ir.Comp, inner: list[Factor], kept: int, sizes: tuple[Size, ...]) -> ir.Tensor:
        """The sum over those variables that are still there; a variable in no factor counts its size."""
        present = frozenset().union(*(f.axes for f in inner))
        original = frozenset().union(*(f.axes for f in factors(node.body, kept)))
        left = [v for v in range(kept, len(sizes)) if v in present or v not in original]
        forms = {v: keep(v) for v in range(kept)} | {v: keep(kept + k) for k, v in enumerate(left)}
        body = product(inner, node.body.dtype)
        if left != list(range(kept, len(sizes))):
            body = Change(forms).scalar(body)
        reduced = tuple(sizes[v] for v in left)
        return ir.comp(node.shape, body, "sum" if left else None, reduced, node.name, node.span, node.dtype)

    def combined(
        self, parts: list[Factor], pair: tuple[int, int], kept: int, sizes: tuple[Size, ...], node: ir.Comp
    ) -> list[Factor]:
        """Two factors summed over what no other factor and no result needs."""
        a, b = sorted((parts[pair[0]], parts[pair[1]]), key=self.place)
        others = [f for k, f in enumerate(parts) if k not in pair]
        later = frozenset(range(kept)).union(*(f.axes for f in others))
        seen = appearance([a.scalar, b.scalar])
        remaining = [v for v in seen if v in later]
        gone = [v for v in seen if v not in later]
        forms = {v: keep(k) for k, v in enumerate([*remaining, *gone])}
        body = Change(forms).scalar(product([a, b], node.body.dtype))
        shape = tuple(sizes[v] for v in remaining)
        made = ir.comp(shape, body, "sum", tuple(sizes[v] for v in gone), "", node.span)
        value = ir.read(made, tuple(ir.plain(v) for v in remaining))
        return [Factor(value, False, frozenset(remaining)), *others]

    def place(self, f: Factor) -> tuple[int, ...]:
        """An order of factors that does not depend on where they stand in a product."""
        return tuple(self.order.get(x.tensor, -1) for x in ir.scalars(f.scalar) if isinstance(x, ir.Read))


def contracted(outputs: Outputs) -> dict[str, ir.Tensor]:
    return Contracted(outputs).outputs(outputs)


def factors(body: ir.Scalar, kept: int = 0) -> list[Factor]:
    """A product taken apart, `x if c else 0` with the choice on one of the factors of x."""
    out: list[Factor] = []
    stack: list[tuple[ir.Scalar, bool]] = [(body, False)]
    while stack:
        s, below = stack.pop()
        if isinstance(s, ir.Op) and s.name == "*":
            stack.extend((x, below) for x in reversed(s.args))
        elif isinstance(s, ir.Op) and s.name == "/":
            stack.append((s.args[1], not below))
            stack.append((s.args[0], below))
        elif isinstance(s, ir.Op) and s.name == "neg":
            out.append(Factor(ir.const(-1.0, s.dtype), False, frozenset()))
            stack.append((s.args[0], below))
        elif not below and _is_masked(s):
            assert isinstance(s, ir.Op)
            out += masked(s, kept)
        else:
            out.append(Factor(s, below, ir.variables(s)))
    return out


def _is_masked(s: ir.Scalar) -> bool:
    return (
        isinstance(s, ir.Op)
        and s.name == "select"
        and isinstance(s.args[2], ir.Const)
        and s.args[2].value == 0
        and _is_product(s.args[1])
    )


def _is_product(s: ir.Scalar) -> bool:
    return isinstance(s, ir.Op) and s.name in ("*", "/", "neg")


def masked(s: ir.Op, kept: int) -> list[Factor]:
    """The factors of `a b if c else 0`, with c on some of them; the whole as one factor where that is not possible."""
    parts = factors(s.args[1], kept)
    above = tuple(f.scalar for f in parts if not f.below)
    below = tuple(f.scalar for f in parts if f.below)
    found = products.masked(products.Product(above, below), s.args[0])
    if found is None:
        return [Factor(s, False, ir.variables(s))]
    chosen = {False: iter(found.above), True: iter(found.below)}
    return [replace(f, scalar=next(chosen[f.below])) for f in parts]


def merged(parts: list[Factor], dtype: str) -> list[Factor]:
    """Factors whose variables another one has too are multiplied into it."""
    out = list(parts)
    changed = True
    while changed and len(out) > 1:
        changed = False
        for i, small in enumerate(out):
            hosts = [j for j, big in enumerate(out) if j != i and small.axes <= big.axes]
            if hosts:
                j = min(hosts, key=lambda k: len(out[k].axes))
                both = sorted((i, j))
                joint = product([out[both[0]], out[both[1]]], _common(out[j], small, dtype))
                made = Factor(joint, False, out[j].axes)
                out = [made if k == j else f for k, f in enumerate(out) if k != i]
                changed = True
                break
    return out


def _common(host: Factor, small: Factor, dtype: str) -> str:
    """The dtype of two factors together: whole numbers stay so until they meet a float or a division."""
    floats = [f.scalar.dtype for f in (host, small) if is_float(f.scalar.dtype)]
    return floats[0] if floats else dtype if host.below or small.below else host.scalar.dtype


def product(parts: Sequence[Factor], dtype: str) -> ir.Scalar:
    above = [f for f in parts if not f.below]
    negative = sum(1 for f in above if _is_minus_one(f.scalar)) % 2 == 1
    above = [f for f in above if not _is_minus_one(f.scalar)]
    value: ir.Scalar | None = None
    for f in above:
        value = f.scalar if value is None else ir.op("*", (value, f.scalar), dtype)
    if value is None:
        value = ir.const(1.0, dtype)
    for f in parts:
        if f.below:
            value = ir.op("/", (value, f.scalar), dtype)
    return ir.op("neg", (value,), dtype) if negative else value


def _is_minus_one(s: ir.Scalar) -> bool:
    return isinstance(s, ir.Const) and s.value == -1


def best_pair(parts: list[Factor], kept: int, sizes: tuple[Size, ...]) -> tuple[int, int] | None:
    """The pair to sum first: the least work, then the smallest result."""
    best: tuple[tuple[float, float], tuple[int, int]] | None = None
    for i in range(len(parts)):
        for j in range(i + 1, len(parts)):
            union = parts[i].axes | parts[j].axes
            others = [f.axes for k, f in enumerate(parts) if k not in (i, j)]
            later = frozenset(range(kept)).union(*others)
            if union <= later:
                continue
            result = entries(sizes[v] for v in union & later)
            work = entries(sizes[v] for v in union)
            rest = best_rest(parts, i, j, union & later, kept, sizes)
            key = (work + rest, result)
            if best is None or key < best[0]:
                best = (key, (i, j))
    return None if best is None else best[1]


def best_rest(parts: list[Factor], i: int, j: int, made: frozenset[int], kept: int, sizes: tuple[Size, ...]) -> float:
    """The work that is left after a pair, when the rest is multiplied at once."""
    axes = made.union(*(f.axes for k, f in enumerate(parts) if k not in (i, j)))
    return entries(sizes[v] for v in axes)


def appearance(scalars: Sequence[ir.Scalar]) -> list[int]:
    """Variables in the order in which they appear."""
    seen: dict[int, None] = {}
    for root in scalars:
        for x in ir.scalars(root):
            if isinstance(x, ir.Read):
                for place in x.places:
                    if isinstance(place, ir.Affine):
                        seen.update({n: None for n, _ in place.terms})
            elif isinstance(x, ir.Var):
                seen[x.number] = None
    return list(seen)

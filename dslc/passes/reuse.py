"""Quotients that are computed already are read instead of being divided again.

    a[i, k] = e[i, k] / s[i];   d[i, k] = g[i, k] * e[i, k] / s[i]   gives   d[i, k] = g[i, k] * a[i, k]

With it the gradient of a softmax needs its result alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, Form, NotAffine
from dslc.passes.products import Product, join, split
from dslc.passes.transform import Outputs, Transform, with_body


@dataclass(frozen=True)
class Quotient:
    """A tensor that is `above / below`, written in its own variables."""

    tensor: ir.Comp
    above: ir.Scalar
    below: ir.Scalar


def reuse_quotients(outputs: Outputs) -> dict[str, ir.Tensor]:
    return Reuse().outputs(outputs)


class Reuse(Transform):
    def __init__(self) -> None:
        super().__init__()
        #: by the tensor below the bar
        self.quotients: dict[ir.Tensor, list[Quotient]] = {}

    def visit(self, node: ir.Node) -> ir.Node:
        if not isinstance(node, ir.Comp) or not is_float(node.dtype):
            return node
        new = with_body(node, self.body(node.body)) if self.quotients else node
        self.note(new)
        return new

    def note(self, node: ir.Node) -> None:
        if isinstance(node, ir.Comp) and node.op is None and isinstance(node.body, ir.Op) and node.body.name == "/":
            above, below = node.body.args
            source = _source(below)
            if source is not None:
                self.quotients.setdefault(source, []).append(Quotient(node, above, below))

    def body(self, root: ir.Scalar) -> ir.Scalar:
        done: dict[ir.Scalar, ir.Scalar] = {}
        for s in ir.scalars(root):
            new = ir.rebuild(s, lambda x: done[x])
            done[s] = self.product(new) if isinstance(new, ir.Op) and new.name in ("*", "/") else new
        return done[root]

    def product(self, s: ir.Op) -> ir.Scalar:
        if not is_float(s.dtype):
            return s
        parts = self.opened(split(s, sink=False))
        for below in parts.below:
            source = _source(below)
            for quotient in self.quotients.get(source, ()) if source is not None else ():
                found = self.match(quotient, below, parts)
                if found is not None:
                    return join(found, s.dtype)
        return s

    def opened(self, parts: Product) -> Product:
        """A product with factors that are quotients by the same values taken apart."""
        above: list[ir.Scalar] = []
        below = list(parts.below)
        negative = parts.negative
        for x in parts.above:
            inner = self.quotient(x)
            if inner is None:
                above.append(x)
            else:
                above += inner.above
                below += inner.below
                negative ^= inner.negative
        return Product(tuple(above), tuple(below), negative)

    def quotient(self, x: ir.Scalar) -> Product | None:
        """A factor that reads a quotient whose lower part stands under known quotients too."""
        if not isinstance(x, ir.Read) or not isinstance(x.tensor, ir.Comp) or x.tensor.op is not None or not _plain(x):
            return None
        product = split(x.tensor.body)
        if not any(_source(b) in self.quotients for b in product.below):
            return None
        if any(x.tensor is q.tensor for each in self.quotients.values() for q in each if len(q.tensor.shape) > 1):
            known = [q for each in self.quotients.values() for q in each if q.tensor is x.tensor]
            if known and any(isinstance(s, ir.Op) for s in ir.scalars(known[0].above)):
                return None
        forms = {n: Form(p.terms, p.offset, p.divisor) for n, p in enumerate(x.places) if isinstance(p, ir.Affine)}
        try:
            change = Change(forms)
            above = tuple(change.scalar(a) for a in product.above)
            below = tuple(change.scalar(b) for b in product.below)
        except (KeyError, NotAffine):
            return None
        return Product(above, below, product.negative)

    def match(self, quotient: Quotient, below: ir.Scalar, parts: Product) -> Product | None:
        """The product with the quotient read in place of its two parts."""
        for above in parts.above:
            forms = _correspondence(quotient, above, below)
            if forms is None:
                continue
            try:
                change = Change(forms)
                if change.scalar(quotient.above) is not above or change.scalar(quotient.below) is not below:
                    continue
                places = tuple(change.place(ir.plain(i)) for i in range(len(quotient.tensor.shape)))
            except (KeyError, NotAffine):
                continue
            rest = list(parts.above)
            rest.remove(above)
            under = list(parts.below)
            under.remove(below)
            return Product((*rest, ir.read(quotient.tensor, places)), tuple(under), parts.negative)
        return None


def _correspondence(quotient: Quotient, above: ir.Scalar, below: ir.Scalar) -> dict[int, Form] | None:
    """What the variables of a quotient are elsewhere: from the reads of the same tensors there."""
    forms: dict[int, Form] = {}
    mine = [s for x in (quotient.below, quotient.above) for s in ir.scalars(x) if isinstance(s, ir.Read)]
    theirs = [s for x in (below, above) for s in ir.scalars(x) if isinstance(s, ir.Read)]
    if len(mine) != len(theirs):
        return None
    for a, b in zip(mine, theirs, strict=True):
        if a.tensor is not b.tensor:
            return None
        for x, y in zip(a.places, b.places, strict=True):
            if isinstance(x, ir.Affine) and isinstance(y, ir.Affine) and len(x.terms) == 1 and y.mode == "inside":
                number = x.terms[0][0]
                if x is ir.plain(number):
                    forms[number] = Form(y.terms, y.offset, y.divisor)
    return forms if len(forms) == len(quotient.tensor.shape) else None


def _source(below: ir.Scalar) -> ir.Tensor | None:
    """The computed tensor that what stands below the bar is made of."""
    for s in ir.scalars(below):
        if isinstance(s, ir.Read):
            return None if isinstance(s.tensor, ir.Input) or not _plain(s) else s.tensor
    return None


def _plain(read: ir.Read) -> bool:
    """Is a tensor read where its places say, and not where they wrap around to or stop?"""
    steps = (isinstance(x, ir.At) or (isinstance(x, ir.Affine) and x.mode == "inside") for x in read.places)
    return read.outside is None and all(steps)

"""Quotients that are computed already are read instead of being divided again.

    a[i, k] = e[i, k] / s[i];   d[i, k] = g[i, k] * e[i, k] / s[i]   gives   d[i, k] = g[i, k] * a[i, k]

With it the gradient of a softmax needs its result alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from dslc.check.values import is_float
from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, Form, NotAffine
from dslc.passes.products import Product, join, split
from dslc.passes.transform import Outputs, Transform


@dataclass(frozen=True)
class Quotient:
    """A tensor that is `above / below`, written in its own variables."""

    tensor: ir.Comp
    above: ir.Scalar
    below: ir.Read


def reuse_quotients(outputs: Outputs) -> dict[str, ir.Tensor]:
    return _Reuse().outputs(outputs)


class _Reuse(Transform):
    def __init__(self) -> None:
        super().__init__()
        #: by the tensor below the bar
        self.quotients: dict[ir.Tensor, list[Quotient]] = {}

    def visit(self, node: ir.Node) -> ir.Node:
        if not isinstance(node, ir.Comp) or not is_float(node.dtype):
            return node
        body = self.body(node.body) if self.quotients else node.body
        if body is not node.body:
            node = ir.comp(node.shape, body, node.op, node.reduced, node.name, node.span, node.dtype)  # type: ignore[assignment]
        match node:
            case ir.Comp(op=None, body=ir.Op("/", (above, ir.Read(outside=None) as below))) if _plain(below):
                if not isinstance(below.tensor, ir.Input):
                    self.quotients.setdefault(below.tensor, []).append(Quotient(node, above, below))
        return node

    def body(self, root: ir.Scalar) -> ir.Scalar:
        done: dict[ir.Scalar, ir.Scalar] = {}
        for s in ir.scalars(root):
            new = ir.rebuild(s, lambda x: done[x])
            done[s] = self.product(new) if isinstance(new, ir.Op) and new.name in ("*", "/") else new
        return done[root]

    def product(self, s: ir.Op) -> ir.Scalar:
        if not is_float(s.dtype):
            return s
        parts = split(s, sink=False)
        for below in parts.below:
            if isinstance(below, ir.Read) and _plain(below):
                for quotient in self.quotients.get(below.tensor, ()):
                    found = self.match(quotient, below, parts)
                    if found is not None:
                        return join(found, s.dtype)
        return s

    def match(self, quotient: Quotient, below: ir.Read, parts: Product) -> Product | None:
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


def _correspondence(quotient: Quotient, above: ir.Scalar, below: ir.Read) -> dict[int, Form] | None:
    """What the variables of a quotient are elsewhere: from the reads of the same tensors there."""
    forms: dict[int, Form] = {}
    pairs = [(quotient.below, below)]
    mine = [s for s in ir.scalars(quotient.above) if isinstance(s, ir.Read)]
    theirs = [s for s in ir.scalars(above) if isinstance(s, ir.Read)]
    if len(mine) != len(theirs):
        return None
    pairs += zip(mine, theirs, strict=True)
    for a, b in pairs:
        if a.tensor is not b.tensor:
            return None
        for x, y in zip(a.places, b.places, strict=True):
            if isinstance(x, ir.Affine) and isinstance(y, ir.Affine) and len(x.terms) == 1 and x is ir.plain(x.terms[0][0]):
                forms[x.terms[0][0]] = Form(y.terms, y.offset, y.divisor)
    return forms if len(forms) == len(quotient.tensor.shape) else None


def _plain(read: ir.Read) -> bool:
    return read.outside is None and all(isinstance(x, ir.Affine | ir.At) for x in read.places)

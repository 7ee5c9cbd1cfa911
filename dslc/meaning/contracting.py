"""The reference interpreter with sums of products done by einsum: for programs that are too large for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from dslc.ir import nodes as ir
from dslc.ir.rewrite import plain_variable
from dslc.meaning.interpret import Interpreter

#: letters for the axes of a product of tensors
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Contracting(Interpreter):
    """Evaluates nodes as the interpreter does, but a sum of a product of plain reads without an array over all indices.

    >>> x = ir.intern(ir.Input("x", "input", "f64", (3,)))
    >>> y = ir.comp((), ir.op("*", (ir.whole(x), ir.whole(x)), "f64"), "sum", (3,))
    >>> float(Contracting({"x": np.arange(3.0)}, {}).tensor(y))
    5.0
    """

    def evaluate(self, node: ir.Node) -> Any:
        product = as_product(node)
        if product is None:
            return super().evaluate(node)
        axes, reads = product
        return np.asarray(np.einsum(axes, *(self.done[id(r.tensor)] for r in reads), optimize=True))


def as_product(node: ir.Node) -> tuple[str, list[ir.Read]] | None:
    """A sum of a product of tensors as the axes for einsum and the reads; None for another node."""
    if not isinstance(node, ir.Comp) or node.op != "sum" or len(node.shape) + len(node.reduced) > len(LETTERS):
        return None
    ranges = (*node.shape, *node.reduced)
    reads = _factors(node.body)
    terms = []
    for read in reads:
        numbers = [plain_variable(place) for place in read.places]
        whole = all(n is not None and ranges[n] == s for n, s in zip(numbers, read.tensor.shape, strict=True))
        if read.outside is not None or not whole:
            return None
        terms.append("".join(LETTERS[n] for n in numbers if n is not None))
    if set(LETTERS[: len(ranges)]) - set("".join(terms)):
        return None
    return f"{','.join(terms)}->{LETTERS[: len(node.shape)]}", reads


def _factors(body: ir.Scalar) -> list[ir.Read]:
    """The reads whose product a body is; none when it is something else."""
    if isinstance(body, ir.Read):
        return [body]
    if isinstance(body, ir.Op) and body.name == "*" and all(isinstance(a, ir.Read) for a in body.args):
        return [a for a in body.args if isinstance(a, ir.Read)]
    return []

"""Functions of one operand of a contraction are tensors of their own.

    sum[i](w[o, i] * x[n, i] * sigmoid(x[n, i])) = sum[i](w[o, i] * s[n, i]) with s = x * sigmoid(x)

The derivative by `x` of the left side is a sum of products, one for each place where `x` stands, which would be
computed for all n, o and i; that of the right side is a contraction, and then a product for all n and i.
"""

from __future__ import annotations

from collections import Counter

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, keep
from dslc.passes.products import Product, join, select, split, variables
from dslc.passes.transform import Outputs, Transform, with_body


def part_operands(outputs: Outputs) -> dict[str, ir.Tensor]:
    return _Operands().outputs(outputs)


class _Operands(Transform):
    def visit(self, node: ir.Node) -> ir.Node:
        if not isinstance(node, ir.Comp) or node.op != "sum" or not is_float(node.dtype):
            return node
        product = split(node.body, sink=False)
        factors = [*product.above, *product.below]
        every = frozenset().union(*map(variables, factors))
        above, below = list(product.above), list(product.below)
        parted = False
        for over in dict.fromkeys(map(variables, factors)):
            mine, _ = select(Product(tuple(above), tuple(below)), [variables(x) == over for x in (*above, *below)])
            formula = join(mine, node.dtype)
            if over and over < every and is_float(formula.dtype) and is_read_twice(formula):
                above = [operand(formula, sorted(over), node), *(x for x in above if x not in mine.above)]
                below = [x for x in below if x not in mine.below]
                parted = True
        if not parted:
            return node
        return with_body(node, join(Product(tuple(above), tuple(below), product.negative), node.dtype))


def is_read_twice(root: ir.Scalar) -> bool:
    """Does an element of a tensor stand at several places of a formula?"""
    paths: Counter[ir.Scalar] = Counter({root: 1})
    for s in reversed(list(ir.scalars(root))):
        for x in ir.operands(s):
            paths[x] = min(2, paths[x] + paths[s])
    return any(isinstance(s, ir.Read) and is_float(s.dtype) and count > 1 for s, count in paths.items())


def operand(formula: ir.Scalar, over: list[int], node: ir.Comp) -> ir.Scalar:
    """A formula of some variables, as a read of the tensor that has its values."""
    reads = [s for s in ir.scalars(formula) if isinstance(s, ir.Read)]
    first = reads[0]
    same = all(s.places == first.places and s.outside is None and s.tensor.shape == first.tensor.shape for s in reads)
    if same and not any(isinstance(s, ir.Var | ir.Rand) for s in ir.scalars(formula)):
        # a function of one place: windows that overlap read its value, rather than computing it again
        done: dict[ir.Scalar, ir.Scalar] = {}
        for s in ir.scalars(formula):
            done[s] = ir.whole(s.tensor) if isinstance(s, ir.Read) else ir.rebuild(s, lambda x: done[x])
        return ir.read(ir.comp(first.tensor.shape, done[formula], span=node.span, dtype=formula.dtype), first.places)
    sizes = (*node.shape, *node.reduced)
    body = Change({n: keep(k) for k, n in enumerate(over)}).scalar(formula)
    made = ir.comp(tuple(sizes[n] for n in over), body, span=node.span, dtype=formula.dtype)
    return ir.read(made, tuple(ir.plain(n) for n in over))

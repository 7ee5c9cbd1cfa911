"""einsum, and the external operations on matrices."""

from __future__ import annotations

import functools

from dslc.check import along, bracket_indices, elementwise, materialise, renaming, wording
from dslc.check.call_arguments import Given
from dslc.check.indices import Scope
from dslc.check.program import External, Index
from dslc.check.values import NOTHING, Val, is_float, is_int, lower, promote, whole_tensor
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.ops.table import EXTERNALS
from dslc.syntax import tree as t


def einsum(scope: Scope, node: t.Call, given: list[Given]) -> Val:
    """`einsum("ijz,izk->ijk", A, B)`."""
    frame = scope.frame
    if not given or not isinstance(given[0].node, t.String):
        frame.report(kinds.EINSUM_STRING(Label(node.span), why='the first argument is a string such as "ij,jk->ik"'))
        return NOTHING
    text = given[0].node.value.replace(" ", "")
    left, arrow, right = text.partition("->")
    operands = left.split(",")
    letters = left.replace(",", "") + right
    why = None
    if not arrow:
        why = "it has no `->`"
    elif not all(c.isascii() and c.isalpha() for c in letters):
        why = "only letters, commas and `->` may stand in it"
    elif len(operands) != len(given) - 1:
        why = f"it names {wording.count(len(operands), 'tensor')}, and {len(given) - 1} are given"
    elif len(set(right)) != len(right):
        why = "a letter stands twice after `->`"
    elif not set(right) <= set(left):
        missing = next(c for c in right if c not in left)
        why = f"`{missing}` stands after `->` but in no tensor"
    if why is not None:
        frame.report(kinds.EINSUM_STRING(Label(given[0].span), why=why))
        return NOTHING
    table: dict[str, Index] = {}
    product: Val | None = None
    for letters, argument in zip(operands, given[1:], strict=True):
        val = argument.value(scope)
        if val.poisoned or not elementwise.numbers(scope, [(argument.node, val)], "einsum"):
            return NOTHING
        if len(val.axes) != len(letters):
            axes = wording.count(len(letters), "axis", "axes")
            shape = frame.show_shape(a.size for a in val.axes)
            frame.report(
                kinds.EINSUM_STRING(
                    Label(argument.span), why=f"`{letters}` names {axes}, the tensor has the shape {shape}"
                )
            )
            return NOTHING
        rename = {}
        tensor = whole_tensor(val)
        origins = tensor.origins if tensor is not None and tensor.origins else [(None, "")] * len(letters)
        for letter, axis, (origin, written) in zip(letters, val.axes, origins, strict=True):
            index = table.setdefault(letter, frame.new_index(letter, None, argument.span))
            assert axis.size is not None
            scope.constrain(index, axis.size, argument.span, written, origin)
            rename[axis] = index
        val = renaming.replace_indices(val, rename)
        val = Val(lower(val), (), val.free)
        product = val if product is None else elementwise.combine(
            scope, "*", [(node, product), (argument.node, val)], promote(product.dtype, val.dtype), node.span
        )  # fmt: skip
    assert product is not None
    summed = [index for letter, index in table.items() if letter not in right]
    if summed:
        product = elementwise.reduce(scope, "sum", summed, product, node.span)
    return Val(product.expr, tuple(table[c] for c in right), product.free)


def external(scope: Scope, node: t.Call, name: str, given: list[Given]) -> Val:
    """`solve(A, b)` and its like, on the last axes, mapped over free indices."""
    frame = scope.frame
    if not bracket_indices.arity(scope, node, name, given, EXTERNALS[name], EXTERNALS[name]):
        return NOTHING
    operands = [(g.node, g.value(scope)) for g in given]
    if not elementwise.numbers(scope, operands, name):
        return NOTHING
    matrix = operands[0][1]
    if len(matrix.axes) != 2 or not scope.unify(matrix.axes[0], matrix.axes[1]):
        shape = frame.show_shape(a.size for a in matrix.axes)
        frame.report(kinds.SQUARE_EXPECTED(Label(given[0].span), name=name, found=shape))
        return NOTHING
    for g, val in operands:
        if not is_float(val.dtype):
            what, help = (
                f"the argument of `{name}`",
                f"convert it: `float({g.span.text})`" if is_int(val.dtype) else None,
            )
            frame.report(kinds.WRONG_DTYPE(Label(g.span), what=what, expected="float", found=val.dtype, help=help))
            return NOTHING
    if name == "solve":
        right = operands[1][1]
        if len(right.axes) not in (1, 2) or not scope.unify(matrix.axes[0], right.axes[0]):
            shape = frame.show_shape(a.size for a in right.axes)
            expected = f"[{frame.show(matrix.axes[0].size or 1)}] or [{frame.show(matrix.axes[0].size or 1)}, ...]"
            frame.report(kinds.RIGHT_HAND_SIDE(Label(given[1].span), expected=expected, found=shape))
            return NOTHING
    order = along.mapped_indices(scope, [v for _, v in operands], [])
    if not materialise.resolved(scope, order):
        return NOTHING
    tensors = tuple(
        materialise.materialise_over(scope, v, order, g.span, "matrix" if i == 0 else "right")
        for i, (g, v) in enumerate(operands)
    )
    dtype = functools.reduce(promote, (v.dtype for _, v in operands))
    lead = tuple(i.size for i in order)
    n = tensors[0].shape[-1]
    shapes: dict[str, list[tuple[object, ...]]] = {
        "solve": [tensors[-1].shape[len(lead) :]], "inv": [(n, n)], "det": [()], "logdet": [()], "matexp": [(n, n)],
        "cholesky": [(n, n)], "eigh": [(n,), (n, n)],
    }  # fmt: skip
    outputs = tuple(
        frame.new_tensor(name, dtype, (*lead, *s), span=node.span, origins=tuple((node.span, "") for _ in (*lead, *s)))
        for s in shapes[name]
    )
    frame.emit(External(name, outputs, tensors, len(order), node.span))
    results = tuple(materialise.read_result(scope, o, order, (), node.span) for o in outputs)
    return results[0] if len(results) == 1 else Val(several=results, results=("value", "vector"))

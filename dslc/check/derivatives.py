"""Derivatives inside a spec: `grad`, `jvp`, `vjp`, `jacobian`, `hessian`."""

from __future__ import annotations

from typing import Any

from dslc.check import elementwise, materialise, shapes, tensor_reads
from dslc.check.call_arguments import Given
from dslc.check.dependence import depends
from dslc.check.indices import Scope
from dslc.check.program import Derivative
from dslc.check.values import NOTHING, Val, is_float, whole_tensor
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.ops.table import DERIVATIVES
from dslc.syntax import tree as t


def derivative(scope: Scope, node: t.Call, kind: str, given: list[Given]) -> Val:
    """`grad(loss, x)` and its relatives; the second argument names the value to differentiate by."""
    frame = scope.frame
    if len(given) != DERIVATIVES[kind]:
        expected = f"{DERIVATIVES[kind]} arguments"
        frame.report(kinds.ARITY(Label(node.span), name=kind, expected=expected, found=len(given)))
        return NOTHING
    of = given[0].value(scope)
    by = given[1].value(scope)
    if of.poisoned or by.poisoned:
        return NOTHING
    wrt = whole_tensor(by)
    if wrt is None or not isinstance(given[1].node, t.Name | t.Member):
        frame.report(kinds.DERIVATIVE_BY(Label(given[1].span), kind=kind, found=given[1].node.span.text))
        return NOTHING
    for argument, val in zip(given, (of, by), strict=False):
        if val.function is not None or not is_float(val.dtype):
            what = "a function" if val.function is not None else val.dtype
            frame.report(kinds.DIFFERENTIATE_INTEGER(Label(argument.span), text=argument.node.span.text, found=what))
            return NOTHING
    named = [i for i in of.free if i not in set(of.axes)]
    if named:
        frame.report(
            kinds.DERIVATIVE_SCALAR(Label(given[0].span), kind=kind, found=f"a value for each `{named[0].name}`")
        )
        return NOTHING
    if kind in ("grad", "hessian") and of.axes:
        found = frame.show_shape(a.size for a in of.axes)
        help = f"reduce it, for example `{kind}(sum({given[0].node.span.text}), {given[1].node.span.text})`"
        frame.report(kinds.DERIVATIVE_SCALAR(Label(given[0].span), kind=kind, found=f"the shape {found}", help=help))
        return NOTHING
    value = materialise.materialise_over(scope, of, (), given[0].span, "of")
    if not depends(frame.so_far(), value, wrt):
        label = Label(given[1].span)
        frame.report(
            kinds.DERIVATIVE_ZERO(label, Label(given[0].span, "this"), of=given[0].node.span.text, by=wrt.name)
        )
        return NOTHING
    direction = None
    if kind in ("jvp", "vjp"):
        direction_val = given[2].value(scope)
        if direction_val.poisoned or not elementwise.numbers(scope, [(given[2].node, direction_val)], kind):
            return NOTHING
        like = wrt if kind == "jvp" else value
        sizes = [a.size for a in direction_val.axes if a.size is not None]
        if not frame.same_shape(sizes, like.shape):
            place = given[1] if kind == "jvp" else given[0]
            found, expected = frame.show_shape(sizes), frame.show_shape(like.shape)
            labels = (Label(given[2].span, f"shape {found}"), Label(place.span, f"shape {expected}"))
            text, advice = place.node.span.text, shapes.always_equal(frame, sizes, like.shape)
            values: dict[str, Any] = {"found": found, "expected": expected, "like": text}
            frame.report(kinds.DIRECTION_SHAPE(*labels, kind=kind, help=advice, **values))
            return NOTHING
        direction = materialise.materialise_over(scope, direction_val, (), given[2].span, "direction")
    results = {
        "grad": wrt.shape, "jvp": value.shape, "vjp": wrt.shape, "jacobian": (*value.shape, *wrt.shape),
        "hessian": (*wrt.shape, *wrt.shape),
    }  # fmt: skip
    shape = results[kind]
    origins = tuple((node.span, "") for _ in shape)
    output = frame.new_tensor(kind, wrt.dtype, shape, span=node.span, origins=origins)
    frame.emit(Derivative(kind, output, value, wrt, direction, node.span))
    return tensor_reads.whole(scope, output, node.span)

"""Derivatives inside a spec: `grad`, `jvp`, `vjp`, `jacobian`, `hessian`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dslc.check import expressions, instance_calls, shapes, tensor_reads
from dslc.check.indices import Scope
from dslc.check.program import (
    AlongAxis,
    CallFunction,
    Define,
    Derivative,
    Expr,
    External,
    Join,
    Loop,
    Modes,
    Read,
    Remat,
    Scan,
    Scatter,
    Stmt,
    Tensor,
)
from dslc.check.renaming import operands
from dslc.check.values import NOTHING, Val, is_float, whole_tensor
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.ops.table import DERIVATIVES
from dslc.syntax import tree as t

if TYPE_CHECKING:
    from dslc.check.call_arguments import Given


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
    value = instance_calls.materialise_over(scope, of, (), given[0].span, "of")
    if not depends(frame.so_far(), value, wrt):
        label = Label(given[1].span)
        frame.report(
            kinds.DERIVATIVE_ZERO(label, Label(given[0].span, "this"), of=given[0].node.span.text, by=wrt.name)
        )
        return NOTHING
    direction = None
    if kind in ("jvp", "vjp"):
        direction_val = given[2].value(scope)
        if direction_val.poisoned or not expressions.numbers(scope, [(given[2].node, direction_val)], kind):
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
        direction = instance_calls.materialise_over(scope, direction_val, (), given[2].span, "direction")
    results = {
        "grad": wrt.shape, "jvp": value.shape, "vjp": wrt.shape, "jacobian": (*value.shape, *wrt.shape),
        "hessian": (*wrt.shape, *wrt.shape),
    }  # fmt: skip
    shape = results[kind]
    origins = tuple((node.span, "") for _ in shape)
    output = frame.new_tensor(kind, wrt.dtype, shape, span=node.span, origins=origins)
    frame.emit(Derivative(kind, output, value, wrt, direction, node.span))
    return tensor_reads.whole(scope, output, node.span)


# ---- dependence ----------------------------------------------------------------------------------


def depends(body: list[Stmt], value: Tensor, on: Tensor) -> bool:
    """Does `value` depend on `on` through the statements so far?"""
    edges: dict[int, set[int]] = {}
    for statement in _flat(body):
        sources = {id(x) for x in _sources(statement)}
        for target in _targets(statement):
            edges.setdefault(id(target), set()).update(sources)
    seen: set[int] = set()
    stack = [id(value)]
    while stack:
        here = stack.pop()
        if here == id(on):
            return True
        if here not in seen:
            seen.add(here)
            stack.extend(edges.get(here, ()))
    return False


def _flat(body: object) -> list[Stmt]:
    found: list[Stmt] = []
    stack: list[Stmt] = list(body)  # type: ignore[call-overload]
    while stack:
        statement = stack.pop()
        found.append(statement)
        if isinstance(statement, Scan | Remat):
            stack.extend(statement.body)
        elif isinstance(statement, Loop):
            stack.extend(x for body in statement.passes for x in body)
        elif isinstance(statement, Modes):
            stack.extend((*statement.training, *statement.inference))
    return found


def _targets(statement: Stmt) -> list[Tensor]:
    match statement:
        case Define() | Scatter():
            return [statement.tensor]
        case AlongAxis() | CallFunction() | External():
            return list(statement.outputs)
        case Join() | Derivative():
            return [statement.output]
        case Modes():
            return [joined for joined, _, _ in statement.joined]
        case Scan():
            return [c.tensor for c in statement.carried]
    return []


def _sources(statement: Stmt) -> list[Tensor]:
    match statement:
        case Define():
            return tensors_in([statement.value])
        case Scatter():
            exprs = [statement.value, *(p.value for p in statement.positions if hasattr(p, "value"))]
            return tensors_in(exprs) + ([statement.base] if statement.base is not None else [])
        case AlongAxis() | CallFunction() | External() | Join():
            return list(statement.args)
        case Derivative():
            return [statement.of, statement.wrt]
        case Modes():
            return [x for _, a, b in statement.joined for x in (a, b)]
        case Scan():
            return [c.start for c in statement.carried if c.start is not None]
    return []


def tensors_in(exprs: list[Expr]) -> list[Tensor]:
    """The tensors that expressions read."""
    found: list[Tensor] = []
    seen: set[int] = set()
    stack = list(exprs)
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Read):
            found.append(node.tensor)
        stack.extend(operands(node))
    return found

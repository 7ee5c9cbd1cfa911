"""Expressions: from syntax to typed values, one rule for each kind of node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dslc.check import (
    calls,
    carried_reads,
    elementwise,
    members,
    rules,
    scan_state,
    static_values,
    tensor_reads,
    wording,
)
from dslc.check.conditions import known_where
from dslc.check.indices import Scope
from dslc.check.program import Apply, Constant, Expr, IndexValue, SizeValue, Tensor
from dslc.check.values import NOTHING, FunctionValue, Poison, Ratio, Results, Shared, Static, Val, is_float
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.sizes import Polynomial, tidy
from dslc.source import Span
from dslc.syntax import tree as t


def literal(scope: Scope, node: t.Number | t.Bool | t.String) -> Val:
    return Val(static=node.value)


def name(scope: Scope, node: t.Name) -> Val:
    frame = scope.frame
    if scope.is_index(node.id):
        indices = scope.find(node.id, node.span)
        if len(indices) != 1:
            frame.report(kinds.NOT_A_NUMBER(Label(node.span), name=node.id))
            return NOTHING
        value: Expr = IndexValue(indices[0])
        low = scan_state.first_step(frame, indices[0])
        if low != 0:
            first = Constant(low, "i64") if isinstance(low, int) else SizeValue(low)
            value = Apply("+", (value, first), "i64", node.span)
        return Val(value, free={indices[0]: None})
    binding = frame.lookup(node.id)
    match binding:
        case None:
            frame.unknown(node.id, node.span)
            return NOTHING
        case Tensor():
            if carried_reads.reads_unfinished(scope, binding, node.span):
                return NOTHING
            return tensor_reads.whole(scope, frame.states.latest.get(binding, binding), node.span)
        case Static():
            return Val(static=binding.value)
        case Val():
            return binding
        case FunctionValue() | Shared():
            return Val(function=binding)
        case Results():
            read = tuple(tensor_reads.whole(scope, tensor, node.span) for tensor in binding.tensors.values())
            return Val(several=read, results=tuple(binding.tensors))
        case Poison():
            return NOTHING


def pipe(scope: Scope, node: t.Pipe) -> Val:
    """`x |> f |> g(a)` is `g(f(x), a)`, and `x |> f(a).y` is `f(x, a).y`."""
    val = rules.expression(scope, node.value)
    previous: t.Expr = node.value
    for number, stage in enumerate(node.stages, 1):
        called = stage.root if isinstance(stage, t.Member) else stage
        if isinstance(called, t.Call):
            call = t.Call(called.callee, called.arguments, span=called.span)
        else:
            call = t.Call(called, (), span=called.span)
        val = calls.call(scope, call, piped=(previous, val))
        for member in stage.path if isinstance(stage, t.Member) else ():
            val = one_result(scope, member, val)
        previous = t.Pipe(node.value, node.stages[:number], span=node.value.span.to(stage.span))
    return val


def one_result(scope: Scope, node: t.Member, val: Val) -> Val:
    """`f(x).loss`: one of the results of a call, by the name that its definition gives it."""
    if val.poisoned:
        return NOTHING
    if not val.results:
        scope.frame.report(kinds.NO_MEMBERS(Label(node.base.span), what=f"`{node.base.span.text}`"))
        return NOTHING
    if node.name not in val.results:
        call = node.base.callee if isinstance(node.base, t.Call) else node.base
        help = wording.near(node.name, val.results, "it has")
        place = Span(node.span.source, node.span.end - len(node.name), node.span.end)
        scope.frame.report(kinds.NO_SUCH_RESULT(Label(place), name=node.name, callee=call.span.text, help=help))
        return NOTHING
    return replace(val, results=()) if not val.several else val.several[val.results.index(node.name)]


def member(scope: Scope, node: t.Member) -> Val:
    """`layer.W`, or `f(x).loss`."""
    if not isinstance(node.root, t.Name):
        return one_result(scope, node, rules.expression(scope, node.base))
    tensor = members.member(scope.frame, node)
    return tensor_reads.whole(scope, tensor, node.span) if tensor is not None else NOTHING


def negative(scope: Scope, node: t.Negative) -> Val:
    val = rules.expression(scope, node.operand)
    if isinstance(val.static, Ratio):
        return Val(static=Ratio(tidy(-val.static.value)))
    if isinstance(val.static, int | float | Polynomial) and not isinstance(val.static, bool):
        return Val(static=-val.static)
    if not elementwise.numbers(scope, [(node.operand, val)], "-"):
        return NOTHING
    assert val.expr is not None
    return Val(Apply("neg", (val.expr,), val.dtype, node.span), val.axes, val.free)


def sum_(scope: Scope, node: t.Sum) -> Val:
    return chain(scope, node.terms)


def product(scope: Scope, node: t.Product) -> Val:
    return chain(scope, node.factors)


def binary(scope: Scope, node: t.Binary) -> Val:
    operands = [(x, rules.expression(scope, x)) for x in (node.left, node.right)]
    return arithmetic(scope, node.op, operands)


def chain(scope: Scope, parts: Sequence[tuple[str, t.Expr]]) -> Val:
    """`a + b - c` or `a * b / c`, from the left."""
    operands = [(op, node, rules.expression(scope, node)) for op, node in parts]
    _, node, val = operands[0]
    so_far: elementwise.Operand = (node, val)
    for op, right_node, right in operands[1:]:
        result = arithmetic(scope, op, [so_far, (right_node, right)])
        if result.poisoned:
            return NOTHING
        span = so_far[0].span.to(right_node.span)
        so_far = (t.Name("", span=span), result)
    return so_far[1]


def arithmetic(scope: Scope, op: str, operands: list[elementwise.Operand]) -> Val:
    if not elementwise.numbers(scope, operands, op):
        return NOTHING
    (left_node, left), (right_node, right) = operands
    span = left_node.span.to(right_node.span).closed
    known = left.static is not None and right.static is not None
    if known and not static_values.is_formula(op, left.static, right.static):
        assert left.static is not None and right.static is not None
        static = static_values.fold(scope, op, left.static, right.static, span)
        return NOTHING if static is None else Val(static=static)
    dtype = elementwise.joint_dtype([left, right])
    if op == "/" and not is_float(dtype):
        dtype = "float"
    if op == "^" and not (isinstance(right.static, int) and right.static >= 0) and not is_float(dtype):
        dtype = "float"
    if op in ("//", "%") and is_float(dtype):
        a, b = (
            x.span.text if isinstance(x, t.Name | t.Number | t.Access | t.Call) else f"({x.span.text})"
            for x in (left_node, right_node)
        )
        help = f"write `floor({a} / {b})`" if op == "//" else f"write `({a} - {b} * floor({a} / {b}))`"
        scope.frame.report(kinds.WHOLE_EXPECTED(Label(span), op=op, help=help))
        return NOTHING
    return elementwise.combine(scope, op, operands, dtype, span)


def compare(scope: Scope, node: t.Compare) -> Val:
    left, right = rules.expression(scope, node.left), rules.expression(scope, node.right)
    if left.poisoned or right.poisoned:
        return NOTHING
    if isinstance(left.static, str) or isinstance(right.static, str):
        both = isinstance(left.static, str) and isinstance(right.static, str) and node.op in ("==", "!=")
        if not both:
            scope.frame.report(
                kinds.CANNOT_COMPARE(
                    Label(node.span), op=node.op, a=elementwise.kind_word(left), b=elementwise.kind_word(right)
                )
            )
            return NOTHING
        return Val(static=(left.static == right.static) == (node.op == "=="))
    operands = [(node.left, left), (node.right, right)]
    booleans = left.dtype == "bool" and right.dtype == "bool" and node.op in ("==", "!=")
    if left.function or right.function or (not booleans and "bool" in (left.dtype, right.dtype)):
        scope.frame.report(
            kinds.CANNOT_COMPARE(
                Label(node.span), op=node.op, a=elementwise.kind_word(left), b=elementwise.kind_word(right)
            )
        )
        return NOTHING
    if left.static is not None and right.static is not None:
        known = static_values.fold_compare(scope.frame, node.op, left.static, right.static)
        if known is not None:
            return Val(static=known)
    return elementwise.combine(scope, node.op, operands, "bool", node.span)


def logic(scope: Scope, node: t.Logic) -> Val:
    """`a and b`, `a or b`: the second is asked where the first leaves the answer open."""
    outer = scope.known
    vals: list[tuple[t.Expr, Val]] = []
    for operand in node.operands:
        vals.append((operand, rules.condition(scope, operand)))
        scope.known = (*scope.known, *known_where(vals[-1][1].expr, node.op == "and"))
    scope.known = outer
    if any(v.poisoned for _, v in vals):
        return NOTHING
    decides = node.op == "or"  # `true` decides an `or`, `false` an `and`
    if any(v.static is decides for _, v in vals):
        return Val(static=decides)
    open_ = [(n, v) for n, v in vals if v.static is None]
    if not open_:
        return Val(static=not decides)
    return open_[0][1] if len(open_) == 1 else elementwise.combine(scope, node.op, open_, "bool", node.span)


def negate(scope: Scope, node: t.Not) -> Val:
    val = rules.condition(scope, node.operand)
    if val.poisoned:
        return NOTHING
    if val.static is not None:
        return Val(static=not val.static)
    return elementwise.combine(scope, "not", [(node.operand, val)], "bool", node.span)


def choose(scope: Scope, node: t.Choose) -> Val:
    """`a if c else b`; a condition known at compile time picks one side for good."""
    test = rules.condition(scope, node.condition)
    if isinstance(test.static, bool):
        return rules.expression(scope, node.then if test.static else node.otherwise)
    then, otherwise = _branch(scope, node.then, test, True), _branch(scope, node.otherwise, test, False)
    if test.poisoned or then.poisoned or otherwise.poisoned:
        return NOTHING
    both_conditions = then.dtype == "bool" and otherwise.dtype == "bool" and not (then.function or otherwise.function)
    if not both_conditions and not elementwise.numbers(scope, [(node.then, then), (node.otherwise, otherwise)], "if"):
        return NOTHING
    dtype = "bool" if both_conditions else elementwise.joint_dtype([then, otherwise])
    return elementwise.combine(
        scope, "select", [(node.condition, test), (node.then, then), (node.otherwise, otherwise)], dtype, node.span
    )


def _branch(scope: Scope, node: t.Expr, test: Val, holds: bool) -> Val:
    """One side of a select, where its condition is known to hold or to fail."""
    outer = scope.known
    scope.known = (*outer, *known_where(test.expr, holds))
    val = rules.expression(scope, node)
    scope.known = outer
    return val

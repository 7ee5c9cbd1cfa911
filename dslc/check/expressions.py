"""Expressions: from syntax to typed values, one case per node."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from dslc.check import calls, renaming, scans, shapes, static_values, tensor_reads, wording
from dslc.check.conditions import known_where
from dslc.check.frame import Frame
from dslc.check.indices import Scope
from dslc.check.program import (
    Apply,
    Constant,
    Dtype,
    Expr,
    Index,
    IndexValue,
    Reduce,
    SizeValue,
    Tensor,
)
from dslc.check.sums import REST, Placement
from dslc.check.values import (
    NOTHING,
    FunctionValue,
    Poison,
    Ratio,
    Shared,
    Static,
    Val,
    exact,
    is_float,
    lower,
    promote,
)
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Diagnostic, Label
from dslc.sizes import Polynomial, show, tidy
from dslc.source import Span
from dslc.syntax import tree as t


def expression(scope: Scope, node: t.Expr) -> Val:
    """The value of an expression; implied sums that belong to this node are put around it."""
    scope.frame.checker.step(node.span)
    val = _expression(scope, node)
    names = scope.sums.get(id(node))
    if not names or val.poisoned:
        return val
    indices = [i for name in names for i in (scope.rest or () if name == REST else scope.find(name, node.span))]
    return reduce(scope, "sum", indices, val, node.span)


def right_side(
    placement: Placement, value: t.Expr, unnamed: Sequence[t.Target] = (), kept: Set[str] | None = None
) -> Val:
    """The value of a right-hand side with its implied sums; what cannot be summed is reported.

    `kept` are the indices that are not summed, by default those on the left; `unnamed` are targets whose missing
    brackets explain an index that cannot be summed.
    """
    scope = placement.scope
    placement.run(value, scope.kept if kept is None else kept)
    val = expression(scope, value)
    placement.report(value, unnamed)
    return NOTHING if placement.lone else val


def _expression(scope: Scope, node: t.Expr) -> Val:
    match node:
        case t.Number():
            return Val(static=node.value)
        case t.Bool() | t.String():
            return Val(static=node.value)
        case t.Name():
            return name(scope, node)
        case t.Access():
            return tensor_reads.access(scope, node)
        case t.OrElse():
            return tensor_reads.or_else(scope, node)
        case t.Member():
            if not isinstance(node.root, t.Name):
                return one_result(scope, node, expression(scope, node.base))
            tensor = tensor_reads.member(scope.frame, node)
            return tensor_reads.whole(scope, tensor, node.span) if tensor is not None else NOTHING
        case t.Call():
            return calls.call(scope, node)
        case t.Pipe():
            return pipe(scope, node)
        case t.Negative():
            return negative(scope, node)
        case t.Sum():
            return chain(scope, [(sign, term) for sign, term in node.terms])
        case t.Product():
            return chain(scope, [(op, factor) for op, factor in node.factors])
        case t.Binary():
            return arithmetic(
                scope, node.op, [(node.left, expression(scope, node.left)), (node.right, expression(scope, node.right))]
            )
        case t.Compare():
            return compare(scope, node)
        case t.Logic():
            return logic(scope, node)
        case t.Not():
            return negate(scope, node)
        case t.Choose():
            return choose(scope, node)


def name(scope: Scope, node: t.Name) -> Val:
    frame = scope.frame
    if scope.is_index(node.id):
        indices = scope.find(node.id, node.span)
        if len(indices) != 1:
            frame.report(kinds.NOT_A_NUMBER(Label(node.span), name=node.id))
            return NOTHING
        value: Expr = IndexValue(indices[0])
        low = scans.first_step(frame, indices[0])
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
            if scans.reads_unfinished(scope, binding, node.span):
                return NOTHING
            return tensor_reads.whole(scope, frame.latest.get(binding, binding), node.span)
        case Static():
            return Val(static=binding.value)
        case Val():
            return binding
        case FunctionValue() | Shared():
            return Val(function=binding)
        case Poison():
            return NOTHING


def pipe(scope: Scope, node: t.Pipe) -> Val:
    """`x |> f |> g(a)` is `g(f(x), a)`, and `x |> f(a).y` is `f(x, a).y`."""
    val = expression(scope, node.value)
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


Operand = tuple[t.Expr, Val]


def negative(scope: Scope, node: t.Negative) -> Val:
    val = expression(scope, node.operand)
    if isinstance(val.static, Ratio):
        return Val(static=Ratio(tidy(-val.static.value)))
    if isinstance(val.static, int | float | Polynomial) and not isinstance(val.static, bool):
        return Val(static=-val.static)
    if not numbers(scope, [(node.operand, val)], "-"):
        return NOTHING
    assert val.expr is not None
    return Val(Apply("neg", (val.expr,), val.dtype, node.span), val.axes, val.free)


def chain(scope: Scope, parts: list[tuple[str, t.Expr]]) -> Val:
    """`a + b - c` or `a * b / c`, from the left."""
    operands = [(op, node, expression(scope, node)) for op, node in parts]
    _, node, val = operands[0]
    so_far: Operand = (node, val)
    for op, right_node, right in operands[1:]:
        result = arithmetic(scope, op, [so_far, (right_node, right)])
        if result.poisoned:
            return NOTHING
        span = so_far[0].span.to(right_node.span)
        so_far = (t.Name("", span=span), result)
    return so_far[1]


def several_results(node: t.Expr, val: Val) -> Diagnostic:
    """A call with several results stands where one value is needed."""
    one = by_name(node, val)
    help = f"take one by its name: {one}" if one else None
    return kinds.SEVERAL_RESULTS(Label(node.span), found=len(val.several), help=help)


def by_name(node: t.Expr, val: Val) -> str | None:
    """How one of several results is written: `f(x).a` or `f(x).b`."""
    if not val.results or not node.span.source.text:
        return None
    text = f"({node.span.text})" if isinstance(node, t.Pipe) else node.span.text
    return " or ".join(f"`{text}.{name}`" for name in val.results[:3])


def numbers(scope: Scope, operands: Sequence[Operand], op: str) -> bool:
    """Are all operands numbers? Functions, words and conditions are reported."""
    good = True
    for node, val in operands:
        if val.poisoned:
            good = False
        elif val.several:
            scope.frame.report(several_results(node, val))
            good = False
        elif val.function is not None or isinstance(val.static, str):
            what = "a function" if val.function is not None else "a string"
            help = f"call it: `{node.span.text}(...)`" if val.function is not None else None
            scope.frame.report(kinds.NOT_A_VALUE(Label(node.span), found=what, help=help))
            good = False
        elif val.dtype == "bool":
            help = f"write `(1 if {node.span.text} else 0)`"
            scope.frame.report(kinds.BOOL_ARITHMETIC(Label(node.span), op=op, help=help))
            good = False
    return good


def arithmetic(scope: Scope, op: str, operands: list[Operand]) -> Val:
    if not numbers(scope, operands, op):
        return NOTHING
    (left_node, left), (right_node, right) = operands
    span = left_node.span.to(right_node.span).closed
    known = left.static is not None and right.static is not None
    if known and not static_values.is_formula(op, left.static, right.static):
        assert left.static is not None and right.static is not None
        static = static_values.fold(scope, op, left.static, right.static, span)
        return NOTHING if static is None else Val(static=static)
    dtype = joint_dtype([left, right])
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
    return combine(scope, op, operands, dtype, span)


def joint_dtype(vals: Sequence[Val]) -> Dtype:
    """The dtype of an operation: static numbers take the float dtype of what they meet."""
    found: Dtype | None = None
    for val in vals:
        if val.static is None:
            found = val.dtype if found is None else promote(found, val.dtype)
    for val in vals:
        if val.static is not None and (found is None or not is_float(found)):
            found = val.dtype if found is None else promote(found, val.dtype)
    assert found is not None
    return found


def combine(scope: Scope, op: str, operands: Sequence[Operand], dtype: Dtype, span: Span) -> Val:
    """Apply a scalar operation elementwise: positional axes must agree, scalars go with everything."""
    aligned = align(scope, operands, op)
    if aligned is None:
        return NOTHING
    vals, axes = aligned
    free: dict[Index, None] = {}
    for val in vals:
        free.update(val.free)
    return Val(Apply(op, tuple(lower(v) for v in vals), dtype, span), axes, free)


def align(scope: Scope, operands: Sequence[Operand], op: str = "") -> tuple[list[Val], tuple[Index, ...]] | None:
    """Give all operands with positional axes the same ones, or report that their shapes differ."""
    leader = next(((n, v) for n, v in operands if v.axes), None)
    if leader is None:
        return [v for _, v in operands], ()
    node, lead = leader
    aligned: list[Val] = []
    for other_node, val in operands:
        if not val.axes or val is lead:
            aligned.append(val)
            continue
        same_rank = len(val.axes) == len(lead.axes)
        if not same_rank or not all(scope.unify(a, b) for a, b in zip(lead.axes, val.axes, strict=True)):
            shapes.report(scope.frame, op, (node, lead), (other_node, val))
            return None
        aligned.append(renaming.replace_indices(val, dict(zip(val.axes, lead.axes, strict=True))))
    return aligned, lead.axes


def compare(scope: Scope, node: t.Compare) -> Val:
    left, right = expression(scope, node.left), expression(scope, node.right)
    if left.poisoned or right.poisoned:
        return NOTHING
    if isinstance(left.static, str) or isinstance(right.static, str):
        both = isinstance(left.static, str) and isinstance(right.static, str) and node.op in ("==", "!=")
        if not both:
            scope.frame.report(
                kinds.CANNOT_COMPARE(Label(node.span), op=node.op, a=_kind_word(left), b=_kind_word(right))
            )
            return NOTHING
        return Val(static=(left.static == right.static) == (node.op == "=="))
    operands = [(node.left, left), (node.right, right)]
    booleans = left.dtype == "bool" and right.dtype == "bool" and node.op in ("==", "!=")
    if left.function or right.function or (not booleans and "bool" in (left.dtype, right.dtype)):
        scope.frame.report(kinds.CANNOT_COMPARE(Label(node.span), op=node.op, a=_kind_word(left), b=_kind_word(right)))
        return NOTHING
    if left.static is not None and right.static is not None:
        known = static_values.fold_compare(scope.frame, node.op, left.static, right.static)
        if known is not None:
            return Val(static=known)
    return combine(scope, node.op, operands, "bool", node.span)


def _kind_word(val: Val) -> str:
    if val.function is not None:
        return "a function"
    if isinstance(val.static, str):
        return "a string"
    return "a condition" if val.dtype == "bool" else "a number"


def condition(scope: Scope, node: t.Expr) -> Val:
    """An expression that must be true or false."""
    val = expression(scope, node)
    if not val.poisoned and (val.function is not None or isinstance(val.static, str) or val.dtype != "bool"):
        found = "a function" if val.function is not None else "a string" if isinstance(val.static, str) else "a number"
        help = f"compare it: `{node.span.text} != 0`" if found == "a number" else None
        scope.frame.report(kinds.CONDITION_EXPECTED(Label(node.span), found=found, help=help))
        return NOTHING
    return val


def logic(scope: Scope, node: t.Logic) -> Val:
    """`a and b`, `a or b`: the second is asked where the first leaves the answer open."""
    outer = scope.known
    vals: list[tuple[t.Expr, Val]] = []
    for operand in node.operands:
        vals.append((operand, condition(scope, operand)))
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
    return open_[0][1] if len(open_) == 1 else combine(scope, node.op, open_, "bool", node.span)


def negate(scope: Scope, node: t.Not) -> Val:
    val = condition(scope, node.operand)
    if val.poisoned:
        return NOTHING
    if val.static is not None:
        return Val(static=not val.static)
    return combine(scope, "not", [(node.operand, val)], "bool", node.span)


def choose(scope: Scope, node: t.Choose) -> Val:
    """`a if c else b`; a condition known at compile time picks one side for good."""
    test = condition(scope, node.condition)
    if isinstance(test.static, bool):
        return expression(scope, node.then if test.static else node.otherwise)
    then, otherwise = _branch(scope, node.then, test, True), _branch(scope, node.otherwise, test, False)
    if test.poisoned or then.poisoned or otherwise.poisoned:
        return NOTHING
    both_conditions = then.dtype == "bool" and otherwise.dtype == "bool" and not (then.function or otherwise.function)
    if not both_conditions and not numbers(scope, [(node.then, then), (node.otherwise, otherwise)], "if"):
        return NOTHING
    dtype = "bool" if both_conditions else joint_dtype([then, otherwise])
    return combine(
        scope, "select", [(node.condition, test), (node.then, then), (node.otherwise, otherwise)], dtype, node.span
    )


def _branch(scope: Scope, node: t.Expr, test: Val, holds: bool) -> Val:
    """One side of a select, where its condition is known to hold or to fail."""
    outer = scope.known
    scope.known = (*outer, *known_where(test.expr, holds))
    val = expression(scope, node)
    scope.known = outer
    return val


def describe(frame: Frame, val: Val) -> str:
    """What a value is, in words."""
    if val.function is not None:
        return "a function"
    if isinstance(val.static, str):
        return "a string"
    if val.dtype == "bool":
        return "a condition"
    if val.static is not None:
        size = exact(val.static)
        return f"the number {val.static if size is None else show(size)}"
    if val.axes:
        return f"a tensor of shape {frame.show_shape(a.size for a in val.axes)}"
    return "a value that is only known when the module runs"


def reduce(scope: Scope, op: str, indices: Sequence[Index], val: Val, span: Span) -> Val:
    """Reduce a value over indices; they are no longer free in the result."""
    dtype = val.dtype
    if op in ("argmax", "argmin"):
        dtype = "i64"
    elif op == "mean" and not is_float(dtype):
        dtype = "float"
    bound = set(indices)
    free = {i: None for i in val.free if i not in bound}
    axes = tuple(a for a in val.axes if a not in bound)
    return Val(Reduce(op, tuple(indices), lower(val), dtype, span), axes, free)

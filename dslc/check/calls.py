"""Calls: scalar functions, casts, user functions and layers, derivatives, external operations."""

from __future__ import annotations

from collections.abc import Sequence

from dslc.check import brackets, call_arguments, defined_calls, derivatives, elementwise, matrices, wording
from dslc.check.dependence import every_statement
from dslc.check.frame import Frame
from dslc.check.indices import Scope
from dslc.check.program import Apply, Constant, Define, Expr, Read, Tensor
from dslc.check.values import (
    NOTHING,
    FunctionValue,
    Poison,
    Ratio,
    Shared,
    Static,
    StaticValue,
    Val,
    exact,
    is_float,
    is_int,
    promote,
)
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.ops.table import ALONG_AXIS, CASTS, DERIVATIVES, DRAWS, EXTERNALS, REDUCTIONS, SCALAR_OPS, having
from dslc.resolve.foreign import FOREIGN
from dslc.sizes import extreme, tidy
from dslc.syntax import tree as t


def call(scope: Scope, node: t.Call, piped: tuple[t.Expr, Val] | None = None) -> Val:
    """The value of a call. `piped` is the first argument when it comes from `|>`."""
    frame = scope.frame
    given = [call_arguments.Given(a.value, a.name, place=a.span) for a in node.arguments]
    if piped is not None:
        given.insert(0, call_arguments.Given(piped[0], None, piped[1]))
        if piped[1].poisoned:
            return NOTHING
    callee = node.callee
    if isinstance(callee, t.Access) and isinstance(callee.base, t.Name):
        return brackets.bracketed(scope, node, callee, given)
    if not isinstance(callee, t.Name):
        help = _method(scope, callee.name) if isinstance(callee, t.Member) else None
        frame.report(kinds.NOT_CALLABLE(Label(callee.span), what=f"`{callee.span.text}`", help=help))
        return NOTHING
    binding = frame.lookup_function(callee.id)
    match binding:
        case None:
            frame.unknown(callee.id, callee.span, "function")
            return NOTHING
        case Poison():
            return NOTHING
        case Shared():
            return defined_calls.call_defined(scope, node, binding.function, given, binding)
        case FunctionValue(defined=None):
            return call_builtin(scope, node, binding.builtin or "", given)
        case FunctionValue():
            return defined_calls.call_defined(scope, node, binding, given, None)
        case Val() if binding.function is not None:
            function = binding.function
            if isinstance(function, Shared):
                return defined_calls.call_defined(scope, node, function.function, given, function)
            if function.defined is None:
                return call_builtin(scope, node, function.builtin or "", given)
            return defined_calls.call_defined(scope, node, function, given, None)
        case Tensor():
            help = f"write brackets to read it: `{callee.id}[...]`"
            frame.report(kinds.NOT_CALLABLE(Label(callee.span), what=f"the tensor `{callee.id}`", help=help))
        case _:
            if not (isinstance(binding, Val) and binding.poisoned):
                what = binding.what if isinstance(binding, Static) else "number"
                frame.report(kinds.NOT_CALLABLE(Label(callee.span), what=f"the {what} `{callee.id}`"))
    return NOTHING


def _method(scope: Scope, name: str) -> str | None:
    """What to write for `x.sum(1)`: functions stand in front of their arguments."""
    if name in REDUCTIONS:
        return f"write `{name}(x)`, or over one axis `{name}[k](x[n, k])`"
    return FOREIGN.get(name) or (f"write `{name}(x)`" if scope.frame.lookup_function(name) is not None else None)


def call_builtin(scope: Scope, node: t.Call, name: str, given: list[call_arguments.Given]) -> Val:
    frame = scope.frame
    if name == "einsum":
        return matrices.einsum(scope, node, given)
    if name in DERIVATIVES:
        return derivatives.derivative(scope, node, name, given)
    named = next((g for g in given if g.name is not None), None)
    if named is not None:
        help = None
        if name in REDUCTIONS and named.name in ("axis", "dim", "keepdims", "keepdim"):
            help = f"name the index that goes: `{name}[k](x[n, k])`"
        frame.report(kinds.NO_NAMED_ARGUMENTS(Label(named.name_span), name=name, help=help))
        return NOTHING
    if name in EXTERNALS:
        return matrices.external(scope, node, name, given)
    if name in REDUCTIONS and not (name in ("min", "max") and len(given) == 2):
        return reduce_all(scope, node, name, given)
    if name in ALONG_AXIS or name in DRAWS or name in ("concat", "top_k", "one_hot", "prefix", "fft", "ifft"):
        defined_calls.report_brackets(scope, node, name, given, "i")
        return NOTHING
    if name in ("wrap", "clamp"):
        clipped = f"clip({', '.join(g.span.text for g in given)})" if len(given) == 3 else "clip(x, low, high)"
        help = f"to limit values, write `{clipped}`"
        frame.report(kinds.ONLY_IN_INDEX(Label(node.span), name=name, help=help))
        return NOTHING
    operands = [(g.node, g.value(scope)) for g in given]
    if any(v.poisoned for _, v in operands):
        return NOTHING
    arity = 1 if name in CASTS or name == "stop_grad" else SCALAR_OPS[name].arity
    if len(operands) != arity:
        expected = wording.count(arity, "argument")
        frame.report(kinds.ARITY(Label(node.span), name=name, expected=expected, found=len(operands)))
        return NOTHING
    if name in CASTS:
        return cast(scope, node, name, operands[0])
    if not elementwise.numbers(scope, operands, name):
        return NOTHING
    if name == "stop_grad":
        return elementwise.combine(scope, name, operands, operands[0][1].dtype, node.span)
    if name in ("min", "max") and all(v.static is not None for _, v in operands):
        folded = _fold_extreme(name, [v.static for _, v in operands])
        if folded is not None:
            return Val(static=folded)
    dtype = elementwise.joint_dtype([v for _, v in operands])
    record = SCALAR_OPS[name]
    if record.gives == "bool":
        dtype = "bool"
    elif record.gives == "float" and not is_float(dtype):
        dtype = "float"
    return elementwise.combine(scope, name, operands, dtype, node.span)


def _fold_extreme(name: str, values: Sequence[StaticValue | None]) -> StaticValue | None:
    """`min` and `max` of static numbers and sizes."""
    sizes = [size for v in values if (size := exact(v)) is not None]
    if len(sizes) < len(values):
        return None
    folded = tidy(extreme(name, sizes))
    return Ratio(folded) if any(isinstance(v, Ratio) for v in values) else folded


#: operations that make a number whole, and those that give whole numbers for whole numbers
ROUNDING, KEEPS_WHOLE = having(lambda r: r.whole == "makes"), having(lambda r: r.whole == "keeps")


def _is_rounded(frame: Frame, root: Expr) -> bool:
    """Was a float made whole, perhaps under a name: `i = floor(p)`, then `i32(i)`, or `i32(max(i, 0))`?"""
    every = (x for body in (frame.code.body, *frame.code.enclosing) for x in every_statement(body))
    defined = {x.tensor: x.value for x in every if isinstance(x, Define)}
    stack, seen = [root], 0
    while stack:
        node, seen = stack.pop(), seen + 1
        if seen > 100:
            return False
        match node:
            case Apply(op=op) if op in ROUNDING or is_int(node.dtype):
                pass
            case Apply(op=op) if op in KEEPS_WHOLE:
                stack += node.args
            case Apply(op="select"):
                stack += node.args[1:]
            case Constant(value=value) if float(value).is_integer():
                pass
            case Read() if is_int(node.dtype):
                pass
            case Read() if node.tensor in defined:
                stack += [defined[node.tensor], *([] if node.outside is None else [node.outside])]
            case _:
                return False
    return True


def cast(scope: Scope, node: t.Call, name: str, operand: tuple[t.Expr, Val]) -> Val:
    source, val = operand
    if val.function is not None or isinstance(val.static, str) or val.several:
        elementwise.numbers(scope, [operand], name)
        return NOTHING
    if name in ("i32", "i64") and is_float(val.dtype):
        if not isinstance(val.static, float) and not (val.expr is not None and _is_rounded(scope.frame, val.expr)):
            help = f"say how to round: `{name}(round({source.span.text}))`, or `floor`, `ceil`, `trunc`"
            scope.frame.report(kinds.ROUNDING_UNCLEAR(Label(node.span), name=name, help=help))
            return NOTHING
    dtype = promote(val.dtype, "float") if name == "widened" else name
    return elementwise.combine(scope, dtype, [operand], dtype, node.span)


def reduce_all(scope: Scope, node: t.Call, name: str, given: list[call_arguments.Given]) -> Val:
    """`sum(x)`: over all positional axes; a position needs one."""
    if len(given) != 1:
        help = f"over one axis it is `{name}[k](x[n, k])`"
        scope.frame.report(kinds.ARITY(Label(node.span), name=name, expected="1 argument", found=len(given), help=help))
        return NOTHING
    val = given[0].value(scope)
    if val.poisoned:
        return NOTHING
    if not val.axes:
        defined_calls.report_brackets(scope, node, name, given, None)
        return NOTHING
    if name in ("argmax", "argmin") and len(val.axes) > 1:  # a position among all entries is hardly ever meant
        defined_calls.report_brackets(scope, node, name, given, "k")
        return NOTHING
    return brackets.reduction(scope, name, val.axes, val, given[0].node, node.span)

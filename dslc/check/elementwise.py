"""Values combined element by element: operands must be numbers, axes must agree; and values reduced and described."""

from __future__ import annotations

from collections.abc import Sequence

from dslc.check import renaming, shapes
from dslc.check.frame import Frame
from dslc.check.indices import Scope
from dslc.check.program import Apply, Dtype, Index, Reduce
from dslc.check.values import NOTHING, Val, exact, is_float, lower, promote
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Diagnostic, Label
from dslc.sizes import show
from dslc.source import Span
from dslc.syntax import tree as t

Operand = tuple[t.Expr, Val]


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


def kind_word(val: Val) -> str:
    if val.function is not None:
        return "a function"
    if isinstance(val.static, str):
        return "a string"
    return "a condition" if val.dtype == "bool" else "a number"


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

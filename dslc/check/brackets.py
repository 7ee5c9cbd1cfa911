"""Calls with indices in brackets: reductions, draws, one-hot vectors, and functions that are written with an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dslc.check import along, bracket_indices, call_arguments, defined_calls, elementwise, wording
from dslc.check.call_arguments import Given
from dslc.check.indices import Scope
from dslc.check.program import Apply, Constant, Draw, Index, IndexValue
from dslc.check.sums import REST, keeps_axis
from dslc.check.values import NOTHING, FunctionValue, Poison, Val, is_int, lower
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.ops.table import ALONG_AXIS, DRAWS, REDUCTIONS
from dslc.source import Span
from dslc.syntax import tree as t


def bracketed(scope: Scope, node: t.Call, callee: t.Access, given: list[Given]) -> Val:
    """`name[indices](arguments)`."""
    frame = scope.frame
    assert isinstance(callee.base, t.Name)
    name = callee.base.id
    binding = frame.lookup_function(name)
    if isinstance(binding, Val) and binding.function is not None:
        binding = binding.function
    if binding is None:
        frame.unknown(name, callee.base.span, "function")
        return NOTHING
    if isinstance(binding, Poison):
        return NOTHING
    if not isinstance(binding, FunctionValue):
        frame.report(kinds.NOT_CALLABLE(Label(callee.span), what=f"`{callee.span.text}`"))
        return NOTHING
    if binding.defined is not None:
        return axis_function(scope, node, callee, binding, given)
    builtin = binding.builtin or ""
    named = next((g for g in given if g.name is not None), None)
    if named is not None:
        frame.report(kinds.NO_NAMED_ARGUMENTS(Label(named.name_span), name=name))
        return NOTHING
    if builtin in REDUCTIONS:
        return reduction_call(scope, node, callee, builtin, given)
    if builtin in ALONG_AXIS:
        return along.along_axis(scope, node, callee, builtin, given)
    if builtin in DRAWS:
        return draw(scope, node, callee, builtin, given)
    match builtin:
        case "concat":
            return along.concat(scope, node, callee, given)
        case "one_hot":
            return one_hot(scope, node, callee, given)
        case "top_k":
            return along.top_k(scope, node, callee, given)
        case "prefix":
            return along.prefix(scope, node, callee, given)
        case "fft" | "ifft":
            return along.fourier(scope, node, callee, builtin, given)
    frame.report(kinds.NO_BRACKETS(Label(callee.span), name=name))
    return NOTHING


def reduction_call(scope: Scope, node: t.Call, callee: t.Access, name: str, given: list[Given]) -> Val:
    names = bracket_indices.bracket_names(scope, callee, name)
    if names is None or not bracket_indices.arity(scope, node, name, given, 1, 1):
        return NOTHING
    with bracket_indices.Bound(scope, names, given) as bound:
        val = given[0].value(scope)
        indices = bound.indices()
    if val.poisoned or not bound.good:
        return NOTHING
    for index in indices:
        if index not in val.free and index.size is None:
            scope.ranges.failed.add(index)
            help = _indexed(scope, replace(given[0], val=val), index, name) if val.axes else None
            scope.frame.report(kinds.UNUSED_BOUND_INDEX(Label(index.span), name=index.name, function=name, help=help))
            return NOTHING
    return reduction(scope, name, indices, val, given[0].node, node.span)


def reduction(scope: Scope, name: str, indices: Sequence[Index], val: Val, node: t.Expr, span: Span) -> Val:
    """Reduce a value, after a look at its dtype."""
    if val.function is not None or isinstance(val.static, str) or val.several:
        elementwise.numbers(scope, [(node, val)], name)
        return NOTHING
    if name in ("any", "all"):
        if val.dtype != "bool":
            help = f"compare it: `{node.span.text} != 0`"
            scope.frame.report(kinds.CONDITION_EXPECTED(Label(node.span), found="a number", help=help))
            return NOTHING
    elif not elementwise.numbers(scope, [(node, val)], name):
        return NOTHING
    return elementwise.reduce(scope, name, indices, val, span)


def axis_function(scope: Scope, node: t.Call, callee: t.Access, function: FunctionValue, given: list[Given]) -> Val:
    """A function written with an axis: `fn softmax[k](x) = ...`."""
    frame = scope.frame
    assert function.defined is not None
    target = function.defined.node
    if not isinstance(target, t.Fn) or target.axis is None:
        help = f"write `{target.name}(...)`; indices go into the arguments"
        frame.report(kinds.NO_BRACKETS(Label(callee.span), name=target.name, help=help))
        return NOTHING
    names = bracket_indices.bracket_names(scope, callee, target.name)
    if names is None:
        return NOTHING
    if keeps_axis(function.defined):
        early = [n for n in names if n[0] != REST]
        if bracket_indices.free_indices(scope, early) is None:
            return NOTHING
        known = [
            call_arguments.Given(g.node, g.name, g.value(scope) if _is_number_formal(function, i, g) else None)
            for i, g in enumerate(given)
        ]
        indices = bracket_indices.free_indices(scope, [(n, None, s) for n, _, s in names])
        if indices is None or any(g.val is not None and g.val.poisoned for g in known):
            return NOTHING
        if not _depends(scope, known, indices, target.name):
            return NOTHING
        return defined_calls.call_defined(scope, node, function, known, None, tuple(indices))
    with bracket_indices.Bound(scope, names, given) as bound:
        known = [
            call_arguments.Given(g.node, g.name, g.value(scope) if _is_number_formal(function, i, g) else None)
            for i, g in enumerate(given)
        ]
        indices = bound.indices()
        if any(g.val is not None and g.val.poisoned for g in known) or not bound.good:
            return NOTHING
        if not _depends(scope, known, indices, target.name):
            return NOTHING
        return defined_calls.call_defined(scope, node, function, known, None, tuple(indices))


def _is_number_formal(function: FunctionValue, place: int, given: Given) -> bool:
    """Is the argument an element-wise value (to be evaluated with the axis in scope), not a function?"""
    assert function.defined is not None
    formals = function.defined.node.formals
    formal = next((f for f in formals if f.name == given.name), formals[place] if place < len(formals) else None)
    return formal is not None and not (isinstance(formal.kind, t.KindWord) and formal.kind.word in ("fn", "layer"))


def _depends(scope: Scope, known: Sequence[Given], indices: Sequence[Index], name: str) -> bool:
    """Does an argument use each index that a function works along, or has that a range and none is a whole tensor?"""
    whole = next((g for g in known if g.val is not None and g.val.axes), None)
    for index in indices:
        used = any(g.val is not None and index in g.val.free for g in known)
        if not used and (whole is not None or index.size is None):
            scope.ranges.failed.add(index)
            help = None if whole is None else _indexed(scope, whole, index, name)
            report = kinds.UNUSED_BOUND_INDEX(Label(index.span), name=index.name or "...", function=name, help=help)
            scope.frame.report(report)
            return False
    return True


def _indexed(scope: Scope, given: Given, index: Index, function: str) -> str:
    """Advice to index an argument that is a whole tensor: `softmax[k](h[i, k])`."""
    assert given.val is not None
    scope.unreduced.add(index.name)
    names = [name for name in scope.names if name in scope.kept]
    if len(names) != len(given.val.axes) or index.name not in names:
        # the axis whose size has the name of the index, as `n` and `N`; else the last one
        sizes = [scope.frame.show(axis.size).lower() if axis.size is not None else "" for axis in given.val.axes]
        names = wording.letters(len(sizes) - 1, scope.frame, [index.name])
        names.insert(sizes.index(index.name) if index.name in sizes else len(sizes) - 1, index.name)
    axes, text = ", ".join(names), given.span.text
    here = f"`{function}[{index.name}]({text if text.isidentifier() else 'h'}[{axes}])`"
    here += "" if scope.kept else f", with `[{axes}]` on the left, too"
    return f"index the argument: {here}" if text.isidentifier() else f"write `h = {text}` on a line before, and {here}"


def draw(scope: Scope, node: t.Call, callee: t.Access, name: str, given: list[Given]) -> Val:
    """`bernoulli[n, c](p)`: one draw for each (n, c)."""
    names = bracket_indices.bracket_names(scope, callee, name)
    least, most = DRAWS[name]
    if names is None or not bracket_indices.arity(scope, node, name, given, least, most):
        return NOTHING
    indices = bracket_indices.free_indices(scope, names)
    operands = [(g.node, g.value(scope)) for g in given]
    if indices is None or not elementwise.numbers(scope, operands, name):
        return NOTHING
    for operand, val in operands:
        if val.axes:
            shape = f"shape {scope.frame.show_shape(a.size for a in val.axes)}"
            scope.frame.report(kinds.SCALAR_EXPECTED(Label(operand.span, shape), name=name))
            return NOTHING
    free = dict.fromkeys(indices)
    for _, val in operands:
        free.update(val.free)
    dtype = "i64" if name == "randint" else "float"
    args = tuple(lower(v) for _, v in operands)
    return Val(Draw(name, tuple(indices), args, dtype, next(scope.frame.code.draws), node.span), (), free)


def one_hot(scope: Scope, node: t.Call, callee: t.Access, given: list[Given]) -> Val:
    """`one_hot[k: K](label[n])` is `1 if k == label[n] else 0`."""
    entry = bracket_indices.one_index(scope, callee, "one_hot")
    if entry is None or not bracket_indices.arity(scope, node, "one_hot", given, 1, 1):
        return NOTHING
    found = bracket_indices.free_indices(scope, [entry])
    val = given[0].value(scope)
    if found is None or val.poisoned:
        return NOTHING
    is_text = isinstance(val.static, str)
    if val.function is not None or val.several or is_text or not is_int(val.dtype):
        shown = "a function" if val.function is not None else "a string" if is_text else val.dtype
        scope.frame.report(
            kinds.WRONG_DTYPE(
                Label(given[0].span), what="the argument of `one_hot`", expected="a whole number", found=shown
            )
        )
        return NOTHING
    test = Apply("==", (IndexValue(found[0]), lower(val)), "bool", node.span)
    value = Apply("select", (test, Constant(1.0, "float"), Constant(0.0, "float")), "float", node.span)
    return Val(value, val.axes, {**val.free, found[0]: None})

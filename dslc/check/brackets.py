"""Calls with indices in brackets: reductions, draws, one-hot vectors, and functions that are written with an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dslc.check import along, call_arguments, calls, expressions, static_values, wording
from dslc.check.indices import Scope
from dslc.check.program import Apply, Constant, Draw, Index, IndexValue
from dslc.check.sums import REST, keeps_axis
from dslc.check.values import NOTHING, FunctionValue, Poison, Val, is_int, lower
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.ops.table import ALONG_AXIS, DRAWS, REDUCTIONS
from dslc.source import Span
from dslc.syntax import tree as t

if TYPE_CHECKING:
    from dslc.check.call_arguments import Given


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


def arity(scope: Scope, node: t.Call, name: str, given: Sequence[Given], least: int, most: int) -> bool:
    if least <= len(given) <= most:
        return True
    expected = wording.count(least, "argument") if least == most else f"{least} to {most} arguments"
    scope.frame.report(kinds.ARITY(Label(node.span), name=name, expected=expected, found=len(given)))
    return False


def bracket_names(scope: Scope, callee: t.Access, what: str) -> list[tuple[str, t.Expr | None, Span]] | None:
    """Names and bounds between the brackets of a call; `...` is the name REST."""
    found: list[tuple[str, t.Expr | None, Span]] = []
    for item in callee.items:
        if isinstance(item, t.Name):
            found.append((item.id, None, item.span))
        elif isinstance(item, t.Slice) and isinstance(item.low, t.Name) and item.high is not None and item.step is None:
            found.append((item.low.id, item.high, item.low.span))
        elif isinstance(item, t.Rest):
            found.append((REST, None, item.span))
        else:
            help = f"write names, with a bound if needed: `{what}[i]`, `{what}[a: 2, b: 2]`"
            scope.frame.report(kinds.BRACKET_NAMES(Label(item.span), name=what, help=help))
            return None
    return found


class Bound:
    """Indices bound by a bracket while its arguments are checked (a context manager)."""

    def __init__(self, scope: Scope, names: list[tuple[str, t.Expr | None, Span]]):
        self.scope = scope
        self.names = names
        self.fresh: dict[str, tuple[Index, ...]] = {}
        self.good = True

    def __enter__(self) -> Bound:
        scope, frame = self.scope, self.scope.frame
        self.outer_rest = scope.rest, scope.rest_span
        for name, bound, span in self.names:
            if name == REST:
                if REST in scope.kept:
                    labels = [Label(span)] + ([Label(scope.rest_span, "in use here")] if scope.rest_span else [])
                    frame.report(kinds.INDEX_BOUND_TWICE(*labels, name=REST, help="name the axes of one of them"))
                    self.good = False
                scope.rest, scope.rest_span = None, None
                continue
            if name == scope.axis_name:
                self.fresh[name] = scope.find(name, span)
                continue
            if name in self.fresh:
                label = Label(self.fresh[name][0].span, "in use here")
                frame.report(kinds.INDEX_BOUND_TWICE(Label(span), label, name=name, help=_rename(scope, name)))
                self.good = False
            index = frame.new_index(name, None, span)
            scope.state(index)
            if bound is not None:
                size = static_values.as_size(scope, bound, what=f"the range of `{name}`")
                self.good = self.good and size is not None
                scope.explicit.add(index)
                if size is not None:
                    scope.constrain(index, size, bound.span)
            self.fresh[name] = (index,)
        scope.levels.append(dict(self.fresh))
        return self

    def indices(self) -> list[Index]:
        """The bound indices, once the arguments have been seen."""
        found: list[Index] = []
        for name, _, _ in self.names:
            found.extend(self.scope.rest or () if name == REST else self.fresh[name])
        return found

    def __exit__(self, *_: object) -> None:
        self.scope.levels.pop()
        self.scope.require_bound(tuple(self.indices()))
        if any(name == REST for name, _, _ in self.names):
            self.scope.rest, self.scope.rest_span = self.outer_rest


def _rename(scope: Scope, name: str) -> str:
    """Advice to take another letter for an inner index."""
    letters = "ijklmnpqrstuvwxyz"
    place = letters.find(name) if len(name) == 1 else -1
    free = [x for x in letters[place + 1 :] + letters if not scope.is_index(x) and x not in scope.frame.names]
    return f"choose another name for the inner index, for example `{free[0]}`" if free else "rename the inner index"


def free_indices(scope: Scope, names: list[tuple[str, t.Expr | None, Span]]) -> list[Index] | None:
    """The indices of the statement that a bracket names without binding them; bounds fix their range."""
    found: list[Index] = []
    for name, bound, span in names:
        if name == REST:
            if scope.rest is None:
                scope.frame.report(
                    kinds.REST_MISUSE(Label(span), why="nothing before it says how many axes it stands for")
                )
                return None
            found.extend(scope.rest)
            continue
        indices = scope.find(name, span)
        if bound is not None:
            size = static_values.as_size(scope, bound, what=f"the range of `{name}`")
            if size is None:
                return None
            scope.explicit.update(indices)
            for index in indices:
                scope.constrain(index, size, bound.span)
        found.extend(indices)
    return found


def reduction_call(scope: Scope, node: t.Call, callee: t.Access, name: str, given: list[Given]) -> Val:
    names = bracket_names(scope, callee, name)
    if names is None or not arity(scope, node, name, given, 1, 1):
        return NOTHING
    with Bound(scope, names) as bound:
        val = given[0].value(scope)
        indices = bound.indices()
    if val.poisoned or not bound.good:
        return NOTHING
    for index in indices:
        if index not in val.free and index.size is None:
            scope.failed.add(index)
            scope.frame.report(kinds.UNUSED_BOUND_INDEX(Label(index.span), name=index.name, function=name))
            return NOTHING
    return reduction(scope, name, indices, val, given[0].node, node.span)


def reduction(scope: Scope, name: str, indices: Sequence[Index], val: Val, node: t.Expr, span: Span) -> Val:
    """Reduce a value, after a look at its dtype."""
    if val.function is not None or isinstance(val.static, str) or val.several:
        expressions.numbers(scope, [(node, val)], name)
        return NOTHING
    if name in ("any", "all"):
        if val.dtype != "bool":
            help = f"compare it: `{node.span.text} != 0`"
            scope.frame.report(kinds.CONDITION_EXPECTED(Label(node.span), found="a number", help=help))
            return NOTHING
    elif not expressions.numbers(scope, [(node, val)], name):
        return NOTHING
    return expressions.reduce(scope, name, indices, val, span)


def axis_function(scope: Scope, node: t.Call, callee: t.Access, function: FunctionValue, given: list[Given]) -> Val:
    """A function written with an axis: `fn softmax[k](x) = ...`."""
    frame = scope.frame
    assert function.defined is not None
    target = function.defined.node
    if not isinstance(target, t.Fn) or target.axis is None:
        help = f"write `{target.name}(...)`; indices go into the arguments"
        frame.report(kinds.NO_BRACKETS(Label(callee.span), name=target.name, help=help))
        return NOTHING
    names = bracket_names(scope, callee, target.name)
    if names is None:
        return NOTHING
    if keeps_axis(function.defined):
        early = [n for n in names if n[0] != REST]
        if free_indices(scope, early) is None:
            return NOTHING
        known = [
            call_arguments.Given(g.node, g.name, g.value(scope) if _is_number_formal(function, i, g) else None)
            for i, g in enumerate(given)
        ]
        indices = free_indices(scope, [(n, None, s) for n, _, s in names])
        if indices is None or any(g.val is not None and g.val.poisoned for g in known):
            return NOTHING
        if not _depends(scope, known, indices, target.name):
            return NOTHING
        return calls.call_defined(scope, node, function, known, None, tuple(indices))
    with Bound(scope, names) as bound:
        known = [
            call_arguments.Given(g.node, g.name, g.value(scope) if _is_number_formal(function, i, g) else None)
            for i, g in enumerate(given)
        ]
        indices = bound.indices()
        if any(g.val is not None and g.val.poisoned for g in known) or not bound.good:
            return NOTHING
        if not _depends(scope, known, indices, target.name):
            return NOTHING
        return calls.call_defined(scope, node, function, known, None, tuple(indices))


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
            scope.failed.add(index)
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
        names = [*wording.letters(len(given.val.axes) - 1, scope.frame, [index.name]), index.name]
    axes, text = ", ".join(names), given.span.text
    here = f"`{function}[{index.name}]({text if text.isidentifier() else 'h'}[{axes}])`"
    here += "" if scope.kept else f", with `[{axes}]` on the left, too"
    return f"index the argument: {here}" if text.isidentifier() else f"write `h = {text}` on a line before, and {here}"


def draw(scope: Scope, node: t.Call, callee: t.Access, name: str, given: list[Given]) -> Val:
    """`bernoulli[n, c](p)`: one draw for each (n, c)."""
    names = bracket_names(scope, callee, name)
    least, most = DRAWS[name]
    if names is None or not arity(scope, node, name, given, least, most):
        return NOTHING
    indices = free_indices(scope, names)
    operands = [(g.node, g.value(scope)) for g in given]
    if indices is None or not expressions.numbers(scope, operands, name):
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
    return Val(Draw(name, tuple(indices), args, dtype, next(scope.frame.draws), node.span), (), free)


def one_hot(scope: Scope, node: t.Call, callee: t.Access, given: list[Given]) -> Val:
    """`one_hot[k: K](label[n])` is `1 if k == label[n] else 0`."""
    entry = along.one_index(scope, callee, "one_hot")
    if entry is None or not arity(scope, node, "one_hot", given, 1, 1):
        return NOTHING
    found = free_indices(scope, [entry])
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

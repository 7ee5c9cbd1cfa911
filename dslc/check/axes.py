"""Calls with indices in brackets: reductions, running and sorting operations, joins, draws, axis functions, einsum;
and the external operations on matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dslc.check import calls, definitions, expressions, scans
from dslc.check.indices import Evidence, Scope
from dslc.check.program import (
    Affine,
    AlongAxis,
    Apply,
    Constant,
    Draw,
    External,
    Index,
    IndexValue,
    Join,
    Read,
    Tensor,
)
from dslc.check.sums import REST, keeps_axis
from dslc.check.values import FunctionValue, Poison, Shared, Val, is_float, is_int, lower
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.ops.table import ALONG_AXIS, DRAWS, EXTERNALS, REDUCTIONS
from dslc.sizes import Size, tidy
from dslc.source import Span
from dslc.syntax import tree as t

if TYPE_CHECKING:
    from dslc.check.calls import Given

NOTHING = Val()


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
        frame.report(kinds.NO_NAMED_ARGUMENTS(Label(named.span), name=name))
        return NOTHING
    if builtin in REDUCTIONS:
        return reduction_call(scope, node, callee, builtin, given)
    if builtin in ALONG_AXIS:
        return along_axis(scope, node, callee, builtin, given)
    if builtin in DRAWS:
        return draw(scope, node, callee, builtin, given)
    match builtin:
        case "concat":
            return concat(scope, node, callee, given)
        case "one_hot":
            return one_hot(scope, node, callee, given)
        case "top_k":
            return top_k(scope, node, callee, given)
        case "prefix":
            return prefix(scope, node, callee, given)
        case "fft" | "ifft":
            return fourier(scope, node, callee, builtin, given)
    frame.report(kinds.NO_BRACKETS(Label(callee.span), name=name))
    return NOTHING


def arity(scope: Scope, node: t.Call, name: str, given: Sequence[Given], least: int, most: int) -> bool:
    if least <= len(given) <= most:
        return True
    expected = f"{least} argument{'s' if least != 1 else ''}" if least == most else f"{least} to {most} arguments"
    scope.frame.report(kinds.ARITY(Label(node.span), name=name, expected=expected, found=len(given)))
    return False


# ---- brackets ---------------------------------------------------------------------------------------------------------


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
                    frame.report(kinds.INDEX_BOUND_TWICE(Label(span), name=REST))
                    self.good = False
                scope.rest, scope.rest_span = None, None
                continue
            if name == scope.axis_name:
                self.fresh[name] = scope.find(name, span)
                continue
            if name in scope.kept or any(name in level for level in scope.levels) or name in self.fresh:
                frame.report(kinds.INDEX_BOUND_TWICE(Label(span), name=name))
                self.good = False
            index = frame.new_index(name, None, span)
            if bound is not None:
                size = expressions.as_size(scope, bound, what=f"the range of `{name}`")
                self.good = self.good and size is not None
                index.size = size
                scope.explicit.add(index)
                if size is not None:
                    scope.evidence[index] = Evidence(bound.span, size, "", None)
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
            size = expressions.as_size(scope, bound, what=f"the range of `{name}`")
            if size is None:
                return None
            scope.explicit.update(indices)
            for index in indices:
                scope.constrain(index, size, bound.span)
        found.extend(indices)
    return found


# ---- reductions -------------------------------------------------------------------------------------------------------


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
            calls.Given(g.node, g.name, g.value(scope) if _is_number_formal(function, i, g) else None)
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
            calls.Given(g.node, g.name, g.value(scope) if _is_number_formal(function, i, g) else None)
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
    for index in indices:
        if not any(g.val is not None and index in g.val.free for g in known) and index.size is None:
            scope.failed.add(index)
            scope.frame.report(kinds.UNUSED_BOUND_INDEX(Label(index.span), name=index.name or "...", function=name))
            return False
    return True


# ---- operations along an axis -------------------------------------------------------------------------------------------


def mapped_indices(scope: Scope, vals: Sequence[Val], without: Sequence[Index]) -> tuple[Index, ...]:
    """The free named indices of values, less those of the operation and of scans around it."""
    steps = scans.active_indices(scope.frame)
    found: dict[Index, None] = {}
    for val in vals:
        own = {*val.axes, *without}
        found.update({i: None for i in val.free if i not in own and i not in steps})
    return tuple(found)


def one_index(scope: Scope, callee: t.Access, name: str) -> tuple[str, t.Expr | None, Span] | None:
    names = bracket_names(scope, callee, name)
    if names is None:
        return None
    if len(names) != 1 or names[0][0] == REST:
        scope.frame.report(kinds.ONE_INDEX(Label(callee.span), name=name, found=len(names)))
        return None
    return names[0]


def along_axis(scope: Scope, node: t.Call, callee: t.Access, name: str, given: list[Given]) -> Val:
    """`cumsum[t](x[n, t])`: one result per position, the index stays."""
    entry = one_index(scope, callee, name)
    if entry is None or not arity(scope, node, name, given, 1, 1):
        return NOTHING
    found = free_indices(scope, [entry])
    val = given[0].value(scope)
    if found is None or val.poisoned or not expressions.numbers(scope, [(given[0].node, val)], name):
        return NOTHING
    index = found[0]
    if index not in val.free:
        scope.failed.add(index)
        scope.frame.report(kinds.UNUSED_BOUND_INDEX(Label(entry[2]), name=entry[0], function=name))
        return NOTHING
    order = mapped_indices(scope, [val], [index])
    if not calls.resolved(scope, (*order, index)):
        return NOTHING
    tensor = calls.materialise_over(scope, val, (*order, index), node.span, name)
    dtype = "i64" if name == "argsort" else val.dtype
    below = index.size if name == "argsort" else None
    output = scope.frame.new_tensor(name, dtype, tensor.shape, span=node.span, below=below, origins=tensor.origins)
    scope.frame.emit(AlongAxis(name, (output,), (tensor,), len(order), span=node.span))
    return _read_along(output, (*order, index), val.axes, node.span)


def _read_along(tensor: Tensor, named: Sequence[Index], axes: Sequence[Index], span: Span) -> Val:
    indices = (*named, *axes)
    read = Read(tensor, tuple(Affine(((i, 1),), 0) for i in indices), tensor.dtype, span=span)
    return Val(read, tuple(axes), dict.fromkeys(indices))


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
    if any(v.axes for _, v in operands):
        scope.frame.report(kinds.SCALAR_EXPECTED(Label(node.span), name=name))
        return NOTHING
    free = dict.fromkeys(indices)
    for _, val in operands:
        free.update(val.free)
    checker = scope.frame.checker
    checker.sites += 1
    dtype = "i64" if name == "randint" else "float"
    args = tuple(lower(v) for _, v in operands)
    return Val(Draw(name, tuple(indices), args, dtype, checker.sites, node.span), (), free)


def one_hot(scope: Scope, node: t.Call, callee: t.Access, given: list[Given]) -> Val:
    """`one_hot[k: K](label[n])` is `1 if k == label[n] else 0`."""
    entry = one_index(scope, callee, "one_hot")
    if entry is None or not arity(scope, node, "one_hot", given, 1, 1):
        return NOTHING
    found = free_indices(scope, [entry])
    val = given[0].value(scope)
    if found is None or val.poisoned:
        return NOTHING
    if val.expr is None or not is_int(val.dtype):
        scope.frame.report(
            kinds.WRONG_DTYPE(
                Label(given[0].span), what="the argument of `one_hot`", expected="a whole number", found=val.dtype
            )
        )
        return NOTHING
    test = Apply("==", (IndexValue(found[0]), val.expr), "bool", node.span)
    value = Apply("select", (test, Constant(1.0, "float"), Constant(0.0, "float")), "float", node.span)
    return Val(value, val.axes, {**val.free, found[0]: None})


def concat(scope: Scope, node: t.Call, callee: t.Access, given: list[Given]) -> Val:
    """`concat[t](a[n, t], b[n, t], c[n])`: each argument has its own range of t; without t it fills one place."""
    frame = scope.frame
    entry = one_index(scope, callee, "concat")
    if entry is None or not arity(scope, node, "concat", given, 1, 1000):
        return NOTHING
    name, bound_size, span = entry
    parts: list[tuple[Val, Index]] = []
    for argument in given:
        index = frame.new_index(name, None, span)
        scope.levels.append({name: (index,)})
        val = argument.value(scope)
        scope.levels.pop()
        if val.poisoned or (val.dtype != "bool" and not expressions.numbers(scope, [(argument.node, val)], "concat")):
            return NOTHING
        if index not in val.free:
            index.size = 1
        if index.size is None:
            frame.report(
                kinds.RANGE_UNKNOWN(Label(argument.span), name=name, help=f"let one read use `{name}` plainly")
            )
            return NOTHING
        parts.append((val, index))
    if len({val.dtype == "bool" for val, _ in parts}) > 1:
        frame.report(kinds.BOOL_ARITHMETIC(Label(node.span), op="concat"))
        return NOTHING
    aligned = expressions.align(scope, [(g.node, v) for g, (v, _) in zip(given, parts, strict=True)], node.span)
    if aligned is None:
        return NOTHING
    vals, axes = aligned
    joined = scope.find(name, span)[0]
    total: Size = 0
    for _, index in parts:
        assert index.size is not None
        total = tidy(total + index.size)
    scope.constrain(joined, total, node.span, "", None)
    if bound_size is not None:
        size = expressions.as_size(scope, bound_size)
        if size is not None:
            scope.constrain(joined, size, bound_size.span)
    order = mapped_indices(scope, vals, [i for _, i in parts])
    if not calls.resolved(scope, order):
        return NOTHING
    tensors = []
    dtype = vals[0].dtype
    for val, (_, index) in zip(vals, parts, strict=True):
        full = Val(lower(val), axes, {**val.free, **dict.fromkeys(axes)})
        tensors.append(calls.materialise_over(scope, full, (*order, index), node.span, "part"))
        dtype = dtype if dtype == "bool" else expressions.promote(dtype, val.dtype)
    shape = (*(i.size for i in order), total, *(a.size for a in axes))
    bounds = [t_.below for t_ in tensors]
    below = bounds[0] if is_int(dtype) and bounds and all(b is not None and b == bounds[0] for b in bounds) else None
    output = frame.new_tensor(
        "joined", dtype, shape, span=node.span, below=below, origins=tuple((node.span, "") for _ in shape)
    )
    frame.emit(Join(output, tuple(tensors), len(order), node.span))
    return _read_along(output, (*order, joined), axes, node.span)


def _into(scope: Scope, callee: t.Access, name: str) -> tuple[t.Into, Index] | None:
    if len(callee.items) != 1 or not isinstance(callee.items[0], t.Into):
        help = (
            f"write the old and the new index: `{name}[v -> j: 5](...)`"
            if name == "top_k"
            else f"write the old and the new index: `{name}[t -> f](...)`"
        )
        scope.frame.report(kinds.BRACKET_NAMES(Label(callee.span), name=name, help=help))
        return None
    item = callee.items[0]
    target = scope.find(item.target.id, item.target.span)[0]
    if item.bound is not None:
        size = expressions.as_size(scope, item.bound, what=f"the range of `{item.target.id}`")
        if size is None:
            return None
        scope.explicit.add(target)
        scope.constrain(target, size, item.bound.span)
    return item, target


def top_k(scope: Scope, node: t.Call, callee: t.Access, given: list[Given]) -> Val:
    """`values, places = top_k[v -> j: 5](x[n, v])`."""
    frame = scope.frame
    found = _into(scope, callee, "top_k")
    if found is None or not arity(scope, node, "top_k", given, 1, 1):
        return NOTHING
    item, target = found
    if target.size is None:
        help = f"say how many: `top_k[{item.source.id} -> {item.target.id}: 5](...)`"
        frame.report(kinds.RANGE_UNKNOWN(Label(item.target.span), name=item.target.id, help=help))
        return NOTHING
    with Bound(scope, [(item.source.id, None, item.source.span)]) as bound:
        val = given[0].value(scope)
        (source,) = bound.indices()
    if val.poisoned or not bound.good or not expressions.numbers(scope, [(given[0].node, val)], "top_k"):
        return NOTHING
    if source not in val.free:
        scope.failed.add(source)
        frame.report(kinds.UNUSED_BOUND_INDEX(Label(item.source.span), name=item.source.id, function="top_k"))
        return NOTHING
    order = mapped_indices(scope, [val], [source])
    if not calls.resolved(scope, (*order, source)):
        return NOTHING
    assert source.size is not None
    if not frame.facts.nonnegative(tidy(source.size - target.size)):
        a, b = frame.show(target.size), frame.show(source.size)
        frame.report(kinds.TOP_K_TOO_MANY(Label(item.span), k=a, size=b, help=f"state it: `where {a} <= {b}`"))
        return NOTHING
    tensor = calls.materialise_over(scope, val, (*order, source), node.span, "scores")
    shape = (*(i.size for i in order), target.size, *(a.size for a in val.axes))
    origins = tuple((node.span, "") for _ in shape)
    values = frame.new_tensor("top", val.dtype, shape, span=node.span, origins=origins)
    places = frame.new_tensor("top_at", "i64", shape, span=node.span, below=source.size, origins=origins)
    frame.emit(AlongAxis("top_k", (values, places), (tensor,), len(order), span=node.span))
    return Val(several=tuple(_read_along(x, (*order, target), val.axes, node.span) for x in (values, places)))


def fourier(scope: Scope, node: t.Call, callee: t.Access, name: str, given: list[Given]) -> Val:
    """`re, im = fft[t -> f](x[n, t])`: complex numbers are pairs."""
    frame = scope.frame
    found = _into(scope, callee, name)
    if found is None or not arity(scope, node, name, given, 1, 2):
        return NOTHING
    item, target = found
    with Bound(scope, [(item.source.id, None, item.source.span)]) as bound:
        operands = [(g.node, g.value(scope)) for g in given]
        (source,) = bound.indices()
    if not bound.good or not expressions.numbers(scope, operands, name):
        return NOTHING
    for g, val in operands:
        if source not in val.free or not is_float(val.dtype):
            kind = kinds.UNUSED_BOUND_INDEX(Label(g.span), name=item.source.id, function=name)
            wrong = kinds.WRONG_DTYPE(
                Label(g.span), what=f"the argument of `{name}`", expected="float", found=val.dtype
            )
            frame.report(wrong if source in val.free else kind)
            scope.failed.add(source)
            return NOTHING
    aligned = expressions.align(scope, operands, node.span)
    order = mapped_indices(scope, [v for _, v in operands], [source])
    if aligned is None or not calls.resolved(scope, (*order, source)):
        return NOTHING
    vals, axes = aligned
    assert source.size is not None
    scope.constrain(target, source.size, node.span)
    tensors = tuple(
        calls.materialise_over(scope, Val(lower(v), axes, v.free), (*order, source), node.span, "signal") for v in vals
    )
    shape = (*(i.size for i in order), source.size, *(a.size for a in axes))
    origins = tuple((node.span, "") for _ in shape)
    outputs = tuple(frame.new_tensor(n, "float", shape, span=node.span, origins=origins) for n in ("re", "im"))
    frame.emit(AlongAxis(name, outputs, tensors, len(order), span=node.span))
    return Val(several=tuple(_read_along(o, (*order, target), axes, node.span) for o in outputs))


def prefix(scope: Scope, node: t.Call, callee: t.Access, given: list[Given]) -> Val:
    """`prefix[t](op, a[n, t, :], b[n, t, :])`: all prefixes under an associative function of two elements."""
    frame = scope.frame
    entry = one_index(scope, callee, "prefix")
    if entry is None or not arity(scope, node, "prefix", given, 2, 20):
        return NOTHING
    found = free_indices(scope, [entry])
    function = calls.function_argument(scope, given[0], "fn")
    vals = [g.value(scope) for g in given[1:]]
    if found is None or function is None or any(v.poisoned for v in vals):
        return NOTHING
    if isinstance(function, Shared) or function.defined is None or not isinstance(function.defined.node, t.Fn):
        frame.report(kinds.PREFIX_FUNCTION(Label(given[0].span), expected=2 * len(vals), outputs=len(vals)))
        return NOTHING
    target = function.defined.node
    outputs = 1 if target.expression is not None else len(target.outputs)
    if len(target.formals) != 2 * len(vals) or outputs != len(vals):
        declared = Label(function.defined.name_span, "defined here")
        frame.report(kinds.PREFIX_FUNCTION(Label(given[0].span), declared, expected=2 * len(vals), outputs=len(vals)))
        return NOTHING
    (index,) = found
    for g, val in zip(given[1:], vals, strict=True):
        if val.expr is None or index not in val.free:
            scope.failed.add(index)
            frame.report(kinds.UNUSED_BOUND_INDEX(Label(g.span), name=entry[0], function="prefix"))
            return NOTHING
    order = mapped_indices(scope, vals, [index])
    if not calls.resolved(scope, (*order, index)):
        return NOTHING
    tensors = [
        calls.materialise_over(scope, v, (*order, index), g.span, "element")
        for v, g in zip(vals, given[1:], strict=True)
    ]
    lead = len(order) + 1
    types = {}
    for place, formal in enumerate(target.formals):
        tensor = tensors[place % len(tensors)]
        span = given[1 + place % len(tensors)].span
        types[formal.name] = definitions.ArgType(
            tensor.dtype, tensor.shape[lead:], None, span, tensor, tensor.origins[lead:]
        )
    instance = definitions.instantiate(frame, function.defined, types, {}, node.span)
    if instance is None:
        return NOTHING
    results = []
    for tensor, output in zip(tensors, instance.outputs, strict=True):
        if len(output.shape) != len(tensor.shape) - lead or any(
            frame.facts.equal(a, b) is not True for a, b in zip(output.shape, tensor.shape[lead:], strict=True)
        ):
            frame.report(
                kinds.PREFIX_FUNCTION(
                    Label(given[0].span),
                    expected=2 * len(vals),
                    outputs=len(vals),
                    help="its results must have the shapes of its elements",
                )
            )
            return NOTHING
        results.append(frame.new_tensor("prefix", tensor.dtype, tensor.shape, span=node.span, origins=tensor.origins))
    frame.emit(AlongAxis("prefix", tuple(results), tuple(tensors), len(order), instance, node.span))
    read = tuple(_read_along(r, (*order, index), v.axes, node.span) for r, v in zip(results, vals, strict=True))
    return read[0] if len(read) == 1 else Val(several=read)


# ---- einsum and matrices ----------------------------------------------------------------------------------------------


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
        why = f"it names {len(operands)} tensors and {len(given) - 1} are given"
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
        if val.poisoned or not expressions.numbers(scope, [(argument.node, val)], "einsum"):
            return NOTHING
        if len(val.axes) != len(letters):
            shape = expressions.shape_text(frame, val.axes)
            frame.report(
                kinds.EINSUM_STRING(
                    Label(argument.span), why=f"`{letters}` names {len(letters)} axes, the tensor has the shape {shape}"
                )
            )
            return NOTHING
        rename = {}
        for letter, axis in zip(letters, val.axes, strict=True):
            index = table.setdefault(letter, frame.new_index(letter, None, argument.span))
            assert axis.size is not None
            scope.constrain(index, axis.size, argument.span)
            rename[axis] = index
        val = expressions.replace_indices(val, rename)
        val = Val(lower(val), (), val.free)
        product = val if product is None else expressions.combine(
            scope, "*", [(node, product), (argument.node, val)], expressions.promote(product.dtype, val.dtype), node.span
        )  # fmt: skip
    assert product is not None
    summed = [index for letter, index in table.items() if letter not in right]
    if summed:
        product = expressions.reduce(scope, "sum", summed, product, node.span)
    return Val(product.expr, tuple(table[c] for c in right), product.free)


def external(scope: Scope, node: t.Call, name: str, given: list[Given]) -> Val:
    """`solve(A, b)` and its like, on the last axes, mapped over free indices."""
    frame = scope.frame
    if not arity(scope, node, name, given, EXTERNALS[name], EXTERNALS[name]):
        return NOTHING
    operands = [(g.node, g.value(scope)) for g in given]
    if not expressions.numbers(scope, operands, name):
        return NOTHING
    matrix = operands[0][1]
    if len(matrix.axes) != 2 or not scope.unify(matrix.axes[0], matrix.axes[1], node.span):
        shape = expressions.shape_text(frame, matrix.axes)
        frame.report(kinds.SQUARE_EXPECTED(Label(given[0].span), name=name, found=shape))
        return NOTHING
    for g, val in operands:
        if not is_float(val.dtype):
            frame.report(
                kinds.WRONG_DTYPE(Label(g.span), what=f"the argument of `{name}`", expected="float", found=val.dtype)
            )
            return NOTHING
    if name == "solve":
        right = operands[1][1]
        if len(right.axes) not in (1, 2) or not scope.unify(matrix.axes[0], right.axes[0], node.span):
            shape = expressions.shape_text(frame, right.axes)
            expected = f"[{frame.show(matrix.axes[0].size or 1)}] or [{frame.show(matrix.axes[0].size or 1)}, ...]"
            frame.report(kinds.RIGHT_HAND_SIDE(Label(given[1].span), expected=expected, found=shape))
            return NOTHING
    order = mapped_indices(scope, [v for _, v in operands], [])
    if not calls.resolved(scope, order):
        return NOTHING
    tensors = tuple(
        calls.materialise_over(scope, v, order, g.span, "matrix" if i == 0 else "right")
        for i, (g, v) in enumerate(operands)
    )
    lead = tuple(i.size for i in order)
    n = tensors[0].shape[-1]
    shapes: dict[str, list[tuple[object, ...]]] = {
        "solve": [tensors[-1].shape[len(lead) :]], "inv": [(n, n)], "det": [()], "logdet": [()], "matexp": [(n, n)],
        "cholesky": [(n, n)], "eigh": [(n,), (n, n)],
    }  # fmt: skip
    outputs = tuple(
        frame.new_tensor(
            name, matrix.dtype, (*lead, *s), span=node.span, origins=tuple((node.span, "") for _ in (*lead, *s))
        )
        for s in shapes[name]
    )
    frame.emit(External(name, outputs, tensors, len(order), node.span))
    results = tuple(calls.read_result(scope, o, order, (), node.span) for o in outputs)
    return results[0] if len(results) == 1 else Val(several=results)

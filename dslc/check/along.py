"""Operations along one axis that keep or replace it: running sums, sorting, joins, top-k, Fourier, prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dslc.check import (
    bracket_indices,
    call_arguments,
    definitions,
    elementwise,
    materialise,
    scan_state,
    signatures,
    static_values,
    wording,
)
from dslc.check.call_arguments import Given
from dslc.check.indices import Scope
from dslc.check.positions import largest
from dslc.check.program import Affine, AlongAxis, Index, Join, Read, Tensor
from dslc.check.values import NOTHING, Shared, Val, is_float, is_int, lower, promote
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.sizes import Size, tidy
from dslc.source import Span
from dslc.syntax import tree as t


def mapped_indices(scope: Scope, vals: Sequence[Val], without: Sequence[Index]) -> tuple[Index, ...]:
    """The free named indices of values, less those of the operation and of scans around it."""
    steps = scan_state.active_indices(scope.frame)
    found: dict[Index, None] = {}
    for val in vals:
        own = {*val.axes, *without}
        found.update({i: None for i in val.free if i not in own and i not in steps})
    return tuple(found)


def along_axis(scope: Scope, node: t.Call, callee: t.Access, name: str, given: list[Given]) -> Val:
    """`cumsum[t](x[n, t])`: one result per position, the index stays."""
    entry = bracket_indices.one_index(scope, callee, name)
    if entry is None or not bracket_indices.arity(scope, node, name, given, 1, 1):
        return NOTHING
    found = bracket_indices.free_indices(scope, [entry])
    val = given[0].value(scope)
    if found is None or val.poisoned or not elementwise.numbers(scope, [(given[0].node, val)], name):
        return NOTHING
    index = found[0]
    if index not in val.free:
        scope.ranges.failed.add(index)
        scope.frame.report(kinds.UNUSED_BOUND_INDEX(Label(entry[2]), name=entry[0], function=name))
        return NOTHING
    order = mapped_indices(scope, [val], [index])
    if not materialise.resolved(scope, (*order, index)):
        return NOTHING
    tensor = materialise.materialise_over(scope, val, (*order, index), node.span, name)
    dtype = "i64" if name == "argsort" else val.dtype
    below = index.size if name == "argsort" else None
    output = scope.frame.new_tensor(name, dtype, tensor.shape, span=node.span, below=below, origins=tensor.origins)
    scope.frame.emit(AlongAxis(name, (output,), (tensor,), len(order), span=node.span))
    return _read_along(output, (*order, index), val.axes, node.span)


def _read_along(tensor: Tensor, named: Sequence[Index], axes: Sequence[Index], span: Span) -> Val:
    indices = (*named, *axes)
    read = Read(tensor, tuple(Affine(((i, 1),), 0) for i in indices), tensor.dtype, span=span)
    return Val(read, tuple(axes), dict.fromkeys(indices))


def concat(scope: Scope, node: t.Call, callee: t.Access, given: list[Given]) -> Val:
    """`concat[t](a[n, t], b[n, t], c[n])`: each argument has its own range of t; without t it fills one place."""
    frame = scope.frame
    entry = bracket_indices.one_index(scope, callee, "concat")
    if entry is None or not bracket_indices.arity(scope, node, "concat", given, 1, 1000):
        return NOTHING
    name, bound_size, span = entry
    parts: list[tuple[Val, Index]] = []
    for argument in given:
        index = frame.new_index(name, None, span)
        scope.levels.append({name: (index,)})
        before = len(scope.reads)
        val = argument.value(scope)
        scope.levels.pop()
        if index.size is None:
            scope.infer_ranges(scope.reads[before:])
        if val.poisoned or (val.dtype != "bool" and not elementwise.numbers(scope, [(argument.node, val)], "concat")):
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
        place = next(g for g, (v, _) in zip(given, parts, strict=True) if v.dtype == "bool")
        help = f"write `(1 if {place.span.text} else 0)`"
        frame.report(kinds.BOOL_ARITHMETIC(Label(place.span), op="concat", help=help))
        return NOTHING
    aligned = elementwise.align(scope, [(g.node, v) for g, (v, _) in zip(given, parts, strict=True)])
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
        size = static_values.as_size(scope, bound_size)
        if size is not None:
            scope.constrain(joined, size, bound_size.span)
    order = mapped_indices(scope, vals, [i for _, i in parts])
    if not materialise.resolved(scope, order):
        return NOTHING
    tensors = []
    dtype = vals[0].dtype
    for val, (_, index) in zip(vals, parts, strict=True):
        full = Val(lower(val), axes, {**val.free, **dict.fromkeys(axes)})
        tensors.append(materialise.materialise_over(scope, full, (*order, index), node.span, "part"))
        dtype = dtype if dtype == "bool" else promote(dtype, val.dtype)
    shape = (*(i.size for i in order), total, *(a.size for a in axes))
    bounds = [t_.below for t_ in tensors if t_.below is not None]
    below = largest(frame, bounds) if is_int(dtype) and len(bounds) == len(tensors) else None
    output = frame.new_tensor(
        "joined", dtype, shape, span=node.span, below=below, origins=tuple((node.span, "") for _ in shape)
    )
    frame.emit(Join(output, tuple(tensors), len(order), node.span))
    return _read_along(output, (*order, joined), axes, node.span)


def _into(scope: Scope, callee: t.Access, name: str, given: Sequence[Given]) -> tuple[t.Into, Index] | None:
    if len(callee.items) != 1 or not isinstance(callee.items[0], t.Into):
        old = callee.items[0].span.text if callee.items and isinstance(callee.items[0], t.Name) else "t"
        new = "j" if old != "j" else "i"
        count = ""
        if name == "top_k":
            count = f": {given[1].node.span.text}" if len(given) > 1 else ": 5"
        help = f"write the old and the new index: `{name}[{old} -> {new}{count}](...)`"
        scope.frame.report(kinds.BRACKET_NAMES(Label(callee.span), name=name, help=help))
        return None
    item = callee.items[0]
    target = scope.find(item.target.id, item.target.span)[0]
    if item.bound is not None:
        size = static_values.as_size(scope, item.bound, what=f"the range of `{item.target.id}`")
        if size is None:
            return None
        scope.ranges.explicit.add(target)
        scope.constrain(target, size, item.bound.span)
    return item, target


def top_k(scope: Scope, node: t.Call, callee: t.Access, given: list[Given]) -> Val:
    """`values, places = top_k[v -> j: 5](x[n, v])`."""
    frame = scope.frame
    found = _into(scope, callee, "top_k", given)
    if found is None or not bracket_indices.arity(scope, node, "top_k", given, 1, 1):
        return NOTHING
    item, target = found
    if target.size is None:
        help = f"say how many: `top_k[{item.source.id} -> {item.target.id}: 5](...)`"
        frame.report(kinds.RANGE_UNKNOWN(Label(item.target.span), name=item.target.id, help=help))
        return NOTHING
    with bracket_indices.Bound(scope, [(item.source.id, None, item.source.span)], given) as bound:
        val = given[0].value(scope)
        (source,) = bound.indices()
    if val.poisoned or not bound.good or not elementwise.numbers(scope, [(given[0].node, val)], "top_k"):
        return NOTHING
    if source not in val.free:
        scope.ranges.failed.add(source)
        frame.report(kinds.UNUSED_BOUND_INDEX(Label(item.source.span), name=item.source.id, function="top_k"))
        return NOTHING
    order = mapped_indices(scope, [val], [source])
    if not materialise.resolved(scope, (*order, source)):
        return NOTHING
    assert source.size is not None
    if not frame.facts.nonnegative(tidy(source.size - target.size)):
        report_too_many(scope, item, source, target)
        return NOTHING
    tensor = materialise.materialise_over(scope, val, (*order, source), node.span, "scores")
    shape = (*(i.size for i in order), target.size, *(a.size for a in val.axes))
    origins = tuple((node.span, "") for _ in shape)
    values = frame.new_tensor("top", val.dtype, shape, span=node.span, origins=origins)
    places = frame.new_tensor("top_at", "i64", shape, span=node.span, below=source.size, origins=origins)
    frame.emit(AlongAxis("top_k", (values, places), (tensor,), len(order), span=node.span))
    read = tuple(_read_along(x, (*order, target), val.axes, node.span) for x in (values, places))
    return Val(several=read, results=("value", "place"))


def report_too_many(scope: Scope, item: t.Into, source: Index, target: Index) -> None:
    """`top_k` of fewer values than it should give, or perhaps fewer."""
    frame = scope.frame
    assert source.size is not None and target.size is not None
    k, size = frame.show(target.size), frame.show(source.size)
    labels = [Label(item.span)]
    found = scope.ranges.evidence.get(source)
    if found is not None:
        labels.append(Label(found.origin or found.span, f"`{size}` comes from here"))
    if frame.facts.positive(tidy(target.size - source.size)):
        help = f"take {size} at most"
    else:
        help = f"state that there are enough: `where {wording.inequality(frame, tidy(source.size - target.size))}`"
    frame.report(kinds.TOP_K_TOO_MANY(*labels, k=k, size=size, help=help))


def fourier(scope: Scope, node: t.Call, callee: t.Access, name: str, given: list[Given]) -> Val:
    """`re, im = fft[t -> f](x[n, t])`: complex numbers are pairs."""
    frame = scope.frame
    found = _into(scope, callee, name, given)
    if found is None or not bracket_indices.arity(scope, node, name, given, 1, 2):
        return NOTHING
    item, target = found
    with bracket_indices.Bound(scope, [(item.source.id, None, item.source.span)], given) as bound:
        operands = [(g.node, g.value(scope)) for g in given]
        (source,) = bound.indices()
    if not bound.good or not elementwise.numbers(scope, operands, name):
        return NOTHING
    for g, val in operands:
        if source not in val.free or not is_float(val.dtype):
            kind = kinds.UNUSED_BOUND_INDEX(Label(g.span), name=item.source.id, function=name)
            wrong = kinds.WRONG_DTYPE(
                Label(g.span), what=f"the argument of `{name}`", expected="float", found=val.dtype
            )
            frame.report(wrong if source in val.free else kind)
            scope.ranges.failed.add(source)
            return NOTHING
    aligned = elementwise.align(scope, operands)
    order = mapped_indices(scope, [v for _, v in operands], [source])
    if aligned is None or not materialise.resolved(scope, (*order, source)):
        return NOTHING
    vals, axes = aligned
    assert source.size is not None
    scope.constrain(target, source.size, node.span)
    tensors = tuple(
        materialise.materialise_over(scope, Val(lower(v), axes, v.free), (*order, source), node.span, "signal")
        for v in vals
    )
    shape = (*(i.size for i in order), source.size, *(a.size for a in axes))
    origins = tuple((node.span, "") for _ in shape)
    dtype = elementwise.joint_dtype(vals)
    outputs = tuple(frame.new_tensor(n, dtype, shape, span=node.span, origins=origins) for n in ("re", "im"))
    frame.emit(AlongAxis(name, outputs, tensors, len(order), span=node.span))
    read = tuple(_read_along(o, (*order, target), axes, node.span) for o in outputs)
    return Val(several=read, results=("re", "im"))


def prefix(scope: Scope, node: t.Call, callee: t.Access, given: list[Given]) -> Val:
    """`prefix[t](op, a[n, t, :], b[n, t, :])`: all prefixes under an associative function of two elements."""
    frame = scope.frame
    entry = bracket_indices.one_index(scope, callee, "prefix")
    if entry is None or not bracket_indices.arity(scope, node, "prefix", given, 2, 20):
        return NOTHING
    found = bracket_indices.free_indices(scope, [entry])
    function = call_arguments.function_argument(scope, given[0], "fn")
    vals = [g.value(scope) for g in given[1:]]
    if found is None or function is None or any(v.poisoned for v in vals):
        return NOTHING
    asked: dict[str, Any] = {"expected": 2 * len(vals), "outputs": wording.count(len(vals), "result")}
    if isinstance(function, Shared) or function.defined is None or not isinstance(function.defined.node, t.Fn):
        frame.report(kinds.PREFIX_FUNCTION(Label(given[0].span), **asked))
        return NOTHING
    target = function.defined.node
    outputs = 1 if target.expression is not None else len(target.outputs)
    if len(target.formals) != 2 * len(vals) or outputs != len(vals):
        declared = Label(function.defined.name_span, "defined here")
        frame.report(kinds.PREFIX_FUNCTION(Label(given[0].span), declared, **asked))
        return NOTHING
    (index,) = found
    vals = [Val(lower(v)) if v.static is not None else v for v in vals]  # a number is the same at each place
    if not any(index in v.free for v in vals):
        scope.ranges.failed.add(index)
        frame.report(kinds.UNUSED_BOUND_INDEX(Label(given[1].span), name=entry[0], function="prefix"))
        return NOTHING
    order = mapped_indices(scope, vals, [index])
    if not materialise.resolved(scope, (*order, index)):
        return NOTHING
    tensors = [
        materialise.materialise_over(scope, v, (*order, index), g.span, "element")
        for v, g in zip(vals, given[1:], strict=True)
    ]
    lead = len(order) + 1
    dtypes = [tensor.dtype for tensor in tensors]
    while True:  # a prefix is an element again: both have the dtype that the function makes of them
        types = {}
        for place, formal in enumerate(target.formals):
            number = place % len(tensors)
            tensor, span = tensors[number], given[1 + number].span
            types[formal.name] = signatures.ArgType(
                dtypes[number], tensor.shape[lead:], None, span, tensor, tensor.origins[lead:]
            )
        instance = definitions.instantiate(frame, function.defined, types, {}, node.span)
        if instance is None:
            return NOTHING
        joint = [promote(before, x.dtype) for before, x in zip(dtypes, instance.outputs, strict=True)]
        if joint == dtypes:
            break
        dtypes = joint
    results = []
    for tensor, dtype, output in zip(tensors, dtypes, instance.outputs, strict=True):
        if not frame.same_shape(output.shape, tensor.shape[lead:]):
            help = "its results must have the shapes of its elements"
            frame.report(kinds.PREFIX_FUNCTION(Label(given[0].span), help=help, **asked))
            return NOTHING
        results.append(frame.new_tensor("prefix", dtype, tensor.shape, span=node.span, origins=tensor.origins))
    frame.emit(AlongAxis("prefix", tuple(results), tuple(tensors), len(order), instance, node.span))
    read = tuple(_read_along(r, (*order, index), v.axes, node.span) for r, v in zip(results, vals, strict=True))
    return read[0] if len(read) == 1 else Val(several=read)

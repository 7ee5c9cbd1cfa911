"""Reads of tensors: what stands between the brackets as positions: indices, slices, groups, `...`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dslc.check import rules, scan_state, static_values, wording
from dslc.check.conditions import Guarded
from dslc.check.frame import Frame
from dslc.check.indices import PendingGroup, PendingRead, Scope, dividend
from dslc.check.positions import affine
from dslc.check.program import Affine, Apply, Constant, Data, Dtype, Expr, Index, Position, Read, Tensor
from dslc.check.sums import REST
from dslc.check.values import Val, is_float, is_int, lower, promote
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.sizes import Polynomial, Size, floor_div, tidy
from dslc.source import Span
from dslc.syntax import tree as t


def whole(scope: Scope, tensor: Tensor, span: Span) -> Val:
    """A tensor by its name alone: all its axes are positional."""
    axes = tuple(scope.frame.new_index("", size, span) for size in tensor.shape)
    read = Read(tensor, tuple(Affine(((a, 1),), 0) for a in axes), tensor.dtype, span=span)
    return Val(read, axes, dict.fromkeys(axes))


def guard(scope: Scope, val: Val, pending: Sequence[PendingRead]) -> None:
    """A read in a branch of a select is 0 outside, until it is proved that no condition is needed to stay inside."""
    read = val.expr
    pending = [r for r in pending if r.position.mode == "inside" and dividend(r.position) is not None]
    if not pending or not isinstance(read, Read):
        return
    zero = 0.0 if is_float(read.dtype) else False if read.dtype == "bool" else 0
    read.outside = Constant(zero, read.dtype)
    guarded = Guarded(read, scope.known, set(pending))
    for position_ in pending:
        position_.select = guarded


def read_of(
    node: t.Access,
    tensor: Tensor,
    positions: Sequence[Position],
    axes: Sequence[Index],
    free: dict[Index, None],
    outside: Val | None,
) -> Val:
    """A read at positions that are found, and what stands outside of the tensor."""
    dtype = tensor.dtype
    if outside is not None and outside.expr is not None:
        free.update(outside.free)
    if outside is not None and not (outside.static is not None and is_float(dtype)):
        dtype = promote(dtype, outside.dtype)
    read = Read(tensor, tuple(positions), dtype, None if outside is None else lower(outside), node.span)
    return Val(read, tuple(axes), free)


def expand_items(
    scope: Scope, items: Sequence[t.Item], rank: int, node: t.Access, tensor: Tensor
) -> list[t.Item | Index] | None:
    """One item per axis: `...` becomes the indices of the statement's pack."""
    frame = scope.frame
    rests = [i for i in items if isinstance(i, t.Rest)]
    if len(rests) > 1:
        frame.report(kinds.REST_MISUSE(Label(rests[1].span), why="it stands twice in one pair of brackets"))
        return None
    count = len(items) - len(rests)
    if count > rank == 0:
        help = f"it has no axes; write `{node.base.span.text}`"
        if tensor.role not in ("input", "param", "state") and tensor.span.text == node.base.span.text:
            indexed = f"{node.base.span.text}[{', '.join(x.span.text for x in items)}]"
            help += f", or keep the axes where it is defined: `{indexed} = ...`"
        if tensor.role == "input" and tensor.span.text.strip() == tensor.name:
            help = f"give the argument a type, for example `{tensor.name}: [{', '.join('NKTE'[:count])}]`"
        labels = [Label(node.span)]
        if tensor.span.source.text:
            labels.append(Label(tensor.span, "a single number"))
        frame.report(kinds.NOT_INDEXABLE(*labels, what=f"the number `{node.base.span.text}`", help=help))
        return None
    if count > rank or (count < rank and not rests):
        labels = [Label(node.span, f"{count} given")]
        if tensor.span.source.text:
            labels.append(Label(tensor.span, f"`{tensor.name}` has the shape {frame.show_shape(tensor.shape)}"))
        advice = None
        if count < rank:
            given = [i.span.text for i in items]
            names = _named_by_sizes(given, tensor.shape)
            advice = f"name every axis: `{node.base.span.text}[{', '.join(names)}]`"
            if not names:
                whole = ", ".join([*given, *[":"] * (rank - count)])
                advice = f"name every axis, or write `:` for the whole of it: `{node.base.span.text}[{whole}]`"
        expected = wording.count(rank, "index", "indices")
        frame.report(kinds.WRONG_INDEX_COUNT(*labels, name=tensor.name, expected=expected, found=count, help=advice))
        return None
    if not rests:
        return list(items)
    pack = rest_pack(scope, rank - count, rests[0].span)
    if pack is None:
        return None
    place = list(items).index(rests[0])
    return [*items[:place], *pack, *items[place + 1 :]]


def _named_by_sizes(given: Sequence[str], shape: Sequence[Size]) -> list[str]:
    """An index for each axis, the small letter of its size where none is given; nothing where that is a guess.

    >>> from dslc.sizes import symbol
    >>> _named_by_sizes(["n", "h", "c"], [symbol("N"), symbol("H"), symbol("W"), 3])
    ['n', 'h', 'w', 'c']
    >>> _named_by_sizes(["t"], [symbol("T"), symbol("D"), symbol("D")])
    []
    """
    own = [str(size).lower() if isinstance(size, Polynomial) and size.is_Symbol else "" for size in shape]
    found: list[str] = []
    left = list(given)
    for name in own:
        if left and (left[0] == name or (not name and left[0] not in own)):
            found.append(left.pop(0))
        elif name.isidentifier() and name not in given and name not in found:
            found.append(name)
        else:
            return []
    return [] if left else found


def rest_pack(scope: Scope, length: int, span: Span) -> tuple[Index, ...] | None:
    """The indices behind `...`: as many in every place of a statement."""
    for level in reversed(scope.levels):
        if REST in level:
            pack = level[REST]
            break
    else:
        if scope.rest is None:
            scope.rest = tuple(scope.frame.new_index("", None, span) for _ in range(length))
            scope.rest_span = span
        pack = scope.rest
    if len(pack) != length:
        here, there = wording.count(length, "axis", "axes"), wording.count(len(pack), "axis", "axes")
        labels = [Label(span, f"{here} here")]
        if scope.rest_span is not None:
            labels.append(Label(scope.rest_span, f"{there} here"))
        scope.frame.report(kinds.REST_MISUSE(*labels, why=f"it stands for {here} here and for {there} elsewhere"))
        return None
    return pack


Found = tuple[Position, tuple[Index, ...], Mapping[Index, None]]


def position(
    scope: Scope, node: t.Access, tensor: Tensor, axis: int, item: t.Item | Index, guarded: bool
) -> Found | None:
    """The position that one item means, its positional axes, and the indices it depends on."""
    frame = scope.frame
    size = tensor.shape[axis]
    origin, written = tensor.origins[axis] if tensor.origins else (None, "")
    if isinstance(item, Index):
        scope.constrain(item, size, node.span, written, origin)
        return Affine(((item, 1),), 0), (), {item: None}
    if isinstance(item, t.Slice):
        return slice_position(scope, tensor, axis, item)
    if isinstance(item, t.Group):
        indices = tuple(i for n in item.names for i in scope.find(n.id, n.span))
        if any(scan_state.first_step(frame, i) != 0 for i in indices):
            frame.report(kinds.NOT_A_POSITION(Label(item.span), what=f"`{item.span.text}` with the index of a scan"))
            return None
        grouped = Affine((), 0)
        scope.groups.append(PendingGroup(item.span, indices, size, grouped, written, origin))
        return grouped, (), dict.fromkeys(indices)
    if isinstance(item, t.Into | t.Rest):
        frame.report(kinds.NOT_A_POSITION(Label(item.span), what=f"`{item.span.text}`"))
        return None
    mode, inner = _mode(frame, item)
    if inner is None:
        return None
    val = rules.expression(scope, inner)
    if val.poisoned:
        return None
    if val.function is not None or val.several or isinstance(val.static, str):
        frame.report(kinds.NOT_A_POSITION(Label(item.span), what=f"`{item.span.text}`"))
        return None
    lowered = lower(val)
    where_affine = affine(lowered)
    if where_affine is None and mode == "inside" and not val.axes:
        where_affine = wrapped(frame, lowered, size)
        mode = "inside" if where_affine is None else "wrap"
    if not is_int(val.dtype) and not (where_affine is not None and _is_whole(frame, where_affine)):
        shown = "a condition" if val.dtype == "bool" else f"a {_float_word(val.dtype)}"
        help = "round it and make it whole first: `i32(round(...))`" if is_float(val.dtype) else None
        if where_affine is not None:
            help = "write `//` to divide sizes and round down"
        frame.report(kinds.FLOAT_INDEX(Label(item.span), found=shown, help=help))
        return None
    if where_affine is not None and not val.axes:
        where_affine.mode = mode  # type: ignore[assignment]
        plain = mode == "inside" and where_affine.offset == 0 and len(where_affine.terms) == 1
        if plain and where_affine.terms[0][1] == 1 and scan_state.first_step(frame, where_affine.terms[0][0]) == 0:
            index = where_affine.terms[0][0]
            # a stated range may reach outside: that is what `else` is for, and the condition of a select
            longer = index.size is None or frame.facts.equal(index.size, size) is not True
            reaches = guarded or (bool(scope.known) and longer)
            if not (reaches and index in scope.ranges.explicit | scope.ranges.declared):
                scope.constrain(index, size, item.span, written, origin)
                return where_affine, (), val.free
    where: Position = where_affine if where_affine is not None else Data(lowered, mode)  # type: ignore[arg-type]
    scope.reads.append(PendingRead(node.span, item.span, tensor.name, size, written, origin, where, guarded))
    return where, val.axes, val.free


def _is_whole(frame: Frame, form: Affine) -> bool:
    """Is a position whole that quotients of sizes are part of, as `t + E / heads`?"""
    return all(frame.facts.whole(x) for x in (form.offset, *(c for _, c in form.terms)))


def wrapped(frame: Frame, e: Expr, size: Size) -> Affine | None:
    """`(i + 1) % T` on an axis of T: what `wrap(i + 1)` says."""
    if not isinstance(e, Apply) or e.op != "%":
        return None
    inner, period = (affine(a) for a in e.args)
    if inner is None or period is None or period.terms or frame.facts.equal(period.offset, size) is not True:
        return None
    return inner


def _mode(frame: Frame, item: t.Expr) -> tuple[str, t.Expr | None]:
    if isinstance(item, t.Call) and isinstance(item.callee, t.Name) and item.callee.id in ("wrap", "clamp"):
        if frame.names.get(item.callee.id) is None:
            if len(item.arguments) != 1:
                frame.report(
                    kinds.ARITY(Label(item.span), name=item.callee.id, expected="1 argument", found=len(item.arguments))
                )
                return "inside", None
            return item.callee.id, item.arguments[0].value
    return "inside", item


def _float_word(dtype: Dtype) -> str:
    return "float" if dtype == "float" else f"float ({dtype})"


def slice_position(scope: Scope, tensor: Tensor, axis: int, item: t.Slice) -> Found | None:
    """`low:high:step` keeps a positional axis."""
    frame = scope.frame
    size = tensor.shape[axis]
    step: Size = 1
    if item.step is not None:
        found = static_values.as_size(scope, item.step, least=None)
        if found is None:
            return None
        if not isinstance(found, int) or found == 0:
            frame.report(kinds.SLICE_STEP(Label(item.step.span), found=item.step.span.text))
            return None
        step = found
    low: Size | None = static_values.as_size(scope, item.low, least=None) if item.low is not None else 0
    high: Size | None = static_values.as_size(scope, item.high, least=None) if item.high is not None else size
    if low is None or high is None:
        return None
    facts = frame.facts
    if isinstance(step, int) and step < 0:
        if step != -1 or item.low is not None or item.high is not None:
            frame.report(kinds.SLICE_STEP(Label(item.span), found=item.span.text))
            return None
        index = frame.new_index("", size, item.span)
        return Affine(((index, -1),), tidy(size - 1)), (index,), {index: None}
    missing = [e for e in (low, tidy(size - high), tidy(high - low - 1)) if not facts.nonnegative(e)]
    if missing:
        report_slice(frame, tensor, axis, item, low, high, missing)
        return None
    length = tidy(floor_div(tidy(high - low + step - 1), step))
    index = frame.new_index("", length, item.span)
    return Affine(((index, step),), low), (index,), {index: None}


def report_slice(
    frame: Frame, tensor: Tensor, axis: int, item: t.Slice, low: Size, high: Size, missing: list[Size]
) -> None:
    """A slice that leaves its axis or is empty, or may do so: `missing` are the sizes that must not be negative."""
    size = tensor.shape[axis]
    origin, written = tensor.origins[axis] if tensor.origins else (None, "")
    labels = [Label(item.span, f"`{tensor.name}` has {wording.positions(frame, size)} there")]
    if origin is not None and origin.source.text:
        labels.append(Label(origin, f"{wording.sized(frame, size, written)} comes from here"))
    shown, facts, help = frame.show(size), frame.facts, None
    if any(facts.nonnegative(tidy(-e - 1)) for e in missing):
        how = f"does not fit into its axis of size {shown}"
        if facts.nonnegative(tidy(-low - 1)):
            help = f"write `{frame.show(tidy(size + low))}:{frame.show(high)}`; positions do not count from the end"
        elif facts.nonnegative(tidy(-high - 1)):
            help = f"write `{frame.show(low)}:{frame.show(tidy(size + high))}`; positions do not count from the end"
        elif facts.nonnegative(tidy(high - size - 1)):
            help = f"a slice ends at {shown} at most"
        else:
            how = "is empty"
    else:
        how = f"may not fit into its axis of size {shown}"
        needed = dict.fromkeys(wording.inequality(frame, e) for e in missing)
        help = f"state that it does: `where {', '.join(needed)}`"
    slice_ = f"{frame.show(low)}:{frame.show(high)}"
    frame.report(kinds.SLICE_RANGE(*labels, name=tensor.name, slice=slice_, how=how, help=help))

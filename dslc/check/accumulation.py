"""`+=`, `max=`, `min=` (scatters where a place is data) and updates of states."""

from __future__ import annotations

from collections.abc import Sequence

from dslc.check import equations, expressions, scans, static_values
from dslc.check.frame import Frame
from dslc.check.indices import PendingRead, Scope, affine, interval, reads_data
from dslc.check.program import (
    Affine,
    Apply,
    Data,
    Index,
    Position,
    Scatter,
    Tensor,
    UpdateState,
)
from dslc.check.sums import Placement
from dslc.check.values import POISON, is_int, lower, promote
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.resolve.files import did_you_mean
from dslc.sizes import Size, tidy
from dslc.syntax import tree as t


def accumulate(frame: Frame, node: t.Accumulate) -> None:
    """`y[dst[m], o] += ...`: scatter where a place is data or an affine expression, plain addition elsewhere."""
    if not equations._may_assign(frame, node.target):
        return
    plain = all(
        isinstance(i, t.Name | t.Rest | t.Group)
        or (isinstance(i, t.Slice) and (i.low is None or isinstance(i.low, t.Name)))
        for i in node.target.items or ()
    )
    previous = frame.names.get(node.target.name)
    if plain:
        accumulate_plain(frame, node, previous if isinstance(previous, Tensor) else None)
        return
    tensor = scatter(frame, node, previous if isinstance(previous, Tensor) else None)
    frame.names[node.target.name] = POISON if tensor is None else tensor


def accumulate_plain(frame: Frame, node: t.Accumulate, previous: Tensor | None) -> None:
    if previous is None:
        equations.equation(frame, t.Equation((node.target,), node.value, node.where, span=node.span))
        return
    made = equations.equation_value(frame, node.target, node.value, previous.shape, previous.origins, node.where)
    if made is None:
        equations.poison(frame, node.target.name)
        return
    if node.target.items is None and len(made.shape) != len(previous.shape):
        a = "[" + ", ".join(frame.show(s) for s in previous.shape) + "]"
        b = "[" + ", ".join(frame.show(s) for s in made.shape) + "]"
        frame.report(
            kinds.OUTPUT_TYPE(
                Label(node.value.span, f"shape {b}"),
                Label(previous.span, f"shape {a}"),
                name=node.target.name,
                expected=a,
                found=b,
            )
        )
        equations.poison(frame, node.target.name)
        return
    if node.target.items is None:
        for a_, b_ in zip(previous.shape, made.shape, strict=True):
            if frame.facts.equal(a_, b_) is not True:
                a = "[" + ", ".join(frame.show(s) for s in previous.shape) + "]"
                b = "[" + ", ".join(frame.show(s) for s in made.shape) + "]"
                frame.report(
                    kinds.OUTPUT_TYPE(
                        Label(node.value.span, f"shape {b}"),
                        Label(previous.span, f"shape {a}"),
                        name=node.target.name,
                        expected=a,
                        found=b,
                    )
                )
                equations.poison(frame, node.target.name)
                return
    if any(len(axis) != 1 for axis in made.axes):
        frame.report(
            kinds.LEFT_SIDE(Label(node.target.span), found=node.target.span.text, help="write groups with `=`")
        )
        return
    from dslc.check.program import Read

    old = Read(previous, tuple(Affine(((axis[0], 1),), 0) for axis in made.axes), previous.dtype, span=node.target.span)
    op = "+" if node.op == "+" else node.op
    dtype = promote(previous.dtype, made.expr.dtype)
    made.expr = Apply(op, (old, made.expr), dtype, node.span)
    equations.bind(frame, node.target, made, node.value.span)


def scatter(frame: Frame, node: t.Accumulate, previous: Tensor | None) -> Tensor | None:
    scope = equations.open_scope(frame, [node.target], node.value, node.where)
    placement = Placement(scope)
    items = list(node.target.items or ())
    for item in items:
        part: t.Node | None = item
        if isinstance(item, t.Slice):
            part = item.low
        if part is None or isinstance(part, t.Rest):
            frame.report(kinds.LEFT_SIDE(Label(item.span), found=item.span.text, help="name every axis of a scatter"))
            return None
        scope.kept |= placement.uses(part)
    if not equations.index_sizes(scope, node.where):
        return None
    placement = Placement(scope)
    placement.run(node.value, scope.kept)
    fixed = frame.output_shapes.get(node.target.name)
    shape: Sequence[Size] | None = (
        previous.shape if previous is not None else fixed.shape if fixed is not None else None
    )
    if shape is not None and len(shape) != len(items):
        frame.report(
            kinds.TARGET_RANK(Label(node.target.span), name=node.target.name, expected=len(shape), found=len(items))
        )
        return None
    val = expressions.expression(scope, node.value)
    if val.poisoned:
        return None
    if val.axes:
        equations.report_axes(scope, node.target, [], [], val, node.value)
        return None
    if not expressions.numbers(scope, [(node.value, val)], f"{node.op}="):
        return None
    positions: list[Position] = []
    sizes: list[Size | None] = []
    used: dict[Index, None] = dict(val.free)
    for place, item in enumerate(items):
        known = None if shape is None else shape[place]
        found = scatter_position(scope, node, item, known)
        if found is None:
            return None
        position, size_, free = found
        positions.append(position)
        sizes.append(size_)
        used.update(free)
    if not scope.finish():
        return None
    final: list[Size] = []
    for position, size_ in zip(positions, sizes, strict=True):
        if size_ is None:
            assert isinstance(position, Affine)
            size_ = position.terms[0][0].size
            assert size_ is not None
        final.append(frame.facts.normal(size_))
    steps = scans.active_indices(frame)
    indices = tuple(i for i in used if i not in steps)
    origins = tuple((i.span, "") for i in items)
    dtype = val.dtype if previous is None else promote(previous.dtype, val.dtype)
    tensor = frame.new_tensor(node.target.name, dtype, tuple(final), span=node.target.span, origins=origins)
    frame.emit(Scatter(tensor, previous, node.op, indices, tuple(positions), lower(val), node.span))
    return tensor


def scatter_position(
    scope: Scope, node: t.Accumulate, item: t.Item, known: Size | None
) -> tuple[Position, Size | None, dict[Index, None]] | None:
    """Where one axis of a scatter is written, and how long that axis is (None: as long as its plain index)."""
    frame = scope.frame
    expr: t.Expr
    if isinstance(item, t.Slice):
        assert item.low is not None
        expr = item.low
        if item.high is None:
            frame.report(kinds.LEFT_SIDE(Label(item.span), found=item.span.text, help="write `place: size`"))
            return None
        stated = static_values.as_size(scope, item.high)
        if stated is None:
            return None
        known = stated
    elif isinstance(item, t.Group | t.Rest | t.Into):
        frame.report(kinds.LEFT_SIDE(Label(item.span), found=item.span.text, help="name every axis of a scatter"))
        return None
    else:
        expr = item
    val = expressions.expression(scope, expr)
    if val.poisoned:
        return None
    if val.axes or not is_int(val.dtype) or val.function is not None:
        frame.report(kinds.FLOAT_INDEX(Label(expr.span), found=expressions.describe(frame, val)))
        return None
    lowered = lower(val)
    where = affine(lowered)
    free = dict(val.free)
    if where is not None and len(where.terms) == 1 and where.terms[0][1] == 1 and where.offset == 0:
        if known is not None:
            scope.constrain(where.terms[0][0], known, expr.span)
        return where, known, free
    if where is None and not reads_data(lowered):
        frame.report(kinds.NOT_AFFINE(Label(expr.span), text=expr.span.text))
        return None
    position: Position = where if where is not None else Data(lowered)
    if known is None and where is None:
        low, high = interval(frame, lowered)
        if low is not None and high is not None and frame.facts.nonnegative(low):
            known = tidy(high + 1)
    if known is None:
        help = (
            f"say how long the axis is: `{node.target.name}[{expr.span.text}: V, ...] {node.op}= ...`, "
            "or declare the bound of the data (`i32[M] < V`)"
        )
        frame.report(kinds.SCATTER_SIZE(Label(expr.span), name=node.target.name, help=help))
        return None
    scope.reads.append(PendingRead(node.target.span, expr.span, node.target.name, 0, known, "", position, False))
    return position, known, free


def update(frame: Frame, node: t.Update) -> None:
    """`mean <- ...`."""
    binding = frame.names.get(node.target.name)
    updatable = isinstance(binding, Tensor) and (
        binding.role in ("state", "slot") or (frame.word == "optimizer" and node.target.name == "param")
    )
    if not updatable:
        if binding is not POISON:
            known = [n for n, b in frame.names.items() if isinstance(b, Tensor) and b.role in ("state", "slot")]
            help = did_you_mean(node.target.name, known)
            if help is None:
                declare = "slot" if frame.word == "optimizer" else "state"
                help = f"declare it: `{declare} {node.target.name}{' = 0' if declare == 'slot' else ': [...] = 0'}`"
            frame.report(kinds.UPDATE_TARGET(Label(node.target.span), name=node.target.name, help=help))
        return
    assert isinstance(binding, Tensor)
    value = equations.define_value(
        frame, node.target, node.value, f"{node.target.name}_next", binding.shape, binding.origins
    )
    if value is not None:
        frame.emit(UpdateState(binding, value, node.span))
        frame.latest[binding] = value
        frame.updated.add(node.target.name)

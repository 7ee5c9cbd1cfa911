"""`+=`, `max=`, `min=` (scatters where a place is data) and updates of states."""

from __future__ import annotations

from collections.abc import Sequence

from dslc.check import binding, elementwise, equations, rules, scan_state, signatures, static_values, wording
from dslc.check.frame import Frame
from dslc.check.indices import PendingRead, Scope
from dslc.check.positions import affine, interval_affine, value_bound
from dslc.check.program import Affine, Apply, Data, Index, Position, Read, Scatter, Tensor, UpdateState
from dslc.check.sums import Placement
from dslc.check.values import POISON, is_int, lower, promote
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.resolve.files import did_you_mean
from dslc.sizes import Size, tidy
from dslc.syntax import tree as t


def accumulate(frame: Frame, node: t.Accumulate) -> None:
    """`y[dst[m], o] += ...`: scatter where a place is data or an affine expression, plain addition elsewhere."""
    if not binding.may_assign(frame, node.target, node):
        binding.poison(frame, node.target.name)
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
        binding.equation(frame, t.Equation((node.target,), node.value, node.where, span=node.span))
        return
    made = equations.equation_value(frame, node.target, node.value, previous.shape, previous.origins, node.where)
    if made is None:
        binding.poison(frame, node.target.name)
        return
    if node.target.items is None and not frame.same_shape(made.shape, previous.shape):
        expected, found = frame.show_shape(previous.shape), frame.show_shape(made.shape)
        labels = (Label(node.value.span, f"shape {found}"), Label(previous.span, f"shape {expected}"))
        frame.report(kinds.OUTPUT_TYPE(*labels, name=node.target.name, expected=expected, found=found))
        binding.poison(frame, node.target.name)
        return
    if any(len(axis) != 1 for axis in made.axes):
        help = "write groups with `=`"
        frame.report(kinds.LEFT_SIDE(Label(node.target.span), found=node.target.span.text, help=help))
        return
    old = Read(previous, tuple(Affine(((axis[0], 1),), 0) for axis in made.axes), previous.dtype, span=node.target.span)
    dtype = promote(previous.dtype, made.expr.dtype)
    made.expr = Apply(node.op, (old, made.expr), dtype, node.span)
    binding.bind(frame, node.target, made, node.value.span)


def scatter(frame: Frame, node: t.Accumulate, previous: Tensor | None) -> Tensor | None:
    scope = equations.open_scope(frame, [node.target], node.value)
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
    fixed = frame.types.outputs.get(node.target.name)
    shape: Sequence[Size] | None = (
        previous.shape if previous is not None else fixed.shape if fixed is not None else None
    )
    if shape is not None and len(shape) != len(items):
        place = (previous or fixed).span  # type: ignore[union-attr]
        axes, expected = (wording.count(n, "axis", "axes") for n in (len(items), len(shape)))
        labels = (Label(node.target.span, axes), Label(place, f"shape {frame.show_shape(shape)}"))
        frame.report(kinds.TARGET_RANK(*labels, name=node.target.name, expected=expected, found=len(items)))
        return None
    val = rules.right_side(Placement(scope), node.value)
    if val.poisoned:
        return None
    if val.axes:
        equations.report_axes(scope, node.target, [], [], val, node.value)
        return None
    if not elementwise.numbers(scope, [(node.value, val)], f"{node.op}="):
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
    steps = scan_state.active_indices(frame)
    indices = tuple(i for i in used if i not in steps)
    origins = tuple((i.span, "") for i in items)
    dtype = val.dtype if previous is None else promote(previous.dtype, val.dtype)
    if fixed is not None:
        if not binding.fits_declared_dtype(frame, node.target.name, dtype, fixed, node.value.span):
            return None
        dtype = signatures.declared_as(frame, node.target.name, dtype)
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
    val = rules.expression(scope, expr)
    if val.poisoned:
        return None
    if val.axes or not is_int(val.dtype) or val.function is not None:
        frame.report(kinds.FLOAT_INDEX(Label(expr.span), found=elementwise.describe(frame, val)))
        return None
    lowered = lower(val)
    where = affine(lowered)
    free = dict(val.free)
    if where is not None and len(where.terms) == 1 and where.terms[0][1] == 1 and where.offset == 0:
        if known is not None:
            scope.constrain(where.terms[0][0], known, expr.span)
        return where, known, free
    position: Position = where if where is not None else Data(lowered)
    if known is None and where is None:
        known = value_bound(frame, lowered)
    if known is None:
        help = scatter_help(scope, node, expr, position)
        frame.report(kinds.SCATTER_SIZE(Label(expr.span), name=node.target.name, help=help))
        return None
    read = PendingRead(node.target.span, expr.span, node.target.name, known, "", None, position, scattered=True)
    scope.reads.append(read)
    return position, known, free


def scatter_help(scope: Scope, node: t.Accumulate, expr: t.Expr, position: Position) -> str:
    """How to say the length of an axis that is written through data, or at affine places."""
    frame = scope.frame
    if isinstance(position, Data):
        data = position.value.tensor if isinstance(position.value, Read) else None
        if data is not None and data.role == "input" and "[" in data.span.text and "\n" not in data.span.text:
            return f"declare the bound of the data, for some size `V`, which is the length then: `{data.span.text} < V`"
        return "declare the bound of the data where it enters, with `< V` behind its type; it is the length then"
    _, high = interval_affine(frame, position.terms, position.offset)
    length = "V" if high is None else frame.show(tidy(high + 1))
    source, target = node.target.span.source.text, node.target.span
    left = f"{source[target.start : expr.span.end]}: {length}{source[expr.span.end : target.end]}"
    return f"say how long the axis is: `{left} {node.op}= {node.value.span.text}`"


def update(frame: Frame, node: t.Update) -> None:
    """`mean <- ...`."""
    state = frame.names.get(node.target.name)
    updatable = isinstance(state, Tensor) and (
        state.role in ("state", "slot") or (frame.word == "optimizer" and node.target.name == "param")
    )
    if not updatable:
        if state is not POISON:
            known = [n for n, b in frame.names.items() if isinstance(b, Tensor) and b.role in ("state", "slot")]
            help = did_you_mean(node.target.name, known)
            if help is None:
                help = f"declare it: `slot {node.target.name} = 0`"
                if frame.word != "optimizer":
                    help = f"declare it: `state {node.target.name}: {likely_shape(frame, node)} = 0`"
            frame.report(kinds.UPDATE_TARGET(Label(node.target.span), name=node.target.name, help=help))
        return
    assert isinstance(state, Tensor)
    if frame.scans:
        name, step = node.target.name, frame.scans[-1].node.name
        help = f"carry a value with the index `{step}`, `start` it with `{name}`, and update `{name}` below the scan"
        frame.report(kinds.STATE_IN_STEPS(Label(node.span), name=name, where="in each step of a scan", help=help))
        return
    like = Label(state.span.first_line, f"shape {frame.show_shape(state.shape)}")
    next_name = f"{node.target.name}_next"
    value = binding.define_value(
        frame, node.target, node.value, next_name, state.shape, state.origins, like, state.dtype
    )
    if value is not None:
        frame.emit(UpdateState(state, value, node.span))
        frame.states.latest[state] = value
        frame.states.updated.add(node.target.name)


def likely_shape(frame: Frame, node: t.Update) -> str:
    """The shape that a state would need for an update: that of the largest tensor whose name stands there."""
    if node.target.items is not None:
        return f"[{', '.join(item.span.text.upper() for item in node.target.items)}]"
    read = {id(n.base) for n in node.value.walk() if isinstance(n, t.Access)}
    names = [n.id for n in node.value.walk() if isinstance(n, t.Name) and id(n) not in read]
    tensors = [x for name in names if isinstance(x := frame.names.get(name), Tensor)]
    largest = max(tensors, key=lambda tensor: len(tensor.shape), default=None)
    return frame.show_shape(largest.shape if largest is not None else ())

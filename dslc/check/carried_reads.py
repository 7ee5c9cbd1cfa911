"""Reads of values that a scan is still building: earlier steps of it."""

from __future__ import annotations

from dslc.check import rules, scan_state, tensor_reads
from dslc.check.indices import Scope
from dslc.check.positions import affine
from dslc.check.program import Affine, Index, Tensor
from dslc.check.values import NOTHING, Static, Val, lower
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.sizes import tidy
from dslc.source import Span
from dslc.syntax import tree as t

#: what a step that is read too early is
UNFINISHED = "not computed yet"


def reads_unfinished(scope: Scope, tensor: Tensor, span: Span) -> bool:
    """Report a whole read of a sequence that is still being built."""
    found = scan_state.sequence_of(scope.frame, tensor)
    if found is None:
        return False
    state, sequence = found
    name = state.index.name
    items = sequence.target.items or ()
    places = [
        scan_state.earlier_step(state) if axis == sequence.axis else item.span.text for axis, item in enumerate(items)
    ]
    help = f"read one step of it: `{tensor.name}[{', '.join(places)}]`"
    head = Label(state.node.span.first_line, "in this scan")
    scope.frame.report(kinds.READS_FUTURE(Label(span), head, name=tensor.name, index=name, what=UNFINISHED, help=help))
    return True


def _all_earlier(value: str, step: str, index: str) -> str:
    """Advice to carry all earlier steps along."""
    past = f"{value}_past"
    line = f"{past}[{step}, {index}] = {value}[{step}] if {index} == {step} else {past}[{step}-1, {index}]"
    return (
        f"to read all of them, carry them along: `{past}[{step}-1, {index}]` here, and below it `{line}` with "
        f"`start {past} = 0`"
    )


def read_carried(scope: Scope, node: t.Access, tensor: Tensor, outside: Val | None) -> Val:
    """`h[n, t-1, k]` inside the scan that builds `h`; `outside` stands beyond its other axes."""
    frame = scope.frame
    found = scan_state.sequence_of(frame, tensor)
    assert found is not None
    state, sequence = found
    items = tensor_reads.expand_items(scope, node.items, len(tensor.shape), node, tensor)
    if items is None:
        return NOTHING
    positions = []
    axes: list[Index] = []
    free: dict[Index, None] = {}
    before = len(scope.reads)
    for axis, item in enumerate(items):
        if axis != sequence.axis:
            part = tensor_reads.position(scope, node, tensor, axis, item, outside is not None)
            if part is None:
                return NOTHING
            positions.append(part[0])
            axes.extend(part[1])
            free.update(part[2])
            continue
        where = _step(scope, item)
        if where is not None:
            where = Affine(where.terms, tidy(where.offset - state.low))
        step = _offset(where, state) if where is not None else None
        if step is None or step > 0 or (step == 0 and not sequence.defined):
            text = item.span.text if isinstance(item, t.Node) else "..."
            help = f"earlier steps are `{scan_state.earlier_step(state)}` and so on"
            if step == 0:
                help = f"`{tensor.name}` is computed further down in this step; {help}"
            elif step is not None and not state.node.reversed:
                help += f"; to go from the last step to the first, write `scan {state.node.name} reversed:`"
            elif step is not None:
                help += f"; to go from the first step to the last, write `scan {state.node.name}:`"
            place = Label(item.span if isinstance(item, t.Node) else node.span, f"step `{text}`")
            head = Label(state.node.span.first_line, "in this scan")
            name = state.index.name
            what = UNFINISHED if step is not None else "not a fixed number of steps back"
            if step is None and not state.node.reversed and text.isidentifier() and len(items) == 1:
                help = f"{help}; {_all_earlier(tensor.name, name, text)}"
            frame.report(kinds.READS_FUTURE(place, head, name=tensor.name, index=name, what=what, help=help))
            return NOTHING
        assert where is not None
        if step < 0 and scope.known:
            sequence.conditional.append((node.span, where, scope.known))
        elif step < 0 and sequence.earlier is None:
            sequence.earlier = node.span
        positions.append(where)
        free[state.index] = None
    val = tensor_reads.read_of(node, tensor, positions, axes, free, outside)
    if outside is None and scope.known:
        tensor_reads.guard(scope, val, [r for r in scope.reads[before:] if r.position in positions])
    return val


def before_first(scope: Scope, node: t.OrElse) -> Val | None:
    """`(h[n, t-1] else 0)` in a scan that gives `h` no start: `h[n, t-1] if t >= 1 else 0`, or None."""
    read = node.read
    if not isinstance(read, t.Access) or not isinstance(read.base, t.Name):
        return None
    tensor = scope.frame.names.get(read.base.id)
    found = scan_state.sequence_of(scope.frame, tensor) if isinstance(tensor, Tensor) else None
    if found is None:
        return None
    state, sequence = found
    if sequence.start is not None or node in sequence.chosen or len(read.items) != len(sequence.tensor.shape):
        return None
    where, low = _step(scope, read.items[sequence.axis]), state.low
    step = _offset(Affine(where.terms, tidy(where.offset - low)), state) if where is not None else None
    if step is None or step >= 0 or not isinstance(low, int):
        return None
    index: t.Expr = t.Name(state.index.name, span=node.span)
    if not state.node.reversed:
        inside = t.Compare(">=", index, t.Number(str(low - step), span=node.span), span=node.span)
    else:
        last = t.Sum((("+", _steps(scope, state, node)), ("-", t.Number(str(-step), span=node.span))), span=node.span)
        inside = t.Compare("<", index, last, span=node.span)
    sequence.chosen.append(node)
    val = rules.expression(scope, t.Choose(node, inside, node.value, span=node.span))
    sequence.chosen.remove(node)
    return val


def _steps(scope: Scope, state: scan_state.ScanState, node: t.OrElse) -> t.Expr:
    """How many steps a scan has, which a later equation may tell."""
    if state.node.high is not None:
        return state.node.high
    if state.index.size is None:
        state.index.size = scope.frame.placeholder(state.index.name)
    name = f"steps of {state.index.name}"  # no name of a spec
    scope.frame.names[name] = Static(state.index.size, state.node.span)
    return t.Name(name, span=node.span)


def _step(scope: Scope, item: object) -> Affine | None:
    if not isinstance(item, t.Node) or isinstance(item, t.Rest | t.Group | t.Slice | t.Into):
        return None
    val = rules.expression(scope, item)  # type: ignore[arg-type]
    if val.poisoned or val.function is not None or isinstance(val.static, str):
        return None
    return affine(lower(val))


def _offset(where: Affine, state: scan_state.ScanState) -> int | None:
    """How many steps ahead (> 0) or back (< 0) a position lies, in the direction of the scan."""
    if len(where.terms) != 1 or where.terms[0][0] is not state.index or where.terms[0][1] != 1:
        return None
    if not isinstance(where.offset, int):
        return None
    return -where.offset if state.node.reversed else where.offset

"""Scans: values that are built step by step along one index."""

from __future__ import annotations

from collections.abc import Mapping

from dslc.check import binding, signatures, static_values, wording
from dslc.check.conditions import not_negative
from dslc.check.frame import Frame
from dslc.check.indices import Evidence, Scope, is_placeholder
from dslc.check.positions import difference
from dslc.check.program import Affine, Carried, Define, Read, Scan, Tensor
from dslc.check.scan_state import ScanState, Sequence_
from dslc.check.values import POISON, Static, is_float
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.dtypes import DTYPES
from dslc.sizes import Size, tidy
from dslc.syntax import tree as t


def open_scan(frame: Frame, node: t.Scan, starts: list[t.Start], dtypes: Mapping[str, str]) -> ScanState | None:
    """Set the stage for the body: the index, and a placeholder for every sequence it builds.

    `dtypes` are those of sequences, where an earlier check of the body has found them.
    """
    binding = frame.names.get(node.name)
    if isinstance(binding, Static):
        labels = (Label(node.span.word(node.name)), Label(binding.span, "declared here"))
        frame.report(kinds.INDEX_SHADOWS(*labels, name=node.name, what=wording.a(binding.what)))
        return None
    state = ScanState(node, frame.new_index(node.name, None, node.span.first_line))
    if node.high is not None and node.low is not None:
        scope = Scope(frame)
        low = static_values.as_size(scope, node.low, least=0, what="the first step")
        high = static_values.as_size(scope, node.high, what="the number of steps")
        if low is None or high is None:
            return None
        if low != 0 and node.reversed:
            frame.report(kinds.SCAN_FROM_ZERO(Label(node.low.span), found=node.low.span.text))
            return None
        steps = tidy(high - low)
        if static_values.check_size(scope, steps, node.high, what="the number of steps") is None:
            return None
        state.low, state.index.size = low, steps
        state.evidence = Evidence(node.high.span, steps, node.high.span.text if low == 0 else "", None)
    by_name = {s.target.name: s for s in starts}
    for statement in node.body:
        for inner in statement.walk():
            targets = inner.targets if isinstance(inner, t.Equation) else ()
            for target in targets:
                axis = _scanned_axis(target, node.name)
                if axis is not None and target.name not in state.sequences:
                    _open_sequence(frame, state, target, axis, by_name.get(target.name), dtypes.get(target.name, ""))
    return state


def other_dtypes(state: ScanState) -> dict[str, str]:
    """The sequences that were read with less, or more, precision than their equations give them."""
    found = {name: (s.read_as, s.tensor.dtype) for name, s in state.sequences.items() if s.earlier is not None}
    return {name: now for name, (before, now) in found.items() if before != now and {before, now} != {"float", "f32"}}


def _scanned_axis(target: t.Target, index: str) -> int | None:
    for axis, item in enumerate(target.items or ()):
        if isinstance(item, t.Name) and item.id == index:
            return axis
    return None


def _open_sequence(
    frame: Frame, state: ScanState, target: t.Target, axis: int, start: t.Start | None, dtype: str
) -> None:
    assert target.items is not None
    shape = _known_shape(frame, target, axis, start, state.low)
    shape = shape or [frame.placeholder(target.name) for _ in target.items]
    dtype = dtype or (_start_dtype(frame, start.value) if start is not None else "float")
    if is_float(dtype) and _is_position(state.node, target.name):
        dtype = "i64"
    dtype = signatures.declared_as(frame, target.name, dtype)
    tensor = frame.new_tensor(target.name, dtype, tuple(shape), span=target.span)
    state.sequences[target.name] = Sequence_(tensor, axis, target, dtype, start=start)


def _is_position(node: t.Scan, name: str) -> bool:
    """Is a value of a scan a position in its body, and whole therefore?"""
    for read in (x for statement in node.body for x in statement.walk() if isinstance(x, t.Access)):
        for item in read.items:
            if isinstance(item, t.Call) and isinstance(item.callee, t.Name) and item.callee.id in ("clamp", "wrap"):
                item = item.arguments[0].value if item.arguments else item
            if isinstance(item, t.Access) and isinstance(item.base, t.Name) and item.base.id == name:
                return True
    return False


def _known_shape(frame: Frame, target: t.Target, axis: int, start: t.Start | None, low: Size) -> list[Size] | None:
    """The shape of a carried value before its equation is seen: from its declared type, or from its start."""
    assert target.items is not None
    declared = frame.types.outputs.get(target.name)
    if declared is not None and len(declared.shape) == len(target.items):
        return [tidy(s - low) if i == axis else s for i, s in enumerate(declared.shape)]
    if start is None:
        return None
    bounds = _stated(frame, target, start)
    if bounds is not None:
        return [*bounds[:axis], frame.placeholder(target.name), *bounds[axis:]]
    base = start.value
    if isinstance(base, t.Access) and start.target.items is not None:
        names = [i.id if isinstance(i, t.Name) else None for i in base.items]
        if names != [i.id if isinstance(i, t.Name) else "" for i in start.target.items]:
            return None
        base = base.base
    binding = frame.names.get(base.id) if isinstance(base, t.Name) else None
    if not isinstance(binding, Tensor) or len(binding.shape) != len(target.items) - 1:
        return None
    return [*binding.shape[:axis], frame.placeholder(target.name), *binding.shape[axis:]]


def _stated(frame: Frame, target: t.Target, start: t.Start) -> list[Size] | None:
    """The sizes that a start states: N and 3 of `start h[n: N, k: 3] = 0`."""
    items = start.target.items or ()
    if len(items) != len(target.items or ()) - 1 or not any(isinstance(i, t.Slice) for i in items):
        return None
    sizes: list[Size] = []
    for item in items:
        stated = item.high if isinstance(item, t.Slice) else None
        size = None if stated is None else static_values.as_size(Scope(frame), stated)
        sizes.append(frame.placeholder(target.name) if size is None else size)
    return sizes


def _start_dtype(frame: Frame, value: t.Expr) -> str:
    """The dtype of a carried value, as its start tells it: whole only when a cast or a tensor says so."""
    if isinstance(value, t.Bool):
        return "bool"
    if isinstance(value, t.Call) and isinstance(value.callee, t.Name) and value.callee.id in DTYPES:
        return value.callee.id
    base = value.base if isinstance(value, t.Access) else value
    if isinstance(base, t.Name):
        binding = frame.lookup(base.id)
        if isinstance(binding, Tensor):
            return binding.dtype
    return "float"


def close_scan(frame: Frame, state: ScanState, body: list, starts: list[t.Start]) -> None:  # type: ignore[type-arg]
    """Check lengths and starts, and make the sequences visible after the scan."""
    if state.index.size is None and state.deferred:
        state.deferred[0][0].infer_ranges([read for _, read in state.deferred if read.select is None])
    if not state.has_length(frame.facts):
        if not frame.had_error:
            turned = " reversed" if state.node.reversed else ""
            help = f"say how many steps there are: `scan {state.node.name} in 0..8{turned}:`"
            label = Label(state.node.span.word(state.node.name))
            frame.report(kinds.RANGE_UNKNOWN(label, name=state.node.name, help=help))
        frame.names.update(dict.fromkeys(state.sequences, POISON))
        return
    carried: list[Carried] = []
    bounds: list[tuple[Tensor, Size | None]] = []
    for sequence in state.sequences.values():
        start = None
        _look_at_conditions(frame, state, sequence)
        if sequence.start is not None:
            start = _start_value(frame, state, sequence)
        elif sequence.earlier is not None or state.low != 0:
            help = f"add `start {sequence.tensor.name} = 0` below the scan"
            place = sequence.earlier or sequence.target.span
            frame.report(kinds.NO_START(Label(place), name=sequence.tensor.name, help=help))
            sequence.failed = sequence.failed or state.low != 0
        if start is not None and not _is_below(frame, start, sequence.tensor.below):
            bounds.append((sequence.tensor, sequence.tensor.below))
            sequence.tensor.below = None  # while steps before the first one count
        carried.append(Carried(sequence.tensor, sequence.axis, start))
        frame.names[sequence.tensor.name] = POISON if sequence.failed else sequence.tensor
    for scope, read in state.deferred:
        scope.prove(read)
    for tensor, below in bounds:
        tensor.below = below
    for statement in starts:
        if statement.target.name not in state.sequences:
            why = f"the scan above builds {wording.listed(state.sequences) if state.sequences else 'none'}"
            frame.report(kinds.START_UNKNOWN(Label(statement.target.span), name=statement.target.name, why=why))
    frame.code.carried.extend(state.sequences.values())
    if not frame.scans:
        _require_sizes(frame)
    frame.emit(Scan(state.index, state.node.reversed, tuple(body), tuple(carried), span=state.node.span))
    if state.low != 0:
        for sequence, value in zip(state.sequences.values(), carried, strict=True):
            if value.start is not None and not sequence.failed:
                frame.names[sequence.tensor.name] = _from_zero(frame, state, sequence, value.start)


def _from_zero(frame: Frame, state: ScanState, sequence: Sequence_, start: Tensor) -> Tensor:
    """A sequence whose steps count from `low` on, with its start at the places before: as long as the index says."""
    tensor, axis = sequence.tensor, sequence.axis
    shape = [tidy(s + state.low) if i == axis else s for i, s in enumerate(tensor.shape)]
    indices = [frame.new_index("", size, tensor.span) for size in shape]
    places = [Affine(((x, 1),), -state.low if i == axis else 0) for i, x in enumerate(indices)]
    before = Read(start, tuple(places[:axis] + places[axis + 1 :]), start.dtype, None, tensor.span)
    read = Read(tensor, tuple(places), tensor.dtype, before, tensor.span)
    whole = frame.new_tensor(tensor.name, tensor.dtype, tuple(shape), span=tensor.span, origins=tensor.origins)
    whole.below = tensor.below if _is_below(frame, start, tensor.below) else None
    frame.emit(Define(whole, tuple((x,) for x in indices), read, sequence.target.span))
    return whole


def _require_sizes(frame: Frame) -> None:
    """Every axis of what was built must have got its size from somewhere: reads of its own steps do not say it."""
    for sequence in frame.code.carried:
        for item, size in zip(sequence.target.items or (), sequence.tensor.shape, strict=False):
            if is_placeholder(frame.facts.normal(size)) and isinstance(item, t.Name) and not sequence.failed:
                sequence.failed = True
                frame.report(kinds.RANGE_UNKNOWN(Label(item.span), name=item.id))
                frame.names[sequence.tensor.name] = POISON
    frame.code.carried.clear()


def _is_below(frame: Frame, start: Tensor, below: Size | None) -> bool:
    return below is None or (start.below is not None and frame.facts.nonnegative(tidy(below - start.below)))


def _look_at_conditions(frame: Frame, state: ScanState, sequence: Sequence_) -> None:
    """Reads that no first step makes need no start: it is 0, and nothing sees it."""
    assert state.index.size is not None
    for span, position, known in sequence.conditional:
        ahead = difference(Affine((), tidy(state.index.size - 1)), position) if state.node.reversed else position
        if not not_negative(frame, ahead, known):
            sequence.earlier = sequence.earlier or span
    if sequence.conditional and sequence.start is None and sequence.earlier is None and state.low == 0:
        span = sequence.target.span
        zero = t.Bool(False, span=span) if sequence.tensor.dtype == "bool" else t.Number("0", span=span)
        sequence.start = t.Start(t.Target(sequence.tensor.name, None, span=span), zero, span=span)


def _start_value(frame: Frame, state: ScanState, sequence: Sequence_) -> Tensor | None:
    """Check `start h[n, k] = ...` against the sequence without its scanned axis."""

    node = sequence.start
    assert node is not None
    shape = [s for axis, s in enumerate(sequence.tensor.shape) if axis != sequence.axis]
    origins = tuple(o for axis, o in enumerate(sequence.tensor.origins) if axis != sequence.axis)
    like = Label(sequence.target.span, f"one step of it is {frame.show_shape(shape)}")
    tensor = binding.define_value(frame, node.target, node.value, f"{node.target.name}_start", shape, origins, like)
    if tensor is not None and is_float(tensor.dtype) and not is_float(sequence.tensor.dtype):
        frame.report(
            kinds.WRONG_DTYPE(
                Label(node.value.span), expected=sequence.tensor.dtype, found=tensor.dtype, what="the start"
            )
        )
    return tensor

"""Statements that hold others, loops, choices, scans and modes, and those that say something about a definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dslc.check import (
    blocks,
    grids,
    rules,
    scans,
    static_values,
    wording,
)
from dslc.check.frame import MAX_ITERATIONS, Frame
from dslc.check.indices import Scope
from dslc.check.program import Dtype, Loop, Modes, Remat, Stmt, Tensor, add_result
from dslc.check.values import POISON, Binding, FunctionValue, Shared, Static, Val, is_float, is_int, promote
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.syntax import tree as t


def for_(frame: Frame, node: t.For) -> None:
    scope = Scope(frame)
    low = static_values.as_size(scope, node.low, least=None, what="the first value")
    high = static_values.as_size(scope, node.high, least=None, what="the end")
    if low is None or high is None:
        blocks.poison_all(frame, node.body)
        return
    if not isinstance(low, int) or not isinstance(high, int):
        bound = node.high if not isinstance(high, int) else node.low
        frame.settle_at_call(bound)
        help = wording.made_known(frame, bound, f"use `scan {node.name}` for equal steps along an axis")
        frame.report(kinds.STATIC_NEEDED(Label(bound.span), what="the range of a `for`", help=help))
        blocks.poison_all(frame, node.body)
        return
    if high - low > MAX_ITERATIONS:
        frame.report(kinds.TOO_MUCH_WORK(Label(node.high.span), what="passes of a `for`", limit=MAX_ITERATIONS))
        blocks.poison_all(frame, node.body)
        return
    outer, place = frame.names.get(node.name), node.span.word(node.name)
    if node.name in frame.reserved.taken or isinstance(outer, Tensor | Val | FunctionValue | Shared):
        first = frame.reserved.taken.get(node.name) or getattr(outer, "span", None)
        labels = [Label(place)] + ([Label(first.first_line, "declared here")] if first else [])
        what = wording.a(outer.what) if isinstance(outer, Static) else "a value"
        help = "choose another name for the loop variable"
        frame.report(kinds.INDEX_SHADOWS(*labels, name=node.name, what=what, help=help))
        blocks.poison_all(frame, node.body)
        return
    passes: list[tuple[Stmt, ...]] = []
    earlier: list[Stmt] = []
    frame.code.enclosing.append(earlier)
    for value in range(low, high):
        taken = dict(frame.reserved.taken)
        kept = dict(frame.names)
        frame.names[node.name] = Static(value, place, "loop variable")
        frame.paths.loop.append(str(value))
        before = frame.errors
        with frame.collecting() as body:
            blocks.block(frame, node.body)
        passes.append(tuple(body))
        earlier += body
        frame.paths.loop.pop()
        for name in [x for x in frame.reserved.taken if x not in taken]:
            frame.names.pop(name, None)
            if name in kept:
                frame.names[name] = kept[name]
        frame.reserved.taken = taken
        if frame.errors > before:
            break
    frame.code.enclosing.pop()
    frame.emit(Loop(node.name, low, tuple(passes), node.span))
    if outer is None:
        frame.names.pop(node.name, None)
    else:
        frame.names[node.name] = outer


def if_(frame: Frame, node: t.If) -> None:
    for branch in node.branches:
        value = rules.condition(Scope(frame), branch.condition)
        if value.poisoned:
            blocks.poison_all(frame, (node,))
            return
        if not isinstance(value.static, bool):
            frame.settle_at_call(branch.condition)
            choice = "`if` chooses when the spec is compiled; write `a if condition else b` for a choice by data"
            help = wording.made_known(frame, branch.condition, choice)
            frame.report(kinds.STATIC_NEEDED(Label(branch.condition.span), what="the condition of an `if`", help=help))
            blocks.poison_all(frame, (node,))
            return
        if value.static:
            blocks.block(frame, branch.body)
            return
    blocks.block(frame, node.otherwise)


def scan(frame: Frame, node: t.Scan, starts: list[t.Start], dtypes: Mapping[str, str] | None = None) -> None:
    """A scan; where a step turns out to have another dtype than reads of earlier steps took it for, once more."""
    node = grids.with_rows(node, frame.names)
    state_ = scans.open_scan(frame, node, starts, dtypes or {})
    if state_ is None:
        blocks.poison_all(frame, node.body)
        return
    outer = state_.outer = dict(frame.names)
    for name, sequence in state_.sequences.items():
        frame.names[name] = sequence.tensor
    frame.scans.append(state_)
    before = frame.errors
    with frame.collecting() as body:
        blocks.block(frame, node.body)
    frame.scans.pop()
    if dtypes is None and frame.errors == before and (found := scans.other_dtypes(state_)):
        frame.names = outer
        scan(frame, node, starts, found)
        return
    for name in [x for x in frame.names if x not in outer and x not in state_.sequences]:
        local = frame.names[name]
        if isinstance(local, Tensor):
            frame.reserved.step_locals[name] = (local.span, node.name)
        elif local is POISON:
            outer[name] = POISON
    frame.names = outer
    if frame.errors > before:
        for name in state_.sequences:
            frame.names[name] = POISON
        return
    scans.close_scan(frame, state_, body, starts)


def lone_start(frame: Frame, node: t.Start) -> None:
    """`start h = 0` that no scan stands above."""
    label, name = Label(node.target.span), node.target.name
    frame.report(kinds.START_UNKNOWN(label, name=name, why="no scan stands directly above it"))


def modes(frame: Frame, pair: Sequence[t.Mode]) -> None:
    """`training:` and `inference:`: both start from the same names, and what they define is joined."""
    outer, outer_latest = dict(frame.names), dict(frame.states.latest)
    bodies: dict[str, list[Stmt]] = {"training": [], "inference": []}
    names: dict[str, dict[str, Binding]] = {"training": outer, "inference": outer}
    latest = {"training": outer_latest, "inference": outer_latest}
    for node in pair:
        frame.names, frame.states.latest = dict(outer), dict(outer_latest)
        with frame.collecting() as body:
            blocks.block(frame, node.body)
        bodies[node.mode] = list(body)
        names[node.mode], latest[node.mode] = dict(frame.names), dict(frame.states.latest)
    frame.names, frame.states.latest = dict(outer), dict(outer_latest)
    joined = []
    for state_ in latest["training"] | latest["inference"]:
        after = [latest[mode].get(state_, state_) for mode in ("training", "inference")]
        if after[0] is not after[1]:
            tensor = frame.new_tensor(state_.name, state_.dtype, state_.shape, span=state_.span, origins=state_.origins)
            joined.append((tensor, after[0], after[1]))
            frame.states.latest[state_] = tensor
    for name in sorted(names["training"].keys() | names["inference"].keys()):
        a, b = names["training"].get(name), names["inference"].get(name)
        if a is b:
            continue
        if a is POISON or b is POISON:
            frame.names[name] = POISON
        elif isinstance(a, Tensor) and isinstance(b, Tensor):
            if not frame.same_shape(a.shape, b.shape) or not same_dtype(a.dtype, b.dtype):
                show = [f"{x.dtype}{frame.show_shape(x.shape)}" for x in (a, b)]
                labels = (Label(b.span, f"{show[1]} in inference"), Label(a.span, f"{show[0]} in training"))
                frame.report(kinds.MODES_DIFFER(*labels, name=name, a=show[0], b=show[1]))
                frame.names[name] = POISON
                continue
            tensor = frame.new_tensor(name, promote(a.dtype, b.dtype), a.shape, span=a.span, origins=a.origins)
            joined.append((tensor, a, b))
            frame.names[name] = tensor
        else:
            present, mode = (a, "training") if b is None else (b, "inference")
            if isinstance(present, Tensor):
                frame.reserved.one_mode[name] = (mode, present.span)
    frame.emit(Modes(tuple(bodies["training"]), tuple(bodies["inference"]), tuple(joined), pair[0].span))


def same_dtype(a: Dtype, b: Dtype) -> bool:
    """Can two values be one? The default float may turn out to be any other one."""
    return a == b or (is_int(a) and is_int(b)) or (is_float(a) and is_float(b) and "float" in (a, b))


def checkpoint(frame: Frame, node: t.Checkpoint) -> None:
    with frame.collecting() as body:
        blocks.block(frame, node.body)
    frame.emit(Remat(tuple(body), node.span))


def backward(frame: Frame, node: t.Backward) -> None:
    frame.code.backward = node


def expose(frame: Frame, node: t.Expose) -> None:
    for name in node.names:
        value = frame.names.get(name)
        if isinstance(value, Tensor):
            if value not in frame.instance.exposed.values():
                add_result(frame.instance.exposed, ".".join([name, *frame.paths.loop]), value)
        elif value is None:
            frame.unknown(name, node.span.word(name))
        elif value is not POISON:
            frame.report(kinds.NOT_A_VALUE(Label(node.span.word(name)), found=f"`{name}`, which is no tensor"))

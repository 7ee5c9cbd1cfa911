"""Equations: the left-hand side, ranges, implied sums, and the shape of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dslc.check import elementwise, rules, scan_state, static_values, wording
from dslc.check.frame import EQUATION_STEPS, Frame
from dslc.check.indices import Evidence, PendingGroup, Scope, plain_uses
from dslc.check.program import Affine, Expr, Index
from dslc.check.sums import REST, Placement, collect_index_names
from dslc.check.values import Static, Val, lower
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.resolve.files import did_you_mean
from dslc.sizes import Size, tidy
from dslc.source import Span
from dslc.syntax import tree as t


@dataclass
class Made:
    """A right-hand side laid out along the axes of its target."""

    axes: tuple[tuple[Index, ...], ...]
    shape: tuple[Size, ...]
    expr: Expr
    origins: tuple[tuple[Span, str], ...]
    span: Span
    #: which of several results it is, where one name stands for all of them
    result: str = ""


@dataclass(frozen=True)
class Axis:
    """One item of a left-hand side: an index, `...`, `:` (kept whole), or a group."""

    kind: Literal["index", "rest", "keep", "group"]
    span: Span
    names: tuple[tuple[str, Span], ...] = ()
    bound: t.Expr | None = None


def left_side(scope: Scope, target: t.Target, value: t.Expr) -> list[Axis] | None:
    """The axes that the left-hand side names."""
    frame = scope.frame
    axes: list[Axis] = []
    seen: dict[str, Span] = {}
    for item in target.items or ():
        match item:
            case t.Name():
                axis = Axis("index", item.span, ((item.id, item.span),))
            case t.Slice(low=t.Name() as low, high=bound, step=None) if bound is not None:
                axis = Axis("index", item.span, ((low.id, low.span),), bound)
            case t.Slice(low=None, high=None, step=None):
                axis = Axis("keep", item.span)
            case t.Group():
                axis = Axis("group", item.span, tuple((n.id, n.span) for n in item.names))
            case t.Rest():
                axis = Axis("rest", item.span, ((REST, item.span),))
            case _:
                help = "the left side names the axes of the result, one of a single entry as `c: 1`; "
                help += "to write into places, use `+=`"
                steps = [s for s in frame.scans for n in item.walk() if isinstance(n, t.Name) and n.id == s.node.name]
                if steps:
                    name, before = steps[0].node.name, "+1" if steps[0].node.reversed else "-1"
                    help = f"a step computes `{target.name}` at `{name}` from `{name}{before}`: write `{name}` here, "
                    help += f"and `{name}{before}` where the step before is read"
                frame.report(kinds.LEFT_SIDE(Label(item.span), found=item.span.text, help=help))
                return None
        for name, span in axis.names:
            binding = frame.names.get(name)
            if isinstance(binding, Static):
                labels = (Label(span), Label(binding.span, "declared here"))
                frame.report(kinds.INDEX_SHADOWS(*labels, name=name, what=wording.a(binding.what)))
                return None
            if name in seen:
                labels = (Label(span), Label(seen[name], "first here"))
                diagonal = _diagonal(target, value, name, span)
                frame.report(kinds.INDEX_REPEATED(*labels, name=name, help=diagonal))
                return None
            seen[name] = span
        axes.append(axis)
    return axes


def _diagonal(target: t.Target, value: t.Expr, name: str, again: Span) -> str | None:
    """`y[i, i] = d[i]` with two indices: how a diagonal is written."""
    if name == REST:
        return None
    taken = {n.id for n in (*target.walk(), *value.walk()) if isinstance(n, t.Name)}
    other = next((letter for letter in "jklmnpqrstuvwxyz" if letter not in taken), f"{name}_2")
    source = target.span.source.text
    left = source[target.span.start : again.start] + other + source[again.end : target.span.end]
    return f"to build a diagonal, write `{left} = {value.span.text} if {name} == {other} else 0`"


def open_scope(frame: Frame, targets: Sequence[t.Target], value: t.Expr) -> Scope:
    scope = Scope(frame)
    for state_ in frame.scans:
        scope.levels.append({state_.index.name: (state_.index,)})
        scope.kept.add(state_.index.name)
    scope.index_names = collect_index_names(frame, [*targets, value])
    scope.ranges.ahead = plain_uses(frame, value.walk())
    return scope


def equation_value(
    frame: Frame,
    target: t.Target,
    value: t.Expr,
    declared: Sequence[Size] | None,
    origins: Sequence[tuple[Span, str]] = (),
    where: Sequence[t.Condition] = (),
    repeats: bool = False,
    nameless: bool = False,
) -> Made | None:
    """Check one equation with one target.

    `repeats`: the value may be constant along an axis of the target. `nameless`: the target is not written anywhere.
    """
    fixed = None if declared is None else (declared, origins)
    made = equation_values(frame, [target], value, [fixed], where, repeats, nameless)
    return made[0] if made else None


Declared = tuple[Sequence[Size], Sequence[tuple[Span, str]]]


def equation_values(
    frame: Frame,
    targets: Sequence[t.Target],
    value: t.Expr,
    declared: Sequence[Declared | None],
    where: Sequence[t.Condition] = (),
    repeats: bool = False,
    nameless: bool = False,
    together: bool = False,
) -> list[Made] | None:
    """Check `targets = value`: ranges, sums, shapes. `declared` gives shapes that are already fixed.

    `together`: one name without brackets may stand for all results of a call.
    """
    before = frame.errors
    frame.checker.step(value.span, EQUATION_STEPS)
    scope = open_scope(frame, targets, value)
    scope.repeats = repeats
    sides: list[list[Axis]] = []
    for target in targets:
        side = left_side(scope, target, value)
        if side is None:
            return None
        sides.append(side)
    for side in sides:
        for axis in side:
            for name, span in axis.names:
                scope.kept.add(name)
                if name != REST:
                    scope.find(name, span)
    if not index_sizes(scope, where):
        return None
    for target, side, fixed in zip(targets, sides, declared, strict=True):
        if not fix_left(scope, target, side, fixed):
            return None
    # Without brackets on the left a whole tensor is meant, unless the type says that it is a single number.
    whole = targets[0].items is None and not nameless and (declared[0] is None or len(declared[0][0]) > 0)
    placement = Placement(scope)
    val = rules.right_side(placement, value, targets if whole else ())
    if val.poisoned or frame.errors > before:
        return None
    results = val.several or (val,)
    named: Sequence[str] = [""] * len(targets)
    if together and val.several and val.results and len(targets) == 1 and targets[0].items is None and not declared[0]:
        named = val.results
        targets, sides, declared = [targets[0]] * len(named), [[]] * len(named), [None] * len(named)
    if len(results) != len(targets):
        names = Label(targets[0].span.to(targets[-1].span), wording.count(len(targets), "name"))
        label = Label(value.span, wording.count(len(results), "result"))
        one = elementwise.by_name(value, val) if len(targets) == 1 else None
        help = f"name every result, or take one: {one}" if one else None
        if one and targets[0].items is not None and len(val.results) <= 4:
            brackets = targets[0].span.text[len(targets[0].name) :]
            every = ", ".join(f"{name}{brackets}" for name in val.results)
            help = f"name every result: `{every} = ...`; or take one: {one}"
        frame.report(kinds.RESULT_COUNT(label, names, expected=len(targets), found=len(results), help=help))
        return None
    laid = []
    for target, side, result, fixed in zip(targets, sides, results, declared, strict=True):
        if target.items is None and fixed is not None and len(fixed[0]) > 0 and placement.summed and not result.axes:
            report_summed(scope, target, value, placement, fixed[0])
            return None
        axes = lay_out(scope, target, side, result, placement.uses(value), value)
        if axes is None:
            return None
        laid.append((target, axes, result))
    if not scope.finish():
        return None
    made = [close(scope, target, axes, lower(result)) for target, axes, result in laid]
    return [replace(one, result=name) for one, name in zip(made, named, strict=True)]


def report_summed(
    scope: Scope, target: t.Target, value: t.Expr, placement: Placement, declared: Sequence[Size]
) -> None:
    """All indices are summed, and the target has axes: its brackets are missing."""
    names: list[str] = []
    for size in declared:
        fits = [n for n, i in scope.names.items() if i.size is not None and scope.frame.facts.equal(i.size, size)]
        names += [n for n in fits if n not in names and "@" not in n][:1]
    help = "name the axes of the result after it"
    if len(names) == len(declared):
        help = "name the axes: " + wording.equation(f"{target.name}[{', '.join(names)}]", value)
    labels = (Label(target.span, f"of shape {scope.frame.show_shape(declared)}"), Label(value.span, "all is summed"))
    names = placement.in_order(value, placement.summed)
    scope.frame.report(kinds.INDICES_LEFT(*labels, target=target.name, names=wording.indices(names), help=help))


def index_sizes(scope: Scope, where: Sequence[t.Condition]) -> bool:
    """`where a = 8, b = 8`: ranges for indices of these names, those of reductions too."""
    frame = scope.frame
    for condition in where:
        if not isinstance(condition, t.IndexSize):
            help = None
            if isinstance(condition, t.Compare) and isinstance(condition.left, t.Name):
                help = f"to give `{condition.left.id}` its range, write `{condition.left.id} = "
                help += f"{condition.right.span.text}`; facts about sizes belong in the `where` of the definition"
            frame.report(kinds.WHERE_INDEX(Label(condition.span), help=help))
            return False
        if condition.name not in scope.index_names:
            binding = frame.names.get(condition.name)
            help = did_you_mean(condition.name, scope.index_names)
            if isinstance(binding, Static):
                help = f"`{condition.name}` is {wording.a(binding.what)}; facts belong in the `where` of the definition"
            names = wording.listed(sorted(scope.index_names - {REST})) if scope.index_names - {REST} else "none"
            label = Label(condition.span.word(condition.name))
            frame.report(kinds.WHERE_UNUSED(label, name=condition.name, names=names, help=help))
            return False
        size_ = static_values.as_size(scope, condition.value, what=f"the range of `{condition.name}`")
        if size_ is None:
            return False
        scope.ranges.stated[condition.name] = Evidence(condition.span, size_, condition.value.span.text, None)
        if condition.name in scope.names or any(condition.name in level for level in scope.levels):
            for index in scope.find(condition.name, condition.span):
                scope.state(index)
    return True


def fix_left(scope: Scope, target: t.Target, side: list[Axis], fixed: Declared | None) -> bool:
    """Ranges that the left-hand side fixes: explicit bounds, and the declared type of the target."""
    frame = scope.frame
    for axis in side:
        if axis.bound is not None:
            ((name, _),) = axis.names
            size_ = static_values.as_size(scope, axis.bound, what=f"the range of `{name}`")
            if size_ is None:
                return False
            for index in scope.find(name, axis.span):
                scope.ranges.explicit.add(index)
                scope.constrain(index, size_, axis.span)
    if fixed is None or target.items is None:
        return True
    sizes, origins = fixed
    rest = [i for i, axis in enumerate(side) if axis.kind == "rest"]
    if len(side) - len(rest) > len(sizes) or (not rest and len(side) != len(sizes)):
        labels = [Label(target.span, wording.count(len(side), "axis", "axes"))]
        if origins:
            labels.append(Label(origins[0][0].to(origins[-1][0]), f"declared as {frame.show_shape(sizes)}"))
        expected = wording.count(len(sizes), "axis", "axes")
        frame.report(kinds.TARGET_RANK(*labels, name=target.name, expected=expected, found=len(side)))
        return False
    if rest:
        length = len(sizes) - len(side) + 1
        scope.rest = tuple(frame.new_index("", sizes[rest[0] + k], side[rest[0]].span) for k in range(length))
        scope.rest_span = side[rest[0]].span
        for k, index in enumerate(scope.rest):
            scope.ranges.evidence[index] = Evidence(side[rest[0]].span, sizes[rest[0] + k], "", None)
    place = 0
    for axis in side:
        if axis.kind == "rest":
            place += len(sizes) - len(side) + 1
            continue
        written, origin = (origins[place][1], origins[place][0]) if origins else ("", None)
        indices = tuple(i for name, span in axis.names for i in scope.find(name, span))
        if axis.kind == "index":
            for index in indices:
                scope.ranges.declared.add(index)
                scope.constrain(index, sizes[place], axis.span, written, origin)
        elif axis.kind == "group":
            scope.groups.append(PendingGroup(axis.span, indices, sizes[place], Affine((), 0), written, origin))
        place += 1
    return True


def lay_out(
    scope: Scope, target: t.Target, side: list[Axis], val: Val, used: frozenset[str], value: t.Expr
) -> list[tuple[tuple[Index, ...], Span]] | None:
    """Bring the axes of a value into the order of the left-hand side."""
    frame = scope.frame
    if val.function is not None or isinstance(val.static, str):
        what = "a function" if val.function is not None else "a string"
        help = "to name a layer, write `use`" if val.function is not None else None
        frame.report(kinds.NOT_A_VALUE(Label(value.span), found=what, help=help))
        return None
    steps = scan_state.active_indices(frame)
    if target.items is None:
        named = [i.name or REST for i in val.free if i not in set(val.axes) and i not in steps]
        if named:
            help = "name the axes: " + wording.equation(f"{target.name}[{', '.join(named)}]", value)
            names = wording.indices(named)
            frame.report(kinds.INDICES_LEFT(Label(target.span), target=target.name, names=names, help=help))
            return None
        return [((a,), a.span) for a in val.axes]
    keeps = [a for a in side if a.kind == "keep"]
    if len(keeps) != len(val.axes):
        report_axes(scope, target, side, keeps, val, value)
        return None
    remaining = list(val.axes)
    axes: list[tuple[tuple[Index, ...], Span]] = []
    for axis in side:
        span = axis.span
        if axis.kind == "keep":
            axes.append(((remaining.pop(0),), span))
            continue
        if axis.kind == "rest":
            if scope.rest is None:
                frame.report(
                    kinds.REST_MISUSE(Label(span), why="nothing on the right says how many axes it stands for")
                )
                return None
            axes.extend(((i,), span) for i in scope.rest)
            continue
        indices = []
        for name, _ in axis.names:
            (index,) = scope.find(name, span)
            known = name in used or index in scope.ranges.explicit or index in steps or index in val.free
            if not known and not scope.repeats:
                scope.ranges.failed.add(index)
                frame.report(kinds.OUTPUT_INDEX(Label(span), name=name, help=_repeat(scope, target, axis, index)))
                return None
            indices.append(index)
        axes.append((tuple(indices), span))
    return axes


def _repeat(scope: Scope, target: t.Target, axis: Axis, index: Index) -> str:
    """`y[n, k: K]`: the left-hand side for a value that is the same along an index."""
    size, evidence = index.size, scope.ranges.evidence.get(index)
    if size is None:
        likely = scope.frame.names.get(index.name.upper())
        shown = index.name.upper() if isinstance(likely, Static) else "SIZE"
    else:
        shown = evidence.written if evidence is not None and evidence.written else scope.frame.show(size)
    source = target.span.source.text
    left = f"{source[target.span.start : axis.span.end]}: {shown}{source[axis.span.end : target.span.end]}"
    if axis.kind == "group":
        return f"use `{index.name}` on the right, or drop it from the group"
    return f"if the value is meant to repeat along `{index.name}`, say how often: `{left}`"


def report_axes(scope: Scope, target: t.Target, side: list[Axis], keeps: list[Axis], val: Val, value: t.Expr) -> None:
    frame = scope.frame
    shape = frame.show_shape(a.size for a in val.axes)
    found = f"a value of shape {shape}" if val.axes else "a single number"
    names = [axis.names[0][0] for axis in side if axis.kind == "index"]
    help = None
    if not keeps and isinstance(value, t.Name | t.Call) and len(names) == len(val.axes):
        help = f"write `{target.name} = {value.span.text}`, or index it: `{value.span.text}[{', '.join(names)}]`"
    elif val.axes:
        help = "index the tensors on the right, or write `:` on the left for each axis that stays whole"
    whole = wording.count(len(keeps), "whole axis", "whole axes")
    labels = (Label(value.span, found), Label(target.span, f"{whole} here"))
    expected = wording.count(len(keeps), "axis", "axes")
    frame.report(kinds.AXES_LEFT(*labels, expected=expected, found=len(val.axes), help=help))


def close(scope: Scope, target: t.Target, axes: list[tuple[tuple[Index, ...], Span]], expr: Expr) -> Made:
    frame = scope.frame
    shape: list[Size] = []
    origins: list[tuple[Span, str]] = []
    for indices, span in axes:
        total: Size = 1
        for index in indices:
            if index.size is None:  # that of a scan, which a later equation may give
                index.size = frame.placeholder(index.name)
            total = tidy(total * index.size)
        shape.append(frame.facts.normal(total))
        evidence = scope.ranges.evidence.get(indices[0]) if len(indices) == 1 else None
        place = evidence.origin or evidence.span if evidence is not None else span
        origins.append((place, evidence.written if evidence is not None else ""))
    return Made(tuple(indices for indices, _ in axes), tuple(shape), expr, tuple(origins), target.span)

"""Equations: the left-hand side, ranges, implied sums, and the type of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dslc.check import expressions, scans, signatures, static_values
from dslc.check.frame import Frame
from dslc.check.indices import Evidence, PendingGroup, Scope, interval
from dslc.check.program import (
    Affine,
    Define,
    Expr,
    Index,
    Tensor,
)
from dslc.check.sums import REST, Placement, collect_index_names
from dslc.check.values import POISON, Shared, Static, Val, is_float, is_int, lower
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
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


@dataclass(frozen=True)
class Axis:
    """One item of a left-hand side: an index, `...`, `:` (kept whole), or a group."""

    kind: Literal["index", "rest", "keep", "group"]
    span: Span
    names: tuple[tuple[str, Span], ...] = ()
    bound: t.Expr | None = None


def left_side(scope: Scope, target: t.Target) -> list[Axis] | None:
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
                help = "the left side names the axes of the result; to write into places, use `+=`"
                frame.report(kinds.LEFT_SIDE(Label(item.span), found=item.span.text, help=help))
                return None
        for name, span in axis.names:
            if isinstance(frame.names.get(name), Static):
                binding = frame.names[name]
                assert isinstance(binding, Static)
                frame.report(
                    kinds.INDEX_SHADOWS(
                        Label(span), Label(binding.span, "declared here"), name=name, what=f"a {binding.what}"
                    )
                )
                return None
            if name in seen:
                help = "to read a diagonal, write it on the right: `d[i] = x[i, i]`"
                frame.report(kinds.INDEX_REPEATED(Label(span), Label(seen[name], "first here"), name=name, help=help))
                return None
            seen[name] = span
        axes.append(axis)
    return axes


def open_scope(frame: Frame, targets: Sequence[t.Target], value: t.Expr, where: Sequence[t.Condition]) -> Scope:
    scope = Scope(frame)
    for state_ in frame.scans:
        scope.levels.append({state_.index.name: (state_.index,)})
        scope.kept.add(state_.index.name)
    scope.index_names = collect_index_names(frame, [*targets, value])
    scope.index_names |= {c.name for c in where if isinstance(c, t.IndexSize)}
    return scope


def equation_value(
    frame: Frame,
    target: t.Target,
    value: t.Expr,
    declared: Sequence[Size] | None,
    origins: Sequence[tuple[Span, str]] = (),
    where: Sequence[t.Condition] = (),
    repeats: bool = False,
) -> Made | None:
    """Check one equation with one target. `repeats`: the value may be constant along an axis of the target."""
    fixed = None if declared is None else (declared, origins)
    made = equation_values(frame, [target], value, [fixed], where, repeats)
    return made[0] if made else None


Declared = tuple[Sequence[Size], Sequence[tuple[Span, str]]]


def equation_values(
    frame: Frame,
    targets: Sequence[t.Target],
    value: t.Expr,
    declared: Sequence[Declared | None],
    where: Sequence[t.Condition] = (),
    repeats: bool = False,
) -> list[Made] | None:
    """Check `targets = value`: ranges, sums, shapes. `declared` gives shapes that are already fixed."""
    scope = open_scope(frame, targets, value, where)
    scope.repeats = repeats
    sides: list[list[Axis]] = []
    for target in targets:
        side = left_side(scope, target)
        if side is None:
            return None
        sides.append(side)
    for side in sides:
        for axis in side:
            scope.kept.update(name for name, _ in axis.names)
    if not index_sizes(scope, where):
        return None
    for target, side, fixed in zip(targets, sides, declared, strict=True):
        if not fix_left(scope, target, side, fixed):
            return None
    placement = Placement(scope)
    before = frame.had_error
    frame.had_error = False
    placement.run(value, scope.kept)
    val = expressions.expression(scope, value)
    failed = frame.had_error
    frame.had_error = before or failed
    if val.poisoned or failed:
        return None
    results = val.several or (val,)
    if len(results) != len(targets):
        label = Label(value.span, f"{len(results)} result{'s' * (len(results) != 1)}")
        frame.report(
            kinds.RESULT_COUNT(
                label,
                Label(targets[0].span.to(targets[-1].span), f"{len(targets)} names"),
                expected=len(targets),
                found=len(results),
            )
        )
        return None
    laid = []
    for target, side, result in zip(targets, sides, results, strict=True):
        axes = lay_out(scope, target, side, result, placement.uses(value), value)
        if axes is None:
            return None
        laid.append((target, axes, result))
    if not scope.finish():
        return None
    return [close(scope, target, axes, lower(result)) for target, axes, result in laid]


def index_sizes(scope: Scope, where: Sequence[t.Condition]) -> bool:
    """`where a = 8, b = 8`."""
    for condition in where:
        if not isinstance(condition, t.IndexSize):
            scope.frame.report(kinds.WHERE_INDEX(Label(condition.span)))
            return False
        size_ = static_values.as_size(scope, condition.value, what=f"the range of `{condition.name}`")
        if size_ is None:
            return False
        for index in scope.find(condition.name, condition.span):
            scope.explicit.add(index)
            scope.constrain(index, size_, condition.span)
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
                scope.explicit.add(index)
                scope.constrain(index, size_, axis.span)
    if fixed is None or target.items is None:
        return True
    sizes, origins = fixed
    rest = [i for i, axis in enumerate(side) if axis.kind == "rest"]
    if len(side) - len(rest) > len(sizes) or (not rest and len(side) != len(sizes)):
        shape = "[" + ", ".join(frame.show(s) for s in sizes) + "]"
        labels = [Label(target.span, f"{len(side)} axes")]
        if origins:
            labels.append(Label(origins[0][0].to(origins[-1][0]), f"declared as {shape}"))
        frame.report(kinds.TARGET_RANK(*labels, name=target.name, expected=len(sizes), found=len(side)))
        return False
    if rest:
        length = len(sizes) - len(side) + 1
        scope.rest = tuple(frame.new_index("", sizes[rest[0] + k], side[rest[0]].span) for k in range(length))
        scope.rest_span = side[rest[0]].span
        for k, index in enumerate(scope.rest):
            scope.evidence[index] = Evidence(side[rest[0]].span, sizes[rest[0] + k], "", None)
    place = 0
    for axis in side:
        if axis.kind == "rest":
            place += len(sizes) - len(side) + 1
            continue
        written, origin = (origins[place][1], origins[place][0]) if origins else ("", None)
        indices = tuple(i for name, span in axis.names for i in scope.find(name, span))
        if axis.kind == "index":
            for index in indices:
                scope.constrain(index, sizes[place], axis.span, written, origin)
        elif axis.kind == "group":
            scope.groups.append(PendingGroup(axis.span, indices, sizes[place], Affine((), 0)))
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
    steps = scans.active_indices(frame)
    if target.items is None:
        named = [i for i in val.free if i not in set(val.axes) and i not in steps]
        if named:
            frame.report(
                kinds.INDICES_LEFT(
                    Label(target.span),
                    name=named[0].name or "...",
                    target=target.name,
                    help=f"name the axes: `{target.name}[{', '.join(i.name or '...' for i in named)}] = ...`",
                )
            )
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
            known = name in used or index in scope.explicit or index in steps or index in val.free
            if not known and not scope.repeats:
                scope.failed.add(index)
                help = (
                    f"if the value is meant to repeat along `{name}`, "
                    f"say how often: `{target.name}[..., {name}: SIZE, ...]`"
                )
                frame.report(kinds.OUTPUT_INDEX(Label(span), name=name, help=help))
                return None
            indices.append(index)
        axes.append((tuple(indices), span))
    return axes


def report_axes(scope: Scope, target: t.Target, side: list[Axis], keeps: list[Axis], val: Val, value: t.Expr) -> None:
    frame = scope.frame
    shape = expressions.shape_text(frame, val.axes)
    found = f"a value of shape {shape}" if val.axes else "a single number"
    names = [axis.names[0][0] for axis in side if axis.kind == "index"]
    help = None
    if not keeps and isinstance(value, t.Name | t.Call) and len(names) == len(val.axes):
        help = f"write `{target.name} = {value.span.text}`, or index it: `{value.span.text}[{', '.join(names)}]`"
    elif val.axes:
        help = "index the tensors on the right, or write `:` on the left for each axis that stays whole"
    labels = (
        Label(value.span, found),
        Label(target.span, f"{len(keeps)} whole ax{'is' if len(keeps) == 1 else 'es'} here"),
    )
    frame.report(kinds.AXES_LEFT(*labels, expected=len(keeps), found=len(val.axes), help=help))


def close(scope: Scope, target: t.Target, axes: list[tuple[tuple[Index, ...], Span]], expr: Expr) -> Made:
    frame = scope.frame
    shape: list[Size] = []
    origins: list[tuple[Span, str]] = []
    for indices, span in axes:
        total: Size = 1
        for index in indices:
            assert index.size is not None
            total = tidy(total * index.size)
        shape.append(frame.facts.normal(total))
        evidence = scope.evidence.get(indices[0]) if len(indices) == 1 else None
        place = evidence.origin or evidence.span if evidence is not None else span
        origins.append((place, evidence.written if evidence is not None else ""))
    return Made(tuple(indices for indices, _ in axes), tuple(shape), expr, tuple(origins), target.span)


def equation(frame: Frame, node: t.Equation) -> None:
    """`y[n, o] = ...`."""
    good = [_may_assign(frame, target) for target in node.targets]
    declared = [_declared_shape(frame, target) for target in node.targets]
    made = equation_values(frame, node.targets, node.value, declared, node.where) if all(good) else None
    if made is None:
        for target, ok in zip(node.targets, good, strict=True):
            if ok:
                poison(frame, target.name)
        return
    for target, result in zip(node.targets, made, strict=True):
        bind(frame, target, result, node.value.span)


def poison(frame: Frame, name: str) -> None:
    """A value whose equation failed: later uses are not complained about."""
    for state_ in frame.scans:
        if name in state_.sequences:
            state_.sequences[name].defined = True
            return
    frame.names[name] = POISON


def _may_assign(frame: Frame, target: t.Target) -> bool:
    binding = frame.names.get(target.name)
    if isinstance(binding, Tensor) and binding.role != "value":
        word = {"param": "a parameter", "input": "an argument", "state": "a state", "slot": "a slot"}[binding.role]
        help = (
            f"write `{target.name} <- ...` to update it" if binding.role in ("state", "slot") else "choose another name"
        )
        if binding.role == "param" and frame.word == "optimizer":
            help = f"write `{target.name} <- ...` to update it"
        frame.report(
            kinds.REBINDS(
                Label(target.span), Label(binding.span, "declared here"), name=target.name, what=word, help=help
            )
        )
        return False
    if isinstance(binding, Static):
        label = Label(binding.span, "declared here")
        frame.report(
            kinds.REBINDS(
                Label(target.span), label, name=target.name, what=f"a {binding.what}", help="choose another name"
            )
        )
        return False
    if isinstance(binding, Shared):
        label = Label(binding.span, "declared here")
        frame.report(
            kinds.REBINDS(Label(target.span), label, name=target.name, what="a layer", help="choose another name")
        )
        return False
    return True


def _declared_shape(frame: Frame, target: t.Target) -> Declared | None:
    fixed = frame.output_shapes.get(target.name)
    return None if fixed is None else (fixed.shape, fixed.origins)


def bind(frame: Frame, target: t.Target, made: Made, span: Span) -> None:
    """Give a checked value its name."""
    below = None
    if is_int(made.expr.dtype):
        low, high = interval(frame, made.expr)
        if low is not None and high is not None and frame.facts.nonnegative(low):
            below = frame.facts.normal(tidy(high + 1))
    for state_ in frame.scans:
        sequence = state_.sequences.get(target.name)
        if sequence is not None:
            bind_sequence(frame, sequence, made, below)
            return
    dtype = made.expr.dtype
    fixed = frame.output_shapes.get(target.name)
    if fixed is not None:
        if not fits_declared(frame, target, made, fixed, span):
            frame.names[target.name] = POISON
            return
        dtype = fixed.dtype if fixed.dtype != "float" else dtype
        below = fixed.below if fixed.below is not None else below
    tensor = frame.new_tensor(target.name, dtype, made.shape, span=target.span, below=below, origins=made.origins)
    frame.names[target.name] = tensor
    frame.one_mode.pop(target.name, None)
    frame.emit(Define(tensor, made.axes, made.expr, target.span.to(span)))


def fits_declared(frame: Frame, target: t.Target, made: Made, fixed: signatures.OutputType, span: Span) -> bool:
    """Does a value have the declared type of the output that it defines?"""
    if len(made.shape) != len(fixed.shape):
        a = "[" + ", ".join(frame.show(s) for s in fixed.shape) + "]"
        b = "[" + ", ".join(frame.show(s) for s in made.shape) + "]"
        frame.report(
            kinds.OUTPUT_TYPE(
                Label(span, f"shape {b}"), Label(fixed.span, f"shape {a}"), name=target.name, expected=a, found=b
            )
        )
        return False
    for actual, wanted, (place, written) in zip(made.shape, fixed.shape, fixed.origins, strict=True):
        equal = frame.facts.equal(actual, wanted)
        if not equal:
            a, b = frame.show(wanted), frame.show(actual)
            name = f"{written} = {a}" if written and written != a and written.isidentifier() else a
            shape_a = "[" + ", ".join(frame.show(s) for s in fixed.shape) + "]"
            shape_b = "[" + ", ".join(frame.show(s) for s in made.shape) + "]"
            help = f"if `{a}` and `{b}` are always equal, say so: `where {a} == {b}`" if equal is None else None
            frame.report(
                kinds.OUTPUT_TYPE(
                    Label(span, f"shape {shape_b}"),
                    Label(place, f"`{name}` declared here"),
                    name=target.name,
                    expected=shape_a,
                    found=shape_b,
                    help=help,
                )
            )
            return False
    found = made.expr.dtype
    if fixed.dtype != found and not (is_float(fixed.dtype) and (is_float(found) or is_int(found))):
        if not (is_int(fixed.dtype) and is_int(found)):
            frame.report(
                kinds.WRONG_DTYPE(
                    Label(span),
                    Label(fixed.span, "declared here"),
                    what=f"`{target.name}`",
                    expected=fixed.dtype,
                    found=found,
                )
            )
            return False
    return True


def bind_sequence(frame: Frame, sequence: scans.Sequence_, made: Made, below: Size | None) -> None:
    tensor = sequence.tensor
    for axis, (placeholder, actual) in enumerate(zip(tensor.shape, made.shape, strict=True)):
        if not frame.facts.assume_equal(placeholder, actual):
            a, b = frame.show(placeholder), frame.show(actual)
            frame.report(
                kinds.SIZES_DIFFER(
                    Label(made.span), Label(made.origins[axis][0]), a=f"`{a}`", b=f"`{b}`", how="are different"
                )
            )
            break
    if is_float(tensor.dtype) and is_float(made.expr.dtype):
        tensor.dtype = made.expr.dtype
    elif (
        tensor.dtype != made.expr.dtype
        and not (is_int(tensor.dtype) and is_int(made.expr.dtype))
        and not (is_float(tensor.dtype) and is_int(made.expr.dtype))
    ):
        if sequence.earlier is None and sequence.start is None:
            tensor.dtype = made.expr.dtype
        else:
            found = made.expr.dtype
            frame.report(
                kinds.WRONG_DTYPE(
                    Label(made.span), what=f"`{tensor.name}`, as its start says,", expected=tensor.dtype, found=found
                )
            )
    elif sequence.start is None and sequence.earlier is None:
        tensor.dtype = made.expr.dtype
    tensor.shape = tuple(frame.facts.normal(s) for s in tensor.shape)
    tensor.origins = made.origins
    tensor.below = below
    sequence.defined = True
    frame.names[tensor.name] = tensor
    frame.emit(Define(tensor, made.axes, made.expr, made.span))


def define_value(
    frame: Frame, target: t.Target, value: t.Expr, name: str, shape: Sequence[Size], origins: Sequence[tuple[Span, str]]
) -> Tensor | None:
    """A value of a given shape (a start, the next value of a state); a plain number fills all of it."""
    if target.items is None:
        scope = open_scope(frame, [], value, ())
        Placement(scope).run(value, scope.kept)
        val = expressions.expression(scope, value)
        if val.poisoned or not scope.finish():
            return None
        if val.function is not None or val.several or isinstance(val.static, str):
            frame.report(kinds.NOT_A_VALUE(Label(value.span), found="a function" if val.function else "something else"))
            return None
        if val.axes and (
            len(val.axes) != len(shape)
            or any(
                frame.facts.equal(a.size if a.size is not None else 1, s) is not True
                for a, s in zip(val.axes, shape, strict=True)
            )
        ):
            expected = "[" + ", ".join(frame.show(s) for s in shape) + "]"
            found = expressions.shape_text(frame, val.axes)
            frame.report(
                kinds.OUTPUT_TYPE(Label(value.span, f"shape {found}"), name=target.name, expected=expected, found=found)
            )
            return None
        axes = val.axes or tuple(frame.new_index("", s, value.span) for s in shape)
        tensor = frame.new_tensor(name, val.dtype, tuple(shape), span=value.span, origins=tuple(origins))
        frame.emit(Define(tensor, tuple((a,) for a in axes), lower(val), value.span))
        return tensor
    made = equation_value(frame, target, value, shape, origins)
    if made is None:
        return None
    tensor = frame.new_tensor(name, made.expr.dtype, made.shape, span=value.span, origins=made.origins)
    frame.emit(Define(tensor, made.axes, made.expr, value.span))
    return tensor

"""Checked values get their names: what may be assigned, declared types, steps of a scan, values of a given shape."""

from __future__ import annotations

from collections.abc import Sequence

from dslc.check import elementwise, equations, rules, scan_state, scan_steps, signatures, wording
from dslc.check.equations import Declared, Made
from dslc.check.frame import Frame
from dslc.check.indices import is_placeholder
from dslc.check.positions import value_bound
from dslc.check.program import Define, Tensor
from dslc.check.sums import Placement
from dslc.check.values import POISON, Results, Shared, Static, is_float, is_int, lower
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.sizes import Size
from dslc.source import Span
from dslc.syntax import tree as t


def equation(frame: Frame, node: t.Equation) -> None:
    """`y[n, o] = ...`."""
    good = [may_assign(frame, target, node) for target in node.targets]
    declared = [declared_shape(frame, target) for target in node.targets]
    together = not any(node.targets[0].name in state_.sequences for state_ in frame.scans)
    made = None
    if all(good):
        made = equations.equation_values(frame, node.targets, node.value, declared, node.where, together=together)
    if made is None:
        for target in node.targets:
            poison(frame, target.name)
        return
    if made[0].result:
        bind_together(frame, node.targets[0], made, node.value.span)
        return
    for target, result in zip(node.targets, made, strict=True):
        bind(frame, target, result, node.value.span)


def bind_together(frame: Frame, target: t.Target, made: Sequence[Made], span: Span) -> None:
    """`r = f(x)` with several results: `r.loss` is one of them."""
    tensors = {}
    for one in made:
        name, below = f"{target.name}_{one.result}", value_bound(frame, one.expr)
        tensor = frame.new_tensor(name, one.expr.dtype, one.shape, span=target.span, below=below, origins=one.origins)
        frame.emit(Define(tensor, one.axes, one.expr, target.span.to(span)))
        tensors[one.result] = tensor
    frame.names[target.name] = Results(tensors, target.span)


def poison(frame: Frame, name: str) -> None:
    """A value whose equation failed: later uses are not complained about."""
    for state_ in frame.scans:
        if name in state_.sequences:
            state_.sequences[name].failed = True
    frame.names[name] = POISON


def may_assign(frame: Frame, target: t.Target, node: t.Equation | t.Accumulate) -> bool:
    """May a statement define this name? What already has it and keeps it is reported."""
    if scan_steps.assigns_outer(frame, target, node):
        return False
    binding = frame.names.get(target.name)
    help = "choose another name"
    if isinstance(binding, Tensor) and binding.role != "value":
        what = {"param": "a parameter", "input": "an argument", "state": "a state", "slot": "a slot"}[binding.role]
        if binding.role in ("state", "slot") or (binding.role == "param" and frame.word == "optimizer"):
            whole = isinstance(node, t.Equation) and len(node.targets) == 1 and target.items is None
            help = f"write `{target.name} <- {node.value.span.text if whole else '...'}` to update it"
    elif isinstance(binding, Static):
        what = wording.a(binding.what)
    elif isinstance(binding, Shared):
        what = "a layer"
    else:
        return True
    labels = [Label(target.span)]
    if frame.word != "optimizer" or target.name not in ("param", "grad"):
        labels.append(Label(binding.span.first_line, "declared here"))
    frame.report(kinds.REBINDS(*labels, name=target.name, what=what, help=help))
    return False


def declared_shape(frame: Frame, target: t.Target) -> Declared | None:
    fixed = frame.types.outputs.get(target.name)
    if fixed is None:
        return None
    for state in frame.scans:
        if target.name in state.sequences and len(fixed.shape) == len(state.sequences[target.name].tensor.shape):
            axis = state.sequences[target.name].axis  # the steps of a scan from 1 on are one less
            shape = [frame.facts.normal(s - state.low) if i == axis else s for i, s in enumerate(fixed.shape)]
            return tuple(shape), fixed.origins
    return fixed.shape, fixed.origins


def bind(frame: Frame, target: t.Target, made: Made, span: Span) -> None:
    """Give a checked value its name."""
    below = value_bound(frame, made.expr)
    for state_ in frame.scans:
        sequence = state_.sequences.get(target.name)
        if sequence is not None:
            bind_sequence(frame, sequence, made, below)
            return
    dtype = made.expr.dtype
    fixed = frame.types.outputs.get(target.name)
    if fixed is not None:
        if not fits_declared(frame, target, made, fixed, span):
            frame.names[target.name] = POISON
            return
        dtype = signatures.declared_as(frame, target.name, dtype)
        below = fixed.below if fixed.below is not None else below
    tensor = frame.new_tensor(target.name, dtype, made.shape, span=target.span, below=below, origins=made.origins)
    frame.names[target.name] = tensor
    frame.reserved.one_mode.pop(target.name, None)
    frame.emit(Define(tensor, made.axes, made.expr, target.span.to(span)))


def fits_declared(frame: Frame, target: t.Target, made: Made, fixed: signatures.OutputType, span: Span) -> bool:
    """Does a value have the declared type of the output that it defines?"""
    if frame.same_shape(made.shape, fixed.shape):
        return fits_declared_dtype(frame, target.name, made.expr.dtype, fixed, span)
    expected, found, help = frame.show_shape(fixed.shape), frame.show_shape(made.shape), None
    declared = Label(fixed.span, f"shape {expected}")
    if len(made.shape) == len(fixed.shape):
        pairs = zip(made.shape, fixed.shape, fixed.origins, strict=True)
        actual, wanted, (place, written) = next(x for x in pairs if frame.facts.equal(x[0], x[1]) is not True)
        declared = Label(place, f"{wording.sized(frame, wanted, written)} declared here")
        if frame.facts.equal(actual, wanted) is None:
            help = wording.always_equal(frame, wanted, actual)
    here = Label(span, f"shape {found}")
    frame.report(kinds.OUTPUT_TYPE(here, declared, name=target.name, expected=expected, found=found, help=help))
    return False


def fits_declared_dtype(frame: Frame, name: str, dtype: str, fixed: signatures.OutputType, span: Span) -> bool:
    both_whole = is_int(fixed.dtype) and is_int(dtype)
    if fixed.dtype == dtype or both_whole or (is_float(fixed.dtype) and dtype != "bool"):
        return True
    labels = (Label(span), Label(fixed.span, "declared here"))
    frame.report(kinds.WRONG_DTYPE(*labels, what=f"`{name}`", expected=fixed.dtype, found=dtype))
    return False


def bind_sequence(frame: Frame, sequence: scan_state.Sequence_, made: Made, below: Size | None) -> None:
    """The equation of a value that a scan builds: its shape was open until now, its dtype follows from its start."""
    tensor, dtype = sequence.tensor, made.expr.dtype
    for (place, _), carried, actual in zip(made.origins, tensor.shape, made.shape, strict=True):
        equal = frame.facts.equal(carried, actual)
        if is_placeholder(frame.facts.normal(carried)):
            equal = frame.facts.assume_equal(carried, actual)
        if not equal:
            a, b = frame.show(carried), frame.show(actual)
            labels = (Label(made.span), Label(place, f"`{b}` comes from here"))
            frame.report(kinds.SIZES_DIFFER(*labels, a=f"`{a}`", b=f"`{b}`", how=wording.how(equal)))
            break
    fixed = frame.types.outputs.get(tensor.name)
    if fixed is None or fits_declared_dtype(frame, tensor.name, dtype, fixed, made.span):
        dtype = signatures.declared_as(frame, tensor.name, dtype)
    start = sequence.start
    free = start is None or (isinstance(start.value, t.Number) and start.value.text.isdigit() and is_int(dtype))
    if (free and sequence.earlier is None and not sequence.conditional) or (is_float(tensor.dtype) and is_float(dtype)):
        tensor.dtype = dtype
    elif tensor.dtype != dtype and not (is_int(dtype) and tensor.dtype != "bool"):
        what = f"`{tensor.name}`, as its start says,"
        frame.report(kinds.WRONG_DTYPE(Label(made.span), what=what, expected=tensor.dtype, found=dtype))
    tensor.shape = tuple(frame.facts.normal(s) for s in tensor.shape)
    tensor.origins = made.origins
    tensor.below = below
    sequence.defined = True
    frame.names[tensor.name] = tensor
    frame.emit(Define(tensor, made.axes, made.expr, made.span))


def define_value(
    frame: Frame,
    target: t.Target,
    value: t.Expr,
    name: str,
    shape: Sequence[Size],
    origins: Sequence[tuple[Span, str]],
    like: Label,
    dtype: str | None = None,
) -> Tensor | None:
    """A value of a given shape (a start, the next value of a state); a plain number fills all of it.

    `like` is the place that the shape comes from; `dtype` is that of the value, else that of its formula.
    """
    if target.items is not None:
        made = equations.equation_value(frame, target, value, shape, origins)
        if made is None:
            return None
        tensor = frame.new_tensor(name, dtype or made.expr.dtype, made.shape, span=value.span, origins=made.origins)
        tensor.below = value_bound(frame, made.expr)
        frame.emit(Define(tensor, made.axes, made.expr, value.span))
        return tensor
    scope = equations.open_scope(frame, [], value)
    val = rules.right_side(Placement(scope), value)
    if val.poisoned or not scope.finish():
        return None
    if val.function is not None or val.several or isinstance(val.static, str):
        frame.report(kinds.NOT_A_VALUE(Label(value.span), found=elementwise.describe(frame, val)))
        return None
    sizes = [a.size for a in val.axes if a.size is not None]
    if val.axes and not frame.same_shape(sizes, shape):
        expected, found = frame.show_shape(shape), frame.show_shape(sizes)
        here = Label(value.span, f"shape {found}")
        frame.report(kinds.OUTPUT_TYPE(here, like, name=target.name, expected=expected, found=found))
        return None
    axes = val.axes or tuple(frame.new_index("", s, value.span) for s in shape)
    tensor = frame.new_tensor(name, dtype or val.dtype, tuple(shape), span=value.span, origins=tuple(origins))
    tensor.below = value_bound(frame, lower(val))
    frame.emit(Define(tensor, tuple((a,) for a in axes), lower(val), value.span))
    return tensor

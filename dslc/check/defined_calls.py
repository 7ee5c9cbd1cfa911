"""Calls of definitions of a spec or of the library: formulas in place, instances, and missing brackets."""

from __future__ import annotations

from dataclasses import replace

from dslc.check import call_arguments, instance_calls, rules, wording
from dslc.check.indices import Ranges, Scope
from dslc.check.program import Index
from dslc.check.sums import Placement, collect_index_names
from dslc.check.values import NOTHING, FunctionValue, Shared, Val
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.resolve.files import Defined
from dslc.syntax import tree as t

#: What stands between the brackets of operations that replace an index, or make one.
BRACKET_FORMS = {"top_k": "{} -> j: 5", "fft": "{} -> f", "ifft": "{} -> t", "one_hot": "k: K"}


def report_brackets(scope: Scope, node: t.Call, name: str, given: list[call_arguments.Given], axis: str | None) -> None:
    """A function along an index is called without one. `axis`: how it calls its one index; None: it takes several."""
    placement = Placement(scope)
    used = [n for g in given for n in placement.in_order(g.node, placement.uses(g.node))]
    names = [n for n in dict.fromkeys(used) if n not in scope.kept] or used[-1:]
    text = ", ".join(g.span.text if g.place is None else g.place.text for g in given)
    if names:
        scope.unreduced.update(names)
        form = BRACKET_FORMS.get(name, "{}").format(", ".join(names if axis is None else names[-1:]))
        help = f"name the index: `{name}[{form}]({text if form in names or axis is None else given[0].span.text})`"
    elif axis is None:
        help = f"`{text}` is a single number, and needs no `{name}`"
    else:
        help = f"name the index: `{name}[{axis}](...)`"
        val = given[0].value(scope)
        if val.poisoned:
            return
        if val.axes and "\n" not in text and len(given) == 1:
            axes = wording.letters(len(val.axes), scope.frame)
            whole = text if text.isidentifier() else "h"
            help = f"name the axes, here and on the left: `{name}[{axes[-1]}]({whole}[{', '.join(axes)}])`"
            help += "" if whole == text else f", with `h = {text}` on a line before"
    scope.frame.report(kinds.BRACKETS_NEEDED(Label(node.span), name=name, help=help))


def call_defined(
    scope: Scope,
    node: t.Call,
    function: FunctionValue,
    given: list[call_arguments.Given],
    shared: Shared | None,
    axis: tuple[Index, ...] | None = None,
) -> Val:
    """Call a definition of a spec or of the library."""
    frame = scope.frame
    defined = function.defined
    assert defined is not None
    target = defined.node
    if isinstance(target, t.Optimizer):
        frame.report(
            kinds.NOT_CALLABLE(
                Label(node.callee.span), what=f"the optimizer `{target.name}`", help="optimizers stand after `using`"
            )
        )
        return NOTHING
    if isinstance(target, t.Fn) and target.axis is not None and axis is None:
        report_brackets(scope, node, target.name, given, target.axis)
        return NOTHING
    if isinstance(target, t.Fn) and target.axis is not None and target.expression is None:
        return NOTHING  # refused where it is defined
    bound = call_arguments.bind_arguments(scope, node, function, given, skip_tensors=False)
    if bound is None:
        return NOTHING
    if target in frame.checker.faulty and isinstance(target, t.Layer):
        return NOTHING
    if isinstance(target, t.Fn) and target.expression is not None and not _has_tensor_types(target):
        return inline(scope, node, defined, bound, axis)
    if isinstance(target, t.Layer) and frame.word == "fn":
        caller = frame.file.lookup(frame.instance.name)
        short = caller is not None and isinstance(caller.node, t.Fn) and caller.node.expression is not None
        help = f"make it a layer with a block: `layer {frame.instance.name}(...) -> y: [...]:`" if short else None
        frame.report(kinds.LAYER_IN_FN(Label(node.span), name=target.name, help=help))
        return NOTHING
    return instance_calls.apply_instance(scope, node, defined, bound, shared)


def _has_tensor_types(target: t.Fn) -> bool:
    return any(isinstance(f.kind, t.Type) for f in target.formals)


def inline(
    scope: Scope, node: t.Call, defined: Defined, bound: call_arguments.Bound, axis: tuple[Index, ...] | None
) -> Val:
    """A function given by one formula: its body is checked in place, with the arguments as values."""
    frame = scope.frame
    target = defined.node
    assert isinstance(target, t.Fn) and target.expression is not None
    inner_frame = replace(
        frame, file=defined.file, names={k: v for k, (v, _) in bound.items()}, word="fn", errors=0,
        calls=frame.inside(target.name, node.span),
    )  # fmt: skip
    inner = Scope(inner_frame, reads=scope.reads, groups=scope.groups, ranges=Ranges(scope.ranges.evidence))
    if axis is not None and target.axis is not None:
        inner.levels.append({target.axis: axis})
        inner.axis_name = target.axis
    inner.index_names = collect_index_names(inner_frame, [target.expression]) - (
        {target.axis} if target.axis else set()
    )
    val = rules.right_side(Placement(inner), target.expression, (), {target.axis} if target.axis else set())
    scope.names.update({f"{n}@{id(i)}": i for n, i in inner.names.items()})
    frame.errors += inner_frame.errors
    return val

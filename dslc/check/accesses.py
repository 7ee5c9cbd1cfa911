"""Reads of tensors by indices, `x[n, t-1]`, and what stands outside, `(x[n, t-1] else 0)`."""

from __future__ import annotations

from dslc.check import carried_reads, elementwise, materialise, members, rules, scan_state, tensor_reads, wording
from dslc.check.indices import Scope
from dslc.check.program import Index, Position, Tensor
from dslc.check.sums import REST
from dslc.check.values import NOTHING, FunctionValue, Poison, Results, Shared, Static, Val, whole_tensor
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.ops.table import EXTERNALS
from dslc.syntax import tree as t


def accessed_tensor(scope: Scope, node: t.Access) -> Tensor | None:
    """The tensor that an access reads; reports what else it may be."""
    frame = scope.frame
    base = node.base
    if isinstance(base, t.Member) and isinstance(base.root, t.Name):
        return members.member(frame, base)
    if not isinstance(base, t.Name):
        val = rules.expression(scope, base)
        if val.poisoned:
            return None
        steps = scan_state.active_indices(frame)
        if val.expr is None or not val.axes:
            names = [i.name for i in val.free if i.name and i not in steps]
            help = (
                f"name it in an equation before, `part[{', '.join(names)}] = ...`, and index `part`" if names else None
            )
            frame.report(kinds.NOT_INDEXABLE(Label(base.span), what=f"`{base.span.text}`", help=help))
            return None
        named = [i.name or REST for i in val.free if i not in val.axes and i not in steps]
        if named:
            what = f"`{base.span.text}`, which has {wording.indices(named)} already"
            help = "index each tensor in it, and nothing behind it"
            if isinstance(base, t.Call) and isinstance(base.callee, t.Name) and base.callee.id in EXTERNALS:
                before = ", ".join([*named, *[":"] * len(val.axes)])
                behind = ", ".join([*named, *(x.span.text for x in node.items)])
                help = f"name it in an equation before, `part[{before}] = {base.span.text}`, and write `part[{behind}]`"
            frame.report(kinds.NOT_INDEXABLE(Label(base.span), what=what, help=help))
            return None
        return materialise.materialise_over(scope, val, (), base.span, "part")
    if scope.is_index(base.id) and not isinstance(frame.names.get(base.id), Tensor):
        frame.report(kinds.NOT_INDEXABLE(Label(base.span), what=f"the index `{base.id}`"))
        return None
    binding = frame.lookup(base.id)
    match binding:
        case Tensor():
            return frame.states.latest.get(binding, binding)
        case None:
            frame.unknown(base.id, base.span)
        case Val():
            tensor = whole_tensor(binding)
            if tensor is not None:
                return tensor
            if binding.expr is not None and binding.axes:
                return materialise.materialise_over(scope, binding, (), base.span, base.id)
            if not binding.poisoned:
                help = f"give the argument a type, for example `{base.id}: [N]`"
                frame.report(kinds.NOT_INDEXABLE(Label(base.span), what=f"the number `{base.id}`", help=help))
        case Static():
            frame.report(kinds.NOT_INDEXABLE(Label(base.span), what=f"the {binding.what} `{base.id}`"))
        case FunctionValue() | Shared():
            help = f"write the arguments after the brackets: `{node.span.text}(...)`"
            frame.report(kinds.NOT_INDEXABLE(Label(base.span), what=f"the function `{base.id}`", help=help))
        case Results():
            frame.report(elementwise.several_results(base, rules.expression(scope, base)))
        case Poison():
            pass
    return None


def access(scope: Scope, node: t.Access, outside: Val | None = None) -> Val:
    """`tensor[items]`."""
    tensor = accessed_tensor(scope, node)
    if tensor is None:
        return NOTHING
    if scan_state.is_carried(scope, tensor):
        return carried_reads.read_carried(scope, node, tensor, outside)
    items = tensor_reads.expand_items(scope, node.items, len(tensor.shape), node, tensor)
    if items is None:
        return NOTHING
    positions: list[Position] = []
    axes: list[Index] = []
    free: dict[Index, None] = {}
    good = True
    before = len(scope.reads)
    for axis, item in enumerate(items):
        found = tensor_reads.position(scope, node, tensor, axis, item, outside is not None)
        if found is None:
            good = False
            continue
        where, item_axes, item_free = found
        positions.append(where)
        axes.extend(item_axes)
        free.update(item_free)
    if not good:
        return NOTHING
    val = tensor_reads.read_of(node, tensor, positions, axes, free, outside)
    if outside is None and scope.known:
        tensor_reads.guard(scope, val, [r for r in scope.reads[before:] if r.position in positions])
    return val


def or_else(scope: Scope, node: t.OrElse) -> Val:
    """`(x[n, t-1] else 0)`."""
    chosen = carried_reads.before_first(scope, node)
    if chosen is not None:
        return chosen
    outside = rules.expression(scope, node.value)
    if not isinstance(node.read, t.Access):
        scope.frame.report(kinds.ELSE_NEEDS_READ(Label(node.read.span)))
        return NOTHING
    if outside.poisoned:
        access(scope, node.read, Val(static=0))
        return NOTHING
    if outside.axes or outside.function is not None or isinstance(outside.static, str):
        scope.frame.report(kinds.ELSE_NEEDS_READ(Label(node.value.span)))
        return NOTHING
    return access(scope, node.read, outside)

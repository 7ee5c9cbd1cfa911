"""Values that get a tensor of their own, and reads of it."""

from __future__ import annotations

from collections.abc import Sequence

from dslc.check.indices import Scope
from dslc.check.positions import value_bound
from dslc.check.program import Affine, Define, Index, Read, Tensor
from dslc.check.values import Val, lower, whole_tensor
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.source import Span


def read_result(
    scope: Scope, tensor: Tensor, order: tuple[Index, ...], lifted_axes: tuple[Index, ...], span: Span
) -> Val:
    """The value of a call: its mapped axes are the indices it was mapped over, the others are positional."""
    own = tuple(scope.frame.new_index("", size, span) for size in tensor.shape[len(order) :])
    positions = tuple(Affine(((i, 1),), 0) for i in (*order, *own))
    read = Read(tensor, positions, tensor.dtype, span=span)
    return Val(read, (*lifted_axes, *own), dict.fromkeys((*order, *own)))


def resolved(scope: Scope, indices: Sequence[Index]) -> bool:
    """Are the ranges of indices known by now? (A call needs them at once.)"""
    good = True
    for index in indices:
        if index.size is None and (ahead := scope.told_ahead(index)) is not None:
            scope.constrain(index, ahead.size, ahead.span)
        if index.size is None and index not in scope.ranges.failed:
            scope.ranges.failed.add(index)
            scope.frame.report(kinds.RANGE_UNKNOWN(Label(index.span), name=index.name or "..."))
        good = good and index.size is not None
    return good


def materialise_over(scope: Scope, val: Val, order: tuple[Index, ...], span: Span, name: str) -> Tensor:
    """Give a value a tensor of its own, over the indices `order` and then its positional axes."""
    frame = scope.frame
    existing = whole_tensor(val)
    if existing is not None and not order:
        return existing
    indices = (*order, *val.axes)
    expr = lower(val)
    shape = tuple(i.size for i in indices)
    origins = tuple((i.span if i.span.source.text else span, "") for i in indices)
    below = value_bound(frame, expr)
    tensor = frame.new_tensor(name, val.dtype, shape, span=span, below=below, origins=origins)
    frame.emit(Define(tensor, tuple((i,) for i in indices), expr, span))
    return tensor

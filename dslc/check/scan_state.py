"""What is known about the scans around a statement: their indices, and the values that they build."""

from __future__ import annotations

from dataclasses import dataclass, field

from dslc.check.conditions import Known
from dslc.check.frame import Frame
from dslc.check.indices import Evidence, PendingRead, Scope, is_placeholder
from dslc.check.program import Affine, Index, Tensor
from dslc.check.values import Binding
from dslc.sizes import Facts, Size
from dslc.source import Span
from dslc.syntax import tree as t


@dataclass(eq=False)
class Sequence_:
    """A value with the scanned index on its left-hand side."""

    tensor: Tensor
    axis: int
    target: t.Target
    #: the dtype that reads of earlier steps have taken
    read_as: str
    defined: bool = False
    #: its equation has an error
    failed: bool = False
    #: the first read of an earlier step, which is what needs a start
    earlier: Span | None = None
    #: reads of earlier steps in branches of selects, whose conditions may leave out the first step
    conditional: list[tuple[Span, Affine, tuple[Known, ...]]] = field(default_factory=list)
    start: t.Start | None = None
    #: reads with an `else` that are being checked as a choice by the step
    chosen: list[t.OrElse] = field(default_factory=list)


@dataclass(eq=False)
class ScanState:
    node: t.Scan
    index: Index
    sequences: dict[str, Sequence_] = field(default_factory=dict)
    #: reads whose proof needs the length of the scan
    deferred: list[tuple[Scope, PendingRead]] = field(default_factory=list)
    #: the value of the index at the first step
    low: Size = 0
    #: what says how many steps there are
    evidence: Evidence | None = None
    #: what names mean around the scan
    outer: dict[str, Binding] = field(default_factory=dict)

    def has_length(self, facts: Facts) -> bool:
        return self.index.size is not None and not is_placeholder(facts.normal(self.index.size))


def first_step(frame: Frame, index: Index) -> Size:
    """What the index of a scan counts from: its steps are numbered from 0."""
    return next((state.low for state in frame.scans if state.index is index), 0)


def active_indices(frame: Frame) -> set[Index]:
    return {state.index for state in frame.scans}


def is_carried(scope: Scope, tensor: Tensor) -> bool:
    return sequence_of(scope.frame, tensor) is not None


def sequence_of(frame: Frame, tensor: Tensor) -> tuple[ScanState, Sequence_] | None:
    for state in frame.scans:
        for sequence in state.sequences.values():
            if sequence.tensor is tensor:
                return state, sequence
    return None


def earlier_step(state: ScanState) -> str:
    return f"{state.index.name}+1" if state.node.reversed else f"{state.index.name}-1"

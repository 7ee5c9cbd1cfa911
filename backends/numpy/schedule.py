"""The statements of a module as a schedule: a region is the formula of a value, with all that is a part of it."""

from __future__ import annotations

from collections.abc import Sequence

from dslc.backends.numpy.lower import Uses
from dslc.backends.numpy.statement import Lowering

from dslc.ir import nodes as ir
from dslc.passes.transform import Outputs, Stages
from dslc.schedule.form import Call, Loop, Pass, Region, Step
from dslc.schedule.plan import Schedule


def schedule(outputs: Outputs, dtype: str, stages: Stages) -> Schedule:
    """The statements, which are the same for all dtypes; they are of the program as it is, without passes."""
    roots = list(outputs.values())
    low = Lowering()
    low.uses = Uses.of(roots)
    return Schedule(outputs, statements(low, [x for x in ir.schedule(tuple(roots)) if x in low.uses.needed]))


def statements(low: Lowering, order: Sequence[ir.Node]) -> list[Step]:
    found: list[Step] = []
    for node in order:
        match node:
            case ir.Scan():
                found.append(Loop(node, statements(low, low.uses.inside(node))))
            case ir.Comp() if not low.inlined(node) and not ir.slice_of_input(node):
                parts = [x for x in low.reads(node) if isinstance(x, ir.Comp) and low.inlined(x)]
                found.append(Region((), [*parts, node], [Pass("statement", node.shape, [*parts, node])]))
            case ir.Scatter() | ir.Along() | ir.External():
                found.append(Call(node))
    return found

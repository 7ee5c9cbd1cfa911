"""Outputs where the conditions of a spec change sides: data that are equal to what they are compared with.

    entropy = -sum[k](p[k] * log(p[k]) if p[k] > 0 else 0)     at p = 0,

where the branch that is not taken has no value. Data drawn at random never lie there.
"""

from __future__ import annotations

import numpy as np

from dslc.ir import nodes as ir
from dslc.meaning.interpret import Array
from dslc.verification import checks
from dslc.verification.backends import Loaded

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
#: a third of the data is moved
EVERY = 3


def at_guards(subject: checks.Subject, loaded: Loaded) -> list[checks.Check]:
    """The check of outputs with some data at the numbers that they are compared with; none where there are no such."""
    unit = subject.unit("outputs")
    edges = guards(tuple(unit.outputs.values()))
    values = subject.inputs("outputs")
    simple = {x.name for x in subject.model.inputs if x.refinement is None}
    moved = {n: at(values[n], edge) for n, edge in edges.items() if n in simple and n in values}
    if not moved or subject.dtype != "f64":
        return []
    given = {**values, **moved}
    exact = {k: x for k, x in subject.run(given, unit.outputs, None).items() if np.isfinite(x).all()}
    result = loaded.call("forward", unit, given, subject.seed)
    named = result if isinstance(result, dict) else {next(iter(unit.outputs)): result}
    errors = {k: checks.error_of(checks.same_signs(unit.outputs[k], named[k], x), x) for k, x in exact.items()}
    if not errors:
        return []
    worst = max(errors, key=lambda k: errors[k])
    limit = checks.tolerance(tuple(unit.outputs.values()))
    note = f"largest at {worst}, with {', '.join(f'{n} = {edges[n]:g}' for n in moved)}"
    return [checks.Check(loaded.name, "outputs at guards", errors[worst], limit, note)]


def guards(roots: tuple[ir.Tensor, ...]) -> dict[str, float]:
    """The float inputs that a program compares with a number, and that number."""
    found: dict[str, float] = {}
    for node in ir.every_node(roots):
        for body in ir.bodies(node):
            for s in ir.scalars(body):
                match s:
                    case ir.Op(
                        name, (ir.Read(ir.Input() as x), ir.Const() as c) | (ir.Const() as c, ir.Read(ir.Input() as x))
                    ):
                        if name in COMPARISONS and x.role == "input" and np.isfinite(c.value):
                            found.setdefault(x.name, float(c.value))
    return found


def at(x: Array, edge: float) -> Array:
    """Data with every third entry at an edge, the first one too."""
    moved = np.array(x)
    moved.reshape(-1)[::EVERY] = edge
    return moved

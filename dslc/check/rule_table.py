"""All rules of the checker: each kind of expression and of statement with the function that checks it."""

from __future__ import annotations

from dslc.check import accesses, accumulation, binding, calls, declarations, expressions, statements, training
from dslc.check.rules import EXPRESSIONS, STATEMENTS
from dslc.syntax import tree as t

EXPRESSIONS.update(
    {
        t.Number: expressions.literal,
        t.Bool: expressions.literal,
        t.String: expressions.literal,
        t.Name: expressions.name,
        t.Access: accesses.access,
        t.OrElse: accesses.or_else,
        t.Member: expressions.member,
        t.Call: calls.call,
        t.Pipe: expressions.pipe,
        t.Negative: expressions.negative,
        t.Sum: expressions.sum_,
        t.Product: expressions.product,
        t.Binary: expressions.binary,
        t.Compare: expressions.compare,
        t.Logic: expressions.logic,
        t.Not: expressions.negate,
        t.Choose: expressions.choose,
    }
)

STATEMENTS.update(
    {
        t.Parameter: declarations.parameter,
        t.State: declarations.state,
        t.Slots: declarations.slots,
        t.Use: declarations.use,
        t.Size: declarations.size,
        t.Equation: binding.equation,
        t.Accumulate: accumulation.accumulate,
        t.Update: accumulation.update,
        t.For: statements.for_,
        t.If: statements.if_,
        t.Checkpoint: statements.checkpoint,
        t.Backward: statements.backward,
        t.Objective: training.objective,
        t.Using: training.using,
        t.Metric: training.metric,
        t.Freeze: training.freeze,
        t.Expose: statements.expose,
        t.Scan: statements.scan,
        t.Start: statements.lone_start,
        t.Mode: statements.modes,
    }
)

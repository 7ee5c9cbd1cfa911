"""Which rule checks which node: the tables of rules, and what is the same around every expression.

Rules need each other: a call stands in an equation, and the definition that it calls has equations. They ask for the
value of a part here, by the type of its node; `rule_table.py` knows them all and fills the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any

from dslc.check import elementwise
from dslc.check.indices import Scope
from dslc.check.sums import REST, Placement
from dslc.check.values import NOTHING, Val
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.syntax import tree as t

#: from the type of an expression to its value
EXPRESSIONS: dict[type[t.Node], Callable[[Scope, Any], Val]] = {}

#: from the type of a statement to its check; a scan comes with its starts, and modes come in pairs
STATEMENTS: dict[type[t.Node], Callable[..., None]] = {}


def expression(scope: Scope, node: t.Expr) -> Val:
    """The value of an expression; implied sums that belong to this node are put around it."""
    scope.frame.checker.step(node.span)
    val = EXPRESSIONS[type(node)](scope, node)
    names = scope.sums.get(id(node))
    if not names or val.poisoned:
        return val
    indices = [i for name in names for i in (scope.rest or () if name == REST else scope.find(name, node.span))]
    return elementwise.reduce(scope, "sum", indices, val, node.span)


def right_side(
    placement: Placement, value: t.Expr, unnamed: Sequence[t.Target] = (), kept: Set[str] | None = None
) -> Val:
    """The value of a right-hand side with its implied sums; what cannot be summed is reported.

    `kept` are the indices that are not summed, by default those on the left; `unnamed` are targets whose missing
    brackets explain an index that cannot be summed.
    """
    scope = placement.scope
    placement.run(value, scope.kept if kept is None else kept)
    val = expression(scope, value)
    placement.report(value, unnamed)
    return NOTHING if placement.lone else val


def condition(scope: Scope, node: t.Expr) -> Val:
    """An expression that must be true or false."""
    val = expression(scope, node)
    if not val.poisoned and (val.function is not None or isinstance(val.static, str) or val.dtype != "bool"):
        found = "a function" if val.function is not None else "a string" if isinstance(val.static, str) else "a number"
        help = f"compare it: `{node.span.text} != 0`" if found == "a number" else None
        scope.frame.report(kinds.CONDITION_EXPECTED(Label(node.span), found=found, help=help))
        return NOTHING
    return val

"""The `where` of a definition: assumed inside, proved at calls."""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from dslc.check import static_values
from dslc.check.frame import Frame
from dslc.check.indices import Scope
from dslc.check.values import (
    Static,
)
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.sizes import Size, tidy
from dslc.source import Span
from dslc.syntax import tree as t


def assume_where(frame: Frame, conditions: Sequence[t.Condition]) -> bool:
    """Take the conditions of a definition as given while it is checked by itself."""
    for condition in conditions:
        if not isinstance(condition, t.Compare):
            report_where_form(frame, condition)
            return False
        if not _assume(frame, condition):
            return False
    return True


def report_where_form(frame: Frame, condition: t.Condition) -> None:
    help = "write a comparison of sizes, such as `E % heads == 0` or `K <= T`"
    if isinstance(condition, t.IndexSize):
        comparison = f"{condition.name} == {condition.value.span.text}"
        help = f"`=` gives an index its range in the `where` of an equation; write `{comparison}` to compare"
    frame.report(kinds.WHERE_FORM(Label(condition.span), help=help))


def _assume(frame: Frame, node: t.Compare) -> bool:
    scope = Scope(frame)
    facts = frame.facts
    if node.op == "==" and isinstance(node.left, t.Binary) and node.left.op == "%" and _is_zero(node.right):
        a, b = static_values.as_size(scope, node.left.left, None), static_values.as_size(scope, node.left.right)
        if a is None or b is None:
            return False
        consistent = facts.assume_divides(b, a)
    else:
        a, b = static_values.as_size(scope, node.left, None), static_values.as_size(scope, node.right, None)
        if a is None or b is None:
            return False
        consistent = {
            "==": lambda: facts.assume_equal(a, b),
            "<=": lambda: facts.assume_nonnegative(tidy(b - a)),
            "<": lambda: facts.assume_nonnegative(tidy(b - a - 1)),
            ">=": lambda: facts.assume_nonnegative(tidy(a - b)),
            ">": lambda: facts.assume_nonnegative(tidy(a - b - 1)),
            "!=": lambda: facts.equal(a, b) is not True,
        }[node.op]()
    if not consistent:
        frame.report(kinds.WHERE_CONTRADICTS(Label(node.span), text=node.span.text))
    return consistent


def _is_zero(node: t.Expr) -> bool:
    return isinstance(node, t.Number) and node.value == 0


def prove_where(frame: Frame, caller: Frame, conditions: Sequence[t.Condition], span: Span, callee: str) -> bool:
    """At a call the conditions must hold, provably."""
    for condition in conditions:
        if not isinstance(condition, t.Compare):
            report_where_form(frame, condition)
            return False
        holds, left, _ = _holds(frame, condition)
        if holds is None and left is None:
            return False
        if not holds:
            values = ", ".join(
                f"{name} = {frame.show(binding.value)}"
                for name in sorted({n.id for n in condition.walk() if isinstance(n, t.Name)})
                if isinstance(binding := frame.names.get(name), Static) and not isinstance(binding.value, str | float)
            )
            how = "does not hold" if holds is False else "is not known to hold"
            help = (
                f"add `where {condition.span.text}` (in the names of this definition) if it always holds"
                if holds is None
                else None
            )
            note = (f"here {values}",) if values else ()
            labels = (Label(span), Label(condition.span, f"`{callee}` needs this"))
            caller.report(
                kinds.WHERE_FAILS(*labels, callee=callee, text=condition.span.text, how=how, notes=note, help=help)
            )
            return False
    return True


def _holds(frame: Frame, node: t.Compare) -> tuple[bool | None, Size | None, Size | None]:
    scope = Scope(frame)
    facts = frame.facts
    if node.op == "==" and isinstance(node.left, t.Binary) and node.left.op == "%" and _is_zero(node.right):
        a, b = static_values.as_size(scope, node.left.left, None), static_values.as_size(scope, node.left.right)
        if a is None or b is None:
            return None, None, None
        if isinstance(a, int) and isinstance(b, int):
            return a % b == 0, a, b
        return (True if facts.whole(sp.sympify(a, strict=True) / b) else None), a, b
    a, b = static_values.as_size(scope, node.left, None), static_values.as_size(scope, node.right, None)
    if a is None or b is None:
        return None, None, None
    return static_values.fold_compare(frame, node.op, a, b), a, b

"""The `where` of a definition: assumed inside, proved at calls."""

from __future__ import annotations

from collections.abc import Sequence

from dslc.check import static_values, wording
from dslc.check.frame import Frame
from dslc.check.indices import Scope
from dslc.check.program import SizeCondition
from dslc.check.values import Static, StaticValue, exact
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.sizes import Facts, Size, quotient, tidy
from dslc.source import Span
from dslc.syntax import tree as t


def assume_where(frame: Frame, conditions: Sequence[t.Condition]) -> bool:
    """Take the conditions of a definition as given while it is checked by itself."""
    before = frame.facts.copy()
    known: list[t.Compare] = []
    for condition in conditions:
        if not isinstance(condition, t.Compare):
            report_where_form(frame, condition)
            return False
        consistent = _assume(frame, condition)
        if consistent is False:
            report_contradiction(frame, before, known, condition)
        if not consistent:
            return False
        known.append(condition)
        _remember(frame, condition)
    return True


def _remember(frame: Frame, condition: t.Compare) -> None:
    """Keep a condition on open sizes for the module, which must check it."""
    scope, (left, right) = Scope(frame), _sides(condition)
    a, b = static_values.as_size(scope, left, None), static_values.as_size(scope, right, None)
    if a is not None and b is not None and not (isinstance(a, int) and isinstance(b, int)):
        op = "%" if _is_divisibility(condition) else condition.op
        frame.instance.where.append(SizeCondition(a, op, b, condition.span))


def report_contradiction(frame: Frame, before: Facts, known: Sequence[t.Compare], condition: t.Compare) -> None:
    """A condition that excludes what stands before it, or that is never true."""
    labels = [Label(condition.span)]
    now, frame.facts = frame.facts, before.copy()
    alone = _assume(frame, condition) is False
    for other in known if not alone else ():
        frame.facts = before.copy()
        if _assume(frame, other) and _assume(frame, condition) is False:
            labels.append(Label(other.span, "together with this"))
            break
    frame.facts = now
    text = condition.span.text
    if alone:
        frame.report(kinds.WHERE_CONTRADICTS(*labels, text=text, what="is never true", help="drop or mend it"))
    else:
        frame.report(kinds.WHERE_CONTRADICTS(*labels, text=text, what="contradicts what is already known"))


def report_where_form(frame: Frame, condition: t.Condition) -> None:
    help = "write a comparison of sizes, such as `E % heads == 0` or `K <= T`"
    if isinstance(condition, t.IndexSize):
        comparison = f"{condition.name} == {condition.value.span.text}"
        help = f"`=` gives an index its range in the `where` of an equation; write `{comparison}` to compare"
    frame.report(kinds.WHERE_FORM(Label(condition.span), help=help))


def _assume(frame: Frame, node: t.Compare) -> bool | None:
    """Take a condition as given: False when it cannot hold, None when it is not a condition on sizes."""
    scope = Scope(frame)
    facts = frame.facts
    if _is_divisibility(node):
        left, right = _sides(node)
        a, b = static_values.as_size(scope, left, None), static_values.as_size(scope, right)
        if a is None or b is None:
            return None
        return facts.assume_divides(b, a)
    a, b = static_values.as_size(scope, node.left, None), static_values.as_size(scope, node.right, None)
    if a is None or b is None:
        return None
    return {
        "==": lambda: facts.assume_equal(a, b),
        "<=": lambda: facts.assume_nonnegative(tidy(b - a)),
        "<": lambda: facts.assume_nonnegative(tidy(b - a - 1)),
        ">=": lambda: facts.assume_nonnegative(tidy(a - b)),
        ">": lambda: facts.assume_nonnegative(tidy(a - b - 1)),
        "!=": lambda: facts.assume_different(a, b),
    }[node.op]()


def _is_zero(node: t.Expr) -> bool:
    return isinstance(node, t.Number) and node.value == 0


def prove_where(frame: Frame, caller: Frame, conditions: Sequence[t.Condition], span: Span, callee: str) -> bool:
    """At a call the conditions must hold, provably. One that does not is reported; its help states all of them."""
    failed: list[tuple[t.Compare, bool | None, Size, Size]] = []
    for condition in conditions:
        if not isinstance(condition, t.Compare):
            report_where_form(frame, condition)
            return False
        scope, sizes = Scope(frame), _sides(condition)
        a, b = static_values.as_size(scope, sizes[0], None), static_values.as_size(scope, sizes[1], None)
        if a is None or b is None:
            return False
        holds = _holds(frame, condition, a, b)
        if holds is not True:
            failed.append((condition, holds, a, b))
    if not failed:
        return True
    condition, holds, _, _ = min(failed, key=lambda f: f[1] is None)
    values = [
        f"{name} = {shown}"
        for name in sorted({n.id for n in condition.walk() if isinstance(n, t.Name)})
        if isinstance(binding := frame.names.get(name), Static)
        and (shown := _value(frame, binding.value)) is not None and shown != name
    ]  # fmt: skip
    how = "does not hold" if holds is False else "is not known to hold"
    stated = ", ".join(dict.fromkeys(_shown(frame, node, a, b) for node, _, a, b in failed))
    help = f"if it always holds, say so: `where {stated}`" if holds is None else None
    note = (f"here {', '.join(values)}",) if values else ()
    labels = (Label(span), Label(condition.span, f"`{callee}` needs this"))
    caller.report(kinds.WHERE_FAILS(*labels, callee=callee, text=condition.span.text, how=how, notes=note, help=help))
    return False


def _value(frame: Frame, value: StaticValue) -> str | None:
    """A size or a switch as it is written."""
    if isinstance(value, bool):
        return str(value).lower()
    size = exact(value)
    return None if size is None else frame.show(size)


def _is_divisibility(node: t.Compare) -> bool:
    """`a % b == 0`"""
    return node.op == "==" and isinstance(node.left, t.Binary) and node.left.op == "%" and _is_zero(node.right)


def _sides(node: t.Compare) -> tuple[t.Expr, t.Expr]:
    """The two sizes that a condition compares or divides."""
    if _is_divisibility(node):
        assert isinstance(node.left, t.Binary)
        return node.left.left, node.left.right
    return node.left, node.right


def _holds(frame: Frame, node: t.Compare, a: Size, b: Size) -> bool | None:
    if not _is_divisibility(node):
        return static_values.fold_compare(frame, node.op, a, b)
    if b == 0:
        return False
    if isinstance(a, int) and isinstance(b, int):
        return a % b == 0
    return True if frame.facts.whole(quotient(a, b)) else None


def _shown(frame: Frame, node: t.Compare, a: Size, b: Size) -> str:
    """A condition in the sizes of the caller."""
    if not _is_divisibility(node):
        shown = f"{frame.show(a)} {node.op} {frame.show(b)}"
        if "//" not in shown or node.op in ("==", "!="):
            return shown
        strict = 1 if node.op in ("<", ">") else 0
        return wording.inequality(frame, tidy((b - a if node.op in ("<", "<=") else a - b) - strict))
    left, right = (f"({frame.show(x)})" if getattr(x, "is_Add", False) else frame.show(x) for x in (a, b))
    return f"{left} % {right} == 0"

"""Numbers known at compile time: exact arithmetic within bounds, and the check that a number can be a size."""

from __future__ import annotations

import math

from dslc import decimals
from dslc.check import elementwise, rules, wording
from dslc.check.frame import Frame
from dslc.check.indices import Scope
from dslc.check.program import Apply, Constant, Expr, SizeValue
from dslc.check.values import Ratio, StaticValue, Val, exact
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.sizes import MAX_AXIS, MAX_POWER_BITS, Polynomial, Size, floor_div, modulo, quotient, show, tidy
from dslc.source import Span
from dslc.syntax import tree as t
from dslc.syntax.printer import print_node


def fold_compare(frame: Frame, op: str, a: StaticValue, b: StaticValue) -> bool | None:
    """A comparison of static numbers, when it can be decided."""
    a, b = (x.value if isinstance(x, Ratio) else x for x in (a, b))
    a, b = (float(x) if isinstance(x, Polynomial) and x.is_number else x for x in (a, b))
    if isinstance(a, Polynomial) or isinstance(b, Polynomial):
        if isinstance(a, float | bool | str) or isinstance(b, float | bool | str):
            return None
        facts = frame.facts
        if op in ("==", "!="):
            equal = facts.equal(a, b)
            return None if equal is None else equal == (op == "==")
        if op in (">", "<="):
            flipped = fold_compare(frame, "<" if op == ">" else ">=", b, a)
            return flipped
        if op == "<":
            if facts.nonnegative(tidy(b - a - 1)):
                return True
            return False if facts.nonnegative(tidy(a - b)) else None
        less = fold_compare(frame, "<", a, b)
        return None if less is None else not less
    table = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}  # type: ignore[operator]
    return table[op]


def is_formula(op: str, a: StaticValue | None, b: StaticValue | None) -> bool:
    """Is this a number that is known when a module runs: of a float and an open size, as `0.5 * N` and `N^0.5`?"""
    sizes = [exact(x) for x in (a, b)]
    if not any(isinstance(x, Polynomial) and not x.is_number for x in sizes) or (op == "/" and b in (0, Ratio(0))):
        return False
    if op == "^" and not isinstance(a, float):
        return isinstance(b, float | Ratio) or (isinstance(b, int) and b < 0)
    return op not in ("//", "%") and (isinstance(a, float) or isinstance(b, float))


def fold(scope: Scope, op: str, a: StaticValue, b: StaticValue, span: Span) -> StaticValue | None:
    """Arithmetic on numbers known at compile time: exact on whole numbers and sizes, bounded in size."""
    frame = scope.frame
    if op in ("/", "//", "%") and b in (0, Ratio(0)):
        frame.report(kinds.DIVISION_BY_ZERO(Label(span)))
        return None
    if op == "^":
        return _power(scope, a, b, span)
    x, y = exact(a), exact(b)
    if x is None or y is None:
        if op in ("//", "%"):
            frame.report(kinds.WHOLE_EXPECTED(Label(span), op=op))
            return None
        return decimals.fold(op, _as_float(a), _as_float(b))
    result = _fold_sizes(frame, op, x, y, span)
    ratio = op == "/" or (op not in ("//", "%") and (isinstance(a, Ratio) or isinstance(b, Ratio)))
    return Ratio(result) if ratio and result is not None else result


def _fold_sizes(frame: Frame, op: str, a: Size, b: Size, span: Span) -> Size | None:
    if op == "+":
        return tidy(a + b)
    if op == "-":
        return tidy(a - b)
    if op == "*":
        result = tidy(a * b)
        if isinstance(result, int) and abs(result) > 2**80:
            frame.report(kinds.SIZE_BOUND(Label(span), found=_shortened(result), limit=MAX_AXIS))
            return None
        return result
    if op == "//":
        return floor_div(a, b)
    if op == "%":
        return modulo(a, b)
    return quotient(a, b)


def is_mixed(expr: Expr | None) -> bool:
    """Is a value made of floats and open sizes alone, as `0.5 * N`?"""
    found, stack = False, [expr]
    while stack:
        match stack.pop():
            case Apply(op, args) if op in ("+", "-", "*", "/", "^", "neg"):
                found, stack = True, [*stack, *args]
            case Constant() | SizeValue():
                pass
            case _:
                return False
    return found


def without_point(frame: Frame, expr: Expr | None, whole: bool = True) -> str:
    """Advice for `K / 2.0` and `0.5 * K`, which are no sizes, and not known, as long as K is not known."""
    general = "sizes are whole: write the number without a point" if whole else ""
    match expr:
        case Apply("*", (Constant(number), SizeValue(size)) | (SizeValue(size), Constant(number))) if number:
            divisor = 1 / number
        case Apply("/", (SizeValue(size), Constant(number))):
            divisor = float(number)
        case _:
            return general
    if not divisor.is_integer() or divisor < 2:
        return general
    text = f"({frame.show(size)})" if isinstance(size, Polynomial) and size.is_Add else frame.show(size)
    if not whole:
        return f"write `{text} / {int(divisor)}`, a number made of sizes"
    return f"sizes are whole: write `{text} // {int(divisor)}`, which rounds down"


def _as_float(value: StaticValue) -> float:
    assert not isinstance(value, str)
    return float(value.value if isinstance(value, Ratio) else value)


def _power(scope: Scope, a: StaticValue, b: StaticValue, span: Span) -> StaticValue | None:
    frame, base = scope.frame, exact(a)
    if base is None or isinstance(b, float | Ratio) or (isinstance(b, int) and b < 0):
        try:
            value = math.pow(_as_float(a), _as_float(b))
        except (ValueError, OverflowError, ZeroDivisionError):
            frame.report(kinds.NUMBER_TOO_LARGE(Label(span), limit="1.797e308", found=span.text))
            return None
        return value
    if not isinstance(b, int) or (isinstance(base, Polynomial) and b > 8):
        number = f"{b}" if isinstance(b, int) else frame.show(b) if isinstance(b, Polynomial) else span.text
        power = f"float({frame.show(base)})^{number if number.isalnum() else f'({number})'}"
        frame.report(kinds.STATIC_NEEDED(Label(span), what="this power", help=f"write `{power}`, a float"))
        return None
    if isinstance(base, int) and abs(base).bit_length() * b > MAX_POWER_BITS:
        frame.report(kinds.SIZE_BOUND(Label(span), found=span.text, limit=MAX_AXIS))
        return None
    return Ratio(tidy(base**b)) if isinstance(a, Ratio) else tidy(base**b)


def _shortened(value: int) -> str:
    text = str(value)
    return text if len(text) < 30 else f"{text[:12]}... ({len(text)} digits)"


def as_size(scope: Scope, node: t.Expr, least: int | None = 1, what: str = "a size") -> Size | None:
    """An expression that must be a whole number known at compile time, or made of sizes."""
    val = rules.expression(scope, node)
    if val.poisoned:
        return None
    if val.static is None and isinstance(val.expr, SizeValue):
        val = Val(static=val.expr.size)
    if val.static is None and is_mixed(val.expr):
        help = without_point(scope.frame, val.expr)
        what = "this mix of a float and a size"
        scope.frame.report(kinds.STATIC_NEEDED(Label(node.span), what=what, help=help))
        return None
    if val.static is None or isinstance(val.static, str | bool):
        scope.frame.report(
            kinds.SIZE_EXPECTED(
                Label(node.span),
                what=what,
                found=elementwise.describe(scope.frame, val),
                help=_under_a_condition(scope, node) or wording.made_known(scope.frame, node),
            )
        )
        return None
    return check_size(scope, val.static, node, least, what)


def _under_a_condition(scope: Scope, node: t.Expr) -> str | None:
    """Advice where the range of an index should depend on another index, as in `prod[j: s](...)`."""
    if not isinstance(node, t.Name) or not scope.is_index(node.id):
        return None
    condition = f"`(... if j < {node.id} else 0)`, or `else 1` in a product"
    return f"let it run over the whole axis, under a condition: {condition}"


def check_setting(scope: Scope, value: object, node: t.Expr, what: str) -> Size | None:
    """A size that is given from outside of the spec."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        scope.frame.report(kinds.SIZE_EXPECTED(Label(node.span), what=what, found=f"the value {value!r}"))
        return None
    return check_size(scope, value, node, 1, what)


def check_size(
    scope: Scope, value: StaticValue, node: t.Expr, least: int | None = 1, what: str = "a size"
) -> Size | None:
    """Is a static number, the value of `node`, a whole number within bounds?"""
    frame, label = scope.frame, Label(node.span)
    if isinstance(value, float):
        if not value.is_integer() or abs(value) > 2**53:
            frame.report(kinds.SIZE_EXPECTED(label, what=what, found=f"the number {value}"))
            return None
        help = f"write `{int(value)}`"
        frame.report(kinds.SIZE_EXPECTED(label, what=what, found=f"the float {value}", help=help))
        return None
    number = exact(value)
    assert number is not None
    size: Size = tidy(number)
    facts = frame.facts
    if not facts.whole(size):
        assert isinstance(size, Polynomial)
        report_quotient(scope, node, size)
        return None
    size = facts.normal(size)
    if isinstance(size, int):
        if abs(size) > MAX_AXIS:
            frame.report(kinds.SIZE_BOUND(label, found=_shortened(size), limit=MAX_AXIS))
            return None
        if least is not None and size < least:
            frame.report(kinds.SIZE_TOO_SMALL(label, what=what, found=size, least=least))
            return None
    elif least is not None and not facts.nonnegative(tidy(size - least)):
        help = f"state it: `where {wording.inequality(frame, tidy(size - least))}`"
        frame.report(kinds.SIZE_MAY_BE_SMALL(label, what=what, found=show(size), least=least, help=help))
        return None
    return size


def report_quotient(scope: Scope, node: t.Expr, size: Polynomial) -> None:
    """`E / heads` that is no whole number, or not known to be one: by the names that the spec uses."""
    sides = size.as_numer_denom()
    a, b = (
        f"({scope.frame.show(x)})" if isinstance(x, Polynomial) and x.is_Add else scope.frame.show(x) for x in sides
    )
    rounded = f"{a} // {b}"
    if isinstance(node, t.Product) and node.factors[-1][0] == "/":
        *factors, (_, divisor) = node.factors
        dividend = factors[0][1] if len(factors) == 1 else t.Product(tuple(factors))
        values = [rules.expression(scope, x).static for x in (dividend, divisor)]
        text = print_node(t.Binary("%", dividend, divisor))  # with the parentheses that its sides need
        if text.count("%") == 1 and "\n" not in text:
            rounded = text.replace(" % ", " // ")
        sizes = [number for x in values if (number := exact(x)) is not None]
        if size.is_number and len(sizes) == 2:
            a, b = (scope.frame.show(x) for x in sizes)
        elif text.count("%") == 1 and "\n" not in text:
            a, b = text.split(" % ")
    help = f"write `{rounded}` to round down"
    scope.frame.report(wording.not_divisible(Label(node.span), a=a, b=b, size=size, help=help))

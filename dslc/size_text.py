"""Sizes in one order, and as text: as one writes them in a spec.

Expressions are looked at as data here, monomials and their coefficients, so that their class can print itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dslc.polynomials import Atom, Monomial, Number, Polynomial, Size

#: the monomial of numbers
ONE: Monomial = frozenset()

Key = tuple[Any, ...]


def order(e: Size) -> Key:
    """A key that puts expressions into one order: numbers, symbols, powers, products, sums, functions."""
    if isinstance(e, int):
        return 0, e
    if len(e.terms) > 1:
        return 4, len(e.terms), tuple(sorted(order(x) for x in e.parts()))
    ((monomial, c),) = e.terms.items()
    return term_order(monomial, c)


def term_order(monomial: Monomial, c: Number) -> Key:
    factors = [*([(0, c)] if c != 1 or not monomial else []), *sorted(power_order(a, k) for a, k in monomial)]
    return factors[0] if len(factors) == 1 else (3, len(factors), tuple(factors))


def power_order(a: Atom, exponent: int) -> Key:
    return atom_order(a) if exponent == 1 else (2, atom_order(a), exponent)


def atom_order(a: Atom) -> Key:
    if not a.args:
        return 1, a.name
    return order(a.args[0]) if a.name == "sum" else (5, a.name, tuple(order(x) for x in a.args))


def show(size: Size) -> str:
    """A size as one writes it in a spec.

    >>> from dslc.polynomials import Symbol, floor
    >>> show(floor((Symbol("N") + 2) / 2))
    'N // 2 + 1'
    """
    return _show(size, 0)


def _show(e: Size, level: int) -> str:
    """`level`: 0 anything, 1 inside a product, 2 inside a power."""
    if isinstance(e, int):
        return str(e)
    if len(e.terms) == 1:
        ((monomial, c),) = e.terms.items()
        return _show_term(monomial, c, level)
    e = _constant_in_floor(e)
    if len(e.terms) == 1:
        return _show(e, level)
    text = ""
    terms = sorted(e.terms.items(), key=lambda term: _place(*term))
    if terms[0][1] < 0 < terms[-1][1]:  # 64 - T
        terms.insert(0, terms.pop())
    for monomial, c in terms:
        if text:
            text += f" - {_show_term(monomial, -c, 1)}" if c < 0 else f" + {_show_term(monomial, c, 1)}"
        else:
            text = _show_term(monomial, c, 1)
    return _wrap(text, level > 0)


def _constant_in_floor(e: Polynomial) -> Polynomial:
    """(N + 7) // 2 for (N + 1) // 2 + 3: a number beside the only floor, which has another in it, stands in it too."""
    floors = [f for f in e.functions if f.name == "floor"]
    if len(floors) != 1 or ONE not in e.terms or e.terms.get(frozenset([(floors[0], 1)])) != 1:
        return e
    (argument,) = floors[0].args
    assert not isinstance(argument, int)
    if ONE not in argument.terms:
        return e
    moved = type(floors[0])("floor", (argument + e.terms[ONE],))
    kept = {m: c for m, c in e.terms.items() if m not in (ONE, frozenset([(floors[0], 1)]))}
    return type(e)({**kept, frozenset([(moved, 1)]): 1})


def _show_term(monomial: Monomial, c: Number, level: int) -> str:
    above = [(a, k) for a, k in monomial if k > 0]
    below = [(a, -k) for a, k in monomial if k < 0]
    if below or c.denominator != 1:
        text = f"{_show_product(c.numerator, above, 1)} / {_show_product(c.denominator, below, 2)}"
        return _wrap(text, level > 1)
    return _show_product(c.numerator, above, level)


def _show_product(number: int, factors: list[tuple[Atom, int]], level: int) -> str:
    if number < 0 and factors:
        bare = number == -1 and len(factors) == 1  # -(N // 2) is not (-N) // 2
        return _wrap(f"-{_show_product(-number, factors, 2 if bare else 1)}", level > 1)
    parts = [] if number == 1 and factors else [str(number)]
    if len(parts) + len(factors) == 1:
        return parts[0] if parts else _show_power(*factors[0], level)
    parts += [_show_power(a, k, 2) for a, k in sorted(factors, key=lambda factor: power_order(*factor))]
    return _wrap("*".join(parts), level > 1)


def _show_power(a: Atom, exponent: int, level: int) -> str:
    return _show_atom(a, level) if exponent == 1 else f"{_show_atom(a, 2)}^{exponent}"


def _show_atom(a: Atom, level: int) -> str:
    if not a.args:
        return a.name
    if a.name == "sum":
        return _show(a.args[0], 2)
    if a.name != "floor":
        return f"{a.name}({', '.join(_show(x, 0) for x in a.args)})"
    assert not isinstance(a.args[0], int)
    above, below = a.args[0].as_numer_denom()
    return _wrap(f"{_show_factored(above)} // {_show(below, 2)}", level > 1)


def _show_factored(e: Size) -> str:
    """`N*(M + 1)` for N M + N."""
    if isinstance(e, int) or len(e.terms) == 1:
        return _show(e, 1)
    first, *others = e.terms
    shared = frozenset((a, k) for a, n in first if (k := min([n, *(dict(m).get(a, 0) for m in others)])) > 0)
    if not shared:
        return _show(e, 1)
    number = math.gcd(*(c.numerator for c in e.terms.values()))
    outside = type(e)({shared: number})
    return f"{_show_product(number, list(shared), 1)}*{_show(e / outside, 2)}"


def _place(monomial: Monomial, c: Number) -> tuple[bool, bool, str]:
    """Where a term stands in a sum: numbers last (first if all else is negative), negative terms after positive
    ones, then by its text."""
    above, below = [str(abs(c.numerator))] if abs(c.numerator) != 1 else [], [str(c.denominator)][c.denominator == 1 :]
    for a, k in sorted(monomial, key=lambda factor: power_order(factor[0], 1)):
        text = a.name if not a.args else f"{a.name}({', '.join(map(show, a.args))})"
        (above if k > 0 else below).append(text if abs(k) == 1 else f"{text}**{abs(k)}")
    quotient = "*".join(below) if len(below) == 1 else f"({'*'.join(below)})"
    return not monomial, c < 0, ("*".join(above) or "1") + (f"/{quotient}" if below else "")


def _wrap(text: str, parentheses: bool) -> str:
    return f"({text})" if parentheses else text

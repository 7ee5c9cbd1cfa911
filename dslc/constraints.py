"""Sizes as linear constraints on whole numbers: every monomial is a variable, with what is known about its parts.

A symbol is at least 1. `q = n // d` means `d*q <= n <= d*q + d - 1`. A maximum is one of its arguments and not below
the others. A product of factors that are not below their bounds fulfils `(a - 1)*(b - 1) >= 0` and so on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable

from dslc.omega import Row, Work, impossible
from dslc.polynomials import Atom, Function, Monomial, Polynomial, Size, Symbol, surely_nonnegative, surely_positive

#: rows that one question may look at
MAX_ROWS = 3_000
#: products of more factors are only known not to be negative
MAX_FACTORS = 3


class Constraints:
    """Equations and inequalities between sizes, for one question.

    >>> T = Symbol("T"); c = Constraints(); c.not_negative(3 - T); c.not_negative(T - 4); c.impossible()
    True
    """

    def __init__(self, signed: Collection[Symbol] = (), least: Callable[[Atom], int] | None = None):
        #: symbols that may be 0 or negative
        self._signed = signed
        #: a number that a factor of a product is known not to be below
        self._least = least or (lambda a: 1 if isinstance(a, Symbol) else 0)
        self._equations: list[Row] = []
        self._inequalities: list[Row] = []
        self._choices: list[list[Row]] = []
        self._defined: set[Monomial] = set()
        self._waiting: list[Monomial] = []

    def zero(self, e: Size) -> None:
        row = self._row(e)
        if row is not None:
            self._equations.append(row)

    def not_negative(self, e: Size) -> None:
        row = self._row(e)
        if row is not None:
            self._inequalities.append(row)

    def not_zero(self, e: Size) -> None:
        self.one_not_negative(e - 1, -e - 1)

    def one_not_negative(self, *choices: Size) -> None:
        """At least one of these is not negative."""
        rows = [self._row(e) for e in choices]
        if None not in rows:
            self._choices.append([row for row in rows if row is not None])

    def impossible(self, work: Work | None = None) -> bool:
        """Can they be shown not to hold together?"""
        while self._waiting:
            self._define(self._waiting.pop())
        return impossible(self._equations, self._inequalities, self._choices, work or Work(MAX_ROWS))

    def _row(self, e: Size) -> Row | None:
        """A positive multiple of an expression as a row; None where its sign is not that of such a row."""
        if isinstance(e, int):
            return {None: e}
        if e.has_quotient():
            above, below = e.as_numer_denom()
            return self._row(above) if surely_positive(below) else None
        if not all(Polynomial({m: 1}).is_integer for m in e.terms if m):
            return None  # the maximum of two fractions is no whole number
        scale = math.lcm(*(c.denominator for c in e.terms.values()))
        row: dict[Hashable, int] = {}
        for m, c in e.terms.items():
            row[m or None] = int(c * scale)
            if m and m not in self._defined:
                self._defined.add(m)
                self._waiting.append(m)
        return row

    def _define(self, m: Monomial) -> None:
        """What is known about the value of a monomial."""
        (atom, exponent), *others = m
        if others or exponent != 1:
            self._define_product(m)
        elif isinstance(atom, Symbol):
            if atom not in self._signed:
                self.not_negative(atom - 1)
        elif atom.name == "floor":
            self._define_floor(atom)
        elif atom.name in ("max", "min"):
            sign, value = (1 if atom.name == "max" else -1), _alone(atom)
            for x in atom.args:
                self.not_negative((value - x) * sign)
            self.one_not_negative(*((x - value) * sign for x in atom.args))

    def _define_floor(self, f: Function) -> None:
        (argument,) = f.args
        assert isinstance(argument, Polynomial)
        above, below = argument.as_numer_denom()
        if surely_positive(below):
            rest = above - below * _alone(f)
            self.not_negative(rest)
            whole = isinstance(above, int) or above.is_integer
            self.not_negative(below - rest - (1 if whole else 0))
            if not isinstance(below, int):  # a product of unknown sign: the sign of the quotient is that of `above`
                value = _alone(f)
                self.one_not_negative(value, -above - 1 if whole else -above)
                self.one_not_negative(-value - 1, above)

    def _define_product(self, m: Monomial) -> None:
        factors = [a for a, k in m for _ in range(k)]
        if any(k < 0 for _, k in m) or not all(self._not_negative(a) for a in factors):
            return
        if len(factors) > MAX_FACTORS:
            self.not_negative(Polynomial({m: 1}))
            return
        product: Size = 1
        for a in factors:
            product = product * (_alone(a) - self._least(a))
        self.not_negative(product)

    def _not_negative(self, a: Atom) -> bool:
        if isinstance(a, Symbol):
            return a not in self._signed
        enough = any if a.name == "max" else all
        return a.name in ("floor", "max", "min") and enough(surely_nonnegative(x) for x in a.args)


def divides_always(d: int, e: Polynomial) -> bool:
    """Is a polynomial of symbols with whole coefficients a multiple of d for all their values? Residues decide.

    >>> N = Symbol("N"); divides_always(2, N * (N + 1))
    True
    """
    symbols = sorted(e.free_symbols, key=lambda s: s.name)
    if e.functions or e.has_quotient() or d ** len(symbols) > 500:
        return False
    return all(not _at(e, dict(zip(symbols, r, strict=True))) % d for r in _residues(d, len(symbols)))


def _residues(d: int, count: int) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for _ in range(count):
        found = [(*r, x) for r in found for x in range(d)]
    return found


def _at(e: Polynomial, values: dict[Symbol, int]) -> int:
    return sum(int(c) * math.prod(values[a] ** k for a, k in m if isinstance(a, Symbol)) for m, c in e.terms.items())


def _alone(a: Atom) -> Polynomial:
    return a if isinstance(a, Symbol) else Polynomial({frozenset([(a, 1)]): 1})

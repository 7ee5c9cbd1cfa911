"""Symbolic sizes: exact whole-number algebra, and the proofs that the checker asks for.

A size is an `int` or an expression over positive whole-number symbols (`polynomials.py`). Floor division is
`floor(a/b)`, exact division is plain division whose wholeness was proved. Nothing here parses text.

Every answer is "proved" or "not proved"; nothing is guessed. A proof of `e >= 0` replaces each symbol by its
lower bound plus a non-negative slack, bounds floors by their arguments, and asks that no coefficient of the
resulting polynomial be negative; known inequalities may be subtracted first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction

from dslc.polynomials import (
    Atom,
    Function,
    Monomial,
    Number,
    divide,
    floor,
    power_order,
    surely_nonnegative,
    surely_positive,
    weight,
)
from dslc.polynomials import Polynomial as Polynomial
from dslc.polynomials import Size as Size
from dslc.polynomials import Symbol as Symbol
from dslc.polynomials import TooComplex as TooComplex
from dslc.polynomials import extreme as extreme

#: No axis is longer, no tensor has more elements than this.
MAX_AXIS = 2**40
MAX_POWER_BITS = 200


#: Bounds on the algebra, so that no spec can make it run for long.
MAX_TERMS = 300
MAX_EXPONENT = 64
MAX_WORK = 30_000


class _Budget:
    left = math.inf


@contextmanager
def limited_work() -> Iterator[None]:
    """Give a check its share of work; what comes after it deals with sizes that were checked."""
    _Budget.left = MAX_WORK
    try:
        yield
    finally:
        _Budget.left = math.inf


def symbol(name: str) -> Symbol:
    """A size that is only known when the module runs.

    >>> symbol("N") + 1
    N + 1
    """
    return Symbol(name)


def tidy(size: Size) -> Size:
    """The same size, if it is within bounds."""
    if isinstance(size, Polynomial) and not size.is_Symbol:
        _Budget.left -= 1
        if _Budget.left < 0 or weight(size) > MAX_TERMS or any(k > MAX_EXPONENT for m in size.terms for _, k in m):
            raise TooComplex
    return size


def is_known(size: Size) -> bool:
    return isinstance(size, int)


def floor_div(a: Size, b: Size) -> Size:
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    return tidy(floor(divide(a, b)))


def modulo(a: Size, b: Size) -> Size:
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    return tidy(a - b * floor(divide(a, b)))


def quotient(a: Size, b: Size) -> Size:
    """`a / b` exactly; may be a fraction."""
    return tidy(divide(a, b))


# ---- printing ------------------------------------------------------------------------------------


def show(size: Size) -> str:
    """A size as one writes it in a spec.

    >>> N = symbol("N"); show(floor_div(N + 2, 2))
    'N // 2 + 1'
    """
    return _show(size, 0)


def _show(e: Size, level: int) -> str:
    """`level`: 0 anything, 1 inside a product, 2 inside a power."""
    if isinstance(e, int):
        return str(e)
    if isinstance(e, Symbol):
        return e.name
    if len(e.terms) == 1:
        ((monomial, c),) = e.terms.items()
        return _show_term(monomial, c, level)
    text = ""
    for monomial, c in sorted(e.terms.items(), key=lambda term: _place(*term)):
        body = _show_term(monomial, c if c > 0 else -c, 1)
        text += (f" - {body}" if c < 0 else f" + {body}") if text else (f"-{body}" if c < 0 else body)
    return _wrap(text, level > 0)


def _show_term(monomial: Monomial, c: Number, level: int) -> str:
    above = [(a, k) for a, k in monomial if k > 0]
    below = [(a, -k) for a, k in monomial if k < 0]
    if below or c.denominator != 1:
        text = f"{_show_product(c.numerator, above, 1)} / {_show_product(c.denominator, below, 2)}"
        return _wrap(text, level > 1)
    return _show_product(c.numerator, above, level)


def _show_product(number: int, factors: list[tuple[Atom, int]], level: int) -> str:
    if number < 0 and factors:
        return _wrap(f"-{_show_product(-number, factors, 1)}", level > 1)
    parts = [] if number == 1 and factors else [str(number)]
    if len(parts) + len(factors) == 1:
        return parts[0] if parts else _show_power(*factors[0], level)
    parts += [_show_power(a, k, 2) for a, k in sorted(factors, key=lambda factor: power_order(*factor))]
    return _wrap("*".join(parts), level > 1)


def _show_power(a: Atom, exponent: int, level: int) -> str:
    return _show_atom(a, level) if exponent == 1 else f"{_show_atom(a, 2)}^{exponent}"


def _show_atom(a: Atom, level: int) -> str:
    if isinstance(a, Symbol):
        return a.name
    if a.name == "sum":
        return _show(a.args[0], 2)
    if a.name != "floor":
        return f"{a.name}({', '.join(_show(x, 0) for x in a.args)})"
    assert isinstance(a.args[0], Polynomial)
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
    outside = Polynomial({shared: number})
    return f"{_show_product(number, list(shared), 1)}*{_show(divide(e, outside), 2)}"


def _place(monomial: Monomial, c: Number) -> tuple[bool, bool, str]:
    """Where a term stands in a sum: numbers last, negative terms after positive ones, else by its text."""
    above, below = [str(abs(c.numerator))] if abs(c.numerator) != 1 else [], [str(c.denominator)][c.denominator == 1 :]
    for a, k in sorted(monomial, key=lambda factor: power_order(factor[0], 1)):
        text = a.name if isinstance(a, Symbol) else f"{a.name}({', '.join(map(show, a.args))})"
        (above if k > 0 else below).append(text if abs(k) == 1 else f"{text}**{abs(k)}")
    quotient = "*".join(below) if len(below) == 1 else f"({'*'.join(below)})"
    return not monomial, c < 0, ("*".join(above) or "1") + (f"/{quotient}" if below else "")


def _wrap(text: str, parentheses: bool) -> str:
    return f"({text})" if parentheses else text


# ---- facts and proofs ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Multiple:
    """A symbol that is a multiple of something, with a fresh whole number as quotient."""

    symbol: Symbol
    replacement: Size
    #: whether the quotient is known to be positive, as symbols are
    positive: bool


@dataclass
class Facts:
    """What is known about the sizes of one definition.

    >>> E = symbol("E"); f = Facts(); f.assume_divides(8, E)
    True
    >>> f.whole(E / 8), f.whole(E / 16)
    (True, False)
    """

    #: symbols that were solved for (placeholders of a scan, equalities of a `where`)
    solved: dict[Symbol, Size] = field(default_factory=dict)
    #: expressions known to be >= 0
    nonnegatives: list[Size] = field(default_factory=list)
    multiples: list[Multiple] = field(default_factory=list)
    _proofs: dict[tuple[str, Size], bool] = field(default_factory=dict)

    def copy(self) -> Facts:
        return Facts(dict(self.solved), list(self.nonnegatives), list(self.multiples))

    # -- assumptions

    def assume_equal(self, a: Size, b: Size) -> bool:
        """Take `a == b` as given; False when that contradicts what is known."""
        difference = tidy(self.normal(a) - self.normal(b))
        if isinstance(difference, int):
            return difference == 0
        if self.nonnegative(difference - 1) or self.nonnegative(-difference - 1):
            return False
        self._proofs.clear()
        for s, sign, rest in _solvable(difference):
            self.solved[s] = tidy(-rest * sign)
            return True
        self.nonnegatives += [difference, -difference]
        return True

    def assume_nonnegative(self, e: Size) -> bool:
        """Take `e >= 0` as given; False when that contradicts what is known."""
        expr = self.normal(e)
        if self.nonnegative(-expr - 1):
            return False
        self.nonnegatives.append(expr)
        self._proofs.clear()
        return True

    def assume_divides(self, divisor: Size, e: Size) -> bool:
        """Take `e % divisor == 0` as given; False when that contradicts what is known."""
        expr, d = self.normal(e), self.normal(divisor)
        if isinstance(expr, int):
            return not isinstance(d, int) or expr % d == 0
        for s, sign, rest in _solvable(expr):
            if isinstance(d, int) and rest == 0:
                for known in self.multiples:
                    content = _number_before(known.replacement) if known.symbol == s else 1
                    d = math.lcm(d, content)
            quotient_symbol = Symbol(f"({s.name}/{d})")
            positive = sign == 1 and surely_nonnegative(rest)
            self.multiples.append(Multiple(s, tidy((d * quotient_symbol - rest) * sign), positive))
            self._proofs.clear()
            return True
        return True

    # -- questions

    def normal(self, e: Size) -> Size:
        """The same size with all that is known put in."""
        if isinstance(e, int):
            return e
        for _ in range(len(self.solved) + 1):
            if not (e.free_symbols & self.solved.keys()):
                break
            e = e.subs(self.solved)
            if isinstance(e, int):
                return e
        whole: dict[Atom, Size] = {f: f.args[0] for f in _functions(e) if f.name == "floor" and self._whole(f.args[0])}
        return tidy(e.replaced(whole))

    def equal(self, a: Size, b: Size) -> bool | None:
        """True: proved equal. False: proved different. None: not known."""
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        if a == b:
            return True
        difference = tidy(self.normal(a) - self.normal(b))
        if isinstance(difference, int):
            return difference == 0
        if self.nonnegative(difference - 1) or self.nonnegative(-difference - 1):
            return False
        for known in self.multiples:
            if difference.subs({known.symbol: known.replacement}) == 0:
                return True
        return None

    def whole(self, e: Size) -> bool:
        """Is `e` provably a whole number?"""
        return isinstance(e, int) or self._whole(self.normal(e))

    def _whole(self, e: Size) -> bool:
        key = ("whole", e)
        if key not in self._proofs:
            self._proofs[key] = self._prove_whole(e)
        return self._proofs[key]

    def _prove_whole(self, e: Size) -> bool:
        candidates = [e]
        for known in self.multiples:
            within = [c for c in candidates if isinstance(c, Polynomial) and known.symbol in c.free_symbols]
            candidates += [tidy(c.subs({known.symbol: known.replacement})) for c in within[:16]]
        return any(isinstance(c, int) or bool(c.is_integer) for c in candidates)

    def positive(self, e: Size) -> bool:
        return self.nonnegative(e - 1)

    def nonnegative(self, e: Size) -> bool:
        """Is `e >= 0` provable?"""
        expr = self.normal(e)
        if isinstance(expr, int):
            return expr >= 0
        key = ("nonnegative", expr)
        if key not in self._proofs:
            self._proofs[key] = self._prove_nonnegative(expr, 2)
        return self._proofs[key]

    def _prove_nonnegative(self, e: Size, uses: int) -> bool:
        if isinstance(e, int):
            return e >= 0
        tidy(e)
        if _no_negative_coefficient(e):
            return True
        floors = [f for f in e.functions if f.name == "floor"]
        if len(floors) == 1:
            (f,) = floors
            coefficient = e.coefficient(f)
            if surely_positive(coefficient):  # floor(n/d) >= k exactly when n >= k*d, for whole k
                rest = divide(e - coefficient * Polynomial({frozenset([(f, 1)]): 1}), coefficient)
                if not any(g.name == "floor" for g in _functions(rest)) and self._whole(rest):
                    assert isinstance(f.args[0], Polynomial)
                    numerator, denominator = f.args[0].as_numer_denom()
                    if self._prove_nonnegative(numerator + rest * denominator, uses):
                        return True
        multiples = {m.symbol: m.replacement for m in reversed(self.multiples) if m.positive}
        if multiples.keys() & e.free_symbols and _no_negative_coefficient(e.subs(multiples)):
            return True
        if uses and len(self.nonnegatives) > 20:
            uses = 1
        if uses:
            return any(self._prove_nonnegative(e - known, uses - 1) for known in self.nonnegatives)
        return False


def _solvable(e: Polynomial) -> list[tuple[Symbol, int, Size]]:
    """Ways to write an expression as `rest + s` or `rest - s` with a symbol s that is not in the rest."""
    found: list[tuple[Symbol, int, Size]] = []
    for s in sorted(e.free_symbols, key=lambda s: s.name):
        sign = e.coefficient(s)
        if sign == 1 or sign == -1:
            rest = e - s * sign
            if isinstance(rest, int) or s not in rest.free_symbols:
                found.append((s, int(sign), rest))
    return found


def _number_before(e: Size) -> int:
    """8 for `8*q`, 1 for a sum."""
    if isinstance(e, int) or len(e.terms) > 1:
        return 1
    (c,) = e.terms.values()
    return c if isinstance(c, int) else 1


def _functions(e: Size) -> set[Function]:
    """The functions in an expression, at all depths."""
    found: set[Function] = set()
    stack: list[Size] = [e]
    while stack:
        expr = stack.pop()
        if isinstance(expr, Polynomial):
            found |= expr.functions
            stack.extend(x for f in expr.functions for x in f.args)
    return found


def _no_negative_coefficient(e: Size) -> bool:
    """Lower bound by slack: each symbol is 1 + slack, each floor is bounded by its argument."""
    bound: Size | None = e
    while isinstance(bound, Polynomial):
        floors = [f for f in bound.functions if f.name == "floor"]
        if not floors:
            break
        bound = _without_floor(bound, min(floors, key=_function_order))
    if bound is None or isinstance(bound, int):
        return bound is not None and bound >= 0
    extremes = [f for f in bound.functions if f.name in ("max", "min")]
    if not extremes:
        return surely_nonnegative(bound)
    m = min(extremes, key=_function_order)
    coefficient = bound.coefficient(m)
    rest = bound - coefficient * Polynomial({frozenset([(m, 1)]): 1})
    side = (surely_positive(coefficient), surely_positive(-coefficient))[m.name == "min"]
    enough = any if side and m not in _functions(coefficient) | _functions(rest) else all
    return enough(_no_negative_coefficient(bound.replaced({m: a})) for a in m.args)


def _without_floor(e: Polynomial, f: Function) -> Size | None:
    """A lower bound of an expression, with an upper or lower bound in the place of a floor; None where both are needed.

    >>> N = symbol("N"); half = floor_div(N, 2); (f,) = half.functions
    >>> _without_floor(half + N, f), _without_floor(N - half, f)
    (3*N / 2 - 1 / 2, N / 2)
    """
    (argument,) = f.args
    assert isinstance(argument, Polynomial)
    numerator, d = argument.as_numer_denom()
    whole = isinstance(numerator, int) or numerator.is_integer
    low = argument - (Fraction(d - 1, d) if isinstance(d, int) and whole else 1)
    exponents = sorted({k for m in e.terms for a, k in m if a == f})
    if exponents != [1] and (exponents[0] < 0 or not surely_nonnegative(low)):
        return None  # powers only grow where the floor is not negative
    coefficients = {k: e.coefficient(f, k) for k in exponents}
    if all(surely_nonnegative(c) for c in coefficients.values()):
        bound: Size = low
    elif all(surely_nonnegative(-c) for c in coefficients.values()):
        bound = argument
    else:
        return None
    result: Size = e
    for k, c in coefficients.items():
        result = result - c * Polynomial({frozenset([(f, k)]): 1}) + c * bound**k
    return result


def _function_order(f: Function) -> tuple[object, ...]:
    return power_order(f, 1)

"""Symbolic sizes: exact whole-number algebra, and the proofs that the checker asks for.

A size is an `int` or an expression over positive whole-number symbols (`polynomials.py`). Floor division is
`floor(a/b)`, exact division is plain division whose wholeness was proved. Nothing here parses text.

Every answer is "proved" or "not proved"; nothing is guessed. A first proof of `e >= 0` replaces each symbol by its
lower bound plus a non-negative slack, bounds floors by their arguments, and asks that no coefficient of the
resulting polynomial be negative. Where that fails, `e < 0` and all that is known become linear constraints
(`constraints.py`), whose contradiction is a proof (`omega.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction

from dslc.constraints import MAX_ROWS, Constraints, divides_always
from dslc.omega import Work
from dslc.polynomials import (
    Atom,
    Function,
    divide,
    floor,
    surely_nonnegative,
    surely_positive,
    weight,
)
from dslc.polynomials import Polynomial as Polynomial
from dslc.polynomials import Size as Size
from dslc.polynomials import Symbol as Symbol
from dslc.polynomials import TooComplex as TooComplex
from dslc.polynomials import extreme as extreme
from dslc.size_text import power_order
from dslc.size_text import show as show

#: No axis is longer, no tensor has more elements than this.
MAX_AXIS = 2**40
MAX_POWER_BITS = 200


#: Bounds on the algebra, so that no spec can make it run for long.
MAX_TERMS = 300
MAX_EXPONENT = 64
MAX_WORK = 30_000
#: lower bounds of the factors of a product that are looked for
MAX_LEAST = 4
#: as many rows of a linear proof take about as long as a step of the algebra
ROWS_OF_A_STEP = 20


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


def estimate(size: Size, unknown: int = 64) -> float:
    """A size as a number, for comparing costs: what it is where all symbols have the same value.

    >>> estimate(symbol("N") + 1)
    65.0
    """
    return float(size) if isinstance(size, int) else float(size.subs(dict.fromkeys(size.free_symbols, unknown)))


def product(sizes: Iterable[Size]) -> Size:
    """How many entries there are along some axes.

    >>> product((2, symbol("N"), 3))
    6*N
    """
    count: Size = 1
    for size in sizes:
        count = tidy(count * size)
    return count


def about(sizes: Iterable[Size], unknown: int = 64) -> float:
    """About how many entries there are; none along an axis counts as one."""
    return math.prod(max(1.0, estimate(size, unknown)) for size in sizes)


def strides(shape: Sequence[Size]) -> list[Size]:
    """How far apart neighbours along each axis lie, in row-major order.

    >>> strides((2, 3, 4))
    [12, 4, 1]
    """
    found: list[Size] = []
    step: Size = 1
    for size in reversed(shape):
        found.append(step)
        step = tidy(step * size)
    return found[::-1]


def at_most(limit: int, sizes: Sequence[Size]) -> bool:
    """Is a product of sizes known, and no larger than that?

    >>> at_most(12, (3, 4)), at_most(12, (3, symbol("N")))
    (True, False)
    """
    known = [size for size in sizes if isinstance(size, int)]
    return len(known) == len(sizes) and math.prod(known) <= limit


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


# ---- facts and proofs ----------------------------------------------------------------------------


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
    #: expressions known to be >= 0, and to be 0
    nonnegatives: list[Size] = field(default_factory=list)
    zeros: list[Size] = field(default_factory=list)
    #: expressions known not to be 0
    nonzeros: list[Size] = field(default_factory=list)
    #: symbols with a multiple that they are equal to; the quotient is a fresh symbol
    multiples: list[tuple[Symbol, Size]] = field(default_factory=list)
    #: quotients that may be 0 or negative
    signed: list[Symbol] = field(default_factory=list)
    _proofs: dict[tuple[str, Size], bool] = field(default_factory=dict)

    def copy(self) -> Facts:
        known = (self.solved, self.nonnegatives, self.zeros, self.nonzeros, self.multiples, self.signed)
        return Facts(*(x.copy() for x in known))  # type: ignore[arg-type]

    # -- assumptions

    def assume_equal(self, a: Size, b: Size) -> bool:
        """Take `a == b` as given; False when that contradicts what is known."""
        difference = tidy(self.normal(a) - self.normal(b))
        if isinstance(difference, int):
            return difference == 0
        if self._never_zero(difference):
            return False
        self._proofs.clear()
        for s, sign, rest in _solvable(difference):
            self.solved[s] = tidy(-rest * sign)
            return True
        self.zeros.append(difference)
        return True

    def assume_different(self, a: Size, b: Size) -> bool:
        """Take `a != b` as given; False when that contradicts what is known."""
        if self.equal(a, b):
            return False
        self.nonzeros.append(tidy(a - b))
        self._proofs.clear()
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
        quotient_symbol = Symbol(f"({show(expr)})/({show(d)})")
        if not (surely_positive(expr) and surely_positive(d)):
            self.signed.append(quotient_symbol)
        for s, sign, rest in _solvable(expr):
            self.multiples.append((s, tidy((d * quotient_symbol - rest) * sign)))
            break
        else:
            self.zeros.append(tidy(expr - d * quotient_symbol))
        self._proofs.clear()
        return not self._constraints(expr).impossible()

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
        if any(c == 0 for c in self._in_multiples(difference)):
            return True
        if self._never_zero(difference):
            return False
        return True if self.nonnegative(difference) and self.nonnegative(-difference) else None

    def whole(self, e: Size) -> bool:
        """Is `e` provably a whole number?"""
        return isinstance(e, int) or self._whole(self.normal(e))

    def positive(self, e: Size) -> bool:
        return self.nonnegative(e - 1)

    def nonnegative(self, e: Size) -> bool:
        """Is `e >= 0` provable?"""
        expr = self.normal(e)
        if isinstance(expr, int):
            return expr >= 0
        return self._proved("nonnegative", expr, self._prove_nonnegative)

    # -- proofs

    def _proved(self, question: str, e: Size, prove: Callable[[Size], bool]) -> bool:
        key = (question, e)
        if key not in self._proofs:
            self._proofs[key] = prove(e)
        return self._proofs[key]

    def _whole(self, e: Size) -> bool:
        return self._proved("whole", e, self._prove_whole)

    def _never_zero(self, e: Size) -> bool:
        return self._proved("never zero", e, self._prove_never_zero)

    def _prove_whole(self, e: Size) -> bool:
        candidates = self._in_multiples(e)
        if any(isinstance(c, int) or c.is_integer for c in candidates):
            return True
        if not isinstance(e, Polynomial):
            return True
        above, d = e.as_numer_denom()
        if not isinstance(d, int) or not isinstance(above, Polynomial) or not above.is_integer:
            return False
        # a remainder of 1 to d - 1 is impossible
        return divides_always(d, above) or self._refuted(e, lambda c: _with_remainder(c, above, d))

    def _prove_never_zero(self, e: Size) -> bool:
        if self.nonnegative(e - 1) or self.nonnegative(-e - 1):
            return True
        return self._refuted(e, lambda c: c.zero(e))

    def _prove_nonnegative(self, e: Size) -> bool:
        assert isinstance(e, Polynomial)
        candidates = [
            c for c in self._in_multiples(tidy(e)) if isinstance(c, int) or c.free_symbols.isdisjoint(self.signed)
        ]
        return any(map(_no_negative_coefficient, candidates)) or self._refuted(e, lambda c: _below_zero(c, e))

    def _refuted(self, e: Size, claim: Callable[[Constraints], None], bound_factors: bool = True) -> bool:
        """Does a claim about the symbols of `e` contradict what is known?"""
        constraints = self._constraints(e, bound_factors)
        claim(constraints)
        work = Work(MAX_ROWS)
        refuted = constraints.impossible(work)
        _Budget.left -= (MAX_ROWS - work.left) / ROWS_OF_A_STEP
        return refuted

    def _constraints(self, e: Size, bound_factors: bool = True) -> Constraints:
        """All that is known about sizes that have to do with those of an expression."""
        constraints = Constraints(self.signed, self._least if bound_factors else None)
        zeros = [s - value for s, value in (*self.solved.items(), *self.multiples)] + self.zeros
        known = [*((z, constraints.zero) for z in zeros), *((x, constraints.not_negative) for x in self.nonnegatives)]
        known += [(x, constraints.not_zero) for x in self.nonzeros]
        symbols = set() if isinstance(e, int) else set(e.free_symbols)
        while True:
            near = [(x, state) for x, state in known if isinstance(x, Polynomial) and x.free_symbols & symbols]
            if not near:
                return constraints
            for x, state in near:
                state(x)
                symbols |= x.free_symbols
            known = [k for k in known if k not in near]

    def _least(self, a: Atom) -> int:
        """A number that a factor of a product is known not to be below; a small one will do."""
        value = a if isinstance(a, Symbol) else Polynomial({frozenset([(a, 1)]): 1})
        least = 1 if isinstance(a, Symbol) else 0
        while least < MAX_LEAST and self._proved("least", value - least - 1, self._prove_least):
            least += 1
        return least

    def _prove_least(self, e: Size) -> bool:
        """Is `e >= 0` provable without looking for lower bounds of factors in turn?"""
        assert isinstance(e, Polynomial)
        return self._refuted(e, lambda c: _below_zero(c, e), bound_factors=False)

    def _in_multiples(self, e: Size) -> list[Size]:
        """An expression with multiples in the place of symbols: in all ways, as long as they are few."""
        candidates = [e]
        for s, multiple in self.multiples:
            within = [c for c in candidates if isinstance(c, Polynomial) and s in c.free_symbols]
            candidates += [tidy(c.subs({s: multiple})) for c in within[:16]]
        return candidates


def _below_zero(c: Constraints, e: Polynomial) -> None:
    """`e < 0`: a whole multiple of it is at most -1; where there is none, `e <= 0` follows."""
    above, below = e.as_numer_denom()
    whole = isinstance(above, int) or above.is_integer
    c.not_negative(-above - 1 if whole and surely_positive(below) else -e)


def _with_remainder(c: Constraints, e: Polynomial, d: int) -> None:
    """`e % d > 0`"""
    q = floor(divide(e, d))
    c.not_negative(e - d * q - 1)


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

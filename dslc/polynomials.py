"""Exact algebra of sizes: polynomials in positive whole numbers, with quotients, floors, maxima and minima.

    N/2 + 3*M*(N // 2) - 1      is      {N: 1/2, M*floor(N/2): 3, 1: -1}

An expression is always multiplied out: a dictionary from monomials to rational coefficients, so that equal polynomials
are equal objects. A whole number is an `int` and never an expression. A monomial is a set of atoms with their
exponents; an atom is a symbol or a function of expressions. A quotient by a sum is a monomial with the atom `sum` to
the power -1; common factors of such quotients are found by SymPy, which is imported for nothing else, since its import
takes longer than the rest of a compilation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Union

from dslc.size_text import ONE as ONE
from dslc.size_text import atom_order, order, show, term_order

Number = Union[int, Fraction]
Atom = Union["Symbol", "Function"]
Monomial = frozenset[tuple[Atom, int]]
Terms = dict[Monomial, Number]
Size = Union[int, "Polynomial"]

#: quotients with more terms than this keep their common factors
MAX_CANCELLED_TERMS = 40
#: a product of sums takes no more products of their terms
MAX_PRODUCTS = 20_000
#: a proof looks at no more terms
MAX_SHIFTED = 5_000


class TooComplex(Exception):
    """The sizes of a spec are more complicated than the bounds allow."""


class Polynomial:
    """A sum of monomials with rational coefficients that is no whole number; build it with operators.

    >>> N, M = Symbol("N"), Symbol("M")
    >>> (N + 1) * (M - 1) - N * M
    M - N - 1
    >>> N - N + 1
    1
    """

    def __init__(self, terms: Terms):
        self.terms = terms

    @cached_property
    def _hash(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(other) is Polynomial and self._hash == other._hash and self.terms == other.terms

    def __repr__(self) -> str:
        return show(self)

    # -- arithmetic

    def __add__(self, other: Size | Fraction) -> Size:
        terms = _terms(other)
        if terms is None:
            return NotImplemented
        first, second = (self.terms, terms) if len(self.terms) >= len(terms) else (terms, self.terms)
        result = dict(first)
        for monomial, c in second.items():
            _accumulate(result, monomial, c)
        return _made(result)

    __radd__ = __add__

    def __neg__(self) -> Size:
        return _made({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Size | Fraction) -> Size:
        return self + other * -1

    def __rsub__(self, other: int) -> Size:
        return self * -1 + other

    def __mul__(self, other: Size | Fraction) -> Size:
        if isinstance(other, int | Fraction):
            return _made({m: _plain(c * other) for m, c in self.terms.items()} if other else {})
        if not isinstance(other, Polynomial):
            return NotImplemented
        if len(self.terms) * len(other.terms) > MAX_PRODUCTS:
            raise TooComplex
        result: Terms = {}
        for m, c in self.terms.items():
            for n, d in other.terms.items():
                _accumulate(result, _product(m, n), c * d)
        return _made(result)

    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> Size:
        if exponent < 0:
            return divide(1, self**-exponent)
        result: Size = 1
        for _ in range(exponent):
            result = result * self
        return result

    def __truediv__(self, other: Size) -> Size:
        return divide(self, other) if isinstance(other, int | Polynomial) else NotImplemented

    def __rtruediv__(self, other: int) -> Size:
        return divide(other, self)

    def __float__(self) -> float:
        return float(sum(float(c) * math.prod(float(a) ** k for a, k in m) for m, c in self.terms.items()))

    def __int__(self) -> int:
        return int(self.terms[ONE]) if self.terms.keys() == {ONE} else int(float(self))

    # -- questions

    @property
    def is_Symbol(self) -> bool:
        return False

    @property
    def is_Add(self) -> bool:
        return len(self.terms) > 1

    @cached_property
    def free_symbols(self) -> frozenset[Symbol]:
        return frozenset(s for m in self.terms for a, _ in m for s in a.free_symbols)

    @property
    def is_number(self) -> bool:
        return not self.free_symbols

    @property
    def is_nonnegative(self) -> bool:
        return surely_nonnegative(self)

    @property
    def is_integer(self) -> bool | None:
        """Whether it is whole for all values of its symbols, as far as that can be seen."""
        fractions = [m for m, c in self.terms.items() if not (isinstance(c, int) and _is_whole(m))]
        return True if not fractions else False if fractions == [ONE] else None

    @cached_property
    def functions(self) -> frozenset[Function]:
        """The floors, maxima and so on that it is a polynomial of."""
        return frozenset(a for m in self.terms for a, _ in m if isinstance(a, Function))

    def has_quotient(self) -> bool:
        return any(k < 0 for m in self.terms for _, k in m)

    def parts(self) -> list[Size]:
        """Its terms, as expressions."""
        return [_made({m: c}) for m, c in self.terms.items()]

    def coefficient(self, atom: Atom, exponent: int = 1) -> Size:
        """What stands before a power of an atom.

        >>> N, M = Symbol("N"), Symbol("M"); (N * M + 2 * N + M).coefficient(N)
        M + 2
        """
        factor = (atom, exponent)
        return _made({m - {factor}: c for m, c in self.terms.items() if factor in m})

    def as_numer_denom(self) -> tuple[Size, Size]:
        """Numerator and denominator, both without quotients; common factors of several terms stay.

        >>> N = Symbol("N"); ((N + 1) / 2).as_numer_denom()
        (N + 1, 2)
        """
        scale = math.lcm(*(c.denominator for c in self.terms.values()))
        lowest: dict[Atom, int] = {}
        for m in self.terms:
            for a, k in m:
                if k < lowest.get(a, 0):
                    lowest[a] = k
        monomial = frozenset((a, -k) for a, k in lowest.items() if not a.is_sum)
        below: Size = _made({monomial: scale})
        sums = [a for a in lowest if a.is_sum]
        for a in sums:
            below = below * _argument(a)
        above: Size = 0
        for m, c in self.terms.items():
            term = _made({_product(m - {(a, -1) for a in sums}, monomial): _plain(c * scale)})
            for a in sums:
                if (a, -1) not in m:
                    term = term * _argument(a)
            above = above + term
        return above, below

    # -- replacing

    def subs(self, values: Mapping[Symbol, Size]) -> Size:
        """With other sizes for some symbols."""
        return self.replaced({s: v for s, v in values.items() if s in self.free_symbols})

    def replaced(self, values: Mapping[Atom, Size]) -> Size:
        """With other sizes for some atoms, at all depths."""
        if not values:
            return self
        new: dict[Atom, Size | Fraction] = {}
        result: Size | Fraction = 0
        for m, c in self.terms.items():
            term: Size | Fraction = c
            for a, k in m:
                if a not in new:
                    new[a] = values[a] if a in values else a.rebuilt(values)
                value = new[a]
                if k < 0 and isinstance(value, int):
                    value, k = 1 / Fraction(value), -k
                term = term * value**k
            result = result + term
        return _lifted(result)


class Symbol(Polynomial):
    """A positive whole number that is only known when the module runs."""

    def __init__(self, name: str):
        self.name = name
        super().__init__({frozenset([(self, 1)]): 1})

    @cached_property
    def _hash(self) -> int:
        return hash(self.name)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Symbol) and self.name == other.name)

    @property
    def is_Symbol(self) -> bool:
        return True

    @cached_property
    def free_symbols(self) -> frozenset[Symbol]:
        return frozenset([self])

    def __float__(self) -> float:
        raise TypeError(f"the size {self.name} is not known")

    #: as a function of nothing
    args: tuple[Size, ...] = ()
    #: how many terms stand inside of it
    weight = 0
    is_sum = False

    def rebuilt(self, values: Mapping[Atom, Size]) -> Size:
        return self


class Function:
    """`floor`, `max`, `min` or `log2` of expressions; `sum` is a sum that divides something."""

    def __init__(self, name: str, args: tuple[Size, ...]):
        self.name = name
        self.args = args
        self.is_sum = name == "sum"
        inside = [e for e in args if isinstance(e, Polynomial)]
        self.free_symbols: frozenset[Symbol] = frozenset(s for e in inside for s in e.free_symbols)
        self.weight: int = sum(weight(e) for e in args)
        self._hash = hash((name, args))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Function) and self.name == other.name and self.args == other.args

    def __float__(self) -> float:
        values = [float(a) for a in self.args]
        match self.name:
            case "floor":
                return math.floor(values[0])
            case "log2":
                return math.log2(values[0])
            case "min":
                return min(values)
        return max(values)

    def rebuilt(self, values: Mapping[Atom, Size]) -> Size:
        """Itself, with replacements in its arguments."""
        args = [a.replaced(values) if isinstance(a, Polynomial) else a for a in self.args]
        match self.name:
            case "floor":
                return floor(args[0])
            case "log2":
                return log2(args[0])
            case "sum":
                return args[0]
        return extreme(self.name, args)


# ---- construction --------------------------------------------------------------------------------


def _terms(e: Size | Fraction) -> Terms | None:
    if isinstance(e, Polynomial):
        return e.terms
    if isinstance(e, int | Fraction):
        return {ONE: e} if e else {}
    return None


def _plain(c: Number) -> Number:
    return c.numerator if c.denominator == 1 else c


def _lifted(e: Size | Fraction) -> Size:
    """A number is an `int` or an expression."""
    return e if isinstance(e, int | Polynomial) else _made({ONE: _plain(e)} if e else {})


def _accumulate(terms: Terms, monomial: Monomial, c: Number) -> None:
    total = terms.get(monomial, 0) + c
    if total:
        terms[monomial] = _plain(total)
    else:
        terms.pop(monomial, None)


def _made(terms: Terms) -> Size:
    """The expression of these terms (none of them 0): a whole number or a symbol is itself."""
    if len(terms) < 2:
        if not terms:
            return 0
        ((monomial, c),) = terms.items()
        if not monomial and isinstance(c, int):
            return c
        if c == 1 and len(monomial) == 1:
            ((atom, exponent),) = monomial
            if exponent == 1 and isinstance(atom, Symbol):
                return atom
    if any(a.is_sum for m in terms for a, _ in m):
        return _cancelled(terms)
    return Polynomial(terms)


def _product(m: Monomial, n: Monomial) -> Monomial:
    if not m or not n:
        return m or n
    exponents = dict(m)
    for a, k in n:
        both = exponents.get(a, 0) + k
        if both:
            exponents[a] = both
        else:
            del exponents[a]
    sums = [a for a in exponents if a.is_sum]
    if len(sums) > 1 or any(exponents[a] < -1 for a in sums):
        divisor: Size = 1
        for a in sums:
            divisor = divisor * _argument(a) ** -exponents.pop(a)
        exponents[Function("sum", (divisor,))] = -1
    return frozenset(exponents.items())


def divide(a: Size, b: Size) -> Size:
    """`a / b` exactly; it need not be whole.

    >>> divide(6, 3), divide(1, 2)
    (2, 1 / 2)
    """
    return a * _lifted(1 / Fraction(b)) if isinstance(b, int) else a * _inverse(b)


def _inverse(e: Polynomial) -> Size:
    if len(e.terms) == 1:
        ((monomial, c),) = e.terms.items()
        sums = [a for a, _ in monomial if a.is_sum]
        result = _made({frozenset((a, -k) for a, k in monomial if a not in sums): _plain(1 / Fraction(c))})
        for a in sums:
            result = result * _argument(a)
        return result
    # 1/(2 N^2 + 2 N) = 1/(2 N) * 1/(N + 1): one form for all multiples of a sum
    content = _content(e)
    primitive = divide(e, content)
    assert isinstance(primitive, Polynomial)
    return Polynomial({frozenset([(Function("sum", (primitive,)), -1)]): 1}) * divide(1, content)


def _content(e: Polynomial) -> Size:
    """The factor that all terms share, numbers and atoms; the first term without it is positive."""
    coefficients = list(e.terms.values())
    number = Fraction(math.gcd(*(c.numerator for c in coefficients)), math.lcm(*(c.denominator for c in coefficients)))
    first = min(e.terms, key=lambda m: term_order(m, 1))
    least = {a: min(dict(m).get(a, 0) for m in e.terms) for a, _ in first}
    shared = frozenset((a, k) for a, k in least.items() if k)
    return _made({shared: _plain(number if e.terms[first] > 0 else -number)})


def _argument(a: Atom) -> Polynomial:
    assert isinstance(a, Function)
    (argument,) = a.args
    assert isinstance(argument, Polynomial)
    return argument


def _cancelled(terms: Terms) -> Size:
    """Quotients by sums without the factors that dividend and divisor share."""
    quotients: dict[Atom, Terms] = {}
    for m, c in terms.items():
        for a, _ in m:
            if a.is_sum:
                quotients.setdefault(a, {})[m - {(a, -1)}] = c
    for divisor, dividend in quotients.items():
        reduced = _without_common_factor(frozenset(dividend.items()), frozenset(_argument(divisor).terms.items()))
        if reduced is not None:
            rest = {m: c for m, c in terms.items() if (divisor, -1) not in m}
            return _made(rest) + divide(_made(reduced[0]), _made(reduced[1]))
    return Polynomial(terms)


Items = frozenset[tuple[Monomial, Number]]


@lru_cache(maxsize=1000)
def _without_common_factor(above: Items, below: Items) -> tuple[Terms, Terms] | None:
    """Both without their greatest common divisor; None if that is 1, or if there are too many terms to look."""
    found = {a for m, _ in above for a, _ in m}
    atoms = {a for m, _ in below for a, _ in m}
    if len(above) == 1 or len(above) + len(below) > MAX_CANCELLED_TERMS or not atoms & found:
        return None
    import sympy

    generators = sorted(atoms | found, key=atom_order)
    lowest = [min(0, *(dict(m).get(a, 0) for m, _ in above)) for a in generators]
    zero = [0] * len(generators)
    symbols = sympy.symbols(f"x:{len(generators)}")

    def polynomial(terms: Items, least: list[int]) -> Any:
        powers = {
            tuple(dict(m).get(a, 0) - k for a, k in zip(generators, least, strict=True)): sympy.Rational(
                c.numerator, c.denominator
            )
            for m, c in terms
        }
        return sympy.Poly.from_dict(powers, *symbols, domain="QQ")

    def back(polynomial: Any, least: list[int]) -> Terms:
        return {
            frozenset((a, k + j) for a, k, j in zip(generators, powers, least, strict=True) if k + j): _plain(
                Fraction(int(c.p), int(c.q))
            )
            for powers, c in polynomial.terms()
        }

    dividend, divisor = polynomial(above, lowest), polynomial(below, zero)
    shared = sympy.gcd(dividend, divisor)
    return None if shared.is_ground else (back(dividend.quo(shared), lowest), back(divisor.quo(shared), zero))


# ---- functions -----------------------------------------------------------------------------------


def floor(e: Size) -> Size:
    """The whole number below, in one form: whole multiples leave the floor, and a floor in it is not rounded twice.

    >>> N = Symbol("N"); floor((N + 2) / 2), floor((3*N - 1) / 2), floor((floor(N / 2) + 1) / 3)
    (N // 2 + 1, N + (N - 1) // 2, (N + 2) // 6)
    """
    if isinstance(e, int):
        return e
    whole: Terms = {m: k for m, c in e.terms.items() if _is_whole(m) and (k := int(c) if m else math.floor(c))}
    if whole:
        return _made(whole) + floor(e - _made(whole))
    if e.terms.keys() == {ONE}:
        return 0
    d = math.lcm(*(c.denominator for c in e.terms.values()))
    multiple = e * d
    if d > 1 and isinstance(multiple, Polynomial) and multiple.is_integer:
        # (x // a + n) / d rounds down to the same as (x / a + n) / d
        for f in e.functions:
            if f.name == "floor" and e.terms.get(frozenset([(f, 1)])) == Fraction(1, d):
                return floor(e - (_applied("floor", f.args) - f.args[0]) * Fraction(1, d))
    return _applied("floor", (e,))


def extreme(name: str, values: Iterable[Size]) -> Size:
    """`max` or `min`, without values that another one is known to surpass.

    >>> N = Symbol("N"); extreme("max", [3, N, N + 1]), extreme("min", [1, N])
    (max(3, N + 1), 1)
    """
    sign = 1 if name == "max" else -1
    kept: list[Size] = []
    for value in _flattened(name, values):
        if not any(surely_nonnegative(sign * (k - value)) for k in kept):
            kept = [k for k in kept if not surely_nonnegative(sign * (value - k))] + [value]
    return kept[0] if len(kept) == 1 else _applied(name, tuple(sorted(kept, key=order)))


def log2(e: Size) -> Size:
    if isinstance(e, int) and e.bit_count() == 1:
        return e.bit_length() - 1
    return _applied("log2", (e,))


def _applied(name: str, args: tuple[Size, ...]) -> Polynomial:
    return Polynomial({frozenset([(Function(name, args), 1)]): 1})


def _flattened(name: str, values: Iterable[Size]) -> Iterator[Size]:
    for value in values:
        f = sole_function(value)
        yield from f.args if f is not None and f.name == name else (value,)


def sole_function(e: Size) -> Function | None:
    """The function when an expression is nothing but that."""
    if isinstance(e, int) or len(e.terms) != 1:
        return None
    ((monomial, c),) = e.terms.items()
    if c != 1 or len(monomial) != 1:
        return None
    ((atom, exponent),) = monomial
    return atom if isinstance(atom, Function) and exponent == 1 else None


# ---- what can be seen without facts --------------------------------------------------------------


def _is_whole(monomial: Monomial) -> bool:
    """Is a product of atoms whole?"""
    for a, k in monomial:
        if k < 0:
            return False
        if isinstance(a, Function) and a.name != "floor":
            if a.name not in ("max", "min") or not all(isinstance(x, int) or x.is_integer for x in a.args):
                return False
    return True


def surely_nonnegative(e: Size) -> bool:
    """No coefficient is negative when each symbol is written as 1 + what it is more than 1."""
    if isinstance(e, int):
        return e >= 0
    if not all(_surely_nonnegative_atom(a) for a in e.functions):
        return False
    if all(c >= 0 for c in e.terms.values()):
        return True
    if e.has_quotient():
        above, below = e.as_numer_denom()
        return surely_positive(below) and surely_nonnegative(above)
    shifted = _shifted(e)
    return shifted is not None and all(c >= 0 for c in shifted.values())


def surely_positive(e: Size) -> bool:
    """Not negative, and more than 0 when each symbol is 1."""
    if isinstance(e, int):
        return e > 0
    if e.has_quotient():
        above, below = e.as_numer_denom()
        return surely_positive(below) and surely_positive(above)
    shifted = _shifted(e)
    return shifted is not None and shifted.get(ONE, 0) > 0 and surely_nonnegative(e)


def _shifted(e: Polynomial) -> Terms | None:
    """The terms of a polynomial with 1 more in the place of each symbol, if they are not too many to look at.

    Functions count as symbols from 0.
    """
    if sum(math.prod(k + 1 for _, k in m) for m in e.terms) > MAX_SHIFTED:
        return None
    result: Terms = {}
    for m, c in e.terms.items():
        term: Size = _made({frozenset((a, k) for a, k in m if isinstance(a, Function)): c})
        for a, k in m:
            if isinstance(a, Symbol):
                term = term * (a + 1) ** k
        for n, d in (_terms(term) or {}).items():
            _accumulate(result, n, d)
    return result


def _surely_nonnegative_atom(a: Function) -> bool:
    enough = any if a.name == "max" else all
    return enough(surely_nonnegative(x) for x in a.args)


def weight(e: Size) -> int:
    """How many terms it has, those inside of functions included."""
    return 1 if isinstance(e, int) else sum(1 + sum(a.weight for a, _ in m) for m in e.terms)

"""Symbolic sizes: exact whole-number algebra over SymPy, and the proofs that the checker asks for.

A size is an `int` or a SymPy expression over positive whole-number symbols. Floor division is `floor(a/b)`,
exact division is plain division whose wholeness was proved. Nothing here parses text.

Every answer is "proved" or "not proved"; nothing is guessed. A proof of `e >= 0` replaces each symbol by its
lower bound plus a non-negative slack, bounds floors by their arguments, and asks that no coefficient of the
resulting polynomial be negative; known inequalities may be subtracted first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Union

import sympy as sp

Size = Union[int, sp.Expr]

#: No axis is longer, no tensor has more elements than this.
MAX_AXIS = 2**40
MAX_POWER_BITS = 200


#: Bounds on the algebra, so that no spec can make it run for long.
MAX_TERMS = 300
MAX_QUOTIENTS = 8
MAX_WORK = 30_000


class TooComplex(Exception):
    """The sizes of a spec are more complicated than the bounds allow."""


class _Budget:
    left = MAX_WORK


def start_work() -> None:
    """Give a new check its full share of work."""
    _Budget.left = MAX_WORK


def _terms(e: sp.Basic) -> int:
    """How many terms an expression has when it is multiplied out, at most."""
    if isinstance(e, sp.Add):
        return min(MAX_TERMS + 1, sum(_terms(a) for a in e.args))
    if isinstance(e, sp.Mul):
        product = len(e.args) // 20 + 1
        for a in e.args:
            product = min(MAX_TERMS + 1, product * _terms(a))
        return product
    if isinstance(e, sp.Pow):
        exponent = abs(int(e.exp)) if e.exp.is_Integer else 1
        if exponent > 64:
            return MAX_TERMS + 1
        base = _terms(e.base)
        return 1 if base == 1 else min(MAX_TERMS + 1, base ** min(exponent, 10))
    return min(MAX_TERMS + 1, 1 + sum(_terms(a) for a in e.args))


def _expand(e: sp.Basic | int) -> sp.Expr:
    """Multiply out, within bounds."""
    expr = sp.sympify(e, strict=True)
    _Budget.left -= 1
    if _Budget.left < 0 or _terms(expr) > MAX_TERMS:
        raise TooComplex
    return sp.expand(expr)


def _together(e: sp.Basic) -> sp.Expr:
    """One quotient, within bounds."""
    if sum(p.exp.is_negative is True for p in e.atoms(sp.Pow)) > MAX_QUOTIENTS or _terms(e) > MAX_TERMS:
        raise TooComplex
    return sp.together(e)


def symbol(name: str) -> sp.Symbol:
    """A size that is only known when the module runs.

    >>> symbol("N") + 1
    N + 1
    """
    return sp.Symbol(name, integer=True, positive=True)


def tidy(size: Size | sp.Basic) -> Size:
    """Plain `int` where possible."""
    if isinstance(size, int):
        return size
    expr = _expand(size)
    return int(expr) if expr.is_Integer else expr


def is_known(size: Size) -> bool:
    return isinstance(size, int)


def floor_div(a: Size, b: Size) -> Size:
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    return tidy(sp.floor(sp.sympify(a, strict=True) / b))


def modulo(a: Size, b: Size) -> Size:
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    return tidy(a - b * sp.floor(sp.sympify(a, strict=True) / b))


def quotient(a: Size, b: Size) -> Size | sp.Expr:
    """`a / b` exactly; may be a fraction."""
    if isinstance(a, int) and isinstance(b, int) and a % b == 0:
        return a // b
    return tidy(sp.sympify(a, strict=True) / b)


# ---- printing ------------------------------------------------------------------------------------


def show(size: Size | sp.Basic) -> str:
    """A size as one writes it in a spec.

    >>> N = symbol("N"); show(floor_div(N + 2, 2))
    'N // 2 + 1'
    """
    return _show(sp.sympify(size, strict=True), 0)


def _show(e: sp.Basic, level: int) -> str:
    """`level`: 0 anything, 1 inside a product, 2 inside a power."""
    if isinstance(e, sp.Symbol):
        return str(e.name)
    if isinstance(e, sp.Add):
        terms = sorted(e.args, key=lambda a: (a.is_number, bool(a.could_extract_minus_sign()), str(a)))
        text = ""
        for term in terms:
            negative = term.could_extract_minus_sign()
            body = _show(-term if negative else term, 1)
            text += (f" - {body}" if negative else f" + {body}") if text else (f"-{body}" if negative else body)
        return f"({text})" if level > 0 else text
    if isinstance(e, sp.Mul):
        numerator, denominator = e.as_numer_denom()
        if denominator != 1:
            text = f"{_show(numerator, 1)} / {_show(denominator, 2)}"
        elif e.could_extract_minus_sign():
            text = f"-{_show(-e, 1)}"
        else:
            text = "*".join(_show(a, 2) for a in e.args)
        return f"({text})" if level > 1 else text
    if isinstance(e, sp.Pow):
        if e.exp.is_number and e.exp < 0:
            return _wrap(f"1 / {_show(1 / e, 2)}", level > 1)
        return f"{_show(e.base, 2)}^{_show(e.exp, 2)}"
    if isinstance(e, sp.floor):
        numerator, denominator = _together(e.args[0]).as_numer_denom()
        return _wrap(f"{_show(numerator, 1)} // {_show(denominator, 2)}", level > 1)
    if isinstance(e, (sp.Max, sp.Min)):
        name = "max" if isinstance(e, sp.Max) else "min"
        return f"{name}({', '.join(_show(a, 0) for a in e.args)})"
    if isinstance(e, sp.Rational) and not e.is_Integer:
        return _wrap(f"{e.p} / {e.q}", level > 1)
    return str(e)


def _wrap(text: str, parentheses: bool) -> str:
    return f"({text})" if parentheses else text


# ---- facts and proofs ----------------------------------------------------------------------------


@dataclass
class Facts:
    """What is known about the sizes of one definition.

    >>> E = symbol("E"); f = Facts(); f.assume_divides(8, E); f.whole(E / 8)
    True
    >>> f.whole(E / 16)
    False
    """

    #: symbols that were solved for (placeholders of a scan, equalities of a `where`)
    solved: dict[sp.Symbol, Size] = field(default_factory=dict)
    #: expressions known to be >= 0
    nonnegatives: list[sp.Expr] = field(default_factory=list)
    #: symbol -> what it is a multiple of: (symbol, replacement with a fresh whole quotient)
    multiples: list[tuple[sp.Symbol, sp.Expr]] = field(default_factory=list)
    _proofs: dict[tuple[str, sp.Basic], bool] = field(default_factory=dict)

    def copy(self) -> Facts:
        return Facts(dict(self.solved), list(self.nonnegatives), list(self.multiples))

    # -- assumptions

    def assume_equal(self, a: Size, b: Size) -> bool:
        """Take `a == b` as given; False when that contradicts what is known."""
        difference = sp.sympify(self.normal(a), strict=True) - self.normal(b)
        difference = _expand(difference)
        if difference == 0:
            return True
        if self.nonnegative(difference - 1) or self.nonnegative(-difference - 1):
            return False
        for s in sorted(difference.free_symbols, key=lambda s: s.name):
            coefficient = difference.coeff(s)
            rest = _expand(difference - coefficient * s)
            if coefficient in (1, -1) and s not in rest.free_symbols:
                self.solved[s] = tidy(-rest / coefficient)
                self._proofs.clear()
                return True
        self.nonnegatives += [difference, -difference]
        self._proofs.clear()
        return True

    def assume_nonnegative(self, e: Size) -> bool:
        """Take `e >= 0` as given; False when that contradicts what is known."""
        expr = _expand(sp.sympify(self.normal(e), strict=True))
        if self.nonnegative(-expr - 1):
            return False
        self.nonnegatives.append(expr)
        self._proofs.clear()
        return True

    def assume_divides(self, divisor: Size, e: Size) -> bool:
        """Take `e % divisor == 0` as given; False when that contradicts what is known."""
        expr = sp.sympify(self.normal(e), strict=True)
        d = sp.sympify(self.normal(divisor), strict=True)
        if expr.is_Integer and d.is_Integer:
            return bool(expr % d == 0)
        for s in sorted(expr.free_symbols, key=lambda s: s.name):
            coefficient = _expand(expr).coeff(s)
            rest = _expand(expr - coefficient * s)
            if coefficient in (1, -1) and s not in rest.free_symbols:
                factor = sp.Integer(1)
                for known, replacement in self.multiples:
                    if known == s and d.is_Integer:
                        content = replacement.as_coeff_Mul()[0]
                        factor = sp.ilcm(d, content) if rest == 0 and content > 1 else factor
                divisor_all = factor if factor != 1 else d
                quotient_symbol = sp.Symbol(f"({s.name}/{divisor_all})", integer=True, positive=True)
                self.multiples.append((s, _expand((divisor_all * quotient_symbol - rest) / coefficient)))
                self._proofs.clear()
                return True
        return True

    # -- questions

    def normal(self, e: Size | sp.Basic) -> Size:
        """The same size with all that is known put in."""
        if isinstance(e, int):
            return e
        for _ in range(len(self.solved) + 1):
            if not (e.free_symbols & self.solved.keys()):
                break
            e = sp.sympify(e, strict=True).xreplace({k: sp.sympify(v, strict=True) for k, v in self.solved.items()})
        if e.has(sp.floor):
            e = e.replace(
                lambda x: isinstance(x, sp.floor),
                lambda f: f.args[0] if self._whole(f.args[0]) else f,
            )
        return tidy(e)

    def equal(self, a: Size, b: Size) -> bool | None:
        """True: proved equal. False: proved different. None: not known."""
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        if a == b:
            return True
        difference = _expand(sp.sympify(self.normal(a), strict=True) - self.normal(b))
        if difference == 0:
            return True
        if self.nonnegative(difference - 1) or self.nonnegative(-difference - 1):
            return False
        for s, replacement in self.multiples:
            if s in difference.free_symbols and _expand(difference.xreplace({s: replacement})) == 0:
                return True
        return None

    def whole(self, e: Size | sp.Basic) -> bool:
        """Is `e` provably a whole number?"""
        return isinstance(e, int) or self._whole(sp.sympify(self.normal(e), strict=True))

    def _whole(self, e: sp.Basic) -> bool:
        key = ("whole", e)
        if key not in self._proofs:
            self._proofs[key] = self._prove_whole(e)
        return self._proofs[key]

    def _prove_whole(self, e: sp.Basic) -> bool:
        candidates = [e]
        for s, replacement in self.multiples:
            candidates += [c.xreplace({s: replacement}) for c in list(candidates) if s in c.free_symbols][:16]
        return any(bool(_expand(c).is_integer) or _integer_polynomial(c) for c in candidates)

    def positive(self, e: Size) -> bool:
        return self.nonnegative(sp.sympify(e, strict=True) - 1)

    def nonnegative(self, e: Size | sp.Basic) -> bool:
        """Is `e >= 0` provable?"""
        if isinstance(e, int):
            return e >= 0
        expr = _expand(sp.sympify(self.normal(e), strict=True))
        key = ("nonnegative", expr)
        if key not in self._proofs:
            self._proofs[key] = self._prove_nonnegative(expr, 2)
        return self._proofs[key]

    def _prove_nonnegative(self, e: sp.Expr, uses: int) -> bool:
        if e.is_number:
            return bool(e >= 0)
        if _no_negative_coefficient(e):
            return True
        floors = e.atoms(sp.floor)
        if len(floors) == 1:
            (f,) = floors
            coefficient = e.coeff(f)
            rest = _expand((e - coefficient * f) / coefficient) if coefficient.is_positive else f
            if not rest.has(sp.floor) and self._whole(rest):  # floor(n/d) >= k exactly when n >= k*d, for whole k
                numerator, denominator = f.args[0].as_numer_denom()
                if self._prove_nonnegative(_expand(numerator + rest * denominator), uses):
                    return True
        multiples = {s: r for s, r in reversed(self.multiples) if s in e.free_symbols}
        if multiples and _no_negative_coefficient(_expand(e.xreplace(multiples))):
            return True
        if uses and len(self.nonnegatives) > 20:
            uses = 1
        if uses:
            return any(self._prove_nonnegative(_expand(e - known), uses - 1) for known in self.nonnegatives)
        return False


def _has_quotient(e: sp.Basic) -> bool:
    return any(p.exp.is_negative for p in e.atoms(sp.Pow))


def _integer_polynomial(e: sp.Basic) -> bool:
    """Is `e` a polynomial with whole coefficients (floors count as symbols)?"""
    if not _has_quotient(e):
        return all(c.is_integer for c in _expand(e).as_coefficients_dict().values())
    numerator, denominator = _together(e).as_numer_denom()
    generators = sorted(numerator.free_symbols | denominator.free_symbols, key=str)
    if not generators or numerator.has(sp.floor, sp.Max, sp.Min) or denominator.has(sp.floor, sp.Max, sp.Min):
        return False
    q, r = sp.div(_expand(numerator), _expand(denominator), *generators)
    return bool(r == 0) and all(c.is_integer for c in _expand(q).as_coefficients_dict().values())


def _no_negative_coefficient(e: sp.Expr) -> bool:
    """Lower bound by slack: each symbol is 1 + slack, each floor is bounded by its argument."""
    for f in sorted(e.atoms(sp.floor), key=str):
        coefficient = e.coeff(f)
        argument = f.args[0]
        denominator = argument.as_numer_denom()[1]
        if coefficient.is_nonnegative:
            low = argument - sp.Rational(denominator - 1, denominator) if denominator.is_Integer else argument - 1
            e = _expand(e.xreplace({f: low}))
        elif coefficient.is_nonpositive:
            e = _expand(e.xreplace({f: argument}))
        else:
            return False
    for m in sorted(e.atoms(sp.Max, sp.Min), key=str):
        coefficient = e.coeff(m)
        enough = any if coefficient.is_number and (coefficient > 0) == isinstance(m, sp.Max) else all
        return enough(_no_negative_coefficient(_expand(e.xreplace({m: a}))) for a in m.args)
    if _has_quotient(e):
        numerator, denominator = _together(e).as_numer_denom()
        if not denominator.is_positive:
            return False
        e = _expand(numerator)
    coefficients = e.as_coefficients_dict()
    if all(c >= 0 for c in coefficients.values()):
        return True
    if all(m == 1 or m.is_Symbol for m in coefficients):
        return sum(coefficients.values()) >= 0 and all(c >= 0 for m, c in coefficients.items() if m != 1)
    slack = {s: sp.Symbol(f"{s.name}'", nonnegative=True) + 1 for s in e.free_symbols}
    return all(c >= 0 for c in _expand(e.xreplace(slack)).as_coefficients_dict().values())

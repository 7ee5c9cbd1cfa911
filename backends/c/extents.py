"""Bounds of the sizes of arrays as few products: what must not be too large for the arithmetic of a C function.

N*T*64, N*T*T + N, floor(N/2)*T      are at most      65 * N*T*T
"""

from __future__ import annotations

from collections.abc import Iterable

from dslc.polynomials import Function
from dslc.sizes import Size, Symbol

#: a product of symbols with their powers, by name
Powers = tuple[tuple[str, int], ...]


def bounds(sizes: Iterable[Size]) -> dict[Powers, float]:
    """Products that bound all of these sizes, each with a factor; those that another one bounds are left out.

    >>> from dslc.sizes import symbol
    >>> N, T = symbol("N"), symbol("T"); bounds([N * T * 64, N * T * T + N, T / 2])
    {(('N', 1), ('T', 2)): 64.0}
    """
    found: dict[Powers, float] = {}
    most = 0.0
    for size in sizes:
        terms = _bound(size)
        most = max(most, sum(terms.values()))
        for powers in terms:
            found[powers] = 1.0
    kept = [x for x in found if not any(x != y and _below(x, y) for y in found)]
    return dict.fromkeys(sorted(x for x in kept if x), most)


def _below(x: Powers, y: Powers) -> bool:
    """Is a product at most another one, where no symbol is below 1?"""
    larger = dict(y)
    return all(k <= larger.get(name, 0) for name, k in x)


def _bound(size: Size) -> dict[Powers, float]:
    """A sum of products that is at least as large as a size."""
    if isinstance(size, int):
        return {(): float(abs(size))}
    total: dict[Powers, float] = {}
    for monomial, c in size.terms.items():
        product: dict[Powers, float] = {(): abs(float(c))}
        for atom, k in monomial:
            for _ in range(max(k, 0)):  # what divides is at least 1
                product = _product(product, _atom(atom))
        for powers, factor in product.items():
            total[powers] = total.get(powers, 0.0) + factor
    return total


def _atom(atom: Symbol | Function) -> dict[Powers, float]:
    if isinstance(atom, Symbol):
        return {((atom.name, 1),): 1.0}
    total: dict[Powers, float] = {}  # a maximum is at most the sum of its arguments
    for x in atom.args:
        for powers, factor in _bound(x).items():
            total[powers] = total.get(powers, 0.0) + factor
    return total


def _product(left: dict[Powers, float], right: dict[Powers, float]) -> dict[Powers, float]:
    total: dict[Powers, float] = {}
    for x, a in left.items():
        for y, b in right.items():
            powers = dict(x)
            for name, k in y:
                powers[name] = powers.get(name, 0) + k
            key = tuple(sorted(powers.items()))
            total[key] = total.get(key, 0.0) + a * b
    return total

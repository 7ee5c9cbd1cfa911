"""Sizes by the names that a spec gives them: `P` for `(H - 1) // 2 - 4`, and `N*P` for a product with it.

A definition names sizes in its outputs (`-> y: [N, P = H // 2]`) and by `size P = H // 2`. The builder notes them in
the unit; a printer of code says each once, and writes the names from there on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from dslc.polynomials import Function
from dslc.sizes import Polynomial, Size, Symbol, symbol, tidy


@dataclass
class SizeNames:
    """What is printed in the place of sizes: names for those that have one, and for functions of sizes in others."""

    whole: dict[Size, Symbol] = field(default_factory=dict)
    #: a floor or maximum in a named size, by the name
    parts: dict[Symbol | Function, Size] = field(default_factory=dict)

    def __call__(self, size: Size) -> Size:
        """A size with names in it.

        >>> from dslc.sizes import floor_div
        >>> N, H = symbol("N"), symbol("H"); names = SizeNames(); names.add("P", floor_div(H - 1, 2) - 4)
        >>> names(4 * N * (floor_div(H - 1, 2) - 4)), names(floor_div(H - 1, 2)), names(N)
        (4*N*P, P + 4, N)
        """
        if isinstance(size, int):
            return size
        return self.whole.get(size) or tidy(size.replaced(self.parts))

    def add(self, name: str, size: Polynomial) -> None:
        self.whole[size] = named = symbol(name)
        for function in size.functions:
            rest = tidy(size - Polynomial({frozenset([(function, 1)]): 1}))
            if len(size.functions) == 1 and (isinstance(rest, int) or not rest.functions):  # it stands there once
                self.parts.setdefault(function, named - rest)


def told_apart(sizes: Mapping[Size, str], known: Collection[str], taken: Collection[str]) -> Iterator[tuple[str, Size]]:
    """The sizes that are made of known ones, each with a name that nothing else has.

    >>> H = symbol("H"); [*told_apart({2 * H: "P", 3 * H: "P", symbol("K") + 1: "Q"}, {"H"}, {"H"})]
    [('P', 2*H), ('P2', 3*H)]
    """
    given = set(taken)
    for size, wish in sizes.items():
        if isinstance(size, Polynomial) and all(s.name in known for s in size.free_symbols):
            name, k = wish, 2
            while name in given:
                name, k = f"{wish}{k}", k + 1
            given.add(name)
            yield name, size

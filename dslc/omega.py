"""Linear constraints on whole numbers: can they all hold? Pugh's Omega test, with bounded work.

A row is a sum of variables with whole coefficients and a constant (the key `None`); an equation says that a row is 0,
an inequality that it is not negative. Equations are solved by unimodular substitutions, inequalities by the elimination
of one variable after the other. Where that is not exact for whole numbers (no bound of the variable has coefficient 1),
the dark shadow and the splinters beside it decide.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence

Row = dict[Hashable, int]
#: coefficients by variable, in the order of the variables: what rows with the same left side share
Side = tuple[tuple[int, int], ...]


class _Exhausted(Exception):
    """The bound on the work was reached before an answer was found."""


class _Contradiction(Exception):
    """A row that no values fulfil."""


class Work:
    """How many rows may still be looked at."""

    def __init__(self, rows: int):
        self.left = rows

    def spend(self, rows: int) -> None:
        self.left -= rows
        if self.left < 0:
            raise _Exhausted


def impossible(
    equations: Iterable[Row], inequalities: Iterable[Row], choices: Sequence[Sequence[Row]], work: Work
) -> bool:
    """Have these constraints no common solution, taking one inequality of each choice?

    >>> x_is_even, x_is_odd = {"x": 1, "k": -2}, {"x": 1, "l": -2, None: -1}
    >>> impossible([x_is_even, x_is_odd], [], [], Work(100)), impossible([x_is_even], [], [], Work(100))
    (True, False)
    """
    names: dict[Hashable, int] = {}

    def numbered(row: Row) -> dict[int, int]:
        return {-1 if name is None else names.setdefault(name, len(names)): c for name, c in row.items() if c}

    rows = [numbered(r) for r in inequalities]
    equal = [numbered(r) for r in equations]
    options = [[numbered(r) for r in choice] for choice in choices]
    try:
        return _refuted(equal, rows, options, len(names), work)
    except _Exhausted:
        return False


def _refuted(
    equations: list[dict[int, int]],
    rows: list[dict[int, int]],
    choices: list[list[dict[int, int]]],
    variables: int,
    work: Work,
) -> bool:
    if _infeasible(equations, rows, variables, work):
        return True
    if not choices:
        return False
    first, *others = choices
    return all(_refuted(equations, [*rows, row], others, variables, work) for row in first)


def _infeasible(equations: list[dict[int, int]], rows: list[dict[int, int]], variables: int, work: Work) -> bool:
    """Have the constraints no solution in whole numbers? The variables are 0, 1, ..; -1 stands for the constant."""
    equations, rows = [dict(r) for r in equations], [dict(r) for r in rows]
    try:
        while True:
            while equations:
                variables = _solve(equations.pop(), equations, rows, variables, work)
            sides, equations = _tightened(rows)
            rows = [{**dict(side), -1: c} for side, c in sides.items()]
            if not equations:
                break
    except _Contradiction:
        return True
    return _eliminated(sides, variables, work)


def _solve(
    row: dict[int, int], equations: list[dict[int, int]], rows: list[dict[int, int]], variables: int, work: Work
) -> int:
    """Use an equation up: a variable is replaced until its coefficient is 1, then by the rest of the equation."""
    while True:
        factor = math.gcd(*(c for v, c in row.items() if v >= 0))
        constant = row.get(-1, 0)
        if factor == 0:
            if constant:
                raise _Contradiction
            return variables
        if constant % factor:
            raise _Contradiction
        row = {v: c // factor for v, c in row.items()}
        chosen = min((v for v in row if v >= 0), key=lambda v: (abs(row[v]), v))
        a = row[chosen]
        sign = 1 if a > 0 else -1
        # chosen = new - sum of quotients times the others: the remainders are smaller than |a|
        new, variables = variables, variables + 1
        value = {v: -sign * (c // abs(a)) for v, c in row.items() if v != chosen}
        value = {v: c for v, c in value.items() if c}
        if abs(a) > 1:
            value.pop(-1, None)
            value[new] = 1
        for other in (*equations, *rows):
            _replace(other, chosen, value)
        work.spend(1 + len(equations) + len(rows))
        if abs(a) == 1:
            return variables
        _replace(row, chosen, value)


def _replace(row: dict[int, int], variable: int, value: dict[int, int]) -> None:
    factor = row.pop(variable, 0)
    if factor:
        for v, c in value.items():
            total = row.get(v, 0) + factor * c
            if total or v == -1:
                row[v] = total
            else:
                row.pop(v, None)


def _tightened(rows: Iterable[dict[int, int]]) -> tuple[dict[Side, int], list[dict[int, int]]]:
    """Rows divided by what their coefficients share, the tightest of each side; and equations that two of them make."""
    sides: dict[Side, int] = {}
    for row in rows:
        _add(sides, row)
    equations: list[dict[int, int]] = []
    for side, c in sides.items():
        opposite = sides.get(tuple((v, -a) for v, a in side))
        if opposite is not None:
            if c + opposite < 0:
                raise _Contradiction
            if c + opposite == 0 and side[0][1] > 0:
                equations.append({**dict(side), -1: c})
    return sides, equations


def _add(sides: dict[Side, int], row: dict[int, int]) -> None:
    constant = row.get(-1, 0)
    side = sorted((v, a) for v, a in row.items() if v >= 0 and a)
    if not side:
        if constant < 0:
            raise _Contradiction
        return
    factor = math.gcd(*(a for _, a in side))
    key, bound = tuple((v, a // factor) for v, a in side), constant // factor
    if key not in sides or bound < sides[key]:
        sides[key] = bound


def _eliminated(sides: dict[Side, int], variables: int, work: Work) -> bool:
    """Inequalities alone: variables are eliminated one by one."""
    while sides:
        lower: dict[int, list[int]] = {}
        upper: dict[int, list[int]] = {}
        for side in sides:
            for v, a in side:
                (lower if a > 0 else upper).setdefault(v, []).append(abs(a))
        free = lower.keys() ^ upper.keys()
        if free:  # bounded on one side at most: its rows can always be fulfilled
            sides = {side: c for side, c in sides.items() if not any(v in free for v, _ in side)}
            continue
        exact = [v for v in lower if max(lower[v]) == 1 or max(upper[v]) == 1]
        v = min(exact or lower, key=lambda v: (len(lower[v]) * len(upper[v]), v))
        try:
            projected = _shadow(sides, v, 0, work)
        except _Contradiction:
            return True
        if not exact:
            return _infeasible([], projected, variables, work) or _without_shadow(sides, v, variables, work)
        try:
            sides, equations = _tightened(projected)
        except _Contradiction:
            return True
        if equations:
            return _infeasible(equations, [{**dict(s), -1: c} for s, c in sides.items()], variables, work)
    return False


def _bounds(sides: dict[Side, int], v: int) -> tuple[list[dict[int, int]], list[dict[int, int]], list[dict[int, int]]]:
    """The rows that bound a variable from below, from above, and the others."""
    low: list[dict[int, int]] = []
    high: list[dict[int, int]] = []
    rest: list[dict[int, int]] = []
    for side, c in sides.items():
        row = {**dict(side), -1: c}
        (rest if v not in row else low if row[v] > 0 else high).append(row)
    return low, high, rest


def _shadow(sides: dict[Side, int], v: int, dark: int, work: Work) -> list[dict[int, int]]:
    """The constraints on the other variables: every lower bound is at most every upper one, by a margin if dark."""
    low, high, rest = _bounds(sides, v)
    work.spend(len(low) * len(high) + len(rest))
    for below in low:
        for above in high:
            a, b = below[v], -above[v]
            row = {u: b * c for u, c in below.items() if u != v}
            for u, c in above.items():
                if u != v:
                    row[u] = row.get(u, 0) + a * c
            row[-1] = row.get(-1, 0) - dark * (a - 1) * (b - 1)
            rest.append(row)
    return rest


def _without_shadow(sides: dict[Side, int], v: int, variables: int, work: Work) -> bool:
    """No solution in the dark shadow, and none close to a lower bound of the variable."""
    if not _infeasible([], _shadow(sides, v, 1, work), variables, work):
        return False
    low, high, rest = _bounds(sides, v)
    b = max(-row[v] for row in high)
    everything = [*low, *high, *rest]
    for below in low:
        a = below[v]
        for step in range((a * b - a - b) // b + 1):
            if not _infeasible([{**below, -1: below.get(-1, 0) - step}], everything, variables, work):
                return False
    return True

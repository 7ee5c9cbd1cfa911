"""Random questions about sizes, asked of dslc and of z3.

python tests/sizes/questions.py 0:10000   counts what is proved, what z3 proves, and what was missed
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

import z3

from dslc.sizes import Facts, Size, extreme, floor_div, modulo, quotient, symbol

NAMES = ("H", "K", "N", "T")
#: milliseconds after which z3 gives up
PATIENCE = 2_000


@dataclass(frozen=True)
class Both:
    """An expression of ours and the same one of z3."""

    ours: Size
    theirs: Any
    text: str

    def __add__(self, other: Both) -> Both:
        return Both(self.ours + other.ours, self.theirs + other.theirs, f"({self.text} + {other.text})")

    def __sub__(self, other: Both) -> Both:
        return Both(self.ours - other.ours, self.theirs - other.theirs, f"({self.text} - {other.text})")

    def __mul__(self, n: int) -> Both:
        return Both(self.ours * n, self.theirs * n, f"{n}*{self.text}")

    def __floordiv__(self, n: int) -> Both:
        return Both(floor_div(self.ours, n), self.theirs / z3.IntVal(n), f"({self.text} // {n})")

    def __mod__(self, n: int) -> Both:
        return Both(modulo(self.ours, n), self.theirs % z3.IntVal(n), f"({self.text} % {n})")

    def extreme(self, other: Both, name: str) -> Both:
        largest = self.theirs >= other.theirs if name == "max" else self.theirs <= other.theirs
        value = z3.If(largest, self.theirs, other.theirs)
        return Both(extreme(name, (self.ours, other.ours)), value, f"{name}({self.text}, {other.text})")


def number(n: int) -> Both:
    return Both(n, z3.IntVal(n), str(n))


def size(name: str) -> Both:
    return Both(symbol(name), z3.Int(name), name)


class Draw:
    """A question from a seed: some facts, and a claim that they may or may not imply."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.names = self.random.sample(NAMES, self.random.choice([1, 1, 2, 2, 3]))

    def linear(self) -> Both:
        """A sum of sizes with small factors."""
        e = number(self.random.randint(-4, 6))
        for name in self.random.sample(self.names, self.random.randint(1, len(self.names))):
            e = e + size(name) * self.random.choice([-2, -1, 1, 1, 1, 2, 3])
        return e

    def expression(self, depth: int = 2) -> Both:
        r = self.random
        if depth == 0 or r.random() < 0.15:
            return self.linear()
        match r.choice(["floor", "floor", "floor", "sum", "difference", "modulo", "times", "extreme"]):
            case "floor":
                return self.expression(depth - 1) // r.choice([2, 2, 2, 3, 4, 5])
            case "sum":
                return self.expression(depth - 1) + self.expression(depth - 1)
            case "difference":
                return self.expression(depth - 1) - self.expression(depth - 1)
            case "modulo":
                return self.expression(depth - 1) % r.choice([2, 3, 4])
            case "times":
                return self.expression(depth - 1) * r.choice([2, 3])
        return self.expression(depth - 1).extreme(self.expression(depth - 1), r.choice(["max", "min"]))

    def window(self) -> Both:
        """What comes out of a convolution or a pooling, once or twice."""
        e = size(self.random.choice(self.names))
        for _ in range(self.random.choice([1, 1, 2])):
            stride, kernel = self.random.choice([2, 2, 3]), self.random.randint(1, 4)
            e = (e + number(2 * self.random.randint(0, 1) - kernel)) // stride + number(1)
        return e

    def respelled(self, e: Both) -> Both:
        """The same size in other words."""
        d = self.random.choice([2, 3, 4])
        match self.random.randrange(3):
            case 0:
                return e // d * d + e % d
            case 1:
                return (e * d + number(self.random.randint(0, d - 1))) // d
        return (e + number(d)) // d - (e // d) + e - number(1)


def ask(seed: int) -> tuple[str, bool, bool | None, str]:
    """The kind of a question, whether dslc proves it, whether z3 does (None: it gave up), and its text."""
    draw = Draw(seed)
    r, facts, solver, texts = draw.random, Facts(), z3.Solver(), []
    solver.set("timeout", PATIENCE)
    for name in NAMES:
        solver.add(z3.Int(name) >= 1)
    for _ in range(r.choice([0, 0, 1, 1, 2, 3])):
        e = draw.expression(1) if r.random() < 0.3 else draw.linear()
        n = r.choice([2, 3, 4, 6, 8])
        match r.choice([">=", ">=", ">=", "==", "%", "%", "!="]):
            case ">=":
                consistent, theirs, text = facts.assume_nonnegative(e.ours), e.theirs >= 0, f"{e.text} >= 0"
            case "==":
                consistent, theirs, text = facts.assume_equal(e.ours, 0), e.theirs == 0, f"{e.text} == 0"
            case "%":
                consistent, theirs = facts.assume_divides(n, e.ours), e.theirs % z3.IntVal(n) == 0
                text = f"{e.text} % {n} == 0"
            case _:
                consistent, theirs, text = facts.assume_different(e.ours, 0), e.theirs != 0, f"{e.text} != 0"
        solver.add(theirs)
        texts.append(text)
        if not consistent:
            return "contradiction", True, _answer(solver), ", ".join(texts)
    e = draw.window() if r.random() < 0.3 else draw.expression()
    kind = r.choice(["equal", "positive", "nonnegative", "divisible", "different"])
    match kind:
        case "equal":
            other = draw.respelled(e) if r.random() < 0.7 else draw.expression()
            ours, theirs, text = facts.equal(e.ours, other.ours) is True, e.theirs == other.theirs, other.text
        case "different":
            other = draw.respelled(e) + number(r.choice([-2, -1, 1])) if r.random() < 0.7 else draw.expression()
            ours, theirs, text = facts.equal(e.ours, other.ours) is False, e.theirs != other.theirs, other.text
        case "positive":
            ours, theirs, text = facts.positive(e.ours), e.theirs >= 1, ""
        case "nonnegative":
            ours, theirs, text = facts.nonnegative(e.ours), e.theirs >= 0, ""
        case _:
            n = r.choice([2, 3, 4])
            e = e if r.random() < 0.3 else e - e % n if r.random() < 0.5 else draw.linear() * r.choice([1, 2])
            ours, theirs, text = facts.whole(quotient(e.ours, n)), e.theirs % z3.IntVal(n) == 0, str(n)
    solver.add(z3.Not(theirs))
    return kind, ours, _answer(solver), f"{e.text} {kind} {text} given {', '.join(texts) or 'nothing'}"


def _answer(solver: z3.Solver) -> bool | None:
    return {"unsat": True, "sat": False}.get(str(solver.check()))


def survey(seeds: range) -> tuple[Counter[str], list[str], list[str]]:
    """Counts of the answers, claims that were proved and do not hold, and those that hold and were missed."""
    counts: Counter[str] = Counter()
    wrong, missed = [], []
    for seed in seeds:
        kind, ours, theirs, text = ask(seed)
        counts[f"{kind}: asked"] += 1
        if theirs is None:
            counts["z3 gave up"] += 1
        elif ours and not theirs:
            wrong.append(f"{seed}: {text}")
        elif theirs and kind != "contradiction":
            counts["provable"] += 1
            counts["found"] += ours
            if not ours:
                missed.append(f"{seed}: {text}")
    return counts, wrong, missed


if __name__ == "__main__":
    first, _, last = sys.argv[1].partition(":")
    counts, wrong, missed = survey(range(int(first), int(last)))
    print(*(f"{name}: {n}" for name, n in sorted(counts.items())), sep="\n")
    print(*(f"WRONG {x}" for x in wrong), *(f"missed {x}" for x in missed), sep="\n")

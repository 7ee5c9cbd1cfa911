"""The state of writing one random program: its sizes, values, names and lines, and the choices that are drawn."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

from dslc.dtypes import FLOATS

T = TypeVar("T")


@dataclass(frozen=True)
class Axis:
    """A size: as it is written in the spec, and its value in this run."""

    text: str
    value: int
    #: what can be proved about it: it is at least this
    least: int = 1

    @property
    def known(self) -> bool:
        return self.text.isdigit()

    def less(self, by: int) -> Axis:
        value = self.value - by
        return Axis(str(value) if self.known else f"{self.text} - {by}", value, self.least - by)


def fixed(value: int) -> Axis:
    return Axis(str(value), value, value)


@dataclass(frozen=True)
class Value:
    """A tensor of the program: its axes, and bounds of its elements in this run."""

    name: str
    shape: tuple[Axis, ...]
    low: float = -1.5
    high: float = 1.5
    kind: str = "float"
    #: for whole numbers: the size below which they are known to lie
    below: Axis | None = None
    #: what it depends on with a derivative that is not 0 everywhere
    sources: frozenset[str] = frozenset()


class Choices(Protocol):
    """What a program is drawn from."""

    def pick(self, options: Sequence[T]) -> T: ...

    def number(self, low: int, high: int) -> int: ...


@dataclass(frozen=True)
class Drawn:
    """Choices of hypothesis, which shrinks them."""

    draw: st.DrawFn

    def pick(self, options: Sequence[T]) -> T:
        return self.draw(st.sampled_from(options))

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))


class Numbered:
    """The choices of a number: it names its program."""

    def __init__(self, number: int):
        self.dice = random.Random(number)

    def pick(self, options: Sequence[T]) -> T:
        return options[self.dice.randrange(len(options))]

    def number(self, low: int, high: int) -> int:
        return self.dice.randint(low, high)


@dataclass
class Writer:
    """Draws choices and collects lines."""

    choices: Choices
    values: list[Value] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    #: definitions above the model
    definitions: list[str] = field(default_factory=list)
    #: scalar functions: name and number of arguments
    functions: list[tuple[str, int]] = field(default_factory=list)
    tags: Counter[str] = field(default_factory=Counter)
    axes: list[Axis] = field(default_factory=list)
    indent: str = "    "
    #: is there a function with a derivative by hand, through which there are no Jacobians?
    by_hand: bool = False
    #: gradients, by which there may be derivatives again
    derived: set[str] = field(default_factory=set)
    #: the scanned indices around the current statement
    scanned: dict[str, Axis] = field(default_factory=dict)
    count: int = 0
    #: what the expression that is being written depends on
    sources: set[str] = field(default_factory=set)
    #: choices that are wanted: the first one is taken where it is next on offer
    wishes: list[str] = field(default_factory=list)

    # ---- choices

    def choose(self, options: Sequence[str]) -> str:
        """One of several kinds; a wish is granted."""
        if self.wishes and self.wishes[0] in options:
            return self.wishes.pop(0)
        return self.pick(options)

    def pick(self, options: Sequence[T]) -> T:
        return self.choices.pick(options)

    def chance(self, one_in: int) -> bool:
        """True once in a while; shrinks to False."""
        return self.number(1, one_in) == one_in

    def number(self, low: int, high: int) -> int:
        return self.choices.number(low, high)

    def constant(self) -> float:
        return self.pick([0.5, 1.0, 2.0, 0.3, 1.7, -0.4, -1.2, 0.05])

    # ---- writing

    def fresh(self, letter: str = "v") -> str:
        self.count += 1
        while f"{letter}{self.count}" in FLOATS:
            self.count += 1
        return f"{letter}{self.count}"

    def line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    @contextmanager
    def block(self) -> Iterator[None]:
        self.indent += "    "
        yield
        self.indent = self.indent[:-4]

    def tag(self, name: str) -> None:
        self.tags[name] += 1

    def add(self, value: Value) -> Value:
        self.values.append(value)
        return value

    def define(self, shape: Sequence[Axis], low: float, high: float, **more: Any) -> Value:
        """A new float value; it depends on what was read since the last one."""
        value = Value(self.fresh(), tuple(shape), low, high, sources=frozenset(self.sources), **more)
        self.sources.clear()
        return self.add(value)

    # ---- what there is

    def floats(self, least: int = 0, most: int = 4) -> list[Value]:
        return [v for v in self.values if v.kind == "float" and least <= len(v.shape) <= most]

    def uses(self, *values: Value) -> None:
        for v in values:
            self.sources |= v.sources


LETTERS = "ijklmnpqrsuvwyz"


def letters(count: int, taken: Sequence[str] = ()) -> list[str]:
    """Names of indices that are not taken."""
    return [x for x in LETTERS if x not in taken][:count]


def scaled(low: float, high: float) -> float:
    """By what to divide so that values stay of moderate size."""
    size = max(abs(low), abs(high))
    return 1.0 if size <= 4 else float(round(size / 2))

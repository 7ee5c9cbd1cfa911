"""The nodes of one compilation: equal ones are one object, and what was found out about one is kept with them.

Names and positions are no part of what makes nodes equal: the first of them gives them to all. So programs that have
nothing to do with each other must not share nodes, and none may outlive its compilation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from functools import wraps
from math import inf
from operator import attrgetter
from typing import Any, TypeVar

from dslc.source import NOWHERE, Span

#: how many nodes the program of one function may have on its way through all passes: some eight times what the largest
#: specs of the repository need, and less than half a minute of work
MOST_NODES = 150_000

N = TypeVar("N")
R = TypeVar("R")


@dataclass
class Refusal(Exception):
    """Something that is checked but that the compiler cannot do, be it yet or at all."""

    what: str
    span: Span


class TooLarge(Refusal):
    """A program that grows past all bounds, such as a derivative of a derivative of a derivative of ..."""

    def __init__(self, limit: float, span: Span) -> None:
        self.limit = f"{limit:,}"
        super().__init__(f"a program of more than {self.limit} operations", span)


@dataclass
class Table:
    """All nodes of a compilation."""

    nodes: dict[Any, Any] = field(default_factory=dict)
    #: results of functions of a node
    results: defaultdict[Callable[[Any], Any], dict[Any, Any]] = field(default_factory=lambda: defaultdict(dict))
    #: what a spec calls the variables of a node
    index_names: dict[Any, tuple[str, ...]] = field(default_factory=dict)
    #: a node whose last axes are those of another: what it was before a pass, what it is the adjoint of
    axes_of: dict[Any, Any] = field(default_factory=dict)
    #: what is printed in the place of a size, where a spec names sizes
    size_names: Callable[[Any], Any] | None = None
    numbers: int = 0
    most: float = inf


#: by default the nodes of all that runs outside of any compilation, such as a session at a prompt
_table: ContextVar[Table] = ContextVar("table", default=Table())  # noqa: B039
#: kind of node -> what makes nodes of it equal
_compared: dict[type, Callable[[Any], Any]] = {}


@contextmanager
def compilation() -> Iterator[None]:
    """A compilation of its own: nodes that are made inside are equal to none outside, and go when nobody holds them.

    All that works on a program (passes, gradients, backends) must run in the compilation that built it.
    """
    with within(new_table()):
        yield


def new_table() -> Table:
    """The nodes of a compilation that has not begun."""
    return Table(most=MOST_NODES)


def table() -> Table:
    """The nodes of this compilation."""
    return _table.get()


@contextmanager
def within(nodes: Table) -> Iterator[None]:
    """Go on with the compilation that some nodes belong to."""
    token = _table.set(nodes)
    try:
        yield
    finally:
        _table.reset(token)


def intern(node: N) -> N:
    """The one object for all nodes of this compilation equal to this one (positions and names do not count)."""
    kind = type(node)
    if kind not in _compared:
        _compared[kind] = attrgetter(*(f.name for f in fields(node) if f.compare))  # type: ignore[arg-type]
    made = _table.get()
    if len(made.nodes) > made.most:
        raise TooLarge(made.most, getattr(node, "span", NOWHERE))
    return made.nodes.setdefault((kind, _compared[kind](node)), node)  # type: ignore[no-any-return]


def fresh_number() -> int:
    """A number that no other scan and no other placeholder of this compilation has."""
    made = _table.get()
    made.numbers += 1
    return made.numbers


def remembered(function: Callable[[N], R]) -> Callable[[N], R]:
    """A function of one node whose results are kept as long as the compilation lasts."""

    @wraps(function)
    def known(node: N) -> R:
        results = _table.get().results[function]
        try:
            return results[node]  # type: ignore[no-any-return]
        except KeyError:  # the first time; an error of the function itself is not caught
            pass
        results[node] = found = function(node)
        return found

    return known

"""Documents that know where they may break, laid out in a given width (after Wadler's "A prettier printer").

    doc = text | Line | Nest | Group | Broken | a tuple of docs, one after the other

A group that fits on its line is written flat; else each of its own lines becomes a newline.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

STEP = 4


@dataclass(frozen=True)
class Line:
    """A place to break; `flat` is what stands there when the group is not broken."""

    flat: str = " "


@dataclass(frozen=True)
class Nest:
    """What begins one step further in after each newline inside it."""

    doc: Doc


@dataclass(frozen=True)
class Group:
    """What is broken together or not at all.

    Normally what follows the group may still break to make room; a `first` group breaks before anything after it.
    """

    doc: Doc
    first: bool = False


@dataclass(frozen=True)
class Broken:
    """Text that stands only when the group around it is broken."""

    text: str


Doc = str | Line | Nest | Group | Broken | tuple["Doc", ...]
#: indentation, whether flat, and what to write so
_Task = tuple[int, bool, Doc]

LINE = Line()
SOFT = Line("")


def join(separator: Doc, docs: Iterable[Doc]) -> Doc:
    parts: list[Doc] = []
    for doc in docs:
        parts += [separator, doc] if parts else [doc]
    return tuple(parts)


def bracket(opening: str, docs: Iterable[Doc], closing: str, *, first: bool = False) -> Doc:
    """A bracketed list: on one line, or all elements on the next one, or each on its own.

    >>> render(bracket("f(", ["a", "b"], ")"), width=80)
    'f(a, b)'
    """
    docs = list(docs)
    if not docs:
        return opening + closing
    elements = Group((join((",", LINE), docs), Broken(",")))
    return Group((opening, Nest((SOFT, elements)), SOFT, closing), first)


def parentheses(doc: Doc) -> Doc:
    return Group(("(", Nest((SOFT, doc)), SOFT, ")"))


def render(doc: Doc, width: int, indent: int = 0) -> str:
    """The text of a document whose first line already stands `indent` columns in."""
    out: list[str] = []
    column = indent
    tasks: list[_Task] = [(indent, False, doc)]
    while tasks:
        depth, flat, here = tasks.pop()
        match here:
            case str():
                out.append(here)
                column += len(here)
            case Line():
                out.append(here.flat if flat else "\n" + " " * depth)
                column = column + len(here.flat) if flat else depth
            case Nest():
                tasks.append((depth + STEP, flat, here.doc))
            case Group():
                flat = flat or _fits((depth, True, here.doc), tasks, width - column, here.first)
                tasks.append((depth, flat, here.doc))
            case Broken():
                if not flat:
                    tasks.append((depth, flat, here.text))
            case _:
                tasks.extend((depth, flat, part) for part in reversed(here))
    return "".join(out)


def _fits(task: _Task, following: list[_Task], room: int, first: bool) -> bool:
    """Whether a task, and what follows it up to the next newline there can be, takes at most `room` columns."""
    tasks = [task]
    upcoming = len(following)
    while room >= 0:
        if not tasks:
            if upcoming == 0:
                return True
            upcoming -= 1
            tasks.append(following[upcoming])
        depth, flat, doc = tasks.pop()
        match doc:
            case str():
                room -= len(doc)
            case Line():
                if not flat:
                    return True
                room -= len(doc.flat)
            case Nest():
                tasks.append((depth, flat, doc.doc))
            case Group():
                tasks.append((depth, flat or first, doc.doc))
            case Broken():
                room -= 0 if flat else len(doc.text)
            case _:
                tasks.extend((depth, flat, part) for part in reversed(doc))
    return False

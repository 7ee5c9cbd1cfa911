"""Spec text and positions in it: loading with bounds, spans, and the line table that errors need."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, field
from functools import cached_property

from dslc.quoting import printable

#: A spec is a short text. Past these bounds it is refused before anything else looks at it.
MAX_BYTES = 1_000_000
MAX_LINE = 10_000


@dataclass(frozen=True)
class Source:
    """The text of one spec file; `name` is how messages call it.

    >>> Source("a.dsl", "x\\ny").position(2)
    (2, 1)
    """

    name: str
    text: str = field(repr=False)

    @property
    def file(self) -> str:
        """The name without folders, on one line, as generated code has it.

        >>> Source("specs/a.dsl", "").file
        'a.dsl'
        """
        return printable(self.name.rsplit("/", 1)[-1])

    @cached_property
    def line_starts(self) -> list[int]:
        return [0, *(i + 1 for i, c in enumerate(self.text) if c == "\n")]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column (both from 1) of a character offset."""
        line = bisect.bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line (from 1), without its newline."""
        start = self.line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]


@dataclass(frozen=True)
class Span:
    """A stretch of characters `start <= offset < end` of one source."""

    source: Source
    start: int
    end: int
    #: does it say where a derivative comes from: which line was differentiated?
    derived: bool = False

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    @property
    def line(self) -> int:
        return self.source.position(self.start)[0]

    @property
    def place(self) -> str:
        """File and line, as comments and tables have them.

        >>> Span(Source("specs/a.dsl", "y = x"), 0, 1).place
        'a.dsl:1'
        """
        return f"{self.source.file}:{self.line}"

    @property
    def comment(self) -> str:
        """What stands above code that comes from it: the line itself, and whether it was differentiated.

        >>> Span(Source("a.dsl", "y = x   # so"), 0, 1, derived=True).comment
        'gradient of a.dsl:1  y = x'
        """
        line = printable(" ".join(self.source.line(self.line).split("#")[0].split()))
        return f"{'gradient of ' if self.derived else ''}{self.place}  {line}"

    def word(self, word: str, after: int = 0) -> Span:
        """The first place inside it, `after` some characters, where a word stands; all of it if there is none.

        >>> Span(Source("a.dsl", "for t in 0..T:"), 0, 14).word("t").start
        4
        """
        found = re.compile(rf"\b{re.escape(word)}\b").search(self.source.text, self.start + after, self.end)
        return self if found is None else Span(self.source, found.start(), found.end())

    @property
    def closed(self) -> Span:
        """It with the brackets that it opens or closes alone.

        >>> Span(Source("a.dsl", "y = (a + b) % (c)"), 5, 16).closed.text
        '(a + b) % (c)'
        """
        start, end, text = self.start, self.end, self.source.text
        open_, least = 0, 0
        for c in self.text:
            open_ += (c == "(") - (c == ")")
            least = min(least, open_)
        for _ in range(-least):
            start = max(text.rfind("(", 0, start), 0)
        for _ in range(open_ - least):
            end = text.find(")", end) + 1 or end
        return Span(self.source, start, end)

    @property
    def first_line(self) -> Span:
        """The part of it on its first line, which is enough to point at a block."""
        end = self.text.find("\n")
        return self if end < 0 else Span(self.source, self.start, self.start + end)

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other`."""
        return Span(self.source, min(self.start, other.start), max(self.end, other.end))

    def __str__(self) -> str:
        line, column = self.source.position(self.start)
        return f"{self.source.name}:{line}:{column}"


#: For values that no spec line wrote (the built-in scope).
NOWHERE = Span(Source("<built in>", ""), 0, 0)

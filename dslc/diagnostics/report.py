"""The one diagnostic type, and the collector that every stage reports to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dslc.source import Span

#: More than this helps nobody; the count of the rest is still told.
MAX_SHOWN = 100


@dataclass(frozen=True)
class Label:
    """A place that the message speaks of, with what is to be seen there."""

    span: Span
    text: str = ""


@dataclass(frozen=True)
class Fix:
    """A replacement that would mend the text, for editors."""

    span: Span
    replacement: str


@dataclass(frozen=True)
class Diagnostic:
    """What is wrong, where, why, and how to mend it.

    `labels[0]` is the guilty place; the others say where sizes and names came from.
    """

    code: str
    message: str
    labels: tuple[Label, ...]
    notes: tuple[str, ...] = ()
    help: str | None = None
    fix: Fix | None = None

    @property
    def severity(self) -> Literal["error", "warning"]:
        return "warning" if self.code.startswith("W") else "error"

    @property
    def span(self) -> Span:
        return self.labels[0].span


@dataclass
class Reporter:
    """Collects diagnostics; the same complaint about the same place is kept once."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    _seen: set[tuple[str, str, int]] = field(default_factory=set)

    def add(self, diagnostic: Diagnostic) -> None:
        span = diagnostic.span
        key = (diagnostic.code, span.source.name, span.start)
        if key not in self._seen:
            self._seen.add(key)
            self.diagnostics.append(diagnostic)

    @property
    def errors(self) -> list[Diagnostic]:
        return [d for d in self.diagnostics if d.severity == "error"]

    def sorted(self) -> list[Diagnostic]:
        """In reading order: the main file's order is kept by name, then by place."""
        return sorted(self.diagnostics, key=lambda d: (d.span.source.name, d.span.start, d.code))

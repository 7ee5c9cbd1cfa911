"""The front end as one call: a spec file in, a checked program or its diagnostics out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dslc.diagnostics.report import Diagnostic, Reporter
from dslc.source import Source
from dslc.syntax.parser import Parsed, load, parse


@dataclass
class Checked:
    """The outcome of checking one spec: `errors` is empty when it is good."""

    parsed: Parsed | None
    diagnostics: list[Diagnostic] = field(default_factory=list)

    @property
    def errors(self) -> list[Diagnostic]:
        return [d for d in self.diagnostics if d.severity == "error"]


def check_file(path: Path, settings: Mapping[str, object] | None = None) -> Checked:
    """Check a spec file with all that it imports; `settings` override hyper-parameters of its models."""
    reporter = Reporter()
    source = load(path, str(path), reporter)
    parsed = parse(source, reporter) if source is not None else None
    return Checked(parsed, reporter.sorted())


def check_text(text: str, name: str = "<text>", settings: Mapping[str, object] | None = None) -> Checked:
    """Check a spec given as text; imports are looked up in the current folder."""
    reporter = Reporter()
    parsed = parse(Source(name, text), reporter)
    return Checked(parsed, reporter.sorted())

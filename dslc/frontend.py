"""The front end as one call: a spec file in, a checked program or its diagnostics out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dslc.check.program import Program
from dslc.check.program_check import check_program
from dslc.diagnostics.report import Diagnostic, Reporter
from dslc.resolve.files import File, load_files, resolve_source
from dslc.source import Source
from dslc.syntax.parser import Parsed


@dataclass
class Checked:
    """The outcome of checking one spec: `errors` is empty when it is good."""

    parsed: Parsed | None
    program: Program | None = None
    diagnostics: list[Diagnostic] = field(default_factory=list)
    #: the names that the spec sees, for the stages that follow
    file: File | None = None

    @property
    def errors(self) -> list[Diagnostic]:
        return [d for d in self.diagnostics if d.severity == "error"]


def check_file(path: Path, settings: Mapping[str, object] | None = None) -> Checked:
    """Check a spec file with all that it imports; `settings` override hyper-parameters of its models."""
    reporter = Reporter()
    file = load_files(path, reporter)
    return _check(file, reporter, settings)


def check_text(
    text: str, name: str = "<text>", settings: Mapping[str, object] | None = None, folder: Path | None = None
) -> Checked:
    """Check a spec given as text; imports are looked up in `folder` (by default the current one).

    >>> check_text("fn double(x) = x + x").errors
    []
    """
    reporter = Reporter()
    file = resolve_source(Source(name, text), folder or Path(), reporter)
    return _check(file, reporter, settings)


def _check(file: File | None, reporter: Reporter, settings: Mapping[str, object] | None) -> Checked:
    if file is None:
        return Checked(None, None, reporter.sorted())
    program = check_program(file, reporter, settings)
    return Checked(file.parsed, program if not reporter.errors else None, reporter.sorted(), file)

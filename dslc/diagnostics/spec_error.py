"""What the Python interface raises for a spec with errors."""

from __future__ import annotations

from dslc.diagnostics.render import render_all
from dslc.diagnostics.report import Diagnostic


class SpecError(Exception):
    """Raised by the Python interface when a spec has errors; `str()` shows them as the command line does."""

    def __init__(self, diagnostics: list[Diagnostic]):
        self.diagnostics = diagnostics
        super().__init__()

    def __str__(self) -> str:
        return "\n" + render_all(self.diagnostics)

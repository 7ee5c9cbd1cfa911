"""How commands speak: diagnostics to standard error, in colour where a terminal wants it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from dslc.diagnostics.report import Diagnostic


def wants_color(stream: TextIO | None) -> bool:
    """Whether to colour what is written to `stream`: only on a terminal, and not against NO_COLOR."""
    return _is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def tell(diagnostics: Sequence[Diagnostic]) -> None:
    """Write diagnostics and their count to standard error; nothing when there are none."""
    from dslc.diagnostics.render import WIDTH, render_all

    if diagnostics:
        width = shutil.get_terminal_size().columns if _is_terminal(sys.stderr) else WIDTH
        click.echo(render_all(diagnostics, wants_color(sys.stderr), width), err=True)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()  # None: the shell closed it

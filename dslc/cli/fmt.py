"""`dslc fmt`: specs in their one standard layout."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dslc.cli.arguments import SPECS, spec_files
from dslc.cli.output import tell
from dslc.writing import write_bytes

if TYPE_CHECKING:
    from dslc.diagnostics.report import Reporter

STDIN = Path("-")


@click.command(short_help="Rewrite specs in the standard layout.")
@SPECS
@click.option("--check", is_flag=True, help="Write nothing; list the files that would change and exit with 1 if any.")
@click.option("--diff", is_flag=True, help="Write nothing; show what would change.")
@click.pass_context
def fmt(context: click.Context, specs: tuple[Path, ...], check: bool, diff: bool) -> None:
    """Rewrite SPEC, a file or a folder of *.dsl files, in the standard layout.

    \b
    Examples:
        dslc fmt mlp.dsl
        dslc fmt --check specs/
        dslc fmt - < mlp.dsl > tidy.dsl

    "-" reads standard input and writes standard output. A file with syntax errors is reported and left alone,
    and the exit status is 1. A file is replaced in one step, and only if its layout changes.
    """
    from dslc.diagnostics.report import Reporter
    from dslc.quoting import printable

    reporter = Reporter()
    changed = failed = False
    for path in spec_files(specs):
        name = "<stdin>" if path == STDIN else str(path)
        texts = _read_stdin(reporter) if path == STDIN else _formatted(path, name, reporter)
        if texts is None:
            continue
        old, new = texts
        changed |= old != new
        if diff:
            click.echo(_difference(printable(name), old, new), nl=False)
        elif check:
            if old != new:
                click.echo(printable(name))
        elif path == STDIN:
            sys.stdout.buffer.write(new)
        elif old != new:
            try:
                _replace(path, new)
            except OSError as error:
                click.echo(f"cannot write {printable(name)}: {error.strerror}", err=True)
                failed = True
            else:
                click.echo(f"{printable(name)}: formatted")
    tell(reporter.sorted())
    context.exit(1 if failed or reporter.errors or (check and changed) else 0)


def _formatted(path: Path, name: str, reporter: Reporter) -> tuple[bytes, bytes] | None:
    """The bytes of a spec as they are and as they should be; None after reporting that it is no spec."""
    from dslc.syntax.format import format_source
    from dslc.syntax.parser import load, parse

    before = len(reporter.errors)
    source = load(path, name, reporter)
    if source is None:
        return None
    parsed = parse(source, reporter)
    if len(reporter.errors) > before:
        return None
    text = format_source(parsed)
    # A formatter that changes what a spec says would be the worst of bugs, so each result is read again.
    again = parse(type(source)(name, text), type(reporter)())
    if again.module != parsed.module or len(again.comments) != len(parsed.comments):
        raise AssertionError(f"the formatted text of {name} would not say the same; the file is unchanged")
    old = path.read_bytes() if path.is_file() else source.text.encode()  # a pipe is read once
    return old, text.encode()


def _read_stdin(reporter: Reporter) -> tuple[bytes, bytes] | None:
    """`_formatted` of standard input, through a file so that it meets the same bounds and messages."""
    from dslc.source import MAX_BYTES

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stdin.dsl")
        path.write_bytes(sys.stdin.buffer.read(MAX_BYTES + 1))
        return _formatted(path, "<stdin>", reporter)


def _difference(name: str, old: bytes, new: bytes) -> str:
    from difflib import unified_diff

    before, after = ([line + "\n" for line in text.decode().splitlines()] for text in (old, new))
    return "".join(unified_diff(before, after, name, f"{name} (formatted)"))


def _replace(path: Path, content: bytes) -> None:
    """Put `content` in the place of a file in one step, with the same permissions; a link keeps pointing there."""
    path = path.resolve()
    if not os.access(path, os.W_OK):
        raise PermissionError(13, "Permission denied")
    write_bytes(path, content)

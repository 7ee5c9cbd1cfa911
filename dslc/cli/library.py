"""`dslc library`: the definitions of the standard library, with their signatures and a line each."""

from __future__ import annotations

import json
import sys
import textwrap

import click
from click.shell_completion import CompletionItem

from dslc.cli.output import wants_color

#: of the object that --json prints
VERSION = 1


def complete_name(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from dslc.resolve.files import standard_library

    names = sorted(standard_library().known_names())
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command(short_help="List the standard library, or search it.")
@click.argument("word", required=False, shell_complete=complete_name)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def library(context: click.Context, word: str | None, as_json: bool) -> None:
    """List the definitions of the standard library: signature and purpose, file by file.

    With WORD, only those whose name or description has it, or whose file is called so. `dslc show NAME` prints one in
    full.

    \b
    Examples:
        dslc library
        dslc library attention
    """
    from dslc.library import entries

    found = {file: [e for e in own if word is None or e.matches(word)] for file, own in entries().items()}
    found = {file: own for file, own in found.items() if own}
    if as_json:
        listed = [
            {"name": e.name, "kind": e.kind, "signature": e.signature, "about": e.about, "file": e.file, "line": e.line}
            for own in found.values()
            for e in own
        ]
        click.echo(json.dumps({"version": VERSION, "ok": True, "definitions": listed}, indent=2))
        return
    if not found:
        click.echo(_nothing(word or ""), err=True)
        context.exit(1)
    color = wants_color(sys.stdout)
    blocks = []
    for file, own in found.items():
        lines = [click.style(file, bold=True) if color else file]
        for e in own:
            lines += [textwrap.indent(e.signature, "  "), textwrap.indent(textwrap.fill(e.about, 92), "      ")]
        blocks.append("\n".join(lines))
    click.echo("\n\n".join(blocks))


def _nothing(word: str) -> str:
    """What to say of a word that nothing has."""
    from dslc.ops import table
    from dslc.resolve.files import did_you_mean, standard_library

    if word in table.BUILTIN_NAMES:
        return f"`{word}` is built into the language: see docs/language.md"
    near = did_you_mean(word, standard_library().known_names())
    return f"no definition of the standard library has {word!r} in its name or description{f'; {near}' if near else ''}"

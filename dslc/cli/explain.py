"""`dslc explain`: what an error code means, with an example and its cure."""

from __future__ import annotations

import sys
import textwrap

import click
from click.shell_completion import CompletionItem

from dslc.cli.output import wants_color


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from dslc.diagnostics.kinds import KINDS

    return [CompletionItem(code) for code in KINDS if code.startswith(incomplete.upper())]


@click.command(short_help="Explain an error code, or list all.")
@click.argument("code", required=False, shell_complete=_complete)
def explain(code: str | None) -> None:
    """Explain the error or warning CODE: its cause, an example, its cure. Without CODE, list all codes.

    \b
    Examples:
        dslc explain E0101
        dslc explain
    """
    from difflib import get_close_matches

    from dslc.diagnostics.kinds import KINDS
    from dslc.error_index import wording

    if code is None:
        click.echo("\n".join(f"{kind.code}  {wording(kind)}" for kind in KINDS.values()))
        return
    if code.upper() not in KINDS:
        near = get_close_matches(code.upper(), KINDS)
        hint = f"did you mean {' or '.join(near)}?" if near else "`dslc explain` lists all codes"
        raise click.UsageError(f"there is no code {code!r}; {hint}")
    click.echo(explanation(code.upper(), wants_color(sys.stdout)))


def explanation(code: str, color: bool = False) -> str:
    """What `dslc explain CODE` prints."""
    from dslc.diagnostics.kinds import KINDS
    from dslc.error_index import example, example_report, wording
    from dslc.quoting import printable

    kind = KINDS[code]

    def titled(title: str, body: str) -> str:
        return (click.style(title, bold=True) if color else title) + "\n" + textwrap.indent(body, "  ")

    parts = [titled(f"{code}: {wording(kind)}", _wrapped(kind.cause))]
    text = example(code)
    if text is not None:
        parts.append(titled("Example", "\n".join(printable(line) for line in text.rstrip().split("\n"))))
        if report := example_report(code, text, color):
            parts.append(titled("What dslc says about it", report))
    parts.append(titled("Cure", _wrapped(kind.cure)))
    return "\n\n".join(parts)


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 96, break_on_hyphens=False, break_long_words=False)

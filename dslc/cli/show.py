"""`dslc show`: a spec after a stage of the compiler, or the text of a standard-library definition."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dslc.cli.output import tell

if TYPE_CHECKING:
    from dslc.source import Source
    from dslc.syntax.parser import Parsed
    from dslc.syntax.tree import Node


def _show_ast(parsed: Parsed) -> str:
    return "\n".join(dump(node) for node in parsed.module.definitions)


STAGES: dict[str, Callable[[Parsed], str]] = {"ast": _show_ast}


@click.command(short_help="Show a spec after a stage, or a library definition.")
@click.argument("spec", metavar="SPEC|NAME", type=click.Path())
@click.option(
    "--stage", type=click.Choice(list(STAGES)), default="ast", help="What to show of a spec: its syntax tree."
)
@click.pass_context
def show(context: click.Context, spec: str, stage: str) -> None:
    """Show what the compiler makes of SPEC, or the text of NAME in the standard library.

    \b
    Examples:
        dslc show mlp.dsl --stage ast
        dslc show dense

    The stage "ast" is the syntax tree: a node in each line, after the number of the spec line it stands on. An
    argument is taken for a file if there is one, or if it ends in .dsl or contains a slash.
    """
    if Path(spec).is_file() or spec.endswith(".dsl") or os.sep in spec:
        from dslc.diagnostics.report import Reporter
        from dslc.syntax.parser import load, parse

        reporter = Reporter()
        source = load(Path(spec), spec, reporter)
        parsed = parse(source, reporter) if source is not None else None
        tell(reporter.sorted())
        if parsed is None or reporter.errors:
            context.exit(1)
        click.echo(STAGES[stage](parsed))
    else:
        click.echo(library_text(spec))


# ---- the syntax tree -----------------------------------------------------------------------------


def dump(root: Node) -> str:
    """A syntax tree as indented text, each node with its line, its field in the node above, and its words.

    >>> from dslc.frontend import check_text
    >>> print(dump(check_text("fn f(x) = x - 1\\n").parsed.module.definitions[0]))
       1  Fn name=f
       1    formals: Formal name=x
       1    expression: Sum
       1      terms +: Name id=x
       1      terms -: Number text=1
    """
    from dslc.diagnostics.render import printable

    lines: list[str] = []
    pending: list[tuple[int, str, Node]] = [(0, "", root)]
    while pending:
        depth, role, node = pending.pop()
        words, below = _contents(node)
        text = " ".join([type(node).__name__, *words])
        lines.append(f"{node.span.line:4}  {'  ' * depth}{role}{printable(text)}")
        pending.extend((depth + 1, f"{name}: ", child) for name, child in reversed(below))
    return "\n".join(lines)


def _contents(node: Node) -> tuple[list[str], list[tuple[str, Node]]]:
    """The plain fields of a node as words, and the nodes below it with the names of their fields."""
    from dslc.syntax.tree import Node

    words: list[str] = []
    below: list[tuple[str, Node]] = []
    for name in (field.name for field in fields(node) if field.name != "span"):
        value = getattr(node, name)
        plain: list[str] = []
        for part in value if isinstance(value, tuple) else (value,):
            match part:
                case Node():
                    below.append((name, part))
                case (str(operator), Node() as operand):
                    below.append((f"{name} {operator}", operand))
                case None:
                    pass
                case False if name in ("frozen", "reversed"):
                    pass
                case _:
                    plain.append(str(part))
        if plain:
            words.append(f"{name}={','.join(plain)}")
    return words, below


# ---- the standard library ------------------------------------------------------------------------


def library_sources() -> Iterator[Source]:
    """The files of the standard library, by name."""
    from dslc.source import Source

    for file in sorted(resources.files("dslc.std").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".dsl"):
            yield Source(f"std/{file.name}", file.read_text(encoding="utf-8"))


def library_text(name: str) -> str:
    """The text of a definition of the standard library, with the comment above it, after its file and line."""
    from difflib import get_close_matches

    from dslc.diagnostics.report import Reporter
    from dslc.syntax.parser import parse

    names: list[str] = []
    for source in library_sources():
        for definition in parse(source, Reporter()).module.definitions:
            found = getattr(definition, "name", None)
            if found is None:
                continue
            names.append(found)
            if found == name:
                line = first = definition.span.line
                while first > 1 and source.line(first - 1).startswith("#"):
                    first -= 1
                last = source.position(definition.span.end)[0]
                text = "\n".join(source.line(number) for number in range(first, last + 1))
                return f"# {source.name}:{line}\n{text}"
    message = f"no file and no definition of the standard library is called {name!r}"
    near = get_close_matches(name, names)
    raise click.UsageError(f"{message}; did you mean {' or '.join(near)}?" if near else message)

"""`dslc show`: a spec after a stage of the compiler, or the text of a standard-library definition."""

from __future__ import annotations

import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dslc.cli.arguments import SET
from dslc.cli.compile import BACKEND, DTYPE, FOLD, MODEL, WRT
from dslc.cli.output import tell, wants_color

if TYPE_CHECKING:
    from dslc.source import Source
    from dslc.syntax.tree import Node


@click.command(short_help="Show a spec after a stage, or a library definition.")
@click.argument("spec", metavar="SPEC|NAME", type=click.Path())
@click.option(
    "--stage",
    default="ast",
    show_default=True,
    shell_complete=lambda context, option, text: stages_like(text),
    help="What to show: ast, ir, grad, simplified, step, fused, memory, kernels, code, or the name of a pass.",
)
@click.option("--line", type=click.IntRange(1), metavar="N", help="Only what comes from line N of the spec.")
@click.option("--latex", is_flag=True, help="Formulas in LaTeX: with --stage ir or grad.")
@click.option("--why", is_flag=True, help="Which rules each pass used and what it changed.")
@FOLD
@BACKEND
@SET
@DTYPE
@MODEL
@WRT
@click.pass_context
def show(
    context: click.Context, spec: str, stage: str, line: int | None, latex: bool, why: bool, fold: bool, backend: str,
    settings: dict[str, object], dtype: str, model: str | None, wrt: list[str],
) -> None:  # fmt: skip
    """Show what the compiler makes of SPEC, or the text of NAME in the standard library.

    \b
    Examples:
        dslc show mlp.dsl --stage grad
        dslc show mlp.dsl --stage code --line 4
        dslc show mlp.dsl --stage grad --latex --wrt x
        dslc show mlp.dsl --why
        dslc show dense

    \b
    Stages:
        ast         the syntax tree: a node in each line, after the number of its spec line
        ir          the program as it is built, with a comment for the spec line of each value
        grad        the same with the gradients of the loss
        simplified  the same after all passes
        step        one step of a sequence model, with its cache; or why it has none
        fused       the schedule: what each statement, region or kernel computes together
        memory      where values lie or how long they live, and what is saved for the gradient
        kernels     the kernels (-b triton)
        code        the module that `dslc compile` writes

    The name of a pass, such as stabilise, shows the program after it; --why shows the rules that each pass used
    (*) and the lines that it took away (-) and put in (+). An argument is taken for a file if there is one, or if
    it ends in .dsl or contains a slash.

    --latex writes the model (--stage ir), or the loss and its gradient (--stage grad), as formulas for a text, before
    they are made stable: an align* environment.
    """
    if not (Path(spec).is_file() or spec.endswith(".dsl") or os.sep in spec):
        click.echo(library_text(spec))
    elif latex and (stage not in ("ir", "grad") or why or line is not None):
        raise click.UsageError(
            "--latex writes the formulas of --stage ir or of --stage grad, and takes no --line or --why"
        )
    elif stage == "ast" and not why:
        show_syntax(context, spec, line)
    else:
        options = (settings, dtype, model, backend, wrt, fold)
        show_stage(Path(spec), f"{stage} latex" if latex else stage, line, why, options)


def stages_like(text: str) -> list[str]:
    """The stages whose names begin so, for completion."""
    stages = ("ast", "ir", "grad", "simplified", "step", "fused", "memory", "kernels", "code")
    return [name for name in stages if name.startswith(text)]


def show_syntax(context: click.Context, spec: str, line: int | None) -> None:
    """The syntax tree, which a spec has as soon as it parses."""
    from dslc.diagnostics.report import Reporter
    from dslc.syntax.parser import load, parse

    reporter = Reporter()
    source = load(Path(spec), spec, reporter)
    parsed = parse(source, reporter) if source is not None else None
    tell(reporter.sorted())
    if source is None or parsed is None or reporter.errors:
        context.exit(1)
    text = "\n".join(dump(node) for node in parsed.module.definitions)
    text = text if line is None else selected(text, "ast", source, line)
    click.echo(text, nl=bool(text))


def show_stage(
    path: Path, stage: str, line: int | None, why: bool,
    options: tuple[dict[str, object], str, str | None, str, list[str], bool],
) -> None:  # fmt: skip
    """A stage behind the check."""
    from dslc.autodiff.reverse import NoDerivative
    from dslc.builder.build import Refusal
    from dslc.cli.compiled import chosen
    from dslc.compiler import differentiated, refusal
    from dslc.diagnostics.spec_error import SpecError
    from dslc.stages import NoStage, Spec, changes
    from dslc.stages import stage as text_of

    settings, dtype, model, backend, wrt, fold = options
    checked, instance, train = chosen(path, settings, model)
    try:
        spec = Spec(path, instance, differentiated(instance, train, wrt), settings, dtype, backend, fold)
        text = changes(spec) if why else text_of(spec, stage)
    except (NoStage, ValueError) as error:
        raise click.UsageError(str(error)) from error
    except (Refusal, NoDerivative) as reason:
        span = reason.span if reason.span.source.text else instance.span
        raise SpecError([refusal(reason, span, backend)]) from reason
    if line is not None:
        assert checked.file is not None
        text = selected(text, "changes" if why else stage, checked.file.parsed.source, line)
    if stage == "code" and not why and wants_color(sys.stdout):
        from rich.console import Console
        from rich.syntax import Syntax

        Console().print(Syntax(text, "python", background_color="default"))
    else:
        click.echo(text, nl=bool(text))


def selected(text: str, stage: str, source: Source, line: int) -> str:
    """What comes from one line of the spec, which must be there."""
    from dslc.stages import only_line

    if line > len(source.line_starts):
        raise click.UsageError(f"the spec has {len(source.line_starts)} lines, and --line asks for line {line}")
    found = only_line(text, stage, source, line)
    if not found:
        where = "what a layer computes stands under the layer's own lines"
        click.echo(f"note: nothing comes from line {line} itself; {where}", err=True)
    return found


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
    from dslc.quoting import printable

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


def library_text(name: str) -> str:
    """The text of a definition of the standard library, with the comment above it, after its file and line."""
    from difflib import get_close_matches

    from dslc.library import comment_above, definition
    from dslc.resolve.files import library_sources
    from dslc.syntax.parser import named_chunks

    names: list[str] = []
    for source in library_sources():
        for found, start, end in named_chunks(source):
            names.append(found)
            if found == name:
                span = definition(source, start, end).span
                last = source.position(span.end)[0]
                lines = range(comment_above(source, span.line), last + 1)
                return "\n".join([f"# {source.name}:{span.line}", *(source.line(number) for number in lines)])
    message = f"no file and no definition of the standard library is called {name!r}"
    near = get_close_matches(name, names)
    raise click.UsageError(f"{message}; did you mean {' or '.join(near)}?" if near else message)

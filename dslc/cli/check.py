"""`dslc check`: all errors of some specs at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dslc.cli.arguments import SET, SPECS, spec_files
from dslc.cli.output import tell

if TYPE_CHECKING:
    from dslc.diagnostics.report import Diagnostic
    from dslc.frontend import Checked

#: Of the object that `--json` prints.
JSON_VERSION = 1


@click.command(short_help="Report all errors of specs.")
@SPECS
@SET
@click.option("--json", "as_json", is_flag=True, help="Print the diagnostics as JSON on standard output.")
@click.pass_context
def check(context: click.Context, specs: tuple[Path, ...], settings: dict[str, object], as_json: bool) -> None:
    """Report all errors of SPEC, a file or a folder of *.dsl files.

    \b
    Examples:
        dslc check mlp.dsl
        dslc check specs/ --json
        dslc check mlp.dsl --set hidden=512

    A line on standard output for every spec that is good, errors and warnings on standard error. The exit
    status is 1 if there is any error; warnings alone leave it 0.

    With --json, standard output holds one object and standard error nothing: "version" (1), "diagnostics" (in
    the form that the docstring of dslc/diagnostics/render.py gives) and "specs" (a "file" and its "ok" each).
    """
    from dslc.diagnostics.render import to_json
    from dslc.diagnostics.report import Reporter
    from dslc.frontend import check_file

    checked = [(str(path), check_file(path, settings)) for path in spec_files(specs)]
    reporter = Reporter()  # tells once what two specs with a common import both meet
    for _, outcome in checked:
        outcome.diagnostics += [*open_parameters(outcome), *still_parameters(outcome)]
        for diagnostic in outcome.diagnostics:
            reporter.add(diagnostic)
    if as_json:
        told = [to_json(diagnostic) for diagnostic in reporter.diagnostics]
        files = [{"file": name, "ok": not outcome.errors} for name, outcome in checked]
        click.echo(json.dumps({"version": JSON_VERSION, "diagnostics": told, "specs": files}, indent=2))
    else:
        for name, outcome in checked:
            if not outcome.errors:
                click.echo(summary(name, outcome))
        tell(reporter.diagnostics)
    context.exit(1 if reporter.errors else 0)


def open_parameters(checked: Checked) -> list[Diagnostic]:
    """The models of a spec whose parameters cannot be made before there are data."""
    from dslc.open_sizes import refusals, untold

    if not checked.program:
        return []
    trained = {train.instance.name: train.instance for train in checked.program.trains}
    models = {**checked.program.models, **trained}
    found = [refusal for instance in models.values() for refusal in refusals(instance)]
    return found + [refusal for instance in checked.program.models.values() for refusal in untold(instance)]


def still_parameters(checked: Checked) -> list[Diagnostic]:
    """Warnings where training would leave parameters as they are."""
    from dslc.slopes import without_slope

    return [warning for train in checked.program.trains for warning in without_slope(train)] if checked.program else []


def summary(name: str, checked: Checked) -> str:
    """The line that `dslc check` prints for a good spec."""
    from dslc.quoting import printable

    return f"{printable(name)}: ok"

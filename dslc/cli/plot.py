"""`dslc plot`: pictures of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dslc.cli.arguments import names_of
from dslc.cli.compile import RUN_BACKEND

if TYPE_CHECKING:
    from dslc.plots.runs import RunFolder

PATH = click.Path(path_type=Path)
KINDS = {".png": "png", ".svg": "svg"}


@dataclass(frozen=True)
class Drawing:
    """What is to be drawn, as options give it."""

    output: Path
    data: Path | None = None
    part: str | None = None
    rows: int = 64
    bins: int = 10
    labels: str | None = None
    scores: str | None = None
    only: Sequence[str] = ()
    title: str = ""
    logy: bool = False
    smooth: float = 0.0
    backend: str = "auto"
    #: which pictures were asked for; curves where there are none
    wanted: Sequence[str] = field(default_factory=tuple)


@click.command(short_help="Draw curves and diagrams of runs.")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=PATH)
@click.option("-o", "--output", metavar="FILE", required=True, type=PATH, help="The picture: a .png or .svg file.")
@click.option("--reliability", is_flag=True, help="Draw accuracy by confidence, with the expected calibration error.")
@click.option("--confusion", is_flag=True, help="Draw which classes are taken for which.")
@click.option("--weights", is_flag=True, help="Draw histograms of the parameters.")
@click.option("--images", is_flag=True, help="Draw the parameters of one run as images.")
@click.option("--activations", is_flag=True, help="Draw histograms of the values that the model names, on data.")
@click.option(
    "--only",
    metavar="NAME",
    multiple=True,
    callback=names_of,
    help="Draw this metric, parameter or value alone, those below it, or those that fit '*.W'; may be repeated.",
)
@click.option("--data", metavar="FILE", type=PATH, help="Other data than those of the run, of the same kind.")
@click.option(
    "--part",
    type=click.Choice(("training", "validation", "test")),
    help="Which rows of the data; else the first of test, validation and training that there are.",
)
@click.option(
    "--rows",
    metavar="COUNT",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    help="Of --activations: take so many rows.",
)
@click.option(
    "--bins",
    metavar="COUNT",
    type=click.IntRange(2, 100),
    default=10,
    show_default=True,
    help="Of --reliability: bins of confidence.",
)
@click.option("--labels", metavar="NAME", help="The input that holds the classes, where there are several.")
@click.option("--scores", metavar="NAME", help="The output that says how probable they are, where there are several.")
@click.option("--title", metavar="TEXT", default="", help="A title above the picture.")
@click.option("--logy", is_flag=True, help="Of curves: a logarithmic axis of values.")
@click.option(
    "--smooth",
    metavar="WEIGHT",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    help="Of curves: average with earlier epochs, which count less by this for each; such as 0.8.",
)
@RUN_BACKEND
@click.pass_context
def plot(context: click.Context, /, runs: tuple[Path, ...], **options: Any) -> None:
    """Draw losses and metrics of RUNs over their epochs, or a diagram of each, and write the picture to FILE.

    \b
    Examples:
        dslc plot runs/mlp -o curves.png
        dslc plot runs/mlp runs/cnn --only accuracy --title digits -o accuracy.svg
        dslc plot runs/mlp --reliability -o calibration.png
        dslc plot runs/mlp --weights --only 'dense*.W' -o weights.png

    A RUN is a folder of `dslc train -o`. Each has a colour; one of several seeds is drawn as their mean and a band of
    one standard deviation. Needs matplotlib: pip install 'dslc[plot]'. The exit status is 1 when a folder, the data or
    a name does not fit.
    """
    from dslc.plots.figure import drawn
    from dslc.plots.runs import runs_of
    from dslc.quoting import printable
    from dslc.run_errors import RunError
    from dslc.training.checkpoint import cannot_write
    from dslc.writing import write_atomically

    wanted = tuple(name for name in PICTURES if options.pop(name, False))
    if len(wanted) > 1:
        raise click.UsageError(f"--{wanted[0]} and --{wanted[1]} are two pictures: draw them one by one")
    drawing = Drawing(**options, wanted=wanted)
    output = drawing.output
    kind = KINDS.get(output.suffix.lower())
    if kind is None:
        raise click.UsageError(f"-o {click.format_filename(output)}: a picture is a .png or .svg file")
    told: list[str] = []
    picture = PICTURES[wanted[0]] if wanted else curves
    try:
        found = drawn(lambda: picture(runs_of(runs), drawing, told), kind)
        try:
            write_atomically(output, lambda file: file.writelines([found]))
        except OSError as error:
            raise cannot_write(output, error, "then draw it again") from error
    except RunError as error:
        click.echo(error.text(), err=True)
        context.exit(1)
    for line in told:
        click.echo(printable(line))
    click.echo(printable(str(output)))


def curves(runs: Sequence[RunFolder], drawing: Drawing, told: list[str]) -> Any:
    from dslc.plots.curves import curves_of, draw_curves

    found = curves_of(runs, drawing.only)
    for run in runs:
        own = [c for c in found if c.run == run.label and c.part in ("training", "validation")]
        ends = [f"{c.metric} {c.mean[-1]:.4f}" for c in own if c.part == own[-1].part]
        told += [f"{run.label}: {own[-1].part} after epoch {own[-1].epochs[-1]}: {'  '.join(ends)}"] if own else []
    return draw_curves(found, drawing.title, drawing.logy, drawing.smooth)


def reliability(runs: Sequence[RunFolder], drawing: Drawing, told: list[str]) -> Any:
    from dslc.cli.plot_data import predictions
    from dslc.plots.diagrams import bins_of, draw_reliability

    found = predictions(runs, drawing)
    for one in found:
        ece = bins_of(one, drawing.bins).ece
        told.append(f"{one.run}: ECE {ece:.4f}, accuracy {one.accuracy:.4f}, {len(one.label)} {one.rows}, {one.scores}")
    return draw_reliability(found, drawing.title, drawing.bins)


def confusion(runs: Sequence[RunFolder], drawing: Drawing, told: list[str]) -> Any:
    from dslc.cli.plot_data import predictions
    from dslc.plots.diagrams import draw_confusion

    found = predictions(runs, drawing)
    for one in found:
        told.append(f"{one.run}: accuracy {one.accuracy:.4f}, {len(one.label)} {one.rows}, {one.scores}")
    return draw_confusion(found, drawing.title)


def weights(runs: Sequence[RunFolder], drawing: Drawing, told: list[str]) -> Any:
    from dslc.plots.distributions import draw_histograms
    from dslc.plots.runs import weights_of

    alone = [seed for run in runs for seed in run.alone()]
    found = {run.name: weights_of(run.folders[0]) for run in alone}
    return draw_histograms(found, drawing.only, "parameter", drawing.title)


def images(runs: Sequence[RunFolder], drawing: Drawing, told: list[str]) -> Any:
    from dslc.plots.distributions import draw_images
    from dslc.plots.runs import weights_of

    alone = [seed for run in runs for seed in run.alone()]
    found = {run.name: weights_of(run.folders[0]) for run in alone}
    return draw_images(found, drawing.only, drawing.title)


def activations(runs: Sequence[RunFolder], drawing: Drawing, told: list[str]) -> Any:
    from dslc.cli.plot_data import values
    from dslc.plots.distributions import draw_histograms

    found = {}
    for one in (seed for run in runs for seed in run.alone()):
        found[one.name], rows = values(one, drawing)
        told.append(f"{one.name}: {rows}")
    return draw_histograms(found, drawing.only, "value", drawing.title)


#: option -> what draws it, and notes what it tells
PICTURES = {
    "reliability": reliability, "confusion": confusion, "weights": weights, "images": images,
    "activations": activations,
}  # fmt: skip

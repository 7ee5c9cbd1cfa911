"""The options of `dslc train`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dslc.cli.arguments import SET, names_of
from dslc.cli.compile import DTYPE, MODEL, RUN_BACKEND, SPEC

PATH = click.Path(path_type=Path)
POSITIVE = click.FloatRange(0, min_open=True)
SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)

#: in the order in which `--help` shows them
OPTIONS = (
    SPEC,
    click.option(
        "--data", metavar="FILE", required=True, type=PATH,
        help="An .npz file, a .csv file, or a folder with a folder of images for each class.",
    ),
    click.option("--test", metavar="FILE", type=PATH, help="Data of the same kind for the test at the end."),
    click.option("--target", metavar="COLUMN", help="Of a .csv file: the column to predict."),
    click.option(
        "--drop", metavar="COLUMN", multiple=True, callback=names_of,
        help="Of a .csv file: leave a column out; may be repeated.",
    ),
    click.option(
        "-o", "--output", metavar="DIR", type=PATH,
        help="Folder for weights and checkpoints; by default runs/ and the name of the spec.",
    ),
    click.option("--epochs", type=click.IntRange(1), help="Passes over the data; else as the spec says, or 10."),
    click.option("--steps", type=click.IntRange(1), help="Steps in all, in place of --epochs."),
    click.option("--batch", type=click.IntRange(1), help="Rows in a batch; else as the spec says, or 64."),
    click.option(
        "--accumulate", metavar="BATCHES", type=click.IntRange(1), default=1,
        help="Add up the gradients of so many batches for each step.",
    ),
    click.option("--clip", metavar="LENGTH", type=POSITIVE, help="Shorten the gradient of a step to this length."),
    click.option("--norms", is_flag=True, help="Measure the lengths of gradients (also with --clip and --accumulate)."),
    click.option("--ema", metavar="DECAY", type=SHARE, help="Average the weights over steps, with this decay."),
    click.option(
        "--swa", metavar="EPOCH", type=click.IntRange(1), help="Average the weights over epochs, from this one on."
    ),
    click.option(
        "--validation", metavar="FRACTION", type=SHARE,
        help="Set a part of the rows apart, and evaluate them after each epoch.",
    ),
    click.option(
        "--watch", metavar="METRIC",
        help="The validation value that tells which epoch is best, such as accuracy or score:max; else the loss.",
    ),
    click.option(
        "--patience", metavar="EPOCHS", type=click.IntRange(1), help="Stop after so many epochs without a better value."
    ),
    click.option(
        "--plateau", metavar="EPOCHS", type=click.IntRange(1),
        help="Stop after an epoch that is no better than any of so many before it.",
    ),
    click.option(
        "--min-step", metavar="LENGTH", type=click.FloatRange(0),
        help="Stop when a step moves the parameters by no more than this.",
    ),
    click.option(
        "--min-change", metavar="LOSS", type=click.FloatRange(0),
        help="Stop when the training loss of an epoch changes by no more than this.",
    ),
    click.option(
        "--keep", type=click.Choice(("best", "last")),
        help="Which weights are left; best is usual with --watch, --patience or --plateau, else last.",
    ),
    click.option(
        "--seed", type=click.IntRange(0, 2**62), default=0, show_default=True,
        help="For the parameters, the order of the rows and random draws.",
    ),
    click.option(
        "--seeds", metavar="COUNT", type=click.IntRange(2, 1000),
        help="Train with so many seeds from --seed on, and show mean and spread.",
    ),
    click.option(
        "--checkpoint-every", metavar="STEPS", type=click.IntRange(1),
        help="Write a checkpoint after so many steps; else after an epoch, and once in a minute.",
    ),
    click.option("--every-epoch", is_flag=True, help="Keep the checkpoint of each epoch, for --roll-back."),
    click.option(
        "--roll-back", metavar="EPOCH", type=click.IntRange(1),
        help="Go back to the end of this epoch, and on from there; the checkpoints of later ones are deleted.",
    ),
    click.option("--weights", metavar="W", type=PATH, help="Begin with these weights."),
    click.option(
        "--new", metavar="PATH", multiple=True, callback=names_of,
        help="With --weights: these parameters begin anew, such as those of another last layer; may be repeated.",
    ),
    click.option("--fresh", is_flag=True, help="Delete the checkpoints of the folder and train anew."),
    click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on standard output."),
    RUN_BACKEND, SET, DTYPE, MODEL,
)  # fmt: skip


def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with all of these options."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command

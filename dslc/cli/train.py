"""`dslc train`: a spec trained on data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from dslc.cli.begin import Wanted, begin, compiled_for
from dslc.cli.train_options import with_options

if TYPE_CHECKING:
    from dslc.cli.compiled import Compiled
    from dslc.training.loop import Job, Outcome
    from dslc.training.run import Settings

#: Of the object that `--json` prints.
JSON_VERSION = 1
EXIT_INTERRUPTED = 130


@click.command(short_help="Train a spec on data.")
@with_options
@click.pass_context
def train(context: click.Context, /, seeds: int | None, as_json: bool, **options: Any) -> None:
    """Train SPEC on this machine's processors and show the result.

    \b
    Examples:
        dslc train specs/mlp/mlp.dsl --data specs/data/digits.npz
        dslc train mlp.dsl --data digits.npz --validation 0.1 --patience 5 --watch accuracy
        dslc train iris.dsl --data iris.csv --target species --seeds 5
        dslc train gpt.dsl --data text.npz --steps 2000 -o runs/gpt --json

    An .npz file holds an array for each input of the `train`, rows along the first axis. Arrays named val_NAME are
    evaluated after each epoch, and arrays named test_NAME at the end. The columns of a .csv file are standardised
    and encoded. A folder holds a folder of images for each class, or train/, val/ and test/ with such folders.

    DIR gets weights.safetensors, for `dslc run`, and checkpoints. After Ctrl-C, a kill or a crash the same
    command goes on from the last checkpoint, and ends with the same bits as a run that was never stopped. Exit
    status: 0 when the training is done, 1 when something is wrong with the spec, the data or the numbers, 130
    when it was interrupted.
    """
    import json

    from dslc.cli.compiled import spec_errors
    from dslc.cli.results import show_result, show_seeds, summary_of_seeds
    from dslc.quoting import printable
    from dslc.run_errors import RunError, Stopped

    wanted = Wanted(**options)
    try:
        with spec_errors(as_json, JSON_VERSION):
            if seeds is None:
                program = compiled_for(wanted, as_json)
                report = trained(wanted, program, as_json)
            else:
                numbers = range(wanted.seed, wanted.seed + seeds)
                program = compiled_for(wanted.of_seed(wanted.seed), as_json)
                runs = [trained(wanted.of_seed(seed), program, as_json) for seed in numbers]
                report = summary_of_seeds(runs, [*numbers], wanted.folder)
    except RunError as error:
        if as_json:
            click.echo(json.dumps({"version": JSON_VERSION, "ok": False, "error": error.to_json()}, indent=2))
        else:
            click.echo(error.text(), err=True)
        context.exit(1)
    except Stopped as stop:
        without = " without --fresh" if wanted.fresh else "" if wanted.roll_back is None else " without --roll-back"
        command = f"the same command{without} goes on from there ({stop.folder})"
        click.echo(printable(f"stopped after step {stop.step}, with a checkpoint; {command}"), err=True)
        context.exit(EXIT_INTERRUPTED)
    if as_json:
        click.echo(json.dumps(report, indent=2))
    elif seeds is None:
        show_result(report)
    else:
        show_seeds(report)


def trained(wanted: Wanted, program: Compiled, quiet: bool) -> dict[str, Any]:
    """Train to the end; gives the result as `--json` prints it."""
    from dslc.cli.results import show_start, summary
    from dslc.training.nonfinite import explain
    from dslc.training.start import tested

    assert program.train is not None
    job, settings, data = begin(wanted, program)
    if wanted.new and not quiet:
        show_start(job)
    label = wanted.spec.stem if wanted.folder.name != f"seed-{wanted.seed}" else f"{wanted.spec.stem} {wanted.seed}"
    outcome = watched(job, settings, label, partial(explain, program.train, wanted.dtype), quiet)
    report = summary(JSON_VERSION, wanted.spec, job, outcome, tested(program.train, job, outcome, data.test))
    if wanted.new and job.start is not None:
        report["loaded"] = [*job.start]
        report["new"] = [name for name in outcome.weights if name not in job.start]
    return report


@contextmanager
def signals() -> Iterator[list[int]]:
    """Collects the first interrupt or termination, so that the step can be finished; a second one is obeyed at once."""
    import signal

    seen: list[int] = []
    kinds = (signal.SIGINT, signal.SIGTERM)

    def note(number: int, frame: object) -> None:
        seen.append(number)
        for kind in kinds:
            signal.signal(kind, before[kind])

    before: dict[int, Any] = {kind: signal.getsignal(kind) for kind in kinds}
    try:
        for kind in kinds:
            signal.signal(kind, note)
        yield seen
    finally:
        for kind in kinds:
            signal.signal(kind, before[kind])


def watched(job: Job, settings: Settings, name: str, explain: Any, quiet: bool) -> Outcome:
    """Train behind a progress bar, which only a terminal sees."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from dslc.quoting import printable
    from dslc.training.loop import Watch
    from dslc.training.loop import train as run_training
    from dslc.training.run import Epoch

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )  # fmt: skip
    with signals() as seen, Progress(*columns, console=console, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task(escape(printable(name)), total=None, note="")
        last: list[Epoch] = []

        def on_start(step: int, total: int) -> None:
            bar.reset(task, total=max(total, step), completed=step)

        def on_step(step: int, loss: float) -> None:
            bar.update(task, completed=step, note=note(loss, bar.tasks[0].speed, last[-1] if last else None))

        watch = Watch(on_start, on_step, last.append, lambda: bool(seen), explain)
        return run_training(job, settings, watch)


def note(loss: float, speed: float | None, last: Any) -> str:
    """`loss 0.1234  accuracy 0.9712  1500 steps/s`; metrics are those of the last epoch, of validation rows if any."""
    words = [f"loss {loss:.4f}"]
    if last is not None:
        values = last.validation or last.training
        words += [f"{name} {value:.4f}" for name, value in values.items() if name != "loss"]
    if speed:
        words.append(f"{speed:.3g} steps/s" if speed < 1000 else f"{speed:.0f} steps/s")
    return "  ".join(words)

"""`dslc train`: a spec trained on data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dslc.cli.arguments import SET, names_of
from dslc.cli.compile import DTYPE_OF_NUMPY, MODEL, RUN_BACKEND, SPEC

if TYPE_CHECKING:
    from dslc.cli.compiled import Compiled
    from dslc.training.loop import Job, Outcome
    from dslc.training.run import Settings

#: Of the object that `--json` prints.
JSON_VERSION = 1
EXIT_INTERRUPTED = 130


@click.command(short_help="Train a spec on data.")
@SPEC
@click.option(
    "--data",
    metavar="FILE.npz",
    required=True,
    type=click.Path(path_type=Path),
    help="Arrays named as the inputs of the `train`.",
)
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder for weights and checkpoints; by default runs/ and the name of the spec.",
)
@click.option("--epochs", type=click.IntRange(1), help="Passes over the data; else as the spec says, or 10.")
@click.option("--steps", type=click.IntRange(1), help="Steps in all, in place of --epochs.")
@click.option("--batch", type=click.IntRange(1), help="Rows in a step; else as the spec says, or 64.")
@click.option(
    "--validation",
    metavar="FRACTION",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Set a part of the rows apart, and evaluate them after each epoch.",
)
@click.option(
    "--patience",
    metavar="EPOCHS",
    type=click.IntRange(1),
    help="Stop after so many epochs without a better validation loss, and keep the best weights.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**62),
    default=0,
    show_default=True,
    help="For the parameters, the order of the rows and random draws.",
)
@click.option(
    "--checkpoint-every",
    metavar="STEPS",
    type=click.IntRange(1),
    help="Write a checkpoint after so many steps; else after an epoch, and once in a minute.",
)
@click.option("--weights", metavar="W", type=click.Path(path_type=Path), help="Begin with these weights.")
@click.option(
    "--new",
    metavar="PATH",
    multiple=True,
    callback=names_of,
    help="With --weights: these parameters begin anew, such as those of another last layer; may be repeated.",
)
@click.option("--fresh", is_flag=True, help="Delete the checkpoints of the folder and train anew.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on standard output.")
@RUN_BACKEND
@SET
@DTYPE_OF_NUMPY
@MODEL
@click.pass_context
def train(
    context: click.Context, spec: Path, data: Path, output: Path | None, epochs: int | None, steps: int | None,
    batch: int | None, validation: float | None, patience: int | None, seed: int, checkpoint_every: int | None,
    weights: Path | None, new: list[str], fresh: bool, as_json: bool, backend: str, settings: dict[str, object],
    dtype: str, model: str | None,
) -> None:  # fmt: skip
    """Train SPEC on this machine's processors and show the result.

    \b
    Examples:
        dslc train specs/mlp/mlp.dsl --data specs/data/digits.npz
        dslc train mlp.dsl --data digits.npz --validation 0.1 --patience 5
        dslc train gpt.dsl --data text.npz --steps 2000 -o runs/gpt --json

    FILE.npz holds an array for each input of the `train`, rows along the first axis. Arrays named val_NAME are
    evaluated after each epoch, and arrays named test_NAME at the end.

    DIR gets weights.safetensors, for `dslc run`, and checkpoints. After Ctrl-C, a kill or a crash the same
    command goes on from the last checkpoint, and ends with the same bits as a run that was never stopped. Exit
    status: 0 when the training is done, 1 when something is wrong with the spec, the data or the numbers, 130
    when it was interrupted.
    """
    import json

    from dslc.cli.compiled import compiled, spec_errors
    from dslc.quoting import printable
    from dslc.run_errors import RunError, Stopped
    from dslc.training.run import Settings

    folder = output or Path("runs") / spec.stem
    if backend == "auto" and not fresh:
        backend = recorded(folder) or backend
    with spec_errors(as_json, JSON_VERSION):
        settings = with_sizes(spec, settings, model, data)
        program = compiled(spec, settings, dtype, model, backend, as_json)
    if new and weights is None:
        raise click.UsageError("--new is for --weights: without it all parameters begin anew")
    if program.train is None:
        raise click.UsageError(f"{spec} has no `train`; add one to say what to minimise")
    try:
        stated = defaults(program)
        chosen = Settings(
            batch or stated.get("batch", 64), epochs or stated.get("epochs", 10), seed, steps, validation or 0.0,
            patience, checkpoint_every, fresh,
        )  # fmt: skip
        job, test = prepare(program, data, chosen, folder, batch is not None, weights, new)
        if new and not as_json:
            show_start(job)
        outcome = watched(job, chosen, spec.stem, explanation(program, dtype), as_json)
        report = summary(spec, job, outcome, tested(job, outcome, test, program))
        if new and job.start is not None:
            report["loaded"] = [*job.start]
            report["new"] = [name for name in outcome.weights if name not in job.start]
    except RunError as error:
        if as_json:
            click.echo(json.dumps({"version": JSON_VERSION, "ok": False, "error": error.to_json()}, indent=2))
        else:
            click.echo(error.text(), err=True)
        context.exit(1)
    except Stopped as stop:
        command = f"the same command goes on from there ({folder})"
        click.echo(printable(f"stopped after step {stop.step}, with a checkpoint; {command}"), err=True)
        context.exit(EXIT_INTERRUPTED)
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        show_result(report)


def recorded(folder: Path) -> str | None:
    """The backend of the run that a folder has a checkpoint of: another one would end with other last bits."""
    from dslc.backends.registry import BACKENDS
    from dslc.run_errors import RunError
    from dslc.training.checkpoint import backend_of_run, read_checkpoint

    try:
        snapshot = read_checkpoint(folder)
    except RunError:
        return None  # which is told where it is read for good
    found = None if snapshot is None else backend_of_run(snapshot)
    return found if found in BACKENDS else None


def defaults(program: Compiled) -> dict[str, int]:
    """`batch` and `epochs` as the `train` of the spec gives them."""
    from dslc.run_errors import RunError
    from dslc.syntax import tree as t

    found: dict[str, int] = {}
    for node in program.checked.parsed.module.definitions if program.checked.parsed else ():
        if isinstance(node, t.Train) and node.model == program.model.name:
            for formal in node.formals:
                if formal.name in ("batch", "epochs") and formal.default is not None:
                    if not isinstance(formal.default, t.Number) or formal.default.value != int(formal.default.value):
                        raise RunError(f"expected a whole number for `{formal.name}`", formal.default.span)
                    found[formal.name] = int(formal.default.value)
    return found


def with_sizes(spec: Path, settings: dict[str, object], model: str | None, data: Path) -> dict[str, object]:
    """The settings with the open sizes that parameters need, as the data have them."""
    from dslc.arrays import read_arrays
    from dslc.cli.compiled import chosen
    from dslc.open_sizes import needed, sizes_of
    from dslc.run_errors import RunError

    *_, train = chosen(spec, settings, model)
    if train is None or not needed(train.instance):
        return settings
    try:
        shapes = {name: array.shape for name, array in read_arrays(data).items()}
    except RunError:
        return settings  # what is wrong with the data is told where they are read for good
    return {**sizes_of(train.instance, shapes), **settings}


def prepare(
    program: Compiled,
    data: Path,
    settings: Settings,
    folder: Path,
    batch_given: bool,
    weights: Path | None,
    new: Sequence[str] = (),
) -> tuple[Job, dict[str, Any]]:
    """The data, checked and split, and the arrays for the test at the end."""
    from dslc.arrays import read_arrays
    from dslc.run_errors import RunError
    from dslc.training.data import fields_of, group, matched, rows_of, split
    from dslc.training.loop import Job

    assert program.train is not None
    fields = fields_of(program.train.instance)
    found = read_arrays(data)
    where = program.train.instance.where
    arrays = matched(data, found, fields, where=where)
    validation, test = (group(data, found, fields, prefix, where) for prefix in ("val_", "test_"))
    rows = rows_of(fields, arrays)
    if rows.whole and batch_given and settings.batch != 1:
        help = "leave out --batch: each step then has all the data"
        raise RunError(f"the data cannot be taken apart into rows: {rows.whole}", help=help)
    if settings.validation:
        if validation:
            help = "leave out --validation"
            raise RunError(f"{data} has val_ arrays, and --validation asks for a part of the others", help=help)
        arrays, validation = split(arrays, rows, settings.validation, settings.seed)
        rows = rows_of(fields, arrays)
    if settings.patience is not None and not validation:
        help = "add --validation 0.1, or val_ arrays to the data"
        raise RunError("--patience needs validation rows, and there are none", help=help)
    start = None if weights is None else starting_weights(program, weights, new)
    job = Job(program.module, arrays, rows, folder, validation, fingerprint=program.fingerprint, start=start)
    job.backend = program.backend
    if validation:
        job.validation_rows = rows_of(fields, validation)
    return job, test


def starting_weights(program: Compiled, weights: Path, new: Sequence[str]) -> dict[str, Any]:
    """The weights of a file, and with them its states; those that are to begin anew are left out."""
    from dslc.training.weights import read_old_weights, read_weights

    if new:
        return read_old_weights(program.module, weights, new)
    params, state = read_weights(program.module, weights, new=True)
    return {**params, **state}


def explanation(program: Compiled, dtype: str) -> Any:
    from dslc.training.nonfinite import explain

    assert program.train is not None
    return partial(explain, program.train, dtype)


def tested(job: Job, outcome: Outcome, test: dict[str, Any], program: Compiled) -> dict[str, float]:
    """Loss and metrics of the test arrays."""
    from dslc.training.data import fields_of, rows_of
    from dslc.training.run import evaluate

    if not test or program.train is None:
        return {}
    rows = rows_of(fields_of(program.train.instance), test)
    return evaluate(job.module, outcome.weights, test, rows, 256)


# ---- what is seen ------------------------------------------------------------------------------------


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


def summary(spec: Path, job: Job, outcome: Outcome, test: dict[str, float]) -> dict[str, Any]:
    """The result as `--json` prints it."""
    from dataclasses import asdict

    from dslc.training.checkpoint import CHECKPOINT, WEIGHTS

    return {
        "version": JSON_VERSION,
        "ok": True,
        "spec": str(spec),
        "backend": job.backend,
        "weights": str(job.folder / WEIGHTS),
        "checkpoint": str(job.folder / CHECKPOINT),
        "parameters": sum(outcome.weights[name].size for name in job.module.PARAMS),
        "rows": job.rows.count,
        "steps": outcome.steps,
        "resumed_at": outcome.resumed_at,
        "stopped_early": outcome.stopped_early,
        "best_epoch": outcome.best_epoch,
        "history": [asdict(entry) for entry in outcome.history],
        "unfinished": outcome.unfinished or None,
        "validation": outcome.validation or None,
        "test": test or None,
    }


def show_start(job: Job) -> None:
    """A table: which parameters and states come from the file of --weights, and which begin anew."""
    from rich.console import Console
    from rich.table import Table

    loaded = job.start or {}
    table = Table("parameter", "shape", "begins")
    for name, (shape, *_) in {**job.module.PARAMS, **getattr(job.module, "STATE", {})}.items():
        table.add_row(name, str(list(shape)), "loaded" if name in loaded else "new")
    Console().print(table)


def show_result(report: dict[str, Any]) -> None:
    """A table: the last epoch, the validation and the test."""
    from rich.console import Console
    from rich.table import Table

    from dslc.quoting import printable

    rows: list[tuple[str, dict[str, float]]] = []
    if report["history"]:
        last = report["history"][-1]
        rows.append((f"training, epoch {last['epoch']}", last["training"]))
    elif report["unfinished"]:
        rows.append(("training, first epoch", report["unfinished"]))
    if report["validation"]:
        best = f", epoch {report['best_epoch']}" if report["best_epoch"] else ""
        rows.append((f"validation{best}", report["validation"]))
    if report["test"]:
        rows.append(("test", report["test"]))
    if rows:
        names = list(dict.fromkeys(name for _, values in rows for name in values))
        table = Table("", *names)
        for label, values in rows:
            table.add_row(label, *(f"{values[name]:.4f}" if name in values else "" for name in names))
        Console().print(table)
    early = ", stopped early" if report["stopped_early"] else ""
    resumed = f", resumed at {report['resumed_at']}" if report["resumed_at"] else ""
    weights = printable(report["weights"])
    click.echo(f"{weights}: {report['parameters']} parameters, {report['steps']} steps{resumed}{early}")

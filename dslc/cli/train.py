"""`dslc train` and `dslc run`: a spec on data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dslc.cli.arguments import SET
from dslc.cli.compile import DTYPE, MODEL, SPEC
from dslc.cli.output import tell

if TYPE_CHECKING:
    from types import ModuleType


def _module(
    context: click.Context, spec: Path, dtype: str, model: str | None, settings: dict[str, object]
) -> ModuleType:
    from dslc.compiler import compile_module
    from dslc.diagnostics.report import SpecError

    try:
        return compile_module(spec, "numpy", dtype, model, **settings)
    except SpecError as error:
        tell(error.diagnostics)
        context.exit(1)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _defaults(spec: Path) -> dict[str, int]:
    """`batch` and `epochs` as the `train` of the spec gives them."""
    from dslc.frontend import check_file
    from dslc.syntax import tree as t

    checked = check_file(spec)
    found: dict[str, int] = {}
    for node in checked.parsed.module.definitions if checked.parsed else ():
        if isinstance(node, t.Train):
            for formal in node.formals:
                if formal.name in ("batch", "epochs") and isinstance(formal.default, t.Number):
                    found[formal.name] = int(formal.default.value)
    return found


@click.command(short_help="Train a spec on data.")
@SPEC
@click.option(
    "--data", metavar="FILE.npz", required=True, type=click.Path(path_type=Path), help="Arrays named as the inputs."
)
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder for weights and checkpoints; default runs/NAME.",
)
@click.option("--epochs", type=click.IntRange(1), help="Passes over the data; else as the spec says.")
@click.option("--batch", type=click.IntRange(1), help="Rows in a step; else as the spec says.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, help="For the parameters, the order of the rows and random draws."
)
@SET
@DTYPE
@MODEL
@click.pass_context
def train(
    context: click.Context, spec: Path, data: Path, output: Path | None, epochs: int | None, batch: int | None,
    seed: int, settings: dict[str, object], dtype: str, model: str | None,
) -> None:  # fmt: skip
    """Train SPEC with the NumPy backend and show the result.

    \b
    Examples:
        dslc train specs/mlp/mlp.dsl --data specs/data/digits.npz
        dslc train gpt.dsl --data text.npz --epochs 3 -o runs/gpt

    FILE.npz holds an array for each input of the `train`, rows along the first axis; arrays named test_NAME are
    kept for the end. After each epoch the folder has weights.safetensors and a checkpoint: the same command goes
    on from there, and ends with the same bits as a run that was never stopped.
    """
    import inspect

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Table

    from dslc.training import Progress as Epoch
    from dslc.training import Settings, TrainingError, evaluate, load_data
    from dslc.training import train as run_training

    module = _module(context, spec, dtype, model, settings)
    if not hasattr(module, "train_step"):
        raise click.UsageError(f"{spec} has no `train`; add one to say what to minimise")
    stated = _defaults(spec)
    chosen = Settings(batch or stated.get("batch", 64), epochs or stated.get("epochs", 10), seed)
    names = [n for n in inspect.signature(module.train_step).parameters if n not in ("params", "opt")]
    folder = output or Path("runs") / spec.stem
    console = Console(stderr=True)
    history: list[Epoch] = []
    try:
        rows, test = load_data(data, names)
        steps = -(-len(next(iter(rows.values()))) // chosen.batch) * chosen.epochs
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=console) as bar:
            task = bar.add_task(spec.stem, total=steps, note="")

            def on_step(step: int, loss: float) -> None:
                note = f"loss {loss:.4f}" + "".join(
                    f"  {k} {v:.4f}" for k, v in (history[-1].metrics.items() if history else ())
                )
                bar.update(task, completed=step, note=note)

            params, opt = run_training(module, rows, chosen, folder, on_step, history.append)
        table = Table("", "loss", *(history[-1].metrics if history else ()))
        if history:
            last = history[-1]
            table.add_row(f"epoch {last.epoch}", f"{last.loss:.4f}", *(f"{v:.4f}" for v in last.metrics.values()))
        if test:
            result = evaluate(module, params, opt, test)
            cells = [f"{result['loss']:.4f}", *(f"{result[k]:.4f}" for k in (history[-1].metrics if history else ()))]
            table.add_row("test", *cells)
        Console().print(table)
        click.echo(
            f"{folder / 'weights.safetensors'}: {sum(v.size for v in params.values())} parameters, {opt['step']} steps"
        )
    except TrainingError as error:
        click.echo(f"error: {error}", err=True)
        context.exit(1)
    except KeyboardInterrupt:
        click.echo(f"stopped; the same command goes on after the last finished epoch ({folder})", err=True)
        context.exit(130)
    except OSError as error:
        click.echo(
            f"error: cannot write to {folder}: {error.strerror or error}; the files written before are whole", err=True
        )
        context.exit(1)


@click.command(short_help="Run a spec with given weights.")
@SPEC
@click.option(
    "--weights",
    metavar="W",
    required=True,
    type=click.Path(path_type=Path),
    help="A safetensors file, as `dslc train` leaves it.",
)
@click.option(
    "--inputs",
    metavar="X.npz",
    required=True,
    type=click.Path(path_type=Path),
    help="Arrays named as the inputs of the model.",
)
@click.option(
    "-o", "--output", metavar="Y.npz", required=True, type=click.Path(path_type=Path), help="Where the outputs go."
)
@SET
@DTYPE
@MODEL
@click.pass_context
def run(
    context: click.Context, spec: Path, weights: Path, inputs: Path, output: Path, settings: dict[str, object],
    dtype: str, model: str | None,
) -> None:  # fmt: skip
    """Compute the outputs of SPEC and write them to Y.npz.

    \b
    Example:
        dslc run mlp.dsl --weights runs/mlp/weights.safetensors --inputs x.npz -o y.npz
    """
    import inspect

    import numpy as np

    from dslc.training import TrainingError, load_data, write_atomically

    module = _module(context, spec, dtype, model, settings)
    names = [n for n in inspect.signature(module.forward).parameters if n not in ("params", "state", "seed")]
    try:
        arrays, _ = load_data(inputs, names)
        if not weights.is_file():
            raise TrainingError(f"there is no file {weights}")
        params = module.load(str(weights))
        more: dict[str, Any] = {"state": module.init_state()} if hasattr(module, "init_state") else {}
        result = module.forward(params, *arrays.values(), **more)
    except (TrainingError, ValueError, TypeError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        context.exit(1)
    outputs = result if isinstance(result, dict) else {"output": result}

    def write(target: Path) -> None:
        with target.open("wb") as file:
            np.savez(file, **outputs)

    write_atomically(output.absolute(), write)
    click.echo(f"{output}: " + ", ".join(f"{k} {list(v.shape)}" for k, v in outputs.items()))

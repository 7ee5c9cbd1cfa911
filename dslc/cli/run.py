"""`dslc run`: the outputs of a spec for given weights and inputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dslc.cli.arguments import SET
from dslc.cli.compile import DTYPE, MODEL, RUN_BACKEND, SPEC

if TYPE_CHECKING:
    from dslc.arrays import Arrays
    from dslc.check import program as p
    from dslc.cli.compiled import Compiled

#: Of the object that `--json` prints.
JSON_VERSION = 1


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
@click.option("--seed", type=click.IntRange(0, 2**62), default=0, show_default=True, help="For random draws.")
@click.option("--json", "as_json", is_flag=True, help="Print the shapes of the outputs as JSON on standard output.")
@RUN_BACKEND
@SET
@DTYPE
@MODEL
@click.pass_context
def run(
    context: click.Context, spec: Path, weights: Path, inputs: Path, output: Path, seed: int, as_json: bool,
    backend: str, settings: dict[str, object], dtype: str, model: str | None,
) -> None:  # fmt: skip
    """Compute the outputs of SPEC and write them to Y.npz, each under its name in the spec.

    \b
    Example:
        dslc run mlp.dsl --weights runs/mlp/weights.safetensors --inputs x.npz -o y.npz

    The states that the training left (the running statistics of a batch norm) come with the weights. Give the
    same --set, --model and --dtype as for `dslc train`; the backend may be
    another. The exit status is 1 when a file does not fit.
    """
    import json

    from dslc.arrays import write_arrays
    from dslc.cli.compiled import chosen, compiled, spec_errors
    from dslc.run_errors import RunError
    from dslc.training.checkpoint import cannot_write

    try:
        with spec_errors(as_json, JSON_VERSION):
            sizes = sizes_of_inputs(chosen(spec, settings, model)[1], weights, inputs)
            program = compiled(spec, {**sizes, **settings}, dtype, model, backend, as_json)
        found = outputs(program, weights, inputs, seed)
        try:
            write_arrays(output, found)
        except OSError as error:
            raise cannot_write(output, error, "then run it again") from error
    except RunError as error:
        if as_json:
            click.echo(json.dumps({"version": JSON_VERSION, "ok": False, "error": error.to_json()}, indent=2))
        else:
            click.echo(error.text(), err=True)
        context.exit(1)
    if as_json:
        shapes = {name: {"shape": list(x.shape), "dtype": str(x.dtype)} for name, x in found.items()}
        click.echo(json.dumps({"version": JSON_VERSION, "ok": True, "file": str(output), "outputs": shapes}, indent=2))
    else:
        click.echo(f"{output}: " + ", ".join(f"{name} {list(x.shape)}" for name, x in found.items()))


def sizes_of_inputs(model: p.Instance, weights: Path, inputs: Path) -> dict[str, int]:
    """The open sizes that parameters need, as the inputs have them."""
    from dslc.open_sizes import needed, sizes_of

    wanted = needed(model)
    if not wanted:
        return {}
    return sizes_of(model, {name: x.shape for name, x in arrays_of(model, weights, inputs).items()}, wanted)


def arrays_of(model: p.Instance, weights: Path, inputs: Path) -> Arrays:
    """The inputs of the model by name, encoded as in the training that left the weights."""
    from dslc.data.fields import fields_of, matched
    from dslc.data.files import inputs_of, read_encoding

    fields = fields_of(model)
    return matched(inputs, inputs_of(inputs, fields, read_encoding(weights.parent)), fields, where=model.where)


def outputs(program: Compiled, weights: Path, inputs: Path, seed: int) -> dict[str, Any]:
    """The outputs of the model by name."""
    from dslc.training.run import outputs_of
    from dslc.training.weights import read_weights

    read = read_weights(program.module, weights)
    return outputs_of(program.module, program.model, *read, arrays_of(program.model, weights, inputs), seed)

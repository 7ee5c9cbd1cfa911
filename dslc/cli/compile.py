"""`dslc compile`: a spec as a standalone module."""

from __future__ import annotations

from pathlib import Path

import click

from dslc.backends.registry import BACKENDS
from dslc.cli.arguments import SET, names_of
from dslc.cli.output import tell
from dslc.dtypes import KEPT

SPEC = click.argument("spec", metavar="SPEC", type=click.Path(path_type=Path))
DTYPE_HELP = "The float that parameters are kept in; f16 and bf16 are computed with in f32."
DTYPE = click.option("--dtype", type=click.Choice(KEPT), default="f32", help=DTYPE_HELP)
DTYPE_OF_NUMPY = click.option("--dtype", type=click.Choice(BACKENDS["numpy"].dtypes), default="f32", help=DTYPE_HELP)
BACKEND = click.option(
    "-b", "--backend", type=click.Choice(tuple(BACKENDS)), default="numpy", help="What the module computes with."
)
MODEL = click.option("--model", metavar="NAME", help="Which model of the spec, if it has several.")


@click.command("compile", short_help="Compile a spec to a standalone module.")
@SPEC
@SET
@DTYPE
@MODEL
@BACKEND
@click.option(
    "--wrt",
    metavar="INPUT",
    multiple=True,
    callback=names_of,
    help="Differentiate the loss by this input too: `grads` has it by name; may be repeated.",
)
@click.option(
    "--atomic", is_flag=True, help="Let Triton kernels add what is scattered in any order: quicker, not repeatable."
)
@click.option(
    "--tune",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Triton: time a few configurations of each kernel on this machine's GPU, and write the quickest.",
)
@click.option(
    "-o",
    "--output",
    metavar="OUT.py",
    type=click.Path(path_type=Path),
    help="Where to write it; else to standard output.",
)
@click.pass_context
def compile_(
    context: click.Context, spec: Path, settings: dict[str, object], dtype: str, model: str | None, backend: str,
    wrt: list[str], atomic: bool, tune: float | None, output: Path | None,
) -> None:  # fmt: skip
    """Compile SPEC to one Python file that needs NumPy alone, or with -b triton torch and triton.

    \b
    Examples:
        dslc compile mlp.dsl -o mlp.py
        dslc compile mlp.dsl --set hidden=512 --dtype f64
        dslc compile mlp.dsl --wrt x -o mlp.py

    The module has init, forward and, where the spec has a `train`, loss_and_grad and train_step.
    """
    from dslc.compiler import compile_text
    from dslc.diagnostics.spec_error import SpecError
    from dslc.tuning import NoDevice, require_device, tuned
    from dslc.writing import write_bytes

    if tune is not None and backend != "triton":
        raise click.UsageError("--tune is for the backend triton: its kernels are timed on a GPU")
    try:
        if tune is not None:
            require_device()
            text = tuned(spec, settings, dtype, model, atomic, tune, wrt=wrt)
        else:
            text = compile_text(spec, backend, settings, dtype, model, atomic, wrt=wrt, warn=lambda x: tell([x]))
    except NoDevice as error:
        raise click.ClickException(str(error)) from error
    except SpecError as error:
        tell(error.diagnostics)
        context.exit(1)
    except ValueError as error:
        raise click.UsageError(str(error)) from error

    if output is None:
        click.echo(text, nl=False)
        return
    try:
        write_bytes(output, text.encode())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise click.ClickException(f"cannot write {click.format_filename(output)}: {reason}") from error
    click.echo(f"{output}: {len(text.splitlines())} lines")

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
BACKEND = click.option(
    "-b", "--backend", type=click.Choice(tuple(BACKENDS)), default="numpy", help="What the module computes with."
)
RUN_BACKEND = click.option(
    "--backend",
    type=click.Choice(("auto", *BACKENDS)),
    default="auto",
    show_default=True,
    help="What to compute with; auto is C where a C compiler is found, else NumPy.",
)
WRT = click.option(
    "--wrt",
    metavar="INPUT",
    multiple=True,
    callback=names_of,
    help="Differentiate the loss by this input too: `grads` has it by name; may be repeated.",
)
MODEL = click.option("--model", metavar="NAME", help="Which model of the spec, if it has several.")
FOLD = click.option("--fold", is_flag=True, help="Merge linear maps for inference, such as batch norms into weights.")


@click.command("compile", short_help="Compile a spec to a standalone module.")
@SPEC
@SET
@DTYPE
@MODEL
@BACKEND
@WRT
@FOLD
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
    "--march", metavar="NAME", help="C: the processor that it is compiled for, such as x86-64-v3; else this one."
)
@click.option(
    "--name", metavar="NAME", help="C: what its files and functions are called; else as the file of the spec."
)
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    type=click.Path(path_type=Path),
    help="Where to write it, for C a folder; else to standard output.",
)
@click.pass_context
def compile_(
    context: click.Context, spec: Path, settings: dict[str, object], dtype: str, model: str | None, backend: str,
    wrt: list[str], fold: bool, atomic: bool, tune: float | None, march: str | None, name: str | None,
    output: Path | None,
) -> None:  # fmt: skip
    """Compile SPEC to one Python file that needs NumPy alone, or with -b triton torch and triton. With -b c, to a C
    file without libraries, its header and a Python file that calls it, in the folder that -o names.

    \b
    Examples:
        dslc compile mlp.dsl -o mlp.py
        dslc compile mlp.dsl -b c -o build
        dslc compile mlp.dsl --set hidden=512 --dtype f64
        dslc compile mlp.dsl --wrt x -o mlp.py
        dslc compile resnet.dsl --fold -o resnet.py

    The module has init, forward and, where the spec has a `train`, loss_and_grad and train_step.
    """
    from dslc.backends.registry import backend_of
    from dslc.compiler import compile_files, compile_text
    from dslc.diagnostics.spec_error import SpecError
    from dslc.tuning import NoDevice, require_device, tuned
    from dslc.writing import write_bytes

    if tune is not None and backend != "triton":
        raise click.UsageError("--tune is for the backend triton: its kernels are timed on a GPU")
    files: dict[str, str] = {}
    try:
        if tune is not None:
            require_device()
            text = tuned(spec, settings, dtype, model, atomic, tune, wrt=wrt, folded=fold)
        elif output is not None and backend_of(backend).printer().files is not None:
            files = compile_files(spec, backend, settings, dtype, model, wrt, lambda x: tell([x]), march, name, fold)
        else:
            text = compile_text(
                spec, backend, settings, dtype, model, atomic, wrt=wrt, warn=lambda x: tell([x]), march=march,
                name=name, folded=fold,
            )  # fmt: skip
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
    places = {output / file: text for file, text in files.items()} or {output: text}
    for place, text in places.items():
        try:
            if files:
                output.mkdir(parents=True, exist_ok=True)
            write_bytes(place, text.encode())
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise click.ClickException(f"cannot write {click.format_filename(place)}: {reason}") from error
        click.echo(f"{place}: {len(text.splitlines())} lines")

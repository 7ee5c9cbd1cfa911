"""`dslc verify`: whether the modules of a spec compute what it says."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dslc.backends.registry import BACKENDS
from dslc.cli.arguments import SET
from dslc.cli.compile import MODEL, SPEC

if TYPE_CHECKING:
    from dslc.verification.checks import Check

#: Of the object that `--json` prints.
JSON_VERSION = 1


def sizes_of(context: click.Context, option: click.Parameter, text: str | None) -> dict[str, int]:
    """`N=5,T=7` as names and whole numbers."""
    found: dict[str, int] = {}
    for part in (text or "").split(","):
        if part.strip():
            name, _, value = (x.strip() for x in part.partition("="))
            if not name.isidentifier() or not value.isdecimal() or not 1 <= len(value) <= 6 or int(value) < 1:
                raise click.BadParameter(f"expected NAME=NUMBER with numbers from 1, found {part.strip()!r}")
            found[name] = int(value)
    return found


@click.command(short_help="Compare the modules of a spec with its meaning.")
@SPEC
@click.option("--sizes", metavar="N=5,T=7", callback=sizes_of, help="Open sizes; those not given are small and random.")
@click.option(
    "--ragged",
    is_flag=True,
    help="Check with open sizes of 1, 3, 17, 65 and 130, where the spec allows it, and show the worst results.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**62), default=0, show_default=True, help="For the sizes and all values."
)
@click.option(
    "-b",
    "--backend",
    "backends",
    multiple=True,
    type=click.Choice(("auto", *BACKENDS)),
    help="Only this backend; may be repeated. By default all of them; auto is the one that `dslc train` takes.",
)
@click.option(
    "--dtype",
    type=click.Choice(("f64", "f32", "f16", "bf16")),
    default="f64",
    show_default=True,
    help="What parameters are kept in; errors may be as large as its roundings make them.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON on standard output.")
@SET
@MODEL
@click.pass_context
def verify(
    context: click.Context, spec: Path, sizes: dict[str, int], ragged: bool, seed: int, backends: tuple[str, ...],
    dtype: str, as_json: bool, settings: dict[str, object], model: str | None,
) -> None:  # fmt: skip
    """Verify SPEC: compile it for all backends, and compare what they compute on random inputs.

    \b
    Examples:
        dslc verify mlp.dsl
        dslc verify gpt.dsl --sizes N=2,T=7 --seed 3
        dslc verify lstm.dsl -b triton --ragged
        dslc verify mlp.dsl --dtype bf16

    Outputs, loss, metrics, states and gradients are compared with the reference interpreter on the formulas as
    they are written. Gradients along a random direction are compared with differences of the loss, and second
    derivatives with differences of the first. Ten steps of training, random draws and all, must move parameters as
    the NumPy module does. Triton's kernels run in its interpreter, which needs no GPU. The exit status is 1
    if an error is larger than it may be, or if nothing could be compared.

    Modules are compiled in float64, unless --dtype names another. Then errors may be a few roundings of that dtype, and
    more where rounding every value of the interpreter gives more. The ten steps are compared with those of NumPy in the
    same dtype, in bfloat16 with those in float32. Differences are taken in float64 only.

    With --json, standard output holds one object: "version" (1), "ok", "sizes", "seed", "dtype" and "checks"
    ("backend", "check", "error", "tolerance", "ok" and "note"; the error is null where a check does not apply). With
    --ragged, "sizes" is a list of those that were tried.
    """
    import json
    import warnings

    from dslc.cli.compiled import chosen, spec_errors
    from dslc.compiler import optimizer_of
    from dslc.open_sizes import needed
    from dslc.run_errors import RunError
    from dslc.verification.backends import Loaded
    from dslc.verification.verify import choose_sizes, merged, ragged_sizes
    from dslc.verification.verify import verify as run_checks

    with spec_errors(as_json, JSON_VERSION):
        checked, instance, train = chosen(spec, settings, model)
        optimizer = optimizer_of(checked, train)
    # what is not finite is in the table; threads of a module warn whatever `numpy.errstate` says here
    context.with_resource(warnings.catch_warnings())
    warnings.simplefilter("ignore", RuntimeWarning)
    fixed: dict[str, int] = {}
    try:
        if wanted := needed(instance):  # modules are made for one length of these
            found = choose_sizes(instance, train, sizes, seed)
            fixed = {name: found[name] for name in wanted}
            sizes = {name: length for name, length in sizes.items() if name not in fixed}
            settings = {**settings, **fixed}
            checked, instance, train = chosen(spec, settings, model)
            optimizer = optimizer_of(checked, train)
        if ragged:
            drawn = ragged_sizes(instance, train, sizes, seed) or [choose_sizes(instance, train, sizes, seed)]
        else:
            drawn = [choose_sizes(instance, train, sizes, seed)]
        names = list(dict.fromkeys(taken(x) for x in backends)) or list(BACKENDS)
        modules = dict[tuple[str, str], Loaded]()
        runs = [
            (
                each,
                run_checks(
                    spec,
                    settings,
                    instance,
                    train,
                    each,
                    seed,
                    names,
                    dtype,
                    modules,
                    optimizer,
                    None if ragged else sizes,
                ),
            )
            for each in drawn
        ]
        checks = merged(runs) if ragged else runs[0][1]
    except RunError as error:
        click.echo(error.text(), err=True)
        context.exit(1)
    compared = any(check.error is not None and check.backend in names for check in checks)
    good = all(check.ok for check in checks) and compared
    told = [{**fixed, **each} for each in drawn]
    if as_json:
        rows = [one_row(check) for check in checks]
        tried = told if ragged else told[0]
        click.echo(
            json.dumps(
                {"version": JSON_VERSION, "ok": good, "sizes": tried, "seed": seed, "dtype": dtype, "checks": rows},
                indent=2,
            )
        )
    else:
        show_checks(checks)
        shown = "; ".join(", ".join(f"{name}={value}" for name, value in each.items()) for each in told)
        click.echo(f"{spec}: {'ok' if good else 'FAILED'}{' at ' if shown else ''}{shown}, seed {seed}, in {dtype}")
    context.exit(0 if good else 1)


def taken(name: str) -> str:
    """The backend of that name; `auto` is the first one of those that `dslc train` tries that can be used here."""
    from dslc.backends.record import Unavailable
    from dslc.cli.compiled import AUTO

    for other in AUTO if name == "auto" else ():
        if other in BACKENDS:
            with suppress(Unavailable):
                BACKENDS[other].runs_with()
                click.echo(f"backend: {other}", err=True)
                return other
    return name


def one_row(check: Check) -> dict[str, Any]:
    error = check.error if check.error is None or check.error < float("inf") else "inf"
    return {
        "backend": check.backend, "check": check.name, "error": error, "tolerance": check.tolerance, "ok": check.ok,
        "note": check.note,
    }  # fmt: skip


def show_checks(checks: list[Check]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("backend", "check", "error", "allowed", "", "note")
    for check in checks:
        result = "skipped" if check.error is None else "ok" if check.ok else "FAILED"
        error, most = ("", "") if check.error is None else (f"{check.error:.1e}", f"{check.tolerance:.1e}")
        table.add_row(check.backend, check.name, error, most, result, check.note)
    console = Console()
    (console if console.is_terminal else Console(width=140)).print(table)

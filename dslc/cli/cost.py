"""`dslc cost`: what a spec costs, value by value."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dslc.cli.arguments import setting
from dslc.cli.compile import BACKEND, DTYPE, MODEL, SPEC

if TYPE_CHECKING:
    from dslc.builder.build import Unit
    from dslc.check import program as p
    from dslc.cost import Cost, Row
    from dslc.sizes import Size

#: Of the object that `--json` prints.
JSON_VERSION = 1
COLUMNS = ("operations", "read", "written", "saved")


@click.command(short_help="Count the operations and bytes of a spec.")
@SPEC
@click.option(
    "--set",
    "given",
    metavar="NAME=VALUE",
    multiple=True,
    callback=lambda context, option, values: dict(map(setting, values)),
    help="A hyper-parameter of the model, or an open size such as N; may be repeated.",
)
@click.option("--inference", is_flag=True, help="Only the outputs for inference, though the spec has a `train`.")
@click.option("--json", "as_json", is_flag=True, help="Print the costs as JSON on standard output.")
@DTYPE
@MODEL
@BACKEND
@click.option("--resources", is_flag=True, help="With -b triton: registers, shared memory and spills on three GPUs.")
def cost(
    spec: Path, given: dict[str, object], inference: bool, as_json: bool, dtype: str, model: str | None, backend: str,
    resources: bool,
) -> None:  # fmt: skip
    """Count operations, bytes and parameters of SPEC, for each value that it names.

    \b
    Examples:
        dslc cost mlp.dsl
        dslc cost mlp.dsl --set N=64 --set hidden=512
        dslc cost gpt.dsl --set N=8 --set T=128 --json
        dslc cost gpt.dsl --set N=8 --set T=1024 -b triton --resources

    Sizes that are not set stay symbols, and costs are formulas of them. A row is a value that an equation names,
    with the parts of its formula, or a gradient (its line begins with d). "operations" counts arithmetic and
    functions on floats, a product that is summed as two; "read" and "written" are bytes, each element once;
    "saved" are the bytes that the backward pass reads again. The counts are those of the program before fusion.

    With --json, standard output holds one object: "version" (1), "parameters" and "parameter_bytes", "sizes" (the
    open ones), "rows" ("name", "file", "line", "backward", "count" and the four costs) and "total" (of "forward",
    "backward" and "all"). A cost is a number, or a formula as a string.

    With -b triton, a row is a kernel of the function that infers or of the one that trains: how often it is launched,
    operations, bytes, and operations for each byte ("intensity"); "buffers" are the bytes of what a function
    allocates. --resources compiles the kernels, without a GPU, for cuda 80, cuda 90 and hip gfx942.
    """
    import json

    from dslc.cli.compiled import chosen, spec_errors

    if resources and backend != "triton":
        raise click.UsageError("--resources tells about kernels: add -b triton")
    settings, sizes = sorted_settings(spec, given, model)
    if backend == "triton":
        from dslc.cli.kernel_cost import kernel_report, show_kernels

        with spec_errors(as_json, JSON_VERSION):
            checked, instance, train = chosen(spec, settings, model)
            made = kernel_report(checked, instance, None if inference else train, spec, sizes, dtype, resources)
        if as_json:
            click.echo(json.dumps(made, indent=2))
        else:
            show_kernels(made)
        return
    with spec_errors(as_json, JSON_VERSION):
        _, instance, train = chosen(spec, settings, model)
        unit, rows = counted(instance, None if inference else train, dtype)
    known = open_sizes(unit)
    refuse_unknown(sizes, known)
    report = summary(unit, rows, sizes, known, dtype)
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        show(report)


def sorted_settings(
    spec: Path, given: Mapping[str, object], model: str | None
) -> tuple[dict[str, object], dict[str, object]]:
    """Which names are arguments of a model; the others should be open sizes."""
    from dslc.frontend import check_file
    from dslc.syntax import tree as t

    parsed = check_file(spec).parsed
    formals: set[str] = set()
    for node in parsed.module.definitions if parsed else ():
        if isinstance(node, t.Layer) and node.word == "model":
            formals |= {f.name for f in node.formals if not isinstance(f.kind, t.Type)}
    settings = {name: value for name, value in given.items() if name in formals}
    return settings, {name: value for name, value in given.items() if name not in formals}


def counted(model: p.Instance, train: p.TrainProgram | None, dtype: str) -> tuple[Unit, list[Row]]:
    """The costs of the training of a spec, or of its outputs."""
    from dslc import pipeline
    from dslc.autodiff.reverse import NoDerivative
    from dslc.builder.build import Refusal
    from dslc.compiler import refusal
    from dslc.cost import costs
    from dslc.diagnostics.report import SpecError

    try:
        if train is None:
            made = pipeline.forward(model)
            return made.unit, costs(made.outputs.values(), dtype=dtype)
        made = pipeline.training(train)
    except (Refusal, NoDerivative) as reason:
        span = reason.span if reason.span.source.text else model.span
        raise SpecError([refusal(reason, span, "numpy")]) from reason
    first = [*made.values().values(), *made.states().values()]
    return made.unit, costs(first, made.gradients().values(), dtype)


def open_sizes(unit: Unit) -> list[str]:
    """The names of sizes that only the data give."""
    found: dict[str, None] = {}
    for x in unit.inputs.values():
        for size in x.shape:
            if not isinstance(size, int):
                found.update({s.name: None for s in sorted(size.free_symbols, key=str)})
    return list(found)


def refuse_unknown(sizes: Mapping[str, object], known: list[str]) -> None:
    import difflib

    for name, value in sizes.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"open sizes are {', '.join(known) or 'none'}"
            raise click.UsageError(f"{name} is neither an argument of the model nor an open size; {hint}")
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise click.UsageError(f"expected a whole number from 1 for the size {name}, found {value}")


def summary(unit: Unit, rows: list[Row], sizes: Mapping[str, Any], known: list[str], dtype: str) -> dict[str, Any]:
    """The costs as `--json` prints them."""
    from dslc.cost import BYTES, settle, total

    count: Any = 0
    width: Any = 0
    for path, declaration in unit.params.items():
        size: Any = len(unit.paths(path))
        for n in declaration.tensor.shape:
            size = size * n
        count += size
        width += size * BYTES.get(declaration.tensor.dtype, BYTES[dtype])
    parts = {
        "forward": [r for r in rows if not r.backward], "backward": [r for r in rows if r.backward], "all": rows,
    }  # fmt: skip
    return {
        "version": JSON_VERSION,
        "parameters": plain(settle(count, sizes)),
        "parameter_bytes": plain(settle(width, sizes)),
        "sizes": [name for name in known if name not in sizes],
        "rows": [one_row(row, sizes) for row in rows],
        "total": {name: numbers(total(part), sizes) for name, part in parts.items()},
    }


def one_row(row: Row, sizes: Mapping[str, int]) -> dict[str, Any]:
    known = bool(row.span.source.text)
    return {
        "name": row.name or None,
        "file": row.span.source.name if known else None,
        "line": row.span.line if known else None,
        "backward": row.backward,
        "count": row.count,
        **numbers(row.cost, sizes),
    }


def numbers(cost: Cost, sizes: Mapping[str, int]) -> dict[str, Any]:
    settled = cost.at(sizes)
    return {name: plain(getattr(settled, name)) for name in COLUMNS}


def plain(size: Size) -> int | str:
    from dslc.sizes import show as show_size

    return size if isinstance(size, int) else show_size(size)


def show(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from dslc.quoting import printable

    table = Table("value", "line", *COLUMNS)
    for column in table.columns[2:]:
        column.justify = "right"
    for row in report["rows"]:
        name = row["name"] or ""
        times = f" (x{row['count']})" if row["count"] > 1 else ""
        where = "" if row["file"] is None else f"{Path(row['file']).name}:{row['line']}"
        place = Text(("d " if row["backward"] else "") + printable(where))  # as it is: no words of rich in file names
        table.add_row(f"{name}{times}", place, *(cell(row[c]) for c in COLUMNS))
    both = any(row["backward"] for row in report["rows"])
    for name, values in report["total"].items():
        if both or name == "all":
            table.add_section()
            table.add_row("total" if name == "all" else f"total {name}", "", *(cell(values[c]) for c in COLUMNS))
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table)
    click.echo(f"{cell(report['parameters'])} parameters, {cell(report['parameter_bytes'])} bytes")
    if report["sizes"]:
        click.echo(f"open sizes: {', '.join(report['sizes'])} (--set {report['sizes'][0]}=64 gives numbers)")


def cell(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else value

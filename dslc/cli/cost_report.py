"""Costs as `dslc cost` reports them: settings and open sizes, the object that `--json` prints, the table for people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from dslc.builder.unit import Unit
    from dslc.check import program as p
    from dslc.cost import Cost, Row
    from dslc.ir import nodes as ir
    from dslc.sizes import Size

#: Of the object that `--json` prints.
JSON_VERSION = 1
#: kept in 16 bits, computed with in 32
HALF = ("f16", "bf16")
COLUMNS = ("operations", "read", "written", "saved")


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


@dataclass
class Counted:
    """What a spec computes, and what its values cost."""

    unit: Unit
    rows: list[Row]
    #: what is asked for, that of the forward pass first
    results: list[ir.Tensor]


def counted(
    model: p.Instance, train: p.TrainProgram | None, dtype: str, folded: bool = False, tangent: bool = False
) -> Counted:
    """The costs of the training of a spec, of its outputs, or of its loss with a `tangent`."""
    from dslc import pipeline
    from dslc.autodiff.reverse import NoDerivative
    from dslc.builder.build import Refusal
    from dslc.compiler import refusal
    from dslc.cost import costs
    from dslc.diagnostics.spec_error import SpecError

    try:
        if train is None or tangent:
            made = pipeline.forward(model, folded) if train is None else pipeline.forward_mode(train)
            results = list(made.outputs.values())
            return Counted(made.unit, costs(results, dtype=dtype), results)
        made = pipeline.training(train)
    except (Refusal, NoDerivative) as reason:
        span = reason.span if reason.span.source.text else model.span
        raise SpecError([refusal(reason, span, "numpy")]) from reason
    first = [*made.values().values(), *made.states().values()]
    second = list(made.gradients().values())
    return Counted(made.unit, costs(first, second, dtype), [*first, *second])


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


def parameters(unit: Unit, sizes: Mapping[str, Any], dtype: str, optimizer: p.Instance | None) -> dict[str, Any]:
    """How many parameters there are, their bytes, and those that an optimiser keeps from step to step."""
    from dslc.cost import BYTES, settle

    half = dtype in HALF
    count: Any = 0
    width: Any = 0
    kept: Any = 0
    for path, declaration in unit.params.items():
        size: Any = len(unit.paths(path))
        for n in declaration.tensor.shape:
            size = size * n
        each = BYTES.get(declaration.tensor.dtype, BYTES[dtype])
        count += size
        width += size * each
        if optimizer is not None:  # a slot is as long as its parameter; 16-bit ones are updated in a copy of 32 bits
            kept += size * (len(optimizer.states) + half) * (BYTES["f32"] if half else each)
    found = {"parameters": plain(settle(count, sizes)), "parameter_bytes": plain(settle(width, sizes))}
    if optimizer is not None:
        found |= {"optimizer": optimizer.name, "optimizer_bytes": plain(settle(kept, sizes))}
    return found


def summary(
    found: Counted, sizes: Mapping[str, Any], known: list[str], dtype: str, optimizer: p.Instance | None
) -> dict[str, Any]:
    """The costs as `--json` prints them."""
    from dslc.cost import total
    from dslc.held import most_held

    rows = found.rows
    parts = {
        "forward": [r for r in rows if not r.backward], "backward": [r for r in rows if r.backward], "all": rows,
    }  # fmt: skip
    return {
        "version": JSON_VERSION,
        **parameters(found.unit, sizes, dtype, optimizer),
        "held": plain(most_held(found.results, dtype, sizes)),
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
    show_parameters(report)


def show_parameters(report: dict[str, Any]) -> None:
    """The lines below a table."""
    click.echo(f"{cell(report['parameters'])} parameters, {cell(report['parameter_bytes'])} bytes")
    if "optimizer" in report:
        click.echo(f"{report['optimizer']} keeps {cell(report['optimizer_bytes'])} bytes beside them")
    if "held" in report:
        click.echo(f"at most {cell(report['held'])} bytes of values are held at once")
    if report["sizes"]:
        click.echo(f"open sizes: {', '.join(report['sizes'])} (--set {report['sizes'][0]}=64 gives numbers)")


def cell(value: int | str) -> str:
    """A number, or a formula of sizes, with the thousands of its numbers apart: `12,582,912*N`."""
    return re.sub(r"\b\d+\b", lambda found: f"{int(found[0]):,}", str(value))

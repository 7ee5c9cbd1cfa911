"""`dslc cost --fields`: shapes, strides in memory and receptive fields of the values of a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dslc.cli.cost_report import JSON_VERSION, cell, open_sizes, plain, refuse_unknown
from dslc.sizes import strides

if TYPE_CHECKING:
    from dslc.check import program as p
    from dslc.receptive import Row, Seen


def field_report(model: p.Instance, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """What `--json` prints; raises SpecError for what cannot be built."""
    from dslc.builder.build import Refusal, build
    from dslc.compiler import refusal
    from dslc.diagnostics.spec_error import SpecError
    from dslc.receptive import receptive_fields

    try:
        unit = build(model, "inference")
    except Refusal as reason:
        span = reason.span if reason.span.source.text else model.span
        raise SpecError([refusal(reason, span, "numpy")]) from reason
    known = open_sizes(unit)
    refuse_unknown(sizes, known)
    return {
        "version": JSON_VERSION,
        "sizes": [name for name in known if name not in sizes],
        "fields": [one_row(row, sizes) for row in receptive_fields(unit.outputs.values())],
    }


def one_row(row: Row, sizes: Mapping[str, int]) -> dict[str, Any]:
    from dslc.cost import settle

    known = bool(row.span.source.text)

    def field(seen: Seen | None) -> int | str | None:
        return None if seen is None or seen.field is None else plain(settle(seen.field, sizes))

    return {
        "name": row.name,
        "file": row.span.source.name if known else None,
        "line": row.span.line if known else None,
        "shape": [plain(settle(x, sizes)) for x in row.shape],
        "strides": [plain(settle(x, sizes)) for x in strides(row.shape)],
        "of": row.of,
        "field": [field(x) for x in row.seen],
        "step": [None if x is None else x.step for x in row.seen],
    }


def listed(values: list[int | str | None]) -> str:
    return ", ".join("?" if x is None else cell(x) for x in values)


def show_fields(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from dslc.quoting import printable

    table = Table("value", "line", "shape", "strides", "sees of", "field", "step")
    for row in report["fields"]:
        where = "" if row["file"] is None else f"{Path(row['file']).name}:{row['line']}"
        shape, strides, field, step = (listed(row[column]) for column in ("shape", "strides", "field", "step"))
        table.add_row(row["name"], Text(printable(where)), shape, strides, row["of"], field, step)
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table)
    if report["sizes"]:
        click.echo(f"open sizes: {', '.join(report['sizes'])} (--set {report['sizes'][0]}=64 gives numbers)")

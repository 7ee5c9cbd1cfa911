"""`dslc cost -b c`: what the regions and calls of a C module cost, and the workspace that its functions need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from dslc.cli.cost_report import cell, open_sizes, parameters, plain, refuse_unknown, show_parameters
from dslc.cli.kernel_cost import number, numbers, sum_of
from dslc.cli.step_times import share_text, shares, step_times, tell_limits, time_text

if TYPE_CHECKING:
    from dslc.check import program as p
    from dslc.frontend import Checked

COLUMNS = ("runs", "operations", "read", "written", "intensity")
#: those of a measurement, and how their numbers are shown
MEASURED = {"time": ("seconds", time_text), "of arithmetic": ("of_arithmetic", share_text),
            "of memory": ("of_memory", share_text)}  # fmt: skip


def schedule_report(
    checked: Checked,
    model: p.Instance,
    train: p.TrainProgram | None,
    sizes: Mapping[str, Any],
    dtype: str,
    folded: bool = False,
    measure: bool = False,
) -> dict[str, Any]:
    """The costs of all steps as `--json` prints them; raises SpecError for what cannot be compiled. To `measure` is to
    run the module on random data, and tell how long each step takes."""
    from dslc.autodiff.reverse import NoDerivative
    from dslc.backends.c.cost import entry_costs
    from dslc.backends.c.narrow import narrow
    from dslc.builder.build import Refusal
    from dslc.compiler import optimizer_of, refusal
    from dslc.diagnostics.spec_error import SpecError
    from dslc.program import Program

    try:
        program = narrow(Program(model, train, optimizer_of(checked, train), folded), dtype)
        entry = program.forward if program.gradient is None else program.gradient
    except (Refusal, NoDerivative) as reason:
        span = reason.span if reason.span is not None and reason.span.source.text else model.span
        raise SpecError([refusal(reason, span, "c")]) from reason
    with entry.open() as lowered:
        unit = lowered.unit
    known = open_sizes(unit)
    refuse_unknown(sizes, known)
    function = "forward" if program.gradient is None else "loss_grad_metrics"
    rows, room = entry_costs(entry, dtype, sizes)
    steps = [
        {"function": function, "step": row.number, "name": row.name, "kind": row.kind, "lines": list(row.lines),
         **counts(row.runs, row.cost, sizes)}
        for row in rows
    ]  # fmt: skip
    limits: dict[str, Any] = {}
    open_ = [name for name in known if name not in sizes]
    if measure:
        times = step_times(
            program, model, train, function, len(rows), sizes, [n for n in known if n not in sizes], dtype
        )
        steps = [{**row, **shares(row, seconds, times)} for row, seconds in zip(steps, times.steps, strict=True)]
        limits = {"limits": {"arithmetic": times.arithmetic, "memory": times.memory}}
    total = counts(sum((row.runs for row in rows), 0), sum_of([row.cost for row in rows]), sizes)
    if measure:
        total |= shares(total, sum(times.steps), times)
    return {
        "version": 1,
        "backend": "c",
        **parameters(unit, sizes, dtype, program.optimizer if train is not None else None),
        "sizes": open_,
        "steps": steps,
        **limits,
        "total": {
            function: {
                **total,
                "workspace": plain(room.slots + room.packed),
                "packed": plain(room.packed),
                "thread": plain(room.thread),
            }
        },
    }


def counts(runs: Any, cost: Any, sizes: Mapping[str, Any]) -> dict[str, Any]:
    found = numbers(runs, cost, sizes)
    return {"runs": found.pop("launches"), **found}


def show_schedule(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from dslc.quoting import printable

    measured = MEASURED if "limits" in report else {}
    table = Table("step", "value", "line", *COLUMNS, *measured)
    for column in table.columns[3:]:
        column.justify = "right"
    for row in report["steps"]:
        kind = "" if row["kind"] == "region" else f"{row['kind']}: "
        value, place = Text(f"{kind}{row['name']}"), Text(printable(row["lines"][-1]) if row["lines"] else "")
        table.add_row(row["step"], value, place, *cells(row, measured))
    for function, total in report["total"].items():
        table.add_section()
        table.add_row("", f"total of {function}", "", *cells(total, measured))
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table)
    for function, total in report["total"].items():
        packed = f", {cell(total['packed'])} of them for packed matrices" if total["packed"] else ""
        thread = f", and {cell(total['thread'])} for each thread" if total["thread"] else ""
        click.echo(f"{function}: {cell(total['workspace'])} bytes of workspace{packed}{thread}")
    if "limits" in report:
        tell_limits(report["limits"])
    show_parameters(report)


def cells(row: Mapping[str, Any], measured: Mapping[str, Any]) -> list[str]:
    """The numbers of a row."""
    return [*(number(row[c]) for c in COLUMNS), *(shown(row[key]) for key, shown in measured.values())]

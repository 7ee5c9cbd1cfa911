"""`dslc cost -b triton`: what the kernels of a spec cost and, with --resources, what they need on three GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dslc.cli.cost_report import cell, open_sizes, parameters, plain, refuse_unknown, show_parameters

if TYPE_CHECKING:
    from dslc.check import program as p
    from dslc.frontend import Checked

COLUMNS = ("launches", "operations", "read", "written", "intensity")


def kernel_report(
    checked: Checked, model: p.Instance, train: p.TrainProgram | None, spec: Path, sizes: Mapping[str, Any],
    dtype: str, resources: bool, folded: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """The costs of all kernels as `--json` prints them; raises SpecError for what cannot be compiled."""
    from dslc.autodiff.reverse import NoDerivative
    from dslc.backends.record import CannotLower
    from dslc.backends.triton.cost import buffer_bytes, kernel_costs, peak_bytes, update_costs
    from dslc.backends.triton.module import generate, host_functions
    from dslc.backends.triton.optimizer import formulas_of
    from dslc.backends.triton.registry import Registry
    from dslc.builder.build import Refusal
    from dslc.compiler import optimizer_of, refusal
    from dslc.cost import settle
    from dslc.diagnostics.spec_error import SpecError
    from dslc.ir.interning import within
    from dslc.pipeline import trained
    from dslc.program import Program

    registry = Registry(dtype)
    try:
        program = Program(model, train, optimizer_of(checked, train), folded)
        unit, functions, _ = host_functions(registry, program)
        text = generate(program, spec.name, dtype) if resources else ""
    except (Refusal, NoDerivative, CannotLower) as reason:
        span = reason.span if reason.span is not None and reason.span.source.text else model.span
        raise SpecError([refusal(reason, span, "triton")]) from reason
    known = open_sizes(unit)
    refuse_unknown(sizes, known)
    functions = [f for f in functions if f.name != "evaluate"]
    lines = {name: [str(x) for x in about["lines"]] for name, about in registry.about.items()}
    rows = kernel_costs(functions, lines, dtype)
    buffers = {function.name: buffer_bytes(function, dtype) for function in functions}
    peaks = {function.name: peak_bytes(function, dtype, sizes) for function in functions}
    if train is not None and program.optimizer is not None and program.update is not None:
        with within(program.update.table):
            update = formulas_of(program.optimizer, program.update)
        updates, buffers["train_step"] = update_costs(update, unit, trained(unit, train), dtype)
        rows += updates
    report: dict[str, Any] = {
        "version": 1,
        "backend": "triton",
        **parameters(unit, sizes, dtype, program.optimizer if train is not None else None),
        "sizes": [name for name in known if name not in sizes],
        "kernels": [],
        "total": {},
    }
    for row in rows:
        about = {"function": row.function, "kernel": row.kernel, "kind": row.kind, "lines": list(row.lines)}
        report["kernels"].append({**about, **numbers(row.launches, row.cost, sizes)})
    for function, bytes_ in buffers.items():
        own = [row for row in rows if row.function == function]
        launches, cost = sum((row.launches for row in own), 0), sum_of([row.cost for row in own])
        memory = {
            "buffers": plain(settle(bytes_, sizes)),
            "peak": plain(settle(peaks.get(function, bytes_), sizes)),
        }
        report["total"][function] = {**numbers(launches, cost, sizes), **memory}
    if resources:
        report["resources"] = needed(text)
    return report


def sum_of(costs: list[Any]) -> Any:
    from dslc.cost import Cost

    total = Cost()
    for cost in costs:
        total += cost
    return total


def numbers(launches: Any, cost: Any, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Counts, and operations for each byte that is moved where all sizes are known."""
    from dslc.cost import settle

    settled = cost.at(sizes)
    moved = settle(settled.read + settled.written, sizes)
    known = isinstance(settled.operations, int) and isinstance(moved, int) and moved > 0
    return {
        "launches": plain(settle(launches, sizes)),
        "operations": plain(settled.operations),
        "read": plain(settled.read),
        "written": plain(settled.written),
        "intensity": round(settled.operations / moved, 3) if known else None,
    }


def needed(text: str) -> dict[str, dict[str, Any]]:
    """What each kernel of a module needs on each target: a process of its own compiles them, without a GPU."""
    import importlib.util
    import json
    import os
    import subprocess
    import sys
    import tempfile

    missing = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"--resources compiles the kernels, which needs {' and '.join(missing)}: pip install 'dslc[triton]'"
        )
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder) / "kernels.py"
        module.write_text(text, encoding="utf-8")
        env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
        env.setdefault("TRITON_CACHE_DIR", str(Path(folder) / "cache"))
        command = [sys.executable, "-m", "dslc.backends.triton.resources", str(module)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        if done.returncode != 0:
            raise click.ClickException(f"the kernels could not be compiled: {done.stderr.strip()[-600:]}")
        for line in done.stdout.splitlines():
            one = json.loads(line)
            found.setdefault(one["kernel"], {})[one["target"]] = {
                k: v for k, v in one.items() if k not in ("module", "kernel", "target")
            }
    return found


def show_kernels(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from dslc.quoting import printable

    table = Table("kernel", "line", *COLUMNS)
    for column in table.columns[2:]:
        column.justify = "right"
    for function, total in report["total"].items():
        for row in report["kernels"]:
            if row["function"] == function:
                place = Text(printable(row["lines"][-1]) if row["lines"] else "")
                table.add_row(row["kernel"], place, *(number(row[c]) for c in COLUMNS))
        table.add_section()
        table.add_row(f"total of {function}", "", *(number(total[c]) for c in COLUMNS))
        table.add_section()
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table)
    if "resources" in report:
        console.print(resource_table(report["resources"]))
    for function, total in report["total"].items():
        peak = "" if total["peak"] == total["buffers"] else f", at most {cell(total['peak'])} at a time"
        click.echo(f"{function}: {cell(total['launches'])} launches, {cell(total['buffers'])} bytes of buffers{peak}")
    show_parameters(report)


def number(value: int | float | str | None) -> str:
    return "" if value is None else f"{value:,.2f}" if isinstance(value, float) else cell(value)


def resource_table(resources: dict[str, dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table("kernel", "target", "registers", "shared", "spilled", "occupancy")
    for column in table.columns[2:]:
        column.justify = "right"
    for kernel, targets in resources.items():
        for target, needs in targets.items():
            if "error" in needs:
                table.add_row(kernel, target, needs["error"])
            else:
                figures = (f"{needs[k]:,}" for k in ("registers", "shared", "spilled"))
                table.add_row(kernel, target, *figures, f"{needs['occupancy']:.0%}")
        table.add_section()
    return table

"""The result of `dslc train` as an object for `--json`, as tables and as curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from dslc.training.loop import Job, Outcome


def summary(version: int, spec: Path, job: Job, outcome: Outcome, test: dict[str, float]) -> dict[str, Any]:
    """The result as `--json` prints it."""
    from dataclasses import asdict

    from dslc.training.checkpoint import CHECKPOINT, WEIGHTS

    return {
        "version": version,
        "ok": True,
        "spec": str(spec),
        "backend": job.backend,
        "weights": str(job.folder / WEIGHTS),
        "checkpoint": str(job.folder / CHECKPOINT),
        "parameters": sum(outcome.weights[name].size for name in job.module.PARAMS),
        "rows": job.rows.count,
        "steps": outcome.steps,
        "resumed_at": outcome.resumed_at,
        "stopped_early": bool(outcome.reason),
        "reason": outcome.reason or None,
        "kept": outcome.kept,
        "best_epoch": outcome.best_epoch,
        "history": [asdict(entry) for entry in outcome.history],
        "unfinished": outcome.unfinished or None,
        "validation": outcome.validation or None,
        "test": test or None,
    }


def show_start(job: Job) -> None:
    """A table: which parameters and states come from the file of --weights, and which begin anew."""
    from rich.console import Console
    from rich.table import Table

    loaded = job.start or {}
    table = Table("parameter", "shape", "begins")
    for name, (shape, *_) in {**job.module.PARAMS, **getattr(job.module, "STATE", {})}.items():
        table.add_row(name, str(list(shape)), "loaded" if name in loaded else "new")
    Console().print(table)


def show_result(report: dict[str, Any]) -> None:
    """A table: the last epoch, the validation and the test."""
    from rich.console import Console
    from rich.table import Table

    from dslc.quoting import printable

    rows: list[tuple[str, dict[str, float]]] = []
    if report["history"]:
        last = report["history"][-1]
        rows.append((f"training, epoch {last['epoch']}", last["training"]))
    elif report["unfinished"]:
        rows.append(("training, first epoch", report["unfinished"]))
    if report["validation"]:
        best = f", epoch {report['best_epoch']}" if report["best_epoch"] else ""
        rows.append((f"validation{best}", report["validation"]))
    if report["test"]:
        rows.append(("test", report["test"]))
    if rows:
        names = list(dict.fromkeys(name for _, values in rows for name in values))
        table = Table("", *names)
        for label, values in rows:
            table.add_row(label, *(f"{values[name]:.4f}" if name in values else "" for name in names))
        Console().print(table)
    show_curves(report["history"])
    early = f", stopped early: {report['reason']}" if report["stopped_early"] else ""
    resumed = f", resumed at {report['resumed_at']}" if report["resumed_at"] else ""
    weights = printable(report["weights"])
    kept = f"; {report['kept']}" if report["validation"] or "averaged" in report["kept"] else ""
    click.echo(f"{weights}: {report['parameters']} parameters, {report['steps']} steps{resumed}{early}{kept}")


def show_curves(history: list[dict[str, Any]]) -> None:
    """Loss and metrics over the epochs, where a terminal shows them."""
    import shutil
    import sys

    from dslc.plots.text import curves
    from dslc.quoting import printable

    if len(history) > 2 and sys.stdout.isatty():
        width = min(shutil.get_terminal_size().columns, 80)
        for name in history[-1]["training"]:
            lines = {part: [e[part][name] for e in history if name in e[part]] for part in ("training", "validation")}
            shown = {part: values for part, values in lines.items() if values}
            click.echo(curves(shown, printable(name), width, 10 if name == "loss" else 6))


def summary_of_seeds(runs: list[dict[str, Any]], seeds: list[int], folder: Path) -> dict[str, Any]:
    """The results of runs that differ in their seed: each of them, means, and standard deviations of the sample."""
    import statistics

    found: dict[str, Any] = {
        "version": runs[0]["version"], "ok": True, "spec": runs[0]["spec"], "folder": str(folder), "seeds": seeds,
        "mean": {}, "spread": {}, "runs": runs,
    }  # fmt: skip
    for part in ("training", "validation", "test"):
        values = [(run["history"] or [{}])[-1].get(part) if part == "training" else run[part] for run in runs]
        if all(values):
            columns = {name: [float(v[name]) for v in values] for name in values[0]}
            found["mean"][part] = {name: statistics.fmean(x) for name, x in columns.items()}
            found["spread"][part] = {name: statistics.stdev(x) for name, x in columns.items()}
    return found


def show_seeds(report: dict[str, Any]) -> None:
    """A table of means and spreads, and where the runs are."""
    from rich.console import Console
    from rich.table import Table

    from dslc.quoting import printable

    count = len(report["seeds"])
    names = list(dict.fromkeys(name for values in report["mean"].values() for name in values))
    table = Table(f"{count} seeds", *names)
    for part, mean in report["mean"].items():
        spread = report["spread"][part]
        table.add_row(part, *(f"{mean[n]:.4f} ± {spread[n]:.4f}" if n in mean else "" for n in names))
    Console().print(table)
    first, last = report["seeds"][0], report["seeds"][-1]
    click.echo(f"{printable(report['folder'])}: seed-{first} to seed-{last}, each with weights.safetensors")

"""`python -m bench`: compiled modules beside torch and jax, in one run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console
from rich.status import Status

from bench import machine, report
from bench.candidates import PEERS
from bench.run import CompileResult, Options, measure_limits, run_compile, run_workload
from bench.workloads import COMPILE, COMPILE_ABOUT, WORKLOADS

BACKENDS = ("numpy", "c")

#: of the tables where the output is no terminal
WIDTH = 190


def parse_peers(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """`torch,jax` as a tuple; every name must be known."""
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    for name in names:
        if name not in PEERS:
            raise click.BadParameter(f"there is no peer {name!r}; expected some of {', '.join(PEERS)}")
    return names


def teller(workload: str, status: Status) -> Callable[[str], None]:
    """Shows what is going on in a workload."""
    return lambda text: status.update(f"{workload}: {text}")


@click.command()
@click.argument("workloads", metavar="[WORKLOAD]...", nargs=-1, type=click.Choice([*WORKLOADS, COMPILE]))
@click.option("--list", "only_list", is_flag=True, help="Name the workloads and stop.")
@click.option("-b", "--backend", type=click.Choice(BACKENDS), default="numpy", help="What our module computes with.")
@click.option("--against", metavar="PEERS", default="torch,jax", show_default=True, callback=parse_peers,
              help=f"Peers with commas between them: {', '.join(PEERS)}.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(1), default=10, show_default=True, help="Quiet rounds to keep.")
@click.option("--threads", type=click.IntRange(1), default=2, show_default=True, help="Threads of each candidate.")
@click.option("--most-others", metavar="CORES", type=click.FloatRange(0), default=0.12, show_default=True,
              help="A round in which other processes used more is dropped.")  # fmt: skip
@click.option("--json", "json_file", metavar="FILE", type=click.Path(path_type=Path), help="Write the figures there.")
@click.option("--busy", is_flag=True, help="Measure also beside a process that holds a processor.")
@click.option("--tiny", is_flag=True, help="Tiny sizes, to try the command; the figures mean nothing.")
def bench(
    workloads: tuple[str, ...], only_list: bool, backend: str, against: tuple[str, ...], rounds: int, threads: int,
    most_others: float, json_file: Path | None, busy: bool, tiny: bool,
) -> None:  # fmt: skip
    """Measure WORKLOADs, by default all, beside peers.

    Before it is timed, a peer's loss and gradients are compared with ours. The exit code is 1 if anything failed; a
    peer that is not installed is reported as missing.
    """
    if only_list:
        for workload in WORKLOADS.values():
            click.echo(f"{workload.name:8} {workload.about}")
        click.echo(f"{COMPILE:8} {COMPILE_ABOUT}")
        return
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {json_file.parent}", param_hint="--json")
    options = Options(backend, against, rounds, threads, most_others, tiny, busy)
    chosen = list(dict.fromkeys(workloads)) or [*WORKLOADS, COMPILE]
    console, progress = Console(), Console(stderr=True)
    if not console.is_terminal:
        console = Console(width=WIDTH)
    compiled: CompileResult | None = None
    results = []
    with tempfile.TemporaryDirectory() as folder, progress.status("limits of the machine") as status:
        limits = measure_limits(options)
        for name in chosen:
            if name == COMPILE:
                compiled = run_compile(options, Path(folder), teller(name, status))
            else:
                results.append(run_workload(WORKLOADS[name], options, Path(folder), teller(name, status)))
    report.show(console, results, compiled, limits, options)
    if json_file is not None:
        found = report.to_json(results, compiled, limits, options, machine.description())
        json_file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    if report.failures(results, compiled):
        raise SystemExit(1)


if __name__ == "__main__":
    bench(prog_name="python -m bench")

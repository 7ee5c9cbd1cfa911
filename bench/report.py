"""The figures as tables for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import geometric_mean

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.candidates import OURS
from bench.run import CompileResult, Options, Result


def number(value: float) -> str:
    """Three digits: `0.0412`, `8.93`, `218`."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def under(main: str, second: str, style: str = "") -> Text:
    """A figure with a dim remark on the next line."""
    return Text(main, style=style).append(f"\n{second}", style="dim")


def times_cell(result: Result, name: str) -> Text:
    if name in result.missing:
        return Text("missing", style="yellow")
    if result.measured is None or name not in result.measured.times or not result.measured.kept:
        return Text("failed", style="red")
    times = result.measured.times[name]
    return under(number(times.median * 1e3), f"min {number(times.least * 1e3)}")


def ratio_cell(result: Result, name: str) -> Text:
    ratio = result.ratios().get(name)
    if ratio is None:
        return Text("-")
    return under(f"{ratio.median:.2f}x", f"min {ratio.least:.2f}, {ratio.low:.2f}-{ratio.high:.2f}")


def best_cell(result: Result) -> Text:
    """Our time relative to that of the quickest peer."""
    best = result.best()
    return Text("-") if best is None else under(f"{best[1].median:.2f}x", f"min {best[1].least:.2f}, {best[0]}")


def goal_cell(result: Result, backend: str) -> Text:
    """The goal of the backend, and whether it was met: NumPy is measured by torch, C by the best peer."""
    goal = result.workload.goals.get(backend)
    if goal is None:
        return Text("-")
    ratios, best = result.ratios(), result.best()
    ratio = best[1] if backend == "c" and best is not None else ratios.get("torch")
    style = "" if ratio is None else "green" if ratio.median <= goal else "red"
    return under(f"{goal:.2f}x", "of the best" if backend == "c" else "of torch", style)


def geometric_means(results: Sequence[Result]) -> tuple[float, float] | None:
    """Of the ratios to the best peer, medians and minima."""
    found = [best[1] for result in results if (best := result.best()) is not None]
    if not found:
        return None
    return geometric_mean(ratio.median for ratio in found), geometric_mean(ratio.least for ratio in found)


def time_table(results: Sequence[Result], options: Options) -> Table:
    """Times of all candidates, and ours relative to each peer's."""
    table = Table(title=f"dslc ({options.backend}) beside its peers, {options.threads} threads each")
    table.add_column("workload")
    table.add_column(f"{OURS} ms", justify="right")
    for peer in options.against:
        table.add_column(f"{peer} ms", justify="right")
        table.add_column(f"{OURS} / {peer}", justify="right")
    table.add_column(f"{OURS} / best", justify="right")
    table.add_column("goal", justify="right")
    table.add_column("rounds", justify="right")
    for result in results:
        row: list[str | Text] = [result.workload.name, times_cell(result, OURS)]
        for peer in options.against:
            row += [times_cell(result, peer), ratio_cell(result, peer)]
        row += [best_cell(result), goal_cell(result, options.backend)]
        done = result.measured
        row.append(under(str(done.kept), f"{done.dropped} dropped") if done else "-")
        table.add_row(*row)
    return table


def busy_table(results: Sequence[Result], options: Options) -> Table:
    """Times beside a process that holds a processor, and how many times those without it."""
    table = Table(title=f"beside a process that holds a processor, {options.threads} threads each")
    table.add_column("workload")
    for name in (OURS, *options.against):
        table.add_column(f"{name} ms", justify="right")
        table.add_column("of quiet", justify="right")
    for result in results:
        row: list[str | Text] = [result.workload.name]
        for name in (OURS, *options.against):
            slower = slowdown(result, name)
            row += ["-", "-"] if slower is None else [number(slower[0] * 1e3), f"{slower[1]:.2f}x"]
        table.add_row(*row)
    return table


def slowdown(result: Result, name: str) -> tuple[float, float] | None:
    """The median beside a process that holds a processor, and how many times that without it."""
    done = result.measured
    if done is None or not done.kept or name not in done.beside:
        return None
    busy = done.beside[name].median
    return busy, busy / done.times[name].median


def cost_table(results: Sequence[Result], limits: Mapping[str, float], options: Options) -> Table:
    """For ours: compile time and share of the machine's limits; the peak memory of every candidate."""
    table = Table(title="compile time, peak memory of a step, share of the machine's limits")
    candidates = (OURS, *options.against)
    headings = ("compile s", *(f"{name} MB" for name in candidates), "of matmul", "of copy")
    table.add_column("workload")
    for heading in headings:
        table.add_column(heading, justify="right")
    for result in results:
        shares = result.shares(limits)
        row = [result.workload.name, number(result.compile.best) if result.compile else "-"]
        for name in candidates:
            peak = result.memory.get(name)
            row.append("-" if peak is None else f"{peak:.1f}")
        row += [f"{shares[limit]:.0%}" if limit in shares else "-" for limit in ("matmul", "copy")]
        table.add_row(*row)
    return table


def compile_table(result: CompileResult) -> Table:
    """Compile time and length of the module by number of layers."""
    table = Table(title="compile time of the GPT, a fresh process")
    for heading in ("layers", "seconds", "relative", "lines", "relative"):
        table.add_column(heading, justify="right")
    first = next(iter(result.times.values()), None)
    for depth, found in result.times.items():
        assert first is not None
        longer, more = found.best / first.best, found.lines / first.lines
        table.add_row(str(depth), number(found.best), f"{longer:.2f}x", str(found.lines), f"{more:.2f}x")
    return table


def show(
    console: Console, results: Sequence[Result], compiled: CompileResult | None, limits: Mapping[str, float],
    options: Options,
) -> None:  # fmt: skip
    """Print everything; what is missing or failed is said in words below the tables."""
    if results:
        console.print(time_table(results, options))
        if options.busy:
            console.print(busy_table(results, options))
        console.print(cost_table(results, limits, options))
        console.print(f"limits: matmul {limits['matmul']:.0f} GFLOP/s in f32, copy {limits['copy']:.1f} GB/s")
        if (means := geometric_means(results)) is not None:
            median, least = means
            console.print(f"geometric mean of {OURS} / best: {median:.2f}x, of the minima {least:.2f}x")
        console.print("ms are medians; a ratio below 1 means that dslc is quicker; its range is that of the rounds")
        console.print(f"a round counts if other processes used at most {options.most_others:g} processors in it")
        if options.tiny:
            console.print("tiny sizes: the figures mean nothing", style="yellow")
    if compiled is not None and compiled.times:
        console.print(compile_table(compiled))
    for peer, reason in missing_peers(results).items():
        console.print(f"missing: {peer}: {reason}", style="yellow", markup=False)
    for failure in failures(results, compiled):
        console.print(f"failure: {failure}", style="red", markup=False)


def missing_peers(results: Sequence[Result]) -> dict[str, str]:
    return {peer: reason for result in results for peer, reason in result.missing.items()}


def failures(results: Sequence[Result], compiled: CompileResult | None) -> list[str]:
    found = [text for result in results for text in result.failures]
    return found + (compiled.failures if compiled is not None else [])


# ---- JSON --------------------------------------------------------------------------------------------------


#: what is said about a candidate beside a process that holds a processor
BUSY = ("median_s", "of_quiet")


def result_json(result: Result, limits: Mapping[str, float], backend: str) -> dict[str, object]:
    done, best = result.measured, result.best()
    candidates = {}
    for name, times in done.times.items() if done is not None and done.kept else ():
        candidates[name] = {
            "median_s": times.median,
            "min_s": times.least,
            "steps": len(times.steps),
            "peak_memory_mb": result.memory.get(name),
            "busy": None if (slower := slowdown(result, name)) is None else dict(zip(BUSY, slower, strict=True)),
        }
    return {
        "about": result.workload.about,
        "goal": result.workload.goals.get(backend),
        "flops": result.flops,
        "bytes": result.moved,
        "compile": None if result.compile is None else {"best_s": result.compile.best, **asdict(result.compile)},
        "candidates": candidates,
        "ratios": {name: asdict(ratio) for name, ratio in result.ratios().items()},
        "best": None if best is None else {"peer": best[0], **asdict(best[1])},
        "share_of_limit": result.shares(limits),
        "agreement": {peer: {"difference": gap, "at": at} for peer, (gap, at) in result.agreement.items()},
        "rounds": None if done is None else {"kept": done.kept, "dropped": done.dropped, "others": done.others},
        "missing": result.missing,
        "failures": result.failures,
    }


def to_json(
    results: Sequence[Result], compiled: CompileResult | None, limits: Mapping[str, float], options: Options,
    machine: Mapping[str, object],
) -> dict[str, object]:  # fmt: skip
    """All figures, in seconds, MB, GFLOP/s and GB/s."""
    layers = None
    if compiled is not None:
        times = {str(depth): {"best_s": t.best, **asdict(t)} for depth, t in compiled.times.items()}
        layers = {"layers": times, "failures": compiled.failures}
    means = geometric_means(results)
    return {
        "machine": machine,
        "options": asdict(options),
        "limits": dict(limits),
        "workloads": {result.workload.name: result_json(result, limits, options.backend) for result in results},
        "geometric_mean": None if means is None else dict(zip(("median", "least"), means, strict=True)),
        "compile": layers,
    }

"""One workload from spec to figures: compile, compare with the peers, then measure in turn."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench import machine
from bench.candidates import OURS, missing
from bench.compile_time import CompileError, CompileTime, compile_spec
from bench.rounds import Measured, Ratio, Watch, measure, ratio
from bench.worker import Worker, WorkerError
from bench.workloads import DEPTHS, WORKLOADS, Data, Named, Sizes, Workload

#: the largest difference in f32 between ours and a peer, relative to the largest value of a tensor
TOLERANCE = 1e-4

#: how often the limits are measured at most, until nobody disturbs
LIMIT_TRIES = 5


@dataclass(frozen=True)
class Options:
    """How to measure."""

    backend: str
    against: tuple[str, ...]
    rounds: int
    threads: int
    most_others: float
    tiny: bool
    #: measure also beside a process that holds a processor
    busy: bool = False


@dataclass
class Result:
    """What was found about one workload."""

    workload: Workload
    flops: float
    moved: float = 0.0
    compile: CompileTime | None = None
    measured: Measured | None = None
    #: the largest difference from each peer, and the tensor where it is
    agreement: dict[str, tuple[float, str]] = field(default_factory=dict)
    #: MB of each candidate
    memory: dict[str, float | None] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def ratios(self) -> dict[str, Ratio]:
        if self.measured is None or not self.measured.kept:
            return {}
        times = self.measured.times
        return {name: ratio(times[OURS], peer) for name, peer in times.items() if name != OURS}

    def best(self) -> tuple[str, Ratio] | None:
        """The peer with the least median and our time relative to it; `least` compares with the least of all peers."""
        ratios = self.ratios()
        if not ratios:
            return None
        name = max(ratios, key=lambda peer: ratios[peer].median)
        return name, replace(ratios[name], least=max(ratio.least for ratio in ratios.values()))

    def shares(self, limits: Mapping[str, float]) -> dict[str, float]:
        """The work and the traffic that cannot be avoided, as parts of what the machine could do in our time."""
        if self.measured is None or not self.measured.kept:
            return {}
        seconds = self.measured.times[OURS].median
        copied = self.moved / seconds / (limits["copy"] * 1e9)
        multiplied = self.flops / seconds / (limits["matmul"] * 1e9)
        return {"matmul": multiplied, "copy": copied} if self.flops else {"copy": copied}


def traffic(workload: Workload, params: Named, data: Data, first: Named) -> float:
    """Bytes of a step: inputs and parameters read, outputs written; training reads and writes Adam's three arrays."""
    own = sum(x.nbytes for x in params.values())
    inputs = sum(x.nbytes for x in data.values())
    return float(inputs + 6 * own if workload.trains else inputs + own + first["output"].nbytes)


def run_workload(workload: Workload, options: Options, folder: Path, tell: Callable[[str], None]) -> Result:
    """Measure one workload; what goes wrong stands in the result."""
    sizes = workload.tiny if options.tiny else workload.sizes
    result = Result(workload, workload.flops(sizes))
    data = workload.data_at(sizes)
    file = folder / f"{workload.name}_module.py"
    tell("compile")
    try:
        result.compile = compile_spec(workload.path, file, options.backend, workload.settings_at(sizes))
    except CompileError as error:
        result.failures.append(str(error))
        return result
    try:
        params, first = begin(workload, sizes, data, file, options.threads)
    except WorkerError as error:
        result.failures.append(f"{workload.name}: {OURS}: {error}")
        return result
    result.moved = traffic(workload, params, data, first)
    with ExitStack() as stack:
        workers = []
        for name in (OURS, *options.against):
            if name != OURS and (reason := missing(name)):
                result.missing[name] = reason
                continue
            tell(f"compare with {name}")
            worker = stack.enter_context(Worker(name, options.threads))
            try:
                worker("load", str(file))
                worker("build", workload.name, sizes, data, params)
                agrees = name == OURS or judge(result, name, worker("compare", first))
            except WorkerError as error:
                result.failures.append(f"{workload.name}: {name}: {error}")
                if name == OURS:
                    return result
                continue
            if agrees:
                workers.append(worker)
        measure_all(result, workers, options, tell)
    return result


def begin(workload: Workload, sizes: Sizes, data: Data, file: Path, threads: int) -> tuple[Named, Named]:
    """The parameters with which all candidates begin, and what the compiled module computes from them."""
    with Worker(OURS, threads) as worker:
        worker("load", str(file))
        worker("build", workload.name, sizes, data, None)
        return worker("params"), worker("first")


def judge(result: Result, peer: str, gaps: Mapping[str, float]) -> bool:
    """Whether a peer computes the same; if not, that is a failure."""
    where = max(gaps, key=lambda name: gaps[name] if gaps[name] == gaps[name] else float("inf"))
    result.agreement[peer] = (gaps[where], where)
    # a NaN is no agreement
    good = gaps[where] <= TOLERANCE
    if not good:
        result.failures.append(
            f"{result.workload.name}: {where} differs from {peer} by {gaps[where]:.2g}, allowed {TOLERANCE:g}"
        )
    return good


def measure_all(
    result: Result, workers: Sequence[Worker], options: Options, tell: Callable[[str], None]
) -> None:  # fmt: skip
    """Memory of each candidate by itself, then times in turn."""
    try:
        for worker in workers:
            tell(f"memory of {worker.name}")
            result.memory[worker.name] = worker("peak")
        result.measured = measure(workers, options.rounds, options.most_others, options.threads, tell, options.busy)
    except WorkerError as error:
        result.failures.append(f"{result.workload.name}: {error}")
        return
    if not result.measured.kept:
        least = min(result.measured.others)
        result.failures.append(
            f"{result.workload.name}: no quiet round: other processes used at least {least:.2f} processors, "
            f"allowed {options.most_others:g} (--most-others)"
        )


@dataclass
class CompileResult:
    """Compile times by the number of layers."""

    times: dict[int, CompileTime] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def run_compile(options: Options, folder: Path, tell: Callable[[str], None]) -> CompileResult:
    """Compile the GPT with more and more layers."""
    result = CompileResult()
    gpt = WORKLOADS["gpt"]
    settings = gpt.settings_at(gpt.tiny if options.tiny else gpt.sizes)
    for depth in DEPTHS[:2] if options.tiny else DEPTHS:
        tell(f"compile {depth} layers")
        file = folder / f"gpt_{depth}.py"
        try:
            result.times[depth] = compile_spec(gpt.path, file, options.backend, {**settings, "depth": depth})
        except CompileError as error:
            result.failures.append(f"{depth} layers: {error}")
    return result


def measure_limits(options: Options) -> dict[str, float]:
    """GFLOP/s of a matrix product and GB/s of a copy, the best of a few tries until one was quiet."""
    limits = {"matmul": 0.0, "copy": 0.0}
    with Worker("limits", options.threads) as worker:
        for _ in range(LIMIT_TRIES):
            watch = Watch(machine.processors(options.threads), [os.getpid(), worker.pid])
            found: dict[str, float] = worker("limits")
            limits = {name: max(rate, found[name]) for name, rate in limits.items()}
            others = watch.others()
            if others is None or others <= options.most_others:
                break
    return limits

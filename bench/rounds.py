"""Candidates measured in turn. A round in which other processes used the processors is dropped as a whole."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter, sleep

from bench import machine
from bench.worker import Worker

#: NumPy's OpenBLAS threads spin for 112 ms after a product and slow whatever runs next
PAUSE = 0.160

#: how long the steps of a block take together
BLOCK = 0.25

#: a process that holds a processor: one of those that are measured, whichever the system gives it
HOLDER = """
import os
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {cpus})
while True:
    pass
"""

#: how many rounds are tried for each one that is wanted, before the machine counts as too busy
PATIENCE = 3


@dataclass
class Times:
    """Seconds of the steps of one candidate, one list for each round that was kept."""

    rounds: list[list[float]] = field(default_factory=list)

    @property
    def steps(self) -> list[float]:
        return [t for block in self.rounds for t in block]

    @property
    def median(self) -> float:
        return median(self.steps)

    @property
    def least(self) -> float:
        return min(self.steps)


@dataclass
class Measured:
    """The times of all candidates, and what the other processes did meanwhile."""

    times: dict[str, Times]
    dropped: int
    #: the processors that others used in each round, kept or not; empty where the system does not tell
    others: list[float]
    #: the times beside a process that holds a processor, where they are wanted
    beside: dict[str, Times] = field(default_factory=dict)

    @property
    def kept(self) -> int:
        return len(next(iter(self.times.values())).rounds)


@dataclass(frozen=True)
class Ratio:
    """The time of the compiled module relative to that of a peer; below 1 it is the quicker one."""

    median: float
    least: float
    #: the smallest and largest ratio of the medians of one round
    low: float
    high: float


def ratio(ours: Times, peer: Times) -> Ratio:
    pairs = zip(ours.rounds, peer.rounds, strict=True)
    each = [median(a) / median(b) for a, b in pairs]
    return Ratio(ours.median / peer.median, ours.least / peer.least, min(each), max(each))


def block_length(worker: Worker) -> int:
    """How many steps make a block."""
    estimate: float = median(worker("block", 3))
    return max(2, min(2000, round(BLOCK / estimate)))


def measure(
    workers: Sequence[Worker], rounds: int, most_others: float, threads: int, tell: Callable[[str], None],
    busy: bool = False,
) -> Measured:  # fmt: skip
    """Blocks of the candidates in turn, each after a pause, until enough rounds were quiet.

    With `busy`, each round has other blocks beside a process that holds a processor.
    """
    lengths = {worker.name: block_length(worker) for worker in workers}
    result = Measured({worker.name: Times() for worker in workers}, 0, [])
    result.beside.update({worker.name: Times() for worker in workers} if busy else {})
    pids = [os.getpid(), *(worker.pid for worker in workers)]
    cpus = machine.processors(threads)
    for attempt in range(PATIENCE * rounds):
        if result.kept == rounds:
            break
        first = attempt % len(workers)
        order = (*workers[first:], *workers[:first])
        found, others = one_round(order, lengths, cpus, pids)
        beside: dict[str, list[float]] = {}
        if busy:
            with held(cpus) as pid:
                beside, more = one_round(order, lengths, cpus, [*pids, pid])
            others = None if others is None or more is None else max(others, more)
        if others is not None:
            result.others.append(others)
        if others is not None and others > most_others:
            result.dropped += 1
        else:
            for times, blocks in ((result.times, found), (result.beside, beside)):
                for name, block in blocks.items():
                    times[name].rounds.append(block)
        tell(f"round {result.kept} of {rounds}, {result.dropped} dropped")
    return result


def one_round(
    workers: Sequence[Worker], lengths: dict[str, int], cpus: Sequence[int], pids: Sequence[int]
) -> tuple[dict[str, list[float]], float | None]:
    """The times of a block of each worker, and the processors that processes other than `pids` used meanwhile."""
    watch = Watch(cpus, pids)
    found = {}
    for worker in workers:
        sleep(PAUSE)
        found[worker.name] = worker("block", lengths[worker.name])
    return found, watch.others()


@contextmanager
def held(cpus: Sequence[int]) -> Iterator[int]:
    """A process that computes without end on one of these processors, for as long as the `with` lasts: its number."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER.format(cpus=[*cpus])])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


class Watch:
    """How much of the processors other processes use, from now on."""

    def __init__(self, cpus: Sequence[int], pids: Sequence[int]) -> None:
        self.cpus, self.pids = cpus, pids
        self.start = self.now() if machine.known() else None

    def now(self) -> tuple[float, float, float]:
        return perf_counter(), machine.busy(self.cpus), machine.used(self.pids)

    def others(self) -> float | None:
        """Processors used by others on average, never below 0; None where the system does not tell."""
        if self.start is None:
            return None
        seconds, all_of_them, own = (b - a for a, b in zip(self.start, self.now(), strict=True))
        return max(0.0, (all_of_them - own) / seconds)

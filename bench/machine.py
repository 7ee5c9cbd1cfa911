"""What Linux says about processors and memory: who used the processors, and how much memory a process needed."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from pathlib import Path

PROC = Path("/proc")


def known() -> bool:
    """Whether this system has the files that are read here."""
    return (PROC / "stat").exists() and (PROC / "self/clear_refs").exists()


def processors(threads: int) -> list[int]:
    """The processors that a measurement may use: as many as it has threads."""
    if not hasattr(os, "sched_getaffinity"):
        return list(range(os.cpu_count() or 1))[:threads]
    return sorted(os.sched_getaffinity(0))[:threads]


def busy(cpus: Iterable[int]) -> float:
    """Seconds in which these processors were not idle, since the machine started."""
    wanted = {f"cpu{n}" for n in cpus}
    total = 0
    for line in (PROC / "stat").read_text().splitlines():
        name, *times = line.split()
        if name in wanted:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, times[:8])
            total += user + nice + system + irq + softirq + steal
    return total / os.sysconf("SC_CLK_TCK")


def used(pids: Iterable[int]) -> float:
    """Seconds of processor time that these processes have used."""
    total = 0
    for pid in pids:
        # the name of the process, in parentheses, may hold spaces
        after = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        total += int(after[11]) + int(after[12])
    return total / os.sysconf("SC_CLK_TCK")


def memory() -> dict[str, float]:
    """Of this process, in MB: all it has now (VmRSS), its peak (VmHWM), and the parts RssAnon, RssFile, RssShmem."""
    lines = (PROC / "self/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {k: int(fields[k].split()[0]) / 1024 for k in ("VmRSS", "VmHWM", "RssAnon", "RssFile", "RssShmem")}


def forget_peak() -> None:
    """The peak of this process begins anew at what it has now."""
    (PROC / "self/clear_refs").write_text("5")


def peak_of_own() -> float:
    """The peak since `forget_peak` in MB, without the pages of libraries and files."""
    found = memory()
    return found["VmHWM"] - found["RssFile"] - found["RssShmem"]


def description() -> dict[str, object]:
    """The machine and the versions of what is measured on it."""
    from importlib.metadata import PackageNotFoundError, version

    model = platform.processor() or platform.machine()
    if known():
        lines = (PROC / "cpuinfo").read_text().splitlines()
        model = next((x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")), model)
    versions: dict[str, str | None] = {}
    for package in ("dslc", "numpy", "torch", "jax"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return {
        "processor": model,
        "processors": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions,
    }

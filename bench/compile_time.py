"""The time of `dslc compile` as a user meets it: a whole fresh process, best of three."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

RUNS = 3
COMMAND = "from dslc.cli.main import main; main()"


class CompileError(Exception):
    """The spec was refused, or the compiler failed; the text is what it said."""


@dataclass(frozen=True)
class CompileTime:
    """Seconds of each run, and the length of the module."""

    runs: tuple[float, ...]
    lines: int

    @property
    def best(self) -> float:
        return min(self.runs)


def compile_spec(spec: Path, output: Path, backend: str, settings: Mapping[str, int], runs: int = RUNS) -> CompileTime:
    """Compile a spec to a file, several times, each in a process of its own."""
    sets = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    command = [sys.executable, "-c", COMMAND, "compile", str(spec), "-b", backend, "-o", str(output), *sets]
    times = []
    for _ in range(runs):
        start = perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        times.append(perf_counter() - start)
        if done.returncode:
            raise CompileError(f"dslc compile {spec.name} failed:\n{done.stdout}{done.stderr}")
    return CompileTime(tuple(times), len(output.read_text(encoding="utf-8").splitlines()))

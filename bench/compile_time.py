"""The time of `dslc compile` as a user meets it: a whole fresh process, best of three; for C also the first import."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

RUNS = 3
COMMAND = "from dslc.cli.main import main; main()"

#: of the compiled libraries of C modules, beside their files
LIBRARIES = "libraries"
#: of the bytecode of dslc, which pip writes where it installs it
BYTECODE = "bytecode"


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
    """Compile a spec to a file, several times, each in a process of its own.

    A C module is its Python file, two more beside it, and a library that the C compiler makes at the first import: that
    is a second process, which counts too.
    """
    sets = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    where = ["-o", str(output.parent), "--name", output.stem] if backend == "c" else ["-o", str(output)]
    commands = [[sys.executable, "-c", COMMAND, "compile", str(spec), "-b", backend, *where, *sets]]
    if backend == "c":
        commands.append([sys.executable, str(output)])
    libraries = output.parent / LIBRARIES
    times = []
    for _ in range(runs):
        shutil.rmtree(libraries, ignore_errors=True)
        start = perf_counter()
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=as_installed(output))
            if done.returncode:
                raise CompileError(f"dslc compile {spec.name} failed:\n{done.stdout}{done.stderr}")
        times.append(perf_counter() - start)
    written = output.with_suffix(".c") if backend == "c" else output
    return CompileTime(tuple(times), len(written.read_text(encoding="utf-8").splitlines()))


def as_installed(module: Path) -> dict[str, str]:
    """The environment of a process that finds the bytecode of dslc from its second run on, whatever this is told."""
    known = {key: value for key, value in with_libraries(module).items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**known, "PYTHONPYCACHEPREFIX": str(module.parent / BYTECODE)}


def with_libraries(module: Path) -> dict[str, str]:
    """The environment in which a C module keeps its library beside itself."""
    return {**os.environ, "DSLC_CACHE": str(module.parent / LIBRARIES)}

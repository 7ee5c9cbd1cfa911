"""Definitions in C, compiled for tests: a library whose functions are called by their names, or a program that runs."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dslc.backends.c.runtime import closure

FLAGS = ["-O2", "-march=native", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
INCLUDES = "#define _GNU_SOURCE\n" + "".join(
    f"#include <{name}.h>\n" for name in ("stdint", "stddef", "string", "math")
)


def compiler() -> str:
    """A C compiler of this machine; without one, the test is skipped."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name):
            return name
    pytest.skip("no C compiler on this machine")


def source(names: list[str], rest: str = "") -> str:
    return "\n".join([INCLUDES, *closure(names), rest])


def built(folder: Path, text: str, *flags: str) -> Path:
    """The text as a program or library, with every warning an error."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "text.c").write_text(text, encoding="utf-8")
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-Wno-unused-function"]
    command = [compiler(), *FLAGS, *warnings, *flags, str(folder / "text.c"), "-o", str(folder / "built"), "-pthread"]
    subprocess.run([*command, "-lm"], check=True)
    return folder / "built"


def argument(value: Any) -> Any:
    if value is None or isinstance(value, np.ndarray):
        return ctypes.c_void_p(None if value is None else value.ctypes.data)
    return ctypes.c_long(value) if isinstance(value, int) else value


class Library:
    """Functions by name: whole numbers are passed as long, arrays as pointers to their first entry, None as null."""

    def __init__(self, folder: Path, names: list[str], *flags: str) -> None:
        table = "\n".join(f"void *at_{name} = (void *){name};" for name in names)
        self.library = ctypes.CDLL(str(built(folder, source(names, table), "-shared", "-fPIC", *flags)))

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self.returning(name, ctypes.c_int)

    def returning(self, name: str, result: Any) -> Callable[..., Any]:
        address = ctypes.c_void_p.in_dll(self.library, f"at_{name}").value
        assert address
        function = ctypes.CFUNCTYPE(result)(address)
        return lambda *arguments: function(*map(argument, arguments))

"""The files of a C module, NAME.c, NAME.h and NAME.py, and all of it as one Python text."""

from __future__ import annotations

import re
from pathlib import Path

from dslc.backends.c.header import header
from dslc.backends.c.module import c_file
from dslc.backends.c.narrow import narrow
from dslc.backends.c.shell import python_text

from dslc.program import Program


def generate(program: Program, source: str, dtype: str = "f32", march: str = "native", name: str | None = None) -> str:
    """The text of a Python module with the C text in it."""
    program = narrow(program, dtype)
    text, interface = c_file(program, name or Path(source).stem, source, dtype)
    return python_text(program, interface, source, dtype, text, march)


def kernels(text: str) -> list[str]:
    """The functions of a C text that threads share the work of."""
    pattern = r"^static void \w+\(void \*context, long begin, long end\) \{\n.*?^\}"
    return re.findall(pattern, text, re.MULTILINE | re.DOTALL)


def module_files(
    program: Program, source: str, dtype: str = "f32", march: str = "native", name: str | None = None
) -> dict[str, str]:
    """The C text, its header, and the Python module that reads the C text beside it, by the names of their files."""
    program = narrow(program, dtype)
    text, interface = c_file(program, name or Path(source).stem, source, dtype)
    python = python_text(program, interface, source, dtype, None, march)
    prefix = interface.prefix
    return {f"{prefix}.c": text, f"{prefix}.h": header(interface, source), f"{prefix}.py": python}

"""The modules of shipped specs as text, each compiled once in a process: many tests read the same ones."""

from __future__ import annotations

import functools
from pathlib import Path

from dslc.compiler import compile_text

ROOT = Path(__file__).parents[1]


@functools.cache
def text_of(path: str, backend: str = "numpy", dtype: str = "f32") -> str:
    """The module of a spec, named by its path from the root of the repository: `specs/mlp/mlp.dsl`."""
    return compile_text(ROOT / path, backend, dtype=dtype)

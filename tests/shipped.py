"""The modules of shipped specs as text, each compiled once in a process: many tests read the same ones."""

from __future__ import annotations

import functools
from pathlib import Path

from dslc.compiler import compile_text

ROOT = Path(__file__).parents[1]
#: settings that make specs small which are large as they stand; those that tests loop over have to be quick
SMALL: dict[str, dict[str, object]] = {
    "alexnet": {"side": 67, "width": 2, "hidden": 8, "classes": 5},
    "lenet": {"side": 16, "channels": 1},
    "resnet50": {"width": 4, "b": 2, "c": 2, "d": 1, "e": 1, "classes": 5},
    "vgg": {"side": 16, "width": 2, "most": 4, "blocks": 3, "hidden": 8, "classes": 5},
}


@functools.cache
def text_of(path: str, backend: str = "numpy", dtype: str = "f32") -> str:
    """The module of a spec, named by its path from the root of the repository: `specs/mlp/mlp.dsl`."""
    return compile_text(ROOT / path, backend, dtype=dtype)

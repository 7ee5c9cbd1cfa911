"""What tests of modules on both backends share: a module from a text, and its arrays as NumPy ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from dslc.compiler import compile_text, imported

BACKENDS = ("numpy", "triton", "c")


def module_of(text: str, backend: str, folder: Path, dtype: str = "f32", **options: Any) -> ModuleType:
    """The module of a spec given as text."""
    spec = folder / "spec.dsl"
    spec.write_text(text, encoding="utf-8")
    return imported(compile_text(spec, backend, dtype=dtype, **options), "spec")


def given(array: Any, backend: str) -> Any:
    """An argument as a backend wants it, in memory of its own."""
    array = np.array(array)
    if backend != "triton":
        return array
    import torch

    return torch.from_numpy(array)


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The arrays of a result, by where they stand in it."""
    if isinstance(value, dict):
        for key, x in value.items():
            yield from leaves(x, f"{name}[{key!r}]")
    elif isinstance(value, tuple | list):
        for key, x in enumerate(value):
            yield from leaves(x, f"{name}[{key}]")
    elif hasattr(value, "shape"):
        yield name, np.asarray(value)  # which shares the memory of a tensor

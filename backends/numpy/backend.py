"""The NumPy backend as the rest of dslc sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dslc.backends.record import Arrays, Backend, Printer

if TYPE_CHECKING:
    from dslc.meaning.interpret import Array


def _printer() -> Printer:
    from dslc.backends.numpy.module import generate
    from dslc.backends.numpy.schedule import schedule

    return Printer(generate, schedule=schedule)


def _arrays() -> Arrays:
    import numpy as np

    kinds = {"f64": np.float64, "f32": np.float32, "f16": np.float16}

    def pack(x: Array, dtype: str | None = None) -> Array:
        return np.asarray(x) if dtype is None else np.asarray(x, kinds[dtype])

    return Arrays(pack, np.asarray)


BACKEND = Backend(
    "numpy",
    library="NumPy",
    printer=_printer,
    needs=("numpy",),
    arrays=_arrays,
    on_arrays=True,
    lacks={"bf16": ("NumPy has no bfloat16", "take the dtype f32 or f16, or the backend c or triton")},
    lengths=(262147, 65537, 16411, 4099, 1031, 257, 67),
)

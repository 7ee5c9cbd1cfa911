"""The C backend as the rest of dslc sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dslc.backends.c.target import TARGET
from dslc.backends.record import Arrays, Backend, Printer, Unavailable

if TYPE_CHECKING:
    from dslc.meaning.interpret import Array


def _printer() -> Printer:
    from dslc.backends.c.files import generate, kernels, module_files
    from dslc.backends.c.module import schedule

    return Printer(generate, schedule=schedule, kernels=kernels, files=module_files)


def _arrays() -> Arrays:
    import numpy as np

    from dslc.arrays import BFLOAT16, as_kept, as_numbers

    kinds = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": BFLOAT16}

    def pack(x: Array, dtype: str | None = None) -> Array:
        return np.asarray(x) if dtype is None else as_kept(np.asarray(x), kinds[dtype])

    return Arrays(pack, as_numbers)


def _runs_with() -> str:
    from dslc.backends.c.build import compiler_command

    try:
        command, _ = compiler_command()
    except RuntimeError as error:
        raise Unavailable(str(error)) from error
    return " ".join(command)


BACKEND = Backend(
    "c",
    library="C",
    printer=_printer,
    needs=("numpy",),
    arrays=_arrays,
    on_arrays=True,
    runs_with=_runs_with,
    target=TARGET,
    options=frozenset({"march", "name"}),
    lengths=(262147, 65537, 16411, 4099, 1031, 257, 67),
)

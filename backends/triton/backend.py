"""The Triton backend as the rest of dslc sees it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dslc.backends.record import Arrays, Backend, Printer, Unavailable
from dslc.backends.triton.target import TARGET

if TYPE_CHECKING:
    from dslc.meaning.interpret import Array
    from dslc.passes.transform import Outputs, Stages
    from dslc.schedule.plan import Schedule

#: dtypes as torch calls them
TORCH = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def _printer() -> Printer:
    from dslc.backends.triton.module import generate
    from dslc.backends.triton.outline import kernels
    from dslc.backends.triton.tiles import decided

    from dslc.schedule import prepare
    from dslc.schedule.buffers import buffers

    def schedule(outputs: Outputs, dtype: str, stages: Stages) -> Schedule:
        made = prepare.schedule(outputs, TARGET, dtype, stages=stages)
        steps = decided(made.steps, dtype)
        return replace(made, steps=steps, plan=buffers(steps, made.results))

    return Printer(generate, schedule=schedule, kernels=kernels)


def _arrays() -> Arrays:
    """Kernels run in Triton's interpreter, which needs no GPU; it must be chosen before triton is imported."""
    if "triton" not in sys.modules:
        os.environ["TRITON_INTERPRET"] = "1"
    elif os.environ.get("TRITON_INTERPRET") != "1":
        raise Unavailable("triton is already in use without its interpreter; set TRITON_INTERPRET=1")
    import numpy as np
    import torch
    from dslc.backends.triton import bfloat16, quick_triton

    @contextmanager
    def running() -> Iterator[None]:
        with bfloat16.as_on_a_device(), quick_triton.quick():
            yield

    def unpack(x: Any) -> Array:
        if not isinstance(x, torch.Tensor):
            return np.asarray(x)
        return np.asarray((x.float() if x.dtype == torch.bfloat16 else x).detach().cpu().numpy())

    def pack(x: Array, dtype: str | None = None) -> torch.Tensor:
        made = torch.from_numpy(np.asarray(x, order="C"))
        return made if dtype is None else made.to(getattr(torch, TORCH[dtype]))

    return Arrays(pack, unpack, running)


BACKEND = Backend(
    "triton",
    library="torch",
    printer=_printer,
    needs=("torch", "triton"),
    arrays=_arrays,
    target=TARGET,
    options=frozenset({"atomic", "registry"}),
    lengths=(131, 67),  # kernels have blocks of up to 128 rows
)

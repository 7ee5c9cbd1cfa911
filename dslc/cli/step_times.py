"""How long the steps of a C module take, as shares of what the processor can do: `dslc cost -b c --measure`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from dslc.check import program as p
    from dslc.program import Program

#: a function is called so many times at least, and for so many seconds
CALLS, SECONDS = 5, 1.0
#: copied to measure the memory: more than caches have, in pieces of 64 KB
PIECES = 1024


@dataclass(frozen=True)
class Times:
    """Seconds of each step, the least of several calls, and operations and bytes of a second at most."""

    steps: list[float]
    arithmetic: float
    memory: float


def step_times(
    program: Program, model: p.Instance, train: p.TrainProgram | None, function: str, count: int,
    sizes: Mapping[str, Any], missing: Sequence[str], dtype: str,
) -> Times:  # fmt: skip
    """Of a function of a module on random data; raises a usage error for sizes that it cannot run at."""
    from time import perf_counter

    import numpy as np

    from dslc.backends.c.module import c_file
    from dslc.backends.c.shell import python_text
    from dslc.compiler import imported
    from dslc.verification.backends import Loaded
    from dslc.verification.checks import Subject

    if missing:
        raise click.UsageError(f"--measure needs a number for {', '.join(missing)}: add --set {missing[0]}=64")
    text, interface = c_file(program, "timed", "timed", dtype, timed=True)
    try:
        module = imported(python_text(program, interface, "timed", dtype, text), "timed")
    except RuntimeError as error:
        raise click.ClickException(str(error)) from error
    kind = {"f32": np.float32, "f64": np.float64}[dtype]
    loaded = Loaded("c", module, lambda x, dtype=None: np.asarray(x, kind if dtype else None), np.asarray, dtype)
    mode = "outputs" if function == "forward" else "training"
    subject = Subject(model, train, sizes, 0, dtype)
    arguments, options = loaded.arguments(function, subject.unit(mode), subject.inputs(mode), 0)
    call = getattr(module, function)
    took = np.zeros((0, count))
    start = perf_counter()
    while len(took) <= CALLS or perf_counter() - start < SECONDS:
        seconds = np.zeros(count)
        try:
            call(*arguments, **options)
        except ValueError as error:
            raise click.UsageError(f"the module refuses these sizes: {error}") from error
        module.LIBRARY.timed_seconds(module.ctypes.c_void_p(seconds.ctypes.data), count)
        took = np.vstack([took, seconds])
    rates, arrays = np.zeros(2), np.ones((2, PIECES, 65536), np.uint8)
    at = [x.ctypes.data for x in (rates[:1], rates[1:], arrays[0], arrays[1])]
    module.LIBRARY.timed_limits(*map(module.ctypes.c_void_p, at), module.ctypes.c_long(PIECES))
    return Times([float(x) for x in took[1:].min(0)], float(rates[0]), float(rates[1]))  # the first call fills caches


def shares(row: Mapping[str, Any], seconds: float, times: Times) -> dict[str, Any]:
    """The seconds of a row, and its operations and bytes as parts of what can be done in them."""
    if seconds <= 0:
        return {"seconds": 0.0, "of_arithmetic": None, "of_memory": None}
    return {
        "seconds": seconds,
        "of_arithmetic": round(row["operations"] / seconds / times.arithmetic, 4),
        "of_memory": round((row["read"] + row["written"]) / seconds / times.memory, 4),
    }


def time_text(seconds: float) -> str:
    """
    >>> time_text(0.0000123), time_text(0.0123), time_text(1.5)
    ('12.3 us', '12.3 ms', '1.5 s')
    """
    for unit, scale in (("us", 1e-6), ("ms", 1e-3)):
        if seconds < 1000 * scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def share_text(share: float | None) -> str:
    """
    >>> share_text(0.534), share_text(0.004), share_text(None)
    ('53 %', '0.4 %', '')
    """
    if share is None:
        return ""
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.1f} %"


def tell_limits(limits: Mapping[str, float]) -> None:
    """What the shares are of."""
    click.echo(
        f"measured here: {limits['arithmetic'] / 1e9:.0f} billion operations a second in registers, "
        f"{limits['memory'] / 1e9:.1f} GB a second copied; a share of memory above 100 % came from caches"
    )

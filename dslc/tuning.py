"""`dslc compile --tune`: on a GPU, a few configurations of each kernel are timed, and the quickest is written."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dslc.schedule.buffers import LANES

if TYPE_CHECKING:
    from dslc.backends.triton.kernels import Choice, KernelText

#: blocks to try, by the kind of a kernel; where a kernel does not have one of them, or it does not fit, it is left out
BLOCKS: dict[str, tuple[Mapping[str, int], ...]] = {
    "dot": (
        {"BLOCK_ROWS": 128, "BLOCK_COLUMNS": 64},
        {"BLOCK_ROWS": 64, "BLOCK_COLUMNS": 128},
        {"BLOCK_ROWS": 32, "BLOCK_COLUMNS": 32},
        {"BLOCK_INNER": 32},
        {"BLOCK_INNER": 64},
    ),
    "stream": (
        {"BLOCK_ROWS": 64, "BLOCK_COLUMNS": 32},
        {"BLOCK_ROWS": 64, "BLOCK_COLUMNS": 64},
        {"BLOCK_ROWS": 32, "BLOCK_COLUMNS": 64},
        {"BLOCK_ROWS": 16, "BLOCK_COLUMNS": 32},
    ),
    "map": ({"BLOCK": 256}, {"BLOCK": 512}, {"BLOCK": 2048}),
    "rows": ({"BLOCK_ROWS": 1}, {"BLOCK_ROWS": 4}, {"BLOCK_ROWS": 16}),
}
#: then warps of a program, and blocks that are loaded ahead
WARPS_AND_STAGES = ((4, 1), (8, 1), (4, 2), (8, 2), (4, 3), (8, 3))
#: what every open size of a spec is while its kernels are timed
SIZE = 64
#: launches that are timed together
ROUNDS = 10


class NoDevice(Exception):
    """There is nothing to time kernels on; the message says what is missing."""


def require_device() -> None:
    try:
        import torch
        import triton  # noqa: F401
    except ImportError as error:
        raise NoDevice(
            f"--tune times kernels on a GPU with torch and triton, and {error.name} is not installed"
        ) from error
    if not torch.cuda.is_available():
        raise NoDevice("--tune times kernels on a GPU, and torch finds none here; compile without it, or where one is")


@dataclass
class Tuner:
    """The quickest constants of each kernel so far; no new ones are tried after the deadline."""

    time_of: Callable[[Callable[[], object]], float]
    deadline: float
    #: the launches of each kernel, and the numbers of the sizes in them
    launches: Mapping[str, Sequence[KernelText]]
    sizes: Mapping[str, int]
    best: dict[str, Choice] = field(default_factory=dict)

    def choose(self, name: str, given: Choice, launch: Callable[[Choice], object]) -> Choice:
        """Blocks first, then warps and stages for the quickest of them."""
        from dslc.backends.triton.kernels import Choice

        if name not in self.best:
            if time.monotonic() > self.deadline:
                return given
            tiles = [given, *(Choice(b, given.warps, given.stages) for b in candidates(self.launches.get(name, ())))]
            first = self.quickest(tiles, launch)
            others = [Choice(first.blocks, *c) for c in WARPS_AND_STAGES if c != (first.warps, first.stages)]
            self.best[name] = self.quickest([first, *others], launch)
        return self.best[name]

    def quickest(self, choices: Sequence[Choice], launch: Callable[[Choice], object]) -> Choice:
        times = [self.measured(partial(launch, c)) for c in choices]
        return choices[times.index(min(times))]

    def measured(self, run: Callable[[], object]) -> float:
        from triton.runtime.errors import OutOfResources

        try:
            run()  # compiles it
            return self.time_of(run)
        except OutOfResources:
            return float("inf")

    def grid(self, name: str, given: tuple[int, ...], blocks: Mapping[str, int]) -> tuple[int, ...]:
        """The grid of a launch with other blocks."""
        from dslc.cost import settle

        found = list(given)
        for block, length in blocks.items():
            along = self.launches[name][0].along[block]
            if along.place is not None:
                extent, times = (int(settle(x, self.sizes)) for x in (along.extent, along.times))
                found[along.place] = times * -(-extent // length)
        return tuple(found)


def candidates(launches: Sequence[KernelText]) -> list[Mapping[str, int]]:
    """Blocks to try for a kernel; none where its launches differ in what they are along."""
    form = launches[0].form if launches else None
    if form is None or any(x.along != launches[0].along for x in launches):
        return []
    one = launches[0]
    return [
        blocks for blocks in BLOCKS[form.kind]
        if all(n in one.along and one.along[n].allows(b) for n, b in blocks.items())
        and any(one.blocks[n] != b for n, b in blocks.items())
        and (not form.over or enough({**one.blocks, **blocks}))
    ]  # fmt: skip


def enough(blocks: Mapping[str, int | str]) -> bool:
    """Has each thread entries of its own, for any choice of warps? So it must where they are written over others."""
    return math.prod(x for x in blocks.values() if isinstance(x, int)) >= LANES * max(w for w, _ in WARPS_AND_STAGES)


class Tried:
    """A kernel that is launched with the constants that a tuner chooses for it."""

    def __init__(self, name: str, kernel: Any, tuner: Tuner) -> None:
        self.name, self.kernel, self.tuner = name, kernel, tuner

    def __getitem__(self, grid: Any) -> Callable[..., object]:
        from dslc.backends.triton.kernels import Choice

        def launched(*arguments: Any, **options: Any) -> object:
            if "num_warps" not in options:
                return self.kernel[grid](*arguments, **options)
            given = Choice({}, options.pop("num_warps"), options.pop("num_stages"))

            def launch(choice: Choice) -> object:
                constants = {**options, **choice.blocks, "num_warps": choice.warps, "num_stages": choice.stages}
                return self.kernel[self.tuner.grid(self.name, grid, choice.blocks)](*arguments, **constants)

            return launch(self.tuner.choose(self.name, given, launch))

        return launched


def on_device(run: Callable[[], object]) -> float:
    """Milliseconds of one launch."""
    import torch

    event: Any = torch.cuda.Event
    start, end = event(enable_timing=True), event(enable_timing=True)
    start.record()
    for _ in range(ROUNDS):
        run()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / ROUNDS


def quickest(
    module: Any, calls: Sequence[Callable[[], object]], seconds: float, launches: Mapping[str, Sequence[KernelText]],
    sizes: Mapping[str, int], time_of: Callable[[Callable[[], object]], float] = on_device,
) -> dict[str, Choice]:  # fmt: skip
    """Constants by kernel, found while some functions of a module run."""
    tuner = Tuner(time_of, time.monotonic() + seconds, launches, sizes)
    kernels = {name: getattr(module, name) for name in module.MANIFEST["kernels"] if hasattr(module, name)}
    for name, kernel in kernels.items():
        setattr(module, name, Tried(name, kernel, tuner))
    try:
        for call in calls:
            call()
    finally:
        for name, kernel in kernels.items():
            setattr(module, name, kernel)
    return tuner.best


def tuned(
    spec: Path, settings: Mapping[str, object], dtype: str, model: str | None, atomic: bool, seconds: float,
    time_of: Callable[[Callable[[], object]], float] = on_device, wrt: Sequence[str] = (), folded: bool = False,
) -> str:  # fmt: skip
    """The text of the module of a spec with the constants that are quickest on this machine."""
    import numpy as np
    import torch

    from dslc.backends.triton.backend import TORCH
    from dslc.backends.triton.registry import Registry
    from dslc.builder.build import build, build_train
    from dslc.compiler import choose, compile_text, imported
    from dslc.frontend import check_file
    from dslc.verification.backends import Loaded
    from dslc.verification.sample import draw_inputs, open_sizes

    registry = Registry(dtype, atomic)
    text = compile_text(spec, "triton", settings, dtype, model, atomic, registry, wrt, folded=folded)
    instance, train = choose(check_file(spec, settings), model)
    unit = build(instance, "inference") if train is None else build_train(train)
    declared = instance.inputs if train is None else train.instance.inputs
    sizes = dict.fromkeys(open_sizes([unit]), SIZE)
    values = draw_inputs(unit, declared, sizes, np.random.default_rng(0))
    module = imported(text, spec.stem)

    def pack(x: Any, kind: str | None = None) -> Any:
        made = torch.as_tensor(x, device=module.default_device())
        wanted = module.DTYPE if kind is None else getattr(torch, TORCH[kind])
        return made.to(wanted) if made.is_floating_point() else made

    loaded = Loaded("triton", module, pack, lambda x: x.detach().float().cpu().numpy(), dtype)
    function = "forward" if train is None else "loss_grad_metrics"
    calls = [lambda: loaded.call(function, unit, values, 0)]
    chosen = quickest(module, calls, seconds, registry.launched, sizes, time_of)
    registry = Registry(dtype, atomic, choices=chosen)
    return compile_text(spec, "triton", settings, dtype, model, atomic, registry, wrt, folded=folded)

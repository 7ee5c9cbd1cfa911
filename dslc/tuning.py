"""`dslc compile --tune`: on a GPU, a few configurations of each kernel are timed, and the quickest is written."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

#: warps of a program, and blocks that are loaded ahead
CANDIDATES = ((4, 1), (8, 1), (4, 2), (8, 2), (4, 3), (8, 3))
#: what every open size of a spec is while its kernels are timed
SIZE = 64
#: launches that are timed together
ROUNDS = 10

Config = tuple[int, int]


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
    """The quickest configuration of each kernel so far; no new ones are tried after the deadline."""

    time_of: Callable[[Callable[[], object]], float]
    deadline: float
    best: dict[str, Config] = field(default_factory=dict)

    def choose(self, name: str, given: Config, launch: Callable[[Config], object]) -> Config:
        if name not in self.best:
            if time.monotonic() > self.deadline:
                return given
            times: dict[Config, float] = {}
            for config in dict.fromkeys((given, *CANDIDATES)):
                times[config] = self.measured(partial(launch, config))
            self.best[name] = min(times, key=lambda c: times[c])
        return self.best[name]

    def measured(self, run: Callable[[], object]) -> float:
        from triton.runtime.errors import OutOfResources

        try:
            run()  # compiles it
            return self.time_of(run)
        except OutOfResources:
            return float("inf")


class Tried:
    """A kernel that is launched with the configuration that a tuner chooses for it."""

    def __init__(self, name: str, kernel: Any, tuner: Tuner) -> None:
        self.name, self.kernel, self.tuner = name, kernel, tuner

    def __getitem__(self, grid: Any) -> Callable[..., object]:
        def launched(*arguments: Any, **options: Any) -> object:
            if "num_warps" not in options:
                return self.kernel[grid](*arguments, **options)
            given = (options.pop("num_warps"), options.pop("num_stages"))

            def launch(config: Config) -> object:
                return self.kernel[grid](*arguments, **options, num_warps=config[0], num_stages=config[1])

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
    module: Any, calls: Sequence[Callable[[], object]], seconds: float,
    time_of: Callable[[Callable[[], object]], float] = on_device,
) -> dict[str, Config]:  # fmt: skip
    """Configurations by kernel, found while some functions of a module run."""
    tuner = Tuner(time_of, time.monotonic() + seconds)
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


def written(text: str, chosen: Mapping[str, Config]) -> str:
    """The text of a module with other constants at its launches and in its manifest."""
    for name, (warps, stages) in chosen.items():
        numbers = rf"\g<1>{warps}\g<2>{stages}"
        text = re.sub(rf"(\b{name}\[\(.*?num_warps=)\d+(,\s+num_stages=)\d+", numbers, text, flags=re.S)
        text = re.sub(rf'("{name}": {{.*?"warps": )\d+(,\s+"stages": )\d+', numbers, text, count=1, flags=re.S)
    return text


def tuned(
    text: str, spec: Path, settings: Mapping[str, object], model: str | None, seconds: float,
    time_of: Callable[[Callable[[], object]], float] = on_device,
) -> str:  # fmt: skip
    """The text of a module with the constants that are quickest on this machine."""
    import numpy as np
    import torch

    from dslc.compiler import choose, imported
    from dslc.frontend import check_file
    from dslc.ir.build import build, build_train
    from dslc.verification.backends import Loaded
    from dslc.verification.sample import draw_inputs, open_sizes

    instance, train = choose(check_file(spec, settings), model)
    unit = build(instance, "inference") if train is None else build_train(train)
    declared = instance.inputs if train is None else train.instance.inputs
    sizes = dict.fromkeys(open_sizes([unit]), SIZE)
    values = draw_inputs(unit, declared, sizes, np.random.default_rng(0))
    module = imported(text, spec.stem)
    kind = module.DTYPE

    def pack(x: Any) -> Any:
        made = torch.as_tensor(x, device=module.default_device())
        return made.to(kind) if made.is_floating_point() else made

    loaded = Loaded("triton", module, pack, lambda x: x.detach().float().cpu().numpy())
    function = "forward" if train is None else "loss_grad_metrics"
    return written(text, quickest(module, [lambda: loaded.call(function, unit, values, 0)], seconds, time_of))

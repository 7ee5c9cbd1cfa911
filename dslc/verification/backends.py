"""Modules of backends as they are verified: in a dtype, with arrays on the way in and out."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from dslc.backends.record import Backend, Unavailable
from dslc.backends.registry import BACKENDS
from dslc.builder.build import Unit
from dslc.builder.paths import separate
from dslc.compiler import compile_module
from dslc.meaning.interpret import Array
from dslc.verification.precision import Noise, computed_in


@dataclass
class Loaded:
    """A module in memory, and how NumPy arrays become its arrays and back."""

    name: str
    module: ModuleType
    #: an array as one of the module, of a dtype or as it is
    pack: Callable[..., Any]
    unpack: Callable[[Any], Array]
    #: what parameters are kept in
    dtype: str = "f64"
    #: what its functions are called in
    running: Callable[[], AbstractContextManager[None]] = nullcontext

    def call(self, function: str, unit: Unit, values: Mapping[str, Array], seed: int) -> Any:
        """What a function of the module gives for values by name: NumPy arrays in tuples and dictionaries."""
        arguments, options = self.arguments(function, unit, values, seed)
        with np.errstate(all="ignore"), self.running():
            result = getattr(self.module, function)(*arguments, **options)
        return self.plain(result)

    def arguments(
        self, function: str, unit: Unit, values: Mapping[str, Array], seed: int
    ) -> tuple[list[Any], dict[str, Any]]:
        """What a function of the module is called with."""
        accepted = inspect.signature(getattr(self.module, function)).parameters
        options: dict[str, Any] = {}
        if "state" in accepted:
            options["state"] = self.packed(unit, values, unit.states, computed_in(self.dtype))
        if "seed" in accepted:
            options["seed"] = seed
        return [self.packed(unit, values, unit.params), *self.data(unit, values)], options

    def train(
        self, unit: Unit, values: Mapping[str, Array], seed: int, steps: int, noise: Noise | None = None
    ) -> tuple[dict[str, Array], list[float]]:
        """Parameters and states after some steps of training on the same data, and the loss of each step.

        Of parameters in 16 bits, what the optimiser keeps of them in float32. Noise is for a module of NumPy's.
        """
        params = self.packed(unit, values, unit.params)
        opt = self.module.init_opt(params, seed)
        losses: list[float] = []
        with np.errstate(all="ignore"), self.running(), noise.on(self.module) if noise else nullcontext():
            for _ in range(steps):
                params, opt = self.module.train_step(params, opt, *self.data(unit, values))
                losses.append(float(opt["loss"]))
                if noise is not None:
                    noise.round(opt.get("param", params))
        return dict(self.plain({**params, **opt.get("param", {}), **opt.get("state", {})})), losses

    def packed(
        self, unit: Unit, values: Mapping[str, Array], names: Mapping[str, object], dtype: str | None = None
    ) -> dict[str, Any]:
        arrays = separate(unit, values, (n for n in names if n in values))
        return {name: self.pack(x.copy(), dtype or self.dtype) for name, x in arrays.items()}

    def data(self, unit: Unit, values: Mapping[str, Array]) -> list[Any]:
        return [self.pack(values[name]) for name, x in unit.inputs.items() if x.role == "input"]

    def plain(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self.plain(x) for name, x in value.items()}
        if isinstance(value, tuple):
            return tuple(self.plain(x) for x in value)
        return self.unpack(value)


def loaded(backend: Backend, path: Path, settings: Mapping[str, object], model: str, dtype: str = "f64") -> Loaded:
    """The module of a spec with parameters of a dtype; raises Unavailable."""
    if dtype in backend.lacks:
        raise Unavailable(backend.lacks[dtype][0])
    missing = [name for name in backend.needs if importlib.util.find_spec(name) is None]
    if missing:
        raise Unavailable(f"{' and '.join(missing)} not installed")
    if backend.arrays is None:
        raise Unavailable("its modules do not run in Python")
    arrays = backend.arrays()
    module = compile_module(path, backend.name, dtype, model, False, (), False, **settings)
    return Loaded(backend.name, module, arrays.pack, arrays.unpack, dtype, arrays.running)


#: name -> the module of a spec with parameters of a dtype
LOADERS: dict[str, Callable[..., Loaded]] = {name: partial(loaded, backend) for name, backend in BACKENDS.items()}

"""The backends that are verified: their modules in float64, and arrays on the way in and out."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from dslc.compiler import compile_module
from dslc.ir.build import Unit
from dslc.ir.interpret import Array
from dslc.ir.paths import separate


class Unavailable(Exception):
    """A backend that cannot run on this machine; the message says what is missing."""


@dataclass
class Loaded:
    """A module in memory, and how NumPy arrays become its arrays and back."""

    name: str
    module: ModuleType
    pack: Callable[[Array], Any]
    unpack: Callable[[Any], Array]

    def call(self, function: str, unit: Unit, values: Mapping[str, Array], seed: int) -> Any:
        """What a function of the module gives for values by name: NumPy arrays in tuples and dictionaries."""
        chosen = getattr(self.module, function)
        accepted = inspect.signature(chosen).parameters
        options: dict[str, Any] = {}
        if "state" in accepted:
            options["state"] = self.packed(unit, values, unit.states)
        if "seed" in accepted:
            options["seed"] = seed
        with np.errstate(all="ignore"):
            result = chosen(self.packed(unit, values, unit.params), *self.data(unit, values), **options)
        return self.plain(result)

    def train(self, unit: Unit, values: Mapping[str, Array], seed: int, steps: int) -> dict[str, Array]:
        """Parameters and states after some steps of training on the same data."""
        params = self.packed(unit, values, unit.params)
        opt = self.module.init_opt(params, seed)
        with np.errstate(all="ignore"):
            for _ in range(steps):
                params, opt = self.module.train_step(params, opt, *self.data(unit, values))
        return dict(self.plain({**params, **opt.get("state", {})}))

    def packed(self, unit: Unit, values: Mapping[str, Array], names: Mapping[str, object]) -> dict[str, Any]:
        arrays = separate(unit, values, (n for n in names if n in values))
        return {name: self.pack(x.copy()) for name, x in arrays.items()}

    def data(self, unit: Unit, values: Mapping[str, Array]) -> list[Any]:
        return [self.pack(values[name]) for name, x in unit.inputs.items() if x.role == "input"]

    def plain(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self.plain(x) for name, x in value.items()}
        if isinstance(value, tuple):
            return tuple(self.plain(x) for x in value)
        return self.unpack(value)


def numpy_module(path: Path, settings: Mapping[str, object], model: str) -> Loaded:
    return Loaded("numpy", compile_module(path, "numpy", "f64", model, False, **settings), np.asarray, np.asarray)


def triton_module(path: Path, settings: Mapping[str, object], model: str) -> Loaded:
    """Kernels run in Triton's interpreter, which needs no GPU; it must be chosen before triton is imported."""
    missing = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
    if missing:
        raise Unavailable(f"{' and '.join(missing)} not installed")
    if "triton" not in sys.modules:
        os.environ["TRITON_INTERPRET"] = "1"
    elif os.environ.get("TRITON_INTERPRET") != "1":
        raise Unavailable("triton is already in use without its interpreter; set TRITON_INTERPRET=1")
    import torch

    module = compile_module(path, "triton", "f64", model, False, **settings)

    def unpack(x: Any) -> Array:
        return x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)

    return Loaded("triton", module, lambda x: torch.from_numpy(np.asarray(x, order="C")), unpack)


#: name -> the module of a spec in float64
BACKENDS: dict[str, Callable[[Path, Mapping[str, object], str], Loaded]] = {
    "numpy": numpy_module,
    "triton": triton_module,
}

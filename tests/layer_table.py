"""Layers of the library as one model, so that a backend compiles them at once: values and gradients against torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from catalogue import model, same
from marks import rows

Parameters = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Layer:
    """What rows ask for: a call that gives `y` of one of the inputs, and the same in torch."""

    ids: str
    #: what the layer is called in the model, and its parameters begin with
    name: str
    #: the layer without its first argument: `conv1d(5, kernel = 3)`
    call: str
    #: the input that it acts on
    on: str
    #: type of the result
    result: str
    oracle: Callable[[Parameters, torch.Tensor], torch.Tensor]


def layers(*table: Layer) -> list[Any]:
    """The parameters of a test, each marked with its rows."""
    return [pytest.param(x, marks=rows(*x.ids.split()), id=f"{x.ids} {x.name}") for x in table]


class Layers:
    """A table of layers, compiled once for a backend."""

    def __init__(
        self, table: list[Layer], inputs: Mapping[str, str], data: Mapping[str, Any], before: str = ""
    ) -> None:
        self.table, self.inputs, self.data, self.before = table, inputs, data, before
        self.varied = [name for name, kind in inputs.items() if kind.startswith("f64")]

    def text(self) -> str:
        given = ", ".join(f"{name}: {kind}" for name, kind in self.inputs.items())
        results = ", ".join(f"{x.name}_y: {x.result}" for x in self.table)
        uses = "".join(f"    use {x.name} = {x.call}\n    {x.name}_y = {x.name}({x.on})\n" for x in self.table)
        outputs = ", ".join(f"{x.name}_y" for x in self.table)
        along = ", ".join(f"{x.name}_v: f64{x.result}" for x in self.table)
        total = " + ".join(f"sum({x.name}_y * {x.name}_v)" for x in self.table)
        names = ", ".join(self.inputs)
        return (
            f"{self.before}\nmodel layers({given}) -> ({results}):\n{uses}\n"
            f"train layers({names}, {along}):\n    {outputs} = layers({names})\n    minimize {total}\n    using sgd\n"
        )

    def check(self, backend: str, folder: Path) -> None:
        """Values, and gradients by all parameters and inputs at random cotangents."""
        module = model(self.text(), folder, backend, wrt=self.varied)
        rng = np.random.default_rng(3)
        params = {name: 0.3 * rng.standard_normal(x.shape) + 0.1 for name, x in module.init(0).items()}
        tensors = {name: torch.tensor(x, requires_grad=True) for name, x in params.items()}
        inputs = {name: torch.tensor(x, requires_grad=name in self.varied) for name, x in self.data.items()}
        outputs = module.forward(params, *self.data.values())
        found = outputs if isinstance(outputs, dict) else {f"{self.table[0].name}_y": outputs}
        total, cotangents = torch.zeros((), dtype=torch.float64), []
        for x in self.table:
            own = {name.removeprefix(f"{x.name}."): p for name, p in tensors.items() if name.startswith(f"{x.name}.")}
            expected = x.oracle(own, inputs[x.on])
            same(found[f"{x.name}_y"], expected, x.name)
            cotangents.append(rng.standard_normal(expected.shape))
            total = total + (expected * torch.tensor(cotangents[-1])).sum()
        wanted = {**tensors, **{name: inputs[name] for name in self.varied}}
        slopes = dict(zip(wanted, torch.autograd.grad(total, list(wanted.values())), strict=True))
        loss, grads = module.loss_and_grad(params, *self.data.values(), *cotangents)
        np.testing.assert_allclose(loss, total.item(), rtol=1e-9)
        for name, slope in slopes.items():
            same(grads[name], slope, f"gradient by {name}")

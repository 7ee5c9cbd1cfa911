"""Rows of the catalogue as layers: as they are trained and at inference, with parameters and states, on any backend."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from catalogue import SIZES, Array, Draw, model, same
from marks import rows
from torch.nn import functional as F

Tensors = Mapping[str, torch.Tensor]
#: y and the next states
Result = tuple[torch.Tensor, Tensors]
#: what a layer gives for x, with its parameters and states by name; "y" is what it gave in training, to tell draws by
Oracle = Callable[[torch.Tensor, Tensors], torch.Tensor | Result]


@dataclass(frozen=True)
class Layer:
    """What rows ask of a layer: `y` of `x` in the language and in torch."""

    ids: str
    #: type of x, and of y
    input: str
    result: str
    #: statements that end with `y = ...`
    body: str
    trained: Oracle
    #: at inference, where that is something else
    used: Oracle | None = None
    #: parameters and states that are not drawn
    data: Mapping[str, Draw] = field(default_factory=dict)


def layers(*table: Layer) -> list[Any]:
    """The parameters of a test, each marked with its rows."""
    return [pytest.param(x, marks=rows(*x.ids.split()), id=f"{x.ids} {x.body[-40:]}") for x in table]


class LayerTable:
    """Layers as one model with a training, so that a backend compiles them at once; N and M stay open sizes."""

    def __init__(self, table: Iterable[Layer], before: str = "") -> None:
        self.layers = list(table)
        self.before = before

    def text(self) -> str:
        numbered = list(enumerate(self.layers))
        definitions = []
        for n, case in numbered:
            body = "".join(f"    {x}\n" for x in case.body.strip().splitlines())
            definitions.append(f"layer row_{n}(x: {_sized(case.input)}) -> y: {_sized(case.result)}:\n{body}")
        inputs = ", ".join(f"x_{n}: f64{_sized(case.input)}" for n, case in numbered)
        cotangents = ", ".join(f"c_{n}: f64{_sized(case.result)}" for n, case in numbered)
        names = ", ".join(f"x_{n}" for n, _ in numbered)
        results = ", ".join(f"y_{n}" for n, _ in numbered)
        outputs = ", ".join(f"y_{n}: {_sized(case.result)}" for n, case in numbered)
        lines = "".join(f"    y_{n} = row_{n}(x_{n})\n" for n, _ in numbered)
        loss = " + ".join(f"sum(y_{n} * c_{n})" for n, _ in numbered)
        return "\n".join([
            self.before, *definitions,
            f"model table({inputs}) -> ({outputs}, one: []):\n{lines}    one = 1.0\n",
            f"train table({names}, {cotangents}):\n    {results}, one = table({names})\n    expose {results}\n"
            f"    minimize {loss}\n    using sgd(lr = 0.1)\n",
        ])  # fmt: skip

    def check(self, folder: Path, backend: str) -> None:
        """Values, gradients by inputs and parameters, and next states in training; values at inference."""
        inputs = [f"x_{n}" for n in range(len(self.layers))]
        module = model(self.text(), folder, backend, wrt=inputs)
        rng = np.random.default_rng(7)
        xs = [rng.standard_normal(_shape(x.input)) for x in self.layers]
        cs = [rng.standard_normal(_shape(x.result)) for x in self.layers]
        params = {k: self.drawn(k, shape[0], rng) for k, shape in module.PARAMS.items()}
        state = {k: self.drawn(k, shape[0], rng) ** 2 for k, shape in getattr(module, "STATE", {}).items()}
        more = [state] if state else []
        with np.errstate(all="ignore"):  # Triton's interpreter warns of what branches not taken hold
            _, grads, found, *after = module.loss_grad_metrics(params, *xs, *cs, *more)
            used = module.forward(params, *xs, *more)
        for n, case in enumerate(self.layers):
            own = {k.removeprefix(f"row_{n}."): x for k, x in {**params, **state}.items() if k.startswith(f"row_{n}.")}
            tensors = {k: torch.tensor(x, requires_grad=f"row_{n}.{k}" in params) for k, x in own.items()}
            tensors["y"] = torch.tensor(np.asarray(found[f"y_{n}"]))
            x = torch.tensor(xs[n], requires_grad=True)
            given = {"x": x, **{k: v for k, v in tensors.items() if v.requires_grad}}
            result = case.trained(x, tensors)
            y, states = result if isinstance(result, tuple) else (result, {})
            try:
                same(found[f"y_{n}"], y, "y in training")
                wanted = torch.autograd.grad((y * torch.tensor(cs[n])).sum(), list(given.values()), allow_unused=True)
                for name, slope in zip(given, wanted, strict=True):
                    place = f"x_{n}" if name == "x" else f"row_{n}.{name}"
                    same(grads[place], torch.zeros_like(given[name]) if slope is None else slope, f"gradient by {name}")
                for name, value in states.items():
                    same(after[0][f"row_{n}.{name}"], value, f"next {name}")
                result = (case.used or case.trained)(x, tensors)
                same(used[f"y_{n}"], result[0] if isinstance(result, tuple) else result, "y at inference")
            except AssertionError as fault:
                raise AssertionError(f"{case.ids}: {case.body}\n{fault}") from None

    def drawn(self, path: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        row, _, name = path.partition(".")
        case = self.layers[int(row.removeprefix("row_"))]
        return case.data[name](rng, shape) if name in case.data else rng.standard_normal(shape)


def _sized(kind: str) -> str:
    """A type with numbers for all sizes that parameters may need."""
    return re.sub(r"[A-LO-Z]", lambda found: str(SIZES[found[0]]), kind)


def _shape(kind: str) -> tuple[int, ...]:
    match = re.fullmatch(r"\[(.*)\]", kind)
    assert match, kind
    names = [x.strip() for x in match[1].split(",")]
    return tuple(SIZES[x] if x in SIZES else int(x) for x in names)


class Trained:
    """A layer as it is trained, in NumPy: y, its gradients and next states."""

    def __init__(self, body: str, kind: str, result: str, folder: Path, backend: str = "numpy", before: str = ""):
        lines = "".join(f"    {x}\n" for x in body.strip().splitlines())
        text = (
            f"{before}\nmodel one(x: f64{kind}) -> y: {result}:\n{lines}\n"
            f"train one(x, c: f64{result}):\n    y = one(x)\n    expose y\n    minimize sum(y * c)\n"
            f"    using sgd(lr = 0.1)\n"
        )
        self.module = model(text, folder, backend, wrt=["x"])
        self.params = self.module.init()
        self.state = self.module.init_state() if hasattr(self.module, "STATE") else None

    def __call__(self, x: Array, c: Array | None = None, seed: int | None = None) -> Array:
        """y of a step of training; gradients and next states are kept as `grads` and `after`."""
        more = [] if self.state is None else [self.state]
        drawn = {} if seed is None else {"seed": seed}
        cotangent = np.zeros(()) if c is None else c
        if c is None:
            cotangent = np.ones_like(self.module.forward(self.params, x, *more))
        _, self.grads, found, *after = self.module.loss_grad_metrics(self.params, x, cotangent, *more, **drawn)
        self.after = after[0] if after else {}
        return np.asarray(found["y"])

    def used(self, x: Array) -> Array:
        """y at inference."""
        return np.asarray(self.module.forward(self.params, x, *([] if self.state is None else [self.state])))


# ---- what layers of torch make of a layout with channels last


def batch_norm(x: torch.Tensor, p: Tensors, at: str = "batch_norm.") -> Result:
    """With the statistics of the batch; the averages that it leaves are those of biased variances."""
    flat = x.detach().reshape(-1, x.shape[-1])
    y = F.batch_norm(x.movedim(-1, 1), None, None, p[f"{at}scale"], p[f"{at}shift"], True, 0.0, 1e-5).movedim(1, -1)
    mean, var = flat.mean(0), flat.var(0, correction=0)
    return y, {
        f"{at}running_mean": 0.9 * p[f"{at}running_mean"] + 0.1 * mean,
        f"{at}running_var": 0.9 * p[f"{at}running_var"] + 0.1 * var,
    }


def normed(x: torch.Tensor, p: Tensors, at: str = "batch_norm.") -> torch.Tensor:
    """With the statistics of the states."""
    given = (p[f"{at}{name}"] for name in ("running_mean", "running_var", "scale", "shift"))
    return F.batch_norm(x.movedim(-1, 1), *given, False, 0.0, 1e-5).movedim(1, -1)


def conv(x: torch.Tensor, kernel: torch.Tensor, stride: int = 1, pad: int = 0, groups: int = 1) -> torch.Tensor:
    """With a kernel [height, width, inputs, outputs], or [height, width, channels] where each channel is a group."""
    weight = kernel[:, :, None] if kernel.ndim == 3 else kernel
    given = x.movedim(-1, 1), weight.permute(3, 2, 0, 1)
    return F.conv2d(*given, stride=stride, padding=pad, groups=groups).movedim(1, -1)

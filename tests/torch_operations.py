"""The operations of the language in torch, so that its autograd gives their derivatives: an oracle for dslc."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from dslc.ops.record import ScalarOp
from dslc.ops.table import RECORDS

Tensor = torch.Tensor

INTS = ("i32", "i64")


def torch_dtype(dtype: str) -> torch.dtype:
    """Everything that is a float is float64 here."""
    return torch.bool if dtype == "bool" else torch.int64 if dtype in INTS else torch.float64


def number(x: Any) -> Tensor:
    """A whole number as a float where a float is needed."""
    return x if x.is_floating_point() else x.to(torch.float64)


def _floats(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *args: function(*(number(a) for a in args))


def _joined(*args: Tensor) -> list[Tensor]:
    """Arguments of one dtype."""
    dtype = functools.reduce(torch.promote_types, (a.dtype for a in args))
    return [a.to(dtype) for a in args]


def _clip(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    x, low, high = _joined(x, low, high)
    return torch.minimum(torch.maximum(x, low), high)


def _rsqrt(x: Tensor) -> Tensor:
    return 1 / torch.sqrt(x)


def oracle(record: ScalarOp) -> Callable[..., Tensor]:
    """The function that a record is compared with, on tensors."""
    names = [f"x{k}" for k in range(record.arity or 2)]
    text = f"lambda {', '.join(names)}: {record.oracle.format(*names)}" if "{" in record.oracle else record.oracle
    function: Callable[..., Tensor] = eval(text, {"torch": torch})
    return function


SCALAR: dict[str, Callable[..., Tensor]] = {
    name: _floats(oracle(record)) if record.gives == "float" else oracle(record) for name, record in RECORDS.items()
} | {
    "and": lambda *a: functools.reduce(torch.logical_and, a), "or": lambda *a: functools.reduce(torch.logical_or, a),
    "select": lambda c, a, b: torch.where(c, *_joined(a, b)), "rsqrt": _floats(_rsqrt), "square": lambda x: x * x,
    "min": lambda a, b: torch.minimum(*_joined(a, b)), "max": lambda a, b: torch.maximum(*_joined(a, b)),
    "clip": _clip,
}  # fmt: skip


HALVES = {"f16": torch.float16, "bf16": torch.bfloat16}


def rounded(x: Tensor, dtype: str) -> Tensor:
    """Numbers as 16 bits hold them; so are the adjoints that come back."""
    return x.to(HALVES[dtype]).to(torch.float64) if dtype in HALVES else x.to(torch.float64)


def apply(name: str, args: list[Tensor], dtype: str) -> Tensor:
    """A scalar operation on tensors that broadcast."""
    if name in HALVES:
        return rounded(args[0], name)
    if name in ("float", "f32", "f64", "i32", "i64", "bool"):
        return args[0].to(torch_dtype(name))
    if name in ("^", "pow"):
        base, exponent = args
        if dtype not in INTS:
            base = number(base)
        # with a number as the exponent, torch is exact at a base of 0
        return base ** exponent.item() if exponent.dim() == 0 and not exponent.requires_grad else base**exponent
    return SCALAR[name](*args)


def _first(x: Tensor, sign: int) -> Tensor:
    """The first place of the largest value; torch does not say which one it takes."""
    return torch.from_numpy(np.asarray(np.argmax(sign * x.detach().numpy(), -1)))


#: on the last axis, which holds all reduced ones
REDUCE: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: number(x).mean(-1),
    "prod": lambda x: x.prod(-1),
    "max": lambda x: x.amax(-1),
    "min": lambda x: x.amin(-1),
    "any": lambda x: x.any(-1),
    "all": lambda x: x.all(-1),
    "argmax": lambda x: _first(x, 1),
    "argmin": lambda x: _first(x, -1),
}


def along(op: str, args: list[Tensor], axis: int, size: int) -> list[Tensor]:
    """An operation along an axis; `size` is the length of the result there."""
    x = args[0]
    match op:
        case "cumsum" | "cumprod":
            return [getattr(torch, op)(x, axis)]
        case "cummax" | "cummin":
            return [getattr(torch, op)(x, axis).values]
        case "sort":
            return [torch.sort(x, dim=axis, stable=True).values]
        case "argsort":
            return [torch.argsort(x, dim=axis, stable=True)]
        case "top_k":
            found = torch.sort(x, dim=axis, descending=True, stable=True)
            return [found.values.narrow(axis, 0, size), found.indices.narrow(axis, 0, size)]
    z = torch.complex(x, args[1] if len(args) == 2 else torch.zeros_like(x))
    f = getattr(torch.fft, op)(z, dim=axis)
    return [f.real, f.imag]


def external(op: str, args: list[Tensor]) -> list[Tensor]:
    match op:
        case "solve":
            a, b = args
            return [torch.linalg.solve(a, b) if b.dim() == a.dim() else torch.linalg.solve(a, b[..., None])[..., 0]]
        case "inv" | "det" | "cholesky":
            return [getattr(torch.linalg, op)(args[0])]
        case "logdet":
            return [torch.linalg.slogdet(args[0])[1]]
        case "eigh":
            return list(torch.linalg.eigh(args[0]))
    assert op == "matexp", op
    return [torch.linalg.matrix_exp(args[0])]


def draw(op: str, args: list[Tensor], uniform: Callable[[int], Tensor]) -> Tensor:
    """A draw from uniform numbers; `uniform(lane)` gives them."""
    u = uniform(0)
    match op:
        case "uniform":
            low, high = args if len(args) == 2 else (torch.tensor(0.0), args[0] if args else torch.tensor(1.0))
            return low + (high - low) * u
        case "bernoulli":
            return (u < args[0]).to(torch.float64)
        case "gumbel":
            return -torch.log(-torch.log(u.clamp(min=1e-7)))
        case "randint":
            low, high = args
            return low + torch.floor(u * (high - low)).to(torch.int64)
    mean, deviation = (*args, torch.tensor(1.0))[:2] if args else (torch.tensor(0.0), torch.tensor(1.0))
    normal = torch.sqrt(-2 * torch.log(u.clamp(min=1e-7))) * torch.cos(2 * torch.pi * uniform(1))
    return mean + deviation * normal

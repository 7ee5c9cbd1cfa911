"""What the torch programs of pairs use beside torch: open grids of positions, reads outside of an axis, safe roots.

An index of an equation is an open grid: `n, t = at(-2, N), at(-1, T)` makes positions along two axes that
broadcast, so that `x[n, t]` is x, `x[t, n]` its transpose and `x[n, 2*t + 1]` every second column.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = [
    "at", "best", "done", "first", "largest", "math", "num", "padded", "product", "root", "running", "smallest",
    "spread", "standardized", "torch", "total",
]  # fmt: skip


def at(axis: int, size: int) -> Tensor:
    """Positions 0 .. size-1 along an axis that is counted from the right."""
    return torch.arange(size).reshape([-1] + [1] * (-axis - 1))


def num(value: float) -> Tensor:
    return torch.tensor(float(value))


def padded(x: Tensor, other: object, *positions: object) -> Tensor:
    """The elements at the positions, or `other` outside of an axis."""
    where, inside = [torch.as_tensor(p) for p in positions], torch.tensor(True)
    for p, size in zip(where, x.shape, strict=True):
        inside = inside & (p >= 0) & (p < size)
    read = x[tuple(p.clamp(0, size - 1) for p, size in zip(where, x.shape, strict=True))]
    return torch.where(inside, read, torch.as_tensor(other, dtype=read.dtype))


def spread(v: object, axis: int, size: int) -> Tensor:
    """The value with all its positions along an axis, also where it does not depend on them."""
    v = torch.as_tensor(v)
    while v.ndim < -axis:
        v = v[None]
    shape = list(v.shape)
    shape[axis] = size
    return v.expand(shape)


def done(v: object, *sizes: int) -> Tensor:
    """A value on the grid as a tensor with these axes."""
    v = torch.as_tensor(v)
    return v.expand([1] * (v.ndim - len(sizes)) + list(sizes)).reshape(sizes)


def first(x: Tensor, count: int) -> list[Tensor]:
    """The largest values and their places; equal ones in order, of which `topk` says nothing."""
    return [v[..., :count] for v in torch.sort(x, dim=-1, descending=True, stable=True)]


def total(v: object, axis: int, size: int) -> Tensor:
    return spread(v, axis, size).sum(axis, keepdim=True)


def product(v: object, axis: int, size: int) -> Tensor:
    return spread(v, axis, size).prod(axis, keepdim=True)


def largest(v: object, axis: int, size: int) -> Tensor:
    return spread(v, axis, size).amax(axis, keepdim=True)


def smallest(v: object, axis: int, size: int) -> Tensor:
    return spread(v, axis, size).amin(axis, keepdim=True)


def best(v: Tensor, axis: int, size: int, sign: int = 1) -> Tensor:
    """The first position of the largest value (of the smallest one, with sign -1)."""
    return (sign * spread(v, axis, size)).argmax(axis, keepdim=True)


def running(name: str, v: object, axis: int, size: int) -> Tensor:
    """cumsum, cumprod, cummax, cummin, sort or argsort along an axis."""
    v = spread(v, axis, size)
    if name == "sort":
        return torch.sort(v, dim=axis, stable=True).values
    if name == "argsort":
        return torch.argsort(v, dim=axis, stable=True)
    result = getattr(torch, name)(v, axis)
    return result.values if name in ("cummax", "cummin") else result


def root(s: Tensor) -> Tensor:
    """The square root, whose derivative at 0 is 0 as that of a norm."""
    return torch.where(s > 0, torch.sqrt(torch.where(s > 0, s, 1)), 0)


def standardized(v: object, axis: int, size: int) -> Tensor:
    v = spread(v, axis, size)
    return (v - v.mean(axis, keepdim=True)) / torch.sqrt(v.var(axis, unbiased=False, keepdim=True) + 1e-5)

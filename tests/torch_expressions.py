"""Expressions of checked programs on torch tensors: each index is an axis, and everything broadcasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
import torch_operations as ops

from dslc.builder.expressions import _site
from dslc.check import program as p
from dslc.ir.philox import uniform
from dslc.sizes import Size

Tensor = torch.Tensor


@dataclass
class Machine:
    """What all calls of one evaluation share."""

    sizes: Mapping[str, int]
    #: inputs, parameters and states by name
    inputs: Mapping[str, Tensor]
    mode: str
    seed: int = 0
    updates: dict[str, Tensor] = field(default_factory=dict)
    exposed: dict[str, Tensor] = field(default_factory=dict)

    def number(self, size: Size) -> float:
        if isinstance(size, int):
            return size
        value = size.subs({s: self.sizes[s.name] for s in size.free_symbols})
        return value if isinstance(value, int) else float(value)

    def size(self, size: Size | None) -> int:
        assert size is not None
        value = self.number(size)
        assert value == int(value)
        return int(value)


@dataclass
class Steps:
    """A value that a scan builds: its steps so far."""

    axis: int
    start: Tensor | None
    steps: dict[int, Tensor] = field(default_factory=dict)


class Surroundings(Protocol):
    """What an expression needs to know of the call that it stands in."""

    machine: Machine
    calls: str
    current: p.Instance | None
    mapped: tuple[tuple[int, int], ...]
    values: dict[p.Tensor, Tensor]
    steps: dict[p.Index, int]
    sequences: dict[p.Tensor, Steps]


class Body:
    """Expressions over indices: each index is an axis of the results, which broadcast."""

    def __init__(self, frame: Surroundings, indices: list[p.Index]):
        self.frame = frame
        self.machine = frame.machine
        self.indices = indices
        self.done: dict[int, Tensor] = {}

    def shape(self) -> tuple[int, ...]:
        return tuple(self.machine.size(i.size) for i in self.indices)

    def whole(self, e: p.Expr) -> Tensor:
        return self.value(e).expand(self.shape())

    def index(self, index: p.Index) -> Tensor:
        if index in self.frame.steps:
            return torch.tensor(self.frame.steps[index])
        axis = max(k for k, i in enumerate(self.indices) if i is index)  # bound again inside: the inner one
        shape = [1] * len(self.indices)
        shape[axis] = -1
        return torch.arange(self.machine.size(index.size)).reshape(shape)

    def value(self, e: p.Expr) -> Tensor:
        if id(e) not in self.done:
            self.done[id(e)] = self.one(e)
        return self.done[id(e)]

    def one(self, e: p.Expr) -> Tensor:
        match e:
            case p.Constant():
                return torch.tensor(e.value, dtype=ops.torch_dtype(e.dtype))
            case p.SizeValue():
                return torch.tensor(self.machine.number(e.size), dtype=ops.torch_dtype(e.dtype))
            case p.IndexValue():
                return self.index(e.index)
            case p.Apply():
                return ops.apply(e.op, [self.value(a) for a in e.args], e.dtype)
            case p.Reduce():
                return self.reduce(e)
            case p.Draw():
                return self.draw(e)
        return self.read(e)

    def reduce(self, e: p.Reduce) -> Tensor:
        inner = Body(self.frame, [*self.indices, *e.indices])
        value = inner.value(e.body)
        value = value.reshape((1,) * (len(inner.indices) - value.dim()) + tuple(value.shape))
        kept, sizes = len(self.indices), inner.shape()
        value = value.expand((*value.shape[:kept], *sizes[kept:]))
        return ops.REDUCE[e.op](value.reshape((*value.shape[:kept], -1)))

    def position(self, position: p.Position, size: int) -> tuple[Tensor, Tensor]:
        """Where to read along an axis, and whether that is inside."""
        if isinstance(position, p.Data):
            at = self.value(position.value)
        else:
            at = torch.tensor(self.machine.size(position.offset))
            for index, coefficient in position.terms:
                at = at + self.machine.size(coefficient) * self.index(index)
        if position.mode == "wrap":
            at = torch.remainder(at, size)
        elif position.mode == "clamp":
            at = at.clamp(0, size - 1)
        return at.clamp(0, size - 1), (at >= 0) & (at < size)

    def read(self, e: p.Read) -> Tensor:
        tensor, positions = self.frame.values.get(e.tensor), list(e.positions)
        if e.tensor in self.frame.sequences:
            tensor = self.step(self.frame.sequences[e.tensor], e)
            del positions[self.frame.sequences[e.tensor].axis]
        assert tensor is not None
        places = [self.position(x, n) for x, n in zip(positions, tensor.shape, strict=True)]
        found = tensor[tuple(at for at, _ in places)] if places else tensor
        inside = torch.tensor(True)
        for _, good in places:
            inside = inside & good
        if e.outside is None:
            assert bool(inside.all()), f"{e.span.text} leaves its axis"
            return found
        return torch.where(inside, found, self.value(e.outside).to(found.dtype))

    def step(self, sequence: Steps, e: p.Read) -> Tensor:
        """A sequence inside its scan: this step, an earlier one, or what stands before the first."""
        where = e.positions[sequence.axis]
        assert isinstance(where, p.Affine)
        ((index, _),) = where.terms
        t = self.frame.steps[index] + self.machine.size(where.offset)
        if where.offset == 0:
            return self.frame.values[e.tensor]
        found = sequence.steps.get(t, sequence.start)
        assert found is not None
        return found

    def draw(self, e: p.Draw) -> Tensor:
        places: list[tuple[Tensor, int]] = [(torch.tensor(at), n) for at, n in self.frame.mapped]
        for index, t in self.frame.steps.items():
            places.append((torch.tensor(t), self.machine.size(index.size)))
        for index in e.indices:
            if index not in self.frame.steps:
                places.append((self.index(index), self.machine.size(index.size)))
        element = torch.tensor(0)
        for at, n in places:
            element = element * n + at
        definition = self.frame.current.name if self.frame.current is not None else ""
        site = _site(self.frame.calls + definition, e.site)

        def numbers(lane: int) -> Tensor:
            drawn = uniform(self.machine.seed, site, element.numpy(), lane)
            return torch.from_numpy(np.asarray(drawn, np.float64))

        return ops.draw(e.op, [self.value(a) for a in e.args], numbers)

"""An evaluator of checked programs on torch tensors: values and derivatives without the IR, its interpreter or its
reverse mode. Calls that are mapped over indices run once for each element, scans step by step, and derivatives inside
specs are those of torch.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch_operations as ops
from torch_expressions import Body, Machine, Steps

from dslc.builder import layers
from dslc.check import program as p
from dslc.check.values import is_float

Tensor = torch.Tensor


class Frame:
    """One call of an instance."""

    def __init__(self, machine: Machine, path: str = "", calls: str = "", mapped: tuple[tuple[int, int], ...] = ()):
        self.machine = machine
        self.path = path
        self.calls = calls
        #: position and length along each mapped axis
        self.mapped = mapped
        self.values: dict[p.Tensor, Tensor] = {}
        self.steps: dict[p.Index, int] = {}
        self.sequences: dict[p.Tensor, Steps] = {}
        self.call_counts: dict[str, int] = {}
        self.sources: set[p.Tensor] = set()
        #: calls of later passes of a loop, and their likes in the first pass
        self.likes: dict[p.CallFunction, p.CallFunction] = {}
        self.current: p.Instance | None = None
        #: where the paths begin of layers that are passed on
        self.shared: dict[p.SharedLayer, str] = {}

    # ---- instances

    def instance(self, instance: p.Instance, args: Sequence[Tensor]) -> list[Tensor]:
        machine, self.current = self.machine, instance
        self.sources = {s.wrt for s in statements(instance.body) if isinstance(s, p.Derivative)}
        for tensor, value in zip(instance.inputs, args, strict=True):
            self.set(tensor, value)
        for declaration in instance.params:
            self.values[declaration.tensor] = machine.inputs[self.path + declaration.tensor.name]
        for state in instance.states:
            path = self.path + state.tensor.name
            self.values[state.tensor] = machine.updates.get(path, machine.inputs[path])
        for name, tensor in instance.member_params.items():
            self.values[tensor] = machine.inputs[self.path + name]
        for tensor, (home, name) in instance.passed_params.items():
            self.values[tensor] = machine.inputs[self.shared[home] + name]
        self.run(instance.body)
        for name, tensor in instance.exposed.items():
            machine.exposed[self.path + name] = self.values[tensor]
        return [self.values[o] for o in instance.outputs]

    def set(self, tensor: p.Tensor, value: Tensor) -> None:
        """What a derivative is taken by is a tensor of its own, and not another name of an equal one."""
        if tensor in self.sources:
            value = value.clone() if value.requires_grad else value.detach().clone().requires_grad_()
        self.values[tensor] = value

    # ---- statements

    def run(self, body: Sequence[p.Stmt]) -> None:
        for s in body:
            match s:
                case p.Define():
                    self.set(s.tensor, self.define(s))
                case p.Scatter():
                    self.set(s.tensor, self.scatter(s))
                case p.AlongAxis():
                    self.along(s)
                case p.Join():
                    parts = [self.values[a].to(ops.torch_dtype(s.output.dtype)) for a in s.args]
                    self.set(s.output, torch.cat(parts, s.axis))
                case p.CallFunction():
                    self.call(s)
                case p.External():
                    for output, value in zip(
                        s.outputs, ops.external(s.op, [self.values[a] for a in s.args]), strict=True
                    ):
                        self.set(output, value)
                case p.Derivative():
                    self.set(s.output, self.derivative(s))
                case p.UpdateState():
                    self.machine.updates[self.path + s.state.name] = self.values[s.value]
                case p.Scan():
                    self.scan(s)
                case p.Modes():
                    training = self.machine.mode == "training"
                    self.run(s.training if training else s.inference)
                    for after, in_training, in_inference in s.joined:
                        self.set(after, self.values[in_training if training else in_inference])
                case p.Remat():
                    self.run(s.body)
                case p.Loop():
                    self.loop(s)

    def loop(self, s: p.Loop) -> None:
        """Pass after pass. Equal passes are one place in the spec, so draws in them are told apart by their number."""
        equal = self.is_uniform(s)
        outer, counts = self.steps, dict(self.call_counts)
        index = p.Index(s.name, len(s.passes))
        for number, turn in enumerate(s.passes):
            if equal:
                self.steps = {**outer, index: number}
                self.call_counts = dict(counts)
                for mine, first in zip(statements(turn), statements(s.passes[0]), strict=True):
                    if isinstance(mine, p.CallFunction) and isinstance(first, p.CallFunction):
                        self.likes[mine] = first
            self.run(turn)
        self.steps = outer

    def is_uniform(self, s: p.Loop) -> bool:
        instance = self.current
        assert instance is not None
        body = (instance.body, instance.outputs, [*instance.exposed.values()], instance.backward)
        found = layers.find(instance, s, Counter(layers.tensors_of(body)), [*instance.member_params])
        return not self.steps and found is not None

    def define(self, s: p.Define) -> Tensor:
        groups = [[i for i in axis if i not in self.steps] for axis in s.axes]
        indices = [i for group in groups for i in group]
        value = Body(self, indices).whole(s.value).to(ops.torch_dtype(s.tensor.dtype))
        shape = [
            math.prod(self.machine.size(i.size) for i in group)
            for axis, group in zip(s.axes, groups, strict=True)
            if group or not axis
        ]
        return value.reshape(shape)

    def scatter(self, s: p.Scatter) -> Tensor:
        body = Body(self, list(s.indices))
        shape = [self.machine.size(n) for n in s.tensor.shape]
        value = body.whole(s.value).to(ops.torch_dtype(s.tensor.dtype)).reshape(-1)
        flat = torch.tensor(0)
        for position, size in zip(s.positions, shape, strict=True):
            at, _ = body.position(position, size)
            flat = flat * size + at
        flat = flat.expand(body.shape()).reshape(-1)
        neutral = {"+": 0.0, "max": -math.inf, "min": math.inf}[s.op]
        if s.base is not None:
            start = self.values[s.base].reshape(-1)
        else:
            start = torch.full((math.prod(shape),), neutral, dtype=value.dtype)
        if s.op == "+":
            return start.index_add(0, flat, value).reshape(shape)
        kind = {"max": "amax", "min": "amin"}[s.op]
        return start.scatter_reduce(0, flat, value, kind, include_self=True).reshape(shape)

    def along(self, s: p.AlongAxis) -> None:
        args = [self.values[a] for a in s.args]
        if s.op == "prefix":
            values = self.prefix(s, args)
        else:
            values = ops.along(s.op, args, s.axis, self.machine.size(s.outputs[0].shape[s.axis]))
        for output, value in zip(s.outputs, values, strict=True):
            self.set(output, value)

    def prefix(self, s: p.AlongAxis, args: list[Tensor]) -> list[Tensor]:
        """y[0] = x[0], y[t] = f(y[t-1], x[t]), for each element of the axes in front."""
        assert s.function is not None
        now = [x.unbind(s.axis) for x in args]
        before = [x[0] for x in now]
        steps = [[x] for x in before]
        for t in range(1, len(now[0])):
            here = [*before, *(x[t] for x in now)]
            sizes = here[0].shape[: s.axis]
            before = self.each(s.function, here, [True] * len(here), sizes, self.path, self.calls, self.shared)
            for stack, value in zip(steps, before, strict=True):
                stack.append(value)
        return [torch.stack(x, s.axis) for x in steps]

    def call(self, s: p.CallFunction) -> None:
        name = self.likes.get(s, s).path or s.instance.name
        count = self.call_counts[name] = self.call_counts.get(name, 0) + 1
        calls = f"{self.calls}{name}." if count == 1 else f"{self.calls}{name}*{count}."
        home = self.path if s.shared is None else self.shared[s.shared]
        path = f"{home}{s.path}." if s.path else self.path
        shared = {**dict.fromkeys(s.passed, self.path), **self.shared}
        sizes = [self.machine.size(n) for n in s.outputs[0].shape[: s.mapped]]
        args = [self.values[a] for a in s.args]
        lifted = s.lifted if s.mapped else [False] * len(args)
        for output, value in zip(
            s.outputs, self.each(s.instance, args, lifted, sizes, path, calls, shared), strict=True
        ):
            self.set(output, value)

    def each(
        self, instance: p.Instance, args: list[Tensor], lifted: Sequence[bool], sizes: Sequence[int], path: str,
        calls: str, shared: dict[p.SharedLayer, str],
    ) -> list[Tensor]:  # fmt: skip
        """An instance applied to each element of mapped axes."""
        results: list[list[Tensor]] = []
        for place in itertools.product(*(range(n) for n in sizes)):
            mapped = (*self.mapped, *zip(place, sizes, strict=True))
            here = [x[place] if up else x for x, up in zip(args, lifted, strict=True)]

            def enter(mapped: tuple[tuple[int, int], ...] = mapped) -> Frame:
                frame = Frame(self.machine, path, calls, mapped)
                frame.steps, frame.shared = dict(self.steps), shared
                return frame

            if instance.backward is None:
                results.append(enter().instance(instance, here))
            else:
                results.append(list(ByHand.apply(instance, enter, *here)))
        return [torch.stack(x).reshape((*sizes, *x[0].shape)) for x in zip(*results, strict=True)]

    def derivative(self, s: p.Derivative) -> Tensor:
        of, wrt = self.values[s.of], self.values[s.wrt]
        match s.kind:
            case "grad":
                return slope(of, wrt)
            case "vjp":
                assert s.direction is not None
                return slope(of, wrt, self.values[s.direction])
            case "jvp":
                assert s.direction is not None
                u = torch.zeros_like(of).requires_grad_()
                return slope(slope(of, wrt, u), u, self.values[s.direction])
            case "jacobian":
                return rows(of, wrt)
        assert s.kind == "hessian"
        return rows(slope(of, wrt), wrt)

    def scan(self, s: p.Scan) -> None:
        outer_steps, outer_sequences = self.steps, self.sequences
        own = {c.tensor: Steps(c.axis, None if c.start is None else self.values[c.start]) for c in s.carried}
        self.sequences = {**outer_sequences, **own}
        length = self.machine.size(s.index.size)
        counts = dict(self.call_counts)
        for t in reversed(range(length)) if s.reversed else range(length):
            self.steps = {**outer_steps, s.index: t}
            self.call_counts = dict(counts)
            self.run(s.body)
            for tensor, sequence in own.items():
                sequence.steps[t] = self.values[tensor]
        self.steps, self.sequences = outer_steps, outer_sequences
        for tensor, sequence in own.items():
            self.set(tensor, torch.stack([sequence.steps[t] for t in range(length)], sequence.axis))


class ByHand(torch.autograd.Function):
    """A function with a derivative that is given for it; that derivative can be differentiated again."""

    @staticmethod
    def forward(ctx: Any, instance: p.Instance, enter: Any, *args: Tensor) -> tuple[Tensor, ...]:
        ctx.instance, ctx.enter = instance, enter
        ctx.save_for_backward(*args)
        return tuple(x.clone() for x in enter().instance(instance, args))

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        frame, instance = ctx.enter(), ctx.instance
        frame.instance(instance, ctx.saved_tensors)
        frame.values.update(zip(instance.backward.cotangents, cotangents, strict=True))
        frame.run(instance.backward.body)
        found = iter(frame.values[a] for a in instance.backward.adjoints)
        return None, None, *(next(found) if is_float(x.dtype) else None for x in instance.inputs)


def slope(of: Tensor, wrt: Tensor, direction: Tensor | None = None) -> Tensor:
    """The derivative of `sum(direction * of)`; 0 where nothing depends."""
    if not of.requires_grad or not wrt.requires_grad:
        return torch.zeros_like(wrt)
    seed = torch.ones_like(of) if direction is None else direction
    (found,) = torch.autograd.grad(of, wrt, seed, create_graph=True, allow_unused=True)
    return torch.zeros_like(wrt) if found is None else found


def rows(of: Tensor, wrt: Tensor) -> Tensor:
    """The Jacobian, row by row."""
    found = [slope(x, wrt) for x in of.reshape(-1)]
    return torch.stack(found).reshape((*of.shape, *wrt.shape))


def statements(body: Sequence[p.Stmt]) -> list[p.Stmt]:
    found = list(body)
    for s in found:  # grows
        match s:
            case p.Scan() | p.Remat():
                found.extend(s.body)
            case p.Loop():
                found.extend(x for turn in s.passes for x in turn)
            case p.Modes():
                found.extend((*s.training, *s.inference))
    return found


# ---- entry ----------------------------------------------------------------------------------------------


def as_tensors(values: Mapping[str, Any], wrt: Sequence[str]) -> dict[str, Tensor]:
    """Arrays as torch tensors: floats in float64, those of `wrt` with a gradient."""
    found: dict[str, Tensor] = {}
    for name, value in values.items():
        array = np.asarray(value)
        tensor = torch.tensor(array, dtype=torch.float64 if array.dtype.kind == "f" else None)
        found[name] = tensor.requires_grad_() if name in wrt else tensor
    return found


def run(
    instance: p.Instance, inputs: Mapping[str, Tensor], sizes: Mapping[str, int], mode: str = "inference", seed: int = 0
) -> tuple[list[Tensor], Frame]:
    """The outputs of an instance, and its frame, which knows all other values."""
    frame = Frame(Machine(sizes, inputs, mode, seed))
    return frame.instance(instance, [inputs[x.name] for x in instance.inputs]), frame


def train(
    training: p.TrainProgram, inputs: Mapping[str, Tensor], sizes: Mapping[str, int], seed: int = 0
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss (to minimise) and the metrics of a training."""
    _, frame = run(training.instance, inputs, sizes, "training", seed)
    assert training.loss is not None
    loss = frame.values[training.loss]
    return -loss if training.maximize else loss, {name: frame.values[x] for name, x in training.metrics}

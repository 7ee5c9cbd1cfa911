"""From the checked program to the IR: calls are inlined, reductions become comprehensions of their own."""

from __future__ import annotations

from collections.abc import Sequence

from dslc.builder.statements import Builder
from dslc.builder.unit import Refusal as Refusal
from dslc.builder.unit import Unit as Unit
from dslc.builder.unit import Value as Value
from dslc.check import program as p
from dslc.ir import nodes as ir
from dslc.ir.rewrite import Substitute


def build(instance: p.Instance, mode: str = "inference") -> Unit:
    """A model or function as a program of its inputs, parameters and states."""
    builder, outputs = _entry(instance, mode)
    for tensor, value in zip(instance.outputs, outputs, strict=True):
        builder.unit.outputs[tensor.name] = value
    return _finished(builder)


def build_train(train: p.TrainProgram, mode: str = "training") -> Unit:
    """The loss and the metrics of a training, in training mode (or in the other, to evaluate what was trained)."""
    kept = [x for x in (train.loss, *(m for _, m in train.metrics)) if x is not None]
    builder, _ = _entry(train.instance, mode, kept)
    assert train.loss is not None
    loss = builder.tensor(train.loss)
    if train.maximize:
        loss = ir.comp((), ir.op("neg", (ir.whole(loss),), loss.dtype), name="loss")
    builder.unit.outputs["loss"] = loss
    for name, metric in train.metrics:
        builder.unit.outputs[name] = builder.tensor(metric)
    return _finished(builder)


def _finished(builder: Builder) -> Unit:
    """The program with all that was kept apart put together again."""
    unit = builder.unit
    together = Substitute({}, everywhere=True)
    for part, value in builder.apart.items():
        together.done[part] = together.node(value)
    if builder.apart:
        for table in (unit.outputs, unit.updates, *unit.model_calls):
            table.update({name: together.tensor(x) for name, x in table.items()})
    return unit


def _entry(instance: p.Instance, mode: str, kept: Sequence[p.Tensor] = ()) -> tuple[Builder, list[ir.Tensor]]:
    """Build an instance whose arguments are inputs of the program."""
    builder = Builder(Unit(), mode)
    builder.kept = list(kept)
    inputs = builder.unit.inputs
    for tensor in instance.inputs:
        inputs[tensor.name] = ir.intern(ir.Input(tensor.name, "input", tensor.dtype, tensor.shape))
        if tensor.refinement is not None:
            builder.unit.refinements[tensor.name] = tensor.refinement
    return builder, builder.instance(instance, [Value(x, False) for x in inputs.values()])

"""All that the modules of a spec compute, built once for every backend.

A module has entries: the outputs of the model, the loss with its gradients, the loss of data, one step of a sequence,
adjoints for torch, the update of an optimiser. Each is a program of its own, in a compilation of its own, so that a
value has the name and the line of its statement there, whatever another entry calls it. What a backend does not ask for
is not built.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from dslc import pipeline
from dslc.builder.build import Unit, Value, build_train
from dslc.builder.statements import Builder
from dslc.check import program as p
from dslc.incremental.derive import NoStep
from dslc.incremental.program import StepProgram
from dslc.ir import nodes as ir
from dslc.ir.interning import Refusal, Table, new_table, within
from dslc.ir.rewrite import Substitute
from dslc.passes.factors import gather_factors
from dslc.passes.transform import everything
from dslc.pipeline import Lowered


@dataclass
class Entry:
    """One program of a module, and the definition whose inputs it takes."""

    lowered: Lowered
    instance: p.Instance
    table: Table
    #: results of other entries that it takes as inputs, by the name of the result
    calls: dict[str, ir.Input] = field(default_factory=dict)

    @contextmanager
    def open(self) -> Iterator[Lowered]:
        """The program, in the compilation that its nodes belong to."""
        with within(self.table):
            yield self.lowered


@dataclass
class Update:
    """The update of an optimiser: inputs and slots by name, and their next values as they are written."""

    inputs: dict[str, ir.Input]
    slots: dict[str, ir.Input]
    written: dict[str, ir.Tensor]
    #: what slots are before the first step, formulas of the inputs
    starts: dict[str, ir.Scalar]
    table: Table

    @cached_property
    def updates(self) -> dict[str, ir.Tensor]:
        """The next values with numbers multiplied before they meet arrays."""
        with within(self.table):
            return gather_factors(self.written)


@dataclass
class Program:
    """A model with its training, as entries."""

    model: p.Instance
    train: p.TrainProgram | None = None
    optimizer: p.Instance | None = None
    #: merge linear maps in `forward`
    folded: bool = False

    @cached_property
    def forward(self) -> Entry:
        """The outputs of the model for inference."""
        with self._new() as table:
            return Entry(pipeline.forward(self.model, self.folded), self.model, table)

    @cached_property
    def gradient(self) -> Entry | None:
        """Loss, metrics, next states, and the gradients of the loss."""
        if self.train is None:
            return None
        with self._new() as table:
            return Entry(pipeline.training(self.train), self.train.instance, table)

    @cached_property
    def evaluation(self) -> Entry | None:
        """Loss and metrics as the trained model would have them: states as they are, no dropout."""
        if self.train is None:
            return None
        with self._new() as table:
            return Entry(pipeline.evaluation(self.train), self.train.instance, table)

    @cached_property
    def evaluation_by_forward(self) -> Entry | None:
        """The same from the outputs of the model, where the training uses these and nothing else of it."""
        if self.train is None:
            return None
        with self._new() as table:
            unit = build_train(self.train, "inference")
            used = set(everything(unit.outputs))
            drawn = any(isinstance(s, ir.Rand) for x in used for b in ir.bodies(x) for s in ir.scalars(b))
            outputs = unit.model_calls[0] if len(unit.model_calls) == 1 else {}
            calls = {k: x for k, x in outputs.items() if x in used and isinstance(x, ir.Comp | ir.Part | ir.Scatter)}
            if not calls or drawn:
                return self.evaluation
            stand: dict[ir.Node, ir.Node] = {
                x: ir.intern(ir.Input(k, "result", x.dtype, x.shape)) for k, x in calls.items()
            }
            put = Substitute({}, plain=stand, everywhere=True)
            found = {k: put.tensor(x) for k, x in unit.outputs.items()}
            if any(isinstance(x, ir.Input) and x.role == "param" for x in everything(found)):
                return self.evaluation  # it would compute parts of the model again
            lowered = pipeline.run(Lowered(unit, found), pipeline.EARLY | pipeline.LATE)
            return Entry(lowered, self.train.instance, table, {k: stand[x] for k, x in calls.items()})  # type: ignore[misc]

    @cached_property
    def evaluated_in_training(self) -> bool:
        """Are loss and metrics for inference those of a training step: without states, draws, and loops that keep what
        gradients need?"""
        if self.train is None or self.gradient is None:
            return False
        with self._new():
            unit, trained = build_train(self.train, "inference"), build_train(self.train)
            used = everything(trained.outputs)
            drawn = any(isinstance(s, ir.Rand) for x in used for b in ir.bodies(x) for s in ir.scalars(b))
            loops = any(isinstance(x, ir.Scan) for x in everything(self.gradient.lowered.outputs))
            same = list(unit.outputs.values()) == list(trained.outputs.values())
            return same and not (drawn or loops or trained.updates or unit.states)

    @cached_property
    def adjoint(self) -> Entry:
        """The adjoints of parameters and inputs for inference, from those of the outputs."""
        with self._new() as table:
            return Entry(pipeline.adjoint(self.model, "inference"), self.model, table)

    @cached_property
    def forward_training(self) -> Entry | None:
        """The outputs of the model as it is trained, with next states; None where that is what inference computes."""
        with self._new():
            if not pipeline.has_modes(self.model):
                return None
        with self._new() as table:
            return Entry(pipeline.forward_training(self.model), self.model, table)

    @cached_property
    def adjoint_training(self) -> Entry | None:
        """The adjoints for training, where that is not what inference computes."""
        if self.forward_training is None:
            return None
        with self._new() as table:
            return Entry(pipeline.adjoint(self.model, "training"), self.model, table)

    @cached_property
    def differentiable(self) -> Entry:
        """The outputs of the model for inference and their adjoints, as one program that a backend cuts in two."""
        with self._new() as table:
            return Entry(pipeline.adjoint(self.model, "inference", and_outputs=True), self.model, table)

    @cached_property
    def differentiable_training(self) -> Entry | None:
        """The same for training, where that is not what inference computes."""
        if self.forward_training is None:
            return None
        with self._new() as table:
            return Entry(pipeline.adjoint(self.model, "training", and_outputs=True), self.model, table)

    @cached_property
    def step(self) -> tuple[StepProgram, Table] | None:
        """One position of a sequence model with the cache of those before, where it can be run so."""
        with self._new() as table:
            try:
                return pipeline.stepping(self.model), table
            except NoStep:
                return None

    @cached_property
    def update(self) -> Update | None:
        """The update of one parameter by the optimiser."""
        optimizer = self.optimizer
        if optimizer is None:
            return None
        with self._new() as table:
            unit = Unit()
            builder = Builder(unit, "training")
            inputs = {x.name: ir.intern(ir.Input(x.name, "input", x.dtype, x.shape)) for x in optimizer.inputs}
            tensors = [state.tensor for state in optimizer.states]
            slots = {x.name: ir.intern(ir.Input(x.name, "state", x.dtype, x.shape)) for x in tensors}
            for tensor in (*optimizer.inputs, *tensors):
                node = inputs[tensor.name] if tensor in optimizer.inputs else slots[tensor.name]
                builder.values[tensor] = Value(node, False)
            builder.statements(optimizer.body)
            starts = {s.tensor.name: builder.scalar(s.value, {}) for s in optimizer.states}
            for made in ir.schedule(tuple(unit.updates.values())):
                if isinstance(made, ir.Comp) and made.op is not None:
                    raise Refusal("an update that is not elementwise", made.span)
            return Update(inputs, slots, dict(unit.updates), starts, table)

    @contextmanager
    def _new(self) -> Iterator[Table]:
        table = new_table()
        with within(table):
            yield table

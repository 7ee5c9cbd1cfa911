"""The program of a module whose parameters, inputs and outputs are kept in 16 bits, and computed with as floats."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from dslc.incremental.program import StepProgram
from dslc.ir.interning import Table, within
from dslc.passes.narrow import HALVES
from dslc.pipeline import NEXT
from dslc.program import Entry, Program
from dslc.schedule.widened import in_halves, kept_as, rounded


def narrow(program: Program, dtype: str) -> Program:
    """A program as a module with parameters of a dtype computes it."""
    if dtype not in HALVES:
        return program
    return Narrow(program.model, program.train, program.optimizer, program.folded, dtype)


@dataclass
class Narrow(Program):
    """A program as a module in 16 bits computes it; metrics, gradients, states and caches stay floats."""

    half: str = "f16"

    @cached_property
    def forward(self) -> Entry:
        return self.kept(super().forward, True)

    @cached_property
    def gradient(self) -> Entry | None:
        return self.kept_if(super().gradient)

    @cached_property
    def evaluation(self) -> Entry | None:
        return self.kept_if(super().evaluation)

    @cached_property
    def evaluation_by_forward(self) -> Entry | None:
        """Data are judged by outputs that are not rounded, as in training."""
        return self.evaluation

    @cached_property
    def forward_training(self) -> Entry | None:
        return self.kept_if(super().forward_training)

    @cached_property
    def differentiable(self) -> Entry:
        return self.kept(super().differentiable, True)

    @cached_property
    def differentiable_training(self) -> Entry | None:
        return self.kept_if(super().differentiable_training, True)

    @cached_property
    def step(self) -> tuple[StepProgram, Table] | None:
        found = super().step
        if found is None:
            return None
        made, table = found
        with within(table):
            results = {**made.outputs, **{NEXT + k: x for k, x in made.updates.items()}}
            unit, outputs = in_halves(made.unit, results, self.half)
            updates = {k: outputs.pop(NEXT + k) for k in made.updates}
            _, starts = in_halves(made.unit, made.starts, self.half)
            inputs = {n: kept_as(x, self.half) for n, x in made.inputs.items()}
            outputs = rounded(outputs, self.half)
            return replace(made, unit=unit, outputs=outputs, updates=updates, starts=starts, inputs=inputs), table

    def kept_if(self, entry: Entry | None, outputs: bool = False) -> Entry | None:
        return None if entry is None else self.kept(entry, outputs)

    def kept(self, entry: Entry, outputs: bool = False) -> Entry:
        """An entry that takes 16 bits, and gives them as `outputs` of the model."""
        with entry.open() as lowered:
            own = lowered.unit.outputs
            unit, found = in_halves(lowered.unit, lowered.outputs, self.half)
            if outputs:
                found |= rounded({k: x for k, x in found.items() if k in own}, self.half)
            return replace(entry, lowered=replace(lowered, unit=unit, outputs=found))

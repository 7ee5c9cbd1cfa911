"""From a checked model to the programs that backends lower: the passes in order, each a function on named results."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dslc.autodiff.derivatives import jvp_along
from dslc.autodiff.reverse import gradients, ones
from dslc.builder.build import Unit, build, build_train
from dslc.check import program as p
from dslc.dtypes import alike
from dslc.incremental.program import StepProgram, step_program
from dslc.ir import nodes as ir
from dslc.ir.interning import table
from dslc.ir.namespace import identifier, tell_apart
from dslc.passes.deviations import drop_deviations
from dslc.passes.factors import gather_factors
from dslc.passes.fold import fold
from dslc.passes.hoist import hoist
from dslc.passes.inline import inline
from dslc.passes.merge_scans import merge_scans
from dslc.passes.operands import part_operands
from dslc.passes.reuse import reuse_quotients
from dslc.passes.signs import read_signs
from dslc.passes.simplify import simplify
from dslc.passes.sums import order_sums
from dslc.passes.transform import Pass, Stages, run_passes
from dslc.passes.unread import drop_unread
from dslc.passes.views import read_through
from dslc.stabilise.rewriter import stabilise

#: before differentiation
EARLY: dict[str, Pass] = {
    "stabilise": stabilise,
    "part operands": part_operands,
    "order sums": order_sums,
    "simplify": simplify,
}
#: where linear maps are to be merged, between the two
FOLD: dict[str, Pass] = {"fold": fold}
#: after it
LATE: dict[str, Pass] = {
    "stabilise again": stabilise,
    "merge scans": merge_scans,
    "read through views": read_through,
    "simplify again": simplify,
    "reuse quotients": reuse_quotients,
    "read signs": read_signs,
    "order sums again": order_sums,
    "drop deviations": drop_deviations,
    "hoist out of scans": hoist,
    "inline": inline,
    "simplify at last": simplify,
    "gather factors": gather_factors,
    "drop unread": drop_unread,
}

GRADIENT, STATE, NEXT = "gradient ", "state ", "next "


@dataclass
class Lowered:
    """A program ready for a backend. Gradients and next states are results with a prefix to their path."""

    unit: Unit
    outputs: dict[str, ir.Tensor]
    #: the program after each pass
    stages: Stages = field(default_factory=list)

    def gradients(self) -> dict[str, ir.Tensor]:
        return self._below(GRADIENT)

    def states(self) -> dict[str, ir.Tensor]:
        return self._below(STATE)

    def values(self) -> dict[str, ir.Tensor]:
        """Outputs, loss and metrics."""
        return {k: v for k, v in self.outputs.items() if not k.startswith((GRADIENT, STATE))}

    def _below(self, prefix: str) -> dict[str, ir.Tensor]:
        return {k.removeprefix(prefix): v for k, v in self.outputs.items() if k.startswith(prefix)}


def forward(model: p.Instance, folded: bool = False) -> Lowered:
    """The outputs of a model for inference; `folded`: with linear maps merged."""
    unit = build(model, "inference")
    return run(Lowered(unit, dict(unit.outputs)), EARLY | FOLD | LATE if folded else EARLY | LATE)


def stepping(model: p.Instance) -> StepProgram:
    """One step of a sequence model for inference; raises NoStep with the reason where there is none."""
    unit = build(model, "inference")
    program = run(Lowered(unit, dict(unit.outputs)), EARLY)
    made = step_program(unit, program.outputs, model.span)
    found = run(Lowered(unit, {**made.outputs, **{NEXT + k: x for k, x in made.updates.items()}}), LATE)
    made.outputs = {k: x for k, x in found.outputs.items() if not k.startswith(NEXT)}
    made.updates = {k.removeprefix(NEXT): x for k, x in found.outputs.items() if k.startswith(NEXT)}
    made.starts = run(Lowered(unit, made.starts), LATE).outputs
    return made


def evaluation(train: p.TrainProgram) -> Lowered:
    """Loss and metrics as the trained model would have them: states as they are, no dropout."""
    unit = build_train(train, "inference")
    return run(Lowered(unit, dict(unit.outputs)), EARLY | LATE)


def training(train: p.TrainProgram) -> Lowered:
    """Loss, metrics, next states, and the gradients of the loss by the trained parameters and the chosen inputs."""
    unit = build_train(train)
    program = Lowered(unit, with_states(unit))
    run(program, EARLY)
    loss = program.outputs["loss"]
    wanted = [*trained(unit, train), *train.wrt]
    found = gradients({loss: ones((), loss.dtype)}, [unit.inputs[q] for q in wanted])
    program.outputs |= {GRADIENT + q: _as(g, unit.inputs[q].dtype) for q, g in zip(wanted, found, strict=True)}
    program.stages.append(("differentiate", dict(program.outputs)))
    return run(program, LATE)


def forward_mode(train: p.TrainProgram) -> Lowered:
    """The loss and its derivative along one direction, by tangents that go along with the values."""
    unit = build_train(train)
    program = run(Lowered(unit, {"loss": unit.outputs["loss"]}), EARLY)
    wanted = [unit.inputs[q] for q in (*trained(unit, train), *train.wrt)]
    directions = [ir.intern(ir.Input(f"direction of {x.name}", "input", x.dtype, x.shape)) for x in wanted]
    tangent = jvp_along(program.outputs["loss"], dict(zip(wanted, directions, strict=True)))
    ir.rename(tangent, "d_loss")
    program.outputs["tangent"] = tangent
    program.unit = replace(unit, inputs={**unit.inputs, **{x.name: x for x in directions}})
    program.stages.append(("differentiate", dict(program.outputs)))
    return run(program, LATE)


#: for formulas that people read
WRITTEN: dict[str, Pass] = {
    "merge scans": merge_scans, "simplify": simplify, "inline": inline, "simplify again": simplify
}  # fmt: skip


def model_as_written(model: p.Instance) -> dict[str, ir.Tensor]:
    """The outputs of a model as they stand in a text: before anything is made stable or fast."""
    unit = build(model, "inference")
    return run(Lowered(unit, dict(unit.outputs)), WRITTEN).outputs


def loss_as_written(train: p.TrainProgram, gradient: bool) -> dict[str, ir.Tensor]:
    """The loss, and if it is wanted its gradient, in the same way."""
    unit = build_train(train)
    program = run(Lowered(unit, {"loss": unit.outputs["loss"]}), {"simplify": simplify})
    if gradient:
        loss = program.outputs["loss"]
        wanted = [*trained(unit, train), *train.wrt]
        found = gradients({loss: ones((), loss.dtype)}, [unit.inputs[q] for q in wanted])
        program.outputs |= {GRADIENT + q: g for q, g in zip(wanted, found, strict=True)}
    return run(program, WRITTEN).outputs


#: dtypes without derivatives
WHOLE = ("i32", "i64", "bool")


def cotangents_of(unit: Unit) -> dict[str, str]:
    """The names of the adjoints of outputs that have one: no input has such a name.

    >>> cotangents_of(Unit(outputs={"outer.h": ir.Input("h", "input", "f32", ())}))
    {'outer.h': 'd_outer_h'}
    """
    found: dict[str, str] = {}
    for k, x in unit.outputs.items():
        if x.dtype not in WHOLE:
            name = f"d_{identifier(k)}"
            while name in unit.inputs or name in found.values():
                name += "_"
            found[k] = name
    return found


def has_modes(model: p.Instance) -> bool:
    """Does a model compute something else while it is trained?"""
    numbers = table().numbers
    unit = build(model, "inference")
    table().numbers = numbers  # so that scans of one program have the numbers of those of the other
    trained = build(model, "training")
    return bool(trained.updates) or list(unit.outputs.values()) != list(trained.outputs.values())


def forward_training(model: p.Instance) -> Lowered:
    """The outputs of a model as it is trained, and the next values of its states."""
    unit = build(model, "training")
    return run(Lowered(unit, with_states(unit)), EARLY | LATE, named=False)


def with_states(unit: Unit) -> dict[str, ir.Tensor]:
    """The outputs of a model, and the next values of its states."""
    return {**unit.outputs, **{STATE + k: v for k, v in unit.updates.items()}}


def adjoint(model: p.Instance, mode: str, and_outputs: bool = False) -> Lowered:
    """The adjoints of parameters and of inputs; those of the outputs are inputs beside those of the model.

    With outputs, these and the next values of states are results too: what both read is computed once.
    """
    unit = build(model, mode)
    program = run(Lowered(unit, with_states(unit) if and_outputs else dict(unit.outputs)), EARLY, named=False)
    outputs = program.outputs
    given = {
        k: ir.intern(ir.Input(name, "input", outputs[k].dtype, outputs[k].shape))
        for k, name in cotangents_of(unit).items()
    }
    wanted = [n for n, x in unit.inputs.items() if x.dtype not in WHOLE and x.role != "state"]
    found = gradients({outputs[k]: x for k, x in given.items()}, [unit.inputs[n] for n in wanted])
    program.unit = replace(unit, inputs={**unit.inputs, **{x.name: x for x in given.values()}})
    adjoints = {GRADIENT + n: g for n, g in zip(wanted, found, strict=True)}
    program.outputs = {**outputs, **adjoints} if and_outputs else adjoints
    program.stages.append(("differentiate", dict(program.outputs)))
    return run(program, LATE, named=False)


def _as(gradient: ir.Tensor, dtype: str) -> ir.Tensor:
    """A gradient in the dtype of what it is by; f16 and bf16 are for storage, and gradients by such are floats."""
    kept = dtype if dtype == "f64" else "float"
    if alike(gradient.dtype, kept):
        return gradient
    return ir.comp(gradient.shape, ir.cast(ir.whole(gradient), kept), name=gradient.name)


def trained(unit: Unit, train: p.TrainProgram) -> list[str]:
    """The paths of the parameters that training changes."""
    frozen = {q for q in unit.params for f in train.frozen if q == f or q.startswith(f + ".")}
    return [q for q in unit.params if q in unit.inputs and q not in unit.frozen | frozen]


def run(program: Lowered, passes: dict[str, Pass], named: bool = True) -> Lowered:
    """The program after some passes; `named`: values that share a name are told apart before and after them."""
    if not program.stages:
        if named:
            tell_apart(program.outputs)
        program.stages.append(("build", dict(program.outputs)))
    program.outputs = run_passes(program.outputs, passes, program.stages)
    if not named:
        return program
    for path, result in program.outputs.items():
        if isinstance(result, ir.Comp) and isinstance(result.body, ir.Const) and not result.name:
            ir.rename(result, _name(path))
    tell_apart(program.outputs)
    return program


def _name(path: str) -> str:
    """The name of a result that is a constant: a gradient that is zero everywhere, the start of a state."""
    return f"d_{path.removeprefix(GRADIENT)}" if path.startswith(GRADIENT) else path.rpartition(" ")[2]

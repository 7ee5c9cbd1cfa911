"""The check of `train_step`: some steps of training as the interpreter does them.

The rule of the optimiser is interpreted as it is written, for each parameter; gradients, losses and states are those of
the interpreter on the plain formulas, other data at each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dslc.builder.paths import separate, together
from dslc.builder.statements import Builder
from dslc.builder.unit import Unit, Value
from dslc.check import program as p
from dslc.check.dependence import tensors_in
from dslc.ir import nodes as ir
from dslc.meaning.interpret import Array, Interpreter
from dslc.pipeline import trained
from dslc.verification.backends import Loaded
from dslc.verification.checks import APART, EXACT, Check, Subject, error_of, largest_of, of_a_step, tolerance
from dslc.verification.precision import ROUNDING, ROUNDINGS, Wanted, off
from dslc.verification.undefined import defined

#: the fault of a slot that shares memory shows in the second step, that of a state in the third
STEPS = 3
#: how often steps are tried with roundings, where a module is farther off than its tolerance; then, more often
TRIED, OFTEN = 4, 32

#: what a rule knows beside its own arguments
GIVEN = ("param", "grad", "step", "grad_norm")
SIZE = "size of the parameter"


@dataclass
class Rule:
    """An optimiser as a program: next values of `param` and of the slots."""

    train: p.TrainProgram
    optimizer: p.Instance

    @cached_property
    def built(self) -> tuple[dict[str, ir.Tensor], dict[str, ir.Tensor]]:
        """The updates, and what slots start with."""
        unit = Unit()
        builder = Builder(unit, "training")
        for tensor in (*self.optimizer.inputs, *(s.tensor for s in self.optimizer.states)):
            node = ir.intern(ir.Input(tensor.name, "input", tensor.dtype, tensor.shape))
            builder.values[tensor] = Value(node, False)
        starts = {s.tensor.name: ir.comp((), builder.scalar(s.value, {})) for s in self.optimizer.states}
        builder.statements(self.optimizer.body)
        return unit.updates, starts

    def arguments(self, step: int) -> dict[str, Any]:
        """What the `train` gives to the optimiser at a step, or else its defaults."""
        found: dict[str, Any] = {"step": np.asarray(float(step))}
        for tensor in self.optimizer.inputs:
            if tensor.name in GIVEN:
                continue
            given = self.train.optimizer_args.get(tensor.name)
            if given is None:
                found[tensor.name] = np.asarray(getattr(self.optimizer.statics[tensor.name], "value", np.nan), float)
            else:
                found[tensor.name] = _number(given, found)
        return found

    def slots(self, params: Mapping[str, Array]) -> dict[str, dict[str, Array]]:
        machine = Interpreter(self.arguments(0), {})
        values = {name: machine.tensor(node) for name, node in self.built[1].items()}
        return {
            name: {path: np.full(x.shape, value, float) for path, x in params.items()} for name, value in values.items()
        }

    def update(
        self, step: int, grads: Mapping[str, Array], params: dict[str, Array], slots: dict[str, dict[str, Array]]
    ) -> None:
        """One step of all parameters that have a gradient, in place of those before it."""
        norm = np.sqrt(sum(float(np.sum(g**2)) for g in grads.values()))
        for path, grad in grads.items():
            own = {name: slots[name][path].reshape(-1) for name in slots}
            given = {**self.arguments(step), **own, "param": params[path].reshape(-1), "grad": grad.reshape(-1)}
            machine = Interpreter({**given, "grad_norm": np.asarray(norm)}, {SIZE: grad.size})
            for name, value in machine.run(self.built[0]).items():
                (params if name == "param" else slots[name])[path] = np.reshape(value, grad.shape)


def _number(expression: p.Expr, values: Mapping[str, Any]) -> Array:
    builder = Builder(Unit(), "training")
    for tensor in tensors_in([expression]):
        builder.values[tensor] = Value(ir.intern(ir.Input(tensor.name, "input", tensor.dtype, ())), False)
    return np.asarray(Interpreter(values, {}).tensor(ir.comp((), builder.scalar(expression, {}))))


def first_states(subject: Subject) -> dict[str, Array]:
    """States before the first step, those of equal layers in one."""
    unit = subject.unit("training")
    machine = Interpreter({}, subject.sizes)
    found: dict[str, Array] = {}
    for path, state in unit.states.items():
        if path in unit.inputs:
            value = machine.tensor(ir.comp((), Builder(unit, "training").scalar(state.value, {})))
            found[path] = np.full(machine.shape(unit.inputs[path].shape), value, float)
    return found


def data_of(subject: Subject, step: int) -> dict[str, Array]:
    """The data of a step: other values than those of the step before, of the same sizes."""
    unit = subject.unit("training")
    drawn = replace(subject, seed=subject.seed + step).inputs("training")
    return {name: x for name, x in drawn.items() if unit.inputs[name].role == "input"}


def interpreted(subject: Subject, rule: Rule, steps: int, rng: np.random.Generator | None = None) -> dict[str, Array]:
    """What steps of training leave; with random numbers, all values on the way are off by a few roundings."""
    unit, results = subject.unit("training"), of_a_step(subject)
    names = trained(unit, rule.train)
    values = subject.inputs("training")
    starts = separate(unit, values, (n for n in unit.params if n in values))
    params = {path: x.astype(float) for path, x in starts.items()}
    slots, states = rule.slots(params), first_states(subject)
    losses: list[float] = []
    step: Mapping[str, Array] = {}
    for number in range(1, steps + 1):
        now = replace(subject, seed=subject.seed + number, step=None)
        given = {
            **data_of(subject, number),
            **states,
            **together(unit, params, (n for n in unit.params if n in values)),
        }
        step = exact(now, given, results) if rng is None else now.run(given, results, rng)
        losses.append(float(step["loss"]))
        states |= {k: step[f"state {k}"] for k in unit.updates}
        rule.update(number, separate(unit, {n: step[f"gradient {n}"] for n in names}, names), params, slots)
        if rng is not None:
            params = {k: off(x, ROUNDINGS * ROUNDING[subject.dtype], rng) for k, x in params.items()}
    metrics = {f"metric {name}": step[name] for name in unit.outputs if name != "loss"}
    moves = {path: x - starts[path] for path, x in params.items()}
    ends = {f"state {k}": x for k, x in separate(unit, states, states).items()}
    kept = {f"slot {slot} of {path}": x for slot, each in slots.items() for path, x in each.items()}
    return {"losses": np.array(losses), **metrics, **moves, **ends, **kept}


def exact(subject: Subject, values: Mapping[str, Array], results: Mapping[str, ir.Tensor]) -> dict[str, Array]:
    found, without = subject.plain(values, results)
    return defined(found, subject.run(values, subject.stable("training"), None), without) if without else found


def computed(subject: Subject, loaded: Loaded, rule: Rule, steps: int) -> dict[str, Array]:
    """The same by `train_step` of a module."""
    unit, values = subject.unit("training"), subject.inputs("training")
    module = loaded.module
    params = loaded.packed(unit, values, unit.params)
    starts = dict(loaded.plain({path: loaded.pack(loaded.unpack(x).copy()) for path, x in params.items()}))
    opt = module.init_opt(params, subject.seed)
    losses: list[float] = []
    with np.errstate(all="ignore"), loaded.running():
        for number in range(1, steps + 1):
            params, opt = module.train_step(params, opt, *loaded.data(unit, data_of(subject, number)))
            losses.append(float(opt["loss"]))
    plain = loaded.plain({"params": params, "state": opt.get("state", {}), "metrics": opt["metrics"]})
    slots = {f"slot {s} of {k}": x for s in rule.built[1] for k, x in loaded.plain(dict(opt[s])).items()}
    metrics = {f"metric {name}": np.asarray(x) for name, x in plain["metrics"].items()}
    moves = {path: np.asarray(x, float) - starts[path] for path, x in plain["params"].items()}
    return {
        "losses": np.array(losses),
        **metrics,
        **moves,
        **{f"state {k}": x for k, x in plain["state"].items()},
        **slots,
    }


def train_steps(subject: Subject, loaded: Loaded, rule: Rule, steps: int = STEPS) -> Check:
    """Losses, metrics, parameters, states and slots after some steps are those of the interpreter."""
    title, general = f"{steps} steps of training", tolerance((subject.unit("training").outputs["loss"],))
    limit = APART if general == EXACT else general
    found, wanted = computed(subject, loaded, rule, steps), interpreted(subject, rule, steps)
    errors = shares(found, wanted)
    doubtful = [name for name, error in errors.items() if not error <= limit]
    if not doubtful:
        worst = max(errors, key=lambda name: errors[name])
        return Check(loaded.name, title, errors[worst], limit, f"largest at {worst}")

    def judged(often: int) -> Check:
        def near() -> list[dict[str, Array]]:
            return [interpreted(subject, rule, steps, np.random.default_rng((subject.seed, k))) for k in range(often)]

        return subject.judged(title, loaded.name, found, Wanted(wanted, near).only(doubtful), limit)

    check = judged(TRIED)
    return check if check.ok else judged(OFTEN)


def shares(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> dict[str, float]:
    """The largest difference of each result, as a share of the largest number of its kind: losses, moves, a slot.

    So what is 0 in exact arithmetic, and made of roundings, is not measured by itself.

    >>> shares({"a": np.array(1e-17), "b": np.array(2.0)}, {"a": np.array(0.0), "b": np.array(2.0)})
    {'a': 5e-18, 'b': 0.0}
    """
    largest: dict[str, float] = {}
    for name, x in wanted.items():
        largest[_kind(name)] = max(largest.get(_kind(name), 0.0), largest_of(x))
    return {name: error_of(found.get(name, np.nan), x, largest[_kind(name)]) for name, x in wanted.items()}


def _kind(name: str) -> str:
    if name.startswith("slot "):
        return name.partition(" of ")[0]
    return name if name == "losses" or name.startswith(("metric ", "state ")) else "moves"

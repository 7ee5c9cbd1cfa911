"""Random programs one position at a time: along every axis that has a step, it gives what the whole run gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from comparison import Case
from generator import CONSTRUCTS, Program
from test_random_programs import LONG, QUICK, run

from dslc.builder.build import build
from dslc.compiler import choose
from dslc.frontend import check_file
from dslc.incremental.cache import Slot
from dslc.incremental.derive import Derived, NoStep, derive
from dslc.incremental.program import open_sizes, starts_of
from dslc.ir import nodes as ir
from dslc.meaning.interpret import Interpreter
from dslc.passes.verify import verify
from dslc.pipeline import EARLY
from dslc.sizes import Symbol
from dslc.verification.backends import LOADERS
from dslc.verification.checks import Subject, outputs
from dslc.verification.steps import has_step, steps

#: how many programs had a step, and of which kind the entries of their caches were
SEEN: Counter[str] = Counter()


def check_steps(program: Program) -> None:
    case = Case(program)
    unit = build(case.model, "inference")
    results = dict(unit.outputs)
    for each in EARLY.values():
        results = each(results)
    for length in open_sizes(unit):
        SEEN["axes"] += 1
        try:
            made = derive(results, length)
        except NoStep:
            continue
        SEEN["steps"] += 1
        SEEN.update({x.kind for x in made.slots})
        Steps(case, results, made, length).check()


class Steps:
    """A program along one axis."""

    def __init__(self, case: Case, outputs: Mapping[str, ir.Tensor], made: Derived, length: Symbol):
        self.case, self.outputs, self.made, self.length = case, outputs, made, length
        self.sizes = case.program.sizes
        self.seed = case.program.seed
        self.values = case.values

    def axis(self, node: ir.Tensor) -> int | None:
        return node.shape.index(self.length) if self.length in node.shape else None

    def machine(self, values: Mapping[str, Any], count: int) -> Interpreter:
        return Interpreter(values, {**self.sizes, self.length.name: count}, self.seed)

    def check(self) -> None:
        verify([*self.made.outputs.values(), *self.made.updates.values()])
        whole = self.machine(self.values, self.sizes[self.length.name]).run(self.outputs)
        cache = self.start()
        for t in range(self.sizes[self.length.name]):
            found = self.step(cache, t)
            for name, value in self.expected(whole, t).items():
                np.testing.assert_allclose(found[name], value, rtol=1e-7, atol=1e-9, err_msg=f"{name} at {t}")

    def expected(self, whole: Mapping[str, Any], t: int) -> dict[str, Any]:
        """Outputs at a position; those for the whole sequence are compared at its end, where all sizes are as given."""
        last = t + 1 == self.sizes[self.length.name]
        axes = {k: self.axis(x) for k, x in self.outputs.items()}
        at = {k: np.take(whole[k], t, a) for k, a in axes.items() if a is not None}
        return at | ({k: whole[k] for k, a in axes.items() if a is None} if last else {})

    def start(self) -> dict[str, Any]:
        values = self.machine(self.values, 1).run(starts_of(self.made.slots))
        return {x.name: self.first(x, values.get(x.name)) for x in self.made.slots}

    def first(self, slot: Slot, value: Any) -> Any:
        shape = self.machine({}, 0).shape(slot.input.shape)
        return np.zeros(shape) if value is None else np.broadcast_to(value, shape)

    def step(self, cache: dict[str, Any], t: int) -> dict[str, Any]:
        for slot in self.made.slots:
            if slot.kind == "history":  # room for the newest
                widths = [(0, 0)] * cache[slot.name].ndim
                widths[len(slot.loops) + slot.axis] = (0, 1)
                cache[slot.name] = np.pad(cache[slot.name], widths)
        nodes = {n: x for n, x in self.case.inputs.items() if n in self.made.inputs}
        now = {n: np.take(self.values[n], t, self.axis(x)) for n, x in nodes.items()}
        rest = {n: x for n, x in self.values.items() if n not in now}
        given = {slot.input.name: cache[slot.name] for slot in self.made.slots}
        machine = self.machine({**rest, **now, **given}, t + 1)
        cache |= machine.run(self.made.updates)
        return machine.run(self.made.outputs)


def check_module(program: Program) -> None:
    """The NumPy module agrees, where the program has one sequence."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "program.dsl"
        path.write_text(program.text, encoding="utf-8")
        checked = check_file(path)
        if checked.program is None:
            return
        model, train = choose(checked)
        loaded = LOADERS["numpy"](path, {}, model.name)
    subject = Subject(model, train, program.sizes, program.seed)
    if has_step(loaded) and subject.makes_sense():
        found = steps(subject, loaded)
        SEEN["modules"] += 1
        assert found.ok or not outputs(subject, loaded).ok, (found, program.text)


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_steps_of_a_few_programs(construct: str) -> None:
    with np.errstate(all="ignore"):
        run(construct, QUICK, check_steps)


@pytest.mark.long
@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_steps_of_many_programs(construct: str) -> None:
    with np.errstate(all="ignore"):
        run(construct, LONG, check_steps, shrink=True)


def test_modules_of_a_few_programs_have_the_same_steps() -> None:
    SEEN.clear()
    for construct in ("scan", "prefix", "cumsum", "cummax", "for"):
        run(construct, 2 * QUICK, check_module)
    assert SEEN["modules"] > 3, dict(SEEN)


@pytest.mark.long
@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_modules_of_many_programs_have_the_same_steps(construct: str) -> None:
    run(construct, LONG // 4, check_module)


def test_the_quick_programs_have_steps_of_every_kind() -> None:
    SEEN.clear()
    with np.errstate(all="ignore"):
        for construct in CONSTRUCTS:
            run(construct, QUICK, check_steps)
    print(dict(SEEN))
    assert all(SEEN[kind] > 3 for kind in ("steps", "history", "state", "fixed")), dict(SEEN)

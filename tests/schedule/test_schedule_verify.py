"""The schedules of shipped specs are sound, and so are their plans; what is broken on purpose is found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from dslc.backends.c.stepping import start_parts, step_parts
from dslc.backends.c.target import TARGET
from dslc.backends.c.text import Types
from dslc.backends.registry import backend_of

from dslc import pipeline
from dslc.compiler import choose
from dslc.frontend import check_file
from dslc.ir import nodes as ir
from dslc.ir.naming import name_of
from dslc.passes.tiles import LONGEST_ROW
from dslc.program import Program
from dslc.schedule.form import Kernel, Loop, Recurrence, Region, Step, walked
from dslc.schedule.plan import Kept, Plan, Row, Slot, planned
from dslc.schedule.prepare import prepared, scheduled
from dslc.schedule.verify import Unsound, verify
from dslc.sizes import symbol
from tests.incremental.models import STEPS

ROOT = Path(__file__).parents[2]
#: files with a model
SPECS = sorted(
    x.relative_to(ROOT / "specs").with_suffix("").as_posix()
    for x in (ROOT / "specs").rglob("*.dsl")
    if "\nmodel " in f"\n{x.read_text(encoding='utf-8')}"
)


#: values of the MLP that are both needed for gradients
LATER = ("h", "dense2.h")


@contextmanager
def schedule_of(name: str) -> Iterator[tuple[list[Step], Plan]]:
    """The schedule of the training of a spec, or of its model."""
    checked = check_file(ROOT / "specs" / f"{name}.dsl")
    assert checked.program is not None
    model, train = choose(checked)
    with ir.compilation():
        lowered = pipeline.forward(model) if train is None else pipeline.training(train)
        results = prepared(lowered.outputs, TARGET)
        steps = scheduled([*results.values()], TARGET)
        yield steps, planned(steps, results)


@pytest.mark.parametrize("name", SPECS)
def test_the_schedule_of_a_spec_is_sound(name: str) -> None:
    with schedule_of(name) as (steps, plan):
        assert steps
        verify(steps, plan)


@pytest.mark.parametrize("name", STEPS)
def test_the_schedule_of_a_step_is_sound(name: str) -> None:
    checked = check_file(ROOT / "specs" / f"{name}.dsl")
    with ir.compilation():
        model, _ = choose(checked)
        made = pipeline.stepping(model)
        types = Types("f32")
        for parts in (start_parts(made, model, types), step_parts(made, model, types)):
            steps = scheduled([*parts.outputs.values()], TARGET)
            plan = planned(steps, parts.outputs, parts.histories)
            verify(steps, plan)
            grown = {home.name for home in plan.homes.values() if isinstance(home, Kept)}
            assert grown == {*parts.histories} == {*parts.placed(steps)}


@pytest.mark.parametrize("name", ["mlp/mlp", "transformer/gpt", "recurrent/lstm", "transformer/vit"])
def test_the_schedules_of_all_entries_are_sound(name: str) -> None:
    checked = check_file(ROOT / "specs" / f"{name}.dsl")
    model, train = choose(checked)
    program = Program(model, train, None)
    for entry in (program.forward, program.evaluation, program.adjoint, program.differentiable_training):
        if entry is None:
            continue
        with entry.open() as lowered:
            results = prepared(lowered.outputs, TARGET)
            steps = scheduled([*results.values()], TARGET)
            verify(steps, planned(steps, results))


def test_two_values_that_live_at_the_same_time_in_one_slot_are_found() -> None:
    with schedule_of("mlp/mlp") as (steps, plan):
        first, second = (x for x, home in plan.homes.items() if isinstance(home, Slot) and name_of(x) in LATER)
        plan.homes[second] = plan.homes[first]
        with pytest.raises(Unsound, match=r"reads h from slot \d+, which holds dense2.h|is written to slot"):
            verify(steps, plan)


@pytest.mark.parametrize("name", ["mlp/mlp", "transformer/gpt", "recurrent/lstm"])
def test_slots_are_as_few_as_they_can_be_shared(name: str) -> None:
    """Of all pairs of slots, putting the values of one into the other is found to be wrong for most."""
    with schedule_of(name) as (steps, plan):
        homes = {x: home.number for x, home in plan.homes.items() if isinstance(home, Slot)}
        numbers = sorted(set(homes.values()))
        found = 0
        for one, other in pairwise(numbers):
            for x, number in homes.items():
                plan.homes[x] = Slot(one if number == other else number)
            try:
                verify(steps, plan)
            except Unsound:
                found += 1
        assert found > len(numbers) / 2


def test_a_value_that_is_read_before_it_is_computed_is_found() -> None:
    with schedule_of("mlp/mlp") as (steps, plan), pytest.raises(Unsound, match="which is not in memory"):
        verify(steps[::-1], plan)
    with schedule_of("mlp/mlp") as (steps, plan):
        region = next(x for x in steps if isinstance(x, Region) and len(x.items) > 2)
        region.items.reverse()
        with pytest.raises(Unsound, match="before it is computed"):
            verify(steps, plan)


def test_a_member_that_is_read_at_another_place_is_found() -> None:
    with schedule_of("mlp/mlp") as (steps, plan):
        region = next(x for x in steps if isinstance(x, Region) and len(x.items) > 2)
        region.sizes = (*region.sizes, 128)  # a product reads all columns of what is before it
        with pytest.raises(Unsound, match="at another place of the parallel axes"):
            verify(steps, plan)


def test_a_carried_value_that_takes_the_place_of_the_one_before_is_found() -> None:
    with schedule_of("recurrent/lstm") as (steps, plan):
        for loop in (x for x in walked(steps) if isinstance(x, Loop)):
            for move in plan.moves[loop.scan]:
                move.second = move.first
        with pytest.raises(Unsound, match=r"is written to slot \d+, which .* needs for another value"):
            verify(steps, plan)


def test_a_row_that_another_loop_reads_is_found() -> None:
    with schedule_of("mlp/mlp") as (steps, plan):
        plan.homes[next(x for x in plan.homes if name_of(x) == "h")] = Row()
        with pytest.raises(Unsound, match="reads a row of h that is gone"):
            verify(steps, plan)
    with schedule_of("mlp/mlp") as (steps, plan):
        plan.homes[next(x for x in plan.homes if name_of(x) == "d_dense.y")] = Row()
        with pytest.raises(Unsound, match="of which only its own region has some rows"):
            verify(steps, plan)


def test_a_value_that_only_registers_hold_is_not_read_by_other_regions() -> None:
    with schedule_of("mlp/mlp") as (steps, plan):
        del plan.homes[next(x for x in plan.homes if name_of(x) == "h")]
        with pytest.raises(Unsound, match="reads h, which is not in memory"):
            verify(steps, plan)


# ---- kernels of tiles ------------------------------------------------------------------------------------


#: of each kind of kernel some, loops of both kinds, scans as one kernel, scatters and operations along an axis
TILED = [
    "mlp/mlp", "transformer/gpt", "recurrent/lstm", "recurrent/mamba", "recurrent/lru", "recurrent/rwkv",
    "convolution/resnet", "graph/gat", "transformer/vit", "recurrent/truncated",
]  # fmt: skip


@contextmanager
def kernels_of(name: str) -> Iterator[tuple[list[Step], Plan]]:
    """The kernels of the training of a spec, and the buffers of their values."""
    model, train = choose(check_file(ROOT / "specs" / f"{name}.dsl"))
    schedule = backend_of("triton").printer().schedule
    assert schedule is not None
    with ir.compilation():
        lowered = pipeline.forward(model) if train is None else pipeline.training(train)
        made = schedule(lowered.outputs, "f32", [])
        assert made.plan is not None
        yield made.steps, made.plan


@pytest.mark.parametrize("name", TILED)
def test_the_kernels_of_a_spec_are_sound(name: str) -> None:
    with kernels_of(name) as (steps, plan):
        assert any(isinstance(x, Kernel) for x in walked(steps))
        verify(steps, plan)


def test_scans_are_one_kernel_where_each_element_depends_on_itself_alone() -> None:
    with kernels_of("recurrent/mamba") as (steps, _):
        scans = [x for x in walked(steps) if isinstance(x, Recurrence)]
        assert len(scans) == 2 and all(x.linear is not None for x in scans)
    with kernels_of("recurrent/lstm") as (steps, _):
        assert not any(isinstance(x, Recurrence) for x in walked(steps))


def test_a_kernel_that_stores_too_little_is_found() -> None:
    with kernels_of("mlp/mlp") as (steps, plan):
        kernel = next(x for x in steps if isinstance(x, Kernel) and x.stored)
        del plan.homes[kernel.stored.pop()]
        with pytest.raises(Unsound, match="which is not in memory"):
            verify(steps, plan)


def test_kernels_in_a_wrong_order_are_found() -> None:
    with kernels_of("transformer/gpt") as (steps, plan), pytest.raises(Unsound, match="which is not in memory"):
        verify(steps[::-1], plan)


def test_runs_over_rows_in_a_wrong_order_are_found() -> None:
    with kernels_of("transformer/gpt") as (steps, plan):
        kernel = next(x for x in walked(steps) if isinstance(x, Kernel) and len(x.runs) > 1)
        kernel.runs.reverse()
        with pytest.raises(Unsound, match="before it is computed"):
            verify(steps, plan)
        del kernel.runs[0]
        with pytest.raises(Unsound, match="are not all of its members"):
            verify(steps, plan)


def test_a_sum_that_is_not_rescaled_waits_for_its_maximum() -> None:
    with kernels_of("transformer/gpt") as (steps, plan):
        run = next(r for x in walked(steps) if isinstance(x, Kernel) for r in x.runs if r.rescaled)
        run.rescaled.clear()
        with pytest.raises(Unsound, match="before it is computed"):
            verify(steps, plan)


def test_two_kernels_that_share_memory_are_found() -> None:
    with kernels_of("mlp/mlp") as (steps, plan):
        first, second = (x for x in steps[:2] if isinstance(x, Kernel))
        plan.homes[second.stored[0]] = plan.homes[first.stored[0]]
        with pytest.raises(Unsound, match=r"which holds|is written to slot"):
            verify(steps, plan)


def test_sums_that_a_step_reads_are_not_added_up_after_the_loop() -> None:
    """Those that are lie in memory when it ends; any other one that would wait is found missing."""
    with kernels_of("transformer/gpt") as (steps, plan):
        loops = [x for x in steps if isinstance(x, Loop)]
        late = [k for x in loops for k in x.steps if isinstance(k, Kernel) and k.split and k.split.second is None]
        assert late and len(late) == sum(len(x.afterwards) for x in loops)
        verify(steps, plan)
        early = next(k for x in loops for k in x.steps if isinstance(k, Kernel) and k.split is None)
        early.split = late[0].split
        with pytest.raises(Unsound, match="which is not in memory"):
            verify(steps, plan)


def test_passes_and_the_machine_agree_on_how_long_a_row_is_held() -> None:
    target = backend_of("triton").target
    assert target is not None and target.longest_row == LONGEST_ROW
    assert target.holds((LONGEST_ROW,)) and not target.holds((LONGEST_ROW, 2)) and not target.holds((symbol("N"),))

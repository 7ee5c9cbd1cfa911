"""What a gradient keeps and what it computes again; values written over others, or there for some rows at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from dslc.backends.c.target import TARGET

from dslc import pipeline
from dslc.compiler import choose
from dslc.frontend import check_file
from dslc.ir import nodes as ir
from dslc.ir.naming import name_of
from dslc.passes.transform import everything
from dslc.schedule.again import Network, computed_again
from dslc.schedule.form import Loop, Region, Step, walked
from dslc.schedule.in_place import overwritten
from dslc.schedule.plan import Block, Plan, Slot, planned
from dslc.schedule.prepare import prepared, scheduled
from dslc.schedule.target import Memory
from dslc.schedule.verify import Unsound, verify

ROOT = Path(__file__).parents[2]


def training_of(path: str) -> pipeline.Lowered:
    checked = check_file(ROOT / path)
    assert checked.program is not None
    _, train = choose(checked)
    assert train is not None
    return pipeline.training(train)


def schedule_of(path: str) -> tuple[list[Step], Plan]:
    results = prepared(training_of(path).outputs, TARGET)
    steps = scheduled([*results.values()], TARGET)
    return steps, planned(steps, results)


def region_of(steps: list[Step], name: str) -> tuple[Region, ir.Comp]:
    """The last region that computes a value of this name, and the value."""
    found = [(x, node) for x in walked(steps) if isinstance(x, Region) for node in x.nodes if name_of(node) == name]
    return found[-1]


def test_a_smallest_cut_is_where_the_pipes_are_narrowest() -> None:
    network = Network()
    for a, b, width in [("source", "a", 5), ("source", "b", 1), ("a", "c", 2), ("b", "c", 9), ("c", "sink", 9)]:
        network.pipe(a, b, float(width))
    assert network.full() == {"source", "a"}


@pytest.mark.parametrize(
    ("share", "again", "kept"),
    [
        (0.05, {"layer_norm.y", "feed_forward.dense2.x"}, {"attention.q", "attention.v"}),
        (0.2, {"layer_norm.y", "attention.q", "attention.k", "attention.v"}, {"transformer_block.h"}),
    ],
)
def test_how_much_is_computed_again_is_up_to_the_target(share: float, again: set[str], kept: set[str]) -> None:
    with ir.compilation():
        order = everything(training_of("bench/specs/gpt.dsl").outputs)
        found = {name_of(x) for x in computed_again(order, Memory(worth=64, share=share))}
        assert again <= found
        assert not kept & found


def test_weights_of_attention_are_there_for_one_head_at_a_time() -> None:
    with ir.compilation():
        steps, plan = schedule_of("bench/specs/gpt.dsl")
        loops = [x for x in steps if isinstance(x, Loop)]
        assert len(loops) == 2
        region, weights = region_of(loops[-1].steps, "attention.a")
        assert region.depth == 2 and plan.homes[weights] == Block()
        assert {"d_attention.v", "d_attention.q", "d_attention.k"} <= {name_of(x) for x in region.nodes}


def test_the_gradient_of_a_weight_comes_before_the_adjoints_of_the_layers_before() -> None:
    with ir.compilation():
        steps, _ = schedule_of("bench/specs/cnn.dsl")
        made = [name_of(x) for step in steps if isinstance(step, Region) for x in step.nodes]
        assert made.index("d_conv_block2.conv2d.K") < made.index("d_conv_block.h")


def test_a_map_is_written_over_what_it_reads_last() -> None:
    with ir.compilation():
        steps, plan = schedule_of("bench/specs/cnn.dsl")
        region, node = region_of(steps, "d_conv2d.y")
        over = {name_of(x) for x in overwritten(region, node)}
        assert over == {"conv2d.y", "d_conv_block.h"}
        slots = {name_of(x): home for x, home in plan.homes.items() if isinstance(home, Slot)}
        assert slots["d_conv2d.y"] in (slots["conv2d.y"], slots["d_conv_block.h"])
        verify(steps, plan)


def test_a_map_that_is_written_over_what_is_read_elsewhere_is_found() -> None:
    with ir.compilation():
        steps, plan = schedule_of("bench/specs/cnn.dsl")
        slots = {name_of(x): x for x in plan.homes}
        # a convolution reads more than the place that it writes
        plan.homes[slots["conv_block2.conv2d.y"]] = plan.homes[slots["conv_block.y"]]
        with pytest.raises(Unsound, match="needs for another value"):
            verify(steps, plan)

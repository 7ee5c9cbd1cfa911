"""What a gradient keeps and what it computes again; values written over others, or there for some rows at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dslc.backends.c.target import TARGET

from dslc import pipeline
from dslc.compiler import choose, compile_module
from dslc.frontend import check_file
from dslc.ir import nodes as ir
from dslc.ir.naming import name_of
from dslc.passes.transform import everything
from dslc.schedule.again import Network, computed_again
from dslc.schedule.form import Loop, Region, Step, walked
from dslc.schedule.in_place import overwritten
from dslc.schedule.plan import Block, Plan, Row, Slot, planned
from dslc.schedule.prepare import prepared, scheduled
from dslc.schedule.target import Memory
from dslc.schedule.vanish import Triangle, below_diagonal
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


def triangle_of(path: str, name: str) -> Triangle | None:
    """What is needed below a diagonal alone in the last region that computes a value."""
    with ir.compilation():
        steps, plan = schedule_of(path)
        region, _ = region_of(steps, name)
        return below_diagonal(region, {x for x in region.nodes if isinstance(plan.homes.get(x, Block()), Block | Row)})


def test_scores_of_later_keys_are_not_computed_forward_or_back() -> None:
    found = triangle_of("bench/specs/gpt.dsl", "attention.a")
    assert found is not None
    names = {name_of(x) for x in found.members}
    assert {"attention.a", "attention.score", "d_attention.a", "d_attention.score"} <= names


MASKED = """
model attend(q: f32[N, T, 8], k: f32[N, T, 8], v: f32[N, T, 8]) -> y: [N, T, 8]:
    score[n, t, s] = q[n, t, d] * k[n, s, d]
    a[n, t, s] = {weights}
    y[n, t, d] = a[n, t, s] * v[n, s, d]
"""


@pytest.mark.parametrize(
    ("weights", "half"),
    [
        ("softmax[s](score[n, t, s] if s <= t else -inf)", True),
        ("score[n, t, s] * 0.5 if s < t else 0.0", True),
        ("softmax[s](score[n, t, s])", False),
        ("softmax[s](score[n, t, s] if s >= t else -inf)", False),
        ("score[n, t, s] if s <= t else 1.0", False),
        ("(score[n, t, s] if s <= t else 0.0) + sum[r: T](score[n, t, r])", False),
    ],
)
def test_a_half_is_left_out_only_where_nothing_needs_it(weights: str, half: bool, tmp_path: Path) -> None:
    spec = tmp_path / "attend.dsl"
    spec.write_text(MASKED.format(weights=weights), encoding="utf-8")
    checked = check_file(spec)
    assert checked.program is not None
    with ir.compilation():
        results = prepared(pipeline.forward(choose(checked)[0]).outputs, TARGET)
        steps = scheduled([*results.values()], TARGET)
        plan = planned(steps, results)
        found = [
            below_diagonal(x, {y for y in x.nodes if isinstance(plan.homes.get(y, Block()), Block | Row)})
            for x in steps
            if isinstance(x, Region)
        ]
    assert any(x is not None for x in found) is half
    module = compile_module(spec, "c")
    for count in (1, 31, 32, 33, 70):
        q, k, v = np.random.default_rng(count).normal(size=(3, 2, count, 8)).astype(np.float32)
        wanted = compile_module(spec, "numpy").forward({}, q, k, v)
        assert np.allclose(module.forward({}, q, k, v), wanted, rtol=1e-4, atol=1e-4)

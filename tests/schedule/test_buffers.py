"""Buffers of Triton modules are given back, and written over, where nothing reads them any more."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dslc.backends.triton import quick_triton
from dslc.backends.triton.cost import buffer_bytes, peak_bytes
from dslc.backends.triton.module import host_functions
from dslc.backends.triton.registry import Registry
from samples import load

from dslc.compiler import choose, compile_text
from dslc.cost import settle
from dslc.frontend import check_file
from dslc.ir import nodes as ir
from dslc.ir.naming import name_of
from dslc.program import Program
from dslc.schedule.form import Kernel, walked
from dslc.schedule.plan import Slot
from dslc.schedule.verify import Unsound, verify
from tests.schedule.test_schedule_verify import SPECS, kernels_of

ROOT = Path(__file__).parents[2]


@pytest.mark.wide(8)
@pytest.mark.parametrize("name", SPECS)
def test_the_buffers_of_a_spec_are_sound(name: str) -> None:
    with kernels_of(name) as (steps, plan):
        verify(steps, plan)


def test_a_buffer_that_is_given_back_too_early_is_found() -> None:
    with kernels_of("transformer/gpt") as (steps, plan):
        numbers = [n for step in list(plan.freed) for n in plan.freed.pop(step)]
        assert len(numbers) > 5
        for n in numbers:
            first = next(step for step in walked(steps) if n in plan.made.get(step, ()))
            plan.freed = {first: [n]}
            with pytest.raises(Unsound, match=r"which is not in memory|given back"):
                verify(steps, plan)


def test_a_value_that_is_written_over_one_that_is_read_elsewhere_is_found() -> None:
    """The kernel of a layer norm reads all of a row for each entry; that of a product reads other rows."""
    with kernels_of("mlp/mlp") as (steps, plan):
        kernels = [x for x in steps if isinstance(x, Kernel)]
        made, reader = next(
            (a, k) for k in kernels for a in plan.homes
            if k.kind == "dot" and k.stored and name_of(a) == "h" and a in {s.tensor for m in k.members.values()
            for s in ir.scalars(m.body) if isinstance(s, ir.Read)}
        )  # fmt: skip
        plan.homes[reader.stored[0]] = plan.homes[made]
        with pytest.raises(Unsound, match=r"is written to slot \d+, which .* needs for another value|which holds"):
            verify(steps, plan)


def test_gradients_of_logits_lie_where_the_logits_were() -> None:
    with kernels_of("mlp/mlp") as (_, plan):
        homes = {name_of(x): home for x, home in plan.homes.items() if isinstance(x, ir.Comp)}
        assert isinstance(homes["logits"], Slot) and homes["d_logits"] == homes["logits"]
        assert homes["d_dense.y"] == homes["dense.y"] and homes["dense2.h"] != homes["dense2.y"]


def most_memory(module: Any, monkeypatch: pytest.MonkeyPatch, *given: Any) -> int:
    """The most bytes of tensors that a function has asked for and not given back, at a time."""
    alive = most = 0
    empty = torch.empty

    def counted(*shape: Any, **options: Any) -> torch.Tensor:
        nonlocal alive, most
        made = empty(*shape, **options)
        many = made.numel() * made.element_size()
        if alive + many > most:
            gc.collect()  # the interpreter of kernels has cycles that hold its arguments
        alive += many
        most = max(most, alive)

        def gone() -> None:
            nonlocal alive
            alive -= many

        weakref.finalize(made.untyped_storage(), gone)
        return made

    gc.collect()
    gc.freeze()
    with monkeypatch.context() as patch:
        patch.setattr(torch, "empty", counted)
        module.loss_grad_metrics(*given)
    gc.unfreeze()
    return most


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("mlp/mlp", {"N": 300}), pytest.param("transformer/gpt", {"N": 2, "T": 9}, marks=pytest.mark.long)],
)
def test_no_more_memory_is_in_use_than_the_plan_says(
    name: str, sizes: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ROOT / "specs" / f"{name}.dsl"
    model, train = choose(check_file(spec))
    _, functions, _ = host_functions(Registry("f32"), Program(model, train, None))
    function = next(f for f in functions if f.name == "loss_grad_metrics")
    module = load(compile_text(spec, "triton"), tmp_path)
    rng = np.random.default_rng(0)
    tokens = torch.tensor(rng.integers(0, 10, tuple(sizes.values())))
    given = (tokens,) if "T" in sizes else (torch.tensor(rng.normal(size=(300, 64)), dtype=torch.float32), tokens)
    with quick_triton.quick():
        found = most_memory(module, monkeypatch, module.init(0), *given)
    planned = peak_bytes(function, "f32", sizes)
    assert found <= planned <= found * 1.1
    assert planned < settle(buffer_bytes(function, "f32"), sizes)

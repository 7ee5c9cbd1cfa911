"""One position at a time in Triton modules: what the whole sequence gives, with the cache in the module's tensors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from triton_modules import ROOT, numpy_module, tensors, triton_module

from tests.incremental.models import BOUNDED, LAYERS, NESTED, ROUNDS, STEPS, SUMMARIES, TWO, layer, written
from tests.incremental.sequences import Sequence, agree, run_module, sequence

#: some of each kind of entry
SOME = ("recurrent/lstm", "transformer/gpt", "transformer/encoder_decoder", "recurrent/lru", "convolution/wavenet")


def check(run: Sequence, folder: Path) -> None:
    module = triton_module(run.path, folder, "f64", **run.settings)
    agree(in_arrays(run_module(run, module, lambda x: tensors(x, torch.float64))), run.expected())


def in_arrays(found: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return ({name: np.asarray(x) for name, x in outputs.items()} for outputs in found)


@pytest.mark.wide(5)
@pytest.mark.parametrize("name", SOME)
def test_steps_of_a_spec_are_the_whole_run(name: str, tmp_path: Path) -> None:
    check(sequence(ROOT / "specs" / f"{name}.dsl", 4), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", [x for x in STEPS if x not in SOME])
def test_steps_of_every_spec_are_the_whole_run(name: str, tmp_path: Path) -> None:
    check(sequence(ROOT / "specs" / f"{name}.dsl"), tmp_path)


@pytest.mark.wide(4)
@pytest.mark.parametrize("name", LAYERS)
def test_steps_of_a_layer_are_the_whole_run(name: str, tmp_path: Path) -> None:
    check(sequence(layer(tmp_path, LAYERS[name]), 4), tmp_path)


@pytest.mark.point("27")
@pytest.mark.parametrize("name", ["half of the channels", "channels beyond the edge"])
def test_a_read_at_a_bounded_distance_needs_no_history(name: str, tmp_path: Path) -> None:
    check(sequence(layer(tmp_path, BOUNDED[name]), 4), tmp_path)


@pytest.mark.wide(2)
@pytest.mark.parametrize("name", SUMMARIES)
def test_a_result_for_the_whole_sequence_is_that_of_the_positions_so_far(name: str, tmp_path: Path) -> None:
    check(sequence(layer(tmp_path, SUMMARIES[name], "[N, O]"), 4), tmp_path)


@pytest.mark.wide(3)
@pytest.mark.parametrize("text", [NESTED, TWO, ROUNDS], ids=["loops in loops", "fixed entries", "another axis"])
def test_entries_of_loops_are_kept_for_each_pass(text: str, tmp_path: Path) -> None:
    check(sequence(written(tmp_path, text), 4), tmp_path)


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return triton_module(ROOT / "specs/transformer/gpt.dsl", tmp_path_factory.mktemp("gpt"), width=16, heads=2, depth=2)


def test_a_full_cache_is_an_error_and_a_copy_goes_on_by_itself(gpt: Any) -> None:
    params = gpt.init(0)
    cache = gpt.init_cache(params, N=2, length=2)
    first, cache = gpt.step(params, cache, torch.tensor([1, 2]))
    copy = {k: x.clone() if isinstance(x, torch.Tensor) else x for k, x in cache.items()}
    second, cache = gpt.step(params, cache, torch.tensor([3, 4]))
    with pytest.raises(ValueError, match="the cache is full: it has room for 2 positions"):
        gpt.step(params, cache, torch.tensor([3, 4]))
    again, _ = gpt.step(params, copy, torch.tensor([3, 4]))
    torch.testing.assert_close(again, second, rtol=0, atol=0)
    whole = gpt.forward(params, torch.tensor([[1, 3], [2, 4]]))
    torch.testing.assert_close(torch.stack([first, second], 1), whole, rtol=1e-5, atol=1e-5)


def test_a_cache_longer_than_the_model_allows_and_a_wrong_token_are_errors(gpt: Any) -> None:
    params = gpt.init(0)
    with pytest.raises(ValueError, match=r"gpt.dsl:\d+ needs T <= context, found T = 65"):
        gpt.init_cache(params, N=2, length=65)
    cache = gpt.init_cache(params, N=2, length=4)
    for token, message in (
        ([1], "expected 2 along axis 0"),
        ([1, 99], "expected 0 <= value < 65"),
        ([0.5, 1.0], "int"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            gpt.step(params, cache, torch.tensor(token))
    assert cache["positions"] == 0


@pytest.mark.wide(2)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_steps_in_16_bits_are_near_the_whole_run(dtype: str, tmp_path: Path) -> None:
    settings = {"width": 16, "heads": 2, "depth": 2}
    module = triton_module(ROOT / "specs/transformer/gpt.dsl", tmp_path, dtype, **settings)
    params = module.init(0)
    tokens = torch.tensor([[5, 1, 7, 2]])
    cache = module.init_cache(params, N=1, length=4)
    found = []
    for t in range(4):
        logits, cache = module.step(params, cache, tokens[:, t])
        found.append(logits)
    whole = module.forward(params, tokens)
    assert found[0].dtype == whole.dtype
    unit = 2.0**-8 if dtype == "bf16" else 2.0**-11
    scale = float(whole.float().abs().max())
    assert float((torch.stack(found, 1) - whole).float().abs().max()) < 8 * unit * scale


def test_sizes_that_a_spec_forbids_are_the_errors_of_numpy_modules(gpt: Any, tmp_path: Path) -> None:
    numpy = numpy_module(ROOT / "specs/transformer/gpt.dsl", tmp_path, width=16, heads=2, depth=2)
    long = np.zeros((1, 70), np.int64)
    for function in ("forward", "loss_and_grad", "evaluate"):
        with pytest.raises(ValueError, match=r"gpt.dsl:\d+ needs .* <= context, found") as theirs:
            getattr(numpy, function)(numpy.init(0), long)
        with pytest.raises(ValueError, match="needs") as ours:
            getattr(gpt, function)(gpt.init(0), torch.tensor(long))
        assert str(ours.value) == str(theirs.value)

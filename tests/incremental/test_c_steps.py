"""Steps in C: a C file has `init_cache` and `step` of its own, which give what the whole sequence gives."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dslc.compiler import compile_files, compile_module
from tests.incremental.models import BOUNDED, LAYERS, NESTED, ROUNDS, STEPS, SUMMARIES, TWO, layer, written
from tests.incremental.sequences import ROOT, agree, run_module, sequence

MODELS = {
    **{name: (body, "[N, T, O]") for name, body in {**LAYERS, **BOUNDED}.items()},
    **{name: (body, "[N, O]") for name, body in SUMMARIES.items()},
}
LOOPED = {"loops in loops": NESTED, "two carried values": TWO, "a scan along another axis": ROUNDS}


@pytest.mark.wide(3)
@pytest.mark.parametrize("name", STEPS)
def test_steps_of_a_spec_in_c_are_the_whole_run(name: str) -> None:
    run = sequence(ROOT / "specs" / f"{name}.dsl")
    agree(run_module(run, run.module("c")), run.expected())


@pytest.mark.wide(3)
@pytest.mark.parametrize("name", MODELS)
def test_steps_of_a_layer_in_c_are_the_whole_run(name: str, tmp_path: Path) -> None:
    run = sequence(layer(tmp_path, *MODELS[name]))
    agree(run_module(run, run.module("c")), run.expected())


@pytest.mark.parametrize("name", LOOPED)
def test_entries_of_loops_in_c_are_kept_for_each_pass(name: str, tmp_path: Path) -> None:
    run = sequence(written(tmp_path, LOOPED[name]))
    agree(run_module(run, run.module("c")), run.expected())


# ---- the module ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gpt() -> Any:
    return compile_module(ROOT / "specs/transformer/gpt.dsl", "c", dtype="f64", depth=2)


def test_the_functions_and_the_cache_are_those_of_a_numpy_module(gpt: Any) -> None:
    numpy = compile_module(ROOT / "specs/transformer/gpt.dsl", dtype="f64", depth=2)
    for name in ("init_cache", "step"):
        ours, theirs = getattr(gpt, name), getattr(numpy, name)
        assert inspect.signature(ours) == inspect.signature(theirs)
        assert ours.__doc__ == theirs.__doc__
    params = gpt.init()
    ours, theirs = (m.init_cache(params, N=2, length=3) for m in (gpt, numpy))
    for token in ([1, 2], [3, 4], [5, 6]):
        found, ours = gpt.step(params, ours, np.array(token))
        wanted, theirs = numpy.step(params, theirs, np.array(token))
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
        assert set(ours) == set(theirs)
        for name, value in theirs.items():
            np.testing.assert_allclose(ours[name], value, rtol=1e-12, atol=1e-12)


def test_a_history_grows_in_place(gpt: Any) -> None:
    params = gpt.init()
    cache = gpt.init_cache(params, N=1, length=4)
    kept = {name: x for name, x in cache.items() if isinstance(x, np.ndarray)}
    for t in range(4):
        _, cache = gpt.step(params, cache, np.array([t]))
        for name, x in kept.items():
            assert cache[name] is x
            assert np.all(x[:, :, : t + 1] != 0) and not np.any(x[:, :, t + 1 :])


def test_a_full_cache_and_a_wrong_token_are_errors_that_leave_the_cache(gpt: Any) -> None:
    params = gpt.init()
    with pytest.raises(ValueError, match=r"gpt\.dsl:19 needs T <= context, found T = 65"):
        gpt.init_cache(params, N=1, length=65)
    cache = gpt.init_cache(params, N=2, length=1)
    with pytest.raises(ValueError, match="token: expected 0 <= value < 65, found 65"):
        gpt.step(params, cache, np.array([1, 65]))
    assert cache["positions"] == 0
    assert not any(np.any(x) for x in cache.values() if isinstance(x, np.ndarray))
    _, cache = gpt.step(params, cache, np.array([1, 2]))
    with pytest.raises(ValueError, match="the cache is full: it has room for 1 positions"):
        gpt.step(params, cache, np.array([1, 2]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x[:, :, :2], r"expected float64 of shape \(1, 4, 3, 16\), found float64 of shape \(1, 4, 2, 16\)"),
        (lambda x: x.astype(np.float32), r"expected float64 of shape .*, found float32 of shape"),
        (lambda x: None, r"expected float64 of shape .*, found NoneType of shape \(\)"),
    ],
)
def test_an_entry_that_is_not_as_it_was_made_is_an_error(change: Any, message: str, gpt: Any) -> None:
    params = gpt.init()
    cache = gpt.init_cache(params, N=1, length=3)
    cache["attention.k.1"] = change(cache["attention.k.1"])
    with pytest.raises(ValueError, match=rf"cache\['attention.k.1'\]: {message}"):
        gpt.step(params, cache, np.array([1]))


def test_a_copy_of_a_cache_goes_on_by_itself_also_in_another_layout(gpt: Any) -> None:
    params = gpt.init()
    cache = gpt.init_cache(params, N=1, length=4)
    _, cache = gpt.step(params, cache, np.array([1]))
    other = {k: np.asfortranarray(x) if isinstance(x, np.ndarray) else x for k, x in cache.items()}
    a, _ = gpt.step(params, cache, np.array([2]))
    for token in (3, 4):
        b, other = gpt.step(params, other, np.array([token]))
    np.testing.assert_allclose(a, gpt.forward(params, np.array([[1, 2]]))[:, 1], rtol=1e-9)
    np.testing.assert_allclose(b, gpt.forward(params, np.array([[1, 3, 4]]))[:, 2], rtol=1e-9)


def test_outputs_stay_as_they_were_when_the_cache_goes_on(tmp_path: Path) -> None:
    """A result may be an entry of the cache itself."""
    module = compile_module(layer(tmp_path, LAYERS["two steps back"]), "c", dtype="f64")
    cache = module.init_cache({}, N=1)
    first, cache = module.step({}, cache, np.ones((1, 4)))
    kept = first.copy()
    module.step({}, cache, np.ones((1, 4)))
    np.testing.assert_array_equal(first, kept)


def test_a_step_in_f32_is_in_f32() -> None:
    module = compile_module(ROOT / "specs/recurrent/rwkv.dsl", "c")
    params = module.init()
    cache = module.init_cache(params, N=2)
    logits, cache = module.step(params, cache, np.array([1, 2]))
    assert logits.dtype == np.float32
    assert {x.dtype for x in cache.values() if isinstance(x, np.ndarray)} == {np.dtype(np.float32)}


def test_what_a_step_computes_is_c(tmp_path: Path) -> None:
    files = compile_files(ROOT / "specs/transformer/encoder_decoder.dsl", "c")
    for name in ("init_cache", "step"):
        assert f"int32_t encoder_decoder_{name}(const encoder_decoder_{name}_arguments *a" in files["encoder_decoder.h"]
        body = files["encoder_decoder.py"].split(f"\ndef {name}(")[1].split("\ndef ")[0]
        assert f"c_{name}(" in body and not {"@", "einsum", "exp("} & {x for x in ("@", "einsum", "exp(") if x in body}


def test_a_model_that_looks_ahead_has_no_step_in_c() -> None:
    files = compile_files(ROOT / "specs/mlp/mlp.dsl", "c")
    assert "mlp_forward(" in files["mlp.h"] and "mlp_step" not in files["mlp.h"]
    assert not any("init_cache" in text for text in files.values())


@pytest.mark.parametrize(
    "inputs",
    ["l: f32[N, T, 4]", "cache: f32[N, T, 4]", "length: f32[N, T, 4]", "kept_at: f32[N, T, 4]", "room: f32[N, T, 4]"],
)
def test_inputs_may_be_called_as_what_a_step_names_itself(inputs: str, tmp_path: Path) -> None:
    name = inputs.partition(":")[0]
    run = sequence(written(tmp_path, (
        f"model named({inputs}) -> y: [N, T, 4]:\n    h = {name}\n    for k in 0..2:\n"
        "        h = h + attention(h, 2) + diagonal_ssm(h, 3, 4)\n    y = h\n"
    )))  # fmt: skip
    agree(run_module(run, run.module("c")), run.expected())


def test_starts_that_are_parameters_of_layers_are_copied_from_each(tmp_path: Path) -> None:
    run = sequence(written(tmp_path, (
        "layer led(x: [T, 4]) -> y: [T, 4]:\n    param first: [4] ~ normal\n"
        "    scan t:\n        h[t, i] = tanh(h[t-1, i] + x[t, i])\n    start h = first\n    y = h\n\n"
        "model learnt(x: f32[T, 4]) -> y: [T, 4]:\n    h = led(x)\n    for l in 0..3:\n        h = led(h)\n    y = h\n"
    )))  # fmt: skip
    agree(run_module(run, run.module("c")), run.expected())
    module = run.module("c")
    params = run.params()
    cache = module.init_cache(params)
    module.step(params, cache, np.ones(4))
    for name, value in run.params().items():
        np.testing.assert_array_equal(params[name], value)

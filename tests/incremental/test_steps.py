"""One step at a time gives what the whole sequence gives; models that look ahead have no step, and a reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dslc import pipeline
from dslc.compiler import choose, compile_module, compile_text
from dslc.cost import costs
from dslc.frontend import check_file
from dslc.incremental.derive import NoStep
from tests.incremental.models import BOUNDED, LAYERS, NESTED, ROUNDS, STEPS, SUMMARIES, TWO, layer, written
from tests.incremental.sequences import ROOT, Sequence, agree, run_module, run_program, sequence

#: specs without one, and why
NONE = {
    "transformer/vit": "N: no position depends on earlier ones",
    "transformer/relative": "T: .* still to come .* for `relative_attention.a` .relative.dsl:14",
    "transformer/hard_attention": "T: .* still to come .* for `hard_attention.soft` .hard_attention.dsl:14",
    "recurrent/bidirectional": "T: the scan runs backwards .*bidirectional.dsl:3",
    "recurrent/gru": "N: no position depends on earlier ones",
    "convolution/textcnn": "T: .* has an axis of T // 2, which the first steps do not have .*textcnn.dsl:9",
    "graph/gat": "M: .* adds up over the whole sequence .* for `u` .gat.dsl:7",
    "derivatives/gaussian_process": "N: `L` is a `cholesky` of matrices along the sequence .*gaussian_process.dsl:9",
    "derivatives/hessian": "no input has an axis of open size",
    "mlp/mlp": "N: no position depends on earlier ones",
}


def reason(path: Path) -> str:
    with pytest.raises(NoStep) as none:
        sequence(path)
    return str(none.value)


@pytest.mark.wide(3)
@pytest.mark.parametrize("name", STEPS)
def test_steps_of_a_spec_are_the_whole_run(name: str) -> None:
    run = sequence(ROOT / "specs" / f"{name}.dsl")
    assert " ".join(x.kind for x in run.step.slots) == STEPS[name]
    agree(run_program(run), run.expected())
    agree(run_module(run, run.module()), run.expected())


@pytest.mark.wide(3)
@pytest.mark.parametrize("name", NONE)
def test_a_spec_that_looks_ahead_has_no_step_and_a_reason(name: str) -> None:
    path = ROOT / "specs" / f"{name}.dsl"
    assert re.search(NONE[name], reason(path))
    assert not hasattr(compile_module(path), "step")


def test_a_reason_does_not_depend_on_what_was_compiled_before() -> None:
    path = ROOT / "specs/transformer/relative.dsl"
    before = reason(path)
    sequence(ROOT / "specs/transformer/gpt.dsl")
    assert reason(path) == before


@pytest.mark.parametrize("name", LAYERS)
def test_steps_of_a_layer_are_the_whole_run(name: str, tmp_path: Path) -> None:
    run = sequence(layer(tmp_path, LAYERS[name]))
    agree(run_program(run), run.expected())
    agree(run_module(run, run.module()), run.expected())


def test_entries_of_loops_in_loops_are_kept_for_each_pass(tmp_path: Path) -> None:
    run = sequence(written(tmp_path, NESTED))
    assert {(x.kind, len(x.loops)) for x in run.step.slots} == {
        ("state", 1), ("fixed", 1), ("state", 2), ("fixed", 2), ("history", 2)
    }  # fmt: skip
    agree(run_program(run), run.expected())
    agree(run_module(run, run.module()), run.expected())


def test_fixed_entries_of_a_loop_may_need_different_carried_values(tmp_path: Path) -> None:
    run = sequence(written(tmp_path, TWO))
    assert [(x.kind, len(x.loops)) for x in run.step.slots] == [("fixed", 1), ("fixed", 1), ("state", 1)]
    agree(run_program(run), run.expected())
    agree(run_module(run, run.module()), run.expected())


def test_entries_of_a_scan_along_another_axis_are_kept_for_each_of_its_steps(tmp_path: Path) -> None:
    run = sequence(written(tmp_path, ROUNDS))
    kinds = {(x.kind, *(loop.kind for loop in x.loops)) for x in run.step.slots}
    assert {(kind, *around, "steps") for kind in ("state", "fixed", "history") for around in ([], ["layers"])} <= kinds
    assert ("state", "layers", "steps", "steps") in kinds
    agree(run_program(run), run.expected())
    agree(run_module(run, run.module()), run.expected())


@pytest.mark.point("27")
@pytest.mark.parametrize("name", BOUNDED)
def test_a_read_at_a_bounded_distance_needs_no_history(name: str, tmp_path: Path) -> None:
    run = sequence(layer(tmp_path, BOUNDED[name]))
    assert {x.kind for x in run.step.slots} == {"state"}
    agree(run_program(run), run.expected())
    agree(run_module(run, run.module()), run.expected())


@pytest.mark.point("27")
def test_half_of_the_channels_of_the_position_before_are_those_of_torch(tmp_path: Path) -> None:
    text = "model shift(x: f64[N, T, 8]) -> y: [N, T, 4]:\n    y[n, t: T, c: 4] = (x[n, t-1, 4 + c] else 0)\n"
    module = compile_module(written(tmp_path, text), dtype="f64")
    x = np.random.default_rng(0).normal(size=(2, 5, 8))
    cache = module.init_cache({}, N=2)  # of any length
    found = []
    for t in range(5):
        y, cache = module.step({}, cache, x[:, t])
        found.append(y)
    expected = torch.nn.functional.pad(torch.tensor(x)[:, :-1, 4:], (0, 0, 1, 0))
    np.testing.assert_array_equal(np.stack(found, 1), expected)


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_result_for_the_whole_sequence_is_that_of_the_positions_so_far(name: str, tmp_path: Path) -> None:
    run = sequence(layer(tmp_path, SUMMARIES[name], "[N, O]"))
    agree(run_program(run), run.expected())
    agree(run_module(run, run.module()), run.expected())


@pytest.mark.parametrize("place", ["1", "dst[t]"])
def test_what_is_added_to_a_value_of_the_cache_leaves_it_as_it_is(place: str, tmp_path: Path) -> None:
    added = "sum[t](tanh(x[t, i]))" if place == "1" else "tanh(x[t, i])"
    run = sequence(written(tmp_path, (
        "model added(x: f32[T, 4], onto: f32[3, 4], dst: i32[T] < 3) -> (y: [3, 4], run: [T]):\n    y = 3 * onto\n"
        f"    y[{place}, i] += {added}\n    run[t] = cumsum[t](x[t, 0])\n"
    )))  # fmt: skip
    agree(run_program(run), run.expected())
    agree(run_module(run, run.module()), run.expected())


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("y[n, t: T, i] = (x[n, t + 1, i] else 0)", "`y` reads positions that are still to come"),
        ("y[n, t, i] = x[n, T - 1 - t, i]", "`y` reads a position that depends on the length T"),
        ("y[n, t: T, i] = x[n, clamp(t + 1), i]", "`y` reads positions that are still to come"),
        ("y[n, t: T, i] = x[n, wrap(t - 1), i]", "`y` reads positions that wrap around"),
        ("y[n, t, i] = x[n, t, i] - sum[s](x[n, s, i])", "`y` takes in positions that are still to come"),
        ("y[n, t, i] = x[n, t, i] / T", "`y` depends on the length T"),
        ("y[n, t, i] = sum[s](x[n, s, i] if s >= t else 0)", "`y` takes in positions that are still to come"),
        ("y[n, t, i] = sum[s](x[n, s, i] if s <= t + 1 else 0)", "`y` takes in positions that are still to come"),
        ("y[n, t, i] = max[s](x[n, s, i] if s <= t else 0)", "`y` takes in positions that are still to come"),
        ("y[n, t, i] = prod[s](x[n, s, i] if s <= t else 0)", "masked by 0 they count, masked by 1 they would not"),
        (
            "a[n, t, s] = softmax[s](x[n, t, i] * x[n, s, i] if s <= t else -1e9)\n"
            "    y[n, t, i] = a[n, t, s] * x[n, s, i]",
            "still to come: masked by -1e9 they count, masked by -inf they would not .* for `a` .layer.dsl:2",
        ),
        (
            "m[t: T, s: T] = 0.0 if s <= t else -10000.0\n"
            "    a[n, t, s] = softmax[s](x[n, t, i] * x[n, s, i] + m[t, s])\n    y[n, t, i] = a[n, t, s] * x[n, s, i]",
            "still to come: masked by -10000 they count, masked by -inf they would not .* for `a` .layer.dsl:3",
        ),
        (
            "a[n, t, s] = softmax[s](x[n, t, i] * x[n, s, i] + (0 if s <= t else -10000))\n"
            "    y[n, t, i] = a[n, t, s] * x[n, s, i]",
            "still to come: masked by -10000 they count, masked by -inf they would not .* for `a` .layer.dsl:2",
        ),
        ("y[n, t, i] = sort[t](x[n, t, i])", "`y` is a `sort` along the whole sequence"),
        ("h = x |> gru(4)\n    y[n, t, i] = h[n, t, i] - h[n, T-1, i]", "depends on the length T"),
    ],
)
def test_what_looks_ahead_is_refused_with_its_line(body: str, why: str, tmp_path: Path) -> None:
    found = reason(layer(tmp_path, body))
    assert re.search(why, found), found
    assert re.search(r"layer.dsl:\d", found), found


def test_a_position_that_the_first_steps_do_not_have_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "late.dsl"
    file.write_text(
        "model late(x: f32[N, T, 4]) -> y: [N, 4] where T >= 3:\n    h = x |> gru(4)\n    y = h[:, T-3, :]\n"
    )
    assert "reads position T - 3, which the first steps do not have" in reason(file)


@pytest.mark.point("27")
@pytest.mark.parametrize(("head", "body", "why"), [
    ("x: f32[N, S, 4]) -> p: [N, S + 1, 4]", "p[n, s: S + 1, i] = (x[n, s-1, i] else 0)",
     "`p` has an axis of S + 1, which is not the sequence itself (model.dsl:2"),
    ("x: f32[N, S, 4]) -> p: [N * S, 4]", "h = x |> gru(4)\n    p[(n s), i] = h[n, s, i]",
     "`p` has an axis of N*S, which is not the sequence itself (model.dsl:3"),
    ("x: f32[N, S, 4]) -> p: [N, S, S]", "p[n, t, s] = softmax[s](x[n, t, i] * x[n, s, i] if s <= t else -inf)",
     "`p` has S along more than one axis (model.dsl:2"),
    ("x: f32[N, S, 4], p: f32[N, S + 1, 4]) -> y: [N, S, 4]", "y[n, s, i] = x[n, s, i] + p[n, s + 1, i]",
     "`p` has an axis of S + 1, which is not the sequence itself"),
    ("x: f32[N, S, 4], p: f32[N, S, S]) -> y: [N, S, 4]", "y[n, t, i] = p[n, t, s] * x[n, s, i]",
     "`p` has S along more than one axis"),
])  # fmt: skip
def test_a_shape_without_one_element_for_each_position_is_named_as_it_is(
    head: str, body: str, why: str, tmp_path: Path
) -> None:
    found = reason(written(tmp_path, f"model odd({head}:\n    {body}\n"))
    assert f"S: {why}" in found


# ---- work ------------------------------------------------------------------------------------------------


def operations(run: Sequence, length: int) -> tuple[int, int]:
    """Of a step after so many positions, and of a whole run over them; all other open sizes are 3."""
    one = [*run.step.outputs.values(), *run.step.updates.values()]
    sizes = {**run.sizes, run.length: length}
    found = [sum(row.cost.at(sizes).operations for row in costs(x)) for x in (one, run.forward.outputs.values())]
    step, whole = found
    assert isinstance(step, int) and isinstance(whole, int)
    return step, whole


@pytest.mark.parametrize("name", [x for x in STEPS if STEPS[x].count("history") == 0])
def test_the_work_of_a_recurrence_does_not_grow(name: str) -> None:
    run = sequence(ROOT / "specs" / f"{name}.dsl")
    assert operations(run, 1)[0] == operations(run, 1000)[0] > 0
    assert not any(run.step.length in x.input.shape for x in run.step.slots)


@pytest.mark.parametrize("name", [x for x in STEPS if STEPS[x].count("history") > 0])
def test_the_work_of_attention_grows_with_the_past_alone(name: str) -> None:
    run = sequence(ROOT / "specs" / f"{name}.dsl")
    first, second, third = (operations(run, n)[0] for n in (1000, 2000, 3000))
    assert third - second == second - first > 0
    # the step in the middle costs what the whole run costs for each position
    assert operations(run, 1000)[0] <= 1.05 * operations(run, 2000)[1] / 2000


def test_a_causal_sum_goes_on_without_a_history(tmp_path: Path) -> None:
    run = sequence(layer(tmp_path, LAYERS["a causal mean"]))
    assert [x.kind for x in run.step.slots] == ["state"]


def test_what_does_not_depend_on_the_tokens_is_computed_once() -> None:
    text = compile_text(ROOT / "specs/transformer/encoder_decoder.dsl")
    _, made = text.split("\ndef init_cache(")
    before, after = made.split("\ndef step(")
    assert "encoder_block" in before and "encoder_block" not in after.split("\ndef ")[0]


# ---- the module ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gpt() -> Any:
    return compile_module(ROOT / "specs/transformer/gpt.dsl", dtype="f64", depth=2)


def test_a_full_cache_is_an_error(gpt: Any) -> None:
    params = gpt.init()
    cache = gpt.init_cache(params, N=1, length=2)
    for _ in range(2):
        _, cache = gpt.step(params, cache, np.array([1]))
    with pytest.raises(ValueError, match="the cache is full: it has room for 2 positions"):
        gpt.step(params, cache, np.array([1]))


def test_a_cache_longer_than_the_model_allows_is_an_error(gpt: Any) -> None:
    with pytest.raises(ValueError, match=r"gpt\.dsl:19 needs T <= context, found T = 65"):
        gpt.init_cache(gpt.init(), N=1, length=65)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (np.array([1]), "token: expected 2 along axis 0, found 1"),
        (np.array([[1], [2]]), "token: expected 1 axes"),
        (np.array([1, 65]), "token: expected 0 <= value < 65, found 65"),
    ],
)
def test_a_wrong_token_is_an_error_and_leaves_the_cache(gpt: Any, token: Any, message: str) -> None:
    params = gpt.init()
    cache = gpt.init_cache(params, N=2, length=4)
    with pytest.raises(ValueError, match=message):
        gpt.step(params, cache, token)
    assert cache["positions"] == 0
    assert not any(np.any(x) for x in cache.values() if isinstance(x, np.ndarray))


def test_a_copy_of_a_cache_goes_on_by_itself(gpt: Any) -> None:
    params = gpt.init()
    cache = gpt.init_cache(params, N=1, length=4)
    _, cache = gpt.step(params, cache, np.array([1]))
    other = {k: x.copy() if isinstance(x, np.ndarray) else x for k, x in cache.items()}
    a, _ = gpt.step(params, cache, np.array([2]))
    gpt.step(params, other, np.array([3]))
    full = gpt.forward(params, np.array([[1, 2]]))
    np.testing.assert_allclose(a, full[:, 1], rtol=1e-9)


def test_outputs_stay_as_they_were_when_the_cache_goes_on(tmp_path: Path) -> None:
    """A result may be an entry of the cache itself."""
    module = compile_module(layer(tmp_path, LAYERS["two steps back"]), dtype="f64")
    params = module.init()
    cache = module.init_cache(params, N=1)
    first, cache = module.step(params, cache, np.ones((1, 4)))
    kept = first.copy()
    module.step(params, cache, np.ones((1, 4)))
    np.testing.assert_array_equal(first, kept)


def test_a_step_in_f32_is_in_f32() -> None:
    module = compile_module(ROOT / "specs/recurrent/rwkv.dsl")
    params = module.init()
    cache = module.init_cache(params, N=2)
    logits, cache = module.step(params, cache, np.array([1, 2]))
    assert logits.dtype == np.float32
    assert {x.dtype for x in cache.values() if isinstance(x, np.ndarray)} == {np.dtype(np.float32)}


def test_deep_models_have_the_step_of_shallow_ones() -> None:
    model, _ = choose(check_file(ROOT / "specs/transformer/gpt.dsl", {"depth": 48}))
    assert len(pipeline.stepping(model).slots) == 2

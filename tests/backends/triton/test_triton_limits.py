"""What a dtype excuses and what it does not: sums that must be exact, faults that verification must find."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dslc.backends.triton.bfloat16 import as_on_a_device
from dslc.backends.triton.quick_triton import quick
from samples import load
from triton_modules import ROOT, triton_module

from dslc.compiler import choose, compile_text, imported
from dslc.frontend import check_file
from dslc.schedule import kernels as group
from dslc.verification import checks
from dslc.verification.backends import LOADERS, Loaded
from dslc.verification.precision import Noise, Wanted
from dslc.verification.steps import steps
from dslc.verification.verify import reference_dtype

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16}


@pytest.fixture(autouse=True)
def _interpreter() -> Iterator[None]:
    with as_on_a_device(), quick():
        yield


# ---- sums in float32: whole numbers past the digits of 16 bits

SUMS = """
model m(x: f32[N, 20], place: i32[N] < 2000, kind: i32[N] < 3) -> y: [N, 17]:
    param W: [20, 17] ~ normal
    param b: [17] ~ zeros
    param table: [2000, 17] ~ normal
    param few: [3, 17] ~ normal
    y[n, k] = x[n, i] * W[i, k] + b[k] + table[place[n], k] + few[kind[n], k]

train m(x, place, kind, t: f32[N, 17]):
    minimize sum[n, k](m(x, place, kind)[n, k] * t[n, k])
    using sgd(lr = 0.1)
"""


def sums(module: Any, kind: torch.dtype, count: int = 3001) -> dict[str, tuple[Any, Any]]:
    """Gradients that are sums of whole numbers, each with what it should be."""
    rng = np.random.default_rng(0)
    x, t = rng.integers(0, 4, (count, 20)), rng.integers(1, 6, (count, 17))
    place, few = rng.choice([7, 1900], count), rng.choice([0, 2], count)
    params = {k: torch.as_tensor(v).to(kind) for k, v in module.init(0).items()}
    data = [torch.as_tensor(x).to(kind), torch.as_tensor(place), torch.as_tensor(few), torch.as_tensor(t).to(kind)]
    _, grads = module.loss_and_grad(params, *data)
    wanted = {"W": x.T @ t, "b": t.sum(0), "table": np.zeros((2000, 17)), "few": np.zeros((3, 17))}
    np.add.at(wanted["table"], place, t)
    np.add.at(wanted["few"], few, t)
    return {k: (grads[k].numpy(), v) for k, v in wanted.items()}


@pytest.mark.parametrize("dtype", TYPES)
def test_long_sums_of_16_bits_lose_nothing(dtype: str, tmp_path: Path) -> None:
    spec = tmp_path / "sums.dsl"
    spec.write_text(SUMS, encoding="utf-8")
    for name, (found, wanted) in sums(triton_module(spec, tmp_path, dtype), TYPES[dtype]).items():
        assert wanted.max() > 2048
        np.testing.assert_array_equal(found, wanted, err_msg=name)


def test_a_sum_that_rounds_on_the_way_loses_something(tmp_path: Path) -> None:
    spec = tmp_path / "sums.dsl"
    spec.write_text(SUMS, encoding="utf-8")
    text = compile_text(spec, "triton", {}, "f16")
    rounded, count = re.subn(r"(\w+ = tl\.(?:dot|sum)\(.*\))", r"\1.to(tl.float16).to(tl.float32)", text)
    assert count
    found, wanted = sums(load(rounded, tmp_path, "rounded"), torch.float16)["W"]
    assert not np.array_equal(found, wanted)


# ---- faults in the text of a module

POOLED = """
model m(x: f32[N, 5, 6]) -> y: [N, 4]:
    y = x |> dense(8) |> instance_norm |> relu |> global_max_pool |> dense(4)

train m(x, t: f32[N, 4]):
    minimize mean[n, c]((m(x)[n, c] - t[n, c])^2)
    using adam(lr = 0.01)
"""


@pytest.fixture
def pooled(tmp_path: Path) -> Path:
    spec = tmp_path / "pooled.dsl"
    spec.write_text(POOLED, encoding="utf-8")
    return spec


def failed(spec: Path, dtype: str, pattern: str = "", replacement: str = "") -> list[str]:
    """The checks that fail when a pattern in the module is replaced."""
    model, train = choose(check_file(spec, {}))
    loaded = LOADERS["triton"](spec, {}, model.name, dtype)
    if pattern:
        text, count = re.subn(pattern, replacement, compile_text(spec, "triton", {}, dtype))
        assert count, "the fault is planted nowhere"
        loaded = replace(loaded, module=imported(text, "faulty"))
    reference = LOADERS["numpy"](spec, {}, model.name, reference_dtype(dtype))
    subject = checks.Subject(model, train, {"N": 33}, 3, dtype)
    rows = [checks.outputs(subject, loaded), *checks.training(subject, loaded), checks.evaluation(subject, loaded)]
    rows.append(checks.same_training(subject, loaded, reference))
    return [x.name for x in rows if not x.ok]


@pytest.mark.wide(4)
@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_a_module_without_faults_passes_in_every_dtype(pooled: Path, dtype: str) -> None:
    assert not failed(pooled, dtype)


#: dtype, what is replaced by what, a check that fails then
FAULTS = {
    "products of float32 are taken in bfloat16": (
        "f32", r"tl\.dot\((\w+), ", r"tl.dot(\1.to(tl.bfloat16).to(tl.float32), ", "outputs"),
    "sums of gradients round to float16": (
        "f32", r"(d_\w+) = (tl\.sum\(.*\))\n", r"\1 = (\2).to(tl.float16).to(tl.float32)\n", "gradients"),
    "an entry past the end of a block is summed": ("f16", r"other=0\.0", "other=1.0", "gradients"),
    "statistics of a norm round to bfloat16": (
        "f32", r"(\w+) = (tl\.sum\(y, axis=1\))\n", r"\1 = (\2).to(tl.bfloat16).to(tl.float32)\n", "gradients"),
    "steps are half as long in float32": ("f32", r"\b0\.01,", "0.005,", "10 steps as numpy"),
    "steps are half as long in float16": ("f16", r"\b0\.01,", "0.005,", "10 steps as numpy"),
    "steps are half as long in bfloat16": ("bf16", r"\b0\.01,", "0.005,", "10 steps as numpy"),
}  # fmt: skip


@pytest.mark.wide(7)
@pytest.mark.parametrize(("dtype", "pattern", "replacement", "check"), FAULTS.values(), ids=FAULTS)
def test_a_fault_that_is_planted_is_found(pooled: Path, dtype: str, pattern: str, replacement: str, check: str) -> None:
    assert check in failed(pooled, dtype, pattern, replacement)


class Parting(Loaded):
    """A backend whose parameter `dense.b` ends elsewhere: so far off, or now and then by 1 when trained with noise."""

    far = 0.0
    trainings = 0

    def train(self, *arguments: Any, **options: Any) -> tuple[dict[str, np.ndarray], list[float]]:
        ends, losses = super().train(*arguments, **options)
        *_, noise = arguments
        if isinstance(noise, Noise) and noise.sizes:
            self.trainings += 1
        parts = self.trainings and self.trainings % 50 == 0
        return {**ends, "dense.b": ends["dense.b"] + (1.0 if parts else self.far)}, losses


@pytest.mark.parametrize(("far", "ok"), [(0.9, True), (3.0, False)])
def test_a_module_may_go_where_one_training_in_fifty_goes(pooled: Path, far: float, ok: bool) -> None:
    model, train = choose(check_file(pooled, {}))
    subject = checks.Subject(model, train, {"N": 5}, 3, "f32")
    ours, theirs = (Parting(**vars(LOADERS["numpy"](pooled, {}, model.name, "f32"))) for _ in range(2))
    ours.far = far
    assert checks.same_training(subject, ours, theirs).ok is ok


@pytest.mark.long
@pytest.mark.parametrize("dtype", TYPES)
def test_a_maximum_of_values_before_they_are_rounded_would_be_found_nowhere(
    pooled: Path, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "round_at_once", lambda kernel: None)
    assert "gradients" in failed(pooled, dtype)


def test_a_result_may_move_as_far_as_the_others_go_beyond_their_mean() -> None:
    exact = {"a": np.zeros(1), "b": np.zeros(1)}
    near = [{"a": np.array([1.0]), "b": np.array([x])} for x in (0.0, 0.0, 0.0, 2.0)]
    assert Wanted(exact, lambda: near).movement() == {"a": 2.0, "b": 2.0}


@pytest.mark.wide(2)
@pytest.mark.parametrize("dtype", TYPES)
def test_a_state_that_layers_hand_on_and_a_cache_keeps_is_float32_for_both(dtype: str) -> None:
    path, settings = ROOT / "specs/recurrent/lstm.dsl", {"width": 8, "vocabulary": 11, "depth": 2}
    model, train = choose(check_file(path, settings))
    loaded = LOADERS["triton"](path, settings, model.name, dtype)
    found = steps(checks.Subject(model, train, {"N": 3, "T": 4}, 3, dtype), loaded)
    assert found.ok, found

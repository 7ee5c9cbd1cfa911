"""`dslc verify`: good specs pass, and mistakes in values, gradients and derivatives are found."""

from __future__ import annotations

import functools
import json
import math
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dslc.cli.main import cli
from dslc.ir import nodes as ir
from dslc.meaning.interpret import Interpreter
from dslc.verification.backends import LOADERS, Loaded, Unavailable
from dslc.verification.precision import rounding

ROOT = Path(__file__).parents[2]
MLP = ROOT / "specs/mlp/mlp.dsl"

NORMED = """
model normed(x: f32[N, 4], classes = 3) -> (logits: [N, classes], half: [N, 4]):
    h = x |> dense(8) |> batch_norm |> tanh |> dropout(0.2)
    logits = h |> dense(classes)
    half = x / 2

train normed(x, label: i32[N] < classes):
    logits, half = normed(x)
    minimize cross_entropy(logits, label)
    metric accuracy = accuracy(logits, label)
    using adamw(lr = 1e-2)
"""


LOOPS = """
layer inner(x: [N, T, 4]) -> y: [N, T, 4]:
    h = x + diagonal_ssm(x, 3, 4)
    for k in 0..3:
        h = h + diagonal_ssm(h, 3, 4)
    y = h

model loops(x: f32[N, T, 4]) -> y: [N, T, 4]:
    h = x |> dense(4)
    for l in 0..2:
        h = h + inner(h)
    y = h

train loops(x) where T >= 2:
    minimize mean_squared_error(loops(x), x)
    using adamw(lr = 1e-3)
"""


def run(*arguments: object, backend: str = "numpy") -> Result:
    return CliRunner().invoke(cli, ["verify", *map(str, arguments), "-b", backend], catch_exceptions=False)


def checks(*arguments: object) -> dict[str, Any]:
    return {c["check"]: c for c in json.loads(run(*arguments, "--json").stdout)["checks"]}


@pytest.fixture
def normed(tmp_path: Path) -> Path:
    path = tmp_path / "normed.dsl"
    path.write_text(NORMED, encoding="utf-8")
    return path


def test_a_good_spec_passes_all_checks(normed: Path) -> None:
    done = run(normed, "--sizes", "N=5")
    assert done.exit_code == 0, done.output
    assert f"{normed}: ok at N=5, seed 0" in done.stdout
    assert set(checks(normed)) == {
        "outputs", "arguments and results stay", "loss and metrics", "next states", "gradients", "loss for inference",
        "gradient against differences", "3 steps of training", "the same at a long size",
        "second derivative against differences",
    }  # fmt: skip


def test_roundings_are_shown_and_not_called_nothing() -> None:
    found = checks(MLP)
    assert 0 < found["gradients"]["error"] < 1e-12
    assert 0 < found["outputs"]["error"] < 1e-12


def test_a_spec_without_training_is_compared_too() -> None:
    found = checks(ROOT / "specs/linear/nearest.dsl")
    assert set(found) == {"outputs", "arguments and results stay", "the same at a long size"}


FITTED = """
model fitted(X: f64[N, C], y: f64[N]) -> w: [C]:
    A[i, j] = X[n, i] * X[n, j]
    b[i] = X[n, i] * y[n]
    w = solve(A, b)
"""


@pytest.mark.parametrize("seed", range(4))
def test_sizes_are_those_at_which_systems_have_a_solution(seed: int, tmp_path: Path) -> None:
    """With fewer rows than columns the matrix is singular but for its roundings: nothing to compare."""
    path = tmp_path / "fitted.dsl"
    path.write_text(FITTED, encoding="utf-8")
    done = run(path, "--seed", seed)
    assert done.exit_code == 0, done.output
    assert max(c["error"] for c in checks(path, "--seed", seed).values()) < 1e-9


def test_a_long_size_is_one_at_which_the_formula_has_a_value(tmp_path: Path) -> None:
    """A product of 200,000 numbers below 1 is 0 in floats, and its logarithm is not -inf."""
    path = tmp_path / "likelihood.dsl"
    path.write_text("model m(p: f64[N]) -> y: []:\n    y = log(prod[n](p[n]))\n", encoding="utf-8")
    done = run(path)
    assert done.exit_code == 0, done.output
    assert "N=257" in checks(path)["the same at a long size"]["note"]


def broken(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Modules that are compiled from now on are changed by a function before they are verified."""

    plain = LOADERS["numpy"]

    def load(*arguments: Any) -> Loaded:
        loaded = plain(*arguments)
        change(loaded.module)
        return loaded

    monkeypatch.setitem(LOADERS, "numpy", load)


def test_a_wrong_output_is_found(normed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(module: ModuleType) -> None:
        real = module.forward
        module.forward = lambda params, x, state: {k: v * (1 + 1e-6) for k, v in real(params, x, state).items()}

    broken(monkeypatch, change)
    done = run(normed, "--json")
    assert done.exit_code == 1
    report = json.loads(done.stdout)
    assert report["ok"] is False
    assert [c["check"] for c in report["checks"] if not c["ok"]] == ["outputs", "loss for inference"]


def test_a_wrong_gradient_is_found_twice(normed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(module: ModuleType) -> None:
        real = module.loss_grad_metrics

        def wrong(params: Any, x: Any, label: Any, state: Any, seed: int = 0, **options: Any) -> Any:
            loss, grads, metrics, states = real(params, x, label, state, seed, **options)
            return loss, {**grads, "dense.W": 1.01 * grads["dense.W"]}, metrics, states

        module.loss_grad_metrics = wrong

    broken(monkeypatch, change)
    done = run(normed, "--json")
    assert done.exit_code == 1
    failed = {c["check"]: c["note"] for c in json.loads(done.stdout)["checks"] if not c["ok"]}
    assert set(failed) == {"gradients", "gradient against differences"}
    assert failed["gradients"] == "largest at dense.W"


def test_a_wrong_state_and_a_wrong_evaluation_are_found(normed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(module: ModuleType) -> None:
        real, evaluate = module.loss_grad_metrics, module.evaluate

        @functools.wraps(real)
        def wrong(*arguments: Any, **options: Any) -> Any:
            loss, grads, metrics, states = real(*arguments, **options)
            return loss, grads, metrics, {k: v + 0.1 for k, v in states.items()}

        module.loss_grad_metrics = wrong
        module.evaluate = functools.wraps(evaluate)(lambda *a, **k: (evaluate(*a, **k)[0], {"accuracy": np.nan}))

    broken(monkeypatch, change)
    done = run(normed, "--json")
    failed = {c["check"]: c["error"] for c in json.loads(done.stdout)["checks"] if not c["ok"]}
    assert set(failed) == {"next states", "loss for inference"}
    assert failed["loss for inference"] == "inf"


@pytest.mark.parametrize(("dtype", "rounding"), [("f32", 2.0**-24), ("f16", 2.0**-11)])
def test_other_dtypes_are_compared_as_far_as_they_go(normed: Path, dtype: str, rounding: float) -> None:
    done = run(normed, "--sizes", "N=5", "--dtype", dtype, "--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 0 and report["ok"] and report["dtype"] == dtype, report
    found = {c["check"]: c for c in report["checks"]}
    assert set(found) == {
        "outputs", "arguments and results stay", "loss and metrics", "next states", "gradients", "loss for inference",
    }  # fmt: skip
    assert found["outputs"]["error"] > 0 and 4 * rounding <= found["outputs"]["tolerance"] < 25 * rounding


def test_a_gradient_that_is_off_by_more_than_roundings_is_found(normed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(module: ModuleType) -> None:
        real = module.loss_grad_metrics

        def wrong(params: Any, x: Any, label: Any, state: Any, seed: int = 0, **options: Any) -> Any:
            loss, grads, metrics, states = real(params, x, label, state, seed, **options)
            return loss, {**grads, "dense2.W": (1 + 4e-6) * grads["dense2.W"]}, metrics, states

        module.loss_grad_metrics = wrong

    broken(monkeypatch, change)
    done = run(normed, "--dtype", "f32", "--json")
    failed = {c["check"]: c["note"] for c in json.loads(done.stdout)["checks"] if not c["ok"]}
    assert failed == {"gradients": "largest at dense2.W"}


def test_what_a_backend_has_not_is_not_called_good() -> None:
    done = run(MLP, "--dtype", "bf16", "--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 1 and not report["ok"]
    assert [c["note"] for c in report["checks"]] == ["NumPy has no bfloat16"]


def test_a_gradient_that_cancels_to_zero_may_be_off_by_roundings_and_no_more(
    normed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = {"roundings": 1e-17, "an error": 1e-13}
    now = iter(added.values())

    def change(module: ModuleType) -> None:
        real = module.loss_grad_metrics

        def wrong(params: Any, x: Any, label: Any, state: Any, seed: int = 0, **options: Any) -> Any:
            loss, grads, metrics, states = real(params, x, label, state, seed, **options)
            assert np.abs(grads["dense.b"]).max() < 1e-15  # the mean that batch_norm subtracts holds it, too
            return loss, {**grads, "dense.b": grads["dense.b"] + more}, metrics, states

        more = next(now)
        module.loss_grad_metrics = wrong

    failed = {}
    broken(monkeypatch, change)
    for name in added:
        found = json.loads(run(normed, "--json").stdout)["checks"]
        failed[name] = {c["check"]: c["note"] for c in found if not c["ok"]}
    assert failed == {"roundings": {}, "an error": {"gradients": "largest at dense.b"}}


def test_values_past_the_largest_float16_are_named_and_not_compared(tmp_path: Path) -> None:
    spec = tmp_path / "large.dsl"
    spec.write_text("model large(x: f32[N]) -> y: [N]:\n    h = 1e6 * x\n    y = tanh(h)\n", encoding="utf-8")
    done = run(spec, "--dtype", "f16", "--json")
    assert done.exit_code == 1
    assert [c["note"] for c in json.loads(done.stdout)["checks"]] == ["`h` is past 65504, the largest of f16"]
    assert run(spec, "--dtype", "f32").exit_code == 0


MASKED = """
model masked(x: f32[N, S], keep: bool[N, S]) -> y: [N]:
    param w: [] ~ ones
    a[n, s] = softmax[s](w * x[n, s] if keep[n, s] else -inf)
    y[n] = sum[s](a[n, s] * x[n, s])

train masked(x, keep):
    minimize mean((masked(x, keep) - 1)^2)
    using sgd(lr = 0.1)
"""


def test_a_row_that_is_masked_as_a_whole_is_compared_with_its_stable_form(tmp_path: Path) -> None:
    spec = tmp_path / "masked.dsl"
    spec.write_text(MASKED, encoding="utf-8")
    done = run(spec, "--sizes", "N=17,S=1")
    assert done.exit_code == 0, done.output


def test_ragged_sizes_are_long_in_turn(tmp_path: Path) -> None:
    spec = tmp_path / "masked.dsl"
    spec.write_text(MASKED, encoding="utf-8")
    report = json.loads(run(spec, "--ragged", "--json").stdout)
    assert report["ok"], report
    tried = [(sizes["N"], sizes["S"]) for sizes in report["sizes"]]
    assert tried == [(1, 1), (3, 3), (17, 17), (65, 2), (2, 130)]


def test_a_derivative_by_hand_may_differ_and_is_named(tmp_path: Path) -> None:
    spec = tmp_path / "hand.dsl"
    spec.write_text(
        "fn clipped(x) -> y:\n"
        "    y = max(x, 0.4)\n"
        "    backward (dy) -> (dx):\n"
        "        dx = dy\n"
        "model hand(x: f32[N]) -> y: [N]:\n"
        "    param w: [] ~ ones\n"
        "    y = clipped(w * x)\n"
        "train hand(x):\n"
        "    minimize mean(hand(x)^2)\n"
        "    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    done = run(spec, "--json")
    found = {c["check"]: c for c in json.loads(done.stdout)["checks"]}
    assert found["gradient against differences"]["error"] is None
    assert "a derivative is given by hand" in found["gradient against differences"]["note"]


def test_stopped_gradients_are_not_blamed(tmp_path: Path) -> None:
    spec = tmp_path / "stop.dsl"
    spec.write_text(
        "model stop(x: f32[N]) -> y: [N]:\n"
        "    param w: [] ~ ones\n"
        "    y = w * x + stop_grad(round(w * x) - w * x)\n"
        "train stop(x):\n"
        "    minimize mean(stop(x)^2)\n"
        "    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    found = checks(spec)
    assert found["gradient against differences"]["ok"] and found["gradient against differences"]["error"] is not None


def masked(tmp_path: Path) -> Path:
    """Some of 40 sequences have the length 0, so that the plain formula of their softmax is 0 / 0."""
    spec = tmp_path / "masked.dsl"
    spec.write_text(
        "model masked(x: f32[N, S], length: i32[N] < S + 1) -> y: [N]:\n"
        "    param w: [] ~ normal\n"
        "    a[n, s] = softmax[s](w * x[n, s] if s < length[n] else -inf)\n"
        "    y[n] = a[n, s] * x[n, s]\n"
        "train masked(x, length):\n"
        "    minimize sum(masked(x, length)^2)\n"
        "    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    return spec


def test_a_row_that_is_masked_as_a_whole_is_compared_with_the_stable_form(tmp_path: Path) -> None:
    found = checks(masked(tmp_path), "--sizes", "N=40,S=2")
    assert all(x["ok"] and x["error"] is not None for x in found.values())


def test_a_wrong_value_of_such_a_row_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(module: ModuleType) -> None:
        real = module.forward
        module.forward = lambda *arguments: np.where(real(*arguments) == 0, 0.1, real(*arguments))

    broken(monkeypatch, change)
    found = checks(masked(tmp_path), "--sizes", "N=40,S=2")
    assert not found["outputs"]["ok"] and found["gradients"]["ok"]


def test_sizes_that_are_wrong_are_refused() -> None:
    wrong = run(MLP, "--sizes", "M=3")
    assert wrong.exit_code == 1 and "M is not an open size of the spec" in wrong.stderr
    for text in ("N", "N=0", "N=x", "=3"):
        assert run(MLP, "--sizes", text).exit_code == 2


def test_other_seeds_draw_other_sizes() -> None:
    drawn = {tuple(json.loads(run(MLP, "--seed", k, "--json").stdout)["sizes"].items()) for k in range(3)}
    assert len(drawn) > 1


def test_a_program_too_large_is_not_called_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dslc.verification.checks.MOST_ELEMENTS", 10)
    done = run(MLP)
    assert done.exit_code == 1
    assert "too large for the interpreter" in done.stdout


def test_all_backends_are_verified_by_default(tmp_path: Path) -> None:
    """In a process of its own: Triton's interpreter must be chosen before triton is imported."""
    pytest.importorskip("triton")
    spec = tmp_path / "small.dsl"
    spec.write_text(
        "model small(x: f32[N, 3]) -> y: [N]:\n"
        "    h = x |> dense(4) |> tanh |> dropout(0.3)\n"
        "    y[n] = sum[k](h[n, k])\n"
        "train small(x):\n"
        "    minimize mean((small(x) - 1)^2)\n"
        "    using adam(lr = 0.1)\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "dslc.cli.main", "verify", str(spec), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    assert report["ok"], report
    found = {c["check"] for c in report["checks"] if c["backend"] == "triton" and c["error"] is not None}
    assert {"outputs", "gradients", "gradient against differences", "10 steps as numpy"} <= found


def test_a_backend_that_cannot_run_is_skipped_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*arguments: Any) -> Loaded:
        raise Unavailable("torch not installed")

    monkeypatch.setitem(LOADERS, "triton", missing)
    done = run(ROOT / "specs/mlp/xor.dsl", "-b", "triton", "--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 0 and report["ok"]
    skipped = [c for c in report["checks"] if c["backend"] == "triton"]
    assert [c["note"] for c in skipped] == ["torch not installed"] and skipped[0]["error"] is None


def test_loops_over_layers_inside_of_loops_over_layers(tmp_path: Path) -> None:
    spec = tmp_path / "loops.dsl"
    spec.write_text(LOOPS, encoding="utf-8")
    result = run(spec)
    assert result.exit_code == 0, result.output
    assert "gradient against differences" in result.output


def test_second_derivatives_of_distances_are_checked(tmp_path: Path) -> None:
    # the stable form of a norm has a `stop_grad` that several formulas of other axes share
    path = tmp_path / "distances.dsl"
    path.write_text(
        "model m(x: f32[N, 3], z: f32[M, 3]) -> y: [N, M]:\n"
        "    param s: [3] ~ ones\n"
        "    y[n, m] = sqrt(sum[k]((s[k] * (x[n, k] - z[m, k]))^2))\n\n"
        "train m(x, z):\n"
        "    minimize mean(exp(-m(x, z)))\n"
        "    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    found = checks(path)["second derivative against differences"]
    assert found["ok"] and found["error"] is not None


# ---- modules that are right are called right ----------------------------------------------------------------

#: what makes a number of a softmax over nothing, which is 0 / 0 as it is written
SWALLOWED = (
    "relu(r[n] + 0.2)",
    "max(r[n] + 0.2, 0)",
    "r[n] + 0.2 if r[n] > -1 else 3",
    "exp(-r[n]) if not r[n] < -1 else 0",
    "clip(r[n] + 0.2, 0.1, 0.9)",
)


@pytest.mark.point("20")
@pytest.mark.parametrize("formula", SWALLOWED)
def test_a_row_that_is_masked_as_a_whole_has_its_stable_value_on_the_way_too(formula: str, tmp_path: Path) -> None:
    spec = tmp_path / "masked.dsl"
    text = MASKED.replace("y[n] = sum", "r[n] = sum").replace("\n\ntrain", f"\n    y[n] = {formula}\n\ntrain")
    spec.write_text(text, encoding="utf-8")
    found = checks(spec, "--sizes", "N=300,S=2")
    assert all(x["ok"] and x["error"] < 1e-6 for x in found.values()), found


@pytest.mark.point("20")
def test_a_value_that_is_not_masked_is_still_compared_beside_one_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = tmp_path / "masked.dsl"
    text = MASKED.replace("y[n] = sum", "r[n] = sum").replace("\n\ntrain", "\n    y[n] = relu(r[n] + 0.2)\n\ntrain")
    spec.write_text(text, encoding="utf-8")

    def change(module: ModuleType) -> None:
        real = module.forward
        module.forward = lambda *arguments: np.where(real(*arguments) > 0.21, real(*arguments) + 1e-6, 0.2)

    broken(monkeypatch, change)
    assert not checks(spec, "--sizes", "N=17,S=1")["outputs"]["ok"]


ALIGNED = """
model heard(x: f32[N, T, 4]) -> logp: [N, T, 5]:
    h = x |> dense(5)
    logp[n, t, k] = log_softmax[k](h[n, t, k])

train heard(x, label: i32[N, L] < 5):
    lp = heard(x)
    scan t in 0..T:
        stay[n, s: L] = alpha[n, s, t-1]
        move[n, s: L] = (alpha[n, s-1, t-1] else -inf)
        alpha[n, s, t] = log(exp(stay[n, s]) + exp(move[n, s])) + lp[n, t, label[n, s]]
    start alpha[n: N, s] = 0 if s == 0 else -inf
    minimize -mean[n](alpha[n, L-1, T-1])
    using adam(lr = 0.01)
"""


@pytest.mark.point("20")
def test_sizes_are_drawn_at_which_the_loss_is_finite(tmp_path: Path) -> None:
    """A sequence of T frames has no alignment with more than T + 1 labels."""
    spec = tmp_path / "heard.dsl"
    spec.write_text(ALIGNED, encoding="utf-8")
    for seed in range(4):
        report = json.loads(run(spec, "--seed", seed, "--json").stdout)
        assert report["ok"] and report["sizes"]["L"] <= report["sizes"]["T"] + 1, report
        assert all(x["error"] is not None for x in report["checks"])
    found = checks(spec, "--sizes", "T=2,L=5")
    assert all(x["ok"] for x in found.values()), found
    assert found["gradient against differences"]["note"] == "the loss is inf"


@pytest.mark.point("20")
def test_a_gradient_that_is_zero_does_not_hide_the_largest_error(normed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`dense.b` has no influence, as batch_norm subtracts the mean: its gradient is roundings alone."""

    def change(module: ModuleType) -> None:
        real = module.loss_grad_metrics

        def wrong(params: Any, x: Any, label: Any, state: Any, seed: int = 0, **options: Any) -> Any:
            loss, grads, metrics, states = real(params, x, label, state, seed, **options)
            return loss, {**grads, "dense2.W": grads["dense2.W"] * (1 + 1e-12)}, metrics, states

        module.loss_grad_metrics = wrong

    broken(monkeypatch, change)
    found = checks(normed)["gradients"]
    assert found["ok"] and found["note"] == "largest at dense2.W" and 1e-13 < found["error"] < 2e-12


@pytest.mark.point("20")
def test_nothing_is_printed_but_the_table(tmp_path: Path) -> None:
    spec = tmp_path / "heard.dsl"
    spec.write_text(ALIGNED, encoding="utf-8")
    command = [sys.executable, "-m", "dslc.cli.main", "verify", str(spec), "-b", "numpy", "--sizes", "T=2,L=5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == "", done.stderr


@pytest.mark.point("A")
def test_a_guard_that_is_lost_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tmp_path / "m.dsl"
    spec.write_text("model m(p: f32[N, K]) -> y: [N]:\n    y[n] = entropy[k](p[n, k])\n", encoding="utf-8")
    good = CliRunner().invoke(cli, ["verify", str(spec), "-b", "numpy"])
    assert good.exit_code == 0 and "outputs at guards" in good.output, good.output
    from dslc.passes import products

    monkeypatch.setattr(products, "is_finite", lambda x, data=False: True)
    bad = CliRunner().invoke(cli, ["verify", str(spec), "-b", "numpy"])
    assert bad.exit_code == 1 and "FAILED" in bad.output, bad.output


@pytest.mark.point("20")
def test_a_spec_of_which_no_module_was_compared_is_not_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> Loaded:
        raise Unavailable("numpy is not installed")

    spec = tmp_path / "open.dsl"
    spec.write_text(
        "model m(x: f32[N, K]) -> y: [N, 3]:\n    y = dense(x, 3)\n\n"
        "train m(x):\n    minimize mean(m(x)^2)\n    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    assert run(spec, "-b", "numpy", "--set", "K=4").exit_code == 0
    monkeypatch.setitem(LOADERS, "numpy", missing)
    done = run(spec, "-b", "numpy")
    assert done.exit_code == 1 and "numpy is not installed" in done.stdout


TABLE = """
model table(x: f32[N, D], classes = 2) -> logits: [N, classes]:
    logits = x |> dense(3) |> relu |> dense(classes)

train table(x, label: i32[N] < classes):
    minimize cross_entropy(table(x), label)
    using sgd(lr = 1e-2)
"""


def test_open_sizes_of_parameters_are_drawn_as_well(tmp_path: Path) -> None:
    """Modules are made for one length of them: all was skipped, and the spec said to have failed."""
    spec = tmp_path / "table.dsl"
    spec.write_text(TABLE)
    for options in ((), ("--sizes", "D=4"), ("--ragged", "--sizes", "N=2")):
        done = run(spec, "--json", *options)
        told = json.loads(done.output)
        assert done.exit_code == 0 and told["ok"], done.output
        assert not [check for check in told["checks"] if check["check"] == "all"]
        for sizes in told["sizes"] if "--ragged" in options else [told["sizes"]]:
            assert sorted(sizes) == ["D", "N"]
            assert "D=4" not in options or sizes["D"] == 4


CENTRED = """
layer block(x: [N, H, W, C], out: size) -> y where H >= 2, W >= 2:
    y = x |> conv2d(out, pad = 1) |> batch_norm |> relu |> max_pool2d

model centred(image: f32[N, 8, 8, 3]) -> logits: [N, 2]:
    logits = image |> block(8) |> block(16) |> global_avg_pool |> dense(2)

train centred(image, label: i32[N] < 2):
    minimize cross_entropy(centred(image), label)
    using sgd(lr = 1e-2)
"""


def test_a_gradient_that_cancels_in_a_sum_is_as_far_off_as_the_sum_on_its_way(tmp_path: Path) -> None:
    """That of a bias before a batch norm is 0: NumPy's was a few roundings of sums in between, and said to be wrong."""
    spec = tmp_path / "centred.dsl"
    spec.write_text(CENTRED)
    for seed in (0, 2):
        done = run(spec, "--seed", seed)
        assert done.exit_code == 0, done.stdout


def test_what_a_sum_is_on_its_way_rounds_as_well() -> None:
    """A sum that cancels, added up one by one: it is off by the roundings of what it was in between."""
    x = ir.intern(ir.Input("x", "input", "f64", (400,)))
    total = ir.comp((), ir.whole(x), "sum", (400,))
    rng = np.random.default_rng(0)
    off, moved = [], []
    for _ in range(50):
        half = rng.uniform(0.5, 1, 200)
        terms = np.concatenate([half, -rng.permutation(half)])
        off.append(abs(functools.reduce(lambda a, b: a + b, map(float, terms)) - math.fsum(terms)))
        found = rounding(Interpreter, "f64", rng)({"x": terms}, {}).run({"y": total})["y"]
        moved.append(abs(float(found) - math.fsum(terms)))
    assert np.mean(off) < np.mean(moved) < 10 * np.mean(off)

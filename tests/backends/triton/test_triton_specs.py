"""The Triton module of every spec agrees with the reference interpreter, and trains as the NumPy module does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from shipped import SMALL
from triton_modules import ROOT, check_spec

from dslc.compiler import choose
from dslc.frontend import check_file
from dslc.verification import checks
from dslc.verification.backends import LOADERS
from dslc.verification.verify import RAGGED, ragged_sizes, reference_dtype

#: layers for other specs to import, without a model of their own
PARTS = {"mixers"}
SPECS = [p for p in sorted((ROOT / "specs").glob("*/*.dsl")) if p.stem not in PARTS]
#: what makes a spec narrow enough for Triton's interpreter; long axes stay longer than a block
NARROW = {
    "width": 8, "hidden": 8, "vocabulary": 11, "levels": 11, "context": 160, "depth": 2, "heads": 2, "stages": 2,
    "blocks": 1, "side": 8, "states": 4, "rounds": 2, "steps": 5, "draws": 3, "latents": 3,
}  # fmt: skip
#: of these specs, whose axes are long for the interpreter
NARROWER: dict[str, dict[str, object]] = {
    **SMALL,
    "fft_conv": {"width": 2}, "convnext": {"width": 4},
}  # fmt: skip
#: quick ones, outputs and gradients only: every kind of kernel at least once
QUICK = {
    "mlp/mlp": 3, "mlp/half": 3, "mlp/kan": 3, "mlp/mc_dropout": 5,
    "linear/softmax_regression": 17, "linear/survival": 5,
    "linear/nearest": 5, "linear/gaussian": 3, "linear/poisson": 1, "linear/probit": 5,
    "derivatives/products": 4, "derivatives/meta": 3, "graph/gcn": 5, "recurrent/echo_state": 2,
    "convolution/textcnn": 4, "mlp/glu": 3,
}  # fmt: skip
#: draws are float32
DRAWN = {"mlp/mc_dropout", "graph/gcn"}


def narrowed(path: Path) -> dict[str, object]:
    """Settings of the sizes that a model has a default for."""
    text = path.read_text(encoding="utf-8")
    head = re.search(r"^model \w+\((.*?)\)\s*->", text, re.DOTALL | re.MULTILINE)
    assert head is not None
    narrow = {n: NARROW[n] for n in re.findall(r"\b(\w+) = ", head[1]) if n in NARROW}
    return narrow | NARROWER.get(path.stem, {})


#: spec, length -> fewer steps of training than ten: one of fft_conv takes 17 seconds there
STEPS = {("fft_conv", 130): 2}
#: sizes that a dtype asks for: with random parameters, hippo's states pass the largest float16 within nine steps
GIVEN = {("hippo", "f16"): {"T": 3}}


def failures(path: Path, lengths: Sequence[int], dtype: str = "f64") -> list[str]:
    """The checks of a spec that fail, with its open sizes of some lengths where it allows that."""
    settings = narrowed(path)
    model, train = choose(check_file(path, settings))
    ours = LOADERS["triton"](path, settings, model.name, dtype)
    theirs = LOADERS["numpy"](path, settings, model.name, reference_dtype(dtype))
    failed: list[str] = []
    for length in lengths:
        for sizes in ragged_sizes(model, train, GIVEN.get((path.stem, dtype), {}), length, [length]):
            subject = checks.Subject(model, train, sizes, length, dtype)
            if overflow := subject.overflow():
                failed.append(f"{overflow}, at {sizes}")
                continue
            found = [checks.outputs(subject, ours)]
            if train is not None:
                found += [*checks.training(subject, ours), checks.evaluation(subject, ours)]
                steps = STEPS.get((path.stem, length), checks.TRAINED)
                found.append(checks.same_training(subject, ours, theirs, steps))
            failed += [f"{x.name}: {x.error} > {x.tolerance}, {x.note} at {sizes}" for x in found if not x.ok]
    return failed


@pytest.mark.parametrize("name", ["recurrent/rwkv", "recurrent/hippo"])
def test_float16_holds_what_a_spec_computes_at_a_ragged_length(name: str) -> None:
    path = ROOT / f"specs/{name}.dsl"
    model, train = choose(check_file(path, narrowed(path)))
    for sizes in ragged_sizes(model, train, GIVEN.get((path.stem, "f16"), {}), 17, [17]):
        assert not checks.Subject(model, train, sizes, 17, "f16").overflow()


@pytest.mark.wide(4)
@pytest.mark.parametrize(("name", "size"), QUICK.items())
def test_the_module_of_a_spec_agrees_with_the_interpreter(name: str, size: int, tmp_path: Path) -> None:
    check_spec(ROOT / f"specs/{name}.dsl", tmp_path, size, tolerance=1e-5 if name in DRAWN else 1e-9)


@pytest.mark.wide(3)
@pytest.mark.parametrize("name", ["mlp/xor", "linear/calibration", "recurrent/truncated"])
def test_a_spec_trains_as_the_numpy_module_does(name: str) -> None:
    assert not failures(ROOT / f"specs/{name}.dsl", [3])


@pytest.mark.parametrize("length", [65, 130])
def test_a_spec_trains_as_the_numpy_module_does_past_the_end_of_a_block(length: int) -> None:
    assert not failures(ROOT / "specs/mlp/xor.dsl", [length])


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_spec_trains_as_the_numpy_module_does_in_other_dtypes(dtype: str) -> None:
    assert not failures(ROOT / "specs/mlp/xor.dsl", [17], dtype)


@pytest.mark.long
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_every_spec_agrees_and_trains_as_the_numpy_module_does_at_ragged_lengths(path: Path) -> None:
    assert not failures(path, RAGGED)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_every_spec_agrees_in_other_dtypes_as_far_as_they_go(path: Path, dtype: str) -> None:
    assert not failures(path, [17], dtype)


def test_a_small_transformer_agrees_with_the_interpreter(tmp_path: Path) -> None:
    settings = {"vocabulary": 7, "context": 8, "width": 8, "depth": 2, "heads": 2}
    check_spec(ROOT / "specs/transformer/gpt.dsl", tmp_path, 3, **settings)


def test_a_recurrent_network_agrees_with_the_interpreter(tmp_path: Path) -> None:
    check_spec(ROOT / "specs/recurrent/gru.dsl", tmp_path, 3, hidden=6)


def test_float32_agrees_as_far_as_it_goes(tmp_path: Path) -> None:
    check_spec(ROOT / "specs/mlp/mlp.dsl", tmp_path, 17, "f32", 1e-4)


def test_names_of_the_spec_do_not_clash_with_those_of_the_module(tmp_path: Path) -> None:
    spec = tmp_path / "clash.dsl"
    spec.write_text(
        "model m(x: f32[N, 4], h_dot_kernel: f32[N]) -> y: [N, 4]:\n"
        "    param tl: [4, 4] ~ glorot\n"
        "    h[n, o] = x[n, i] * tl[i, o] + h_dot_kernel[n]\n"
        "    y = h\n\n"
        "train m(x, h_dot_kernel, triton: f32[N, 4]):\n"
        "    minimize mean[n, o]((m(x, h_dot_kernel)[n, o] - triton[n, o])^2)\n"
        "    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    check_spec(spec, tmp_path, 3)


def test_a_wrapped_index_goes_around_the_axis_that_it_is_on(tmp_path: Path) -> None:
    spec = tmp_path / "wrapped.dsl"
    spec.write_text(
        "model m(x: f32[N]) -> y: [N]:\n"
        "    param w: [4] ~ normal\n"
        "    v = w[0:3]\n"
        "    y[i] = x[i] * v[wrap(i - 1)] + v[clamp(i + 1)]\n",
        encoding="utf-8",
    )
    check_spec(spec, tmp_path, 3)


def test_products_of_known_numbers_are_exact(tmp_path: Path) -> None:
    spec = tmp_path / "known.dsl"
    spec.write_text(
        "model m(x: f64[N], place: i64[N] < 2) -> (low: [2], cost: []):\n"
        "    param w: [2] ~ normal\n"
        "    cost = sum[i](w[i] * tanh(w[i])) / 5.0\n"
        "    s[place[n]: 2] min= stop_grad(w[place[n]] * x[n])\n"
        "    low[p] = s[p] if isfinite(s[p]) else 0\n\n"
        "train m(x, place):\n"
        "    low, cost = m(x, place)\n"
        "    minimize sum[i](low[i] * cos(0.6 * i)) + 1.7 * cost\n"
        "    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    check_spec(spec, tmp_path, 3)

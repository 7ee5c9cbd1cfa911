"""f16 and bf16: parameters and tensors are kept in 16 bits, computed with in float32, rounded where they are stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dslc.backends.triton.bfloat16 import as_on_a_device
from samples import sample, separate
from triton_modules import ROOT, numpy_module, tensor, tensors, triton_module

from dslc import pipeline
from dslc.compiler import choose, compile_text
from dslc.frontend import check_file
from dslc.meaning.interpret import Interpreter

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
#: specs that round to bfloat16 themselves
COARSE = {"half"}
GPT = {"vocabulary": 7, "context": 8, "width": 16, "depth": 2, "heads": 2}


@pytest.fixture(autouse=True)
def _repaired() -> Iterator[None]:
    with as_on_a_device():
        yield


def near(found: torch.Tensor, wanted: Any, dtype: torch.dtype, name: str, roundings: int = 8) -> None:
    """As near as some roundings to 16 bits allow; in length, since a rounding may turn a relu on or off."""
    wanted = np.asarray(wanted, np.float64)
    error = float(np.linalg.norm(found.detach().double().numpy() - wanted))
    scale = max(float(np.linalg.norm(wanted)), 1e-3)
    assert error <= roundings * torch.finfo(dtype).eps / 2 * scale, f"{name}: {error / scale}"


def check(path: Path, folder: Path, dtype: str, size: int, **settings: object) -> None:
    """Outputs, loss and gradients of a module in 16 bits against the interpreter in float64 on the same inputs."""
    model, train = choose(check_file(path, settings))
    module, kind = triton_module(path, folder, dtype, **settings), TYPES.get(dtype, torch.float32)
    unit_of = torch.bfloat16 if path.stem in COARSE else kind
    rng = np.random.default_rng(size)
    programs = [pipeline.forward(model)] + ([pipeline.training(train)] if train else [])
    for program in programs:
        unit = program.unit
        inputs, sizes = sample(unit, rng, size)
        inputs = {
            k: x
            if unit.inputs[k].role == "state" or x.dtype.kind != "f"
            else torch.as_tensor(x).to(kind).double().numpy()
            for k, x in inputs.items()
        }
        params = tensors(separate(unit, inputs, unit.params), kind)
        data = [tensor(inputs[k], kind) for k, x in unit.inputs.items() if x.role == "input"]
        state = [tensors(separate(unit, inputs, unit.states), torch.float32)] if unit.states else []
        with np.errstate(all="ignore"):
            wanted = Interpreter(inputs, sizes).run(program.outputs)
            if not program.gradients():
                found = module.forward(params, *data, *state)
                found = found if isinstance(found, dict) else dict.fromkeys(wanted, found)
                for name, value in wanted.items():
                    near(found[name], value, unit_of, name)
                continue
            loss, grads, _, states = module.loss_grad_metrics(params, *data, *state)
        near(loss, wanted["loss"], unit_of, "loss")
        slopes = separate(unit, {k: wanted[f"gradient {k}"] for k in program.gradients()}, program.gradients())
        for name, value in slopes.items():
            assert grads[name].dtype == torch.float32
            near(grads[name], value, unit_of, f"gradient of {name}", 16)
        for name, value in separate(
            unit, {k: wanted[f"state {k}"] for k in program.states()}, program.states()
        ).items():
            assert states[name].dtype == torch.float32
            near(states[name], value, unit_of, name)


@pytest.mark.wide(8)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("name", "size", "settings"),
    [
        ("mlp/mlp", 17, {}),
        ("linear/softmax_regression", 3, {}),
        ("transformer/gpt", 3, GPT),
        ("recurrent/gru", 3, {"hidden": 6}),
        pytest.param("recurrent/lru", 5, {}, marks=pytest.mark.long),
        pytest.param("convolution/local", 2, {}, marks=pytest.mark.long),
        pytest.param("mlp/half", 3, {}, marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_a_module_in_16_bits_agrees_as_far_as_they_go(
    name: str, size: int, settings: dict[str, object], dtype: str, tmp_path: Path
) -> None:
    check(ROOT / f"specs/{name}.dsl", tmp_path, dtype, size, **settings)


@pytest.mark.long
def test_a_spec_that_declares_16_bits_itself_agrees_as_far_as_they_go(tmp_path: Path) -> None:
    check(ROOT / "specs/mlp/half.dsl", tmp_path, "f32", 17)


@pytest.mark.long
@pytest.mark.parametrize("dtype", TYPES)
def test_ten_steps_stay_near_those_in_float32(dtype: str, tmp_path: Path) -> None:
    spec = ROOT / "specs/mlp/mlp.dsl"
    ours, theirs = triton_module(spec, tmp_path, dtype), numpy_module(spec, tmp_path)
    a = ours.init(0)
    assert all(x.dtype == TYPES[dtype] for x in a.values())
    b = {k: v.float().numpy() for k, v in a.items()}
    first = {k: v.copy() for k, v in b.items()}
    opt_a, opt_b = ours.init_opt(a), theirs.init_opt(b)
    rng = np.random.default_rng(0)
    for _ in range(10):
        x = torch.as_tensor(rng.normal(size=(8, 64))).to(TYPES[dtype])
        label = rng.integers(0, 10, 8)
        ours.train_step(a, opt_a, x, label)
        theirs.train_step(b, opt_b, x.float().numpy(), label)
        near(opt_a["loss"], opt_b["loss"], TYPES[dtype], "loss", 16)
    for name, value in b.items():
        assert opt_a["param"][name].dtype == opt_a["m"][name].dtype == torch.float32
        torch.testing.assert_close(opt_a["param"][name].to(TYPES[dtype]), a[name], rtol=0, atol=0)
        # Adam's first steps go by the sign of a gradient: those of entries near 0 are chance
        moved, expected = opt_a["param"][name].numpy() - first[name], value - first[name]
        assert np.corrcoef(moved.ravel(), expected.ravel())[0, 1] > 0.95, name


def test_products_of_tensors_in_16_bits_are_taken_in_16_bits_and_summed_in_float32() -> None:
    text = compile_text(ROOT / "specs/transformer/gpt.dsl", "triton", GPT, "bf16")
    dots = [line for line in text.splitlines() if "tl.dot(" in line]
    assert dots and not any("ieee" in line for line in dots)
    assert "tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), tl.float32)" in text


def test_a_product_with_a_float32_side_stays_in_float32(tmp_path: Path) -> None:
    text = compile_text(ROOT / "specs/mlp/half.dsl", "triton", {}, "f32")
    dots = [line for line in text.splitlines() if "tl.dot(" in line]
    assert dots and all("ieee" in line for line in dots)


def test_a_product_of_declared_halves_is_taken_in_16_bits(tmp_path: Path) -> None:
    spec = tmp_path / "declared.dsl"
    spec.write_text(
        "model m(x: bf16[N, 33], w: bf16[33, K]) -> y: f32[N, K]:\n    y[n, k] = f32(sum[i](x[n, i] * w[i, k]))\n",
        encoding="utf-8",
    )
    module = triton_module(spec, tmp_path)
    assert "ieee" not in (tmp_path / "declared_triton.py").read_text(encoding="utf-8")
    rng = np.random.default_rng(0)
    x, w = (torch.as_tensor(rng.normal(size=s)).to(torch.bfloat16) for s in ((5, 33), (33, 7)))
    near(module.forward({}, x, w), (x.double() @ w.double()).numpy(), torch.bfloat16, "y", 2)


def test_states_of_a_model_in_16_bits_are_float32(tmp_path: Path) -> None:
    spec = tmp_path / "normed.dsl"
    spec.write_text(
        "model m(x: f32[N, 6]) -> y: [N, 3]:\n    h = batch_norm(x)\n    y = dense(h, 3)\n\n"
        "train m(x, t: f32[N, 3]):\n    minimize mean[n, o]((m(x)[n, o] - t[n, o])^2)\n    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    check(spec, tmp_path, "bf16", 5)


def test_parameters_that_a_spec_declares_in_16_bits_are_trained(tmp_path: Path) -> None:
    spec = tmp_path / "declared_param.dsl"
    spec.write_text(
        "model m(x: f32[N, 5]) -> y: [N]:\n    param w: bf16[5] ~ normal\n    y[n] = x[n, i] * f32(w[i])\n\n"
        "train m(x, t: f32[N]):\n    minimize mean[n]((m(x)[n] - t[n])^2)\n    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    ours, theirs = triton_module(spec, tmp_path), numpy_module(spec, tmp_path)
    b = theirs.init(0)
    a = {k: torch.as_tensor(v.copy()) for k, v in b.items()}
    opt_a, opt_b = ours.init_opt(a), theirs.init_opt(b)
    rng = np.random.default_rng(0)
    for _ in range(3):
        x, t = rng.normal(size=(4, 5)), rng.normal(size=4)
        ours.train_step(a, opt_a, x, t)
        theirs.train_step(b, opt_b, x, t)
        near(opt_a["loss"], opt_b["loss"], torch.bfloat16, "loss")
        near(a["w"], b["w"], torch.bfloat16, "w", 2)


@pytest.mark.parametrize("kind", TYPES)
def test_sums_of_16_bits_without_a_name_are_not_rounded(kind: str, tmp_path: Path) -> None:
    spec = tmp_path / "unnamed.dsl"
    spec.write_text(
        f"model m(x: f32[N, 64], w: f32[M]) -> (y: [N, M], dx: [N, 64]):\n    h = {kind}(x)\n"
        "    y[n, m] = sum[k](h[n, k]) * w[m] / 2 + max[k](h[n, k])\n"
        "    total = sum[n](float(sum[k](h[n, k]))^2)\n    dx = grad(total, x)\n",
        encoding="utf-8",
    )
    module, rng = triton_module(spec, tmp_path), np.random.default_rng(0)
    x, w = torch.tensor(30 * rng.normal(size=(5, 64)), dtype=torch.float32), torch.tensor(rng.normal(size=3)).float()
    h = x.to(TYPES[kind]).double()
    y, dx = module.forward({}, x, w).values()
    torch.testing.assert_close(y.double(), h.sum(1)[:, None] * w / 2 + h.amax(1)[:, None], rtol=1e-6, atol=1e-5)
    near(dx, (2 * h.sum(1))[:, None].expand(5, 64), TYPES[kind], "dx", 1)  # the slope of a cast is one: it rounds

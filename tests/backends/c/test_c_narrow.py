"""`--dtype f16` and `bf16` in C: parameters, inputs and outputs have 16 bits in memory, and formulas are in float32."""

from __future__ import annotations

import re
import subprocess
import sys
from copy import deepcopy
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from cases import QUICK, SPECS, Case, Given
from safetensors.torch import load_file
from test_c_specs import SOLVED, UNSIGNED, distance, outputs, trained

import dslc
from dslc.arrays import BFLOAT16, as_kept, as_numbers
from dslc.compiler import compile_files

ROOT = Path(__file__).parents[3]
MLP = ROOT / "specs/mlp/mlp.dsl"
KINDS = {"f16": np.dtype(np.float16), "bf16": BFLOAT16}
TORCH = {"f16": torch.float16, "bf16": torch.bfloat16}
#: half the distance of two numbers near 1
ROUNDING = {"f16": 2.0**-11, "bf16": 2.0**-8}

Arrays = dict[str, Any]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSLC_CFLAGS", QUICK)


class Rounded(Case):
    """A case whose parameters and inputs are numbers of 16 bits."""

    kind = "bf16"

    def sample(self, unit: Any, instance: Any) -> tuple[Arrays, dict[str, int]]:
        inputs, sizes = super().sample(unit, instance)
        for name, x in inputs.items():
            node = unit.inputs[name]
            if x.dtype == np.float64 and (node.role == "param" or (node.role == "input" and node.shape)):
                if node.role == "param" or node.dtype in ("float", "f32"):
                    inputs[name] = as_numbers(as_kept(x, KINDS[self.kind])).astype(np.float64)
        return inputs, sizes


def reference(case: Case) -> ModuleType:
    """The module of NumPy in float32, which takes rounded probabilities, whatever they add up to."""
    module = case.module("numpy", "f32")
    vars(module)["simplex"] = lambda name, value: None
    return module


def kept(given: Given, kind: str) -> Given:
    params = {name: as_kept(x, KINDS[kind]) for name, x in given.params.items()}
    return Given(params, given.data, given.state, given.wanted)


@pytest.mark.wide(11)
@pytest.mark.parametrize("path", SPECS)
@pytest.mark.parametrize("kind", KINDS)
def test_modules_compute_in_float32_on_numbers_of_16_bits(path: str, kind: str, monkeypatch: Any) -> None:
    """Loss, gradients and states are as near to the interpreter as in float32; outputs are rounded once."""
    monkeypatch.setattr(Rounded, "kind", kind)
    case = Rounded(path, 5)
    module, single = case.module("c", kind), reference(case)
    assert module.PARAMS == single.PARAMS
    for call, exact in [(outputs, case.forward)] + ([(trained, case.training)] if case.train is not None else []):
        given = exact.rounded("f32")
        with np.errstate(all="ignore"):
            found, other = call(module, kept(given, kind)), call(single, given)
        worst = max((distance(other[k], x) for k, x in exact.wanted.items() if k not in UNSIGNED), default=0.0)
        allowed = (64 if case.path.stem in SOLVED else 8) * worst + 1e-6
        for name, wanted in exact.wanted.items():
            value, nearest = found[name], np.asarray(other[name])
            narrow = call is outputs and wanted.shape and nearest.dtype == np.float32
            if name in UNSIGNED:
                wanted, value = np.abs(wanted), np.abs(value)
            if narrow and kind == "f16":
                assert value.dtype == np.float16
                with np.errstate(all="ignore"):
                    wanted = np.where(np.abs(wanted) >= 65520, np.sign(wanted) * np.inf, wanted)
            off = distance(as_numbers(value), wanted)
            assert off <= allowed + (ROUNDING[kind] if narrow else 0), f"{name} is off by {off:.2g}"


@pytest.mark.wide(9)
@pytest.mark.parametrize("path", SPECS)
@pytest.mark.parametrize("kind", KINDS)
def test_ten_steps_are_those_of_an_optimiser_that_keeps_float32(path: str, kind: str) -> None:
    case = Case(path)
    if case.train is None:
        pytest.skip("it has no training")
    half, single = case.module("c", kind), reference(case)
    params = half.init(seed=0)
    opt = half.init_opt(params)
    data = case.training.rounded("f32").data
    given = [rounded(x, kind) if x.dtype == np.float32 and x.ndim else x for x in data]
    accepted = signature(single.loss_grad_metrics).parameters
    for _ in range(10):
        # the gradient at rounded parameters, and the update of those in float32
        other = deepcopy(opt)
        exact = {name: np.array(x) for name, x in other.pop("param").items()}
        more = {"seed": opt["seed"] + opt["step"] + 1, "state": other.get("state")}
        more = {name: x for name, x in more.items() if name in accepted}
        near = {name: as_numbers(x).astype(np.float32) for name, x in params.items()}
        loss, grads, _, states = single.loss_grad_metrics(near, *given, **more)
        single.update(exact, other, grads)
        largest = max(np.abs(x).max() for x in grads.values())
        before = deepcopy(opt["param"])
        half.train_step(params, opt, *data)
        assert distance(opt["loss"], loss) <= 1e-5
        for name, wanted in (states or {}).items():
            assert distance(opt["state"][name], wanted) <= 1e-4
        for name in grads:
            wanted = exact[name]
            found, start = opt["param"][name], before[name]
            assert found.dtype == np.float32 and params[name].dtype == KINDS[kind]
            np.testing.assert_array_equal(params[name], as_kept(found, KINDS[kind]))
            # Adam's first steps go by the sign of a gradient: that of entries near 0 is chance
            sure = np.abs(grads[name]) > 1e-5 * largest + 1e-6
            off, moved = np.linalg.norm((found - wanted)[sure]), np.linalg.norm((wanted - start)[sure])
            assert off <= 0.01 * moved + 1e-6 * np.linalg.norm(wanted), name


def rounded(x: np.ndarray, kind: str) -> np.ndarray:
    return as_numbers(as_kept(x, KINDS[kind])).astype(np.float32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", ["safetensors", "npz"])
def test_files_hold_16_bits_and_come_back_as_they_were(kind: str, ending: str, tmp_path: Path) -> None:
    module, single = dslc.compile(MLP, backend="c", dtype=kind), dslc.compile(MLP, backend="numpy")
    params, path = module.init(seed=1), str(tmp_path / f"w.{ending}")
    module.save(params, path)
    back = module.load(path)
    for name, x in params.items():
        assert back[name].dtype == x.dtype == KINDS[kind]
        np.testing.assert_array_equal(back[name], x)
    if ending == "safetensors":
        found = load_file(path)
        assert {x.dtype for x in found.values()} == {TORCH[kind]}
        np.testing.assert_array_equal(found["dense.W"].float().numpy(), as_numbers(params["dense.W"]))
    for name, x in single.load(path).items():  # and other modules read it
        np.testing.assert_array_equal(x, as_numbers(params[name]).astype(np.float32))


def test_bits_and_numbers_are_converted_by_the_module() -> None:
    module = dslc.compile(MLP, backend="c", dtype="bf16")
    x = np.array([1.0, -2.5, 3.14159, 1e-40, np.inf, np.nan, 3.4e38])
    kept = module.to_bf16(x)
    assert kept.dtype == module.DTYPE == BFLOAT16
    wanted = torch.from_numpy(x.astype(np.float32)).bfloat16().float().numpy()
    np.testing.assert_array_equal(module.from_bf16(kept), wanted)
    np.testing.assert_array_equal(torch.from_numpy(kept.view(np.int16)).view(torch.bfloat16).float().numpy(), wanted)


def test_parameters_in_other_dtypes_are_refused() -> None:
    module = dslc.compile(MLP, backend="c", dtype="bf16")
    params = {name: module.from_bf16(x) for name, x in module.init().items()}
    x = np.zeros((1, 64), np.float32)
    with pytest.raises(ValueError, match=r"dense\.W: expected \|V2 \(64, 128\), which to_bf16 makes, found float32"):
        module.forward(params, x)
    params = module.init()
    opt = module.init_opt(params)
    opt["param"] = params
    with pytest.raises(ValueError, match=r"opt\.param\.dense\.W: expected float32 \(64, 128\), found \|V2"):
        module.train_step(params, opt, x, np.zeros(1, np.int32))


@pytest.mark.parametrize("kind", KINDS)
def test_a_module_of_torch_has_parameters_of_16_bits(kind: str) -> None:
    module = dslc.compile(MLP, backend="c", dtype=kind)
    made = module.Module(seed=0)
    assert {p.dtype for p in made.parameters()} == {TORCH[kind]}
    random = torch.Generator().manual_seed(0)
    x = torch.randn(7, 64, generator=random).to(TORCH[kind]).requires_grad_()
    found = made(x)
    assert found.dtype == TORCH[kind]
    weight = torch.randn(7, 10, generator=random).to(TORCH[kind])
    found.backward(weight)
    own = {name: p.detach().float().requires_grad_() for name, p in made.named_parameters()}
    wide = x.detach().float().requires_grad_()
    h = torch.nn.functional.gelu(wide @ own["dense.W"] + own["dense.b"])
    h = torch.nn.functional.gelu(h @ own["dense2.W"] + own["dense2.b"])
    y = h @ own["dense3.W"] + own["dense3.b"]
    y.backward(weight.float())
    near = {"rtol": 4 * ROUNDING[kind], "atol": 4 * ROUNDING[kind]}
    torch.testing.assert_close(found.float(), y, **near)
    assert x.grad is not None and x.grad.dtype == TORCH[kind]
    torch.testing.assert_close(x.grad.float(), wide.grad, **near)
    for name, p in made.named_parameters():
        assert p.grad is not None and p.grad.dtype == TORCH[kind]
        torch.testing.assert_close(p.grad.float(), own[name].grad, **near)
    params = {n: as_kept(p.detach().float().numpy(), KINDS[kind]) for n, p in made.named_parameters()}
    again = module.forward(params, x.detach().float().numpy())
    np.testing.assert_array_equal(again.astype(np.float32), found.detach().float().numpy())


def test_an_optimiser_of_torch_trains_bfloat16() -> None:
    made = dslc.compile(MLP, backend="c", dtype="bf16").Module(seed=0)
    optimiser = torch.optim.AdamW(made.parameters(), lr=1e-2)
    x, label = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)), torch.arange(64) % 10
    losses = []
    for _ in range(30):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(made(x).float(), label)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.parametrize("kind", KINDS)
def test_steps_of_a_sequence_give_what_the_whole_gives(kind: str) -> None:
    settings = {"vocabulary": 7, "context": 8, "width": 16, "depth": 2, "heads": 2}
    module = dslc.compile(ROOT / "specs/transformer/gpt.dsl", backend="c", dtype=kind, **settings)
    params, token = module.init(seed=0), np.random.default_rng(0).integers(0, 7, (3, 8)).astype(np.int32)
    whole, cache = module.forward(params, token), module.init_cache(params, N=3, length=8)
    for t in range(8):
        found, cache = module.step(params, cache, token[:, t])
        assert found.dtype == whole.dtype
        np.testing.assert_allclose(found.astype(float), whole[:, t].astype(float), atol=8 * ROUNDING[kind])
    assert all(x.dtype == np.float32 for x in cache.values() if isinstance(x, np.ndarray))


def test_a_layer_at_a_time_is_made_wider() -> None:
    """The workspace of 96 layers has no copy of all parameters."""
    text = compile_files(ROOT / "specs/transformer/gpt.dsl", "c", {"depth": 96}, "bf16")["gpt.c"]
    layout = re.search(r"static size_t forward_layout.*?\n\}", text, re.DOTALL)
    assert layout is not None and not re.search(r"\b96\b", layout[0])


PROGRAM = r"""
#include <stdio.h>
#include "line.h"
static float wide(uint16_t bits) { union { uint32_t u; float f; } x = {(uint32_t)bits << 16}; return x.f; }
int main(void) {
    uint16_t W[2] = {0x3F80, 0x4000}, x[4] = {0x3F80, 0x3F80, 0x4040, 0x0000}, y[2], t[2] = {0, 0};
    float dW[2], exact[2] = {1, 2}, loss;
    line_params params = {W};
    line_wide_params grads = {dW}, param = {exact};
    _Alignas(64) static char memory[1 << 16];
    line_forward_arguments f = {.N = 2, .x = x, .params = &params, .y = y};
    int32_t code = line_forward(&f, memory, sizeof memory);
    if (code) { puts(line_message(code)); return 1; }
    line_loss_grad_metrics_arguments g = {.N = 2, .x = x, .t = t, .params = &params, .loss = &loss, .grads = &grads};
    code = line_loss_grad_metrics(&g, memory, sizeof memory);
    if (code) { puts(line_message(code)); return 1; }
    line_update_arguments u = {.lr = 0.001, .grads = &grads, .params = &params, .param = &param};
    for (int k = 0; k < 10; k++)
        if ((code = line_update(&u, memory, sizeof memory))) { puts(line_message(code)); return 1; }
    printf("%g %g %g %g %g ", wide(y[0]), wide(y[1]), loss, dW[0], dW[1]);
    printf("%.6g %.6g %g %g\n", exact[0], exact[1], wide(W[0]), wide(W[1]));
    u.param = NULL;
    puts(line_message(line_update(&u, memory, sizeof memory)));
    param.W = NULL, u.param = &param;
    puts(line_message(line_update(&u, memory, sizeof memory)));
    return 0;
}
"""


def test_a_program_of_c_trains_in_bfloat16(tmp_path: Path) -> None:
    (tmp_path / "line.dsl").write_text(
        "model line(x: [N, 2]) -> y: [N]:\n    param W: [2] ~ normal\n    y[n] = x[n, i] * W[i]\n\n"
        "train line(x, t: [N]):\n    minimize sum((line(x) - t)^2)\n    using sgd(lr = 0.001)\n",
        encoding="utf-8",
    )
    for name, text in compile_files(tmp_path / "line.dsl", "c", dtype="bf16").items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "program.c").write_text(PROGRAM, encoding="utf-8")
    command = [
        "cc",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fopenmp-simd",
        "-pthread",
        "program.c",
        "line.c",
        "-lm",
        "-o",
        "program",
    ]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["./program"], cwd=tmp_path, capture_output=True, text=True, check=True)
    # y = 3, 3; gradients 2 * 3 * (1 + 3), 2 * 3; ten small steps move the float, and then the 16 bits
    first, *others = done.stdout.splitlines()
    numbers = [float(x) for x in first.split()]
    assert numbers[:5] == [3, 3, 18, 24, 6]
    np.testing.assert_allclose(numbers[5:7], [0.76, 1.94], rtol=1e-5)
    np.testing.assert_allclose(numbers[7:], [0.76, 1.94], rtol=ROUNDING["bf16"])
    assert others == ["param is missing", "opt.param.W is missing"]


def test_commands_train_resume_and_run(tmp_path: Path) -> None:
    """Average, length of steps and checkpoints work on bits as on numbers."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 64)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, label=(x[:, 0] > 0).astype(np.int64))
    np.savez(tmp_path / "x.npz", x=x[:5])

    def dslc_(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "dslc", *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    common = ["--backend", "c", "--dtype", "bf16"]
    train = ["train", str(MLP), "--data", "data.npz", "-o", "run", *common, "--validation", "0.2"]
    dslc_(*train, "--epochs", "2")
    assert "resumed at" in dslc_(*train, "--epochs", "3")
    dslc_("run", str(MLP), "--weights", "run/weights.safetensors", "--inputs", "x.npz", "-o", "y.npz", *common)
    weights = load_file(tmp_path / "run/weights.safetensors")
    assert {w.dtype for w in weights.values()} == {torch.bfloat16}
    module = dslc.compile(MLP, backend="c", dtype="bf16")
    params = module.load(str(tmp_path / "run/weights.safetensors"))
    np.testing.assert_array_equal(np.load(tmp_path / "y.npz")["logits"], module.forward(params, x[:5]))

"""`--dtype f16` on NumPy: parameters, inputs and outputs are float16, computed with in float32; bf16 is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import dslc
from dslc.cli.main import cli
from dslc.compiler import compile_text

ROOT = Path(__file__).parents[2]
MLP = ROOT / "specs/mlp/mlp.dsl"


def test_outputs_are_those_in_float32_rounded() -> None:
    half, single = dslc.compile(str(MLP), dtype="f16"), dslc.compile(str(MLP))
    params = half.init(0)
    assert all(x.dtype == np.float16 for x in params.values())
    x = np.random.default_rng(0).normal(size=(5, 64)).astype(np.float16)
    found = half.forward(params, x)
    wide = single.forward({k: v.astype(np.float32) for k, v in params.items()}, x.astype(np.float32))
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, wide.astype(np.float16))


def test_training_steps_are_those_in_float32_on_rounded_parameters() -> None:
    half, single = dslc.compile(str(MLP), dtype="f16"), dslc.compile(str(MLP))
    a = half.init(0)
    b = {k: v.astype(np.float32) for k, v in a.items()}
    opt_a, opt_b = half.init_opt(a), single.init_opt(b)
    rng = np.random.default_rng(0)
    for _ in range(10):
        x, label = rng.normal(size=(8, 64)).astype(np.float16), rng.integers(0, 10, 8)
        half.train_step(a, opt_a, x, label)
        _, grads = single.loss_and_grad({k: v.astype(np.float32) for k, v in a.items()}, x, label)
        assert all(g.dtype == np.float32 for g in grads.values())
        single.train_step(b, opt_b, x, label)
        assert abs(float(opt_a["loss"]) - float(opt_b["loss"])) < 8 * np.finfo(np.float16).eps * float(opt_b["loss"])
    for name, value in a.items():
        np.testing.assert_array_equal(value, opt_a["param"][name].astype(np.float16))
        assert opt_a["m"][name].dtype == np.float32
    assert any((opt_a["param"][k] != v).any() for k, v in a.items())


def test_states_stay_in_float32_on_disk_too(tmp_path: Path) -> None:
    spec = tmp_path / "normed.dsl"
    spec.write_text("model m(x: f32[N, 6]) -> y: [N, 6]:\n    y = batch_norm(x)\n", encoding="utf-8")
    module = dslc.compile(str(spec), dtype="f16")
    state = {k: v + np.float32(0.1) for k, v in module.init_state().items()}
    module.save(module.init(0), str(tmp_path / "w.safetensors"), state)
    for name, value in module.load_state(str(tmp_path / "w.safetensors")).items():
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, state[name])
    assert all(v.dtype == np.float16 for v in module.load(str(tmp_path / "w.safetensors")).values())


def test_bfloat16_is_refused_with_a_way_out() -> None:
    instead = "take the dtype f32 or f16, or the backend c or triton"
    with pytest.raises(ValueError, match=f"NumPy has no bfloat16: {instead}"):
        compile_text(MLP, "numpy", dtype="bf16")
    done = CliRunner().invoke(cli, ["compile", str(MLP), "--dtype", "bf16"])
    assert done.exit_code == 2 and "NumPy has no bfloat16" in done.output


@pytest.mark.parametrize(("dtype", "kind"), [("f16", torch.float16), ("bf16", torch.bfloat16)])
def test_values_that_a_spec_declares_in_16_bits_round_as_torch_rounds_them(
    dtype: str, kind: torch.dtype, tmp_path: Path
) -> None:
    spec = tmp_path / "declared.dsl"
    spec.write_text(
        f"model m(x: {dtype}[N], z: f32[N]) -> (y: f32[N], w: f32[N]):\n"
        f"    y[n] = f32(x[n])\n    h[n] = {dtype}(z[n])\n    w[n] = f32(h[n])\n",
        encoding="utf-8",
    )
    values = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    values[:5] = 0.0, -0.0, np.inf, np.nan, 1e-40
    found = dslc.compile(str(spec)).forward({}, values, values)
    expected = torch.as_tensor(values).to(kind).float().numpy()
    np.testing.assert_array_equal(found["y"], expected)
    np.testing.assert_array_equal(found["w"], expected)

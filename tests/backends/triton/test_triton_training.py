"""Training: the same steps as the NumPy module takes, with the same random bits; weights move between backends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from dslc.backends.triton.bfloat16 import as_on_a_device
from samples import sample
from triton_modules import ROOT, numpy_module, triton_module

from dslc.builder.build import build_train
from dslc.compiler import choose
from dslc.frontend import check_file


@pytest.mark.long
@pytest.mark.parametrize("name", ["mlp/own_optimizer", "mlp/mlp", "mlp/mc_dropout"])
def test_ten_steps_are_those_of_the_numpy_module(name: str, tmp_path: Path) -> None:
    spec = ROOT / f"specs/{name}.dsl"
    ours, theirs = triton_module(spec, tmp_path), numpy_module(spec, tmp_path)
    a, b = ours.init(0), theirs.init(0)
    for key, value in b.items():
        np.testing.assert_allclose(a[key].numpy(), value, rtol=1e-4, atol=1e-6, err_msg=key)
    a = {k: torch.as_tensor(v.copy()) for k, v in b.items()}
    opt_a, opt_b = ours.init_opt(a, seed=3), theirs.init_opt(b, seed=3)
    _, train = choose(check_file(spec))
    assert train is not None
    unit = build_train(train)
    rng = np.random.default_rng(0)
    for _ in range(10):
        inputs, _ = sample(unit, rng, 5)
        data = [v for k, v in inputs.items() if unit.inputs[k].role == "input"]
        ours.train_step(a, opt_a, *data)
        theirs.train_step(b, opt_b, *data)
        np.testing.assert_allclose(float(opt_a["loss"]), float(opt_b["loss"]), rtol=1e-4)
    for key, value in b.items():
        np.testing.assert_allclose(a[key].numpy(), value, rtol=1e-3, atol=1e-5, err_msg=key)


LAYERS_AND_STATES = """
layer block(x: [N, E]) -> y: [N, E]:
    y = x + (x |> dense(E) |> batch_norm |> tanh)

model m(x: f32[N, 6], depth = 3) -> y: [N, 2]:
    h = x
    for l in 0..depth:
        h = block(h)
    y = h |> dense(2)

train m(x, goal: f32[N, 2]):
    minimize mean[n, o]((m(x)[n, o] - goal[n, o])^2)
    using sgd(lr = 0.1)
"""


def test_weights_move_between_backends(tmp_path: Path) -> None:
    spec = tmp_path / "m.dsl"
    spec.write_text(LAYERS_AND_STATES, encoding="utf-8")
    ours, theirs = triton_module(spec, tmp_path), numpy_module(spec, tmp_path)
    rng = np.random.default_rng(0)
    x, goal = (rng.normal(size=(5, n)).astype(np.float32) for n in (6, 2))
    params = theirs.init(1)
    opt = theirs.init_opt(params, 0)
    params, opt = theirs.train_step(params, opt, x, goal)  # states have moved
    there, back = str(tmp_path / "there.safetensors"), str(tmp_path / "back.safetensors")
    theirs.save(params, there, opt["state"])
    loaded, state = ours.load(there), ours.load_state(there)
    expected = theirs.forward(params, x, opt["state"])
    np.testing.assert_allclose(ours.forward(loaded, x, state).numpy(), expected, rtol=1e-5, atol=1e-6)
    ours.save(loaded, back, state)
    np.testing.assert_array_equal(theirs.forward(theirs.load(back), x, theirs.load_state(back)), expected)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64"])
def test_weights_of_another_float_move_there_and_back_unchanged(dtype: str, tmp_path: Path) -> None:
    spec = tmp_path / "m.dsl"
    spec.write_text(LAYERS_AND_STATES, encoding="utf-8")
    ours, theirs = triton_module(spec, tmp_path, dtype), numpy_module(spec, tmp_path)
    params, state = ours.init(1), ours.init_state()
    there, back = str(tmp_path / "there.safetensors"), str(tmp_path / "back.safetensors")
    ours.save(params, there, state)
    loaded, states = theirs.load(there), theirs.load_state(there)
    assert {x.dtype for x in (*loaded.values(), *states.values())} == {np.dtype(np.float32)}
    for name, value in params.items():
        np.testing.assert_array_equal(loaded[name], value.float().numpy())
    theirs.save(loaded, back, states)
    for name, value in ours.load(back).items():
        assert value.dtype == params[name].dtype
        assert torch.equal(value, params[name].float().to(value.dtype))
    x = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    with as_on_a_device():
        found = ours.forward(params, x, state).float().numpy()
    np.testing.assert_allclose(found, theirs.forward(loaded, x, states), atol=0.05 if dtype == "bf16" else 0.005)


def test_weights_of_a_float_that_numpy_cannot_hold_are_refused_by_name(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    module = numpy_module(ROOT / "specs/mlp/mlp.dsl", tmp_path)
    path = str(tmp_path / "w.safetensors")
    save_file({k: torch.as_tensor(v).to(torch.float8_e5m2) for k, v in module.init(0).items()}, path)
    with pytest.raises(ValueError, match=r"\.[Wb] is F8_E5M2 \(.*\) in \d+ bytes, expected numbers \("):
        module.load(path)


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    module = triton_module(ROOT / "specs/mlp/mlp.dsl", tmp_path)
    other = triton_module(ROOT / "specs/linear/softmax_regression.dsl", tmp_path)
    other.save(other.init(0), str(tmp_path / "w.safetensors"))
    with pytest.raises(ValueError, match="holds the weights of another model"):
        module.load(str(tmp_path / "w.safetensors"))


def test_bad_arguments_are_named(tmp_path: Path) -> None:
    module = triton_module(ROOT / "specs/mlp/mlp.dsl", tmp_path)
    params = module.init(0)
    with pytest.raises(ValueError, match="x: expected 64 along axis 1, found 63"):
        module.forward(params, np.zeros((2, 63)))
    with pytest.raises(ValueError, match=r"label: expected 0 <= value < 10, found 10 at \(1,\)"):
        module.loss_and_grad(params, np.zeros((2, 64)), np.array([0, 10]))
    with pytest.raises(TypeError, match="label: expected int64, found float64"):
        module.loss_and_grad(params, np.zeros((2, 64)), np.zeros(2))

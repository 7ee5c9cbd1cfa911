"""`Module`: a torch.nn.Module with the names of the spec and the generated backward pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from triton_modules import ROOT, numpy_module, triton_module

SPEC = """
model m(x: f32[N, 5], scale: f32[N]) -> (y: [N, 3], s: [N]):
    h = x |> dense(4) |> tanh
    y = dense(h, 3)
    s[n] = scale[n] * sum[o](y[n, o]^2)
"""


def small(tmp_path: Path) -> torch.nn.Module:
    spec = tmp_path / "small.dsl"
    spec.write_text(SPEC, encoding="utf-8")
    module: torch.nn.Module = triton_module(spec, tmp_path, "f64").Module(seed=1)
    return module


def test_gradients_pass_gradcheck(tmp_path: Path) -> None:
    module = small(tmp_path)
    rng = np.random.default_rng(0)
    x = torch.as_tensor(rng.normal(size=(2, 5))).requires_grad_()
    scale = torch.as_tensor(rng.normal(size=2)).requires_grad_()
    names = [n for n, _ in module.named_parameters()]

    def run(x: torch.Tensor, scale: torch.Tensor, *params: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = torch.func.functional_call(module, dict(zip(names, params, strict=True)), (x, scale))
        return tuple(found.values())

    params = tuple(p.detach().clone().requires_grad_() for p in module.parameters())
    assert torch.autograd.gradcheck(run, (x, scale, *params), fast_mode=True)


def test_state_dict_has_the_names_of_the_spec(tmp_path: Path) -> None:
    module = small(tmp_path)
    assert set(module.state_dict()) == {"dense.W", "dense.b", "dense2.W", "dense2.b"}


def test_a_torch_optimizer_trains_it(tmp_path: Path) -> None:
    module = triton_module(ROOT / "specs/mlp/mlp.dsl", tmp_path, hidden=16).Module(seed=0)
    adam = torch.optim.Adam(module.parameters(), lr=1e-2)
    rng = np.random.default_rng(0)
    x = torch.as_tensor(rng.normal(size=(8, 64))).float()
    label = torch.as_tensor(rng.integers(0, 10, 8))
    losses = []
    for _ in range(5):
        adam.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(x), label)
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


NORMED = """
model m(x: f32[N, 5]) -> y: [N, 3]:
    h = x |> dense(8) |> batch_norm |> tanh |> dropout(0.5)
    y = dense(h, 3)

train m(x, t: f32[N, 3]):
    minimize mean[n, o]((m(x)[n, o] - t[n, o])^2)
    using sgd(lr = 0.1)
"""


def normed(tmp_path: Path, text: str = NORMED) -> tuple[Any, torch.nn.Module, torch.Tensor, torch.Tensor]:
    spec = tmp_path / "normed.dsl"
    spec.write_text(text, encoding="utf-8")
    compiled = triton_module(spec, tmp_path, "f64")
    rng = np.random.default_rng(0)
    x, t = (torch.as_tensor(rng.normal(size=(6, k))) for k in (5, 3))
    return compiled, compiled.Module(seed=1), x, t


def test_states_are_buffers_with_the_names_of_the_spec(tmp_path: Path) -> None:
    compiled, module, _, _ = normed(tmp_path)
    assert dict(module.named_buffers()).keys() == compiled.STATE.keys()
    assert set(module.state_dict()) == {*compiled.PARAMS, *compiled.STATE}


def test_training_updates_states_as_the_training_step_does(tmp_path: Path) -> None:
    compiled, module, x, t = normed(tmp_path, NORMED.replace(" |> dropout(0.5)", ""))
    params = {k: v.detach().clone() for k, v in module.named_parameters()}
    state = {k: v.clone() for k, v in module.named_buffers()}
    wanted_loss, grads, _, states = compiled.loss_grad_metrics(params, x, t, state)
    loss = ((module(x) - t) ** 2).mean()
    loss.backward()
    torch.testing.assert_close(loss.detach(), wanted_loss)
    for name, value in module.named_parameters():
        torch.testing.assert_close(value.grad, grads[name], msg=name)
    for name, value in module.named_buffers():
        torch.testing.assert_close(value, states[name], msg=name)


def test_inference_neither_draws_nor_changes_states(tmp_path: Path) -> None:
    compiled, module, x, _ = normed(tmp_path)
    module.eval()
    before = {k: v.clone() for k, v in module.named_buffers()}
    found = module(x)
    params = {k: v.detach() for k, v in module.named_parameters()}
    torch.testing.assert_close(found.detach(), compiled.forward(params, x, before))
    torch.testing.assert_close(module(x), found)
    for name, value in module.named_buffers():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def test_every_call_draws_anew_and_a_seed_repeats_it(tmp_path: Path) -> None:
    _, module, x, _ = normed(tmp_path)
    first, second = module(x), module(x)
    assert not torch.equal(first, second)
    again = normed(tmp_path)[1]
    torch.testing.assert_close(again(x), first, rtol=0, atol=0)
    torch.testing.assert_close(again(x), second, rtol=0, atol=0)


@pytest.mark.wide(2)
@pytest.mark.parametrize("training", [False, True])
def test_gradients_with_states_and_draws_pass_gradcheck(training: bool, tmp_path: Path) -> None:
    _, module, x, _ = normed(tmp_path)
    module.train(training)
    buffers = {k: v.clone() for k, v in module.named_buffers()}
    names = [n for n, _ in module.named_parameters()]

    def run(x: torch.Tensor, *params: torch.Tensor) -> torch.Tensor:
        given = {**dict(zip(names, params, strict=True)), **{k: v.clone() for k, v in buffers.items()}}
        found: torch.Tensor = torch.func.functional_call(module, given, (x,), {"seed": 3})
        return found

    params = tuple(p.detach().clone().requires_grad_() for p in module.parameters())
    assert torch.autograd.gradcheck(run, (x.requires_grad_(), *params), fast_mode=True)


def test_a_second_derivative_is_refused_by_torch(tmp_path: Path) -> None:
    module = small(tmp_path)
    x, scale = torch.ones(2, 5, dtype=torch.float64, requires_grad=True), torch.ones(2, dtype=torch.float64)
    (slope,) = torch.autograd.grad(module(x, scale)["s"].sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        slope.sum().backward()


def test_it_runs_under_distributed_data_parallel(tmp_path: Path) -> None:
    _, module, x, t = normed(tmp_path)
    alone = normed(tmp_path)[1]
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        shared = torch.nn.parallel.DistributedDataParallel(module)
        for each in (shared, alone):
            sgd = torch.optim.SGD(each.parameters(), lr=0.1)
            for _ in range(2):
                sgd.zero_grad()
                ((each(x) - t) ** 2).mean().backward()
                sgd.step()
        found = shared.state_dict()
    finally:
        torch.distributed.destroy_process_group()
    for name, value in alone.state_dict().items():
        torch.testing.assert_close(found[f"module.{name}"], value, msg=name)


GIVEN = """
model m(z: float[N], depth = 2) -> y: [N]:
    param w: [2] = 1
    param place[i]: [4] = i
    frozen param unit[i, j]: [2, 2] = 1 if i == j else 0
    h = z
    for l in 0..depth:
        h = h |> shifted
    y[n] = h[n] * (sqrt(w[0]) + place[2] + unit[0, 0])

layer shifted(x: [N]) -> y: [N]:
    param b: [] = 3
    y[n] = x[n] + b

train m(z):
    y = m(z)
    minimize sum[n](y[n]^2)
    using sgd(lr = 0.1)
"""


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_parameters_that_are_given_whole_numbers_are_floats(tmp_path: Path, dtype: str) -> None:
    spec = tmp_path / "given.dsl"
    spec.write_text(GIVEN, encoding="utf-8")
    module = triton_module(spec, tmp_path, dtype)
    params = module.init()
    assert {p.dtype for p in params.values()} == {module.DTYPE}
    wanted = numpy_module(spec, tmp_path, "f64").init()
    assert {k: p.double().tolist() for k, p in params.items()} == {k: p.tolist() for k, p in wanted.items()}
    loss, grads = module.loss_and_grad(params, torch.ones(3, dtype=module.DTYPE))
    assert loss.item() == 3 * (7.0 * 4) ** 2
    assert grads["w"].tolist() == [3 * 2 * 28.0 * 7 / 2, 0]


SHAPES = """
model m(x: f32[N, T], z: f32[N, T], w: f32[2 * T], s: f32[N, N]) -> y: [N, T]:
    y[n, t] = x[n, t] * z[n, t] + w[2*t] + s[n, n]
"""


@pytest.mark.parametrize("made", [numpy_module, triton_module])
@pytest.mark.parametrize(
    ("place", "shape", "message"),
    [
        (1, (3, 1), "z: expected T = 4 along axis 1, as in x, found 1"),
        (1, (2, 4), "z: expected N = 3 along axis 0, as in x, found 2"),
        (2, (7,), r"w: expected 2 ?\* ?T = 8 along axis 0, found 7"),
        (3, (3, 2), "s: expected N = 3 along axis 1, as in x, found 2"),
    ],
)
def test_sizes_of_inputs_that_must_be_equal_are_compared(
    tmp_path: Path, made: Any, place: int, shape: tuple[int, ...], message: str
) -> None:
    # a size of 1 would broadcast in NumPy, and a kernel would read beyond a short tensor
    spec = tmp_path / "shapes.dsl"
    spec.write_text(SHAPES, encoding="utf-8")
    module = made(spec, tmp_path)
    inputs = [np.ones(s, np.float32) for s in ((3, 4), (3, 4), (8,), (3, 3))]
    assert tuple(module.forward({}, *inputs).shape) == (3, 4)
    inputs[place] = np.ones(shape, np.float32)
    with pytest.raises(ValueError, match=message):
        module.forward({}, *inputs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.t().contiguous().t(), r"dense\.W: expected a contiguous tensor, found the strides \(1, 5\)"),
        (lambda w: w[:3], r"dense\.W: expected float64 \(5, 4\), found float64 \(3, 4\)"),
        (lambda w: w.float(), r"dense\.W: expected float64 \(5, 4\), found float32 \(5, 4\)"),
        (None, r"dense\.W is missing"),
    ],
)
def test_parameters_that_kernels_cannot_read_are_refused(tmp_path: Path, change: Any, message: str) -> None:
    # kernels take tensors as they lie in memory: the transpose of a matrix would be read as the matrix
    spec = tmp_path / "small.dsl"
    spec.write_text(SPEC, encoding="utf-8")
    module = triton_module(spec, tmp_path, "f64")
    params = module.init()
    weight = params.pop("dense.W")
    if change is not None:
        params["dense.W"] = change(weight)
    with pytest.raises(ValueError, match=message):
        module.forward(params, torch.ones(2, 5), torch.ones(2))


@pytest.mark.parametrize("made", [numpy_module, triton_module])
def test_a_training_step_without_a_trained_parameter_gives_the_loss(tmp_path: Path, made: Any) -> None:
    spec = tmp_path / "still.dsl"
    spec.write_text(
        "model m(x: f32[N]) -> y: [N]:\n    frozen param w: [] = 2\n    y = x * w\n\n"
        "train m(x):\n    minimize sum(m(x))\n    using clipped_adamw(lr = 0.1)\n",
        encoding="utf-8",
    )
    module = made(spec, tmp_path)
    params = module.init()
    params, opt = module.train_step(params, module.init_opt(params), np.ones(3, np.float32))
    assert float(opt["loss"]) == 6 and float(params["w"]) == 2


def test_an_input_may_be_called_as_a_function_of_python(tmp_path: Path) -> None:
    spec = tmp_path / "named.dsl"
    text = "model m(len: f32[N], fitting: f32[N]) -> y: [N]:\n    param w: [] = 2\n    y = len * w + fitting\n\n"
    spec.write_text(text + "train m(len, fitting):\n    minimize sum(m(len, fitting))\n    using sgd(lr = 0.1)\n")
    module = triton_module(spec, tmp_path)
    params = module.init()
    params, opt = module.train_step(params, module.init_opt(params), torch.ones(3), torch.ones(3))
    assert float(opt["loss"]) == 9 and abs(float(params["w"]) - 1.7) < 1e-6

"""Results as users expect them: dtypes at every entry, places that nothing reaches, values that are not lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from both_backends import BACKENDS, given, module_of

from dslc.diagnostics.spec_error import SpecError


@pytest.mark.point("1", "25")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("length", [4, 5])
def test_halves_of_an_axis_are_those_of_torch(backend: str, length: int, tmp_path: Path) -> None:
    text = """
model m(x: f64[T], w: f64[K]) -> (y: [T], z: [T], s: [T - T // 2]) where T >= 2:
    a = x[0:T // 2]
    b = x[T // 2:T]
    y[t] = concat[t](b[t], a[t])
    z[t] = (x[t + k - K // 2] else 0) * w[k] * -(T // 2)
    s = x[T // 2:T]

train m(x, w):
    y, z, s = m(x, w)
    minimize sum[t](y[t] * z[t]) + sum[t](s[t]^3)
    using sgd(lr = 0.1)
"""
    module = module_of(text, backend, tmp_path, "f64", wrt=["x"])
    x, w = (
        torch.linspace(1, 2, length, dtype=torch.float64, requires_grad=True),
        torch.tensor([0.5, 1.0, 0.25]).double(),
    )
    half = length // 2
    y = torch.cat([x[half:], x[:half]])
    z = torch.nn.functional.conv1d(x[None], w[None, None], padding=1)[0] * -half
    loss = (y * z).sum() + (x[half:] ** 3).sum()
    loss.backward()
    data = [given(v.detach().numpy(), backend) for v in (x, w)]
    found = module.forward({}, *data)
    for name, wanted in {"y": y, "z": z, "s": x[half:]}.items():
        np.testing.assert_allclose(np.asarray(found[name]), wanted.detach(), rtol=1e-12, err_msg=name)
    np.testing.assert_allclose(np.asarray(module.loss_and_grad({}, *data)[1]["x"]), x.grad, rtol=1e-12)


@pytest.mark.point("14", "23")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("line", ["z[s] * T + x[2*s]", "z[s] * (T // 2) + x[s + T // 2]"])
def test_a_size_that_a_where_gives_is_a_number_too(backend: str, line: str, tmp_path: Path) -> None:
    """The module read `T`, which nothing in it defined: no input has a size called so."""
    text = f"model m(x: f64[T], z: f64[S]) -> y: [S] where T == 2*S:\n    y[s] = {line}\n"
    x, z = np.arange(6.0), np.ones(3)
    wanted = z * 6 + x[::2] if "2*s" in line else z * 3 + x[3:]
    module = module_of(text, backend, tmp_path, "f64")
    np.testing.assert_allclose(np.asarray(module.forward({}, given(x, backend), given(z, backend))), wanted)
    with pytest.raises(ValueError, match=r"x: expected 2\*S = 4 along axis 0"):
        module.forward({}, given(x, backend), given(np.ones(2), backend))


@pytest.mark.point("6")
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_exposed_value_has_its_dtype_at_every_entry(backend: str, tmp_path: Path) -> None:
    text = """
model m(x: f32[N, 4]) -> y: [N, 4]:
    param w: [4] = 1
    c[n] = i32(argmax[k](x[n, k]))
    expose c
    y[n, k] = x[n, k] * w[k]

train m(x):
    minimize mean(m(x).y^2)
    using sgd(lr = 0.1)
"""
    module = module_of(text, backend, tmp_path)
    params, x = module.init(), given(np.ones((2, 4), np.float32), backend)
    found = (module.forward(params, x), module.evaluate(params, x)[1], module.loss_grad_metrics(params, x)[2])
    assert [np.asarray(each["c"]).dtype for each in found] == [np.int32] * 3


@pytest.mark.point("E")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_places_that_nothing_reaches_have_the_limits_of_their_dtype(backend: str, dtype: str, tmp_path: Path) -> None:
    text = f"""
model m(k: {dtype}[M], at: i32[M] < 3) -> (low: {dtype}[3], high: {dtype}[3]):
    low[at[m]: 3] min= k[m]
    high[at[m]: 3] max= k[m]
"""
    numbers = np.dtype({"i32": "int32", "i64": "int64"}[dtype])
    data = given(np.array([3, -7], numbers), backend), given(np.array([0, 0], np.int32), backend)
    found = {k: np.asarray(v) for k, v in module_of(text, backend, tmp_path).forward({}, *data).items()}
    limits = np.iinfo(numbers)
    assert found["low"].tolist() == [-7, limits.max, limits.max] and found["low"].dtype == numbers
    assert found["high"].tolist() == [3, limits.min, limits.min]


@pytest.mark.point("E")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_maximum_onto_an_earlier_value_is_that_of_torch(backend: str, tmp_path: Path) -> None:
    text = """
model m(x: f64[M], at: i32[M] < 5) -> top: [5]:
    param c: [5] ~ normal
    top = c
    for l in 0..2:
        top[at[m]] max= x[m] * (l + 1)
    top[at[m]] min= 2 * x[m]

train m(x, at):
    minimize sum(m(x, at)^2)
    using sgd(lr = 0.1)
"""
    module = module_of(text, backend, tmp_path, "f64", wrt=["x"])
    params = module.init(0)
    x, at = np.array([0.5, -2, 3.0]), np.array([0, 0, 2], np.int32)
    loss, grads = module.loss_and_grad(params, given(x, backend), given(at, backend))
    c, own = (torch.tensor(np.asarray(v), requires_grad=True) for v in (params["c"], x))
    top = c
    for number in (1, 2):
        top = top.scatter_reduce(0, torch.tensor(at).long(), own * number, "amax")
    top = top.scatter_reduce(0, torch.tensor(at).long(), 2 * own, "amin")
    wanted = (top**2).sum()
    wanted.backward()
    np.testing.assert_allclose(float(loss), wanted.item(), rtol=1e-12)
    # at place 2 the last two maxima and the minimum tie: 2 x[2] both times
    np.testing.assert_allclose(np.asarray(grads["c"]), c.grad, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(grads["x"]).sum(), own.grad.sum(), rtol=1e-12)


@pytest.mark.point("7")
def test_an_exposed_value_is_not_lost_behind_an_output_of_its_name(tmp_path: Path) -> None:
    text = "model m(x: f32[N, 4]) -> y: [N, 4]:\n    y = tanh(x)\n    expose y\n    y = 2 * y\n"
    with pytest.raises(SpecError, match=r"(?s)`y` is defined twice.*expose y_before"):
        module_of(text, "numpy", tmp_path)


@pytest.mark.point("18")
def test_a_model_of_whole_numbers_says_that_it_has_no_torch_module(tmp_path: Path) -> None:
    text = "model m(x: f32[N, 4]) -> k: i64[N]:\n    k[n] = argmax[c](x[n, c])\n"
    with pytest.raises(TypeError, match=r"no torch\.nn\.Module, for its outputs are whole numbers"):
        module_of(text, "triton", tmp_path).Module()


@pytest.mark.point("2")
@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("    scan t:\n        w <- 0.5 * w + x[t, 0]\n    y = w * x\n", "`w` in a call, found one in each step"),
        (
            "    use bn = batch_norm()\n    scan t:\n        y[t, :] = bn(y[t-1, :] + x[t, :])\n    start y = 0\n",
            "`batch_norm.running_",
        ),
        ("    y[t, :] = batch_norm(x[t, :])\n", "found one for each `t`"),
    ],
)
def test_a_state_is_updated_once_in_a_call(body: str, what: str, tmp_path: Path) -> None:
    text = f"model m(x: f32[T, 3]) -> y: [T, 3]:\n    state w: [] = 1\n{body}"
    with pytest.raises(SpecError, match=f"E0608.*{what}"):
        module_of(text, "numpy", tmp_path)

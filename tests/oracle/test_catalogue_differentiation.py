"""Rows of the catalogue on automatic differentiation (chapter 6), on every backend."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from catalogue import SPECS, Array, Case, cases, check, given, model
from marks import rows
from properties import CLEAR, EXACT
from torch import nn
from torch.func import functional_call, hessian, jacfwd, jvp, vmap
from torch.func import grad as slope_of

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"
torch.set_num_threads(1)

every_backend = pytest.mark.parametrize("backend", ["numpy", "c", "triton"])


def close(found: Any, expected: Any, name: str = "", rtol: float = 1e-9) -> None:
    wanted = expected.detach().numpy() if isinstance(expected, torch.Tensor) else expected
    assert np.shape(found) == np.shape(wanted), name
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=1e-11, err_msg=name)


# ---- primitives, and derivatives of derivatives


class Unit(torch.autograd.Function):
    """tanh(X W) as one primitive of torch, with its VJPs."""

    @staticmethod
    def forward(x: Any, w: Any) -> Any:
        return torch.tanh(x @ w)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx: Any, v: Any) -> Any:
        x, w, y = ctx.saved_tensors
        inner = v * (1 - y * y)
        return inner @ w.T, x.T @ inner


WHOLE = """
fn unit(x: [N, D], W: [D, K]) -> y: [N, K]:
    y[n, k] = tanh(x[n, i] * W[i, k])
    backward (dy) -> (dx, dW):
        inner[n, k] = dy[n, k] * (1 - y[n, k]^2)
        dx[n, i] = inner[n, k] * W[i, k]
        dW[i, k] = x[n, i] * inner[n, k]
"""
CLIPPED = """
fn clipped(x) -> y:
    y = x
    backward (dy) -> dx:
        dx = clip(dy, -0.5, 0.5)
"""
SWISH = (SPECS / "mlp/swish_custom_vjp.dsl").read_text(encoding="utf-8").partition("layer ")[0]
FC = {"x": "[N, D]", "W": "[D, K]"}
SWISHED = {"z": "[N]", "a": "[]", "b": "[]", "c": "[]", "d": "[]"}


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, v: Any) -> Any:
        return v.clamp(-0.5, 0.5)


def _micrograd(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    c, d = a + b, a * b + b**3
    c = c + c + 1
    c = c + 1 + c + (-a)
    d = d + d * 2 + torch.relu(b + a)
    d = d + 3 * d + torch.relu(b - a)
    f = (c - d) ** 2
    return f / 2 + 10 / f


GRAPH = """c = a + b
c2 = c + c + 1
c3 = c2 + 1 + c2 - a
d = a * b + b^3
d2 = d + d * 2 + relu(b + a)
d3 = d2 + 3 * d2 + relu(b - a)
f = (c3 - d3)^2
y = f / 2 + 10 / f
"""


def _bent(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x[0] * x[1]) * torch.exp(x[2]) + x[3] ** 2 * x[4]


BENT = "fn bent(x: [5]) -> g: [5]:\n    f = sin(x[0] * x[1]) * exp(x[2]) + x[3]^2 * x[4]\n    g = grad(f, x)\n"

PRIMITIVES = cases(
    # a primitive: value, input VJP, weight VJP, and the products the other way
    Case("A02 A28", {**FC, "v": "[N, K]"}, "[N, D]", "z[n, k] = tanh(x[n, i] * W[i, k])\ny = vjp(z, x, v)",
         lambda x, w, v: (v * (1 - torch.tanh(x @ w) ** 2)) @ w.T),
    Case("A02 A28", {**FC, "v": "[N, K]"}, "[D, K]", "z[n, k] = tanh(x[n, i] * W[i, k])\ny = vjp(z, W, v)",
         lambda x, w, v: x.T @ (v * (1 - torch.tanh(x @ w) ** 2))),
    Case("A02", {**FC, "u": "[D, K]"}, "[N, K]", "z[n, k] = tanh(x[n, i] * W[i, k])\ny = jvp(z, W, u)",
         lambda x, w, u: (1 - torch.tanh(x @ w) ** 2) * (x @ u)),
    # one primitive, a layer, or three of them: the same values and gradients
    Case("A03 X6.4", FC, "[N, K]", "y = unit(x, W)", Unit.apply, before=WHOLE),
    Case("A03", FC, "[N, K]", "y[n, k] = tanh(x[n, i] * W[i, k])", Unit.apply),
    Case("A03", FC, "[N, K]", "a[n, i, k] = x[n, i] * W[i, k]\ns[n, k] = sum[i](a[n, i, k])\ny = tanh(s)", Unit.apply),
    # a graph whose branches meet again: each value is used several times
    Case("X6.1", {"a": "[]", "b": "[]"}, "[]", GRAPH, _micrograd, {"a": given(-4), "b": given(2)}),
    # derivatives that are given by hand
    Case("X6.2", SWISHED, "[N]", "y = trained_swish(z, a, b, c, d)",
         lambda z, a, b, c, d: torch.sigmoid(a * z + b) * (c * z + d), before=SWISH),
    Case("X6.4", {"x": "[N]"}, "[N]", "y = 2 * clipped(3 * x)", lambda x: 2 * Clipped.apply(3 * x), before=CLIPPED),
    Case("A54", {"x": "[N]"}, "[N]", "y = round_through(x) * x", lambda x: (x + (torch.round(x) - x).detach()) * x),
    # compositions: forward over mapped reverse, and second derivatives
    Case("X6.3", {"x": "[N, 5]", "v": "[N, 5]"}, "[N, 5]", "g[n, :] = bent(x[n, :])\ny = jvp(g, x, v)",
         lambda x, v: jvp(vmap(slope_of(_bent)), (x,), (v,))[1], before=BENT),
    Case("X6.5", {"x": "[5]"}, "[5, 5]", "f = sin(x[0] * x[1]) * exp(x[2]) + x[3]^2 * x[4]\ny = hessian(f, x)",
         hessian(_bent)),
    Case("X6.5", {"x": "[5]", "v": "[5]"}, "[5]",
         "f = sin(x[0] * x[1]) * exp(x[2]) + x[3]^2 * x[4]\ng = grad(f, x)\ny = jvp(g, x, v)",
         lambda x, v: hessian(_bent)(x) @ v),
    # the gradient of a sum of squares on ten numbers, and adjoints of values by name
    Case("B17", {"x": "[10]"}, "[10]", "f = sum[i](x[i]^2)\ny = grad(f, x)", slope_of(lambda x: (x**2).sum())),
    Case("A22", {"x": "[N, D]", "W": "[D, K]", "w": "[K]"}, "[N, K]",
         "h[n, k] = tanh(x[n, i] * W[i, k])\nf = sum[n]((h[n, k] * w[k])^3)\ny = grad(f, h)",
         lambda x, W, w: 3 * ((torch.tanh(x @ W) @ w) ** 2)[:, None] * w),
)  # fmt: skip


@pytest.mark.parametrize("case", PRIMITIVES)
def test_primitives_and_their_compositions_are_those_of_torch(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@rows("X6.1", "X6.2", "X6.5")
@every_backend
def test_numbers_that_others_published(backend: str, tmp_path: Path) -> None:
    """Of micrograd's first example, of the trained Swish, and of a saddle of the surface of chapter 2."""
    found = model(Path("derivatives/scalars.dsl"), tmp_path, backend).forward({}, np.float64(-4), np.float64(2))
    assert [round(float(found[x]), 4) for x in ("g", "d_a", "d_b")] == [24.7041, 138.8338, 645.5773]
    saddle = np.array([2.773493, 4.645351])
    found = model(Path("derivatives/hessian.dsl"), tmp_path, backend).forward({}, saddle, np.ones(2))
    assert float(found["value"]) == pytest.approx(-0.69558193, abs=1e-8)
    np.testing.assert_allclose(found["eigenvalue"], [-0.77236, 1.15631], atol=1e-5)
    np.testing.assert_allclose(found["Hv"], np.asarray(found["H"]) @ np.ones(2), rtol=1e-12)
    assert np.abs(found["slope"]).max() < 1e-5 and not found["minimum"]
    text = SWISH + (
        "model one(z: f64[], a: f64[], b: f64[], c: f64[], d: f64[]) -> (y: [], g: [5]):\n"
        "    y = trained_swish(z, a, b, c, d)\n"
        "    g[i] = concat[i](grad(y, a), grad(y, b), grad(y, c), grad(y, d), grad(y, z))\n"
    )
    found = model(text, tmp_path, backend).forward({}, *(np.float64(x) for x in (0.8, 1.5, -0.2, 0.7, 0.1)))
    assert float(found["y"]) == pytest.approx(0.4824986619, abs=1e-10)
    np.testing.assert_allclose(
        found["g"], [0.1038111007, 0.1297638759, 0.5848468629, 0.7310585786, 0.7063868190], atol=1e-10
    )


# ---- forward mode, reverse mode, differences


@rows("A15", "A16", "A19")
@every_backend
def test_forward_mode_by_hand_is_reverse_mode(backend: str, tmp_path: Path) -> None:
    module = model(Path("derivatives/forward_mode.dsl"), tmp_path, backend)
    rng = np.random.default_rng(1)
    params = {name: rng.standard_normal(about[0]) for name, about in module.PARAMS.items()}
    x = rng.standard_normal((3, 3))
    found = module.forward(params, x)

    def program(A: torch.Tensor, B: torch.Tensor, C: torch.Tensor) -> torch.Tensor:
        return (torch.tanh(torch.tanh(torch.tensor(x) @ A) @ B) @ C).sum()

    tensors = [torch.tensor(params[name]) for name in "ABC"]
    for name, by_forward in zip(
        ("first", "second", "third"), jacfwd(program, argnums=(0, 1, 2))(*tensors), strict=True
    ):
        close(found[name], by_forward, name)
        close(found[f"reverse_{name}"], by_forward, f"reverse {name}")


@rows("A07", "A10", "X0.4")
@every_backend
def test_one_backward_pass_gives_what_two_calls_for_each_number_give(backend: str, tmp_path: Path) -> None:
    module = model(Path("mlp/xor.dsl"), tmp_path, backend, hidden=3)
    rng = np.random.default_rng(2)
    params = {name: rng.standard_normal(about[0]) for name, about in module.PARAMS.items()}
    x, target = rng.standard_normal((6, 2)), rng.integers(0, 2, 6).astype(float)
    calls = 0

    def loss() -> float:
        nonlocal calls
        calls += 1
        return float(module.evaluate(params, x, target)[0])

    _, grads = module.loss_and_grad(params, x, target)
    assert grads.keys() == params.keys()
    errors = {}
    for step in (1e-2, 1e-4):
        worst = 0.0
        for name, value in params.items():
            found = np.empty_like(value)
            for place in np.ndindex(value.shape):
                kept = float(value[place])
                ends = []
                for sign in (1, -1):
                    value[place] = kept + sign * step
                    ends.append(loss())
                value[place] = kept
                found[place] = (ends[0] - ends[1]) / (2 * step)
            worst = max(worst, float(np.abs(found - grads[name]).max()))
        errors[step] = worst
    assert calls == 2 * 2 * sum(v.size for v in params.values())
    assert errors[1e-4] < 1e-7 and errors[1e-2] > 1e3 * errors[1e-4], "central differences are of second order"


# ---- a model as a function of its parameters


@cache
def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


FUNCTIONAL = """
model functional(x: f64[N, 4], hidden = 5) -> y: [N, 3]:
    y = x |> dense(hidden) |> tanh |> dense(3)

train functional(x, t: f64[N, 3]):
    minimize sum((functional(x) - t)^2)
    freeze dense.W
    using sgd(lr = 0.1)
"""
#: a parameter of ours, and that of torch, which lies the other way
NAMES = {"dense.W": "0.weight", "dense.b": "0.bias", "dense2.W": "2.weight", "dense2.b": "2.bias"}


@rows("A38", "A39", "A40", "B18")
@every_backend
def test_a_module_is_a_pure_function_of_its_parameters(backend: str, tmp_path: Path) -> None:
    module = model(FUNCTIONAL, tmp_path, backend)
    rng = np.random.default_rng(3)
    x, t = rng.standard_normal((6, 4)), rng.standard_normal((6, 3))
    for seed in (0, 1):
        params = {name: np.random.default_rng(seed).standard_normal(v[0]) for name, v in module.PARAMS.items()}
        before = {name: v.copy() for name, v in params.items()}
        theirs = {there: torch.tensor(params[ours].T) for ours, there in NAMES.items()}
        y = functional_call(network(), theirs, torch.tensor(x))
        close(module.forward(params, x), y)
        # gradients for what asks for them, and they add up over calls
        leaves = {k: v.clone().requires_grad_(k != "0.weight") for k, v in theirs.items()}
        for _ in range(2):
            ((functional_call(network(), leaves, torch.tensor(x)) - torch.tensor(t)) ** 2).sum().backward()
        both = [module.loss_and_grad(params, x, t)[1] for _ in range(2)]
        assert both[0].keys() == {k for k in NAMES if leaves[NAMES[k]].grad is not None} == {*NAMES} - {"dense.W"}
        for name in both[0]:
            close(
                both[0][name] + both[1][name],
                leaves[NAMES[name]].grad.mT if name.endswith("W") else leaves[NAMES[name]].grad,
                name,
            )
        assert all((params[k] == v).all() for k, v in before.items())


@rows("A40")
def test_sizes_of_parameters_follow_from_the_input_as_those_of_lazy_layers_do(tmp_path: Path) -> None:
    for width in (4, 7):
        text = f"model lazy(x: f64[N, {width}]) -> y: [N, 3]:\n    y = x |> dense(5) |> tanh |> dense(3)\n"
        module = model(text, tmp_path)
        there = nn.Sequential(nn.LazyLinear(5), nn.Tanh(), nn.LazyLinear(3))
        there(torch.zeros(2, width))
        found = {name: tuple(about[0]) for name, about in module.PARAMS.items()}
        assert found == {name: tuple(there.state_dict()[k].T.shape) for name, k in NAMES.items()}


# ---- depth


@rows("A41", "A42", "A43")
@every_backend
def test_slopes_fade_and_explode_with_depth_as_float32_allows(backend: str, tmp_path: Path) -> None:
    """A quarter for each sigmoid, so 0 from 75 layers on; a doubling is infinite at 128; tanh and relu keep 1."""
    module = model(Path("derivatives/depth.dsl"), tmp_path, backend, dtype="f32")
    chains = {
        "by_sigmoid": lambda s: torch.sigmoid(s) - 0.5, "by_tanh": torch.tanh, "by_relu": torch.relu,
        "by_doubled": lambda s: 2 * s,
    }  # fmt: skip
    for depth in (63, 75, 128) if backend == "triton" else (1, 62, 63, 64, 74, 75, 127, 128):
        found = module.forward({}, np.float32(0), np.ones(depth, np.float32))
        for name, act in chains.items():
            x = torch.zeros((), requires_grad=True)
            h = x
            for _ in range(depth):
                h = act(h)
            h.backward()
            assert float(found[name]) == float(x.grad), (name, depth)  # type: ignore[arg-type]
        assert (found["by_sigmoid"] >= np.finfo("f4").tiny) == (depth <= 63)
        assert (found["by_sigmoid"] == 0) == (depth >= 75)
        assert np.isinf(found["by_doubled"]) == (depth >= 128)
    for start, kept in ((-1, 0), (1, 1)):
        assert float(module.forward({}, np.float32(start), np.ones(128, np.float32))["by_relu"]) == kept


@rows("A43")
@pytest.mark.parametrize("backend", ["numpy", "triton"])
def test_half_precision_has_room_for_a_dozen_sigmoids(backend: str, tmp_path: Path) -> None:
    text = (
        "model half(x: f16[], w: f16[L]) -> slope: []:\n    scan l:\n        h[l] = f16(sigmoid(w[l] * h[l-1]) - 0.5)\n"
        "    start h = x\n    y = f32(h[L-1])\n    slope = grad(y, x)\n"
    )
    module = model(text, tmp_path, backend, dtype="f32")
    for depth in (2, 12, 13):
        x = torch.zeros((), dtype=torch.float16, requires_grad=True)
        h = x
        for _ in range(depth):
            h = torch.sigmoid(h) - 0.5
        h.backward()
        found = module.forward({}, np.float16(0), np.ones(depth, np.float16))
        assert float(found) == float(x.grad), depth  # type: ignore[arg-type]
        assert (float(found) == 0) == (depth > 12)


@rows("A41", "A43")
@every_backend
def test_the_lengths_of_gradients_are_reported_layer_by_layer(backend: str, tmp_path: Path) -> None:
    shares = {}
    for act in ("sigmoid", "relu"):
        module = model(Path("mlp/gradient_norms.dsl"), tmp_path, backend, hidden=8, depth=4, act=act)
        rng = np.random.default_rng(5)
        params = {
            name: rng.standard_normal(about[0]) / np.sqrt(about[0][0]) * (1 if name.endswith("W") else 0)
            for name, about in module.PARAMS.items()
        }
        x, label = rng.standard_normal((6, 64)), rng.integers(0, 10, 6).astype(np.int32)
        _, grads, metrics, _ = module.loss_grad_metrics(params, x, label)
        function = getattr(torch, act)
        tensors = {k: torch.tensor(v, requires_grad=True) for k, v in params.items()}
        h = function(torch.tensor(x) @ tensors["first.W"] + tensors["first.b"])
        for layer in range(4):
            h = function(h @ tensors[f"dense.{layer}.W"] + tensors[f"dense.{layer}.b"])
        h = h @ tensors["last.W"] + tensors["last.b"]
        nn.functional.cross_entropy(h, torch.tensor(label).long()).backward()
        for name in ("first", "last"):
            wanted = nn.utils.get_total_norm([tensors[f"{name}.W"].grad])  # type: ignore[list-item]
            close(metrics[f"{name}_norm"], wanted, name)
            close(np.linalg.norm(grads[f"{name}.W"]), wanted, name)
        shares[act] = float(metrics["first_norm"] / metrics["last_norm"])
    assert shares["sigmoid"] < 0.02 < 0.2 < shares["relu"]


# ---- kinks


@rows("A46")
@every_backend
def test_paths_through_rectifiers_have_a_factor_of_0_or_1_and_only_the_identity_has_1(
    backend: str, tmp_path: Path
) -> None:
    names = ("relu", "tanh", "sigmoid", "gelu", "silu", "elu", "leaky_relu", "softplus", "hard_tanh")
    lines = "".join(f"    {a} = {a}(x)\n    s_{a} = sum({a})\n    d_{a} = grad(s_{a}, x)\n" for a in names)
    stack = "".join(f"    h{k + 1}[n] = {{0}}(h{k}[n] + b[{k}])\n" for k in range(5))
    stacks = "".join(
        stack.replace("h", f"{a}_h").replace(f"{a}_h0", "x").format(a).replace(f"tan{a}_h", "tanh")
        + f"    sum_{a} = sum({a}_h5)\n    path_{a} = grad(sum_{a}, x)\n"
        for a in ("relu", "tanh")
    )
    outputs = ", ".join([*(f"d_{a}: [N]" for a in names), "path_relu: [N]", "path_tanh: [N]"])
    text = f"model slopes(x: f64[N], b: f64[5]) -> ({outputs}):\n{lines}{stacks}"
    found = model(text, tmp_path, backend).forward({}, np.linspace(-4, 4, 400), np.array([0.5, -0.3, 0.2, -0.9, 0.1]))
    assert set(found["path_relu"]) == {0, 1} and not set(found["path_tanh"]) <= {0, 1}
    assert set(found["d_relu"]) == {0, 1}
    assert not any((found[f"d_{a}"] == 1).all() for a in names)


SLOPES = """
fn hinge_of(p) = max(0, 1 - p)
fn bent(p) = sin(3 * p)

model slopes(x: f64[N], pair: f64[N, 3]) -> (
    y_relu: [N], y_abs: [N], y_hinge: [N], y_bent: [N], y_max: [N],
    d_relu: [N], d_abs: [N], d_hinge: [N], d_bent: [N], d_max: [N, 3]
):
    y_relu = relu(x)
    y_abs = abs(x)
    y_hinge = hinge_of(x)
    y_bent = bent(x)
    y_max[n] = max[k](pair[n, k])
    one[n: N] = 1.0
    d_relu = vjp(y_relu, x, one)
    d_abs = vjp(y_abs, x, one)
    d_hinge = vjp(y_hinge, x, one)
    d_bent = vjp(y_bent, x, one)
    d_max = vjp(y_max, pair, one)
"""


@rows("A49")
@every_backend
def test_the_slopes_at_kinks_are_subgradients(backend: str, tmp_path: Path) -> None:
    """f(y) >= f(x) + z (y - x) for all y; a function that is not convex has no such slopes."""
    module = model(SLOPES, tmp_path, backend)
    rng = np.random.default_rng(6)
    x = np.array([0.0, 1.0, -1.0, 0.0, 1e-12, -2.5, 3.0])
    pair = np.array([[1, 1, 0], [2, 2, 2], [0, -1, 5], [0, 0, 0], [1, 1, 1 - 1e-9], [3, 2, 1], [-1, -1, -2.0]])
    here = module.forward({}, x, pair)
    missed = dict.fromkeys(("relu", "abs", "hinge", "bent", "max"), 0.0)
    for _ in range(60):
        y, other = 3 * rng.standard_normal(7), 3 * rng.standard_normal((7, 3))
        there = module.forward({}, y, other)
        for name in missed:
            rise = (here["d_max"] * (other - pair)).sum(1) if name == "max" else here[f"d_{name}"] * (y - x)
            missed[name] = max(missed[name], float((here[f"y_{name}"] + rise - there[f"y_{name}"]).max()))
    assert missed.pop("bent") > CLEAR
    assert max(missed.values()) <= EXACT, missed
    assert here["d_max"].sum(1) == pytest.approx(1), "a convex combination of the slopes that tie"


@rows("A51")
@every_backend
def test_subgradient_descent_rests_in_a_kink_if_its_steps_shrink(backend: str, tmp_path: Path) -> None:
    module = model(Path("optimisation/subgradient.dsl"), tmp_path, backend)
    found = module.forward({}, np.float64(3.1), np.float64(1.0))

    def descent(shrinking: bool) -> Array:
        x = torch.tensor(3.1, dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.SGD([x], lr=0.45)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda t: (t + 1) ** -0.5 if shrinking else 1.0)
        path = []
        for _ in range(100):
            optimiser.zero_grad()
            (x - 1).abs().backward()
            optimiser.step()
            schedule.step()
            path.append(x.item())
        return np.array(path)

    close(found["shrinking"], descent(True), rtol=1e-8)
    close(found["fixed"], descent(False), rtol=1e-8)
    assert np.abs(found["shrinking"][-20:] - 1).max() < 0.05
    assert np.abs(found["fixed"][-20:] - 1).max() > 0.2

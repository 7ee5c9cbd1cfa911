"""Whole numbers in formulas: they divide to a float whatever their values, and results have their declared dtype."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from samples import load

from dslc.builder.build import build
from dslc.compiler import choose, compile_text
from dslc.frontend import check_text
from dslc.ir import nodes as ir
from dslc.meaning.interpret import Interpreter

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    """What torch makes of Python numbers is exact enough to compare with."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


FLOATS = {"f32": np.float32, "f64": np.float64}


def module(text: str, folder: Path, dtype: str = "f32", **settings: object) -> ModuleType:
    spec = folder / "numbers.dsl"
    spec.write_text(text, encoding="utf-8")
    return load(compile_text(spec, settings=settings, dtype=dtype), folder)


#: a formula of x: [N, K] and of the number `steps`, with what it means; x is a tensor of torch
NUMBERS: list[tuple[str, str, Any]] = [
    ("[]", "y = 1/N * sum(x)", lambda x, steps: x.sum() / len(x)),
    ("[]", "y = N / 2", lambda x, steps: torch.tensor(len(x) / 2)),
    ("[]", "y = -N/2 * log(2*pi)", lambda x, steps: torch.tensor(-len(x) / 2 * math.log(2 * math.pi))),
    ("[N, K]", "y[i, k] = (N - 1) / N * x[i, k]", lambda x, steps: (len(x) - 1) / len(x) * x),
    ("[]", "y = sqrt(N / 2)", lambda x, steps: torch.tensor(math.sqrt(len(x) / 2))),
    ("[]", "h = N / 2\n    y = h * h", lambda x, steps: torch.tensor(len(x) ** 2 / 4)),
    ("[]", "y = (N + 1) / 2 + N * K / 4", lambda x, steps: torch.tensor((len(x) + 1) / 2 + x.numel() / 4)),
    ("[]", "y = 1 / steps", lambda x, steps: torch.tensor(1 / steps)),
    ("[]", "dt = 1 / steps\n    y = dt * sum(x)", lambda x, steps: x.sum() / steps),
    ("[N, K]", "h = 1 / steps\n    y = x * h", lambda x, steps: x / steps),
    ("[N, K]", "y = x\n    for i in 0..3:\n        y = y + i / steps", lambda x, steps: x + 3 / steps),
    ("[N, K]", "y = x\n    for i in 0..3:\n        s = i / 2\n        y = y * cos(s)",
     lambda x, steps: x * math.cos(0) * math.cos(0.5) * math.cos(1)),
    ("[N]", "y[n: N] = n / N", lambda x, steps: torch.arange(len(x)) / len(x)),
    ("[N, K]", "y[n, k] = k * x[n, k]", lambda x, steps: torch.arange(x.shape[1]) * x),
    ("[N]", "y[n] = k * x[n, k]", lambda x, steps: (torch.arange(x.shape[1]) * x).sum(1)),
    ("[N, K]", "y[n, k] = (n - k) / K * x[n, k]",
     lambda x, steps: (torch.arange(len(x))[:, None] - torch.arange(x.shape[1])) / x.shape[1] * x),
    ("[N, K]", "y[n, k] = x[n, k] * (1 if k <= n else 0)", lambda x, steps: x.tril()),
    ("[N, K]", "y[n, k] = x[n, k] if k <= n else 0", lambda x, steps: x.tril()),
    ("[N, K]", "y[n, k] = sqrt(k) + x[n, k]^k", lambda x, steps: torch.arange(x.shape[1]) ** 0.5
     + x ** torch.arange(x.shape[1])),
    ("[N]", "y[n: N] = 0", lambda x, steps: torch.zeros(len(x))),
    ("[N]", "y[n: N] = n", lambda x, steps: torch.arange(len(x)).double()),
    ("[]", "y = 3", lambda x, steps: torch.tensor(3.0)),
    ("[N]", "y[n] = argmax[k](x[n, k])", lambda x, steps: x.argmax(1).double()),
    ("[N]", "y[n] = x[n, 0] * argmax[k](x[n, k])", lambda x, steps: x[:, 0] * x.argmax(1)),
    ("[]", "b = argmax[n](x[n, 0])\n    y = b * x[0, 0]", lambda x, steps: x[:, 0].argmax() * x[0, 0]),
    ("[N]", "y[n] = max(n, x[n, 0])", lambda x, steps: torch.maximum(torch.arange(len(x)), x[:, 0])),
    ("[N]", "y[n] = cumsum[n](n * x[n, 0])", lambda x, steps: (torch.arange(len(x)) * x[:, 0]).cumsum(0)),
    ("[4]", "r[n: N] = clip(n, 0, 3)\n    y[r[n]: 4] += 1",
     lambda x, steps: torch.bincount(torch.arange(len(x)).clip(0, 3), minlength=4).double()),
    ("[N]", "scan n:\n        y[n] = y[n-1] + n / N\n    start y = 0",
     lambda x, steps: (torch.arange(len(x)) / len(x)).cumsum(0)),
    ("[N]", "scan n:\n        c[n] = c[n-1] + n * x[n, 0]\n        y[n] = n\n    start c = 0",
     lambda x, steps: torch.arange(len(x)).double()),
    ("[N, K]", "y = x * mean[n: N](n)", lambda x, steps: x * (len(x) - 1) / 2),
    ("[N]", "y = half(x)", lambda x, steps: x.sum(1) / len(x)),
    ("[N, K]", "y = scaled(x, 1 / N)", lambda x, steps: x / len(x)),
    ("[N, K]", "y = scaled(x, 4 / 2)", lambda x, steps: x * 2),
    ("[N, K]", "y = scaled(x, steps / 1)", lambda x, steps: x * steps),
    ("[]", "y = 1 if N / 2 > 2.25 else -1", lambda x, steps: torch.tensor(1.0 if len(x) > 4.5 else -1.0)),
    ("[]", "y = min(N / 2, 2) + max(1 / N, 1 / K)",
     lambda x, steps: torch.tensor(min(len(x) / 2, 2) + max(1 / len(x), 1 / x.shape[1]))),
]  # fmt: skip

HELPERS = """
fn half(x: [N, K]) -> y: [N]:
    y[n] = 1/N * sum[k](x[n, k])

fn scaled(x, a) = a * x
"""


def spec(shape: str, formula: str) -> str:
    return f"{HELPERS}\nmodel m(x: [N, K], steps = 1) -> y: {shape}:\n    {formula}\n"


@pytest.mark.point("1", "6")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shape", "formula", "meaning"), NUMBERS, ids=[f for _, f, _ in NUMBERS])
def test_sizes_and_indices_are_numbers_like_others(
    shape: str, formula: str, meaning: Any, dtype: str, tmp_path: Path
) -> None:
    x = np.random.default_rng(0).standard_normal((5, 3))
    steps = 1 if len(formula) % 2 else 3
    found = module(spec(shape, formula), tmp_path, dtype, steps=steps).forward({}, x.astype(FLOATS[dtype]))
    wanted = meaning(torch.tensor(x), steps)
    assert np.asarray(found).dtype == FLOATS[dtype]
    np.testing.assert_allclose(found, np.broadcast_to(wanted, np.shape(found)), 1e-5 if dtype == "f32" else 1e-12)
    checked = check_text(spec(shape, formula), settings={"steps": steps})
    with ir.compilation():
        unit = build(choose(checked)[0])
        exact = Interpreter({"x": x}, {"N": 5, "K": 3}).run(unit.outputs)["y"]
    np.testing.assert_allclose(exact, np.broadcast_to(wanted, exact.shape), 1e-12)


TRAINED = """
model m(x: [N, K], label: i32[N], K = 3) -> y: [N]:
    param w: [K] ~ ones
    state calls: [] = 0
    training:
        calls <- 1
    inference:
        unused = 0
    y[n] = k * x[n, k] * w[k] + label[n] + calls

train m(x, label):
    y = m(x, label)
    minimize 1/N * sum[n](n * (y[n] - label[n])^2) + (N - 1) / N
    metric share = sum[n](1 if y[n] > 0 else 0) / N
    metric half = N / 2
    metric label = mean[n](label[n])
    using sgd(lr = 1 / (step + 1) / 100)
"""


@pytest.mark.point("1", "6")
@pytest.mark.parametrize("dtype", FLOATS)
def test_losses_gradients_metrics_and_steps_divide_whole_numbers_to_floats(dtype: str, tmp_path: Path) -> None:
    m = module(TRAINED, tmp_path, dtype)
    rng = np.random.default_rng(0)
    x, label = rng.standard_normal((5, 3)).astype(FLOATS[dtype]), rng.integers(0, 4, 5)
    params = m.init()
    w, given = torch.ones(3, requires_grad=True), torch.tensor(x.astype(np.float64))
    y = given @ (torch.arange(3) * w) + torch.tensor(label) + 1
    loss = (torch.arange(5) * (y - torch.tensor(label)) ** 2).sum() / 5 + 4 / 5
    loss.backward()
    assert w.grad is not None
    found, grads, metrics, states = m.loss_grad_metrics(params, x, label, m.init_state())
    wanted = {"share": (y > 0).sum() / 5, "half": 2.5, "label": label.mean()}
    for value in (found, *grads.values(), *metrics.values(), *states.values()):
        assert np.asarray(value).dtype == FLOATS[dtype]
    close = 1e-5 if dtype == "f32" else 1e-12
    np.testing.assert_allclose(found, loss.detach(), close)
    np.testing.assert_allclose(grads["w"], w.grad, close)
    for name, value in wanted.items():
        np.testing.assert_allclose(metrics[name], value, close)
    stepped, opt = m.train_step({"w": np.ones(3, FLOATS[dtype])}, m.init_opt(params), x, label)
    np.testing.assert_allclose(stepped["w"], 1 - w.grad / 2 / 100, close)
    assert stepped["w"].dtype == opt["state"]["calls"].dtype == FLOATS[dtype]


DECLARED = """
model m(x: [N], h: f16[N], k: i32[N], d: f64[N]) -> (
    whole: i32[N], long: i64[N], half: f16[N], wide: f64[N], plain: [N], mixed: f32[N], total: i32[], seen: f64[N],
    test: bool[N]
):
    whole[n] = k[n] * n
    long[n] = k[n] + n
    half[n] = h[n] * 2
    wide[n] = d[n] * k[n]
    plain[n] = k[n]
    mixed[n] = x[n] * k[n] + n
    total = sum[n](k[n])
    scan n:
        seen[n] = seen[n-1] + x[n] * n
    start seen = 0
    test[n] = k[n] > n
"""


@pytest.mark.point("6")
@pytest.mark.parametrize("dtype", FLOATS)
def test_results_have_the_dtypes_that_they_are_declared_with(dtype: str, tmp_path: Path) -> None:
    x, k = np.linspace(-1, 1, 5), np.arange(5)
    found = module(DECLARED, tmp_path, dtype).forward({}, x, x.astype(np.float16), k.astype(np.int32), x)
    kept = {"whole": np.int32, "long": np.int64, "half": np.float16, "wide": np.float64, "total": np.int32,
            "seen": np.float64, "test": np.bool_}  # fmt: skip
    assert {name: value.dtype for name, value in found.items()} == {
        name: np.dtype(kept.get(name, FLOATS[dtype])) for name in found
    }
    wanted = {"whole": k * k, "long": 2 * k, "half": 2 * x, "wide": x * k, "plain": k, "mixed": x * k + k, "total": 10,
              "seen": np.cumsum(x * k), "test": k > k}  # fmt: skip
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, 1e-3 if name == "half" else 1e-6, 1e-6)


@pytest.mark.point("13")
@pytest.mark.parametrize(
    "formula", ["y[t] = prefix[t](plus, x[t])", "scan t:\n        y[t] = plus(y[t-1], x[t])\n    start y = 0"]
)
def test_a_prefix_is_computed_in_the_dtype_that_its_function_gives(formula: str, tmp_path: Path) -> None:
    """Increments far below the rounding of float32 add up, as in a scan."""
    text = f"fn plus(a, b) = a + b + f64(0.000000001)\n\nmodel m(x: f32[T]) -> y: f64[T]:\n    {formula}\n"
    x = np.ones(1000, np.float32)
    found = module(text, tmp_path).forward({}, x)
    wanted = np.cumsum(np.full(1000, 1 + 1e-9)) - (1e-9 if "prefix" in formula else 0)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, wanted, 1e-14)


@pytest.mark.point("13")
def test_a_prefix_of_several_values_promotes_each_by_itself(tmp_path: Path) -> None:
    text = """
fn after(a1, b1, a2, b2) -> (a, b):
    a = a1 * a2
    b = a2 * b1 + b2

model m(a: f32[T], b: f64[T], k: i32[T]) -> (d, h, n):
    d[t], h[t] = prefix[t](after, a[t], b[t])
    c[t], n[t] = prefix[t](after, k[t], b[t])
"""
    rng = np.random.default_rng(0)
    a, b, k = rng.random(50).astype(np.float32), rng.random(50), np.ones(50, np.int32)
    found = module(text, tmp_path).forward({}, a, b, k)
    h = [b[0]]
    for t in range(1, 50):
        h.append(a[t] * h[-1] + b[t])
    assert found["d"].dtype == np.float32 and found["h"].dtype == found["n"].dtype == np.float64
    np.testing.assert_allclose(found["h"], h, 1e-14)
    np.testing.assert_allclose(found["n"], np.cumsum(b), 1e-14)


@pytest.mark.point("1")
def test_quotients_of_sizes_are_still_sizes_and_positions_where_they_are_whole(tmp_path: Path) -> None:
    text = """
model m(x: [N, E], heads = 2, E = 8) -> (y: [N, 2, 4], last: [N], far: [N, 4], third: [N, 3]):
    y[n, h, d] = x[n, (h d)] where h = heads
    last[n] = x[n, E / heads]
    far[n, d: E / heads] = x[n, d + E / heads]
    size D = E / heads - 1
    third[n, d: D] = x[n, 6 / 3 * d]
"""
    x = np.random.default_rng(0).standard_normal((3, 8))
    found = module(text, tmp_path, "f64").forward({}, x)
    np.testing.assert_array_equal(found["y"], x.reshape(3, 2, 4))
    np.testing.assert_array_equal(found["last"], x[:, 4])
    np.testing.assert_array_equal(found["far"], x[:, 4:])
    np.testing.assert_array_equal(found["third"], x[:, 0:6:2])


@pytest.mark.point("1")
@pytest.mark.parametrize("place", ["T / 2", "t + T / 2", "5 / 2", "2.0"])
def test_a_position_that_need_not_be_whole_is_refused(place: str) -> None:
    checked = check_text(f"fn f(x: [T]) -> y: [2]:\n    y[t: 2] = x[clamp({place})] + 0 * t\n")
    assert [d.code for d in checked.errors] == ["E0405"]


GRADIENTS = {
    "a slope that is an index": """
model m(x: [N, 3], label: i32[N] < 3) -> loss: []:
    param w: [3]
    y[a: 2, k] = log_sigmoid(x[0, k]) + (a + 1) * w[k]
    loss = sum(sigmoid(y))
""",
    "a select of two numbers": """
model m(x: [N, 3], label: i32[N] < 3) -> loss: []:
    param w: [3, 3]
    z[n, k] = x[n, i] * w[i, k]
    s[n] = -sum[k](log_softmax[k](z[n, k]) if k == label[n] else 0)
    loss = mean(s)
""",
}


@pytest.mark.point("6")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_made_of_whole_numbers_are_floats_of_the_module(name: str, dtype: str, tmp_path: Path) -> None:
    train = "\ntrain m(x, label):\n    minimize m(x, label)\n    using sgd(lr = 0.1)\n"
    m = module(GRADIENTS[name] + train, tmp_path, dtype)
    x, label = np.linspace(-1, 1, 6).reshape(2, 3), np.array([2, 0])
    w = torch.linspace(0.5, 1, 3, dtype=torch.float64).repeat(*([3, 1] if "select" in name else [1])).requires_grad_()
    if "slope" in name:
        y = torch.nn.functional.logsigmoid(torch.tensor(x)[0]) + torch.arange(1, 3)[:, None] * w
        torch.sigmoid(y).sum().backward()
    else:
        torch.nn.functional.cross_entropy(torch.tensor(x) @ w, torch.tensor(label)).backward()
    assert w.grad is not None
    loss, grads = m.loss_and_grad({"w": w.detach().numpy().astype(FLOATS[dtype])}, x, label)
    assert loss.dtype == grads["w"].dtype == FLOATS[dtype]
    np.testing.assert_allclose(grads["w"], w.grad, 0, 1e-6 if dtype == "f32" else 1e-12)

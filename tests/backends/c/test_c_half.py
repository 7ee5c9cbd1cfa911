"""Numbers of 16 bits in C: conversions as torch makes them, and modules that give what NumPy's do."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from compiled import built, compiler, source

from dslc.compiler import compile_files, compile_module

KINDS = {"f16": torch.float16, "bf16": torch.bfloat16}
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-45, 65504, 65519.99, 65520, -65536, 3.3895314e38, 3.4e38]
LOOPS = """
void round_f16(const float *x, float *y, long n) { for (long i = 0; i < n; i++) y[i] = rounded_f16_f32(x[i]); }
void round_f16_wide(const double *x, double *y, long n) { for (long i = 0; i < n; i++) y[i] = rounded_f16_f64(x[i]); }
void round_bf16(const float *x, float *y, long n) { for (long i = 0; i < n; i++) y[i] = rounded_bf16_f32(x[i]); }
void widen(const uint16_t *x, float *y, long n) { for (long i = 0; i < n; i++) y[i] = widened_bf16(x[i]); }
"""
NAMES = ["rounded_f16_f32", "rounded_f16_f64", "rounded_bf16_f32", "widened_bf16"]


@pytest.fixture(scope="module", params=["native", "x86-64"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp(request.param)
    found = subprocess.run(
        [compiler(), f"-march={request.param}", "-E", "-"], input=b"", capture_output=True, check=False
    )
    if found.returncode:
        pytest.skip(f"no processor {request.param}")
    return ctypes.CDLL(str(built(folder, source(NAMES, LOOPS), "-shared", "-fPIC", f"-march={request.param}")))


def applied(function: Any, x: np.ndarray, dtype: type = np.float32) -> np.ndarray:
    y = np.empty(x.shape, dtype)
    function(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), ctypes.c_long(x.size))
    return y


def floats() -> np.ndarray:
    """Numbers of all exponents, all that are halfway between two numbers of 16 bits, and the edges."""
    rng = np.random.default_rng(0)
    upper = np.arange(2**16, dtype=np.uint32) << 16
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    finite = halves[np.isfinite(halves)]
    between = np.sort(finite)[:-1] / 2 + np.sort(finite)[1:] / 2
    bits = [upper, upper + 0x8000, upper + 0x8001, upper + 0x7FFF, rng.integers(0, 2**32, 10**5, np.uint32)]
    parts = [np.array(EDGES, np.float32), np.concatenate(bits).astype(np.uint32).view(np.float32)]
    return np.concatenate([*parts, halves, between, np.nextafter(between, np.float32(np.inf))])


@pytest.mark.parametrize("kind", KINDS)
def test_rounding_is_that_of_torch(kind: str, library: ctypes.CDLL) -> None:
    x = floats()
    found = applied(library[f"round_{kind}"], x)
    wanted = torch.from_numpy(x).to(KINDS[kind]).float().numpy()
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found)[x == 0], np.signbit(x)[x == 0])


def test_a_double_is_rounded_once(library: ctypes.CDLL) -> None:
    x = np.array([1 + 2**-11 + 2**-40, 1 + 2**-11 - 2**-40, 1 + 3 * 2**-11 - 2**-40, 65520 - 1e-9])
    np.testing.assert_array_equal(applied(library.round_f16_wide, x, np.float64), x.astype(np.float16).astype(float))


def test_all_numbers_of_bfloat16_are_read(library: ctypes.CDLL) -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    wanted = torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(applied(library.widen, bits), wanted)


#: each way to read, compute and give numbers of 16 bits; K stands for the dtype
MODELS = {
    "product": """
model m(x: K[N, 6], w: K[6, 4]) -> (y: [N, 4], z: K[N, 4]):
    param W: K[6, 4]
    y[n, o] = f32(x[n, i]) * W[i, o] + f32(x[n, i]) * w[i, o]
    z[n, o] = K(y[n, o])
""",
    "states": """
model m(x: K[N, 6]) -> y: K[N, 6]:
    state s: K[6] = 1
    y[n, i] = K(x[n, i] * s[i])
    training:
        s[i] <- K(mean[n](f32(x[n, i])))
""",
    "scan": """
model m(x: K[N, T, 3]) -> (y: K[N, 3], all: f32[N, T, 3]):
    scan t:
        h[n, t, k] = K(tanh(f32(x[n, t, k]) + 0.5 * f32(h[n, t-1, k])))
    start h = 0
    all[n, t, k] = f32(h[n, t, k])
    y[n, k] = h[n, T-1, k]
""",
    "layers": """
model m(x: K[N, 4]) -> y: K[N, 4]:
    h = x
    for l in 0..3:
        param W: K[4, 4]
        h[n, o] = K(f32(h[n, i]) * f32(W[i, o]))
    y = h
""",
    "scatter": """
model m(x: K[N, 3], at: i32[N] < 4) -> (y: K[4, 3], most: K[N]):
    z[at[n], k] += f32(x[n, k])
    y[n, k] = K(z[n, k])
    most[n] = max[k](x[n, k])
""",
    "order": """
model m(x: K[N, 5]) -> (y: K[N, 5], at: i64[N, 5], c: K[N, 5]):
    y[n, k] = sort[k](x[n, k])
    at[n, k] = argsort[k](x[n, k])
    c[n, k] = K(cumsum[k](f32(x[n, k])))
""",
    "as it is": """
model m(x: K[N, 3], p: binary K[N]) -> (y: K[N, 3], z: K[N]):
    y = x
    z[n] = x[n, 0] if p[n] > 0 else K(7)
""",
    "attention": """
model m(x: K[N, T, 4]) -> y: K[N, T, 4]:
    a[n, t, s] = softmax[s](f32(x[n, t, d]) * f32(x[n, s, d]) if s <= t else -inf)
    y[n, t, d] = K(a[n, t, s] * f32(x[n, s, d]))
""",
}


def modules(name: str, kind: str, folder: Path, dtype: str) -> tuple[ModuleType, ModuleType]:
    (folder / "m.dsl").write_text(
        MODELS[name].replace("K", kind).replace(f"at[n, {kind}]", "at[n, k]"), encoding="utf-8"
    )
    numpy, c = (compile_module(folder / "m.dsl", backend, dtype) for backend in ("numpy", "c"))
    return numpy, c


def data(name: str, dtype: type) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    x = [n.strip() for n in MODELS[name].partition("x: K[")[2].partition("]")[0].split(",")]
    given = [rng.normal(size=[{"N": 7, "T": 5}.get(n) or int(n) for n in x]).astype(np.float32)]
    if "w: K" in MODELS[name]:
        given.append(rng.normal(size=(6, 4)).astype(np.float32))
    if "at: i32" in MODELS[name]:
        given.append(rng.integers(0, 4, 7).astype(np.int32))
    if "p: binary" in MODELS[name]:
        given.append(rng.integers(0, 2, 7).astype(np.float32))
    return given


def by_name(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {"y": found}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_modules_give_what_those_of_numpy_give(name: str, kind: str, dtype: str, tmp_path: Path) -> None:
    numpy, c = modules(name, kind, tmp_path, dtype)
    params, given = numpy.init(seed=0), data(name, np.float32)
    assert {k: x.dtype for k, x in params.items()} == {k: x.dtype for k, x in c.init(seed=0).items()}
    state = [numpy.init_state()] if hasattr(numpy, "init_state") else []
    wanted, found = (by_name(m.forward(params, *given, *state)) for m in (numpy, c))
    apart = 2.0 ** (-10 if kind == "f16" else -7)  # sums in another order may be rounded to the next number
    for key, value in wanted.items():
        assert found[key].dtype == value.dtype and found[key].shape == value.shape
        np.testing.assert_allclose(found[key], value, rtol=apart, atol=1e-6)


def test_gradients_pass_numbers_of_16_bits(tmp_path: Path) -> None:
    spec = """
model m(x: f32[N, 4]) -> y: [N, 3]:
    param W: bf16[4, 3]
    h = f16(x)
    y[n, o] = tanh(f32(h[n, i]) * f32(W[i, o]))

train m(x: f32[N, 4]):
    minimize sum(m(x)^2)
    using sgd(lr = 0.1)
"""
    (tmp_path / "m.dsl").write_text(spec, encoding="utf-8")
    module = compile_module(tmp_path / "m.dsl", "c", "f32")
    params = module.init(seed=0)
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    W = torch.from_numpy(params["W"].copy()).requires_grad_()
    each = W.expand(5, 4, 3).to(torch.bfloat16).float()  # derivatives are rounded as values are: each term by itself
    loss = torch.tanh((x.half().float()[:, :, None] * each).sum(1)).square().sum()
    loss.backward()
    found, grads, _, _ = module.loss_grad_metrics(params, x.numpy())
    np.testing.assert_allclose(found, loss.item(), rtol=1e-5)
    np.testing.assert_allclose(grads["W"], W.grad, rtol=1e-4, atol=1e-6)
    assert grads["W"].dtype == np.float32


def test_c_programs_have_the_numbers_themselves(tmp_path: Path) -> None:
    (tmp_path / "m.dsl").write_text(MODELS["product"].replace("K", "bf16"), encoding="utf-8")
    header = compile_files(tmp_path / "m.dsl", "c")["m.h"]
    assert "const uint16_t *x;" in header and "uint16_t *z;" in header and "float *W;" in header


@pytest.mark.parametrize("kind", KINDS)
def test_steps_of_training_are_those_of_torch(kind: str, tmp_path: Path) -> None:
    spec = """
model m(x: K[N, 5]) -> y: K[N, 3]:
    param W: [5, 3] ~ glorot
    param b: [3] ~ zeros
    h[n, o] = K(tanh(f32(x[n, i]) * W[i, o] + b[o]))
    y[n, o] = K(2 * f32(h[n, o]) + 1)

train m(x: K[N, 5], wanted: f32[N, 3]):
    y = m(x)
    minimize mean((f32(y) - wanted)^2)
    using sgd(lr = 0.5)
"""
    (tmp_path / "m.dsl").write_text(spec.replace("K", kind), encoding="utf-8")
    module = compile_module(tmp_path / "m.dsl", "c", "f32")
    random = torch.Generator().manual_seed(0)
    x = torch.randn(17, 5, generator=random).to(KINDS[kind])
    wanted = torch.randn(17, 3, generator=random)
    params = module.init(seed=0)
    own = {k: torch.from_numpy(v.copy()).requires_grad_() for k, v in params.items()}
    optimizer, opt = torch.optim.SGD(own.values(), lr=0.5), module.init_opt(params)
    given = x.numpy() if kind == "f16" else x.float().numpy()
    for _ in range(10):
        h = torch.tanh(x.float() @ own["W"] + own["b"]).to(KINDS[kind])
        y = (2 * h.float() + 1).to(KINDS[kind])
        loss = (y.float() - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        module.train_step(params, opt, given, wanted.numpy())
    apart = 2.0 ** (-10 if kind == "f16" else -7)  # one value that is rounded to the next number, among 51
    np.testing.assert_allclose(opt["loss"], loss.item(), rtol=apart)
    for name, value in params.items():
        np.testing.assert_allclose(value, own[name].detach().numpy(), rtol=apart, atol=apart / 8)


@pytest.mark.parametrize("kind", KINDS)
def test_results_out_of_range_are_infinite(kind: str, tmp_path: Path) -> None:
    spec = (
        "model m(x: f32[N], h: K[N]) -> (y: K[N], z: K[N]):\n    y[n] = K(x[n])\n    z[n] = K(f32(h[n]) * f32(h[n]))\n"
    )
    (tmp_path / "m.dsl").write_text(spec.replace("K", kind), encoding="utf-8")
    module = compile_module(tmp_path / "m.dsl", "c", "f32")
    x = torch.tensor([*EDGES, 1e-7, 6e-8, 2.9e-8, -1e-9, 70000, 1.0009766, 3.0e38])
    h = torch.tensor([*EDGES, 256, 255.9, 1e-3, -300, 1e-4, 2e19, 1.5]).to(KINDS[kind])
    found = module.forward({}, x.numpy(), h.numpy() if kind == "f16" else h.float().numpy())
    wanted = {"y": x.to(KINDS[kind]), "z": (h.float() * h.float()).to(KINDS[kind])}
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name].astype(np.float32), value.float().numpy())

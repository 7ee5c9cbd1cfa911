"""gelu and other uses of the normal distribution have a function of their own in NumPy modules."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.special import ndtr

from dslc.compiler import compile_text

GELU = """
model m(x: f32[N]) -> (y, p):
    y = gelu(x)
    p = 3 * erfc(-x / sqrt(2))
"""


def compiled(folder: Path, dtype: str) -> tuple[str, ModuleType]:
    file = folder / "spec.dsl"
    file.write_text(GELU, encoding="utf-8")
    text = compile_text(file, dtype=dtype)
    module = ModuleType("compiled")
    exec(compile(text, "compiled.py", "exec"), module.__dict__)
    return text, module


def test_values_that_need_it_share_one_call(tmp_path: Path) -> None:
    text, _ = compiled(tmp_path, "f32")
    body = text.split("def forward(")[1].split("\ndef ")[0]
    assert body.count("normal_cdf(x)") == 1 and "erfc(x" not in body and "x * normal_cdf_x" in body


@pytest.mark.parametrize(("dtype", "tolerance"), [("f32", 2.5e-6), ("f64", 1e-13)])
def test_values_keep_their_digits_in_the_tail(tmp_path: Path, dtype: str, tolerance: float) -> None:
    _, m = compiled(tmp_path, dtype)
    x = np.linspace(-12.5, 9, 100_001).astype(m.DTYPE)
    found = m.forward({}, x)
    exact = ndtr(x.astype(np.float64))
    np.testing.assert_allclose(found["y"], x * exact, rtol=tolerance)
    np.testing.assert_allclose(found["p"], 6 * exact, rtol=tolerance)


def test_the_argument_may_be_a_number(tmp_path: Path) -> None:
    file = tmp_path / "number.dsl"
    file.write_text("model m(x: f64[N]) -> y: [N]:\n    y = gelu(tanh(0.4)) * x\n", encoding="utf-8")
    module = ModuleType("compiled")
    exec(compile(compile_text(file, dtype="f64"), "compiled.py", "exec"), module.__dict__)
    expected = np.tanh(0.4) * ndtr(np.tanh(0.4)) * np.ones(2)
    np.testing.assert_allclose(module.forward({}, np.ones(2)), expected, rtol=1e-14)


def test_float64_in_a_module_of_float32_keeps_its_digits(tmp_path: Path) -> None:
    file = tmp_path / "wide.dsl"
    file.write_text("model m(x: f64[N], z: f32[N]) -> (y, w):\n    y = gelu(x)\n    w = gelu(z)\n", encoding="utf-8")
    module = ModuleType("compiled")
    exec(compile(compile_text(file), "compiled.py", "exec"), module.__dict__)
    x = np.linspace(-12.5, 9, 1001)
    found = module.forward({}, x, x.astype(np.float32))
    assert found["y"].dtype == np.float64 and found["w"].dtype == np.float32
    np.testing.assert_allclose(found["y"], x * ndtr(x), rtol=1e-13)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_limits_and_not_a_number(tmp_path: Path, dtype: str) -> None:
    _, m = compiled(tmp_path, dtype)
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, -1e-30])
    found = m.forward({}, x)["p"]
    np.testing.assert_allclose(found, [3, 3, 6, 0, np.nan, 6, 0, 3], rtol=1e-6)


TURNED = """
model m(x: f32[N, K]) -> (y: [K, N], z: [N, K]):
    y[k, n] = gelu(x[n, k])
    z[n, k] = gelu(x[n, k] * 2)
"""


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_gelu_is_a_number_times_its_chance(tmp_path: Path, dtype: str) -> None:
    file = tmp_path / "turned.dsl"
    file.write_text(TURNED, encoding="utf-8")
    text = compile_text(file, dtype=dtype)
    body = text.split("def forward(")[1].split("\ndef ")[0]
    assert "product_x * normal_cdf(product_x)" in body and "erfc" not in body
    module = ModuleType("compiled")
    exec(compile(text, "compiled.py", "exec"), module.__dict__)
    rng = np.random.default_rng(0)
    for rows, columns in ((3, 5), (40, 30), (1, 1), (700, 800)):
        x = rng.normal(size=(rows, columns)).astype(module.DTYPE) * 4  # many in the tail
        x = np.clip(x, -6, None)
        for given in (x, np.asfortranarray(x)):
            found = module.forward({}, given)
            exact = x.astype(np.float64)
            tolerance = 3e-6 if dtype == "f32" else 1e-13
            np.testing.assert_allclose(found["y"], (exact * ndtr(exact)).T, rtol=tolerance)
            np.testing.assert_allclose(found["z"], 2 * exact * ndtr(2 * exact), rtol=tolerance)

"""Every scalar operation in a Triton kernel agrees with its oracle, inside its domain and at its edges."""

from __future__ import annotations

import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from triton_modules import triton_module

from dslc.meaning.interpret import apply
from dslc.ops.table import SCALAR_OPS

#: accuracy in float64: how far these are from correctly rounded
LOOSE = {"lgamma": 2e-12, "digamma": 1e-12, "trigamma": 1e-12, "erfc": 2e-13, "erfcx": 2e-13, "erfinv": 1e-12}
NAMES = [name for name, op in SCALAR_OPS.items() if op.gives != "bool"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """All operations in one module: what it finds, and what the reference interpreter says."""
    folder = tmp_path_factory.mktemp("scalars")
    spec = folder / "scalars.dsl"
    inputs, outputs, lines, data = [], [], [], []
    for name in NAMES:
        op = SCALAR_OPS[name]
        points = [p for p, _ in op.edges]
        columns = [np.array([*op.samples[k], *(p[k] for p in points)]) for k in range(op.arity)]
        inputs += [f"{name}_{k}: f64[N_{name}]" for k in range(op.arity)]
        outputs.append(f"y_{name}: [N_{name}]")
        lines.append(f"    y_{name} = {name}({', '.join(f'{name}_{k}' for k in range(op.arity))})")
        data.append(columns)
    head = f"model m({', '.join(inputs)}) -> ({', '.join(outputs)}):\n"
    spec.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    module = triton_module(spec, folder, "f64")
    with np.errstate(all="ignore"):
        found = module.forward({}, *(torch.as_tensor(c) for columns in data for c in columns))
        return {
            name: (found[f"y_{name}"].numpy(), np.asarray(apply(name, columns, "f64"), float))
            for name, columns in zip(NAMES, data, strict=True)
        }


@pytest.mark.wide(2)
@pytest.mark.parametrize("name", NAMES)
def test_an_operation_agrees_with_the_interpreter(name: str, results: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    found, wanted = results[name]
    tolerance = LOOSE.get(name, 4e-15)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance if name == "lgamma" else 1e-300)


def test_third_and_fourth_derivatives_of_lgamma(tmp_path: Path) -> None:
    spec = tmp_path / "gamma.dsl"
    lines = ["first = grad(sum(digamma(x)), x)", "a = grad(sum(first), x)", "b = grad(sum(a), x)"]
    spec.write_text("model m(x: f64[N]) -> (a: [N], b: [N]):\n    " + "\n    ".join(lines) + "\n", encoding="utf-8")
    x = np.array([-1.3, -0.4, 0.3, 0.7, 5.6, 30.0])
    found = triton_module(spec, tmp_path, "f64").forward({}, torch.as_tensor(x))
    for name, order in (("a", 2), ("b", 3)):
        expected = [float(mpmath.polygamma(order, p)) for p in x]
        np.testing.assert_allclose(found[name].numpy(), expected, rtol=1e-11)


def test_rounding_to_bfloat16_is_that_of_torch(tmp_path: Path) -> None:
    spec = tmp_path / "half.dsl"
    spec.write_text(
        "model m(x: f32[N]) -> (a: [N], b: [N]):\n    a = f32(bf16(x))\n    b = f32(f16(x))\n", encoding="utf-8"
    )
    module = triton_module(spec, tmp_path)
    x = torch.as_tensor(np.random.default_rng(0).normal(size=200) * 10.0 ** np.arange(-4, 4).repeat(25)).float()
    x[0], x[1] = math.nan, math.inf
    out = module.forward({}, x)
    np.testing.assert_array_equal(out["a"].numpy(), x.to(torch.bfloat16).float().numpy())
    np.testing.assert_array_equal(out["b"].numpy(), x.to(torch.float16).float().numpy())

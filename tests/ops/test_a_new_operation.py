"""A new operation is one record: the example of CONTRIBUTING.md, put into a copy of dslc, on every backend."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import worked_examples
from completeness import missing
from samples import load

from dslc.ops import special
from dslc.ops.record import ScalarOp

(EXAMPLE,) = worked_examples.examples("Adding an operation")

SPEC = """
model m(x: f32[N, 3]) -> y: [N, 2]:
    param w: f32[3, 2] ~ normal(0.5)
    h[n, o] = x[n, i] * w[i, o]
    y[n, o] = sech(2 * h[n, o] + 1) / sech(0.5)

train m(x):
    y = m(x)
    minimize mean[n, o](y[n, o]^2)
    using sgd(lr = 0.1)
"""


def record(call: ast.Call) -> ScalarOp:
    """What a call makes, with the names of the file that the record is for."""
    made = eval(compile(ast.fix_missing_locations(ast.Expression(call)), "example", "eval"), vars(special))
    assert isinstance(made, ScalarOp)
    return made


def call() -> ast.Call:
    found = ast.parse(EXAMPLE, mode="eval").body
    assert isinstance(found, ast.Call)
    return found


def test_the_record_lacks_nothing() -> None:
    assert missing(record(call())) == []


@pytest.mark.parametrize("field", ["cost", "numpy", "plain", "triton", "c", "oracle"])
def test_a_field_that_is_missing_is_noticed(field: str) -> None:
    less = call()
    less.keywords = [k for k in less.keywords if k.arg != field]
    if field == "cost":
        with pytest.raises(TypeError, match="'cost'"):
            record(less)
    else:
        assert any(found.startswith(field) for found in missing(record(less)))


@pytest.mark.parametrize(
    ("place", "field", "nothing"), [(2, "derivative", "None"), (3, "samples", "()"), (4, "edges", "()")]
)
def test_an_argument_that_is_empty_is_noticed(place: int, field: str, nothing: str) -> None:
    less = call()
    less.args[place] = ast.parse(nothing, mode="eval").body
    assert field in missing(record(less))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = worked_examples.copied(tmp_path_factory.mktemp("checkout"))
    worked_examples.insert(folder / "dslc/ops/special.py", "SPECIAL_FUNCTIONS = (", ast.unparse(call()) + ",")
    (folder / "m.dsl").write_text(SPEC, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("backend", "dtype", "rtol"), [("numpy", "f64", 1e-12), ("triton", "f64", 1e-12), ("triton", "f32", 1e-5)]
)
def test_modules_have_the_values_and_gradients_of_torch(backend: str, dtype: str, rtol: float, checkout: Path) -> None:
    file = checkout / f"{backend}_{dtype}.py"
    done = worked_examples.dslc(checkout, "compile", "m.dsl", "-b", backend, "--dtype", dtype, "-o", file)
    assert done.returncode == 0, done.stderr
    module = load(file.read_text(encoding="utf-8"), checkout, f"{backend}_{dtype}")
    rng = np.random.default_rng(0)
    kind = torch.float64 if dtype == "f64" else torch.float32
    x, w = (torch.tensor(rng.normal(size=shape), dtype=kind) for shape in ((5, 3), (3, 2)))
    w.requires_grad_()
    y = np.cosh(0.5) / torch.cosh(2 * x @ w + 1)
    loss = (y**2).mean()
    loss.backward()
    given = [{"w": w.detach()}, x] if backend == "triton" else [{"w": w.detach().numpy()}, x.numpy()]
    np.testing.assert_allclose(module.forward(*given), y.detach(), rtol=rtol)
    found, grads = module.loss_and_grad(*given)
    np.testing.assert_allclose(float(found), loss.item(), rtol=rtol)
    assert w.grad is not None
    np.testing.assert_allclose(grads["w"], w.grad, rtol=rtol * 10)


def test_the_interpreter_and_differences_agree(checkout: Path) -> None:
    done = worked_examples.dslc(checkout, "verify", "m.dsl", "--sizes", "N=4", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    checks = json.loads(done.stdout)["checks"]
    assert {(c["backend"], c["check"]) for c in checks} >= {(b, "gradients") for b in ("numpy", "triton")}

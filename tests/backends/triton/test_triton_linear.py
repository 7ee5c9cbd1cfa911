"""Recurrences that are linear in what they carry run as associative scans; others one step after another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from triton_modules import ROOT, check_spec

from dslc.compiler import compile_text
from dslc.ir import nodes as ir
from dslc.schedule.recurrences import affine

TRAIN = """
train m(x):
    y = m(x)
    minimize mean[n, t, e](y[n, t, e]^2 + sin(y[n, t, e]))
    using sgd(lr = 0.1)
"""

HEAD = "model m(x: f32[N, T, 3]) -> y: [N, T, 3]:\n    param a: [3] ~ normal\n    param b: [3] ~ normal\n"

SCANS = {
    "decay": (
        "    scan t:\n        y[n, t, e] = sigmoid(x[n, t, e] * a[e]) * y[n, t-1, e] + b[e] * x[n, t, e]\n"
        "    start y = 0\n"
    ),
    "running sum": "    scan t:\n        y[n, t, e] = y[n, t-1, e] + a[e] * b[e] * x[n, t, e]\n    start y = 0\n",
    "running product": "    scan t:\n        y[n, t, e] = y[n, t-1, e] * (a[e] + 0.1 * x[n, t, e])\n    start y = 1\n",
    "blend": (
        "    scan t:\n        z[n, e] = sigmoid(x[n, t, e] * a[e])\n"
        "        y[n, t, e] = (1 - z[n, e]) * y[n, t-1, e] + z[n, e] * tanh(b[e] * x[n, t, e])\n    start y = 0.5\n"
    ),
    "reset": (
        "    scan t:\n        y[n, t, e] = x[n, t, e] if x[n, t, e] > 0.2 else a[e] * y[n, t-1, e] / 2 - b[e] * t\n"
        "    start y = 0\n"
    ),
    "rotation": (
        "    scan t:\n        u[n, t, e] = a[e] * u[n, t-1, e] - b[e] * v[n, t-1, e] + x[n, t, e]\n"
        "        v[n, t, e] = b[e] * u[n, t-1, e] + a[e] * v[n, t-1, e]\n"
        "    start u = 0\n    start v = 0\n    y = u * v\n"
    ),
    "chain": (
        "    scan t:\n        u[n, t, e] = a[e] * u[n, t-1, e] + x[n, t, e]\n"
        "        v[n, t, e] = b[e] * v[n, t-1, e] + 0.5 * u[n, t-1, e]\n"
        "    start u = 0\n    start v = 0\n    y = v + u\n"
    ),
}  # fmt: skip


def written(folder: Path, body: str) -> Path:
    spec = folder / "linear.dsl"
    spec.write_text(HEAD + body + TRAIN, encoding="utf-8")
    return spec


@pytest.mark.wide(5)
@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("size", [1, 5])
def test_a_linear_recurrence_is_an_associative_scan_both_ways(name: str, size: int, tmp_path: Path) -> None:
    spec = written(tmp_path, SCANS[name])
    text = compile_text(spec, "triton")
    kernels = re.findall(r"def \w*_(linear|scan)\w*_kernel", text)
    assert kernels and "scan" not in kernels
    assert "reverse=True" in text
    check_spec(spec, tmp_path, size)


@pytest.mark.wide(2)
@pytest.mark.parametrize("name", ["decay", "rotation"])
def test_the_state_is_carried_from_block_to_block(name: str, tmp_path: Path) -> None:
    spec = tmp_path / "long.dsl"
    text = HEAD.replace("[N, T, 3]", "[T, 3]") + SCANS[name] + TRAIN
    spec.write_text(text.replace("[n, ", "["), encoding="utf-8")
    check_spec(spec, tmp_path, 70)


@pytest.mark.parametrize(
    "step", ["tanh(a[e] * y[n, t-1, e] + x[n, t, e])", "a[e] * y[n, t-1, e]^2 + x[n, t, e]",
             "max(y[n, t-1, e], x[n, t, e])", "y[n, t-1, e] if y[n, t-1, e] > a[e] else x[n, t, e]"],
)  # fmt: skip
def test_another_recurrence_runs_one_step_after_another_and_its_adjoint_as_a_scan(step: str, tmp_path: Path) -> None:
    body = f"    scan t:\n        y[n, t, e] = {step}\n    start y = 0.1\n"
    spec = tmp_path / "alone.dsl"
    spec.write_text(HEAD + body, encoding="utf-8")
    host = compile_text(spec, "triton").split("def forward(")[1].split("def adjoint(")[0]
    assert "_scan_kernel[" in host and "_linear_kernel[" not in host
    trained = written(tmp_path, body)
    text = compile_text(trained, "triton")
    assert "tl.associative_scan" in text and "reverse=True" in text  # the adjoint is linear
    check_spec(trained, tmp_path, 3)


@pytest.mark.wide(3)
@pytest.mark.parametrize(("name", "size", "settings"), [
    ("lru", 3, {"width": 6, "states": 5}), ("mamba", 3, {"width": 4, "vocabulary": 5}), ("ssm_prefix", 3, {}),
])  # fmt: skip
def test_models_with_linear_recurrences_agree_with_the_interpreter(
    name: str, size: int, settings: dict[str, object], tmp_path: Path
) -> None:
    path = ROOT / f"specs/recurrent/{name}.dsl"
    assert "tl.associative_scan" in compile_text(path, "triton", settings)
    check_spec(path, tmp_path, size, **settings)


def test_coefficients_are_found_by_algebra() -> None:
    h = ir.read(ir.intern(ir.Step("carry", 7, 0, "float", (3,))), (ir.plain(0),))
    x = ir.read(ir.intern(ir.Input("x", "input", "float", (3,))), (ir.plain(0),))

    def op(name: str, *args: ir.Scalar) -> ir.Scalar:
        return ir.op(name, args, "float")

    form = affine(op("+", op("*", op("-", ir.const(1.0, "float"), x), h), op("*", x, op("neg", h))), 7)
    assert form is not None and form.shift is None
    one = ir.const(1.0, "float")
    assert form.coefficients[0] is op("+", op("-", one, x), op("*", op("neg", one), x))
    assert affine(op("*", h, h), 7) is None
    assert affine(op("/", x, h), 7) is None

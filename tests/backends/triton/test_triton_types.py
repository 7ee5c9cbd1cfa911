"""Types in kernels fit for the compiler of Triton, which is stricter than its interpreter: only GPUs would tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from triton_modules import ROOT

from dslc.compiler import compile_text

SPECS = [p for p in sorted((ROOT / "specs").glob("*/*.dsl")) if "model " in p.read_text(encoding="utf-8")]

#: float64 among the floats of a module, in each kind of kernel
MIXED = """
model mixed(x: f64[N, 6], u: [N, 6], at: i32[N] < 5, M: f64[6, 6]) -> (
    a: [N, 6], b: [6], c: [5, 6], d: [N, 6], e: [N], f: [], g: [N, 6], h: [N, 6], v: [6, 6], w: [N]
):
    param W: [6, 6] ~ glorot
    a[n, k] = u[n, i] * W[i, k] * f64(k) + (x[n, k] if k > 2 else 1)
    b[k] = sum[n](x[n, k] * u[n, k])
    c[r: 5, k: 6] = 0
    c[at[n], k] += x[n, k] / 3
    d[n, k] = cumsum[n](x[n, k])
    e[n] = max[k](x[n, k] - u[n, k])
    f = logdet(M)
    g[n, k] = softmax[k](x[n, k])
    scan n:
        h[n, k] = 0.9 * h[n-1, k] + x[n, k]
    start h = 0
    v = jacobian(b, x)[:, 0, :]
    w[n] = sin(x[n, 0]) * cos(u[n, 1])

train mixed(x, u, at, M):
    a, b, c, d, e, f, g, h, v, w = mixed(x, u, at, M)
    minimize f32(sum(a) + sum(c^2) + sum(d * g) + sum[n, k](h[n, k] * e[n]) + f)
    using adam(lr = 0.1)
"""


def faults(modules: list[Path]) -> list[str]:
    """What the front end of Triton's compiler says; in a process of its own, for this one runs the interpreter."""
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "dslc.backends.triton.resources", "--types", *map(str, modules)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    return ["{module} {kernel}: {error}".format(**json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.wide(20)
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_types_fit_in_the_kernels_of_all_specs(path: Path, dtype: str, tmp_path: Path) -> None:
    module = tmp_path / f"{path.stem}_{dtype}.py"
    module.write_text(compile_text(path, "triton", {}, dtype), encoding="utf-8")
    assert faults([module]) == []


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_types_fit_where_a_spec_mixes_floats(dtype: str, tmp_path: Path) -> None:
    spec, module = tmp_path / "mixed.dsl", tmp_path / f"mixed_{dtype}.py"
    spec.write_text(MIXED, encoding="utf-8")
    module.write_text(compile_text(spec, "triton", {}, dtype), encoding="utf-8")
    assert faults([module]) == []


def test_a_kernel_whose_types_do_not_fit_is_named(tmp_path: Path) -> None:
    module = tmp_path / "sums.py"
    spec = tmp_path / "sums.dsl"
    spec.write_text("model sums(x: f64[N, 5000]) -> y: [N]:\n    y[n] = sum[k](x[n, k])\n", encoding="utf-8")
    text = compile_text(spec, "triton", {}, "f32")
    assert "tl.float64" in text
    module.write_text(text.replace("tl.float64", "tl.float32"), encoding="utf-8")
    (fault,) = faults([module])
    assert "y_rows_kernel" in fault and "fp64" in fault

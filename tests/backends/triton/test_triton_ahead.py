"""Kernels compile ahead of time for three targets, within their shared memory and without spilled registers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from triton_aot import SHARED
from triton_modules import ROOT

from dslc.compiler import compile_text

SPECS = sorted((ROOT / "specs").glob("*/*.dsl"))


def resources(
    spec: Path,
    folder: Path,
    kernels: tuple[str, ...] = (),
    dtype: str = "f32",
    atomic: bool = False,
    **settings: object,
) -> dict[str, Any]:
    """What the kernels of a spec need; a process of its own, because this one runs Triton's interpreter."""
    module = folder / f"{spec.stem}_ahead.py"
    module.write_text(compile_text(spec, "triton", settings, dtype, None, atomic), encoding="utf-8")
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    env["TRITON_CACHE_DIR"] = str(folder / "cache")
    command = [sys.executable, str(Path(__file__).parent / "triton_aot.py"), str(module), *kernels]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check(found: dict[str, Any]) -> None:
    assert found
    for kernel, targets in found.items():
        for target, needs in targets.items():
            assert "error" not in needs, f"{kernel} for {target}: {needs.get('error')}"
            assert needs["spilled"] == 0, f"{kernel} for {target} spills {needs}"
            assert needs["shared"] <= SHARED[target], f"{kernel} for {target} needs {needs}"


def test_a_linear_model_compiles_for_three_targets(tmp_path: Path) -> None:
    check(resources(ROOT / "specs/linear/softmax_regression.dsl", tmp_path))


def test_attention_compiles_for_three_targets(tmp_path: Path) -> None:
    spec = tmp_path / "attention.dsl"
    spec.write_text("model m(x: f32[N, T, 32]) -> y: [N, T, 32]:\n    y = attention(x, heads = 2)\n", encoding="utf-8")
    check(resources(spec, tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_every_kernel_compiles_for_three_targets(path: Path, tmp_path: Path) -> None:
    if "model " not in path.read_text(encoding="utf-8"):
        pytest.skip("a file of layers for others to import")
    check(resources(path, tmp_path))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_kernels_in_16_bits_compile_for_three_targets(dtype: str, tmp_path: Path) -> None:
    spec = tmp_path / "block.dsl"
    spec.write_text(
        "model m(x: f32[N, T, 32]) -> y: [N, T, 32]:\n    y = x + attention(layer_norm(x), heads = 2)\n\n"
        "train m(x):\n    minimize mean[n, t, e](m(x)[n, t, e]^2)\n    using adamw(lr = 1e-3)\n",
        encoding="utf-8",
    )
    check(resources(spec, tmp_path, dtype=dtype))


def test_linear_recurrences_compile_for_three_targets(tmp_path: Path) -> None:
    spec = tmp_path / "scans.dsl"
    spec.write_text(
        "model m(x: f32[N, T, 64]) -> y: [N, T, 64]:\n    param a, b: [64] ~ normal\n    scan t:\n"
        "        u[n, t, e] = a[e] * u[n, t-1, e] - b[e] * v[n, t-1, e] + x[n, t, e]\n"
        "        v[n, t, e] = b[e] * u[n, t-1, e] + a[e] * v[n, t-1, e]\n"
        "        w[n, t, e] = sigmoid(x[n, t, e]) * w[n, t-1, e] + x[n, t, e]\n"
        "    start u = 0\n    start v = 0\n    start w = 0\n    y = u * v + w\n\n"
        "train m(x):\n    minimize mean[n, t, e](m(x)[n, t, e]^2)\n    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    text = compile_text(spec, "triton")
    kernels = tuple(re.findall(r"def (\w+_linear(?:_\d+)?_kernel)\(", text))
    assert len(kernels) >= 2
    check(resources(spec, tmp_path, kernels))


@pytest.mark.parametrize("atomic", [False, True])
def test_scatters_compile_for_three_targets(atomic: bool, tmp_path: Path) -> None:
    spec = tmp_path / "edges.dsl"
    spec.write_text(
        "model m(x: f32[V, 96], src: i32[M] < V, dst: i32[M] < V, w: f32[M]) -> (y: [V, 96], d: [V]):\n"
        "    y[dst[m], e] += w[m] * sin(x[src[m], e])\n    d[dst[m]] += 1.0\n",
        encoding="utf-8",
    )
    found = resources(spec, tmp_path, atomic=atomic)
    assert any("_atomic_" in k if atomic else "_segments_" in k for k in found)
    check(found)

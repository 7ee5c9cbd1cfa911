"""Kernels compile ahead of time for three GPUs, within their shared memory, without spills, and get no worse.

    pytest -m long tests/backends/triton/test_triton_ahead.py                    every kernel of every spec
    pytest -m long tests/backends/triton/test_triton_ahead.py --update-golden    and the table anew

Figures are kept in pytest's cache by the text of the kernel: only what changed is compiled again, and what several
specs or floats share is compiled once.

A table has the worst figures of each kind of kernel of each spec in one float. A table of kernels (some 1900 different
ones for each float) would have to know them by their text, and then any change makes a kernel a new one with nothing to
compare it with; by name would be no better, since names count. Kinds stay.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import triton_table
from dslc.backends.triton.registry import Registry
from dslc.backends.triton.resources import TARGETS, kernels_of, occupancy
from triton_modules import ROOT

from dslc.compiler import compile_text

SPECS = [p for p in sorted((ROOT / "specs").glob("*/*.dsl")) if "model " in p.read_text(encoding="utf-8")]
#: each has a table
FLOATS = ["f32", "f64", "bf16", "f16"]
#: some of each kind of kernel
SOME = ["linear/softmax_regression", "mlp/mlp", "transformer/gpt"]


def figures(
    spec: Path, folder: Path, known: Path, kernels: Sequence[str] = (), dtype: str = "f32", atomic: bool = False
) -> list[dict[str, Any]]:
    """What the kernels of a spec need; a process of its own, because this one runs Triton's interpreter."""
    module = folder / f"{spec.stem}_ahead.py"
    module.write_text(compile_text(spec, "triton", {}, dtype, None, atomic), encoding="utf-8")
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    env["TRITON_CACHE_DIR"] = str(folder / "cache")
    command = [sys.executable, "-m", "dslc.backends.triton.resources", str(module), "--known", str(known)]
    command += [x for k in kernels for x in ("--kernel", k)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(found: list[dict[str, Any]]) -> None:
    assert found
    for one in found:
        about = f"{one['kernel']} for {one['target']}"
        assert "error" not in one, f"{about}: {one.get('error')}"
        assert one["spilled"] == 0, f"{about} spills: {one}"
        assert one["shared"] <= TARGETS[one["target"]].program_shared, f"{about} needs too much memory: {one}"
        assert one["occupancy"] > 0, f"{about} does not fit: {one}"


@pytest.fixture
def known(request: pytest.FixtureRequest) -> Path:
    """The figures of earlier runs."""
    assert request.config.cache is not None
    return request.config.cache.mkdir("triton_resources") / "known.jsonl"


def check_spec(path: Path, folder: Path, known: Path, request: pytest.FixtureRequest, dtype: str = "f32") -> None:
    found = figures(path, folder, known, dtype=dtype)
    check(found)
    name = f"{path.parent.name}/{path.stem}"
    rows = triton_table.rows(name, found)
    table = triton_table.read(dtype)
    if request.config.getoption("--update-golden"):
        triton_table.write({k: v for k, v in table.items() if k[0] != name} | rows, dtype)
        return
    for key, row in rows.items():
        assert key in table, f"{key} is not in the table of {dtype}; read the figures and use --update-golden"
        worse = row.worse_than(table[key])
        assert not worse, f"{key}: {', '.join(worse)} got worse: {row} instead of {table[key]}"


@pytest.mark.wide(2)
@pytest.mark.parametrize("name", [*SOME[:2], pytest.param(SOME[2], marks=pytest.mark.long)])
def test_kernels_of_some_specs_compile_for_three_targets(
    name: str, tmp_path: Path, known: Path, request: pytest.FixtureRequest
) -> None:
    check_spec(ROOT / f"specs/{name}.dsl", tmp_path, known, request)


@pytest.mark.long
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_every_kernel_compiles_for_three_targets(
    path: Path, dtype: str, tmp_path: Path, known: Path, request: pytest.FixtureRequest
) -> None:
    check_spec(path, tmp_path, known, request, dtype)


def test_what_is_compiled_ahead_is_what_is_launched(tmp_path: Path) -> None:
    for dtype in ("f32", "bf16"):
        text = compile_text(ROOT / "specs/transformer/gpt.dsl", "triton", {}, dtype)
        known = {k.name: {**k.blocks, "num_warps": k.warps, "num_stages": k.stages} for k in kernels_of(text)}
        calls = [x for x in ast.walk(ast.parse(text)) if isinstance(x, ast.Call) and isinstance(x.func, ast.Subscript)]
        for call in calls:
            constants = {x.arg: x.value.value for x in call.keywords if isinstance(x.value, ast.Constant)}
            if "num_warps" in constants:
                assert constants == known[ast.unparse(call.func.value)]  # type: ignore[attr-defined]


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_kernels_in_16_bits_compile_for_three_targets(dtype: str, tmp_path: Path, known: Path) -> None:
    spec = tmp_path / "block.dsl"
    spec.write_text(
        "model m(x: f32[N, T, 32]) -> y: [N, T, 32]:\n    y = x + attention(layer_norm(x), heads = 2)\n\n"
        "train m(x):\n    minimize mean[n, t, e](m(x)[n, t, e]^2)\n    using adamw(lr = 1e-3)\n",
        encoding="utf-8",
    )
    found = figures(spec, tmp_path, known, dtype=dtype)
    check(found)
    registry = Registry(dtype)
    compile_text(spec, "triton", {}, dtype, registry=registry)
    estimates = {n: k[0].words / (32 * k[0].warps) for n, k in registry.launched.items() if n.endswith("stream_kernel")}
    assert len(estimates) == 4
    for one in found:
        if one["kernel"] in estimates and one["target"] != "gfx942":
            assert 0.4 <= estimates[one["kernel"]] / one["registers"] <= 2, one


WIDE = {
    "attention": (
        "model m(x: f32[N, T, 256]) -> y: [N, T, 256]:\n    y = x + attention(layer_norm(x), heads = 2)\n\n"
        "train m(x):\n    minimize mean[n, t, e](m(x)[n, t, e]^2)\n    using sgd(lr = 1e-3)\n"
    ),
    "vocabulary": (
        "model m(token: i32[N, T] < 5000) -> logits: [N, T, 5000]:\n"
        "    logits = token |> embedding(5000, 128) |> dense(5000)\n\n"
        "train m(token) where T >= 2:\n    logits = m(token)\n"
        "    minimize cross_entropy(logits[:, 0:T-1, :], token[:, 1:T])\n    using sgd(lr = 0.1)\n"
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("name", WIDE)
def test_streams_of_the_widest_rows_compile_for_three_targets(
    name: str, dtype: str, tmp_path: Path, known: Path
) -> None:
    spec = tmp_path / f"{name}.dsl"
    spec.write_text(WIDE[name], encoding="utf-8")
    kernels = re.findall(r"^def (\w+_stream_kernel)\(", compile_text(spec, "triton", {}, dtype), re.MULTILINE)
    assert len(kernels) >= 3
    check(figures(spec, tmp_path, known, kernels, dtype))


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "dtype", "words"),
    [
        ("recurrent/echo_state", "f64", ("tl.dot(", "tanh(")),  # a function of a contraction
        ("convolution/fft_conv", "f64", ("tl.dot(", "tl.sin(")),  # sines as a side of one
        ("recurrent/lru", "f64", ("d_D_so_far", "part * length")),  # a part of one sum
        ("transformer/hard_attention", "f32", ("d_Wq_parts_ptr", "tl.dot(")),  # parts of three small contractions
        ("recurrent/echo_state", "bf16", ("tl.dot(tl.where(", "h + x")),  # a side that is computed of two tiles
        ("transformer/encoder_decoder", "bf16", ("d_v = tl.dot(", "from_target_ptr")),  # a mask that is read
    ],
)
def test_kernels_with_little_room_in_other_floats_compile_for_three_targets(
    name: str, dtype: str, words: tuple[str, ...], tmp_path: Path, known: Path
) -> None:
    spec = ROOT / f"specs/{name}.dsl"
    text = compile_text(spec, "triton", {}, dtype)
    functions = {
        x.name: ast.get_source_segment(text, x) or "" for x in ast.parse(text).body if isinstance(x, ast.FunctionDef)
    }
    kernels = [n for n, t in functions.items() if n.endswith("_kernel") and all(w in t for w in words)]
    assert kernels
    check(figures(spec, tmp_path, known, kernels[:2], dtype))


@pytest.mark.long
def test_linear_recurrences_compile_for_three_targets(tmp_path: Path, known: Path) -> None:
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
    check(figures(spec, tmp_path, known, kernels))


@pytest.mark.wide(2)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_initialisers_and_lengths_of_gradients_compile_for_three_targets(
    dtype: str, tmp_path: Path, known: Path
) -> None:
    spec = tmp_path / "values.dsl"
    spec.write_text(
        "model m(x: f32[N, 8]) -> y: [N, 8]:\n    param U: [8, 8] ~ orthogonal\n    param V: [8, 8] ~ glorot\n"
        "    param W: [8, 8] ~ normal\n    h[n, j] = x[n, i] * U[i, j]\n    z[n, j] = h[n, i] * V[i, j]\n"
        "    y[n, j] = z[n, i] * W[i, j]\n\n"
        "train m(x):\n    minimize mean[n, i](m(x)[n, i]^2)\n    using clipped_adamw(lr = 0.1)\n",
        encoding="utf-8",
    )
    kernels = ["uniform_values", "normal_values", "orthonormal", "squares", "length"]
    found = figures(spec, tmp_path, known, kernels, dtype)
    assert {one["kernel"] for one in found} == set(kernels)
    check(found)


@pytest.mark.wide(2)
@pytest.mark.parametrize("atomic", [False, True])
def test_scatters_compile_for_three_targets(atomic: bool, tmp_path: Path, known: Path) -> None:
    spec = tmp_path / "edges.dsl"
    spec.write_text(
        "model m(x: f32[V, 96], src: i32[M] < V, dst: i32[M] < V, w: f32[M]) -> (y: [V, 96], d: [V]):\n"
        "    y[dst[m], e] += w[m] * sin(x[src[m], e])\n    d[dst[m]] += 1.0\n",
        encoding="utf-8",
    )
    found = figures(spec, tmp_path, known, atomic=atomic)
    assert any(("_atomic_" if atomic else "_segments_") in one["kernel"] for one in found)
    check(found)


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_table_has_every_spec_on_every_target_without_spills(dtype: str) -> None:
    table = triton_table.read(dtype)
    assert {(spec, target) for spec, _, target in table} == {
        (f"{p.parent.name}/{p.stem}", target) for p in SPECS for target in TARGETS
    }
    for (_, _, target), row in table.items():
        assert row.spilled == 0
        assert row.shared <= TARGETS[target].program_shared
        assert 0 < row.occupancy <= 1


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_docs_have_the_worst_figures_of_the_tables(dtype: str) -> None:
    worst = dict(triton_table.summary(dtype))
    registers = ", ".join(str(worst[target].registers) for target in TARGETS)
    shared = max(row.shared for row in worst.values())
    lines = (ROOT / "docs/triton.md").read_text(encoding="utf-8").splitlines()
    (line,) = (x for x in lines if x.startswith(f"| {dtype} | {', '.join(TARGETS)} |"))
    assert line.endswith(f"| {registers} | {shared} bytes | none |")


def test_a_worse_figure_is_noticed() -> None:
    good = triton_table.Row(1, 64, 4096, 0, 0, 0.5)
    assert good.worse_than(good) == []
    assert good._replace(registers=72, occupancy=0.25).worse_than(good) == ["registers", "occupancy"]
    assert good._replace(registers=32).worse_than(good) == []


def test_occupancy_is_bound_by_the_scarcest_resource() -> None:
    assert occupancy("sm80", 4, 32, 0) == 1.0
    assert occupancy("sm80", 8, 128, 0) == 0.25
    assert occupancy("sm90", 4, 32, 100_000) == 0.125
    assert occupancy("gfx942", 4, 512, 0) == 0.125

"""Scatters: sorted segments to large targets, the same in every run; atomic additions on request."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from samples import load
from triton_modules import ROOT, check_spec, triton_module

from dslc.cli.main import cli
from dslc.compiler import compile_text

SPECS = {
    "edges": (
        "model m(x: f32[V, 5], src: i32[M] < V, dst: i32[M] < V, w: f32[M]) -> y: [V, 5]:\n"
        "    y[dst[m], e] += w[m] * sin(x[src[m], e])\n"
    ),
    "counts": "model m(dst: i32[M] < V, x: f32[V]) -> y: [V]:\n    y[dst[m]] += 1.0\n    y[dst[m]] += x[dst[m]]\n",
    "largest": "model m(x: f32[M, 3], dst: i32[M] < V, z: f32[V]) -> y: [V, 3]:\n    y[dst[m], e] max= x[m, e]\n",
    "batched": (
        "model m(x: f32[N, M], at: i32[N, M] < V, z: f32[V]) -> y: [N, V]:\n"
        "    y[n, at[n, m]] += x[n, m] * z[at[n, m]]\n"
    ),
    "two places": (
        "model m(x: f32[M, 4], i: i32[M] < V, j: i32[M] < V, z: f32[V]) -> y: [V, 4, V]:\n"
        "    y[i[m], e, j[m]] += x[m, e] * x[m, f]\n"
    ),
    "large vocabulary": (
        "model m(token: i32[N] < 3000) -> y: [N, 7]:\n    y = embedding(token, 3000, 7)\n\n"
        "train m(token):\n    minimize mean[n, e](sin(m(token)[n, e]))\n    using sgd(lr = 0.1)\n"
    ),
}  # fmt: skip


def written(folder: Path, name: str) -> Path:
    spec = folder / f"{name.replace(' ', '_')}.dsl"
    spec.write_text(SPECS[name], encoding="utf-8")
    return spec


@pytest.mark.wide(4)
@pytest.mark.parametrize("size", [2, 17])
@pytest.mark.parametrize("name", SPECS)
def test_a_scatter_to_many_rows_sums_sorted_segments(name: str, size: int, tmp_path: Path) -> None:
    spec = written(tmp_path, name)
    assert "_segments_kernel[" in compile_text(spec, "triton") and "atomic" not in compile_text(spec, "triton")
    check_spec(spec, tmp_path, size)


def test_a_scatter_to_few_rows_is_a_sum_of_selects(tmp_path: Path) -> None:
    spec = tmp_path / "few.dsl"
    spec.write_text(SPECS["large vocabulary"].replace("3000", "30"), encoding="utf-8")
    assert "torch.sort" not in compile_text(spec, "triton")
    check_spec(spec, tmp_path, 5)


@pytest.mark.wide(2)
@pytest.mark.parametrize("name", ["edges", "counts", "batched", "two places", "large vocabulary"])
def test_atomic_additions_give_the_same_sums(name: str, tmp_path: Path) -> None:
    spec = written(tmp_path, name)
    text = compile_text(spec, "triton", dtype="f64", atomic=True)
    assert "tl.atomic_add(" in text and "torch.sort" not in text
    quick, exact = load(text, tmp_path, "quick"), triton_module(spec, tmp_path, "f64")
    rng = np.random.default_rng(0)
    given = {
        "edges": (rng.normal(size=(9, 5)), rng.integers(0, 9, 20), rng.integers(0, 9, 20), rng.normal(size=20)),
        "counts": (rng.integers(0, 9, 20), rng.normal(size=9)),
        "batched": (rng.normal(size=(3, 20)), rng.integers(0, 9, (3, 20)), rng.normal(size=9)),
        "two places": (rng.normal(size=(20, 4)), rng.integers(0, 9, 20), rng.integers(0, 9, 20), rng.normal(size=9)),
        "large vocabulary": (rng.integers(0, 3000, 20),),
    }[name]
    if name == "large vocabulary":
        params = exact.init(0)
        _, a = quick.loss_and_grad(params, *given)
        _, b = exact.loss_and_grad(params, *given)
        torch.testing.assert_close(a["embedding.W"], b["embedding.W"])
        return
    torch.testing.assert_close(quick.forward({}, *given), exact.forward({}, *given))


def test_sources_outside_the_target_are_dropped_by_both_kinds(tmp_path: Path) -> None:
    spec = tmp_path / "outside.dsl"
    spec.write_text(
        "model m(x: f32[V], i: i32[M], w: f32[M]) -> y: [M]:\n"
        "    param s: [] ~ normal\n    z[v] = s * x[v]\n    y[m] = w[m] * (z[i[m] - 1] else 0)\n\n"
        "train m(x, i, w):\n    minimize mean[m](sin(m(x, i, w)[m]))\n    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    check_spec(spec, tmp_path, 6)
    exact = triton_module(spec, tmp_path, "f64")
    quick = load(compile_text(spec, "triton", dtype="f64", atomic=True), tmp_path, "quick")
    rng = np.random.default_rng(0)
    data = rng.normal(size=6), np.array([0, 1, 6, 7, -3, 2, 2]), rng.normal(size=7)
    params = exact.init(0)
    torch.testing.assert_close(quick.loss_and_grad(params, *data)[1]["s"], exact.loss_and_grad(params, *data)[1]["s"])


def test_atomic_is_a_choice_of_triton_alone() -> None:
    done = CliRunner().invoke(cli, ["compile", str(ROOT / "specs/graph/gcn.dsl"), "--atomic"])
    assert done.exit_code == 2 and "backend triton" in done.output

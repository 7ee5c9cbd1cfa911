"""Reductions of long rows: a softmax is one run over them, and what its weights are made of is not stored."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from dslc.backends.triton.quick_triton import quick
from triton_modules import ROOT, check_spec, triton_module

from dslc.compiler import compile_text

ROWS = (
    "model m(x: f32[N, T], mask: bool[N, T]) -> (y: [N], z: [N]):\n"
    "    y[n] = logsumexp[t](x[n, t] if mask[n, t] else -inf)\n"
    "    z[n] = sum[t](softmax[t](x[n, t]) * sin(x[n, t]))\n"
)
MEAN = (
    "model m(x: f32[N, T]) -> (y: [N], z: [N], v: [N], w: [N, T]):\n    y[n] = logsumexp[t](x[n, t])\n"
    "    z[n] = mean[t](x[n, t])\n    v[n] = sum[t](x[n, t]^2)\n    w[n, t] = x[n, t] * softmax[t](x[n, t])\n"
)
WHOLE = "model m(x: f32[N, T]) -> y: []:\n    y = logsumexp[n, t](3 * x[n, t])\n"


def kernels(text: str, ending: str) -> list[str]:
    return re.findall(rf"^def \w+{ending}\(.*?\n(.*?)(?=^@|^# ----|\Z)", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("spec_text", [ROWS, WHOLE], ids=["rows", "whole"])
def test_a_softmax_of_long_rows_runs_over_them_once(spec_text: str, tmp_path: Path) -> None:
    spec = tmp_path / "rows.dsl"
    spec.write_text(spec_text, encoding="utf-8")
    found = kernels(compile_text(spec, "triton"), "_rows_kernel")
    assert found and all(x.count("for start") == 1 and "growth" in x for x in found)
    check_spec(spec, tmp_path, 3)


def test_other_sums_of_a_row_are_not_of_what_is_masked_for_its_maximum(tmp_path: Path) -> None:
    spec = tmp_path / "mean.dsl"
    spec.write_text(MEAN, encoding="utf-8")
    check_spec(spec, tmp_path, 3)
    check_spec(spec, tmp_path, 70)


@pytest.mark.parametrize("length", [1, 63, 64, 65, 200])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_rows_of_any_length_and_content_agree_with_torch(length: int, tmp_path: Path) -> None:
    spec = tmp_path / "rows.dsl"
    spec.write_text(ROWS, encoding="utf-8")
    module = triton_module(spec, tmp_path, "f64")
    generator = torch.Generator().manual_seed(length)
    x = 300 * torch.randn((37, length), generator=generator, dtype=torch.float64)
    mask = torch.rand((37, length), generator=generator) < 0.7
    mask[3] = False
    x[5, length // 2] = float("nan")
    mask[5] = True
    with quick():
        found = module.forward({}, x, mask)
    expected = torch.logsumexp(x.masked_fill(~mask, float("-inf")), 1)
    torch.testing.assert_close(found["y"], expected, equal_nan=True)
    torch.testing.assert_close(found["z"], (torch.softmax(x, 1) * torch.sin(x)).sum(1), equal_nan=True)


def test_weights_for_each_pair_of_positions_and_channel_are_never_stored() -> None:
    text = compile_text(ROOT / "specs/recurrent/aft.dsl", "triton")
    shapes = re.findall(r"torch\.(?:empty|zeros)\(\((.*?)\), dtype", text)
    assert shapes and not [s for s in shapes if s.count("T") > 1 and "N" in s]


SPREAD = """\
model m(k: f32[N, S, 5], w: f32[T, S]) -> (y: [N, T, 5], z: [N, S, 5], b: [T, S]):
    a[n, t, s, e] = exp(tanh(k[n, s, e] + w[t, s]))
    y[n, t, e] = sum[s](a[n, t, s, e])
    z[n, s, e] = {reduce}[t](a[n, t, s, e])
    b[t, s] = sum[n, e](a[n, t, s, e])
"""


@pytest.mark.parametrize("reduce", ["sum", "max"])
def test_a_value_that_spreads_over_new_axes_is_computed_where_it_is_reduced(reduce: str, tmp_path: Path) -> None:
    """But backward through a maximum: who was the largest is asked of the values themselves, not of copies."""
    spec = tmp_path / "spread.dsl"
    spec.write_text(SPREAD.format(reduce=reduce), encoding="utf-8")
    text = compile_text(spec, "triton")
    text = text.split("\ndef adjoint")[0] if reduce == "max" else text
    shapes = re.findall(r"torch\.empty\(\((.*?)\), dtype", text)
    assert shapes and not [s for s in shapes if s.count(",") > 2]
    check_spec(spec, tmp_path, 4)


def test_functions_of_scores_beyond_the_last_column_count_for_nothing(tmp_path: Path) -> None:
    spec = tmp_path / "entropy.dsl"
    spec.write_text(
        "model m(q: f32[T, 8], k: f32[S, 8]) -> (y: [T], v: [T, 8]):\n"
        "    z[t, s] = q[t, d] * k[s, d]\n    a[t, s] = softmax[s](z[t, s])\n"
        "    y[t] = sum[s](a[t, s] * sin(z[t, s]))\n    v[t, d] = a[t, s] * cos(z[t, s]) * k[s, d]\n",
        encoding="utf-8",
    )
    assert "_stream_kernel" in compile_text(spec, "triton")
    check_spec(spec, tmp_path, 3)

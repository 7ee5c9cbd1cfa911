"""Two kernels word for word: layer norm forward and backward, attention forward."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dslc.compiler import compile_text

GOLDEN = Path(__file__).parents[2] / "golden" / "triton"

NORM = """
model norm(x: f32[N, 512]) -> y: [N, 512]:
    y = layer_norm(x)
"""

ATTENTION = """
model attend(q: f32[N, H, T, 64], k: f32[N, H, T, 64], v: f32[N, H, T, 64]) -> y: [N, H, T, 64]:
    score[n, h, t, s] = q[n, h, t, d] * k[n, h, s, d] / sqrt(64)
    a[n, h, t, s] = softmax[s](score[n, h, t, s] if s <= t else -inf)
    y[n, h, t, d] = a[n, h, t, s] * v[n, h, s, d]
"""


def kernels(spec: str, folder: Path, function: str) -> str:
    """The kernels that a host function launches, in order."""
    file = folder / "golden.dsl"
    file.write_text(spec.lstrip(), encoding="utf-8")
    text = compile_text(file, "triton")
    host = re.search(rf"^def {function}\(.*?(?=^\S)", text, re.S | re.M)
    assert host
    names = dict.fromkeys(re.findall(r"(\w+_kernel)\[", host[0]))
    found = [re.search(rf"^@triton\.jit\S*[^\n]*\ndef {n}\(.*?(?=\n\n\n)", text, re.S | re.M) for n in names]
    return "\n\n\n".join(m[0] for m in found if m) + "\n"


def test_layer_norm(golden: Callable[[Path, str], None], tmp_path: Path) -> None:
    golden(GOLDEN / "layer_norm.txt", kernels(NORM, tmp_path, "forward") + "\n\n" + kernels(NORM, tmp_path, "adjoint"))


def test_attention(golden: Callable[[Path, str], None], tmp_path: Path) -> None:
    golden(GOLDEN / "attention.txt", kernels(ATTENTION, tmp_path, "forward"))


@pytest.mark.parametrize("spec", [NORM, ATTENTION], ids=["norm", "attention"])
def test_values_of_forward_kernels_have_names_and_no_numbers(spec: str, tmp_path: Path) -> None:
    assert not re.findall(r"\b\w+_\d+ = ", kernels(spec, tmp_path, "forward"))

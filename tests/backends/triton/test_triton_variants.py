"""Kinds of attention: none stores a matrix of scores, forward or backward, and all agree with the interpreter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from dslc.backends.triton.quick_triton import quick
from triton_modules import check_spec

from dslc.compiler import compile_text

SOFTMAX = "    a[n, h, t, s] = softmax[s]({})\n"
CAUSAL = SOFTMAX.format("score[n, h, t, s] if s <= t else -inf")


def attention(weights: str, more: str = "", of: str = "x") -> str:
    """A spec with attention to `of`; `more` are its further inputs."""
    names = "".join(f", {n}" for n in re.findall(r"(\w+):", more))
    return (
        f"model m(x: f32[N, T, 8]{more}) -> y: [N, T, 8]:\n"
        "    param Wq, Wk, Wv: [8, H = 2, D = 4] ~ glorot\n    param Wo: [2, 4, 8] ~ glorot\n"
        "    q[n, h, t, d] = x[n, t, e] * Wq[e, h, d]\n"
        f"    k[n, h, s, d] = {of}[n, s, e] * Wk[e, h, d]\n    v[n, h, s, d] = {of}[n, s, e] * Wv[e, h, d]\n"
        "    score[n, h, t, s] = q[n, h, t, d] * k[n, h, s, d] / sqrt(D)\n"
        f"{weights}    y[n, t, e] = a[n, h, t, s] * v[n, h, s, d] * Wo[h, d, e]\n\n"
        f"train m(x{names}):\n    minimize mean[n, t, e](m(x{names})[n, t, e]^2)\n    using sgd(lr = 0.1)\n"
    )


def shared_keys(heads: str, sizes: str, groups: str = "", group_sizes: str = "") -> str:
    """A spec in which several heads of queries share one of keys and values."""
    return (
        "model m(x: f32[N, T, 8]) -> y: [N, T, 8]:\n"
        f"    param Wq: [8, {sizes}, D = 4] ~ glorot\n    param Wk, Wv: [8, {group_sizes}D = 4] ~ glorot\n"
        f"    param Wo: [{sizes}, D = 4, 8] ~ glorot\n"
        f"    q[n, {heads}, t, d] = x[n, t, e] * Wq[e, {heads}, d]\n"
        f"    k[n, {groups}s, d] = x[n, s, e] * Wk[e, {groups}d]\n"
        f"    v[n, {groups}s, d] = x[n, s, e] * Wv[e, {groups}d]\n"
        f"    score[n, {heads}, t, s] = q[n, {heads}, t, d] * k[n, {groups}s, d] / sqrt(D)\n"
        f"    a[n, {heads}, t, s] = softmax[s](score[n, {heads}, t, s] if s <= t else -inf)\n"
        f"    y[n, t, e] = a[n, {heads}, t, s] * v[n, {groups}s, d] * Wo[{heads}, d, e]\n\n"
        "train m(x):\n    minimize mean[n, t, e](m(x)[n, t, e]^2)\n    using sgd(lr = 0.1)\n"
    )


KINDS = {
    "causal": attention(CAUSAL),
    "padded": attention(SOFTMAX.format("score[n, h, t, s] if keep[n, s] else -inf"), ", keep: bool[N, T]"),
    "masked": attention(SOFTMAX.format("score[n, h, t, s] if see[n, t, s] else -inf"), ", see: bool[N, T, T]"),
    "cross": attention(SOFTMAX.format("score[n, h, t, s]"), ", z: f32[N, S, 8]", "z"),
    "alibi": attention(SOFTMAX.format("score[n, h, t, s] - (t - s) * 2^(-4 * (h + 1)) if s <= t else -inf")),
    "window": attention(SOFTMAX.format("score[n, h, t, s] if s <= t and t - s < 7 else -inf")),
    "capped": attention(SOFTMAX.format("5 * tanh(score[n, h, t, s] / 5) if s <= t else -inf")),
    "dropped": attention(CAUSAL.replace("a[", "w[") + "    a = dropout(w, 0.1)\n"),
    "sigmoid": attention("    a[n, h, t, s] = sigmoid(score[n, h, t, s]) / T if s <= t else 0\n"),
    "multi-query": shared_keys("h", "H = 2"),
    "grouped-query": shared_keys("g, h", "G = 2, H = 3", "g, ", "G = 2, "),
}


def written(name: str, folder: Path) -> Path:
    spec = folder / f"{name.replace('-', '_')}.dsl"
    spec.write_text(KINDS[name], encoding="utf-8")
    return spec


@pytest.mark.parametrize("name", KINDS)
def test_no_kind_of_attention_stores_its_scores(name: str, tmp_path: Path) -> None:
    text = compile_text(written(name, tmp_path), "triton")
    host = text[text.index("\ndef forward(") : text.index("\ndef step(") if "\ndef step(" in text else None]
    shapes = re.findall(r"torch\.(?:empty|zeros)\(\((.*?)\), dtype", host)
    assert shapes and not [s for s in shapes if len(re.findall(r"\b[TS]\b", s)) > 1]


@pytest.mark.wide(4)
@pytest.mark.parametrize("length", [5, pytest.param(35, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_attention_agrees_with_the_interpreter(name: str, length: int, tmp_path: Path) -> None:
    with quick():
        check_spec(written(name, tmp_path), tmp_path, length, tolerance=1e-5 if name == "dropped" else 1e-9)

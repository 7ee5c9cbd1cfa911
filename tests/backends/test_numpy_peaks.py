"""Softmax and logsumexp keep the guard of their largest exponent where it can matter, and have none where it cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dslc
from dslc.compiler import compile_text

#: weights over what may be seen, by a mask of the spec
MASKED = """
model m(x: f32[N, T, 3]) -> y: [N, T, 3]:
    param w: [3, 3] ~ normal
    score[n, t, s] = x[n, t, i] * w[i, j] * x[n, s, j]
    a[n, t, s] = softmax[s](score[n, t, s] if {} else -inf)
    y[n, t, i] = a[n, t, s] * x[n, s, i]
"""
Condition = Callable[[Any, Any], Any]
#: conditions that leave a position for each row, and those that do not, or not for certain
LEFT: dict[str, Condition] = {
    "s <= t": lambda s, t: s <= t,
    "t >= s": lambda s, t: t >= s,
    "s == t": lambda s, t: s == t,
    "s < t + 1": lambda s, t: s < t + 1,
    "s <= t and t - s < 3": lambda s, t: (s <= t) & (t - s < 3),
}
NOT_LEFT: dict[str, Condition] = {
    "s < t": lambda s, t: s < t,
    "s > t": lambda s, t: s > t,
    "s <= t - 2": lambda s, t: s <= t - 2,
    "s == t + 1": lambda s, t: s == t + 1,
    "s <= t and s + 1 < t": lambda s, t: (s <= t) & (s + 1 < t),
}


def compiled(folder: Path, text: str) -> Path:
    path = folder / "m.dsl"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("condition", [*LEFT, *NOT_LEFT])
def test_a_mask_of_positions_keeps_the_guard_if_it_may_hide_a_row(tmp_path: Path, condition: str) -> None:
    path = compiled(tmp_path, MASKED.format(condition))
    forward = compile_text(path).split("def forward")[1].split("\ndef ")[0]
    assert ("isfinite" in forward) == (condition in NOT_LEFT)
    module, x = dslc.compile(path), np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)
    params = module.init(1)
    score = torch.einsum("nti,ij,nsj->nts", *map(torch.tensor, (x, params["w"], x)))
    t, s = np.meshgrid(np.arange(5), np.arange(5), indexing="ij")
    seen = torch.tensor({**LEFT, **NOT_LEFT}[condition](s, t))
    share = torch.softmax(score.masked_fill(~seen, -torch.inf), 2).nan_to_num(0.0)  # torch has NaN for a row of nothing
    found = module.forward(params, x)
    np.testing.assert_allclose(found, torch.einsum("nts,nsi->nti", share, torch.tensor(x)), rtol=2e-5, atol=1e-6)


def test_data_may_be_a_mask_of_infinities(tmp_path: Path) -> None:
    text = """
model m(x: f32[N, 3], mask: f32[N, 4]) -> (y: [N], z: [N]):
    param w: [3, 4] ~ normal
    h[n, k] = x[n, i] * w[i, k]
    y[n] = logsumexp[k](h[n, k] + mask[n, k])
    z[n] = logsumexp[k](tanh(h[n, k]) + w[0, k])
"""
    path = compiled(tmp_path, text)
    forward = compile_text(path).split("def forward")[1].split("\ndef ")[0]
    assert forward.count("isfinite") == 1
    module = dslc.compile(path)
    params, x = module.init(0), np.ones((3, 3), np.float32)
    mask = np.array([[0, 0, 0, 0], [0, -np.inf, 1, -np.inf], [-np.inf] * 4], np.float32)
    found, h = module.forward(params, x, mask), torch.tensor(x @ params["w"])
    np.testing.assert_allclose(found["y"], torch.logsumexp(h + torch.tensor(mask), 1), rtol=1e-5)
    np.testing.assert_allclose(found["z"], torch.logsumexp(torch.tanh(h) + torch.tensor(params["w"][0]), 1), rtol=1e-5)


def test_no_guard_is_left_in_attention_and_cross_entropy() -> None:
    specs = Path(__file__).parents[2] / "specs"
    for name in ("mlp/mlp", "transformer/gpt", "convolution/cnn", "recurrent/lstm"):
        assert "isfinite" not in compile_text(specs / f"{name}.dsl")

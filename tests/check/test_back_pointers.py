"""Whole numbers that a scan carries and uses as positions: the best path of Viterbi, followed back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from natural import BACKENDS, normal
from samples import load

from dslc.compiler import compile_text
from dslc.frontend import check_text

pytestmark = pytest.mark.point("25")

FORWARD = """model viterbi(x: f32[N, T, K], A: f32[K, K]) -> best: i64[N, T]{where}:
    scan t in 0..T:
        s[n, t, j] = x[n, t, j] + max[i](s[n, t-1, i] + A[i, j])
        back[n, t, j] = argmax[i](s[n, t-1, i] + A[i, j])
    start s = 0
"""
ENDINGS = {
    "a start": """    last[n] = argmax[k](s[n, T-1, k])
    scan t in 0..T reversed:
        path[n, t] = back[n, clamp(t+1), path[n, t+1]] if t < T - 1 else last[n]
    start path = last
    best = path
""",
    "a condition": """    scan t in 0..T reversed:
        best[n, t] = argmax[k](s[n, T-1, k]) if t == T - 1 else back[n, clamp(t+1), best[n, t+1]]
""",
    "a condition and a start": """    scan t in 0..T reversed:
        best[n, t] = argmax[k](s[n, T-1, k]) if t == T - 1 else back[n, clamp(t+1), best[n, t+1]]
    start best[n] = argmax[k](s[n, T-1, k])
""",
}


def reference(x: Any, A: Any) -> Any:
    rows = []
    for sequence in x:
        score, back = np.zeros(A.shape[0]), []
        for e in sequence:
            back.append((score[:, None] + A).argmax(0))
            score = e + (score[:, None] + A).max(0)
        path = [int(score.argmax())]
        for pointers in reversed(back[1:]):
            path.append(int(pointers[path[-1]]))
        rows.append(path[::-1])
    return np.array(rows)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("length", [1, 5])
def test_the_best_path_is_followed_back(ending: str, length: int, backend: str, tmp_path: Path) -> None:
    spec = tmp_path / "viterbi.dsl"
    spec.write_text(FORWARD.format(where="") + ENDINGS[ending], encoding="utf-8")
    module = load(compile_text(spec, backend, {}, "f64"), tmp_path, f"viterbi_{backend}_{abs(hash(ending))}")
    x, A = normal(3, length, 4), normal(4, 4)
    given: Any = (x, A)
    if backend == "triton":
        import torch

        given = tuple(map(torch.as_tensor, given))
    np.testing.assert_array_equal(np.asarray(module.forward({}, *given)), reference(x, A))


def test_a_start_beyond_the_axis_is_refused() -> None:
    text = FORWARD.format(where="") + ENDINGS["a condition and a start"].replace(
        "argmax[k](s[n, T-1, k])\n", "i64(9) + 0*n\n"
    )
    assert "E0307" in [d.code for d in check_text(text).errors]

"""Names are for people: another name for a value changes nothing in a module but that name."""

from __future__ import annotations

from pathlib import Path

import pytest

from dslc.compiler import compile_text

SPEC = """
layer block(x: [N, E]) -> y: [N, E]:
    param w_other: [E, E] ~ normal(0.1)
    inners[n, o] = tanh(x[n, e] * w_other[e, o])
    y[n, o] = inners[n, o] + x[n, o]

model deep(x: [N, T, 8]) -> y: [N]:
    h[n, e] = mean[t](x[n, t, e])
    for l in 0..4:
        h = block(h)
    scan t:
        s[n, t, e] = 0.5 * s[n, t-1, e] + tanh(x[n, t, e] * h[n, e])
    start s = 0
    y[n] = sum[t, e](s[n, t, e])

train deep(x, z: [N]):
    y = deep(x)
    loss = mean[n]((y[n] - z[n])^2)
    minimize loss
    using adam(lr = 0.001)
"""


@pytest.mark.parametrize("backend", ["numpy", "triton"])
def test_names_that_mean_something_to_the_compiler_elsewhere_change_nothing_else(tmp_path: Path, backend: str) -> None:
    def module(other: str, inners: str) -> str:
        path = tmp_path / "deep.dsl"
        path.write_text(SPEC.replace("w_other", other).replace("inners", inners), encoding="utf-8")
        return compile_text(path, backend)

    plain = module("w_other", "inners")
    assert "w_other" in plain and "inners" in plain
    assert module("w_slope", "layers") == plain.replace("w_other", "w_slope").replace("inners", "layers")

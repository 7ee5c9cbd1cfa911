"""Modules check the `where` of their spec when they are called."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dslc

SPEC = """\
model halves(x: f32[N, T], w: f32[K], near = 3) -> y: [N] where T % 2 == 0, near <= K:
    param a: [] ~ ones
    y[n] = a * sum[t](x[n, t]) + a * sum[k](w[k])

train halves(x, w) where N > 1:
    minimize mean(halves(x, w))
    using sgd(lr = 0.1)
"""


def test_sizes_that_the_spec_excludes_are_refused_with_its_line(tmp_path: Path) -> None:
    spec = tmp_path / "halves.dsl"
    spec.write_text(SPEC, encoding="utf-8")
    module = dslc.compile(spec)
    params = module.init(0)
    assert module.forward(params, np.ones((1, 4)), np.ones(3)) == pytest.approx([7.0])
    with pytest.raises(ValueError, match=r"halves.dsl:1 needs T % 2 == 0, found T = 5"):
        module.forward(params, np.ones((1, 5)), np.ones(3))
    with pytest.raises(ValueError, match=r"halves.dsl:1 needs near <= K, found K = 2"):
        module.forward(params, np.ones((1, 4)), np.ones(2))
    for function in (module.loss_and_grad, module.evaluate):
        with pytest.raises(ValueError, match=r"halves.dsl:5 needs N > 1, found N = 1"):
            function(params, np.ones((1, 4)), np.ones(3))
        with pytest.raises(ValueError, match=r"needs T % 2 == 0, found T = 5"):
            function(params, np.ones((2, 5)), np.ones(3))


@pytest.mark.parametrize(("name", "size"), [("params", "N"), ("np", "N"), ("entry", "N"), ("x", "np"), ("x", "team")])
def test_names_that_mean_something_in_a_module_are_names_like_others(tmp_path: Path, name: str, size: str) -> None:
    spec = tmp_path / "named.dsl"
    spec.write_text(f"model m({name}: f32[{size}, 4]) -> y: [{size}, 4]:\n    y = 2 * {name}\n", encoding="utf-8")
    assert dslc.compile(spec).forward({}, np.ones((2, 4))).tolist() == [[2] * 4] * 2

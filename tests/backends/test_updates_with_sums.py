"""An update is that of one entry: sums over a parameter are refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest

import dslc
from dslc.diagnostics.spec_error import SpecError

SPEC = """
optimizer shortened(lr = 0.1):
    length = sqrt(sum(grad^2))
    param <- param - lr * grad / max(1, length)

model linear(x: f64[N, 4]) -> y: [N, 2]:
    y = dense(x, 2)

train linear(x, t: f64[N, 2]):
    minimize sum((linear(x) - t)^2)
    using shortened(lr = 0.1)
"""


@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
def test_sums_over_a_parameter_are_refused(backend: str, tmp_path: Path) -> None:
    spec = tmp_path / "shortened.dsl"
    spec.write_text(SPEC, encoding="utf-8")
    with pytest.raises(SpecError, match=r"E0901(.|\n)*not elementwise(.|\n)*shortened.dsl:3"):
        dslc.compile(spec, backend=backend)

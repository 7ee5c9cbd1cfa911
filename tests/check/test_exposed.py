"""Every exposed value is a result: in each pass of a `for`, and where a name or a layer is exposed several times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from samples import load

from dslc.compiler import compile_text

FOR = "h = x\n    for l in 0..3:\n        seen = 2 * h\n        h = seen + l\n        expose seen\n    y = h"
TWICE = "seen = 2 * x\n    expose seen\n    seen = 3 * seen\n    expose seen\n    y = seen"
LAYER = "h = x\n    for l in 0..2:\n        h = shown(h)\n    y = h"
SHARED = "use f = shown\n    y = f(f(x))"
NESTED = "h = x\n    for l in 0..2:\n        for k in 0..2:\n            h = 2 * h\n            expose h\n    y = h"

WANTED = {
    FOR: {"seen.0": 2, "seen.1": 4, "seen.2": 10},
    TWICE: {"seen.0": 2, "seen.1": 6},
    LAYER: {"shown.0.seen": 2, "shown.1.seen": 4},
    SHARED: {"f.seen.0": 2, "f.seen.1": 4},
    NESTED: {"h.0.0": 2, "h.0.1": 4, "h.1.0": 8, "h.1.1": 16},
    "seen = 2 * x\n    expose seen\n    y = seen\n    expose seen": {"seen": 2},
}


@pytest.mark.point("7")
@pytest.mark.parametrize("body", WANTED)
def test_every_exposed_value_is_there(body: str, tmp_path: Path) -> None:
    spec = tmp_path / "exposed.dsl"
    shown = "layer shown(x: [N]) -> y: [N]:\n    seen = 2 * x\n    y = seen\n    expose seen\n"
    spec.write_text(f"{shown}\nmodel m(x: [N]) -> y: [N]:\n    {body}\n", encoding="utf-8")
    found = load(compile_text(spec, dtype="f64"), tmp_path).forward({}, np.ones(2))
    assert {name: value[0] for name, value in found.items() if name != "y"} == WANTED[body]

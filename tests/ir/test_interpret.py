"""The meaning of the language: the reference interpreter against NumPy and SciPy, construct by construct."""

from __future__ import annotations

import numpy as np
import pytest
from constructs import CONSTRUCTS, Construct
from programs import evaluate, unit


@pytest.mark.parametrize("construct", [pytest.param(c, marks=pytest.mark.rows(*c.rows)) for c in CONSTRUCTS], ids=str)
def test_value(construct: Construct) -> None:
    found = evaluate(unit(construct.text, construct.mode, **construct.settings), construct.values)
    expected = construct.meaning(**construct.values)
    if not isinstance(expected, dict):
        (name,) = found
        expected = {name: expected}
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-10, atol=1e-12, err_msg=name)

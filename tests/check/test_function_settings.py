"""A function or a layer that a model takes, named from outside of the spec: `--set act=relu`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dslc
from dslc.frontend import check_text

SPEC = """
fn cubed(x) = x^3

layer scaled(x: [N, K], by = 2.0) -> y: [N, K]:
    y = by * x

layer kept(x: [N, K]) -> y: [N, K]:
    y = x

model m(x: f64[N, 3], act = tanh, around: layer = scaled) -> y: [N, 3]:
    y = around(act(x))
"""


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, lambda x: 2 * np.tanh(x)),
        ({"act": "cubed"}, lambda x: 2 * x**3),
        ({"act": "relu", "around": "kept"}, lambda x: np.maximum(x, 0)),
        ({"act": "softsign"}, lambda x: 2 * x / (1 + abs(x))),
    ],
)
def test_a_setting_names_a_function_of_the_file_or_of_the_library(
    settings: dict[str, object], expected: object, tmp_path: Path
) -> None:
    (tmp_path / "m.dsl").write_text(SPEC, encoding="utf-8")
    x = np.linspace(-2, 2, 6).reshape(2, 3)
    found = dslc.compile(tmp_path / "m.dsl", backend="numpy", **settings).forward({}, x)
    np.testing.assert_allclose(found, expected(x), rtol=1e-12)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [
        ("tanhh", "E0201", "found `tanhh`, which is not defined"),
        (3, "E0407", "expected a function for `act`, found the value 3"),
        (True, "E0407", "found the value True"),
        ("a b", "E0201", "`a b`"),
    ],
)
def test_a_setting_that_names_no_function_is_an_error(value: object, code: str, message: str) -> None:
    found = check_text(SPEC, settings={"act": value}).errors
    assert found and all(x.code == code and message in x.message for x in found)

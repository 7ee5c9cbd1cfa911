"""Initial values of parameters, states and slots: known before there are data, with or without a name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dslc
from dslc.frontend import check_text

STATE = "    training:\n        w <- w + 1\n"
READ = "    y[n] = x[n, i] * w[i]\n"
MODEL = "model m(x: f32[N, 3], T = 4, s = 2.0) -> y: [N]:\n"
OPTIMISED = (
    "optimizer o(lr = 0.1, first = 3.0):\n    slot v = {}\n    param <- param - lr * grad + v\n\n"
    "model m(x: f32[N, 3]) -> y: [N]:\n    param w: [3] = 1\n    y[n] = x[n, i] * w[i]\n\n"
    "train m(x):\n    minimize mean(m(x)^2)\n    using o()\n"
)


@pytest.mark.point("messages")
@pytest.mark.parametrize("value", ["h", "2 * h", "c"])
@pytest.mark.parametrize("word", ["param", "state"])
def test_a_named_number_is_an_initial_value(word: str, value: str, tmp_path: Path) -> None:
    text = MODEL + f"    h = s / sqrt(T)\n    c = h + T\n    {word} w: [3] = {value}\n"
    spec = tmp_path / "m.dsl"
    spec.write_text(text + (STATE if word == "state" else "") + READ, encoding="utf-8")
    module = dslc.compile(spec)
    found = module.init() if word == "param" else module.init_state()
    np.testing.assert_array_equal(found["w"], np.full(3, {"h": 1.0, "2 * h": 2.0, "c": 5.0}[value], np.float32))


@pytest.mark.point("messages")
def test_a_named_number_is_the_width_of_a_draw(tmp_path: Path) -> None:
    texts = ["    h = s / 4\n    param w: [3] ~ normal(h)\n", "    param w: [3] ~ normal(s / 4)\n"]
    drawn = []
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.dsl").write_text(MODEL + text + READ, encoding="utf-8")
        drawn.append(dslc.compile(tmp_path / f"{number}.dsl").init(seed=1)["w"])
    np.testing.assert_array_equal(*drawn)


@pytest.mark.point("messages")
@pytest.mark.parametrize("word", ["param w: [3] = {}", "param w: [3] ~ normal({})", "state w: [3] = {}"])
@pytest.mark.parametrize("value", ["k", "h", "1 + h", "sum(x)", "x[0, 0]"])
def test_data_are_no_initial_value(word: str, value: str) -> None:
    text = f"model m(x: f32[N, 3], k: []) -> y: [N]:\n    h = sum(x) + k\n    {word.format(value)}\n"
    (error,) = check_text(text + (STATE if "state" in word else "") + READ).errors
    assert error.code == "E0406"
    assert ("`k = 0.5`" in (error.help or "")) == (value == "k")


@pytest.mark.point("messages")
@pytest.mark.parametrize("value", ["param", "grad", "grad_norm", "2 * step"])
def test_a_slot_begins_with_a_number(value: str) -> None:
    errors = [e for e in check_text(OPTIMISED.format(value)).errors if e.code == "E0406"]
    assert errors and f"`{value}` where `step == 1`" in (errors[0].help or "")
    assert check_text(OPTIMISED.format("2 * first")).errors == []


@pytest.mark.point("messages")
@pytest.mark.parametrize(
    ("body", "cure"),
    [
        ("for i in 0..T:\n        h = tanh(h)", "`--set T=8`"),
        ("for i in 0..k:\n        h = tanh(h)", "`k = 4`"),
        ("if T > 4:\n        h = tanh(h)", "`--set T=8`"),
        ("if p > 4:\n        h = tanh(h)", "`p = 0.5`"),
        ("h = dropout(h, p)", "`p = 0.5`"),
        ("h = dropout(h, 0.3 / T)", "`--set T=8`"),
        ("h = h * 2^T", "`float(2)^T`"),
    ],
)
def test_what_must_be_known_says_how_it_is(body: str, cure: str) -> None:
    text = f"model m(x: f32[N, T], k: i32[], p: []) -> y: [N, T]:\n    h = x\n    {body}\n    y = h\n"
    (error,) = check_text(text).errors
    assert cure in (error.help or "")

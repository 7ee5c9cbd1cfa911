"""Sizes that only a run knows, as numbers in formulas: with floats too, where no size is wanted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dslc
from dslc.diagnostics.report import Reporter
from dslc.frontend import check_text
from dslc.source import Source
from dslc.syntax.format import format_source
from dslc.syntax.parser import parse

FORMULAS = {
    "0.5 * N": lambda n: 0.5 * n,
    "N * 0.5 + 1": lambda n: n * 0.5 + 1,
    "(N + 1) / 2.0": lambda n: (n + 1) / 2,
    "0.5 - N": lambda n: 0.5 - n,
    "1.0 / N": lambda n: 1 / n,
    "sqrt(0.5 * N)": lambda n: np.sqrt(0.5 * n),
    "N^0.5": lambda n: n**0.5,
    "N^(1/2)": lambda n: n**0.5,
    "N^-1": lambda n: 1 / n,
    "1.5^N": lambda n: 1.5**n,
}


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_float_and_an_open_size_are_a_number(formula: str, tmp_path: Path) -> None:
    spec = tmp_path / "scaled.dsl"
    spec.write_text(f"model scaled(x: f32[N]) -> y: [N]:\n    y[n] = x[n] * ({formula})\n", encoding="utf-8")
    module = dslc.compile(spec, dtype="f64")
    x = np.array([1.0, -2.0, 3.0, 0.5, 7.0])
    np.testing.assert_allclose(module.forward({}, x), x * FORMULAS[formula](5), rtol=1e-15)


def helps(text: str) -> list[tuple[str, str | None]]:
    return [(d.code, d.help) for d in check_text(text).diagnostics]


@pytest.mark.parametrize(
    ("size", "help"),
    [
        ("K / 2.0", "sizes are whole: write `K // 2`, which rounds down"),
        ("0.5 * (K + 1)", "sizes are whole: write `(K + 1) // 2`, which rounds down"),
        ("0.3 * K", "sizes are whole: write the number without a point"),
    ],
)
def test_it_is_no_size(size: str, help: str) -> None:
    text = f"fn f(x: [N, K]) -> y:\n    y[n, j] = x[n, 0] * j where j = {size}\n"
    assert helps(text) == [("E0406", help)]


@pytest.mark.parametrize(
    ("kind", "help"),
    [
        ("float", "write `N / 2`, a number made of sizes"),
        ("int", "sizes are whole: write `N // 2`, which rounds down"),
    ],
)
def test_it_is_no_argument_that_must_be_known(kind: str, help: str) -> None:
    scaled = f"layer scaled(x: [N], a: {kind}) -> y: [N]:\n    y = x * a\n"
    model = "model m(x: f32[N]) -> y: [N]:\n    y = scaled(x, {})\n"
    assert helps(scaled + model.format("0.5 * N")) == [("E0406", help)]
    written = help.split("`")[1]
    assert helps(scaled + model.format(written)) == []


def test_division_by_nothing_is_still_noticed() -> None:
    assert [code for code, _ in helps("model m(x: f32[N]) -> y: [N]:\n    y = x * (N / 0.0)\n")] == ["E0345"]


CHOSEN = """\
model m(x: f32[N, 4], wide = true) -> y: [N, 3]:
    h = x
    for l in 0..2:
        size K = 3 if l == 1 else 6 if wide else 2
        h = dense(h, K)
    y = h
"""


def test_what_is_known_when_the_spec_is_compiled_chooses_a_size(tmp_path: Path) -> None:
    (tmp_path / "m.dsl").write_text(CHOSEN)
    for wide, middle in ((True, 6), (False, 2)):
        module = dslc.compile(tmp_path / "m.dsl", wide=wide)
        shapes = {name: value.shape for name, value in module.init(0).items() if name.endswith("W")}
        assert shapes == {"dense.0.W": (4, middle), "dense.1.W": (middle, 3)}
    assert format_source(parse(Source("m.dsl", CHOSEN), Reporter())) == CHOSEN


VALUES = ["2 < 3", "true", "2 if N > 3 else 1", "2 if x[0, 0] > 0 else 1", "1.5 if true else 2"]


@pytest.mark.parametrize("value", VALUES)
def test_what_only_a_run_knows_chooses_no_size(value: str) -> None:
    found = check_text(f"model m(x: f32[N, 4]) -> y: [N]:\n    size K = {value}\n    y[n] = K * x[n, 0]\n", "m.dsl")
    assert [d.code for d in found.diagnostics] == ["E0321"]

"""Names of values in generated modules: from the spec, from paths, from what a value is; never by counting."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

from dslc.compiler import compile_text
from dslc.ir.naming import Names

SPECS = Path(__file__).parents[2] / "specs"


def names(text: str) -> set[str]:
    """All names of a Python text."""
    return {t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.NAME}


@pytest.mark.parametrize("spec", ["mlp/mlp.dsl", "transformer/gpt.dsl", "convolution/cnn.dsl"])
def test_no_name_of_a_module_is_numbered(spec: str) -> None:
    assert [x for x in sorted(names(compile_text(SPECS / spec))) if re.search(r"_\d+$", x)] == []


TWICE = """
model m(x: f32[N, 8]) -> y: [N, 4]:
    h = x |> dense(8) |> tanh
    h = h |> dense(8) |> tanh
    h = tanh(h)
    y = h |> dense(4)

train m(x, t: f32[N, 4]):
    y = m(x)
    minimize mean[n, i]((y[n, i] - t[n, i])^2)
    using sgd(lr = 0.1)
"""


def test_a_name_that_is_bound_again_goes_with_its_layer(tmp_path: Path) -> None:
    spec = tmp_path / "twice.dsl"
    spec.write_text(TWICE, encoding="utf-8")
    found = names(compile_text(spec))
    assert {"h", "dense2_h", "dense_y", "dense2_y", "d_dense2_h"} <= found
    assert not [x for x in found if re.search(r"_\d+$", x)]


def test_layers_of_one_name_are_told_apart_by_their_paths() -> None:
    found = Names()
    assert found.label("encoder.attention.*.norm") == "norm"
    assert found.label("decoder.attention.*.norm") == "attention.norm"
    assert found.label("other.attention.*.norm") == "other.attention.norm"
    assert found.label("encoder.attention.*.norm") == "norm"

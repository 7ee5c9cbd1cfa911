"""Names of values in generated modules: from the spec, from paths, from what a value is; never by counting."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

from dslc.compiler import compile_text
from dslc.ir import nodes as ir
from dslc.ir.namespace import name_lines
from dslc.ir.naming import Names

SPECS = Path(__file__).parents[2] / "specs"


def names(text: str) -> set[str]:
    """All names of a Python text."""
    found = {t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.NAME}
    return found - {"read_array_header_1_0"}  # of NumPy


#: a library of layers, without a model
LIBRARIES = {"transformer/mixers"}
ALL = {x.relative_to(SPECS).with_suffix("").as_posix() for x in SPECS.rglob("*.dsl")}


@pytest.mark.wide(8)
@pytest.mark.parametrize("spec", sorted(ALL - LIBRARIES))
def test_no_name_of_a_module_is_numbered(spec: str) -> None:
    assert [x for x in sorted(names(compile_text(SPECS / f"{spec}.dsl"))) if re.search(r"_\d+$", x)] == []


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


def given(outputs: dict[str, ir.Tensor]) -> list[str]:
    """The names of all values after they are told apart, in order."""
    name_lines(tuple(outputs.values()))
    return [getattr(x, "name", "") for x in ir.schedule(tuple(outputs.values()))]


def vector(name: str) -> ir.Input:
    return ir.intern(ir.Input(name, "input", "f64", (4,)))


def mapped(op: str, x: ir.Tensor, name: str = "") -> ir.Tensor:
    return ir.comp((4,), ir.op(op, (ir.whole(x),), "f64"), name=name)


def test_adjoints_of_one_value_are_told_apart_by_what_they_come_through() -> None:
    with ir.compilation():
        p, q = mapped("exp", vector("d_score"), "d_q"), mapped("exp", vector("d_gate"), "d_q")
        total = ir.comp((4,), ir.op("+", (ir.whole(p), ir.whole(q)), "f64"), name="d_q")
        assert given({"d_q": total}) == ["d_gate", "d_q_via_gate", "d_score", "d_q_via_score", "d_q"]


def test_a_value_without_a_name_that_is_used_twice_is_called_by_what_is_done() -> None:
    with ir.compilation():
        e = mapped("exp", vector("x"))
        both = ir.comp((4,), ir.op("+", (ir.whole(e), ir.op("sin", (ir.whole(e),), "f64")), "f64"), name="y")
        assert given({"y": both}) == ["x", "exp_x", "y"]


def test_values_of_operations_are_named_by_their_statement() -> None:
    text = compile_text(SPECS / "convolution/fft_conv.dsl")
    assert "long_conv_xr, long_conv_xi = fourier(" in text
    assert "long_conv_real, _ = fourier(" in text  # nobody reads the other part


def test_layers_of_two_loops_call_their_parameters_alike() -> None:
    text = compile_text(SPECS / "recurrent/lstm.dsl")
    assert 'layer = f"lstm.{l}"' in text and 'params[f"{layer}.Wc"]' in text and "lstm_Wc_part" not in text

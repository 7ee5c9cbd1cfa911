"""What index variables are called where no equation of the spec says it."""

from __future__ import annotations

import re

from programs import unit

from dslc.autodiff.reverse import gradients, ones
from dslc.ir import nodes as ir
from dslc.ir.show import show


def lines(text: str, wanted: bool = False) -> dict[str, str]:
    """Each value of a program as it is shown, without the comments; with gradients if they are wanted."""
    with ir.compilation():
        program = unit(text)
        outputs = list(program.outputs.values())
        if wanted:
            outputs = list(gradients({y: ones(y.shape) for y in outputs}, list(program.inputs.values())))
        shown = [x.partition("#")[0].strip() for x in show(outputs).splitlines()]
    return {re.split(r"[\[ ]", x)[0]: x for x in shown}


LINEAR = """
fn linear(x: [N, I], W: [I, O], g: [N, O]) -> s: []:
    y[n, o] = x[n, i] * W[i, o]
    s = sum[n, o](y[n, o] * g[n, o])
"""


def test_gradients_have_the_indices_of_what_they_are_gradients_of() -> None:
    shown = lines(LINEAR, wanted=True)
    assert shown["d_W"] == "d_W[i:I, o:O] = sum[n:N](d_y[n, o] * x[n, i])"
    assert shown["d_x"] == "d_x[n:N, i:I] = sum[o:O](d_y[n, o] * W[i, o])"


def test_indices_follow_the_spec_when_it_is_renamed() -> None:
    renamed = LINEAR.replace("[n, o]", "[row, out]").replace("[n, i]", "[row, into]").replace("[i, o]", "[into, out]")
    assert lines(renamed, wanted=True)["d_W"] == "d_W[into:I, out:O] = sum[row:N](d_y[row, out] * x[row, into])"


def test_one_formula_has_no_index_twice() -> None:
    text = """
fn gram(x: [N, D]) -> g: [N, N]:
    y[n, d] = x[n, d] + 1
    g[n, m] = y[n, d] * y[m, d] * x[n, d]^2
"""
    shown = lines(text, wanted=True)
    assert len(shown) > 5
    for line in shown.values():
        ranges = re.findall(r"(\w+):", line)
        assert len(ranges) == len(set(ranges)), line


def test_an_index_is_not_called_like_the_step_around_it() -> None:
    text = """
fn f(x: [T, K]) -> h: [T, K]:
    m[t, k] = 2 * x[t, k]
    scan t:
        h[t, k] = h[t-1, k] + sum[s](m[s, k] * x[t, k])
    start h = 0
"""
    assert "sum[s:T](m[s, k] * x[t, k])" in show(list(unit(text).outputs.values()))


def test_what_nothing_names_is_called_by_its_size_or_by_a_letter() -> None:
    text = """
fn f(x: [N, 3]) -> y: [N, 3]:
    y = 2 * x
"""
    assert lines(text)["y"] == "y[n:N, i:3] = 2 * x[n, i]"

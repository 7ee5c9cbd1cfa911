"""Formatting keeps the tree and every comment, changes nothing the second time, and lays blank lines evenly."""

from __future__ import annotations

from collections import Counter
from textwrap import dedent
from unittest.mock import patch

import pytest
from generate import SPECS, commented, modules, parse_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dslc.syntax import format as formatter
from dslc.syntax import printer
from dslc.syntax.format import format_source


def formatted(text: str) -> str:
    """The formatted text, after checking what must hold of any."""
    before = parse_text(text)
    result = format_source(before)
    after = parse_text(result)
    assert after.module == before.module
    assert Counter(c.text for c in after.comments) == Counter(c.text for c in before.comments)
    assert format_source(after) == result
    assert result.endswith("\n")
    assert not result.startswith("\n")
    assert "\n\n\n" not in result + "\n"
    assert all(line == line.rstrip() for line in result.splitlines())
    return result


# ---- any text -------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(modules, st.sampled_from([25, 100]), st.data())
def test_generated_text_with_comments_everywhere(module, width, data):
    with patch.object(printer, "WIDTH", width):  # narrow, for comments inside brackets
        text = printer.print_module(module)
    text = data.draw(commented(text))
    formatted(text)


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.name)
def test_shipped_specs_can_be_formatted(path):
    formatted(path.read_text(encoding="utf-8"))


# ---- comments -------------------------------------------------------------------------------------------

MESSY = """


# of the file

import "a.dsl"   # for dense
from "b.dsl" import x,y as z
# about f
fn f(x)=x*(2)   #twice
layer dense(x: [..., I], # the input
            # the size
            out: size) -> y: [..., O=out]: # opener

    # first
    param W: [I,O] ~glorot


    param b: [O]    ~ zeros
# at the margin
    y[...,o] = x[...,i]*W[i,o]+b[o]
    if a: # then

        y = 1
        # end of then

    # before elif
    elif (b # inside
       ):
        y = 2
      # between
    # before else

    else :  # otherwise

        # first of otherwise
        for i in 0 .. 3:
            y = f(  # f
                3
            ) # closed
            # end of for
        # end of otherwise
    # end of dense

  # half way
# after dense
fn h(x) = x
fn k(x) = x
# about g

fn g(x) -> y:
  y = x
  # end of g
# end

# of the file
"""

TIDY = """\
# of the file

import "a.dsl"  # for dense
from "b.dsl" import x, y as z
# about f
fn f(x) = x * 2  #twice

# the input
# the size
layer dense(x: [..., I], out: size) -> y: [..., O = out]:  # opener
    # first
    param W: [I, O] ~ glorot

    param b: [O] ~ zeros
    # at the margin
    y[..., o] = x[..., i] * W[i, o] + b[o]
    if a:  # then
        y = 1
        # end of then

    # before elif
    # inside
    elif b:
        y = 2
    # between
    # before else
    else:  # otherwise
        # first of otherwise
        for i in 0..3:
            # f
            y = f(3)  # closed
            # end of for
        # end of otherwise
    # end of dense

# half way
# after dense
fn h(x) = x
fn k(x) = x
# about g

fn g(x) -> y:
    y = x
    # end of g

# end

# of the file
"""


def test_every_comment_keeps_its_place():
    assert formatted(MESSY) == TIDY


def test_a_trailing_comment_follows_the_last_line_of_a_broken_statement():
    text = f"fn f(x) = {'x' * 60} + {'y' * 60}  # why\n"
    assert formatted(text) == f"fn f(x) = (\n    {'x' * 60}\n    + {'y' * 60}\n)  # why\n"


def test_a_trailing_comment_does_not_make_a_line_too_long():
    text = f"fn f(x) = x + {'y' * 70}  # {'why ' * 10}end\n"
    assert formatted(text) == text


def test_a_hash_in_a_string_is_no_comment():
    assert formatted('import "a#b"#c') == 'import "a#b"  #c\n'


# ---- blank lines ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tidy"),
    [
        ("fn f(x) = x\nfn g(x) = x\n", "fn f(x) = x\nfn g(x) = x\n"),
        ("fn f(x) = x\n\n\n\nfn g(x) = x\n", "fn f(x) = x\n\nfn g(x) = x\n"),
        ("fn f(x) = x\nfn g(x) -> y:\n y = x\nfn h(x) = x", "fn f(x) = x\n\nfn g(x) -> y:\n    y = x\n\nfn h(x) = x\n"),
        ("fn f(x) = x\n# g\nfn g(x) -> y:\n y = x", "fn f(x) = x\n\n# g\nfn g(x) -> y:\n    y = x\n"),
        ("fn f(x) = x\n# f\n\nfn g(x) -> y:\n y = x", "fn f(x) = x\n# f\n\nfn g(x) -> y:\n    y = x\n"),
        ("fn g(x) -> y:\n\n y = x\n\n\n z = y\n v = z", "fn g(x) -> y:\n    y = x\n\n    z = y\n    v = z\n"),
        ("fn g(x) -> y:\n\n # a\n\n y = x", "fn g(x) -> y:\n    # a\n\n    y = x\n"),
    ],
)
def test_blank_lines(text, tidy):
    assert formatted(text) == tidy


def test_a_definition_that_breaks_stands_apart():
    long = f"fn f(x) = {'x' * 60} + {'y' * 60}\n"
    assert formatted(f"fn a(x) = 1\n{long}fn b(x) = 2\n") == dedent(
        f"""\
        fn a(x) = 1

        fn f(x) = (
            {"x" * 60}
            + {"y" * 60}
        )

        fn b(x) = 2
        """
    )


# ---- refusal --------------------------------------------------------------------------------------------


def test_a_result_that_says_something_else_is_not_returned():
    parsed = parse_text("fn f(x) = x\n")
    with patch.object(formatter, "write", lambda doc, indent: "fn f(x) = y"), pytest.raises(AssertionError):
        format_source(parsed)
    with patch.object(formatter, "write", lambda doc, indent: "fn f(x) = x  # new"), pytest.raises(AssertionError):
        format_source(parsed)

"""How diagnostics look, to the letter: labels on one line and on several, odd characters, long lines; JSON."""

from __future__ import annotations

import json
import re
from textwrap import dedent

import pytest

from dslc.diagnostics.kinds import KINDS
from dslc.diagnostics.render import render, render_all, to_json
from dslc.diagnostics.report import MAX_SHOWN, Diagnostic, Fix, Label
from dslc.diagnostics.spec_error import SpecError
from dslc.error_index import render_index, wording
from dslc.quoting import printable
from dslc.source import NOWHERE, Source, Span

MLP = Source(
    "mlp.dsl",
    dedent("""\
        # a comment
        layer dense(x: f32[N, 784]) -> y: [N, O]:
            param W: [10, 784]
            y[n, o] = x[n, i] * W[o, i]
            z[n] = 1
            z[n] = 2

        model mlp(x: f32[N, 784]) -> y: [N]:
            y = dense(x)
        """),
)


def at(source: Source, text: str, occurrence: int = 0) -> Span:
    start = -1
    for _ in range(occurrence + 1):
        start = source.text.index(text, start + 1)
    return Span(source, start, start + len(text))


def shows(diagnostic: Diagnostic, expected: str, width: int = 110) -> None:
    assert render(diagnostic, width=width) == dedent(expected).strip("\n")


def test_one_label_with_notes_and_help() -> None:
    diagnostic = Diagnostic(
        "E0302", "expected 784, found 10", (Label(at(MLP, "[o, i]"), "here"),), ("first\nsecond",), "write `W[i, o]`"
    )
    shows(
        diagnostic,
        """
        error[E0302]: expected 784, found 10
          --> mlp.dsl:4:26
           |
         4 |     y[n, o] = x[n, i] * W[o, i]
           |                          ^^^^^^ here
           = note: first
                   second
           = help: write `W[i, o]`
        """,
    )


def test_two_labels_of_a_line_stand_side_by_side_when_there_is_room() -> None:
    diagnostic = Diagnostic("E0302", "m", (Label(at(MLP, "[o, i]"), "O = 10"), Label(at(MLP, "y[n, o]"), "784")))
    shows(
        diagnostic,
        """
        error[E0302]: m
          --> mlp.dsl:4:26
           |
         4 |     y[n, o] = x[n, i] * W[o, i]
           |     ------- 784          ^^^^^^ O = 10
        """,
    )


def test_two_labels_of_a_line_stand_below_each_other_when_there_is_none() -> None:
    texts = (Label(at(MLP, "x[n, i]"), "I = 784, from the type of x"), Label(at(MLP, "W[o, i]"), "O = 10"))
    shows(
        Diagnostic("E0302", "m", texts),
        """
        error[E0302]: m
          --> mlp.dsl:4:15
           |
         4 |     y[n, o] = x[n, i] * W[o, i]
           |               ^^^^^^^ I = 784, from the type of x
           |                         ------- O = 10
        """,
    )


def test_overlapping_labels_stand_below_each_other() -> None:
    shows(
        Diagnostic("E0302", "m", (Label(at(MLP, "i]")), Label(at(MLP, "x[n, i]")), Label(at(MLP, "i]"), "again"))),
        """
        error[E0302]: m
          --> mlp.dsl:4:20
           |
         4 |     y[n, o] = x[n, i] * W[o, i]
           |               -------
           |                    ^^
           |                    -- again
        """,
    )


def test_labels_on_neighbouring_lines_and_far_ones() -> None:
    labels = (
        Label(at(MLP, "x[n, i]"), "this"),
        Label(at(MLP, "784]"), "that"),
        Label(at(MLP, "10")),
        Label(at(MLP, "dense", 1)),
    )
    shows(
        Diagnostic("W0302", "m", labels),
        """
        warning[W0302]: m
          --> mlp.dsl:4:15
           |
         2 | layer dense(x: f32[N, 784]) -> y: [N, O]:
           |                       ---- that
         3 |     param W: [10, 784]
           |               --
         4 |     y[n, o] = x[n, i] * W[o, i]
           |               ^^^^^^^ this
        ...
         9 |     y = dense(x)
           |         -----
        """,
    )


def test_a_single_line_between_two_labels_is_shown() -> None:
    shows(
        Diagnostic("E0302", "m", (Label(at(MLP, "z", 1), "twice"), Label(at(MLP, "y[n"), "first"))),
        """
        error[E0302]: m
          --> mlp.dsl:6:5
           |
         4 |     y[n, o] = x[n, i] * W[o, i]
           |     --- first
         5 |     z[n] = 1
         6 |     z[n] = 2
           |     ^ twice
        """,
    )


def test_labels_in_two_files_and_in_none() -> None:
    other = Source("lib/other.dsl", "\n" * 11 + "fn f(x) = x\n")
    labels = (Label(at(MLP, "10"), "a"), Label(at(other, "f(x)"), "b"), Label(NOWHERE, "predefined"))
    shows(
        Diagnostic("E0302", "m", labels),
        """
        error[E0302]: m
           --> mlp.dsl:3:15
            |
          3 |     param W: [10, 784]
            |               ^^ a
            |
           ::: lib/other.dsl:12:4
            |
         12 | fn f(x) = x
            |    ---- b
            |
           ::: <built in>: predefined
        """,
    )


def test_an_unreadable_file_has_no_position() -> None:
    diagnostic = Diagnostic("E0001", "cannot read a.dsl: gone", (Label(Span(Source("a.dsl", ""), 0, 0)),))
    assert render(diagnostic) == "error[E0001]: cannot read a.dsl: gone\n  --> a.dsl"


@pytest.mark.parametrize(
    "offset", [8, 9, 10], ids=["at the end of a line", "on an empty line", "at the end of the file"]
)
def test_an_empty_span_gets_one_caret(offset: int) -> None:
    source = Source("a.dsl", "fn f(x) \n\n")
    line, column = source.position(offset)
    shown = render(Diagnostic("E0101", "m", (Label(Span(source, offset, offset), "here"),))).splitlines()
    assert shown[1] == f"  --> a.dsl:{line}:{column}"
    assert shown[-1] == "   | " + " " * (column - 1) + "^ here"


def test_a_span_over_several_lines_marks_the_first_to_its_end() -> None:
    source = Source("a.dsl", "y = f(a,   \n      b)\n")
    shows(
        Diagnostic("E0101", "m", (Label(Span(source, 4, 20), "this call"),)),
        """
        error[E0101]: m
          --> a.dsl:1:5
           |
         1 | y = f(a,
           |     ^^^^ this call
        """,
    )


def test_tabs_wide_and_control_characters_keep_the_marks_in_place() -> None:
    source = Source("a.dsl", '\tx = "日本e\u0301\x1b[0m" + ?\n')
    shown = render(Diagnostic("E0101", "a\x1b[2Jb\nc", (Label(at(source, "?"), "\x07"),)))
    assert shown == "\n".join(
        [
            "error[E0101]: a\ufffd[2Jb c",
            "  --> a.dsl:1:19",
            "   |",
            ' 1 |  x = "日本e\u0301\ufffd[0m" + ?',
            "   |                    ^ \ufffd",
        ]
    )
    wide = render(Diagnostic("E0101", "m", (Label(at(source, "日本")),))).splitlines()[-1]
    assert wide == "   |       ^^^^"


def test_a_long_line_is_clipped_around_its_label() -> None:
    source = Source("a.dsl", "y = " + " + ".join(f"x{i}" for i in range(100, 400)))
    shows(
        Diagnostic("E0101", "m", (Label(at(source, "x200"), "this"),)),
        """
        error[E0101]: m
          --> a.dsl:1:705
           |
         1 | ...197 + x198 + x199 + x200 + x201 + x202 + x20...
           |                        ^^^^ this
        """,
        width=56,
    )
    for name, left, right in (("y", False, True), ("x399", True, False)):
        *_, text, mark = render(Diagnostic("E0101", "m", (Label(at(source, name)),)), width=56).splitlines()
        assert (text[5:8] == "...", text.endswith("...")) == (left, right)
        assert text[mark.index("^") :].startswith(name)
        assert len(text) <= 56


def test_labels_far_apart_on_a_long_line_get_an_excerpt_each() -> None:
    source = Source("a.dsl", "a" + ":" * 500 + "b" + "=" * 500)
    labels = (Label(at(source, "b"), "second"), Label(at(source, "a"), "first"), Label(Span(source, 502, 1002), "all"))
    shows(
        Diagnostic("E0101", "m", labels),
        """
        error[E0101]: m
          --> a.dsl:1:502
           |
         1 | a:::::::::::::::::::::::::::...
           | - first
         1 | ...:::::::::::::b==============...
           |                 ^ second
         1 | ...============================...
           |    ---------------------------- all
        """,
        width=40,
    )


def test_a_label_past_the_text_is_shown_at_its_end() -> None:
    shown = render(Diagnostic("E0101", "m", (Label(Span(Source("a.dsl", "abc"), 90, 99)),)))
    assert shown.splitlines()[-1] == "   |    ^"


def test_color_changes_no_text() -> None:
    diagnostic = Diagnostic("E0302", "m", (Label(at(MLP, "10"), "a"), Label(at(MLP, "784"), "b")), ("n",), "h")
    colored = render(diagnostic, color=True)
    assert "\x1b[1;31merror[E0302]\x1b[0m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == render(diagnostic)


def test_many_errors_are_counted_and_warnings_do_not_crowd_them_out() -> None:
    here = (Label(at(MLP, "10")),)
    warnings = [Diagnostic("W0001", f"w{i}", here) for i in range(MAX_SHOWN)]
    shown = render_all([*warnings, Diagnostic("E0001", "the error", here), Diagnostic("E0001", "another", here)])
    assert shown.endswith("... and 2 more, not shown\n\n2 errors, 100 warnings")
    assert "the error" in shown
    assert shown.count("  --> ") == MAX_SHOWN
    assert render_all(warnings[:1]).endswith("\n\n1 warning")
    assert render_all([]) == ""


def test_the_python_interface_shows_the_same() -> None:
    diagnostic = Diagnostic("E0302", "m", (Label(at(MLP, "10")),))
    assert str(SpecError([diagnostic])) == "\n" + render_all([diagnostic])


def test_json_has_stable_fields() -> None:
    here, there = at(MLP, "10"), Span(MLP, at(MLP, "z").start, at(MLP, "2").end)
    diagnostic = Diagnostic("W0302", "m", (Label(here, "a"), Label(there)), ("n",), "h", Fix(here, "784"))
    place = {"file": "mlp.dsl", "line": 3, "column": 15, "end_line": 3, "end_column": 17}
    assert to_json(diagnostic) == {
        "code": "W0302",
        "severity": "warning",
        "message": "m",
        **place,
        "labels": [
            {**place, "text": "a"},
            {**_lines(there), "text": ""},
        ],
        "notes": ["n"],
        "help": "h",
        "fix": {**place, "replacement": "784"},
    }
    bare = to_json(Diagnostic("E0001", "m", (Label(Span(Source("gone.dsl", ""), 0, 0)),)))
    assert (bare["line"], bare["column"], bare["help"], bare["fix"]) == (1, 1, None, None)
    json.dumps(bare)


def _lines(span: Span) -> dict[str, object]:
    (line, column), (end_line, end_column) = span.source.position(span.start), span.source.position(span.end)
    return {"file": span.source.name, "line": line, "column": column, "end_line": end_line, "end_column": end_column}


def test_printable_leaves_plain_text_alone() -> None:
    assert printable("αβγ [1]") == "αβγ [1]"


def test_the_index_has_a_section_per_code() -> None:
    index = render_index()
    assert index.startswith("<!-- Generated by `python -m dslc.error_index`")
    for kind in KINDS.values():
        assert f"## {kind.code}: {wording(kind)}\n" in index
        assert kind.cure in index
    assert "{" not in wording(KINDS["E0002"])

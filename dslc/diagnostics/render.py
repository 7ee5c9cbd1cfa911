"""Diagnostics as text for people, and as JSON for editors.

`render` shows one diagnostic with the source lines it speaks of, `render_all` many of them with a count.

`to_json` gives an object whose fields are stable: later versions may add some, but none changes or goes.

    code       "E0101"; errors begin with E, warnings with W
    severity   "error" or "warning"
    message    one line
    file, line, column, end_line, end_column
               where it is: the place of the first label
    labels     [{file, line, column, end_line, end_column, text}, ...]; the first one is the guilty place
    notes      ["...", ...]
    help       "..." or null
    fix        {file, line, column, end_line, end_column, replacement} or null: text that would mend the spec

Lines and columns count from 1, columns in characters (code points); the end is the first position that no
longer belongs to the place. A file that could not be read has only the place 1:1 to 1:1.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dslc.diagnostics.report import MAX_SHOWN, Diagnostic, Label
from dslc.quoting import printable
from dslc.source import Source, Span

#: Columns of a shown source line, with its gutter; longer lines are clipped around their labels.
WIDTH = 110

#: Stands for the part of a line, or the lines, that are left out.
GAP = "..."

ANSI = {"error": "1;31", "warning": "1;33", "secondary": "1;34", "gutter": "1;34", "strong": "1"}

Paint = Callable[[str, str], str]


@dataclass(frozen=True)
class _Mark:
    """A label cut down to one line: its characters `start <= c < end`, or one caret before `start`."""

    start: int
    end: int
    text: str
    primary: bool


def render(diagnostic: Diagnostic, color: bool = False, width: int = WIDTH) -> str:
    """One diagnostic as text without a final newline.

    >>> here = Span(Source("a.dsl", "fn f(x) = y\\n"), 10, 11)
    >>> print(render(Diagnostic("E0201", "no value is called `y`", (Label(here, "not defined"),), help="write `x`")))
    error[E0201]: no value is called `y`
      --> a.dsl:1:11
       |
     1 | fn f(x) = y
       |           ^ not defined
       = help: write `x`
    """
    paint: Paint = _ansi if color else lambda style, text: text
    severity = diagnostic.severity
    shown: dict[Source, list[Label]] = {}
    for label in diagnostic.labels:
        shown.setdefault(label.span.source, []).append(label)
    gutter = max(len(str(label.span.line)) for label in diagnostic.labels)
    bar = paint("gutter", " " * (gutter + 2) + "|")

    head = paint(severity, f"{severity}[{diagnostic.code}]") + paint("strong", f": {printable(diagnostic.message)}")
    lines = [head]
    for source, labels in shown.items():
        first = labels[0] is diagnostic.labels[0]
        if not first and lines[-1] != bar:
            lines.append(bar)
        lines.append(paint("gutter", " " * (gutter + 1) + ("--> " if first else "::: ")) + _place(source, labels))
        if source.text:
            lines.append(bar)
            lines.extend(_excerpts(source, labels, diagnostic, gutter, width, paint))
    remarks = [("note", note) for note in diagnostic.notes]
    if diagnostic.help:
        remarks.append(("help", diagnostic.help))
    for word, remark in remarks:
        begin, *rest = remark.splitlines() or [""]
        margin = " " * (gutter + 2)
        lines.append(paint("gutter", margin + "= ") + paint("strong", f"{word}:") + f" {printable(begin)}")
        lines.extend(f"{margin}  {' ' * len(word)}  {printable(line)}" for line in rest)
    return "\n".join(line.rstrip() for line in lines)


def render_all(diagnostics: Sequence[Diagnostic], color: bool = False, width: int = WIDTH) -> str:
    """All of them as text, then a line such as `2 errors, 1 warning`; past MAX_SHOWN only a count of the rest.

    >>> render_all([])
    ''
    """
    if not diagnostics:
        return ""
    kept = diagnostics
    if len(diagnostics) > MAX_SHOWN:
        # Warnings must not crowd out errors.
        order = sorted(range(len(diagnostics)), key=lambda i: diagnostics[i].severity == "warning")
        kept = [diagnostics[i] for i in sorted(order[:MAX_SHOWN])]
    parts = [render(diagnostic, color, width) for diagnostic in kept]
    if len(diagnostics) > len(kept):
        parts.append(f"{GAP} and {len(diagnostics) - len(kept)} more, not shown")
    return "\n\n".join([*parts, count(diagnostics)])


def count(diagnostics: Sequence[Diagnostic]) -> str:
    """`2 errors, 1 warning`"""
    errors = sum(d.severity == "error" for d in diagnostics)
    numbers = (("error", errors), ("warning", len(diagnostics) - errors))
    return ", ".join(f"{n} {word}{'s' * (n != 1)}" for word, n in numbers if n)


def to_json(diagnostic: Diagnostic) -> dict[str, object]:
    """The diagnostic as the JSON object that this module's docstring describes.

    >>> to_json(Diagnostic("E0201", "no `y`", (Label(Span(Source("a.dsl", "y"), 0, 1)),)))["end_column"]
    2
    """
    fix = diagnostic.fix
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        **_position(diagnostic.span),
        "labels": [{**_position(label.span), "text": label.text} for label in diagnostic.labels],
        "notes": list(diagnostic.notes),
        "help": diagnostic.help,
        "fix": {**_position(fix.span), "replacement": fix.replacement} if fix else None,
    }


def _position(span: Span) -> dict[str, object]:
    line, column = span.source.position(span.start)
    end_line, end_column = span.source.position(span.end)
    return {
        "file": span.source.name, "line": line, "column": column, "end_line": end_line, "end_column": end_column,
    }  # fmt: skip


# ---- source lines with their labels --------------------------------------------------------------


def _place(source: Source, labels: list[Label]) -> str:
    """`mlp.dsl:4:20`; of a file without text, its name and what the labels say."""
    if source.text:
        return printable(str(labels[0].span))
    said = "; ".join(label.text for label in labels if label.text)
    return printable(f"{source.name}: {said}" if said else source.name)


def _excerpts(
    source: Source, labels: list[Label], diagnostic: Diagnostic, gutter: int, width: int, paint: Paint
) -> Iterator[str]:
    """The lines that `labels` stand on, each with the marks below it."""
    marks: dict[int, list[_Mark]] = {}
    for label in labels:
        number, mark = _mark(label, label is diagnostic.labels[0])
        marks.setdefault(number, []).append(mark)
    for number in list(marks):
        if number + 2 in marks:  # the one line between costs no more than the gap
            marks.setdefault(number + 1, [])
    room = max(width - gutter - 5, 20)
    bar = paint("gutter", " " * (gutter + 2) + "| ")
    previous = 0
    for number in sorted(marks):
        if previous and number > previous + 1:
            yield paint("gutter", GAP)
        previous = number
        shown = [c if c.isprintable() else " " if c == "\t" else "\ufffd" for c in source.line(number)]
        columns = [0]
        for c in shown:
            columns.append(columns[-1] + _cells(c))
        placed = sorted(marks[number], key=lambda mark: (mark.start, not mark.primary))
        for low, high, group in _windows(columns, placed, room):
            left, right = GAP if low else "", GAP if high < len(shown) else ""
            yield paint("gutter", f" {number:>{gutter}} | ") + left + "".join(shown[low:high]) + right
            shift = len(left) - columns[low]
            for row in _rows(group, columns, shift, columns[high], diagnostic.severity, paint):
                yield bar + row


def _mark(label: Label, primary: bool) -> tuple[int, _Mark]:
    """The line of a label and its mark there; of several lines, the first one is marked to its end."""
    span = label.span
    number, column = span.source.position(min(span.start, len(span.source.text)))
    line = span.source.line(number)
    start = column - 1
    end = start + span.end - span.start
    if end > len(line):
        end = max(start, len(line.rstrip()))
    return number, _Mark(start, max(start, end), printable(label.text), primary)


def _windows(columns: list[int], marks: list[_Mark], room: int) -> Iterator[tuple[int, int, list[_Mark]]]:
    """Which characters of a line to show with which marks: all of it, or of a long line a part per group of marks."""
    if columns[-1] <= room:
        yield 0, len(columns) - 1, marks
        return
    room -= 2 * len(GAP)
    groups: list[list[_Mark]] = []
    for mark in marks:
        if groups and columns[mark.end] - columns[groups[-1][0].start] <= room:
            groups[-1].append(mark)
        else:
            groups.append([mark])
    for group in groups or [[]]:
        begin = columns[group[0].start] if group else 0
        used = min(room, max((columns[mark.end] for mark in group), default=0) - begin)
        want = min(begin - (room - used) // 2, columns[-1] - room)
        low = bisect_left(columns, want) if want > len(GAP) else 0
        yield low, bisect_right(columns, columns[low] + room) - 1, group


def _rows(marks: list[_Mark], columns: list[int], shift: int, limit: int, severity: str, paint: Paint) -> list[str]:
    """The marks with their texts below a line: side by side where they do not touch, else one under the other."""
    rows: list[str] = []
    ends: list[int] = []
    gaps: list[int] = []
    for mark in marks:
        begin = columns[mark.start] + shift
        length = max(1, min(columns[mark.end], limit) - columns[mark.start])
        text = ("^" if mark.primary else "-") * length + (f" {mark.text}" if mark.text else "")
        row = next((i for i in range(len(rows)) if ends[i] + gaps[i] <= begin), len(rows))
        if row == len(rows):
            rows.append("")
            ends.append(0)
            gaps.append(0)
        rows[row] += " " * (begin - ends[row]) + paint(severity if mark.primary else "secondary", text)
        ends[row] = begin + sum(map(_cells, text))
        gaps[row] = 3 if mark.text else 1
    return rows


def _cells(character: str) -> int:
    """How many columns of a terminal a character takes."""
    if character.isascii():
        return 1
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _ansi(style: str, text: str) -> str:
    return f"\x1b[{ANSI[style]}m{text}\x1b[0m"

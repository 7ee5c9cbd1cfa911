"""Reformats a whole file: the canonical text of its tree, with every comment and the author's blank lines."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from dslc.diagnostics.report import Reporter
from dslc.source import Source, Span
from dslc.syntax import tree as t
from dslc.syntax.document import STEP, Doc
from dslc.syntax.parser import Comment, Parsed, parse
from dslc.syntax.printer import parts, write

_ELSE = re.compile(r"^ *(else) *:", re.MULTILINE)


@dataclass(frozen=True)
class _Head:
    """A line of the tree (it may be written as several) and the offset where the author began it."""

    start: int
    doc: Doc
    indent: int
    #: `elif` and `else` go on with the statement above
    continues: bool


@dataclass
class _Entry:
    """Text to write; `apart` when a blank line comes before it."""

    indent: int
    text: str
    apart: bool
    is_comment: bool = False


def format_source(parsed: Parsed) -> str:
    """The canonical text of a file without syntax errors.

    >>> format_source(parse(Source("a.dsl", "fn f(x)=x*(2)   # twice"), Reporter()))
    'fn f(x) = x * 2  # twice\\n'
    """
    entries = _entries(parsed)
    _set_definitions_apart(entries)
    text = "".join(("\n" if e.apart else "") + e.text + "\n" for e in entries).lstrip("\n")
    again = parse(Source(parsed.source.name, text), Reporter())
    if again.module != parsed.module:
        raise AssertionError(f"formatting {parsed.source.name} would change what it says")
    if Counter(c.text for c in again.comments) != Counter(c.text for c in parsed.comments):
        raise AssertionError(f"formatting {parsed.source.name} would change its comments")
    return text


# ---- lines and comments in the order of the file -------------------------------------------------


def _heads(node: t.Node, indent: int) -> Iterator[_Head]:
    start = node.span.start
    for position, part in enumerate(parts(node)):
        if isinstance(node, t.If) and position > 0:
            start = node.branches[position].span.start if position < len(node.branches) else _else_of(node)
        yield _Head(start, part.head, indent, continues=position > 0)
        for statement in part.body:
            yield from _heads(statement, indent + STEP)


def _else_of(node: t.If) -> int:
    """Where the `else` of an `if` stands: the last one before its block. (The tree does not say.)"""
    above, below = node.branches[-1].body[-1].span.start, node.otherwise[0].span.start
    *_, found = _ELSE.finditer(node.span.source.text, above, below)
    return found.start(1)


def _entries(parsed: Parsed) -> list[_Entry]:
    """What to write, line by line: before each head the comments that lie above it or inside its brackets."""
    source, comments = parsed.source, parsed.comments
    heads = [head for definition in parsed.module.definitions for head in _heads(definition, 0)]
    starts = [*(head.start for head in heads), len(source.text)]
    begins = [bisect_left(comments, start, key=lambda c: c.span.start) for start in starts]

    entries = [_own_line(comment, 0) for comment in comments[: begins[0]]]
    columns: dict[int, int] = {}  # of the blocks that are open: indentation to the author's column
    for i, head in enumerate(heads):
        columns[head.indent] = _column(source, head.start)
        mine = comments[begins[i] : begins[i + 1]]
        end = _end_of_code(Span(source, head.start, starts[i + 1]), mine)
        inside = [c for c in mine if c.span.start < end]
        below = mine[len(inside) :]
        text = write(head.doc, head.indent)
        if below and not below[0].own_line:
            text += "  " + below.pop(0).text
        opened = i > 0 and head.indent > heads[i - 1].indent and not entries[-1].is_comment
        apart = _blank_above(source, head.start) and not head.continues and not opened
        entries += [_Entry(head.indent, " " * head.indent + c.text, False, is_comment=True) for c in inside]
        entries.append(_Entry(head.indent, text, False))
        entries[-1 - len(inside)].apart = apart

        # A comment below the last line of a block stays in it if it is indented like it.
        following = heads[i + 1].indent if i + 1 < len(heads) else 0
        indent = max(head.indent, following)
        for position, comment in enumerate(below):
            while indent > following and _column(source, comment.span.start) < columns[indent]:
                indent -= STEP
            entries.append(_own_line(comment, indent))
            if position == 0 and following > head.indent:
                entries[-1].apart = False  # the first line of a block
    return entries


def _own_line(comment: Comment, indent: int) -> _Entry:
    apart = _blank_above(comment.span.source, comment.span.start)
    return _Entry(indent, " " * indent + comment.text, apart, is_comment=True)


def _end_of_code(span: Span, comments: list[Comment]) -> int:
    """Where the last token before the end of a span ends."""
    end = span.end
    for comment in reversed(comments):
        if span.source.text[comment.span.end : end].strip():
            break
        end = comment.span.start
    return span.start + len(span.source.text[span.start : end].rstrip())


def _column(source: Source, offset: int) -> int:
    return source.position(offset)[1]


def _blank_above(source: Source, offset: int) -> bool:
    line = source.position(offset)[0]
    return line > 1 and not source.line(line - 1).strip()


# ---- blank lines between definitions -------------------------------------------------------------


def _set_definitions_apart(entries: list[_Entry]) -> None:
    """One blank line before and after each definition of several lines, with the comments right above it."""
    tops = [i for i, entry in enumerate(entries) if entry.indent == 0]
    for position, (top, end) in enumerate(zip(tops, [*tops[1:], len(entries)], strict=True)):
        if end - top == 1 and "\n" not in entries[top].text:
            continue
        above = position
        while above > 0 and not entries[tops[above]].apart and entries[tops[above - 1]].is_comment:
            above -= 1
        entries[tops[above]].apart = True
        if end < len(entries):
            entries[end].apart = True

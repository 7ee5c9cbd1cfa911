"""Text to syntax tree: lark's LALR parser run on one definition at a time.

A definition begins at each line that is not indented, so a slip in one does not hide the others, and every
definition with an error gets exactly one syntax message.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken
from lark.lexer import PatternStr

from dslc.diagnostics import kinds
from dslc.diagnostics.report import Diagnostic, Label, Reporter
from dslc.source import MAX_BYTES, MAX_LINE, Source, Span
from dslc.syntax import explain
from dslc.syntax import tree as t
from dslc.syntax.build import Refused, build
from dslc.syntax.layout import Layout, LayoutError

#: The longest file of the library has some 2,500 words and symbols, and 30 definitions.
MAX_TOKENS = 50_000
MAX_DEFINITIONS = 1_000


#: The first line of a definition, and its name.
HEAD = re.compile(r"^\w+ +([^\W\d]\w*)", re.MULTILINE)
#: How a line begins that is a statement of some block.
STATEMENT = re.compile(
    r"(param|frozen|state|slot|use|size|for|scan|start|if|elif|else|training|inference|checkpoint|backward|minimize"
    r"|maximize|using|metric|freeze|expose)\b|\w+(\[[^\]\n]*\])?(, *\w+(\[[^\]\n]*\])?)* *(\+|max|min)?(=|<-)"
)


@dataclass(frozen=True)
class Comment:
    """A `#` comment; `own_line` when nothing but space stands before it."""

    span: Span
    own_line: bool

    @property
    def text(self) -> str:
        return self.span.text.rstrip()


@dataclass
class Parsed:
    """What is known of a file after parsing: its definitions, its comments, and which of its names are broken."""

    source: Source
    module: t.Module
    comments: list[Comment] = field(default_factory=list)
    #: names of definitions with a syntax error: known to exist, not to be complained about
    broken: set[str] = field(default_factory=set)
    #: the text was refused before it could be taken apart
    unread: bool = False
    #: a definition whose name is not known did not parse
    nameless: bool = False


# ---- loading -------------------------------------------------------------------------------------


def load(path: Path, name: str, reporter: Reporter) -> Source | None:
    """Read a spec file, or report why it cannot be one."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        reporter.add(kinds.UNREADABLE(Label(Span(Source(name, ""), 0, 0)), name=name, reason=reason))
        return None
    if len(data) > MAX_BYTES:
        size = path.stat().st_size
        reporter.add(kinds.FILE_TOO_LONG(Label(Span(Source(name, ""), 0, 0)), limit=MAX_BYTES, found=size))
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        place = Label(Span(Source(name, ""), 0, 0))
        reporter.add(kinds.NOT_UTF8(place, byte=data[error.start], offset=error.start))
        return None
    return Source(name, text.removeprefix("\ufeff").replace("\r\n", "\n"))


def _scan_characters(source: Source, reporter: Reporter) -> bool:
    """Refuse control characters, invisible characters and endless lines before the lexer meets them."""
    good = True
    for number, start in enumerate(source.line_starts, start=1):
        length = len(source.line(number))
        if length > MAX_LINE:
            reporter.add(kinds.LINE_TOO_LONG(Label(Span(source, start, start + 1)), limit=MAX_LINE, found=length))
            good = False
    for match in re.finditer(r"[^\n\t -~]", source.text):
        offset, character = match.start(), match.group()
        category = unicodedata.category(character)
        if category == "Cc":
            kind = kinds.CONTROL_CHARACTER
        elif category in ("Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
            kind = kinds.INVISIBLE_CHARACTER
        else:
            continue
        reporter.add(kind(Label(Span(source, offset, offset + 1)), character=explain.character(character)))
        return False
    return good


def _scan_length(source: Source, reporter: Reporter) -> bool:
    """Refuse what would keep the parser busy for seconds. Counts a little more than the lexer will find."""
    words = re.finditer(r'#[^\n]*|"[^"\n]*"|\w+|[^\w\s]', source.text)
    beyond = next(islice(words, MAX_TOKENS, None), None)
    if beyond is not None:
        place = Label(Span(source, beyond.start(), beyond.end()))
        reporter.add(kinds.TOO_MUCH_WORK(place, what="words and symbols in a file", limit=MAX_TOKENS))
        return False
    starts = next(islice(chunks(source), MAX_DEFINITIONS, None), None)
    if starts is not None:
        place = Label(Span(source, starts[0], starts[0] + 1))
        reporter.add(kinds.TOO_MUCH_WORK(place, what="definitions in a file", limit=MAX_DEFINITIONS))
        return False
    return True


# ---- the parser ----------------------------------------------------------------------------------


@cache
def _lark() -> Lark:
    grammar = resources.files("dslc.grammar").joinpath("dslc.lark").read_text(encoding="utf-8")
    options: dict[str, Any] = {
        "parser": "lalr",
        "lexer": "basic",
        "propagate_positions": True,
        "maybe_placeholders": True,
    }
    try:
        return Lark(grammar, cache=_table_file(), **options)
    except OSError:
        return Lark(grammar, **options)


def _table_file() -> str:
    """Where lark keeps the parse tables between runs (a quarter of a second each time); it checks their hash."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(home, "dslc")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return os.path.join(folder, f"grammar-{os.getuid() if hasattr(os, 'getuid') else 0}.tables")


def parse(source: Source, reporter: Reporter) -> Parsed:
    """Parse a whole file.

    >>> r = Reporter(); parse(Source("a.dsl", "fn f(x) = x + 1\\n"), r).module.definitions[0].name
    'f'
    """
    parsed = Parsed(source, t.Module((), span=Span(source, 0, len(source.text))))
    if not _scan_characters(source, reporter) or not _scan_length(source, reporter):
        parsed.unread = True
        return parsed
    parsed.comments = list(_comments(source))
    definitions: list[t.Definition] = []
    last: list[t.Definition] | Diagnostic | None = None
    for start, end in chunks(source):
        stray = last is not None and STATEMENT.match(source.text, start) is not None
        if stray and isinstance(last, Diagnostic):
            continue  # it belongs to the definition above, of which one message is enough
        outcome = parse_definition(source, start, end)
        if isinstance(outcome, Diagnostic):
            if stray and definitions and not isinstance(definitions[-1], t.Import | t.Train):
                parsed.broken.add(definitions.pop().name)  # type: ignore[union-attr]
                outcome = replace(outcome, help="indent it, if it belongs to the definition above")
            elif outcome.code == "E0106" and (below := STATEMENT.match(source.text, end)):
                word = Span(source, below.start(), below.end()).word(below.group().split("[")[0].split()[0])
                outcome = kinds.BLOCK_EXPECTED(Label(word), found=f"`{word.text}` at the margin")
            reporter.add(outcome)
            head = HEAD.search(source.text, start, end)
            if head is not None and not head.start(1) <= outcome.labels[0].span.start < head.end(1):
                parsed.broken.add(head[1])
            elif not stray:
                parsed.nameless = True
        else:
            definitions.extend(outcome)
        last = outcome
    if last is None:
        reporter.add(kinds.EMPTY(Label(Span(source, 0, 0))))
    parsed.module = t.Module(tuple(definitions), span=parsed.module.span)
    return parsed


def chunks(source: Source) -> Iterator[tuple[int, int]]:
    """Character ranges of the top-level definitions, each with the comment lines before it.

    A line at the margin begins one, unless it is a comment or closes a bracket of the one above.
    """
    starts: list[int] = []
    for number, start in enumerate(source.line_starts, start=1):
        line = source.line(number)
        if line.strip() and line[0] not in ")]#" and (line[0] not in " \t" or not starts):
            starts.append(start)
    if not starts:
        return
    starts[0] = 0
    yield from zip(starts, [*starts[1:], len(source.text)], strict=True)


def named_chunks(source: Source) -> Iterator[tuple[str, int, int]]:
    """The names of the definitions of a file with their character ranges, without parsing them."""
    for start, end in chunks(source):
        head = re.search(r"^(?:fn|layer|model|optimizer) +(\w+)", source.text[start:end], re.MULTILINE)
        if head is not None:
            yield head.group(1), start, end


def _comments(source: Source) -> Iterator[Comment]:
    for match in re.finditer(r'"[^"\n]*"|#[^\n]*', source.text):
        if match.group().startswith("#"):
            line_start = source.text.rfind("\n", 0, match.start()) + 1
            own_line = not source.text[line_start : match.start()].strip()
            yield Comment(Span(source, match.start(), match.end()), own_line)


def parse_definition(source: Source, start: int, end: int) -> list[t.Definition] | Diagnostic:
    def span_of(token: Token) -> Span:
        low = start + (token.start_pos or 0)
        high = start + (token.end_pos if token.end_pos is not None else (token.start_pos or 0))
        return Span(source, low, max(high, low))

    text = source.text[start:end]
    parser = _lark().parse_interactive(text)
    tokens: list[Token] = []
    try:
        for token in Layout(span_of).process(parser.lexer_thread.lex(parser.parser_state)):
            tokens.append(token)
        if not tokens:
            return []
        first = source.text[: span_of(tokens[0]).start].rpartition("\n")[2]
        if first:
            return kinds.UNEXPECTED_INDENT(Label(span_of(tokens[0])))
        for token in tokens:
            parser.feed_token(token)
        return build(parser.feed_eof(tokens[-1]), source, start)
    except LayoutError as error:
        return error.diagnostic
    except UnexpectedCharacters as error:
        return explain.unexpected_character(source, start + (error.pos_in_stream or 0))
    except UnexpectedToken as error:
        accepted = _accepted(text, tokens, error.token)
        return explain.unexpected_token(error.token, accepted, tokens, span_of, _symbols())
    except Refused as error:
        return error.diagnostic


@cache
def _symbols() -> dict[str, str]:
    """How the words and symbols of the grammar are spelt, by the names that lark gives them."""
    return {x.name: x.pattern.value for x in _lark().terminals if isinstance(x.pattern, PatternStr)}


def _accepted(text: str, tokens: list[Token], bad: Token) -> set[str]:
    """The token types that could have stood in place of `bad`. (The failed parser has already reduced past it.)"""
    parser = _lark().parse_interactive(text)
    for token in tokens:
        if token is bad:
            break
        parser.feed_token(token)
    return set(parser.accepts())

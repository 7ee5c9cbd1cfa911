"""From the lexer's tokens to the parser's: indentation becomes _INDENT and _DEDENT, and what would hurt later
stages (tabs, unbalanced brackets, deep nesting, names that generated code could not carry) is refused here.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Iterator

from lark import Token

from dslc.diagnostics import kinds
from dslc.diagnostics.report import Diagnostic, Label
from dslc.source import Span

MAX_BRACKETS = 60
MAX_INDENTS = 30
MAX_NAME = 80

#: What people write in place of some words of Python.
MEANT = {
    "None": "make an axis of size 1 on the left, as in `y[n, c: 1] = x[n]`; absent indices broadcast",
    "return": "a result gets its value from an equation: `y = ...`, where the first line has `-> y`",
    "def": "write `fn f(x) = x^2`, or with parameters `layer f(x: [..., I]) -> y:`",
    "class": "write `layer name(x: [..., I]) -> y:`",
    "lambda": "define a function: `fn f(x) = x^2`",
    "while": "repeat a number of times, with `for l in 0..8:`, or step by step with `scan t in 0..8:`",
    "assert": "a condition stands in the first line of a definition: `where N >= 2`",
    "is": "compare with `==`",
}

OPEN = {"LPAR": ")", "LSQB": "]"}
CLOSE = {"RPAR": ")", "RSQB": "]"}


class LayoutError(Exception):
    """A refusal by the layout stage; the parser turns it into its diagnostic."""

    def __init__(self, diagnostic: Diagnostic):
        self.diagnostic = diagnostic
        super().__init__(diagnostic.message)


class Layout:
    """Post-lexer for lark: `process` is given the token stream of one definition.

    Inside brackets newlines do not count. Blank and comment lines do not count anywhere.
    """

    always_accept = ("_NL",)

    def __init__(self, span_of: Callable[[Token], Span]):
        self.span_of = span_of

    def process(self, stream: Iterable[Token]) -> Iterator[Token]:
        brackets: list[Token] = []
        indents = [0]
        newline: Token | None = None  # the last of a run of newlines, not yet passed on
        last: Token | None = None
        for token in stream:
            if token.type == "_NL":
                if not brackets and last is not None:
                    newline = token
                continue
            if newline is not None and last is not None:
                yield from self._break(newline, last, indents)
                newline = None
            self._brackets(token, brackets)
            if token.type == "NAME":
                self._name(token)
            last = token
            yield token
        if brackets:
            raise LayoutError(kinds.BRACKET_NOT_CLOSED(Label(self.span_of(brackets[-1])), bracket=brackets[-1].value))
        if last is not None:
            yield from self._break(Token("_NL", "\n"), last, indents)

    def _break(self, newline: Token, last: Token, indents: list[int]) -> Iterator[Token]:
        """One _NL, then the change of indentation that the next line makes.

        The tokens made here are empty and stand where the last line ends, so that no statement's span takes in the
        comments below it.
        """

        def empty(type_: str) -> Token:
            return Token(type_, "", start_pos=last.end_pos, end_pos=last.end_pos)

        yield empty("_NL")
        space = newline.value.rsplit("\n", 1)[-1]
        if "\t" in space:
            span = self.span_of(newline)
            raise LayoutError(kinds.TAB(Label(Span(span.source, span.end - len(space), span.end))))
        depth = len(space)
        if depth > indents[-1]:
            indents.append(depth)
            if len(indents) > MAX_INDENTS:
                raise LayoutError(kinds.TOO_DEEP(Label(self._next(newline)), what="blocks", limit=MAX_INDENTS))
            yield empty("_INDENT")
        while depth < indents[-1]:
            indents.pop()
            yield empty("_DEDENT")
        if depth != indents[-1]:
            raise LayoutError(kinds.DEDENT(Label(self._next(newline)), found=depth, expected=indents[-1]))

    def _next(self, newline: Token) -> Span:
        span = self.span_of(newline)
        return Span(span.source, span.end, span.end + 1)

    def _brackets(self, token: Token, brackets: list[Token]) -> None:
        if token.type in OPEN:
            brackets.append(token)
            if len(brackets) > MAX_BRACKETS:
                raise LayoutError(kinds.TOO_DEEP(Label(self.span_of(token)), what="brackets", limit=MAX_BRACKETS))
        elif token.type in CLOSE:
            if not brackets:
                raise LayoutError(kinds.BRACKET_NOT_OPEN(Label(self.span_of(token)), bracket=token.value))
            opening = brackets.pop()
            if OPEN[opening.type] != CLOSE[token.type]:
                raise LayoutError(
                    kinds.BRACKET_MISMATCH(
                        Label(self.span_of(token)),
                        Label(self.span_of(opening), "opened here"),
                        expected=OPEN[opening.type],
                        found=token.value,
                    )
                )

    def _name(self, token: Token) -> None:
        name = str(token)
        if name.startswith("__") or keyword.iskeyword(name):
            what = "begins with two underscores" if name.startswith("__") else "is a keyword of Python"
            help = MEANT.get(name, "choose another name")
            raise LayoutError(kinds.PYTHON_NAME(Label(self.span_of(token)), name=name, what=what, help=help))
        if len(name) > MAX_NAME:
            raise LayoutError(kinds.NAME_TOO_LONG(Label(self.span_of(token)), length=len(name), limit=MAX_NAME))

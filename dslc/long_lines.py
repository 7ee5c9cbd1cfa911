"""Long lines of generated Python broken as a person would: inside brackets, the outermost first.

Lines are those that backends print: operators stand between blanks, and nothing but a comment follows a statement.
The broken lines say the same; brackets are added only around the whole of a formula.
"""

from __future__ import annotations

import re
import textwrap
from itertools import pairwise

#: a line of a module is no longer than this, where it can be broken
LONGEST_LINE = 112

#: operators by how loosely they bind; commas bind loosest of all
OPERATORS = (
    (" for ",), (" if ", " else "), (" or ",), (" and ",), (" == ", " != ", " < ", " <= ", " > ", " >= ", " in "),
    (" | ",), (" & ",), (" + ", " - "), (" * ", " / ", " @ ", " // ", " % "),
)  # fmt: skip
COMMA = -1
LEVELS = {word: level for level, words in enumerate(OPERATORS) for word in words} | {", ": COMMA}

#: texts in quotes, brackets, operators, comments
TOKEN = re.compile(
    r'[a-z]?"(?:[^"\\]|\\.)*"' + r"|[a-z]?'(?:[^'\\]|\\.)*'" + r"|[()\[\]{}]|, |:|  # .*"
    r"| (?:for|if|else|or|and|in|[=!<>]=|//|[-+*/@%<>&|]|(?:[-+*/@]|//)?=) "
)

#: what gives a formula a name
ASSIGNMENT = re.compile(r" (?:[-+*/@]|//)?= ")

#: what stands before brackets around a value: the name of an argument, a star, the key of an entry
KEYWORD = re.compile(r'\w+=(?!=)|\*{1,2}|"[^"\\]*": ')

#: an entry of a dictionary that is one text in quotes, without escapes
QUOTED = re.compile(r'((?:"[^"]*": )?)"([^"\\]*)"')

#: next to a longer one, an operand of so few characters stays on its line
SHORT = 16

#: lists of more items than this fill their lines
MANY = 5


def folded(line: str, width: int = LONGEST_LINE) -> list[str]:
    """A statement in lines that are not too long, where it can be broken.

    >>> print(*folded("    y = np.dot(first, second, out=place).reshape(2, 3)  # [2, 3]", 40), sep="\\n")
        y = np.dot(
            first, second, out=place
        ).reshape(2, 3)  # [2, 3]
    >>> print(*folded("y = first + second / third[:, None] - fourth[:, None]", 36), sep="\\n")
    y = (
        first
        + second / third[:, None]
        - fourth[:, None]
    )
    >>> print(*folded("y = load(place + offset, mask=first & second)", 23), sep="\\n")
    y = load(
        place + offset,
        mask=(
            first & second
        ),
    )
    """
    if len(line) <= width:
        return [line]
    text = line.lstrip()
    if text.startswith("# "):
        return _wrapped(text, width, line[: len(line) - len(text)], "#     ")
    code, comment = _without_comment(text)
    found = _Brackets(code)
    if not found.balanced:
        return [line]
    layout, indent = _Layout(width), len(line) - len(text)
    start = found.named_from or (len("return ") if code.startswith("return ") else 0)
    if start == 0:
        return layout.opened(indent, "", found, comment)
    names, rest = code[:start].removesuffix(" = "), code[start:]
    if len(names) > len(rest) and _Brackets(names).loosest == COMMA:
        return layout.formula(indent, "", names, f" = {rest}{comment}", inside=False)
    return layout.formula(indent, code[:start], code[start:], comment, inside=False)


def folded_text(text: str, width: int = LONGEST_LINE) -> str:
    """The same for all lines of a text.

    >>> folded_text("a\\nb", 112)
    'a\\nb'
    """
    return "\n".join(x for line in text.split("\n") for x in (folded(line, width) if len(line) > width else (line,)))


def _wrapped(text: str, width: int, indent: str = "", further: str = "") -> list[str]:
    """Text broken at blanks."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent + further,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _without_comment(text: str) -> tuple[str, str]:
    for token in TOKEN.finditer(text):
        if token[0].startswith("  # "):
            return text[: token.start()], token[0]
    return text, ""


class _Brackets:
    """A formula taken apart at its outermost level."""

    def __init__(self, text: str) -> None:
        self.text = text
        #: where brackets open and close
        self.pairs: list[tuple[int, int]] = []
        #: the operators between them, with their levels
        self.operators: list[tuple[int, re.Match[str]]] = []
        #: where the formula begins that a statement gives a name
        self.named_from = 0
        #: has it a colon? A slice is no formula: it cannot stand in brackets of its own
        self.is_slice = False
        depth = start = 0
        self.balanced = True
        for token in TOKEN.finditer(text):
            word = token[0]
            if word in "([{":
                start = start if depth else token.start()
                depth += 1
            elif word in ")]}":
                depth -= 1
                self.balanced = self.balanced and depth >= 0
                if depth == 0:
                    self.pairs.append((start, token.start()))
            elif depth == 0 and word in LEVELS:
                self.operators.append((LEVELS[word], token))
            elif depth == 0 and word == ":":
                self.is_slice = True
            elif depth == 0 and ASSIGNMENT.fullmatch(word):
                self.named_from = token.end()
        self.balanced = self.balanced and depth == 0
        self.loosest = min((level for level, _ in self.operators), default=len(OPERATORS))

    def parts(self) -> list[tuple[str, str]]:
        """The operands of the loosest operators, each with the operator before it, which is empty for the first."""
        cuts = [token for level, token in self.operators if level == self.loosest]
        starts = [(0, 0, ""), *((x.start(), x.end(), x[0].strip()) for x in cuts), (len(self.text), 0, "")]
        return [(word, self.text[a:b]) for (_, a, word), (b, _, _) in pairwise(starts)]

    def widest(self) -> tuple[int, int] | None:
        """The brackets with the longest text between them."""
        return max(self.pairs, key=lambda pair: pair[1] - pair[0], default=None)


class _Layout:
    """Lines for formulas, each between a text before it and one after it."""

    def __init__(self, width: int) -> None:
        self.width = width

    def formula(self, indent: int, head: str, text: str, tail: str, inside: bool) -> list[str]:
        """Inside of brackets a formula can be broken at its operators; else it gets brackets around it."""
        line = f"{' ' * indent}{head}{text}{tail}"
        if len(line) <= self.width:
            return [line]
        if head.endswith('": ') and QUOTED.fullmatch(text):
            return self.quoted(indent, head, text, tail)
        found = _Brackets(text)
        is_word = not found.operators and not found.pairs and not head.endswith("= ")
        if not inside and (found.is_slice or is_word):
            return [line]
        if not found.operators or self.has_one_long_operand(found):
            if inside or opens(found):
                return self.opened(indent, head, found, tail, inside)
            return self.enclosed(indent, head, found, tail)
        if not inside:
            return self.enclosed(indent, head, found, tail)
        return self.listed(indent, found) if found.loosest == COMMA else self.operands(indent, head, found, tail)

    def has_one_long_operand(self, found: _Brackets) -> bool:
        """Is a formula hardly more than what one pair of brackets holds?"""
        pair = found.widest()
        return found.loosest != COMMA and pair is not None and len(found.text) - (pair[1] - pair[0]) <= SHORT

    def enclosed(self, indent: int, head: str, found: _Brackets, tail: str) -> list[str]:
        """A formula in brackets of its own."""
        inner = self.formula(indent + 4, "", found.text, "", inside=True)
        return [f"{' ' * indent}{head}(", *inner, f"{' ' * indent}){tail}"]

    def listed(self, indent: int, found: _Brackets) -> list[str]:
        """Items between commas, one on each line; many items fill their lines."""
        lines: list[str] = []
        items = [text.removesuffix(",") for _, text in found.parts()]
        for item in items:
            if len(items) > MANY and lines and len(lines[-1]) + len(item) + 2 <= self.width:
                lines[-1] += f" {item},"
            else:
                name = KEYWORD.match(item)
                head = name[0] if name else ""
                lines += self.formula(indent, head, item[len(head) :], ",", inside=False)
        return lines

    def operands(self, indent: int, head: str, found: _Brackets, tail: str) -> list[str]:
        """A line for each operand, with the operator in front of it."""
        parts = found.parts()
        lines = self.operand(indent, head, parts[0][1], "")
        for k, (word, text) in enumerate(parts[1:], 2):
            lines += self.operand(indent, f"{word} ", text, tail if k == len(parts) else "")
        return lines

    def operand(self, indent: int, head: str, text: str, tail: str) -> list[str]:
        """An operand that is too long is broken inside of its brackets, or else further in."""
        lines = self.formula(indent, head, text, tail, inside=True)
        if len(lines) == 1 or lines[-1].lstrip().startswith((")", "]")):
            return lines
        first, *rest = _Layout(self.width - 4).formula(indent, head, text, tail, inside=True)
        return [first, *(f"    {line}" for line in rest)]

    def opened(self, indent: int, head: str, found: _Brackets, tail: str, inside: bool = False) -> list[str]:
        """What stands between the widest brackets gets lines of its own."""
        pair, text = found.widest(), found.text
        if pair is None or pair[1] - pair[0] < 2:
            return self.quoted(indent, head, text, tail)
        before, inner, after = text[: pair[0] + 1], text[pair[0] + 1 : pair[1]], text[pair[1] :]
        content = _Brackets(inner)
        if not content.operators and content.pairs and indent + 4 + len(inner) > self.width:
            # brackets in brackets open together
            return self.formula(indent, head + before, inner, after + tail, inside=True)
        lines = [f"{' ' * indent}{head}{before}"]
        if indent + 4 + len(inner) <= self.width:
            lines.append(f"{' ' * (indent + 4)}{inner}")
        else:
            lines += self.formula(indent + 4, "", inner, "", inside=True)
        rest = _Brackets(after[1:])
        if inside or (opens(rest) and not rest.operators):  # else a statement would end in the middle
            return [*lines, *self.formula(indent, after[0], after[1:], tail, inside)]
        return [*lines, f"{' ' * indent}{after}{tail}"]

    def quoted(self, indent: int, head: str, text: str, tail: str) -> list[str]:
        """A long text in quotes as several, which Python puts together."""
        found = QUOTED.fullmatch(text.removesuffix(","))
        line = f"{' ' * indent}{head}{text}{tail}"
        if found is None or " " not in found[2] or not f"{head}{found[1]}".endswith('": '):
            return [line]
        words = _wrapped(found[2], self.width - indent - 7)
        inner = [f'{" " * (indent + 4)}"{x} "' for x in words[:-1]] + [f'{" " * (indent + 4)}"{words[-1]}"']
        ending = "," if text.endswith(",") else ""
        return [f"{' ' * indent}{head}{found[1]}(", *inner, f"{' ' * indent}){ending}{tail}"]


def opens(found: _Brackets) -> bool:
    """Has a formula brackets that are better opened than put into others? What looks up one entry has not."""
    pair = found.widest()
    if pair is None or pair[1] - pair[0] < 2:
        return False
    return found.text[pair[0]] != "[" or bool(_Brackets(found.text[pair[0] + 1 : pair[1]]).operators)

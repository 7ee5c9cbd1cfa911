"""Why a text does not parse, in words: expected and found, never a grammar terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping

from lark import Token

from dslc.diagnostics import kinds
from dslc.diagnostics.report import Diagnostic, Fix, Label
from dslc.source import Source, Span

#: What a person may have meant by a character that no token of dslc begins with.
FOREIGN = {
    "**": "^", "&&": "and", "||": "or", "&": "and", "|": "or", "!": "not", "@": "einsum(...)", ";": "a new line",
    ":=": "=", "->": "|>", "'": '"', "{": "(", "}": ")", "?": "... if ... else ...",
}  # fmt: skip
#: What to write where one operator is not simply another one.
FOREIGN_HELP = {
    "@": "an index that is absent on the left is summed: `y[n, o] = x[n, k] * W[k, o]`",
    "|": "write `or`; an absolute value is `abs(x)`",
}

#: Letters that look like ASCII ones, beyond what Unicode normalisation folds.
LOOK_ALIKE = dict(zip("аеорсухіѕјԁɡһΑΒΕΖΗΙΚΜΝΟΡΤΥΧονρ−–—×·÷", "aeopcyxisjdghABEZHIKMNOPTYXovp---**/", strict=True))

#: Statement words that open a block, so that a missing colon can be named.
OPENERS = {
    "LAYER", "MODEL", "FN", "OPTIMIZER", "TRAIN", "FOR", "SCAN", "IF", "ELIF", "ELSE", "TRAINING", "INFERENCE",
    "CHECKPOINT", "BACKWARD",
}  # fmt: skip

SYMBOLS = {
    "LPAR": "`(`", "RPAR": "`)`", "LSQB": "`[`", "RSQB": "`]`", "COMMA": "`,`", "COLON": "`:`", "EQUAL": "`=`",
    "DOT": "`.`", "TILDE": "`~`", "_NL": "the end of the line", "$END": "the end of the definition",
    "_INDENT": "an indented block", "_DEDENT": "the end of the block", "STRING": "a string", "INT": "a number",
    "FLOAT": "a number",
}  # fmt: skip

#: Sets of tokens that stand together for one thing a reader knows.
EXPRESSION = {"NAME", "INT", "FLOAT", "LPAR", "MINUS", "TRUE", "FALSE"}
OPERATORS = {"PLUS", "MINUS", "TIMES", "DIVIDE", "FLOORDIV", "MODULO"}

#: Words and symbols that go on with an expression, as operators do.
CONTINUES = {
    "+", "-", "*", "/", "//", "%", "^", "<", "<=", ">", ">=", "==", "!=", "|>", "or", "and", "if", "else",
    ".", "(", "[",
}  # fmt: skip


def character(c: str) -> str:
    """`'а' (U+0430 CYRILLIC SMALL LETTER A)`"""
    name = unicodedata.name(c, "")
    code = f"U+{ord(c):04X}" + (f" {name}" if name else "")
    return f"`{c}` ({code})" if c.isprintable() else code


def greek(c: str) -> str | None:
    """The name of a Greek letter, as one writes it in a spec.

    >>> greek("α"), greek("Σ"), greek("λ"), greek("a")
    ('alpha', 'Sigma', 'lam', None)
    """
    found = re.match(r"GREEK (SMALL|CAPITAL) LETTER (?:FINAL )?(\w+)|GREEK (\w+) SYMBOL$", unicodedata.name(c, ""))
    if found is None:
        return None
    name = (found[2] or found[3]).lower()
    name = "lam" if name == "lamda" else name  # `lambda` is a word of Python
    return name.capitalize() if found[1] == "CAPITAL" else name


def unexpected_character(source: Source, offset: int) -> Diagnostic:
    """No token begins here."""
    text = source.text
    c = text[offset]
    here = Span(source, offset, offset + 1)
    if c == "\t":
        return kinds.TAB(Label(here))
    if c == '"':
        end = text.find("\n", offset)
        return kinds.STRING_NOT_CLOSED(Label(Span(source, offset, len(text) if end < 0 else end)))
    for length in (2, 1):
        found = text[offset : offset + length]
        if found in FOREIGN:
            span = Span(source, offset, offset + length)
            help = FOREIGN_HELP.get(found)
            return kinds.FOREIGN_OPERATOR(Label(span), found=found, instead=FOREIGN[found], help=help)
    plain = unicodedata.normalize("NFKC", c)
    name = greek(plain) if len(plain) == 1 else None
    if name is not None:
        alike = LOOK_ALIKE.get(c) if c.isupper() else None
        help = f"write `{alike}`, which looks alike, or `{name}`" if alike else f"spell the letter out: `{name}`"
        return kinds.STRANGE_CHARACTER(Label(here), character=character(c), help=help)
    folded = LOOK_ALIKE.get(c) or plain
    if not c.isascii() and folded.isascii() and folded.strip():
        return kinds.STRANGE_CHARACTER(
            Label(here), character=character(c), help=f"write `{folded}`, which looks alike", fix=Fix(here, folded)
        )
    letters = "names are made of the letters a-z, A-Z, digits and underscores" if c.isalpha() else None
    return kinds.STRANGE_CHARACTER(Label(here), character=character(c), help=letters)


def unexpected_token(
    token: Token, accepted: set[str], tokens: list[Token], span_of: Callable[[Token], Span], symbols: Mapping[str, str]
) -> Diagnostic:
    """The parser met a token that cannot stand here, where one of the `accepted` types could.

    `symbols` tells how the token types are spelt that stand for one word or symbol.
    """
    position = next((i for i, other in enumerate(tokens) if other is token), len(tokens))
    before = tokens[position - 1] if position else None
    after = tokens[position + 1] if position + 1 < len(tokens) else None
    span = span_of(token)
    if token.type in ("_NL", "$END") and before is not None:
        end = span_of(before).end
        span = Span(span.source, end, end + 1)
    here = Label(span)
    found = describe(token)

    special = _foreign(token, before, after, span_of)
    if special is not None:
        return special
    if token.type == "_INDENT" and "_INDENT" not in accepted:
        help = None
        if after is not None and str(after) in CONTINUES:
            help = "put the whole expression in parentheses: inside them it may go on in the next line"
        return kinds.UNEXPECTED_INDENT(Label(_first_of_line(token, tokens, position, span_of)), help=help)
    if accepted == {"_INDENT"}:
        return kinds.BLOCK_EXPECTED(Label(span_of(token) if token.type != "$END" else span), found=found)
    if "COLON" in accepted and token.type == "_NL" and _opens_block(tokens, position):
        return kinds.COLON_EXPECTED(here, found=found, fix=Fix(Span(span.source, span.start, span.start), ":"))
    expected = _expected(accepted, symbols)
    if _is_word(token):
        if "NAME" in accepted:
            help = "write `a if condition else b`" if token.value == "where" and str(after) == "(" else None
            return kinds.RESERVED_WORD(here, expected=expected, word=token.value, help=help)
    first = next((i for i in range(position, 0, -1) if tokens[i - 1].type in ("_NL", "_INDENT", "_DEDENT")), 0)
    if token.type == "COMMA" and str(tokens[first]) == "start":
        help = "write one `start` for each value, on lines of their own"
        return kinds.SYNTAX(here, expected=expected, found=found, help=help)
    if str(token) == "<=" and "LESSTHAN" in accepted and after is not None:
        help = f"a bound of data is the first number that is too large: write `< {after} + 1`"
        return kinds.SYNTAX(here, expected=expected, found=found, help=help)
    if str(token) == "else" and before is not None and str(before) == "]":
        read = _read_before(tokens, position, span_of)
        help = f"a read with an `else` stands in parentheses of its own, in a call too: `({read} else ...)`"
        return kinds.SYNTAX(here, expected=expected, found=found, help=help)
    if str(tokens[first]) in ("for", "scan"):
        help = _range(token, [str(x) for x in tokens[first:position]])
        if help is not None:
            return kinds.SYNTAX(here, expected=expected, found=found, help=help)
    return kinds.SYNTAX(here, expected=expected, found=found, help=_advice(token, before, accepted))


def _read_before(tokens: list[Token], position: int, span_of: Callable[[Token], Span]) -> str:
    """The text of the read `x[n, t-1]` that ends before a token."""
    start, depth = position - 1, 1
    while start > 0 and depth:
        start -= 1
        depth += {"]": 1, "[": -1}.get(str(tokens[start]), 0)
    if start == 0 or tokens[start - 1].type != "NAME":
        return "x[n]"
    return " ".join(span_of(tokens[start - 1]).to(span_of(tokens[position - 1])).text.split())


def _range(token: Token, line: list[str]) -> str | None:
    """How the range of a loop is written: `for l in range(4):`, `for l in 4:` and `scan t: 4` begin at `line`."""
    word, name, *rest = [*line, "", ""][: max(len(line), 2)]
    if rest == [":"] and token.type in ("NAME", "INT"):
        return f"write `{word} {name} in 0..{token}:` for a range of its own"
    if str(token) != ":" or rest[:1] != ["in"]:
        return None
    numbers = "".join(rest[3:-1] if rest[1:3] == ["range", "("] and rest[-1] == ")" else rest[1:]).split(",")
    if not 1 <= len(numbers) <= 2 or not all(numbers):
        return None
    low, high = numbers if len(numbers) == 2 else ["0", *numbers]
    return f"write `{word} {name} in {low}..{high}:`; the end is left out"


def _is_word(token: Token) -> bool:
    return token.type not in ("NAME",) and str(token).isalpha()


def describe(token: Token) -> str:
    if token.type in ("_NL", "$END", "_INDENT", "_DEDENT"):
        return SYMBOLS[token.type]
    if token.type == "STRING":
        return f"the string {token}"
    return f"the word `{token}`" if _is_word(token) else f"`{token}`"


def _first_of_line(token: Token, tokens: list[Token], position: int, span_of: Callable[[Token], Span]) -> Span:
    following = [t for t in tokens[position:] if not t.type.startswith("_")]
    return span_of(following[0]) if following else span_of(token)


def _opens_block(tokens: list[Token], position: int) -> bool:
    start = position
    while start > 0 and tokens[start - 1].type not in ("_NL", "_INDENT", "_DEDENT"):
        start -= 1
    return tokens[start].type in OPENERS if start < len(tokens) else False


def _foreign(
    token: Token, before: Token | None, after: Token | None, span_of: Callable[[Token], Span]
) -> Diagnostic | None:
    """Spellings of other languages that happen to be made of our tokens."""
    if before is not None and token.type == "TIMES" and before.type == "TIMES":
        span = span_of(before).to(span_of(token))
        return kinds.FOREIGN_OPERATOR(Label(span), found="**", instead="^", fix=Fix(span, "^"))
    if token.type == "DOT" and after is not None and after.type == "INT" and (before is None or before.type != "NAME"):
        span = span_of(token).to(span_of(after))
        return kinds.NUMBER_FORM(Label(span), found=f".{after}", instead=f"0.{after}", fix=Fix(span, f"0.{after}"))
    if before is not None and token.type == "DOT" and before.type == "INT":
        span = span_of(before).to(span_of(token))
        return kinds.NUMBER_FORM(Label(span), found=f"{before}.", instead=f"{before}.0", fix=Fix(span, f"{before}.0"))
    return None


def _expected(accepted: set[str], symbols: Mapping[str, str]) -> str:
    """A phrase for a set of tokens, most telling first."""
    phrases: list[str] = []
    rest = set(accepted)
    if {"PARAM", "FOR", "SCAN"} <= rest:
        phrases.append("a statement")
        rest = set()
    elif {"LAYER", "MODEL", "TRAIN"} <= rest:
        return "`fn`, `layer`, `model`, `optimizer`, `train` or `import`"
    elif rest >= EXPRESSION:
        phrases.append("an expression")
        rest -= EXPRESSION | {"PARAM", "STRING", "NOT"}
    elif rest >= OPERATORS and "ELSE" in rest and "RPAR" not in rest:
        return "`else` and the other value"  # a select that has only one
    elif rest >= OPERATORS:
        phrases.append("an operator")
        rest = {name for name in rest if symbols.get(name) not in CONTINUES}
    if "NAME" in rest:
        phrases.append("a name")
        rest -= {"NAME", "PARAM"}
    words = [SYMBOLS.get(name) or (f"`{symbols[name]}`" if name in symbols else "") for name in sorted(rest)]
    phrases = list(dict.fromkeys([*phrases, *sorted(filter(None, words))])) or ["something else"]
    if len(phrases) == 1:
        return phrases[0]
    return ", ".join(phrases[:-1]) + " or " + phrases[-1]


def _advice(token: Token, before: Token | None, accepted: set[str]) -> str | None:
    if token.type == "EQUAL" and before is not None and "EQUAL" not in accepted:
        return "`=` defines a value at the start of a statement; write `==` to compare"
    if token.type == "RPAR" and before is not None and before.type == "COMMA":
        return "delete the comma, or write another argument"
    if token.type == "LSQB" and "LPAR" in accepted:
        join = "values are joined by `y[i] = concat[i](a[i], b[i])`, axes by `y[n, (h w)] = x[n, h, w]`"
        return f"there are no lists; {join}"
    return None

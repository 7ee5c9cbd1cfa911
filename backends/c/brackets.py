"""Expressions of C without the brackets that they do not need: what they compute stays as it is."""

from __future__ import annotations

import re
from dataclasses import dataclass

TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[uUlLfF]*)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>->|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>!~&|^?:,.()\[\]]))"
)
#: how strongly an operator of two operands binds
STRENGTH = {
    "?": 0, "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7, "<<": 8,
    ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
UNARY, PRIMARY = 11, 12
#: within these, and these within others, brackets stay: few know by heart what binds more
RARE = frozenset({"|", "^", "&", "<<", ">>", "%"})
TESTS = frozenset({"==", "!=", "<", ">", "<=", ">="})
TYPES = frozenset({"float", "double", "long", "int", "char", "size_t", "int8_t", "int16_t", "int32_t", "int64_t",
                   "uint8_t", "uint16_t", "uint32_t", "uint64_t", "f16_bits"})  # fmt: skip


@dataclass(frozen=True)
class Tree:
    """An operator, or `` for a primary, `(type)` for a cast, `[` for an element, `(` for a call, and its operands."""

    kind: str
    parts: tuple[Tree, ...] = ()
    #: a name or a number
    word: str = ""


class Unknown(ValueError):
    """Something that is not read here."""


def plain(text: str) -> str:
    """The expression with as few brackets as its reader needs.

    >>> plain("((a + b) + (c * d))"), plain("(a - (b - c))"), plain("f(((-x) / 2.0f))")
    ('a + b + c * d', 'a - (b - c)', 'f(-x / 2.0f)')
    >>> plain("((a == b) ? (x[((i) + 1)]) : 0)"), plain("(float)(a + (b))"), plain("((p && q) || r)")
    ('a == b ? x[i + 1] : 0', '(float)(a + b)', '(p && q) || r')

    Text of another form is left as it is.

    >>> plain("(vector){0}")
    '(vector){0}'
    """
    if "(" not in text:
        return text
    try:
        tree = Reader(text).whole()
        shown = show(tree)
        return shown if Reader(shown).whole() == tree else text
    except Unknown:
        return text


class Reader:
    """Reads one expression."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            found = TOKEN.match(text, at)
            if found is None:
                raise Unknown(text[at:])
            self.tokens.append(found[0].strip())
            at = found.end()
        self.tokens.append("")
        self.at = 0

    def whole(self) -> Tree:
        tree = self.choice()
        self.take("")
        return tree

    def take(self, wanted: str) -> None:
        if self.tokens[self.at] != wanted:
            raise Unknown(self.tokens[self.at])
        self.at += 1

    def found(self, wanted: str) -> bool:
        if self.tokens[self.at] != wanted:
            return False
        self.at += 1
        return True

    def choice(self) -> Tree:
        test = self.binary(1)
        if not self.found("?"):
            return test
        first = self.choice()
        self.take(":")
        return Tree("?", (test, first, self.choice()))

    def binary(self, least: int) -> Tree:
        left = self.unary()
        while STRENGTH.get(self.tokens[self.at], 0) >= least:
            sign = self.tokens[self.at]
            self.at += 1
            left = Tree(sign, (left, self.binary(STRENGTH[sign] + 1)))
        return left

    def unary(self) -> Tree:
        for sign in "-!~*&":
            if self.found(sign):
                return Tree(f"{sign}_", (self.unary(),))
        if self.tokens[self.at] == "(" and (cast := self.cast()):
            return Tree(cast, (self.unary(),))
        return self.postfix()

    def cast(self) -> str:
        """`(const float *)`, if that is what stands here."""
        end = self.at + 1
        while self.tokens[end] in TYPES or self.tokens[end] in ("const", "*"):
            end += 1
        words = self.tokens[self.at + 1 : end]
        if self.tokens[end] != ")" or not any(word in TYPES for word in words):
            return ""
        self.at = end + 1
        return f"({' '.join(words).replace('* *', '**')})"

    def postfix(self) -> Tree:
        token = self.tokens[self.at]
        self.at += 1
        if token == "(":
            tree = self.choice()
            self.take(")")
        elif token and (token[0].isalnum() or token[0] in "_."):
            tree = Tree("", (), token)
        else:
            raise Unknown(token)
        while True:
            if self.found("["):
                tree = Tree("[", (tree, self.choice()))
                self.take("]")
            elif self.found("("):
                parts = [tree]
                while not self.found(")"):
                    parts.append(self.choice())
                    if self.tokens[self.at] != ")":
                        self.take(",")
                tree = Tree("(", tuple(parts))
            elif self.tokens[self.at] in ("->", "."):
                sign, word = self.tokens[self.at : self.at + 2]
                self.at += 2
                tree = Tree(sign, (tree,), word)
            else:
                return tree


def strength(tree: Tree) -> int:
    if tree.kind in STRENGTH and tree.kind != "(":
        return STRENGTH[tree.kind]
    return UNARY if tree.kind.endswith(("_", ")")) else PRIMARY


def show(tree: Tree) -> str:
    """The text of an expression; recursion is as deep as the brackets of its text."""
    parts = tree.parts
    if not parts:
        return tree.word
    match tree.kind:
        case "[":
            return f"{within(parts[0], PRIMARY)}[{show(parts[1])}]"
        case "(":
            return f"{within(parts[0], PRIMARY)}({', '.join(map(show, parts[1:]))})"
        case "->" | ".":
            return f"{within(parts[0], PRIMARY)}{tree.kind}{tree.word}"
        case "?":
            return f"{within(parts[0], 1)} ? {within(parts[1], 1)} : {show(parts[2])}"
    if tree.kind.endswith("_"):
        return f"{tree.kind[0]}{within(parts[0], PRIMARY)}"
    if tree.kind.endswith(")"):
        return f"{tree.kind}{within(parts[0], PRIMARY if parts[0].kind.endswith('_') else UNARY)}"
    left, right = parts
    own = STRENGTH[tree.kind]
    return f"{operand(tree.kind, left, own)} {tree.kind} {operand(tree.kind, right, own + 1)}"


def operand(sign: str, tree: Tree, least: int) -> str:
    """An operand of an operator: in brackets where they help to read."""
    kind = tree.kind
    mixed = kind in STRENGTH and (
        (sign in RARE or (kind in RARE and sign not in TESTS))
        or (sign == "||" and kind == "&&")
        or (sign in TESTS and kind in TESTS)
    )
    # two signs in a row
    signs = kind == "-_" and least > STRENGTH[sign]
    return f"({show(tree)})" if mixed or signs else within(tree, least)


def within(tree: Tree, least: int) -> str:
    """The text, in brackets if it binds less than it must."""
    return show(tree) if strength(tree) >= least else f"({show(tree)})"

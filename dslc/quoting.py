"""Texts that a user wrote, as they stand in generated Python: in quotes, in docstrings, in comments.

Names of files are untrusted: nothing in them may end the text that holds them.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """`text` as one line that is safe on a terminal and in a comment: specs and file names are untrusted.

    >>> printable("a\\tb\\x1b[31m")
    'a b\ufffd[31m'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c in "\t\n" else "\ufffd" for c in text)


def quoted(text: str) -> str:
    r"""`repr` in double quotes, without control characters.

    >>> print(quoted("it's"), quoted('a"b'), quoted("c\\"), quoted("d\ne"))
    "it's" "a\"b" "c\\" "d e"
    """
    inner = repr('"' + printable(text))[2:-1]  # the quote in front makes repr choose the other kind
    return '"' + inner.replace("\\'", "'").replace('"', '\\"') + '"'


def docstring(text: str) -> str:
    r"""A text of one line as a docstring.

    >>> print(docstring('from a"b: one line.'))
    \"\"\"from a\"b: one line.\"\"\"
    """
    return f'""{quoted(text)}""'


def literal(value: object) -> str:
    """Texts, numbers, lists and dictionaries of them as Python.

    >>> print(literal({"blocks": {"N": 64}, "lines": ["it's:1"]}))
    {"blocks": {"N": 64}, "lines": ["it's:1"]}
    """
    match value:
        case str():
            return quoted(value)
        case dict():
            return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(literal, value)) + "]"
        case None | bool() | int() | float():
            return repr(value)
    raise TypeError(f"a {type(value).__name__} cannot stand in a module")

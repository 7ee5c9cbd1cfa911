"""Definitions in C that generated files may need: a file holds the texts of those that it uses, and no others.

The C files here are lists of definitions (functions, tables, types, macros) with blank lines between them and nowhere
else; each begins with a comment that says what it is. A definition may use those above it and those of files that stand
before its own in `FILES`. A definition for numbers of both sizes says `real` for float and double, `whole` for int32_t
and int64_t, and has names that end in `_real`: `gemm_real` gives gemm_f32 and gemm_f64. A generated file includes
stdint.h, stddef.h, string.h and math.h above them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

#: in the order in which their definitions can use each other
FILES = (
    "elementary.c",
    "halves.c",
    "parallel.c",
    "products.c",
    "reductions.c",
    "ordering.c",
    "fourier.c",
    "matrices.c",
    "support.c",
    "checks.c",
    "clock.c",
)

_WORD = re.compile(r"[A-Za-z_]\w*")


def code_of(text: str) -> str:
    """C without its comments.

    >>> code_of("x = y;  // the start")
    'x = y;  '
    """
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def defined(text: str) -> list[str]:
    """The names that a piece of C defines for those below it.

    >>> defined("typedef struct { int n; } team;"), defined("static inline float twice_f32(float x) { return x + x; }")
    (['team'], ['twice_f32'])
    """
    code = re.sub(r"__attribute__\s*\(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\)", "", code_of(text))
    found = re.findall(r"^\s*#\s*define\s+(\w+)", code, re.MULTILINE)
    code = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*$", "", code, flags=re.MULTILINE)
    for body in re.findall(r"^(?:typedef )?enum\b[^{;]*\{([^}]*)\}", code, re.MULTILINE):
        found += re.findall(r"(?:^|,)\s*(\w+)", body)
    found += re.findall(r"^(?:struct|union|enum)\s+(\w+)\s*\{", code, re.MULTILINE)
    while (flat := re.sub(r"\{[^{}]*\}", ";", code)) != code:
        code = flat
    for statement in re.split(r";", re.sub(r"\b(struct|union|enum)(\s+\w+)?\s*;", r"\1 ", code)):
        pointer = re.match(r"[^(]*\(\s*\*\s*(\w+)", statement)
        named = pointer or re.search(r"(\w+)\s*(?:$|[(\[=])", statement.strip())
        if named and named[1] not in ("struct", "union", "enum"):
            found.append(named[1])
    return found


def instances(text: str) -> list[str]:
    """A definition as it stands, or if it is one for numbers of both sizes, that for float and that for double.

    >>> instances("real twice_real(real x) { return x + x; }")
    ['float twice_f32(float x) { return x + x; }', 'double twice_f64(double x) { return x + x; }']
    """
    if not re.search(r"(?:\b|_)real\b", code_of(text)):
        return [text]
    kinds = {"f32": ("float", "int32_t"), "f64": ("double", "int64_t")}
    return [
        re.sub(r"\bwhole\b", whole, re.sub(r"\breal\b", real, re.sub(r"_real\b", "_" + kind, text)))
        for kind, (real, whole) in kinds.items()
    ]


def _definitions() -> dict[str, str]:
    found: dict[str, str] = {}
    for file in FILES:
        text = (Path(__file__).parent / file).read_text(encoding="utf-8")
        for piece in re.split(r"\n{2,}", text.strip()):
            for instance in instances(piece):
                for name in defined(instance):
                    found.setdefault(name, instance)
    return found


#: what each name stands for, in the order of the files; names that are defined together have one text
FUNCTIONS: dict[str, str] = _definitions()


def used(code: str) -> set[str]:
    """The names in a piece of C that are defined here."""
    return set(_WORD.findall(code_of(code))) & FUNCTIONS.keys()


def closure(names: Iterable[str]) -> list[str]:
    """The definitions of names and of all that they use, each once, in an order that C accepts."""
    needed, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += used(FUNCTIONS[name])
    return list(dict.fromkeys(text for name, text in FUNCTIONS.items() if name in needed))


def together(definitions: Iterable[str]) -> list[str]:
    """Definitions with those under one condition that follow one another under one `#if`.

    >>> print(*together(["// one\\n#ifdef A\\nint a;\\n#endif", "// two\\n#ifdef A\\nint b;\\n#endif"]), sep="")
    #ifdef A
    <BLANKLINE>
    // one
    int a;
    <BLANKLINE>
    // two
    int b;
    <BLANKLINE>
    #endif
    """
    found: list[tuple[str, list[str]]] = []
    for text in definitions:
        condition, inside = parted(text)
        if condition and found and found[-1][0] == condition:
            found[-1][1].append(inside)
        else:
            found.append((condition, [inside]))
    return ["\n\n".join([condition, *texts, "#endif"]) if condition else texts[0] for condition, texts in found]


def parted(text: str) -> tuple[str, str]:
    """The condition that all of a definition is under, and the rest of it; else nothing, and all of it."""
    lines = text.split("\n")
    start = next((k for k, line in enumerate(lines) if not line.startswith("//")), 0)
    depth = 0
    for line in lines[start:-1]:
        depth += line.lstrip().startswith("#if") - line.lstrip().startswith("#endif")
        if depth < 1 or (depth == 1 and line.startswith(("#else", "#elif"))):
            return "", text
    if lines[-1] != "#endif":
        return "", text
    return lines[start], "\n".join([*lines[:start], *lines[start + 1 : -1]])

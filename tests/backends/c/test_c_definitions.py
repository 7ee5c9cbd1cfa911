"""The definitions in C that generated files take from: what each file of them must be like."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from dslc.backends.c.runtime import FILES, FUNCTIONS, closure, code_of, defined, used

FOLDER = Path(__file__).parents[3] / "backends" / "c" / "runtime"


def pieces(file: str) -> list[str]:
    return re.split(r"\n{2,}", (FOLDER / file).read_text(encoding="utf-8").strip())


def test_every_file_with_definitions_is_listed() -> None:
    assert sorted(FILES) == sorted(p.name for p in FOLDER.glob("*.c"))


@pytest.mark.parametrize("file", FILES)
def test_pieces_say_what_they_are_and_are_whole(file: str) -> None:
    heading, *others = pieces(file)
    assert not code_of(heading).strip(), "a file begins with a comment about all of it"
    for piece in others:
        assert piece.startswith("//"), piece
        assert piece.count("{") == piece.count("}") and len(re.findall(r"^#\s*(?:if|ifdef|ifndef)\b", piece, re.M)) == (
            len(re.findall(r"^#\s*endif", piece, re.M))
        ), piece
        assert defined(piece), piece


def test_no_two_pieces_define_one_name() -> None:
    names = [name for file in FILES for piece in pieces(file) for name in dict.fromkeys(defined(piece))]
    assert len(names) == len(set(names))


def test_definitions_use_those_above_them() -> None:
    known: set[str] = set()
    for name, text in FUNCTIONS.items():
        known |= {name, *defined(text)}
        assert used(text) <= known, name


def test_a_closure_has_what_a_function_calls_and_no_more() -> None:
    texts = closure(["exp_f32"])
    assert texts[-1] == FUNCTIONS["exp_f32"] and FUNCTIONS["bits_f32"] in texts
    assert closure(["bits_f32"]) == [FUNCTIONS["INLINE"], FUNCTIONS["bits_f32"]]


@pytest.mark.parametrize(("text", "names"), [
    ("typedef float vf __attribute__((vector_size(64)));", ["vf"]),
    ("typedef vf Epilogue(vf s, int n);", ["Epilogue"]),
    ("enum { V = 16, MR = 8 };", ["V", "MR"]),
    ("struct pool { int n; struct { int m; } part; };", ["pool"]),
    ("typedef real at __attribute__((vector_size(V), aligned(sizeof(real)), may_alias));", ["at"]),
    ("static void f(void (*g)(int), int n) {\n    enum { M = 4 };\n    g(n * M);\n}", ["f"]),
    ("static struct { int n; } T\n    = {.n = 1};", ["T"]),
    ("static const double T[3] = {\n    1, 2, 3,\n};", ["T"]),
    ("#define A(x) \\\n    b(x)\n#if X\n#define C 1\n#endif", ["A", "C"]),
    ("// f(x), and g\nINLINE float *f(float *x) {\n    if (g(x)) { return x; }\n    return 0;\n}", ["f"]),
])  # fmt: skip
def test_names_of_definitions(text: str, names: list[str]) -> None:
    assert defined(text) == names

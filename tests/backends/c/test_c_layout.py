"""Expressions of C lose brackets and long lines are broken, and neither changes what they mean."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest
from cases import SPECS, Case
from compiled import compiler
from dslc.backends.c.brackets import plain
from dslc.backends.c.text import broken

from dslc.compiler import compile_files

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("((a + b) + (c * d))", "a + b + c * d"),
        ("(a - (b - c))", "a - (b - c)"),
        ("(a * (b / c))", "a * (b / c)"),
        ("f(((-x) / 2.0f), ((y)))", "f(-x / 2.0f, y)"),
        ("((a == 0.0f) ? 1.0f : (b - 1e-05f))", "a == 0.0f ? 1.0f : b - 1e-05f"),
        ("((p ? a : b) + 1)", "(p ? a : b) + 1"),
        ("(p ? (q ? a : b) : (r ? c : d))", "p ? (q ? a : b) : r ? c : d"),
        ("(float)((a + (b)))", "(float)(a + b)"),
        ("((float)(a)) * b", "(float)a * b"),
        ("x[((i) * (N + 1)) + (j)]", "x[i * (N + 1) + j]"),
        ("(a - (-b))", "a - (-b)"),
        ("(-(-a))", "-(-a)"),
        ("((p && q) || r)", "(p && q) || r"),
        ("((a < b) == (c < d))", "(a < b) == (c < d)"),
        ("((i % 2) * 3)", "(i % 2) * 3"),
        ("((i % 2) == 0)", "i % 2 == 0"),
        ("(((double *)(row))[k])", "((double *)row)[k]"),
        ("(f->a->x)[(i)]", "f->a->x[i]"),
    ],
)
def test_brackets_stay_where_they_mean_something(written: str, shown: str) -> None:
    assert plain(written) == shown


@pytest.mark.parametrize("text", ["(vector){0}", "(a = b)", "(a", "((x)) y", "(*p++)"])
def test_other_text_is_left_as_it_is(text: str) -> None:
    assert plain(text) == text


def test_random_expressions_keep_their_values() -> None:
    """Python reads these operators as C does."""
    rng = random.Random(0)

    def written(depth: int) -> str:
        if depth == 0 or rng.random() < 0.1:
            return rng.choice(["2", "3", "5", "(7)"])
        if rng.random() < 0.2:
            return f"(-{written(depth - 1)})"
        return f"({written(depth - 1)} {rng.choice(['+', '-', '*', '/', '%', '^', '&'])} {written(depth - 1)})"

    def value(text: str) -> object:
        try:
            return eval(text.replace("/", "//"))
        except ZeroDivisionError:
            return None

    for _ in range(300):
        text = written(4)
        assert value(plain(text)) == value(text), text
        assert plain(plain(text)) == plain(text)


CALL = "    gemm_f32(stop - first, 256, 64, layer_norm_y + first * 64, 64, 1, W, 256, y + first * 256, 256, 0);"


@pytest.mark.parametrize(
    "line",
    [CALL, CALL.replace(", ", " + "), "    if (p && (q || r)) x[i * (N + 1)] = a ? b : c[0];", "    " + "x" * 60],
)
@pytest.mark.parametrize("width", [30, 50, 70])
def test_a_line_is_broken_between_words_alone(line: str, width: int) -> None:
    lines = broken(line, width)
    assert " ".join(x.strip() for x in lines) == line.strip()
    assert lines[0].startswith("    ") and all(x.startswith(" " * 12) for x in lines[1:])


def test_a_line_of_any_length_is_broken() -> None:
    line = "    const float " + ", ".join(f"*x{k} = f->x{k}" for k in range(200)) + ";"
    assert max(map(len, broken(line))) <= 120


def test_arguments_stay_whole_where_a_comma_is_near() -> None:
    """At 60 columns the last place is within `layer_norm_y + first * 64`."""
    assert broken(CALL, 60)[0] == "    gemm_f32(stop - first, 256, 64,"


@pytest.mark.parametrize("line", ["    // " + "a + b " * 30, "#pragma omp " + "a, " * 50, 'f("' + "a, " * 50 + '");'])
def test_comments_directives_and_texts_are_not_broken(line: str) -> None:
    assert broken(line) == [line]


def test_a_product_is_one_call_whether_or_not_its_matrix_is_packed() -> None:
    text = compile_files(ROOT / "specs/mlp/mlp.dsl", "c")["mlp.c"]
    body = text[text.index("typedef struct {\n    const mlp_forward_arguments *a;") :]
    calls = re.findall(r"^ *(.*?)\bgemm\w*\(", body, re.MULTILINE)
    assert len(calls) > 9 and set(calls) == {""}


def test_parameters_are_called_by_the_ends_of_their_paths() -> None:
    """As many words as tell one from all others: there are two layer norms in a block, and one behind all blocks."""
    text = compile_files(ROOT / "specs/transformer/gpt.dsl", "c")["gpt.c"]
    entry = next(x for x in text.split("// what the functions of ") if x.startswith("loss_grad_metrics"))
    own = re.findall(r"\*(\w+)\s+= f->a->params->(\w+)", entry)
    found = {field: {name for name, other in own if other == field} for _, field in own}
    block = "decoder_stack_transformer_block"
    assert found[f"{block}_feed_forward_dense2_W"] == {"dense2_W"}
    assert found[f"{block}_layer_norm_scale"] == {"transformer_block_layer_norm_scale"}
    assert found["decoder_stack_layer_norm_scale"] == {"decoder_stack_layer_norm_scale"}
    assert found["embed_W"] == {"embed_W"}
    assert len({name for names in found.values() for name in names}) == len(found) > 12


@pytest.mark.wide(20)
@pytest.mark.parametrize("path", SPECS)
def test_compilers_have_nothing_to_warn_of(path: str, tmp_path: Path) -> None:
    """But for sizes of memory, products of numbers with a sign: they are checked to be above 0 before."""
    case = Case(path)
    name = case.path.stem.replace("-", "_")
    for file, text in compile_files(case.path, "c", case.settings).items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    (source,) = tmp_path.glob("*.c")
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wno-sign-conversion", "-Wno-psabi"]
    warnings.append("-Wno-float-conversion")  # where a spec computes with doubles and wants floats
    command = [compiler(), "-std=c11", "-march=native", "-fopenmp-simd", "-fsyntax-only", "-Werror", *warnings]
    adjoints = f"-D{name.upper()}_ADJOINTS"
    done = subprocess.run([*command, adjoints, str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]


def test_an_element_of_a_row_is_reached_by_the_number_of_the_row() -> None:
    """And indices that nothing reads have no line."""
    text = compile_files(ROOT / "specs/transformer/gpt.dsl", "c")["gpt.c"]
    head = text.index("static void forward_layer_norm_y(")
    body = text[head : text.index("\n}\n", head)]
    assert "decoder_stack_h[row * 64 + " in body and "row %" not in body and "row /" not in body


@pytest.mark.parametrize("path", ["specs/mlp/mlp.dsl", "specs/transformer/gpt.dsl"])
def test_a_header_says_once_how_functions_are_called(path: str) -> None:
    files = compile_files(ROOT / path, "c")
    (header,) = (text for name, text in files.items() if name.endswith(".h"))
    (source,) = (text for name, text in files.items() if name.endswith(".c"))
    assert header.count("It returns 0, or a code for") == 1
    assert [line for line in header.splitlines() if len(line) > 120 and line[0] != " "] == []
    includes = re.findall(r"#include <\w+\.h>", source[: source.index("typedef struct")])
    assert len(includes) == len(set(includes)) == 4

"""Long lines of modules are broken inside of brackets, and say the same."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest
from dslc.backends.numpy import module
from dslc.backends.numpy.function import LONGEST_LINE

from dslc.compiler import compile_text
from dslc.frontend import check_file
from dslc.long_lines import folded, folded_text

ROOT = Path(__file__).parents[2]
SPECS = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "specs").glob("*/*.dsl"))


#: modules of many kinds of lines; the others are unfolded in the long run
SOME = [f"specs/{x}.dsl" for x in ("mlp/mlp", "transformer/gpt", "convolution/resnet", "recurrent/lstm", "graph/gat")]


@pytest.mark.parametrize("path", [p if p in SOME else pytest.param(p, marks=pytest.mark.long) for p in SPECS])
def test_the_lines_of_modules_are_short_and_say_the_same(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = check_file(ROOT / path)
    if checked.program is None or not checked.program.models:
        return  # a file of layers for others to import
    monkeypatch.setattr(module, "folded_text", lambda text, width: text)
    long = compile_text(ROOT / path)
    short = folded_text(long, LONGEST_LINE)
    assert [x for x in short.splitlines() if len(x) > LONGEST_LINE] == []
    assert ast.dump(ast.parse(short)) == ast.dump(ast.parse(long))


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        pytest.param("a = b + c", ["a = b + c"], id="short"),
        pytest.param(
            "    total = first(one, two) + second(three)  # [N]",
            ["    total = (", "        first(one, two)", "        + second(three)", "    )  # [N]"],
            id="sum",
        ),
        pytest.param(
            "x = np.add(first_argument, second_argument, out=place)",
            ["x = np.add(", "    first_argument,", "    second_argument,", "    out=place,", ")"],
            id="arguments",
        ),
        pytest.param(
            "x = f(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)",
            ["x = f(", "    1, 2, 3, 4, 5, 6, 7, 8, 9, 10,", "    11, 12, 13, 14,", ")"],
            id="many arguments",
        ),
        pytest.param(
            "return first_result, {'second': second_result}",
            ["return (", "    first_result,", "    {'second': second_result},", ")"],
            id="results",
        ),
        pytest.param(
            "first, second, third, fourth = kept.pop()",
            ["(", "    first, second, third, fourth", ") = kept.pop()"],
            id="names",
        ),
        pytest.param(
            'mean = state[f"block.{l}.running_mean"]',
            ["mean = (", '    state[f"block.{l}.running_mean"]', ")"],
            id="entry of a table",
        ),
        pytest.param(
            "x = outer(inner(first_operand * second_operand))",
            ["x = outer(inner(", "    first_operand * second_operand", "))"],
            id="brackets in brackets",
        ),
        pytest.param(
            '    "lines": "a, b, c, d, e, f, g, h, i, j, k",',
            ['    "lines": (', '        "a, b, c, d, e, f, g, h, "', '        "i, j, k"', "    ),"],
            id="text",
        ),
        pytest.param(
            "# layer.dsl:8  y[o] = x[i] * W[i, o] + b[o]",
            ["# layer.dsl:8  y[o] = x[i] * W[i, o]", "#     + b[o]"],
            id="comment",
        ),
        pytest.param(
            "a = x[f(') + (', argument)] / (first + second)",
            ["a = (", "    x[f(') + (', argument)]", "    / (first + second)", ")"],
            id="brackets in quotes",
        ),
    ],
)
def test_a_line_is_broken_at_its_outermost_brackets_and_operators(line: str, lines: list[str]) -> None:
    assert folded(line, 36) == lines


@pytest.mark.parametrize(
    "line", ["x = a_name_that_is_longer_than_a_line(", 'raise Error("text that cannot be broken")']
)
def test_a_line_that_cannot_be_broken_stays(line: str) -> None:
    assert "".join(x.strip() for x in folded(line, 20)) == line


def test_brackets_stand_around_the_value_of_an_argument_and_not_around_its_name() -> None:
    line = f"y = tl.load({'place' * 10}, mask={' & '.join(f'({x * 9} < 4)[:, None]' for x in 'abcdef')}, other=0.0)"
    assert len(line) > 112
    assert ast.dump(ast.parse("\n".join(folded(line)))) == ast.dump(ast.parse(line))


@pytest.mark.point("H")
@pytest.mark.parametrize("width", [20, 40, 80])
@pytest.mark.parametrize(
    "line",
    [
        "y = scale_of_rows(first_argument, second_argument)[:, None] + offset  # [N, heads, K]",
        "y = np.where(first_argument > 0, second_argument, third)[:, None, :, None]  # [N, 1, K, 1]",
        "y = values_of_all_layers[:, first_place + 1:second_place + 2, None, ::-1] * scale[:, None]",
        'grads = {"first": first_value * second_value, **{f"b.{l}": other_value for l in range(3)}}',
        "y = np.concatenate((first_part, *others_that_follow, last_part * scale[..., None, 1:]), axis=1)",
    ],
)
def test_slices_stars_and_entries_are_never_put_in_brackets(line: str, width: int) -> None:
    for indent in (0, 8, 24):
        short = "\n".join(folded(" " * indent + line, width))
        assert ast.dump(ast.parse(textwrap.dedent(short))) == ast.dump(ast.parse(line))

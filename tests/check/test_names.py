"""Names that an error leaves without a meaning: one message is enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from dslc.frontend import check_text

MODEL = """
model imported(x: f32[N, 8]) -> y: [N, 8]:
    y = x |> wide |> {last}

train imported(x, target: f32[N, 8]):
    minimize mean_squared_error(imported(x), target)
    using own(lr = 0.1)
"""


def codes(text: str, folder: Path | None = None) -> list[str]:
    return [d.code for d in check_text(text, folder=folder).errors]


@pytest.mark.parametrize("content", [None, "fn bent(x) = x\x00\n"], ids=["missing", "refused"])
@pytest.mark.parametrize(
    ("line", "last"),
    [('import "other.dsl"', "bent"), ('from "other.dsl" import wide, bent as dense, own', "dense")],
    ids=["all", "some"],
)
def test_names_of_a_file_that_cannot_be_read_are_not_unknown(
    content: str | None, line: str, last: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "other.dsl").write_text(content)
    found = codes(line + "\n" + MODEL.format(last=last), tmp_path)
    assert found == (["E0206"] if content is None else ["E0003"])


def test_a_name_that_a_file_does_not_define_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "other.dsl").write_text("fn bent(x) = x\n")
    text = 'from "other.dsl" import wide, bent, own\n' + MODEL.format(last="bent")
    assert codes(text, tmp_path) == ["E0209", "E0209"]


@pytest.mark.parametrize(
    "statement",
    ["use d = dense(4)", "param d: [4]", "state d: [4] = 0", "slot d = 0", "training:\n        d = x"],
)
def test_what_a_statement_out_of_place_declares_is_not_unknown(statement: str) -> None:
    assert len(codes(f"fn f(x: [N, 4]) -> y: [N, 4]:\n    {statement}\n    y = x + d\n")) == 1


@pytest.mark.parametrize("name", ["K", "x", "s", "look"])
def test_a_name_that_cannot_be_assigned_is_told_once(name: str) -> None:
    text = f"""
layer f(x: [N, K], s = 2) -> y: [N, K]:
    use look = dense(K)
    {name} = look(x) * s
    y[n, k] = {name}[n, k] + {name}[n, K-1]
"""
    assert codes(text) == ["E0203"]


@pytest.mark.parametrize(
    "statement",
    ["size {} = 4", "param {}: [K]", "state {}: [K] = 0", "use {} = dense(4)", "param W: [K, {} = 4]"],
)
@pytest.mark.parametrize("argument", ["A: size", "A = 4", "A: fn", "A: [N]"])
def test_a_declaration_cannot_take_the_name_of_an_argument(statement: str, argument: str) -> None:
    text = f"layer f(x: [N, K], {argument}) -> y: [N, K]:\n    {statement.format('A')}\n    y = x\n"
    if "fn" in argument:  # checked where it is called
        text += "\nmodel m(x: f32[N, 3]) -> y: [N, 3]:\n    y = f(x, relu)\n"
    assert codes(text) == ["E0202"]

"""`dslc library`: the list of the standard library, and docs/library.md, which is made of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from dslc.cli.main import cli
from dslc.library import COMMAND, entries, render_page
from dslc.resolve.files import standard_library

PAGE = Path(__file__).parents[2] / "docs" / "library.md"


def library(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["library", *arguments])
    return result.exit_code, result.output


def test_the_page_is_what_its_command_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_page(), f"run `{COMMAND}`"


def test_every_definition_is_listed_with_its_signature_and_purpose() -> None:
    found = [e for own in entries().values() for e in own]
    assert {e.name for e in found} == standard_library().known_names()
    for e in found:
        assert e.about.endswith(".") and e.signature.startswith(f"{e.kind} {e.name}"), e
        assert not e.signature.endswith(":"), e
    status, text = library()
    assert status == 0
    assert all(e.signature in text for e in found)


def test_the_name_of_a_file_lists_all_of_it() -> None:
    status, text = library("complex", "--json")
    found = {e["name"] for e in json.loads(text)["definitions"] if e["file"] == "complex.dsl"}
    assert status == 0 and found == {e.name for e in entries()["complex.dsl"]} > {"conjugate", "as_real"}


def test_a_word_is_looked_for_in_names_and_descriptions() -> None:
    status, text = library("ROOT MEAN")
    assert status == 0 and text.splitlines()[0] == "normalization.dsl" and "rms_norm(x: [..., E]" in text
    assert "lstm(x: [N, T, I], hidden" in library("lstm")[1]


@pytest.mark.parametrize(
    ("word", "words"),
    [("lstn", "did you mean `lstm`?"), ("hypot", "`hypot` is built into the language"), ("xyzzy", "no definition")],
)
def test_a_word_that_nothing_has_ends_with_status_1(word: str, words: str) -> None:
    status, text = library(word)
    assert status == 1 and words in text


def test_the_list_is_there_for_programs() -> None:
    status, text = library("rmsprop", "--json")
    told = json.loads(text)
    assert status == 0 and told["version"] == 1 and told["ok"]
    (found,) = told["definitions"]
    assert found.pop("line") > 0
    assert found == {
        "name": "rmsprop", "kind": "optimizer", "file": "optimizers.dsl",
        "signature": "optimizer rmsprop(lr = 1e-3, decay = 0.9, eps = 1e-8)",
        "about": "Steps divided by the root of a running mean of squared gradients.",
    }  # fmt: skip
    assert json.loads(library("xyzzy", "--json")[1])["definitions"] == []


def test_a_shell_completes_the_command_and_its_names() -> None:
    shell = ShellComplete(cli, {}, "dslc", "_DSLC_COMPLETE")
    assert [c.value for c in shell.get_completions([], "lib")] == ["library"]
    assert [c.value for c in shell.get_completions(["library"], "rms")] == ["rms_norm", "rmsprop"]

"""docs/errors.md is what `python -m dslc.error_index` writes."""

from __future__ import annotations

from pathlib import Path

from dslc.error_index import COMMAND, render_index

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"


def test_the_page_of_errors_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_index(), f"run `{COMMAND}`"


def test_the_page_names_no_folder_of_this_machine() -> None:
    assert str(PAGE.parents[1]) not in PAGE.read_text(encoding="utf-8")

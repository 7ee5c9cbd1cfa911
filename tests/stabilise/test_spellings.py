"""Naive spellings are computed as exactly as stable ones, value and gradient, against high precision."""

from __future__ import annotations

from pathlib import Path

import pytest
from marks import rows
from spelling_table import SPELLINGS
from spellings import Spelling, compiled, mistakes

from dslc.stabilise import rewriter


@rows("L27", "L30", "L36", "L38", "L41", "L42", "F25")
@pytest.mark.parametrize("spelling", SPELLINGS, ids=str)
def test_a_naive_spelling_is_exact(spelling: Spelling) -> None:
    assert mistakes(spelling) == []


@pytest.mark.parametrize("spelling", SPELLINGS, ids=str)
def test_its_rules_are_used(spelling: Spelling) -> None:
    fired = {f.rule for f in compiled(spelling.text()).fired}
    assert set(spelling.rules) <= fired


def test_every_rule_has_a_spelling_and_a_line_of_mathematics() -> None:
    rules = {rule for group in rewriter.RULES.values() for rule in group}
    elsewhere = {"log_det"}
    assert {r.__name__ for r in rules} - {n for s in SPELLINGS for n in s.rules} == elsewhere
    for rule in (*rules, *rewriter.NODE_RULES):
        assert rule.__doc__, rule.__name__


def test_the_documentation_has_every_rule_with_its_line_of_mathematics() -> None:
    page = (Path(__file__).parents[2] / "docs" / "stability.md").read_text(encoding="utf-8")
    rules = {rule for group in rewriter.RULES.values() for rule in group} | set(rewriter.NODE_RULES)
    lines = {r.__name__: " ".join((r.__doc__ or "").split()).replace("|", "&#124;") for r in rules}
    shown = {line for line in page.splitlines() if line.startswith("| `")}
    assert shown == {f"| `{name}` | {line} |" for name, line in lines.items()}

"""Random questions about sizes against z3: nothing is proved that does not hold, and what holds is found."""

from __future__ import annotations

import pytest
from questions import survey

pytestmark = pytest.mark.point("23")


def check(seeds: range) -> None:
    counts, wrong, missed = survey(seeds)
    print(dict(counts))
    assert not wrong
    assert counts["z3 gave up"] <= len(seeds) // 100
    assert counts["provable"] >= len(seeds) // 4
    assert counts["found"] >= 0.99 * counts["provable"], missed


def test_answers_are_never_wrong_and_rarely_missing() -> None:
    check(range(500))


@pytest.mark.long
def test_answers_are_never_wrong_and_rarely_missing_in_10000_questions() -> None:
    check(range(500, 10_500))

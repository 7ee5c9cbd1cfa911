"""A broken derivative or stabilisation does not go unnoticed."""

from __future__ import annotations

import pytest
from mutation import Mutant, derivatives, stabilisations

DERIVATIVES, STABILISATIONS = tuple(derivatives()), tuple(stabilisations())


def _id(mutant: Mutant) -> str:
    return f"{mutant.rule}, {mutant.how}"


@pytest.mark.parametrize("mutant", [m for m in STABILISATIONS if m.how == "left out"], ids=_id)
def test_a_missing_rule_is_noticed(mutant: Mutant) -> None:
    assert mutant.noticed()


@pytest.mark.parametrize("mutant", [m for m in DERIVATIVES if m.how == "0.001 more"], ids=_id)
def test_a_derivative_that_is_off_is_noticed(mutant: Mutant) -> None:
    assert mutant.noticed()


@pytest.mark.long
@pytest.mark.parametrize("mutant", [*DERIVATIVES, *STABILISATIONS], ids=_id)
def test_no_mutant_goes_unnoticed(mutant: Mutant) -> None:
    assert mutant.noticed()


def test_nothing_is_noticed_while_nothing_is_broken() -> None:
    for mutant in (m for m in (*DERIVATIVES[::9], *STABILISATIONS[::9])):
        assert mutant.check() == ""

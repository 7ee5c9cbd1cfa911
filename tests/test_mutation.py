"""A broken derivative, adjoint or stabilisation does not go unnoticed."""

from __future__ import annotations

import pytest
from mutation import Mutant, adjoints, derivatives, stabilisations

from dslc.passes.verify import ALONG

DERIVATIVES, ADJOINTS, STABILISATIONS = tuple(derivatives()), tuple(adjoints()), tuple(stabilisations())


def _id(mutant: Mutant) -> str:
    return f"{mutant.rule}, {mutant.how}"


@pytest.mark.parametrize("mutant", [m for m in STABILISATIONS if m.how == "left out"], ids=_id)
def test_a_missing_rule_is_noticed(mutant: Mutant) -> None:
    assert mutant.noticed()


@pytest.mark.parametrize("mutant", [m for m in DERIVATIVES if m.how == "0.001 more"], ids=_id)
def test_a_derivative_that_is_off_is_noticed(mutant: Mutant) -> None:
    assert mutant.noticed()


@pytest.mark.parametrize("mutant", ADJOINTS, ids=_id)
def test_an_adjoint_that_is_off_or_missing_is_noticed(mutant: Mutant) -> None:
    assert mutant.noticed()


def test_all_kinds_of_nodes_are_broken() -> None:
    broken = {m.rule.removeprefix("adjoint of ") for m in ADJOINTS}
    assert set(ALONG) - {"argsort"} | {"formula", "sum", "prod", "max", "min", "grouped axes"} <= broken
    assert {"scan", "layers", "checkpoint", *(f"scatter {x}=" for x in ("+", "max", "min"))} <= broken
    assert {"solve", "inv", "det", "logdet", "cholesky", "matexp", "eigh"} <= broken


@pytest.mark.long
@pytest.mark.parametrize("mutant", [*DERIVATIVES, *STABILISATIONS], ids=_id)
def test_no_mutant_goes_unnoticed(mutant: Mutant) -> None:
    assert mutant.noticed()


def test_nothing_is_noticed_while_nothing_is_broken() -> None:
    for mutant in (m for m in (*DERIVATIVES[::9], *ADJOINTS[::9], *STABILISATIONS[::9])):
        assert mutant.check() == ""

"""The trainings with known results give them."""

from __future__ import annotations

import pytest
from trainings import TRAININGS, rows_of


@pytest.mark.long
@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_gives_what_is_known(name: str) -> None:
    failed = [row for row in rows_of(name) if not row.ok]
    assert not failed, failed

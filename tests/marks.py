"""Marks of tests."""

from __future__ import annotations

import pytest


def rows(*ids: str) -> pytest.MarkDecorator:
    """Marks a test that shows rows of the catalogue: `@rows("P05", "A53")`."""
    return pytest.mark.rows(*ids)

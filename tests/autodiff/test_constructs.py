"""Gradients of every construct, and the gradients of these, along random directions against finite differences."""

from __future__ import annotations

import pytest
from constructs import CONSTRUCTS, Construct
from programs import check_gradient, unit

DIFFERENTIABLE = [c for c in CONSTRUCTS if c.order]


@pytest.mark.parametrize(
    "construct", [pytest.param(c, marks=pytest.mark.rows(*c.rows)) for c in DIFFERENTIABLE], ids=str
)
def test_first_and_second_derivatives(construct: Construct) -> None:
    program = unit(construct.text, construct.mode, **construct.settings)
    check_gradient(program, construct.values, construct.order)

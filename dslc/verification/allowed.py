"""Sizes that a spec allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dslc.builder.unit import Unit
from dslc.check import program as p
from dslc.verification import checks
from dslc.verification.sample import fits


def allowed(
    model: p.Instance, train: p.TrainProgram | None, units: Sequence[Unit], sizes: Mapping[str, int], seed: int
) -> bool:
    """Whether the conditions of a spec hold at some sizes, and the interpreter can run it there."""
    return declared(model, train, units, sizes) and checks.Subject(model, train, sizes, seed).makes_sense()


def declared(model: p.Instance, train: p.TrainProgram | None, units: Sequence[Unit], sizes: Mapping[str, int]) -> bool:
    """Whether the conditions of a spec hold at some sizes, and all of its axes are whole and not empty."""
    where = [*model.where, *(train.instance.where if train is not None else [])]
    return all(c.holds(sizes) is not False for c in where) and fits(units, sizes)

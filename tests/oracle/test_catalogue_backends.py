"""The cases of the catalogue on the backends for processors and for GPUs: values and gradients as torch has them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import test_catalogue_algebra as algebra
import test_catalogue_differentiation as differentiation
import test_catalogue_first as first
import test_catalogue_library as library
import test_catalogue_losses as losses
import test_catalogue_units as units
from catalogue import Table, model

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"

#: the cases of a table are one model, which is compiled once
TABLES = {
    "activations": units.ACTIVATIONS,
    "layers": units.LAYERS,
    "losses": losses.LOSSES,
    "linear models": losses.LINEAR,
    "decisions": losses.DECISIONS,
    "probability": losses.PROBABILITY,
    "algebra": algebra.ALGEBRA,
    "derivatives": algebra.DERIVATIVES,
    "primitives": differentiation.PRIMITIVES,
    "equations": first.EQUATIONS,
    "boxes": first.BOXES,
    "indexing": first.INDEXING,
    "closed forms": library.CLOSED_FORMS,
    "densities": library.DENSITIES,
    "calibration": library.DECISIONS,
}


@pytest.mark.parametrize("backend", ["c", "triton"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[x for case in table for x in case.marks]) for name, table in TABLES.items()]
)
def test_a_table_has_the_values_and_gradients_of_torch(name: str, backend: str, tmp_path: Path) -> None:
    table = Table(x.values[0] for x in TABLES[name])
    module = model(table.text(), tmp_path, backend)
    with np.errstate(all="ignore"):  # Triton's interpreter warns of what branches not taken hold
        found = module.forward({}, *table.arguments())
    table.compare(found)

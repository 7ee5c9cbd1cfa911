"""Sizes among the arguments of a model that no input has: somebody must tell them before the module is made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dslc
from dslc.diagnostics.spec_error import SpecError

COUNT = "model count(group: i32[V] < B, B: size) -> n: [B]:\n    n[b: B] = 0\n    n[group[v]] += 1\n"
TOLD = "model told(x: f32[B], group: i32[V] < B, B: size) -> n: [B]:\n    n = x\n    n[group[v]] += 1\n"


def test_a_size_that_no_input_has_is_asked_for(tmp_path: Path) -> None:
    spec = tmp_path / "count.dsl"
    spec.write_text(COUNT, encoding="utf-8")
    with pytest.raises(SpecError, match=r"E0350(.|\n)*--set B=8"):
        dslc.compile(spec)
    module = dslc.compile(spec, B=8)
    np.testing.assert_array_equal(module.forward({}, np.array([1, 1, 7])), [0, 2, 0, 0, 0, 0, 0, 1])


def test_a_size_that_an_input_has_is_read_off(tmp_path: Path) -> None:
    spec = tmp_path / "told.dsl"
    spec.write_text(TOLD, encoding="utf-8")
    module = dslc.compile(spec)
    np.testing.assert_array_equal(module.forward({}, np.ones(3, np.float32), np.array([1, 1])), [1, 3, 1])

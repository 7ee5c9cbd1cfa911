"""Rows in batches, for modules as for `dslc train`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marks import rows
from small_runs import normed, run, same_bits, weights

import dslc
from dslc.data import batches


@rows("B15")
def test_a_thousand_rows_are_31_batches_of_32_and_one_of_8() -> None:
    found = [len(part["x"]) for part in batches({"x": np.arange(1000), "y": np.zeros((1000, 2))}, 32)]
    assert found == [32] * 31 + [8]


@rows("F16", "X5.1")
def test_an_epoch_has_every_row_once_in_an_order_of_its_own() -> None:
    x = np.arange(1000)
    epochs = [[part["x"] for part in batches({"x": x, "y": 2 * x}, 20, seed=4, epoch=k)] for k in range(5)]
    assert sum(map(len, epochs)) == 250
    orders = [np.concatenate(parts) for parts in epochs]
    assert all(np.array_equal(np.sort(order), x) for order in orders)
    assert len({tuple(order) for order in (*orders, x)}) == 6
    for part in batches({"x": x, "y": 2 * x}, 20, seed=4):
        assert np.array_equal(2 * part["x"], part["y"])
    again = np.concatenate([part["x"] for part in batches({"x": x}, 20, seed=4)])
    assert np.array_equal(again, orders[0])


@rows("9.25")
def test_a_batch_is_augmented_on_its_way_and_the_data_stay() -> None:
    x = np.arange(24.0).reshape(12, 2)
    before = x.copy()

    def flipped(part: dict[str, Any], chance: np.random.Generator) -> dict[str, Any]:
        turn = chance.random(len(part["x"])) < 0.5
        return {"x": np.where(turn[:, None], part["x"][:, ::-1], part["x"])}

    plain = np.concatenate([p["x"] for p in batches({"x": x}, 4, seed=1)])
    first, second = (np.concatenate([p["x"] for p in batches({"x": x}, 4, 1, 0, flipped)]) for _ in range(2))
    assert np.array_equal(first, second) and not np.array_equal(first, plain)
    assert np.array_equal(np.sort(first, 1), np.sort(plain, 1))
    assert np.array_equal(x, before)


@rows("X5.5")
def test_a_loop_by_hand_over_batches_is_dslc_train(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    options = ("--data", data, "--seed", 3, "--epochs", 2, "--backend", "numpy")
    assert run("train", spec, *options, "-o", tmp_path / "run").exit_code == 0
    module, arrays = dslc.compile(spec), dict(np.load(data))
    params = module.init(3)
    opt = module.init_opt(params, 3)
    for epoch in range(2):
        for part in batches({"x": arrays["x"], "label": arrays["label"]}, 8, seed=3, epoch=epoch):
            params, opt = module.train_step(params, opt, part["x"], part["label"])
    assert same_bits(weights(tmp_path / "run"), {**params, **opt["state"]})


def test_arrays_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="expected arrays with as many rows each"):
        next(batches({"x": np.zeros(3), "y": np.zeros(4)}, 2))

"""What could mean two things is refused, with both spelled out; what can mean one thing only is taken."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from samples import load

from dslc.compiler import compile_text
from dslc.diagnostics.spec_error import SpecError

RNG = np.random.default_rng(0)
S, R, X, W, V, H = (RNG.normal(size=s) for s in ((4, 4), (4, 4), (4,), (4, 4), (4, 4), (4, 4)))
INPUTS = {"S": S, "R": R, "x": X, "W": W, "V": V, "h": H}


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def value(right: str, folder: Path, left: str = "y[i]", shape: str = "[4]") -> np.ndarray:
    spec = folder / "m.dsl"
    spec.write_text(
        "model m(S: f64[4, 4], R: f64[4, 4], x: f64[4], W: f64[4, 4], V: f64[4, 4], h: f64[4, 4])"
        f" -> y: {shape}:\n    {left} = {right}\n",
        encoding="utf-8",
    )
    found: np.ndarray = load(compile_text(spec, dtype="f64"), folder).forward({}, *INPUTS.values())
    return found


#: right side -> its meaning as one sum, and as one in each part
TWO_WAYS = {
    "(S[i, j] * x[j]) * (S[i, j] * x[j])": (S**2 @ X**2, (S @ X) ** 2),
    "S[i, j] * x[j] * sigmoid(S[i, j] * x[j])": ((S * X * sigmoid(S * X)).sum(1), S @ X * sigmoid(S @ X)),
    "2 * S[i, j] * x[j] * tanh(R[i, j] * x[j])": (2 * (S * X * np.tanh(R * X)).sum(1), 2 * S @ X * np.tanh(R @ X)),
    "(S[i, j] * x[j]) / (1 + abs(S[i, j] * x[j]))": (
        (S * X / (1 + abs(S * X))).sum(1), S @ X / (1 + abs(S @ X)),
    ),
    "S[i, j] * x[j] / (sqrt(S[i, j] * S[i, j]) * sqrt(x[j] * x[j]))": (
        (S * X / abs(S * X)).sum(1), S @ X / (np.sqrt((S**2).sum(1)) * np.sqrt(X @ X)),
    ),
    "sigmoid(S[i, j] * x[j]) * tanh(R[i, j] * x[j])": (
        (sigmoid(S * X) * np.tanh(R * X)).sum(1), sigmoid(S @ X) * np.tanh(R @ X),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("right", "meanings"), TWO_WAYS.items())
def test_an_index_contracted_twice_is_refused_with_both_meanings(
    right: str, meanings: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match="E0349") as refused:
        value(right, tmp_path)
    offered = re.findall(r"`([^`]+)` for one", str(refused.value))
    assert len(offered) == 2
    for text, meaning in zip(offered, meanings, strict=True):
        np.testing.assert_allclose(value(text, tmp_path), meaning, rtol=1e-12)


#: right side -> its meaning
ONE_WAY = {
    "S[i, j] * x[j] if i == 0 else 2 * S[i, j] * x[j] - x[i]": np.where(np.arange(4) == 0, S @ X, 2 * S @ X - X),
    "S[i, j] * x[j] if S[i, j] * x[j] > 0 else 0": np.maximum(S @ X, 0),
    "max(S[i, j] * x[j], R[i, j] * x[j])": np.maximum(S @ X, R @ X),
    "-x[i] / (2 + S[i, j] * x[j])^2": -X / (2 + S @ X) ** 2,
    "1 / sqrt(S[i, j] * S[i, j])": 1 / np.sqrt((S**2).sum(1)),
    "x[j] * S[i, j] * sigmoid(x[j])": S @ (X * sigmoid(X)),
    "x[j] * sigmoid(S[i, j] * x[j])": (X * sigmoid(S * X)).sum(1),
    "(S[i, j] * x[j])^2": (S @ X) ** 2,
}


@pytest.mark.parametrize(("right", "meaning"), ONE_WAY.items())
def test_a_contraction_closes_where_it_is_complete(right: str, meaning: np.ndarray, tmp_path: Path) -> None:
    np.testing.assert_allclose(value(right, tmp_path), meaning, rtol=1e-12)


@pytest.mark.parametrize("function", ["softmax", "log_softmax", "standardize", "normalize"])
def test_a_whole_tensor_has_no_axis_for_a_function_along_one(function: str, tmp_path: Path) -> None:
    """It was taken for a number that does not depend on the index."""
    with pytest.raises(SpecError, match=rf"E0331(.|\n)*{function}\[k\]\(h\[n, k\]\)"):
        value(f"{function}[k](h)[n, k]", tmp_path, "y[n, k]", "[4, 4]")


@pytest.mark.parametrize("right", ["(h / sum[k](h[n, k]))[n, k]", "(h - mean[k](h[n, k]))[n, k]"])
def test_a_value_with_an_index_is_not_indexed_again(right: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"E0212.*which has the index `n` already"):
        value(right, tmp_path, "y[n, k]", "[4, 4]")


#: body and meaning of reads that a condition keeps inside, or that have a value outside
READS = {
    "y[i] = x[i] if i >= 1 and x[i-1] > 0 else 0": np.where(np.r_[False, X[:-1] > 0], X, 0),
    "y[i] = x[i] if i == 0 or x[i-1] > 0 else 0": np.where(np.r_[True, X[:-1] > 0], X, 0),
    "y[i] = x[i] if i != 0 and i != 1 and x[i-2] > 0 else 0": np.where(np.r_[False, False, X[:-2] > 0], X, 0),
}


@pytest.mark.parametrize(("line", "meaning"), READS.items())
def test_what_a_condition_asks_first_guards_what_it_asks_then(line: str, meaning: np.ndarray, tmp_path: Path) -> None:
    left, _, right = line.partition(" = ")
    np.testing.assert_allclose(value(right, tmp_path, left), meaning, rtol=1e-12)


@pytest.mark.parametrize("test", ["x[i-1] > 0 and i >= 1", "i >= 1 or x[i-1] > 0", "i != 1 and i != 0 and x[i-3] > 0"])
def test_a_condition_that_guards_nothing_is_refused(test: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="E0308"):
        value(f"x[i] if {test} else 0", tmp_path)


@pytest.mark.parametrize("right", ["(x[i] else 9)", "x[i] if i < 4 else 9", "9 if i == 4 else x[i]"])
def test_a_declared_range_may_be_longer_than_what_is_read_with_an_else(right: str, tmp_path: Path) -> None:
    np.testing.assert_array_equal(value(right, tmp_path, shape="[5]"), [*X, 9])


def test_without_one_it_may_not(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="E0302"):
        value("x[i]", tmp_path, shape="[5]")
    with pytest.raises(SpecError, match="E0308"):
        value("x[i] if i <= 4 else 9", tmp_path, shape="[5]")

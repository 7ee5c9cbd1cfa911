"""How gradients of sums of exponentials and of scattered values are written, and that they are those of torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from shipped import text_of

from dslc.compiler import compile_text, imported

LOSS = """
model m(x: f64[N, C]) -> y: [N, C]:
    y = x

train m(x, label: i32[N] < C, w: f64[N]):
    y = m(x)
    minimize {}
    using sgd(lr = 0.1)
"""
INF = float("inf")


def gradient(loss: str, folder: Path, *inputs: np.ndarray) -> tuple[str, np.ndarray]:
    """The gradient function as text, and its result by `x`."""
    spec = folder / "spec.dsl"
    spec.write_text(LOSS.format(loss), encoding="utf-8")
    text = compile_text(spec, dtype="f64", wrt=["x"])
    return text.split("def loss_grad_metrics(")[1].split("\ndef ")[0], imported(text, "m").loss_and_grad({}, *inputs)[
        1
    ]["x"]


ROWS = np.array([[1.0, 2.0, -3.0], [0.5, -INF, 0.0], [700.0, -700.0, 710.0], [0.0, 0.0, 0.0]])
LABELS, WEIGHTS = np.array([0, 2, 2, 1]), np.array([0.5, 2.0, 1.0, 0.0])


def test_the_gradient_of_cross_entropy_is_the_share_less_the_label(tmp_path: Path) -> None:
    text, found = gradient("cross_entropy(y, label)", tmp_path, ROWS, LABELS, WEIGHTS)
    assert "[np.arange(N), label] -= " in text and "_scattered" not in text and "np.where(test" not in text
    x = torch.tensor(ROWS, requires_grad=True)
    torch.nn.functional.cross_entropy(x, torch.tensor(LABELS)).backward()
    np.testing.assert_allclose(found, x.grad, atol=1e-15)


def test_a_row_of_negative_infinity_has_no_share(tmp_path: Path) -> None:
    rows = ROWS.copy()
    rows[1] = -INF
    _, found = gradient("cross_entropy(y, label)", tmp_path, rows, LABELS, WEIGHTS)
    np.testing.assert_array_equal(found[1], [0, 0, -0.25])  # of the label alone
    assert np.isfinite(found).all()


def test_a_weight_that_is_data_may_be_infinite_where_a_row_is_empty(tmp_path: Path) -> None:
    rows, weights = ROWS.copy(), WEIGHTS.copy()
    rows[1], weights[1] = -INF, INF
    loss = "sum[n](w[n] * log(sum[k](exp(y[n, k]))))"
    _, found = gradient(loss, tmp_path, rows, LABELS, weights)
    np.testing.assert_array_equal(found[1], [0, 0, 0])
    text, _ = gradient(loss, tmp_path, ROWS, LABELS, WEIGHTS)
    assert "== 0" in text.split("grads = ")[1] or "np.where(test" in text


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ("specs/transformer/gpt.dsl", 'np.add.at(grads["embed.W"], token, d_decoder_stack_h)'),
        ("specs/graph/gat.dsl", "np.add.at(d_gat_z, src, "),
        ("specs/mlp/mlp.dsl", "d_logits[np.arange(N), label] -= d_mean"),
    ],
)
def test_what_is_added_at_positions_goes_into_the_array_that_it_is_added_to(spec: str, line: str) -> None:
    assert line in text_of(spec)


def test_an_array_that_is_read_elsewhere_is_added_as_a_whole(tmp_path: Path) -> None:
    spec = tmp_path / "spec.dsl"
    spec.write_text(
        "model m(x: f64[N], k: i32[M] < N) -> (y: [N], z: [N]):\n"
        "    z[n: N] = 0\n    z[k[m]] += 1\n    y = z + 2 * x\n",
        encoding="utf-8",
    )
    found = imported(compile_text(spec, dtype="f64"), "m").forward({}, np.arange(3.0), np.array([0, 2, 2, 2]))
    np.testing.assert_array_equal(found["z"], [1, 0, 3])
    np.testing.assert_array_equal(found["y"], [1, 2, 7])


def test_several_scatters_add_to_one_array(tmp_path: Path) -> None:
    spec = tmp_path / "spec.dsl"
    spec.write_text(
        "model m(x: f64[N], i: i32[M] < N, j: i32[M] < N, v: f64[M]) -> y: [N]:\n"
        "    a[i[m]: N] += v[m]\n    b[j[m]: N] += 2 * v[m]\n    y = a + b + 3 * x\n",
        encoding="utf-8",
    )
    text = compile_text(spec, dtype="f64")
    m = imported(text, "m")
    x, v = np.arange(4.0), np.array([1.0, 10.0, 100.0])
    i, j = np.array([0, 0, 3]), np.array([1, 3, 3])
    found = m.forward({}, x, i, j, v)
    np.testing.assert_array_equal(found, [11, 3 + 2, 6, 9 + 100 + 220])
    np.testing.assert_array_equal(x, np.arange(4.0))


def test_choices_that_complete_each_other_are_one(tmp_path: Path) -> None:
    spec = tmp_path / "spec.dsl"
    spec.write_text(
        "model m(x: f64[N], y: f64[N]) -> z: [N]:\n    z = (log(x) if x > 0 else 0) + (0 if x > 0 else exp(y))\n",
        encoding="utf-8",
    )
    text = compile_text(spec, dtype="f64")
    assert "np.where(x > 0, np.log(x), np.exp(y))" in text
    found = imported(text, "m").forward({}, np.array([1.0, -1.0, 0.0]), np.array([np.nan, 0.0, 1.0]))
    np.testing.assert_array_equal(found, [0, 1, np.exp(1)])

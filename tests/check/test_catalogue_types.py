"""Rows of chapters 1 and 2 on types: ranks, shapes, element types, promises about entries, losses, hyper-parameters."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from catalogue import model
from marks import rows

from dslc.frontend import check_text

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"

BACKENDS = ["numpy", "c", "triton"]


def codes(text: str) -> list[str]:
    return [x.code for x in check_text(text).errors]


VECTORS = {"a vector": "[D]", "a column": "[D, 1]", "a row": "[1, D]"}


@rows("N01", "P04", "B01")
@pytest.mark.parametrize("one", VECTORS)
@pytest.mark.parametrize("two", VECTORS)
def test_vectors_columns_and_rows_are_three_types(one: str, two: str) -> None:
    """Only equal ones can be added; the message names both shapes."""
    text = f"fn added(x: {VECTORS[one]}, z: {VECTORS[two]}) -> y:\n    y = x + z\n"
    if one == two:
        assert codes(text) == []
        return
    (error,) = check_text(text).errors
    assert error.code == "E0310"
    assert VECTORS[one] in error.message and VECTORS[two] in error.message


@rows("N01")
@pytest.mark.parametrize("backend", BACKENDS)
def test_tensors_have_any_number_of_axes(backend: str, tmp_path: Path) -> None:
    text = "model ranks(\n    a: f64[], b: f64[D], c: f64[D, E], d: f64[2, D, E, 3]\n"
    text += ") -> (w: [], x: [D], y: [D, E], z: [2, D]):\n"
    text += "    w = a + sum[i](b[i])\n    x[i] = a * b[i]\n    y[i, j] = c[i, j] * b[i]\n"
    text += "    z[r, i] = d[r, i, j, s] * c[i, j]\n"
    module = model(text, tmp_path, backend)
    rng = np.random.default_rng(0)
    a, b, c, d = (rng.standard_normal(shape) for shape in [(), 4, (4, 5), (2, 4, 5, 3)])
    found = module.forward({}, np.float64(a), b, c, d)
    expected = {"w": a + b.sum(), "x": a * b, "y": c * b[:, None], "z": np.einsum("rijs,ij->ri", d, c)}
    for name, value in expected.items():
        assert np.shape(found[name]) == np.shape(value)
        np.testing.assert_allclose(found[name], value, rtol=1e-12)
    for wrong in ((np.full(1, a), b, c, d), (np.float64(a), b[:, None], c, d), (np.float64(a), b[None], c, d)):
        with pytest.raises(ValueError, match=r"axes|axis"):
            module.forward({}, *wrong)


@rows("P04")
def test_a_transpose_without_axes_is_an_error() -> None:
    """What NumPy gives back unchanged: a vector has no transpose, and its axes are named where they change places."""
    assert codes("fn turned(x: [D]) -> y: [D]:\n    y = x.T\n") != []
    assert codes("fn turned(x: [D]) -> y: [E, D]:\n    y[e, d] = x[d, e]\n") != []
    assert codes("fn turned(x: [D, E]) -> y: [E, D]:\n    y[e, d] = x[d, e]\n") == []


SHAPES = "model pixels(x: f64[B, H, W, 3], gain: f64[3], bias: f64[B]) -> y: [B, H, W, 3]:\n"
SHAPES += "    y[b, h, w, c] = x[b, h, w, c] * gain[c] + bias[b]\n"


@rows("N02", "B09")
@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_are_numbers_or_names_and_a_name_is_one_number(backend: str, tmp_path: Path) -> None:
    module = model(SHAPES, tmp_path, backend)
    ones = np.ones
    assert module.forward({}, ones((2, 5, 4, 3)), ones(3), ones(2)).shape == (2, 5, 4, 3)
    assert module.forward({}, ones((7, 1, 9, 3)), ones(3), ones(7)).shape == (7, 1, 9, 3)
    with pytest.raises(ValueError, match="expected 3 along axis 3, found 4"):
        module.forward({}, ones((2, 5, 4, 4)), ones(3), ones(2))
    with pytest.raises(ValueError, match=r"bias: expected (B = )?2"):
        module.forward({}, ones((2, 5, 4, 3)), ones(3), ones(6))


@rows("N02", "B09")
def test_sizes_that_differ_are_told_before_anything_runs() -> None:
    linear = "fn linear(w: [C], b: [], X: [N, C]) -> y: [N]:\n    y[n] = X[n, i] * w[i] + b\n\n"
    call = "model called(w: f32[{}], X: f32[N, {}]) -> y: [N]:\n    y = linear(w, 1.0, X)\n"
    assert codes(linear + call.format(5, 5)) == []
    assert codes(linear + call.format("K", "K")) == []
    (error,) = check_text(linear + call.format(5, 6)).errors
    assert error.code == "E0506" and "C = 5" in error.message and "`6`" in error.message
    assert codes(linear + call.format("K", "J")) == ["E0506"]


PROMISES = "model promised(hot: binary f64[C], p: simplex f64[N, C]) -> y: [N]:\n    y[n] = hot[c] * p[n, c]\n"
ON_THE_SIMPLEX = np.array([[0.2, 0.05, 0.75], [0.0, 1.0, 0.0]])


@rows("N03")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_binary_input_has_entries_0_and_1_alone(backend: str, tmp_path: Path) -> None:
    module = model(PROMISES, tmp_path, backend)
    for hot in ([0, 0, 1], [1, 1, 1], [0, 0, 0]):
        expected = ON_THE_SIMPLEX @ np.array(hot)
        np.testing.assert_allclose(module.forward({}, np.array(hot, float), ON_THE_SIMPLEX), expected)
    for wrong in (0.5, -1.0, 2.0, np.nan, 1 + 1e-9):
        with pytest.raises(ValueError, match=r"hot: expected 0 or 1, found .* at \(1,\)"):
            module.forward({}, np.array([0, wrong, 1]), ON_THE_SIMPLEX)


@rows("N04", "Q01")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_simplex_has_no_negative_entries_and_the_last_axis_sums_to_1(backend: str, tmp_path: Path) -> None:
    module = model(PROMISES, tmp_path, backend)
    hot = np.array([0.0, 0.0, 1.0])
    np.testing.assert_allclose(module.forward({}, hot, ON_THE_SIMPLEX), [0.75, 0])
    square = np.array([[0.6, 0.3, 0.1], [0.3, 0.6, 0.1], [0.1, 0.1, 0.8]])
    module.forward({}, hot, square)
    longer, below = square * np.array([[1], [1], [1.1]]), square + np.array([[-0.7, 0.7, 0]])
    for wrong, message in ((longer, "sum of 1"), (below, "no entry below 0")):
        with pytest.raises(ValueError, match=message):
            module.forward({}, hot, wrong)
    columns = np.array([[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]])  # of rank 2: normalised, but along the first axis
    with pytest.raises(ValueError, match="along the last axis"):
        module.forward({}, hot, columns)


@rows("N04")
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_softmax_gives_is_on_the_simplex(backend: str, tmp_path: Path) -> None:
    softmax = "model softened(x: f64[N, T, C]) -> p: [N, T, C]:\n    p[n, t, c] = softmax[c](x[n, t, c])\n"
    taker = "model taken(p: simplex f64[N, T, C]) -> y: [N, T]:\n    y[n, t] = sum[c](p[n, t, c])\n"
    rng = np.random.default_rng(3)
    p = model(softmax, tmp_path, backend).forward({}, 100 * rng.standard_normal((20, 3, 7)))
    assert (p >= 0).all()
    np.testing.assert_allclose(model(taker, tmp_path, backend).forward({}, np.array(p)), 1, rtol=1e-12)


@rows("P01")
@pytest.mark.parametrize("backend", BACKENDS)
def test_elements_have_one_type_and_only_floats_are_differentiated(backend: str, tmp_path: Path) -> None:
    text = "model kinds(x: f64[N], k: i32[N], keep: bool[N]) -> (y: f64[N], m: i32[N], b: bool[N]):\n"
    text += "    y[n] = x[n] * k[n]\n    m[n] = 2 * k[n] + 1\n    b[n] = keep[n] and x[n] > 0\n"
    module = model(text, tmp_path, backend)
    x, k, keep = np.array([1.5, -2.0]), np.array([3, 4], np.int32), np.array([True, True])
    found = module.forward({}, x, k, keep)
    assert [str(found[name].dtype) for name in "ymb"] == ["float64", "int32", "bool"]
    np.testing.assert_array_equal(found["m"], [7, 9])
    np.testing.assert_array_equal(found["b"], [True, False])
    with pytest.raises(TypeError, match="k: expected int"):
        module.forward({}, x, k * 1.0, keep)
    differentiated = "model m(x: f32[N], k: i32[N]) -> d: [N]:\n    z = sum[n](x[n] * k[n])\n    d = grad(z, {})\n"
    assert codes(differentiated.format("x")) == []
    assert codes(differentiated.format("k")) == ["E0404"]
    assert codes("model m(x: f32[N]) -> y: i32[N]:\n    y = x\n") == ["E0401"]


LOSS = """
model fitted(x: f64[N, 2]) -> y: [N]:
    param w: [2] = 0.5
    y[n] = x[n, i] * w[i]

train fitted(x, t: f64[N]):
    y = fitted(x)
    e[n] = (y[n] - t[n])^2
    {} {}
    using sgd(lr = 0.3)
"""


@rows("D09", "P43")
def test_a_loss_is_a_single_number() -> None:
    assert codes(LOSS.format("minimize", "mean(e)")) == []
    (error,) = check_text(LOSS.format("minimize", "e")).errors
    assert error.code == "E0701" and "[N]" in error.message
    assert codes(LOSS.format("minimize", "i32(round(mean(e)))")) != []  # nor has a whole number a gradient
    assert codes(LOSS.format("minimize", "mean(e)\n    minimize mean(e)")) != []  # one objective alone


@rows("D09", "P43", "P45")
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_largest_of_a_function_is_the_least_of_its_negative(backend: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((16, 2))
    target = x @ np.array([1.0, -2.0])
    weights = {}
    for word, sign in (("minimize", ""), ("maximize", "-")):
        module = model(LOSS.format(word, f"{sign}mean(e)"), tmp_path, backend)
        params = module.init(0)
        opt = module.init_opt(params)
        losses = []
        for _ in range(60):
            params, opt = module.train_step(params, opt, x, target)
            losses.append(float(opt["loss"]))
        assert all(b < a for a, b in itertools.pairwise(losses[:30]))
        weights[word] = np.array(params["w"])
    np.testing.assert_array_equal(weights["minimize"], weights["maximize"])
    np.testing.assert_allclose(weights["minimize"], [1, -2], atol=1e-3)


@rows("P52")
@pytest.mark.parametrize("backend", BACKENDS)
def test_hyper_parameters_are_chosen_and_never_trained(backend: str, tmp_path: Path) -> None:
    text = """
model chosen(x: f64[N, 3], hidden = 4, slope = 0.1) -> y: [N, 2]:
    y = x |> dense(hidden) |> leaky_relu(slope = slope) |> dense(2)

train chosen(x):
    minimize mean(chosen(x)^2)
    using momentum(lr = 0.1, decay = 0.5)
"""
    x = np.random.default_rng(0).standard_normal((5, 3))
    for settings, width in (({}, 4), ({"hidden": 6}, 6)):
        module = model(text, tmp_path, backend, **settings)
        assert set(module.PARAMS) == {"dense.W", "dense.b", "dense2.W", "dense2.b"}
        params = module.init(0)
        assert params["dense.W"].shape == (3, width)
        _, grads = module.loss_and_grad(params, x)
        assert grads.keys() == params.keys()
    rng = np.random.default_rng(7)
    shapes = {"dense.W": (3, 4), "dense.b": (4,), "dense2.W": (4, 2), "dense2.b": (2,)}
    weights = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    usual, steep = (model(text, tmp_path, backend, slope=s).forward(weights, x) for s in (0.1, 0.9))
    assert np.abs(usual - steep).max() > 1e-3

"""Demonstrations of chapters 2 to 4 and of the appendices: shipped specs on all backends, against NumPy and the book.

Numbers that stand here are the book's, or were computed in float64 apart from this project.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from catalogue import model
from marks import rows
from properties import equivariance, permutation, shown

from dslc.compiler import compile_text

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"

Array = np.ndarray[Any, np.dtype[Any]]
BACKENDS = ["numpy", "c", "triton"]

#: stationary points of the surface of chapter 2 in the square from 0 to 10, and its heights there
MINIMA = {
    (4.411326, 2 * np.pi): -1.76017259,
    (1.637834, 3.509693): -1.06459066,
    (1.637834, 9.056678): -1.06459066,
    (7.921019, 2.773493): -1.06459066,
    (7.921019, 9.792878): -1.06459066,
    (5.147527, 0.0): -0.36900873,
}
SADDLE = (2.773493, 4.645351)


def height(x: Array) -> Array:
    a, b = x[..., 0], x[..., 1]
    return np.asarray(np.sin(a) * np.cos(b) + np.sin(a / 2) * np.cos(b / 2))


def slope(x: Array) -> Array:
    a, b = x[..., 0], x[..., 1]
    first = np.cos(a) * np.cos(b) + np.cos(a / 2) * np.cos(b / 2) / 2
    second = -np.sin(a) * np.sin(b) - np.sin(a / 2) * np.sin(b / 2) / 2
    return np.stack((first, second), -1)


def descended(begin: Array, lr: float, memory: float, steps: int) -> Array:
    """The path of descent by the gradient that was found by hand."""
    x, velocity, path = begin, np.zeros_like(begin), []
    for _ in range(steps):
        velocity = memory * velocity - lr * slope(x)
        x = x + velocity
        path.append(x)
    return np.array(path)


@rows("P44", "P45", "X2.3", "X2.4", "X2.5")
@pytest.mark.parametrize("memory", [0.0, 0.5])
@pytest.mark.parametrize("backend", BACKENDS)
def test_descent_from_many_starts_ends_in_the_minima(backend: str, memory: float, tmp_path: Path) -> None:
    steps = 250
    module = model(Path("optimisation/descent.dsl"), tmp_path, backend, memory=memory, steps=steps, lr=0.2)
    starts = np.array(list(MINIMA)) + np.array([[-0.9, 0.5]])
    found = module.forward({}, starts)
    path = descended(starts, 0.2, memory, steps)
    np.testing.assert_allclose(found["path"], path, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(found["path"][-1], list(MINIMA), atol=2e-6)
    np.testing.assert_allclose(found["height"][-1], list(MINIMA.values()), atol=1e-8)
    assert found["length"][-1].max() < 1e-6 < found["length"][0].min()
    if not memory:  # small steps downhill never climb; with momentum they may
        assert (np.diff(found["height"], axis=0) <= 1e-12).all()
    alone = [module.forward({}, x[None])["path"][:, 0] for x in starts[:2]]
    np.testing.assert_allclose(np.stack(alone, 1), found["path"][:, :2], rtol=1e-12, atol=1e-14)


@rows("P46")
@pytest.mark.parametrize("backend", BACKENDS)
def test_eigenvalues_of_the_hessian_tell_minima_from_saddles(backend: str, tmp_path: Path) -> None:
    module = model(Path("derivatives/hessian.dsl"), tmp_path, backend)
    v = np.array([1.0, 0.0])
    for point, value in MINIMA.items():
        found = module.forward({}, np.array(point), v)
        assert np.linalg.norm(found["slope"]) < 2e-6 and found["value"] == pytest.approx(value, abs=1e-8)
        assert found["minimum"] and found["eigenvalue"].min() > 0.1
    found = module.forward({}, np.array(SADDLE), v)
    np.testing.assert_allclose(found["slope"], 0, atol=2e-6)
    np.testing.assert_allclose(found["eigenvalue"], [-0.77236, 1.15631], atol=1e-5)
    assert found["value"] == pytest.approx(-0.69558193, abs=1e-8) and not found["minimum"]
    found = module.forward({}, np.array([1.0, 2.0]), v)
    np.testing.assert_allclose(found["slope"], [0.0122348455, -0.9668587413], atol=1e-9)  # not stationary
    highest = module.forward({}, np.array([2 * np.pi - 4.411326, 0.0]), v)
    assert highest["eigenvalue"].max() < 0 and highest["value"] == pytest.approx(1.76017259, abs=1e-8)


DIRECTIONS = """
fn along(x: [2], p: [2]) -> d: []:
    z = sin(x[0]) * cos(x[1]) + sin(x[0] / 2) * cos(x[1] / 2)
    d = jvp(z, x, p)

model directions(x: f64[M, 2], angle: f64[M]) -> d: [M]:
    p[m, i] = concat[i](cos(angle[m]), sin(angle[m]))
    d[m] = along(x[m, :], p[m, :])
"""


@rows("P44")
@pytest.mark.parametrize("backend", BACKENDS)
def test_directions_lead_down_at_obtuse_angles_to_the_gradient_and_most_against_it(
    backend: str, tmp_path: Path
) -> None:
    x = np.array([1.0, 2.0])
    g = slope(x)
    length = np.linalg.norm(g)
    between = np.linspace(0, 2 * np.pi, 97)  # to the gradient
    angles = np.arctan2(g[1], g[0]) + between
    found = model(DIRECTIONS, tmp_path, backend).forward({}, np.tile(x, (97, 1)), angles)
    np.testing.assert_allclose(found, length * np.cos(between), atol=1e-12)
    inside = (between > np.pi / 2 + 1e-9) & (between < 3 * np.pi / 2 - 1e-9)
    assert (found[inside] < 0).all() and (found[~inside] > -1e-12).all()
    assert between[found.argmin()] == pytest.approx(np.pi)


QUADRATIC = """
model quadratic(begin: f64[3], steepness: f64[3], lr: f64[], steps = 200) -> length: [steps]:
    scan t in 0..steps:
        before[i] = path[t-1, i]
        z = sum[i](steepness[i] * before[i]^2) / 2
        g = grad(z, before)
        path[t, i] = before[i] - lr * g[i]
        length[t] = norm[i](path[t, i])
    start path[i] = begin[i]
"""


@rows("P45")
@pytest.mark.parametrize("backend", BACKENDS)
def test_descent_on_a_quadratic_converges_below_two_over_its_steepest_curvature(backend: str, tmp_path: Path) -> None:
    module = model(QUADRATIC, tmp_path, backend)
    begin, steepness = np.array([1.0, -2.0, 0.5]), np.array([1.0, 3.0, 8.0])

    def lengths(rate: float) -> Array:
        return np.asarray(module.forward({}, begin, steepness, np.float64(rate)))

    limit = 2 / 8
    slow, under, over = lengths(0.5 * limit), lengths(0.98 * limit), lengths(1.02 * limit)
    assert slow[-1] < 1e-10 and (np.diff(slow) < 0).all()
    assert under[-1] < 0.05 * under[0] and over[-1] > 100 * over[0]
    expected = np.linalg.norm(begin * (1 - 0.1 * steepness) ** 7)
    assert lengths(0.1)[6] == pytest.approx(expected, rel=1e-12)


@rows("P10")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_template_is_found_by_its_inner_product(backend: str, tmp_path: Path) -> None:
    module = model(Path("optimisation/template.dsl"), tmp_path, backend)
    rng = np.random.default_rng(4)
    for _ in range(3):
        x, begin = rng.standard_normal((2, 5))
        found = module.forward({}, x, begin)
        np.testing.assert_allclose(found["y"], x / np.linalg.norm(x), atol=1e-9)
        assert found["match"][-1] == pytest.approx(1, abs=1e-12) and (np.diff(found["match"]) >= -1e-15).all()
    opposite = module.forward({}, x, -x)
    np.testing.assert_allclose(opposite["y"], -x / np.linalg.norm(x), atol=1e-12)  # the one start that stays


@rows("P55")
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_that_follow_a_best_step_are_orthogonal(backend: str, tmp_path: Path) -> None:
    module = model(Path("optimisation/line_search.dsl"), tmp_path, backend, steps=12)
    rng = np.random.default_rng(2)
    root, begin = rng.standard_normal((4, 4)), rng.standard_normal(4)
    found = module.forward({}, root, begin)
    A = root.T @ root / 4 + np.eye(4)
    x, gradients, heights = begin, [], []
    for _ in range(12):
        g = A @ x
        gradients.append(g)
        x = x - (g @ g) / (g @ A @ g) * g
        heights.append(x @ A @ x / 2)
    np.testing.assert_allclose(found["height"], heights, rtol=1e-9)
    np.testing.assert_allclose(found["turn"], 0, atol=1e-12)
    fixed = begin - 0.1 * (A @ begin)
    assert abs((A @ begin) @ (A @ fixed)) > 0.1  # the control: a step of another length turns by another angle


CONVEX = ["squared", "absolute", "hinge", "logsumexp", "softplus", "relu"]
SHAPES = """
model shapes(x: f64[M, 2]) -> z: [M, 9]:
    flat[m] = x[m, 0]
    two[m] = logsumexp[i](x[m, i])
    z[m, f] = concat[f](flat[m]^2, abs(flat[m]), relu(1 - flat[m]), two[m], softplus(flat[m]), relu(flat[m]),
        sin(flat[m]), flat[m] * sin(2 * flat[m]), sigmoid(flat[m]))
"""


@rows("P47")
@pytest.mark.parametrize("backend", BACKENDS)
def test_convex_functions_stay_below_their_chords_and_others_do_not(backend: str, tmp_path: Path) -> None:
    module = model(SHAPES, tmp_path, backend)
    rng = np.random.default_rng(1)
    one, two = 3 * rng.standard_normal((2, 400, 2))
    a = rng.uniform(0.05, 0.95, (400, 1))
    f = [np.asarray(module.forward({}, x)) for x in (one, two, a * one + (1 - a) * two)]
    above = (f[2] - a * f[0] - (1 - a) * f[1]).max(0)
    assert (above[: len(CONVEX)] <= 1e-12).all(), above
    assert (above[len(CONVEX) :] > 0.05).all(), above
    strict = (f[2] - a * f[0] - (1 - a) * f[1])[:, 0]
    assert (strict < 0).all()  # the square is strictly convex; relu is not
    assert ((f[2] - a * f[0] - (1 - a) * f[1])[:, 5] == 0).any()


NOISE = np.random.default_rng(0)
X = NOISE.standard_normal((10, 3))
Y = X @ np.array([1.0, -2.0, 0.5]) + 0.1 * NOISE.standard_normal(10)
EXACT = np.linalg.lstsq(X, Y, rcond=None)[0]
LEAST_SQUARES = Path("linear/least_squares.dsl")


@rows("B10")
@pytest.mark.parametrize("method", ["solve", "inverse"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_both_closed_forms_of_least_squares_are_that_of_numpy(backend: str, method: str, tmp_path: Path) -> None:
    found = model(LEAST_SQUARES, tmp_path, backend, method=method).forward({}, X, Y)
    np.testing.assert_allclose(found["w"], EXACT, rtol=1e-9)
    assert found["variance"] == pytest.approx(np.mean((Y - X @ EXACT) ** 2))


@rows("B10")
@pytest.mark.parametrize("method", ["solve", "inverse"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_inverse_times_a_vector_is_as_near_as_a_solution(backend: str, method: str, tmp_path: Path) -> None:
    """Columns that are nearly equal: X'(y - X w) is what is left. The compiler solves where the spec inverts."""
    x = np.stack([X[:, 0], X[:, 0] + 3e-6 * X[:, 1], X[:, 2]], 1)
    w = model(LEAST_SQUARES, tmp_path, backend, method=method).forward({}, x, Y)["w"]
    inverted = np.linalg.inv(x.T @ x) @ (x.T @ Y)
    assert np.linalg.norm(x.T @ (Y - x @ w)) < 0.01 * np.linalg.norm(x.T @ (Y - x @ inverted))


def stepped(lr: float, short: float, steps: int) -> tuple[Array, int]:
    """Descent that adds X'(y - X w), the gradient of half the squared error with its sign turned, until it is short."""
    w = np.zeros(3)
    for t in range(steps):
        change = lr * X.T @ (Y - X @ w)
        if change @ change < short:
            return w, t
        w = w + change
    return w, steps


@rows("L15", "L16", "B11")
@pytest.mark.parametrize("backend", BACKENDS)
def test_descent_on_least_squares_stops_when_steps_are_short(backend: str, tmp_path: Path) -> None:
    w, used = stepped(0.1, 1e-14, 120)
    assert 20 < used < 120
    found = model(LEAST_SQUARES, tmp_path, backend, lr=0.1, short=1e-14, steps=120).forward({}, X, Y)
    assert found["used"] == used
    np.testing.assert_allclose(found["w"], w, rtol=1e-9)
    np.testing.assert_allclose(found["w"], EXACT, atol=1e-5)


@rows("L15", "B11")
def test_15000_steps_of_a_thousandth_reach_the_closed_form(tmp_path: Path) -> None:
    """n = 10, a noise of variance 0.01: as in the book."""
    found = model(LEAST_SQUARES, tmp_path, "c", steps=15000, short=0.0).forward({}, X, Y)
    np.testing.assert_allclose(found["w"], EXACT, atol=2e-5)
    assert found["used"] == 15000


@rows("P49")
@pytest.mark.parametrize("memory", [0.0, 0.3])
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_first_steps_with_momentum_are_those_computed_by_hand(backend: str, memory: float, tmp_path: Path) -> None:
    """x sin(2x) from 1.02: past the hill at 1.01438, so down to the valley at 2.45659."""
    text = f"""
model hill(scale: f64[]) -> z: []:
    param x: [] = 1.02
    z = scale * x * sin(2 * x)

train hill(scale):
    minimize hill(scale)
    using momentum(lr = 0.05, decay = {memory})
"""
    module = model(text, tmp_path, backend)
    params = module.init(0)
    opt = module.init_opt(params)
    found = []
    for _ in range(60):
        params, opt = module.train_step(params, opt, np.float64(1.0))
        found.append(float(params["x"]))
    assert found[0] == pytest.approx(1.0215255360, abs=1e-10)
    assert found[1] == pytest.approx(1.0239246787 if memory else 1.0234670179, abs=1e-10)
    x, velocity = 1.02, 0.0
    for got in found:  # g_t = -eta f'(x_{t-1}) + lambda g_{t-1}, so an old gradient counts lambda^(n-1)
        velocity = memory * velocity - 0.05 * (np.sin(2 * x) + 2 * x * np.cos(2 * x))
        x += velocity
        assert got == pytest.approx(x, abs=1e-12)
    assert found[-1] == pytest.approx(2.45659021972, abs=1e-6)


@rows("P49")
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_old_gradient_counts_by_a_power_of_the_memory(backend: str, tmp_path: Path) -> None:
    """A gradient of 1 in the first step alone: the steps after it are lambda, lambda^2, ... of the first."""
    text = "model pushed(force: f64[]) -> z: []:\n    param x: []\n    z = force * x\n\n"
    text += "train pushed(force):\n    minimize pushed(force)\n    using momentum(lr = 0.5, decay = 0.3)\n"
    module = model(text, tmp_path, backend)
    params = module.init(0)
    opt = module.init_opt(params)
    places = [0.0]
    for t in range(6):
        params, opt = module.train_step(params, opt, np.float64(t == 0))
        places.append(float(params["x"]))
    np.testing.assert_allclose(np.diff(places), -0.5 * 0.3 ** np.arange(6), rtol=1e-12)


LOTTERY = np.array([[0.58, 0.02], [0.27, 0.03], [0.02, 0.08]])  # p(w, r): prizes w, tickets that are real or fake


@rows("Q01", "Q03")
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_lottery_has_the_probabilities_of_the_book(backend: str, tmp_path: Path) -> None:
    module = model(Path("probability/tables.dsl"), tmp_path, backend)
    joint = LOTTERY.T
    found = module.forward({}, joint)
    np.testing.assert_allclose(found["p_w"], [0.6, 0.3, 0.1], atol=1e-12)
    np.testing.assert_allclose(found["p_r"], [0.87, 0.13], atol=1e-12)
    for p in (found["p_w"], found["p_r"], *found["r_given_w"].T):
        assert (p >= 0).all() and p.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(found["r_given_w"][:, 2], [0.2, 0.8], atol=1e-12)
    assert np.abs(found["product"] - joint).max() > 0.05  # the two are not independent
    free = module.forward({}, np.outer(found["p_r"], found["p_w"]))
    np.testing.assert_allclose(free["product"], np.outer(found["p_r"], found["p_w"]), atol=1e-12)
    np.testing.assert_allclose(free["r_given_w"], np.tile(found["p_r"][:, None], 3), atol=1e-12)


@rows("Q13", "D15")
def test_means_over_draws_come_near_by_the_root_of_their_number(tmp_path: Path) -> None:
    """Deviations over 100 seeds, of the mean of z^2 (deviation sqrt 2) and of the risk, times the root of the draws."""
    w = np.array([1.0, 0.7, 1.0])
    risk = 0.3**2 + 0.5**2  # E (x w - t)^2, where t = sum x + noise of deviation 0.5: exact
    errors: dict[int, Array] = {}
    for draws in (64, 1024):
        module = model(Path("probability/monte_carlo.dsl"), tmp_path, "numpy", draws=draws)
        found = [module.forward({}, w, seed=seed) for seed in range(100)]
        errors[draws] = np.array([[x["second"] - 1, x["risk"] - risk] for x in found])
        scaled = errors[draws].std(0) * np.sqrt(draws)
        np.testing.assert_allclose(scaled, [np.sqrt(2), np.sqrt(2) * risk], rtol=0.25)
        assert (np.abs(errors[draws].mean(0)) < 4 * errors[draws].std(0) / 10).all()
    assert errors[1024].std(0)[0] == pytest.approx(errors[64].std(0)[0] / 4, rel=0.3)


@rows("Q13", "D15", "Q01")
@pytest.mark.parametrize("backend", ["c", "triton"])
def test_draws_and_their_means_are_the_same_on_all_backends(backend: str, tmp_path: Path) -> None:
    spec, w = Path("probability/monte_carlo.dsl"), np.array([1.0, 0.7])
    usual = model(spec, tmp_path, "numpy", draws=512).forward({}, w, seed=3)
    found = model(spec, tmp_path, backend, draws=512).forward({}, w, seed=3)
    for name, value in usual.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-9)
    assert found["shares"].sum() == pytest.approx(1)
    np.testing.assert_allclose(found["shares"], [0.6, 0.3, 0.1], atol=0.07)


@rows("D23", "D26")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_posterior_on_a_grid_is_the_conjugate_one_in_one_step_or_in_two(backend: str, tmp_path: Path) -> None:
    """A normal prior and a normal likelihood: the posterior of the slope is normal, with a mean in closed form."""
    rng = np.random.default_rng(6)
    x = rng.standard_normal(12)
    y = 0.8 * x + 0.5 * rng.standard_normal(12)
    module = model(Path("probability/bayesian.dsl"), tmp_path, backend, grid=201, draws=200)
    found = module.forward({}, x, y, np.float64(1.5), seed=1)
    np.testing.assert_allclose(found["step_by_step"], found["posterior"], atol=1e-12)
    precision = 1 + (x @ x) / 0.25
    mean = (x @ y) / 0.25 / precision
    slopes = -2 + 4 * np.arange(201) / 201
    density = np.exp(-precision * (slopes - mean) ** 2 / 2)
    np.testing.assert_allclose(found["posterior"], density / density.sum(), atol=1e-9)
    assert found["prediction"] == pytest.approx(1.5 * mean, abs=1e-6)
    spread = 1.5 / np.sqrt(precision)
    assert abs(found["drawn"] - found["prediction"]) < 4 * spread / np.sqrt(200)  # the plain average over draws
    half = module.forward({}, x[:6], y[:6], np.float64(1.5), seed=1)
    assert np.abs(half["posterior"] - found["posterior"]).max() > 1e-3  # the second half has taught it something


@rows("D14")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_table_is_right_on_what_it_stores_and_knows_nothing_else(backend: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    stored, new = rng.standard_normal((2, 20, 3))
    weights = np.array([1.0, -2.0, 0.5])
    module = model(Path("linear/lookup.dsl"), tmp_path, backend)

    def risk(x: Array) -> float:
        found = module.forward({}, x, stored, stored @ weights, np.float64(0.25))
        return float(np.mean((found - x @ weights) ** 2))

    assert risk(stored) == 0 and risk(stored[::-1].copy()) == 0
    unknown = module.forward({}, new, stored, stored @ weights, np.float64(0.25))
    assert (unknown == 0.25).all() and risk(new) > 1


def wave(x: Array) -> Array:
    return np.sinc(x / np.pi)


@rows("U04", "U05")
@pytest.mark.parametrize("bins", [5, 15, 50])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_network_of_bins_is_as_near_as_in_the_book(backend: str, bins: int, tmp_path: Path) -> None:
    """Errors fall as the square of the bins; each has the height that the function has on average there."""
    module = model(Path("approximation/bins.dsl"), tmp_path, backend, m=bins)
    x = (np.arange(8000) + 0.5) / 800
    found = module.forward({}, x)
    np.testing.assert_allclose(found["exact"], wave(x), atol=1e-12)
    edges = np.linspace(0, 10, bins + 1)
    means = [wave(np.linspace(a, b, 2001)).mean() for a, b in itertools.pairwise(edges)]
    inside = np.abs(x[:, None] - edges).min(1) > 1e-2  # away from the jumps, where the steps are not yet flat
    place = np.minimum((x * bins / 10).astype(int), bins - 1)
    np.testing.assert_allclose(found["y"][inside], np.array(means)[place][inside], atol=1e-3)
    assert found["error"] == pytest.approx({5: 0.01479, 15: 0.001747, 50: 0.0001595}[bins], rel=0.01)
    assert module.forward({}, np.zeros(2))["exact"] == pytest.approx(1)  # the limit at 0


#: two units for each bin: a layer from 1 to 2m, the sigmoid, a linear layer from 2m to 1, written from indices alone
AS_LAYERS = """
fn wave(x) = sin(x) / x if x != 0 else 1

model as_layers(x: f64[N], m = 15) -> (y: [N], W: [2 * m], a: [2 * m]):
    size M = m
    W[u: 2 * M] = 10000.0
    edge[u: 2 * M] = 10 / M * (u // 2 + u % 2)
    a[u: 2 * M] = mean[k: 64](wave(10 / M * (u // 2 + (k + 0.5) / 64))) * (1 - 2 * (u % 2))
    h[n, u] = sigmoid(x[n] * W[u] - W[u] * edge[u])
    y[n] = h[n, u] * a[u]
"""


@rows("U04")
@pytest.mark.parametrize("backend", BACKENDS)
def test_bins_are_one_hidden_layer_of_twice_as_many_units(backend: str, tmp_path: Path) -> None:
    x = np.linspace(0.013, 9.987, 300)
    found = model(AS_LAYERS, tmp_path, backend).forward({}, x)
    assert found["W"].shape == found["a"].shape == (30,)
    folder = tmp_path / "bins"
    folder.mkdir()
    np.testing.assert_allclose(found["y"], model(Path("approximation/bins.dsl"), folder).forward({}, x)["y"], atol=1e-9)


@rows("P31")
@pytest.mark.parametrize("backend", BACKENDS)
def test_quotients_of_differences_tend_to_the_derivative(backend: str, tmp_path: Path) -> None:
    """Their error falls with h; at a kink they have a limit from each side, and the derivative lies between them."""
    text = """
fn bent(x: []) -> (z: [2], d: []):
    smooth = exp(sin(x))
    kink = abs(x - 1)
    z[r] = concat[r](smooth, kink)
    d = grad(smooth, x)

fn kinked(x: []) -> d: []:
    z = abs(x - 1)
    d = grad(z, x)

model limits(x: f64[M]) -> (z: [M, 2], d: [M], k: [M]):
    z[m, :], d[m] = bent(x[m])
    k[m] = kinked(x[m])
"""
    module = model(text, tmp_path, backend)
    at = 1.0
    h = np.array([1e-1, 1e-2, 1e-3, 1e-4])
    here, ahead, behind = (module.forward({}, x) for x in (np.full(4, at), at + h, at - h))
    errors = np.abs((ahead["z"][:, 0] - here["z"][:, 0]) / h - here["d"])
    assert here["d"][0] == pytest.approx(np.cos(1) * np.exp(np.sin(1)), rel=1e-12)
    np.testing.assert_allclose(errors[:-1] / errors[1:], 10, rtol=0.1)
    right, left = (ahead["z"][:, 1] - 0) / h, (0 - behind["z"][:, 1]) / h
    np.testing.assert_allclose([right, left], [[1.0] * 4, [-1.0] * 4], atol=1e-9)
    np.testing.assert_array_equal(here["k"], 0)  # the one of docs/language.md
    np.testing.assert_array_equal([ahead["k"], behind["k"]], [[1.0] * 4, [-1.0] * 4])


CLASSIFIER = """
model classifier(x: f64[N, D], W: f64[D, K], b: f64[K]) -> (p: [N, K], mixed: [N, K]):
    p[n, k] = softmax[k](x[n, i] * W[i, k] + b[k])
    mixed[n, k] = cumsum[n](p[n, k])
"""


@rows("L09")
@pytest.mark.parametrize("backend", BACKENDS)
def test_predictions_change_places_with_their_rows(backend: str, tmp_path: Path) -> None:
    """f(P X) = P f(X) for a linear model; a running sum over the rows is no such function."""
    module = model(CLASSIFIER, tmp_path, backend)
    rng = np.random.default_rng(5)
    x, W, b = rng.standard_normal((6, 3)), rng.standard_normal((3, 4)), rng.standard_normal(4)
    order = permutation([3, 0, 5, 1, 4, 2])
    shown(
        lambda f: equivariance(f, x, order),
        lambda x: module.forward({}, np.ascontiguousarray(x), W, b)["p"],
        lambda x: module.forward({}, np.ascontiguousarray(x), W, b)["mixed"],
    )


LOG_LIKELIHOOD = """
model log_likelihood(x: f64[N], mu: f64[], sigma: f64[]) -> (y: [], d_mu: [], d_sigma: []):
    y = sum[n](normal_log_density(x[n], mu, sigma))
    d_mu = grad(y, mu)
    d_sigma = grad(y, sigma)
"""


@rows("Q11")
@pytest.mark.parametrize("backend", BACKENDS)
def test_data_with_one_mean_and_one_variance_have_one_likelihood(backend: str, tmp_path: Path) -> None:
    """The two are sufficient: for all parameters, data that share them have the same density and the same gradients."""
    module = model(LOG_LIKELIHOOD, tmp_path, backend)
    one = np.array([1.0, 2.0, 4.0, 7.0, 6.0])
    z = np.array([0.3, -1.2, 0.4, 2.0, 0.1])
    two = (z - z.mean()) / z.std() * one.std() + one.mean()
    wide = 2 * (two - two.mean()) + two.mean()
    assert np.abs(np.sort(one) - np.sort(two)).max() > 0.3
    for mu, sigma in ((0.0, 1.0), (4.0, 2.0), (-3.0, 0.5)):
        found, same, other = (module.forward({}, x, np.float64(mu), np.float64(sigma)) for x in (one, two, wide))
        for name in ("y", "d_mu", "d_sigma"):
            assert float(same[name]) == pytest.approx(float(found[name]), rel=1e-12, abs=1e-10)
        assert abs(float(other["y"]) - float(found["y"])) > 1


@rows("D02")
def test_a_fit_holds_for_draws_of_the_same_distribution_and_fails_for_those_of_another(tmp_path: Path) -> None:
    """A line fitted to a bent function: the risk on further draws is that of training, far from them it is not."""
    rng = np.random.default_rng(2)
    module = model(LEAST_SQUARES, tmp_path, method="solve")

    def drawn(centre: float) -> tuple[Array, Array]:
        x = centre + 0.3 * rng.standard_normal(400)
        return np.stack([x, np.ones(400)], 1), np.exp(x) + 0.1 * rng.standard_normal(400)

    x, y = drawn(0.0)
    w = module.forward({}, x, y)["w"]
    risks = {c: float(np.mean((drawn_y - drawn_x @ w) ** 2)) for c in (0.0, 1.5) for drawn_x, drawn_y in [drawn(c)]}
    trained = float(module.forward({}, x, y)["variance"])
    assert risks[0.0] == pytest.approx(trained, rel=0.3)
    assert risks[1.5] > 20 * trained


#: one equation, and a loop, a reduction and a product in it: what a backend makes kernels of
ONE_SPEC = """
model one_spec(x: f64[N, D], W: f64[D, K]) -> (y: [N, K], s: [N]):
    y[n, k] = tanh(x[n, i] * W[i, k])
    scan t in 0..3:
        h[t, n] = 0.5 * h[t-1, n] + mean[k](y[n, k]^2)
    start h = 0
    s[n] = h[2, n]
"""


@rows("P24", "B06")
@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_one_spec_has_one_value_by_the_kernels_of_every_backend(dtype: str, tmp_path: Path) -> None:
    """Each backend compiles it to code of its own, fused as it sees fit; values differ by roundings alone."""
    rng = np.random.default_rng(9)
    kind = np.float64 if dtype == "f64" else np.float32
    x, W = rng.standard_normal((33, 17)).astype(kind), rng.standard_normal((17, 21)).astype(kind)
    text = ONE_SPEC if dtype == "f64" else ONE_SPEC.replace("f64", "f32")
    y = np.tanh(x.astype(float) @ W)
    s = 1.75 * (y**2).mean(1)
    bound = 1e-12 if dtype == "f64" else 3e-6
    texts = set()
    for backend in BACKENDS:
        found = model(text, tmp_path, backend, dtype).forward({}, x, W)
        assert found["y"].dtype == kind
        np.testing.assert_allclose(found["y"], y, atol=bound)
        np.testing.assert_allclose(found["s"], s, atol=bound)
        texts.add(compile_text(tmp_path / "row.dsl", backend, dtype=dtype))
    assert len(texts) == len(BACKENDS)

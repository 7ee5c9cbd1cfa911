"""From the checked program to the IR: parameters and their paths, calls, modes, states, draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats
from marks import rows
from programs import evaluate, run, unit

from dslc.builder.build import build, build_train
from dslc.frontend import check_text
from dslc.ir import nodes as ir
from dslc.ops.table import SCALAR_OPS

RNG = np.random.default_rng(11)


def fill(program: Any, **given: Any) -> dict[str, Any]:
    """Random values for all inputs of known shape that are not given."""
    rest = {n: x for n, x in program.inputs.items() if n not in given}
    return {**given, **{n: RNG.standard_normal(x.shape) for n, x in rest.items()}}


# ---- scalar functions -----------------------------------------------------------------------------------

FUNCTIONS: dict[str, Any] = {
    "rsqrt": lambda x: 1 / np.sqrt(x), "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "sigmoid": scipy.special.expit,
    "relu": lambda x: np.maximum(x, 0), "erf": scipy.special.erf, "erfc": scipy.special.erfc,
    "erfinv": scipy.special.erfinv, "lgamma": scipy.special.gammaln, "digamma": scipy.special.digamma,
    "min": np.minimum, "max": np.maximum, "clip": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "pow": np.power,
}  # fmt: skip


@rows("P03")
@pytest.mark.parametrize("name", SCALAR_OPS)
def test_scalar_functions_are_those_of_numpy_and_scipy(name: str) -> None:
    record = SCALAR_OPS[name]
    names = "abc"[: record.arity]
    values = {n: RNG.uniform(1.1, 3, 5) if name == "acosh" else RNG.uniform(0.05, 0.95, 5) for n in names}
    result = "bool[N]" if record.gives == "bool" else "[N]"
    arguments = ", ".join(f"{n}: f64[N]" for n in names)
    text = f"fn f({arguments}) -> y: {result}:\n    y[n] = {name}({', '.join(f'{n}[n]' for n in names)})\n"
    oracle = FUNCTIONS.get(name) or getattr(np, name)
    np.testing.assert_allclose(run(text, **values), oracle(*values.values()), rtol=1e-12)


@pytest.mark.parametrize(("formula", "expected"), [
    ("7 // 2 + 7 % 4", 6), ("(0 - 7) // 2", -4), ("(0 - 7) % 4", 1), ("1 / 2", 0.5), ("-2^2", -4), ("2^-1", 0.5),
    ("round(0.5) + round(1.5)", 2), ("float(i32(round(2.6)))", 3), ("pi", np.pi), ("1 if inf > 3 else 2", 1),
    ("float(true) + float(2 > 3)", 1),
])  # fmt: skip
def test_arithmetic(formula: str, expected: float) -> None:
    assert float(run(f"fn f(x: f64[]) -> y: []:\n    y = {formula} + 0 * x\n", x=1.0)) == pytest.approx(expected)


# ---- parameters and their paths -------------------------------------------------------------------------


def test_each_call_makes_new_parameters() -> None:
    program = unit("model m(x: f64[N, 3]) -> y: [N, 2]:\n    y = x |> dense(4) |> tanh |> dense(2)\n")
    assert {n: x.shape for n, x in program.inputs.items() if x.role == "param"} == {
        "dense.W": (3, 4), "dense.b": (4,), "dense2.W": (4, 2), "dense2.b": (2,),
    }  # fmt: skip
    v = fill(program, x=RNG.standard_normal((5, 3)))
    expected = np.tanh(v["x"] @ v["dense.W"] + v["dense.b"]) @ v["dense2.W"] + v["dense2.b"]
    np.testing.assert_allclose(evaluate(program, v)["y"], expected)


TWINS = """
model twins(a: f64[N, 4], b: f64[N, 4]) -> (u: [N, 3], v: [N, 3], code: [N, 3]):
    use look = dense(3)
    use fixed = frozen dense(4)
    u = a |> fixed |> look
    v = b |> fixed |> look
    code[n, k] = a[n, i] * look.W[i, k]
"""


@rows("A09")
def test_use_shares_and_ties_and_freezes() -> None:
    program = unit(TWINS)
    assert list(program.params) == ["fixed.W", "fixed.b", "look.W", "look.b"]
    assert program.frozen == {"fixed.W", "fixed.b"}
    v = fill(program, a=RNG.standard_normal((2, 4)), b=RNG.standard_normal((2, 4)))
    found = evaluate(program, v)
    for name, x in (("u", v["a"]), ("v", v["b"])):
        expected = (x @ v["fixed.W"] + v["fixed.b"]) @ v["look.W"] + v["look.b"]
        np.testing.assert_allclose(found[name], expected)
    np.testing.assert_allclose(found["code"], v["a"] @ v["look.W"])


def test_for_has_parameters_for_each_pass_and_if_only_those_of_its_branch() -> None:
    text = """
model m(x: f64[N, 8], depth = 3, kind = "smooth") -> y: [N, 1]:
    h = x
    for l in 0..depth:
        h = dense(h, 8 // 2^(l + 1))
        if kind == "smooth":
            h = tanh(h)
        elif l < depth - 1:
            h = h + dense(h, 8 // 2^(l + 1))
    y = h
"""
    plain = unit(text)
    assert [n for n in plain.params if n.endswith("W")] == ["dense.0.W", "dense.1.W", "dense.2.W"]
    v = fill(plain, x=RNG.standard_normal((2, 8)))
    h = v["x"]
    for k in range(3):
        h = np.tanh(h @ v[f"dense.{k}.W"] + v[f"dense.{k}.b"])
    np.testing.assert_allclose(evaluate(plain, v)["y"], h)
    other = unit(text, kind="rough")
    names = ["dense.0.W", "dense2.0.W", "dense.1.W", "dense2.1.W", "dense.2.W"]
    assert [n for n in other.params if n.endswith("W")] == names


def test_layers_as_arguments_and_mapping_over_indices() -> None:
    text = """
layer twice(x: [T, E], mixer: layer, act: fn) -> y: [T, E]:
    y = act(mixer(x)) + x

model m(x: f64[N, T, 3]) -> y: [N, T, 3]:
    use both = twice(mixer = dense(3), act = tanh)
    y[n, :, :] = both(x[n, :, :])
"""
    program = unit(text)
    v = fill(program, x=RNG.standard_normal((2, 4, 3)))
    weight, bias = (next(v[n] for n in program.params if n.endswith(end)) for end in ("W", "b"))
    np.testing.assert_allclose(evaluate(program, v)["y"], np.tanh(v["x"] @ weight + bias) + v["x"])


def test_expose_adds_outputs() -> None:
    program = unit("model m(x: f64[N, 3]) -> y: [N]:\n    h = exp(x)\n    y[n] = sum[k](h[n, k])\n    expose h\n")
    x = RNG.standard_normal((2, 3))
    found = evaluate(program, {"x": x})
    np.testing.assert_allclose(found["h"], np.exp(x))
    assert set(found) == {"h", "y"}


def test_checkpoint_changes_no_value() -> None:
    text = "model m(x: f64[N, 3]) -> y: [N, 3]:\n    h = x\n{}    y = h\n"
    plain = unit(text.format("    h = tanh(dense(h, 3))\n"))
    kept = unit(text.format("    checkpoint:\n        h = tanh(dense(h, 3))\n"))
    v = fill(plain, x=RNG.standard_normal((2, 3)))
    np.testing.assert_array_equal(evaluate(plain, v)["y"], evaluate(kept, v)["y"])


# ---- modes and states -----------------------------------------------------------------------------------

CENTRED = """
layer centred(x: [N, C], keep = 0.9) -> y: [N, C]:
    state centre: [C] = 0
    training:
        mu[c] = mean[n](x[n, c])
        centre <- keep * centre + (1 - keep) * mu
    inference:
        mu = centre
    y[n, c] = x[n, c] - mu[c]
"""


def test_training_updates_a_state_that_inference_uses() -> None:
    text = CENTRED + "\nmodel m(x: f64[N, 3]) -> y: [N, 3]:\n    y = centred(x)\n"
    x, centre = RNG.standard_normal((4, 3)), RNG.standard_normal(3)
    values = {"x": x, "centred.centre": centre}
    training, inference = unit(text, "training"), unit(text, "inference")
    found = evaluate(training, values)
    np.testing.assert_allclose(found["y"], x - x.mean(0))
    np.testing.assert_allclose(found["centred.centre"], 0.9 * centre + 0.1 * x.mean(0))
    assert not inference.updates
    np.testing.assert_allclose(evaluate(inference, values)["y"], x - centre)


def test_a_shared_layer_goes_on_from_its_last_state() -> None:
    text = (
        CENTRED
        + """
model m(x: f64[N, 3], z: f64[N, 3]) -> (a: [N, 3], b: [N, 3]):
    use c = centred()
    a = c(x)
    b = c(z)
"""
    )
    x, z, centre = RNG.standard_normal((4, 3)), RNG.standard_normal((4, 3)), RNG.standard_normal(3)
    found = evaluate(unit(text, "training"), {"x": x, "z": z, "c.centre": centre})
    expected = 0.9 * (0.9 * centre + 0.1 * x.mean(0)) + 0.1 * z.mean(0)
    np.testing.assert_allclose(found["c.centre"], expected)


def test_a_training_has_loss_and_metrics() -> None:
    text = """
model m(x: f64[N, 3]) -> y: [N]:
    h = dense(x, 1)
    y = h[:, 0]

train m(x, target: f64[N]):
    y = m(x)
    maximize -mean_squared_error(y, target)
    metric worst = max[n](abs(y[n] - target[n]))
    using sgd(lr = 0.1)
"""
    checked = check_text(text)
    assert checked.program is not None
    program = build_train(checked.program.trains[0])
    v = fill(program, x=RNG.standard_normal((5, 3)), target=RNG.standard_normal(5))
    error = (v["x"] @ v["dense.W"] + v["dense.b"])[:, 0] - v["target"]
    found = evaluate(program, v)
    np.testing.assert_allclose(found["loss"], (error**2).mean())
    np.testing.assert_allclose(found["worst"], abs(error).max())
    assert build(checked.program.models["m"]).outputs.keys() == {"y"}


# ---- draws ----------------------------------------------------------------------------------------------

DRAWS = """
model m(x: f64[N, K]) -> (a: [N, K], b: [N, K], u: [N, K], c: [N, K], r: i64[N, K], g: [N, K]):
    a[n, k] = x[n, k] * 0 + normal[n, k](1, 2)
    b[n, k] = x[n, k] * 0 + normal[n, k](1, 2)
    u[n, k] = x[n, k] * 0 + uniform[n, k](-1, 3)
    c[n, k] = x[n, k] * 0 + bernoulli[n, k](0.3)
    r[n, k] = randint[n, k](2, 7)
    g[n, k] = x[n, k] * 0 + gumbel[n, k]()
"""


@rows("N05")
def test_draws_have_their_distributions() -> None:
    found = evaluate(unit(DRAWS), {"x": np.zeros((200, 50))})
    flat = {n: v.ravel() for n, v in found.items()}
    assert scipy.stats.kstest(flat["a"], scipy.stats.norm(1, 2).cdf).pvalue > 0.01
    assert scipy.stats.kstest(flat["u"], scipy.stats.uniform(-1, 4).cdf).pvalue > 0.01
    assert scipy.stats.kstest(flat["g"], scipy.stats.gumbel_r.cdf).pvalue > 0.01
    assert set(np.unique(flat["c"])) == {0, 1}
    assert abs(flat["c"].mean() - 0.3) < 0.02
    counts = np.bincount(flat["r"], minlength=7)
    assert counts[:2].sum() == 0
    assert scipy.stats.chisquare(counts[2:]).pvalue > 0.01
    assert abs(np.corrcoef(flat["a"], flat["b"])[0, 1]) < 0.05


@rows("N05")
def test_draws_depend_on_the_seed_and_on_nothing_else() -> None:
    x = np.zeros((3, 4))
    first, again = (evaluate(unit(DRAWS), {"x": x}, seed=5) for _ in range(2))
    other = evaluate(unit(DRAWS), {"x": x}, seed=6)
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
    assert not np.array_equal(first["a"], other["a"])


def test_an_absent_index_shares_its_draw() -> None:
    y = run("fn f(x: f64[N, K]) -> y: [N, K]:\n    y[n, k] = x[n, k] + normal[k]()\n", x=np.zeros((3, 4)))
    np.testing.assert_array_equal(y, np.broadcast_to(y[0], (3, 4)))
    assert len(np.unique(y)) == 4


NOISE = "noise(x: [N]) -> y: [N]:\n    y[n] = x[n] + normal[n]()\n\nmodel m(x: f64[N]) -> (a: [N], b: [N]):\n"


@pytest.mark.parametrize("text", [
    f"fn {NOISE}    a = noise(x)\n    b = noise(x)\n",
    f"layer {NOISE}    a = noise(x)\n    b = noise(x)\n",
    f"layer {NOISE}    use z = noise()\n    a = z(x)\n    b = z(x)\n",
    f"layer {NOISE}    h = x\n    a = 0 * x\n    for l in 0..2:\n        b = a\n        a = noise(x)\n",
], ids=["fn", "layer", "use", "for"])  # fmt: skip
def test_two_calls_draw_differently(text: str) -> None:
    found = evaluate(unit(text), {"x": np.zeros(4)})
    assert not np.any(found["a"] == found["b"])


def test_steps_and_mapped_elements_draw_differently() -> None:
    steps = run(
        "fn f(x: f64[T]) -> y: [T]:\n    scan t:\n        y[t] = 0 * y[t-1] + x[t] + normal[]()\n    start y = 0\n",
        x=np.zeros(5),
    )
    assert len(np.unique(steps)) == 5
    mapped = run(
        "fn g(x: []) -> y: []:\n    y = x + normal[]()\n\nfn f(x: f64[N]) -> y: [N]:\n    y[n] = g(x[n])\n",
        x=np.zeros(5),
    )
    assert len(np.unique(mapped)) == 5


def test_one_draw_is_one_value_wherever_it_is_used() -> None:
    """The argument of softmax is used inside and outside of a sum: the noise must be the same."""
    y = run(
        "fn f(x: f64[N, K]) -> y: [N, K]:\n    y[n, k] = softmax[k](x[n, k] + gumbel[n, k]())\n", x=np.zeros((3, 4))
    )
    np.testing.assert_allclose(y.sum(1), 1)


# ---- how places and groups are built --------------------------------------------------------------------


def test_a_pooling_window_over_an_odd_axis_is_no_group() -> None:
    text = "fn f(x: f64[7]) -> y: [3]:\n    y[p] = max[a: 2](x[2*p + a])\n"
    assert not any(isinstance(n, ir.Reshape) for n in ir.schedule(tuple(unit(text).outputs.values())))
    assert run(text, x=np.arange(7.0)).tolist() == [1, 3, 5]


def test_a_group_is_a_reshape() -> None:
    text = "fn f(x: f64[6]) -> y: [2, 3]:\n    y[a, b] = x[(a b)] where a = 2\n"
    assert any(isinstance(n, ir.Reshape) for n in ir.schedule(tuple(unit(text).outputs.values())))


def test_equal_expressions_are_one_node() -> None:
    program = unit("fn f(x: f64[N]) -> (a: [N], b: [N]):\n    a[n] = exp(x[n]) + 1\n    b[n] = exp(x[n]) + 1\n")
    assert program.outputs["a"] is program.outputs["b"]

"""What rules may not do: hide a NaN, change what is right already, break what is shared, go on for ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.linalg
from marks import rows
from programs import evaluate, unit
from spelling_table import SPELLINGS
from spellings import Spelling, compiled, run

from dslc.autodiff.reverse import gradients, ones
from dslc.builder.build import build_train
from dslc.frontend import check_file
from dslc.ir import nodes as ir
from dslc.meaning.interpret import Interpreter
from dslc.stabilise.rewriter import Fired, stabilise

SPECS = Path(__file__).parents[2] / "specs"


def with_one(point: tuple[Any, ...], value: float) -> list[tuple[Any, ...]]:
    """The point with each of its numbers replaced in turn."""
    found: list[tuple[Any, ...]] = []
    for k, p in enumerate(point):
        if isinstance(p, tuple):
            found += [(*point[:k], (*p[:i], value, *p[i + 1 :]), *point[k + 1 :]) for i in range(len(p))]
        else:
            found.append((*point[:k], value, *point[k + 1 :]))
    return found


def tame_point(spelling: Spelling) -> tuple[Any, ...]:
    """A point at which the formula is finite as it stands."""
    plain = compiled(spelling.text(), stable=False)
    return next(p for p in reversed(spelling.points) if np.isfinite(run(plain, p)[0]))


@pytest.mark.parametrize("spelling", SPELLINGS, ids=str)
def test_a_nan_stays_a_nan(spelling: Spelling) -> None:
    stable, plain = compiled(spelling.text()), compiled(spelling.text(), stable=False)
    for point in with_one(tame_point(spelling), np.nan):
        expected = run(plain, point)[0]
        assert np.isnan(run(stable, point)[0]) == np.isnan(expected), point


@pytest.mark.parametrize("spelling", SPELLINGS, ids=str)
def test_an_infinity_that_was_right_stays_right(spelling: Spelling) -> None:
    stable, plain = compiled(spelling.text()), compiled(spelling.text(), stable=False)
    base = tame_point(spelling)
    for point in (*with_one(base, np.inf), *with_one(base, -np.inf)):
        expected = run(plain, point)[0]
        if spelling.formula == "log(x / y)" and -np.inf in point:
            continue  # x / -inf is -0, whose logarithm NumPy takes as that of 0
        if not np.isnan(expected):
            np.testing.assert_allclose(run(stable, point)[0], expected, rtol=1e-6, err_msg=str(point))


@pytest.mark.parametrize("spelling", SPELLINGS, ids=str)
def test_what_is_stable_stays_the_same_object(spelling: Spelling) -> None:
    program = compiled(spelling.text())
    outputs = {"r": program.value} | {str(k): g for k, g in enumerate(program.slopes)}
    fired: list[Fired] = []
    again = stabilise(outputs, fired)
    assert fired == []
    assert all(again[name] is x for name, x in outputs.items())


@pytest.mark.parametrize("text", [
    "p[k] = exp(x[k] - max[j](x[j])) / sum[i](exp(x[i] - max[j](x[j])))\np[0]",
    "m = max[j](x[j])\ne[k] = exp(x[k] - m)\np[k] = e[k] / sum[j](e[j])\np[0]",
    "m = max[j](x[j])\nm + log(sum[k](exp(x[k] - m)))",
    "sqrt(sum[k](x[k]^2) + 1)",
    "log(2 * x[0])",
    "x[0] / sum[k](abs(x[k]))",
    "mean[k]((x[k] - mean[j](x[j]))^2)",
    "log(max(x[0], 1e-9))",
])  # fmt: skip
def test_what_is_stable_already_is_left_alone(text: str) -> None:
    spelling = Spelling(text, lambda x: x, (((1.0, 2.0, 3.0),),), (), vector=True)
    assert compiled(spelling.text()).fired == []


@pytest.mark.parametrize(("formula", "point", "expected"), [
    ("relu(x)", 0.0, 0.0),
    ("max(x, 0)", 0.0, 0.5),
    ("abs(x)", 0.0, 0.0),
    ("sqrt(x * x)", 0.0, 0.0),
    ("sqrt(x^2 + x^2)", 0.0, 0.0),
    ("log(exp(x) + exp(2 * x))", 0.0, 1.5),
    ("exp(x) / (exp(x) + exp(-x))", 0.0, 0.5),
])  # fmt: skip
def test_derivatives_at_kinks_and_ties_do_not_change(formula: str, point: float, expected: float) -> None:
    spelling = Spelling(formula, lambda x: x, ((point,),), ())
    assert float(run(compiled(spelling.text()), (point,))[1][0]) == expected


def test_second_derivatives_at_a_tie_are_right() -> None:
    text = "fn f(x: f64[], y: f64[]) -> r: []:\n    d = grad(log(exp(x) + exp(y)), x)\n    r = grad(d, x)\n"
    assert float(evaluate(unit(text), {"x": 1.5, "y": 1.5})["r"]) == 0.25


# ---- rows without an entry --------------------------------------------------------------------------

MASKED = "fn f(x: f64[N, K], keep: bool[N, K]) -> r: [N, K]:\n    {}\n"


@rows("11.04")
@pytest.mark.parametrize("body", [
    "r[n, k] = softmax[k](x[n, k] if keep[n, k] else -inf)",
    "z[n, k] = x[n, k] if keep[n, k] else -inf\n    r[n, k] = exp(z[n, k]) / sum[j](exp(z[n, j]))",
    "e[n, k] = exp(x[n, k]) if keep[n, k] else 0\n    r[n, k] = e[n, k] / sum[j](e[n, j])",
    "r[n, k] = exp(log_softmax[k](x[n, k] if keep[n, k] else -inf))",
])  # fmt: skip
def test_a_fully_masked_row_has_weights_0_and_gradients_0(body: str) -> None:
    program = unit(MASKED.format(body))
    out = stabilise(program.outputs)["r"]
    (slope,) = gradients({out: ones(out.shape)}, [program.inputs["x"]])
    again = stabilise({"r": out, "dx": slope})
    x = np.array([[1.0, 2.0, 1e4], [1.0, 2.0, 3.0]])
    keep = np.array([[False, False, False], [True, True, False]])
    found = evaluate(program, {"x": x, "keep": keep}, again)
    assert found["r"][0].tolist() == [0, 0, 0]
    assert found["dx"][0].tolist() == [0, 0, 0]
    np.testing.assert_allclose(found["r"][1], [*scipy.special.softmax([1.0, 2.0]), 0], rtol=1e-15)


def test_the_logarithm_of_an_empty_sum_is_minus_infinity_with_gradient_0() -> None:
    program = compiled("fn f(x: f64[K]) -> r: []:\n    r = log(sum[k](exp(x[k])))\n")
    value, (slope,) = run(program, ((-np.inf, -np.inf),))
    assert value == -np.inf
    assert slope.tolist() == [0, 0]


def test_an_exponential_over_an_empty_sum_of_others_is_infinite() -> None:
    program = compiled("fn f(x: f64[], y: f64[K]) -> r: []:\n    r = exp(x) / sum[k](exp(y[k]))\n")
    assert run(program, (1.0, (-np.inf, -np.inf)))[0] == np.inf


def test_a_source_of_length_0_gives_finite_logits_and_gradients() -> None:
    checked = check_file(SPECS / "transformer" / "encoder_decoder.dsl", {"width": 8, "depth": 1, "heads": 2})
    assert checked.program is not None
    program = build_train(checked.program.trains[0], "inference")
    outputs = stabilise(program.outputs)
    trained = [program.inputs[q] for q in program.params if q in program.inputs]
    found = gradients({outputs["loss"]: ones(())}, trained)
    both = stabilise({"loss": outputs["loss"]} | {str(k): g for k, g in enumerate(found)})
    rng = np.random.default_rng(0)
    sizes = {"N": 2, "S": 3, "T": 4}
    values: dict[str, Any] = {}
    for name, node in program.inputs.items():
        shape = tuple(sizes[str(s)] if not isinstance(s, int) else s for s in node.shape)
        values[name] = rng.normal(size=shape) if node.role == "param" else rng.integers(0, 50, shape)
    values["length"] = np.array([0, 2])
    result = Interpreter(values, sizes).run(both)
    assert all(np.isfinite(x).all() for x in result.values())


# ---- sums into places -------------------------------------------------------------------------------

SEGMENTS = "fn f(x: f64[M], s: i32[M] < V, z: f64[V]) -> r: [M]:\n    {}\n"


@pytest.mark.parametrize("body", [
    "total[s[m]: V] += exp(x[m])\n    r[m] = exp(x[m]) / total[s[m]]",
    "e[m] = exp(x[m])\n    total[s[m]: V] += e[m]\n    r[m] = e[m] / total[s[m]]",
])  # fmt: skip
def test_a_softmax_over_segments_is_stable(body: str) -> None:
    program = unit(SEGMENTS.format(body))
    fired: list[Fired] = []
    out = stabilise(program.outputs, fired)["r"]
    assert [f.rule for f in fired] == ["softmax"]
    (slope,) = gradients({out: ir.comp(out.shape, ir.op("cast", (ir.var(0),), "float"))}, [program.inputs["x"]])
    x, s = np.array([1e4, 9999.0, -1e4, 3.0, -9999.0]), np.array([0, 0, 2, 0, 2])
    found = evaluate(program, {"x": x, "s": s, "z": np.zeros(3)}, stabilise({"r": out, "dx": slope}))
    near, far = scipy.special.softmax([1e4, 9999.0, 3.0]), scipy.special.softmax([-1.0, 0.0])
    np.testing.assert_allclose(found["r"], [near[0], near[1], far[0], near[2], far[1]], rtol=1e-12)
    assert np.isfinite(found["dx"]).all()
    np.testing.assert_allclose(found["dx"].sum(), 0, atol=1e-12)


def test_a_shifted_softmax_over_segments_is_left_alone() -> None:
    body = (
        "top[s[m]: V] max= x[m]\n    e[m] = exp(x[m] - top[s[m]])\n    total[s[m]: V] += e[m]\n"
        "    r[m] = e[m] / total[s[m]]"
    )
    fired: list[Fired] = []
    stabilise(unit(SEGMENTS.format(body)).outputs, fired)
    assert fired == []


# ---- matrices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shapes", "body", "meaning"), [
    ("b: f64[I]", "r[i] = B[i, j] * b[j]", lambda a, b: scipy.linalg.solve(a, b)),
    ("b: f64[I]", "r[i] = b[j] * B[j, i]", lambda a, b: scipy.linalg.solve(a.T, b)),
    ("b: f64[I, K]", "r[i, k] = B[i, j] * b[j, k]", lambda a, b: scipy.linalg.solve(a, b)),
    ("b: f64[K, I]", "r[k, i] = B[i, j] * b[k, j]", lambda a, b: scipy.linalg.solve(a, b.T).T),
    ("b: f64[I]", "r[i] = B[i, j] * (2 * b[j] + 1)", lambda a, b: scipy.linalg.solve(a, 2 * b + 1)),
])  # fmt: skip
def test_an_inverse_times_something_is_a_solution(shapes: str, body: str, meaning: Any) -> None:
    rank = body.split("=")[0].count(",") + 1
    result = "[I]" if rank == 1 else "[K, I]" if body.startswith("r[k") else "[I, K]"
    program = unit(f"fn f(A: f64[I, I], {shapes}) -> r: {result}:\n    B = inv(A)\n    {body}\n")
    fired: list[Fired] = []
    out = stabilise(program.outputs, fired)
    assert [f.rule for f in fired] == ["solve_for_inverse"]
    assert not any(isinstance(x, ir.External) and x.op == "inv" for x in ir.schedule(tuple(out.values())))
    a = np.array([[1 / (i + 2 * j + 1) for j in range(4)] for i in range(4)])
    b = np.arange(1.0, 5.0) if rank == 1 else np.arange(12.0).reshape((3, 4) if body.startswith("r[k") else (4, 3))
    np.testing.assert_allclose(evaluate(program, {"A": a, "b": b}, out)["r"], meaning(a, b), rtol=1e-9)


def residual() -> float:
    """How well inv(A) b solves A x = b for an ill-conditioned matrix, relative to rounding."""
    program = unit("fn f(A: f64[I, I], b: f64[I]) -> r: [I]:\n    B = inv(A)\n    r[i] = B[i, j] * b[j]\n")
    a = scipy.linalg.hilbert(9)
    b = np.ones(9)
    x = evaluate(program, {"A": a, "b": b}, stabilise(program.outputs))["r"]
    return float(np.abs(a @ x - b).max() / (np.abs(a).max() * np.abs(x).max()))


def test_a_solution_has_a_small_residual() -> None:
    assert residual() < 1e-15


def test_the_inverse_of_several_matrices_is_solved_for_each() -> None:
    body = "B[n, :, :] = inv(A[n, :, :])\n    r[n, i] = B[n, i, j] * b[n, j]"
    program = unit(f"fn f(A: f64[N, I, I], b: f64[N, I]) -> r: [N, I]:\n    {body}\n")
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(3, 4, 4)), rng.normal(size=(3, 4))
    fired: list[Fired] = []
    found = evaluate(program, {"A": a, "b": b}, stabilise(program.outputs, fired))["r"]
    assert [f.rule for f in fired] == ["solve_for_inverse"]
    np.testing.assert_allclose(found, np.stack([np.linalg.solve(p, q) for p, q in zip(a, b, strict=True)]), rtol=1e-9)


@pytest.mark.parametrize(("formula", "matrix", "expected"), [
    ("log(det(A))", np.diag([1e-200, 1e-200, 3.0]), float(mp.log(mp.mpf("3e-400")))),
    ("d = det(A)\n    r = log(d)", np.diag([1e200, 1e200, 3.0]), float(mp.log(mp.mpf("3e400")))),
    ("log(det(A))", np.diag([2.0, -3.0, 5.0]), float("nan")),
    ("log(abs(det(A)))", np.diag([1e-200, -1e-200, 3.0]), float(mp.log(mp.mpf("3e-400")))),
])  # fmt: skip
def test_the_logarithm_of_a_determinant_does_not_overflow(formula: str, matrix: Any, expected: float) -> None:
    body = formula if "r =" in formula else f"r = {formula}"
    program = unit(f"fn f(A: f64[I, I]) -> r: []:\n    {body}\n")
    out = stabilise(program.outputs)
    np.testing.assert_allclose(evaluate(program, {"A": matrix}, out)["r"], expected, rtol=1e-14)


# ---- what is recorded -------------------------------------------------------------------------------


def test_rules_say_where_they_were_used() -> None:
    text = "fn f(x: f64[K]) -> r: [K]:\n    e[k] = exp(x[k])\n    r[k] = e[k] / sum[j](e[j])\n"
    fired: list[Fired] = []
    with ir.compilation():
        stabilise(unit(text).outputs, fired)
    assert [(f.rule, f.span.line) for f in fired] == [("softmax", 3)]
    assert "exp(z - m)" in fired[0].meaning


def test_a_derivative_inside_a_spec_is_taken_of_the_stable_form() -> None:
    text = (
        "fn f(x: f64[K]) -> r: [K] where K > 2:\n    p[k] = exp(x[k]) / sum[j](exp(x[j]))\n"
        "    loss = -log(p[0])\n    r = grad(loss, x)\n"
    )
    assert evaluate(unit(text), {"x": np.array([-1e4, 1e4, 0.0])})["r"].tolist() == [-1, 1, 0]
    named = text.replace("grad(loss, x)", "grad(loss, p)")
    share = scipy.special.softmax([1.0, 2.0, 3.0])[0]
    np.testing.assert_allclose(
        evaluate(unit(named), {"x": np.array([1.0, 2.0, 3.0])})["r"], [-1 / share, 0, 0], rtol=1e-14
    )

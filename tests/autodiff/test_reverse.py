"""Properties of gradients: NaN-safe selects, gathers instead of scatters, repeated places, agreement with torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from marks import rows
from programs import check_gradient, evaluate, unit

from dslc.autodiff.derivatives import derivative
from dslc.autodiff.reverse import NoDerivative, gradients, ones, zeros
from dslc.builder.build import Unit
from dslc.ir import nodes as ir
from dslc.passes.verify import verify

torch.set_num_threads(1)


def all_nodes(roots: list[ir.Tensor]) -> list[ir.Node]:
    """What the roots need, that of the steps of scans too."""
    order = ir.schedule(tuple(roots))
    for node in order:
        if isinstance(node, ir.Scan):
            order += [x for x in ir.inside(node)[0] if x not in order]
    return order


def pulled_back(program: Unit, output: str = "") -> tuple[dict[str, ir.Tensor], ir.Input]:
    """The adjoints of all float inputs, for a cotangent of one output that is an input called `seed`."""
    y = program.outputs[output] if output else next(iter(program.outputs.values()))
    seed = ir.intern(ir.Input("seed", "input", "f64", y.shape))
    wrt = {n: x for n, x in program.inputs.items() if x.dtype not in ("i32", "i64", "bool")}
    found = dict(zip(wrt, gradients({y: seed}, list(wrt.values())), strict=True))
    verify(found.values())
    return found, seed


def same_as_torch(
    program: Unit, function: Callable[..., Any], values: dict[str, Any], output: str = "", symmetric: bool = False
) -> None:
    """Adjoints for a random cotangent equal those of torch."""
    found, _ = pulled_back(program, output)
    tensors = {n: torch.tensor(np.asarray(v), requires_grad=n in found) for n, v in values.items()}
    y = function(*tensors.values())
    seed = np.random.default_rng(3).standard_normal(tuple(y.shape))
    mine = evaluate(program, {**values, "seed": seed}, found)
    y.backward(torch.tensor(seed))
    for name, value in mine.items():
        expected = tensors[name].grad.numpy()
        if symmetric:
            expected = (expected + expected.swapaxes(-1, -2)) / 2
        np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-10, err_msg=name)


RNG = np.random.default_rng(5)

# ---- selects --------------------------------------------------------------------------------------------

UNSAFE = [
    ("sqrt(x)", 0.0),
    ("sqrt(x)", -1.0),
    ("log(x)", 0.0),
    ("log(x) * x", 0.0),
    ("1 / x", 0.0),
    ("x / x", 0.0),
    ("x^-1", 0.0),
    ("x^0.5", 0.0),
    ("x^x", 0.0),
    ("rsqrt(x)", 0.0),
    ("asin(1 + x)", 0.0),
    ("acosh(1 + x)", 0.0),
    ("atanh(x + 1)", 0.0),
    ("exp(1 / x)", 0.0),
    ("exp(1000 - x)", 0.0),
    ("tan(x) / sin(x)", 0.0),
    ("lgamma(x)", 0.0),
    ("atan2(x, x)", 0.0),
    ("sqrt(abs(x))", 0.0),
]


@pytest.mark.parametrize(("formula", "point"), UNSAFE)
@pytest.mark.parametrize("style", ["one line", "named branch", "named argument", "reduced"])
def test_a_branch_not_taken_contributes_exactly_0(formula: str, point: float, style: str) -> None:
    body = {
        "one line": f"    y[n] = {formula.replace('x', 'x[n]')} if x[n] > 0 else 3 * x[n]\n".replace("ex[n]p", "exp"),
        "named branch": f"    s = {formula}\n    y[n] = s[n] if x[n] > 0 else 3 * x[n]\n",
        "named argument": f"    z = x * 2\n    s = {formula.replace('x', 'z')}\n".replace("ezp", "exp")
        + "    y[n] = s[n] * 0.5 if x[n] > 0 else 3 * x[n]\n",
        "reduced": f"    s = {formula}\n    m[n, k: 2] = s[n] * (k + 1) if x[n] > 0 else x[n]\n"
        + "    y[n] = sum[k](m[n, k])\n",
    }[style]
    program = unit(f"fn f(x: f64[N]) -> y: [N]:\n{body}")
    found, _ = pulled_back(program)
    slope = 2 if style == "reduced" else 3
    with np.errstate(all="ignore"):
        values = {"x": np.array([point, -2.0]), "seed": np.array([1.0, 10.0])}
        assert evaluate(program, values, found)["x"].tolist() == [slope, 10 * slope]


def test_a_safe_select_is_safe_to_second_order() -> None:
    program = unit("fn f(x: f64[]) -> y: []:\n    y = sqrt(x) if x > 0 else x^2\n")
    (first,) = gradients({program.outputs["y"]: ones(())}, [program.inputs["x"]])
    (second,) = gradients({first: ones(())}, [program.inputs["x"]])
    assert float(evaluate(program, {"x": 0.0}, {"d": second})["d"]) == 2
    np.testing.assert_allclose(evaluate(program, {"x": 4.0}, {"d": second})["d"], -1 / 32)


def test_a_masked_softmax_has_no_nan() -> None:
    text = """
fn f(x: f64[N, K]) -> y: [N, K]:
    score[n, k] = x[n, k] if k <= n else -inf
    y[n, k] = softmax[k](score[n, k])
"""
    x = RNG.standard_normal((3, 3))
    same_as_torch(
        unit(text), lambda x: torch.softmax(torch.where(torch.tril(torch.ones(3, 3)) > 0, x, -torch.inf), 1), {"x": x}
    )


# ---- places ---------------------------------------------------------------------------------------------


@rows("7.31", "7.17")
@pytest.mark.parametrize(("stride", "pad"), [(1, 0), (2, 1), (3, 2)])
@pytest.mark.parametrize("size", [7, 8])
def test_strided_convolution_adjoint_is_a_gather_and_equals_that_of_torch(stride: int, pad: int, size: int) -> None:
    text = f"""
fn f(
    x: f64[N, H, W, C], K: f64[3, 3, C, O]
) -> y: [N, (H + {2 * pad - 3}) // {stride} + 1, (W + {2 * pad - 3}) // {stride} + 1, O] where H >= 3, W >= 3:
    y[n, p, q, o] = (x[n, {stride}*p + a - {pad}, {stride}*q + b - {pad}, c] else 0) * K[a, b, c, o]
"""
    program = unit(text)
    found, _ = pulled_back(program)
    assert not any(isinstance(node, ir.Scatter) for node in all_nodes(list(found.values())))

    def conv(x: Any, K: Any) -> Any:
        y = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), K.permute(3, 2, 0, 1), stride=stride, padding=pad)
        return y.permute(0, 2, 3, 1)

    values = {"x": RNG.standard_normal((2, size, 7, 2)), "K": RNG.standard_normal((3, 3, 2, 2))}
    same_as_torch(program, conv, values)


@rows("7.31")
@pytest.mark.parametrize(("stride", "pad"), [(2, 1), (3, 0)])
def test_the_gradient_of_a_gradient_of_a_strided_convolution_is_a_gather(stride: int, pad: int) -> None:
    text = f"""
fn f(x: f64[N, T, C], K: f64[4, O, C]) -> y: [N, {stride}*T + {4 - stride - 2 * pad}, O]:
    longer[n: N, p: {stride}*T + {4 - stride - 2 * pad}, o: O] = 0.0
    h[n, t: T, c] = (longer[n, {stride}*t + a - {pad}, o] else 0) * K[a, o, c]
    y = vjp(h, longer, x)
"""
    program = unit(text)
    found, _ = pulled_back(program)
    assert not any(isinstance(node, ir.Scatter) for node in all_nodes(list(found.values())))

    def conv(x: Any, K: Any) -> Any:
        y = torch.nn.functional.conv_transpose1d(x.mT, K.permute(2, 1, 0), stride=stride, padding=pad)
        return y.mT

    same_as_torch(program, conv, {"x": RNG.standard_normal((2, 5, 3)), "K": RNG.standard_normal((4, 2, 3))})


@rows("P02")
@pytest.mark.parametrize(("shape", "body"), [
    ("[N, T-1]", "y[n, t] = x[n, t + 1]"),
    ("[N, T]", "y[n, t] = x[n, T-1-t]"),
    ("[N, T-1]", "y = x[:, 1:T]"),
    ("[N, (T + 1) // 2]", "y = x[:, ::2]"),
    ("[N, T]", "y[n, t] = (x[n, t - 1] else 0)"),
    ("[N, T // 2]", "y[n, p] = sum[a: 2](x[n, 2*p + a])"),
    ("[N, 2 * T]", "y[n, t] = concat[t](x[n, t], x[n, t])"),
    ("[T]", "y[t] = x[0, t]"),
])  # fmt: skip
def test_affine_reads_have_no_scatter_in_their_gradient(shape: str, body: str) -> None:
    found, _ = pulled_back(unit(f"fn f(x: f64[N, T]) -> y: {shape} where T >= 3:\n    {body}\n"))
    assert not any(isinstance(node, ir.Scatter) for node in all_nodes(list(found.values())))


@rows("P02")
def test_repeated_places_of_a_gather_add_up() -> None:
    program = unit("fn f(E: f64[V, K], at: i32[N] < V) -> y: [N, K]:\n    y[n, k] = E[at[n], k]\n")
    same_as_torch(program, lambda E, at: E[at], {"E": RNG.standard_normal((4, 2)), "at": np.array([1, 1, 3, 1])})


def test_places_outside_of_a_guarded_gather_get_nothing() -> None:
    program = unit("fn f(E: f64[V], at: i32[N]) -> y: [N]:\n    y[n] = (E[at[n]] else 7)\n")
    found, _ = pulled_back(program)
    values = {"E": np.ones(3), "at": np.array([-1, 0, 2, 3, 5]), "seed": np.array([1.0, 2.0, 3.0, 4.0, 5.0])}
    assert evaluate(program, values, found)["E"].tolist() == [2, 0, 3]


def test_the_adjoint_of_a_scatter_is_a_gather() -> None:
    program = unit("fn f(x: f64[M, K], to: i32[M] < 4) -> y: [4, K]:\n    y[to[m], k] += x[m, k]\n")
    found, _ = pulled_back(program)
    assert not any(isinstance(node, ir.Scatter) for node in all_nodes(list(found.values())))
    values = {"x": RNG.standard_normal((5, 2)), "to": np.array([0, 3, 3, 1, 0])}
    same_as_torch(program, lambda x, to: torch.zeros(4, 2, dtype=x.dtype).index_add(0, to, x), values)


@pytest.mark.parametrize(("op", "reduce"), [("max", "amax"), ("min", "amin")])
def test_ties_of_a_scatter_share_evenly(op: str, reduce: str) -> None:
    program = unit(f"fn f(x: f64[M], to: i32[M] < 2) -> y: [2]:\n    y[to[m]] {op}= x[m]\n")
    found, _ = pulled_back(program)
    values = {"x": np.array([1.0, 5.0, 5.0, 1.0]), "to": np.array([0, 1, 1, 1]), "seed": np.array([3.0, 8.0])}
    expected = {"max": [3, 4, 4, 0], "min": [3, 0, 0, 8]}[op]
    assert evaluate(program, values, found)["x"].tolist() == expected


def test_a_diagonal_read_gives_to_the_diagonal() -> None:
    program = unit("fn f(A: f64[K, K]) -> y: [K]:\n    y[k] = A[k, k]^2\n")
    same_as_torch(program, lambda A: torch.diagonal(A) ** 2, {"A": RNG.standard_normal((3, 3))})
    found, _ = pulled_back(program)
    assert not any(isinstance(node, ir.Scatter) for node in all_nodes(list(found.values())))


def test_a_sum_over_part_of_an_axis_gives_nothing_to_the_rest() -> None:
    program = unit("fn f(x: f64[T], w: f64[T]) -> y: [] where T >= 2:\n    y = sum(x[0:T-1] * w[0:T-1])\n")
    same_as_torch(program, lambda x, w: (x[:-1] * w[:-1]).sum(), {"x": RNG.random(4), "w": RNG.random(4)})


# ---- matrices -------------------------------------------------------------------------------------------

SQUARE = RNG.standard_normal((2, 3, 3)) + 3 * np.eye(3)
SYMMETRIC = SQUARE @ SQUARE.swapaxes(1, 2)
EXTERNALS: list[tuple[str, str, Callable[..., Any]]] = [
    ("[N, K, K]", "y[n, :, :] = inv(A[n, :, :])", torch.linalg.inv),
    ("[N]", "y[n] = det(A[n, :, :])", torch.linalg.det),
    ("[N]", "y[n] = logdet(A[n, :, :])", lambda A: torch.linalg.slogdet(A)[1]),
    ("[N, K, K]", "y[n, :, :] = matexp(A[n, :, :])", torch.linalg.matrix_exp),
    ("[N, K, K]", "y[n, :, :] = cholesky(A[n, :, :])", torch.linalg.cholesky),
    ("[N, K]", "y[n, :], q[n, :, :] = eigh(A[n, :, :])", lambda A: torch.linalg.eigh(A)[0]),
    ("[N, K, K]", "v[n, :], q[n, :, :] = eigh(A[n, :, :])\n    y[n, i, k] = q[n, i, k]^2 * sin(v[n, k] / 9)",
     lambda A: (lambda v, q: q**2 * torch.sin(v / 9)[:, None])(*torch.linalg.eigh(A))),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "body", "function"), EXTERNALS, ids=lambda x: x if isinstance(x, str) else "")
def test_gradients_of_matrix_operations_equal_those_of_torch(
    shape: str, body: str, function: Callable[..., Any]
) -> None:
    program = unit(f"fn f(A: f64[N, K, K]) -> y: {shape}:\n    {body}\n")
    symmetric = "cholesky" in body or "eigh" in body
    same_as_torch(program, function, {"A": SYMMETRIC if symmetric else SQUARE}, symmetric=symmetric)


@pytest.mark.parametrize("factor", [0.0, 1e-30, 1e12])
def test_the_size_of_what_follows_a_matrix_exponential_does_not_cost_its_gradient_digits(factor: float) -> None:
    program = unit("fn f(A: f64[K, K], c: f64[]) -> y: []:\n    E = matexp(A)\n    y = sum(c * sin(E))\n")
    slope = gradients({program.outputs["y"]: ones(())}, [program.inputs["A"]])[0]
    found = evaluate(program, {"A": SQUARE[0] / 4, "c": np.array(factor)}, {"A": slope})["A"]
    a = torch.tensor(SQUARE[0] / 4, requires_grad=True)
    (expected,) = torch.autograd.grad(torch.sin(torch.linalg.matrix_exp(a)).sum(), a)
    np.testing.assert_allclose(found, factor * expected.numpy(), rtol=1e-12)


def test_equal_eigenvalues_have_a_gradient_and_their_vectors_none() -> None:
    text = "fn f(A: f64[K, K]) -> (y: [], z: []):\n    v, q = eigh(A)\n    y = sum[k](v[k]^3)\n    z = sum(sin(q))\n"
    program = unit(text)
    slopes = [gradients({program.outputs[n]: ones(())}, [program.inputs["A"]])[0] for n in "yz"]
    found = evaluate(program, {"A": 2 * np.eye(3)}, dict(zip("yz", slopes, strict=True)))
    np.testing.assert_allclose(found["y"], 12 * np.eye(3), rtol=1e-14)
    assert not found["z"].any()


def test_gradient_of_solve_equals_that_of_torch() -> None:
    vector = unit("fn f(A: f64[N, K, K], b: f64[N, K]) -> y: [N, K]:\n    y[n, :] = solve(A[n, :, :], b[n, :])\n")
    same_as_torch(vector, torch.linalg.solve, {"A": SQUARE, "b": RNG.standard_normal((2, 3))})
    matrix = unit("fn f(A: f64[K, K], b: f64[K, M]) -> y: [K, M]:\n    y = solve(A, b)\n")
    same_as_torch(matrix, torch.linalg.solve, {"A": SQUARE[0], "b": RNG.standard_normal((3, 2))})


# ---- whole layers against torch -------------------------------------------------------------------------


def test_attention_equals_that_of_torch() -> None:
    text = """
fn f(q: f64[N, H, T, D], k: f64[N, H, S, D], v: f64[N, H, S, D]) -> y: [N, H, T, D]:
    a[n, h, t, s] = softmax[s](q[n, h, t, d] * k[n, h, s, d] / sqrt(D))
    y[n, h, t, d] = a[n, h, t, s] * v[n, h, s, d]
"""
    values = {n: RNG.standard_normal((2, 2, 3 if n == "q" else 4, 5)) for n in "qkv"}
    same_as_torch(unit(text), torch.nn.functional.scaled_dot_product_attention, values)


def test_an_lstm_cell_over_time_equals_that_of_torch() -> None:
    text = """
fn f(x: f64[N, T, I], W: f64[I, 4, K], U: f64[K, 4, K], b: f64[4, K]) -> h: [N, T, K]:
    scan t:
        z[n, g, k] = x[n, t, i] * W[i, g, k] + h[n, t-1, j] * U[j, g, k] + b[g, k]
        c[n, t, k] = sigmoid(z[n, 1, k]) * c[n, t-1, k] + sigmoid(z[n, 0, k]) * tanh(z[n, 2, k])
        h[n, t, k] = sigmoid(z[n, 3, k]) * tanh(c[n, t, k])
    start h = 0
    start c = 0
"""

    def lstm(x: Any, W: Any, U: Any, b: Any) -> Any:
        h = torch.zeros(2, 3, dtype=torch.float64)
        state = (h, h)
        steps = []
        weights = [w.reshape(w.shape[0], -1).T for w in (W, U)]
        for t in range(x.shape[1]):
            state = torch.lstm_cell(x[:, t], state, *weights, b.reshape(-1), torch.zeros(12, dtype=torch.float64))
            steps.append(state[0])
        return torch.stack(steps, 1)

    shapes = {"x": (2, 4, 2), "W": (2, 4, 3), "U": (3, 4, 3), "b": (4, 3)}
    same_as_torch(unit(text), lstm, {n: RNG.standard_normal(s) for n, s in shapes.items()})


@pytest.mark.parametrize("op", ["cumprod", "cummax", "cummin", "sort"])
def test_operations_along_an_axis_equal_those_of_torch(op: str) -> None:
    function = {
        "cumprod": lambda x: torch.cumprod(x, 1),
        "cummax": lambda x: torch.cummax(x, 1)[0],
        "cummin": lambda x: torch.cummin(x, 1)[0],
        "sort": lambda x: torch.sort(x, 1)[0],
    }[op]
    x = RNG.standard_normal((2, 5))
    x[0, 2] = 0.0
    same_as_torch(unit(f"fn f(x: f64[N, T]) -> y: [N, T]:\n    y[n, t] = {op}[t](x[n, t])\n"), function, {"x": x})


# ---- derivatives of all kinds ---------------------------------------------------------------------------

CURVED = """
fn f(x: f64[K], W: f64[K, K]) -> y: [K]:
    scan t in 0..3:
        h[t, k] = tanh(h[t-1, j] * W[j, k] + x[k])
    start h = 0.1
    y[k] = cumsum[k](h[2, k]^2)
"""


def _curved(x: Any, W: Any) -> Any:
    h = torch.full((3,), 0.1, dtype=torch.float64)
    for _ in range(3):
        h = torch.tanh(h @ W + x)
    return torch.cumsum(h**2, 0)


@rows("P37", "A26", "A27", "A29", "A37")
def test_jacobian_hessian_and_jvp_through_a_scan_equal_those_of_torch() -> None:
    program = unit(CURVED)
    values = {"x": RNG.standard_normal(3), "W": RNG.standard_normal((3, 3))}
    x, w = (torch.tensor(values[n]) for n in "xW")
    y, source = program.outputs["y"], program.inputs["x"]
    v = ir.intern(ir.Input("v", "input", "f64", source.shape))
    total = ir.comp((), ir.whole(y), "sum", y.shape)
    nodes = {
        "jacobian": derivative("jacobian", y, source),
        "jvp": derivative("jvp", y, source, v),
        "vjp": derivative("vjp", y, source, v),
        "hessian": derivative("hessian", total, source),
        "by W": derivative("jacobian", y, program.inputs["W"]),
    }
    verify(nodes.values())
    direction = RNG.standard_normal(3)
    found = evaluate(program, {**values, "v": direction}, nodes)
    jacobian = torch.autograd.functional.jacobian(lambda x: _curved(x, w), x).numpy()
    np.testing.assert_allclose(found["jacobian"], jacobian, rtol=1e-10)
    np.testing.assert_allclose(found["jvp"], jacobian @ direction, rtol=1e-10)
    np.testing.assert_allclose(found["vjp"], direction @ jacobian, rtol=1e-10)
    hessian = torch.autograd.functional.hessian(lambda x: _curved(x, w).sum(), x).numpy()
    np.testing.assert_allclose(found["hessian"], hessian, rtol=1e-10)
    by_w = torch.autograd.functional.jacobian(lambda w: _curved(x, w), w).numpy()
    np.testing.assert_allclose(found["by W"], by_w, rtol=1e-10)


@rows("A37")
@pytest.mark.parametrize("text", [
    CURVED,
    "fn f(x: f64[N, K]) -> y: [N, K]:\n    y[n, k] = softmax[k](x[n, k]) * sin(x[n, k])\n",
    "fn f(x: f64[T]) -> y: []:\n    y = prod[t](x[t]) + sum[t](cumprod[t](x[t])^2)\n",
])  # fmt: skip
def test_three_orders_agree_with_finite_differences(text: str) -> None:
    program = unit(text)
    shapes = {"x": (3,) if len(program.inputs["x"].shape) == 1 else (2, 3), "W": (3, 3)}
    values = {n: RNG.standard_normal(shapes[n]) for n in program.inputs}
    check_gradient(program, values, order=3)


# ---- the rest -------------------------------------------------------------------------------------------


def test_what_a_tensor_does_not_depend_on_has_gradient_0() -> None:
    x = ir.intern(ir.Input("x", "input", "f64", (3,)))
    y = ir.intern(ir.Input("y", "input", "f64", (2,)))
    total = ir.comp((), ir.whole(x), "sum", (3,))
    assert gradients({total: ones(())}, [y]) == [zeros((2,), "f64")]
    assert gradients({total: ones((), "f64")}, [total]) == [ones((), "f64")]


def test_whole_numbers_carry_no_gradient() -> None:
    program = unit("fn f(x: f64[N], k: i32[N]) -> y: [N]:\n    y[n] = x[n] * k[n] + float(i32(round(x[n])))\n")
    found, _ = pulled_back(program)
    assert list(found) == ["x"]
    values = {"x": np.array([1.5, 2.5]), "k": np.array([2, 3]), "seed": np.ones(2)}
    assert evaluate(program, values, found)["x"].tolist() == [2, 3]


def test_a_jacobian_through_a_derivative_by_hand_is_refused() -> None:
    text = """
fn through(x) -> y:
    y = round(x)
    backward (dy) -> dx:
        dx = dy

fn f(x: f64[N]) -> y: [N]:
    y[n] = through(x[n])
"""
    program = unit(text)
    with pytest.raises(NoDerivative, match="by hand"):
        derivative("jacobian", program.outputs["y"], program.inputs["x"])


@rows("A55")
def test_a_derivative_by_hand_replaces_the_true_one() -> None:
    text = """
fn through(x) -> y:
    y = round(x)
    backward (dy) -> dx:
        dx = 5 * dy

fn f(x: f64[N]) -> y: [N]:
    y[n] = through(x[n])
"""
    program = unit(text)
    found, _ = pulled_back(program)
    values = {"x": np.array([0.3, 1.7]), "seed": np.array([1.0, 2.0])}
    assert evaluate(program, values, found)["x"].tolist() == [5, 10]
    assert evaluate(program, values)["y"].tolist() == [0, 2]


def test_contributions_are_added_once_per_value() -> None:
    program = unit("fn f(x: f64[N]) -> y: []:\n    h = exp(x)\n    y = sum(h) + sum(sin(h)) + sum(h * h)\n")
    found, _ = pulled_back(program)
    # one product with the derivative of exp, however often h is used
    made = [n for n in ir.schedule((found["x"],)) if isinstance(n, ir.Comp) and n.name == "d_x"]
    assert len(made) == 1


def test_without_guards_a_named_branch_would_be_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dslc.autodiff.reverse.guarded", lambda node, seed: seed)
    program = unit("fn f(x: f64[]) -> y: []:\n    s = sqrt(x)\n    y = s if x > 0 else 0\n")
    found, _ = pulled_back(program)
    with np.errstate(all="ignore"):
        assert np.isnan(evaluate(program, {"x": 0.0, "seed": 1.0}, found)["x"])


# ---- derivatives by one of several equal values ---------------------------------------------------------


def test_a_derivative_by_one_of_two_equal_values() -> None:
    text = """
fn f(x: f64[N]) -> (g: [N], d: [N], again: [N]):
    a[n] = x[n]^2
    b[n] = x[n]^2
    e = sum[n](a[n] * sin(b[n]))
    g = grad(e, a)
    d = grad(e, b)
    s = sum(g * d)
    again = grad(s, x)
"""
    program = unit(text)
    x = RNG.uniform(0.5, 1.5, 3)
    found = evaluate(program, {"x": x})
    a = x**2
    np.testing.assert_allclose(found["g"], np.sin(a))
    np.testing.assert_allclose(found["d"], a * np.cos(a))
    expected = (np.cos(a) * a * np.cos(a) + np.sin(a) * (np.cos(a) - a * np.sin(a))) * 2 * x
    np.testing.assert_allclose(found["again"], expected)
    check_gradient(program, {"x": x})


def test_a_derivative_by_a_renamed_value_and_by_an_argument() -> None:
    text = """
fn kernel(x: [K], y: [K]) -> g: [K]:
    k = exp(-sum[i]((x[i] - 2 * y[i])^2))
    g = grad(k, x)

fn f(x: f64[K]) -> (g: [K], h: [K]):
    z = x
    e = sum(x * z)
    h = grad(e, z)
    t = 1 * x
    g = kernel(t, t)
"""
    x = RNG.uniform(0.5, 1.5, 3)
    found = evaluate(unit(text), {"x": x})
    np.testing.assert_allclose(found["g"], np.exp(-(x @ x)) * 2 * x)
    np.testing.assert_allclose(found["h"], x)


def test_a_derivative_by_one_of_two_equal_values_inside_a_scan() -> None:
    text = """
fn f(x: f64[T]) -> y: [T]:
    scan t:
        a = sin(y[t-1] + x[t])
        b = sin(y[t-1] + x[t])
        e = a * b^2
        y[t] = grad(e, a) + 0.1 * a
    start y = 0.3
"""
    program = unit(text)
    assert not any(isinstance(n, ir.Custom) for n in all_nodes(list(program.outputs.values())))
    x = RNG.uniform(0.5, 1.5, 3)
    before, expected = 0.3, []
    for value in x:
        a = np.sin(before + value)
        before = a**2 + 0.1 * a
        expected.append(before)
    np.testing.assert_allclose(evaluate(program, {"x": x})["y"], expected)
    check_gradient(program, {"x": x}, order=2)

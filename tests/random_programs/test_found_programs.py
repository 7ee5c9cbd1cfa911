"""Programs that were wrong once, each cut down to what it takes to show it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from comparison import SKIPPED, Case, compare
from dslc.backends.numpy import results
from generator import Program, numbered

FOUND = {
    "a derivative along a direction through a running maximum of layers": """
    u = w
    for l in 0..2:
        m[i, j] = cummax[j](u[i, j])
        u[i, j] = sin(m[i, j])
    y = jvp(u, w, w)
""",
    "a maximum in each step of a value that a pass can write in another way": """
    a[i] = w[i, j] * w[i, j] * w[i, k]
    b[i] = cumsum[i](a[i])
    scan t in 0..T:
        y[t, i: 3] = tanh(0.4 * y[t-1, i] + tanh(x[0, t] + max[k: 3](b[1])))
    start y = 0
""",
    "a place that shares its variable with another place": """
    y[i: 4, j: 3] = sin((w[i + j, j] else 0.3)) * w[1, j]
""",
    "a scatter whose body does not depend on all of its ranges": """
    y[j: 4] = sum[l: 4](sin(w[0, clamp(3*j - 1)]))
""",
    "an adjoint that is a sum of selects, times infinity": """
    y[i: T] = sum[l: 2](softmax[l](square((x[0, l - i - 2] else w[0, 0]))) * x[0, i])
""",
    "a running maximum, twice differentiated": """
    m[i] = cummax[i](v[i])
    y[k: 2] = sin(m[0]) * cos(m[1]) * m[2] + k
""",
    "a running product, twice differentiated": """
    m[i] = cumprod[i](v[i])
    y[k: 2] = sin(m[0]) * cos(m[1]) * m[2] + k
""",
    "a prefix of values of another dtype": """
    d[i, j], y[i, j] = prefix[i](after, sin(z[i, j]), z[i, j])
""",
    "a loop over values of another dtype": """
    y = x
    for l in 0..3:
        y = 1.5 * tanh(bent(y))
""",
    "a draw inside of a function": """
    y[i: N] = log(uniform[i: N]() + 0.5) * x[i, 0]
""",
    "a sum inside of a block of rows": """
    u[i: N, j: T] = x[i, j] * v[wrap(2*i - 2)]
    k[i: 2] = sin(u[N - 1, 0]) * i
    y[i: N] = u[i, 0] * cos(0.6 * i) * sum[j](k[j] * cos(0.6 * j + 0.4))
""",
    "a sum of numbers inside of a block of rows": """
    a[i: N, j: N] = var[k: 3](0.3) + (2 + i / 2 if i == j else 0)
    y[:, :] = inv(a[:, :])
""",
    "two whole numbers in a denominator": """
    y[i: 3, j: T] = (0.5 if j > 1 else (mean[m: N](v[i]) / 3))
""",
    "a sum of a read with an else": """
    y[i: 3] = sum[j: T]((v[2*j + 1] else w[0, 0])) * v[i]
""",
    "a sum of a value of the same kernel": """
    u[i: 3] = (v[i] + cos(v[i])) / 2
    n = u |> layer_norm
    y[i: 3] = n[i] + u[i]
""",
    "a contraction of a read with an else": """
    y[i: T, j: N] = sum[k: T]((x[j, k - 1] else 0.7) * (z[i, k + 1] else 0.4)) * v[0]
""",
    "a contraction with an index for a factor": """
    y[i: 3, j: T] = sum[k: T](softmax[k](x[0, j]) * (i / 4)) * v[i]
""",
    "a read before the first step": """
    scan t in 0..3:
        h[t] = tanh(0.4 * h[t-1] + (x[3*t - 2, t - 2] else 0.5) * v[t])
    start h = 0
    y = h
""",
    "a value that is called like the exponent of a number": """
    e[i] = exp(v[i])
    y[i] = e[i] / sum[j](e[j]) + e[i]
""",
    "a number that has no gradient": """
    y[i: 3] = v[i] / stop_grad(1.0)
""",
    "a weight at an open size": """
    y[i: N] = sum[j: N](held(x)[j] * x[j, 0]) * v[0]
""",
    "a position that is computed": """
    a = argmin[i](v[i])
    y[i: T] = x[clamp(a), i] * v[0]
""",
    "a choice between two numbers inside of a function": """
    y[i: T] = erf((1.0 if x[0, i] > 0.8 else 0.0)) * v[0]
""",
    "a function of a number": """
    y[i: T] max= erfc(max[k: 2](2.0)) * v[0]
""",
    "a quotient that is read around its end": """
    u[i] = abs(v[i]) / (0.5 + sum[j](abs(v[j])))
    y[i: N] = logsumexp[j: 3](f64(u[wrap(3*j + 1)] / 4)) * u[0]
""",
    "conditions that are all alike": """
    b[i: 3, j: 3] = x[0, 0] > 0.3
    y[i: 4, j: 3] = w[i, j] if not (b[clamp(i), j] and i == 0) else x[0, 0]
""",
    "a function of a number that a scan starts with": """
    scan t in 0..T:
        y[t] = tanh(0.4 * y[t-1] + x[0, t] * erf(y[t-2]))
    start y = 0.5
""",
    "a value outside with an index that no place has": """
    y[i: 4, j: 3] = (x[i + 1, 3*i - 1] else v[j]) * w[i, j]
""",
    "an adjoint that is a sum of selects inside of a select, times infinity": """
    y[i: T, k: N] = sum[l: T](
        softmax[l](hypot(x[k, l], 0.5 + max((w[1, i + 2] else 0), (w[1 - i, l + 1] else 0)))) * x[k, l]
    )
""",
}

HEAD = """
fn after(a1, b1, a2, b2) -> (a, b):
    a = a1 * a2
    b = a2 * b1 + b2

fn bent(x: [P, Q]) -> y:
    y[i: P, j: Q] = sin(x[i, j])

layer held(x: [P, Q]) -> y:
    param W: [2] ~ glorot
    y[j: P] = W[wrap(j - 1)]

model m(x: f64[N, T], z: f32[T, T]) -> y where T >= 3:
    param w: [4, 3] ~ normal
    param v: [3] ~ normal
"""
TRAIN = """
train m(x, z) where T >= 3:
    y = m(x, z)
    minimize sum(sin(y))
    using sgd(lr = 0.1)
"""


@dataclass(frozen=True)
class Written(Program):
    """A program that a person wrote; its data are positive."""

    def data(self, name: str, shape: tuple[int, ...], dtype: str, role: str) -> Any:
        return np.random.default_rng([self.seed, *name.encode()]).uniform(0.2, 1.4, shape)


def written(body: str, **sizes: int) -> Written:
    return Written(HEAD + body.lstrip("\n") + TRAIN, {"N": 2, "T": 4, **sizes}, {}, 3, Counter())


@pytest.mark.wide(3)
@pytest.mark.parametrize("what", FOUND)
def test_programs_that_were_wrong_once(what: str) -> None:
    compare(written(FOUND[what]))
    compare(written(FOUND[what], N=1, T=3))


def test_what_a_loop_carries_is_not_overwritten_by_the_loop_back() -> None:
    """The loss was read after the loop back had put an earlier layer under its name; nothing smaller shows it."""
    compare(numbered(4219))


@pytest.mark.parametrize(
    ("number", "what"),
    [
        (55, "a value that a line only puts to its place"),
        (319, "a value that is the same in all rows, and contains one that is not"),
        (634, "a step of a sequence that keeps a value for each step of another scan"),
        (985, "a loop over rows in which nothing is read"),
        (1347, "a formula computed in place whose operands lack an axis"),
        (4792, "a step through two loops over the same steps"),
    ],
)
def test_generated_programs_that_were_wrong_once(number: int, what: str) -> None:
    compare(numbered(number))


def test_a_kink_is_skipped_and_counted() -> None:
    before = SKIPPED.total()
    case = Case(written("    y[i: N] = relu(x[i, 0] - stop_grad(x[i, 0])) * v[0]\n"))
    case.check_differences()
    assert SKIPPED.total() == before + 1


def test_a_wrong_gradient_is_noticed() -> None:
    case = Case(written("    y[i: N] = sin(x[i, 0]) * v[0]\n"))
    case.expected["x"][0, 0] += 1e-4
    for check in (case.check_stabilised, case.check_torch, case.check_differences, case.check_scaled):
        with pytest.raises(AssertionError):
            check()


def test_a_result_in_the_memory_of_an_argument_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(written("    y = x\n"))
    case.check_module()
    monkeypatch.setattr(results, "copied", lambda given, _: [False for _ in given])
    with pytest.raises(AssertionError, match="y of forward"):
        case.check_module()

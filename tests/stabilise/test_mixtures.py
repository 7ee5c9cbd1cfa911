"""Mixture densities written as in a textbook, at points where every component underflows: whatever parts are named."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from samples import load

from dslc.compiler import compile_text

SHAPES = {"a": (3,), "x": (2, 3), "b": (2, 3, 4), "u": (2, 4), "mu": (3, 4), "s": (3, 4)}

LIBRARY = """
fn gauss(u, m, s) = exp(-(u - m)^2 / (2 * s^2)) / sqrt(2 * pi * s^2)

layer densities(u: [N, D], mu: [K, D], s: [K, D]) -> c: [N, K]:
    c[n, k] = prod[d](gauss(u[n, d], mu[k, d], s[k, d]))
"""


def shares(a: Sequence[Any]) -> list[Any]:
    return [mp.exp(v) / mp.fsum(map(mp.exp, a)) for v in a]


def of_shares(n: int, a: Any, x: Any) -> Any:
    return mp.log(mp.fsum(p * mp.exp(z) for p, z in zip(shares(a), x[n], strict=True)))


def of_quotients(n: int, a: Any, x: Any) -> Any:
    return mp.log(mp.fsum(mp.exp(z - a[0]) for z in x[n]))


def of_products(n: int, b: Any) -> Any:
    return mp.log(mp.fsum(mp.exp(mp.fsum(each)) for each in b[n]))


def of_normals(n: int, a: Any, u: Any, mu: Any, s: Any) -> Any:
    def density(k: int) -> Any:
        return mp.fprod(
            mp.exp(-((v - m) ** 2) / (2 * sd**2)) / mp.sqrt(2 * mp.pi * sd**2)
            for v, m, sd in zip(u[n], mu[k], s[k], strict=True)
        )

    return mp.log(mp.fsum(p * density(k) for k, p in enumerate(shares(a))))


#: meaning, inputs and how far out they are -> spellings of it
SPELLINGS: dict[tuple[Callable[..., Any], tuple[tuple[str, float], ...]], list[str]] = {
    (of_shares, (("a", 0.0), ("x", -2000.0))): [
        "r[n] = log(sum[k](softmax[k](a[k]) * exp(x[n, k])))",
        "p[k] = softmax[k](a[k]); r[n] = log(sum[k](p[k] * exp(x[n, k])))",
        "p[k] = softmax[k](a[k]); e[n, k] = exp(x[n, k]); r[n] = log(sum[k](p[k] * e[n, k]))",
        "p[k] = exp(a[k]) / sum[j](exp(a[j])); mix[n] = sum[k](exp(x[n, k]) * p[k]); r[n] = log(mix[n])",
        "z = sum[j](exp(a[j])); r[n] = log(sum[k](exp(a[k]) * exp(x[n, k]) / z))",
        "z = sum[j](exp(a[j])); r[n] = log(sum[k](exp(a[k]) * exp(x[n, k])) / z)",
        "w[k] = exp(a[k]); r[n] = log(sum[k](w[k] / sum[j](w[j]) * exp(x[n, k])))",
    ],
    (of_quotients, (("a", 1500.0), ("x", -1500.0))): [
        "s = exp(a[0]); r[n] = log(sum[k](exp(x[n, k]) / s))",
        "s = exp(-a[0]); r[n] = log(sum[k](s * exp(x[n, k])))",
        "s = exp(a[0]); e[n, k] = exp(x[n, k]); q[n, k] = e[n, k] / s; r[n] = log(sum[k](q[n, k]))",
    ],
    (of_products, (("b", -400.0),)): [
        "r[n] = log(sum[k](prod[d](exp(b[n, k, d]))))",
        "q[n, k] = prod[d](exp(b[n, k, d])); r[n] = log(sum[k](q[n, k]))",
        "e[n, k, d] = exp(b[n, k, d]); r[n] = log(sum[k](prod[d](e[n, k, d])))",
    ],
    (of_normals, (("a", 0.0), ("u", 300.0), ("mu", 0.0), ("s", 2.5))): [
        "w[k] = softmax[k](a[k]); r[n] = log(sum[k](w[k] * prod[d](gauss(u[n, d], mu[k, d], s[k, d]))))",
        "c = densities(u, mu, s); w[k] = softmax[k](a[k]); r[n] = log(sum[k](w[k] * c[n, k]))",
        "norm[k, d] = 1 / sqrt(2 * pi * s[k, d]^2)"
        "; pdf[n, k, d] = norm[k, d] * exp(-(u[n, d] - mu[k, d])^2 / (2 * s[k, d]^2)); c[n, k] = prod[d](pdf[n, k, d])"
        "; mix[n] = sum[k](softmax[k](a[k]) * c[n, k]); r[n] = log(mix[n])",
        "q[n, k] = sum[d](((u[n, d] - mu[k, d]) / s[k, d])^2); w[k] = softmax[k](a[k])"
        "; c[n, k] = exp(-0.5 * q[n, k]) / (prod[d](s[k, d]) * sqrt((2 * pi)^4)); joint[n, k] = w[k] * c[n, k]"
        "; total[n] = sum[k](joint[n, k]); r[n] = log(total[n])",
        "r[n] = log(sum[k](softmax[k](a[k])"
        " * prod[d](1 / (s[k, d] * sqrt(2 * pi)) * exp(-1/2 * ((u[n, d] - mu[k, d]) / s[k, d])^2))))",
    ],
}
CASES = [(*key, text) for key, texts in SPELLINGS.items() for text in texts]

Inputs = tuple[tuple[str, float], ...]


@functools.cache
def point(inputs: Inputs) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=SHAPES[name]) + far for name, far in inputs}


@functools.cache
def reference(meaning: Callable[..., Any], inputs: Inputs) -> tuple[list[float], dict[str, dict[Any, float]]]:
    """The values, and some of the derivatives of their sum, in 60 digits."""
    with mp.workdps(60):
        exact = {k: np.vectorize(lambda v: mp.mpf(float(v)), otypes=[object])(v) for k, v in point(inputs).items()}

        def values() -> list[Any]:
            return [meaning(n, *exact.values()) for n in range(2)]

        slopes: dict[str, dict[Any, float]] = {}
        step = mp.mpf(10) ** -25
        for name, x in exact.items():
            for place in {np.unravel_index(j, x.shape) for j in (0, x.size // 2, x.size - 1)}:
                middle, ends = x[place], []
                for sign in (1, -1):
                    x[place] = middle + sign * step
                    ends.append(mp.fsum(values()))
                x[place] = middle
                slopes.setdefault(name, {})[place] = float((ends[0] - ends[1]) / (2 * step))
        return [float(v) for v in values()], slopes


@pytest.mark.point("10")
@pytest.mark.parametrize(("meaning", "inputs", "text"), CASES)
def test_a_mixture_is_right_far_out(meaning: Callable[..., Any], inputs: Inputs, text: str, tmp_path: Path) -> None:
    given = point(inputs)
    shapes = {name: f"[{', '.join(map(str, SHAPES[name]))}]" for name in given}
    lines = [*text.split("; "), *(f"d{name} = grad(sum(r), {name})" for name in given)]
    head = f"model m({', '.join(f'{n}: f64{s}' for n, s in shapes.items())})"
    results = ", ".join(["r: [2]", *(f"d{n}: {s}" for n, s in shapes.items())])
    spec = tmp_path / "m.dsl"
    spec.write_text(f"{LIBRARY}\n{head} -> ({results}):\n" + "".join(f"    {x}\n" for x in lines), encoding="utf-8")
    found = load(compile_text(spec, dtype="f64"), tmp_path).forward({}, *given.values())
    values, slopes = reference(meaning, inputs)
    np.testing.assert_allclose(found["r"], values, rtol=1e-12)
    for name, each in slopes.items():
        for place, slope in each.items():
            np.testing.assert_allclose(found[f"d{name}"][place], slope, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.point("10")
def test_the_logarithm_of_a_sum_of_two_impossible_events_has_no_gradient(tmp_path: Path) -> None:
    text = (
        "model m(x: f64[N], y: f64[N]) -> (r: [N], dx: [N], dy: [N]):\n    r[n] = log(exp(x[n]) + exp(y[n]))\n"
        "    dx = grad(sum(r), x)\n    dy = grad(sum(r), y)\n"
    )
    spec = tmp_path / "m.dsl"
    spec.write_text(text, encoding="utf-8")
    x, y = np.array([-np.inf, -np.inf, 0.0, 1.0]), np.array([-np.inf, 1.0, -np.inf, 1.0])
    found = load(compile_text(spec, dtype="f64"), tmp_path).forward({}, x, y)
    np.testing.assert_allclose(found["r"], np.logaddexp(x, y))
    np.testing.assert_allclose(found["dx"], [0.0, 0.0, 1.0, 0.5])
    np.testing.assert_allclose(found["dy"], [0.0, 1.0, 0.0, 0.5])

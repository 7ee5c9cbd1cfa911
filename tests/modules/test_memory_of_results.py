"""Results lie in memory of their own: a later step, or a caller who writes into one, changes no other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from both_backends import BACKENDS, given, leaves, module_of

Arrays = dict[str, Any]

#: a model with outputs that are other arrays in disguise
OUTPUTS = """
model m(x: f32[N, 3]) -> (y: [N, 3], z: [N], w2: [3], b: [N, 3], t: [3, N], f: [N, 3], y2: [N, 3], s: [], o: [1, 3],
        h: [N, 3], g: [N * 3], q: [N, 1], k: [N, 3], e: [N, 3]):
    param w: [3]
    param c: []
    param r: [1, 3]
    y = x
    z = x[:, 0]
    w2 = w
    b[n: N, k] = w[k]
    t[k, n] = x[n, k]
    f = stop_grad(x)
    y2 = y
    s = c
    o = r
    h = relu(x)
    g[(n k)] = h[n, k]
    q = h[:, 0:1]
    k = h
    e = x
    for l in 0..2:
        e = e
"""
#: gradients that are equal, or that are inputs, also in a loop; states that are inputs
TRAINED = """
layer lay(x: [N, 3]) -> y: [N, 3]:
    param a, b: [3]
    state seen: [3] = 0
    state other: [3] = 0
    y[n, k] = x[n, k] + a[k] + b[k]
    training:
        seen <- x[0, :]
        other <- x[0, :]

model m(x: f32[N, 3], z: f32[2, 3]) -> (y: [N, 3], p: []):
    param u, v: [3]
    param w: [2, 3]
    state last: [2, 3] = 0
    h[n, k] = x[n, k] + u[k] + v[k]
    for l in 0..2:
        h = lay(h)
    y = h
    p = sum(w * z)
    training:
        last <- z

train m(x: f32[N, 3], z: f32[2, 3]):
    y, p = m(x, z)
    minimize mean(y) + p
    metric first = x[0, 0]
    metric same = x[0, 0]
    using sgd(lr = 0.1)
"""
#: a sequence model whose cache starts as a parameter and goes on as an input
STEPPED = """
model m(x: f32[N, T, 3]) -> (y: [N, T, 3], z: [N, T, 3]):
    param first: [3]
    begin[n: N, i] = first[i]
    scan t:
        h[n, t, i] = x[n, t, i]
    start h = begin
    y[n, t, i] = (h[n, t-1, i] else 0)
    z = x
"""


def assert_apart(results: Any, *arguments: Any) -> None:
    """No two arrays of the results, and none of them and of the arguments, share memory."""
    found, others = list(leaves(results, "results")), list(leaves(arguments, "arguments"))
    assert found
    for (a, x), (b, y) in [*combinations(found, 2), *((f, o) for f in found for o in others)]:
        assert not np.shares_memory(x, y), f"{a} and {b}"
    for name, x in found:
        assert x.flags.writeable or x.ndim == 0, name


@pytest.mark.point("12")
@pytest.mark.parametrize("backend", BACKENDS)
def test_outputs_share_no_memory_with_arguments_or_each_other(backend: str, tmp_path: Path) -> None:
    module = module_of(OUTPUTS, backend, tmp_path)
    params, x = module.init(), given(np.ones((4, 3), np.float32), backend)
    assert_apart(module.forward(params, x), params, x)


@pytest.mark.point("12")
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_metrics_and_states_share_no_memory(backend: str, tmp_path: Path) -> None:
    module = module_of(TRAINED, backend, tmp_path)
    params, opt = module.init(), None
    data = [given(np.ones(shape, np.float32), backend) for shape in ((4, 3), (2, 3))]
    state = module.init_state()
    assert_apart(module.loss_grad_metrics(params, *data, state), params, data, state)
    assert_apart(module.evaluate(params, *data, state), params, data, state)
    opt = module.init_opt(params)
    assert_apart((params, opt))
    for _ in range(2):
        module.train_step(params, opt, *data)
        assert_apart((params, opt), data)


@pytest.mark.point("12")
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_cache_and_the_outputs_of_a_step_share_no_memory(backend: str, tmp_path: Path) -> None:
    module = module_of(STEPPED, backend, tmp_path)
    params = module.init()
    cache = module.init_cache(params, N=2)
    assert_apart((cache, params))
    for k in range(3):
        x = given(np.full((2, 3), k, np.float32), backend)
        found, cache = module.step(params, cache, x)
        assert_apart((found, cache), params, x)


#: optimisers of one slot or two: their bodies, and a step of them as (parameter, gradient, slots) -> the next ones
OPTIMIZERS: dict[str, tuple[str, Callable[[Any, Any, Arrays], tuple[Any, Arrays]]]] = {
    "keeps the gradient": (
        "slot g = 0; param <- param - lr * grad - lr * g; g <- grad",
        lambda p, r, s: (p - 0.1 * r - 0.1 * s["g"], {"g": r}),
    ),
    "keeps the gradient first": (
        "slot g = 0; h = g; g <- grad; param <- param - lr * grad - lr * h",
        lambda p, r, s: (p - 0.1 * r - 0.1 * s["g"], {"g": r}),
    ),
    "reads a slot from before its update": (
        "slot g = 0; h = g; g <- 0.5 * g + grad; param <- param - lr * g - lr * h",
        lambda p, r, s: (p - 0.1 * (0.5 * s["g"] + r) - 0.1 * s["g"], {"g": 0.5 * s["g"] + r}),
    ),
    "exchanges slots": (
        "slot a = 1; slot b = 0; t = a; a <- b; b <- t; param <- param - lr * grad * a",
        lambda p, r, s: (p - 0.1 * r * s["b"], {"a": s["b"], "b": s["a"]}),
    ),
    "keeps the parameter from before": (
        "slot g = 0; q = param; param <- param - lr * grad - 0.01 * g; g <- q",
        lambda p, r, s: (p - 0.1 * r - 0.01 * s["g"], {"g": p}),
    ),
    "keeps the new parameter": (
        "slot g = 0; param <- param - lr * grad + 0.01 * g; g <- param",
        lambda p, r, s: (p - 0.1 * r + 0.01 * s["g"], {"g": p - 0.1 * r + 0.01 * s["g"]}),
    ),
    "keeps the gradient twice": (
        "slot g = 0; slot h = 0; g <- grad; h <- g; param <- param - lr * h",
        lambda p, r, s: (p - 0.1 * r, {"g": r, "h": r}),
    ),
}


@pytest.mark.point("12")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_slots_hold_what_the_optimiser_gave_them(name: str, backend: str, tmp_path: Path) -> None:
    body, following = OPTIMIZERS[name]
    lines = "".join(f"    {line}\n" for line in body.split("; "))
    module = module_of(
        f"optimizer own(lr = 0.1):\n{lines}"
        "model m(x: f32[N, 3]) -> y: [N]:\n    param w, v: [3]\n    y[n] = x[n, k] * (w[k] + v[k])\n"
        "train m(x: f32[N, 3], target: f32[N]):\n    minimize mean((m(x) - target)^2)\n    using own(lr = 0.1)\n",
        backend,
        tmp_path,
        dtype="f64",
    )
    rng = np.random.default_rng(0)
    x, target = rng.normal(size=(5, 3)), rng.normal(size=5)
    params = module.init()
    opt = module.init_opt(params)
    start = {"a": 1.0}
    wanted = {k: np.asarray(v).copy() for k, v in params.items()}
    slots = {k: {s: np.full(3, start.get(s, 0.0)) for s in "abgh"} for k in wanted}
    for _ in range(4):
        module.train_step(params, opt, given(x, backend), given(target, backend))
        grad = 2 / 5 * x.T @ (x @ (wanted["w"] + wanted["v"]) - target)
        for k in wanted:
            wanted[k], slots[k] = following(wanted[k], grad, slots[k])
            np.testing.assert_allclose(np.asarray(params[k]), wanted[k], rtol=1e-12, atol=1e-13)
            for s, value in slots[k].items():
                np.testing.assert_allclose(np.asarray(opt[s][k]), value, rtol=1e-12, atol=1e-13)

"""A layer named with `use` is one set of parameters wherever it goes, also as an argument."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from samples import load

from dslc.compiler import compile_text

torch.set_num_threads(1)

LAYERS = """
layer plus(x: [N, D], f: layer) -> y: [N, D]:
    y = x + f(x)

layer twice(x: [N, D], f: layer) -> y: [N, D]:
    y = plus(plus(x, f), f)

layer tied(x: [N, D], f: layer) -> y: [N, D]:
    h = f(x)
    y[n, d] = h[n, e] * f.W[d, e]

layer named(x: [N, D], f: layer) -> y: [N, D]:
    use g = f
    y = g(plus(x, g))

layer own(x: [N, D], f: layer) -> y: [N, D]:
    use g = dense(D)
    y = plus(plus(f(x), g), g)
"""

#: the body of a model, its parameters, and what it computes by torch; f and g are functions of torch
MODELS = {
    "argument": ("h = plus(x, f)\n    y = plus(h, f)", "f", lambda x, f, w: x + f(x) + f(x + f(x))),
    "called and passed": ("y = plus(f(x), f)", "f", lambda x, f, w: f(x) + f(f(x))),
    "two levels": ("y = twice(x, f)", "f", lambda x, f, w: x + f(x) + f(x + f(x))),
    "for": ("h = x\n    for l in 0..3:\n        h = plus(h, f)\n    y = h", "f",
            lambda x, f, w: (lambda p: p(p(p(x))))(lambda v: v + f(v))),
    "bound": ("y = plus(x, plus(f))", "f", lambda x, f, w: x + x + f(x)),
    "pipe": ("y = x |> plus(f) |> plus(f)", "f", lambda x, f, w: x + f(x) + f(x + f(x))),
    "use of it": ("use g = plus(f)\n    y = g(g(x))", "f", lambda x, f, w: x + f(x) + f(x + f(x))),
    "tied": ("y = tied(x, f)", "f", lambda x, f, w: f(x) @ w.T),
    "renamed": ("y = named(x, f)", "f", lambda x, f, w: f(x + f(x))),
}  # fmt: skip


def trained(body: str, layer: str = "dense(3)") -> str:
    head = f"{LAYERS}\nmodel m(x: [N, 3]) -> y: [N, 3]:\n    use f = {layer}\n    {body}\n"
    return f"{head}\ntrain m(x):\n    y = m(x)\n    minimize sum[n, d](y[n, d]^2)\n    using sgd\n"


@pytest.mark.point("3")
@pytest.mark.parametrize("name", MODELS)
def test_a_layer_that_is_passed_keeps_its_parameters(name: str, tmp_path: Path) -> None:
    body, _, meaning = MODELS[name]
    spec = tmp_path / "shared.dsl"
    spec.write_text(trained(body), encoding="utf-8")
    module = load(compile_text(spec, dtype="f64"), tmp_path)
    assert list(module.PARAMS) == ["f.W", "f.b"]
    rng = np.random.default_rng(0)
    params = {"f.W": rng.standard_normal((3, 3)), "f.b": rng.standard_normal(3)}
    x = rng.standard_normal((4, 3))
    w, b = (torch.tensor(v, requires_grad=True) for v in params.values())
    y = meaning(torch.tensor(x), lambda v: v @ w + b, w)
    (y**2).sum().backward()
    np.testing.assert_allclose(module.forward(params, x), y.detach(), 1e-12)
    _, grads = module.loss_and_grad(params, x)
    assert w.grad is not None and b.grad is not None
    np.testing.assert_allclose(grads["f.W"], w.grad, 1e-11)
    np.testing.assert_allclose(grads["f.b"], b.grad, 1e-11)


@pytest.mark.point("3")
def test_parameters_of_the_layer_that_it_is_passed_to_are_its_own(tmp_path: Path) -> None:
    spec = tmp_path / "own.dsl"
    spec.write_text(trained("h = own(x, f)\n    y = own(h, f)"), encoding="utf-8")
    module = load(compile_text(spec), tmp_path)
    assert sorted(module.PARAMS) == ["f.W", "f.b", "own.g.W", "own.g.b", "own2.g.W", "own2.g.b"]


@pytest.mark.point("3")
def test_a_frozen_layer_that_is_passed_is_not_trained(tmp_path: Path) -> None:
    spec = tmp_path / "frozen.dsl"
    spec.write_text(trained("use g = dense(3)\n    y = g(twice(x, f))", "frozen dense(3)"), encoding="utf-8")
    module = load(compile_text(spec), tmp_path)
    assert sorted(module.PARAMS) == ["f.W", "f.b", "g.W", "g.b"]
    _, grads = module.loss_and_grad(module.init(), np.ones((2, 3)))
    assert sorted(grads) == ["g.W", "g.b"]


@pytest.mark.point("3")
def test_a_layer_with_a_state_that_is_passed_in_a_loop_keeps_one_state(tmp_path: Path) -> None:
    spec = tmp_path / "state.dsl"
    body = "h = x\n    for l in 0..3:\n        h = plus(h, f)\n    y = h"
    counted = (
        "layer counted(x: [N, D]) -> y: [N, D]:\n    state calls: [] = 0\n    training:\n        calls <- calls + 1\n"
        "    y = x + 0 * calls\n"
    )
    spec.write_text(counted + trained(body, "counted"), encoding="utf-8")
    module = load(compile_text(spec), tmp_path)
    assert list(module.STATE) == ["f.calls"]
    *_, states = module.loss_grad_metrics({}, np.ones((2, 3)), module.init_state())
    assert states["f.calls"] == 3

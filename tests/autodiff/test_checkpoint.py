"""`checkpoint:` keeps the inputs of a block and computes what is inside again: same gradients, less kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from dslc.backends.numpy.module import generate

from dslc import pipeline
from dslc.compiler import choose, optimizer_of
from dslc.cost import costs, total
from dslc.frontend import check_text
from dslc.ir import nodes as ir
from dslc.passes.transform import everything
from dslc.program import Program

SPEC = """
layer block(x: [N, E]) -> y: [N, E]:
    h = x |> dense(4 * E) |> gelu |> dense(4 * E) |> tanh
    y = x + (h |> dense(E))

model deep(x: [N, 8]) -> y: [N, 8]:
    h = x
    for l in 0..3:
{body}
    y = h

train deep(x):
    minimize mean[n, e](deep(x)[n, e]^2)
    using sgd(lr = 0.1)
"""

PLAIN = SPEC.format(body="        h = block(h)")
KEPT = SPEC.format(body="        checkpoint:\n            h = block(h)")


def compiled(text: str) -> tuple[dict[str, Any], pipeline.Lowered]:
    checked = check_text(text)
    assert not checked.errors, [d.message for d in checked.errors]
    model, train = choose(checked)
    assert train is not None
    space: dict[str, Any] = {}
    exec(generate(Program(model, train, optimizer_of(checked, train)), "deep.dsl", "f64"), space)
    return space, pipeline.training(train)


def test_a_checkpoint_changes_no_gradient_and_keeps_less() -> None:
    plain, plain_program = compiled(PLAIN)
    kept, kept_program = compiled(KEPT)
    params = plain["init"](3)
    x = np.random.default_rng(0).normal(size=(5, 8))
    loss, grads = plain["loss_and_grad"](params, x)
    same, again = kept["loss_and_grad"](params, x)
    np.testing.assert_allclose(loss, same, rtol=1e-12)
    assert grads.keys() == again.keys()
    for name, value in grads.items():
        np.testing.assert_allclose(again[name], value, rtol=1e-10, atol=1e-14, err_msg=name)

    def saved(program: pipeline.Lowered) -> int:
        rows = costs(program.values().values(), program.gradients().values(), "f64")
        found = total(rows).at({"N": 5}).saved
        assert isinstance(found, int)
        return found

    assert saved(kept_program) * 3 < saved(plain_program)


def test_a_scan_of_a_checkpoint_runs_again() -> None:
    """The loop of the backward pass is another one, not the first with more results."""
    checked = check_text("""
model recurrent(x: [N, T]) -> y: [N]:
    param w: [2] ~ normal
    u[n, t] = tanh(x[n, t])
    checkpoint:
        scan t:
            h[n, t] = sin(w[0] * h[n, t-1] + w[1] * u[n, t])
        start h = 0
    y = h[:, T-1]

train recurrent(x):
    minimize sum(recurrent(x))
    using sgd(lr = 0.1)
""")
    _, train = choose(checked)
    assert train is not None
    outputs = pipeline.training(train).outputs
    scans = [x for x in everything(outputs) if isinstance(x, ir.Scan)]
    assert sorted(x.reverse for x in scans) == [False, False, True]
    first, again = (x for x in scans if not x.reverse)
    assert first.number != again.number
    assert first in everything({"loss": outputs["loss"]}) and len(first.results) == 1

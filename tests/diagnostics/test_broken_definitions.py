"""A definition that does not parse has one message: what refers to it is not complained about."""

from __future__ import annotations

import pytest

from dslc.frontend import check_text

TRAIN = """
train m(x, t: [N]):
    y = m(x)
    minimize mean_squared_error(y, t)
    using sgd(lr = 0.1)
"""
BODY = "    param w: [3] ~ normal\n    y[n] = x[n, i] * w[i]\n"
HEAD = "model m(x: f32[N, 3]) -> y: [N]:\n"

#: a model that does not parse
BROKEN = {
    "no colon": "model m(x: f32[N, 3]) -> y: [N]\n" + BODY,
    "comments above": "# The model of this file,\n# which has no colon.\n\nmodel m(x: f32[N, 3]) -> y: [N]\n" + BODY,
    "no arrow": "model m(x: f32[N, 3]):\n" + BODY,
    "another arrow": "model m(x: f32[N, 3]) => y: [N]:\n" + BODY,
    "a bracket left open": "model m(x: f32[N, 3] -> y: [N]:\n" + BODY,
    "another bracket": "model m(x: f32[N, 3)) -> y: [N]:\n" + BODY,
    "a bracket left open in the body": HEAD + "    y[n] = (sum[i](x[n, i])\n",
    "a word of another language": "def m(x: f32[N, 3]) -> y: [N]:\n" + BODY,
    "a word misspelt": "modle m(x: f32[N, 3]) -> y: [N]:\n" + BODY,
    "no name": "model (x: f32[N, 3]) -> y: [N]:\n" + BODY,
    "a word for a name": "model for(x: f32[N, 3]) -> y: [N]:\n" + BODY,
    "a foreign letter in the name": "model mé(x: f32[N, 3]) -> y: [N]:\n" + BODY,
    "no block": HEAD,
    "a block at the margin": HEAD + "y[n] = sum[i](x[n, i])\n",
    "a tab": HEAD + "\ty[n] = sum[i](x[n, i])\n",
    "a statement of another language": HEAD + "    return x @ w\n",
    "a chain of comparisons": HEAD + "    y[n] = 1 if 0 < x[n, 0] < 1 else 0\n",
    "a string left open": 'model m(x: f32[N, 3], k = "a) -> y: [N]:\n' + BODY,
}


@pytest.mark.point("messages")
@pytest.mark.parametrize("train_first", [False, True], ids=["model first", "train first"])
@pytest.mark.parametrize("name", BROKEN)
def test_a_model_that_does_not_parse_has_one_message(name: str, train_first: bool) -> None:
    parts = [BROKEN[name], TRAIN]
    errors = check_text("\n".join(reversed(parts) if train_first else parts)).errors
    assert len(errors) == 1, [e.message for e in errors]
    assert "not defined" not in errors[0].message

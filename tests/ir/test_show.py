"""The text of the IR, exactly."""

from __future__ import annotations

from programs import unit

from dslc.autodiff.reverse import gradients, ones
from dslc.ir.show import show

LINEAR = """
model linear(x: f64[N, 64], W: f64[64, 8], b: f64[8]) -> y: [N, 8]:
    h[n, o] = x[n, i] * W[i, o] - 2 * (b[o] + 1)
    y[n, o] = h[n, o] if h[n, o] > 0 else 0.1 * (x[n, o - 3] else -1)
"""


def test_comprehensions_and_spec_lines() -> None:
    expected = """
comp[v0:N, v1:8] = sum[v2:64](x[v0, v2] * W[v2, v1])                      # <text>:3  h[n, o] = x[n, i] * W[i, o] - 2 * (b[o] + 1)
h[v0:N, v1:8] = comp[v0, v1] - 2 * (b[v1] + 1)                            # <text>:3  h[n, o] = x[n, i] * W[i, o] - 2 * (b[o] + 1)
y[v0:N, v1:8] = h[v0, v1] if h[v0, v1] > 0 else 0.1 * (x[v0, v1 - 3] else f64(-1))  # <text>:4  y[n, o] = h[n, o] if h[n, o] > 0 else 0.1 * (x[n, o - 3] else -1)
return y
"""  # noqa: E501
    assert show(unit(LINEAR).outputs) == expected.strip()


RECURRENT = """
fn f(x: [T, K], w: []) -> h: [T, K]:
    scan t:
        h[t, k] = tanh(w * h[t-1, k] + x[t, k])
    start h = 0.5
"""


def test_scans_are_indented() -> None:
    program = unit(RECURRENT)
    expected = """
h_start[v0:K] = 0.5                                                       # <text>:5  start h = 0.5
scan scan t:T:                                                            # <text>:3  scan t:
    carry h = h_start
    h~2[v0:K] = tanh(w[] * h[v0] + x[t, v0])                              # <text>:4  h[t, k] = tanh(w * h[t-1, k] + x[t, k])
    h <- h~2
    stack h~2
h~3[T, K] = scan.0                                                        # <text>:3  scan t:
return h = h~3
"""  # noqa: E501
    assert show(program.outputs) == expected.strip()


def test_gradients_can_be_shown() -> None:
    program = unit(RECURRENT)
    y = program.outputs["h"]
    text = show(gradients({y: ones(y.shape)}, list(program.inputs.values())))
    assert "reversed:" in text
    assert text.endswith("return d_x, d_w")

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
comp[n:N, o:8] = sum[i:64](x[n, i] * W[i, o])                             # <text>:3  h[n, o] = x[n, i] * W[i, o] - 2 * (b[o] + 1)
h[n:N, o:8] = comp[n, o] - 2 * (b[o] + 1)                                 # <text>:3  h[n, o] = x[n, i] * W[i, o] - 2 * (b[o] + 1)
y[n:N, o:8] = h[n, o] if h[n, o] > 0 else 0.1 * (x[n, o - 3] else f64(-1))  # <text>:4  y[n, o] = h[n, o] if h[n, o] > 0 else 0.1 * (x[n, o - 3] else -1)
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
h_start[k:K] = 0.5                                                        # <text>:5  start h = 0.5
scan scan t:T:                                                            # <text>:3  scan t:
    carry h = h_start
    h~2[k:K] = tanh(w[] * h[k] + x[t, k])                                 # <text>:4  h[t, k] = tanh(w * h[t-1, k] + x[t, k])
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

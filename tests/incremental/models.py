"""Models that can be run one position at a time: specs, layers, loops in loops."""

from __future__ import annotations

from pathlib import Path

#: specs with a step, and what their caches hold
STEPS = {
    "transformer/gpt": "history history",
    "transformer/llama": "history history",
    "transformer/encoder_decoder": "fixed fixed history history fixed",
    "transformer/mixture": "history history history state",
    "recurrent/aft": "history history",
    "recurrent/lstm": "state state",
    "recurrent/lru": "fixed state fixed state fixed state",
    "recurrent/ssm_prefix": "state state state",
    "recurrent/mamba": "state state",
    "recurrent/rwkv": "state state state state fixed state",
    "recurrent/linear_attention": "state state",
    "recurrent/hippo": "fixed state fixed",
    "recurrent/echo_state": "state",
    "recurrent/truncated": "state",
    "convolution/wavenet": " ".join(["state"] * 8),
}

#: kinds of layers that no spec has, as `y` of `x`
LAYERS = {
    "gru": "y = x |> gru(3)",
    "two gru layers": "h = x |> gru(3)\n    y = h |> gru(3)",
    "grouped queries": "y = x |> grouped_query_attention(4, 2)",
    "strictly before": "a[n, t, s] = softmax[s](x[n, t, i] * x[n, s, i] if s < t else -inf)\n"
    "    y[n, t, i] = a[n, t, s] * x[n, s, i]",
    "a mask by distance": "a[n, t, s] = softmax[s](x[n, t, i] * x[n, s, i] if t - s >= 0 and t - s < 3 else -inf)\n"
    "    y[n, t, i] = a[n, t, s] * x[n, s, i]",
    "a mask in the weights": "w[t: T, s: T] = 1.0 / (t + 1) if s <= t else 0\n    y[n, t, i] = w[t, s] * x[n, s, i]",
    "a causal mean": "y[n, t, i] = sum[s](x[n, s, i] if s <= t else 0) / (t + 1)",
    "a causal maximum": "y[n, t, i] = max[s](x[n, s, i] if s <= t else -inf)",
    "running extrema": "a[n, t, i] = cummax[t](x[n, t, i])\n    b[n, t, i] = cummin[t](x[n, t, i])\n    y = a - b",
    "two steps back": "scan t:\n        h[n, t, i] = 0.5 * h[n, t-1, i] - 0.3 * h[n, t-2, i] + x[n, t, i]\n"
    "    start h = 0\n    y = h",
    "a learnt start": "param first: [4] ~ normal\n    begin[n: N, i] = first[i]\n"
    "    scan t:\n        h[n, t, i] = tanh(h[n, t-1, i] + x[n, t, i])\n    start h = begin\n    y = h",
    "something outside": "y[n, t: T, i] = (x[n, t - 2, i] else 1.5) + x[n, t, i]",
    "heads by groups": "g[n, t, h, d] = x[n, t, (h d)] where h = 2, d = 2\n"
    "    a[n, h, t, s] = softmax[s](g[n, t, h, d] * g[n, s, h, d] if s <= t else -inf)\n"
    "    m[n, t, h, d] = a[n, h, t, s] * g[n, s, h, d]\n    y[n, t, (h d)] = m[n, t, h, d]",
    "normalised batches": "y = x |> causal_conv1d(4) |> batch_norm |> causal_conv1d(4, kernel = 3, dilation = 2)",
    "a scan in a loop in a loop": "h = x\n    for l in 0..2:\n        for k in 0..2:\n            h = h |> gru(4)\n"
    "    y = h",
    "attention in a loop": "h = x\n    for l in 0..3:\n        h = h + attention(h, 2)\n    y = h",
    "sorted channels": "y[n, t, i] = sort[i](x[n, t, i]) + (x[n, t - 1, i] else 0)",
    "the best so far": "y[n, t, i] = float(argmax[s](x[n, s, i] if s <= t else -inf))",
}

#: reads at a bounded distance, as `y` of `x` with 4 channels
BOUNDED = {
    "half of the channels": "s[n, t: T, c: 2] = (x[n, t-1, 2 + c] else 0)\n"
    "    y[n, t, i] = x[n, t, i] + s[n, t, i // 2]",
    "one channel": "y[n, t, i] = x[n, t, i] + (x[n, t-1, 0] else 0)",
    "channels turned around": "y[n, t, i] = x[n, t, i] + (x[n, t-2, 3 - i] else 0)",
    "channels around the edge": "y[n, t, i] = x[n, t, i] + (x[n, t-1, wrap(i + 1)] else 0)",
    "channels beyond the edge": "y[n, t, i] = x[n, t, i] + (x[n, t-1, i + 1] else 1.5)",
    "channels that are data": "y[n, t, i] = x[n, t, i] + (x[n, t-1, i * i % 4] else 0)",
    "a window": "y[n, t: T, i] = max[k: 3]((x[n, t-k, i] else -inf))",
    "a first difference": "y[n, t, i] = x[n, t, i] - (x[n, t-1, i] else 0.5 * x[n, t, 0])",
    "in a scan": "scan t:\n        h[n, t, i] = 0.5 * h[n, t-1, 3 - i] + x[n, t, i] * (x[n, t-1, 3 - i] else 1)\n"
    "    start h = 0\n    y = h",
    "in a loop": "h = x\n    for l in 0..3:\n        h[n, t, i] = h[n, t, i] + (h[n, t-1, 3 - i] else 1)\n    y = h",
}

#: results for all positions so far, as `y` of `x`
SUMMARIES = {
    "the last position": "h = x |> gru(4)\n    y = h[:, T-1, :]",
    "a mean": "h = x |> gru(4)\n    y[n, i] = mean[t](h[n, t, i])",
    "places beyond the end": "h[n, t, i] = cumsum[t](x[n, t, i])\n"
    "    y[n, i] = h[n, T-1, i] + sum[k: 3]((x[n, T-1+k, i] else 1))",
    "attention pooling": "h = x |> gru(4)\n    a[n, t] = softmax[t](sum[i](h[n, t, i]))\n"
    "    y[n, i] = a[n, t] * h[n, t, i]",
}

NESTED = (
    "layer inner(x: [N, T, 4]) -> y: [N, T, 4]:\n    h = x + diagonal_ssm(x, 3, 4)\n    for k in 0..3:\n"
    "        h = h + attention(layer_norm(h), 2) + diagonal_ssm(h, 3, 4)\n    y = h\n\n"
    "model nested(x: f32[N, T, 4]) -> y: [N, T, 4]:\n    h = x |> dense(4)\n    for l in 0..3:\n"
    "        h = layer_norm(h + inner(h))\n    y = h\n"
)

TWO = (
    "model two(x: f32[N, T], r: f32[N], s: f32[N]) -> y: [N, T]:\n    h = x\n    a = r\n    b = s\n"
    "    for l in 0..3:\n"
    "        h[n, t: T] = sum[u](h[n, u] * exp(a[n]) if u <= t else 0) + cos(b[n])\n"
    "        a[n] = tanh(a[n])\n        b[n] = sin(b[n])\n    y = h\n"
)

ROUNDS = (
    "layer rounds(x: [N, T], s: [N, 3]) -> y: [N, T]:\n    param w: [2] ~ normal\n    scan k in 0..3:\n"
    "        r[n, k] = tanh(r[n, k-1] + s[n, k] * w[0])\n        q[n, t] = h[n, t, k-1]\n"
    "        e[n, t] = sin(q[n, t] + exp(r[n, k]))\n"
    "        a[n, t, u] = softmax[u](e[n, t] * e[n, u] if u <= t else -inf)\n        c[n, t] = cumsum[t](q[n, t])\n"
    "        scan j in 0..2:\n            g[n, j, t: T] = tanh(cumsum[t](g[n, j-1, t]) + r[n, k])\n"
    "        start g[n, t] = q[n, t]\n"
    "        h[n, t: T, k] = sin(c[n, t]) + (q[n, t-1] else 0) + a[n, t, u] * e[n, u] + g[n, 1, t] * w[1]\n"
    "    start r = 0\n    start h[n, t] = x[n, t]\n    y[n, t] = h[n, t, 2]\n\n"
    "model looped(x: [N, T], s: [N, 3]) -> y: [N, T]:\n    h = x\n    for l in 0..3:\n"
    "        h = h + rounds(h, s)\n    y = rounds(h, s)\n"
)


def layer(folder: Path, body: str, shape: str = "[N, T, O]") -> Path:
    file = folder / "layer.dsl"
    shape = shape.replace("O", "3" if "gru(3)" in body else "4")
    file.write_text(f"model mixing(x: f32[N, T, 4]) -> y: {shape}:\n    {body}\n")
    return file


def written(folder: Path, text: str) -> Path:
    file = folder / "model.dsl"
    file.write_text(text, encoding="utf-8")
    return file

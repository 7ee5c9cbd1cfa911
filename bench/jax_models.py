"""The workloads in jax: functions of a dict of parameters, compiled by jit; Adam as a function of the same dict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from bench.workloads import Array, Data, Named, Sizes, Workload

Params = dict[str, Any]
Forward = Callable[[Params, Any, Sizes], Any]


def dense(p: Params, name: str, x: Any) -> Any:
    return x @ p[f"{name}.W"] + p[f"{name}.b"]


def gelu(x: Any) -> Any:
    return jax.nn.gelu(x, approximate=False)


def layer_norm(p: Params, name: str, x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    variance = jnp.square(centred).mean(-1, keepdims=True)
    return p[f"{name}.scale"] * centred * lax.rsqrt(variance + 1e-5) + p[f"{name}.shift"]


def mlp(p: Params, x: Any, s: Sizes) -> Any:
    h = gelu(dense(p, "dense", x))
    h = gelu(dense(p, "dense2", h))
    return dense(p, "dense3", h)


def attention(p: Params, name: str, x: Any, s: Sizes, causal: bool = True) -> Any:
    q, k, v = (jnp.einsum("nte,ehd->nhtd", x, p[f"{name}.W{key}"]) for key in "qkv")
    score = jnp.einsum("nhtd,nhsd->nhts", q, k) / np.sqrt(s["width"] // s["heads"])
    if causal:
        past = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
        score = jnp.where(past, score, -jnp.inf)
    weight = jax.nn.softmax(score, axis=-1)
    return jnp.einsum("nhts,nhsd,hde->nte", weight, v, p[f"{name}.Wo"], optimize="optimal")


def gpt(p: Params, token: Any, s: Sizes) -> Any:
    h = p["embed.W"][token] + p["position"][: token.shape[1]]
    for layer in range(s["depth"]):
        name = f"transformer_block.{layer}"
        h = h + attention(p, f"{name}.attention", layer_norm(p, f"{name}.layer_norm", h), s)
        u = gelu(dense(p, f"{name}.feed_forward.dense", layer_norm(p, f"{name}.layer_norm2", h)))
        h = h + dense(p, f"{name}.feed_forward.dense2", u)
    return layer_norm(p, "layer_norm", h) @ p["embed.W"].T


def conv_block(p: Params, name: str, x: Any) -> Any:
    layout = ("NHWC", "HWIO", "NHWC")
    h = lax.conv_general_dilated(x, p[f"{name}.conv2d.K"], (1, 1), "SAME", dimension_numbers=layout)
    mean, variance = h.mean((0, 1, 2)), h.var((0, 1, 2))
    h = (h - mean) * lax.rsqrt(variance + 1e-5) * p[f"{name}.batch_norm.scale"] + p[f"{name}.batch_norm.shift"]
    return lax.reduce_window(jax.nn.relu(h), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def cnn(p: Params, image: Any, s: Sizes) -> Any:
    h = conv_block(p, "conv_block2", conv_block(p, "conv_block", image))
    return dense(p, "dense", h.reshape(len(h), -1))


def gru(p: Params, x: Any, s: Sizes) -> Any:
    hidden = s["hidden"]
    w, u, b, d = (jnp.concatenate([p[f"gated_unit.{k}{gate}"] for gate in "rzc"], -1) for k in "WUbd")
    inputs = jnp.swapaxes(x @ w + b, 0, 1)

    def cell(h: Any, a: Any) -> tuple[Any, None]:
        g = h @ u + d
        gates = jax.nn.sigmoid(a[:, : 2 * hidden] + g[:, : 2 * hidden])
        r, z = gates[:, :hidden], gates[:, hidden:]
        c = jnp.tanh(a[:, 2 * hidden :] + r * g[:, 2 * hidden :])
        return (1 - z) * c + z * h, None

    h, _ = lax.scan(cell, jnp.zeros((len(x), hidden)), inputs)
    return dense(p, "dense", h)


def bert(p: Params, token: Any, s: Sizes) -> Any:
    h = layer_norm(p, "layer_norm", p["embedding.W"][token] + p["position"][: token.shape[1]])
    for layer in range(s["depth"]):
        name = f"post_norm_block.{layer}"
        y = attention(p, f"{name}.attention", h, s, causal=False)
        h = layer_norm(p, f"{name}.layer_norm", h + y)
        u = gelu(dense(p, f"{name}.feed_forward.dense", h))
        h = layer_norm(p, f"{name}.layer_norm2", h + dense(p, f"{name}.feed_forward.dense2", u))
    return h


def lstm(p: Params, x: Any, s: Sizes) -> Any:
    hidden = s["hidden"]
    h = jnp.swapaxes(x, 0, 1)
    for name in ("memory_unit", "memory_unit2", "memory_unit3"):
        w, u, b, d = (jnp.concatenate([p[f"{name}.{k}{gate}"] for gate in "ifoc"], -1) for k in "WUbd")

        def cell(state: Any, a: Any, u: Any = u) -> tuple[Any, Any]:
            h, c = state
            g = a + h @ u
            i, f, o = jnp.split(jax.nn.sigmoid(g[:, : 3 * hidden]), 3, -1)
            c = f * c + i * jnp.tanh(g[:, 3 * hidden :])
            h = o * jnp.tanh(c)
            return (h, c), h

        zeros = jnp.zeros((len(x), hidden))
        _, h = lax.scan(cell, (zeros, zeros), h @ w + b + d)
    return dense(p, "dense", h[-1])


def filters(p: Params, image: Any, s: Sizes) -> Any:
    layout = ("NHWC", "HWIO", "NHWC")

    def conv(name: str, x: Any) -> Any:
        return lax.conv_general_dilated(x, p[f"{name}.K"], (1, 1), "SAME", dimension_numbers=layout) + p[f"{name}.b"]

    h = jax.nn.relu(conv("conv2d", image))
    for layer in range(s["depth"]):
        h = jax.nn.relu(conv(f"conv2d2.{layer}", h))
    return conv("conv2d3", h)


def selective_ssm(p: Params, name: str, x: Any) -> Any:
    step_size = jax.nn.softplus(x * p[f"{name}.Wd"] + p[f"{name}.bd"])
    b, c = x @ p[f"{name}.WB"], x @ p[f"{name}.WC"]
    rate = jnp.exp(p[f"{name}.log_A"])

    def step(h: Any, now: Any) -> tuple[Any, Any]:
        x, size, b, c = now
        h = jnp.exp(-size[..., None] * rate) * h + (size * x)[..., None] * b[:, None]
        return h, jnp.einsum("nes,ns->ne", h, c)

    start = jnp.zeros((len(x), *rate.shape))
    _, y = lax.scan(step, start, [jnp.swapaxes(v, 0, 1) for v in (x, step_size, b, c)])
    return jnp.swapaxes(y, 0, 1) + p[f"{name}.D"] * x


def mamba(p: Params, x: Any, s: Sizes) -> Any:
    name = "mamba_block"
    u = x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6) * p[f"{name}.rms_norm.scale"]
    gate = jax.nn.silu(u @ p[f"{name}.dense.W"])
    h = u @ p[f"{name}.dense2.W"]
    kernel, bias = (p[f"{name}.causal_depthwise_conv1d.{k}"] for k in "Kb")
    past = jnp.pad(h, ((0, 0), (len(kernel) - 1, 0), (0, 0)))
    lags = range(len(kernel))
    h = bias + sum(kernel[lag] * past[:, len(kernel) - 1 - lag :][:, : x.shape[1]] for lag in lags)
    h = selective_ssm(p, f"{name}.selective_ssm", jax.nn.silu(h))
    return dense(p, "dense", x + (h * gate) @ p[f"{name}.dense3.W"])


def graph(p: Params, given: Any, s: Sizes) -> Any:
    x, src, dst = given
    degree = jnp.zeros(len(x)).at[dst].add(1.0)
    w = lax.rsqrt(jnp.maximum(degree[src] * degree[dst], 1))[:, None]

    def conv(name: str, x: Any) -> Any:
        z = dense(p, name, x)
        return jnp.zeros_like(z).at[dst].add(w * z[src])

    return conv("graph_conv2", jax.nn.relu(conv("graph_conv", x)))


def chain(p: Params, x: Any, s: Sizes) -> Any:
    return gelu(x) * jax.nn.sigmoid(x)


def norm(p: Params, x: Any, s: Sizes) -> Any:
    return jax.nn.softmax(layer_norm(p, "layer_norm", x), axis=-1)


MODELS: dict[str, Forward] = {
    "mlp": mlp, "gpt": gpt, "cnn": cnn, "gru": gru, "infer": mlp, "chain": chain, "norm": norm,
    "bert1": bert, "bert8": bert, "lstm": lstm, "filters": filters, "wide": gpt, "mamba": mamba, "graph": graph,
}  # fmt: skip


def adam(p: Any, m: Any, v: Any, g: Any, step: Any, rate: float, decay: float) -> tuple[Any, Any, Any]:
    """One entry's next value and moments; `decay` is AdamW's."""
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    m_hat, v_hat = m / (1 - 0.9**step), v / (1 - 0.999**step)
    return p - rate * (m_hat / (jnp.sqrt(v_hat) + 1e-8) + decay * p), m, v


class JaxPeer:
    """A workload in jax; the whole step, optimiser included, is one compiled function."""

    def __init__(
        self, workload: Workload, sizes: Sizes, params: Mapping[str, Array], data: Data, threads: int, compiled: bool
    ) -> None:
        self.workload = workload
        self.params: Params = {name: jnp.array(value) for name, value in params.items()}
        given = [jnp.array(a) for a in data.values()]
        inputs, self.label = (given[:-1], given[-1:]) if workload.trains else (given, [])
        self.x: Any = inputs[0] if len(inputs) == 1 else tuple(inputs)
        model = MODELS[workload.name]
        decay = 0.01 if workload.decays else 0.0
        rate = workload.rate

        def loss(p: Params, x: Any, label: Any) -> Any:
            log_p = jax.nn.log_softmax(model(p, x, sizes))
            return -jnp.take_along_axis(log_p, label[..., None], -1).mean()

        def train(p: Params, slots: Any, x: Any, label: Any) -> tuple[Params, Any]:
            m, v, step = slots
            step = step + 1
            g = jax.grad(loss)(p, x, label)
            new = {k: adam(p[k], m[k], v[k], g[k], step, rate, decay) for k in p}
            p, m, v = ({k: triple[part] for k, triple in new.items()} for part in range(3))
            return p, (m, v, step)

        self.forward = jax.jit(lambda p, x: model(p, x, sizes))
        self.value_and_grad = jax.jit(jax.value_and_grad(loss))
        self.train = jax.jit(train, donate_argnums=(0, 1))
        zeros = [{name: jnp.zeros_like(x) for name, x in self.params.items()} for _ in range(2)]
        self.slots: Any = (*zeros, jnp.zeros((), jnp.float32))

    def step(self) -> object:
        if not self.workload.trains:
            return self.forward(self.params, self.x).block_until_ready()
        self.params, self.slots = self.train(self.params, self.slots, self.x, *self.label)
        return jax.block_until_ready(self.params)

    def first(self) -> Named:
        if not self.workload.trains:
            return {"output": np.asarray(self.forward(self.params, self.x))}
        loss, grads = self.value_and_grad(self.params, self.x, *self.label)
        return {"loss": np.asarray(loss), **{name: np.asarray(g) for name, g in grads.items()}}

    def matching(self, ours: Named) -> Named:
        return ours


def warm() -> None:
    """One small compiled gradient, so that what jax loads on first use does not count as memory of a workload."""
    jax.jit(jax.grad(lambda x: (x @ x).sum()))(jnp.ones((4, 4))).block_until_ready()

"""The classic models, compiled to NumPy in float64, against the modules of torch.nn with the same weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from marks import rows
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

from dslc.compiler import compile_text

torch.set_num_threads(1)

ROOT = Path(__file__).parents[2]
Tensors = dict[str, torch.Tensor]
RNG = np.random.default_rng(11)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape)


def labels(high: int, *shape: int) -> Any:
    return RNG.integers(0, high, shape)


def compiled(spec: Path, **settings: object) -> ModuleType:
    module = ModuleType(spec.stem)
    exec(compile(compile_text(spec, settings=settings, dtype="f64"), f"{spec.stem}.py", "exec"), module.__dict__)
    return module


def same(found: Any, expected: torch.Tensor, name: str) -> None:
    wanted = expected.detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max(initial=1e-3), err_msg=name)


def agrees(
    module: ModuleType,
    data: list[Any],
    extra: list[Any],
    forward: Callable[..., torch.Tensor],
    loss: Callable[..., torch.Tensor],
) -> None:
    """Outputs of `forward(p, *data)`, and loss and gradients of `loss(p, *data, *extra)`."""
    params = {name: 0.4 * floats(*shape) for name, (shape, *_) in module.PARAMS.items()}
    p = {name: torch.tensor(value, requires_grad=True) for name, value in params.items()}
    same(module.forward(params, *data), forward(p, *map(torch.as_tensor, data)), "outputs")
    expected = loss(p, *map(torch.as_tensor, [*data, *extra]))
    found, grads = module.loss_and_grad(params, *data, *extra)
    same(found, expected, "loss")
    theirs = torch.autograd.grad(expected, list(p.values()))
    assert grads.keys() == p.keys()
    for name, slope in zip(p, theirs, strict=True):
        same(grads[name], slope, f"gradient by {name}")


def linear(x: torch.Tensor, W: torch.Tensor, b: torch.Tensor | None = None) -> torch.Tensor:
    """nn.Linear with our layout of the weights."""
    module = nn.Linear(*W.shape, bias=b is not None, dtype=torch.float64)
    return functional_call(module, {"weight": W.T, **({} if b is None else {"bias": b})}, (x,))


def norm(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return functional_call(nn.LayerNorm(len(scale), dtype=torch.float64), {"weight": scale, "bias": shift}, (x,))


def test_linear_regression() -> None:
    def forward(p: Tensors, x: torch.Tensor) -> torch.Tensor:
        return linear(x, p["w"][:, None], p["b"][None])[:, 0]

    agrees(
        compiled(ROOT / "specs/linear/linear_regression.dsl"),
        [floats(6, 8)],
        [floats(6)],
        forward,
        lambda p, x, target: F.mse_loss(forward(p, x), target),
    )


def test_logistic_regression() -> None:
    def forward(p: Tensors, x: torch.Tensor) -> torch.Tensor:
        return linear(x, p["w"][:, None], p["b"][None])[:, 0]

    def loss(p: Tensors, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.binary_cross_entropy_with_logits(forward(p, x), target) + 1e-3 * (p["w"] ** 2).sum()

    module = compiled(ROOT / "specs/linear/logistic_regression.dsl")
    agrees(module, [floats(6, 2)], [labels(2, 6).astype(float)], forward, loss)


def test_mlp() -> None:
    def forward(p: Tensors, x: torch.Tensor) -> torch.Tensor:
        h = F.gelu(linear(x, p["dense.W"], p["dense.b"]))
        h = F.gelu(linear(h, p["dense2.W"], p["dense2.b"]))
        return linear(h, p["dense3.W"], p["dense3.b"])

    agrees(
        compiled(ROOT / "specs/mlp/mlp.dsl", hidden=12),
        [floats(5, 64)],
        [labels(10, 5)],
        forward,
        lambda p, x, label: F.cross_entropy(forward(p, x), label),
    )


def test_cnn() -> None:
    def block(x: torch.Tensor, K: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        conv = nn.Conv2d(K.shape[2], K.shape[3], 3, padding=1, dtype=torch.float64)
        y = functional_call(conv, {"weight": K.permute(3, 2, 0, 1), "bias": b}, (x,))
        return F.max_pool2d(F.relu(y), 2)

    def forward(p: Tensors, x: torch.Tensor) -> torch.Tensor:
        h = block(x.reshape(-1, 1, 8, 8), p["conv_block.conv2d.K"], p["conv_block.conv2d.b"])
        h = block(h, p["conv_block2.conv2d.K"], p["conv_block2.conv2d.b"])
        return linear(h.mean((2, 3)), p["dense.W"], p["dense.b"])

    module = compiled(ROOT / "specs/convolution/cnn.dsl", width=4)
    outputs = module.forward
    module.forward = lambda *args: outputs(*args)["logits"]  # the spec exposes an inner value as well
    agrees(
        module,
        [floats(3, 64)],
        [labels(10, 3)],
        forward,
        lambda p, x, label: F.cross_entropy(forward(p, x), label),
    )


@rows("13.27")
def test_gru() -> None:
    def forward(p: Tensors, x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(len(x), 5, dtype=torch.float64)
        for row in x.reshape(-1, 8, 8).unbind(1):
            r = torch.sigmoid(linear(row, p["gru.Wr"], p["gru.br"]) + linear(h, p["gru.Ur"]))
            z = torch.sigmoid(linear(row, p["gru.Wz"], p["gru.bz"]) + linear(h, p["gru.Uz"]))
            c = torch.tanh(linear(row, p["gru.Wc"], p["gru.bc"]) + linear(r * h, p["gru.Uc"]))
            h = torch.lerp(h, c, z)
        return linear(h, p["dense.W"], p["dense.b"])

    agrees(
        compiled(ROOT / "specs/recurrent/gru.dsl", hidden=5),
        [floats(3, 64)],
        [labels(10, 3)],
        forward,
        lambda p, x, label: F.cross_entropy(forward(p, x), label),
    )


LSTM = """
model two_layers(x: f64[N, T, 3]) -> h: [N, T, 4]:
    h = x |> lstm(4) |> lstm(4)

train two_layers(x, target: f64[N, T, 4]):
    minimize mean_squared_error(two_layers(x), target)
    using sgd(lr = 0.1)
"""


@rows("13.28")
def test_lstm(tmp_path: Path) -> None:
    spec = tmp_path / "two_layers.dsl"
    spec.write_text(LSTM, encoding="utf-8")

    def forward(p: Tensors, x: torch.Tensor) -> torch.Tensor:
        module = nn.LSTM(3, 4, num_layers=2, batch_first=True, dtype=torch.float64)
        weights: Tensors = {}
        for k, name in enumerate(("lstm", "lstm2")):
            gates = [p[f"{name}.{letter}{gate}"] for letter in "WUb" for gate in "gfco"]
            weights[f"weight_ih_l{k}"] = torch.cat([W.T for W in gates[:4]])
            weights[f"weight_hh_l{k}"] = torch.cat([U.T for U in gates[4:8]])
            weights[f"bias_ih_l{k}"] = torch.cat(gates[8:])
            weights[f"bias_hh_l{k}"] = torch.zeros(16, dtype=torch.float64)
        return functional_call(module, weights, (x,))[0]

    agrees(
        compiled(spec),
        [floats(2, 5, 3)],
        [floats(2, 5, 4)],
        forward,
        lambda p, x, target: F.mse_loss(forward(p, x), target),
    )


def attention(x: torch.Tensor, p: Tensors, path: str, causal: bool = True) -> torch.Tensor:
    """nn.MultiheadAttention with our layout of the weights."""
    width, heads, _ = p[f"{path}Wq"].shape
    module = nn.MultiheadAttention(width, heads, bias=False, batch_first=True, dtype=torch.float64)
    weights = {
        "in_proj_weight": torch.cat([p[f"{path}{name}"].reshape(width, width).T for name in ("Wq", "Wk", "Wv")]),
        "out_proj.weight": p[f"{path}Wo"].reshape(width, width).T,
    }
    mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=torch.float64) if causal else None
    return functional_call(module, weights, (x, x, x), {"need_weights": False, "attn_mask": mask})[0]


@rows("10.11", "10.12")
@pytest.mark.parametrize("causal", [True, False])
def test_attention(causal: bool, tmp_path: Path) -> None:
    spec = tmp_path / "attend.dsl"
    spec.write_text(
        f"""
model attend(x: f64[N, T, 6]) -> y: [N, T, 6]:
    y = attention(x, heads = 2, causal = {str(causal).lower()})

train attend(x, target: f64[N, T, 6]):
    minimize mean_squared_error(attend(x), target)
    using sgd(lr = 0.1)
""",
        encoding="utf-8",
    )

    def forward(p: Tensors, x: torch.Tensor) -> torch.Tensor:
        return attention(x, p, "attention.", causal)

    agrees(
        compiled(spec),
        [floats(2, 5, 6)],
        [floats(2, 5, 6)],
        forward,
        lambda p, x, target: F.mse_loss(forward(p, x), target),
    )


@rows("9.50", "10.35")
def test_layer_norm(tmp_path: Path) -> None:
    spec = tmp_path / "normed.dsl"
    spec.write_text(
        """
model normed(x: f64[N, T, 6]) -> y: [N, T, 6]:
    y = layer_norm(x)

train normed(x, target: f64[N, T, 6]):
    minimize mean_squared_error(normed(x), target)
    using sgd(lr = 0.1)
""",
        encoding="utf-8",
    )

    def forward(p: Tensors, x: torch.Tensor) -> torch.Tensor:
        return norm(x, p["layer_norm.scale"], p["layer_norm.shift"])

    agrees(
        compiled(spec),
        [floats(2, 5, 6)],
        [floats(2, 5, 6)],
        forward,
        lambda p, x, target: F.mse_loss(forward(p, x), target),
    )


@rows("11.28")
def test_gpt() -> None:
    def block(h: torch.Tensor, p: Tensors, path: str) -> torch.Tensor:
        h = h + attention(norm(h, p[f"{path}layer_norm.scale"], p[f"{path}layer_norm.shift"]), p, f"{path}attention.")
        u = norm(h, p[f"{path}layer_norm2.scale"], p[f"{path}layer_norm2.shift"])
        u = F.gelu(linear(u, p[f"{path}feed_forward.dense.W"], p[f"{path}feed_forward.dense.b"]))
        return h + linear(u, p[f"{path}feed_forward.dense2.W"], p[f"{path}feed_forward.dense2.b"])

    def forward(p: Tensors, token: torch.Tensor) -> torch.Tensor:
        h = F.embedding(token, p["embed.W"]) + p["position"][: token.shape[1]]
        for layer in range(3):
            h = block(h, p, f"decoder_stack.transformer_block.{layer}.")
        h = norm(h, p["decoder_stack.layer_norm.scale"], p["decoder_stack.layer_norm.shift"])
        return h @ p["embed.W"].T

    def loss(p: Tensors, token: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(forward(p, token)[:, :-1].reshape(-1, 11), token[:, 1:].reshape(-1))

    module = compiled(ROOT / "specs/transformer/gpt.dsl", vocabulary=11, context=8, width=8, depth=3, heads=2)
    agrees(module, [labels(11, 3, 6)], [], forward, loss)


GCN = """
model gcn(x: f64[V, 5], src: i32[M] < V, dst: i32[M] < V) -> logits: [V, 3]:
    w = symmetric_weights(src, dst, V)
    h = relu(graph_conv(x, src, dst, w, 6))
    logits = graph_conv(h, src, dst, w, 3)

train gcn(x, src, dst, label: i32[V] < 3):
    minimize cross_entropy(gcn(x, src, dst), label)
    using sgd(lr = 0.1)
"""


@rows("12.26")
def test_gcn(tmp_path: Path) -> None:
    """A graph convolution is a product with the normalised adjacency matrix."""
    spec = tmp_path / "gcn.dsl"
    spec.write_text(GCN, encoding="utf-8")

    def forward(p: Tensors, x: torch.Tensor, src: torch.Tensor, dst: torch.Tensor) -> torch.Tensor:
        size = len(x)
        A = torch.zeros(size, size, dtype=torch.float64).index_put((dst, src), torch.ones(len(src)).double(), True)
        degree = A.sum(1)
        A = A / torch.sqrt((degree[:, None] * degree).clamp(min=1))
        h = F.relu(A @ linear(x, p["graph_conv.W"], p["graph_conv.b"]))
        return A @ linear(h, p["graph_conv2.W"], p["graph_conv2.b"])

    agrees(
        compiled(spec),
        [floats(6, 5), labels(6, 14), labels(6, 14)],
        [labels(3, 6)],
        forward,
        lambda p, x, src, dst, label: F.cross_entropy(forward(p, x, src, dst), label),
    )

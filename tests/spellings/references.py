"""One torch function for each model of the table: from parameters and inputs to outputs, and its loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

Arrays = dict[str, Any]


@dataclass(frozen=True)
class Reference:
    """What all ways of a model compute. Inputs that are positions stand with their bound: `("i32", "V")`."""

    inputs: dict[str, tuple[str, ...]]
    params: dict[str, tuple[int, ...]]
    run: Callable[[Any, Any], tuple[dict[str, Tensor], Tensor]]
    kinds: dict[str, str] = field(default_factory=dict)  # bool, or the bound of a position
    sizes: tuple[dict[str, int], ...] = ()
    only_train: tuple[str, ...] = ("t",)  # inputs of the train that the model has not


class Names:
    """Tensors as attributes."""

    def __init__(self, tensors: dict[str, Tensor]):
        self.__dict__ = tensors


TABLE: dict[str, Reference] = {}


def model(inputs: dict, params: dict, sizes: list[dict[str, int]], kinds: dict | None = None) -> Callable:
    def keep(run: Callable[[Any, Any], tuple[dict[str, Tensor], Tensor]]) -> Callable:
        TABLE[run.__name__] = Reference(inputs, params, run, kinds or {}, tuple(sizes))
        return run

    return keep


def squares(name: str, y: Tensor, t: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    return {name: y}, ((y - t) ** 2).mean()


SMALL = [{"N": 3, "T": 4}, {"N": 1, "T": 1}]


@model({"x": ("N", "4"), "t": ("N", "3")}, {"W1": (4, 5), "b1": (5,), "W2": (5, 3), "b2": (3,)}, SMALL)
def mlp(p, d):
    return squares("y", torch.tanh(d.x @ p.W1 + p.b1) @ p.W2 + p.b2, d.t)


@model({"x": ("N", "4"), "label": ("N",)}, {"W": (4, 3), "b": (3,)}, SMALL, {"label": "3"})
def softmax_regression(p, d):
    loss = F.cross_entropy(d.x @ p.W + p.b, d.label.long())
    return {"loss": loss}, loss


@model({"x": ("N", "T", "4"), "t": ("N", "T", "4")}, {"Q": (4, 4), "K": (4, 4), "V": (4, 4)}, SMALL)
def attention(p, d):
    y = F.scaled_dot_product_attention(d.x @ p.Q, d.x @ p.K, d.x @ p.V, is_causal=True)
    return squares("y", y, d.t)


@model({"x": ("N", "8", "2"), "t": ("N", "2")}, {"K": (3, 2, 3), "b": (3,), "W": (3, 2), "c": (2,)}, SMALL)
def conv_net(p, d):
    h = torch.relu(F.conv1d(d.x.transpose(1, 2), p.K.permute(2, 1, 0), p.b, padding=1))
    return squares("y", F.max_pool1d(h, 2).mean(2) @ p.W + p.c, d.t)


@model({"x": ("N", "4"), "t": ("N", "4")}, {"scale": (4,), "shift": (4,)}, SMALL)
def layer_norm(p, d):
    return squares("y", F.layer_norm(d.x, [4], p.scale, p.shift), d.t)


GATES = {
    "Wr": (2, 3),
    "Wz": (2, 3),
    "Wc": (2, 3),
    "Ur": (3, 3),
    "Uz": (3, 3),
    "Uc": (3, 3),
    "br": (3,),
    "bz": (3,),
    "bc": (3,),
}


@model({"x": ("N", "T", "2"), "t": ("N", "T", "3")}, GATES, SMALL)
def gru(p, d):
    h, steps = torch.zeros(len(d.x), 3), []
    for x in d.x.unbind(1):
        r, z = (torch.sigmoid(x @ w + h @ u + b) for w, u, b in ((p.Wr, p.Ur, p.br), (p.Wz, p.Uz, p.bz)))
        h = (1 - z) * h + z * torch.tanh(x @ p.Wc + (r * h) @ p.Uc + p.bc)
        steps.append(h)
    return squares("h", torch.stack(steps, 1), d.t)


@model({"x": ("N", "5", "2"), "t": ("N", "3")}, {"W": (2, 4, 3), "U": (3, 4, 3), "b": (4, 3)}, SMALL)
def lstm(p, d):
    # gates of torch stand in the order i, f, g, o; ours are f, i, o, g
    order = [1, 0, 3, 2]
    cell = [m[:, order].reshape(len(m), 12).T for m in (p.W, p.U)]
    h = c = torch.zeros(len(d.x), 3)
    for x in d.x.unbind(1):
        h, c = torch.lstm_cell(x, (h, c), *cell, p.b[order].reshape(12))
    return squares("y", h, d.t)


@model({"x": ("N", "2")}, {"a": (3,), "mu": (3, 2), "s": (3, 2)}, SMALL)
def mixture(p, d):
    normal = torch.distributions.Independent(torch.distributions.Normal(p.mu, torch.exp(p.s)), 1)
    both = torch.distributions.MixtureSameFamily(torch.distributions.Categorical(logits=p.a), normal)
    y = both.log_prob(d.x)
    return {"log_p": y}, -y.mean()


@model({"e": ("N", "4", "3")}, {"A": (3, 3), "p": (3,)}, SMALL)
def hmm(p, d):
    alpha = p.p.expand(len(d.e), 3)
    for e in d.e.unbind(1):
        alpha = torch.logsumexp(alpha[:, :, None] + p.A, 1) + e
    y = torch.logsumexp(alpha, 1)
    return {"ll": y}, -y.mean()


EDGES = [{"V": 4, "M": 6}, {"V": 1, "M": 2}, {"V": 3, "M": 1}]


@model(
    {"x": ("V", "3"), "src": ("M",), "dst": ("M",), "t": ("V", "2")},
    {"W": (3, 2), "S": (3, 2)}, EDGES, {"src": "V", "dst": "V"},
)  # fmt: skip
def graph_conv(p, d):
    near = torch.zeros_like(d.x).index_add(0, d.dst.long(), d.x[d.src.long()])
    return squares("y", torch.tanh(near @ p.W + d.x @ p.S), d.t)


@model({"x": ("N", "4"), "eps": ("N", "2")}, {"E": (4, 4), "e": (4,), "D": (2, 4), "d": (4,)}, SMALL)
def vae(p, d):
    mu, s = (d.x @ p.E + p.e).chunk(2, 1)
    r = (mu + torch.exp(s / 2) * d.eps) @ p.D + p.d
    normal = torch.distributions.Normal
    kl = torch.distributions.kl_divergence(normal(mu, torch.exp(s / 2)), normal(0.0, 1.0))
    loss = ((r - d.x) ** 2).sum(1).mean() + kl.sum(1).mean()
    return {"loss": loss}, loss


@model({"x": ("N", "3"), "t": ("N", "3")}, {"W0": (3, 3), "b0": (3,), "W1": (3, 3), "b1": (3,)}, SMALL)
def residual(p, d):
    h = d.x + torch.tanh(d.x @ p.W0 + p.b0)
    return squares("y", h + torch.tanh(h @ p.W1 + p.b1), d.t)


@model({"x": ("N", "T"), "t": ("N", "T")}, {"a": ()}, SMALL)
def ema(p, d):
    k, y, steps = torch.sigmoid(p.a), torch.zeros(len(d.x)), []
    for x in d.x.unbind(1):
        y = k * y + (1 - k) * x
        steps.append(y)
    return squares("y", torch.stack(steps, 1), d.t)


@model({"x": ("N",), "t": ("N",)}, {"w": (4,)}, SMALL)
def polynomial(p, d):
    return squares("y", torch.stack([d.x**n for n in range(4)], 1) @ p.w, d.t)


@model({"x": ("N", "2"), "z": ("M", "2"), "t": ("N",)}, {"g": (), "a": (2,)}, [{"N": 3, "M": 4}, {"N": 1, "M": 1}])
def rbf(p, d):
    kernel = torch.exp(-torch.exp(p.g) * ((d.x[:, None] - d.z) ** 2).sum(2))
    return squares("y", kernel @ torch.sin(d.z @ p.a), d.t)


@model({"x": ("N", "3"), "t": ("N", "3")}, {"W": (3, 3)}, [{"N": 5}, {"N": 4}])
def whitening(p, d):
    h = d.x @ p.W
    c = h - h.mean(0)
    lam, v = torch.linalg.eigh(c.T @ c / len(c) + torch.eye(3) / 2)
    return squares("y", c @ v @ torch.diag(lam**-0.5) @ v.T, d.t)


@model({"x": ("N", "2"), "z": ("M", "2")}, {"a": (2,)}, [{"N": 3, "M": 4}, {"N": 1, "M": 2}])
def sinkhorn(p, d):
    cost = (torch.exp(p.a) * (d.x[:, None] - d.z) ** 2).sum(2)
    kernel, v = torch.exp(-cost), torch.ones(len(d.z))
    for _ in range(4):
        u = 1 / len(d.x) / (kernel @ v)
        v = 1 / len(d.z) / (kernel.T @ u)
    loss = (u[:, None] * kernel * v * cost).sum()
    return {"cost": loss}, loss


@model({"y": ("5",)}, {"a": (), "q": (), "r": ()}, [{}])
def kalman(p, d):
    mu, var, ll = torch.zeros(()), torch.ones(()), torch.zeros(())
    for y in d.y:
        mu, var = p.a * mu, p.a**2 * var + torch.exp(p.q)
        s = var + torch.exp(p.r)
        ll = ll + torch.distributions.Normal(mu, torch.sqrt(s)).log_prob(y)
        mu, var = mu + var / s * (y - mu), var - var**2 / s
    return {"ll": ll}, -ll


@model({"x": ("N", "T"), "t": ("N", "T")}, {"nu": (3,), "B": (3,), "C": (3,)}, SMALL)
def state_space(p, d):
    a, h, steps = torch.exp(-torch.exp(p.nu)), torch.zeros(len(d.x), 3), []
    for x in d.x.unbind(1):
        h = a * h + x[:, None] * p.B
        steps.append(h @ p.C)
    return squares("y", torch.stack(steps, 1), d.t)


@model({"x": ("N", "3"), "z": ("N", "3")}, {"W": (3, 2)}, SMALL)
def contrastive(p, d):
    a, b = F.normalize(d.x @ p.W, dim=1), F.normalize(d.z @ p.W, dim=1)
    loss = F.cross_entropy(2 * a @ b.T, torch.arange(len(a)))
    return {"loss": loss}, loss


@model({"q": ("K",), "p": ("K",)}, {"w": (3,)}, [{"K": 3}, {"K": 1}])
def hamiltonian(p, d):
    a, b = d.q, d.p
    for _ in range(2):
        b = b - 0.1 * (2 * p.w[1] * a - p.w[0] * torch.sin(a))
        a = a + 0.1 * p.w[2] * b
    return {"a": a, "b": b}, torch.sin(a).mean() + torch.cos(b).mean()


@model({"x": ("N", "3"), "event": ("N",)}, {"w": (3,)}, [{"N": 5}, {"N": 1}], {"event": "bool"})
def cox(p, d):
    r = d.x @ p.w
    loss = ((torch.logcumsumexp(r, 0) - r) * d.event).mean()
    return {"loss": loss}, loss


@model({"x": ("N", "3"), "t": ("N", "2")}, {"G": (3, 2), "W": (2, 3, 2)}, SMALL)
def experts(p, d):
    h = torch.tanh(torch.einsum("ni,eio->neo", d.x, p.W))
    return squares("y", torch.einsum("ne,neo->no", torch.softmax(d.x @ p.G, 1), h), d.t)

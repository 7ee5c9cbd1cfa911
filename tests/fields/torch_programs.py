"""The models of this folder as torch programs, written beside the specs and not from them.

Each takes the parameters by their paths and the inputs in order, and gives the loss with the outputs by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Params = dict[str, Tensor]
Result = tuple[Tensor, dict[str, Tensor]]


class At:
    """The parameters below a path."""

    def __init__(self, params: Params, path: str = ""):
        self.params, self.path = params, path

    def __call__(self, name: str) -> Tensor:
        return self.params[self.path + name]

    def below(self, name: str) -> At:
        return At(self.params, f"{self.path}{name}.")

    def dense(self, x: Tensor, name: str = "dense") -> Tensor:
        y = x @ self(f"{name}.W")
        return y + self(f"{name}.b") if f"{self.path}{name}.b" in self.params else y

    def norm(self, x: Tensor, name: str = "layer_norm") -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self(f"{name}.scale"), self(f"{name}.shift"), 1e-5)

    def rms(self, x: Tensor, name: str) -> Tensor:
        return self(f"{name}.scale") * x / torch.sqrt((x**2).mean(-1, keepdim=True) + 1e-6)

    def gru(self, x: Tensor, name: str = "gru") -> Tensor:
        w = self.below(name)
        h, steps = x.new_zeros(x.shape[0], w("Ur").shape[0]), []
        for t in range(x.shape[1]):
            r = torch.sigmoid(x[:, t] @ w("Wr") + h @ w("Ur") + w("br"))
            z = torch.sigmoid(x[:, t] @ w("Wz") + h @ w("Uz") + w("bz"))
            c = torch.tanh(x[:, t] @ w("Wc") + (r * h) @ w("Uc") + w("bc"))
            h = (1 - z) * h + z * c
            steps.append(h)
        return torch.stack(steps, 1)

    def lstm(self, x: Tensor, name: str) -> Tensor:
        w = self.below(name)
        h = c = x.new_zeros(x.shape[0], w("Uf").shape[0])
        steps = []
        for t in range(x.shape[1]):
            f, g, o = (torch.sigmoid(x[:, t] @ w(f"W{k}") + h @ w(f"U{k}") + w(f"b{k}")) for k in "fgo")
            c = f * c + g * torch.tanh(x[:, t] @ w("Wc") + h @ w("Uc") + w("bc"))
            h = o * torch.tanh(c)
            steps.append(h)
        return torch.stack(steps, 1)


def lattice_boltzmann(p: Params, f: Tensor, cx: Tensor, cy: Tensor, w: Tensor, seen: Tensor) -> Result:
    tau = 0.5 + torch.exp(p["log_tau"])
    for _ in range(5):
        rho = f.sum(-1)
        ux = (f * cx).sum(-1) / rho + p["force"] * tau
        uy = (f * cy).sum(-1) / rho
        cu = cx * ux[..., None] + cy * uy[..., None]
        eq = w * rho[..., None] * (1 + 3 * cu + 4.5 * cu**2 - 1.5 * (ux**2 + uy**2)[..., None])
        post = f - (f - eq) / tau
        moved = [torch.roll(post[..., q], (int(cx[q]), int(cy[q])), (0, 1)) for q in range(9)]
        f = torch.stack(moved, -1)
    rho = f.sum(-1)
    ux, uy = (f * cx).sum(-1) / rho, (f * cy).sum(-1) / rho
    loss = ((ux - seen) ** 2).mean() + (uy**2).mean() + ((rho - 1) ** 2).mean()
    return loss, {"rho": rho, "ux": ux, "uy": uy}


def hamiltonian(p: Params, q0: Tensor, p0: Tensor, q1: Tensor, p1: Tensor) -> Result:
    at = At(p, "H.")

    def energy(q: Tensor, m: Tensor) -> Tensor:
        h = torch.tanh(at.dense(torch.cat([q, m], 1)))
        h = torch.tanh(at.dense(h, "dense2"))
        return at.dense(h, "dense3")[:, 0] + (m**2).sum(1) / 2

    def slope(q: Tensor, m: Tensor, of_position: bool) -> Tensor:
        by = q if of_position else m
        return torch.autograd.grad(energy(q, m).sum(), by, create_graph=True)[0]

    q, m, dt = q0.clone().requires_grad_(), p0.clone().requires_grad_(), 0.1
    for _ in range(4):
        half = m - dt / 2 * slope(q, m, True)
        q = q + dt * slope(q, half, False)
        m = half - dt / 2 * slope(q, half, True)
    drift = energy(q, m) - energy(q0, p0)
    loss = F.mse_loss(q, q1) + F.mse_loss(m, p1) + (drift**2).mean()
    return loss, {"q": q, "p": m, "drift": drift}


def radiance_field(p: Params, origin: Tensor, direction: Tensor, jitter: Tensor, target: Tensor) -> Result:
    at = At(p, "field.")

    def encoded(x: Tensor, bands: int) -> Tensor:
        angle = x[..., None] * math.pi * 2.0 ** torch.arange(bands)
        return torch.stack([torch.sin(angle), torch.cos(angle)], -1).flatten(-3)

    count = jitter.shape[1]
    unit = direction / direction.norm(dim=1, keepdim=True)
    t = 1.0 + 2.0 * (torch.arange(count) + jitter) / count
    x = origin[:, None] + t[..., None] * unit[:, None]
    e = encoded(x, 4)
    h = torch.relu(at.dense(torch.relu(at.dense(e)), "dense2"))
    h = torch.relu(at.dense(torch.cat([h, e], -1), "dense3"))
    sigma = F.softplus(at.dense(h, "dense4")[..., 0])
    view = encoded(unit, 2)[:, None].expand(-1, count, -1)
    colour = torch.sigmoid(at.dense(torch.relu(at.dense(torch.cat([h, view], -1), "dense5")), "dense6"))
    delta = torch.cat([t[:, 1:] - t[:, :-1], 1e10 - t[:, -1:]], 1)
    alpha = 1 - torch.exp(-sigma * delta)
    through = torch.cumprod(1 - alpha + 1e-10, 1)
    weight = alpha * torch.cat([torch.ones_like(t[:, :1]), through[:, :-1]], 1)
    rgb = (weight[..., None] * colour).sum(1) + 1 - weight.sum(1, keepdim=True)
    return F.mse_loss(rgb, target), {"rgb": rgb, "depth": (weight * t).sum(1)}


def spatial_transformer(p: Params, x: Tensor, label: Tensor) -> Result:
    def conv(x: Tensor, name: str) -> Tensor:
        kernel = p[f"{name}.K"].permute(3, 2, 0, 1)
        return F.conv2d(x.permute(0, 3, 1, 2), kernel, p[f"{name}.b"]).permute(0, 2, 3, 1)

    at = At(p, "located.")
    h = F.max_pool2d(torch.relu(conv(x, "located.conv2d")).permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)
    h = torch.tanh(at.dense(h.flatten(1)))
    theta = torch.einsum("nk,krc->nrc", h, at("V")) + at("b")
    grid = F.affine_grid(theta, (x.shape[0], 1, 8, 8), align_corners=False)
    warped = F.grid_sample(x.permute(0, 3, 1, 2), grid, align_corners=False).permute(0, 2, 3, 1)
    logits = At(p).dense(torch.relu(conv(warped, "conv2d")).mean((1, 2)))
    return F.cross_entropy(logits, label.long()), {"logits": logits, "warped": warped}


def transducer(p: Params, frames: Tensor, label: Tensor) -> Result:
    at = At(p)
    enc = at.dense(at.gru(frames))
    token = F.pad(label + 1, (1, 0)).long()
    pred = at.dense(at.gru(p["embedding.W"][token], "gru2"), "dense2")
    lp = torch.log_softmax(at.dense(torch.tanh(enc[:, :, None] + pred[:, None]), "dense3"), -1)
    losses = []
    for n in range(len(frames)):
        frames_, labels = lp.shape[1], label.shape[1]
        alpha: dict[tuple[int, int], Tensor] = {}
        for t in range(frames_):
            for u in range(labels + 1):
                ways = [alpha[t - 1, u] + lp[n, t - 1, u, 0]] if t else []
                if u:
                    ways.append(alpha[t, u - 1] + lp[n, t, u - 1, label[n, u - 1] + 1])
                alpha[t, u] = torch.logsumexp(torch.stack(ways), 0) if ways else lp.new_zeros(())
        losses.append(-alpha[frames_ - 1, labels] - lp[n, frames_ - 1, labels, 0])
    each = torch.stack(losses)
    return each.mean(), {"loss_each": each}


def conformer(p: Params, wave: Tensor, mel: Tensor, label: Tensor) -> Result:
    window = torch.hann_window(16, dtype=wave.dtype)
    power = torch.fft.rfft(wave.unfold(1, 16, 8) * window).abs() ** 2
    z = torch.log(power @ mel + 1e-6)
    z = (z - z.mean(1, keepdim=True)) / (z.std(1, correction=0, keepdim=True) + 1e-5)
    h = At(p).dense(z)

    def feed_forward(x: Tensor, at: At, name: str) -> Tensor:
        inner = at.below(name)
        return inner.dense(F.silu(inner.dense(x)), "dense2")

    def attention(x: Tensor, at: At) -> Tensor:
        q, k, v = (torch.einsum("nte,ehd->nhtd", x, at(f"W{c}")) for c in "qkv")
        return torch.einsum("nhtd,hde->nte", F.scaled_dot_product_attention(q, k, v), at("Wo"))

    def convolved(x: Tensor, at: At) -> Tensor:
        x = at.norm(x)
        x = torch.sigmoid(x @ at("glu.V")) * (x @ at("glu.W"))
        kernel = at("depthwise_conv1d.K").T[:, None]
        x = F.conv1d(x.transpose(1, 2), kernel, at("depthwise_conv1d.b"), padding=2, groups=kernel.shape[0])
        return at.dense(F.silu(at.norm(x.transpose(1, 2), "layer_norm2")))

    for layer in range(2):
        at = At(p, f"conformer_block.{layer}.")
        h = h + 0.5 * feed_forward(at.norm(h), at, "feed_forward")
        h = h + attention(at.norm(h, "layer_norm2"), at.below("attention"))
        h = h + convolved(h, at.below("convolution_module"))
        h = h + 0.5 * feed_forward(at.norm(h, "layer_norm3"), at, "feed_forward2")
        h = at.norm(h, "layer_norm4")
    a = torch.softmax(At(p).dense(h, "dense2")[..., 0], 1)
    logits = At(p).dense((a[..., None] * h).sum(1), "dense3")
    return F.cross_entropy(logits, label.long()), {"logits": logits}


def crf(p: Params, word: Tensor, gold: Tensor) -> Result:
    at = At(p)
    e = p["embedding.W"][word.long()]
    h = torch.cat([at.lstm(e, "lstm"), at.lstm(e.flip(1), "lstm2").flip(1)], -1)
    emission = at.dense(h)
    a, first, last = p["A"], p["first"], p["last"]
    length = word.shape[1]
    alpha = best = first + emission[:, 0]
    back = []
    for t in range(1, length):
        alpha = torch.logsumexp(alpha[:, :, None] + a, 1) + emission[:, t]
        top, place = (best[:, :, None] + a).max(1)
        best = top + emission[:, t]
        back.append(place)
    partition = torch.logsumexp(alpha + last, 1)
    g = gold.long()
    score = first[g[:, 0]] + last[g[:, -1]] + a[g[:, :-1], g[:, 1:]].sum(1)
    score = score + emission.gather(2, g[..., None])[..., 0].sum(1)
    path = [(best + last).argmax(1)]
    for place in reversed(back):
        path.insert(0, place.gather(1, path[0][:, None])[:, 0])
    loss = (partition - score).mean()
    return loss, {"loss": loss, "path": torch.stack(path, 1)}


def mixture_of_experts(p: Params, token: Tensor) -> Result:
    token = token.long()
    h = p["embed.W"][token]
    balance = h.new_zeros(())
    for layer in range(2):
        at = At(p)
        x = at.rms(h, f"rms_norm.{layer}")
        w = At(p, f"grouped_query_attention.{layer}.")
        q = torch.einsum("nte,egrd->ngrtd", x, w("Wq"))
        k, v = (
            torch.einsum("nte,egd->ngtd", x, w(name))[:, :, None].expand(-1, -1, 2, -1, -1) for name in ("Wk", "Wv")
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + torch.einsum("ngrtd,grde->nte", y, w("Wo"))
        x = at.rms(h, f"rms_norm2.{layer}")
        w = At(p, f"experts.{layer}.")
        share = torch.softmax(x @ w("router"), -1)
        value, place = share.topk(2, -1)
        gate = value / value.sum(-1, keepdim=True)
        out = torch.zeros_like(h)
        for j in range(2):
            for expert in range(4):
                chosen = (place[..., j] == expert).unsqueeze(-1)
                made = (F.silu(x @ w("W1")[expert]) * (x @ w("W3")[expert])) @ w("W2")[expert]
                out = out + torch.where(chosen, gate[..., j : j + 1] * made, 0.0)
        h = h + out
        used = F.one_hot(place[..., 0], 4).to(h.dtype).mean((0, 1))
        balance = balance + 4 * (used * share.mean((0, 1))).sum() / 2
    logits = At(p).rms(h, "rms_norm3") @ p["embed.W"].T
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), token[:, 1:].flatten()) + 0.01 * balance
    return loss, {"logits": logits, "balance": balance}


def egnn(
    p: Params, kind: Tensor, x: Tensor, src: Tensor, dst: Tensor, graph: Tensor, target: Tensor, pull: Tensor
) -> Result:
    x = x.clone().requires_grad_()
    h, y = p["embedding.W"][kind.long()], x
    src, dst = src.long(), dst.long()
    for layer in range(2):
        at = At(p, f"egnn_layer.{layer}.")
        apart = y[dst] - y[src]
        d2 = (apart**2).sum(1, keepdim=True)
        message = F.silu(at.dense(F.silu(at.dense(torch.cat([h[src], h[dst], d2], 1))), "dense2"))
        shift = at.dense(F.silu(at.dense(message, "dense3")), "dense4")
        y = y.index_add(0, dst, apart * shift / (torch.sqrt(d2) + 1))
        total = torch.zeros_like(h).index_add(0, dst, message)
        h = h + at.dense(F.silu(at.dense(torch.cat([h, total], 1), "dense5")), "dense6")
    e = At(p).dense(F.silu(At(p).dense(h)), "dense2")[:, 0]
    energy = torch.zeros(2, dtype=e.dtype).index_add(0, graph.long(), e)
    force = -torch.autograd.grad(energy.sum(), x, create_graph=True)[0]
    return F.mse_loss(energy, target) + 10 * F.mse_loss(force, pull), {"energy": energy, "force": force}


def shortest_paths(p: Params, x: Tensor, edge: Tensor, target: Tensor) -> Result:
    count = len(x)
    pair = torch.cat([x[:, None].expand(-1, count, -1), x[None].expand(count, -1, -1)], -1)
    raw = At(p).dense(torch.tanh(At(p).dense(pair)), "dense2")[..., 0]
    cost = torch.where(edge, F.softplus(raw), 100.0)
    d = cost.masked_fill(torch.eye(count, dtype=torch.bool), 0.0)
    for k in range(count):
        d = -0.1 * torch.logaddexp(-d / 0.1, -(d[:, k : k + 1] + d[k : k + 1]) / 0.1)
    return F.mse_loss(d, target), {"distance": d}


def kalman(p: Params, y: Tensor, seen: Tensor) -> Result:
    a, c = p["A"], p["C"]
    q, r = torch.diag(torch.exp(p["log_q"])), torch.diag(torch.exp(p["log_r"]))
    totals, means = [], []
    for n in range(len(y)):
        m, cov, total, steps = y.new_zeros(3), torch.eye(3, dtype=y.dtype), y.new_zeros(()), []
        for t in range(y.shape[1]):
            m, cov = a @ m, a @ cov @ a.T + q
            if seen[n, t]:
                given = torch.distributions.MultivariateNormal(c @ m, c @ cov @ c.T + r)
                total = total + given.log_prob(y[n, t])
                gain = torch.linalg.solve(given.covariance_matrix, c @ cov).T
                m, cov = m + gain @ (y[n, t] - c @ m), cov - gain @ c @ cov
            steps.append(m)
        totals.append(total)
        means.append(torch.stack(steps))
    likelihood = torch.stack(totals)
    return -likelihood.mean(), {"log_likelihood": likelihood, "mean_state": torch.stack(means)}


def sparse_gp(p: Params, x: Tensor, y: Tensor) -> Result:
    """The bound by its definition: the density under Kxz Kzz^-1 Kzx + s2, less the trace that is left out."""

    def kernel(a: Tensor, b: Tensor) -> Tensor:
        scaled = (a[:, None] - b[None]) / torch.exp(p["log_scale"])
        return torch.exp(2 * p["log_amplitude"] - (scaled**2).sum(-1) / 2)

    z, s2 = p["z"], torch.exp(2 * p["log_noise"])
    kzz, kzx = kernel(z, z) + 1e-6 * torch.eye(4, dtype=x.dtype), kernel(z, x)
    low = kzx.T @ torch.linalg.solve(kzz, kzx)
    noisy = low + s2 * torch.eye(len(x), dtype=x.dtype)
    density = torch.distributions.MultivariateNormal(torch.zeros_like(y), noisy).log_prob(y)
    bound = density - (len(x) * torch.exp(2 * p["log_amplitude"]) - torch.trace(low)) / (2 * s2)
    mean = low @ torch.linalg.solve(noisy, y)
    return -bound / len(x), {"bound": bound, "mean_at_x": mean}


PROGRAMS: dict[str, Callable[..., Result]] = {
    f.__name__: f
    for f in (
        lattice_boltzmann, hamiltonian, radiance_field, spatial_transformer, transducer, conformer, crf,
        mixture_of_experts, egnn, shortest_paths, kalman, sparse_gp,
    )
}  # fmt: skip

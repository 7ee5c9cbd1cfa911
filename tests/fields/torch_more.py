"""More hard models of six fields as torch programs: parameters by path and inputs give the loss and the outputs."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Params = dict[str, Tensor]
Result = tuple[Tensor, dict[str, Tensor]]


def dense(p: Params, name: str, x: Tensor) -> Tensor:
    return x @ p[f"{name}.W"] + p[f"{name}.b"]


def zeros(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.float64)


def counting(count: int) -> Tensor:
    return torch.arange(count, dtype=torch.float64)


# ---- physics


def molecular_dynamics(p: Params, x0: Tensor, v0: Tensor, mass: Tensor, seen: Tensor) -> Result:
    pairs = torch.triu(torch.ones(len(x0), len(x0)), 1).bool()
    m = mass[:, None]

    def energy(x: Tensor) -> Tensor:
        r2 = ((x[:, None] - x[None]) ** 2).sum(-1)
        s6 = torch.where(pairs, (p["sigma"] ** 2 / torch.where(pairs, r2, 1.0)) ** 3, 0.0)
        return 4 * p["eps"] * (s6**2 - s6).sum() + p["k"] / 2 * (x**2).sum()

    def force(x: Tensor) -> Tensor:
        return -torch.autograd.grad(energy(x), x, create_graph=True)[0]

    x, v, path = x0 * 1, v0, []
    for _ in range(4):
        h = v + 0.005 * force(x) / m
        x = x + 0.01 * h
        v = h + 0.005 * force(x) / m
        path.append(x)
    e = energy(x) + (m * v**2).sum() / 2
    steps = torch.stack(path)
    return ((steps - seen) ** 2).mean() + 1e-3 * e**2, {"x": steps, "e": e}


def neural_operator(p: Params, u: Tensor, target: Tensor) -> Result:
    count = u.shape[1]
    h = dense(p, "dense", torch.stack([u, (counting(count) / count).expand_as(u)], -1))
    for layer in range(2):
        weight = torch.complex(p[f"spectral.{layer}.Wre"], p[f"spectral.{layer}.Wim"])
        low = torch.einsum("nmc,mco->nmo", torch.fft.fft(h, dim=1)[:, :3], weight)
        mirrored = torch.cat([torch.zeros_like(h)[:, 2:], low[:, 1:].flip(1).conj()], 1)
        spectrum = torch.cat([low, torch.zeros_like(h)[:, 3:]], 1) + mirrored
        h = F.gelu(torch.fft.ifft(spectrum, dim=1).real + dense(p, f"dense2.{layer}", h))
    v = dense(p, "dense4", F.gelu(dense(p, "dense3", h)))[..., 0]
    return (torch.linalg.norm(v - target, dim=1) / torch.linalg.norm(target, dim=1)).mean(), {"v": v}


# ---- vision: channels last, as in the specs


def conv(p: Params, name: str, x: Tensor, padding: int) -> Tensor:
    y = F.conv2d(x.permute(0, 3, 1, 2), p[f"{name}.K"].permute(3, 2, 0, 1), p.get(f"{name}.b"), padding=padding)
    return y.permute(0, 2, 3, 1)


def unet(p: Params, x: Tensor, label: Tensor) -> Result:
    def double(name: str, h: Tensor) -> Tensor:
        for k in ("", "2"):
            h, norm = conv(p, f"{name}.conv2d{k}", h, 1), f"{name}.group_norm{k}."
            normal = F.group_norm(h.permute(0, 3, 1, 2), 2, p[norm + "scale"], p[norm + "shift"], 1e-5)
            h = F.silu(normal.permute(0, 2, 3, 1))
        return h

    def half(h: Tensor) -> Tensor:
        return F.max_pool2d(h.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)

    a = double("double", x)
    b = double("double2", half(a))
    m = double("double3", half(b))
    kernel = p["conv_transpose2d.K"].permute(3, 2, 0, 1)
    up = F.conv_transpose2d(m.permute(0, 3, 1, 2), kernel, p["conv_transpose2d.b"], stride=2).permute(0, 2, 3, 1)
    d = double("double4", torch.cat([b, up], -1))
    e = double("double5", torch.cat([a, d.repeat_interleave(2, 1).repeat_interleave(2, 2)], -1))
    logits = dense(p, "dense", e)
    share, hot = torch.softmax(logits, -1), F.one_hot(label.long(), 3)
    dice = 1 - ((2 * (share * hot).sum((0, 1, 2)) + 1) / ((share + hot).sum((0, 1, 2)) + 1)).mean()
    return F.cross_entropy(logits.reshape(-1, 3), label.long().reshape(-1)) + dice, {"logits": logits}


def deformable(p: Params, x: Tensor, t: Tensor) -> Result:
    n, rows, columns, _ = x.shape
    offset = conv(p, "deformable.conv2d", x, 1).reshape(n, rows, columns, 3, 3, 2)
    gate = torch.sigmoid(conv(p, "deformable.conv2d2", x, 1)).reshape(n, rows, columns, 3, 3)
    row = torch.arange(rows)[:, None, None, None] + torch.arange(3)[:, None] - 1 + offset[..., 0]
    column = torch.arange(columns)[:, None, None] + torch.arange(3) - 1 + offset[..., 1]
    weight = (1 - (row[..., None, None] - torch.arange(rows)[:, None]).abs()).clamp(min=0)
    weight = weight * (1 - (column[..., None, None] - torch.arange(columns)).abs()).clamp(min=0)
    sampled = torch.einsum("npqabuv,nuvc->npqabc", weight, x)
    y = torch.einsum("npqab,npqabc,abco->npqo", gate, sampled, p["deformable.K"])
    y = dense(p, "dense", torch.relu(y).mean((1, 2)))
    return ((y - t) ** 2).mean(), {"y": y}


# ---- speech


def ctc(p: Params, x: Tensor, label: Tensor, frames: Tensor, length: Tensor) -> Result:
    h, states = zeros(len(x), 4), []
    for t in range(x.shape[1]):
        r, z = (torch.sigmoid(x[:, t] @ p[f"gru.W{k}"] + h @ p[f"gru.U{k}"] + p[f"gru.b{k}"]) for k in "rz")
        c = torch.tanh(x[:, t] @ p["gru.Wc"] + (r * h) @ p["gru.Uc"] + p["gru.bc"])
        h = (1 - z) * h + z * c
        states.append(h)
    logits = dense(p, "dense", torch.stack(states, 1))
    log_p = torch.log_softmax(logits, -1).transpose(0, 1)
    nll = F.ctc_loss(log_p, label.long(), frames.long(), length.long(), blank=5, reduction="none")
    return (nll / length.clamp(min=1)).mean(), {"logits": logits, "nll": nll}


def tacotron(p: Params, text: Tensor, mel: Tensor, done: Tensor) -> Result:
    (n, symbols), steps = text.shape, mel.shape[1]
    embedded = p["embedding.W"][text.long()]

    def rnn(w: str, u: str, b: str, places: range) -> list[Tensor]:
        h, states = zeros(n, 3), {}
        for s in places:
            h = torch.tanh(embedded[:, s] @ p[f"bidirectional_rnn.{w}"] + h @ p[f"bidirectional_rnn.{u}"]
                           + p[f"bidirectional_rnn.{b}"])  # fmt: skip
            states[s] = h
        return [states[s] for s in range(symbols)]

    ahead, back = rnn("W", "U", "b", range(symbols)), rnn("V", "R", "c", range(symbols - 1, -1, -1))
    memory = torch.cat([torch.stack(ahead, 1), torch.stack(back, 1)], -1)
    key = dense(p, "dense", memory)
    h, c, context, weight, total = zeros(n, 3), zeros(n, 3), zeros(n, 6), zeros(n, symbols), zeros(n, symbols)
    outs, stops, weights = [], [], []
    for t in range(steps):
        last = mel[:, t - 1] if t else zeros(n, 2)
        given = torch.cat([torch.relu(dense(p, "pre", last)), context], 1)
        g = torch.einsum("ni,irk->nrk", given, p["cell.W"]) + torch.einsum("nj,jrk->nrk", h, p["cell.U"]) + p["cell.b"]
        c = torch.sigmoid(g[:, 1]) * c + torch.sigmoid(g[:, 0]) * torch.tanh(g[:, 2])
        h = torch.sigmoid(g[:, 3]) * torch.tanh(c)
        location = F.conv1d(torch.stack([weight, total], 1), p["Wf"].permute(2, 1, 0), padding=1).transpose(1, 2)
        weight = torch.softmax(torch.tanh((h @ p["Wq"])[:, None] + key + location) @ p["v"], 1)
        total = total + weight
        context = torch.einsum("ns,nse->ne", weight, memory)
        both = torch.cat([h, context], 1)
        outs.append(dense(p, "frame", both))
        stops.append(dense(p, "halt", both)[:, 0])
        weights.append(weight)
    out, stop, att = (torch.stack(x, 1) for x in (outs, stops, weights))
    far = counting(symbols) / symbols - (counting(steps) / steps)[:, None]
    guide = att * (1 - torch.exp(-(far**2) / (2 * 0.2**2)))
    loss = ((out - mel) ** 2).mean() + (out - mel).abs().mean() + guide.mean()
    return loss + F.binary_cross_entropy_with_logits(stop, done), {"out": out, "stop": stop, "att": att}


# ---- language


def pointer(p: Params, source: Tensor, target: Tensor, length: Tensor) -> Result:
    n, symbols = source.shape
    x, y = p["embed.W"][source.long()], p["embed.W"][target.long()]
    h, c, states = zeros(n, 3), zeros(n, 3), []
    for s in range(symbols):
        f, g, o, u = (x[:, s] @ p[f"lstm.W{k}"] + h @ p[f"lstm.U{k}"] + p[f"lstm.b{k}"] for k in "fgoc")
        c = torch.sigmoid(f) * c + torch.sigmoid(g) * torch.tanh(u)
        h = torch.sigmoid(o) * torch.tanh(c)
        states.append(h)
    memory, keep = torch.stack(states, 1), torch.arange(symbols) < length[:, None]
    h, c, context, covered = zeros(n, 3), zeros(n, 3), zeros(n, 3), zeros(n, symbols)
    shares, losses = [], []
    for t in range(target.shape[1]):
        given = torch.cat([y[:, t - 1] if t else zeros(n, 3), context, h], 1)
        i, f, o, u = dense(p, "cell.gates", given).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(u)
        h = torch.sigmoid(o) * torch.tanh(c)
        score = torch.tanh(memory @ p["Wh"] + (h @ p["Ws"])[:, None] + covered[..., None] * p["wc"]) @ p["v"]
        a = torch.softmax(torch.where(keep, score, -torch.inf), 1)
        losses.append(torch.minimum(a, covered).sum(1))
        covered = covered + a
        context = torch.einsum("ns,nsj->nj", a, memory)
        both = torch.cat([h, context], 1)
        made = torch.sigmoid(dense(p, "switch", both))
        copied = zeros(n, 9).scatter_add(1, source.long(), a)
        shares.append(made * torch.softmax(dense(p, "out", both), 1) + (1 - made) * copied)
    share, cover = torch.stack(shares, 1), torch.stack(losses, 1).mean()
    return -torch.log(share.gather(2, target.long()[..., None]) + 1e-9).mean() + cover, {"p": share, "cover": cover}


def gemma(p: Params, token: Tensor) -> Result:
    steps, width = token.shape[1], p["embed.W"].shape[1]
    i, j = torch.arange(steps)[:, None], torch.arange(steps)

    def rms(name: str, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], p[f"{name}.scale"], 1e-6)

    def turned(x: Tensor) -> Tensor:
        angle = counting(steps)[:, None] * 10000.0 ** (-counting(x.shape[-1])[::2] / x.shape[-1])
        even, odd = x[..., ::2], x[..., 1::2]
        cos, sin = torch.cos(angle), torch.sin(angle)
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

    h = p["embed.W"][token.long()] * math.sqrt(width)
    for layer in range(2):
        z, name = rms(f"rms_norm.{layer}", h), f"gqa.{layer}."
        k, v = (torch.einsum("nse,egd->ngsd", z, p[name + w]) for w in ("Wk", "Wv"))
        q = torch.einsum("nte,egrd->ngrtd", z, p[name + "Wq"])
        score = 20 * torch.tanh(torch.einsum("ngrtd,ngsd->ngrts", turned(q), turned(k)) / math.sqrt(2) / 20)
        near = (j <= i) & (i - j < (3 if layer % 2 else steps))
        a = torch.softmax(torch.where(near, score, -torch.inf), -1)
        h = h + torch.einsum("ngrts,ngsd,grde->nte", a, v, p[name + "Wo"])
        z = rms(f"rms_norm2.{layer}", h)
        gate = F.gelu(dense(p, f"dense.{layer}", z), approximate="tanh")
        h = h + dense(p, f"dense3.{layer}", gate * dense(p, f"dense2.{layer}", z))
    logits = 30 * torch.tanh(rms("rms_norm3", h) @ p["embed.W"].T / 30)
    nll = F.cross_entropy(logits[:, :-1].reshape(-1, 11), token[:, 1:].reshape(-1).long())
    return nll + 1e-2 * (torch.logsumexp(logits, -1) ** 2).mean(), {"logits": logits}


# ---- graphs


def edge_attention(
    p: Params, x: Tensor, src: Tensor, dst: Tensor, e: Tensor, label: Tensor, known: Tensor
) -> Result:  # fmt: skip
    src, dst = src.long(), dst.long()

    def layer(name: str, h: Tensor) -> Tensor:
        left, right = (torch.einsum("vi,ihd->vhd", h, p[f"{name}.{w}"]) for w in ("Wl", "Wr"))
        edge = torch.einsum("mf,fhd->mhd", e, p[f"{name}.We"])
        score = (F.leaky_relu(left[src] + right[dst] + edge, 0.2) * p[f"{name}.a"]).sum(-1)
        alpha = torch.zeros_like(score)
        for v in range(len(x)):
            here = (dst == v).nonzero()[:, 0]
            alpha = alpha.index_add(0, here, torch.softmax(score[here], 0))
        return torch.zeros_like(left).index_add(0, dst, alpha[..., None] * left[src]).flatten(1)

    y = layer("edge_gat2", F.elu(layer("edge_gat", x)))
    nll = F.cross_entropy(y, label.long(), reduction="none")
    return torch.where(known, nll, 0.0).sum() / known.sum().clamp(min=1), {"y": y}


def schnet(p: Params, kind: Tensor, x: Tensor, src: Tensor, dst: Tensor, E: Tensor, f: Tensor) -> Result:
    src, dst, at = src.long(), dst.long(), "potential."
    r2 = ((x[src] - x[dst]) ** 2).sum(-1)
    d = torch.where(r2 > 0, torch.sqrt(torch.where(r2 > 0, r2, 1.0)), 0.0)
    h = p[at + "embedding.W"][kind.long()]
    for layer in range(2):
        name = f"{at}interaction.{layer}.dense"
        basis = torch.exp(-4 * (d[:, None] - counting(4)) ** 2)
        window = torch.where(d < 3, (torch.cos(math.pi * d / 3) + 1) / 2, 0.0)
        w = dense(p, name + "2", F.softplus(dense(p, name, basis)))
        u = dense(p, name + "3", h)
        total = torch.zeros_like(u).index_add(0, dst, u[src] * w * window[:, None])
        h = h + dense(p, name + "5", F.softplus(dense(p, name + "4", total)))
    energy = dense(p, at + "dense2", F.softplus(dense(p, at + "dense", h))).sum()
    force = -torch.autograd.grad(energy, x, create_graph=True)[0]
    loss = (energy - E) ** 2 / len(x) ** 2 + ((force - f) ** 2).sum(1).mean()
    return loss, {"energy": energy, "force": force}


# ---- statistics


def spline_flow(p: Params, x: Tensor) -> Result:
    z, total, bins, half = x, zeros(len(x)), 4, x.shape[1] // 2
    for layer in range(2):
        name = f"coupling.{layer}."
        moved = z @ p[name + "A"].T
        a, b = moved[:, :half], moved[:, half:]
        raw = dense(p, name + "dense2", torch.tanh(dense(p, name + "dense", a))).reshape(len(x), half, 3 * bins - 1)
        wide, high = (6 * torch.softmax(raw[..., k * bins : (k + 1) * bins], -1) for k in (0, 1))
        slope = F.pad(F.softplus(raw[..., 2 * bins :]), (1, 1), value=1.0)
        right, top = torch.cumsum(wide, -1) - 3, torch.cumsum(high, -1) - 3
        at = (b[..., None] >= right[..., :-1]).sum(-1, keepdim=True)
        wk, hk, xr, yr, d0, d1 = (
            q.gather(-1, k)[..., 0]
            for q, k in ((wide, at), (high, at), (right, at), (top, at), (slope, at), (slope, at + 1))
        )
        inside, s = b.abs() < 3, hk / wk
        u = torch.where(inside, (b - (xr - wk)) / wk, 0.5)
        below = s + (d1 + d0 - 2 * s) * u * (1 - u)
        y = yr - hk + hk * (s * u**2 + d0 * u * (1 - u)) / below
        steep = s**2 * (d1 * u**2 + 2 * s * u * (1 - u) + d0 * (1 - u) ** 2) / below**2
        z = torch.cat([a, torch.where(inside, y, b)], 1)
        total = total + torch.logdet(p[name + "A"]) + torch.where(inside, torch.log(steep), 0.0).sum(1)
    log_p = total + torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(1)
    return -log_p.mean(), {"log_p": log_p}


def iwae(p: Params, x: Tensor, eps: Tensor) -> Result:
    h = torch.tanh(dense(p, "encoder.dense", x))
    mu, sigma = dense(p, "encoder.dense2", h)[:, None], torch.exp(dense(p, "encoder.dense3", h) / 2)[:, None]
    z = mu + sigma * eps
    logits = dense(p, "decoder.dense2", torch.tanh(dense(p, "decoder.dense", z)))
    given = torch.distributions.Bernoulli(logits=logits).log_prob(x[:, None].expand_as(logits)).sum(-1)
    prior = torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(-1)
    log_w = given + prior - torch.distributions.Normal(mu, sigma).log_prob(z).sum(-1)
    bound = torch.logsumexp(log_w, 1) - math.log(log_w.shape[1])
    return -bound.mean(), {"bound": bound, "weight": torch.softmax(log_w, 1)}


MORE: dict[str, Callable[..., Result]] = {
    f.__name__: f
    for f in (
        molecular_dynamics, neural_operator, unet, deformable, ctc, tacotron, pointer, gemma, edge_attention, schnet,
        spline_flow, iwae,
    )
}  # fmt: skip

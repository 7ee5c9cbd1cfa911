"""The workloads in torch as its users write them: modules, eager mode, the optimisers of torch.optim."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench.workloads import Array, Data, Named, Sizes, Workload

Pack = Callable[[Mapping[str, Array], Sizes], Named]


# ---- models ----------------------------------------------------------------------------------------------


class MLP(nn.Sequential):
    def __init__(self, s: Sizes) -> None:
        super().__init__(
            nn.Linear(s["inputs"], s["hidden"]),
            nn.GELU(),
            nn.Linear(s["hidden"], s["second"]),
            nn.GELU(),
            nn.Linear(s["second"], s["classes"]),
        )


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, t, e = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, e // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, e))
        h: Tensor = self.down(F.gelu(self.up(self.norm2(x))))
        return x + h


class GPT(nn.Module):
    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.embed = nn.Embedding(s["vocabulary"], s["width"])
        self.position = nn.Parameter(torch.zeros(s["context"], s["width"]))
        self.blocks = nn.ModuleList([Block(s["width"], s["heads"]) for _ in range(s["depth"])])
        self.norm = nn.LayerNorm(s["width"])

    def forward(self, token: Tensor) -> Tensor:
        h = self.embed(token) + self.position[: token.shape[1]]
        for block in self.blocks:
            h = block(h)
        return F.linear(self.norm(h), self.embed.weight)


class CNN(nn.Sequential):
    def __init__(self, s: Sizes) -> None:
        width = s["width"]
        super().__init__(
            nn.Conv2d(3, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(2 * width * (s["side"] // 4) ** 2, s["classes"]),
        )


class GRU(nn.Module):
    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.gru = nn.GRU(s["inputs"], s["hidden"], batch_first=True)
        self.head = nn.Linear(s["hidden"], s["classes"])

    def forward(self, x: Tensor) -> Tensor:
        h, _ = self.gru(x)
        logits: Tensor = self.head(h[:, -1])
        return logits


class PostBlock(nn.Module):
    """Attention to all tokens, then two dense layers, each followed by the norm of its sum with what it took."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm1 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        n, t, e = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, e // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = self.norm1(x + self.out(y.transpose(1, 2).reshape(n, t, e)))
        h: Tensor = self.norm2(x + self.down(F.gelu(self.up(x))))
        return h


class BERT(nn.Module):
    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.embed = nn.Embedding(s["vocabulary"], s["width"])
        self.position = nn.Parameter(torch.zeros(s["context"], s["width"]))
        self.norm = nn.LayerNorm(s["width"])
        self.blocks = nn.Sequential(*[PostBlock(s["width"], s["heads"]) for _ in range(s["depth"])])

    def forward(self, token: Tensor) -> Tensor:
        h: Tensor = self.blocks(self.norm(self.embed(token) + self.position[: token.shape[1]]))
        return h


class LSTM(nn.Module):
    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.lstm = nn.LSTM(s["inputs"], s["hidden"], num_layers=3, batch_first=True)
        self.head = nn.Linear(s["hidden"], s["classes"])

    def forward(self, x: Tensor) -> Tensor:
        h, _ = self.lstm(x)
        logits: Tensor = self.head(h[:, -1])
        return logits


class Filters(nn.Sequential):
    def __init__(self, s: Sizes) -> None:
        width = s["width"]
        layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU()]
        for _ in range(s["depth"]):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
        super().__init__(*layers, nn.Conv2d(width, 3, 3, padding=1))


class SelectiveSSM(nn.Module):
    """The recurrence as a loop over the steps: torch has no other on the processor."""

    def __init__(self, width: int, states: int) -> None:
        super().__init__()
        self.log_A = nn.Parameter(torch.zeros(width, states))
        self.B = nn.Linear(width, states, bias=False)
        self.C = nn.Linear(width, states, bias=False)
        self.Wd, self.bd, self.D = (nn.Parameter(torch.zeros(width)) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        step_size = F.softplus(x * self.Wd + self.bd)
        b, c = self.B(x), self.C(x)
        decay = torch.exp(-step_size[..., None] * torch.exp(self.log_A))
        added = (step_size * x)[..., None] * b[:, :, None]
        h = torch.zeros_like(added[:, 0])
        states = []
        for t in range(x.shape[1]):
            h = decay[:, t] * h + added[:, t]
            states.append(h)
        return (torch.stack(states, 1) * c[:, :, None]).sum(-1) + self.D * x


class Mamba(nn.Module):
    def __init__(self, s: Sizes) -> None:
        super().__init__()
        width, inner = s["width"], 2 * s["width"]
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.conv = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.ssm = SelectiveSSM(inner, s["states"])
        self.down = nn.Linear(inner, width, bias=False)
        self.head = nn.Linear(width, s["classes"])

    def forward(self, x: Tensor) -> Tensor:
        u = self.norm(x)
        # padded on both sides: what lies past the last step is cut off
        h = self.conv(self.up(u).transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
        h = self.ssm(F.silu(h))
        logits: Tensor = self.head(x + self.down(h * F.silu(self.gate(u))))
        return logits


class Graph(nn.Module):
    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.dense1 = nn.Linear(s["features"], s["hidden"])
        self.dense2 = nn.Linear(s["hidden"], s["classes"])

    def forward(self, x: Tensor, src: Tensor, dst: Tensor) -> Tensor:
        degree = torch.zeros(len(x)).index_add(0, dst, torch.ones(len(dst)))
        w = (degree[src] * degree[dst]).clamp(min=1).rsqrt()[:, None]
        for dense in (self.dense1, self.dense2):
            z = dense(x)
            y = torch.zeros_like(z).index_add(0, dst, w * z[src])
            x = F.relu(y)
        return y


class Chain(nn.Module):
    def __init__(self, s: Sizes) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x) * torch.sigmoid(x)


class Norm(nn.Module):
    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(s["width"])

    def forward(self, x: Tensor) -> Tensor:
        return F.softmax(self.norm(x), dim=-1)


# ---- names and layouts: each number of ours in its place of torch's parameters -----------------------------


def linear(p: Mapping[str, Array], ours: str, theirs: str) -> Named:
    found = {f"{theirs}.weight": p[f"{ours}.W"].T}
    return {**found, f"{theirs}.bias": p[f"{ours}.b"]} if f"{ours}.b" in p else found


def normal(p: Mapping[str, Array], ours: str, theirs: str) -> Named:
    return {f"{theirs}.weight": p[f"{ours}.scale"], f"{theirs}.bias": p[f"{ours}.shift"]}


def pack_mlp(p: Mapping[str, Array], s: Sizes) -> Named:
    return {**linear(p, "dense", "0"), **linear(p, "dense2", "2"), **linear(p, "dense3", "4")}


def pack_gpt(p: Mapping[str, Array], s: Sizes) -> Named:
    width = s["width"]
    found = {"embed.weight": p["embed.W"], "position": p["position"], **normal(p, "layer_norm", "norm")}
    for layer in range(s["depth"]):
        ours, theirs = f"transformer_block.{layer}", f"blocks.{layer}"
        qkv = [p[f"{ours}.attention.W{x}"].reshape(width, width).T for x in "qkv"]
        found[f"{theirs}.qkv.weight"] = np.concatenate(qkv)
        found[f"{theirs}.out.weight"] = p[f"{ours}.attention.Wo"].reshape(width, width).T
        found |= normal(p, f"{ours}.layer_norm", f"{theirs}.norm1")
        found |= normal(p, f"{ours}.layer_norm2", f"{theirs}.norm2")
        found |= linear(p, f"{ours}.feed_forward.dense", f"{theirs}.up")
        found |= linear(p, f"{ours}.feed_forward.dense2", f"{theirs}.down")
    return found


def pack_cnn(p: Mapping[str, Array], s: Sizes) -> Named:
    """Channels stand last in ours and first in torch, in kernels and in the flattened image."""
    side, channels, classes = s["side"] // 4, 2 * s["width"], s["classes"]
    image = p["dense.W"].reshape(side, side, channels, classes)
    return {
        "0.weight": p["conv_block.conv2d.K"].transpose(3, 2, 0, 1),
        **normal(p, "conv_block.batch_norm", "1"),
        "4.weight": p["conv_block2.conv2d.K"].transpose(3, 2, 0, 1),
        **normal(p, "conv_block2.batch_norm", "5"),
        "9.weight": image.transpose(3, 2, 0, 1).reshape(classes, -1),
        "9.bias": p["dense.b"],
    }


def pack_gru(p: Mapping[str, Array], s: Sizes) -> Named:
    """nn.GRU keeps its gates one below the other: reset, update, candidate."""
    gates = {k: np.concatenate([p[f"gated_unit.{k}{gate}"].T for gate in "rzc"]) for k in "WUbd"}
    return {
        "gru.weight_ih_l0": gates["W"],
        "gru.weight_hh_l0": gates["U"],
        "gru.bias_ih_l0": gates["b"],
        "gru.bias_hh_l0": gates["d"],
        **linear(p, "dense", "head"),
    }


def pack_bert(p: Mapping[str, Array], s: Sizes) -> Named:
    width = s["width"]
    found = {"embed.weight": p["embedding.W"], "position": p["position"], **normal(p, "layer_norm", "norm")}
    for layer in range(s["depth"]):
        ours, theirs = f"post_norm_block.{layer}", f"blocks.{layer}"
        qkv = [p[f"{ours}.attention.W{x}"].reshape(width, width).T for x in "qkv"]
        found[f"{theirs}.qkv.weight"] = np.concatenate(qkv)
        found[f"{theirs}.out.weight"] = p[f"{ours}.attention.Wo"].reshape(width, width).T
        found |= normal(p, f"{ours}.layer_norm", f"{theirs}.norm1")
        found |= normal(p, f"{ours}.layer_norm2", f"{theirs}.norm2")
        found |= linear(p, f"{ours}.feed_forward.dense", f"{theirs}.up")
        found |= linear(p, f"{ours}.feed_forward.dense2", f"{theirs}.down")
    return found


def pack_lstm(p: Mapping[str, Array], s: Sizes) -> Named:
    """nn.LSTM keeps its gates one below the other: input, forget, cell, output."""
    found = linear(p, "dense", "head")
    for layer, unit in enumerate(("memory_unit", "memory_unit2", "memory_unit3")):
        gates = {k: np.concatenate([p[f"{unit}.{k}{gate}"].T for gate in "ifco"]) for k in "WUbd"}
        found[f"lstm.weight_ih_l{layer}"] = gates["W"]
        found[f"lstm.weight_hh_l{layer}"] = gates["U"]
        found[f"lstm.bias_ih_l{layer}"] = gates["b"]
        found[f"lstm.bias_hh_l{layer}"] = gates["d"]
    return found


def pack_filters(p: Mapping[str, Array], s: Sizes) -> Named:
    depth = s["depth"]
    names = ["conv2d", *(f"conv2d2.{layer}" for layer in range(depth)), "conv2d3"]
    found = {}
    for layer, name in enumerate(names):
        found[f"{2 * layer}.weight"] = p[f"{name}.K"].transpose(3, 2, 0, 1)
        found[f"{2 * layer}.bias"] = p[f"{name}.b"]
    return found


def pack_mamba(p: Mapping[str, Array], s: Sizes) -> Named:
    """The kernel runs back in time in ours, forward in torch."""
    block = "mamba_block"
    ssm = f"{block}.selective_ssm"
    conv = f"{block}.causal_depthwise_conv1d"
    return {
        "norm.weight": p[f"{block}.rms_norm.scale"],
        **linear(p, f"{block}.dense", "gate"),
        **linear(p, f"{block}.dense2", "up"),
        "conv.weight": p[f"{conv}.K"][::-1].T[:, None],
        "conv.bias": p[f"{conv}.b"],
        "ssm.B.weight": p[f"{ssm}.WB"].T,
        "ssm.C.weight": p[f"{ssm}.WC"].T,
        **{f"ssm.{name}": p[f"{ssm}.{name}"] for name in ("log_A", "Wd", "bd", "D")},
        **linear(p, f"{block}.dense3", "down"),
        **linear(p, "dense", "head"),
    }


def pack_graph(p: Mapping[str, Array], s: Sizes) -> Named:
    return {**linear(p, "graph_conv", "dense1"), **linear(p, "graph_conv2", "dense2")}


def pack_nothing(p: Mapping[str, Array], s: Sizes) -> Named:
    return {}


def pack_norm(p: Mapping[str, Array], s: Sizes) -> Named:
    return normal(p, "layer_norm", "norm")


MODELS: dict[str, tuple[Callable[[Sizes], nn.Module], Pack]] = {
    "mlp": (MLP, pack_mlp),
    "gpt": (GPT, pack_gpt),
    "cnn": (CNN, pack_cnn),
    "gru": (GRU, pack_gru),
    "infer": (MLP, pack_mlp),
    "chain": (Chain, pack_nothing),
    "norm": (Norm, pack_norm),
    "bert1": (BERT, pack_bert),
    "bert8": (BERT, pack_bert),
    "lstm": (LSTM, pack_lstm),
    "filters": (Filters, pack_filters),
    "wide": (GPT, pack_gpt),
    "mamba": (Mamba, pack_mamba),
    "graph": (Graph, pack_graph),
}


# ---- the candidate -----------------------------------------------------------------------------------------


class TorchPeer:
    """A workload in torch, eager or through torch.compile."""

    def __init__(
        self, workload: Workload, sizes: Sizes, params: Mapping[str, Array], data: Data, threads: int, compiled: bool
    ) -> None:
        torch.set_num_threads(threads)
        self.workload, self.sizes = workload, sizes
        make, self.pack = MODELS[workload.name]
        self.model = make(sizes)
        values = {name: torch.tensor(np.ascontiguousarray(x)) for name, x in self.pack(params, sizes).items()}
        own = dict(self.model.named_parameters())
        if own.keys() != values.keys():
            raise ValueError(f"parameters without a counterpart: {sorted(own.keys() ^ values.keys())}")
        self.model.load_state_dict(values, strict=False)
        self.model.train(workload.trains)
        # torch takes channels first, and labels and positions of 64 bits
        given = [torch.from_numpy(np.array(a)) for a in data.values()]
        given = [x if x.is_floating_point() else x.long() for x in given]
        given = [x.permute(0, 3, 1, 2).contiguous() if workload.images and x.dim() == 4 else x for x in given]
        self.inputs, self.label = (given[:-1], given[-1]) if workload.trains else (given, None)
        optimizer = torch.optim.AdamW if workload.decays else torch.optim.Adam
        self.optimizer = optimizer(self.model.parameters(), lr=workload.rate) if workload.trains else None
        self.run = torch.compile(self.model) if compiled else self.model

    def loss(self) -> Tensor:
        assert self.label is not None
        logits = self.run(*self.inputs)
        return F.cross_entropy(logits.flatten(0, -2), self.label.flatten())

    def step(self) -> object:
        if self.optimizer is None:
            with torch.inference_mode():
                return self.run(*self.inputs)
        self.optimizer.zero_grad()
        loss = self.loss()
        torch.autograd.backward(loss)
        self.optimizer.step()
        return loss

    def first(self) -> Named:
        if not self.workload.trains:
            with torch.inference_mode():
                return {"output": self.run(*self.inputs).numpy()}
        self.model.zero_grad()
        loss = self.loss()
        torch.autograd.backward(loss)
        grads = {name: x.grad.numpy().copy() for name, x in self.model.named_parameters() if x.grad is not None}
        return {"loss": loss.detach().numpy(), **grads}

    def matching(self, ours: Named) -> Named:
        if not self.workload.trains:
            return {"output": ours["output"].transpose(0, 3, 1, 2)} if self.workload.images else ours
        return {"loss": ours["loss"], **self.pack(ours, self.sizes)}


def warm() -> None:
    """One small training step, so that what torch loads on first use does not count as memory of a workload."""
    model = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.LayerNorm(4))
    optimizer = torch.optim.Adam(model.parameters())
    loss = F.cross_entropy(model(torch.ones(2, 4)), torch.zeros(2, dtype=torch.long))
    torch.autograd.backward(loss)
    optimizer.step()

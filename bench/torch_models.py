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
        x, *label = [torch.from_numpy(np.array(a)) for a in data.values()]
        # torch takes channels first, and labels of 64 bits
        self.x = x.permute(0, 3, 1, 2).contiguous() if workload.name == "cnn" else x
        self.label = label[0].long() if label else None
        optimizer = torch.optim.AdamW if workload.name == "gpt" else torch.optim.Adam
        self.optimizer = optimizer(self.model.parameters(), lr=1e-3) if workload.trains else None
        self.run = torch.compile(self.model) if compiled else self.model

    def loss(self) -> Tensor:
        assert self.label is not None
        logits = self.run(self.x)
        return F.cross_entropy(logits.flatten(0, -2), self.label.flatten())

    def step(self) -> object:
        if self.optimizer is None:
            with torch.inference_mode():
                return self.run(self.x)
        self.optimizer.zero_grad()
        loss = self.loss()
        torch.autograd.backward(loss)
        self.optimizer.step()
        return loss

    def first(self) -> Named:
        if not self.workload.trains:
            with torch.inference_mode():
                return {"output": self.run(self.x).numpy()}
        self.model.zero_grad()
        loss = self.loss()
        torch.autograd.backward(loss)
        grads = {name: x.grad.numpy().copy() for name, x in self.model.named_parameters() if x.grad is not None}
        return {"loss": loss.detach().numpy(), **grads}

    def matching(self, ours: Named) -> Named:
        if not self.workload.trains:
            return ours
        return {"loss": ours["loss"], **self.pack(ours, self.sizes)}


def warm() -> None:
    """One small training step, so that what torch loads on first use does not count as memory of a workload."""
    model = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.LayerNorm(4))
    optimizer = torch.optim.Adam(model.parameters())
    loss = F.cross_entropy(model(torch.ones(2, 4)), torch.zeros(2, dtype=torch.long))
    torch.autograd.backward(loss)
    optimizer.step()

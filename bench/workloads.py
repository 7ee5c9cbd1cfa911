"""The workloads: a spec, its sizes, the data of one step, and the work that no implementation can avoid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
Sizes = Mapping[str, int]
Named = dict[str, Array]
Data = dict[str, Array]

SPECS = Path(__file__).parent / "specs"

#: the numbers of layers whose compile times are compared
DEPTHS = (4, 12, 48)


@dataclass(frozen=True)
class Workload:
    """One thing to measure. `settings` are the sizes that the spec itself takes; the others shape the data."""

    name: str
    about: str
    spec: str
    sizes: Sizes
    tiny: Sizes
    settings: tuple[str, ...]
    trains: bool
    data: Callable[[Sizes, np.random.Generator], Data]
    flops: Callable[[Sizes], float]
    #: by backend: the largest time that it is to need, relative to torch eager for NumPy, to the best peer for C
    goals: Mapping[str, float]
    #: what the optimiser of the spec is told
    rate: float = 1e-3
    decays: bool = False
    #: do channels stand last, where torch has them first?
    images: bool = False

    @property
    def path(self) -> Path:
        return SPECS / self.spec

    def settings_at(self, sizes: Sizes) -> dict[str, int]:
        """What the spec is told: `--set hidden=512 ...`."""
        return {name: sizes[name] for name in self.settings}

    def data_at(self, sizes: Sizes, seed: int = 0) -> Data:
        """The inputs of one step by name, in the order in which the module takes them."""
        return self.data(sizes, np.random.default_rng(seed))


def floats(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape, np.float32)


def labels(rng: np.random.Generator, below: int, *shape: int) -> Array:
    return rng.integers(0, below, shape, np.int32)


# ---- data of one step, and its multiplications and additions -----------------------------------------------


def mlp_data(s: Sizes, rng: np.random.Generator) -> Data:
    return {"x": floats(rng, s["batch"], s["inputs"]), "label": labels(rng, s["classes"], s["batch"])}


def mlp_flops(s: Sizes) -> float:
    """Forward, weight gradients, and input gradients of all layers but the first."""
    first, second, last = s["inputs"] * s["hidden"], s["hidden"] * s["second"], s["second"] * s["classes"]
    return 2.0 * s["batch"] * (2 * first + 3 * second + 3 * last)


def infer_data(s: Sizes, rng: np.random.Generator) -> Data:
    return {"x": floats(rng, s["batch"], s["inputs"])}


def infer_flops(s: Sizes) -> float:
    weights = s["inputs"] * s["hidden"] + s["hidden"] * s["second"] + s["second"] * s["classes"]
    return 2.0 * s["batch"] * weights


def gpt_data(s: Sizes, rng: np.random.Generator) -> Data:
    text = labels(rng, s["vocabulary"], s["batch"], s["context"] + 1)
    return {"token": text[:, :-1].copy(), "target": text[:, 1:].copy()}


def gpt_flops(s: Sizes) -> float:
    """Twelve squares of the width per layer and token, the output layer, and attention to earlier tokens only."""
    tokens, width = s["batch"] * s["context"], s["width"]
    dense = 2.0 * tokens * (12 * s["depth"] * width**2 + width * s["vocabulary"])
    attention = 2.0 * tokens * s["depth"] * width * (s["context"] + 1)
    return 3 * (dense + attention)


def cnn_data(s: Sizes, rng: np.random.Generator) -> Data:
    image = floats(rng, s["batch"], s["side"], s["side"], 3)
    return {"image": image, "label": labels(rng, s["classes"], s["batch"])}


def cnn_flops(s: Sizes) -> float:
    """Forward, kernel gradients, and input gradients of all layers but the first."""
    side, width = s["side"], s["width"]
    first = side**2 * 9 * 3 * width
    second = (side // 2) ** 2 * 9 * width * 2 * width
    last = (side // 4) ** 2 * 2 * width * s["classes"]
    return 2.0 * s["batch"] * (2 * first + 3 * second + 3 * last)


def gru_data(s: Sizes, rng: np.random.Generator) -> Data:
    x = floats(rng, s["batch"], s["steps"], s["inputs"])
    return {"x": x, "label": labels(rng, s["classes"], s["batch"])}


def gru_flops(s: Sizes) -> float:
    """Three gates; the gradient by the inputs is not needed."""
    hidden = s["hidden"]
    step = 2 * s["inputs"] * 3 * hidden + 3 * hidden * 3 * hidden
    return 2.0 * s["batch"] * (s["steps"] * step + 3 * hidden * s["classes"])


def bert_data(s: Sizes, rng: np.random.Generator) -> Data:
    return {"token": labels(rng, s["vocabulary"], s["batch"], s["context"])}


def bert_flops(s: Sizes) -> float:
    """Twelve squares of the width per layer and token, and attention to all tokens."""
    tokens, width = s["batch"] * s["context"], s["width"]
    return 2.0 * tokens * s["depth"] * (12 * width**2 + 2 * width * s["context"])


def lstm_data(s: Sizes, rng: np.random.Generator) -> Data:
    x = floats(rng, s["batch"], s["steps"], s["inputs"])
    return {"x": x, "label": labels(rng, s["classes"], s["batch"])}


def lstm_flops(s: Sizes) -> float:
    """Four gates in three layers; the gradient by the inputs of the first is not needed."""
    hidden = s["hidden"]
    first = 2 * s["inputs"] * 4 * hidden + 3 * hidden * 4 * hidden
    other = 3 * 2 * hidden * 4 * hidden
    return 2.0 * s["batch"] * (s["steps"] * (first + 2 * other) + 3 * hidden * s["classes"])


def filters_data(s: Sizes, rng: np.random.Generator) -> Data:
    return {"image": floats(rng, s["batch"], s["height"], s["across"], 3)}


def filters_flops(s: Sizes) -> float:
    kernels = 9 * (3 * s["width"] + s["depth"] * s["width"] ** 2 + s["width"] * 3)
    return 2.0 * s["batch"] * s["height"] * s["across"] * kernels


def mamba_data(s: Sizes, rng: np.random.Generator) -> Data:
    x = floats(rng, s["batch"], s["steps"], s["width"])
    return {"x": x, "label": labels(rng, s["classes"], s["batch"], s["steps"])}


def mamba_flops(s: Sizes) -> float:
    """Projections alone: the recurrence and the short convolution are work entry by entry."""
    width, inner = s["width"], 2 * s["width"]
    dense = 3 * width * inner + 2 * inner * s["states"] + width * s["classes"]
    return 3 * 2.0 * s["batch"] * s["steps"] * dense


def graph_data(s: Sizes, rng: np.random.Generator) -> Data:
    ends = {name: labels(rng, s["nodes"], s["edges"]) for name in ("src", "dst")}
    return {"x": floats(rng, s["nodes"], s["features"]), **ends, "label": labels(rng, s["classes"], s["nodes"])}


def graph_flops(s: Sizes) -> float:
    """Projections alone; the gradient by the features is not needed."""
    return 2.0 * s["nodes"] * s["hidden"] * (2 * s["features"] + 3 * s["classes"])


def matrix_data(s: Sizes, rng: np.random.Generator) -> Data:
    return {"x": floats(rng, s["rows"], s["width"])}


def no_flops(s: Sizes) -> float:
    """No contraction: memory is the limit."""
    return 0.0


MLP = {"batch": 256, "inputs": 784, "hidden": 512, "second": 256, "classes": 10}
MLP_TINY = {"batch": 5, "inputs": 12, "hidden": 9, "second": 7, "classes": 4}
MLP_SETTINGS = ("inputs", "hidden", "second", "classes")
MATRIX = {"rows": 4096, "width": 1024}
MATRIX_TINY = {"rows": 6, "width": 11}

BERT = {"context": 64, "width": 768, "depth": 6, "heads": 12, "vocabulary": 30522}
BERT_TINY = {"context": 5, "width": 12, "depth": 2, "heads": 3, "vocabulary": 7}
GPT_SETTINGS = ("context", "width", "depth", "heads", "vocabulary")


def goals(numpy: float, ahead: float) -> dict[str, float]:
    """Goals of NumPy and C; `ahead` is how many times as quick as the best peer C is to be."""
    return {"numpy": numpy, "c": 1 / ahead}


#: for C: not to be behind the best peer by more than 5 %
LEVEL = {"c": 1.05}

WORKLOADS = {
    w.name: w
    for w in (
        Workload("mlp", "training step, 256 x 784-512-256-10, GELU, Adam", "mlp.dsl",
                 MLP, MLP_TINY, MLP_SETTINGS, True, mlp_data, mlp_flops, goals(2.5, 1.3)),
        Workload("gpt", "training step, 4 layers, 8 x 128 tokens, width 256, 8 heads, AdamW", "gpt.dsl",
                 {"batch": 8, "context": 128, "width": 256, "depth": 4, "heads": 8, "vocabulary": 256},
                 {"batch": 2, "context": 5, "width": 12, "depth": 2, "heads": 3, "vocabulary": 7},
                 GPT_SETTINGS, True, gpt_data, gpt_flops, goals(2.5, 1.3), decays=True),
        Workload("cnn", "training step, 64 x 32x32x3, two conv-batchnorm-relu-maxpool blocks, Adam", "cnn.dsl",
                 {"batch": 64, "side": 32, "width": 32, "classes": 10},
                 {"batch": 3, "side": 8, "width": 4, "classes": 5},
                 ("side", "width", "classes"), True, cnn_data, cnn_flops, goals(2.5, 1.8),
                 images=True),
        Workload("gru", "training step, 64 x 64 steps, 64 inputs to 128 units, Adam", "gru.dsl",
                 {"batch": 64, "steps": 64, "inputs": 64, "hidden": 128, "classes": 10},
                 {"batch": 3, "steps": 5, "inputs": 4, "hidden": 6, "classes": 5},
                 ("inputs", "hidden", "classes"), True, gru_data, gru_flops, goals(2.5, 2.0)),
        Workload("infer", "inference of the MLP, batch 1", "mlp.dsl",
                 {**MLP, "batch": 1}, {**MLP_TINY, "batch": 1}, MLP_SETTINGS, False, infer_data, infer_flops,
                 goals(1.0, 1.5)),
        Workload("chain", "gelu(x) * sigmoid(x), 4096 x 1024", "chain.dsl",
                 MATRIX, MATRIX_TINY, (), False, matrix_data, no_flops, goals(3.0, 1.4)),
        Workload("norm", "softmax(layer_norm(x)), 4096 x 1024", "norm.dsl",
                 MATRIX, MATRIX_TINY, ("width",), False, matrix_data, no_flops, goals(3.0, 1.4)),
        Workload("bert1", "inference of an encoder, 6 layers, 1 x 64 tokens, width 768, 12 heads", "bert.dsl",
                 {**BERT, "batch": 1}, {**BERT_TINY, "batch": 1}, GPT_SETTINGS, False, bert_data, bert_flops, LEVEL),
        Workload("bert8", "inference of the same encoder, 8 x 64 tokens", "bert.dsl",
                 {**BERT, "batch": 8}, {**BERT_TINY, "batch": 3}, GPT_SETTINGS, False, bert_data, bert_flops, LEVEL),
        Workload("lstm", "training step, 3 layers, 3 x 160 steps, 80 inputs to 256 units, Adam", "lstm.dsl",
                 {"batch": 3, "steps": 160, "inputs": 80, "hidden": 256, "classes": 10},
                 {"batch": 3, "steps": 5, "inputs": 4, "hidden": 6, "classes": 5},
                 ("inputs", "hidden", "classes"), True, lstm_data, lstm_flops, LEVEL),
        Workload("filters", "inference, five 3 x 3 convolutions of 32 channels, 1 x 240 x 320 x 3", "filters.dsl",
                 {"batch": 1, "height": 240, "across": 320, "width": 32, "depth": 3},
                 {"batch": 2, "height": 6, "across": 9, "width": 4, "depth": 2},
                 ("width", "depth"), False, filters_data, filters_flops, LEVEL, images=True),
        Workload("wide", "training step of the GPT, 2 layers, 4 x 256 tokens, width 768, 12 heads, AdamW", "gpt.dsl",
                 {"batch": 4, "context": 256, "width": 768, "depth": 2, "heads": 12, "vocabulary": 256},
                 {"batch": 2, "context": 6, "width": 15, "depth": 2, "heads": 5, "vocabulary": 7},
                 GPT_SETTINGS, True, gpt_data, gpt_flops, LEVEL, decays=True),
        Workload("mamba", "training step, a Mamba block, 4 x 128 tokens, width 256, 16 states, AdamW", "mamba.dsl",
                 {"batch": 4, "steps": 128, "width": 256, "states": 16, "classes": 10},
                 {"batch": 2, "steps": 5, "width": 6, "states": 3, "classes": 4},
                 ("width", "states", "classes"), True, mamba_data, mamba_flops, LEVEL,
                 decays=True),
        Workload("graph", "training step, two graph convolutions, 10,000 nodes, 100,000 edges, Adam", "graph.dsl",
                 {"nodes": 10_000, "edges": 100_000, "features": 64, "hidden": 64, "classes": 16},
                 {"nodes": 9, "edges": 30, "features": 5, "hidden": 7, "classes": 4},
                 ("features", "hidden", "classes"), True, graph_data, graph_flops, LEVEL, rate=0.01),
    )
}  # fmt: skip

#: measured by the compile command alone, without peers
COMPILE = "compile"
COMPILE_ABOUT = f"compile time of the GPT with {', '.join(map(str, DEPTHS))} layers, a fresh process each"

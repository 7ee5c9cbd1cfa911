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
    goal: float

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

#: `goal` is the largest time, relative to torch eager, that the NumPy backend is to need
WORKLOADS = {
    w.name: w
    for w in (
        Workload("mlp", "training step, 256 x 784-512-256-10, GELU, Adam", "mlp.dsl",
                 MLP, MLP_TINY, MLP_SETTINGS, True, mlp_data, mlp_flops, 2.5),
        Workload("gpt", "training step, 4 layers, 8 x 128 tokens, width 256, 8 heads, AdamW", "gpt.dsl",
                 {"batch": 8, "context": 128, "width": 256, "depth": 4, "heads": 8, "vocabulary": 256},
                 {"batch": 2, "context": 5, "width": 12, "depth": 2, "heads": 3, "vocabulary": 7},
                 ("context", "width", "depth", "heads", "vocabulary"), True, gpt_data, gpt_flops, 2.5),
        Workload("cnn", "training step, 64 x 32x32x3, two conv-batchnorm-relu-maxpool blocks, Adam", "cnn.dsl",
                 {"batch": 64, "side": 32, "width": 32, "classes": 10},
                 {"batch": 3, "side": 8, "width": 4, "classes": 5},
                 ("side", "width", "classes"), True, cnn_data, cnn_flops, 2.5),
        Workload("gru", "training step, 64 x 64 steps, 64 inputs to 128 units, Adam", "gru.dsl",
                 {"batch": 64, "steps": 64, "inputs": 64, "hidden": 128, "classes": 10},
                 {"batch": 3, "steps": 5, "inputs": 4, "hidden": 6, "classes": 5},
                 ("inputs", "hidden", "classes"), True, gru_data, gru_flops, 2.5),
        Workload("infer", "inference of the MLP, batch 1", "mlp.dsl",
                 {**MLP, "batch": 1}, {**MLP_TINY, "batch": 1}, MLP_SETTINGS, False, infer_data, infer_flops, 1.0),
        Workload("chain", "gelu(x) * sigmoid(x), 4096 x 1024", "chain.dsl",
                 MATRIX, MATRIX_TINY, (), False, matrix_data, no_flops, 3.0),
        Workload("norm", "softmax(layer_norm(x)), 4096 x 1024", "norm.dsl",
                 MATRIX, MATRIX_TINY, ("width",), False, matrix_data, no_flops, 3.0),
    )
}  # fmt: skip

#: measured by the compile command alone, without peers
COMPILE = "compile"
COMPILE_ABOUT = f"compile time of the GPT with {', '.join(map(str, DEPTHS))} layers, a fresh process each"

"""What the tests of training share: small specs and data, and ways to run the command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner, Result

from dslc.cli.main import cli

ROOT = Path(__file__).parents[2]
MLP = str(ROOT / "specs/mlp/mlp.dsl")
DIGITS = str(ROOT / "specs/data/digits.npz")

#: states, random draws, an optimiser with slots: everything that a checkpoint must hold
NORMED = """
model normed(x: f32[N, 4], classes = 3) -> logits: [N, classes]:
    h = x |> dense(8) |> batch_norm |> relu |> dropout(0.2)
    logits = h |> dense(classes)

train normed(x, label: i32[N] < classes, batch = 8, epochs = 6):
    logits = normed(x)
    minimize cross_entropy(logits, label)
    metric accuracy = accuracy(logits, label)
    using adamw(lr = 1e-2)
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in arguments], catch_exceptions=False)


def process(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "dslc.cli.main", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.numpy import load_file

    return dict(load_file(folder / "weights.safetensors"))


def same_bits(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(a[k].dtype == b[k].dtype and a[k].tobytes() == b[k].tobytes() for k in a)


def normed(folder: Path, rows: int = 60) -> tuple[Path, Path]:
    """The spec above and data for it."""
    spec, data = folder / "normed.dsl", folder / "data.npz"
    spec.write_text(NORMED, encoding="utf-8")
    rng = np.random.default_rng(0)
    x = (3 * rng.normal(size=(rows, 4)) + 1).astype(np.float32)
    np.savez(data, x=x, label=(x[:, 0] > 1).astype(np.int32) + (x[:, 1] > 1))
    return spec, data

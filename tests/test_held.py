"""Bytes that a program holds at once, and what forward mode needs beside reverse mode, as `dslc cost` reports them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from catalogue import SPECS, model
from click.testing import CliRunner
from marks import rows
from torch.autograd import forward_ad
from torch.func import jvp

from dslc import pipeline
from dslc.cli.main import cli
from dslc.compiler import choose
from dslc.frontend import check_file
from dslc.meaning.interpret import Interpreter


def written(text: str, folder: Path) -> Path:
    path = folder / "held.dsl"
    path.write_text(text, encoding="utf-8")
    return path


def cost(spec: Path, *options: str) -> Any:
    done = CliRunner().invoke(cli, ["cost", str(spec), "--json", *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def chain(depth: int) -> str:
    lines = "".join(
        f"    param W{k}: [8, 8] ~ glorot\n    h{k + 1}[n, o] = tanh(h{k}[n, i] * W{k}[i, o])\n" for k in range(depth)
    ).replace("h0[", "x[")
    return (
        f"model deep(x: f32[N, 8]) -> y: [N, 8]:\n{lines}    y = h{depth}\n\n"
        "train deep(x):\n    minimize sum(deep(x))\n    using sgd(lr = 0.1)\n"
    )


#: a value of `chain` for 16 rows
VALUE = 4 * 16 * 8


@rows("A17")
def test_forward_mode_holds_as_much_however_deep_a_program_is(tmp_path: Path) -> None:
    """Twice the program's values, a step and its tangents; reverse mode keeps a value for each layer."""

    def found(depth: int, *options: str) -> tuple[int, int, int]:
        report = cost(written(chain(depth), tmp_path), "--set", "N=16", *options)
        return report["held"], report["total"]["all"]["saved"], report["total"]["all"]["operations"]

    for depth in (2, 4, 8):
        program, forward, reverse = (found(depth, *options) for options in (["--inference"], ["--forward-mode"], []))
        assert (program[0], program[1]) == (2 * VALUE, 0)  # what a layer reads, and what it makes
        assert (forward[0], forward[1]) == (2 * program[0], 0)
        assert reverse[1] == depth * VALUE < reverse[0]
        assert program[2] < forward[2] < 3.2 * program[2] and reverse[2] < 3.2 * program[2]
    assert reverse[0] > 2 * forward[0]


@rows("A17")
def test_torch_saves_nothing_in_forward_mode_either() -> None:
    def saved(dual: bool) -> int:
        kept: list[torch.Tensor] = []
        weights = [torch.randn(8, 8, requires_grad=not dual) for _ in range(4)]

        def keep(x: torch.Tensor) -> torch.Tensor:
            kept.append(x)
            return x

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x), forward_ad.dual_level():
            h = torch.ones(16, 8)
            for w in weights:
                h = torch.tanh(h @ (forward_ad.make_dual(w, torch.ones_like(w)) if dual else w))
            assert (forward_ad.unpack_dual(h).tangent is not None) == dual
        return len(kept)

    assert saved(dual=True) == 0 < saved(dual=False)


@rows("A17", "A15")
def test_the_tangent_of_a_loss_is_that_of_torch_and_agrees_with_its_gradient(tmp_path: Path) -> None:
    spec = SPECS / "mlp/mlp.dsl"
    _, train = choose(check_file(spec, {"hidden": 6}))
    assert train is not None
    rng = np.random.default_rng(1)
    x, label = rng.standard_normal((5, 64)), rng.integers(0, 10, 5)
    module = model(Path("mlp/mlp.dsl"), tmp_path, hidden=6)
    params = {k: rng.standard_normal(v.shape) for k, v in module.init().items()}
    along = {k: rng.standard_normal(v.shape) for k, v in params.items()}

    made = pipeline.forward_mode(train)
    given = {"x": x, "label": label, **params, **{f"direction of {k}": v for k, v in along.items()}}
    found = Interpreter(given, {"N": 5}).run(made.outputs)

    def loss(p: dict[str, torch.Tensor]) -> torch.Tensor:
        h = torch.tensor(x)
        for name in ("dense", "dense2", "dense3"):
            h = h @ p[f"{name}.W"] + p[f"{name}.b"]
            h = h if name == "dense3" else torch.nn.functional.gelu(h)
        return torch.nn.functional.cross_entropy(h, torch.tensor(label))

    tensors, directions = ({k: torch.tensor(v) for k, v in table.items()} for table in (params, along))
    value, tangent = jvp(loss, (tensors,), (directions,))
    np.testing.assert_allclose(found["loss"], value, rtol=1e-10)
    np.testing.assert_allclose(found["tangent"], tangent, rtol=1e-10)
    _, slopes = module.loss_and_grad(params, x, label)
    np.testing.assert_allclose(found["tangent"], sum((slopes[k] * along[k]).sum() for k in params), rtol=1e-10)


def test_equal_slopes_are_added(tmp_path: Path) -> None:
    """Two parameters with one gradient: the tangent has both of their directions."""
    text = (
        "model both(x: f64[N]) -> y: [N]:\n    param a, b: [] ~ ones\n    y[n] = x[n] * (a + b)\n\n"
        "train both(x):\n    minimize sum(both(x)^2)\n    using sgd\n"
    )
    _, train = choose(check_file(written(text, tmp_path)))
    assert train is not None
    given = {"x": np.array([1.0, 2.0]), "a": 3.0, "b": 4.0, "direction of a": 1.0, "direction of b": 10.0}
    made = pipeline.forward_mode(train)
    found = Interpreter({k: np.asarray(v) for k, v in given.items()}, {"N": 2}).run(made.outputs)
    assert found["tangent"] == 2 * 7 * 11 * (1 + 4)


#: statements from x[n, k] of N rows of 8 to y, and how many values of that length are there at once
PROGRAMS = {
    "a chain": ("    a = sin(x)\n    b = cos(a)\n    y = tanh(b)\n", 2),
    "a value read late": ("    a = sin(x)\n    b = cos(a)\n    c = tanh(b)\n    y = c + a\n", 3),
    "two branches": ("    a = sin(x)\n    b = cos(a)\n    c = sin(x)\n    d = tan(x)\n    y = b + d\n", 3),
    "a sum between": ("    a = sin(x)\n    s[k] = sum[n](a[n, k])\n    y[n, k] = a[n, k] * s[k]\n", 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_held_until_their_last_reader(name: str, tmp_path: Path) -> None:
    body, count = PROGRAMS[name]
    spec = written(f"model held(x: f32[N, 8]) -> y: [N, 8]:\n{body}", tmp_path)
    beside = 4 * 8 if "s[k]" in body else 0
    assert cost(spec, "--set", "N=100")["held"] == count * 4 * 8 * 100 + beside
    assert cost(spec)["held"] == f"{count * 32}*N" + (" + 32" if beside else "")
    wide = written(spec.read_text(encoding="utf-8").replace("f32", "f64"), tmp_path)
    assert cost(wide, "--set", "N=100")["held"] == 2 * (count * 4 * 8 * 100 + beside)


def test_a_scan_holds_what_it_stacks_and_one_step(tmp_path: Path) -> None:
    text = (
        "model scanned(x: f32[T, 8]) -> h: [T, 8]:\n    param U: [8, 8] ~ glorot\n    scan t:\n"
        "        h[t, k] = tanh(x[t, k] + h[t-1, j] * U[j, k])\n    start h = 0\n"
    )
    held = [cost(written(text, tmp_path), "--set", f"T={t}")["held"] for t in (10, 20, 30)]
    assert held[2] - held[1] == held[1] - held[0] == 10 * 4 * 8


def test_forward_mode_is_for_a_loss_and_no_backend(tmp_path: Path) -> None:
    spec = written("model none(x: f32[N]) -> y: [N]:\n    y = 2 * x\n", tmp_path)
    for options, why in ((["--forward-mode"], "for the loss of a `train`"), (["-b", "c", "--forward-mode"], "-b out")):
        done = CliRunner().invoke(cli, ["cost", str(spec), *options])
        assert done.exit_code == 2 and why in done.stderr

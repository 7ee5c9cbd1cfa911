"""Losses that no parameter changes, and parameters that no loss reaches: told by `dslc check` and `dslc train`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from catalogue import model
from click.testing import CliRunner
from marks import rows

from dslc import pipeline
from dslc.cli.main import cli
from dslc.frontend import check_file
from dslc.ir import nodes as ir
from dslc.ir.interning import compilation
from dslc.slopes import without_slope

ROOT = Path(__file__).parents[1]
SPECS = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "specs").glob("*/*.dsl"))
LARGE = {"gpt12", "resnet50"}

TEXT = """
model scores(x: f32[N, 3]) -> p: [N, 4]:
    p = x |> dense(6) |> tanh |> dense(4)

train scores(x, s: f32[N], label: i32[N] < 4):
    p = scores(x)
    minimize {}
    using sgd(lr = 0.1)
"""

#: losses that change in steps
STEPS = {
    "0/1 loss": "mean[n](0.0 if sign(p[n, 0]) == s[n] else 1.0)",
    "errors": "mean[n](0.0 if argmax[k](p[n, k]) == label[n] else 1.0)",
    "of the library": "1 - accuracy(p, label)",
    "rounded": "mean[n]((round(p[n, 0]) - s[n])^2)",
    "whole numbers": "mean[n](f32(i32(trunc(p[n, 0]))))",
    "counted": "sum[n](1.0 if p[n, 0] > p[n, 1] else 0.0)",
    "parts": "mean[n](floor(exp(p[n, 2])))",
    "no gradient": "mean[n](stop_grad(p[n, 0])^2)",
    "without parameters": "mean[n](s[n]^2)",
}
#: the same with a slope
SMOOTH = {
    "hinge": "mean[n](relu(1 - s[n] * p[n, 0]))",
    "cross-entropy": "cross_entropy(p, label)",
    "distance": "mean[n](abs(p[n, 0] - s[n]))",
    "the larger": "mean[n](p[n, 0] if p[n, 0] > p[n, 1] else p[n, 1])",
    "what is picked": "mean[n](p[n, label[n]])",
    "straight through": "mean[n]((round_through(p[n, 0]) - s[n])^2)",
    "a term without a slope": "mean[n](round(p[n, 1])) + sum(p)",
    "one step among others": "mean[n](round(p[n, 0]) * p[n, 0])",
}


def warnings(path: Path) -> list[str]:
    checked = check_file(path)
    assert checked.program is not None, checked.errors
    return [w.code for train in checked.program.trains for w in without_slope(train)]


def slopes(text: str, folder: Path) -> dict[str, float]:
    """The largest entry of each gradient, by the module."""
    module: Any = model(text, folder)
    rng = np.random.default_rng(0)
    x, label = rng.standard_normal((20, 3)), rng.integers(0, 4, 20)
    _, found = module.loss_and_grad(module.init(1), x, np.sign(x[:, 0]), label)
    return {k: float(np.abs(d).max()) for k, d in found.items()}


@rows("D11")
@pytest.mark.parametrize("loss", STEPS.values(), ids=STEPS)
def test_a_loss_of_steps_is_told(loss: str, tmp_path: Path) -> None:
    text = TEXT.format(loss)
    assert set(slopes(text, tmp_path).values()) == {0.0}
    assert warnings(tmp_path / "row.dsl") == ["W0805"]


@rows("D11")
@pytest.mark.parametrize("loss", SMOOTH.values(), ids=SMOOTH)
def test_a_smooth_loss_is_not(loss: str, tmp_path: Path) -> None:
    text = TEXT.format(loss)
    assert min(slopes(text, tmp_path).values()) > 0
    assert warnings(tmp_path / "row.dsl") == []


HEADS = """
model heads(x: f32[N, 3]) -> (p: [N], q: [N, 4]):
    use first = dense(1)
    use second = dense(4)
    p[n] = first(x)[n, 0]
    q = second(x)

train heads(x, s: f32[N], label: i32[N] < 4):
    p, q = heads(x)
    minimize mean[n]((p[n] - s[n])^2){}
    metric accuracy = accuracy(q, label)
    using sgd(lr = 0.1)
"""


def said(text: str, folder: Path, command: str = "check", *options: str) -> str:
    path = folder / "told.dsl"
    path.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(cli, [command, str(path), *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stderr


def test_parameters_that_a_loss_does_not_reach_are_named(tmp_path: Path) -> None:
    assert "gradient of the loss is zero by `second.W`, `second.b`" in said(HEADS.format(""), tmp_path)
    assert said(HEADS.format(" + cross_entropy(q, label)"), tmp_path) == ""
    assert said(HEADS.format("\n    freeze second"), tmp_path) == ""


def test_the_last_pass_of_a_loop_may_make_what_nothing_reads(tmp_path: Path) -> None:
    text = (
        "layer part(x: [N, C], scale: int) -> (y: [N, C], out: [N, C]):\n"
        "    y = x + scale * dense(x, C)\n    out = dense(x, C)\n\n"
        "model parts(x: f32[N, 3], depth = 3) -> total:\n    h = x\n    total[n: N, c: 3] = 0.0\n"
        "    for l in 0..depth:\n        h, out = part(h, l + 1)\n        total += out\n\n"
        "train parts(x):\n    minimize mean({})\n    using sgd(lr = 0.1)\n"
    )
    assert said(text.format("parts(x)^2"), tmp_path) == ""
    assert "zero by every parameter" in said(text.format("round(parts(x))"), tmp_path)


def test_a_factor_that_is_set_to_0_is_no_step(tmp_path: Path) -> None:
    """A penalty that is switched off: another setting gives it a slope."""
    text = TEXT.replace("label: i32[N] < 4)", "label: i32[N] < 4, rate = 0.0)").format("rate * mean(p^2)")
    assert "W080" not in said(text, tmp_path).replace("W0802", "")
    assert "W0805" in said(text.replace("mean(p^2)", "mean(round(p))"), tmp_path)


def test_training_tells_before_it_begins(tmp_path: Path) -> None:
    data = tmp_path / "rows.npz"
    np.savez(data, x=np.ones((8, 3), np.float32), s=np.ones(8, np.float32), label=np.zeros(8, np.int32))
    options = ("--data", str(data), "--steps", "1", "--backend", "numpy", "-o", str(tmp_path / "run"))
    assert "W0805" in said(TEXT.format(STEPS["0/1 loss"]), tmp_path, "train", *options)


@pytest.mark.wide(4)
@pytest.mark.parametrize("path", [p for p in SPECS if Path(p).stem not in LARGE])
def test_reverse_mode_finds_the_same(path: str) -> None:
    """Shipped specs have no warning, and what has no slope is what reverse mode has no adjoint of."""
    checked = check_file(ROOT / path)
    assert checked.program is not None
    for train in checked.program.trains:
        assert without_slope(train) == []
        with compilation():
            gradients = pipeline.training(train).gradients()
        assert not gradients or not all(map(is_zero, gradients.values()))


def is_zero(x: ir.Tensor) -> bool:
    return isinstance(x, ir.Comp) and isinstance(x.body, ir.Const) and x.body.value == 0

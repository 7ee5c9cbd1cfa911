"""The Triton module of every spec agrees with the reference interpreter: outputs, loss, gradients, states, metrics."""

from __future__ import annotations

from pathlib import Path

import pytest
from triton_modules import ROOT, check_spec

SPECS = sorted((ROOT / "specs").glob("*/*.dsl"), key=lambda p: (p.parent.name, p.name))
#: the vocabulary alone is larger than a quick test
LARGE = {"gpt12"}
#: vectors have no sign of their own
SIGNLESS = {"hessian"}
#: draws are float32
DRAWN = {"augmented", "mc_dropout", "flow", "gcn", "mixture", "hard_attention"}
#: quick ones: every kind of kernel at least once
QUICK = {
    "mlp/mlp": 3, "mlp/half": 3, "mlp/kan": 3, "mlp/mc_dropout": 5,
    "linear/softmax_regression": 17, "linear/survival": 5,
    "linear/nearest": 5, "linear/gaussian": 3, "linear/poisson": 1, "linear/probit": 5,
    "derivatives/products": 4, "derivatives/meta": 3, "graph/gcn": 5, "recurrent/echo_state": 2,
    "convolution/textcnn": 4, "mlp/glu": 3,
}  # fmt: skip


def tolerance(path: Path) -> float:
    return 1e-5 if path.stem in DRAWN else 1e-9


@pytest.mark.parametrize(("name", "size"), QUICK.items())
def test_the_module_of_a_spec_agrees_with_the_interpreter(name: str, size: int, tmp_path: Path) -> None:
    path = ROOT / f"specs/{name}.dsl"
    check_spec(path, tmp_path, size, tolerance=tolerance(path))


@pytest.mark.long
@pytest.mark.parametrize("size", [1, 3, 17, 65])
@pytest.mark.parametrize("path", [p for p in SPECS if p.stem not in LARGE | SIGNLESS], ids=lambda p: p.stem)
def test_the_module_of_every_spec_agrees_with_the_interpreter(path: Path, size: int, tmp_path: Path) -> None:
    if size > 17 and path.parent.name in ("convolution", "transformer", "graph"):
        pytest.skip("minutes in Triton's interpreter")
    check_spec(path, tmp_path, size, tolerance=tolerance(path))


def test_a_small_transformer_agrees_with_the_interpreter(tmp_path: Path) -> None:
    settings = {"vocabulary": 7, "context": 8, "width": 8, "depth": 2, "heads": 2}
    check_spec(ROOT / "specs/transformer/gpt.dsl", tmp_path, 3, **settings)


def test_a_recurrent_network_agrees_with_the_interpreter(tmp_path: Path) -> None:
    check_spec(ROOT / "specs/recurrent/gru.dsl", tmp_path, 3, hidden=6)


def test_float32_agrees_as_far_as_it_goes(tmp_path: Path) -> None:
    check_spec(ROOT / "specs/mlp/mlp.dsl", tmp_path, 17, "f32", 1e-4)


def test_names_of_the_spec_do_not_clash_with_those_of_the_module(tmp_path: Path) -> None:
    spec = tmp_path / "clash.dsl"
    spec.write_text(
        "model m(x: f32[N, 4], h_dot_kernel: f32[N]) -> y: [N, 4]:\n"
        "    param tl: [4, 4] ~ glorot\n"
        "    h[n, o] = x[n, i] * tl[i, o] + h_dot_kernel[n]\n"
        "    y = h\n\n"
        "train m(x, h_dot_kernel, triton: f32[N, 4]):\n"
        "    minimize mean[n, o]((m(x, h_dot_kernel)[n, o] - triton[n, o])^2)\n"
        "    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    check_spec(spec, tmp_path, 3)


def test_a_wrapped_index_goes_around_the_axis_that_it_is_on(tmp_path: Path) -> None:
    spec = tmp_path / "wrapped.dsl"
    spec.write_text(
        "model m(x: f32[N]) -> y: [N]:\n"
        "    param w: [4] ~ normal\n"
        "    v = w[0:3]\n"
        "    y[i] = x[i] * v[wrap(i - 1)] + v[clamp(i + 1)]\n",
        encoding="utf-8",
    )
    check_spec(spec, tmp_path, 3)

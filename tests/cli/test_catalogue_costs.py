"""Rows of the catalogue on what models cost: operations, bytes moved, optimisers, no Jacobians (chapter 2, 4)."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from catalogue import model
from click.testing import CliRunner
from marks import rows

from dslc import pipeline
from dslc.cli.main import cli
from dslc.compiler import choose
from dslc.frontend import check_file
from dslc.ir import nodes as ir

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"

PRODUCT = "model product(X: f32[A, B], Y: f32[B, C]) -> Z: [A, C]:\n    Z[i, j] = X[i, k] * Y[k, j]\n"

WAVES = "model waves(x: f32[N, 64]) -> y: [N, 64]:\n    a = sin(x)\n    b = a * exp(a)\n    y = tanh(b) + a\n"


def written(text: str, folder: Path) -> Path:
    path = folder / "costed.dsl"
    path.write_text(text, encoding="utf-8")
    return path


def cost(text: str, folder: Path, *arguments: str) -> Any:
    done = CliRunner().invoke(cli, ["cost", str(written(text, folder)), "--json", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@rows("P23")
@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
def test_time_of_a_product_is_linear_in_each_size_and_space_is_its_result(backend: str, tmp_path: Path) -> None:
    def operations(**sizes: int) -> Any:
        given = [x for name, n in sizes.items() for x in ("--set", f"{name}={n}")]
        found = cost(PRODUCT, tmp_path, "-b", backend, *given)["total"]
        return found["all" if backend == "numpy" else "forward"]

    usual = operations(A=32, B=16, C=64)
    assert usual["operations"] == 2 * 32 * 16 * 64
    assert usual["written"] == 4 * 32 * 64
    for name in "ABC":
        longer = operations(**{"A": 32, "B": 16, "C": 64, name: 96})
        assert longer["operations"] * {"A": 32, "B": 16, "C": 64}[name] == usual["operations"] * 96


@rows("P23")
def test_a_square_product_is_cubic(tmp_path: Path) -> None:
    square = "model square(X: f32[A, A], Y: f32[A, A]) -> Z: [A, A]:\n    Z[i, j] = X[i, k] * Y[k, j]\n"
    assert cost(square, tmp_path)["total"]["all"]["operations"] == "2*A^3"


@rows("P26")
@pytest.mark.parametrize("backend", ["c", "triton"])
def test_fused_values_move_fewer_bytes_by_the_same_operations(backend: str, tmp_path: Path) -> None:
    apart = cost(WAVES, tmp_path, "--set", "N=128")["total"]["all"]
    fused = cost(WAVES, tmp_path, "--set", "N=128", "-b", backend)["total"]["forward"]
    array = 4 * 128 * 64
    assert fused["read"] + fused["written"] == 2 * array  # x in, y out
    assert apart["read"] + apart["written"] > 2 * (fused["read"] + fused["written"])
    assert fused["operations"] == apart["operations"]


@rows("P26")
def test_intensity_tells_a_product_from_a_sum(tmp_path: Path) -> None:
    """Operations for each byte: those of a product of squares grow with their side, those of a sum do not."""
    added = "model added(X: f32[A, B], Y: f32[A, B]) -> Z: [A, B]:\n    Z = X + Y\n"

    def intensity(text: str, side: int) -> float:
        sizes = [x for name in "ABC"[: 3 if text is PRODUCT else 2] for x in ("--set", f"{name}={side}")]
        return float(cost(text, tmp_path, "-b", "triton", *sizes)["total"]["forward"]["intensity"])

    for side in (128, 512):
        assert intensity(PRODUCT, side) == pytest.approx(2 * side**3 / (3 * 4 * side**2), rel=1e-3)
        assert intensity(added, side) == pytest.approx(1 / 12, abs=1e-3)


TRAINED = """
model trained(x: f32[N, 12]) -> y: [N, 5]:
    y = x |> dense(20) |> tanh |> dense(5)

train trained(x):
    minimize mean(trained(x)^2)
    using {optimizer}(lr = 0.1)
"""

OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {}, 0),
    "momentum": (torch.optim.SGD, {"momentum": 0.9}, 1),
    "adam": (torch.optim.Adam, {}, 2),
}


def torch_bytes(kind: Any, options: dict[str, float]) -> int:
    """What an optimiser of torch keeps after a step, beside its counter."""
    net = torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.Tanh(), torch.nn.Linear(20, 5))
    optimizer = kind(net.parameters(), lr=0.1, **options)
    net(torch.ones(3, 12)).square().mean().backward()
    optimizer.step()
    kept = [v for state in optimizer.state.values() for k, v in state.items() if k != "step"]
    return sum(x.numel() * x.element_size() for x in kept if x is not None)


@rows("P54")
@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_bytes_of_an_optimiser_are_those_that_torch_and_modules_keep(
    name: str, backend: str, tmp_path: Path
) -> None:
    kind, options, times = OPTIMIZERS[name]
    text = TRAINED.format(optimizer=name)
    found = cost(text, tmp_path, "-b", backend)
    assert (found["optimizer"], found["optimizer_bytes"]) == (name, torch_bytes(kind, options))
    assert found["optimizer_bytes"] == times * found["parameter_bytes"]
    assert found["optimizer_bytes"] == kept(model(text, tmp_path, backend, "f32"))
    assert "optimizer_bytes" not in cost(text, tmp_path, "-b", backend, "--inference")


@rows("P54")
@pytest.mark.parametrize("backend", ["numpy", "triton"])
def test_parameters_of_16_bits_have_a_copy_of_32_in_their_optimiser(backend: str, tmp_path: Path) -> None:
    text = TRAINED.format(optimizer="momentum")
    found = cost(text, tmp_path, "-b", backend, "--dtype", "f16")
    assert found["optimizer_bytes"] == 4 * found["parameter_bytes"] == kept(model(text, tmp_path, backend, "f16"))


def kept(module: Any) -> int:
    opt = module.init_opt(module.init(0))
    return sum(array.nbytes for slot in opt.values() if isinstance(slot, dict) for array in slot.values())


WIDE = 64

#: a layer whose outputs are an array of [N, WIDE]: its Jacobian by W has N * WIDE * WIDE * WIDE elements
LAYER = """
model layer_of(x: f32[8, 64]) -> (loss: []{type}):
    param W: [64, 64] ~ normal(0.1)
    y[n, o] = tanh(x[n, i] * W[o, i])
    loss = sum[n, o](y[n, o]^2){jacobian}

train layer_of(x):
    loss{name} = layer_of(x)
    minimize loss{plus}
    using sgd(lr = 0.1)
"""
PRODUCTS = LAYER.format(type="", jacobian="", name="", plus="")
JACOBIAN = LAYER.format(
    type=", J: [8, 64, 64, 64]", jacobian="\n    J = jacobian(y, W)", name=", J", plus=" + sum[...](J[...])"
)


@rows("P42")
def test_no_value_of_a_gradient_is_a_jacobian(tmp_path: Path) -> None:
    def largest(text: str) -> int:
        checked = check_file(written(text, tmp_path))
        _, train = choose(checked, None)
        assert train is not None
        outputs = pipeline.training(train).outputs.values()
        return max(int(np.prod(node.shape)) for node in ir.every_node(outputs) if hasattr(node, "shape"))

    assert largest(PRODUCTS) == WIDE * WIDE  # W and its gradient
    assert largest(JACOBIAN) >= 8 * WIDE**3


@rows("P42")
@pytest.mark.parametrize(("backend", "name"), [("c", "workspace"), ("triton", "buffers")])
def test_no_buffer_of_a_gradient_is_as_long_as_a_jacobian(backend: str, name: str, tmp_path: Path) -> None:
    def memory(text: str) -> int:
        return int(cost(text, tmp_path, "-b", backend)["total"]["loss_grad_metrics"][name])

    assert memory(PRODUCTS) <= 4 * (2 * WIDE * WIDE + 8 * 8 * WIDE)
    assert memory(JACOBIAN) >= 4 * 8 * WIDE**3


@rows("P42")
def test_the_numpy_module_allocates_no_jacobian(tmp_path: Path) -> None:
    def peak(text: str) -> int:
        module = model(text, tmp_path, dtype="f32")
        params, x = module.init(0), np.ones((8, WIDE), np.float32)
        module.loss_and_grad(params, x)
        tracemalloc.start()
        module.loss_and_grad(params, x)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(PRODUCTS) <= 4 * (2 * WIDE * WIDE + 16 * 8 * WIDE)
    assert peak(JACOBIAN) >= 4 * 8 * WIDE**3


CHAIN = "model chain(X: f32[N, C], w: f32[C]) -> g: [C]:\n    g[c] = {}\n"
SPELLINGS = ["X[n, c] * X[n, d] * w[d]", "X[n, c] * w[d] * X[n, d]", "w[d] * X[n, c] * X[n, d]"]


@rows("L19")
@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_chain_of_products_is_multiplied_from_the_vector(spelling: str, backend: str, tmp_path: Path) -> None:
    """X'(X w) takes 4 N C operations; (X' X) w takes 2 N C^2 + 2 C^2."""
    total = cost(CHAIN.format(spelling), tmp_path, "-b", backend)["total"]
    assert total["all" if backend == "numpy" else "forward"]["operations"] == "4*C*N"


@rows("L19")
def test_a_product_that_is_named_is_computed_as_it_stands(tmp_path: Path) -> None:
    """The control: who names X' X asks for it, and pays the square of C."""
    text = "model named(X: f32[N, C], w: f32[C]) -> (g: [C], A: [C, C]):\n"
    text += "    A[c, d] = X[n, c] * X[n, d]\n    g[c] = A[c, d] * w[d]\n"
    found = cost(text, tmp_path, "--set", "N=10", "--set", "C=100")
    assert found["total"]["all"]["operations"] == 2 * 10 * 100**2 + 2 * 100**2

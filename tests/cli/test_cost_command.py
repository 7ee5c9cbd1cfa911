"""`dslc cost`: counts against those of torch, formulas, and settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from torch.utils.flop_counter import FlopCounterMode

from dslc.cli.main import cli

ROOT = Path(__file__).parents[2]
MLP = ROOT / "specs/mlp/mlp.dsl"

PRODUCTS = """
model products(x: f32[N, 12], hidden = 20) -> y: [N, 5]:
    param A: [12, hidden] ~ glorot
    param B: [hidden, 5] ~ glorot
    h[n, k] = x[n, i] * A[i, k]
    y[n, j] = h[n, k] * B[k, j]

train products(x):
    minimize sum(products(x))
    using sgd(lr = 0.1)
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["cost", *map(str, arguments)], catch_exceptions=False)


def report(*arguments: object) -> Any:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture
def products(tmp_path: Path) -> Path:
    path = tmp_path / "products.dsl"
    path.write_text(PRODUCTS, encoding="utf-8")
    return path


def test_products_of_matrices_cost_what_torch_counts(products: Path) -> None:
    found = report(products, "--set", "N=7", "--inference")
    a, b = torch.zeros(12, 20), torch.zeros(20, 5)
    with FlopCounterMode(display=False) as counter:
        _ = torch.zeros(7, 12) @ a @ b
    assert found["total"]["forward"]["operations"] == counter.get_total_flops()
    assert found["total"]["forward"]["read"] == 4 * (7 * 12 + 12 * 20 + 7 * 20 + 20 * 5)
    assert found["total"]["forward"]["written"] == 4 * (7 * 20 + 7 * 5)
    assert found["parameters"] == 12 * 20 + 20 * 5


def test_gradients_of_matrices_cost_what_torch_counts(products: Path) -> None:
    """Forward and backward of both products, apart from the sum of the loss and the gradient of a sum, all ones."""
    rows = report(products, "--set", "N=7")["rows"]
    ours = {r["name"]: r["operations"] for r in rows if r["backward"]}
    a, b = torch.zeros(12, 20, requires_grad=True), torch.zeros(20, 5, requires_grad=True)
    loss = (torch.zeros(7, 12) @ a @ b).sum()
    with FlopCounterMode(display=False) as counter:
        loss.backward()
    # torch: dB = h^T dy, dh = dy B^T, dA = x^T dh; ours know that dy is 1, so the first two are sums
    assert counter.get_total_flops() == 2 * 7 * 20 * 5 * 2 + 2 * 7 * 12 * 20
    assert ours["d_A"] == 2 * 7 * 12 * 20
    assert ours["d_B"] == 7 * 20 * 5


def test_costs_are_formulas_of_open_sizes() -> None:
    found = report(MLP)
    assert found["sizes"] == ["N"]
    formula = found["total"]["all"]["operations"]
    assert isinstance(formula, str) and "*N" in formula
    sixty, sixty_one = (report(MLP, "--set", f"N={n}")["total"]["all"]["operations"] for n in (60, 61))
    slope = int(formula.split("*N")[0])
    assert sixty_one - sixty == slope


def test_settings_are_sizes_or_arguments_of_the_model() -> None:
    assert report(MLP, "--set", "hidden=16")["parameters"] == 64 * 16 + 16 + 16 * 16 + 16 + 16 * 10 + 10
    wrong = run(MLP, "--set", "M=3")
    assert wrong.exit_code == 2 and "M is neither an argument of the model nor an open size" in wrong.stderr
    wrong = run(MLP, "--set", "N=0.5")
    assert wrong.exit_code == 2 and "expected a whole number from 1 for the size N" in wrong.stderr


def test_what_the_backward_pass_needs_is_saved(products: Path) -> None:
    found = report(products, "--set", "N=7")
    assert {r["name"]: r["saved"] for r in found["rows"] if r["saved"]} == {"h": 4 * 7 * 20}
    assert report(products, "--inference")["total"]["all"]["saved"] == 0
    assert (
        report(products, "--set", "N=7", "--dtype", "f64")["total"]["all"]["saved"]
        == 2 * found["total"]["all"]["saved"]
    )


def test_a_gather_reads_what_it_takes(tmp_path: Path) -> None:
    spec = tmp_path / "gather.dsl"
    spec.write_text(
        "model gather(i: i32[N] < 1000) -> y: [N, 8]:\n    param W: [1000, 8] ~ normal(1)\n    y[n, e] = W[i[n], e]\n",
        encoding="utf-8",
    )
    assert report(spec, "--set", "N=3")["total"]["all"]["read"] == 4 * 3 * 8 + 4 * 3


def test_the_steps_of_a_scan_are_counted(tmp_path: Path) -> None:
    spec = tmp_path / "scan.dsl"
    spec.write_text(
        "model scanned(x: f32[T, 4]) -> h: [T, 4]:\n"
        "    param U: [4, 4] ~ glorot\n"
        "    scan t:\n"
        "        h[t, k] = tanh(x[t, k] + h[t-1, j] * U[j, k])\n"
        "    start h = 0\n",
        encoding="utf-8",
    )
    per_step = 2 * 4 * 4 + 4 + 4
    assert report(spec, "--set", "T=10")["total"]["all"]["operations"] == 10 * per_step


def test_the_table_has_totals() -> None:
    done = run(MLP, "--set", "N=64")
    assert done.exit_code == 0
    assert "total forward" in done.stdout and "26,122 parameters, 104,488 bytes" in done.stdout
    assert "open sizes" not in done.stdout


def test_errors_of_the_spec_are_told(tmp_path: Path) -> None:
    spec = tmp_path / "bad.dsl"
    spec.write_text("model bad(x: f32[N]) -> y: [N]:\n    y = z\n", encoding="utf-8")
    from dslc.diagnostics.report import SpecError

    with pytest.raises(SpecError, match="E0201"):
        run(spec)

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


def test_an_operation_with_several_results_is_named_by_them(tmp_path: Path) -> None:
    spec = tmp_path / "spectrum.dsl"
    spec.write_text(
        "model spectrum(x: f32[T]) -> p: [T]:\n    re[f], im[f] = fft[t -> f](x[t])\n    p[f] = re[f]^2 + im[f]^2\n",
        encoding="utf-8",
    )
    assert [row["name"] for row in report(spec, "--set", "T=8")["rows"]] == ["re, im", "p"]


def test_the_table_has_totals() -> None:
    done = run(MLP, "--set", "N=64")
    assert done.exit_code == 0
    assert "total forward" in done.stdout and "26,122 parameters, 104,488 bytes" in done.stdout
    assert "open sizes" not in done.stdout
    assert "53,002*N" in (formulas := run(MLP, "--inference").stdout) and "53002" not in formulas


def test_errors_of_the_spec_are_told(tmp_path: Path) -> None:
    spec = tmp_path / "bad.dsl"
    spec.write_text("model bad(x: f32[N]) -> y: [N]:\n    y = z\n", encoding="utf-8")
    from dslc.diagnostics.spec_error import SpecError

    with pytest.raises(SpecError, match="E0201"):
        run(spec)


# ---- kernels ---------------------------------------------------------------------------------------------

GPT = ROOT / "specs/transformer/gpt.dsl"


def test_kernels_count_the_operations_of_their_contractions(products: Path) -> None:
    found = report(products, "-b", "triton", "--set", "N=7", "--inference")
    first, second = found["kernels"]
    assert (first["operations"], second["operations"]) == (2 * 7 * 12 * 20, 2 * 7 * 20 * 5)
    assert (first["read"], first["written"]) == (4 * (7 * 12 + 12 * 20), 4 * 7 * 20)
    assert found["total"]["forward"]["launches"] == 2
    assert found["total"]["forward"]["buffers"] == 4 * (7 * 20 + 7 * 5)
    assert first["intensity"] == round(first["operations"] / (first["read"] + first["written"]), 3)


def test_open_sizes_stay_formulas_in_the_costs_of_kernels(products: Path) -> None:
    found = report(products, "-b", "triton", "--inference")
    assert found["sizes"] == ["N"]
    assert found["kernels"][0]["operations"] == "480*N"
    assert found["kernels"][0]["intensity"] is None


def test_layer_norm_reads_and_writes_its_input_once(tmp_path: Path) -> None:
    spec = tmp_path / "norm.dsl"
    spec.write_text("model m(x: f32[N, 64]) -> y: [N, 64]:\n    y = layer_norm(x)\n", encoding="utf-8")
    (kernel,) = report(spec, "-b", "triton", "--set", "N=100")["kernels"]
    assert kernel["read"] == 4 * (100 * 64 + 2 * 64)
    assert kernel["written"] == 4 * 100 * 64


def test_the_memory_of_attention_is_linear_in_the_length() -> None:
    lengths = (1024, 4096, 16384)
    totals = [
        report(GPT, "-b", "triton", "--set", "N=1", "--set", f"T={t}", "--set", f"context={t}")["total"]
        for t in lengths
    ]
    for function in ("forward", "loss_grad_metrics"):
        a, b, c = (t[function]["buffers"] for t in totals)
        assert b < 4.01 * a and c < 4.01 * b
    # its operations are quadratic: the figures above are no slip of the sizes
    assert totals[2]["forward"]["operations"] > 100 * totals[0]["forward"]["operations"]


def test_a_loop_over_layers_launches_its_kernels_for_each_layer() -> None:
    totals = [report(GPT, "-b", "triton", "--set", f"depth={d}")["total"] for d in (2, 5)]
    assert totals[1]["forward"]["launches"] - totals[0]["forward"]["launches"] == 3 * 7
    assert totals[1]["loss_grad_metrics"]["launches"] - totals[0]["loss_grad_metrics"]["launches"] == 3 * (7 + 16)


def trained(tmp_path: Path, optimizer: str) -> Path:
    spec = tmp_path / "line.dsl"
    spec.write_text(
        "model line(x: f32[N, 70]) -> y: [N, 100]:\n    y = x |> dense(100)\n\ntrain line(x):\n"
        f"    minimize mean[n, e](line(x)[n, e]^2)\n    using {optimizer}\n",
        encoding="utf-8",
    )
    return spec


def test_the_update_is_one_launch_over_all_parameters(tmp_path: Path) -> None:
    found = report(trained(tmp_path, "sgd(lr = 0.1)"), "-b", "triton", "--set", "N=7")
    (update,) = (k for k in found["kernels"] if k["function"] == "train_step")
    entries = 70 * 100 + 100
    assert (update["kernel"], update["launches"]) == ("sgd_kernel", 1)
    # param - lr * (grad + weight_decay * param)
    assert (update["operations"], update["read"], update["written"]) == (4 * entries, 8 * entries, 4 * entries)
    assert found["total"]["train_step"]["launches"] == 1


def test_an_update_in_16_bits_moves_its_copy_in_32_bits_too(tmp_path: Path) -> None:
    spec = trained(tmp_path, "sgd(lr = 0.1)")
    (update,) = (k for k in report(spec, "-b", "triton", "--dtype", "bf16")["kernels"] if k["function"] == "train_step")
    assert (update["read"], update["written"]) == (8 * 7100, 6 * 7100)


def test_clipping_the_gradient_takes_two_launches_more(tmp_path: Path) -> None:
    spec = trained(tmp_path, "clipped_adamw(lr = 0.1)")
    squares, length, update = (k for k in report(spec, "-b", "triton")["kernels"] if k["function"] == "train_step")
    assert (squares["operations"], squares["read"], squares["written"]) == (2 * 7100, 4 * 7100, 4 * (2 + 1))
    assert (length["read"], length["written"]) == (4 * 3, 4)
    # the parameter, its gradient and two slots; all but the gradient are written
    assert (update["read"], update["written"]) == (16 * 7100, 12 * 7100)


@pytest.mark.long
def test_resources_of_kernels_are_found_without_a_gpu(products: Path) -> None:
    found = report(products, "-b", "triton", "--inference", "--resources")["resources"]
    assert found
    for targets in found.values():
        assert set(targets) == {"sm80", "sm90", "gfx942"}
        for needs in targets.values():
            assert needs["registers"] > 0
            assert needs["spilled"] == 0
            assert 0 < needs["occupancy"] <= 1
    table = run(products, "-b", "triton", "--inference", "--resources").output
    assert "gfx942" in table and "occupancy" in table


def test_resources_without_triton_are_refused_with_what_to_install(
    products: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = run(products, "-b", "triton", "--resources")
    assert done.exit_code == 1
    assert "pip install 'dslc[triton]'" in done.output


def test_resources_belong_to_kernels(products: Path) -> None:
    done = run(products, "--resources")
    assert done.exit_code == 2
    assert "-b triton" in done.output


def test_what_triton_cannot_do_is_refused_with_its_line(tmp_path: Path) -> None:
    spec = tmp_path / "large.dsl"
    spec.write_text(
        "model m(a: f32[N, 100, 100]) -> y: [N, 100, 100]:\n    y[n, :, :] = inv(a[n, :, :])\n", encoding="utf-8"
    )
    done = run(spec, "-b", "triton", "--json")
    assert done.exit_code == 1
    (diagnostic,) = json.loads(done.stdout)["diagnostics"]
    assert "larger than 64 x 64" in diagnostic["message"]


def test_a_part_of_a_formula_goes_by_the_name_of_its_function() -> None:
    """The sum in `fn logsumexp[k](x) = log(sum[k](exp(x)))` had no name in the table."""
    done = CliRunner().invoke(cli, ["cost", str(MLP), "--json"])
    told = json.loads(done.output)
    forward = [row for row in told["rows"] if not row["backward"]]
    assert "logsumexp" in {row["name"] for row in forward}
    assert all(row["name"] for row in forward)

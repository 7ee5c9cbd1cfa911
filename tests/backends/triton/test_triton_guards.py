"""A part of a formula that a condition hides takes no part in the sum around it, in kernels too."""

from __future__ import annotations

from pathlib import Path

import guarded
import numpy as np
import pytest
import torch
from samples import load

from dslc.compiler import compile_text


@pytest.mark.point("A")
def test_a_guarded_product_keeps_its_guard_in_a_kernel(tmp_path: Path) -> None:
    guarded.compare(tmp_path, "triton")


@pytest.mark.point("E")
def test_the_least_whole_number_of_no_values_is_the_largest_there_is(tmp_path: Path) -> None:
    head = "model m(x: i32[M], at: i32[M] < 3) -> (a: i64[3], b: i64[3]):"
    text = f"{head}\n    a[at[m]] max= x[m]\n    b[at[m]] min= x[m]\n"
    spec = tmp_path / "m.dsl"
    spec.write_text(text, encoding="utf-8")
    given = torch.tensor([3, -4, 5], dtype=torch.int32), torch.tensor([0, 0, 1], dtype=torch.int32)
    found = load(compile_text(spec, "triton"), tmp_path).forward({}, *given)
    limits = torch.iinfo(torch.int64)
    assert found["a"].tolist() == [3, 5, limits.min]
    assert found["b"].tolist() == [-4, 5, limits.max]


@pytest.mark.point("H")
def test_a_row_that_is_not_finite_stays_where_a_scatter_puts_it(tmp_path: Path) -> None:
    guarded.scatter(tmp_path, "triton", (2,))


LOOP = """
layer block(x: [N, E]) -> y: [N, E]:
    y = x + dense(layer_norm(x), E)

model m(x: f64[N, 4]) -> (loss: [], dx: [N, 4]):
    h = x
    for l in 0..2:
        h = block(h)
    loss = sum(h^2)
    dx = grad(loss, x)
"""


@pytest.mark.point("16")
def test_the_gradient_by_an_input_through_a_loop_is_an_output_as_any_other(tmp_path: Path) -> None:
    spec = tmp_path / "m.dsl"
    spec.write_text(LOOP, encoding="utf-8")
    ours, kernels = (
        load(compile_text(spec, backend, dtype="f64"), tmp_path, backend) for backend in ("numpy", "triton")
    )
    params = ours.init(0)
    x = np.random.default_rng(1).normal(size=(3, 4))
    expected = ours.forward(params, x)
    found = kernels.forward({k: torch.as_tensor(v) for k, v in params.items()}, torch.as_tensor(x))
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-9, err_msg=name)
    step = 1e-5 * np.eye(12).reshape(12, 3, 4)
    slopes = [(ours.forward(params, x + h)["loss"] - ours.forward(params, x - h)["loss"]) / 2e-5 for h in step]
    np.testing.assert_allclose(expected["dx"].reshape(-1), slopes, rtol=1e-6, atol=1e-7)

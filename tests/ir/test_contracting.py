"""The interpreter with quick products gives what the plain one gives, on products of whole tensors and of others."""

from __future__ import annotations

import numpy as np
import pytest
from programs import unit

from dslc.ir import nodes as ir
from dslc.meaning.contracting import Contracting, as_product
from dslc.meaning.interpret import Interpreter


@pytest.mark.parametrize(
    ("equation", "quick"),
    [
        ("y[a, b] = x[a, i] * w[i, b]", True),
        ("y[a, b] = x[a, i] * w[i, b] * x[b, i]", False),
        ("y[a, b] = x[a, i] * w[i, 3 - b]", False),
        ("y[a, b] = sum[i](x[a, i]) + w[a, b]", True),
        ("y[a, b: 4] = sum[i](x[i, i]) + x[a, b]", True),
    ],
)
def test_products_are_those_of_the_plain_interpreter(equation: str, quick: bool) -> None:
    program = unit(f"model m(x: f32[4, 4], w: f32[4, 4]) -> y: [4, 4]:\n    {equation}\n")
    rng = np.random.default_rng(0)
    values = {name: rng.normal(size=(4, 4)) for name in ("x", "w")}
    expected = Interpreter(values, {}).run(program.outputs)["y"]
    np.testing.assert_allclose(Contracting(values, {}).run(program.outputs)["y"], expected, rtol=1e-12)
    found = any(as_product(node) is not None for node in ir.schedule(tuple(program.outputs.values())))
    assert found or not quick


def test_a_sum_over_a_part_of_an_axis_is_no_product_of_whole_tensors() -> None:
    x = ir.intern(ir.Input("x", "input", "f64", (4, 4)))
    part = ir.comp((4,), ir.whole(x), "sum", (3,))
    values = np.arange(16.0).reshape(4, 4)
    np.testing.assert_array_equal(Contracting({"x": values}, {}).tensor(part), values[:, :3].sum(1))

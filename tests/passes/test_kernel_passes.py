"""Passes on the way to kernels keep the values of a program; some rules of theirs, one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dslc.backends.c.target import TARGET as PROCESSOR
from dslc.backends.triton.target import TARGET as GPU

from dslc import pipeline
from dslc.builder.build import Unit
from dslc.compiler import choose
from dslc.frontend import check_file
from dslc.ir import nodes as ir
from dslc.meaning.interpret import Interpreter
from dslc.passes.constants import rewritten
from dslc.passes.exchange import exchanged
from dslc.passes.sides import inner_order
from dslc.schedule.prepare import prepared
from dslc.schedule.target import Target
from dslc.sizes import symbol

ROOT = Path(__file__).parents[2]
SPECS = ["transformer/gpt", "convolution/resnet", "recurrent/aft", "graph/gat", "recurrent/gru", "transformer/vit"]


def inputs_of(unit: Unit, size: int) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    rng = np.random.default_rng(0)
    sizes = {s.name: size for x in unit.inputs.values() for n in x.shape for s in getattr(n, "free_symbols", ())}
    shapes = Interpreter({}, sizes)
    inputs = {}
    for name, node in unit.inputs.items():
        shape = shapes.shape(node.shape)
        whole = node.dtype in ("i32", "i64", "bool")
        values = rng.integers(0, 2, shape) if whole else rng.normal(size=shape) * 0.3
        inputs[name] = np.abs(values) + 0.05 if node.role == "state" else values
    return inputs, sizes


@pytest.mark.parametrize("target", [PROCESSOR, GPU], ids=["processor", "gpu"])
@pytest.mark.parametrize("name", SPECS)
def test_no_pass_changes_a_value(name: str, target: Target) -> None:
    _, train = choose(check_file(ROOT / f"specs/{name}.dsl", {}))
    assert train is not None
    program = pipeline.training(train)
    inputs, sizes = inputs_of(program.unit, 5)
    with np.errstate(all="ignore"):
        wanted = Interpreter(inputs, sizes).run(program.outputs)
        found = Interpreter(inputs, sizes).run(prepared(program.outputs, target))
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-9, atol=1e-9, err_msg=key)


N = symbol("N")
X = ir.intern(ir.Input("x", "input", "float", (N, 8)))


def of(name: str, *args: ir.Scalar) -> ir.Op:
    return ir.op(name, args, "float")


x, y = ir.read(X, (ir.plain(0), ir.plain(1))), ir.read(X, (ir.plain(1), ir.plain(0)))
c, zero, low = ir.const(0.25, "float"), ir.const(0.0, "float"), ir.const(float("-inf"), "float")
test = ir.op("<=", (ir.var(0), ir.var(1)), "bool")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (of("*", x, c), of("*", c, x)),
        (of("*", of("*", x, c), y), of("*", c, of("*", x, y))),
        (of("+", of("*", c, x), of("*", c, y)), of("*", c, of("+", x, y))),
        (of("select", test, of("*", c, x), zero), of("*", c, of("select", test, x, zero))),
        (of("*", c, of("select", test, x, low)), of("select", test, of("*", c, x), low)),
        (of("/", of("select", test, x, low), c), of("select", test, of("/", x, c), low)),
        (of("+", x, of("neg", y)), of("-", x, y)),
        (of("/", ir.const(1, "i64"), ir.const(4, "i64")), c),
    ],
    ids=["product", "chain", "sum", "choice with 0", "choice with infinity", "quotient", "difference", "numbers"],
)
def test_constants_have_their_places(before: ir.Op, after: ir.Scalar) -> None:
    assert rewritten(before) is after


def test_a_negative_factor_stays_outside_a_choice_with_infinity() -> None:
    outside = of("*", ir.const(-1.5, "float"), of("select", test, x, low))
    assert rewritten(outside) is outside


def test_inner_axes_have_the_order_of_memory() -> None:
    left = ir.intern(ir.Input("a", "input", "float", (N, 4, 16)))
    right = ir.intern(ir.Input("b", "input", "float", (4, 16, 8)))
    # y[n, o] = sum[d, h](a[n, h, d] * b[h, d, o]): d is summed first in the formula, but h comes first in memory
    a = ir.read(left, (ir.plain(0), ir.plain(3), ir.plain(2)))
    b = ir.read(right, (ir.plain(3), ir.plain(2), ir.plain(1)))
    node = ir.comp((N, 8), of("*", a, b), "sum", (16, 4))
    assert isinstance(node, ir.Comp) and inner_order(node) == (3, 2)


T = symbol("T")


def weighted(other: str = "v") -> tuple[dict[str, ir.Tensor], dict[str, tuple[ir.Size, ...]]]:
    """sum[s](a[t, s] * v[s, d]), and sum[s](sum[d](g[t, d] * other[s, d]) * a[t, s])."""
    shapes: dict[str, tuple[ir.Size, ...]] = {"a": (T, T), "v": (T, 8), "g": (T, 8), "w": (T, 8)}
    own = {k: ir.intern(ir.Input(k, "input", "float", shape)) for k, shape in shapes.items()}

    def at(name: str, *variables: int) -> ir.Scalar:
        return ir.read(own[name], tuple(ir.plain(v) for v in variables))

    result = ir.comp((T, 8), of("*", at("a", 0, 2), at("v", 2, 1)), "sum", (T,), "y")
    tile = ir.comp((T, T), of("*", at("g", 0, 2), at(other, 1, 2)), "sum", (8,), "tile")
    row = ir.comp((T,), of("*", ir.read(tile, (ir.plain(0), ir.plain(1))), at("a", 0, 1)), "sum", (T,), "row")
    return {"y": result, "row": row}, shapes


def test_a_sum_over_a_tile_is_a_sum_over_its_short_axis_where_the_rest_is_there() -> None:
    outputs, shapes = weighted()
    row = exchanged(outputs)["row"]
    assert isinstance(row, ir.Comp) and row.reduced == (8,)
    assert outputs["y"] in ir.arguments(row)
    rng = np.random.default_rng(0)
    inputs = {k: rng.normal(size=[5 if n is T else n for n in shape]) for k, shape in shapes.items()}
    wanted, found = (Interpreter(inputs, {"T": 5}).run({"row": x})["row"] for x in (outputs["row"], row))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_sum_over_a_tile_stays_where_the_rest_is_not_there() -> None:
    outputs, _ = weighted("w")
    assert exchanged(outputs) == outputs
    row = {"row": weighted()[0]["row"]}
    assert exchanged(row) == row

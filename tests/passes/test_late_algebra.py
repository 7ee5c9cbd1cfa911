"""What the late passes take out of gradients: sums that are 0, values that need not be kept, work on whole arrays."""

from __future__ import annotations

from dslc import pipeline
from dslc.compiler import choose
from dslc.frontend import check_text
from dslc.ir import nodes as ir
from dslc.passes.deviations import drop_deviations, is_deviation
from dslc.passes.factors import gathered
from dslc.passes.simplify import simplify
from dslc.passes.transform import everything
from dslc.sizes import symbol

NORMED = """
model m(x: f32[N, 8]) -> y: [N, 8]:
    h = x |> dense(8)
    y = h |> {layer}

train m(x):
    minimize mean[n, e](m(x)[n, e]^2)
    using sgd(lr = 0.1)
"""


def stages(layer: str) -> dict[str, dict[str, ir.Tensor]]:
    _, train = choose(check_text(NORMED.replace("{layer}", layer)))
    assert train is not None
    return dict(pipeline.training(train).stages)


def deviations(program: dict[str, ir.Tensor]) -> int:
    return sum(isinstance(x, ir.Comp) and x.op == "sum" and is_deviation(x) for x in everything(program))


def test_the_gradient_of_a_normalisation_sums_no_deviations() -> None:
    for layer in ("layer_norm", "batch_norm"):
        passes = stages(layer)
        assert deviations(passes["order sums again"]) > 0
        assert deviations(passes["drop deviations"]) == 0


N = symbol("N")
X = ir.intern(ir.Input("x", "input", "float", (N, 8)))
x = ir.whole(X)


def of(name: str, *args: ir.Scalar) -> ir.Op:
    return ir.op(name, args, "float")


def mean(count: float) -> ir.Read:
    total = ir.comp((N,), x, "sum", (8,))
    return ir.whole(ir.comp((N,), of("/", ir.whole(total), ir.const(count, "float"))))


def test_the_sum_of_deviations_from_a_mean_is_nothing() -> None:
    deviation = ir.comp((N,), of("-", x, mean(8.0)), "sum", (8,))
    assert isinstance(deviation, ir.Comp) and is_deviation(deviation)
    user = ir.comp((N,), of("+", of("*", ir.whole(deviation), mean(8.0)), mean(8.0)))
    assert drop_deviations({"user": user})["user"] is mean(8.0).tensor


def test_another_sum_is_no_sum_of_deviations() -> None:
    m = mean(8.0)
    for body in (of("-", x, mean(7.0)), of("-", of("*", x, x), m), of("-", m, x), of("+", x, m)):
        node = ir.comp((N,), body, "sum", (8,))
        assert isinstance(node, ir.Comp) and not is_deviation(node)


def test_the_gradient_of_an_absolute_error_is_a_sign_without_a_choice() -> None:
    text = NORMED.replace("{layer}", "relu").replace(
        "mean[n, e](m(x)[n, e]^2)", "mean[n, e](abs(m(x)[n, e] - x[n, e]))"
    )
    _, train = choose(check_text(text))
    assert train is not None
    bodies = [s for x in everything(pipeline.training(train).outputs) for b in ir.bodies(x) for s in ir.scalars(b)]
    assert any(isinstance(s, ir.Op) and s.name == "sign" for s in bodies)
    assert not any(isinstance(s, ir.Op) and s.name == "!=" for s in bodies)


def test_a_sum_of_differences_from_another_mean_stays() -> None:
    x = ir.intern(ir.Input("x", "input", "f64", (3, 4)))
    z = ir.intern(ir.Input("z", "input", "f64", (3, 4)))
    read, other = (ir.read(t, (ir.plain(0), ir.plain(1))) for t in (x, z))
    for mean_of, divisor, zero in ((read, 4.0, True), (other, 4.0, False), (read, 5.0, False)):
        total = ir.comp((3,), mean_of, "sum", (4,))
        mean = ir.comp((3,), ir.op("/", (ir.whole(total), ir.const(divisor, "f64")), "f64"))
        gap = ir.op("-", (read, ir.read(mean, (ir.plain(0),))), "f64")
        made = ir.comp((3,), gap, "sum", (4,))
        assert isinstance(made, ir.Comp)
        assert is_deviation(made) is zero


def test_the_gradient_of_relu_reads_its_result_alone() -> None:
    program = stages("relu")["read signs"]
    tests = [s for x in everything(program) for b in ir.bodies(x) for s in ir.scalars(b)
             if isinstance(s, ir.Op) and s.name == ">"]  # fmt: skip
    assert tests
    for test in tests:
        (read, _) = test.args
        assert isinstance(read, ir.Read) and isinstance(read.tensor, ir.Comp)
        assert isinstance(read.tensor.body, ir.Op) and read.tensor.body.name == "relu"


def test_the_power_of_nothing_counts_entries() -> None:
    counted = ir.comp((), of("^", ir.read(X, (ir.plain(0), ir.plain(1))), ir.const(0.0, "float")), "sum", (N, 8))
    found = simplify({"count": counted})["count"]
    assert isinstance(found, ir.Comp) and (found.op, found.reduced) == (None, ())


def test_factors_with_few_variables_meet_first() -> None:
    x = ir.read(ir.intern(ir.Input("x", "input", "f64", (100, 8))), (ir.plain(0), ir.plain(1)))
    a, b = (ir.read(ir.intern(ir.Input(n, "input", "f64", (8,))), (ir.plain(1),)) for n in "ab")
    product = ir.op("/", (ir.op("*", (a, x), "f64"), b), "f64")
    found = gathered(product, (100, 8))
    assert found is ir.op("*", (ir.op("/", (a, b), "f64"), x), "f64")
    assert gathered(product, (100, 8), keep_root=True) is product

"""What the printer writes, the parser reads back as the same tree, with no parenthesis more than it takes."""

from __future__ import annotations

import inspect

import pytest
from generate import SPECS, expressions, modules, parse_expression, parse_text
from hypothesis import HealthCheck, given, settings

from dslc.syntax import tree as t
from dslc.syntax.printer import WIDTH, print_module, print_node

many = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
some = settings(many, max_examples=120)


def read_back(expression: t.Expr) -> t.Expr:
    """Through a whole definition, so that long expressions are broken into lines."""
    text = print_module(t.Module((t.Fn("f", None, (), expression),)))
    (definition,) = parse_text(text).module.definitions
    assert isinstance(definition, t.Fn)
    assert definition.expression is not None
    return definition.expression


# ---- round trips ----------------------------------------------------------------------------------------


@many
@given(expressions)
def test_an_expression_is_read_back_as_itself(expression):
    assert read_back(expression) == expression
    assert parse_expression(print_node(expression)) == expression


@some
@given(modules)
def test_a_module_is_read_back_as_itself(module):
    text = print_module(module)
    assert parse_text(text).module == module
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_generated_modules_contain_every_kind_of_node():
    seen: set[type] = set()

    @settings(many, max_examples=120, derandomize=True, database=None)
    @given(modules)
    def collect(module):
        seen.update(type(node) for node in module.walk())

    collect()
    kinds = {kind for _, kind in inspect.getmembers(t, inspect.isclass) if issubclass(kind, t.Node)}
    assert kinds - {t.Node} <= seen


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.name)
def test_a_shipped_spec_is_read_back_as_itself(path):
    module = parse_text(path.read_text(encoding="utf-8")).module
    assert parse_text(print_module(module)).module == module


# ---- parentheses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("-1", "-1"),
        ("--x", "--x"),
        ("-x^2", "-x^2"),
        ("-(x^2)", "-x^2"),
        ("(-x)^2", "(-x)^2"),
        ("-(a*b)", "-(a * b)"),
        ("(-a)*b", "-a * b"),
        ("a*(-b)", "a * -b"),
        ("-(a+b)", "-(a + b)"),
        ("a - -b", "a - -b"),
        ("a^b^c", "a^b^c"),
        ("a^(b^c)", "a^b^c"),
        ("(a^b)^c", "(a^b)^c"),
        ("a^(-b)", "a^-b"),
        ("a^(b*c)", "a^(b * c)"),
        ("(a*b)^c", "(a * b)^c"),
        ("f(x)^g.w[i]", "f(x)^g.w[i]"),
        ("(a+b)+c", "(a + b) + c"),
        ("a+(b+c)", "a + (b + c)"),
        ("a-(b-c)", "a - (b - c)"),
        ("a-(b*c)", "a - b * c"),
        ("(a*b)*c", "(a * b) * c"),
        ("a*(b*c)", "a * (b * c)"),
        ("a/(b*c)", "a / (b * c)"),
        ("a/(b/c)/d", "a / (b / c) / d"),
        ("(a*b)//c", "a * b // c"),
        ("a*(b//c)", "a * (b // c)"),
        ("(a//b)*c", "a // b * c"),
        ("a//b%c", "a // b % c"),
        ("a//(b%c)", "a // (b % c)"),
        ("(a+b)%c", "(a + b) % c"),
        ("(a<b)==c", "(a < b) == c"),
        ("a<(b==c)", "a < (b == c)"),
        ("a < -b", "a < -b"),
        ("a+b<c*d", "a + b < c * d"),
        ("not (a<b)", "not a < b"),
        ("(not a)<b", "(not a) < b"),
        ("not not a", "not not a"),
        ("not (a and b)", "not (a and b)"),
        ("(not a) and b", "not a and b"),
        ("-(not a)", "-(not a)"),
        ("a and b or c and d", "a and b or c and d"),
        ("a and (b or c)", "a and (b or c)"),
        ("(a and b) and c", "(a and b) and c"),
        ("a or (b or c)", "a or (b or c)"),
        ("a if b else (c if d else e)", "a if b else c if d else e"),
        ("(a if b else c) if d else e", "(a if b else c) if d else e"),
        ("a if (b if c else d) else e", "a if (b if c else d) else e"),
        ("(a if b else c) + 1", "(a if b else c) + 1"),
        ("a if b or c else d + 1", "a if b or c else d + 1"),
        ("((x[t-1] else 0))", "(x[t-1] else 0)"),
        ("(a if b else c else d)", "(a if b else c else d)"),
        ("((a else b) else c)", "((a else b) else c)"),
        ("(x |> f else 0)", "(x |> f else 0)"),
        ("f((x[i] else 0))", "f((x[i] else 0))"),
        ("x |> f |> g(2)", "x |> f |> g(2)"),
        ("(x |> f) |> g", "x |> f |> g"),
        ("(x) |> f |> g", "x |> f |> g"),
        ("(x + y) * z |> f |> g", "(x + y) * z |> f |> g"),
        ("x + y |> f", "x + y |> f"),
        ("x + (x |> f)", "x + (x |> f)"),
        ("x |> (f |> g)", "x |> (f |> g)"),
        ("x |> (-f)", "x |> (-f)"),
        ("a if b else c |> f", "a if b else c |> f"),
        ("a if b else (c |> f)", "a if b else (c |> f)"),
        ("f(x |> g, k = x |> h)", "f(x |> g, k = x |> h)"),
        ("(x |> f)(y)", "(x |> f)(y)"),
        ("(a + b)[i]", "(a + b)[i]"),
        ("(-a).w", "(-a).w"),
        ("(a^b)(c)", "(a^b)(c)"),
        ("(f(x))[i].w", "f(x)[i].w"),
        ("1 .0 + a.0 .1 .b", "1 .0 + a.0 .1.b"),
        ("1.5.0 + 2.w", "1.5.0 + 2.w"),
        ('"a b"', '"a b"'),
        ("true and false", "true and false"),
        ("f(x,)", "f(x)"),
        ("f( )", "f()"),
    ],
)
def test_only_needed_parentheses_are_written(text, printed):
    tree = parse_expression(text)
    assert print_node(tree) == printed
    assert parse_expression(printed) == tree


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("x[n,2 * p+a-pad]", "x[n, 2*p + a - pad]"),
        ("x[stride*p + dil * a - pad, (a + b) * 2]", "x[stride*p + dil*a - pad, (a + b)*2]"),
        ("x[n, t - 1, T - 1 - t, p+u, p+u-pad]", "x[n, t-1, T-1-t, p + u, p + u - pad]"),
        ("x[n, -t + 1, t // 2]", "x[n, -t + 1, t//2]"),
        ("x[f(a*b), y[2*i], wrap(t+1)]", "x[f(a * b), y[2*i], wrap(t + 1)]"),
        ("x[:, 1 : T, ::2, a:b + 1, ::-1, 1:, 2*p + 1:]", "x[:, 1:T, ::2, a:b+1, ::-1, 1:, 2*p+1:]"),
        ("max[a:2, b: D/2, c: 2 * K - 1](x[a:b])", "max[a: 2, b: D / 2, c: 2*K - 1](x[a:b])"),
        ("top_k[v->j:5](x[n,v])", "top_k[v -> j: 5](x[n, v])"),
        ("fft[t -> f](x)", "fft[t -> f](x)"),
        ("mean[...](x[...,c])", "mean[...](x[..., c])"),
        ("x[n, (h  w), (a b c)]", "x[n, (h w), (a b c)]"),
        ("x[(h)]", "x[h]"),
    ],
)
def test_indices_are_written_tightly(text, printed):
    tree = parse_expression(text)
    assert print_node(tree) == printed
    assert parse_expression(printed) == tree


# ---- statements and definitions -------------------------------------------------------------------------

CANONICAL = """\
import "blocks.dsl"
from "losses.dsl" import huber, hinge as margin
fn gelu(x) = x * (1 + erf(x / sqrt(2))) / 2
fn softmax[k](x) = exp(x) / sum[k](exp(x))

fn ste(x) -> y:
    y = round(x)
    backward (dy) -> (dx, dw):
        dx = dy

fn pair(x: [N], label: i32[N] < K + 1) -> (a: [], b, c: simplex f32[K]) where N % 2 == 0, K < 9:
    a, b[n], c[n, k: K] = f(x)

layer dense(x: [..., I], out: size, act: fn, bias = true, f: layer = dense(3)) -> y: [..., O = out]:
    param W: [I, O] ~ glorot
    frozen param A[n, k]: [N, K] = -sqrt(2 * n + 1) if n > k else 0
    param Wq, Wk: [E, H = heads, D = E / heads]
    state mean: binary[C] = 0
    size P = (H + 2*pad - kernel * 2 / 2) // stride + 1
    backward (dy) -> dx:
        dx = 2 * dy + 1
    use f = dense(256)
    use g = frozen resnet(50)
    y[..., o] = x[..., i] * W[i, o] + b[o]
    patch[n, (h w), (a b c)] = x[n, c, (h a), (w b)] where a = 8, b = 8
    y[dst[m]: V, o] += w[m] * z[src[m], o]
    y[dst[m], o] max= w[m] where m = 3
    mean <- 0.99 * mean + 0.01 * mu
    for l in 0..2*L - 1:
        h = h |> dense(256)
    scan t in 1..T reversed:
        h[n, t, k] = (h[n, t+1, k] else 0)
    scan t:
        c = x[t]
    start h[n, k] = h0[n, k]
    if a == 1:
        h = 1
    elif a == 2:
        h = 2
    else:
        training:
            h = 3
        inference:
            h = 4
    checkpoint:
        h = 5
    expose h, a

model mlp(x: f32[N, 784]) -> logits:
    logits = x |> dense(10)

train mlp(x, label: i32[N] < K, batch = 64) where N > 1:
    minimize cross_entropy(mlp(x), label)
    metric accuracy = mean(argmax[k](mlp(x)[n, k]) == label)
    using adamw(lr = 1e-3)
    freeze mlp.dense.W, mlp.block.0.W, a.0 .1 .2.b

optimizer adamw(lr = 1e-3):
    slot m = 0, v = 0
    param <- param - lr * m / (1 - beta1^step)
    maximize 1
"""


def test_canonical_text_is_printed_as_it_stands():
    assert print_module(parse_text(CANONICAL).module) == CANONICAL


def test_nodes_smaller_than_a_statement_are_printed_on_one_line():
    layer = next(d for d in parse_text(CANONICAL).module.definitions if isinstance(d, t.Layer))
    assert print_node(layer.formals[1]) == "out: size"
    assert print_node(layer.outputs[0]) == "y: [..., O = out]"
    assert print_node(layer.outputs[0].type.dims[1]) == "O = out"
    assert print_node(next(s for s in layer.body if isinstance(s, t.If)).branches[1]) == "if a == 2:\n    h = 2"
    long = t.Sum(tuple(("+", t.Name("x" * 30)) for _ in range(9)))
    assert "\n" not in print_node(long)


# ---- width, depth, length -------------------------------------------------------------------------------

WRAPPED = """\
layer attention(
    x: [N, T, E], heads = 8, causal = true, dropout_rate = 0.1, rotary = false
) -> y: [N, T, E] where E % heads == 0:
    scores = many_arguments(
        first_of_the_arguments,
        second_of_the_arguments,
        third_of_the_arguments,
        fourth_of_the_arguments,
        fifth_of_the_arguments,
    )
    a[n, h, t, s] = softmax[s](
        score[n, h, t, s] * scale_of_the_scores + bias_of_positions[h, t - s]
        if s <= t or not causal
        else -inf,
    )
    y[n, t, e] = (
        attention_weights[n, h, t, s] * values[n, h, s, d] * Wo[h, d, e]
        + position_embedding[n, t, e]
        + other_embedding[n, t, e]
    ) where d = 64
    hidden_state = (
        input_of_the_layer_after_norm
        |> dense(out = 4 * hidden_size_of_the_block)
        |> gelu
        |> dense(hidden_size)
    )
    some_very_long_result_name[n, t, e] = (
        another_very_long_name[n, stride*p + dilation*a - padding, e] else value_outside_of_range
    )

fn conv2d(
    x: [N, H, W, C], out: size, kernel = 3, stride = 1, padding = 0, dilation = 1
) -> y: [
    N,
    P = (H + 2*padding - dilation*(kernel - 1) - 1) // stride + 1,
    Q = (W + 2*padding - dilation*(kernel - 1) - 1) // stride + 1,
    O = out,
] where H + 2*padding > dilation * (kernel - 1):
    y = x

fn logistic_of_a_sum(first, second) = (
    1 / (1 + exp(-first_coefficient * first - second_coefficient * second - third_coefficient))
)
"""


def test_long_lines_break_inside_brackets():
    module = parse_text(WRAPPED).module
    assert print_module(module) == WRAPPED
    assert max(map(len, WRAPPED.splitlines())) <= WIDTH


def test_a_line_breaks_just_past_the_width():
    def line(length: int) -> str:
        return print_node(parse_text(f"fn f(x) = {'x' * 40} + {'y' * (length - 53)}\n").module)

    assert line(WIDTH) == f"fn f(x) = {'x' * 40} + {'y' * (WIDTH - 53)}\n"
    assert line(WIDTH + 1) == f"fn f(x) = (\n    {'x' * 40} + {'y' * (WIDTH - 52)}\n)\n"


def nested(depth: int, wrap) -> t.Expr:
    expression: t.Expr = t.Name("x")
    for _ in range(depth):
        expression = wrap(expression)
    return expression


a = t.Name("a_rather_long_name")


@pytest.mark.parametrize(
    ("depth", "wrap"),
    [
        (96, t.Negative),
        (96, t.Not),
        (96, lambda x: t.Binary("^", a, x)),
        (96, lambda x: t.Binary("//", x, a)),
        (96, lambda x: t.Choose(a, a, x)),
        (96, lambda x: t.Member(x, "w")),
        (60, lambda x: t.Sum((("+", a), ("-", x)))),
        (60, lambda x: t.Product((("*", a), ("/", x)))),
        (60, lambda x: t.Binary("^", x, a)),
        (60, lambda x: t.Compare("<", x, a)),
        (60, lambda x: t.Logic("and", (x, a))),
        (60, lambda x: t.OrElse(x, a)),
        (60, lambda x: t.Pipe(a, (x,))),
        (60, lambda x: t.Access(a, (x,))),
        (48, lambda x: t.Call(a, (t.Argument(x),))),
        (28, lambda x: t.Negative(t.Sum((("+", a), ("-", t.Not(x)))))),
    ],
)
def test_deep_expressions_are_read_back(depth, wrap):
    # 60 brackets is all that the parser takes: there is no room for a pair around the whole.
    expression = nested(depth, wrap)
    assert read_back(expression) == expression


@pytest.mark.parametrize(
    ("length", "chain"),
    [
        (3000, lambda terms: t.Sum(tuple(("+", x) for x in terms))),
        (3000, lambda terms: t.Pipe(terms[0], terms[1:])),
        (500, lambda terms: t.Product(tuple(("*", x) for x in terms))),
        (500, lambda terms: t.Logic("or", terms)),
        (500, lambda terms: t.Call(a, tuple(t.Argument(x) for x in terms))),
        (500, lambda terms: t.Access(a, terms)),
    ],
)
def test_long_chains_are_broken_and_read_back(length, chain):
    expression = chain(tuple(t.Access(t.Name(f"term{i}"), (t.Name("n"),)) for i in range(length)))
    text = print_node(t.Fn("f", None, (), expression))
    assert max(map(len, text.splitlines())) <= WIDTH
    assert read_back(expression) == expression

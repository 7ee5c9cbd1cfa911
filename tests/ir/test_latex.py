r"""Formulas for a text: read by SymPy's own parser of LaTeX, and letter by letter where people look."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from lark import Tree
from programs import unit
from sympy import Symbol
from sympy.parsing.latex import parse_latex

from dslc.cli.main import cli
from dslc.ir import nodes as ir
from dslc.ir.latex import latex

SPECS = sorted((Path(__file__).parents[2] / "specs").glob("*/*.dsl"))


def shown(path: Path, stage: str = "grad") -> str:
    result = CliRunner().invoke(cli, ["show", str(path), "--stage", stage, "--latex"])
    assert result.exit_code == 0, result.output
    return result.stdout


def lines(text: str) -> list[str]:
    """The formulas between the first and the last line, without the signs that align them."""
    begin, *inner, end = text.strip().splitlines()
    assert (begin, end) == (r"\begin{align*}", r"\end{align*}")
    return [x.removesuffix(r"\\").strip().replace(" &= ", " = ") for x in inner]


#: formulas of x = 0.7 and y = -1.3, and what they are
FORMULAS = {
    "x + y * x - 2": 0.7 - 1.3 * 0.7 - 2,
    "x - (y - 3)": 0.7 + 1.3 + 3,
    "x - (-y)": 0.7 - 1.3,
    "-(x + y) * 2": 1.2,
    "(x + 1) * (y - 1)": 1.7 * -2.3,
    "x / (1 + exp(-y))": 0.7 / (1 + math.exp(1.3)),
    "x * x * x / y": 0.7**3 / -1.3,
    "(x - y)^2 / 4": 2.0**2 / 4,
    "1 / x / y": 1 / 0.7 / -1.3,
    "x / (y / x)": 0.7 / (-1.3 / 0.7),
    "-x^2": -(0.7**2),
    "(-x)^2": 0.49,
    "sqrt(x) * log(x) + sin(y) * cos(x)": math.sqrt(0.7) * math.log(0.7) + math.sin(-1.3) * math.cos(0.7),
    "tanh(x - y)^2": math.tanh(2.0) ** 2,
    "exp(x * y) - exp(-x)": math.exp(-0.91) - math.exp(-0.7),
    "0.25 * x - 0.1 * y": 0.175 + 0.13,
    "2 * (x / (2 * y * y)) * 3": 3 * 0.7 / 1.69,
    "0.5 * (x / (y^2 / 4)) * x^2": 2 * 0.7**3 / 1.69,
    "-3.5 / (x - y)^2 * (-y) / (0.3 * x)": -3.5 / 4 * 1.3 / 0.21,
    "abs(y) * 3 - -2": 5.9,
    "2 * (x + y) / 3": 2 * -0.6 / 3,
    "1e-5 * x": 7e-6,
    "x * 0.7071067811865476": 0.7 / math.sqrt(2),
    "x * 3.141592653589793 - y / 1.7724538509055159": 0.7 * math.pi + 1.3 / math.sqrt(math.pi),
}


@pytest.mark.parametrize("formula", FORMULAS)
def test_another_reader_computes_the_same(formula: str) -> None:
    with ir.compilation():
        program = unit(f"fn f(x: [], y: []) -> z: []:\n    z = {formula}\n")
        (line,) = lines(latex(program.outputs))
    _, _, right = line.partition(" = ")
    changes = ((r"\left", ""), (r"\right", ""), (r"\pi", "p"), (r"\,", r"\cdot"), (r"\log", r"\ln"))
    for written, plain in changes:  # to what that parser knows
        right = right.replace(written, plain)
    found = parse_latex(right, backend="lark")
    readings = found.children if isinstance(found, Tree) else [found]  # \sin(x) \cdot y: it knows no end of arguments
    values = [x.evalf(subs={Symbol("x"): 0.7, Symbol("y"): -1.3, Symbol("p"): math.pi}) for x in readings]
    numbers = [complex(x) for x in values if x.is_number]  # tanh(x) may be t * a * n * h(x) too
    assert any(x == pytest.approx(FORMULAS[formula], rel=1e-12) for x in numbers), right


def test_terms_of_a_position_that_are_subtracted_stand_last(tmp_path: Path) -> None:
    path = tmp_path / "causal.dsl"
    path.write_text(
        "model causal(x: f32[T]) -> y: [T]:\n    param K: [3]\n    y[t] = K[u] * (x[t - u] else 0)\n\n"
        "train causal(x):\n    minimize sum(causal(x)^2)\n    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    text = shown(path)
    assert text.count(r"\left(x_{t - u} \text{ else } 0\right)") == 2, "as written, and in the gradient of K"


SHORTER = {
    "y / (sqrt(x) * sqrt(x) * 2)": r"\frac{y}{2 \, x}",
    "x * x * y / (x * (y * y))": r"\frac{x}{y}",
    "log(x) + x * y / (y * x)": r"\log\left(x\right) + 1",
}


@pytest.mark.parametrize("formula", SHORTER)
def test_roots_that_are_squared_and_factors_above_and_below_go(formula: str) -> None:
    with ir.compilation():
        (line,) = lines(latex(unit(f"fn f(x: [], y: []) -> z: []:\n    z = {formula}\n").outputs))
    assert line == f"z = {SHORTER[formula]}"


LINEAR = """
model linear(x: f32[N, 3]) -> y: [N, 2]:
    param W: [3, 2] ~ glorot
    param b: [2] ~ zeros
    y[n, o] = tanh(x[n, i] * W[i, o] + b[o])

train linear(x, target: f32[N, 2]):
    minimize mean((linear(x) - target)^2)
    using sgd(lr = 0.1)
"""


def test_the_gradient_of_a_layer(tmp_path: Path) -> None:
    path = tmp_path / "linear.dsl"
    path.write_text(LINEAR, encoding="utf-8")
    assert lines(shown(path)) == [
        r"y_{no} = \tanh\left(\sum_{i} x_{ni} \, W_{io} + b_{o}\right)",
        r"\mathcal{L} = \frac{\sum_{no} \left(y_{no} - \mathit{target}_{no}\right)^{2}}{2 \, N}",
        r"\frac{\partial \mathcal{L}}{\partial y_{no}} = \frac{y_{no} - \mathit{target}_{no}}{N}",
        r"\frac{\partial \mathcal{L}}{\partial \mathit{y\_in}_{no}} = "
        r"\frac{\partial \mathcal{L}}{\partial y_{no}} \, \left(1 - y_{no}^{2}\right)",
        r"\frac{\partial \mathcal{L}}{\partial W_{io}} = "
        r"\sum_{n} \frac{\partial \mathcal{L}}{\partial \mathit{y\_in}_{no}} \, x_{ni}",
        r"\frac{\partial \mathcal{L}}{\partial b_{o}} = "
        r"\sum_{n} \frac{\partial \mathcal{L}}{\partial \mathit{y\_in}_{no}}",
    ]
    assert lines(shown(path, "ir")) == lines(shown(path))[:2]


RECURRENT = """
model rnn(x: f32[T, 4]) -> h: [T, 4]:
    param W: [4, 4] ~ glorot
    param U: [4, 4] ~ glorot
    scan t:
        h[t, j] = tanh(x[t, k] * W[k, j] + h[t-1, i] * U[i, j])
    start h = 0

train rnn(x, target: f32[T, 4]):
    minimize mean((rnn(x) - target)^2)
    using sgd(lr = 0.1)
"""


def test_what_is_only_rounded_has_no_line(tmp_path: Path) -> None:
    """Data in f64 and a parameter in f32: the sum in f64 is the gradient but for its dtype."""
    path = tmp_path / "m.dsl"
    path.write_text(
        "model m(x: f64[N, 2]) -> y: [N]:\n    param w: [2] ~ normal\n    y[n] = x[n, i] * w[i]\n\n"
        "train m(x):\n    minimize sum(m(x))\n    using sgd(lr = 0.1)\n"
    )
    assert lines(shown(path))[-1] == r"\frac{\partial \mathcal{L}}{\partial w_{i}} = \sum_{n} x_{ni}"


def test_an_output_has_its_own_name(tmp_path: Path) -> None:
    path = tmp_path / "m.dsl"
    path.write_text("model m(x: f64[]) -> (y: [], slope: []):\n    y = sin(x)^2\n    slope = grad(y, x)\n")
    assert lines(shown(path, "ir"))[-1] == r"\mathit{slope} = 2 \, \sin\left(x\right) \, \cos\left(x\right)"


def test_two_results_of_an_operation_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "m.dsl"
    path.write_text("model m(A: f64[2, 2]) -> (value: [2], vector: [2, 2]):\n    value, vector = eigh(A)\n")
    assert lines(shown(path, "ir")) == [
        r"\mathit{value} = \mathop{\mathrm{eigh}}\left(A\right)_{1}",
        r"\mathit{vector} = \mathop{\mathrm{eigh}}\left(A\right)_{2}",
    ]


SCALED = """
layer scaled(x: [N, K]) -> y: [N, K]:
    param a: [K] ~ ones
    y[n, k] = a[k] * x[n, k]

model m(x: f32[N, 2]) -> z: [N, 2]:
    z = {}

train m(x):
    minimize sum(m(x))
    using sgd(lr = 0.1)
"""


def test_values_have_their_layer_where_two_layers_have_the_name(tmp_path: Path) -> None:
    """A value and its adjoint are not two values of one name."""
    path = tmp_path / "m.dsl"
    path.write_text(SCALED.format("scaled(x)"))
    assert lines(shown(path))[0] == r"z_{nk} = a_{k} \, x_{nk}"
    path.write_text(SCALED.format("scaled(x) |> scaled"))
    assert lines(shown(path))[-1].startswith(r"\frac{\partial \mathcal{L}}{\partial a^{\mathrm{scaled2}}_{k}}")


def test_a_scan_is_a_recurrence_over_its_steps(tmp_path: Path) -> None:
    path = tmp_path / "rnn.dsl"
    path.write_text(RECURRENT, encoding="utf-8")
    text = lines(shown(path))
    assert r"\text{for } t = 0, \dots, T - 1\text{:}" in text and r"\text{for } t = T - 1, \dots, 0\text{:}" in text
    assert r"\quad h_{tj} = \tanh\left(\sum_{k} x_{tk} \, W_{kj} + \sum_{i} h_{t - 1, i} \, U_{ij}\right)" in text
    inner = r"\frac{\partial \mathcal{L}}{\partial \mathit{h\_in}_{tj}}"
    assert text[-1] == rf"\frac{{\partial \mathcal{{L}}}}{{\partial U_{{ij}}}} = \sum_{{t}} {inner} \, h_{{t - 1, i}}"


def test_two_values_never_have_one_symbol(tmp_path: Path) -> None:
    """In a recurrence the adjoint of h has parts, of this step and of those after it."""
    path = tmp_path / "rnn.dsl"
    path.write_text(RECURRENT, encoding="utf-8")
    left = [re.split(r" = | &", x)[0] for x in lines(shown(path)) if "for" not in x]
    assert len(left) == len(set(left)), left


@pytest.mark.wide(4)
@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_spec_has_formulas_that_close_what_they_open(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if not re.search(r"^model ", text, re.M):
        pytest.skip("a library of layers")
    written = shown(path, "grad" if re.search(r"^train ", text, re.M) else "ir")
    for line in lines(written):
        assert line.count(r"\left") == line.count(r"\right"), line
        assert line.count(r"\begin{cases}") == line.count(r"\end{cases}"), line
        depth = 0
        for bracket in re.findall(r"(?<!\\)[{}]", line):
            depth += 1 if bracket == "{" else -1
            assert depth >= 0, line
        assert depth == 0, line
        assert not re.search(r"\^\{[^{}]*\}\^", line), f"two superscripts in {line}"


def test_other_stages_have_no_formulas(tmp_path: Path) -> None:
    path = tmp_path / "linear.dsl"
    path.write_text(LINEAR, encoding="utf-8")
    for options in (["--stage", "code"], ["--stage", "grad", "--line", "2"], ["--stage", "grad", "--why"], []):
        result = CliRunner().invoke(cli, ["show", str(path), "--latex", *options])
        assert result.exit_code == 2 and "--latex writes the formulas of" in result.output


LOOPS = """
layer cell(x: [N, T, I], hidden: size) -> h: [N, T, K = hidden]:
    param W: [I, K] ~ glorot
    param U: [K, K] ~ orthogonal
    scan t:
        h[n, t, k] = tanh(x[n, t, i] * W[i, k] + h[n, t-1, j] * U[j, k])
    start h = 0

model net(x: f32[N, T, 3]) -> y: [N, 4]:
    h = cell(x, 4)
    g = h[:, T-1, :]
    for l in 0..3:
        g = g + (g |> dense(4) |> tanh)
    y = g

train net(x, target: f32[N, 4]):
    minimize mean_squared_error(net(x), target)
    using sgd()
"""


def test_what_stands_before_a_scan_is_written_out(tmp_path: Path) -> None:
    """The adjoint that goes into the last step was a `z` that no line said anything of."""
    path = tmp_path / "net.dsl"
    path.write_text(LOOPS)
    found = lines(shown(path))
    assert r"\frac{\partial \mathcal{L}}{\partial h^{(2)}_{Tnj}} = 0" in found
    assert not any(r"\ast" in line for line in found), "a parameter of each layer has one name, with its step"
    assert any(r"W^{\mathrm{dense}}_{l" in line for line in found if line.startswith(r"\quad y_"))
    assert sum(line.startswith(r"\quad h") for line in found) == 1, "what is carried is not said twice"


@pytest.mark.wide(4)
@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_values_without_a_name_have_a_line(path: Path) -> None:
    defined: set[str] = set()
    text = path.read_text(encoding="utf-8")
    if not re.search(r"^model ", text, re.M):
        pytest.skip("a library of layers")
    for line in lines(shown(path, "grad" if re.search(r"^train ", text, re.M) else "ir")):
        left, _, right = re.sub(r"\\frac\{\\partial \\mathcal\{L\}\}\{\\partial (.*?)\}", r"\1", line).partition("=")
        defined |= set(re.findall(r"z\^\{\(\d+\)\}", left))
        assert set(re.findall(r"z\^\{\(\d+\)\}", right)) <= defined, line

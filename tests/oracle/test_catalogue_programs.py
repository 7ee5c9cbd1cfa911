"""Rows of the catalogue on the programs of differentiation (chapter 6): graphs, traces, costs, memory."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
import torch
from catalogue import SPECS, model
from click.testing import CliRunner
from marks import rows
from torch import nn

from dslc.cli.main import cli

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"
torch.set_num_threads(1)


def ran(*words: object) -> str:
    done = CliRunner().invoke(cli, [str(x) for x in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def written(folder: Path, text: str) -> Path:
    file = folder / "row.dsl"
    file.write_text(text, encoding="utf-8")
    return file


def cost(spec: Path, **settings: object) -> Any:
    return json.loads(ran("cost", spec, "--json", *(x for k, v in settings.items() for x in ("--set", f"{k}={v}"))))


def shown(spec: Path, stage: str, *words: object) -> list[tuple[str, str]]:
    """The lines of a program: the name of a value, and its formula."""
    lines = [
        re.match(r"([\w.~]+)\[.*?\] = (.*?)(?:\s{2,}#|$)", x)
        for x in ran("show", spec, "--stage", stage, *words).splitlines()
    ]
    return [(x[1], x[2]) for x in lines if x]


# ---- graphs and traces

BRANCHES = """
model branches(x: f64[N]) -> y: [N]:
    a = sin(x)
    b = a * x
    c = exp(a)
    d = b + c
    y = d * a
"""


@rows("A01", "A08")
def test_a_program_is_a_graph_without_circles_whose_values_are_computed_once(tmp_path: Path) -> None:
    def branches(x: Any) -> Any:
        a = torch.sin(x)
        d = a * x + torch.exp(a)
        return d * a

    lines = shown(written(tmp_path, BRANCHES), "ir")
    nodes = torch.fx.symbolic_trace(branches).graph.nodes
    assert len(lines) == sum(n.op == "call_function" for n in nodes) == 5
    assert len({name for name, _ in lines}) == 5
    for k, (_, formula) in enumerate(lines):
        known = {"x", *(name for name, _ in lines[:k])}
        assert set(re.findall(r"(\w+)\[", formula)) <= known, "a value is read before it is computed"
    assert sum("a[" in formula for _, formula in lines) == 3, "it is read by three others"


@rows("A06", "A01")
@pytest.mark.parametrize("depth", [2, 5])
def test_a_trace_has_a_line_for_each_primitive_and_one_for_the_sum(depth: int, tmp_path: Path) -> None:
    steps = "".join(
        f"    param W{k}: [4, 4] ~ glorot\n    h{k}[n, o] = tanh({f'h{k - 1}' if k else 'x'}[n, i] * W{k}[i, o])\n"
        for k in range(depth)
    )
    spec = written(tmp_path, f"model trace(x: f64[N, 4]) -> y: []:\n{steps}    y = sum(h{depth - 1})\n")
    lines = [x for x in ran("show", spec, "--stage", "ir", "--latex").splitlines() if "&=" in x]
    assert len(lines) == depth + 1
    for k, line in enumerate(lines[:-1]):
        before = re.escape(f"h{k - 1}" if k else "x")
        assert re.search(rf"h{k}.*&= .*tanh.*{before}.*W{k}", line), line
    assert "sum" in lines[-1] and f"h{depth - 1}" in lines[-1]


@rows("A22")
def test_the_reverse_program_mirrors_the_program(tmp_path: Path) -> None:
    steps = "".join(
        f"    param w{k}: [] = 1\n    h{k}[n] = sin(w{k} * {f'h{k - 1}' if k else 'x'}[n])\n" for k in range(4)
    )
    text = (
        f"model chain(x: f64[N]) -> y: [N]:\n{steps}    y = h3\n\n"
        "train chain(x):\n    minimize sum(chain(x))\n    using sgd(lr = 0.1)\n"
    )
    names = [name for name, _ in shown(written(tmp_path, text), "grad")]
    forward = [x for x in names if re.fullmatch(r"h\d", x)]
    adjoints = [x for x in names if re.fullmatch(r"d_h\d", x)]
    assert forward == ["h0", "h1", "h2", "h3"]
    assert adjoints == ["d_h3", "d_h2", "d_h1", "d_h0"] and names.index("d_h3") > names.index("loss")
    slopes = [x for x in names if re.fullmatch(r"d_w\d", x)]
    assert sorted(slopes) == ["d_w0", "d_w1", "d_w2", "d_w3"]


# ---- symbolic differentiation

SINES = """
model sines(x: f64[N], a: f64[], b: f64[]) -> (y: [N], slope: [N]):
    y[n] = a * sin(x[n]) + b * x[n] * sin(x[n])
    total = sum(y)
    slope = grad(total, x)
"""


@rows("B16", "A11")
def test_the_text_of_a_gradient_is_what_sympy_differentiates(tmp_path: Path) -> None:
    lines = dict(shown(written(tmp_path, SINES), "simplified"))
    x, a, b = sympy.symbols("x a b")
    found = {name: sympy.sympify(re.sub(r"\[\w*\]", "", formula)) for name, formula in lines.items()}
    value = a * sympy.sin(x) + b * x * sympy.sin(x)
    assert sympy.simplify(found["y"] - value) == 0
    assert sympy.expand(found["y_slope"] - sympy.diff(value, x)) == 0
    assert sympy.expand(found["y_slope"] - value) != 0


@rows("A12")
def test_value_and_gradient_share_one_sine_and_one_cosine(tmp_path: Path) -> None:
    spec = written(tmp_path, SINES)
    for backend, call in (("numpy", r"np\.{}\("), ("c", r"= {0}_f64\(|[*+] {0}_f64\(")):
        code = ran("show", spec, "--stage", "code", "-b", backend)
        code = code[: code.index("static void forward_saving") if backend == "c" else None]  # from there on for Module
        for name in ("sin", "cos"):
            assert len(re.findall(call.format(name), code)) == 1, (backend, name)


@rows("A14")
def test_reverse_mode_is_symbolic_differentiation_with_shared_parts(tmp_path: Path) -> None:
    """A nested formula: without sharing its derivative has exponentially many operations, with it as many per level."""
    x = sympy.symbols("x")

    def counts(depth: int) -> tuple[int, int, int]:
        expression: Any = x
        for _ in range(depth):
            expression = sympy.sin(expression) * expression
        slope = sympy.diff(expression, x)
        parts, whole = sympy.cse([expression, slope])
        shared = sum(sympy.count_ops(e) for _, e in parts) + sum(sympy.count_ops(e) for e in whole)
        lines = "".join(f"    h{k + 1}[n] = sin(h{k}[n]) * h{k}[n]\n" for k in range(depth)).replace("h0[n]", "x[n]")
        spec = written(
            tmp_path,
            f"model nested(x: f64[N]) -> (y: [N], slope: [N]):\n{lines}    y = h{depth}\n    s = sum(y)\n"
            "    slope = grad(s, x)\n",
        )
        point = np.array([0.3, 0.7, 1.9])
        found = model(spec.read_text(encoding="utf-8"), tmp_path).forward({}, point)
        np.testing.assert_allclose(found["slope"], sympy.lambdify(x, slope)(point), rtol=1e-9)
        return int(sympy.count_ops(slope)), int(shared), cost(spec, N=1)["total"]["all"]["operations"]

    at = {depth: counts(depth) for depth in (3, 5, 7)}
    plain, shared, ours = ([at[d][k] for d in (3, 5, 7)] for k in range(3))
    assert plain[2] > 3.5 * plain[1] > 10 * plain[0]
    assert ours[2] - ours[1] == ours[1] - ours[0]
    assert ours[2] <= shared[2] < plain[2] / 10, "SymPy counts what it shares in products of its own"


# ---- costs

LAYER = """
model linear(X: f32[N, C], W: f32[C, K]) -> {results}:
    y[n, k] = X[n, i] * W[i, k]
    l = sum[n, k](y[n, k]^2)
{slopes}"""


@rows("A23")
def test_reverse_mode_is_linear_in_every_size_and_costs_thrice_the_forward_pass(tmp_path: Path) -> None:
    from torch.utils.flop_counter import FlopCounterMode  # imports triton

    forward = written(tmp_path, LAYER.format(results="l: []", slopes=""))
    sizes = {"N": 8, "C": 16, "K": 32}
    alone = cost(forward, **sizes)["total"]["all"]["operations"]
    text = LAYER.format(results="(l: [], dX: [N, C], dW: [C, K])", slopes="    dX = grad(l, X)\n    dW = grad(l, W)\n")
    both = written(tmp_path, text)
    joint = cost(both, **sizes)["total"]["all"]["operations"]
    with FlopCounterMode(display=False) as counter:
        X, W = (torch.ones(s, requires_grad=True) for s in ((8, 16), (16, 32)))
        ((X @ W) ** 2).sum().backward()
    assert counter.get_total_flops() == 3 * 2 * 8 * 16 * 32
    assert joint == pytest.approx(counter.get_total_flops(), rel=0.1) and joint == pytest.approx(3 * alone, rel=0.1)
    for size in sizes:
        doubled = cost(both, **{**sizes, size: 2 * sizes[size]})["total"]["all"]["operations"]
        assert joint < doubled <= 2 * joint, size


@rows("A18")
def test_tangents_of_forward_mode_cost_the_square_of_the_batch(tmp_path: Path) -> None:
    """The update of T for A by a layer of (N, h) to (N, h) takes N^2 h^2 p products; reverse mode takes N of them."""
    spec = SPECS / "derivatives/forward_mode.dsl"
    at = {n: {r["name"]: r["operations"] for r in cost(spec, N=n)["rows"]} for n in (5, 10)}
    hidden, p = 4, 3 * 4
    for n in at:
        assert at[n]["T1_2"] == 2 * n**2 * hidden**2 * p
        assert at[n]["T1_3"] == 2 * n**2 * (2 * hidden) * p
    assert all(at[10][name] == 4 * at[5][name] for name in ("T1_2", "T1_3", "T2_3"))
    assert all(at[10][name] <= 2 * at[5][name] for name in ("d_A", "d_B", "d_C", "d_h", "d_u"))


@rows("A07")
def test_all_gradients_together_cost_less_than_one_by_one(tmp_path: Path) -> None:
    """One backward pass serves all layers; a pass for each of them grows with the square of the depth."""

    def operations(depth: int, wanted: list[int]) -> int:
        lines = "".join(
            f"    h{k + 1}[n, o] = tanh(h{k}[n, i] * W{k}[i, o])\n".replace("h0[", "x[") for k in range(depth)
        )
        inputs = "".join(f", W{k}: f32[8, 8]" for k in range(depth))
        results = "".join(f", d{k}: [8, 8]" for k in wanted)
        slopes = "".join(f"    d{k} = grad(l, W{k})\n" for k in wanted)
        text = f"model deep(x: f32[N, 8]{inputs}) -> (l: []{results}):\n{lines}    l = sum(h{depth})\n{slopes}"
        return int(cost(written(tmp_path, text), N=64)["total"]["all"]["operations"])

    together = {depth: operations(depth, list(range(depth))) for depth in (4, 8)}
    alone = {depth: sum(operations(depth, [k]) for k in range(depth)) for depth in (4, 8)}
    assert together[8] < 2.1 * together[4] and alone[8] > 3 * alone[4]
    assert together[8] < alone[8] / 4


# ---- memory


@rows("A24")
def test_what_reverse_mode_saves_is_what_torch_saves_and_grows_with_the_depth(tmp_path: Path) -> None:
    def saved(depth: int) -> tuple[int, int]:
        lines = "".join(
            f"    param W{k}: [8, 8] ~ glorot\n    h{k + 1}[n, o] = tanh(h{k}[n, i] * W{k}[i, o])\n"
            for k in range(depth)
        ).replace("h0[", "x[")
        text = (
            f"model deep(x: f32[N, 8]) -> y: [N, 8]:\n{lines}    y = h{depth}\n\n"
            "train deep(x):\n    minimize sum(deep(x))\n    using sgd(lr = 0.1)\n"
        )
        weights = [torch.ones(8, 8, requires_grad=True) for _ in range(depth)]
        h, kept = torch.ones(16, 8), {}

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.is_leaf or tensor.grad_fn is not None:
                kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            for w in weights:
                h = torch.tanh(h @ w)
            h.sum()
        return cost(written(tmp_path, text), N=16)["total"]["all"]["saved"], sum(kept.values())

    for depth in (2, 4, 8):
        ours, theirs = saved(depth)
        assert ours == theirs == depth * 4 * 16 * 8


@rows("A25")
@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
def test_a_checkpoint_gives_the_same_gradients(backend: str, tmp_path: Path) -> None:
    modules = [model(Path("mlp/checkpointed.dsl"), tmp_path, backend, spare=spare) for spare in (True, False)]
    rng = np.random.default_rng(4)
    params = {k: 0.3 * rng.standard_normal(v[0]) for k, v in modules[0].PARAMS.items()}
    x, t = rng.standard_normal((5, 16)), rng.standard_normal((5, 16))
    spared, kept = (module.loss_and_grad(params, x, t) for module in modules)
    tensors = {k: torch.tensor(v, requires_grad=True) for k, v in params.items()}

    def block(h: torch.Tensor, name: str) -> torch.Tensor:
        h = torch.tanh(h @ tensors[f"{name}.dense.W"] + tensors[f"{name}.dense.b"])
        return torch.tanh(h @ tensors[f"{name}.dense2.W"] + tensors[f"{name}.dense2.b"])

    h = block(block(torch.tensor(x), "block"), "block2")
    h = torch.utils.checkpoint.checkpoint(block, h, "block3", use_reentrant=False)  # type: ignore[assignment]
    loss = ((block(h, "block4") - torch.tensor(t)) ** 2).mean()
    loss.backward()
    assert float(spared[0]) == float(kept[0]) == pytest.approx(loss.item(), rel=1e-12)
    for name, tensor in tensors.items():
        np.testing.assert_allclose(spared[1][name], tensor.grad, rtol=1e-9, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(spared[1][name], kept[1][name], rtol=1e-13, err_msg=name)


@rows("A25")
def test_of_four_blocks_one_is_computed_again() -> None:
    """A quarter more of forward passes, for a quarter of the memory of what is inside of blocks."""
    spec = SPECS / "mlp/checkpointed.dsl"
    spared, kept = (cost(spec, N=8, spare=x)["total"] for x in ("true", "false"))
    blocks = kept["forward"]["operations"] - (3 * 8 * 16 + 1)  # without the loss
    assert spared["backward"]["operations"] - kept["backward"]["operations"] == blocks / 4
    assert kept["all"]["saved"] == 4 * 4 * 8 * (64 + 16)
    assert spared["all"]["saved"] == kept["all"]["saved"] - 4 * 8 * 64


@rows("A47")
@pytest.mark.parametrize(
    ("act", "there"),
    [("relu", nn.ReLU(inplace=True)), ("sigmoid", nn.Sigmoid()), ("tanh", nn.Tanh()), ("exp", None), ("gelu", None)],
)
def test_of_an_activation_whose_slope_follows_from_its_value_the_value_alone_is_kept(
    act: str, there: Callable[[torch.Tensor], torch.Tensor] | None, tmp_path: Path
) -> None:
    text = (
        (
            f"model one(x: f64[N, 4], u: f64[4, 4], v: f64[4]) -> y: [N]:\n    param w: [4, 4] ~ glorot\n"
            f"    s[n, k] = x[n, i] * w[i, k]\n    h = {act}(s)\n    y[n] = h[n, k] * v[k]\n\n"
            "train one(x, v):\n    minimize mean(one(x, v)^2)\n    using sgd(lr = 0.1)\n"
        )
        .replace(", u: f64[4, 4]", "")
        .replace(" u,", "")
    )
    spec = written(tmp_path, text)
    kept = {r["name"]: r["saved"] for r in cost(spec, N=5)["rows"] if r["saved"] and r["name"] != "y"}
    if act == "gelu":  # the control: its slope asks for more than its value
        assert kept != {"h": 4 * 5 * 4 * 2}
        return
    assert kept == {"h": 4 * 5 * 4 * 2}
    rng = np.random.default_rng(7)
    x, w, v = (rng.standard_normal(s) for s in ((5, 4), (4, 4), 4))
    weight = torch.tensor(w, requires_grad=True)
    h = (there or torch.exp)(torch.tensor(x) @ weight)
    ((h @ torch.tensor(v)) ** 2).mean().backward()
    found = model(text, tmp_path).loss_and_grad({"w": w}, x, v)[1]["w"]
    np.testing.assert_allclose(found, weight.grad, rtol=1e-9)

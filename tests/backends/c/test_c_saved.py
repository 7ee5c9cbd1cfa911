"""A `Module` in C runs the forward pass once: what its gradients read is saved, and goes with the graph of torch."""

from __future__ import annotations

import inspect
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from dslc.backends.c.target import TARGET

from dslc.compiler import choose, compile_files, compile_module
from dslc.frontend import check_file
from dslc.ir import nodes as ir
from dslc.ir.naming import name_of
from dslc.pipeline import GRADIENT
from dslc.program import Entry, Program
from dslc.schedule.halves import Halves, halves
from dslc.schedule.plan import planned
from dslc.schedule.prepare import prepared, scheduled
from dslc.schedule.verify import verify

ROOT = Path(__file__).parents[3]

#: what has its own way through the two halves: layers of loops, scans, tiles, states, draws, orders, scatters
MODELS = {
    "layers": """
model m(x: f32[N, 4]) -> y: [N, 2]:
    h = x
    for l in 0..3:
        h = h + (h |> layer_norm |> dense(4) |> gelu)
    y = h |> dense(2)
""",
    "scan": """
model m(x: f32[N, T, 3]) -> y: [N, 4]:
    param W: [3, 4] ~ glorot
    param U: [4, 4] ~ glorot
    scan t:
        s[n, t, k] = tanh(x[n, t, i] * W[i, k] + s[n, t-1, j] * U[j, k])
    start s = 0
    y[n, k] = s[n, T-1, k]
""",
    "attention": """
model m(x: f32[N, T, 4]) -> y: [N, T, 4]:
    param Q: [4, 4] ~ glorot
    param K: [4, 4] ~ glorot
    q[n, t, d] = x[n, t, i] * Q[i, d]
    k[n, t, d] = x[n, t, i] * K[i, d]
    a[n, t, s] = softmax[s](q[n, t, d] * k[n, s, d] if s <= t else -inf)
    y[n, t, d] = a[n, t, s] * x[n, s, d]
""",
    "states and draws": """
model m(x: f32[N, 3]) -> (y: [N, 3], best: i64[N]):
    param g: [3] ~ ones
    state seen: [3] = 1
    z[n, k] = x[n, k] * g[k] * seen[k]
    best[n] = argmax[k](z[n, k])
    y = dropout(z, 0.5)
    training:
        seen[k] <- 0.5 * seen[k] + mean[n](x[n, k])
""",
    "order": """
model m(x: f32[N, 5], at: i32[N] < 4) -> (y: [4, 5], c: [N, 5]):
    param W: [5, 5] ~ glorot
    z[n, k] = x[n, i] * W[i, k]
    s[n, k] = sort[k](z[n, k])
    c[n, k] = cumsum[k](tanh(s[n, k]))
    y[at[n], k] += exp(c[n, k])
""",
    "linear": """
model m(x: f32[N, 3]) -> y: [N, 2]:
    param W: [3, 2] ~ glorot
    y[n, o] = x[n, i] * W[i, o]
""",
}

CHECKPOINT = """
model m(x: f32[N, 4]) -> y: [N, 4]:
    param W: [4, 4] ~ glorot
    param V: [4, 4] ~ glorot
    h[n, k] = x[n, i] * W[i, k]
BLOCK
    y[n, k] = v[n, k] * v[n, k]
"""
BLOCK = """
    u[n, k] = exp(h[n, k])
    v[n, k] = sin(u[n, i] * V[i, k])
""".strip("\n")


def compiled(text: str, folder: Path, dtype: str = "f64") -> ModuleType:
    (folder / "m.dsl").write_text(text, encoding="utf-8")
    return compile_module(folder / "m.dsl", "c", dtype)


def inputs(module: ModuleType, text: str) -> list[torch.Tensor]:
    """Data for a model above."""
    generator = torch.Generator().manual_seed(0)
    shape = {"x: f32[N, T, 3]": (3, 5, 3), "x: f32[N, T, 4]": (3, 5, 4)}
    head = next((s for k, s in shape.items() if k in text), None)
    columns = int(text.partition("x: f32[N, ")[2][0]) if head is None else 0
    x = torch.randn(head or (6, columns), generator=generator, dtype=torch.float64, requires_grad=True)
    return [x, torch.randint(0, 4, (6,), generator=generator)] if "at: i32" in text else [x]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_differences(name: str, training: bool, tmp_path: Path) -> None:
    module = compiled(MODELS[name], tmp_path)
    made, given = module.Module(seed=1).train(training), inputs(module, MODELS[name])
    names = [k for k, _ in made.named_parameters()]
    before = {k: x.clone() for k, x in made.named_buffers()}
    seed = {"seed": 7} if "seed" in inspect.signature(made.forward).parameters else {}

    def outputs(*leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
        for k, x in made.named_buffers():
            x.copy_(before[k])
        params = dict(zip(names, leaves[len(given) :], strict=True))
        found = torch.func.functional_call(made, params, leaves[: len(given)], seed)
        found = [found] if torch.is_tensor(found) else [*found.values()]
        return tuple(x for x in found if x.is_floating_point())

    leaves = [*given, *(p.detach().clone().requires_grad_() for p in made.parameters())]
    assert torch.autograd.gradcheck(outputs, leaves, eps=1e-6, atol=1e-6, rtol=1e-5)


def counted(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often functions of a module are called, from now on."""
    calls: Counter[str] = Counter()

    def counting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            calls[name] += 1
            return function(*arguments, **named)

        return call

    for name in ("forward", "forward_saving", "forward_training", "adjoint", "adjoint_training"):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, counting(name, getattr(module, name)))
    return calls


def test_the_forward_pass_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = compiled(MODELS["states and draws"], tmp_path)
    calls = counted(module, monkeypatch)
    made, (x,) = module.Module(), inputs(module, MODELS["states and draws"])
    made(x)["y"].sum().backward()
    assert calls == {"forward_training": 1, "adjoint_training": 1}
    calls.clear()
    made.eval()(x)["y"].sum().backward()
    assert calls == {"forward_saving": 1, "adjoint": 1}
    calls.clear()
    with torch.no_grad():
        made(x)
    assert calls == {"forward": 1}


def test_the_adjoint_has_no_function_of_the_forward_pass(tmp_path: Path) -> None:
    (tmp_path / "m.dsl").write_text(MODELS["scan"], encoding="utf-8")
    text = compile_files(tmp_path / "m.dsl", "c")["m.c"]
    saving, adjoint = (text.index(f"}} {name}_frame;") for name in ("forward_saving", "adjoint"))
    end = text.index("#endif", adjoint)
    assert "tanh_f32(" in text[saving:adjoint] and "tanh_f32(" not in text[adjoint:end]


def test_two_forward_passes_before_two_backward_passes(tmp_path: Path) -> None:
    module = compiled(MODELS["layers"], tmp_path)
    made, (x,) = module.Module(), inputs(module, MODELS["layers"])
    leaves = [*made.parameters()]
    wanted = [torch.autograd.grad(made(k * x).sum(), leaves) for k in (1, 2)]
    first, second = made(x).sum(), made(2 * x).sum()
    for loss, gradients in ((second, wanted[1]), (first, wanted[0])):
        for found, expected in zip(torch.autograd.grad(loss, leaves, retain_graph=True), gradients, strict=True):
            assert torch.equal(found, expected)
    found = torch.autograd.grad(first, leaves)
    assert all(map(torch.equal, found, wanted[0]))
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(first, leaves)


def test_hooks_of_torch_may_move_what_is_saved(tmp_path: Path) -> None:
    module = compiled(MODELS["layers"], tmp_path)
    made, (x,) = module.Module(seed=1), inputs(module, MODELS["layers"])
    (wanted,) = torch.autograd.grad(made(x).sum(), x)
    moves: list[int] = []

    def moved(t: torch.Tensor) -> torch.Tensor:
        """A copy that lies 8 bytes behind a multiple of 64."""
        memory = torch.empty(t.nbytes + 128, dtype=torch.uint8)
        first = -memory.data_ptr() % 64 + 8
        found = memory[first : first + t.nbytes].view(t.dtype).view(t.shape)
        moves.append(found.data_ptr() % 64)
        return found.copy_(t.detach())

    with torch.autograd.graph.saved_tensors_hooks(moved, lambda t: t):
        y = made(x)
    (found,) = torch.autograd.grad(y.sum(), x)
    assert {*moves} == {8}
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_saved_memory_goes_with_the_graph(tmp_path: Path) -> None:
    module = compiled(MODELS["layers"], tmp_path, "f32")
    made = module.Module()
    x = torch.randn(20000, 4)

    def step() -> None:
        made.zero_grad()
        made(x).square().mean().backward()

    step()
    tracemalloc.start()
    try:
        step()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(10):
            step()
        after, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    saved = 20000 * 4 * 4  # bytes of one activation
    assert after - before < saved < most - after


# ---- the cut


def cut(entry: Entry, outputs: dict[str, ir.Tensor]) -> Halves:
    late = {x for n, x in entry.lowered.unit.inputs.items() if n not in {y.name for y in entry.instance.inputs}}
    by_half: tuple[dict[str, ir.Tensor], dict[str, ir.Tensor]] = {}, {}
    for key, x in outputs.items():
        by_half[key.startswith(GRADIENT)][key] = x
    return halves(*by_half, [x for x in late if x.role == "input"])


@pytest.mark.parametrize("name", ["mlp/mlp", "transformer/gpt", "recurrent/lstm", "convolution/resnet"])
def test_both_halves_of_a_program_are_sound(name: str) -> None:
    program = Program(choose(check_file(ROOT / "specs" / f"{name}.dsl"))[0])
    entry = program.differentiable_training or program.differentiable
    with entry.open() as lowered:
        made = cut(entry, prepared(lowered.outputs, TARGET))
        for results in ({**made.first, **{k: x for k, (x, _) in made.saved.items()}}, made.second):
            steps = scheduled([*results.values()], TARGET)
            verify(steps, planned(steps, results))


def saved_of(text: str, folder: Path) -> dict[str, ir.Tensor]:
    (folder / "m.dsl").write_text(text, encoding="utf-8")
    entry = Program(choose(check_file(folder / "m.dsl"))[0]).differentiable
    with entry.open() as lowered:
        return {name_of(x): x for x, _ in cut(entry, prepared(lowered.outputs, TARGET)).saved.values()}


def test_what_a_checkpoint_computes_again_is_not_saved(tmp_path: Path) -> None:
    plain = saved_of(CHECKPOINT.replace("BLOCK", BLOCK), tmp_path)
    indented = "\n".join(f"    {line}" for line in BLOCK.splitlines())
    less = saved_of(CHECKPOINT.replace("BLOCK", f"    checkpoint:\n{indented}"), tmp_path)
    assert "u" in plain and "u" not in less and "h" in less


def test_a_linear_model_saves_nothing(tmp_path: Path) -> None:
    assert saved_of(MODELS["linear"], tmp_path) == {}
    module = compiled(MODELS["linear"], tmp_path)
    x = np.ones((3, 3))
    _, saved = module.forward_saving(module.init(), x)
    assert saved.nbytes == 0

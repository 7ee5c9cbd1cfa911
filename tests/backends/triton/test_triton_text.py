"""The text of a Triton module: it stands alone, computes in kernels only, and refuses what it cannot do."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from triton_modules import ROOT

from dslc.compiler import compile_text
from dslc.diagnostics.report import SpecError

#: what the host may do: allocate, look at shapes and move data
ALLOWED = {
    "torch.empty", "torch.zeros", "torch.full", "torch.zeros_like", "torch.full_like", "torch.as_tensor", "torch.stack",
    "torch.cuda.is_available", "torch.nn.Parameter", "torch.nn.Module",
    # which sources go to which row of a scatter; the sums are made in a kernel
    "torch.sort", "torch.searchsorted", "torch.arange",
}  # fmt: skip
#: methods that compute with tensors
COMPUTING = {
    "matmul", "mm", "bmm", "dot", "sum", "mean", "softmax", "exp", "log", "add", "mul", "sub", "div", "pow", "sqrt",
    "index_add", "scatter_add", "conv2d", "einsum", "cumsum", "sort", "argmax", "tanh", "sigmoid", "relu",
}  # fmt: skip
SOME = ["mlp/mlp", "recurrent/gru", "graph/gcn", "convolution/cnn", "transformer/gpt", "derivatives/ridge"]


def is_kernel(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    return any("triton.jit" in ast.unparse(d) for d in node.decorator_list)


def host_calls(text: str) -> list[str]:
    """The functions that host code calls."""
    names: list[str] = []
    for node in ast.parse(text).body:
        if not is_kernel(node):
            names += [ast.unparse(x.func) for x in ast.walk(node) if isinstance(x, ast.Call)]
    return names


@pytest.mark.parametrize("name", SOME)
def test_the_host_computes_nothing(name: str) -> None:
    calls = host_calls(compile_text(ROOT / f"specs/{name}.dsl", "triton"))
    assert not [c for c in calls if c.startswith("torch.") and c not in ALLOWED]
    on_tensors = [c for c in calls if "." in c and not c.startswith("math.") and c not in ALLOWED]
    assert not [c for c in on_tensors if c.rsplit(".", 1)[-1] in COMPUTING]


@pytest.mark.parametrize("name", SOME)
def test_imports_are_torch_and_triton(name: str) -> None:
    found = set()
    for node in ast.walk(ast.parse(compile_text(ROOT / f"specs/{name}.dsl", "triton"))):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
    assert found <= {"math", "torch", "triton", "triton.language", "safetensors.torch"}


def test_a_spec_compiles_without_torch_and_triton() -> None:
    script = (
        "import sys\n"
        "sys.modules['torch'] = sys.modules['triton'] = None\n"
        "from pathlib import Path\n"
        "from dslc.compiler import compile_text\n"
        "print(len(compile_text(Path('specs/mlp/mlp.dsl'), 'triton')) > 1000)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True", done.stderr


def test_what_cannot_be_done_is_refused_with_its_line(tmp_path: Path) -> None:
    spec = tmp_path / "large.dsl"
    spec.write_text(
        "model m(a: f32[N, 100, 100]) -> y: [N, 100, 100]:\n    y[n, :, :] = inv(a[n, :, :])\n", encoding="utf-8"
    )
    with pytest.raises(SpecError) as caught:
        compile_text(spec, "triton")
    (diagnostic,) = caught.value.diagnostics
    assert "larger than 64 x 64" in diagnostic.message
    assert diagnostic.labels[0].span.line == 2


def test_equal_layers_share_their_kernels() -> None:
    lengths = [
        len(compile_text(ROOT / "specs/transformer/gpt.dsl", "triton", {"depth": depth}).splitlines())
        for depth in (2, 8)
    ]
    assert lengths[0] == lengths[1]


def loops(text: str, function: str) -> list[int]:
    """How many kernels each loop of a host function launches in one pass."""
    (node,) = (x for x in ast.parse(text).body if isinstance(x, ast.FunctionDef) and x.name == function)
    found = []
    for loop in (x for x in ast.walk(node) if isinstance(x, ast.For)):
        calls = [x for s in loop.body for x in ast.walk(s) if isinstance(x, ast.Call)]
        found.append(sum(isinstance(x.func, ast.Subscript) for x in calls))
    return found


def test_a_transformer_block_is_7_kernels_forward_and_16_backward() -> None:
    text = compile_text(ROOT / "specs/transformer/gpt.dsl", "triton")
    assert loops(text, "forward") == [7]
    assert loops(text, "loss_grad_metrics") == [7, 16]


def test_layer_norm_reads_its_input_once(tmp_path: Path) -> None:
    spec = tmp_path / "norm.dsl"
    spec.write_text("model m(x: f32[N, 64]) -> y: [N, 64]:\n    y = layer_norm(x)\n", encoding="utf-8")
    text = compile_text(spec, "triton")
    kernel = text[text.index("# ---- kernels ----") : text.index("# ---- the model ----")]
    forward = kernel[: kernel.index("tl.store") + 1]
    assert forward.count("tl.load(x_ptr") == 1
    assert '"launches": {"forward": 1,' in text

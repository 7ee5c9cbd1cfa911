"""The text of a Triton module: it stands alone, computes in kernels only, and refuses what it cannot do."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dslc.backends.triton.resources import kernels_of
from samples import sample
from shipped import text_of
from torch.utils._python_dispatch import TorchDispatchMode
from triton_modules import ROOT, triton_module

from dslc.builder.build import build_train
from dslc.compiler import choose, compile_text
from dslc.diagnostics.spec_error import SpecError
from dslc.frontend import check_file
from dslc.weights import files

SPECS = sorted(f"{p.parent.name}/{p.stem}" for p in (ROOT / "specs").glob("*/*.dsl"))
#: layers for other specs to import, without a model of their own
PARTS = {"transformer/mixers"}
SOME = ["mlp/mlp", "recurrent/gru", "graph/gcn", "convolution/cnn", "transformer/gpt", "derivatives/ridge"]

#: all that host code may take from torch: allocation, dtypes, and what `Module` is made of
OF_TORCH = {
    "torch.empty", "torch.zeros", "torch.full", "torch.zeros_like", "torch.full_like", "torch.as_tensor", "torch.stack",
    "torch.int64", "torch.int32", "torch.bool", "torch.float16", "torch.bfloat16", "torch.float32", "torch.float64",
    "torch.cuda", "torch.cuda.is_available", "torch.nn",
    # which sources go to which row of a scatter; the sums are made in a kernel
    "torch.sort", "torch.searchsorted", "torch.arange",
    "torch.nn.Parameter", "torch.nn.Module", "torch.Tensor",
    "torch.autograd", "torch.autograd.Function", "torch.autograd.function", "torch.no_grad",
    "torch.autograd.function.once_differentiable",
}  # fmt: skip
#: attributes and methods of anything else: shapes, views, copies, tables of Python, `torch.nn.Module`
OF_OTHERS = {
    "shape", "device", "dtype", "dim", "numel", "is_floating_point", "is_complex", "is_contiguous", "stride",
    "view", "contiguous", "t", "to", "cpu", "detach", "clone", "copy_", "fill_", "fill_diagonal_", "tolist", "item",
    "items", "keys", "values", "get", "append", "setdefault", "update", "split",
    "_modules", "_parameters", "_buffers", "__dict__", "nbytes", "untyped_storage", "mark_non_differentiable",
    "add_module", "register_parameter", "parameters", "__init__", "apply", "save_for_backward",
    "saved_tensors", "seed", "state", "training", "place", "register_buffer", "get_buffer", "data_ptr",
}  # fmt: skip
#: of other modules: sizes of grids, numbers of the optimiser
OF_MODULES = {"math.inf", "math.prod", "math.sqrt", "triton.cdiv", "triton.next_power_of_2"}
#: functions of Python that host code calls
OF_PYTHON = {
    "range", "tuple", "len", "next", "iter", "zip", "dict", "enumerate", "str", "sorted", "isinstance", "reversed",
    "min", "max", "sum", "super", "all", "any", "list", "ValueError", "TypeError", "save_file", "load_file",
}  # fmt: skip
#: checks of what the user gives look at it and compute nothing for the model; nor does what reads and writes files
CHECKS = {"below", "binary", "simplex", "fitting", "save", "load", "load_state", "stored", "file_arrays"}
CHECKS |= {x.name for x in ast.parse(inspect.getsource(files)).body if isinstance(x, ast.FunctionDef)}


def module_text(name: str) -> str:
    return text_of(f"specs/{name}.dsl", "triton")


def is_kernel(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    return any("triton.jit" in ast.unparse(d) for d in node.decorator_list)


def forbidden(text: str) -> list[str]:
    """What host code uses that is not on a list: attributes, functions, and arithmetic on tensors."""
    body = ast.parse(text).body
    defined = {x.name for x in body if isinstance(x, ast.FunctionDef | ast.ClassDef)}
    found: list[str] = []
    for top in body:
        if is_kernel(top) or (isinstance(top, ast.FunctionDef) and top.name in CHECKS):
            continue
        for node in ast.walk(top):
            if isinstance(node, ast.Attribute):
                found += [] if allowed(ast.unparse(node)) else [ast.unparse(node)]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                found += [] if node.func.id in OF_PYTHON | defined else [node.func.id]
        found += arithmetic(top)
    return found


def allowed(attribute: str) -> bool:
    first, _, _ = attribute.partition(".")
    if first == "torch":
        return attribute in OF_TORCH
    if first in ("math", "triton", "tl"):
        return attribute in OF_MODULES
    return attribute.rpartition(".")[2] in OF_OTHERS


def arithmetic(top: ast.AST) -> list[str]:
    """Operators that have a tensor for an operand: a name that is allocated, taken from a table, or an argument."""
    tensors: set[str] = set()
    for node in ast.walk(top):
        if isinstance(node, ast.Assign) and makes_tensor(node.value):
            tensors |= {x.id for t in node.targets for x in ast.walk(t) if isinstance(x, ast.Name)}
    found = []
    for node in ast.walk(top):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            continue  # a name in a table
        if isinstance(node, ast.BinOp | ast.Compare | ast.UnaryOp | ast.AugAssign):
            operands = [x for x in ast.iter_child_nodes(node) if isinstance(x, ast.expr)]
            if any((isinstance(x, ast.Name) and x.id in tensors) or makes_tensor(x) for x in operands):
                found.append(ast.unparse(node))
    return found


def makes_tensor(value: ast.expr) -> bool:
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in MOVED:
        value = value.func.value
    if isinstance(value, ast.Subscript):
        return ast.unparse(value.value) in ("params", "state", "grads")
    if not isinstance(value, ast.Call):
        return False
    name = ast.unparse(value.func)
    return name == "entry" or (name.startswith("torch.") and name != "torch.cuda.is_available")


MOVED = ("view", "contiguous", "t", "to", "cpu", "detach", "clone")


@pytest.mark.wide(8)
@pytest.mark.parametrize("name", [x for x in SPECS if x not in PARTS])
def test_the_host_computes_nothing_and_describes_what_it_launches(name: str) -> None:
    """What the manifest describes is compiled ahead of time."""
    assert forbidden(module_text(name)) == []
    tree = ast.parse(module_text(name))
    calls = [x.func for x in ast.walk(tree) if isinstance(x, ast.Call) and isinstance(x.func, ast.Subscript)]
    launched = {x.value.id for x in calls if isinstance(x.value, ast.Name)}
    tables = {x.targets[0].id: x.value for x in tree.body if isinstance(x, ast.Assign)}  # type: ignore[attr-defined]
    described = ast.literal_eval(tables["MANIFEST"])["kernels"].keys()
    assert launched and launched <= described
    assert described <= {x.name for x in tree.body if is_kernel(x)}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "line",
    ["torch.matmul(a, b)", "a.sum()", "a @ b", "a + 1", "-a", "abs(a)", "a.exp_()", "torch.nn.functional.gelu(a)"],
)
def test_computing_on_the_host_is_noticed(line: str) -> None:
    text = module_text("mlp/mlp")
    place = text.index("    return ", text.index("def forward("))
    assert forbidden(f"{text[:place]}    a = b = torch.empty((3, 3))\n    {line}\n{text[place:]}")


class Recorded(TorchDispatchMode):
    """The operations of torch that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


#: allocation, views and copies, those of Triton's interpreter among them
MOVES = {
    "empty", "empty_like", "empty_strided", "new_empty", "zeros", "zeros_like", "full", "full_like", "fill_", "view",
    "_unsafe_view", "as_strided", "select", "slice", "unsqueeze", "squeeze", "t", "transpose", "permute", "expand",
    "detach", "alias", "clone", "copy_", "_to_copy", "lift_fresh", "stack", "set_", "is_pinned", "resize_",
}  # fmt: skip
#: of the check that whole numbers are in range
IN_RANGE = {"lt", "ge", "bitwise_or", "__or__", "any", "is_nonzero", "_local_scalar_dense"}


@pytest.mark.wide(2)
@pytest.mark.parametrize("name", ["mlp/mlp", "mlp/mc_dropout", "linear/softmax_regression", "recurrent/echo_state"])
def test_training_runs_no_operation_of_torch(name: str, tmp_path: Path) -> None:
    spec = ROOT / f"specs/{name}.dsl"
    module = triton_module(spec, tmp_path)
    _, train = choose(check_file(spec))
    assert train is not None
    unit = build_train(train)
    inputs, _ = sample(unit, np.random.default_rng(0), 3)
    data = [v for k, v in inputs.items() if unit.inputs[k].role == "input"]
    params = module.init(0)
    opt = module.init_opt(params, 0)
    module.simplex = lambda name, value: None  # type: ignore[attr-defined]  # it looks at data, before the step
    with Recorded() as recorded:
        module.train_step(params, opt, *data)
    assert recorded.names <= MOVES | IN_RANGE


@pytest.mark.parametrize("name", SOME)
def test_imports_are_torch_and_triton(name: str) -> None:
    found = set()
    for node in ast.walk(ast.parse(module_text(name))):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
    assert found <= {"json", "math", "os", "tempfile", "zipfile", "numpy", "torch", "triton", "triton.language"}


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


def kernels(text: str) -> list[ast.FunctionDef]:
    """The kernels of a module, without the functions that they call."""
    names = {k.name for k in kernels_of(text)}
    return [x for x in ast.parse(text).body if isinstance(x, ast.FunctionDef) and x.name in names]


@pytest.mark.parametrize("name", SOME)
def test_every_value_that_a_kernel_loads_or_computes_is_used(name: str) -> None:
    for kernel in kernels(module_text(name)):
        names = [x for x in ast.walk(kernel) if isinstance(x, ast.Name)]
        made = {x.id for x in names if isinstance(x.ctx, ast.Store)} - {"_"}
        used = {x.id for x in names if isinstance(x.ctx, ast.Load)}
        assert made <= used, f"{kernel.name}: {made - used}"
        arguments = {a.arg for a in kernel.args.args}
        assert arguments <= used, f"{kernel.name}: {arguments - used}"


@pytest.mark.parametrize("name", SOME)
def test_no_kernel_loads_the_same_twice_in_one_run(name: str) -> None:
    for kernel in kernels(module_text(name)):
        blocks = [x.body for x in ast.walk(kernel) if isinstance(x, ast.FunctionDef | ast.For)]
        for body in blocks:
            loads = [ast.unparse(x.value) for x in body if isinstance(x, ast.Assign)]
            loads = [x for x in loads if x.startswith("tl.load(")]
            assert len(loads) == len(set(loads)), kernel.name


@pytest.mark.parametrize("name", SOME)
def test_kernels_say_what_shapes_they_read_and_write(name: str) -> None:
    text = module_text(name)
    for kernel in kernels(text):
        if kernel.body and not ast.get_docstring(kernel):
            body = ast.get_source_segment(text, kernel) or ""
            assert re.search(r"# .*->", body), kernel.name


def loops(text: str, function: str) -> list[int]:
    """How many kernels each loop of a host function launches in one pass."""
    (node,) = (x for x in ast.parse(text).body if isinstance(x, ast.FunctionDef) and x.name == function)
    found = []
    for loop in (x for x in ast.walk(node) if isinstance(x, ast.For)):
        calls = [x for s in loop.body for x in ast.walk(s) if isinstance(x, ast.Call)]
        found.append(sum(isinstance(x.func, ast.Subscript) for x in calls))
    return found


@pytest.mark.parametrize("name", SOME)
def test_a_module_holds_only_the_initialisers_and_device_functions_that_it_uses(name: str) -> None:
    text = module_text(name)
    body = ast.parse(text).body
    table = text[text.index("PARAMS = {") : text.index("def init(")]
    cases = re.findall(r'case "(\w+)":', text)
    assert all(f'"{kind}"' in table for kind in cases), cases
    used = {x.id for top in body for x in ast.walk(top) if isinstance(x, ast.Name)}
    assert {x.name for x in body if is_kernel(x) and isinstance(x, ast.FunctionDef)} <= used


EVERY = """
model every(x: f32[N, 3]) -> y: [N, 3]:
    param a: [3, 3] ~ {}
    param b: [3] ~ {}
    y[n, j] = x[n, i] * a[i, j] + b[j]
"""


@pytest.mark.parametrize(
    ("initialisers", "lines"),
    [
        (("identity", "zeros"), ["value.fill_diagonal_(1.0)"]),
        (("zeros", "constant(0.5)"), ["value.fill_(numbers[0])"]),
        (("normal", "zeros"), ["scale = 1.0"]),
        (("normal(0.1)", "normal(0.2)"), ["scale = numbers[0]"]),
        (("normal(0.1)", "normal"), ["scale = 1.0 if not numbers else numbers[0]"]),
        (("uniform(0, 1)", "zeros"), ["low, high = numbers"]),
        (("uniform(0, 1)", "uniform(1)"), ["low, high = (-numbers[0], numbers[0]) if len(numbers) == 1 else numbers"]),
    ],
)
def test_init_asks_only_for_what_the_table_leaves_open(
    initialisers: tuple[str, str], lines: list[str], tmp_path: Path
) -> None:
    spec = tmp_path / "every.dsl"
    spec.write_text(EVERY.lstrip().format(*initialisers), encoding="utf-8")
    text = compile_text(spec, "triton")
    host = text[text.index("def init(") : text.index("def forward(")]
    for line in lines:
        assert f" {line}\n" in host
    assert ("numbers" in host) == ("numbers" in lines[0])
    assert ("math" in host) == ("uniform" in host or "normal" in host)


REPEATED = """
model repeated(x: f32[N, 8]) -> y: [N, 8]:
    h = x
    for depth in 0..3:
        h = h |> dense(8) |> tanh
    y = h

train repeated(x):
    loss = mean(repeated(x)^2)
    minimize loss
    using sgd(lr = 0.1)
"""


def counted(text: str) -> list[tuple[str, str]]:
    """Counters of host loops that launches in them pass on: what the host calls them, and what the kernel does."""
    names = {k.name: [a.arg for a in k.args.args] for k in kernels(text)}
    found = []
    for loop in (x for x in ast.walk(ast.parse(text)) if isinstance(x, ast.For) and isinstance(x.target, ast.Name)):
        for call in (x for s in loop.body for x in ast.walk(s) if isinstance(x, ast.Call)):
            kernel = names.get(ast.unparse(call.func).split("[")[0], [])
            given = zip(call.args, kernel, strict=False)
            found += [(x.id, name) for x, name in given if isinstance(x, ast.Name) and x.id == loop.target.id]
    return found


@pytest.mark.parametrize(("name", "counters"), [("transformer/gpt", {"l"}), ("recurrent/gru", {"t"})])
def test_kernels_call_the_counter_of_a_loop_what_the_host_calls_it(name: str, counters: set[str]) -> None:
    assert set(counted(module_text(name))) == {(x, x) for x in counters}


def test_kernels_call_the_counter_of_a_loop_what_the_spec_calls_it(tmp_path: Path) -> None:
    spec = tmp_path / "repeated.dsl"
    spec.write_text(REPEATED.lstrip(), encoding="utf-8")
    assert set(counted(compile_text(spec, "triton"))) == {("depth", "depth")}


def test_a_transformer_block_is_7_kernels_forward_and_16_backward() -> None:
    text = module_text("transformer/gpt")
    assert loops(text, "forward") == [7]
    assert loops(text, "loss_grad_metrics") == [7, 16]


@pytest.mark.parametrize(("width", "heads"), [(64, 4), (768, 12)])
def test_a_block_by_itself_is_7_kernels_forward_and_at_most_16_backward(width: int, heads: int, tmp_path: Path) -> None:
    spec = tmp_path / "block.dsl"
    spec.write_text(
        f"model m(x: f32[N, T, {width}]) -> y: [N, T, {width}]:\n    y = transformer_block(x, heads = {heads})\n\n"
        "train m(x):\n    minimize mean[n, t, e](m(x)[n, t, e]^2)\n    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    text = compile_text(spec, "triton")
    host = text[text.index("def loss_grad_metrics") : text.index("def evaluate")]
    launches = re.findall(r"(\w+_kernel)\[", host)
    assert len(launches) <= 7 + 1 + 16, launches  # one is the loss
    forward = text[text.index("def forward(") : text.index("def loss_grad_metrics")]
    assert len(re.findall(r"_kernel\[", forward)) == 7


def test_layer_norm_reads_its_input_once(tmp_path: Path) -> None:
    spec = tmp_path / "norm.dsl"
    spec.write_text("model m(x: f32[N, 64]) -> y: [N, 64]:\n    y = layer_norm(x)\n", encoding="utf-8")
    text = compile_text(spec, "triton")
    kernel = text[text.index("# ---- kernels ----") : text.index("# ---- the model ----")]
    forward = kernel[: kernel.index("tl.store") + 1]
    assert forward.count("tl.load(x_ptr") == 1
    assert '"launches": {"forward": 1,' in text

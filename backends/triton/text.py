"""Texts of expressions over tiles: which tile axes they have, how strongly they bind, where they may stand."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dslc.ir import namespace
from dslc.ir import nodes as ir
from dslc.sizes import Size, show
from dslc.source import NOWHERE

ATOM, POWER, UNARY, TIMES, PLUS, BIT, COMPARE = 9, 8, 7, 6, 5, 4, 3

#: storage of dtypes; "float" and "f32" are the dtype of the module
TORCH = {"f64": "torch.float64", "f16": "torch.float16", "bf16": "torch.bfloat16", "i32": "torch.int64",
         "i64": "torch.int64", "bool": "torch.bool"}  # fmt: skip
POINTER = {"torch.float32": "*fp32", "torch.float64": "*fp64", "torch.float16": "*fp16", "torch.bfloat16": "*bf16",
           "torch.int64": "*i64", "torch.bool": "*i1"}  # fmt: skip
INTEGERS = ("i32", "i64")
#: the types of Triton for floats of 16 bits
HALF = {"f16": "tl.float16", "bf16": "tl.bfloat16"}


def is_float(dtype: str) -> bool:
    return dtype not in ("i32", "i64", "bool")


@dataclass(frozen=True)
class Text:
    """An expression over some tile axes (by number, ascending); `depth` is the loop that it belongs to."""

    code: str
    axes: tuple[int, ...] = ()
    level: int = ATOM
    depth: int = 0

    def at(self, level: int) -> str:
        return self.code if self.level >= level else f"({self.code})"


def expanded(text: Text, axes: tuple[int, ...]) -> Text:
    """The same with new tile axes of length 1, so that it lines up with `axes`."""
    if not text.axes or text.axes == axes:
        return text
    items = ", ".join(":" if a in text.axes else "None" for a in axes)
    return Text(f"{text.at(ATOM)}[{items}]", text.axes, ATOM, text.depth)


def aligned(texts: list[Text]) -> tuple[list[Text], tuple[int, ...], int]:
    """Texts over their common axes, those axes, and the innermost loop among them."""
    axes = tuple(sorted({a for t in texts for a in t.axes}))
    return [expanded(t, axes) for t in texts], axes, max((t.depth for t in texts), default=0)


def size_code(size: Size) -> str:
    """A size as an expression: powers as products, exact quotients as whole-number divisions."""
    text = re.sub(r"\b[A-Za-z_]\w*\b(?!\()", lambda m: size_name(m[0]), show(size).replace(" / ", " // "))
    text = re.sub(r"(\w+)\^(\d+)", lambda m: "*".join([m[1]] * int(m[2])), text)
    return re.sub(r"(?<=[\w)])\*(?=[\w(])", " * ", text)


def size_name(name: str) -> str:
    """What a size is called in host functions and kernels, whose own words are small, or capitals of this table.

    >>> size_name("N"), size_name("batch"), size_name("BLOCK")
    ('N', 'batch_size', 'BLOCK_size')
    """
    own = not name[0].isupper() or name in HOST or name.startswith(CAPITALS)
    return f"{name}_size" if own else name


def atom(text: str) -> str:
    return text if re.fullmatch(r"[\w.]+", text) else f"({text})"


def symbols(size: Size) -> set[str]:
    return {size_name(s.name) for s in getattr(size, "free_symbols", ())}


def identifier(wish: str) -> str:
    """A wish for a name as a name of Python.

    >>> identifier("block.0.W"), identifier("0"), identifier("")
    ('block_0_W', 'v_0', 'value')
    """
    name = namespace.identifier(wish) or "value"
    return f"v_{name}" if name[0].isdigit() else name


def unused(base: str, taken: set[str]) -> str:
    """A name that is not taken, and is from now on: the base itself, or with a number."""
    name, k = base, 2
    while name in taken:
        name, k = f"{base}_{k}", k + 1
    taken.add(name)
    return name


def word(name: str) -> str:
    """The last part of a dotted name, as an identifier.

    >>> word("decoder.block.0.W")
    'W'
    """
    last = re.sub(r"\W+", "_", name.rsplit(".", 1)[-1]).strip("_")
    if "." in name and name.startswith("d_"):
        last = f"d_{last}"
    if not last or last[0].isdigit():
        last = re.sub(r"\W+", "_", name).strip("_")
    return f"v_{last}" if not last or last[0].isdigit() else last


def name_of(node: ir.Node, default: str = "value") -> str:
    """A name for a node: its own, or the left-hand side of the spec line that it comes from."""
    name = str(getattr(node, "name", ""))
    if name:
        return word(name)
    if isinstance(node, ir.Part) and isinstance(node.of, ir.Scan) and node.number < len(node.of.results):
        return name_of(node.of.results[node.number], default)
    return of_statement(node) or described(node) or kind_of(node) or default


def described(node: ir.Node) -> str:
    """A name for a sum without one: after the two values whose products it adds up, such as `total_d_h_Wo`."""
    if not isinstance(node, ir.Comp) or node.op != "sum":
        return ""
    names = list(dict.fromkeys(filter(None, map(first_name, reads_of(node)))))
    names.sort(key=lambda x: not x.startswith("d_"))
    return "_".join(("total", *names)) if len(names) == 2 else ""


def first_name(tensor: ir.Tensor) -> str:
    """The name of a value; that of an adjoint that it is made of, or of the first value with a name, if it has none."""
    while not getattr(tensor, "name", "") and not of_statement(tensor):
        reads = [x for x in reads_of(tensor) if x is not tensor]
        if not reads:
            return ""
        tensor = next((x for x in reads if str(getattr(x, "name", "")).startswith("d_")), reads[0])
    return "" if isinstance(tensor, ir.Step) else name_of(tensor, "")


def reads_of(node: ir.Node) -> list[ir.Tensor]:
    return [s.tensor for body in ir.bodies(node) for s in ir.scalars(body) if isinstance(s, ir.Read)]


def of_statement(node: ir.Node) -> str:
    """The name of a part of a statement: its left-hand side, with a word for a reduction, which is not its value."""
    span = getattr(node, "span", NOWHERE)
    if not span.source.text or span.derived:
        return ""
    left = re.match(r"\s*(\w+)(\[[^=]*\])?\s*[+]?=[^=]", span.source.line(span.line))
    return "_".join(filter(None, (left[1], kind_of(node)))) if left else ""


def kind_of(node: ir.Node) -> str:
    op = getattr(node, "op", None)
    return REDUCED.get(op, op) if isinstance(op, str) and op.isidentifier() else ""


#: names of reductions that the spec gives none: those of the operations are Python's
REDUCED = {"max": "peak", "min": "least", "sum": "total", "prod": "product"}


#: names with a meaning of their own in host functions
HOST = frozenset({
    "math", "torch", "triton", "tl", "params", "state", "states", "opt", "seed", "device", "step", "grad", "grads",
    "loss", "name", "count", "norm", "entry", "below", "default_device", "gradient_norm", "init", "init_state",
    "init_opt", "addresses", "table", "programs", "forward", "forward_training",
    "adjoint", "adjoint_training", "before", "after", "training", "evaluate", "loss_grad_metrics",
    "loss_and_grad", "update", "train_step", "save", "load", "fitting", "len",
    "load_state", "stored", "next", "iter", "reversed", "range", "dict", "zip", "ctx", "self", "saved", "found",
    "by_param", "by_input", "Module", "Apply", "PARAMS", "STATE", "DTYPE", "FLOAT", "MANIFEST", "ORDER", "INPUTS",
    "OUTPUTS",
})  # fmt: skip


#: how words of kernels in capitals begin
CAPITALS = ("BLOCK", "TENSORS", "KERNEL", "COUNTER", "AXIS", "COUNT", "LENGTH", "ROWS", "COLUMNS", "LAST", "FIRST")


def argument(name: str) -> str:
    """The name of an input in host functions: its own, unless that means something there.

    >>> argument("x"), argument("params"), argument("params_"), argument("batch_size")
    ('x', 'params_', 'params__', 'batch_size_')
    """
    bare = name.rstrip("_")
    return f"{name}_" if bare in HOST or bare.endswith(("_kernel", "_size")) else name

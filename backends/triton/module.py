"""A whole Triton module as text: kernels, parameters, forward, gradients, training step, weights on disk."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from dslc.backends.triton.frame import OPEN_SIZES
from dslc.backends.triton.functions import Function, computed, dictionary, result, table
from dslc.backends.triton.optimizer import NORM_BLOCK, optimizer_functions
from dslc.backends.triton.params import (
    APART,
    ENTRY,
    SAVE,
    SAVE_WITH_STATE,
    STORED,
    VALUES,
    in_one_dtype,
    init_functions,
    parameter_table,
)
from dslc.backends.triton.registry import Registry
from dslc.backends.triton.stepping import step_functions
from dslc.backends.triton.text import POINTER, symbols
from dslc.backends.triton.torch_module import module_parts

from dslc.builder.build import Unit
from dslc.check import program as p
from dslc.ir import nodes as ir
from dslc.ir.interning import within
from dslc.passes.narrow import HALVES, OPEN
from dslc.pipeline import GRADIENT, STATE, Lowered
from dslc.program import Program
from dslc.quoting import docstring, literal
from dslc.source import NOWHERE
from dslc.weights.text import FILES
from dslc.weights.text import IMPORTS as FILE_IMPORTS


def generate(
    program: Program, source: str, dtype: str = "f32", atomic: bool = False, registry: Registry | None = None
) -> str:
    """The text of the module of a model, with training when the spec has a `train` for it.

    A given registry holds the kernels afterwards, and before that what was chosen for some of them.
    """
    registry = registry or Registry(dtype, atomic)
    model, train = program.model, program.train
    tensors = [*model.inputs, *(train.instance.inputs if train is not None else ())]
    OPEN_SIZES.set(frozenset(name for x in tensors for size in x.shape for name in symbols(size)))
    unit, functions, tables = host_functions(registry, program)
    random = any(f.name == "loss_grad_metrics" and f.host.random for f in functions)
    if program.step is not None:
        step, nodes = program.step
        with within(nodes):
            functions += step_functions(registry, model, step)
    made = module_parts(registry, program, functions[0].host.random)
    functions += made[0]
    blocks = [*tables, *(f.text() for f in functions)]
    if program.update is not None:
        blocks += optimizer_functions(registry, program, unit, random)
    blocks.append(made[1])
    files = [(SAVE_WITH_STATE if unit.states else SAVE).strip(), STORED.strip()]
    if any("apart(" in block for block in blocks):
        blocks.append(APART)
    checked = [text for name, text in VALUES.items() if any(f"{name}(" in block for block in blocks)]
    save, load = files if dtype in HALVES else map(in_one_dtype, files)
    blocks += [save, "# ---- arguments ----\n\n\n" + ENTRY.strip(), *checked, load]
    describe_library(registry)
    kernels = list(registry.texts.values())
    helpers = helper_texts(registry.helpers)
    parts: list[str] = []
    if helpers:
        parts.append("# ---- functions that kernels call ----\n\n\n" + "\n\n\n".join(helpers))
    if kernels:
        parts.append("# ---- kernels ----\n\n\n" + "\n\n\n".join(kernels))
    parts.append("# ---- the model ----\n\n\n" + "\n\n\n".join(b.strip("\n") for b in blocks))
    parts.append(manifest(registry, functions))
    parts.append("# ---- files of weights ----\n\n\n" + FILES.strip())
    body = "\n\n\n".join(parts)
    title = docstring(f"{model.name}, compiled by dslc from {source}: needs torch and triton.")
    standard = [*(f"import {name}" for name in FILE_IMPORTS), "", "import numpy as np"]
    header = [title, "", *standard, "import torch", "import triton", "import triton.language as tl"]
    return "\n".join(header) + f"\n\n\n{body}\n"


def host_functions(registry: Registry, program: Program) -> tuple[Unit, list[Function], list[str]]:
    """The functions that launch the kernels of a model and of its training, and the tables of its parameters."""
    with program.forward.open() as lowered:
        unit = lowered.unit
        functions = [forward_function(registry, program.model, lowered)]
        tables = [parameter_table(registry, unit), *init_functions(registry, unit)]
    if program.train is not None and program.gradient is not None and program.evaluation is not None:
        with program.gradient.open() as lowered:
            unit = lowered.unit
            functions.append(gradient_function(registry, program.train, lowered))
            tables = [parameter_table(registry, unit), *init_functions(registry, unit)]
        with program.evaluation.open() as lowered:
            functions.append(evaluation_function(registry, program.train, lowered))
    return unit, functions, tables


#: kernels of the library that the host launches: the types of their arguments ("*" is a tensor of floats), and blocks
LIBRARY: dict[str, tuple[dict[str, str], dict[str, int | str]]] = {
    "uniform_values": (
        {"out_ptr": "*", "seed": "i64", "number": "i32", "count": "i64", "offset": "fp32", "scale": "fp32"},
        {"BLOCK": 1024},
    ),
    "normal_values": (
        {"out_ptr": "*", "seed": "i64", "number": "i32", "count": "i64", "offset": "fp32", "scale": "fp32"},
        {"BLOCK": 1024},
    ),
    "orthonormal": (
        {"q_ptr": "*", "rows": "i64", "columns": "i64", "gain": "fp32"},
        {"BLOCK": "triton.next_power_of_2(rows)"},
    ),
    "squares": (
        {"table_ptr": "*i64", "out_ptr": "*", "tensors": "i64"},
        {"TENSORS": "triton.next_power_of_2(len(grads))", "BLOCK": NORM_BLOCK},
    ),
    "length": ({"x_ptr": "*", "out_ptr": "*", "count": "i64"}, {"BLOCK": 1024}),
}


def describe_library(registry: Registry) -> None:
    """Put the kernels of the library that host functions launch into the manifest; they have Triton's own defaults."""
    for name, (types, constants) in LIBRARY.items():
        if name in registry.helpers:
            floats = POINTER[registry.torch_dtype]
            signature = {argument: floats if kind == "*" else kind for argument, kind in types.items()}
            registry.about[name] = {
                "signature": signature, "blocks": constants, "warps": 4, "stages": 3, "lines": [],
            }  # fmt: skip


def manifest(registry: Registry, functions: Sequence[Function]) -> str:
    lines = [
        "#: kernels with their arguments, block sizes and spec lines; launches of each function",
        "MANIFEST = {",
        '    "kernels": {',
    ]
    for name, about in registry.about.items():
        lines.append(f'        "{name}": {{')
        for key, value in about.items():
            lines.append(f'            "{key}": {literal(value)},')
        lines.append("        },")
    lines += [
        "    },",
        '    "launches": {' + ", ".join(f'"{f.name}": {len(f.host.launched)}' for f in functions) + "},",
        "}",
    ]
    return "\n".join(lines)


@lru_cache(maxsize=1)
def library() -> dict[str, tuple[str, frozenset[str]]]:
    """The functions of the runtime file: their texts, and the names that they use."""
    text = (Path(__file__).parent / "runtime.py").read_text(encoding="utf-8")
    lines = text.splitlines()
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            used = frozenset(x.id for x in ast.walk(node) if isinstance(x, ast.Name))
            found[node.name] = "\n".join(lines[first - 1 : node.end_lineno]), used
    return found


def helper_texts(wanted: set[str]) -> list[str]:
    """The texts of helper functions and of those that they call, in the order of the file."""
    known = library()
    needed: set[str] = set()
    pending = list(wanted)
    while pending:
        name = pending.pop()
        if name in known and name not in needed:
            needed.add(name)
            pending += known[name][1]
    return [text for name, (text, _) in known.items() if name in needed]


# ---- functions -----------------------------------------------------------------------------------------


def forward_function(registry: Registry, model: p.Instance, program: Lowered) -> Function:
    made = computed(registry, program.unit, program.outputs, (), model)
    names = {k: result(x, made.values[k]) for k, x in program.outputs.items()}
    epilogue = [f"return {next(iter(names.values())) if len(names) == 1 else dictionary(names)}"]
    return made.function("forward", f"The outputs of {model.name} for inference: {', '.join(names)}.", epilogue)


def as_float(x: ir.Tensor) -> ir.Tensor:
    """A gradient in the float of the module, whatever the spec declares of its parameter."""
    if x.dtype in OPEN:
        return x
    return ir.comp(x.shape, ir.op("cast", (ir.whole(x),), "float"), name=x.name, span=getattr(x, "span", NOWHERE))


def gradient_function(registry: Registry, train: p.TrainProgram, program: Lowered) -> Function:
    unit, values, states, grads = program.unit, program.values(), program.states(), program.gradients()
    slopes = {GRADIENT + k: x if k in train.wrt else as_float(x) for k, x in grads.items()}
    outputs = {**program.outputs, **slopes}
    made = computed(registry, unit, outputs, [k for k in outputs if k not in values], train.instance)
    metrics = {k: result(x, made.values[k]) for k, x in values.items()}
    loss = metrics.pop("loss")
    epilogue = table("grads", unit, {k: made.values[GRADIENT + k] for k in grads})
    epilogue += table("states", unit, {k: made.values[STATE + k] for k in states})
    epilogue.append(f"return {loss}, grads, {dictionary(metrics)}, states")
    doc = "The loss of a batch, its gradients by parameter, the metrics, and the next values of states."
    return made.function("loss_grad_metrics", doc, epilogue)


def evaluation_function(registry: Registry, train: p.TrainProgram, program: Lowered) -> Function:
    made = computed(registry, program.unit, program.outputs, (), train.instance)
    metrics = {k: result(x, made.values[k]) for k, x in program.outputs.items()}
    loss = metrics.pop("loss")
    epilogue = [f"return {loss}, {dictionary(metrics)}"]
    return made.function("evaluate", "The loss and the metrics of data, for inference.", epilogue)

"""A whole NumPy module as text: parameters, forward, gradients, training step, weights on disk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dslc.backends.numpy.floats import use_floats
from dslc.backends.numpy.function import Function, ModuleText
from dslc.backends.numpy.manifest import manifest, manifest_entry
from dslc.backends.numpy.names import HELPERS, argument
from dslc.backends.numpy.normal import use_normal
from dslc.backends.numpy.optimizer import optimizer_functions
from dslc.backends.numpy.parameters import init_function, one_of, parameter_table
from dslc.backends.numpy.sharing import Sharing, settle, shared_rows
from dslc.backends.numpy.statement import Lowering
from dslc.backends.numpy.text import DTYPES, result, size_code
from dslc.backends.numpy.weights import FILES, SAVE, SAVE_WITH_STATE, STORED

from dslc import pipeline
from dslc.check import program as p
from dslc.guards import fitting, promises
from dslc.incremental.derive import NoStep
from dslc.incremental.program import StepProgram
from dslc.ir import nodes as ir
from dslc.ir.build import Unit
from dslc.kernels.recompute import recomputed
from dslc.long_lines import folded_text
from dslc.passes.transform import everything
from dslc.pipeline import GRADIENT, NEXT, Lowered
from dslc.quoting import docstring, quoted
from dslc.sizes import Symbol, show
from dslc.weights.text import IMPORTS as FILE_IMPORTS

#: what floats are computed with
FLOATS = {"f16": "np.float32", "f32": "np.float32", "f64": "np.float64"}

#: modules of Python that helpers and formulas need
STANDARD = ("functools", "math", "threading")

ENTRY = '''
def entry(name, value, dtype, shape):
    """An argument as an array of the expected shape; names in the shape take their size from it."""
    value = np.asarray(value)
    same = value.dtype == dtype
    if not same and value.dtype.kind not in ("iub" if np.dtype(dtype).kind in "ib" else "fiu"):
        raise TypeError(f"{name}: expected {np.dtype(dtype).name}, found {value.dtype}")
    if value.ndim != len(shape):
        raise ValueError(f"{name}: expected {len(shape)} axes {shape}, found the shape {value.shape}")
    for axis, (found, wanted) in enumerate(zip(value.shape, shape)):
        if found != wanted and isinstance(wanted, int):
            raise ValueError(f"{name}: expected {wanted} along axis {axis}, found {found}")
    if not value.size:
        raise ValueError(f"{name}: expected at least one entry along each axis, found the shape {value.shape}")
    return value if same else value.astype(dtype)
'''

BELOW = '''
def below(name, value, limit):
    """Whole numbers used as positions must be in range."""
    wrong = (value < 0) | (value >= limit)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(f"{name}: expected 0 <= value < {limit}, found {value[at]} at {at}")
'''

BINARY = '''
def binary(name, value):
    """Entries must be 0 or 1."""
    wrong = (value != 0) & (value != 1)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(f"{name}: expected 0 or 1, found {value[at]} at {at}")
'''

SIMPLEX = '''
def simplex(name, value):
    """Entries must be probabilities that add up to 1 along the last axis."""
    wrong = ~(value >= 0)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(f"{name}: expected no entry below 0, found {value[at]} at {at}")
    total = value.sum(-1, dtype=np.float64)
    wrong = ~(abs(total - 1) <= 1e-3)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(f"{name}: expected a sum of 1 along the last axis, found {total[at]} at {at}")
'''

FITTING = '''
def fitting(values, table, dtype, of=""):
    """Parameters, states or slots `of` an optimiser must have the names, shapes and dtype of their table."""
    if not isinstance(values, dict):
        found = type(values).__name__
        raise ValueError(f"{of.rstrip('.') or 'params'}: expected a dict of arrays by name, found {found}")
    for name, (shape, *_) in table.items():
        if name not in values:
            raise ValueError(f"{of}{name} is missing")
        value = values[name]
        if isinstance(value, np.generic):  # w - 0.1 * d_w is no array where w has no axes
            value = values[name] = np.array(value)
        if not isinstance(value, np.ndarray) or value.shape != shape or value.dtype != dtype:
            found = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
            raise ValueError(f"{of}{name}: expected {np.dtype(dtype).name} {shape}, found {found}")
    if len(values) != len(table):
        raise ValueError(f"{of}{min(values.keys() - table.keys())} is unknown: expected {', '.join(table)}")
'''

#: functions that check arguments, by name
CHECKS = {"entry": ENTRY, "below": BELOW, "binary": BINARY, "simplex": SIMPLEX, "fitting": FITTING}


def symbols(unit: Unit) -> dict[str, tuple[str, int]]:
    """Where each symbolic size can be read off, as the module calls them: input and axis."""
    found: dict[str, tuple[str, int]] = {}
    for name, node in unit.inputs.items():
        if node.role == "input":
            for axis, size in enumerate(node.shape):
                if isinstance(size, Symbol):
                    found.setdefault(argument(size.name), (argument(name), axis))
    return found


def generate(
    model: p.Instance, train: p.TrainProgram | None, optimizer: p.Instance | None, source: str, dtype: str = "f32"
) -> str:
    """The text of the module of a model, with training when the spec has a `train` for it."""
    text = ModuleText(model.name, source, FLOATS[dtype], dtype)
    # a value has the name and the line of its statement in this function, whatever another one calls it
    with ir.compilation():
        program = normal(pipeline.forward(model))
        unit = program.unit
        parts = [forward_function(text, model, program)]
        costs = {"forward": manifest_entry(program, dtype)}
        tables, init = parameter_table(text, unit), init_function(text, unit)
    if train is not None:
        with ir.compilation():
            program = normal(lean(pipeline.training(train)))
            unit = program.unit
            parts.append(gradient_function(text, train, program))
            costs["loss_grad_metrics"] = manifest_entry(program, dtype)
            tables, init = parameter_table(text, unit), init_function(text, unit)
        with ir.compilation():
            parts.append(evaluation_function(text, train, normal(pipeline.evaluation(train))))
    updates = optimizer_functions(text, train, optimizer, unit) if train is not None and optimizer is not None else []
    title = docstring(f"{model.name}, compiled by dslc from {source}: needs numpy alone.")
    first = [name for name in ("Space", "in_space") if name in text.used]  # decorators must be known
    spaces = [HELPERS[name].replace("dtype=DTYPE", "dtype=FLOAT") if text.half else HELPERS[name] for name in first]
    blocks = [tables, *spaces, init, *(f.text() for f in parts)]
    with ir.compilation():
        blocks += step_texts(text, model)
    if train is not None and optimizer is not None:
        blocks += updates
    save = SAVE_WITH_STATE if unit.states else SAVE
    blocks.append(save if text.half else save.replace("FLOAT", "DTYPE"))  # states are never kept in 16 bits
    blocks.append(manifest(costs))
    checks = [x for name, x in CHECKS.items() if any(f"{name}(" in block for block in blocks)]
    made_of = [x.strip() for x in (*checks, *helper_texts(text.used - set(first)))]
    blocks += ["# ---- what the functions above are made of ----", *made_of] if made_of else []
    body = folded_text("\n\n\n".join(b.strip("\n") for b in blocks))
    standard = "\n".join(
        f"import {name}" for name in sorted({*FILE_IMPORTS, *(x for x in STANDARD if f"{x}." in body)})
    )
    files = ["# ---- files of weights ----", STORED.strip(), FILES.strip()]
    return "\n\n\n".join([f"{title}\n\n{standard}\n\nimport numpy as np", body, *files]) + "\n"


def lean(program: Lowered) -> Lowered:
    """The gradient of layers computes matrices of two long axes again (attention weights), as the forward pass does."""
    roots = recomputed(list(program.outputs.values()), also_cheap=True)
    return replace(program, outputs=dict(zip(program.outputs, roots, strict=True)))


def normal(program: Lowered) -> Lowered:
    return replace(program, outputs=use_floats(use_normal(program.outputs)))


def normal_step(program: StepProgram) -> StepProgram:
    found = use_floats(use_normal({**program.outputs, **{NEXT + k: x for k, x in program.updates.items()}}))
    updates = {k: found.pop(NEXT + k) for k in program.updates}
    return replace(program, outputs=found, updates=updates, starts=use_floats(use_normal(program.starts)))


def step_texts(text: ModuleText, model: p.Instance) -> list[str]:
    """The functions that run a sequence model one position at a time, where it can be run so."""
    from dslc.backends.numpy.stepping import step_functions

    try:
        return step_functions(text, model, normal_step(pipeline.stepping(model)))
    except NoStep:
        return []


def helper_texts(used: set[str]) -> list[str]:
    """The sources of the functions that a module uses, and of those that they use."""
    found: dict[str, str] = {}
    stack = sorted(used)
    while stack:
        name = stack.pop()
        if name not in found:
            found[name] = HELPERS[name]
            words = set(re.findall(r"\w+", re.sub(r'"""[^"]*"""|#.*', "", found[name])))
            stack += [x for x in HELPERS if x != name and x in words]
    return [found[name] for name in HELPERS if name in found]


@dataclass
class Prepared:
    """A lowering whose inputs have names, the arguments, lines that check them, and lines that name what they hold."""

    low: Lowering
    arguments: list[str]
    checks: list[str]
    prologue: list[str]


def prepare(
    text: ModuleText, program: Lowered, instance: p.Instance, with_seed: bool, sharing: Sharing | None
) -> Prepared:
    unit = program.unit
    low = Lowering(text.dtype)
    low.memory.on = True
    settle(low, sharing)
    where = symbols(unit)
    low.taken |= set(where)
    inputs = [(n, x) for n, x in unit.inputs.items() if x.role == "input"]
    states = [(n, x) for n, x in unit.inputs.items() if x.role == "state"]
    arguments = ["params", *(argument(n) for n, _ in inputs)]
    low.taken |= set(arguments)
    checks = fitting(unit, bool(states), "FLOAT" if text.half else "DTYPE")
    for name, node in inputs:
        own = low.names[node] = argument(name)
        shape = ", ".join(quoted(show(s)) if not isinstance(s, int) else f"{s}" for s in node.shape)
        shape += "," if len(node.shape) == 1 else ""
        dtype = low.numpy_dtype(node.dtype) if node.dtype in ("float", "f32") else DTYPES[node.dtype]
        if text.half and node.dtype in ("float", "f32") and node.shape:
            checks.append(f'{own} = entry("{name}", {own}, DTYPE, ({shape})).astype(FLOAT)')
        else:
            given = f'entry("{name}", {own}, {dtype}, ({shape}))'
            rounding = f"{low.helper(f'as_{node.dtype}')}({given})" if node.dtype in ("f16", "bf16") else given
            checks.append(f"{own} = {rounding}")
    for symbol, (name, axis) in where.items():
        checks.append(f"{symbol} = {name}.shape[{axis}]")
    checks += promises(unit, instance, size_code, argument)
    prologue: list[str] = []
    if states:
        arguments.append("state")
        for path, node in states:
            if path in unit.layers:
                low.stars[node] = one_of("state", unit, path)
                continue
            low.names[node] = low.fresh(path)
            prologue.append(f'{low.names[node]} = state["{path}"]')
    if with_seed:
        arguments.append("seed=0")
    roots = list(program.outputs.values())
    prologue += bind_params(low, unit, roots)
    checks += widened(text, roots)
    return Prepared(low, arguments, checks, prologue)


def uses_random(roots: Sequence[ir.Node]) -> bool:
    for node in everything({str(k): x for k, x in enumerate(roots)}):
        if any(isinstance(s, ir.Rand) for b in ir.bodies(node) for s in ir.scalars(b)):
            return True
    return False


def bind_params(low: Lowering, unit: Unit, roots: Sequence[ir.Node]) -> list[str]:
    """Local names for the parameters that a function reads."""
    needed = {x for x in _all_nodes(roots) if isinstance(x, ir.Input) and x.role == "param"}
    lines: list[str] = []
    for path, node in unit.inputs.items():
        rounding = "{}" if node.dtype not in ("f16", "bf16") else f"as_{node.dtype}({{}})"
        if node in needed and rounding != "{}":
            low.helper(f"as_{node.dtype}")
        if node in needed and path in unit.layers:
            low.stars[node] = rounding.replace("{}", one_of("params", unit, path))
        elif node in needed:
            low.names[node] = low.fresh(path)
            given = f'params["{path}"]'
            lines.append(f"{low.names[node]} = {rounding.format(given)}")
    return lines


def widened(text: ModuleText, roots: Sequence[ir.Node]) -> list[str]:
    """Parameters that are kept in 16 bits are computed with in 32."""
    needed = text.half and any(isinstance(x, ir.Input) and x.role == "param" for x in _all_nodes(roots))
    return ["params = {name: value.astype(FLOAT) for name, value in params.items()}"] if needed else []


def _all_nodes(roots: Sequence[ir.Node]) -> list[ir.Node]:
    found: list[ir.Node] = []
    for node in ir.schedule(tuple(roots)):
        found.append(node)
    return found


def forward_function(text: ModuleText, model: p.Instance, program: Lowered) -> Function:
    program, sharing = shared_rows(program, text.precision)
    outputs = program.outputs
    roots = list(outputs.values())
    made = prepare(text, program, model, uses_random(roots), sharing)
    low = made.low
    low.run(roots)
    text.used |= low.used
    names = {k: result(v, low.tensor(v)) for k, v in outputs.items()}
    if text.half:
        floats = {k for k, v in outputs.items() if v.dtype in ("float", "f32") and v.shape}
        names = {k: f"{name}.astype(DTYPE)" if k in floats else name for k, name in names.items()}
    if sharing is not None:
        names = {k: sharing.whole(k, name) for k, name in names.items()}
    if len(names) == 1:
        epilogue = [f"return {next(iter(names.values()))}"]
    else:
        epilogue = ["return {" + ", ".join(f'"{k}": {v}' for k, v in names.items()) + "}"]
    doc = f"The outputs of {model.name} for inference: {', '.join(names)}."
    is_spacious = spacious(text, made, sharing)
    return Function("forward", made.arguments, doc, low, made.checks, made.prologue, epilogue, is_spacious, sharing)


def gradient_function(text: ModuleText, train: p.TrainProgram, program: Lowered) -> Function:
    program, sharing = shared_rows(program, text.precision)
    unit, values, grads, states = program.unit, program.values(), program.gradients(), program.states()
    forward_roots = [*values.values(), *states.values()]
    text.random = uses_random([*forward_roots, *grads.values()])
    made = prepare(text, program, train.instance, text.random, sharing)
    low, checks = made.low, made.checks
    leave = [q for q, g in grads.items() if q in unit.layers and isinstance(g, ir.Part)]
    for q in leave:
        low.sinks.setdefault(grads[q], []).append(one_of("grads", unit, q))
    low.partial = {grads[q] for q in leave if sharing is not None and GRADIENT + q in sharing.shared.partial}
    for q, x in states.items():
        if q in unit.layers and isinstance(x, ir.Part):
            low.sinks.setdefault(x, []).append(one_of("states", unit, q))
    if any(q in unit.layers for q in states):
        low.line("states = {}")
    low.run(forward_roots, list(grads.values()))
    if not low.turned:
        low.line("grads = {}")
    text.used |= low.used
    epilogue: list[str] = []
    known: dict[ir.Node, str] = {}  # one value may be the gradient of several parameters
    for q, g in grads.items():
        if q not in unit.layers:
            value = known.get(g) or (low.tensor(g) if sharing is None else sharing.gradient(q, low.tensor(g)))
            known.setdefault(g, f'grads["{q}"]')
            epilogue.append(f'grads["{q}"] = {value}')
    for table, values_of in (("grads", grads), ("states", states)):  # of all layers at once: one by one
        for q, x in values_of.items():
            if q not in unit.layers or isinstance(x, ir.Part):
                continue
            steps = [low.fresh("l") for _ in unit.layers[q]]
            counts = ", ".join(str(count) for _, count in unit.layers[q])
            epilogue.append(f"for {', '.join(steps)}{',' * (len(steps) == 1)} in np.ndindex({counts}):")
            value = f"{low.tensor(x)}[{', '.join(steps)}]"
            value = f"{value}.copy()" if sharing is None or table == "states" else sharing.added(q, value)
            epilogue.append(f"    {one_of(table, unit, q).format(*steps)} = {value}")
    metrics = {k: result(v, low.tensor(v)) for k, v in values.items() if k != "loss"}
    if sharing is not None:
        metrics = {k: sharing.whole(k, v) for k, v in metrics.items()}
    updates = {k: low.tensor(v) for k, v in states.items() if k not in unit.layers}
    extra = "{" + ", ".join(f'"{k}": {v}' for k, v in metrics.items()) + "}"
    nexts = "{" + ", ".join(f'"{k}": {v}' for k, v in updates.items()) + "}"
    if any(q in unit.layers for q in states):
        nexts = f"{nexts} | states" if updates else "states"
    epilogue.append(f"return {low.tensor(values['loss'])}, grads, {extra}, {nexts}")
    doc = "The loss of a batch, its gradients by parameter, the metrics, and the next values of states."
    if low.memory.used or sharing is not None:
        text.spacious = True
        text.used |= {"Space", "in_space"}
        made.arguments.append("space=None")
        checks.insert(0, "space = Space() if space is None else space")
    if low.memory.used:
        doc += "\n\n    Gradients lie in the space, if one is given: the next call with it overwrites them.\n    "
    return Function("loss_grad_metrics", made.arguments, doc, low, checks, made.prologue, epilogue, sharing=sharing)


def evaluation_function(text: ModuleText, train: p.TrainProgram, program: Lowered) -> Function:
    """Loss and metrics as the trained model would have them: states as they are, no dropout."""
    program, sharing = shared_rows(program, text.precision)
    outputs = program.outputs
    roots = list(outputs.values())
    made = prepare(text, program, train.instance, uses_random(roots), sharing)
    low = made.low
    low.run(roots)
    text.used |= low.used
    metrics = {k: result(v, low.tensor(v)) for k, v in outputs.items() if k != "loss"}
    if sharing is not None:
        metrics = {k: sharing.whole(k, v) for k, v in metrics.items()}
    shown = "{" + ", ".join(f'"{k}": {v}' for k, v in metrics.items()) + "}"
    epilogue = [f"return {low.tensor(outputs['loss'])}, {shown}"]
    doc = "The loss and the metrics of data, for inference."
    is_spacious = spacious(text, made, sharing)
    return Function("evaluate", made.arguments, doc, low, made.checks, made.prologue, epilogue, is_spacious, sharing)


def spacious(text: ModuleText, made: Prepared, sharing: Sharing | None) -> bool:
    """Does a function need a space? Then it is an argument that its decorator gives."""
    if not made.low.memory.used and sharing is None:
        return False
    text.used |= {"Space", "in_space"}
    made.arguments += ["*", "space"]
    return True

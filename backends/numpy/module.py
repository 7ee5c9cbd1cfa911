"""A whole NumPy module as text: parameters, forward, gradients, training step, weights on disk."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dslc.backends.numpy.body import Body
from dslc.backends.numpy.lower import Line, Lowering
from dslc.backends.numpy.manifest import manifest, manifest_entry
from dslc.backends.numpy.normal import use_normal
from dslc.backends.numpy.operations import HELPERS
from dslc.backends.numpy.sharing import Sharing, settle, shared_rows, texts
from dslc.backends.numpy.text import DTYPES, size_code
from dslc.backends.numpy.weights import FILE_ARRAYS, SAVE, SAVE_WITH_STATE

from dslc import pipeline
from dslc.check import program as p
from dslc.check.dependence import tensors_in
from dslc.fans import fans
from dslc.incremental.derive import NoStep
from dslc.ir import nodes as ir
from dslc.ir.build import Builder, Unit, Value
from dslc.kernels.recompute import recomputed
from dslc.passes.factors import gather_factors
from dslc.passes.transform import everything
from dslc.pipeline import GRADIENT, Lowered

#: what floats are computed with
FLOATS = {"f16": "np.float32", "f32": "np.float32", "f64": "np.float64"}

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
        if isinstance(wanted, int) and found != wanted:
            raise ValueError(f"{name}: expected {wanted} along axis {axis}, found {found}")
    return value if same else value.astype(dtype)


def below(name, value, limit):
    """Whole numbers used as positions must be in range."""
    wrong = (value < 0) | (value >= limit)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(f"{name}: expected 0 <= value < {limit}, found {value[at]} at {at}")
'''


@dataclass
class Function:
    """One generated function."""

    name: str
    arguments: list[str]
    doc: str
    lowering: Lowering
    #: checks of the arguments, and names for what they hold
    checks: list[str] = field(default_factory=list)
    prologue: list[str] = field(default_factory=list)
    epilogue: list[str] = field(default_factory=list)
    in_space: bool = False
    #: are its rows shared among threads?
    sharing: Sharing | None = None

    def text(self) -> str:
        ignored = '@np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore")'
        lines = ["@in_space"] if self.in_space else []
        lines_of_values = alive(self.lowering.lines, self.epilogue)
        rest = [*_commented(lines_of_values), *(f"    {x}" for x in self.epilogue)]
        if self.sharing is None:
            lines += [ignored, f"def {self.name}({', '.join(self.arguments)}):", f'    """{self.doc}"""']
            return "\n".join([*lines, *used([f"    {x}" for x in (*self.checks, *self.prologue)] + rest)])
        whole, member = texts(self.name, self.arguments, self.doc, self.checks, self.sharing)
        shared = self.sharing.shared
        sizes = [x for x in self.checks if SIZE.fullmatch(x)] + [f"{shared.all_rows.name} = team.rows"]
        doc = f'    """What one member of a team computes of {self.name}: its rows, `{shared.rows.name}` of all."""'
        own = used([f"    {x}" for x in (*sizes, *self.prologue)] + rest)
        return "\n".join([*lines, *used(whole), "", "", ignored, member, doc, *own])


#: a line that gives a size a name
SIZE = re.compile(r" *(\w+) = (?:\w+\.shape\[\d+\]|team\.rows)")


def used(lines: list[str]) -> list[str]:
    """Lines without those that name a size which no other line speaks of."""
    code = [re.sub(r'"[^"]*"', "", x.split("  # ")[0]) for x in lines if not x.lstrip().startswith("#")]
    found = [x for x in lines if (m := SIZE.fullmatch(x)) and sum(bool(re.search(rf"\b{m[1]}\b", y)) for y in code) < 2]
    return [x for x in lines if x not in found]


#: a line that gives a value a name, and what such a line may do besides
ASSIGNMENT = re.compile(r"( *)(\w+) = (.*)")
EFFECT = re.compile(r"\.pop\(|out=(?!space\()")


def alive(lines: Sequence[Line], epilogue: Sequence[str]) -> list[Line]:
    """Lines without the names that nothing reads: a rule by hand, or a loop, may not need all that it is given."""
    left = list(lines)
    while True:
        words = Counter(w for text in (*(x.text for x in left), *epilogue) for w in set(re.findall(r"\w+", text)))
        dead = {k: m for k, x in enumerate(left) if (m := ASSIGNMENT.fullmatch(x.text)) and words[m[2]] == 1}
        if not dead:
            return left
        bare = {k: replace(left[k], text=m[1] + m[3]) for k, m in dead.items() if EFFECT.search(m[3])}
        left = _without_empty_loops([bare.get(k, x) for k, x in enumerate(left) if k in bare or k not in dead])


def _without_empty_loops(lines: Sequence[Line]) -> list[Line]:
    """Lines without the heads of loops in which no line is left."""
    left: list[Line] = []
    for line in reversed(lines):
        text = line.text
        inside = bool(left) and _depth(left[-1].text) > _depth(text)
        if inside or not (text.lstrip().startswith("for ") and text.endswith(":")):
            left.append(line)
    return left[::-1]


def _depth(text: str) -> int:
    return len(text) - len(text.lstrip())


def _commented(lines: Sequence[Line]) -> list[str]:
    """Lines with the spec line that they come from above them, once."""
    out: list[str] = []
    last: tuple[str, int] | None = None
    for line in lines:
        span = line.span
        if span is not None and span.source.text:
            here = (span.source.name.rsplit("/", 1)[-1], span.line)
            if here != last:
                spec = " ".join(span.source.line(span.line).split("#")[0].split())
                space = line.text[: len(line.text) - len(line.text.lstrip())]
                word = "gradient of " if line.backward else ""
                out.append(f"    {space}# {word}{here[0]}:{here[1]}  {spec}")
                last = here
        comment = f"  # {line.comment}" if line.comment else ""
        out.append(f"    {line.text}{comment}")
    return out


@dataclass
class ModuleText:
    """What a module is made of, before it is joined."""

    name: str
    source: str
    dtype: str
    #: what floats are kept in
    precision: str = "f32"
    random: bool = False
    #: does the training step pass a space on?
    spacious: bool = False
    used: set[str] = field(default_factory=set)

    @property
    def half(self) -> bool:
        """Are parameters, inputs and outputs kept in 16 bits?"""
        return self.precision == "f16"


def symbols(unit: Unit) -> dict[str, tuple[str, int]]:
    """Where each symbolic size can be read off: input name and axis."""
    found: dict[str, tuple[str, int]] = {}
    for name, node in unit.inputs.items():
        if node.role == "input":
            for axis, size in enumerate(node.shape):
                if getattr(size, "is_Symbol", False):
                    found.setdefault(size.name, (name, axis))
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
    shared = bool(text.used & {"share", "divide"})
    imports = ["import functools"] if shared or "in_space" in text.used else []
    title = f'"""{model.name}, compiled by dslc from {source}: needs numpy alone."""'
    threads = ["import os", "import threading"] if shared else []
    header = "\n".join([title, "", *imports, "import math", *threads, "", "import numpy as np"])
    first = [name for name in ("Space", "in_space") if name in text.used]  # decorators must be known
    spaces = [HELPERS[name].replace("dtype=DTYPE", "dtype=FLOAT") if text.half else HELPERS[name] for name in first]
    blocks = [header, tables, *spaces, init, *(f.text() for f in parts)]
    with ir.compilation():
        blocks += step_texts(text, model)
    if train is not None and optimizer is not None:
        blocks += updates
    helpers = "\n\n\n".join(helper_texts(text.used - set(first)))
    blocks.append(files_text(SAVE_WITH_STATE if unit.states else SAVE, text.half))
    blocks.append(manifest(costs))
    blocks.append(
        "# ---- what the functions above are made of ----\n"
        + "\n\n".join([FILE_ARRAYS.rstrip(), ENTRY.rstrip()])
        + ("\n\n\n" + helpers if helpers else "")
    )
    return "\n\n\n".join(b.strip("\n") for b in blocks) + "\n"


def lean(program: Lowered) -> Lowered:
    """The gradient of layers computes matrices of two long axes again (attention weights), as the forward pass does."""
    roots = recomputed(list(program.outputs.values()), also_cheap=True)
    return replace(program, outputs=dict(zip(program.outputs, roots, strict=True)))


def normal(program: Lowered) -> Lowered:
    return replace(program, outputs=use_normal(program.outputs))


def step_texts(text: ModuleText, model: p.Instance) -> list[str]:
    """The functions that run a sequence model one position at a time, where it can be run so."""
    from dslc.backends.numpy.stepping import step_functions

    try:
        return step_functions(text, model, pipeline.stepping(model))
    except NoStep:
        return []


def files_text(text: str, half: bool) -> str:
    """The functions for files; where parameters are kept in 16 bits, states still are not."""
    text = text.strip()
    if not half or "STATE" not in text:
        return text
    text = text.replace("stored(path, PARAMS)", "stored(path, PARAMS, DTYPE)").replace(
        "stored(path, STATE)", "stored(path, STATE, FLOAT)"
    )
    return text.replace("def stored(path, wanted):", "def stored(path, wanted, dtype):").replace(
        "found[name].astype(DTYPE) for", "found[name].astype(dtype) for"
    )


def helper_texts(used: set[str]) -> list[str]:
    """The sources of the functions that a module uses, and of those that they use."""
    found: dict[str, str] = {}
    stack = sorted(used)
    while stack:
        name = stack.pop()
        if name not in found:
            found[name] = HELPERS[name]
            stack += [x for x in HELPERS if x != name and re.search(rf"\b{x}\b", found[name])]
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
    arguments = ["params", *(n for n, _ in inputs)]
    low.taken |= {n for n, _ in inputs}
    checks: list[str] = []
    for name, node in inputs:
        low.names[node] = name
        shape = ", ".join(f'"{size_code(s)}"' if not isinstance(s, int) else f"{s}" for s in node.shape)
        shape += "," if len(node.shape) == 1 else ""
        dtype = low.numpy_dtype(node.dtype) if node.dtype in ("float", "f32") else DTYPES[node.dtype]
        if text.half and node.dtype in ("float", "f32") and node.shape:
            checks.append(f'{name} = entry("{name}", {name}, DTYPE, ({shape})).astype(FLOAT)')
        else:
            given = f'entry("{name}", {name}, {dtype}, ({shape}))'
            rounding = f"{low.helper(f'as_{node.dtype}')}({given})" if node.dtype in ("f16", "bf16") else given
            checks.append(f"{name} = {rounding}")
    for symbol, (name, axis) in where.items():
        checks.append(f"{symbol} = {name}.shape[{axis}]")
    checks += needs(unit, instance.where)
    checks += bounds(unit, instance.inputs)
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


def bounds(unit: Unit, tensors: Sequence[p.Tensor]) -> list[str]:
    lines = []
    for tensor in tensors:
        if tensor.below is not None and tensor.name in unit.inputs:
            lines.append(f'below("{tensor.name}", {tensor.name}, {size_code(tensor.below)})')
    return lines


def needs(unit: Unit, where: Sequence[p.SizeCondition]) -> list[str]:
    """Lines that check what the `where` of a spec says of sizes that are read off the inputs."""
    known = symbols(unit)
    lines: list[str] = []
    for condition in where:
        sides = [x for x in (condition.left, condition.right) if not isinstance(x, int)]
        names = sorted({s.name for x in sides for s in x.free_symbols})
        if all(name in known for name in names):
            left, right, span = size_code(condition.left), size_code(condition.right), condition.span
            test = f"({left}) % ({right}) == 0" if condition.op == "%" else f"{left} {condition.op} {right}"
            text = f"{span.source.name.rsplit('/', 1)[-1]}:{span.line} needs {' '.join(span.text.split())}, found "
            found = ", ".join(f"{name} = {{{name}}}" for name in names)
            lines += [f"if not {test}:", f'    raise ValueError({text!r} + f"{found}")']
    return lines


def uses_random(roots: Sequence[ir.Node]) -> bool:
    for node in everything(dict(enumerate(roots))):
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


def one_of(table: str, unit: Unit, path: str) -> str:
    """How the entry of one layer is written, to be formatted with the names of the loop variables.

    >>> one_of("params", Unit(layers={"block.*.W": ((0, 2),)}), "block.*.W").format("l")
    'params[f"block.{l}.W"]'
    """
    parts = path.split("*")
    text = parts[0]
    for (first, _), part in zip(unit.layers[path], parts[1:], strict=True):
        text += "{{{}}}" + part if first == 0 else "{{{} + " + str(first) + "}}" + part
    return f'{table}[f"{text}"]'


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
    names = {k: low.tensor(v) for k, v in outputs.items()}
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
    low.taken |= {"grads", "states"}
    leave = {q for q, g in grads.items() if q in unit.layers and isinstance(g, ir.Part)}
    low.sinks = {grads[q]: one_of("grads", unit, q) for q in leave}
    low.partial = {grads[q] for q in leave if sharing is not None and GRADIENT + q in sharing.shared.partial}
    low.sinks |= {x: one_of("states", unit, q) for q, x in states.items() if q in unit.layers}
    if any(q in unit.layers for q in states):
        low.line("states = {}")
    low.run(forward_roots, list(grads.values()))
    if not low.backward:
        low.line("grads = {}")
    text.used |= low.used
    epilogue: list[str] = []
    known: dict[ir.Node, str] = {}  # one value may be the gradient of several parameters
    for q, g in grads.items():
        if q not in unit.layers:
            value = known.get(g) or (low.tensor(g) if sharing is None else sharing.added(q, low.tensor(g)))
            known.setdefault(g, f'grads["{q}"]')
            epilogue.append(f'grads["{q}"] = {value}')
    for q in (q for q in grads if q in unit.layers and q not in leave):  # of all layers at once: one by one
        steps = [low.fresh("l") for _ in unit.layers[q]]
        counts = ", ".join(str(count) for _, count in unit.layers[q])
        epilogue.append(f"for {', '.join(steps)}{',' * (len(steps) == 1)} in np.ndindex({counts}):")
        place = one_of("grads", unit, q).format(*steps)
        value = f"{low.tensor(grads[q])}[{', '.join(steps)}]"
        epilogue.append(f"    {place} = {value if sharing is None else sharing.added(q, value)}")
    metrics = {k: low.tensor(v) for k, v in values.items() if k != "loss"}
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
    metrics = {k: low.tensor(v) for k, v in outputs.items() if k != "loss"}
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


# ---- parameters --------------------------------------------------------------------------------------


def parameter_table(text: ModuleText, unit: Unit) -> str:
    entries: dict[str, str] = {}
    fan = fans(unit)
    for path, declaration in unit.params.items():
        shape = "".join(f"{size_code(s)}, " for s in declaration.tensor.shape).strip()
        low = Lowering(text.dtype)
        numbers = [Body(low, ()).scalar(Builder(unit, "inference").scalar(a, {})).code for a in declaration.init_args]
        if declaration.initializer in ("glorot", "he", "lecun"):
            numbers += map(size_code, fan[unit.inputs[path]])
        rest = "".join(f", {n}" for n in numbers)
        entries[path] = f'(({shape}), "{declaration.initializer}"{rest})'
    lines = [f"DTYPE = {text.dtype}"]
    if text.half:
        lines = ["#: what parameters, inputs and outputs are kept in", "DTYPE = np.float16"]
        lines += ["#: what is computed with; states, slots and gradients are kept in it", f"FLOAT = {text.dtype}"]
    lines += ["", "#: parameter -> shape, initialiser, its numbers", "PARAMS = {", *table_lines(unit, entries), "}"]
    if unit.states:
        values: dict[str, str] = {}
        for path, state in unit.states.items():
            shape = "".join(f"{size_code(s)}, " for s in state.tensor.shape).strip()
            value = Body(Lowering(text.dtype), ()).scalar(Builder(unit, "inference").scalar(state.value, {})).code
            values[path] = f"(({shape}), {value})"
        lines += ["", "#: state -> shape, value at the start", "STATE = {", *table_lines(unit, values), "}"]
    return "\n".join(lines)


LOOP_NAMES = "lkji"


def table_lines(unit: Unit, entries: dict[str, str]) -> list[str]:
    """The entries of a table by path; those of equal layers in one comprehension."""
    lines: list[str] = []
    done: set[str] = set()
    for path, entry in entries.items():
        if path not in unit.layers:
            lines.append(f'    "{path}": {entry},')
            continue
        stem = path.rpartition("*")[0]
        if stem in done:
            continue
        done.add(stem)
        names = LOOP_NAMES[: len(unit.layers[path])]
        shown = one_of("", unit, path).format(*names)[3:-2].rpartition("}")[0] + "}"
        lines += ["    **{", f'        f"{shown}.{{name}}": entry']
        for name, (_, count) in zip(names, unit.layers[path], strict=True):
            lines.append(f"        for {name} in range({count})")
        lines.append("        for name, entry in {")
        for other, inner in entries.items():
            if other in unit.layers and other.rpartition("*")[0] == stem:
                lines.append(f'            "{other.rpartition("*")[2][1:]}": {inner},')
        lines += ["        }.items()", "    },"]
    return lines


INIT = '''
def init(seed=0):
    """Fresh parameters; the same seed gives the same ones."""
    params = {}
    for number, (name, (shape, kind, *numbers)) in enumerate(PARAMS.items()):
        count = math.prod(shape)
        element = np.arange(count)
        flat = 2.0 * draw(seed, number, element) - 1.0
        normal = np.sqrt(-2.0 * np.log(np.maximum(draw(seed, number, element), 1e-7)))
        normal *= np.cos(2.0 * np.pi * draw(seed, number, element, 1))
        match kind:
            case "zeros" | "given":
                value = np.zeros(count)
            case "ones":
                value = np.ones(count)
            case "constant":
                value = np.full(count, numbers[0])
            case "glorot":
                value = flat * np.sqrt(6.0 / (numbers[0] + numbers[1]))
            case "he":
                value = normal * np.sqrt(2.0 / numbers[0])
            case "lecun":
                value = normal * np.sqrt(1.0 / numbers[0])
            case "normal":
                value = normal * (numbers[0] if numbers else 1.0)
            case "uniform":
                low, high = (-1.0, 1.0) if not numbers else numbers if len(numbers) == 2 else (-numbers[0], numbers[0])
                value = low + (high - low) * (flat + 1.0) / 2.0
            case "identity":
                value = np.eye(*shape)
            case "orthogonal":
                tall = normal.reshape(shape) if shape[0] >= shape[1] else normal.reshape(shape[::-1])
                q, r = np.linalg.qr(tall)
                q = q * np.sign(np.diag(r))
                value = (q if shape[0] >= shape[1] else q.T) * (numbers[0] if numbers else 1.0)
        params[name] = value.reshape(shape).astype(DTYPE)
'''


def init_function(text: ModuleText, unit: Unit) -> str:
    text.used.add("draw")
    lines = [INIT.strip()]
    for path, declaration in unit.params.items():
        if declaration.value is None:
            continue
        low = Lowering(text.dtype)
        builder = Builder(unit, "inference")
        env = {index: k for k, index in enumerate(declaration.indices)}
        shape = declaration.tensor.shape
        node = ir.comp(shape, builder.scalar(declaration.value, env))
        code = low.full(low.comp(node), shape, node.dtype) if isinstance(node, ir.Comp) else low.tensor(node)
        text.used |= low.used
        lines += ["    " + line.text for line in low.lines]
        lines += [f'    params["{q}"][...] = {code}' for q in unit.paths(path)]
    lines.append("    return params")
    if unit.states:
        lines += ["", "", "def init_state():", '    """States as they are before the first step."""']
        kind = "FLOAT" if text.half else "DTYPE"
        lines.append(f"    return {{name: np.full(shape, value, {kind}) for name, (shape, value) in STATE.items()}}")
    return "\n".join(lines)


# ---- the optimiser ---------------------------------------------------------------------------------------


#: what a number that the optimiser reads or writes counts, in operations of a matrix product
UPDATE = 100


def optimizer_functions(text: ModuleText, train: p.TrainProgram, optimizer: p.Instance, unit: Unit) -> list[str]:
    """The update of one parameter, elementwise, and the training step around it."""
    own = Unit()
    builder = Builder(own, "training")
    low = Lowering(text.dtype)
    low.taken -= {"params", "state", "seed"}
    slots = [s.tensor.name for s in optimizer.states]
    arguments: list[str] = []
    for tensor in optimizer.inputs:
        node = ir.intern(ir.Input(tensor.name, "input", tensor.dtype, tensor.shape))
        builder.values[tensor] = Value(node, False)
        low.names[node] = low.fresh(tensor.name)
        arguments.append(tensor.name)
    for state in optimizer.states:
        tensor = state.tensor
        node = ir.intern(ir.Input(tensor.name, "state", tensor.dtype, tensor.shape))
        builder.values[tensor] = Value(node, False)
        low.names[node] = low.fresh(tensor.name)
    builder.statements(optimizer.body)
    updates = gather_factors(own.updates)
    arrays = {name: node for node, name in low.names.items() if name in ("param", *slots)}
    low.memory.targets = {node: arrays[name] for name, node in updates.items() if isinstance(arrays[name], ir.Input)}
    low.may_block = False
    low.run(list(updates.values()))
    text.used |= low.used
    used = "\n".join(line.text for line in low.lines)
    needed = ["param", "grad", *(a for a in arguments if a not in ("param", "grad") and re.search(rf"\b{a}\b", used))]
    lines = [f"def {optimizer.name}({', '.join([*needed, *slots])}):"]
    lines.append(
        '    """One step of the optimiser for one parameter: its new value and those of the slots, in place."""'
    )
    lines += _commented(low.lines)
    for name, node in updates.items():
        if low.tensor(node) != name:
            lines.append(f"    {name}[...] = {low.tensor(node)}")
    hyper = {}
    for tensor in optimizer.inputs:
        if tensor.name in ("param", "grad", "step", "grad_norm"):
            continue
        given = train.optimizer_args.get(tensor.name)
        hyper[tensor.name] = repr(_default(optimizer, tensor.name)) if given is None else _stepped(text, given)
    inputs = [n for n, x in unit.inputs.items() if x.role == "input"]
    step = ["@in_space"] if text.spacious else []
    step.append(f"def train_step({', '.join(['params', 'opt', *inputs, *(['*', 'space'] if text.spacious else [])])}):")
    step.append('    """Loss, gradients and update in one, in place; `opt` also carries the loss and the metrics."""')
    counted = "step" in needed or text.random or any(re.search(r"\bstep\b", x) for x in hyper.values())
    step.append(f'    {"step = " if counted else ""}opt["step"] = opt["step"] + 1')
    call = ["params", *inputs]
    if unit.states:
        call.append('opt["state"]')
    if text.random:
        call.append('seed=opt["seed"] + step')
    if text.spacious:
        call.append("space=space")
    target = "state" if unit.states else "_"
    step.append(f'    opt["loss"], grads, opt["metrics"], {target} = loss_grad_metrics({", ".join(call)})')
    if unit.states:
        step.append('    opt["state"].update(state)')
    if "grad_norm" in needed:
        step.append("    grad_norm = np.sqrt(sum(float(np.sum(np.square(g))) for g in grads.values()))")
    keywords = [f"{n}={n if n in ('step', 'grad_norm') else hyper[n]}" for n in needed if n not in ("param", "grad")]
    # a gradient may be a transposed view, and is only read; the others are written to in place
    first = 'opt["param"][name]' if text.half else "params[name]"
    flat = [first, "np.ascontiguousarray(grad)", *(f'opt["{s}"][name]' for s in slots)]
    names = ["param", "grad", *slots]
    listed = f"({', '.join(flat)})"
    step.append("    flat = {")
    step.append(f"        name: [x.reshape(-1, copy=False) for x in {listed}]")
    step.append("        for name, grad in grads.items()")
    step += ["    }", "", "    def update(name, part):"]
    step.append(f"        {', '.join(names)} = (x[part] for x in flat[name])")
    given = [*names[:2], *keywords, *(f"{s}={s}" for s in slots)]
    step += [f"        {optimizer.name}({', '.join(given)})", ""]
    pieces = f"for part in {low.helper('row_blocks')}(x.size, 1)"
    step.append(f"    parts = [(name, part) for name, (x, *_) in flat.items() {pieces}]")
    work = f"{UPDATE * (len(names) + len(slots) + 1)} * sum(x.size for x, *_ in flat.values())"
    step.append(f"    {low.helper('divide')}(update, parts, {work})")
    if text.half:
        step += ["    for name in grads:", '        params[name][...] = opt["param"][name]']
    text.used |= low.used
    step.append("    return params, opt")
    start = ["def init_opt(params, seed=0):", '    """The optimiser before its first step."""']
    start.append("    return {")
    start.append('        "step": 0,')
    start.append('        "seed": seed,')
    if text.half:
        start.append("        # parameters as the update sees them: small steps would be lost in 16 bits")
        start.append('        "param": {name: value.astype(FLOAT) for name, value in params.items()},')
    kept = ", FLOAT" if text.half else ""
    plain = Lowering(text.dtype)
    for tensor in optimizer.inputs:
        plain.names[builder.values[tensor].tensor] = hyper.get(tensor.name, tensor.name)
    starts = {s.tensor.name: Body(plain, ()).scalar(builder.scalar(s.value, {})).code for s in optimizer.states}
    for s in slots:
        value = starts[s]
        made = f"np.zeros_like(value{kept})" if value in ("0", "0.0") else f"np.full_like(value, {value}{kept})"
        start.append(f'        "{s}": {{name: {made} for name, value in params.items()}},')
    if unit.states:
        start.append('        "state": init_state(),')
    start.append("    }")
    grad = [
        "def loss_and_grad(params, *inputs, **options):",
        '    """The loss of a batch and its gradients by parameter."""',
    ]
    grad.append("    loss, grads, _, _ = loss_grad_metrics(params, *inputs, **options)")
    grad.append("    return loss, grads")
    return ["\n".join(x) for x in (lines, start, grad, step)]


def _default(optimizer: p.Instance, name: str) -> object:
    return getattr(optimizer.statics[name], "value", None)


def _stepped(text: ModuleText, given: p.Expr) -> str:
    """An argument of the optimiser, which may depend on the number of the step."""
    builder = Builder(Unit(), "training")
    low = Lowering(text.dtype)
    for tensor in tensors_in([given]):
        node = ir.intern(ir.Input(tensor.name, "input", tensor.dtype, ()))
        builder.values[tensor] = Value(node, False)
        low.names[node] = tensor.name
    return Body(low, ()).scalar(builder.scalar(given, {})).code

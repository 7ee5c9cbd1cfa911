"""The Python module of a C file as text: the interface of a NumPy module, whose functions are those of the C file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dslc.backends.c.functions import (
    GLOBALS,
    Shell,
    evaluation_function,
    forward_function,
    gradient_functions,
    layout,
    training_step,
    update_functions,
)
from dslc.backends.c.interface import ADJOINTS, Field, Interface, adjoints_macro
from dslc.backends.c.step_functions import step_functions
from dslc.backends.c.torch_module import module_parts
from dslc.backends.numpy.function import ModuleText
from dslc.backends.numpy.manifest import Told, manifest, manifest_entry
from dslc.backends.numpy.module import FLOATS, helper_texts
from dslc.backends.numpy.names import HELPERS, argument
from dslc.backends.numpy.optimizer import LOSS_AND_GRAD, hyperparameters, init_opt
from dslc.backends.numpy.parameters import init_function, parameter_table
from dslc.backends.numpy.weights import functions as weight_functions

from dslc.builder.tables import LOOPS, layer_path
from dslc.builder.unit import Unit
from dslc.guards import symbols
from dslc.ir.interning import within
from dslc.long_lines import folded_text
from dslc.program import Program
from dslc.quoting import docstring, literal, quoted
from dslc.weights.text import IMPORTS as FILE_IMPORTS

_MARK = "# ---- copied into modules ----\n"

#: the end of the check of an argument in a NumPy module, and what stands in its place: C code reads rows
AS_IT_IS = "    return value.astype(dtype, copy=False)"
IN_ROWS = """\
    if value.dtype != dtype or not value.flags.c_contiguous or not value.flags.aligned:
        value = np.array(value, dtype, order="C")
    return value"""

NARROW = '''
def narrow(name, value, dtype):
    """An argument in the dtype that the C code takes, which holds its whole numbers."""
    held = value.astype(dtype)
    if value.dtype.kind in "iu" and (held != value).any():
        raise ValueError(f"{name}: expected numbers that fit into {np.dtype(dtype).name}, found others")
    return held
'''

#: NumPy has no bfloat16: callers have float32 in its place, and C code its bits
BITS = '''
def bits_of_bf16(x):
    """The bits of numbers that bfloat16 has."""
    return np.where(x == x, x.view(np.uint32) >> 16, 0x7FC0).astype(np.uint16)


def from_bf16(bits):
    """The numbers with these bits."""
    return (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
'''

TO_BF16 = '''
def to_bf16(x):
    """The nearest numbers that bfloat16 has, as a parameter is kept."""
    return bits_of_bf16(as_bf16(np.asarray(x, FLOAT))).view(DTYPE)
'''

#: what is said where a parameter has another dtype
SAYS_BITS = (
    '            raise ValueError(f"{of}{name}: expected {np.dtype(dtype)} {table[name][0]}, found',
    """\
            by = ", which to_bf16 makes" if dtype == DTYPE else ""
            raise ValueError(f\"{of}{name}: expected {np.dtype(dtype)} {table[name][0]}{by}, found""",
)

#: in files of NumPy, parameters are floats
AS_FLOATS = """\
    if os.fspath(path).endswith(".npz"):  # NumPy has no bfloat16
        params = {name: from_bf16(value) for name, value in params.items()}
"""

KEPT_AT = '''
def kept_at(cache, name, shape, dtype):
    """The address of an entry of a cache, which is as `init_cache` makes it; in rows, from now on."""
    value = cache[name]
    if np.shape(value) != shape or value.dtype != dtype:
        found = f"{getattr(value, 'dtype', type(value).__name__)} of shape {np.shape(value)}"
        raise ValueError(f"cache[{name!r}]: expected {np.dtype(dtype).name} of shape {shape}, found {found}")
    if type(value) is not np.ndarray or not value.flags.carray:
        value = cache[name] = np.array(value, order="C")
    return address(value)
'''

#: as in a NumPy module, with one look at the numbers: those below 0 are large ones without a sign
BELOW = '''
def below(name, value, limit):
    """Whole numbers used as positions must be in range."""
    if value.view(np.uint64).max() >= limit:
        refuse(name, value, (value < 0) | (value >= limit), f"0 <= value < {limit}")
'''

BESIDE = '''
def text_beside(name):
    """The C text, which `dslc compile` has written beside this file."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{path} is missing: `dslc compile -b c` writes it beside {os.path.basename(__file__)}")
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()
'''


@dataclass(frozen=True)
class Copied:
    """A part of this package that modules carry: its text, and what it imports."""

    text: str
    imports: tuple[str, ...]


@cache
def copied(name: str) -> Copied:
    head, _, text = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8").partition(_MARK)
    imports = re.findall(r"^import ([\w.]+)$", head, re.MULTILINE)
    return Copied(text.strip().replace("  # fmt: skip", ""), tuple(imports))


def python_text(
    program: Program, interface: Interface, source: str, dtype: str, c_text: str | None = None, march: str = "native"
) -> str:
    """The text of NAME.py; with the text of the C file in it, it needs no file beside it."""
    text = ModuleText(program.model.name, source, FLOATS.get(dtype, "np.float32"), dtype)
    shell = Shell(program, interface, text, hidden_names(program, interface))
    blocks, costs, unit, tables = model_functions(shell)
    blocks += training_functions(shell, unit)
    blocks += step_functions(shell)
    forward = shell.entry("forward")
    blocks += module_parts(shell, forward is not None and forward.seed)
    save, files = weight_functions(bool(unit.states))
    save = save.replace("FLOAT", shell.wide)
    if dtype == "bf16":
        writing = "    write_arrays(" if unit.states else "    target = "
        save = re.sub(r"([\w\[\]]+)\.astype\(DTYPE\)", r"to_bf16(\1)", save).replace(writing, AS_FLOATS + writing)
    blocks = [*tables, *blocks, save, manifest(costs)]
    if any("narrow(" in block or "narrow_of_module(" in block for block in blocks):
        blocks.append(NARROW)
    if any("bf16(" in block or "bf16_of_module(" in block for block in blocks):
        blocks.append(BITS)
    if dtype == "bf16":
        blocks.append(TO_BF16)
    if any("kept_at(" in block or "kept_at_of_module(" in block for block in blocks):
        blocks.append(KEPT_AT)
    below = [copied("calling").text, c_functions(shell, unit, c_text, march)]
    called = {name for name in HELPERS if any(f"{name}(" in block for block in (*blocks, *below))}
    called |= {"refuse"} if "below" in called else set()
    own = {HELPERS["entry"]: HELPERS["entry"].replace(AS_IT_IS, IN_ROWS), HELPERS["below"]: BELOW.strip()}
    if dtype == "bf16":
        own[HELPERS["fitting"]] = HELPERS["fitting"].replace(*SAYS_BITS)
    helpers = [own.get(x, x) for x in helper_texts(text.used | called)]
    blocks += ["# ---- what the functions above are made of ----", *helpers]
    body = folded_text("\n\n\n".join(b.strip("\n") for b in blocks))
    parts = [body, "# ---- files of weights ----", files]
    parts += ["# ---- the C code ----", copied("build").text, *([] if c_text is not None else [BESIDE.strip()]), *below]
    standard = {*FILE_IMPORTS, *copied("build").imports, *copied("calling").imports}
    files = f"{interface.prefix}.c" if c_text is None else "the C text at its end"
    title = docstring(f"{text.name}, compiled by dslc from {source}: {files} called from Python; needs numpy alone.")
    head = [title, "", *(f"import {name}" for name in sorted(standard)), "", "import numpy as np"]
    if "sliding_window_view(" in body:
        head.append("from numpy.lib.stride_tricks import sliding_window_view")
    return "\n\n\n".join(["\n".join(head), *parts]) + "\n"


def hidden_names(program: Program, interface: Interface) -> set[str]:
    """The globals of the module that the spec has an input or a size of the same name as."""
    entries = [program.forward, *(x for x in (program.gradient,) if x is not None)]
    taken: set[str] = set()
    for entry in entries:
        with entry.open() as lowered:
            taken |= {*lowered.unit.inputs, *symbols(lowered.unit, argument, argument)}
    return taken & (GLOBALS | {f"c_{x.name}" for x in interface.entries})


def model_functions(shell: Shell) -> tuple[list[str], dict[str, Told], Unit, list[str]]:
    """The functions of the model and of its loss, what they cost, the program whose parameters the module has, and
    these as tables with `init`."""
    program, precision = shell.program, shell.text.precision
    blocks, costs = [], {}
    with program.forward.open() as lowered:
        unit = lowered.unit
        costs["forward"] = manifest_entry(lowered, precision)
        tables = [parameter_table(shell.text, unit), init_function(shell.text, unit)]
    if (entry := shell.entry("forward")) is not None:
        blocks.append(forward_function(shell, entry, program.forward))
    if program.gradient is not None and (entry := shell.entry("loss_grad_metrics")) is not None:
        with program.gradient.open() as lowered:
            unit = lowered.unit
            costs["loss_grad_metrics"] = manifest_entry(lowered, precision)
            tables = [parameter_table(shell.text, unit), init_function(shell.text, unit)]
        blocks += gradient_functions(shell, entry, program.gradient)
        shell.text.random = entry.seed
    if program.evaluation is not None and (entry := shell.entry("evaluate")) is not None:
        blocks.append(evaluation_function(shell, entry, program.evaluation))
    return blocks, costs, unit, tables


def training_functions(shell: Shell, unit: Unit) -> list[str]:
    """`init_opt`, `loss_and_grad`, `update` and `train_step`, where the spec has an optimiser."""
    program, entry = shell.program, shell.entry("update")
    if program.train is None or program.optimizer is None or program.update is None or shell.entry("forward") is None:
        return []
    with within(program.update.table):
        hyper = hyperparameters(shell.text, program.train, program.optimizer)
        start = init_opt(shell.text, program.update, hyper, unit)
    step = training_step(shell, entry, unit, shell.text.random)
    return ["\n".join(start), "\n".join(LOSS_AND_GRAD), *update_functions(shell, entry), step]


def c_functions(shell: Shell, unit: Unit, c_text: str | None, march: str) -> str:
    """The library, the structs of pointers and the functions of the C file, as the module calls them."""
    interface, prefix = shell.interface, shell.interface.prefix
    lines = []
    if c_text is None:
        given = f"text_beside({quoted(f'{prefix}.c')})"
    else:
        given = "C_TEXT"
        lines.append(f"C_TEXT = {raw(c_text)}")
    if any(entry.name in ADJOINTS for entry in interface.entries):
        text = ADJOINT.strip().replace("PREFIX", quoted(prefix)).replace("TEXT", given)
        text = text.replace("MARCH", quoted(march)).replace("DEFINED", quoted(f"-D{adjoints_macro(prefix)}"))
        text = text.replace("THREADS", quoted(f"{prefix}_threads"))
        lines[:0] = [*text.splitlines(), "", ""]
    lines += [
        f"LIBRARY = library({quoted(prefix)}, {given}, {quoted(march)})",
        f"LIBRARY[{quoted(f'{prefix}_threads')}].argtypes = [ctypes.c_int]",
    ]
    lines += ["", "#: the arrays that a C struct of parameters points to, in order; a list has one for each layer"]
    lines += ["PARAMETERS = Table(PARAMS, [", *struct_fields(interface.params, unit), "], DTYPE)"]
    lines.append(f"GRADIENTS = Table(PARAMS, PARAMETERS.fields, {shell.wide})")
    if shell.entry("loss_grad_metrics") is not None:
        lines += ["", "#: the parameters that training changes", trained_names(shell)]
    if shell.entry("update") is not None and shell.program.update is not None:
        slots = literal([*["param"] * shell.text.half, *shell.program.update.slots])
        table = f'Table(PARAMS, PARAMETERS.fields, {shell.wide}, f"opt.{{slot}}.")'
        lines.append(f"SLOTS = {{slot: {table} for slot in {slots}}}")
    if interface.state:
        lines += ["", "STATES = Table(STATE, [", *struct_fields(interface.state, unit), f"], {shell.wide})"]
    lines.append("")
    later = [entry for entry in interface.entries if entry.name in ADJOINTS]
    for entry in later:
        kind = "Saving" if entry.saved == "written" else "Function"
        lines.append(f"c_{entry.name} = Adjoint({kind}, {quoted(entry.name)}, {quoted(layout(entry))})")
    for entry in (x for x in interface.entries if x not in later):
        given = f"LIBRARY, {quoted(prefix)}, {quoted(entry.name)}, {quoted(layout(entry))}"
        lines.append(f"c_{entry.name} = Function({given})")
    lines += [f"{name}_of_module = {name}" for name in sorted(shell.hidden)]
    text = THREADS.strip().replace("THREADS", quoted(f"{prefix}_threads"))
    text = text.replace("ADJOINTS", AND_OF_ADJOINTS.replace("THREADS", quoted(f"{prefix}_threads")) if later else "")
    lines += ["", "", *text.strip().splitlines()]
    return "\n".join(lines)


ADJOINT = '''
class Adjoint:
    """A function for torch: these are compiled, beside all others, when the first of them is called."""

    library, threads = None, 0

    def __init__(self, kind, name, layout):
        self.kind, self.given, self.function = kind, (name, layout), None

    def __call__(self, *fields):
        if Adjoint.library is None:
            Adjoint.library = library(PREFIX, TEXT, MARCH, DEFINED)
            Adjoint.library[THREADS](Adjoint.threads)
        if self.function is None:
            self.function = self.kind(Adjoint.library, PREFIX, *self.given)
        return self.function(*fields)
'''

#: what `threads` does besides
AND_OF_ADJOINTS = """\
    Adjoint.threads = int(count)
    if Adjoint.library is not None:
        Adjoint.library[THREADS](Adjoint.threads)
"""

THREADS = '''
def threads(count):
    """Let the functions above work with so many threads; with 0, with as many as there are processors."""
    LIBRARY[THREADS](int(count))
ADJOINTS'''


def raw(text: str) -> str:
    """A long text as a Python literal that is read as it stands, where that can be."""
    if '"""' in text or text.endswith(('"', "\\")) or "\r" in text or "\0" in text:
        return repr(text)
    return f'r"""{text}"""'


def struct_fields(fields: Sequence[Field], unit: Unit) -> list[str]:
    """What a struct of pointers points to, a line for each field."""
    lines = []
    for x in fields:
        if not x.layers:
            lines.append(f"    {quoted(x.name)},")
            continue
        loops = (f"for {v} in range({count})" for v, count in zip(LOOPS, x.layers, strict=False))
        lines.append(f"    [{layer_path(unit, x.name, LOOPS)} {' '.join(loops)}],")
    return lines


def trained_names(shell: Shell) -> str:
    """The names of the parameters that have gradients, as a line."""
    assert shell.program.gradient is not None
    with shell.program.gradient.open() as lowered:
        unit = lowered.unit
        left = [path for path in unit.params if path not in lowered.gradients()]
        frozen = [quoted(name) for path in left for name in unit.paths(path)]
    if not frozen:
        return "TRAINED = tuple(PARAMS)"
    return f"TRAINED = tuple(name for name in PARAMS if name not in {{{', '.join(frozen)}}})"

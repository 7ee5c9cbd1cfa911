"""Parameters and states: their tables, their first values, their files."""

from __future__ import annotations

from collections.abc import Mapping

from dslc.backends.triton.host import Host
from dslc.backends.triton.numbers import number
from dslc.backends.triton.registry import Registry
from dslc.backends.triton.target import TARGET
from dslc.backends.triton.text import HALF, size_code

from dslc.builder.statements import Builder
from dslc.builder.tables import LOOPS, layer_path, table_lines
from dslc.builder.unit import Unit
from dslc.check import program as p
from dslc.fans import fans
from dslc.ir import nodes as ir
from dslc.ir.algebra import cast
from dslc.passes.elementwise import inlined
from dslc.schedule.plan import Schedule
from dslc.schedule.prepare import scheduled

SAVE = '''
def save(params, path):
    """Write parameters to a safetensors file, or to an .npz file."""
    fitting(params, PARAMS, DTYPE)
    write_arrays(path, file_arrays(path, params))


def load(path, device=None):
    """Read parameters from a safetensors or .npz file; names and shapes must be those of this model."""
    return stored(path, PARAMS, PARAMS, device)
'''

SAVE_WITH_STATE = '''
def save(params, path, state=None):
    """Write parameters and states as safetensors or .npz; without `state`, those before the first step."""
    fitting(params, PARAMS, DTYPE)
    write_arrays(path, file_arrays(path, {**params, **(init_state() if state is None else state)}))


def load(path, device=None):
    """Read parameters from a safetensors or .npz file; names and shapes must be those of this model."""
    return stored(path, PARAMS, {**PARAMS, **STATE}, device)


def load_state(path, device=None):
    """Read the states that stand beside the parameters in a file."""
    return stored(path, STATE, {**PARAMS, **STATE}, device, FLOAT)
'''

STORED = '''
def stored(path, wanted, known, device, dtype=DTYPE):
    """Some tensors of a file that must hold all that are known, and nothing else."""
    found = read_known(path, known)
    device = device or default_device()
    return {name: torch.tensor(found[name]).to(device=device, dtype=dtype) for name in wanted}


def file_arrays(path, tensors):
    """Tensors as arrays; bfloat16, which NumPy lacks, as the upper half of a float32, in .npz files as a whole one."""
    arrays = {}
    for name, value in tensors.items():
        value = value.detach().contiguous().cpu()
        if value.dtype != torch.bfloat16:
            arrays[name] = value.numpy()
        elif str(path).endswith(".npz"):
            arrays[name] = value.float().numpy()
        else:
            arrays[name] = value.view(torch.int16).numpy().view("V2")
    return arrays
'''

ENTRY = '''
def default_device():
    return "cuda" if torch.cuda.is_available() else "cpu"


def entry(name, value, dtype, shape, device):
    """An argument as a contiguous tensor of the expected shape; names in the shape take their size from it."""
    value = torch.as_tensor(value, device=device)
    whole = not value.is_floating_point() and not value.is_complex()
    if value.is_complex() or not (whole if not dtype.is_floating_point else value.dtype != torch.bool):
        raise TypeError(f"{name}: expected {str(dtype)[6:]}, found {str(value.dtype)[6:]}")
    if value.dim() != len(shape):
        raise ValueError(f"{name}: expected {len(shape)} axes {shape}, found the shape {tuple(value.shape)}")
    for axis, (found, wanted) in enumerate(zip(value.shape, shape)):
        if isinstance(wanted, int) and found != wanted:
            raise ValueError(f"{name}: expected {wanted} along axis {axis}, found {found}")
    if not value.numel():
        raise ValueError(f"{name}: expected at least one entry along each axis, found the shape {tuple(value.shape)}")
    return value.to(dtype).contiguous()


def fitting(values, table, dtype, of=""):
    """Kernels read tensors as they lie in memory: those of a table must have its shapes, row by row, in one dtype."""
    if not isinstance(values, dict):
        found = type(values).__name__
        raise ValueError(f"{of.rstrip('.') or 'params'}: expected a dict of tensors by name, found {found}")
    for name, (shape, *_) in table.items():
        if name not in values:
            raise ValueError(f"{of}{name} is missing")
        value = values[name]
        if not isinstance(value, torch.Tensor):
            raise ValueError(f"{of}{name}: expected {str(dtype)[6:]} {shape}, found {type(value).__name__}")
        if tuple(value.shape) != shape or value.dtype != dtype:
            found = f"{str(value.dtype)[6:]} {tuple(value.shape)}"
            raise ValueError(f"{of}{name}: expected {str(dtype)[6:]} {shape}, found {found}")
        if not value.is_contiguous():
            raise ValueError(f"{of}{name}: expected a contiguous tensor, found the strides {value.stride()}")
    if len(values) != len(table):
        raise ValueError(f"{of}{min(values.keys() - table.keys())} is unknown: expected {', '.join(table)}")


def below(name, value, limit):
    """Whole numbers used as positions must be in range."""
    wrong = (value < 0) | (value >= limit)
    if wrong.any():
        at = tuple(wrong.nonzero()[0].tolist())
        raise ValueError(f"{name}: expected 0 <= value < {limit}, found {value[at].item()} at {at}")
'''

BINARY = '''
def binary(name, value):
    """Entries must be 0 or 1."""
    wrong = (value != 0) & (value != 1)
    if wrong.any():
        at = tuple(wrong.nonzero()[0].tolist())
        raise ValueError(f"{name}: expected 0 or 1, found {value[at].item()} at {at}")
'''

SIMPLEX = '''
def simplex(name, value, off=1e-3):
    """Entries must be probabilities that add up to 1 along the last axis."""
    wrong = ~(value >= 0)
    if wrong.any():
        at = tuple(wrong.nonzero()[0].tolist())
        raise ValueError(f"{name}: expected no entry below 0, found {value[at].item()} at {at}")
    total = value.sum(-1, dtype=torch.float64)
    wrong = ~(abs(total - 1) <= max(off, torch.finfo(value.dtype).eps))
    if wrong.any():
        at = tuple(wrong.nonzero()[0].tolist())
        raise ValueError(f"{name}: expected a sum of 1 along the last axis, found {total[at].item()} at {at}")
'''

#: functions that check values of inputs, by name
VALUES = {"binary": BINARY, "simplex": SIMPLEX}

APART = '''
def tensors_in(*values):
    """The tensors of some dictionaries and tuples, each with what holds it and its place there."""
    for value in values:
        for place, x in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(x, torch.Tensor):
                yield value, place, x
            elif isinstance(x, (dict, tuple, list)):
                yield from tensors_in(x)


def apart(results, *given):
    """Results in memory of their own: what lies in an argument or in another result is copied."""
    results = list(results) if isinstance(results, tuple) else [results]
    owners = {}
    for _, _, x in tensors_in(given):
        owners.setdefault(x.untyped_storage().data_ptr(), []).append(x)
    for held, place, x in tensors_in(results):
        others = owners.setdefault(x.untyped_storage().data_ptr(), [])
        first, last = x.data_ptr(), x.data_ptr() + x.nbytes
        free = x.is_contiguous() and all(y.is_contiguous() for y in others)
        if not free or any(first < y.data_ptr() + y.nbytes and y.data_ptr() < last for y in others):
            x = held[place] = x.clone()
        others.append(x)
    return tuple(results) if len(results) > 1 else results[0]
'''

#: the device functions that draw the entries of a parameter, and how `init` launches one
UNIFORM, NORMAL = "uniform_values", "normal_values"
LAUNCHED = (UNIFORM, NORMAL, "orthonormal")
LAUNCH = "{}[grid](value, seed, number, count, {}, {}, BLOCK=1024)"

#: what each initialiser does with `value`, which is 0; `{numbers}` is what its numbers in the table mean
INITIALISERS: dict[str, list[str]] = {
    "zeros": [],
    "given": [],
    "ones": ["value.fill_(1.0)"],
    "constant": ["value.fill_(numbers[0])"],
    "glorot": ["scale = math.sqrt(6.0 / (numbers[0] + numbers[1]))", LAUNCH.format(UNIFORM, "0.0", "scale")],
    "he": [LAUNCH.format(NORMAL, "0.0", "math.sqrt(2.0 / numbers[0])")],
    "lecun": [LAUNCH.format(NORMAL, "0.0", "math.sqrt(1.0 / numbers[0])")],
    "normal": ["scale = {numbers}", LAUNCH.format(NORMAL, "0.0", "scale")],
    "uniform": [
        "low, high = {numbers}",
        LAUNCH.format(UNIFORM, "0.5 * (low + high)", "0.5 * (high - low)"),
    ],
    "orthogonal": [
        LAUNCH.format(NORMAL, "0.0", "1.0"),
        "rows, columns, gain = max(shape), min(shape), {numbers}",
        "tall = value.view(rows, columns)",
        "orthonormal[(1,)](tall, rows, columns, gain, BLOCK=triton.next_power_of_2(rows))",
        "value = (tall if shape[0] >= shape[1] else tall.t()).contiguous()",
    ],
    "identity": ["value.fill_diagonal_(1.0)"],
}

#: what the numbers of an initialiser mean, by how many there are
NUMBERS = {
    "normal": ["1.0", "numbers[0]"],
    "uniform": ["(-1.0, 1.0)", "(-numbers[0], numbers[0])", "numbers"],
    "orthogonal": ["1.0", "numbers[0]"],
}


def init_lines(counts: Mapping[str, set[int]], dtype: str) -> list[str]:
    """`init` for parameters with these initialisers, each with the counts of numbers that it is given.

    >>> print(*init_lines({"zeros": {0}, "ones": {0}}, "DTYPE")[-5:], sep="\\n")
            value = torch.zeros(shape, dtype=DTYPE, device=device)
            match kind:
                case "ones":
                    value.fill_(1.0)
            params[name] = value
    """
    lines = ["def init(seed=0, device=None):", '    """Fresh parameters; the same seed gives the same ones."""']
    if not counts:
        return [*lines, "    params = {}"]
    cases: list[str] = []
    for kind in (x for x, done in INITIALISERS.items() if done and x in counts):
        found = sorted(counts[kind])
        texts = [NUMBERS[kind][k] for k in found] if kind in NUMBERS else [""]
        tests = [f"len(numbers) == {k}" if k else "not numbers" for k in found]
        choices = [f"{x} if {test} else " for x, test in zip(texts[:-1], tests, strict=False)]
        cases.append(f'    case "{kind}":')
        cases += [f"        {x.replace('{numbers}', ''.join(choices) + texts[-1])}" for x in INITIALISERS[kind]]
    code = "\n".join(cases)
    draws = "[grid]" in code
    entry = f"name, (shape, {'kind, ' if cases else ''}*{'numbers' if 'numbers' in code else '_'})"
    lines += ["    device = device or default_device()", "    params = {}"]
    entry, table = (f"number, ({entry})", "enumerate(PARAMS.items())") if draws else (entry, "PARAMS.items()")
    lines.append(f"    for {entry} in {table}:")
    lines.append(f"        value = torch.zeros(shape, dtype={dtype}, device=device)")
    if draws:
        lines += ["        count = math.prod(shape)", "        grid = (triton.cdiv(count, 1024),)"]
    lines += [f"        {x}" for x in (["match kind:", *cases] if cases else [])]
    return [*lines, f"        params[name] = value{'' if dtype == 'DTYPE' else '.to(DTYPE)'}"]


def in_one_dtype(text: str) -> str:
    """A text for a module that keeps its parameters in the type that it computes with."""
    return text.replace(".to(DTYPE)", "").replace(", FLOAT)", ")").replace("FLOAT", "DTYPE")


def parameter_table(registry: Registry, unit: Unit) -> str:
    entries: dict[str, str] = {}
    fan = fans(unit)
    for path, declaration in unit.params.items():
        shape = "".join(f"{size_code(s)}, " for s in declaration.tensor.shape).strip()
        builder = Builder(unit, "inference")
        numbers = [number(builder.scalar(a, {}), {}, unit.inputs[path]) for a in declaration.init_args]
        if declaration.initializer in ("glorot", "he", "lecun"):
            numbers += map(size_code, fan[unit.inputs[path]])
        entries[path] = f'(({shape}), "{declaration.initializer}"{"".join(f", {n}" for n in numbers)})'
    lines = ["#: what parameters and tensors are kept in", f"DTYPE = {registry.param_dtype}"]
    if registry.dtype in HALF:
        lines += [
            "#: what is computed with; states, slots and gradients are kept in it",
            f"FLOAT = {registry.torch_dtype}",
        ]
    lines += ["", "#: parameter -> shape, initialiser, its numbers", "PARAMS = {", *table_lines(unit, entries), "}"]
    if unit.states:
        values: dict[str, str] = {}
        for path, state in unit.states.items():
            shape = "".join(f"{size_code(s)}, " for s in state.tensor.shape).strip()
            value = number(Builder(unit, "inference").scalar(state.value, {}), {}, unit.inputs[path])
            values[path] = f"(({shape}), {value})"
        lines += ["", "#: state -> shape, value at the start", "STATE = {", *table_lines(unit, values), "}"]
    return "\n".join(lines)


def init_functions(registry: Registry, unit: Unit) -> list[str]:
    """`init`, with the parameters that the spec gives a formula, and `init_state`."""
    wide = registry.shown("f32")
    counts: dict[str, set[int]] = {}
    for declaration in unit.params.values():
        counts.setdefault(declaration.initializer, set()).add(len(declaration.init_args))
    lines = init_lines(counts, "DTYPE" if wide == "DTYPE" else "FLOAT")
    registry.helpers |= {x for x in LAUNCHED if f"{x}[" in "\n".join(lines)}
    for path, declaration in unit.params.items():
        if declaration.value is not None:
            lines += given(registry, unit, path, declaration)
    lines.append("    return params")
    blocks = ["\n".join(lines)]
    if unit.states:
        state = ["def init_state(device=None):", '    """States as they are before the first step."""']
        state.append("    device = device or default_device()")
        state.append(
            f"    return {{k: torch.full(shape, v, dtype={wide}, device=device) for k, (shape, v) in STATE.items()}}"
        )
        blocks.append("\n".join(state))
    return blocks


def given(registry: Registry, unit: Unit, path: str, declaration: p.ParamDecl) -> list[str]:
    """The lines that compute a parameter from its formula."""
    assert declaration.value is not None
    builder = Builder(unit, "inference")
    env = {index: k for k, index in enumerate(declaration.indices)}
    shape = declaration.tensor.shape
    value = cast(builder.scalar(declaration.value, env), "float")  # parameters are floats, also those that are `= 1`
    node = inlined({path: ir.comp(shape, value, name=path)})[path]
    host = Host(registry)
    host.taken |= {*LAUNCHED, "enumerate"}  # which the lines before need
    host.around.indent = 1
    host.compute(Schedule({path: node}, scheduled([node], TARGET)))
    as_kept = ".to(DTYPE)" if registry.dtype in HALF else ""
    if path not in unit.layers:
        return [*host.lines, f'    params["{path}"] = {host.tensor(node)}{as_kept}']
    loops = [f"for {v} in range({count}):" for v, (_, count) in zip(LOOPS, unit.layers[path], strict=False)]
    lines = [f"{'    ' * (k + 1)}{loop}" for k, loop in enumerate(loops)]
    target = f"params[{layer_path(unit, path, LOOPS)}]"
    return [*host.lines, *lines, f"{'    ' * (len(loops) + 1)}{target} = {host.tensor(node)}{as_kept or '.clone()'}"]

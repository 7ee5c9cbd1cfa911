"""The parameters and states of a module: tables of their shapes, and `init`."""

from __future__ import annotations

from collections.abc import Sequence

from dslc.backends.numpy.body import Body
from dslc.backends.numpy.function import ModuleText
from dslc.backends.numpy.statement import Lowering
from dslc.backends.numpy.text import atom, constant, shape_code, size_code

from dslc.builder.statements import Builder
from dslc.builder.tables import LOOPS, layer_path, table_lines
from dslc.builder.unit import Unit
from dslc.fans import fans
from dslc.ir import nodes as ir


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


def parameter_table(text: ModuleText, unit: Unit) -> str:
    entries: dict[str, str] = {}
    fan = fans(unit)
    for path, declaration in unit.params.items():
        shape = shape_code(declaration.tensor.shape)
        low = Lowering(text.dtype)
        numbers = [Body(low, ()).scalar(Builder(unit, "inference").scalar(a, {})).code for a in declaration.init_args]
        if declaration.initializer in ("glorot", "he", "lecun"):
            numbers += map(size_code, fan[unit.inputs[path]])
        match declaration.initializer, numbers:
            case "uniform", []:
                numbers = ["-1.0", "1.0"]
            case "uniform", [most]:
                numbers = [f"-{atom(most)}", most]
            case "normal" | "orthogonal", []:
                numbers = ["1.0"]
        rest = "".join(f", {n}" for n in numbers)
        entries[path] = f'({shape}, "{declaration.initializer}"{rest})'
    lines = [f"DTYPE = {text.dtype}"]
    if text.half:
        lines = ["#: what parameters, inputs and outputs are kept in", "DTYPE = np.float16"]
        if text.precision == "bf16":  # which modules alone have whose functions do not compute with NumPy
            lines = ["#: what parameters are kept in: bfloat16, of which NumPy sees the bits", 'DTYPE = np.dtype("V2")']
        lines += ["#: what is computed with; states, slots and gradients are kept in it", f"FLOAT = {text.dtype}"]
    lines += ["#: parameter -> shape, initialiser, its numbers", "PARAMS = {", *table_lines(unit, entries), "}"]
    if unit.states:
        values: dict[str, str] = {}
        for path, state in unit.states.items():
            shape = shape_code(state.tensor.shape)
            value = Body(Lowering(text.dtype), ()).scalar(Builder(unit, "inference").scalar(state.value, {})).code
            values[path] = f"({shape}, {value})"
        lines += ["", "#: state -> shape, value at the start", "STATE = {", *table_lines(unit, values), "}"]
    return "\n".join(lines)


#: what each initialiser makes of the shape and the numbers in the table; those without a line, zeros
INITIALISERS = {
    "zeros": [],
    "given": [],
    "ones": ["1"],
    "constant": ["numbers[0]"],
    "glorot": ["(2 * draw(seed, number, np.arange(value.size).reshape(shape)) - 1) * np.sqrt(6 / sum(numbers))"],
    "he": ["normal_draws(seed, number, shape) * np.sqrt(2 / numbers[0])"],
    "lecun": ["normal_draws(seed, number, shape) * np.sqrt(1 / numbers[0])"],
    "normal": ["normal_draws(seed, number, shape) * numbers[0]"],
    "uniform": [
        "low, high = numbers",
        "low + (high - low) * draw(seed, number, np.arange(value.size).reshape(shape))",
    ],
    "identity": ["np.eye(*shape)"],
    "orthogonal": [
        "tall = normal_draws(seed, number, shape if shape[0] >= shape[1] else shape[::-1])",
        "q, r = np.linalg.qr(tall)",
        "q = q * np.sign(np.diag(r))",
        "(q if shape[0] >= shape[1] else q.T) * numbers[0]",
    ],
}


def init_lines(kinds: Sequence[str], dtype: str) -> list[str]:
    """`init` for parameters with these initialisers."""
    lines = ["def init(seed=0):", '    """Fresh parameters; the same seed gives the same ones."""']
    if not kinds:
        return [*lines, "    params = {}"]
    cases: dict[tuple[str, ...], list[str]] = {}
    for kind in INITIALISERS:
        if kind in kinds and INITIALISERS[kind]:
            cases.setdefault(tuple(INITIALISERS[kind]), []).append(f'"{kind}"')
    code = " ".join(x for case in cases for x in case)
    number, head = ("number, ", "enumerate(PARAMS.items())") if "number," in code else ("", "PARAMS.items()")
    kind, made = (" kind,", "value = params[name]") if cases else ("", "params[name]")
    entry = f"name, (shape,{kind} *{'numbers' if 'numbers' in code else '_'})"
    lines += ["    params = {}", f"    for {f'number, ({entry})' if number else entry} in {head}:"]
    lines.append(f"        {made} = np.zeros(shape, {dtype})")
    word = "if"
    for (*before, value), (kind, *_) in cases.items():
        lines += [f"        {word} kind == {kind}:", *(f"            {x}" for x in (*before, f"value[...] = {value}"))]
        word = "elif"
    return lines


def init_function(text: ModuleText, unit: Unit) -> str:
    bits = text.precision == "bf16"
    kinds = [declaration.initializer for declaration in unit.params.values()]
    lines = init_lines(kinds, "FLOAT" if bits else "DTYPE")
    text.used |= {name for name in ("draw", "normal_draws") if any(f"{name}(" in line for line in lines)}
    loops: list[int] = []  # around the last line
    for path, declaration in unit.params.items():
        if declaration.value is None:
            continue
        low = Lowering(text.dtype, set(LOOPS))
        builder = Builder(unit, "inference")
        env = {index: k for k, index in enumerate(declaration.indices)}
        shape = declaration.tensor.shape
        node = ir.comp(shape, builder.scalar(declaration.value, env))
        if isinstance(node, ir.Comp) and isinstance(node.body, ir.Const):
            code = constant(node.body)
        else:
            code = low.full(low.comp(node), shape, node.dtype) if isinstance(node, ir.Comp) else low.tensor(node)
        text.used |= low.used
        lines += ["    " + line.text for line in low.lines]
        if path in unit.layers:
            counts = [count for _, count in unit.layers[path]]
            inner = "    " * (1 + len(counts))
            if counts != loops or low.lines:
                lines += [f"{'    ' * k}for {LOOPS[k - 1]} in range({count}):" for k, count in enumerate(counts, 1)]
            lines.append(f"{inner}params[{layer_path(unit, path, LOOPS)}][...] = {code}")
            loops = counts
        else:
            lines.append(f'    params["{path}"][...] = {code}')
            loops = []
    made = "{name: to_bf16(value) for name, value in params.items()}" if bits else "params"
    lines.append(f"    return {made}")
    if unit.states:
        lines += ["", "", "def init_state():", '    """States as they are before the first step."""']
        kind = "FLOAT" if text.half else "DTYPE"
        lines.append(f"    return {{name: np.full(shape, value, {kind}) for name, (shape, value) in STATE.items()}}")
    return "\n".join(lines)

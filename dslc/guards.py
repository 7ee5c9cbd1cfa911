"""Lines of generated functions that check what a spec says of sizes: the same on all backends written in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dslc.builder.build import Unit
from dslc.check import program as p
from dslc.quoting import quoted
from dslc.sizes import Facts, Size, Symbol, show


def symbols(unit: Unit, size_name: Callable[[str], str], argument: Callable[[str], str]) -> dict[str, tuple[str, int]]:
    """Where each symbolic size can be read off, as the module calls them: input and axis."""
    found: dict[str, tuple[str, int]] = {}
    for name, x in unit.inputs.items():
        for axis, size in enumerate(x.shape if x.role == "input" else ()):
            if isinstance(size, Symbol):
                found.setdefault(size_name(size.name), (argument(name), axis))
    return found


def agreement(unit: Unit, code: Callable[[Size], str], argument: Callable[[str], str] = str) -> list[str]:
    """Lines that compare the sizes of inputs with those that were read off other inputs, where they must be equal."""
    inputs = [(name, x) for name, x in unit.inputs.items() if x.role == "input"]
    known = {s.name for _, x in inputs for s in x.shape if isinstance(s, Symbol)}
    origin: dict[str, str] = {}
    lines: list[str] = []
    for name, x in inputs:
        for axis, size in enumerate(x.shape):
            if isinstance(size, Symbol) and size.name not in origin:
                origin[size.name] = name
            elif not isinstance(size, int) and all(s.name in known for s in size.free_symbols):
                as_in = f", as in {origin[size.name]}" if isinstance(size, Symbol) and origin[size.name] != name else ""
                found, wanted = f"{argument(name)}.shape[{axis}]", code(size)
                text = f"{name}: expected {show(size)} = {{{wanted}}} along axis {axis}{as_in}, found {{{found}}}"
                lines += [f"if {found} != {wanted}:", f'    raise ValueError(f"{text}")']
    return lines


def promises(
    unit: Unit, instance: p.Instance, code: Callable[[Size], str], argument: Callable[[str], str] = str
) -> list[str]:
    """All that every entry of a module checks of its inputs, beside shapes and dtypes, once their sizes have names."""
    return [
        *agreement(unit, code, argument),
        *needs(unit, instance.where, code),
        *values(unit, instance.inputs, code, argument),
    ]


def values(
    unit: Unit, tensors: Iterable[p.Tensor], code: Callable[[Size], str], argument: Callable[[str], str] = str
) -> list[str]:
    """Lines that check what a spec says of the entries of inputs: `< V`, `binary`, `simplex`."""
    lines = []
    for tensor in tensors:
        if tensor.name in unit.inputs:
            given = f"{quoted(tensor.name)}, {argument(tensor.name)}"
            lines += [] if tensor.below is None else [f"below({given}, {code(tensor.below)})"]
            rounded = tensor.refinement == "simplex" and unit.inputs[tensor.name].dtype == "bf16"
            given += ", 2**-7" if rounded else ""
            lines += [] if tensor.refinement is None else [f"{tensor.refinement}({given})"]
    return lines


def fitting(unit: Unit, has_states: bool, state_dtype: str) -> list[str]:
    """Lines that compare parameters and states with the tables of the module: names, shapes, dtypes."""
    lines = ["fitting(params, PARAMS, DTYPE)"] if unit.params else []
    return [*lines, f"fitting(state, STATE, {state_dtype})"] if has_states else lines


def known_sizes(unit: Unit, where: Sequence[p.SizeCondition]) -> Facts:
    """What holds of sizes once `needs` has been checked."""
    known = {s.name for x in unit.inputs.values() if x.role == "input" for s in x.shape if isinstance(s, Symbol)}
    facts = Facts()
    for condition in where:
        left, right = condition.left, condition.right
        free = {s.name for x in (left, right) if not isinstance(x, int) for s in x.free_symbols}
        if free <= known and condition.op in ("<", "<="):
            facts.assume_nonnegative(right - left - (condition.op == "<"))
        if free <= known and condition.op in (">", ">="):
            facts.assume_nonnegative(left - right - (condition.op == ">"))
    return facts


#: what a comparison of whole numbers is where it does not hold
OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def needs(unit: Unit, where: Sequence[p.SizeCondition], code: Callable[[Size], str]) -> list[str]:
    """Lines that check what the `where` of a spec says of sizes that are read off the inputs."""
    shapes = (x.shape for x in unit.inputs.values() if x.role == "input")
    known = {s.name for shape in shapes for s in shape if isinstance(s, Symbol)}
    lines: list[str] = []
    for condition in where:
        sides = [x for x in (condition.left, condition.right) if not isinstance(x, int)]
        names = {s.name: code(s) for x in sides for s in sorted(x.free_symbols, key=lambda s: s.name)}
        if all(name in known for name in names):
            left, right, span = code(condition.left), code(condition.right), condition.span
            wrong = f"({left}) % ({right}) != 0" if condition.op == "%" else f"{left} {OPPOSITE[condition.op]} {right}"
            text = f"{span.place} needs {' '.join(span.text.split())}, found "
            found = ", ".join(f"{name} = {{{names[name]}}}" for name in sorted(names))
            message = f'{quoted(text)} + f"{found}"' if {"{", "}"} & {*text} else f'f{quoted(text)[:-1]}{found}"'
            lines += [f"if {wrong}:", f"    raise ValueError({message})"]
    return lines

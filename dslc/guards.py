"""Lines of generated functions that check what a spec says of sizes: the same on all backends written in Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence

from dslc.check import program as p
from dslc.ir.build import Refusal, Unit
from dslc.sizes import Size, Symbol


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
                text = f"{name}: expected {wanted} = {{{wanted}}} along axis {axis}{as_in}, found {{{found}}}"
                lines += [f"if {found} != {wanted}:", f'    raise ValueError(f"{text}")']
    return lines


def refuse_clashes(text: str, model: p.Instance, names: Iterable[str], fixed: Collection[str]) -> None:
    """Refuse inputs and sizes whose names mean something in the text of a module: they would hide it there.

    `fixed` are names that functions of the module have for other things; what they call is found in the text.
    """
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    called = set(re.findall(r"(?<![\w.])(?<!def )([A-Za-z_]\w*)\(", code)) | set(re.findall(r"\w+_of_rows\b", code))
    for name in names:
        if name in fixed or name in called:
            span = next((x.span for x in model.inputs if x.name == name), model.span)
            raise Refusal(f"an input or a size of the name `{name}`, which means something in the module,", span)


def needs(unit: Unit, where: Sequence[p.SizeCondition], code: Callable[[Size], str]) -> list[str]:
    """Lines that check what the `where` of a spec says of sizes that are read off the inputs."""
    shapes = (x.shape for x in unit.inputs.values() if x.role == "input")
    known = {s.name for shape in shapes for s in shape if isinstance(s, Symbol)}
    lines: list[str] = []
    for condition in where:
        sides = [x for x in (condition.left, condition.right) if not isinstance(x, int)]
        names = sorted({s.name for x in sides for s in x.free_symbols})
        if all(name in known for name in names):
            left, right, span = code(condition.left), code(condition.right), condition.span
            test = f"({left}) % ({right}) == 0" if condition.op == "%" else f"{left} {condition.op} {right}"
            text = f"{span.source.name.rsplit('/', 1)[-1]}:{span.line} needs {' '.join(span.text.split())}, found "
            found = ", ".join(f"{name} = {{{name}}}" for name in names)
            lines += [f"if not {test}:", f'    raise ValueError({text!r} + f"{found}")']
    return lines

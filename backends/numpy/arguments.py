"""The arguments of a generated function: how they are checked, and what their parts are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dslc.backends.numpy.function import ModuleText
from dslc.backends.numpy.names import OWN, argument
from dslc.backends.numpy.parameters import one_of
from dslc.backends.numpy.statement import Lowering
from dslc.backends.numpy.text import DTYPES, size_code

from dslc.builder.build import Unit
from dslc.guards import agreement, fitting, known_sizes, needs, symbols, values
from dslc.ir import nodes as ir
from dslc.ir.interning import table
from dslc.passes.transform import everything
from dslc.pipeline import Lowered
from dslc.program import Entry
from dslc.quoting import quoted
from dslc.size_names import SizeNames, told_apart
from dslc.sizes import Polynomial, Symbol, show


@dataclass
class Prepared:
    """A lowering whose inputs have names, the arguments, and the lines that check them and name what they hold."""

    low: Lowering
    arguments: list[str]
    prologue: list[str]


def prepare(text: ModuleText, entry: Entry, program: Lowered) -> Prepared:
    unit, roots = program.unit, list(program.outputs.values())
    low = Lowering(text.dtype)
    where = symbols(unit, argument, argument)
    inputs = [(n, x) for n, x in unit.inputs.items() if x.role == "input"]
    states = [(n, x) for n, x in unit.inputs.items() if x.role == "state"]
    arguments = ["params", *(argument(n) for n, _ in inputs)]
    low.taken |= {*where, *arguments}
    low.facts = known_sizes(unit, entry.instance.where)
    limits = {x.name: x.below for x in entry.instance.inputs if isinstance(x.below, int) and x.refinement is None}
    prologue = fitting(unit, bool(states), "FLOAT" if text.half else "DTYPE")
    for name, node in inputs:
        low.names[node] = argument(name)
        prologue.append(f"{argument(name)} = {checked(text, low, name, node, limits.get(name))}")
    prologue += [f"{symbol} = {name}.shape[{axis}]" for symbol, (name, axis) in where.items()]
    prologue += name_sizes(low, unit)
    prologue += agreement(unit, size_code, argument)
    prologue += needs(unit, entry.instance.where, size_code)
    prologue += values(unit, [x for x in entry.instance.inputs if x.name not in limits], size_code, argument)
    if states:
        arguments.append("state")
        bind(low, unit, "state", states)
    if uses_random(roots):
        arguments.append("seed=0")
    prologue += widened(text, roots)
    bind_params(low, unit, roots)
    return Prepared(low, arguments, prologue)


def name_sizes(low: Lowering, unit: Unit) -> list[str]:
    """Lines that compute the sizes that the spec names; from here on the function says them by these names."""
    names = table().size_names = SizeNames()
    known = {s.name for x in unit.inputs.values() if x.role == "input" for s in x.shape if isinstance(s, Symbol)}
    lines: list[str] = []
    for name, size in told_apart(unit.sizes, known, low.taken | known | OWN):
        lines.append(f"{name} = {size_code(size)}")
        low.taken.add(name)
        assert isinstance(size, Polynomial)
        names.add(name, size)
    return lines


def checked(text: ModuleText, low: Lowering, name: str, node: ir.Input, limit: int | None = None) -> str:
    """The text of an argument after its dtype, its shape and, if it has one, its limit were compared."""
    shape = ", ".join(quoted(show(s)) if not isinstance(s, int) else f"{s}" for s in node.shape)
    shape += "," if len(node.shape) == 1 else ""
    dtype = low.numpy_dtype(node.dtype) if node.dtype in ("float", "f32") else DTYPES[node.dtype]
    if text.half and node.dtype in ("float", "f32") and node.shape:
        return f'entry("{name}", {argument(name)}, DTYPE, ({shape})).astype(FLOAT)'
    given = f'entry("{name}", {argument(name)}, {dtype}, ({shape}){"" if limit is None else f", {limit}"})'
    return f"{low.helper(f'as_{node.dtype}')}({given})" if node.dtype in ("f16", "bf16") else given


def uses_random(roots: Sequence[ir.Node]) -> bool:
    nodes = everything({str(k): x for k, x in enumerate(roots)})
    return any(isinstance(s, ir.Rand) for node in nodes for b in ir.bodies(node) for s in ir.scalars(b))


def bind(low: Lowering, unit: Unit, table: str, inputs: Sequence[tuple[str, ir.Input]]) -> None:
    """How parameters or states are written: as entries of their table, in loops by the number of the layer."""
    for path, node in inputs:
        code = one_of(table, unit, path) if path in unit.layers else f'{table}["{path}"]'
        if node.dtype in ("f16", "bf16"):
            code = f"{low.helper(f'as_{node.dtype}')}({code})"
        if path in unit.layers:
            low.layers.stars[node] = code
        else:
            low.names[node] = code


def bind_params(low: Lowering, unit: Unit, roots: Sequence[ir.Node]) -> None:
    needed = {x for x in ir.schedule(tuple(roots)) if isinstance(x, ir.Input) and x.role == "param"}
    bind(low, unit, "params", [(path, x) for path, x in unit.inputs.items() if x in needed])


def widened(text: ModuleText, roots: Sequence[ir.Node]) -> list[str]:
    """Parameters that are kept in 16 bits are computed with in 32."""
    needed = any(isinstance(x, ir.Input) and x.role == "param" for x in ir.schedule(tuple(roots)))
    return ["params = {name: value.astype(FLOAT) for name, value in params.items()}"] if text.half and needed else []

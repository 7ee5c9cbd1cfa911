"""Functions of a generated module: their arguments, the checks of these, and the tables that they give back."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from dslc.backends.triton.host import Host
from dslc.backends.triton.registry import Registry
from dslc.backends.triton.target import TARGET
from dslc.backends.triton.text import HOST, argument, of_statement, size_code, size_name

from dslc.builder.build import Unit
from dslc.builder.tables import LOOPS, layer_path
from dslc.check import program as p
from dslc.guards import fitting, promises, symbols
from dslc.ir import nodes as ir
from dslc.ir.namespace import line_names
from dslc.passes.transform import Outputs
from dslc.quoting import quoted
from dslc.schedule.prepare import schedule
from dslc.sizes import show


@dataclass
class Function:
    """One generated host function."""

    name: str
    arguments: list[str]
    doc: str
    host: Host
    prologue: list[str] = field(default_factory=list)
    epilogue: list[str] = field(default_factory=list)

    def text(self) -> str:
        lines = [f"def {self.name}({', '.join(self.arguments)}):", f'    """{self.doc}"""']
        *epilogue, last = self.epilogue
        if not self.has_results_apart():
            results = last.removeprefix("return ")
            several = isinstance(ast.parse(results, mode="eval").body, ast.Tuple)
            given = [x for x in self.arguments if x.isidentifier()]
            last = f"return apart({f'({results})' if several else results}, {', '.join(given)})"
        lines += [f"    {x}" for x in (*self.prologue, *self.host.lines, *epilogue, last)]
        return "\n".join(lines)

    def has_results_apart(self) -> bool:
        """Has each result memory of its own, which the function has just got? Often that can be seen."""
        made = {m[1] for x in self.host.lines if (m := re.match(r"(\w+) = torch\.(?:empty|zeros)\(", x))}
        text = "\n".join(self.epilogue).replace("return ", "results = ")
        tables = {m[1] for x in self.epilogue if (m := re.match(r"(\w+) = \{", x))}
        read = [x.id for x in ast.walk(ast.parse(text)) if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Load)]
        read = [x for x in read if x not in (*tables, *LOOPS, "range")]
        return len(read) == len(set(read)) and made.issuperset(read)


def started(
    registry: Registry, unit: Unit, roots: Sequence[ir.Tensor], instance: p.Instance
) -> tuple[Host, list[str], list[str]]:
    """A host whose inputs have names, the arguments, and the lines that check them."""
    host = Host(registry, given=line_names(roots, of_statement))
    where = symbols(unit, size_name, argument)
    inputs = [(n, x) for n, x in unit.inputs.items() if x.role == "input"]
    has_states = any(x.role == "state" for x in unit.inputs.values())
    host.taken |= {*where, *(argument(n) for n, _ in inputs), *HOST}
    arguments = ["params", *(argument(n) for n, _ in inputs)]
    if has_states:
        arguments.append("state")
    source = "params" if unit.params else "state" if has_states else ""
    first = f"next(iter({source}.values())).device" if source else "default_device()"
    prologue = fitting(unit, has_states, registry.shown("f32"))
    prologue.append(f"device = {first}")
    for name, given in inputs:
        node = registry.kept(given)
        host.names[node] = argument(name)
        shape = "".join(f"{s}, " if isinstance(s, int) else f"{quoted(show(s))}, " for s in node.shape).strip()
        dtype = registry.shown(node.dtype)
        prologue.append(f'{argument(name)} = entry("{name}", {argument(name)}, {dtype}, ({shape}), device)')
    for symbol, (name, axis) in where.items():
        prologue.append(f"{symbol} = {name}.shape[{axis}]")
    prologue += promises(unit, instance, size_code, argument)
    reads = leading_places(roots)
    for path, given in unit.inputs.items():
        node = registry.kept(given)
        table = {"param": "params", "state": "state"}.get(node.role)
        if table is None or node not in reads:
            continue
        if path not in unit.layers:
            host.names[node] = host.fresh(path)
            prologue.append(f'{host.names[node]} = {table}["{path}"]')
            continue
        prologue += bind_layers(host, unit, path, node, reads[node], table)
    return host, arguments, prologue


@dataclass
class Computed:
    """A function that computes named results: its lines, and what the results are called in them."""

    host: Host
    arguments: list[str]
    prologue: list[str]
    values: dict[str, str]

    def function(self, name: str, doc: str, epilogue: list[str]) -> Function:
        return Function(name, self.arguments, doc, self.host, self.prologue, epilogue)


def computed(registry: Registry, unit: Unit, outputs: Outputs, exact: Collection[str], owner: p.Instance) -> Computed:
    """The lines that compute the results of a program; `exact` ones are never kept in 16 bits."""
    made = schedule(outputs, TARGET, registry.dtype, exact)
    host, arguments, prologue = started(registry, unit, list(made.results.values()), owner)
    host.compute(made)
    if host.random:
        arguments.append("seed=0")
    return Computed(host, arguments, prologue, {k: host.tensor(x) for k, x in made.results.items()})


def bind_layers(
    host: Host, unit: Unit, path: str, node: ir.Input, reads: set[tuple[ir.Place, ...]], table: str
) -> list[str]:
    """How the parameter of one layer is named: by the loops around it, or as a part of all of them in one tensor."""
    depth = len(unit.layers[path])
    leading = {places[:depth] for places in reads}
    steps = {tuple(q.step.scan for q in places if isinstance(q, ir.At) and q.offset == 0) for places in leading}
    if all(len(x) == depth for x in steps):
        # formatted later with the names of the loop counters: the braces of the f-string itself are doubled
        text = (
            layer_path(unit, path, ["COUNTER"] * depth).replace("{", "{{").replace("}", "}}").replace("COUNTER", "{}")
        )
        host.layered[node] = (f"{table}[{text}]", depth)
        return []
    counts = [count for _, count in unit.layers[path]]
    loops = " ".join(f"for {v} in range({count})" for v, count in zip(LOOPS, counts, strict=False))
    host.names[node] = host.fresh(path)
    shape = ", ".join(size_code(s) for s in node.shape)
    return [f"{host.names[node]} = torch.stack([{table}[{layer_path(unit, path, LOOPS)}] {loops}]).view({shape})"]


def leading_places(roots: Sequence[ir.Tensor]) -> dict[ir.Node, set[tuple[ir.Place, ...]]]:
    """The places at which inputs are read."""
    found: dict[ir.Node, set[tuple[ir.Place, ...]]] = {}
    for node in ir.every_node(roots):
        for s in (s for body in ir.bodies(node) for s in ir.scalars(body)):
            if isinstance(s, ir.Read) and isinstance(s.tensor, ir.Input):
                found.setdefault(s.tensor, set()).add(s.places)
        whole = node.starts if isinstance(node, ir.Scan) else () if isinstance(node, ir.Comp) else ir.arguments(node)
        for a in whole:
            if isinstance(a, ir.Input):
                found.setdefault(a, set()).add(())
    for root in roots:
        if isinstance(root, ir.Input):
            found.setdefault(root, set()).add(())
    return found


def result(node: ir.Tensor, code: str) -> str:
    """A value as a caller gets it; whole numbers are computed in 64 bits."""
    return f"{code}.to(torch.int32)" if node.dtype == "i32" else code


def dictionary(values: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'"{k}": {v}' for k, v in values.items()) + "}"


def table(name: str, unit: Unit, tensors: Mapping[str, str]) -> list[str]:
    """A dictionary by path; a tensor of several layers is taken apart."""
    if not tensors:
        return [f"{name} = {{}}"]
    lines = [f"{name} = {{"]
    for path, tensor in tensors.items():
        if path not in unit.layers:
            lines.append(f'    "{path}": {tensor},')
            continue
        counts = [count for _, count in unit.layers[path]]
        loops = " ".join(f"for {v} in range({count})" for v, count in zip(LOOPS, counts, strict=False))
        places = ", ".join(LOOPS[: len(counts)])
        lines.append(f"    **{{{layer_path(unit, path, LOOPS)}: {tensor}[{places}] {loops}}},")
    return [*lines, "}"]

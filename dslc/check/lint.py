"""Warnings: things that are allowed and hardly ever meant."""

from __future__ import annotations

from collections.abc import Iterator

from dslc.check.program import Instance
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label, Reporter
from dslc.resolve.files import Defined
from dslc.syntax import tree as t

MAX_PATHS = 20_000


def definition(reporter: Reporter, defined: Defined) -> None:
    """Unused parameters, states, arguments and values of one definition."""
    node = defined.node
    read = set(_names_read(node))
    if isinstance(node, t.Optimizer):
        outputs: set[str] = set()
    else:
        outputs = {o.name for o in node.outputs}
    for inner in node.walk():
        match inner:
            case t.Parameter():
                for target in inner.targets:
                    if target.name not in read:
                        reporter.add(kinds.UNUSED_PARAMETER(Label(target.span), name=target.name, owner=node.name))
            case t.Formal() if inner.name not in read and inner in node.formals:
                reporter.add(kinds.UNUSED_ARGUMENT(Label(inner.span), name=inner.name, owner=node.name))
            case t.Use() if inner.name not in read:
                reporter.add(kinds.UNUSED_VALUE(Label(inner.span.first_line), name=inner.name))
            case t.Equation():
                for target in inner.targets:
                    if target.name not in read and target.name not in outputs and not _in_backward(node, inner):
                        if len(inner.targets) == 1 and not target.name.startswith("_"):
                            reporter.add(kinds.UNUSED_VALUE(Label(target.span), name=target.name))


def train(reporter: Reporter, node: t.Train) -> None:
    read = set(_names_read(node))
    for formal in node.formals:
        if formal.name not in read and formal.default is None:
            reporter.add(kinds.UNUSED_ARGUMENT(Label(formal.span), name=formal.name, owner=f"train {node.model}"))


def _in_backward(node: t.Node, equation: t.Equation) -> bool:
    return any(isinstance(b, t.Backward) and equation in b.body for b in node.walk())


def _names_read(node: t.Node) -> Iterator[str]:
    for inner in node.walk():
        match inner:
            case t.Name():
                yield inner.id
            case t.Expose():
                yield from inner.names
            case t.Accumulate() | t.Update():
                yield inner.target.name


def parameter_paths(instance: Instance, prefix: str = "") -> list[str]:
    """All parameters below an instance by their dotted names."""
    found: list[str] = []
    stack = [(instance, prefix)]
    while stack and len(found) < MAX_PATHS:
        here, path = stack.pop()
        found += [f"{path}{p.tensor.name}" for p in here.params]
        stack += [(child, f"{path}{name}.") for name, child in here.children.items()]
    return sorted(found)

"""What statements and expressions depend on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dslc.check.program import (
    AlongAxis,
    CallFunction,
    Define,
    Derivative,
    Expr,
    External,
    Join,
    Loop,
    Modes,
    Read,
    Remat,
    Scan,
    Scatter,
    Stmt,
    Tensor,
)  # fmt: skip
from dslc.check.renaming import operands


def depends(body: Sequence[Stmt], value: Tensor, on: Tensor) -> bool:
    """Does `value` depend on `on` through the statements so far?"""
    return on in sources_of(body, value, on)


def sources_of(body: Sequence[Stmt], value: Tensor, parameter: Tensor | None = None) -> set[Tensor]:
    """All that `value` is computed from by these statements, itself among them.

    The parameter of a layer, as `d.W`, is found in calls of that layer when it is asked for.
    """
    edges: dict[Tensor, set[Tensor]] = {}
    for statement in every_statement(body):
        sources = set(_sources(statement))
        if parameter is not None and isinstance(statement, CallFunction) and _has_parameter(statement, parameter):
            sources.add(parameter)
        for target in _targets(statement):
            edges.setdefault(target, set()).update(sources)
    seen: set[Tensor] = set()
    stack = [value]
    while stack:
        here = stack.pop()
        if here not in seen:
            seen.add(here)
            stack.extend(edges.get(here, ()))
    return seen


def _has_parameter(call: CallFunction, tensor: Tensor) -> bool:
    """Is a parameter that is named from outside, as `d.W`, one of a layer that is called, or passed on?"""
    if tensor.role != "param":
        return False
    if not call.path and call.instance.word == "model":
        return True
    paths = [call.path, *(home.path for home in call.passed)]
    return any(tensor.name.startswith(f"{path}.") for path in paths if path)


def every_statement(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """All statements, those inside blocks too."""
    stack = list(body)
    while stack:
        statement = stack.pop()
        yield statement
        match statement:
            case Scan() | Remat():
                stack.extend(statement.body)
            case Modes():
                stack.extend((*statement.training, *statement.inference))
            case Loop():
                stack.extend(x for each in statement.passes for x in each)


def _targets(statement: Stmt) -> list[Tensor]:
    match statement:
        case Define() | Scatter():
            return [statement.tensor]
        case AlongAxis() | CallFunction() | External():
            return list(statement.outputs)
        case Join() | Derivative():
            return [statement.output]
        case Modes():
            return [joined for joined, _, _ in statement.joined]
        case Scan():
            return [c.tensor for c in statement.carried]
    return []


def _sources(statement: Stmt) -> list[Tensor]:
    match statement:
        case Define():
            return tensors_in([statement.value])
        case Scatter():
            exprs = [statement.value, *(p.value for p in statement.positions if hasattr(p, "value"))]
            return tensors_in(exprs) + ([statement.base] if statement.base is not None else [])
        case AlongAxis() | CallFunction() | External() | Join():
            return list(statement.args)
        case Derivative():
            return [x for x in (statement.of, statement.wrt, statement.direction) if x is not None]
        case Modes():
            return [x for _, a, b in statement.joined for x in (a, b)]
        case Scan():
            return [c.start for c in statement.carried if c.start is not None]
    return []


def tensors_in(exprs: list[Expr]) -> list[Tensor]:
    """The tensors that expressions read."""
    found: list[Tensor] = []
    seen: set[int] = set()
    stack = list(exprs)
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Read):
            found.append(node.tensor)
        stack.extend(operands(node))
    return found

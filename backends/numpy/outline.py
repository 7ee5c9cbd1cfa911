"""What a NumPy module computes together and where values lie, read off its text: for `dslc show`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence


def fused(text: str) -> str:
    """For each function the values that blocks of rows compute together, and those that are computed one by one."""
    return "\n".join(x for name, body in functions(text) for x in (name, *_groups(body, 1)))


def memory(text: str) -> str:
    """For each function the slots of its space, and the values that lie in them one after the other."""
    found: list[str] = []
    for name, body in functions(text):
        slots: dict[str, dict[str, None]] = {}
        sizes: dict[str, str] = {}
        of: dict[str, str] = {}
        for statement in _statements(body):
            place = _space(statement)
            for value in written(statement):
                if place is not None:
                    of[value] = str(ast.literal_eval(place.args[0]))
                    sizes.setdefault(of[value], ", ".join(ast.unparse(x) for x in place.args[1:]))
                elif (target := _target(statement)) in of and isinstance(statement, ast.Assign):
                    of[value] = of[target]  # in the place of its operand
                if value in of:
                    slots.setdefault(of[value], {})[value] = None
        if slots:
            found += [name, *(f"    {slot} [{sizes[slot]}]: {', then '.join(x)}" for slot, x in slots.items())]
    return "\n".join(found) or "no value is large enough for a slot"


def functions(text: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    """The functions that compute values of the spec."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and "params" in {x.arg for x in node.args.args}:
            if any(list(written(x)) for x in _statements(node.body)):
                yield node.name, node.body


def _groups(body: Sequence[ast.stmt], depth: int) -> Iterator[str]:
    indent = "    " * depth
    single: list[str] = []
    for statement in body:
        if not isinstance(statement, ast.For):
            single += [x for x in written(statement) if x not in single and not is_preparation(statement)]
            continue
        if single:
            yield f"{indent}one by one: {', '.join(single)}"
            single = []
        if _called(statement.iter) == "row_blocks":
            inside = (s for s in _statements(statement.body) if not is_preparation(s))
            values = dict.fromkeys(x for s in inside for x in written(s))
            yield f"{indent}together, in blocks of rows: {', '.join(values)}"
        else:
            yield f"{indent}for {ast.unparse(statement.target)} in {ast.unparse(statement.iter)}:"
            yield from _groups(statement.body, depth + 1)
    if single:
        yield f"{indent}one by one: {', '.join(single)}"


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.For):
            yield from _statements(statement.body)
        else:
            yield statement


def written(statement: ast.stmt) -> Iterator[str]:
    """The names of the values that a statement computes; what only names, keeps or passes on a value computes none."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() | ast.BinOp() | ast.UnaryOp() as value):
            if _called(value) not in ("entry", "pop", "Space"):
                yield name
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]) if name not in ("grads", "states", "cache"):
            yield name
        case ast.AugAssign(target=ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name))):
            yield name
        case ast.Expr(value=ast.Call()) if name := _target(statement):
            yield name


def is_preparation(statement: ast.stmt) -> bool:
    """Does a statement only take memory, or count rows and positions?"""
    match statement:
        case ast.Assign(value=ast.Call() as value):
            return _called(value) in ("space", "zeros", "empty")
        case ast.Assign(value=ast.BinOp(left=ast.Attribute(attr="stop") | ast.Subscript(value=ast.Name(id="cache")))):
            return True
    return False


def _called(node: ast.expr) -> str:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
    return ""


def _space(statement: ast.stmt) -> ast.Call | None:
    """The place in the space that a statement takes."""
    calls = (x for x in ast.walk(statement) if isinstance(x, ast.Call) and isinstance(x.func, ast.Name))
    return next((x for x in calls if _called(x) == "space"), None)


def _target(statement: ast.stmt) -> str:
    """The array that a call writes to."""
    for call in ast.walk(statement):
        if isinstance(call, ast.Call):
            for word in call.keywords:
                match word:
                    case ast.keyword(arg="out", value=ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name))):
                        return name
    return ""

"""Lines of a block that compute where a value lies that nothing reads after them.

u = scale * gap / root[:, None]         becomes     u = np.multiply(scale, gap, out=gap)
                                                    u /= root[:, None]

A block reads and writes some rows at a time; with fewer arrays they stay in the cache.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

#: operations between two arrays: the function of NumPy, and the sign that does it in place
SIGNS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("np.add", "+="), ast.Sub: ("np.subtract", "-="), ast.Mult: ("np.multiply", "*="),
    ast.Div: ("np.divide", "/="),
}  # fmt: skip

#: functions of NumPy that take a place for their result
CALLS = frozenset(
    f"np.{name}" for name in (
        "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "square", "tanh", "sin", "cos", "negative", "absolute",
        "reciprocal", "maximum", "minimum",
    )
)  # fmt: skip

#: other functions whose results are arrays of their own
NEW = frozenset(
    ("np.max", "np.min", "np.sum", "np.vecdot", "np.where", "np.isfinite", "row_sums", "column_sums", "masked",
     "sigmoid", "softplus", "gelu", "normal_cdf", "erf", "erfc")
)  # fmt: skip


def in_place(lines: Sequence[str], shapes: Mapping[str, object]) -> list[list[str]]:
    """What stands for each line of a loop; `shapes` has those of the arrays that the lines compute for some rows."""
    trees = [ast.parse(line.strip()).body[0] for line in lines]
    last = {name: k for k, tree in enumerate(trees) for name in _names(tree)}
    viewed = {name for tree in trees if _is_view(tree) for name in _names(tree)}
    own: dict[str, object] = {}
    out: list[list[str]] = []
    for k, (line, tree) in enumerate(zip(lines, trees, strict=True)):
        out.append([line])
        match tree:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in shapes and not _is_view(tree):
                indent = line[: len(line) - len(line.lstrip())]
                free = {x for x, shape in own.items() if last[x] == k and x not in viewed and shape == shapes[name]}
                found = _lines(name, value, free)
                if found is not None:
                    out[-1] = [indent + text for text in found]
                own[name] = shapes[name]
    return out


def _names(tree: ast.AST) -> Iterator[str]:
    return (x.id for x in ast.walk(tree) if isinstance(x, ast.Name))


def _is_view(tree: ast.stmt) -> bool:
    """May a line give an array, or a part of it, another name?"""
    match tree:
        case ast.Assign(value=ast.Call(func=function)):
            return ast.unparse(function) not in CALLS | NEW
        case ast.Assign(value=value):
            return not isinstance(value, ast.BinOp | ast.UnaryOp | ast.Compare)
    return False


def _operands(value: ast.expr) -> list[ast.expr]:
    match value:
        case ast.BinOp(left=a, op=op, right=b) if type(op) in SIGNS:
            return [a, b]
        case ast.Call(func=function, args=args, keywords=[]) if ast.unparse(function) in CALLS:
            return args
    return []


def _lines(name: str, value: ast.expr, free: set[str]) -> list[str] | None:
    """The operations from an array that is free up to the value, one by one; None when no array is."""
    path = _path(value, free)
    if path is None:
        return None
    *above, first, place = path
    assert isinstance(place, ast.Name)
    if sum(x == place.id for x in _names(value)) > sum(
        isinstance(x, ast.Name) and x.id == place.id for x in _operands(first)
    ):
        return None  # a later operation reads it, too
    lines = [f"{name} = {_function(first)}({', '.join(map(ast.unparse, _operands(first)))}, out={place.id})"]
    known = first
    for x in reversed(above):
        lines.append(_step(name, x, known))
        known = x
    return lines


def _path(value: ast.expr, free: set[str]) -> list[ast.expr] | None:
    """From a value down to an array that is free, by operations."""
    for x in _operands(value):
        if isinstance(x, ast.Name) and x.id in free:
            return [value, x]
        below = _path(x, free)
        if below is not None:
            return [value, *below]
    return None


def _function(value: ast.expr) -> str:
    if isinstance(value, ast.BinOp):
        return SIGNS[type(value.op)][0]
    assert isinstance(value, ast.Call)
    return ast.unparse(value.func)


def _step(name: str, value: ast.expr, known: ast.expr) -> str:
    """One more operation on an array, at its place."""
    if isinstance(value, ast.BinOp):
        other = value.right if value.left is known else value.left
        if value.left is known or isinstance(value.op, ast.Add | ast.Mult):
            return f"{name} {SIGNS[type(value.op)][1]} {ast.unparse(other)}"
    arguments = ", ".join(name if x is known else ast.unparse(x) for x in _operands(value))
    return f"{_function(value)}({arguments}, out={name})"

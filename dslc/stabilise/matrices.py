"""Matrices: a linear system is solved, not multiplied by an inverse."""

from __future__ import annotations

from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, keep


def solve_for_inverse(node: ir.Comp) -> ir.Tensor | None:
    """inv(A) b = solve(A, b); b inv(A) = solve(A^T, b)"""
    if node.op != "sum" or len(node.reduced) != 1 or not isinstance(node.body, ir.Op) or node.body.name != "*":
        return None
    inner = len(node.shape)
    for x, y in (node.body.args, reversed(node.body.args)):
        found = _inverse(x)
        if found is None:
            continue
        matrix, mapped = found
        assert isinstance(x, ir.Read)
        *lead, row, column = x.places
        numbers = [_number(p) for p in (*lead, row, column)]
        if any(n is None for n in numbers) or len(set(numbers)) != len(numbers) or inner not in numbers[-2:]:
            continue
        if isinstance(y, ir.Const | ir.SizeOf):
            continue
        turned = numbers[-2] == inner
        kept = numbers[-1] if turned else numbers[-2]
        used = ir.variables(y)
        if kept in used or inner not in used:
            continue
        others = sorted(used - set(numbers[:-2]) - {inner})
        if len(others) > 1:
            continue
        order: list[int] = [*(n for n in numbers[:-2] if n is not None), inner, *others]
        return _solution(node, _transposed(matrix) if turned else matrix, mapped, y, order, kept or 0, others)
    return None


def _inverse(s: ir.Scalar) -> tuple[ir.Tensor, int] | None:
    """The matrix whose inverse this reads."""
    if not isinstance(s, ir.Read) or s.outside is not None or not isinstance(s.tensor, ir.Part):
        return None
    of = s.tensor.of
    if not isinstance(of, ir.External) or of.op != "inv":
        return None
    return of.args[0], of.mapped


def _number(place: ir.Place) -> int | None:
    """The variable of a plain place."""
    if isinstance(place, ir.Affine) and len(place.terms) == 1 and place is ir.plain(place.terms[0][0]):
        return place.terms[0][0]
    return None


def _transposed(x: ir.Tensor) -> ir.Tensor:
    rank = len(x.shape)
    order = [*range(rank - 2), rank - 1, rank - 2]
    shape = tuple(x.shape[i] for i in order)
    return ir.comp(shape, ir.read(x, tuple(ir.plain(order[i]) for i in range(rank))))


def _solution(
    node: ir.Comp, matrix: ir.Tensor, mapped: int, y: ir.Scalar, order: list[int], kept: int, others: list[int]
) -> ir.Tensor:
    """The system with right-hand sides y[order], and its solution with the axes of the node."""
    sizes = (*node.shape, *node.reduced)
    shape = tuple(sizes[n] for n in order)
    sides = ir.comp(shape, Change({n: keep(k) for k, n in enumerate(order)}).scalar(y))
    made = ir.intern(ir.External("solve", (matrix, sides), mapped, (shape,), (node.dtype,), span=node.span))
    solution = ir.intern(ir.Part(made, 0, node.dtype, shape))
    places = tuple(ir.plain(n) for n in (*order[:mapped], kept, *others))
    return ir.comp(node.shape, ir.read(solution, places), name=node.name, span=node.span)

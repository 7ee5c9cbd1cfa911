"""Adjoints of the operations that are not comprehensions: along an axis, on matrices, scans, derivatives by hand."""

from __future__ import annotations

from collections.abc import Mapping

from dslc.autodiff import scalar as d
from dslc.autodiff import scan
from dslc.autodiff.reverse import RULES, NoDerivative, Reverse, gradients, zeros
from dslc.ir import nodes as ir
from dslc.ir.rewrite import Copy, zero
from dslc.sizes import Size


def custom(reverse: Reverse, node: ir.Custom, cotangents: Mapping[int, ir.Tensor]) -> None:
    if isinstance(node.rule, ir.Recompute):
        recompute(reverse, node, cotangents)
        return
    if reverse.lead and not isinstance(node.rule, ir.Apart):
        raise NoDerivative("a Jacobian through a derivative given by hand", node)
    seeds = [cotangents.get(i) or zeros((*reverse.lead, *v.shape), v.dtype) for i, v in enumerate(node.values)]
    for place, part in node.rule(seeds).items():
        reverse.contribute(node.args[place], part)


def recompute(reverse: Reverse, node: ir.Custom, cotangents: Mapping[int, ir.Tensor]) -> None:
    """Differentiate a copy of the values, made from arguments that are kept apart from those of the forward pass."""
    copy = Copy({a: ir.apart(a) for a in node.args if not at_hand(a)})
    seeds = {copy.tensor(node.values[k]): cotangent for k, cotangent in cotangents.items()}
    wanted = [a for a in node.args if a in reverse.needed]
    parts = gradients(seeds, [copy.tensor(a) for a in wanted], reverse.lead)
    for a, part in zip(wanted, parts, strict=True):
        reverse.contribute(a, part)


def at_hand(node: ir.Node) -> bool:
    """An input, or the slice of one that belongs to the step."""
    return isinstance(node, ir.Input) or ir.slice_of_input(node)


# ---- along an axis ----------------------------------------------------------------------------------


def along(reverse: Reverse, node: ir.Along, cotangents: Mapping[int, ir.Tensor]) -> None:
    lead = len(reverse.lead)
    axis = lead + node.axis
    if node.op == "cumsum":
        (cotangent,) = cotangents.values()
        made = ir.intern(
            ir.Along("cumsum", (cotangent,), axis, (cotangent.shape,), (cotangent.dtype,), not node.reverse)
        )
        reverse.contribute(node.args[0], _part(made, 0))
    elif node.op in ("cumprod", "cummax", "cummin"):
        comp = as_comp(node)
        # by itself: gradients of gradients may hold the same comprehension, with a cotangent of its own
        apart = Reverse(reverse.lead)
        apart.needed = {comp, *node.args}
        apart.contribute(comp, next(iter(cotangents.values())))
        apart.visit(comp)
        for part in apart.parts.get(node.args[0], []):
            reverse.contribute(node.args[0], part)
    elif node.op in ("sort", "top_k"):
        if 0 in cotangents:
            gathered(reverse, node, cotangents[0])
    elif node.op in ("fft", "ifft"):
        fourier(reverse, node, cotangents)


def _part(node: ir.Along | ir.External, number: int) -> ir.Part:
    return ir.intern(ir.Part(node, number, node.dtypes[number], node.shapes[number]))


def as_comp(node: ir.Along) -> ir.Comp:
    """A running product or maximum as a comprehension: y[t] = op over s of (x[s] if s <= t else neutral)."""
    x = node.args[0]
    rank = len(x.shape)
    places = tuple(ir.plain(rank if i == node.axis else i) for i in range(rank))
    order = ">=" if node.reverse else "<="
    test = ir.op(order, (ir.var(rank), ir.var(node.axis)), "bool")
    neutral = {"cumprod": 1.0, "cummax": float("-inf"), "cummin": float("inf")}[node.op]
    body = d.choose(test, ir.read(x, places), ir.const(neutral, x.dtype))
    op = {"cumprod": "prod", "cummax": "max", "cummin": "min"}[node.op]
    made = ir.comp(x.shape, body, op, (x.shape[node.axis],))
    assert isinstance(made, ir.Comp)
    return made


def gathered(reverse: Reverse, node: ir.Along, cotangent: ir.Tensor) -> None:
    """Sorted values come from known places: the adjoint goes back there."""
    x = node.args[0]
    lead = len(reverse.lead)
    rank = len(x.shape)
    if node.op == "top_k":
        order = _part(node, 1)
    else:
        made = ir.intern(ir.Along("argsort", node.args, node.axis, (x.shape,), ("i64",), node.reverse))
        order = _part(made, 0)
    at = ir.read(order, tuple(ir.plain(lead + i) for i in range(rank)))
    places: list[ir.Place] = [ir.plain(i) for i in range(lead + rank)]
    places[lead + node.axis] = ir.intern(ir.Data(at))
    shape = (*reverse.lead, *x.shape)
    scatter = ir.Scatter(shape, cotangent.shape, tuple(places), "+", ir.whole(cotangent), None, x.dtype)
    reverse.contribute(x, ir.intern(scatter))


def fourier(reverse: Reverse, node: ir.Along, cotangents: Mapping[int, ir.Tensor]) -> None:
    """The adjoint of the transform is the inverse one, times the length (and the other way round)."""
    lead = len(reverse.lead)
    shape = (*reverse.lead, *node.shapes[0])
    re, im = (cotangents.get(k) or zeros(shape, node.dtypes[0]) for k in (0, 1))
    other = "ifft" if node.op == "fft" else "fft"
    axis = lead + node.axis
    back = ir.intern(ir.Along(other, (re, im), axis, (shape, shape), (node.dtypes[0],) * 2))
    length = ir.intern(ir.SizeOf(shape[axis]))
    for k, argument in enumerate(node.args):
        value: ir.Scalar = ir.whole(_part(back, k))
        scaled = d.mul(value, length) if node.op == "fft" else d.div(value, length)
        reverse.contribute(argument, ir.comp(shape, scaled))


# ---- matrices -----------------------------------------------------------------------------------------


def transpose(x: ir.Tensor) -> ir.Tensor:
    rank = len(x.shape)
    order = [*range(rank - 2), rank - 1, rank - 2]
    shape = tuple(x.shape[i] for i in order)
    return ir.comp(shape, ir.read(x, tuple(ir.plain(order[i]) for i in range(rank))))


def matmul(a: ir.Tensor, b: ir.Tensor) -> ir.Tensor:
    """Over the last two axes, all others alike."""
    lead = len(a.shape) - 2
    common = tuple(ir.plain(i) for i in range(lead))
    row, column, inner = lead, lead + 1, lead + 2
    body = d.mul(
        ir.read(a, (*common, ir.plain(row), ir.plain(inner))), ir.read(b, (*common, ir.plain(inner), ir.plain(column)))
    )
    return ir.comp((*a.shape[:-1], b.shape[-1]), body, "sum", (a.shape[-1],))


def _spread(reverse: Reverse, x: ir.Tensor) -> ir.Tensor:
    """A forward value with the extra axes of the cotangents in front."""
    lead = len(reverse.lead)
    if lead == 0:
        return x
    places = tuple(ir.plain(lead + i) for i in range(len(x.shape)))
    return ir.comp((*reverse.lead, *x.shape), ir.read(x, places))


def _external(op: str, args: tuple[ir.Tensor, ...], shape: tuple[Size, ...], rank: int) -> ir.Tensor:
    made = ir.External(op, args, len(args[0].shape) - rank, (shape,), (args[0].dtype,))
    return _part(ir.intern(made), 0)


def external(reverse: Reverse, node: ir.External, cotangents: Mapping[int, ir.Tensor]) -> None:
    a = _spread(reverse, node.args[0])
    y = _spread(reverse, _part(node, 0))
    v = cotangents.get(0) or zeros(y.shape, y.dtype)
    match node.op:
        case "solve":
            vector = len(node.args[1].shape) == len(node.args[0].shape) - 1
            w = _external("solve", (transpose(a), v), v.shape, 2)
            reverse.contribute(node.args[1], w)
            if vector:
                rank = len(v.shape)
                row = tuple(ir.plain(i) for i in range(rank))
                column = (*row[:-1], ir.plain(rank))
                body = d.neg(d.mul(ir.read(w, row), ir.read(y, column)))
                reverse.contribute(node.args[0], ir.comp(a.shape, body))
            else:
                product = matmul(w, transpose(y))
                reverse.contribute(node.args[0], ir.comp(a.shape, d.neg(ir.whole(product))))
        case "inv":
            t = transpose(y)
            product = matmul(matmul(t, v), t)
            reverse.contribute(node.args[0], ir.comp(a.shape, d.neg(ir.whole(product))))
        case "det" | "logdet":
            inverse = transpose(_external("inv", (a,), a.shape, 2))
            outer = tuple(ir.plain(i) for i in range(len(v.shape)))
            factor: ir.Scalar = ir.read(v, outer)
            if node.op == "det":
                factor = d.mul(factor, ir.read(y, outer))
            reverse.contribute(node.args[0], ir.comp(a.shape, d.mul(factor, ir.whole(inverse))))
        case "cholesky":
            reverse.contribute(node.args[0], _cholesky(y, v))
        case "matexp":
            reverse.contribute(node.args[0], _matexp(a, v))
        case "eigh":
            vectors = _spread(reverse, _part(node, 1))
            w = cotangents.get(1) or zeros(vectors.shape, vectors.dtype)
            reverse.contribute(node.args[0], _eigh(y, vectors, v, w))
        case _:
            raise NoDerivative(f"`{node.op}`", node)


def _cholesky(factor: ir.Tensor, v: ir.Tensor) -> ir.Tensor:
    """dA = sym(L^-T phi(L^T dL) L^-1), phi: lower triangle with half the diagonal."""
    rank = len(factor.shape)
    inner = matmul(transpose(factor), v)
    row, column = ir.var(rank - 2), ir.var(rank - 1)
    weight = d.choose(
        ir.op("==", (row, column), "bool"),
        d.number(0.5),
        d.choose(ir.op(">", (row, column), "bool"), d.number(1.0), d.number(0.0)),
    )
    phi = ir.comp(inner.shape, d.mul(ir.whole(inner), weight))
    inverse = _external("inv", (factor,), factor.shape, 2)
    return _symmetric(matmul(matmul(transpose(inverse), phi), inverse))


def _eigh(values: ir.Tensor, vectors: ir.Tensor, v: ir.Tensor, w: ir.Tensor) -> ir.Tensor:
    """dA = sym(Q (diag(dL) + (Q^T dQ) / (L_j - L_i)) Q^T), the quotient off the diagonal.

    Vectors of equal eigenvalues are not unique and have no derivative: there the quotient is 0.
    """
    rank = len(vectors.shape)
    lead = tuple(ir.plain(i) for i in range(rank - 2))
    row, column = (*lead, ir.plain(rank - 2)), (*lead, ir.plain(rank - 1))
    same = ir.op("==", (ir.var(rank - 2), ir.var(rank - 1)), "bool")
    inner = matmul(transpose(vectors), w)
    gap = d.sub(ir.read(values, column), ir.read(values, row))
    apart = d.compare("!=", gap, zero(values.dtype))
    quotient = d.where(apart, d.div(ir.whole(inner), gap))
    middle = ir.comp(inner.shape, d.choose(same, ir.read(v, row), quotient))
    return _symmetric(matmul(matmul(vectors, middle), transpose(vectors)))


def _symmetric(x: ir.Tensor) -> ir.Tensor:
    return ir.comp(x.shape, d.mul(d.number(0.5), d.add(ir.whole(x), ir.whole(transpose(x)))))


def _matexp(a: ir.Tensor, v: ir.Tensor) -> ir.Tensor:
    """The top right block of matexp([[A^T, V / s], [0, A^T]]), times s: it is linear in V.

    The number s is the sum of |V|. For a large V the whole matrix would be scaled down until A is lost in roundings.
    """
    t = transpose(a)
    n = a.shape[-1]
    rank = len(a.shape)
    lead = tuple(ir.plain(i) for i in range(rank - 2))
    minus = -1 * n
    total = ir.comp(v.shape[:-2], ir.op("abs", (ir.op("stop_grad", (ir.whole(v),), v.dtype),), v.dtype), "sum", (n, n))
    some = d.compare(">", ir.read(total, lead), zero(v.dtype))
    scale = ir.comp(v.shape[:-2], d.choose(some, ir.whole(total), ir.const(1.0, v.dtype)))
    v = ir.comp(v.shape, d.div(ir.whole(v), ir.read(scale, lead)))

    def block(x: ir.Tensor, down: bool, right: bool) -> ir.Scalar:
        row = ir.affine(((rank - 2, 1),), minus if down else 0)
        column = ir.affine(((rank - 1, 1),), minus if right else 0)
        return ir.read(x, (*lead, row, column), zero(x.dtype))

    body = d.add(d.add(block(t, False, False), block(v, False, True)), block(t, True, True))
    shape = (*a.shape[:-2], 2 * n, 2 * n)
    big = _external("matexp", (ir.comp(shape, body),), shape, 2)
    slope = ir.read(big, (*lead, ir.plain(rank - 2), ir.affine(((rank - 1, 1),), n)))
    return ir.comp(a.shape, d.mul(slope, ir.read(scale, lead)))


RULES.update({ir.Along: along, ir.External: external, ir.Custom: custom, ir.Scan: scan.visit})

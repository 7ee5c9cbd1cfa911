"""Kernels of operations on matrices: one program for each matrix, which it holds as a tile."""

from __future__ import annotations

from dslc.backends.record import CannotLower
from dslc.backends.triton.body import Body
from dslc.backends.triton.kernels import KernelText
from dslc.backends.triton.others import results_of
from dslc.backends.triton.text import atom, size_code, word
from dslc.backends.triton.tiles import power_of_two

from dslc.ir import nodes as ir
from dslc.sizes import Size, product

#: the largest matrix that one program can hold
LARGEST = 64

ELIMINATE = """
for k in range(0, {n}):
    column = tl.sum(tl.where(j == k, a, 0.0), axis=1)
    p = tl.argmax(tl.where((r >= k) & (r < {n}), tl.abs(column), -1.0), axis=0)
    a_k = tl.sum(tl.where(i == k, a, 0.0), axis=0)
    a_p = tl.sum(tl.where(i == p, a, 0.0), axis=0)
    a = tl.where(i == k, a_p[None, :], tl.where(i == p, a_k[None, :], a))
    pivot = tl.sum(tl.where(r == k, a_p, 0.0), axis=0)
    column = tl.sum(tl.where(j == k, a, 0.0), axis=1)
    column = tl.where(r == k, 0.0, column)
    a_p = a_p / pivot
    a = tl.where(i == k, a_p[None, :], a - column[:, None] * a_p[None, :])
"""

ON_RIGHT = """
    b_k = tl.sum(tl.where(i == k, b, 0.0), axis=0)
    b_p = tl.sum(tl.where(i == p, b, 0.0), axis=0)
    b = tl.where(i == k, b_p[None, :], tl.where(i == p, b_k[None, :], b))
    b_p = b_p / pivot
    b = tl.where(i == k, b_p[None, :], b - column[:, None] * b_p[None, :])
"""

CHOLESKY = """
lower = a * 0.0
for k in range(0, {n}):
    column = tl.sum(tl.where(j == k, a, 0.0), axis=1)
    pivot = tl.sum(tl.where(r == k, column, 0.0), axis=0)
    column = tl.where(r >= k, column / tl.sqrt(pivot), 0.0)
    lower = tl.where(j == k, column[:, None], lower)
    a = a - column[:, None] * column[None, :]
"""

EXPONENTIAL = """
norm = tl.max(tl.sum(tl.abs(a), axis=1), axis=0)
halvings = tl.maximum(tl.ceil(tl.log2(tl.maximum(norm, 1e-30))), 0.0)
a = a * tl.exp2(-halvings)
term = tl.where(i == j, 1.0, a * 0.0)
e = term
for k in tl.static_range(1, 20):
    term = tl.dot(term, a, input_precision="ieee") / k
    e = e + term
for _ in range(0, halvings.to(tl.int32)):
    e = tl.dot(e, e, input_precision="ieee")
"""

JACOBI = """
a = tl.where(i < j, tl.trans(a), a)
v = tl.where(i == j, 1.0, a * 0.0)
for sweep in range(0, 12):
    for p in range(0, {n} - 1):
        for q in range(p + 1, {n}):
            app = tl.sum(tl.sum(tl.where((i == p) & (j == p), a, 0.0), axis=1), axis=0)
            aqq = tl.sum(tl.sum(tl.where((i == q) & (j == q), a, 0.0), axis=1), axis=0)
            apq = tl.sum(tl.sum(tl.where((i == p) & (j == q), a, 0.0), axis=1), axis=0)
            turn = tl.abs(apq) > 0.0
            theta = (aqq - app) / (2.0 * tl.where(turn, apq, 1.0))
            t = tl.where(theta < 0.0, -1.0, 1.0) / (tl.abs(theta) + tl.sqrt(theta * theta + 1.0))
            t = tl.where(turn, t, 0.0)
            c = 1.0 / tl.sqrt(t * t + 1.0)
            s = t * c
            row_p = tl.sum(tl.where(i == p, a, 0.0), axis=0)
            row_q = tl.sum(tl.where(i == q, a, 0.0), axis=0)
            a = tl.where(i == p, (c * row_p - s * row_q)[None, :], a)
            a = tl.where(i == q, (s * row_p + c * row_q)[None, :], a)
            column_p = tl.sum(tl.where(j == p, a, 0.0), axis=1)
            column_q = tl.sum(tl.where(j == q, a, 0.0), axis=1)
            a = tl.where(j == p, (c * column_p - s * column_q)[:, None], a)
            a = tl.where(j == q, (s * column_p + c * column_q)[:, None], a)
            v_p = tl.sum(tl.where(j == p, v, 0.0), axis=1)
            v_q = tl.sum(tl.where(j == q, v, 0.0), axis=1)
            v = tl.where(j == p, (c * v_p - s * v_q)[:, None], v)
            v = tl.where(j == q, (s * v_p + c * v_q)[:, None], v)
w = tl.sum(tl.where(i == j, a, 0.0), axis=0)
w_row = tl.sum(tl.where(i == j, a, 0.0), axis=1)
before = (w_row[:, None] < w[None, :]) | ((w_row[:, None] == w[None, :]) & (i < j))
rank = tl.sum((before & (i < {n})).to(tl.int32), axis=0)
"""


def external_kernel(node: ir.External, dtype: str) -> list[KernelText]:
    """The kernel of an operation on square matrices."""
    a = node.args[0]
    n, count = a.shape[-1], product(a.shape[:-2])
    if isinstance(n, int) and n > LARGEST:
        raise CannotLower(f"`{node.op}` of matrices larger than {LARGEST} x {LARGEST}", node)
    body = Body(dtype, node)
    body.taken |= {"i", "j", "r", "a", "b", "n", "p", "k", "v", "w", "e"}
    source = body.pointer(a)
    size = body.size(n)
    least = 16 if node.op == "matexp" else 1
    blocks: dict[str, int | str] = {"BLOCK": block(n, least)}
    body.line("matrix = tl.program_id(0).to(tl.int64)")
    body.line("r = tl.arange(0, BLOCK)")
    body.line("i, j = r[:, None], r[None, :]")
    body.line(f"inside = (i < {size}) & (j < {size})")
    body.line(f"at = matrix * ({size} * {size}) + i * {size} + j")
    body.line(f"a = tl.load({source} + at, mask=inside, other=0.0){body.upcast(a)}")
    WRITERS[node.op](node, body, n, blocks)
    outs = results_of(node)
    return [
        KernelText(
            f"{word(node.name or node.op)}_{node.op}", body, blocks, [atom(size_code(count))], 4, 1, outs, [node]
        )
    ]


def block(size: Size, least: int) -> int | str:
    if isinstance(size, int):
        return max(least, power_of_two(size))
    text = f"triton.next_power_of_2({size_code(size)})"
    return text if least == 1 else f"max({least}, {text})"


def lines(body: Body, text: str, n: Size) -> None:
    for line in text.strip("\n").format(n=body.size(n)).splitlines():
        body.line(line)


def write_solve(node: ir.External, body: Body, n: Size, blocks: dict[str, int | str]) -> None:
    right, out = node.args[1], results_of(node)[0]
    vector = len(right.shape) == len(node.args[0].shape) - 1
    columns: Size = 1 if vector else right.shape[-1]
    size, width = body.size(n), body.size(columns)
    blocks["BLOCK_RIGHT"] = block(columns, 1)
    body.line("m = tl.arange(0, BLOCK_RIGHT)[None, :]")
    body.line(f"right = matrix * ({size} * {width}) + i * {width} + m")
    load = f"tl.load({body.pointer(right)} + right, mask=(i < {size}) & (m < {width}), other=0.0)"
    body.line(f"b = {load}{body.upcast(right)}")
    lines(body, ELIMINATE + ON_RIGHT.strip("\n"), n)
    body.line(f"tl.store({body.pointer(out)} + right, b, mask=(i < {size}) & (m < {width}))")


def write_inv(node: ir.External, body: Body, n: Size, blocks: dict[str, int | str]) -> None:
    body.line("b = tl.where(i == j, 1.0, a * 0.0)")
    lines(body, ELIMINATE + ON_RIGHT.strip("\n"), n)
    body.line(f"tl.store({body.pointer(results_of(node)[0])} + at, b, mask=inside)")


def write_det(node: ir.External, body: Body, n: Size, blocks: dict[str, int | str]) -> None:
    log = node.op == "logdet"
    body.line(f"value = tl.full((), {'0.0' if log else '1.0'}, {body.float_of(node.args[0])})")
    step = "value += tl.log(tl.abs(pivot))" if log else "value *= tl.where(p == k, pivot, -pivot)"
    lines(body, ELIMINATE + f"    {step}", n)
    body.line(f"tl.store({body.pointer(results_of(node)[0])} + matrix, value)")


def write_cholesky(node: ir.External, body: Body, n: Size, blocks: dict[str, int | str]) -> None:
    lines(body, CHOLESKY, n)
    body.line(f"tl.store({body.pointer(results_of(node)[0])} + at, lower, mask=inside)")


def write_matexp(node: ir.External, body: Body, n: Size, blocks: dict[str, int | str]) -> None:
    lines(body, EXPONENTIAL, n)
    body.line(f"tl.store({body.pointer(results_of(node)[0])} + at, e, mask=inside)")


def write_eigh(node: ir.External, body: Body, n: Size, blocks: dict[str, int | str]) -> None:
    """Jacobi's rotations of the lower triangle and its mirror image; values ascending, each vector up to its sign."""
    values, vectors = results_of(node)
    lines(body, JACOBI, n)
    size = body.size(n)
    body.line(f"tl.store({body.pointer(values)} + matrix * {size} + rank, w, mask=r < {size})")
    place = f"matrix * ({size} * {size}) + i * {size} + rank[None, :]"
    body.line(f"tl.store({body.pointer(vectors)} + {place}, v, mask=inside)")


WRITERS = {
    "solve": write_solve, "inv": write_inv, "det": write_det, "logdet": write_det, "cholesky": write_cholesky,
    "matexp": write_matexp, "eigh": write_eigh,
}  # fmt: skip

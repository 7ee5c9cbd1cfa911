"""Kernels of operations along an axis: running sums, and sorting by counting what comes before."""

from __future__ import annotations

from dslc.backends.record import CannotLower
from dslc.backends.triton.body import Body
from dslc.backends.triton.kernels import KernelText, count_text
from dslc.backends.triton.text import atom, is_float, size_code, word
from dslc.backends.triton.tiles import block_for

from dslc.ir import nodes as ir
from dslc.sizes import Size, product, tidy


def results_of(node: ir.Along | ir.External) -> list[ir.Tensor]:
    """The values of a node as tensors of their own, to be named and stored."""
    return [
        ir.intern(ir.Part(node, k, dtype, shape, node.name, node.span))
        for k, (dtype, shape) in enumerate(zip(node.dtypes, node.shapes, strict=True))
    ]


def along_kernel(node: ir.Along, dtype: str) -> list[KernelText]:
    if node.op in ("cumsum", "cumprod", "cummax", "cummin"):
        return [running(node, dtype)]
    if node.op in ("sort", "argsort", "top_k") and not node.reverse:
        return [ranked(node, dtype)]
    raise CannotLower(f"`{node.op}`", node)


def spread(body: Body, node: ir.Along) -> tuple[Size, Size, Size]:
    """How many rows there are, how long one is, and how far apart its entries stand."""
    shape = node.args[0].shape
    after = product(shape[node.axis + 1 :])
    return product((*shape[: node.axis], *shape[node.axis + 1 :])), shape[node.axis], after


def base_lines(body: Body, length: Size, after: Size, stride: Size) -> str:
    """Where each row begins; the text of the distance between its entries."""
    if after == 1:
        body.line(f"base = rows * {atom(body.size(length))}")
        return ""
    body.line(f"base = rows // {atom(body.size(after))} * {atom(body.size(stride))} + rows % {atom(body.size(after))}")
    return f" * {atom(body.size(after))}"


def running(node: ir.Along, dtype: str) -> KernelText:
    """A running reduction: blocks of the row one after another, each started with the last value of the one before."""
    x = node.args[0]
    (out,) = results_of(node)
    body = Body(dtype, node)
    body.taken |= {"rows", "base", "carry", "start", "t", "at", "x", "y", "inside"}
    source, target = body.pointer(x), body.pointer(out)
    rows, length, after = spread(body, node)
    blocks: dict[str, int | str] = {"BLOCK_ROWS": block_for(rows, 1, 16), "BLOCK": block_for(length, 16, 128)}
    floats = is_float(x.dtype)
    kind = body.float_of(x) if floats else "tl.int64"
    least, most = ('float("-inf")', 'float("inf")') if floats else (str(-(2**62)), str(2**62))
    neutral = {"cumsum": "0", "cumprod": "1", "cummax": least, "cummin": most}[node.op]
    combine = {"cumsum": "y + carry[:, None]", "cumprod": "y * carry[:, None]", "cummax": "larger(y, carry[:, None])",
               "cummin": "smaller(y, carry[:, None])"}[node.op]  # fmt: skip
    scan = f"tl.{node.op}(x, axis=1)"
    if node.op in ("cummax", "cummin"):
        name = "larger" if node.op == "cummax" else "smaller"
        body.helpers.add(name)
        scan = f"tl.associative_scan(x, 1, {name})"
    body.line("rows = tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)")
    apart = base_lines(body, length, after, tidy(length * after))
    size = body.size(length)
    body.line(f"carry = tl.full((BLOCK_ROWS,), {neutral}, {kind})")
    body.open(f"for start in range(0, {size}, BLOCK):")
    body.line("t = start + tl.arange(0, BLOCK)")
    entry = f"({size} - 1 - t)" if node.reverse else "t"
    body.line(f"at = base[:, None] + {entry}[None, :]{apart}")
    body.line(f"inside = (rows < {body.size(rows)})[:, None] & (t < {size})[None, :]")
    body.line(f"x = tl.load({source} + at, mask=inside, other={neutral}){body.upcast(x)}")
    body.line(f"y = {scan}")
    body.line(f"y = {combine}")
    body.line(f"tl.store({target} + at, y, mask=inside)")
    body.line(f"carry = tl.sum(tl.where((t == start + BLOCK - 1)[None, :], y, {'0.0' if floats else '0'}), axis=1)")
    body.close()
    grid = [count_text(rows, blocks["BLOCK_ROWS"])]
    return KernelText(f"{word(node.name or node.op)}_{node.op}", body, blocks, grid, 4, 1, [out], [node])


def ranked(node: ir.Along, dtype: str) -> KernelText:
    """Sorting: an entry goes to the place that counts the entries before it; equal ones keep their order."""
    x = node.args[0]
    outs = results_of(node)
    body = Body(dtype, node)
    body.taken |= {"row", "base", "start", "i", "j", "x", "y", "before", "rank", "at"}
    source = body.pointer(x)
    targets = [body.pointer(out) for out in outs]
    rows, length, after = spread(body, node)
    blocks: dict[str, int | str] = {"BLOCK": block_for(length, 16, 64)}
    size = body.size(length)
    kept = node.shapes[0][node.axis]
    body.line("row = tl.program_id(0).to(tl.int64)")
    body.line("i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)")

    def first(count: Size) -> str:
        if after == 1:
            return f"row * {atom(body.size(count))}"
        gap = atom(body.size(after))
        return f"row // {gap} * {atom(body.size(tidy(count * after)))} + row % {gap}"

    apart = "" if after == 1 else f" * {atom(body.size(after))}"
    floats = is_float(x.dtype)
    body.line(f"base = {source} + {first(length)}")
    body.line(f"x = tl.load(base + i{apart}, mask=i < {size}, other=0){body.upcast(x)}")
    body.line("rank = tl.zeros((BLOCK,), tl.int64)")
    body.open(f"for start in range(0, {size}, BLOCK):")
    body.line("j = start + tl.arange(0, BLOCK)")
    body.line(f"y = tl.load(base + j{apart}, mask=j < {size}, other=0){body.upcast(x)}")
    sign = ">" if node.op == "top_k" else "<"
    body.line(f"before = y[None, :] {sign} x[:, None]")
    body.line("before |= (y[None, :] == x[:, None]) & (j[None, :] < i[:, None])")
    if floats:  # NaN comes last
        body.line("before |= (x != x)[:, None] & ((y == y)[None, :] | (j[None, :] < i[:, None]))")
    body.line(f"rank += tl.sum((before & (j < {size})[None, :]).to(tl.int64), axis=1)")
    body.close()
    body.line(f"at = {first(kept)} + rank{apart}")
    guard = f"mask=(i < {size}) & (rank < {body.size(kept)})" if node.op == "top_k" else f"mask=i < {size}"
    values = {"sort": ["x"], "argsort": ["i"], "top_k": ["x", "i"]}[node.op]
    for target, value in zip(targets, values, strict=True):
        body.line(f"tl.store({target} + at, {value}, {guard})")
    grid = [atom(size_code(rows)), count_text(length, blocks["BLOCK"])]
    return KernelText(f"{word(node.name or node.op)}_{node.op}", body, blocks, grid, 4, 1, outs, [node])

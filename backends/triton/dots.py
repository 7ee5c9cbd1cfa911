"""Contractions as kernel text: tiles on tensor cores."""

from __future__ import annotations

from collections.abc import Mapping

from dslc.backends.triton.body import Axis, Body
from dslc.backends.triton.kernels import (
    Along,
    KernelText,
    axis_of,
    count_text,
    finish,
    index_line,
    new_body,
    output_pointers,
    ragged,
    wide,
    wish_of,
)  # fmt: skip
from dslc.backends.triton.rows import part_of, store_part
from dslc.backends.triton.text import ATOM, HALF, Text, aligned, atom, name_of, size_code
from dslc.backends.triton.tiles import half_of, tile_of

from dslc.ir import nodes as ir
from dslc.schedule.form import Kernel, Split
from dslc.sizes import Size, product


def dot_kernel(kernel: Kernel, dtype: str, layered: Mapping[ir.Node, int], made: Split | None = None) -> KernelText:
    """Contractions in tiles on tensor cores, and the maps of their results.

    If they are made in parts, each program sums over one part of the inner axes only, and stores what it finds there.
    """
    body = new_body(kernel, dtype, layered)
    output_pointers(kernel, body)
    extents = {n: product([kernel.sizes[v] for v in getattr(kernel, n)]) for n in ("batch", "rows", "columns")}
    inners = {d.inner: product([kernel.sizes[v] for v in d.inner]) for d in kernel.dots}
    tile = tile_of(kernel)
    blocks: dict[str, int | str] = {
        "BLOCK_ROWS": tile.rows, "BLOCK_COLUMNS": tile.columns, "BLOCK_INNER": tile.inner,
    }  # fmt: skip
    grid = dot_axes(body, kernel, extents, blocks)
    names = {d.node: body.fresh(name_of(d.node, "total")) for d in kernel.dots}
    for dot in kernel.dots:
        body.line(f"{names[dot.node]} = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), {body.float_of(dot.left, dot.right)})")
    for variables, extent in inners.items():
        limits = part_of(body, made, extent, "INNER", 2) if made else f"0, {body.size(extent)}"
        dot_loop(body, kernel, variables, limits, blocks["BLOCK_INNER"], names)
    if made is not None:
        grid.append(str(made.count))
    for node, member in kernel.members.items():
        if made is not None:
            store_part(body, made, member, Text(names[member.node], (0, 2)))
            continue
        finish(body, kernel, member, Text(names[member.node], (0, 2)) if node in names else body.scalar(member.body))
    outputs: list[ir.Tensor] = list(made.parts.values()) if made else list(kernel.stored)
    spans = list(kernel.members)
    wish = "_".join(dict.fromkeys(name_of(n) for n in spans)) + "_parts" if made else wish_of(kernel) + "_dot"
    along = {
        "BLOCK_ROWS": Along(extents["rows"], ragged(extents["rows"], blocks["BLOCK_ROWS"]), 0, extents["batch"]),
        "BLOCK_COLUMNS": Along(extents["columns"], ragged(extents["columns"], blocks["BLOCK_COLUMNS"]), 1),
    }
    if len(inners) == 1:
        (extent,) = inners.values()
        along["BLOCK_INNER"] = Along(extent, ragged(extent, blocks["BLOCK_INNER"]))
    return KernelText(wish, body, blocks, grid, tile.warps, tile.stages, outputs, spans, kernel, along=along)


def dot_axes(body: Body, kernel: Kernel, extents: Mapping[str, Size], blocks: Mapping[str, int | str]) -> list[str]:
    """The index lines of a contraction, and its grid."""
    row_tiles = count_text(extents["rows"], blocks["BLOCK_ROWS"])
    grid = [row_tiles, count_text(extents["columns"], blocks["BLOCK_COLUMNS"])]
    is_wide = wide(kernel.sizes)
    row_pid = "tl.program_id(0)"
    if kernel.batch:
        batch = axis_of(body, kernel, -1, "batch", kernel.batch, None)
        tiles = f"tl.cdiv({body.size(extents['rows'])}, BLOCK_ROWS)"
        body.line(f"{batch.name} = {'tl.program_id(0).to(tl.int64)' if is_wide else 'tl.program_id(0)'} // {tiles}")
        row_pid = f"(tl.program_id(0) % {tiles})"
        grid[0] = f"{atom(size_code(extents['batch']))} * {row_tiles}"
    for number, name, pid in ((0, "rows", row_pid), (2, "columns", "tl.program_id(1)")):
        block = f"BLOCK_{name.upper()}"
        axis = axis_of(body, kernel, number, name, getattr(kernel, name), blocks[block])
        body.line(index_line(axis.name, pid, block, is_wide))
    return grid


def dot_loop(
    body: Body, kernel: Kernel, variables: tuple[int, ...], limits: str, block: int | str, names: Mapping[ir.Comp, str]
) -> None:
    """One run over an inner axis, or a part of it, for all contractions that sum over it."""
    inner = axis_of(body, kernel, 1, "inner", variables, block, 1)
    start = body.fresh("start")
    body.open(f"for {start} in range({limits}, BLOCK_INNER):")
    body.line(f"{inner.name} = {start} + tl.arange(0, BLOCK_INNER)")
    for dot in kernel.dots:
        if dot.inner == variables:
            half = half_of(dot.left, dot.right, body.dtype)
            left = side(body, dot.left, (0, 1), inner, ("BLOCK_ROWS", "BLOCK_INNER"), half=half)
            right = side(body, dot.right, (1, 2), inner, ("BLOCK_INNER", "BLOCK_COLUMNS"), half=half)
            left, right = same_kind(body, (dot.left, left), (dot.right, right)) if half is None else [left, right]
            name = names[dot.node]
            body.line(f"{name} = {dot_text(half, left, right, name)}")
    body.close()
    body.axes.remove(inner)


def dot_text(half: str | None, *arguments: str) -> str:
    """A product that is summed in float32; float32 itself is not rounded to tf32."""
    return f"tl.dot({', '.join(arguments)})" if half else f'tl.dot({", ".join(arguments)}, input_precision="ieee")'


def same_kind(body: Body, *sides: tuple[ir.Scalar, str]) -> list[str]:
    """Both sides of a product as numbers of one kind: an f64 among f32 makes it one of f64."""
    kind = body.float_of(*(s for s, _ in sides))
    return [code if body.float_of(s) == kind else f"({code}).to({kind})" for s, code in sides]


def side(
    body: Body, s: ir.Scalar, axes: tuple[int, int], inner: Axis, shape: tuple[str, str], depth: int = 1,
    half: str | None = None, vanishes: bool = False,
) -> str:  # fmt: skip
    """One side of a contraction over its full tile, 0 outside the inner axis; `vanishes`: it is so by itself."""
    if axes[0] > axes[1]:  # the tile as it is loaded for another contraction, turned
        return f"tl.trans({side(body, s, axes[::-1], inner, shape[::-1], depth, half)})"
    kept = body.loaded_as(s, half) if half else None
    if kept is not None and kept.axes == axes and body.zero_outside(s):
        return kept.code
    text = body.converted(s, "float")
    if text.axes == axes and body.zero_outside(s):
        return text.code if half is None else body.cast(text, HALF[half]).code
    mask = None if vanishes else body.mask(inner.number)
    line = aligned([body.exact(text, s.dtype), Text("", axes)])[0][0]
    if mask is not None:
        guard = aligned([mask, Text("", axes)])[0][0]
        line = Text(f"tl.where({guard.code}, {line.code}, 0.0)", tuple(sorted({*text.axes, inner.number})), ATOM, depth)
    if line.axes != axes:
        if line.axes:
            code = f"tl.broadcast_to({line.code}, {', '.join(shape)})"
        else:
            code = f"tl.full(({', '.join(shape)}), {line.code}, {body.float_of(s)})"
        line = Text(code, axes, ATOM, depth)
    if half is not None:
        line = Text(f"{line.at(ATOM)}.to({HALF[half]})", axes, ATOM, depth)
    return line.code if len(line.code) < 60 else body.named("side", Text(line.code, axes, ATOM, depth)).code

"""Streaming kernels as text: tiles computed block by block, and reduced as they come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dslc.backends.triton.body import Axis, Body
from dslc.backends.triton.dots import dot_text, side
from dslc.backends.triton.kernels import (
    Along,
    KernelText,
    axis_of,
    count_text,
    finish,
    new_body,
    output_pointers,
    wish_of,
)  # fmt: skip
from dslc.backends.triton.reduce import bounded_tile, neutral, reduced, taken_in, vanishes
from dslc.backends.triton.text import ATOM, Text, atom, name_of, size_code
from dslc.backends.triton.tiles import half_of, tile_of, width_of

from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, keep
from dslc.passes.sides import contraction_sides
from dslc.schedule.form import Kernel, Member, Rescaled
from dslc.schedule.vanish import triangle
from dslc.sizes import product

ROWS, SHORT, COLUMNS = 0, 10, 20


@dataclass
class Streaming:
    """The state of one streaming kernel while it is written."""

    kernel: Kernel
    body: Body
    columns: Axis
    blocks: dict[str, int | str]
    #: short axes by their variables
    short: dict[tuple[int, ...], Axis]
    #: the first row of the program
    first_row: str
    computed: list[Member] = field(default_factory=list)


def stream_text(kernel: Kernel, dtype: str, layered: Mapping[ir.Node, int]) -> KernelText:
    body = new_body(kernel, dtype, layered)
    for m in kernel.tiles.values():
        for s in ir.scalars(m.body):
            if isinstance(s, ir.Read):
                body.pointer(s.tensor)
    for node in kernel.tiles:
        body.pointers.pop(node, None)
    output_pointers(kernel, body)
    body.count([*(m.body for m in kernel.members.values()), *(m.body for m in kernel.tiles.values())])
    sizes = kernel.sizes
    rows, columns = (product([sizes[v] for v in axis]) for axis in (kernel.rows, kernel.columns))
    batch = product([sizes[v] for v in kernel.batch])
    tile = tile_of(kernel)
    row_block, column_block = tile.rows, tile.columns
    blocks: dict[str, int | str] = {"BLOCK_ROWS": row_block, "BLOCK_COLUMNS": column_block}
    grid = count_text(rows, row_block)
    pid = "tl.program_id(0)"
    if kernel.batch:
        axis = axis_of(body, kernel, -1, "batch", kernel.batch, None)
        tiles = f"tl.cdiv({body.size(rows)}, BLOCK_ROWS)"
        body.line(f"{axis.name} = tl.program_id(0).to(tl.int64) // {tiles}")
        pid = f"(tl.program_id(0) % {tiles})"
        grid = f"{atom(size_code(batch))} * {grid}"
    row_axis = axis_of(body, kernel, ROWS, "rows", kernel.rows, row_block)
    first_row = body.fresh("first")
    body.line(f"{first_row} = {pid}.to(tl.int64) * BLOCK_ROWS")
    body.line(f"{row_axis.name} = {first_row} + tl.arange(0, BLOCK_ROWS)")
    column_axis = axis_of(body, kernel, COLUMNS, "columns", kernel.columns, column_block, 1)
    stream = Streaming(kernel, body, column_axis, blocks, {}, first_row)
    for node, m in kernel.tiles.items():
        short_axis(stream, m.reduced)
        body.tiles[node] = lambda t=m: block_of(stream, t)  # type: ignore[misc]
    for m in kernel.members.values():
        new = kernel.new_axes(m)
        if new and m.node.op is not None:
            short_axis(stream, new)
    for run in kernel.runs:
        if run.over_columns:
            one_pass(stream, run.members, run.rescaled, size_code(columns))
            continue
        for m in run.members:
            finish(body, kernel, m, body.scalar(m.body))
    return KernelText(
        wish_of(kernel) + "_stream",
        body,
        blocks,
        [grid],
        tile.warps,
        tile.stages,
        list(kernel.stored),
        [*kernel.tiles, *kernel.members],
        kernel,
        stream.computed,
        tile.words,
        {
            "BLOCK_ROWS": Along(rows, row_axis.ragged, 0, batch),
            "BLOCK_COLUMNS": Along(columns, column_axis.ragged),
        },
    )


def short_axis(stream: Streaming, variables: tuple[int, ...]) -> Axis:
    """An axis that is held as a whole; members whose axes are of one size share the block."""
    if variables in stream.short:
        return stream.short[variables]
    body = stream.body
    block = width_of(stream.kernel, variables)
    axis = axis_of(body, stream.kernel, SHORT + len(stream.short), "width", variables, block)
    stream.blocks[f"BLOCK_{axis.name.upper()}"] = block
    stream.short[variables] = axis
    body.line(f"{axis.name} = tl.arange(0, BLOCK_{axis.name.upper()})")
    return axis


def mapped(m: Member, s: ir.Scalar) -> ir.Scalar:
    """A part of a node's formula in the variables of the kernel."""
    numbers = (*m.axes, *m.reduced)
    return Change({v: keep(w) for v, w in enumerate(numbers)}).scalar(s)


def two_sides(stream: Streaming, m: Member) -> tuple[ir.Scalar, ir.Scalar]:
    """The factors of a contraction: first the one with the rows of the kernel, or with its tiles."""
    sides = contraction_sides(m.node)
    assert sides is not None
    left, right, _, rows, _ = sides
    of_rows = {m.axes[v] for v in rows} <= set(stream.kernel.rows)
    first, second = (left, right) if of_rows else (right, left)
    return mapped(m, first), mapped(m, second)


def block_of(stream: Streaming, m: Member) -> Text:
    """A block of a tile: rows by columns."""
    body = stream.body
    stream.computed.append(m)
    first, second = two_sides(stream, m)
    inner = stream.short[m.reduced]
    width = f"BLOCK_{inner.name.upper()}"
    half = half_of(first, second, body.dtype)
    left = side(body, first, (ROWS, inner.number), inner, ("BLOCK_ROWS", width), 0, half)
    right = side(body, second, (inner.number, COLUMNS), inner, (width, "BLOCK_COLUMNS"), 1, half)
    text = Text(dot_text(half, left, right), (ROWS, COLUMNS), ATOM, 1)
    return body.named(name_of(m.node, "tile"), text)


def one_pass(stream: Streaming, members: list[Member], scaled: Mapping[ir.Node, Rescaled], columns: str) -> None:
    """One run over the columns."""
    body, axis = stream.body, stream.columns
    names: dict[ir.Node, str] = {}
    #: the best values of those that ask where they are
    best: dict[ir.Node, str] = {}
    for m in members:
        assert m.node.op is not None
        names[m.node] = name = body.fresh(name_of(m.node))
        if m.node.op in ("argmax", "argmin"):
            best[m.node] = body.fresh(f"{name}_value")
            body.line(f"{name} = tl.zeros((BLOCK_ROWS,), tl.int64)")
            name = best[m.node]
        new = stream.kernel.new_axes(m)
        shape = f"(BLOCK_ROWS, BLOCK_{stream.short[new].name.upper()})" if new else "(BLOCK_ROWS,)"
        body.line(f"{name} = tl.full({shape}, {neutral(m.node.op, m.body.dtype)}, {body.float_of(m.body)})")
    start = body.fresh("start")
    body.open(f"for {start} in range({limits(stream, members, columns)}, BLOCK_COLUMNS):")
    body.line(f"{axis.name} = {start} + tl.arange(0, BLOCK_COLUMNS)")
    factors_: dict[ir.Node, str] = {}
    #: formulas whose value is known beyond the last column
    outside: dict[ir.Scalar, float | bool | None] = {}
    for m in sorted(members, key=lambda x: x.node.op == "sum"):
        name = names[m.node]
        assert m.node.op is not None
        if contraction_sides(m.node) is not None:
            grown = name if m.node not in scaled else f"{name} * {factors_[scaled[m.node].peak.node]}[:, None]"
            dot_step(stream, m, name, grown, outside)
            continue
        tile = body.scalar(m.body)
        tile = bounded_tile(body, m, tile, axis, stream.kernel, name, outside)
        if m.node in best:
            found_at(body, m, tile, name, best[m.node], start)
            continue
        value = reduced(body, m.node, tile, axis)
        if m.node.op == "sum":
            grown = name if m.node not in scaled else f"{name} * {factors_[scaled[m.node].peak.node]}"
            body.line(f"{name} = {grown} + {value.code}")
            continue
        growth = taken_in(body, m, Text(name, (ROWS,)), value, scaled)
        if growth:
            factors_[m.node] = growth
    body.close()
    for node in [n for n, t in body.values.items() if t.depth > 0]:
        del body.values[node]
    for m in members:
        new = stream.kernel.new_axes(m)
        axes = (ROWS, stream.short[new].number) if new else (ROWS,)
        finish(body, stream.kernel, m, Text(names[m.node], axes))


def found_at(body: Body, m: Member, tile: Text, name: str, best: str, start: str) -> None:
    """Let the position of the largest or smallest value be one in this block, if that is better than all before."""
    op = str(m.node.op)
    sign = ">" if op == "argmax" else "<"
    if not tile.code.isidentifier():
        tile = body.named(f"{name}_tile", tile)
    block = body.named(f"{best}_here", Text(f"tl.{op[3:]}({tile.code}, axis=1)", (ROWS,), ATOM, 1))
    better = body.named("better", Text(f"{block.code} {sign} {best}", (ROWS,), ATOM, 1))
    body.line(f"{name} = tl.where({better.code}, {start} + tl.{op}({tile.code}, axis=1), {name})")
    body.line(f"{best} = tl.where({better.code}, {block.code}, {best})")


def limits(stream: Streaming, members: list[Member], columns: str) -> str:
    """The columns to visit: not those beyond a diagonal where nothing is left of any member."""
    match triangle(stream.kernel, members):
        case "above":
            return f"0, tl.minimum({columns}, {stream.first_row} + BLOCK_ROWS)"
        case "below":
            return f"{stream.first_row}, {columns}"
    return f"0, {columns}"


def dot_step(
    stream: Streaming, m: Member, name: str, grown: str, outside: Mapping[ir.Scalar, float | bool | None]
) -> None:
    """A contraction of a tile with a second tensor: one block of it."""
    body = stream.body
    first, second = two_sides(stream, m)
    new = stream.kernel.new_axes(m)
    short = stream.short[new]
    half = half_of(first, second, body.dtype)
    tile = ("BLOCK_ROWS", "BLOCK_COLUMNS")
    left = side(body, first, (ROWS, COLUMNS), stream.columns, tile, 1, half, vanishes(first, outside))
    depth = f"BLOCK_{short.name.upper()}"
    right = side(body, second, (COLUMNS, short.number), stream.columns, ("BLOCK_COLUMNS", depth), 1, half)
    body.line(f"{name} = {dot_text(half, left, right, grown)}")

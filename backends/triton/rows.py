"""Reductions of rows as kernel text: in one tile, in a loop over long rows, or in parts where there are few rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from dslc.backends.triton.body import Axis, Body
from dslc.backends.triton.kernels import (
    Along,
    KernelText,
    axis_of,
    count_text,
    finish,
    index_line,
    keep_value,
    new_body,
    output_pointers,
    store,
    wide,
    wish_of,
)  # fmt: skip
from dslc.backends.triton.reduce import (
    accumulate,
    bounded_tile,
    finished,
    masked_tile,
    neutral,
    reduced,
    taken_in,
)
from dslc.backends.triton.target import TARGET
from dslc.backends.triton.text import Text, aligned, is_float, name_of
from dslc.backends.triton.tiles import tile_of

from dslc.ir import nodes as ir
from dslc.schedule.form import Kernel, Member, Rescaled, Split
from dslc.sizes import Size, product


def rows_kernel(kernel: Kernel, dtype: str, layered: Mapping[ir.Node, int], made: Split | None = None) -> KernelText:
    """Reductions over the columns of a tile, with the maps between and after them.

    If it is made in parts, each program reduces one part of the columns only, and stores what it finds there.
    """
    body = new_body(kernel, dtype, layered)
    output_pointers(kernel, body)
    row_sizes = tuple(kernel.sizes[v] for v in kernel.rows)
    column_sizes = tuple(kernel.sizes[v] for v in kernel.columns)
    rows, columns = product(row_sizes), product(column_sizes)
    whole = TARGET.holds(column_sizes)
    tile = tile_of(kernel)
    row_block, column_block = tile.rows, tile.columns
    blocks: dict[str, int | str] = {}
    grid = ["1"]
    if kernel.rows and rows != 1:
        blocks["BLOCK_ROWS"] = row_block
        axis_of(body, kernel, 0, "rows", kernel.rows, row_block)
        body.line(index_line(body.axes[0].name, "tl.program_id(0)", "BLOCK_ROWS", wide(row_sizes + column_sizes)))
        grid = [count_text(rows, row_block)]
    elif kernel.rows:
        body.axes.append(Axis(0, "0", kernel.rows, row_sizes, 0, False, True))
    blocks["BLOCK_COLUMNS"] = column_block
    axis = axis_of(body, kernel, 1, "columns", kernel.columns, column_block, 0 if whole else 1)
    if whole:
        body.line(f"{axis.name} = tl.arange(0, BLOCK_COLUMNS)")
        for member in kernel.members.values():
            one_block(body, kernel, member, axis)
    elif made is not None:
        found = one_pass(body, kernel, list(kernel.members.values()), axis, part_of(body, made, columns, "COLUMNS", 1))
        grid.append(str(made.count))
        for n, m in kernel.members.items():
            store_part(body, made, m, found[n])
        wish = "_".join(dict.fromkeys(name_of(n) for n in kernel.members))
        return KernelText(
            wish + "_parts",
            body,
            blocks,
            grid,
            tile.warps,
            tile.stages,
            list(made.parts.values()),
            list(kernel.members),
            kernel,
        )
    else:
        looped(body, kernel, axis, columns)
    along = {"BLOCK_ROWS": Along(rows, body.axes[0].ragged, 0)} if "BLOCK_ROWS" in blocks else {}
    return KernelText(
        wish_of(kernel) + "_rows",
        body,
        blocks,
        grid,
        tile.warps,
        tile.stages,
        list(kernel.stored),
        list(kernel.members),
        kernel,
        along=along,
    )


def part_of(body: Body, made: Split, extent: Size, along: str, place: int) -> str:
    """The lines that say which part of a range a program has, and its limits; `place` is the axis of the grid."""
    part = next((a.name for a in body.axes if a.variables == (len(made.first.sizes),)), "")
    if not part:
        part = body.fresh("part")
        body.axes.append(Axis(-1, part, (len(made.first.sizes),), (made.count,), 0, False, True))
        body.line(f"{part} = tl.program_id({place}).to(tl.int64)")
        for x in made.parts.values():
            body.pointer(x)
    size, length = body.size(extent), body.fresh("length")
    body.line(f"{length} = tl.cdiv(tl.cdiv({size}, {made.count}), BLOCK_{along}) * BLOCK_{along}")
    return f"{part} * {length}, tl.minimum({size}, ({part} + 1) * {length})"


def store_part(body: Body, made: Split, member: Member, found: Text) -> None:
    axes = (len(made.first.sizes), *member.axes)
    store(body, replace(member, node=made.parts[member.node], axes=axes), found)  # type: ignore[arg-type]


def one_block(body: Body, kernel: Kernel, member: Member, axis: Axis) -> None:
    node = member.node
    text = body.scalar(member.body)
    if node.op is not None:
        tile = masked_tile(body, node, member, text, axis, kernel)
        text = reduced(body, node, tile, axis)
    finish(body, kernel, member, text)


def looped(body: Body, kernel: Kernel, axis: Axis, columns: Size) -> None:
    """Rows that are too long for a tile, in runs over blocks of columns."""
    for run in kernel.runs:
        if not run.over_columns:
            for member in run.members:
                finish(body, kernel, member, body.scalar(member.body))
            continue
        found = one_pass(body, kernel, run.members, axis, f"0, {body.size(columns)}", run.rescaled)
        for m in run.members:
            if m.node in found and m.node in kernel.stored:
                store(body, m, found[m.node])


def one_pass(
    body: Body,
    kernel: Kernel,
    members: list[Member],
    axis: Axis,
    limits: str,
    scaled: Mapping[ir.Node, Rescaled] = MappingProxyType({}),
) -> dict[ir.Node, Text]:
    """One run over blocks of columns; gives the reductions that it makes.

    Most are made entry by entry, and brought together at the end. Those that are rescaled, and their maxima, are
    known for each row after each block.
    """
    has_rows = any(a.number == 0 and not a.single for a in body.axes)
    tile_axes = (0, 1) if has_rows else (1,)
    by_row = {*scaled, *(x.peak.node for x in scaled.values())}
    totals: dict[ir.Node, tuple[str, ...]] = {}
    for m in members:
        if m.node.op is None:
            continue
        blocks = [*(["BLOCK_ROWS"] if has_rows else []), *([] if m.node in by_row else ["BLOCK_COLUMNS"])]
        shape = f"({', '.join(blocks)}{',' if len(blocks) == 1 else ''})"
        name = body.fresh(name_of(m.node) if m.node in by_row else f"{name_of(m.node)}_so_far")
        integral = not is_float(m.body.dtype)
        kind = "tl.int64" if integral else body.float_of(m.body)
        if m.node.op in ("any", "all"):
            kind = "tl.int32"
        body.line(f"{name} = tl.full({shape}, {neutral(m.node.op, m.body.dtype)}, {kind})")
        totals[m.node] = (name,)
        if m.node.op in ("argmax", "argmin"):
            where = body.fresh(f"{name}_at")
            body.line(f"{where} = tl.zeros({shape}, tl.int64)")
            totals[m.node] = (name, where)
    start = body.fresh("start")
    body.open(f"for {start} in range({limits}, BLOCK_COLUMNS):")
    axis.depth = len(body.scopes) - 1
    body.line(f"{axis.name} = {start} + tl.arange(0, BLOCK_COLUMNS)")
    growths: dict[ir.Node, str] = {}
    outside: dict[ir.Scalar, float | bool | None] = {}
    for m in members:
        text = body.scalar(m.body)
        if m.node.op is None:
            finish(body, kernel, m, text)
            continue
        if m.node in by_row:
            (name,) = totals[m.node]
            value = reduced(body, m.node, bounded_tile(body, m, text, axis, kernel, name, outside), axis)
            if m.node in scaled:
                body.line(f"{name} = {name} * {growths[scaled[m.node].peak.node]} + {value.code}")
            else:
                growths[m.node] = taken_in(body, m, Text(name, tile_axes[:-1]), value, scaled)
            continue
        tile = aligned([masked_tile(body, m.node, m, text, axis, kernel, outside), Text("", tile_axes)])[0][0]
        accumulate(body, m.node, totals[m.node], tile, axis, tile_axes)
    body.close()
    for node, text in list(body.values.items()):
        if text.depth > 0:
            del body.values[node]
            if node not in by_row:
                body.formulas.lazy[node] = kernel.members[node].body
    found: dict[ir.Node, Text] = {}
    for m in members:
        if m.node in by_row:
            body.values[m.node] = found[m.node] = Text(totals[m.node][0], tile_axes[:-1])
        elif m.node.op is not None:
            text = keep_value(body, m.node, finished(body, m.node, totals[m.node], tile_axes, axis))
            body.values[m.node] = found[m.node] = text
    return found

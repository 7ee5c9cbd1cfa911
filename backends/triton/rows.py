"""Reductions of rows as kernel text: in one tile, in a loop over long rows, or in parts where there are few rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from dslc.backends.triton.body import Axis, Body, CannotLower, product
from dslc.backends.triton.kernels import (
    Along,
    KernelText,
    block_for,
    count_text,
    index_line,
    keep_value,
    new_body,
    output_pointers,
    power_of_two,
    ragged,
    store,
    wide,
    wish_of,
)  # fmt: skip
from dslc.backends.triton.text import ATOM, BIT, COMPARE, Text, aligned, is_float, name_of

from dslc.ir import nodes as ir
from dslc.ir.known import value_given
from dslc.kernels.contract import factors
from dslc.kernels.form import Kernel, Member
from dslc.kernels.group import short
from dslc.kernels.rescale import Rescaled, rescaled_sums
from dslc.kernels.split import Split
from dslc.sizes import Size


def rows_kernel(kernel: Kernel, dtype: str, layered: Mapping[ir.Node, int], made: Split | None = None) -> KernelText:
    """Reductions over the columns of a tile, with the maps between and after them.

    If it is made in parts, each program reduces one part of the columns only, and stores what it finds there.
    """
    body = new_body(kernel, dtype, layered)
    output_pointers(kernel, body)
    row_sizes = tuple(kernel.sizes[v] for v in kernel.rows)
    column_sizes = tuple(kernel.sizes[v] for v in kernel.columns)
    rows, columns = product(row_sizes), product(column_sizes)
    whole = short(column_sizes)
    blocks: dict[str, int | str] = {}
    grid = ["1"]
    column_block = power_of_two(columns) if whole and isinstance(columns, int) else long_block(rows)
    if kernel.rows and rows != 1:
        crowded = made is None and not whole and dtype != "f64" and live_tiles(kernel, dtype) > MOST_RUN_OVER
        row_block = rows_of_program(rows, column_block, dtype, crowded)
        blocks["BLOCK_ROWS"] = row_block
        body.axes.append(Axis(0, body.fresh("rows"), kernel.rows, row_sizes, 0, ragged(rows, row_block)))
        body.line(index_line(body.axes[0].name, "tl.program_id(0)", "BLOCK_ROWS", wide(row_sizes + column_sizes)))
        grid = [count_text(rows, row_block)]
    elif kernel.rows:
        body.axes.append(Axis(0, "0", kernel.rows, row_sizes, 0, False, True))
    blocks["BLOCK_COLUMNS"] = column_block
    depth = 0 if whole else 1
    axis = Axis(1, body.fresh("columns"), kernel.columns, column_sizes, depth, ragged(columns, column_block))
    body.axes.append(axis)
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
        # a float64 takes two registers; a sum of products of two tiles aims at too few of them with eight warps
        product_of_two = len(kernel.members) == 1 and live_tiles(kernel, dtype) == 6
        warps = 8 if dtype == "f64" and not product_of_two else 4
        return KernelText(
            wish + "_parts", body, blocks, grid, warps, 1, list(made.parts.values()), list(kernel.members), kernel
        )
    else:
        looped(body, kernel, axis, columns)
    sines = turns([m.body for m in kernel.members.values()])
    warps = 4 if column_block <= 2048 and live_tiles(kernel, dtype) <= MOST_LIVE and not sines else 8
    outputs, spans = list(kernel.stored), list(kernel.members)
    along = {"BLOCK_ROWS": Along(rows, body.axes[0].ragged, 0)} if "BLOCK_ROWS" in blocks else {}
    return KernelText(wish_of(kernel) + "_rows", body, blocks, grid, warps, 1, outputs, spans, kernel, along=along)


#: with more full tiles than this, a program has eight warps: a thread then holds half as much of each
MOST_LIVE = 2
#: with more of them in a run over long rows, it has half as many rows as well
MOST_RUN_OVER = 8


def live_tiles(kernel: Kernel, dtype: str) -> int:
    """How many values of the size of a tile a program reads or adds up, about as many as are alive; an f64 is two."""
    rows, columns = set(kernel.rows), set(kernel.columns)
    found: dict[object, int] = {}
    for m in kernel.members.values():
        for s in ir.scalars(m.body):
            if (
                isinstance(s, ir.Read)
                and s.tensor not in kernel.members
                and all(ir.variables(s) & x for x in (rows, columns))
            ):
                found[s] = words(s.dtype, dtype)
        if m.node.op is not None and not short([kernel.sizes[v] for v in kernel.columns]):
            found[m.node] = words(m.node.dtype, dtype)
    return sum(found.values())


def words(kind: str, dtype: str) -> int:
    """How many registers a number takes, in a module of this dtype."""
    return 2 if kind in ("f64", "i64") or (kind == "float" and dtype == "f64") else 1


def turns(bodies: Sequence[ir.Scalar]) -> bool:
    """Are there sines? Those of large numbers need many registers for a short time."""
    return any(isinstance(s, ir.Op) and s.name in ("sin", "cos", "tan") for body in bodies for s in ir.scalars(body))


def rows_of_program(rows: Size, column_block: int, dtype: str, crowded: bool = False) -> int:
    """How many rows a program has; a tile in float64 has half as many entries, and as many words."""
    entries = 1024 if dtype == "f64" or crowded else 2048
    return block_for(rows, 1, max(1, min(64, entries // column_block)))


def long_block(rows: Size) -> int:
    """A block of columns that are run over; a program has few of few rows, and then more columns."""
    if not isinstance(rows, int) or rows >= 4096:
        return 64
    return 256 if rows > 1 else 1024


def row_programs(kernel: Kernel, dtype: str) -> int | None:
    """How many programs run over the columns of a kernel; None where that is not known."""
    rows = product([kernel.sizes[v] for v in kernel.rows])
    return -(-rows // rows_of_program(rows, long_block(rows), dtype)) if isinstance(rows, int) else None


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


NEUTRAL = {"sum": 0, "prod": 1, "max": float("-inf"), "min": float("inf"), "argmax": float("-inf"),
           "argmin": float("inf"), "any": False, "all": True}  # fmt: skip


def neutral(op: str, dtype: str) -> str:
    if op in ("max", "argmax", "min", "argmin") and not is_float(dtype):
        return str(-(2**63) if op in ("max", "argmax") else 2**63 - 1)
    value = NEUTRAL[op]
    if op in ("any", "all"):
        return "0" if op == "any" else "1"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return f'float("{"-inf" if value < 0 else "inf"}")'
    return f"{float(value)}" if is_float(dtype) else str(value)


def one_block(body: Body, kernel: Kernel, member: Member, axis: Axis) -> None:
    node = member.node
    text = body.scalar(member.body)
    if node.op is not None:
        tile = masked_tile(body, node, member, text, axis, kernel)
        text = reduced(body, node, tile, axis)
    text = keep_value(body, node, text)
    body.values[node] = text
    if node in kernel.stored:
        store(body, member, text)


def masked_tile(
    body: Body,
    node: ir.Comp,
    member: Member,
    text: Text,
    axis: Axis,
    kernel: Kernel,
    outside: Mapping[ir.Scalar, float | bool | None] = MappingProxyType({}),
) -> Text:
    """What is reduced, neutral outside the columns, over all tile axes that it needs.

    What is loaded is 0 there, but for formulas that are known to be something else `outside`.
    """
    assert node.op is not None
    value_dtype = member.body.dtype
    if node.op in ("any", "all"):
        text = (
            body.cast(text, "tl.int32") if text.axes else Text(f"tl.cast({text.code}, tl.int32)", (), ATOM, text.depth)
        )
        value_dtype = "i64"
    text = body.exact(text)
    mask = body.mask(axis.number)
    loaded = not any(s in outside for s in ir.scalars(member.body))
    pure = node.op == "sum" and axis.number in text.axes and loaded and body.zero_outside(member.body)
    wanted = text.axes if axis.number in text.axes else tuple(sorted({*text.axes, axis.number}))
    if mask is not None and not pure:
        parts, axes, depth = aligned([mask, text])
        return Text(f"tl.where({parts[0].code}, {parts[1].code}, {neutral(node.op, value_dtype)})", axes, ATOM, depth)
    if axis.number not in text.axes:
        shape = ", ".join(f"BLOCK_{'ROWS' if a == 0 else 'COLUMNS'}" for a in wanted)
        line = aligned([text, Text("", wanted)])[0][0]
        kind = "tl.int64" if not is_float(value_dtype) else body.float_type
        return Text(
            f"tl.zeros(({shape}{',' if len(wanted) == 1 else ''}), {kind}) + {line.at(BIT)}",
            wanted,
            BIT,
            max(text.depth, axis.depth),
        )
    return text


def reduced(body: Body, node: ir.Comp, tile: Text, axis: Axis) -> Text:
    """The reduction of a tile over its columns."""
    place = tile.axes.index(axis.number)
    rest = tuple(a for a in tile.axes if a != axis.number)
    depth = max((a.depth for a in body.axes if a.number in rest and not a.single), default=0)
    match node.op:
        case "sum" | "max" | "min":
            if node.op != "sum" and is_float(node.dtype):
                name = f"{node.op}imum"
                body.helpers.add(name)
                code = f"{name}({tile.code}, {place})"
            else:
                code = f"tl.{node.op}({tile.code}, axis={place})"
        case "any" | "all":
            code = f"tl.{'max' if node.op == 'any' else 'min'}({tile.code}, axis={place}) != 0"
            return Text(code, rest, COMPARE, depth)
        case "argmax" | "argmin":
            code = f"tl.{node.op}({tile.code}, axis={place}).to(tl.int64)"
        case "prod":
            body.helpers.add("multiplied")
            code = f"tl.reduce({tile.code}, {place}, multiplied)"
        case _:
            raise CannotLower(f"the reduction `{node.op}`", node)
    return Text(code, rest, ATOM, depth)


def looped(body: Body, kernel: Kernel, axis: Axis, columns: Size) -> None:
    """Rows that are too long for a tile: one pass over blocks of columns for each reduction that waits for another.

    Sums that can be rescaled do not wait for their maximum.
    """
    waiting = list(kernel.members.values())
    while waiting:
        now = ready(waiting, kernel)
        rows_only = [m for m in now if m.node.op is None and not set(m.axes) & set(kernel.columns)]
        if rows_only:
            for member in rows_only:
                text = keep_value(body, member.node, body.scalar(member.body))
                body.values[member.node] = text
                if member.node in kernel.stored:
                    store(body, member, text)
                waiting.remove(member)
            continue
        scaled = rescaled_sums(now, waiting)
        now = [m for m in waiting if m in now or m.node in scaled]
        found = one_pass(body, kernel, now, axis, f"0, {body.size(columns)}", scaled)
        for m in now:
            if m.node in found and m.node in kernel.stored:
                store(body, m, found[m.node])
        waiting = [m for m in waiting if m not in now]


def ready(waiting: list[Member], kernel: Kernel) -> list[Member]:
    """Members that read no reduction which is still to be made."""
    pending = {m.node for m in waiting if m.node.op is not None}
    blocked: set[ir.Node] = set()
    out = []
    for m in waiting:
        reads = {s.tensor for s in ir.scalars(m.body) if isinstance(s, ir.Read)}
        if reads & (pending | blocked):
            blocked.add(m.node)
        else:
            out.append(m)
    return out


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
        kind = "tl.int64" if integral else "tl.float64" if "f64" in (m.body.dtype, body.dtype) else "tl.float32"
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
            text = keep_value(body, m.node, text)
            body.values[m.node] = text
            if m.node in kernel.stored:
                store(body, m, text)
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
                body.lazy[node] = kernel.members[node].body
    found: dict[ir.Node, Text] = {}
    for m in members:
        if m.node in by_row:
            body.values[m.node] = found[m.node] = Text(totals[m.node][0], tile_axes[:-1])
        elif m.node.op is not None:
            text = keep_value(body, m.node, finished(body, m.node, totals[m.node], tile_axes, axis))
            body.values[m.node] = found[m.node] = text
    return found


def bounded_tile(
    body: Body,
    m: Member,
    tile: Text,
    axis: Axis,
    kernel: Kernel,
    name: str,
    outside: dict[ir.Scalar, float | bool | None],
) -> Text:
    """What a block adds to a reduction, neutral beyond the last column.

    What follows from the masked tile of a maximum is neutral there too, and needs no mask of its own: `outside` has
    formulas whose value is known there.
    """
    least = m.node.op in ("max", "argmax") and outside.get(m.body) == float("-inf")
    if not least and not vanishes(m.body, outside):
        tile = masked_tile(body, m.node, m, tile, axis, kernel, outside)
    if m.node.op == "max" and axis.ragged and not tile.code.isidentifier():
        tile = body.named(f"{name}_tile", tile)
        body.scopes[tile.depth].done[m.body] = tile
        outside[m.body] = float("-inf")
    return tile


def vanishes(s: ir.Scalar, outside: Mapping[ir.Scalar, float | bool | None]) -> bool:
    """Is a term of a sum 0 beyond the last column? A factor is, and the others are what they are inside: finite."""
    parts = [f.scalar for f in factors(s)]
    zeros = [x for x in parts if value_given(x, outside.get) == 0]
    return bool(zeros) and not any(x in outside for other in parts if other not in zeros for x in ir.scalars(other))


def taken_in(body: Body, m: Member, so_far: Text, value: Text, scaled: Mapping[ir.Node, Rescaled]) -> str:
    """Let a maximum or minimum take in that of one block; gives what sums that follow it are multiplied by, if any."""
    assert m.node.op is not None
    name, axes = so_far.code, so_far.axes
    after = body.named(f"{name}_next", Text(body.pairwise(m.node.op, name, value.code, m.node.dtype), axes, ATOM, 1))
    body.values[m.node] = after
    growth = ""
    dependants = [x for x in scaled.values() if x.peak is m]
    if dependants:
        shift = body.scalar(dependants[0].shift)
        if not shift.code.isidentifier():
            shift = body.named("shift", shift)
            body.scopes[shift.depth].done[dependants[0].shift] = shift
        growth = body.named("growth", Text(f"tl.exp({name} - {shift.code})", axes, ATOM, 1)).code
    body.line(f"{name} = {after.code}")
    return growth


def accumulate(
    body: Body, node: ir.Comp, names: tuple[str, ...], tile: Text, axis: Axis, axes: tuple[int, ...]
) -> None:
    name = names[0]
    match node.op:
        case "sum":
            body.line(f"{name} += {tile.code}")
        case "prod":
            body.line(f"{name} *= {tile.at(BIT + 1)}")
        case "max" | "min":
            body.line(f"{name} = {body.pairwise(node.op, name, tile.code, node.dtype)}")
        case "any" | "all":
            body.line(f"{name} = tl.{'maximum' if node.op == 'any' else 'minimum'}({name}, {tile.code})")
        case "argmax" | "argmin":
            value = body.named("candidate", Text(tile.code, axes, ATOM, axis.depth))
            sign = ">" if node.op == "argmax" else "<"
            better = body.named("better", Text(f"{value.code} {sign} {name}", axes, COMPARE, axis.depth))
            columns = aligned([Text(axis.name, (axis.number,)), Text("", axes)])[0][0]
            body.line(f"{names[1]} = tl.where({better.code}, {columns.code}, {names[1]})")
            body.line(f"{name} = tl.where({better.code}, {value.code}, {name})")


def finished(body: Body, node: ir.Comp, names: tuple[str, ...], axes: tuple[int, ...], axis: Axis) -> Text:
    tile = Text(names[0], axes)
    if node.op not in ("argmax", "argmin"):
        return reduced(body, node, tile, axis)
    place = axes.index(axis.number)
    rest = tuple(a for a in axes if a != axis.number)
    best = f"tl.{node.op[3:]}({names[0]}, axis={place}, keep_dims=True)"
    code = f"tl.min(tl.where({names[0]} == {best}, {names[1]}, {2**62}), axis={place})"
    return Text(code, rest)

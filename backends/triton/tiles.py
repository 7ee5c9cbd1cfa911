"""What a program has of the axes of its kernel, and how many warps and stages it gets: found before it is written.

A thread has 255 registers. What fills them are tiles: those that are read, and those of sums that are not done yet.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dslc.backends.triton.target import TARGET
from dslc.backends.triton.text import HALF, name_of

from dslc.ir import nodes as ir
from dslc.ops.table import RECORDS
from dslc.schedule.form import Kernel, Loop, Recurrence, Step, Tile, walked
from dslc.schedule.recurrences import with_recurrences
from dslc.schedule.split import added_up, split, sums_afterwards
from dslc.sizes import Size, product

#: the same for streams in 16 bits. Products of products have 16 rows in each warp: with more than two warps several
#: hold the same rows, and only what is read is spread over all of them
MOST_STREAMED = 176
#: a map of this many scalars gets more warps, so that each thread has fewer elements
HEAVY = 32
#: with more full tiles than this, a program of whole rows has eight warps: a thread then holds half as much of each
MOST_LIVE = 2
#: with more of them in a part of a sum: of each a thread of four warps holds sixteen
MOST_OF_PARTS = 12
#: with more of them in a run over long rows, it has half as many rows as well
MOST_RUN_OVER = 8
#: with more tiles than this read after the sums, a contraction has half as many columns
MOST_READ = 6
#: short axes of a stream of this length and more take so many registers that a program gets more warps
WIDE = 64
#: and fewer rows, where it holds this many tiles of rows by a short axis
MOST_HELD = 4


def decided(steps: Sequence[Step], dtype: str, apart: Collection[ir.Node] = ()) -> list[Step]:
    """The steps with all that is left to decide: which scans are one kernel, tiles, and sums in parts.

    `apart` are parameters of layers that lie each somewhere else.
    """
    made = with_recurrences(steps, apart)
    for step in walked(made):
        if isinstance(step, Recurrence):
            step.tile = tile_of_scan(step, dtype)
        if isinstance(step, Kernel):
            tiled(step, dtype)
            count = programs(step, dtype)
            step.split = split(step, count, name_of, TARGET) if count is not None else None
            if step.split is not None and step.split.second is not None:
                step.split.first.tile = tile_for(step.split.first, dtype, part=True)
                tiled(step.split.second, dtype)
    for step in walked(made):
        if isinstance(step, Loop):
            step.afterwards = sums_afterwards(step)
            for later in step.afterwards:
                tiled(later.kernel, dtype)
    return added_up(made)


def tiled(kernel: Kernel, dtype: str) -> Kernel:
    """A kernel that knows its tile."""
    kernel.tile = tile_for(kernel, dtype)
    return kernel


def tile_of(step: Kernel | Recurrence) -> Tile:
    assert step.tile is not None, "a kernel has a tile before it is written"
    return step.tile


def tile_for(kernel: Kernel, dtype: str, part: bool = False) -> Tile:
    """The tile of a kernel in a module of a dtype; a `part` of a sum is all that it leaves in memory."""
    match kernel.kind:
        case "map":
            return tile_of_map(kernel, dtype)
        case "rows":
            return tile_of_rows(kernel, dtype, part)
        case "dot":
            return tile_of_dot(kernel, dtype)
    return tile_of_stream(kernel, dtype)


def programs(kernel: Kernel, dtype: str) -> int | None:
    """How many programs run over the axes that a kernel sums over; None where that is not known."""
    if kernel.kind not in ("rows", "dot"):
        return None
    count = product([kernel.sizes[v] for v in kernel.batch])
    tile = tile_for(kernel, dtype, part=True)
    columns = kernel.columns if kernel.kind == "dot" else ()
    for axis, block in ((kernel.rows, tile.rows), (columns, tile.columns)):
        extent = product([kernel.sizes[v] for v in axis])
        if not isinstance(extent, int) or not isinstance(count, int):
            return None
        count *= -(-extent // block)
    return count if isinstance(count, int) else None


# ---- what a kernel is made of ------------------------------------------------------------------------------


def extents(kernel: Kernel) -> tuple[Size, Size]:
    """How many rows and columns there are."""
    rows, columns = (product([kernel.sizes[v] for v in axis]) for axis in (kernel.rows, kernel.columns))
    return rows, columns


def power_of_two(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def block_for(extent: Size, least: int, most: int) -> int:
    """A block that is no longer than it must be."""
    if isinstance(extent, int):
        return max(least, min(most, power_of_two(extent)))
    return most


def warps_for(words: int, most: int = TARGET.words) -> int:
    """The fewest warps of 32 threads whose threads hold no more of the tiles of a program, which have so many words.

    Two at least: a multiprocessor holds 32 programs and 64 warps.
    """
    return next((w for w in (2, 4) if words <= most * TARGET.lanes * w), 8)


def widest_float(kernel: Kernel, dtype: str) -> str:
    """The dtype of the widest floats of a kernel: a module may compute in float64 what its spec declares so."""
    found = (s.dtype for m in kernel.members.values() for s in ir.scalars(m.body))
    return "f64" if dtype == "f64" or "f64" in found else dtype


def turns(bodies: Sequence[ir.Scalar]) -> bool:
    """Are there sines? Those of large numbers need many registers for a short time."""
    return any(isinstance(s, ir.Op) and s.name in ("sin", "cos", "tan") for body in bodies for s in ir.scalars(body))


def words(kind: str, dtype: str) -> int:
    """How many registers a number takes, in a module of this dtype."""
    return 2 if kind in ("f64", "i64") or (kind == "float" and dtype == "f64") else 1


def tiles_read(kernel: Kernel, but: Sequence[ir.Node] = ()) -> set[ir.Read]:
    """The values of the size of a tile that a program reads from memory, but for the sake of some members."""
    rows, columns = set(kernel.rows), set(kernel.columns)
    return {
        s for m in kernel.members.values() if m.node not in but for s in ir.scalars(m.body)
        if isinstance(s, ir.Read) and s.tensor not in kernel.members and s.tensor not in kernel.tiles
        and ir.variables(s) & rows and ir.variables(s) & columns
    }  # fmt: skip


def kept_in(tensor: ir.Node, dtype: str) -> str:
    """What a tensor is kept in: all parameters in one dtype, which the module says."""
    if isinstance(tensor, ir.Input) and tensor.role == "param":
        return dtype
    return str(getattr(tensor, "dtype", ""))


def half_of(left: ir.Scalar, right: ir.Scalar, dtype: str) -> str | None:
    """The type of 16 bits in which a product is taken, on tensor cores; None where it is taken in float32.

    Both sides must be kept in it. In a module of that type a side that is computed rounds to it, too: so it would if
    it were put into memory.
    """
    kept = {kept_in(s.tensor, dtype) if isinstance(s, ir.Read) else "" for s in (left, right)}
    if len(kept) == 1 and kept <= HALF.keys():
        return kept.pop()
    wide = {s.dtype for x in (left, right) for s in ir.scalars(x)} & ({"f64", *HALF} - {dtype})
    return dtype if dtype in HALF and not wide else None


# ---- scans -------------------------------------------------------------------------------------------------


def tile_of_scan(step: Recurrence, dtype: str) -> Tile:
    extent, length, form = product(step.scan.carries[0].shape), step.scan.length, step.linear
    if form is None:
        return Tile(block_for(extent, 16, 256), 1, 1, 4, 1)
    # float64 takes twice the registers, so its programs have half as many elements
    rows = block_for(extent, 16, 16 if dtype == "f64" else 32)
    # six tiles of a 2 x 2 system at a time, or two in float64 of each of several values: registers of eight warps
    several = dtype == "f64" and len(form.groups) > 1
    return Tile(rows, block_for(length, 1, 32), 1, 8 if several or any(len(g) > 1 for g in form.groups) else 4, 1)


# ---- maps --------------------------------------------------------------------------------------------------


def tile_of_map(kernel: Kernel, dtype: str) -> Tile:
    bodies = [m.body for m in kernel.members.values()]
    # of the sines of float64 a thread computes one: each needs the registers of some thirty numbers
    sines = widest_float(kernel, dtype) == "f64" and turns(bodies)
    extent = extents(kernel)[0]
    block = 1 if extent == 1 else block_for(extent, 16, 256 if sines else 1024)
    return Tile(block, 1, 1, warps_of_map(block, sum(1 for body in bodies for _ in ir.scalars(body)) >= HEAVY), 1)


def warps_of_map(block: int, heavy: bool) -> int:
    return min(8 if heavy else 4, max(1, (32 if block == 1 else block) // 32))


# ---- rows --------------------------------------------------------------------------------------------------


def tile_of_rows(kernel: Kernel, dtype: str, part: bool) -> Tile:
    rows, columns = extents(kernel)
    whole = TARGET.holds([kernel.sizes[v] for v in kernel.columns])
    column_block = power_of_two(columns) if whole and isinstance(columns, int) else long_block(rows)
    widest, live = widest_float(kernel, dtype), live_tiles(kernel, dtype)
    over = 0 if part or whole else live
    if over >= MOST_RUN_OVER and widest == "f64" and column_block == 1024:
        column_block = 512
    entries = 1024 if widest == "f64" or over > MOST_RUN_OVER else 2048
    row_block = 1 if rows == 1 else block_for(rows, 1, max(1, min(64, entries // column_block)))
    if part:
        # a float64 takes two registers; a sum of products of two tiles aims at too few of them with eight warps
        product_of_two = len(kernel.members) == 1 and len(tiles_read(kernel)) == 2
        many = live > MOST_OF_PARTS or (widest == "f64" and not product_of_two)
    else:
        many = column_block > 2048 or live > MOST_LIVE or turns([m.body for m in kernel.members.values()])
    return Tile(row_block, column_block, 1, 8 if many else 4, 1)


def live_tiles(kernel: Kernel, dtype: str) -> int:
    """How many values of the size of a tile a program reads or adds up, about as many as are alive; an f64 is two."""
    found = sum(words(s.dtype, dtype) for s in tiles_read(kernel))
    if TARGET.holds([kernel.sizes[v] for v in kernel.columns]):
        return found
    return found + sum(words(m.node.dtype, dtype) for m in kernel.members.values() if m.node.op is not None)


def long_block(rows: Size) -> int:
    """A block of columns that are run over; a program has few of few rows, and then more columns."""
    if not isinstance(rows, int) or rows >= 4096:
        return 64
    return 256 if rows > 1 else 1024


# ---- contractions ------------------------------------------------------------------------------------------


def tile_of_dot(kernel: Kernel, dtype: str) -> Tile:
    rows, columns = extents(kernel)
    most_rows, most_columns = most_of_dot(kernel, dtype)
    row_block, column_block = block_for(rows, 16, most_rows), block_for(columns, 16, most_columns)
    halves = all(half_of(d.left, d.right, dtype) is not None for d in kernel.dots) and tiles_of_a_side(kernel) < 2
    # a program holds a tile of sums for each contraction: eight warps keep it in registers, and sines of float64
    sines = widest_float(kernel, dtype) == "f64" and turns([s for d in kernel.dots for s in (d.left, d.right)])
    small = row_block == column_block == 16 and len(kernel.dots) < 3
    # elsewhere a second stage spills on sm80, or keeps a mask in shared memory, which has no bits (gfx942 refuses)
    stages = 2 if halves and len(kernel.dots) == 1 else 1
    return Tile(row_block, column_block, 32 if halves else 16, 4 if small and not sines else 8, stages)


def most_of_dot(kernel: Kernel, dtype: str) -> tuple[int, int]:
    """Rows and columns that a program has at most."""
    summed = [d.node for d in kernel.dots]
    many = len(summed) > 1 or len(tiles_read(kernel, summed)) > MOST_READ or reads_open_windows(kernel)
    if widest_float(kernel, dtype) == "f64":  # tiles take twice the registers, functions and draws more than that
        many = many or draws(kernel)
        return (32, 16) if many else (32, 32) if functions_after(kernel) else (64, 64)
    return 64, 32 if many else 64


def draws(kernel: Kernel) -> bool:
    """Is anything drawn at random? A draw takes the registers of some ten numbers for a short time."""
    return any(isinstance(s, ir.Rand) for m in kernel.members.values() for s in ir.scalars(m.body))


def reads_open_windows(kernel: Kernel) -> bool:
    """Are there windows along two axes of open sizes? Where they end is kept in 64 bits for each entry of a tile."""
    reads = [x for d in kernel.dots for s in (d.left, d.right) for x in ir.scalars(s) if isinstance(x, ir.Read)]
    return any(
        sum(
            isinstance(place, ir.Affine) and len(place.terms) > 1 and not isinstance(size, int)
            for place, size in zip(x.places, x.tensor.shape, strict=True)
        ) > 1
        for x in reads if x.outside is not None
    )  # fmt: skip


def tiles_of_a_side(kernel: Kernel) -> int:
    """How many tiles are read for one side of a contraction: it is computed of them in float32."""
    sides = [s for d in kernel.dots for s in (d.left, d.right)]
    return max(len({s for s in ir.scalars(x) if isinstance(s, ir.Read) and len(ir.variables(s)) > 1}) for x in sides)


def functions_after(kernel: Kernel) -> bool:
    """Do the maps of the results have functions of full tiles, beyond sums, products and choices?"""
    summed = {d.node for d in kernel.dots}
    rows, columns = set(kernel.rows), set(kernel.columns)
    return any(
        isinstance(s, ir.Rand) or (isinstance(s, ir.Op) and RECORDS[s.name].gives == "float")
        for m in kernel.members.values() if m.node not in summed for s in ir.scalars(m.body)
        if ir.variables(s) & rows and ir.variables(s) & columns
    )  # fmt: skip


# ---- streams -----------------------------------------------------------------------------------------------


def tile_of_stream(kernel: Kernel, dtype: str) -> Tile:
    """Products of float32 and float64 are spread over threads, not over tensor cores, and long sums fill their
    registers."""
    widths = [product([kernel.sizes[v] for v in axis]) for axis in kernel.short]
    widest = max((w for w in widths if isinstance(w, int)), default=0)
    wide, many = widest >= WIDE, held(kernel) >= MOST_HELD
    if dtype in HALF:
        rows, columns = 16 if wide and many else 32, 32
        found = live_words(kernel, rows, columns)
        return Tile(rows, columns, 1, warps_for(found, MOST_STREAMED), 1, found)
    block = 16 if dtype == "f64" or widest > WIDE or (widest == WIDE and many) else 32
    # The operands of a product are spread over all threads again and again, which no count of words tells: with several
    # tiles alive at a time, or long sums of them, eight warps keep them in registers. So they do with positions beside
    # values of float64, where two tiles are held; with three they aim at too few registers.
    positions = any(m.node.op in ("argmax", "argmin") for m in kernel.members.values())
    crowded = dtype == "f64" and positions and held(kernel) == 2
    few = len(kernel.tiles) < 2 and not wide and not crowded
    return Tile(block, block, 1, 4 if few else 8, 1)


def held(kernel: Kernel) -> int:
    """Tiles of rows by a short axis that a program holds during a run: one side of each tile, and what is summed up."""
    return len(kernel.tiles) + sum(1 for m in kernel.members.values() if m.node.op and set(m.axes) - {*kernel.space})


def width_of(kernel: Kernel, variables: Sequence[int]) -> int:
    """The block of a short axis, which is held as a whole."""
    return block_for(product([kernel.sizes[v] for v in variables]), 16, 1 << 20)


def live_words(kernel: Kernel, rows: int, columns: int) -> int:
    """About how many words the tiles of a program have that are alive at a time, where products are taken in 16 bits.

    The sides of all products in 16 bits, sums in float32; of blocks of rows by columns each product, what
    becomes of it, and that rounded; of those that are read (a mask) the value and its offset of 64 bits.
    For each thread that is 0.5 to 1.5 times the registers that ptxas needs.
    """
    block = rows * columns
    found = (len(kernel.tiles) + 2 + 3 * len(tiles_read(kernel))) * block
    for m in kernel.tiles.values():
        found += width_of(kernel, m.reduced) * (rows + columns) // 2
    for m in kernel.members.values():
        new = kernel.new_axes(m)
        if m.node.op is not None and new:
            found += width_of(kernel, new) * (rows + columns // 2)
    return found

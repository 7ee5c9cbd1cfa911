"""Kernels of scatters: a sum for each row of the target over its sources in sorted order, or atomic additions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dslc.backends.triton.body import Axis, Body
from dslc.backends.triton.frame import Layers
from dslc.backends.triton.kernels import KernelText, count_text, index_line, ragged, store, wide
from dslc.backends.triton.reduce import neutral
from dslc.backends.triton.text import ATOM, BIT, Text, aligned, is_float, name_of, size_code
from dslc.backends.triton.tiles import block_for, warps_for

from dslc.ir import nodes as ir
from dslc.schedule.form import Member
from dslc.schedule.segments import Segments
from dslc.sizes import product

SOURCES, COLUMNS = 0, 1
REDUCE = {"+": "sum", "max": "max", "min": "min"}


@dataclass(frozen=True)
class Sorted:
    """What the host prepares: the sources in the order of their rows, and where each row begins among them."""

    order: ir.Input
    first: ir.Input


def sorted_inputs(found: Segments) -> Sorted:
    name = name_of(found.node)
    rows = found.row_count
    return Sorted(
        ir.intern(ir.Input(f"{name}_order", f"order {id(found.node)}", "i64", (found.source_count,))),
        ir.intern(ir.Input(f"{name}_first", f"first {id(found.node)}", "i64", (rows + 1,))),
    )


def started(found: Segments, dtype: str, layered: Mapping[ir.Node, int], bodies: tuple[ir.Scalar, ...]) -> Body:
    node = found.node
    body = Body(dtype, node, layers=Layers(dict(layered)))
    body.count(bodies)
    for b in bodies:
        for s in ir.scalars(b):
            if isinstance(s, ir.Read) and not (isinstance(s.tensor, ir.Step) and s.tensor.kind == "number"):
                body.pointer(s.tensor)
    return body


def column_axis(found: Segments, body: Body, blocks: dict[str, int | str]) -> str:
    """The columns of a program, and how many programs they need."""
    node, variables = found.node, found.column_variables
    sizes = tuple(node.ranges[v] for v in variables)
    count = product(sizes)
    if not variables:
        return "1"
    block = block_for(count, 1, 64)
    blocks["BLOCK_COLUMNS"] = block
    axis = Axis(COLUMNS, body.fresh("columns"), variables, sizes, 0, ragged(count, block))
    body.axes.append(axis)
    body.line(index_line(axis.name, "tl.program_id(1)", "BLOCK_COLUMNS", wide((*node.shape, *node.ranges))))
    return count_text(count, block)


def segment_kernel(found: Segments, given: Sorted, dtype: str, layered: Mapping[ir.Node, int]) -> KernelText:
    """One program for each row of the target: it adds up its sources, always in the same order."""
    node = found.node
    body = started(found, dtype, layered, (node.body,))
    order, first = body.pointer(given.order), body.pointer(given.first)
    body.pointer(node)
    blocks: dict[str, int | str] = {}
    rank, count = len(node.ranges), found.source_count
    rows = tuple(rank + k for k in range(len(found.rows)))
    row = Axis(-1, body.fresh("row"), rows, tuple(node.shape[a] for a in found.rows), 0, False, True)
    body.axes.append(row)
    body.line(f"{row.name} = tl.program_id(0).to(tl.int64)")
    columns = column_axis(found, body, blocks)
    blocks["BLOCK_SOURCES"] = 16
    op, integral = REDUCE[node.op], not is_float(node.dtype)
    kind = "tl.int64" if integral else body.float_of(node)
    total = body.fresh(name_of(node, "total"))
    shape = "(BLOCK_COLUMNS,)" if found.columns else "()"
    body.line(f"begin = tl.load({first} + {row.name})")
    body.line(f"end = tl.load({first} + {row.name} + 1)")
    body.line(f"{total} = tl.full({shape}, {neutral(op, node.dtype)}, {kind})")
    body.taken |= {"begin", "end", "at"}
    start = body.fresh("start")
    body.open(f"for {start} in range(begin, end, BLOCK_SOURCES):")
    sizes = tuple(node.ranges[v] for v in found.sources)
    source = Axis(SOURCES, body.fresh("source"), found.sources, sizes, 1)
    body.axes.append(source)
    body.line(f"at = {start} + tl.arange(0, BLOCK_SOURCES)")
    body.line(f"{source.name} = tl.load({order} + at, mask=at < end, other={body.size(count)})")
    value = body.exact(body.converted(node.body, node.dtype), node.dtype)
    mask = body.mask(SOURCES)
    assert mask is not None
    parts, axes, _ = aligned([mask, value])
    tile = f"tl.where({parts[0].code}, {parts[1].code}, {neutral(op, node.dtype)})"
    if op == "sum":
        body.line(f"{total} += tl.sum({tile}, axis={axes.index(SOURCES)})")
    else:
        part = f"tl.{op}({tile}, axis={axes.index(SOURCES)})"
        if not integral:
            body.helpers.add(f"{op}imum")
            part = f"{op}imum({tile}, {axes.index(SOURCES)})"
        body.line(f"{total} = {body.pairwise(op, total, part, node.dtype)}")
    body.close()
    body.axes.remove(source)
    by_axis = dict(zip(found.rows, rows, strict=True)) | dict(zip(found.columns, found.column_variables, strict=True))
    member = Member(node, tuple(by_axis[a] for a in range(len(node.shape))), (), ir.const(0, "i64"))  # type: ignore[arg-type]
    store(body, member, Text(total, (COLUMNS,) if found.columns else ()))
    grid = [size_code(found.row_count), columns]
    # of a block of sources by columns, what is read with its offsets of 64 bits, and what is added up
    own, others = set(found.sources), set(found.column_variables)
    reads = {s for s in ir.scalars(node.body) if isinstance(s, ir.Read) and places(s) & own and places(s) & others}
    words = 16 * int(blocks.get("BLOCK_COLUMNS", 1)) * (3 * len(reads) + 1) * (2 if dtype == "f64" else 1)
    outputs: list[ir.Tensor] = [node]
    return KernelText(
        f"{name_of(node)}_segments", body, blocks, grid, warps_for(words), 1, outputs, [node], words=words
    )


def places(s: ir.Read) -> frozenset[int]:
    """The variables that the places of a read depend on, also through data."""
    found = ir.variables(s)
    for place in s.places:
        if isinstance(place, ir.Data):
            found |= ir.variables(place.value)
    return found


def atomic_kernel(found: Segments, dtype: str, layered: Mapping[ir.Node, int]) -> KernelText:
    """Every source adds to the target at once: quick, but the order of additions changes from run to run."""
    node = found.node
    body = started(found, dtype, layered, ir.bodies(node))
    target = body.pointer(node)
    blocks: dict[str, int | str] = {}
    columns = column_axis(found, body, blocks)
    count = found.source_count
    block = block_for(count, 16, 64 if found.columns else 256)
    blocks["BLOCK_SOURCES"] = block
    sizes = tuple(node.ranges[v] for v in found.sources)
    source = Axis(SOURCES, body.fresh("source"), found.sources, sizes, 0, ragged(count, block))
    body.axes.append(source)
    body.line(index_line(source.name, "tl.program_id(0)", "BLOCK_SOURCES", wide((*node.shape, *node.ranges))))
    value = body.exact(body.converted(node.body, node.dtype), node.dtype)
    for place in node.places:
        if isinstance(place, ir.Data):
            body.scalar(place.value)  # loads of its own come first: they are not guarded
    body.guarded = True
    offset, tests = body.offset(node.places, node.shape)
    body.guarded = False
    masks = [m for a in (SOURCES, *((COLUMNS,) if found.columns else ())) if (m := body.mask(a)) is not None]
    whole = Text("", (SOURCES, COLUMNS) if found.columns else (SOURCES,))
    parts, axes, _ = aligned([offset, value, whole, *masks, *tests])
    given = parts[1]
    if given.axes != axes:
        lengths = ", ".join("BLOCK_SOURCES" if a == SOURCES else "BLOCK_COLUMNS" for a in axes)
        kind = "tl.int64" if not is_float(node.dtype) else body.float_of(node)
        given = Text(f"tl.zeros(({lengths}{',' if len(axes) == 1 else ''}), {kind}) + {given.at(BIT)}", axes, BIT)
    guard = " & ".join(p.at(BIT + 1) for p in parts[3:])
    given = body.named("value", Text(given.code, axes, ATOM))
    body.line(f"tl.atomic_add({target} + {parts[0].at(BIT + 1)}, {given.code}{f', mask={guard}' if guard else ''})")
    grid = [count_text(count, block), columns]
    return KernelText(f"{name_of(node)}_atomic", body, blocks, grid, 4, 1, [node], [node])

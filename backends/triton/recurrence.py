"""Scans whose steps are elementwise in what they carry, as one kernel: the state stays in registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dslc.backends.triton.body import Axis, Body
from dslc.backends.triton.frame import Layers
from dslc.backends.triton.kernels import KernelText, count_text, index_line, keep_value, ragged, store, wide
from dslc.backends.triton.text import Text, name_of, word
from dslc.backends.triton.tiles import tile_of

from dslc.ir import nodes as ir
from dslc.schedule.form import Member, Recurrence
from dslc.sizes import Size, product


def results(scan: ir.Scan) -> tuple[list[ir.Tensor], list[ir.Tensor]]:
    """What a scan leaves in memory: its stacked results, and the state after the last step."""
    stacks: list[ir.Tensor] = [
        ir.intern(ir.Input(f"{name_of(r)}_steps", f"result {scan.number} {k}", r.dtype, (scan.length, *r.shape)))
        for k, r in enumerate(scan.results)
    ]
    lasts: list[ir.Tensor] = [
        ir.intern(ir.Input(f"{name_of(c)}_last", f"carry {scan.number} {k}", c.dtype, c.shape))
        for k, c in enumerate(scan.carries)
    ]
    return stacks, lasts


def begun(
    step: Recurrence, dtype: str, layered: Mapping[ir.Node, int], bodies: Sequence[ir.Scalar]
) -> tuple[Body, list[ir.Tensor], dict[int, ir.Tensor]]:
    """A kernel that has its pointers: to what is read, stacked results, and those last values that are read."""
    scan, members = step.scan, step.members
    stacks, lasts = results(scan)
    wanted = {k: x for k, x in enumerate(lasts) if len(stacks) + k in step.read}
    body = Body(dtype, next(iter(members), scan), layers=Layers(dict(layered)))
    body.count(bodies)
    for m in members.values():
        for s in ir.scalars(m.body):
            if isinstance(s, ir.Read) and s.tensor not in members and not isinstance(s.tensor, ir.Step):
                body.pointer(s.tensor)
    for x in (*scan.starts, *stacks, *wanted.values()):
        body.pointer(x)
    return body, stacks, wanted


def loaded(step: Recurrence, body: Body, axis: Axis, sizes: Sequence[Size]) -> list[str]:
    """The lines that say which elements of the state a program has, and load them; their names."""
    scan = step.scan
    body.line(index_line(axis.name, "tl.program_id(0)", "BLOCK", wide(sizes)))
    offset, _ = body.offset([ir.plain(v) for v in axis.variables], axis.sizes)
    mask = body.mask(axis.number)
    guard = "" if mask is None else f", mask={mask.code}, other=0.0"
    names = {x.place: x.name for x in steps_of(scan) if x.kind == "carry"}
    carries = []
    for k, start in enumerate(scan.starts):
        carries.append(body.fresh(word(names.get(k, "") or "carry")))
        body.line(f"{carries[k]} = tl.load({body.pointer(start)} + {offset.code}{guard}){body.upcast(start)}")
    return carries


def steps_of(scan: ir.Scan) -> list[ir.Step]:
    """What a scan counts and carries, as the formulas inside of it read that."""
    return [x for x in ir.inside(scan)[0] if isinstance(x, ir.Step) and x.scan == scan.number]


def placed(tensor: ir.Tensor, axes: tuple[int, ...]) -> Member:
    """A place for a value at some variables of the kernel."""
    return Member(tensor, axes, (), ir.const(0, "i64"))  # type: ignore[arg-type]


def recurrence_kernel(step: Recurrence, dtype: str, layered: Mapping[ir.Node, int]) -> KernelText:
    """The kernel of a scan, step by step."""
    scan, members = step.scan, step.members
    body, stacks, lasts = begun(step, dtype, layered, [m.body for m in members.values()])
    shape = scan.carries[0].shape
    own = tuple(range(len(shape)))
    extent = product(shape)
    tile = tile_of(step)
    block = tile.rows
    counter = body.fresh(ir.counter_of(scan))
    # the step is a variable of its own, so that stacked results are stored at it
    axis = Axis(0, body.fresh("i"), own, shape, 0, ragged(extent, block))
    body.axes = [axis, Axis(-1, counter, (len(shape),), (scan.length,), 1, False, True)]
    carries = loaded(step, body, axis, shape)
    length = body.size(scan.length)
    round_ = body.fresh("step") if scan.reverse else counter
    body.open(f"for {round_} in range(0, {length}):")
    if scan.reverse:
        body.line(f"{counter} = {length} - 1 - {round_}")
    for x in steps_of(scan):
        if x.kind == "number":
            body.counters.counted[x] = counter
        else:
            body.values[x] = Text(carries[x.place], (0,), depth=1)
    for node, m in members.items():
        body.values[node] = keep_value(body, m.node, body.scalar(m.body))
    for stack, result in zip(stacks, scan.results, strict=True):
        store(body, placed(stack, (len(shape), *own)), body.values[result])
    nexts = [body.values[c].code for c in scan.carries]
    fresh = [
        body.named(f"{c}_next", Text(n, (0,), depth=1)).code if n in carries else n
        for c, n in zip(carries, nexts, strict=True)
    ]
    for carry, new in zip(carries, fresh, strict=True):
        body.line(f"{carry} = {new}")
    body.close()
    for k, last in lasts.items():
        store(body, placed(last, own), Text(carries[k], (0,)))
    grid = [count_text(extent, block)]
    wish = "_".join(dict.fromkeys(word(c) for c in carries)) + "_scan"
    return KernelText(
        wish, body, {"BLOCK": block}, grid, tile.warps, tile.stages, [*stacks, *lasts.values()], [scan, *members]
    )

"""Scans whose steps are elementwise in what they carry, as one kernel: the state stays in registers."""

from __future__ import annotations

from collections.abc import Mapping

from dslc.backends.triton.body import Axis, Body
from dslc.backends.triton.frame import Layers
from dslc.backends.triton.kernels import KernelText, count_text, index_line, keep_value, ragged, store, wide
from dslc.backends.triton.linear import linear_kernel
from dslc.backends.triton.text import Text, name_of, word
from dslc.backends.triton.tiles import block_for, product

from dslc.ir import nodes as ir
from dslc.schedule.form import Member, Recurrence


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


def recurrence_kernel(step: Recurrence, dtype: str, layered: Mapping[ir.Node, int]) -> KernelText:
    """The kernel of a scan; of the last state it stores the values that are read."""
    scan, members = step.scan, step.members
    stacks, lasts = results(scan)
    wanted = [k for k in range(len(lasts)) if len(stacks) + k in step.read]
    if step.linear is not None:
        return linear_kernel(scan, step.linear, members, dtype, layered, stacks, {k: lasts[k] for k in wanted})
    shape = scan.carries[0].shape
    rank = len(shape)
    body = Body(dtype, next(iter(members)), layers=Layers(dict(layered)))
    body.count([m.body for m in members.values()])
    steps = [x for x in ir.inside(scan)[0] if isinstance(x, ir.Step) and x.scan == scan.number]
    for m in members.values():
        for s in ir.scalars(m.body):
            if isinstance(s, ir.Read) and s.tensor not in members and not isinstance(s.tensor, ir.Step):
                body.pointer(s.tensor)
    starts = [body.pointer(x) for x in scan.starts]
    for x in (*stacks, *(lasts[k] for k in wanted)):
        body.pointer(x)
    extent = product(shape)
    block = block_for(extent, 16, 256)
    counter = body.fresh(ir.counter_of(scan))
    # the step is a variable of its own, so that stacked results are stored at it
    axis = Axis(0, body.fresh("i"), tuple(range(rank)), shape, 0, ragged(extent, block))
    body.axes = [axis, Axis(-1, counter, (rank,), (scan.length,), 1, False, True)]
    body.line(index_line(axis.name, "tl.program_id(0)", "BLOCK", wide(shape)))
    offset, _ = body.offset([ir.plain(v) for v in range(rank)], shape)
    mask = body.mask(0)
    guard = "" if mask is None else f", mask={mask.code}, other=0.0"
    carries = []
    for k, start in enumerate(starts):
        name = body.fresh(word(next((x.name for x in steps if x.kind == "carry" and x.place == k), "") or "carry"))
        body.line(f"{name} = tl.load({start} + {offset.code}{guard}){body.upcast(scan.starts[k])}")
        carries.append(name)
    length = body.size(scan.length)
    round_ = body.fresh("step") if scan.reverse else counter
    body.open(f"for {round_} in range(0, {length}):")
    if scan.reverse:
        body.line(f"{counter} = {length} - 1 - {round_}")
    for x in steps:
        if x.kind == "number":
            body.counters.counted[x] = counter
        else:
            body.values[x] = Text(carries[x.place], (0,), depth=1)
    for node, m in members.items():
        body.values[node] = keep_value(body, m.node, body.scalar(m.body))
    for stack, result in zip(stacks, scan.results, strict=True):
        place = Member(stack, (rank, *range(rank)), (), ir.const(0, "i64"))  # type: ignore[arg-type]
        store(body, place, body.values[result])
    nexts = [body.values[c].code for c in scan.carries]
    fresh = [
        body.named(f"{c}_next", Text(n, (0,), depth=1)).code if n in carries else n
        for c, n in zip(carries, nexts, strict=True)
    ]
    for carry, new in zip(carries, fresh, strict=True):
        body.line(f"{carry} = {new}")
    body.close()
    for k in wanted:
        last = Member(lasts[k], tuple(range(rank)), (), ir.const(0, "i64"))  # type: ignore[arg-type]
        store(body, last, Text(carries[k], (0,)))
    grid = [count_text(extent, block)]
    wish = "_".join(dict.fromkeys(word(c) for c in carries)) + "_scan"
    return KernelText(
        wish, body, {"BLOCK": block}, grid, 4, 1, [*stacks, *(lasts[k] for k in wanted)], [scan, *members]
    )

"""What the launches of a Triton module cost: operations, bytes moved, and the bytes of the buffers between them.

Each element that a kernel reads or writes is counted once, as if caches held what it reads again. A streaming kernel
computes its tiles in each run over the columns; blocks that a mask leaves out are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dslc.backends.triton.functions import Function
from dslc.backends.triton.host import Launch
from dslc.backends.triton.kernels import KernelText
from dslc.backends.triton.optimizer import NORM_BLOCK, Formulas

from dslc.builder.build import Unit
from dslc.cost import BYTES, Cost, Counter, settle
from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.ops.table import FREE
from dslc.passes.narrow import HALVES
from dslc.schedule.buffers import UNKNOWN, largest
from dslc.schedule.form import Kernel, Member
from dslc.sizes import Size, about, floor_div, product


@dataclass(frozen=True)
class KernelCost:
    """The launches of one kernel in one function, and the cost of all of them."""

    function: str
    kernel: str
    kind: str
    lines: tuple[str, ...]
    launches: Size
    cost: Cost


def kernel_costs(functions: list[Function], lines: dict[str, list[str]], dtype: str) -> list[KernelCost]:
    """A row for each kernel of each function, in order of its first launch."""
    counter = Counter(BYTES[dtype])
    rows: dict[tuple[str, str], KernelCost] = {}
    for function in functions:
        for launch in function.host.launched:
            key = function.name, launch.name
            before = rows.get(key)
            cost = launch_cost(launch, counter).times(launch.times)
            kind = launch.text.form.kind if launch.text.form is not None else "other"
            rows[key] = KernelCost(
                function.name, launch.name, kind, tuple(lines.get(launch.name, ())),
                launch.times + (before.launches if before else 0), cost + before.cost if before else cost,
            )  # fmt: skip
    return list(rows.values())


def update_costs(update: Formulas, unit: Unit, trained: Iterable[str], dtype: str) -> tuple[list[KernelCost], Size]:
    """The launches of an update of the trained parameters, and the bytes that it allocates.

    Formulas of hyper-parameters and of the step alone are the host's; slots and gradients are never in 16 bits.
    """
    half, width = dtype in HALVES, 4 if dtype in HALVES else BYTES[dtype]
    lengths = [unit.inputs[path].shape[len(unit.layers.get(path, ())) :] for path in trained for _ in unit.paths(path)]
    entries = sum((product(x) for x in lengths), 0)
    reads = update.reads()
    moved = [v for v in update.vectors if v in reads]
    operations = entry_operations(update)
    written = len(update.bodies) * width + (BYTES[dtype] if half else 0)
    step = Cost(operations * entries, len(moved) * width * entries, written * entries)
    table = 8 * (len(update.vectors) + half + 2) * len(lengths)
    rows = [(update.kernel, step)]
    buffers: Size = table
    if "grad_norm" in reads:
        parts = sum((-floor_div(-product(x), NORM_BLOCK) for x in lengths), 0)
        first = Cost(2 * entries, width * entries, width * parts)
        rows[:0] = [("squares", first), ("length", Cost(parts + 1, width * parts, width))]
        buffers += 8 * 3 * len(lengths) + width * (parts + 1)
    return [KernelCost("train_step", name, "update", (), 1, cost) for name, cost in rows], buffers


def entry_operations(update: Formulas) -> int:
    """The operations on floats that one entry of a parameter takes."""
    own = {update.nodes[v] for v in update.vectors}
    depends: dict[ir.Scalar, bool] = {}
    found = 0
    for s in (s for body in update.bodies.values() for s in ir.scalars(body)):
        if s in depends:
            continue
        depends[s] = any(depends[x] for x in ir.operands(s)) or (isinstance(s, ir.Read) and s.tensor in own)
        if depends[s] and isinstance(s, ir.Op) and is_float(s.dtype) and s.name not in FREE:
            found += max(1, len(s.args) - 1)
    return found


def launch_cost(launch: Launch, counter: Counter) -> Cost:
    return text_cost(launch.text, counter)


def text_cost(text: KernelText, counter: Counter) -> Cost:
    if text.joined:
        total = Cost()
        for one in text.joined:
            total += text_cost(one, counter)
        return total
    written = sum((counter.width(x.dtype) * product(x.shape) for x in text.outputs), 0)
    if text.form is not None:
        return Cost(*form_cost(text.form, text.tiles, counter), written)
    total = Cost()
    scans = [x for x in text.spans if isinstance(x, ir.Scan)]
    for node in text.spans:
        total += counter.node(node)
    total.written = written
    if scans:  # one kernel runs all steps: reads of sequences are of a step each
        length = scans[0].length
        starts = sum((counter.bytes(x) for x in scans[0].starts), 0)
        return Cost(total.operations * length, starts + outside_reads(scans[0], counter) * length, written)
    return total


def outside_reads(scan: ir.Scan, counter: Counter) -> Size:
    """The bytes that one step of a scan reads from memory."""
    inside, _ = ir.inside(scan)
    own = set(inside)
    found: Size = 0
    for node in inside:
        if isinstance(node, ir.Comp):
            touched = counter.touched(node.body, (*node.shape, *node.reduced))
            found += sum((n for tensor, n in touched.items() if tensor not in own), 0)
    return found


def form_cost(kernel: Kernel, tiles: list[Member], counter: Counter) -> tuple[Size, Size]:
    """Operations and bytes read of one launch."""
    sizes = tuple(kernel.sizes)
    own = {*kernel.members, *kernel.tiles}
    operations: Size = 0
    reads: dict[ir.Tensor, Size] = {}
    for m in (*kernel.members.values(), *tiles):
        operations += counter.body(m.body, sizes).operations
        if m.node.op in ("sum", "prod", "max", "min"):
            operations += product(sizes[v] for v in (*m.axes, *m.reduced))
        for tensor, count in counter.touched(m.body, sizes).items():
            known = reads.get(tensor)
            if tensor not in own and not (isinstance(tensor, ir.Step) and tensor.kind == "number"):
                larger = known is not None and isinstance(known, int) and isinstance(count, int) and known > count
                reads[tensor] = known if larger and known is not None else count
    return operations, sum(reads.values(), 0)


def buffer_bytes(function: Function, dtype: str) -> Size:
    """The bytes of all tensors that a function allocates; those inside a loop count once."""
    counter = Counter(BYTES[dtype])
    return sum((counter.width(kind) * product(shape) for kind, shape in function.host.buffers), 0)


def peak_bytes(function: Function, dtype: str, sizes: Mapping[str, int]) -> Size:
    """The bytes of the tensors that are there at a time, where they are most."""
    counter, plan = Counter(BYTES[dtype]), function.host.plan
    found = [settle(counter.width(kind) * product(shape), sizes) for shape, kind in plan.kinds]
    return sum((found[n] for n in largest(plan, function.host.made.steps, [about((x,), UNKNOWN) for x in found])), 0)

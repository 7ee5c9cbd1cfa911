"""What the launches of a Triton module cost: operations, bytes moved, and the bytes of the buffers between them.

Each element that a kernel reads or writes is counted once, as if caches held what it reads again. A streaming kernel
computes its tiles in each run over the columns; blocks that a mask leaves out are counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from dslc.backends.triton.functions import Function
from dslc.backends.triton.host import Launch

from dslc.cost import BYTES, Cost, Counter, product
from dslc.ir import nodes as ir
from dslc.kernels.form import Kernel, Member
from dslc.sizes import Size


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


def launch_cost(launch: Launch, counter: Counter) -> Cost:
    text = launch.text
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

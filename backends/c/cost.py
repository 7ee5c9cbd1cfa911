"""What the steps of a schedule cost: operations, bytes moved, and the bytes of the workspace.

The workspace has slots for values, matrices that products read in another order or that are sides of products, and
buffers for each thread, for values of a region of which it has some rows at a time.
A region reads each element that it needs of what is computed outside of it once, and writes what has a home in memory:
what its members read of each other stays in registers and in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dslc.backends.c.module import FileText
from dslc.backends.c.target import TARGET
from dslc.backends.c.text import types_of

from dslc.cost import BYTES, Cost, Counter, settle
from dslc.ir import nodes as ir
from dslc.ir.naming import name_lines, name_of
from dslc.pipeline import GRADIENT
from dslc.program import Entry
from dslc.schedule.form import Call, Loop, Region, Step, based
from dslc.schedule.plan import Block, Plan, Row, planned
from dslc.schedule.prepare import prepared, scheduled
from dslc.schedule.show import bytes_of, label, operation, places
from dslc.sizes import Size, extreme

#: the bytes of a number in a buffer
WIDTHS = {"float": 4, "double": 8, "int64_t": 8, "int32_t": 4, "uint8_t": 1}


@dataclass(frozen=True)
class StepCost:
    """One step of a schedule: how often it runs in one call, and the cost of all its runs."""

    number: str
    name: str
    kind: str
    lines: tuple[str, ...]
    runs: Size
    cost: Cost


@dataclass(frozen=True)
class Workspace:
    """The bytes that a function works in: slots, packed matrices, and the buffers of each thread."""

    slots: Size
    packed: Size
    thread: Size


def entry_costs(entry: Entry, dtype: str, sizes: Mapping[str, int]) -> tuple[list[StepCost], Workspace]:
    """A row for each region and call of an entry, in order, and its workspace."""
    made = FileText("cost", types_of(dtype))
    made.entry("cost", entry)
    packed, thread = packed_bytes(made, sizes), thread_bytes(made, sizes)
    with entry.open() as lowered:
        results = prepared(lowered.outputs, TARGET)
        name_lines([*results.values()])
        steps = scheduled([*results.values()], TARGET)
        layers = {GRADIENT + q: len(loops) for q, loops in lowered.unit.layers.items()}
        plan = planned(steps, results, apart=layers)
        precision = made.types.precision
        room = Workspace(slot_bytes(plan, precision, sizes), packed, thread)
        return [*rows(steps, plan, Counter(BYTES[precision]))], room


def rows(steps: Sequence[Step], plan: Plan, counter: Counter) -> Iterator[StepCost]:
    stack: list[tuple[str, Step, Size]] = [(str(k), x, 1) for k, x in reversed([*enumerate(steps)])]
    while stack:
        number, step, runs = stack.pop()
        if isinstance(step, Loop):
            inner = reversed([*enumerate(step.steps)])
            stack += [(f"{number}.{k}", x, runs * step.scan.length) for k, x in inner]
            continue
        assert isinstance(step, Region | Call)
        nodes = step.nodes if isinstance(step, Region) else [step.node]
        kind = "region" if isinstance(step, Region) else operation(step)
        cost = region_cost(step, plan, counter) if isinstance(step, Region) else counter.node(step.node)
        stored = [x for x in nodes if in_memory(x, plan)] or [*nodes]
        named = [x for x in stored if name_of(x)] or stored
        yield StepCost(number, label(named[-1]), kind, tuple(places(nodes)), runs, cost.times(runs))


def region_cost(region: Region, plan: Plan, counter: Counter) -> Cost:
    members = set(region.nodes)
    total = Cost()
    touched: dict[ir.Node, list[Size]] = {}
    for node in region.nodes:
        total.operations += counter.node(node).operations
        for tensor, count in counter.touched(node.body, (*node.shape, *node.reduced)).items():
            if (base := based(tensor)) not in members:
                touched.setdefault(base, []).append(count)
        if in_memory(node, plan):
            total.written += counter.bytes(node)
    total.read = sum((extreme("max", counts) for counts in touched.values()), 0)
    return total


def in_memory(node: ir.Node, plan: Plan) -> bool:
    """Is a value written to memory that others read, and not to some rows that stay in the cache?"""
    return not isinstance(plan.homes.get(node, Row()), Row | Block)


def slot_bytes(plan: Plan, dtype: str, sizes: Mapping[str, int]) -> Size:
    """The bytes of all slots: each as large as the largest of the values that share it."""
    total: Size = 0
    for values in plan.slots:
        shapes = [x if isinstance(x, tuple) else (x.shape, x.dtype) for x in values]  # type: ignore[union-attr]
        total += extreme("max", [settle(bytes_of(shape, kind, dtype), sizes) for shape, kind in shapes])
    return total


def packed_bytes(made: FileText, sizes: Mapping[str, int]) -> Size:
    """The bytes of matrices that are written for products, without what fills up their last vectors.

    Those that are gone when a region ends share their memory with those of other regions.
    """
    text = made.last
    assert text is not None
    own: dict[str, Size] = {}
    for name, (K, N, suffix) in text.packed_sizes.items():
        own[name] = settle(K * N, sizes) * BYTES[suffix[1:]]
    for name, shape in text.matrices.items():
        own[name] = settle(math.prod(shape), sizes) * BYTES[made.types.precision]
    passing = {name for names in text.passing for name in names}
    groups = [sum((own[name] for name in names), 0) for names in text.passing]
    return sum((own[name] for name in own if name not in passing), extreme("max", groups) if groups else 0)


def thread_bytes(made: FileText, sizes: Mapping[str, int]) -> Size:
    """The bytes of the largest buffers that a thread has for values of one region."""
    assert made.last is not None
    found: list[Size] = []
    for blocks in made.last.blocks:
        rows = extreme("min", [blocks.rows, settle(blocks.pieces, sizes)])
        found.append(sum((WIDTHS[kind] * rows * settle(size, sizes) for kind, size in blocks.own), 0))
    return extreme("max", found) if found else 0

"""A schedule and its plan as text: for `dslc show`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.ir.naming import name_of
from dslc.schedule.buffers import largest
from dslc.schedule.form import (
    AddUp,
    Call,
    Gathered,
    Item,
    Kernel,
    Loop,
    Pass,
    Product,
    Recurrence,
    Region,
    Step,
    View,
    all_reads,
    based,
    nodes_of,
    resolved,
    walked,
)  # fmt: skip
from dslc.schedule.plan import BYTES, Block, Carry, Entry, Plan, Result, Row, Schedule, Shape, Slot, Stacked
from dslc.schedule.split import placed
from dslc.sizes import Size, product, show
from dslc.source import NOWHERE

#: passes of a region, by their kinds
KINDS = {"map": "pass", "rows": "pass that keeps rows", "columns": "pass along columns"}

NAMELESS = "a value without a name"


def groups(schedule: Schedule) -> Iterator[str]:
    """A line for each product, pass, kernel, statement, loop and call: what it runs over, what it leaves in memory, and
    by way of what. Lines with the same number are one region. Views do nothing.
    """
    stack = numbered(schedule.steps)[::-1]
    while stack:
        number, step = stack.pop()
        indent = "    " * number.count(".")
        match step:
            case Region():
                for item in step.items:
                    yield f"{indent}{number}: {_item(step, item, schedule.plan)}"
            case Kernel():
                about = _stored(step.stored, list(step.members))
                parts = f" in {step.split.count} parts" if step.split is not None else ""
                yield f"{indent}{number}: {step.kind} {extents(step.sizes)}{parts}: {about}"
            case AddUp():
                yield f"{indent}{number}: sums of parts are added up: {_stored(values_of(step), [])}"
            case Recurrence():
                about = _stored((*step.scan.results, *step.scan.carries), list(step.members))
                kind = "scan" if step.linear is None else "linear scan"
                shape = (step.scan.length, *step.scan.carries[0].shape)
                yield f"{indent}{number}: {kind} {extents(shape)}: {about}"
            case Loop():
                over = f"{ir.counter_of(step.scan)} over {show(step.scan.length)}"
                yield f"{indent}{number}: for {over}{place([step.scan])}"
                stack += numbered(step.steps, f"{number}.")[::-1]
            case Call():
                about = f"{operation(step)} {extents(_shape(step))}: {label(step.node)}"
                yield f"{indent}{number}: {about}{place([step.node])}"


def numbered(steps: Sequence[Step], prefix: str = "") -> list[tuple[str, Step]]:
    """The steps that do something, with their numbers."""
    return [(f"{prefix}{k}", x) for k, x in enumerate(x for x in steps if not isinstance(x, View))]


def operation(step: Call) -> str:
    return "scatter" if isinstance(step.node, ir.Scatter) else step.node.op


def _shape(step: Call) -> Shape:
    return step.node.shape if isinstance(step.node, ir.Scatter) else step.node.shapes[0]


def _item(region: Region, item: Item, plan: Plan | None) -> str:
    if isinstance(item, Pass) and item.kind == "statement":
        *parts, node = item.members
        inner = ", ".join(sorted(f"{x.op or 'a formula'}" for x in parts))
        return f"{label(node)} {extents(node.shape)}{f' with {inner} in its formula' if parts else ''}{place([node])}"
    title, axes, members = item_of(region, item)
    over = f"over {extents(region.sizes)}, " if region.depth else ""
    homes = plan.homes if plan is not None else {}
    kept = [x for x in members if not isinstance(homes.get(x, Row()), Row)]
    return f"{over}{title} {extents(axes)}: {_stored(kept, members)}"


def _stored(kept: Sequence[ir.Node], members: Sequence[ir.Node]) -> str:
    """What a group leaves in memory, by way of what, and the places of all of it."""
    names = [label(x) for x in kept]
    between = sorted({label(x) for x in members if x not in kept and name_of(x)} - {*names})
    way = f" by way of {', '.join(between)}" if between else ""
    return f"{', '.join(dict.fromkeys(names)) or NAMELESS}{way}{place(members)}"


def item_of(region: Region, item: Item) -> tuple[str, Shape, list[ir.Comp]]:
    """What an item is, the axes that it runs over, and its members."""
    match item:
        case Product():
            return "product", (*item.node.shape, *item.node.reduced), [item.node]
        case Gathered():
            return "gathered product", (*item.node.shape, *item.node.reduced), [item.node]
    return KINDS[item.kind], (*region.sizes, *item.extra), item.members


def memory(schedule: Schedule, forward: Collection[str], precision: str) -> Iterator[str]:
    """Where values lie, or how long they live where each has memory of its own; `forward` are the results that are
    computed before the gradient."""
    own = set(ir.every_node([schedule.results[name] for name in forward]))
    if schedule.plan is None:
        return lifetimes(schedule, own)
    if schedule.plan.kinds:
        return given_back(schedule, schedule.plan, own, precision)
    return slots(schedule.plan, own, readers_of(ir.every_node([*schedule.results.values()])), precision)


def lifetimes(schedule: Schedule, forward: set[ir.Node]) -> Iterator[str]:
    """A line for each value: the step that makes it, the last one that reads it, and whether it is saved for the
    gradient in between. A loop counts as one step."""
    steps = [x for _, x in numbered(schedule.steps)]
    results = set(map(based, schedule.results.values()))
    last = {made_by(based(a)): k for k, step in enumerate(steps) for a in all_reads(step)}
    for number, step in enumerate(steps):
        if isinstance(step, Loop):
            yield f"{number}: a loop over {show(step.scan.length)}{place([step.scan])}"
            continue
        for node in values_of(step):
            until = last.get(node, number)
            end = "a result" if node in results else f"last read by {until} ({label_of(steps[until])})"
            late = node in forward and until < len(steps) and not any(x in forward for x in nodes_of(steps[until]))
            saved = ", saved for the gradient" if late else ""
            shape = _shape(step) if isinstance(step, Call) else node.shape  # type: ignore[union-attr]
            yield f"{number}: {label(node)} {extents(shape)}, {end}{saved}{place([node])}"


def given_back(schedule: Schedule, plan: Plan, forward: set[ir.Node], precision: str) -> Iterator[str]:
    """A line for each buffer: the values that lie in it, the step that asks for it, and the one after which it goes."""
    steps: dict[Step, str] = {}
    stack = numbered(schedule.steps)[::-1]
    while stack:
        number, step = stack.pop()
        steps[step] = number
        if isinstance(step, Loop):
            stack += numbered(step.steps, f"{number}.")[::-1]
    last = ""
    for step in walked(schedule.steps):  # a view is part of the step before it
        last = steps.setdefault(step, last)
    readers = readers_of(ir.every_node([*schedule.results.values()]))
    homes = (plan.homes.get(plan.same.get(placed(x), placed(x))) for x in plan.results.values())
    results = {home.number for home in homes if isinstance(home, Slot | Entry)}
    freed = {n: steps[step] for step, numbers in plan.freed.items() for n in numbers}
    for step, numbers in plan.made.items():
        for n in numbers:
            shape, dtype = plan.kinds[n]
            values = [x for x in plan.slots[n] if not isinstance(x, tuple)]
            names = dict.fromkeys(label(x) for x in values if not isinstance(plan.homes.get(x), Entry))
            over = "; then ".join(names or dict.fromkeys(map(label, values))) or "a carried value"
            many = show(bytes_of(shape, dtype, precision))
            late = any(made_by(x) in forward and any(y not in forward for y in readers.get(x, ())) for x in values)
            end = ", saved for the gradient" if late else ""
            end += f", given back after {freed[n]}" if n in freed else ", a result" if n in results else ""
            yield f"{steps[step]}: {over} {extents(shape)}, {many} bytes{end}{place(values[:1])}"
    most = total(plan, largest(plan, schedule.steps), precision)
    every = [n for numbers in plan.made.values() for n in numbers]
    yield f"at most {show(most)} of {show(total(plan, every, precision))} bytes at a time"


def total(plan: Plan, numbers: Sequence[int], precision: str) -> Size:
    """The bytes of some buffers."""
    return sum((bytes_of(*plan.kinds[n], precision) for n in numbers), 0)


def values_of(step: Step) -> list[ir.Node]:
    """What a step without a plan leaves in memory."""
    if isinstance(step, AddUp):
        return [x for kernel in step.kernels for x in kernel.stored]
    return [*step.stored] if isinstance(step, Kernel) else nodes_of(step)[-1:]


def label_of(step: Step) -> str:
    return "the loop" if isinstance(step, Loop) else ", ".join(dict.fromkeys(map(label, values_of(step))))


def slots(
    plan: Plan, forward: set[ir.Node], readers: Mapping[ir.Node, Sequence[ir.Node]], precision: str
) -> Iterator[str]:
    """A line for each slot with the values that share it, one for each result, and those for values of loops."""
    for number, values in enumerate(plan.slots):
        parts, nodes = [], []
        for x in values:
            shape, dtype = x if isinstance(x, tuple) else (x.shape, x.dtype)  # type: ignore[union-attr]
            many = show(bytes_of(shape, dtype, precision))
            if isinstance(x, tuple):
                parts.append(f"a carried value {extents(shape)}, {many} bytes")
                continue
            nodes.append(x)
            late = made_by(x) in forward and any(y not in forward for y in readers.get(x, ()))
            saved = ", saved for the gradient" if late else ""
            parts.append(f"{label(x)} {extents(shape)}, {many} bytes{saved}")
        yield f"slot {number}: {'; then '.join(parts)}{place(nodes)}"
    copies = {based(x) for x in plan.copies.values()}
    for node, home in plan.homes.items():
        shape = extents(node.shape)  # type: ignore[union-attr]
        match home:
            case Result():
                end = "a result, in place"
            case Stacked(part=part):
                end = f"in its place of {label(part)}"
            case Row():
                end = "a row in a scratch buffer"
            case Block():
                end = "some rows at a time, in a scratch buffer of each thread"
            case Carry(scan=scan):
                end = f"carried on by the loop over {show(scan.length)}"
            case _:
                continue
        yield f"{label(node)} {shape}: {end}{place([node])}"
    for node in dict.fromkeys(plan.copies.values()):
        if node in copies or based(node) in copies:
            yield f"{label(node)} {extents(node.shape)}: a result, copied in the end{place([node])}"  # type: ignore[union-attr]


def readers_of(order: Sequence[ir.Node]) -> dict[ir.Node, list[ir.Node]]:
    """Which nodes read the memory of a value."""
    found: dict[ir.Node, list[ir.Node]] = {}
    for node in order:
        if isinstance(node, ir.Reshape) or (isinstance(node, ir.Part) and isinstance(node.of, ir.Custom)):
            continue
        for a in ir.arguments(node):
            found.setdefault(based(a), []).append(node)
    return found


def bytes_of(shape: Shape, dtype: str, precision: str) -> Size:
    """The bytes of a value in the workspace."""
    return BYTES.get(precision if is_float(dtype) and dtype != "f64" else dtype, 4) * product(shape)


def extents(shape: Sequence[Size]) -> str:
    return f"[{', '.join(map(show, shape))}]"


def label(node: ir.Node) -> str:
    return name_of(resolved(node)) or NAMELESS


def made_by(node: ir.Node) -> ir.Node:
    """The node whose computation gives a value: of results of a loop, the loop."""
    return node.of if isinstance(node, ir.Part) else node


def _origin(node: ir.Node) -> ir.Node:
    """The node that says where in the spec a value comes from: of results of loops, what they are in the loop."""
    node = resolved(node)
    while isinstance(node, ir.Part) and isinstance(node.of, ir.Scan):
        results = (*node.of.results, *node.of.carries)
        node = resolved(results[node.number])
    return node.of if isinstance(node, ir.Part) else node


def place(nodes: Sequence[ir.Node]) -> str:
    """The places of the spec that nodes come from, in parentheses."""
    found = places(nodes)
    return f"  ({', '.join(found)})" if found else ""


def places(nodes: Sequence[ir.Node]) -> list[str]:
    """The places of the spec that nodes come from, each once."""
    spans = [getattr(_origin(x), "span", NOWHERE) for x in nodes]
    return list(dict.fromkeys(s.place for s in spans if s.source.text))

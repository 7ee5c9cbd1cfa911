"""A schedule and its plan as text: for `dslc show`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.ir.naming import name_of
from dslc.schedule.form import Call, Gathered, Item, Loop, Product, Region, Step, based, resolved
from dslc.schedule.plan import BYTES, Carry, Plan, Result, Row, Shape, Stacked
from dslc.sizes import Size, show
from dslc.source import NOWHERE

#: passes of a region, by their kinds
KINDS = {"map": "pass", "rows": "pass that keeps rows", "columns": "pass along columns"}

NAMELESS = "a value without a name"


def groups(steps: Sequence[Step], plan: Plan) -> Iterator[str]:
    """A line for each product, pass, loop and call: the parallel axes, all axes, what is stored, and by way of what.

    Lines with the same number are one region.
    """
    stack: list[tuple[str, Step]] = [(str(k), x) for k, x in reversed([*enumerate(steps)])]
    while stack:
        number, step = stack.pop()
        indent = "    " * number.count(".")
        match step:
            case Region():
                for item in step.items:
                    yield f"{indent}{number}: {_item(step, item, plan)}"
            case Loop():
                over = f"{ir.counter_of(step.scan)} over {show(step.scan.length)}"
                yield f"{indent}{number}: for {over}{place([step.scan])}"
                stack += [(f"{number}.{k}", x) for k, x in reversed([*enumerate(step.steps)])]
            case Call():
                about = f"{operation(step)} {extents(_shape(step))}: {label(step.node)}"
                yield f"{indent}{number}: {about}{place([step.node])}"


def operation(step: Call) -> str:
    return "scatter" if isinstance(step.node, ir.Scatter) else step.node.op


def _shape(step: Call) -> Shape:
    return step.node.shape if isinstance(step.node, ir.Scatter) else step.node.shapes[0]


def _item(region: Region, item: Item, plan: Plan) -> str:
    title, axes, members = item_of(region, item)
    kept = [x for x in members if not isinstance(plan.homes.get(x, Row()), Row)]
    names = [label(x) for x in kept]
    between = sorted({label(x) for x in members if x not in kept and name_of(x)} - {*names})
    shown = ", ".join(dict.fromkeys(names)) or NAMELESS
    way = f" by way of {', '.join(between)}" if between else ""
    over = f"over {extents(region.sizes)}, " if region.depth else ""
    return f"{over}{title} {extents(axes)}: {shown}{way}{place(members)}"


def item_of(region: Region, item: Item) -> tuple[str, Shape, list[ir.Comp]]:
    """What an item is, the axes that it runs over, and its members."""
    match item:
        case Product():
            return "product", (*item.node.shape, *item.node.reduced), [item.node]
        case Gathered():
            return "gathered product", (*item.node.shape, *item.node.reduced), [item.node]
    return KINDS[item.kind], (*region.sizes, *item.extra), item.members


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
    total: Size = BYTES.get(precision if is_float(dtype) and dtype != "f64" else dtype, 4)
    for size in shape:
        total = total * size
    return total


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

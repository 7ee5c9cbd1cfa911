"""Names of values: those that a spec gives, and how values of one name are told apart.

A value of a layer has the name of the layer before its own, `attention.score`; where two layers of one name are in a
program, as much of their paths as it takes. A name that a spec binds again goes with the layer that was called in
between: `h`, then `dense2.h`. What is left has the same name for a reason, which becomes a word: `d_logits_scattered`
is the part of `d_logits` that a scatter contributes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dslc.ir import nodes as ir
from dslc.source import NOWHERE, Span

#: `h[n, k] = ...` or `h = ...`
TARGET = re.compile(r"\s*([A-Za-z_]\w*)\s*(\[[^\]]*\])?\s*=(?!=)")


def name_of(node: ir.Node) -> str:
    """The name of a node, or of the equation that it is a part of; empty when there is none.

    >>> from dslc.source import Source
    >>> line = Source("a.dsl", "h[n] = 2 * sum[i](x[n, i])")
    >>> name_of(ir.Comp((), (), None, ir.const(1.0, "f64"), "f64", "", Span(line, 7, 10)))
    'h'
    """
    name = str(getattr(node, "name", ""))
    span: Span = getattr(node, "span", NOWHERE)
    if name or not span.source.text:
        return name
    found = TARGET.match(span.source.line(span.line))
    return found.group(1) if found else ""


#: what the value of an operation is called
OPERATIONS = {"+": "sum", "-": "difference", "*": "product", "/": "ratio", "^": "power", "select": "chosen",
              "neg": "minus", "cast": "rounded"}  # fmt: skip


@dataclass
class Names:
    """The names of one program while it is built."""

    #: what layers and functions are called in names of values, and the paths that are meant
    labels: dict[str, str] = field(default_factory=dict)
    values: dict[str, ir.Node] = field(default_factory=dict)

    def label(self, path: str) -> str:
        """The shortest ending of a path that stands for no other one.

        >>> names = Names()
        >>> [names.label(path) for path in ("block.*.norm", "stack.norm", "stack.norm", "block.0.norm")]
        ['norm', 'stack.norm', 'stack.norm', 'block0.norm']
        """
        words: list[str] = []
        for word in path.split("."):
            if word.isdigit() and words:
                words[-1] += f"_{word}" if words[-1][-1].isdigit() else word
            elif word and word != "*":
                words.append(word)
        for k in range(1, len(words) + 1):
            label = ".".join(words[-k:])
            if self.labels.setdefault(label, path) == path:
                return label
        return ".".join(words)

    def value(self, value: ir.Node, name: str, layer: str) -> None:
        """Name a value; if another one has the name, with the layer that was called last, or as it is named there."""
        before = str(getattr(value, "name", ""))
        wishes = [name, f"{layer}.{name.rpartition('.')[2]}" if layer else "", before]
        chosen = next((x for x in wishes if x and self.values.get(x, value) is value), name)
        if self.values.get(before) is value:
            del self.values[before]
        self.values.setdefault(chosen, value)
        object.__setattr__(value, "name", chosen)


def tell_apart(outputs: Mapping[str, ir.Tensor]) -> None:
    """Give values that share a name with a later one a word for what they are. Names are no part of what a node is."""
    groups = _by_name(_all(tuple(outputs.values())))
    for name, group in list(groups.items()):
        for node in _others(group):
            _give(node, f"{name}_{_word(node)}", groups)


def name_lines(roots: Sequence[ir.Node]) -> None:
    """Name values without a name that need a line of their own, by what is done to the first named value in them.

    For backends: in a message such a name would say nothing, and before the last pass it would keep a value from
    becoming part of a formula.
    """
    order = _all(roots)
    groups = _by_name(order)
    lines = _with_lines(order)
    for node in order:
        if isinstance(node, ir.Comp) and not node.name and node in lines:
            _give(node, _described(node), groups)


def _all(roots: Sequence[ir.Node]) -> dict[ir.Node, None]:
    """All nodes in order, with those inside of scans."""
    order: dict[ir.Node, None] = {}
    stack: list[ir.Node] = []
    for node in ir.schedule(tuple(roots)):
        order[node] = None
        stack += [node] if isinstance(node, ir.Scan) else []
        while stack:
            scan = stack.pop()
            assert isinstance(scan, ir.Scan)
            for inner in ir.inside(scan)[0]:
                stack += [inner] if isinstance(inner, ir.Scan) and inner not in order else []
                order[inner] = None
    return order


def _by_name(order: Iterable[ir.Node]) -> dict[str, list[ir.Node]]:
    groups: dict[str, list[ir.Node]] = {}
    for node in order:
        # a sequence and its step have one name, inside of a scan and outside
        if isinstance(node, ir.Input | ir.Comp | ir.Scatter | ir.Reshape) and not isinstance(_viewed(node), ir.Part):
            groups.setdefault(node.name, []).append(node)
    groups.pop("", None)
    return groups


def _give(node: ir.Node, name: str, groups: dict[str, list[ir.Node]]) -> None:
    if name and name not in groups:
        groups[name] = [node]
        object.__setattr__(node, "name", name)


def _with_lines(order: Iterable[ir.Node]) -> set[ir.Node]:
    """The values that no backend can put into the one formula that uses them."""
    uses: Counter[ir.Node] = Counter()
    results: set[ir.Node] = set()
    for node in order:
        for body in ir.bodies(node):
            operands = (x for s in ir.scalars(body) for x in ir.operands(s))
            uses.update(x.tensor for x in (body, *operands) if isinstance(x, ir.Read))
        if isinstance(node, ir.Scan):
            results.update(node.results)
    return results | {node for node, count in uses.items() if count > 1}


def _described(node: ir.Comp) -> str:
    """A name for a value without one: what is done to the first named value in it. Empty where there is none."""
    reads = [s.tensor for s in ir.scalars(node.body) if isinstance(s, ir.Read)]
    of = next((x.name for x in reads if x.name and not isinstance(x, ir.Step)), "")
    body = node.body
    if not of or (node.op is None and not isinstance(body, ir.Op)):
        return ""
    if node.op is not None:
        return f"{node.op}_{of}"
    assert isinstance(body, ir.Op)
    if body.name in ("*", "/") and len(reads) == 1 and not any(isinstance(x, ir.Op) for x in body.args):
        return f"{of}_scaled"
    return f"{OPERATIONS.get(body.name, body.name)}_{of}"


def _others(group: Sequence[ir.Node]) -> list[ir.Node]:
    """All values of one name but the one that keeps it: an input, or the last one that is no view of another."""
    kept = group[-1]
    for node in group:
        if isinstance(node, ir.Input) or not any(_viewed(node) is x for x in group):
            kept = node
            if isinstance(node, ir.Input):
                break
    return [x for x in group if x is not kept and not isinstance(x, ir.Input)]


def _viewed(node: ir.Node) -> ir.Tensor | None:
    """The tensor that a node only shows in another way."""
    if isinstance(node, ir.Reshape):
        return node.of
    if isinstance(node, ir.Comp) and node.op is None and isinstance(node.body, ir.Read):
        return node.body.tensor
    return None


def _word(node: ir.Node) -> str:
    match node:
        case ir.Reshape():
            return "grouped"
        case ir.Scatter():
            return "scattered"
        case ir.Comp(op=str() as op):
            return op
        case ir.Comp(body=ir.Read() as read):
            return "part" if read.outside is None else "padded"
    return "part" if getattr(node, "name", "").startswith("d_") else "before"

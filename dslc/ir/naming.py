"""Names of values while a program is built: those that a spec gives, told apart by their layers.

A value of a layer has the name of the layer before its own, `attention.score`; where two layers of one name are in a
program, as much of their paths as it takes. A name that a spec binds again goes with the layer that was called in
between: `h`, then `dense2.h`. What is left is told apart by `namespace.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from dslc.ir import nodes as ir
from dslc.ir.namespace import name_lines as name_lines
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
    if name or not span.source.text or span.derived:
        return name
    found = TARGET.match(span.source.line(span.line))
    return found.group(1) if found else ""


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
        ir.rename(value, chosen)

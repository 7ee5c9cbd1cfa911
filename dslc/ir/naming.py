"""The name that a spec gives to what a node computes."""

from __future__ import annotations

import re

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

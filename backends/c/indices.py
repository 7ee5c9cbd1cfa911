"""What the variables of loops are called: as the spec calls its indices, or by letters."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dslc.backends.c.kernel import Kernel

from dslc.ir import nodes as ir

LETTERS = "ijkmpqruvwxyzabcdegh"


def index_names(nodes: Sequence[ir.Comp], count: int, kernel: Kernel) -> dict[int, str]:
    """What the variables of some nodes are called: as the spec does in front of an equation, or by letters."""
    found = index_wishes(nodes)
    out: dict[int, str] = {}
    letters = [x for x in LETTERS if x not in found.values()]
    for k in range(count):
        out[k] = kernel.names.fresh(found[k]) if k in found else kernel.names.fresh(*letters)
    return out


def index_wishes(nodes: Sequence[ir.Comp]) -> dict[int, str]:
    """What the spec calls the indices of the results of some nodes, where it says so."""
    for node in nodes:
        span = node.span
        if not span.source.text or span.derived:
            continue
        m = re.match(r"\s*[A-Za-z_]\w*\s*\[([^\]]*)\]\s*(?:\+|\*|max|min)?=(?!=)", span.source.line(span.line))
        names = [x.strip().split(":")[0] for x in m[1].split(",")] if m else []
        if len(names) == len(node.shape) and all(re.fullmatch(r"[a-z]\w{0,7}", x) for x in names):
            return dict(enumerate(names))
    return {}

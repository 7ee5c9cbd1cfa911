"""Where nothing is left of a formula: blocks of a kernel that need not be visited."""

from __future__ import annotations

from collections.abc import Sequence

from dslc.ir import nodes as ir
from dslc.meaning.known import INF, value_where_not
from dslc.schedule.form import Kernel, Member


def triangle(kernel: Kernel, members: Sequence[Member]) -> str:
    """Which half of the matrix is empty: "above" or "below" the diagonal, or "" if neither is.

    Above: nothing is left of any member where the column is greater than the row.
    """
    if len(kernel.rows) != 1 or len(kernel.columns) != 1:
        return ""
    row, column = ir.var(kernel.rows[0]), ir.var(kernel.columns[0])
    forms = {
        ("<=", column, row): "above", ("<", column, row): "above", (">=", row, column): "above",
        (">", row, column): "above", ("<=", row, column): "below", ("<", row, column): "below",
        (">=", column, row): "below", (">", column, row): "below",
    }  # fmt: skip
    every = [s for m in members for s in ir.scalars(m.body)]
    tests = dict.fromkeys(s for s in every if isinstance(s, ir.Op) and (s.name, *s.args) in forms)
    for test in tests:
        wanted = {"sum": 0.0, "max": -INF, "argmax": -INF, "min": INF, "argmin": INF}
        if all(value_where_not(m.body, test) == wanted[m.node.op or "sum"] for m in members):
            assert isinstance(test, ir.Op)
            return forms[(test.name, *test.args)]  # type: ignore[index]
    return ""

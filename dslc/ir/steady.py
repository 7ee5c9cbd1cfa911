"""Values of loops that no step changes: they are no part of the loop.

y = x
for l in 0..2:          y is x: nothing is left of the loop
    y = x
"""

from __future__ import annotations

from dslc.ir import nodes as ir
from dslc.source import NOWHERE, Span


def part_of(scan: ir.Scan, number: int, name: str = "", span: Span = NOWHERE) -> ir.Tensor:
    """The stack of a result of a scan, or the last value of what it carries (these are counted after the results)."""
    count = len(scan.results)
    x = scan.results[number] if number < count else scan.carries[number - count]
    shape = (scan.length, *x.shape) if number < count else x.shape
    part = ir.intern(ir.Part(scan, number, x.dtype, shape, name, span))
    return steady(part) or part


def steady(part: ir.Part) -> ir.Tensor | None:
    """What a part of a scan is without the scan, if no step changes it."""
    scan = part.of
    assert isinstance(scan, ir.Scan)
    count = len(scan.results)
    if part.number < count:
        value = _steady(scan, scan.results[part.number])
        places = tuple(ir.plain(1 + k) for k in range(len(part.shape) - 1))
        return None if value is None else ir.comp(part.shape, ir.read(value, places), name=part.name, span=part.span)
    return _steady(scan, scan.carries[part.number - count])


def _steady(scan: ir.Scan, value: ir.Tensor) -> ir.Tensor | None:
    """The value from outside that a value of all steps is."""
    if value not in set(ir.inside(scan)[0]):
        return value
    if isinstance(value, ir.Step) and value.kind == "carry" and scan.carries[value.place] is value:
        start = scan.starts[value.place]
        return start if start.dtype == value.dtype else None
    return None

"""One loop for all that is wanted of it.

Reverse mode asks a scan for more results than the program did: the values that its gradient needs. Both are the same
scan, so they become one with all results.
"""

from __future__ import annotations

from dataclasses import replace

from dslc.ir import nodes as ir
from dslc.passes.transform import Outputs, Transform, everything


def merge_scans(outputs: Outputs) -> dict[str, ir.Tensor]:
    merge = _Merge()
    for node in everything(outputs):
        if isinstance(node, ir.Scan):
            merge.groups.setdefault(node.number, []).append(node)
    return merge.outputs(outputs) if any(len(x) > 1 for x in merge.groups.values()) else dict(outputs)


class _Merge(Transform):
    def __init__(self) -> None:
        super().__init__()
        self.groups: dict[int, list[ir.Scan]] = {}
        self.merged: dict[int, ir.Scan] = {}

    def _one(self, node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Scan):
            return self.scan(node.number)
        if isinstance(node, ir.Part) and isinstance(node.of, ir.Scan):
            return self.part(node, node.of)
        return super()._one(node)

    def scan(self, number: int) -> ir.Scan:
        if number not in self.merged:
            first = self.groups[number][0]
            starts, carries = (tuple(self.tensor(x) for x in group) for group in (first.starts, first.carries))
            results = tuple(self.tensor(x) for x in self.results(number))
            self.merged[number] = ir.intern(replace(first, starts=starts, carries=carries, results=results))
        return self.merged[number]

    def results(self, number: int) -> list[ir.Tensor]:
        return list(dict.fromkeys(x for scan in self.groups[number] for x in scan.results))

    def part(self, node: ir.Part, scan: ir.Scan) -> ir.Node:
        known = self.results(scan.number)
        count = len(scan.results)
        if node.number < count:
            place = known.index(scan.results[node.number])
        else:
            place = len(known) + node.number - count
        return ir.intern(replace(node, of=self.scan(scan.number), number=place))

"""One loop for all that is wanted of it.

Reverse mode asks a scan for more results than the program did: the values that its gradient needs. Both are the same
scan, so they become one with all results. Afterwards a number means one loop: a scan that has the number of another but
not its carried values, such as the stable form of a plain one, gets a number of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dslc.ir import nodes as ir
from dslc.ir.rewrite import renumbered
from dslc.passes.transform import Outputs, Transform, everything

#: the number of a scan, and what makes another with the same number the same loop
Key = tuple[int, tuple[ir.Tensor, ...], tuple[ir.Tensor, ...]]


def merge_scans(outputs: Outputs) -> dict[str, ir.Tensor]:
    merge = _Merge()
    for node in everything(outputs):
        if isinstance(node, ir.Scan):
            merge.add(node, node.results)
    return merge.outputs(outputs) if merge.changes else dict(outputs)


def merge_read(outputs: Outputs) -> dict[str, ir.Tensor]:
    """The same with results that something reads and no others, in the order in which they are read first."""
    merge = _Merge()
    for node in everything(outputs):
        if isinstance(node, ir.Scan):
            merge.add(node, ())
        if isinstance(node, ir.Part) and isinstance(node.of, ir.Scan):
            merge.add(node.of, node.of.results[node.number : node.number + 1])
    return merge.outputs(outputs)


def key_of(scan: ir.Scan) -> Key:
    return scan.number, scan.starts, scan.carries


class _Merge(Transform):
    def __init__(self) -> None:
        super().__init__()
        #: the first scan of each loop, and the results of all
        self.first: dict[Key, ir.Scan] = {}
        self.results: dict[Key, dict[ir.Tensor, None]] = {}
        self.changes = False
        self.merged: dict[Key, ir.Scan] = {}
        self.taken: set[int] = set()

    def add(self, scan: ir.Scan, results: Sequence[ir.Tensor]) -> None:
        key = key_of(scan)
        known = self.first.setdefault(key, scan)
        self.changes |= known is not scan or any(x[0] == key[0] and x != key for x in self.first)
        self.results.setdefault(key, {}).update(dict.fromkeys(results))

    def _one(self, node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Scan):
            return self.scan(key_of(node))
        if isinstance(node, ir.Part) and isinstance(node.of, ir.Scan):
            return self.part(node, node.of)
        return super()._one(node)

    def scan(self, key: Key) -> ir.Scan:
        if key not in self.merged:
            first = self.first[key]
            groups = (first.starts, first.carries, self.results[key])
            starts, carries, results = (tuple(self.tensor(x) for x in group) for group in groups)
            made = ir.intern(replace(first, starts=starts, carries=carries, results=results))
            self.merged[key] = renumbered(made, ir.fresh_number()) if first.number in self.taken else made
            self.taken.add(first.number)
        return self.merged[key]

    def part(self, node: ir.Part, scan: ir.Scan) -> ir.Node:
        known, count = list(self.results[key_of(scan)]), len(scan.results)
        if node.number < count:
            place = known.index(scan.results[node.number])
        else:
            place = len(known) + node.number - count
        return ir.intern(replace(node, of=self.scan(key_of(scan)), number=place))

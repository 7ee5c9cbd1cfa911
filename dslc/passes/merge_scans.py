"""One loop for all that is wanted of it.

Reverse mode asks a scan for more results than the program did: the values that its gradient needs. Both are the same
scan, so they become one with all results. Afterwards a number means one loop: a scan that has the number of another but
not its carried values, such as the stable form of a plain one, gets a number of its own.
"""

from __future__ import annotations

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
            merge.groups.setdefault(key_of(node), {})[node] = None
    numbers = {key[0] for key in merge.groups}
    done = len(numbers) == len(merge.groups) and all(len(x) == 1 for x in merge.groups.values())
    return dict(outputs) if done else merge.outputs(outputs)


def key_of(scan: ir.Scan) -> Key:
    return scan.number, scan.starts, scan.carries


class _Merge(Transform):
    def __init__(self) -> None:
        super().__init__()
        #: the scans of each loop
        self.groups: dict[Key, dict[ir.Scan, None]] = {}
        self.merged: dict[Key, ir.Scan] = {}
        self.taken: set[int] = set()

    def _one(self, node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Scan):
            return self.scan(key_of(node))
        if isinstance(node, ir.Part) and isinstance(node.of, ir.Scan):
            return self.part(node, node.of)
        return super()._one(node)

    def scan(self, key: Key) -> ir.Scan:
        if key not in self.merged:
            first = next(iter(self.groups[key]))
            starts, carries = (tuple(self.tensor(x) for x in group) for group in (first.starts, first.carries))
            results = tuple(self.tensor(x) for x in self.results(key))
            made = ir.intern(replace(first, starts=starts, carries=carries, results=results))
            self.merged[key] = renumbered(made, ir.fresh_number()) if first.number in self.taken else made
            self.taken.add(first.number)
        return self.merged[key]

    def results(self, key: Key) -> list[ir.Tensor]:
        return list(dict.fromkeys(x for scan in self.groups[key] for x in scan.results))

    def part(self, node: ir.Part, scan: ir.Scan) -> ir.Node:
        known = self.results(key_of(scan))
        count = len(scan.results)
        if node.number < count:
            place = known.index(scan.results[node.number])
        else:
            place = len(known) + node.number - count
        return ir.intern(replace(node, of=self.scan(key_of(scan)), number=place))

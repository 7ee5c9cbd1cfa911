"""The table of what kernels need on each GPU: for each spec and kind of kernel the worst figures of its kernels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).parent / "resources.tsv"
COLUMNS = ("spec", "kind", "target", "kernels", "registers", "shared", "spilled", "occupancy")


class Row(NamedTuple):
    """The kernels of one kind of one spec on one target: most registers, shared memory and spills, least occupancy."""

    kernels: int
    registers: int
    shared: int
    spilled: int
    occupancy: float

    def worse_than(self, other: Row) -> list[str]:
        found = [n for n in ("registers", "shared", "spilled") if getattr(self, n) > getattr(other, n)]
        return found + (["occupancy"] if self.occupancy < other.occupancy else [])


Key = tuple[str, str, str]


def kind_of(kernel: str) -> str:
    """The kind of a kernel, from its name.

    >>> kind_of("d_b_parts_2_kernel"), kind_of("adamw_kernel")
    ('parts', 'other')
    """
    found = re.search(r"_(map|rows|parts|dot|stream|scan)(_\d+)?_kernel$", kernel)
    return found[1] if found else "other"


def rows(spec: str, figures: Iterable[Mapping[str, Any]]) -> dict[Key, Row]:
    """Lines of `dslc.backends.triton.resources`, brought together."""
    found: dict[Key, Row] = {}
    for one in figures:
        key = spec, kind_of(one["kernel"]), one["target"]
        new = Row(1, one["registers"], one["shared"], one["spilled"], one["occupancy"])
        old = found.get(key)
        if old is not None:
            worst = (max(a, b) for a, b in zip(old[1:4], new[1:4], strict=True))
            new = Row(old.kernels + 1, *worst, min(old.occupancy, new.occupancy))
        found[key] = new
    return found


def read() -> dict[Key, Row]:
    lines = FILE.read_text(encoding="utf-8").splitlines()[1:] if FILE.exists() else []
    table: dict[Key, Row] = {}
    for line in lines:
        spec, kind, target, *numbers, occupancy = line.split("\t")
        table[spec, kind, target] = Row(*map(int, numbers), float(occupancy))
    return table


def write(table: Mapping[Key, Row]) -> None:
    lines = ["\t".join(COLUMNS), *("\t".join(map(str, (*key, *row))) for key, row in sorted(table.items()))]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")

"""Tables of what kernels need on each GPU, one for each float: the worst figures of each kind of kernel of a spec."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent
COLUMNS = ("spec", "kind", "target", "kernels", "registers", "shared", "spilled", "lanes", "occupancy")


class Row(NamedTuple):
    """The kernels of one kind of one spec on one target: most registers, shared memory and spills, least occupancy.

    `lanes`: scalar registers of gfx942 that wait in lanes of vector registers, which is no trip through memory.
    """

    kernels: int
    registers: int
    shared: int
    spilled: int
    lanes: int
    occupancy: float

    def worse_than(self, other: Row) -> list[str]:
        found = [n for n in ("registers", "shared", "spilled", "lanes") if getattr(self, n) > getattr(other, n)]
        return found + (["occupancy"] if self.occupancy < other.occupancy else [])


Key = tuple[str, str, str]


def together(rows: Sequence[Row]) -> Row:
    """The worst of several rows."""
    kernels, registers, shared, spilled, lanes, occupancy = zip(*rows, strict=True)
    return Row(sum(kernels), max(registers), max(shared), max(spilled), max(lanes), min(occupancy))


def kind_of(kernel: str) -> str:
    """The kind of a kernel, from its name.

    >>> kind_of("d_b_parts_2_kernel"), kind_of("adamw_kernel")
    ('parts', 'other')
    """
    if re.fullmatch(r"add_up(_\d+)?_kernel", kernel):
        return "add_up"
    found = re.search(r"_(map|rows|parts|dot|stream|scan)(_\d+)?_kernel$", kernel)
    return found[1] if found else "other"


def rows(spec: str, figures: Iterable[Mapping[str, Any]]) -> dict[Key, Row]:
    """Lines of `dslc.backends.triton.resources`, brought together."""
    found: dict[Key, Row] = {}
    for one in figures:
        key = spec, kind_of(one["kernel"]), one["target"]
        lanes = one.get("scalars_in_lanes", 0)
        new = Row(1, one["registers"], one["shared"], one["spilled"], lanes, one["occupancy"])
        found[key] = together([found[key], new]) if key in found else new
    return found


def file_of(dtype: str) -> Path:
    return FOLDER / ("resources.tsv" if dtype == "f32" else f"resources_{dtype}.tsv")


def read(dtype: str = "f32") -> dict[Key, Row]:
    file = file_of(dtype)
    lines = file.read_text(encoding="utf-8").splitlines()[1:] if file.exists() else []
    table: dict[Key, Row] = {}
    for line in lines:
        spec, kind, target, *numbers, occupancy = line.split("\t")
        table[spec, kind, target] = Row(*map(int, numbers), float(occupancy))
    return table


def write(table: Mapping[Key, Row], dtype: str = "f32") -> None:
    lines = ["\t".join(COLUMNS), *("\t".join(map(str, (*key, *row))) for key, row in sorted(table.items()))]
    file_of(dtype).write_text("\n".join(lines) + "\n", encoding="utf-8")


def summary(dtype: str) -> list[tuple[str, Row]]:
    """What the kernels of all specs need on each target."""
    found: dict[str, list[Row]] = {}
    for (_, _, target), row in read(dtype).items():
        found.setdefault(target, []).append(row)
    return [(target, together(found[target])) for target in sorted(found)]

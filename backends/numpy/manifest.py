"""The table of a module that says what its functions cost and which spec lines they come from."""

from __future__ import annotations

from collections.abc import Mapping

from dslc.backends.numpy.function import LONGEST_LINE

from dslc.cost import Cost, Row, costs, total
from dslc.ir.naming import name_lines
from dslc.pipeline import Lowered
from dslc.quoting import quoted
from dslc.sizes import show


def manifest(entries: Mapping[str, str]) -> str:
    """`MANIFEST`, with an entry for each function: formulas of the sizes for operations and bytes, values by line."""
    lines = ["#: function -> operations, bytes, bytes saved for the gradients, and the spec lines of its values"]
    return "\n".join([*lines, "MANIFEST = {", *(f'    "{name}": {entry},' for name, entry in entries.items()), "}"])


def manifest_entry(program: Lowered, dtype: str) -> str:
    """The text of one function's entry: the formulas on one line where they fit."""
    backward = [*program.gradients().values()]
    name_lines([*program.outputs.values()])
    rows = costs([*program.values().values(), *program.states().values()], backward, dtype)
    items = [f'"{key}": "{value}"' for key, value in formulas(total(rows).at({})).items()]
    numbers = f"        {', '.join(items)},"
    if len(numbers) > LONGEST_LINE:
        numbers = "\n".join(f"        {item}," for item in items)
    lines = ", ".join(f"{quoted(file)}: {found}" for file, found in lines_of(rows).items())
    return f'{{\n{numbers}\n        "lines": {{{lines}}},\n    }}'


def formulas(cost: Cost) -> dict[str, str]:
    found = {"flops": cost.operations, "bytes": cost.read + cost.written, "saved": cost.saved}
    return {key: show(size) for key, size in found.items()}


def lines_of(rows: list[Row]) -> dict[str, list[int]]:
    """The spec lines that define the values of a function, by file."""
    files: dict[str, set[int]] = {}
    for row in rows:
        if row.span.source.text and row.name and not row.backward:
            file, _, line = row.span.place.rpartition(":")
            files.setdefault(file, set()).add(int(line))
    return {file: sorted(lines) for file, lines in sorted(files.items())}

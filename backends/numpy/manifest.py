"""The table of a module that says what its functions cost and which spec lines they come from."""

from __future__ import annotations

from collections.abc import Mapping

from dslc.cost import Cost, Row, costs, total
from dslc.pipeline import Lowered
from dslc.quoting import quoted
from dslc.sizes import show


def manifest(entries: Mapping[str, str]) -> str:
    """`MANIFEST`, with an entry for each function: formulas of the sizes for operations and bytes, values by line."""
    lines = ["#: function -> operations, bytes, bytes saved for the gradients, and the spec lines of its values"]
    return "\n".join([*lines, "MANIFEST = {", *(f'    "{name}": {entry},' for name, entry in entries.items()), "}"])


def manifest_entry(program: Lowered, dtype: str) -> str:
    """The text of one function's entry."""
    backward = [*program.gradients().values()]
    rows = costs([*program.values().values(), *program.states().values()], backward, dtype)
    items = [f'"{key}": "{value}"' for key, value in formulas(total(rows).at({})).items()]
    lines = ", ".join(f"{quoted(line)}: {quoted(names)}" for line, names in by_line(rows).items())
    return f'{{{", ".join(items)}, "lines": {{{lines}}}}}'


def formulas(cost: Cost) -> dict[str, str]:
    found = {"flops": cost.operations, "bytes": cost.read + cost.written, "saved": cost.saved}
    return {key: show(size) for key, size in found.items()}


def by_line(rows: list[Row]) -> dict[str, str]:
    """The values of a function by the spec line that defines them."""
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.span.source.text and row.name and not row.backward:
            found.setdefault(row.span.place, {})[row.name] = None
    return {line: ", ".join(names) for line, names in sorted(found.items())}

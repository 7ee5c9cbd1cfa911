"""The table of a module that says what its functions cost and which spec lines they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dslc.backends.numpy.function import LONGEST_LINE

from dslc.cost import Cost, Row, costs, total
from dslc.ir.naming import name_lines
from dslc.pipeline import Lowered
from dslc.quoting import quoted
from dslc.sizes import show

#: formulas by what they tell, and numbers of lines by file
Told = tuple[list[str], list[str]]


def manifest(entries: Mapping[str, Told]) -> str:
    """`MANIFEST`, with an entry for each function: formulas of the sizes for operations and bytes, values by line."""
    lines = ["#: function -> operations, bytes, bytes saved for the gradients, and the spec lines of its values"]
    lines.append("MANIFEST = {")
    for name, (numbers, files) in entries.items():
        *others, last = [f'"lines": {{{files[0]}', *files[1:]] if files else ['"lines": {']
        first, *rest = (f"{x}," for x in (*numbers, *others))
        head = f'    "{name}": {{{first}'
        if len(head) > LONGEST_LINE:
            lines.append(f'    "{name}": {{')
            head = f"{' ' * 8}{first}"
        lines += rows_of([head, *rest, f"{last}}}}},"])
    return "\n".join([*lines, "}"])


def rows_of(items: Sequence[str]) -> list[str]:
    """Entries in lines that are as full as they can be."""
    rows: list[str] = []
    for item in items:
        if rows and len(rows[-1]) + 1 + len(item) <= LONGEST_LINE:
            rows[-1] += f" {item}"
        else:
            rows.append(f"{' ' * 8 if rows else ''}{item}")
    return rows


def manifest_entry(program: Lowered, dtype: str) -> Told:
    """What is told about one function."""
    backward = [*program.gradients().values()]
    name_lines([*program.outputs.values()])
    rows = costs([*program.values().values(), *program.states().values()], backward, dtype)
    numbers = [f'"{key}": "{value}"' for key, value in formulas(total(rows).at({})).items()]
    return numbers, [f"{quoted(file)}: {found}" for file, found in lines_of(rows).items()]


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

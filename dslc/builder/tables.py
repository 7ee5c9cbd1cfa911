"""Tables of parameters and states as Python text, in which equal layers stand once."""

from __future__ import annotations

from collections.abc import Sequence

from dslc.builder.unit import Unit

#: what counts layers in modules, the outermost loop first
LOOPS = "lkji"


def table_lines(unit: Unit, entries: dict[str, str]) -> list[str]:
    """The entries of a table by path; equal layers in one comprehension, layer after layer.

    >>> for line in table_lines(Unit(layers={"block.*.W": ((0, 2),)}), {"b": "(3,)", "block.*.W": "(5,)"}): print(line)
        "b": (3,),
        **{
            f"block.{l}.{name}": entry
            for l in range(2)
            for name, entry in {
                "W": (5,),
            }.items()
        },
    >>> table_lines(Unit(layers={"a.*": ((0, 2),)}), {"a.*": "(3,)"})
    ['    **{f"a.{l}": (3,) for l in range(2)},']
    """
    lines: list[str] = []
    done: set[str] = set()
    for path, entry in entries.items():
        if path not in unit.layers:
            lines.append(f'    "{path}": {entry},')
            continue
        stem, _, end = path.rpartition("*")
        loops = [f"for {v} in range({count})" for v, (_, count) in zip(LOOPS, unit.layers[path], strict=False)]
        if not end:  # the loop declares it itself
            lines.append(f"    **{{{layer_path(unit, path, LOOPS)}: {entry} {' '.join(loops)}}},")
            continue
        if stem in done:
            continue
        done.add(stem)
        layer = layer_path(unit, path, LOOPS).rpartition("}")[0] + "}"
        lines += ["    **{", f'        {layer}.{{name}}": entry', *(f"        {x}" for x in loops)]
        lines.append("        for name, entry in {")
        for other, inner in entries.items():
            if other in unit.layers and other.startswith(f"{stem}*.") and "*" not in other.removeprefix(f"{stem}*"):
                lines.append(f'            "{other.removeprefix(f"{stem}*.")}": {inner},')
        lines += ["        }.items()", "    },"]
    return lines


def layer_path(unit: Unit, path: str, counters: Sequence[str]) -> str:
    """The path of one layer as text, with the counters of the loops for its stars.

    >>> layer_path(Unit(layers={"block.*.W": ((0, 2),)}), "block.*.W", "l")
    'f"block.{l}.W"'
    """
    first, *rest = path.split("*")
    for (start, _), counter, part in zip(unit.layers[path], counters, rest, strict=False):
        first += f"{{{counter}}}{part}" if start == 0 else f"{{{counter} + {start}}}{part}"
    return f'f"{first}"'

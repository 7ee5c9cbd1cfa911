"""An entry that begins with another one, as `evaluate` with `forward`: its call, and where its results lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dslc.backends.c.interface import Entry, Field
from dslc.backends.c.text import Names, c_type

if TYPE_CHECKING:
    from dslc.backends.c.entry import EntryText
    from dslc.backends.c.kernel import Kernel


@dataclass(frozen=True)
class Called:
    """An entry that another one begins with, and the fields of that one's frame for its results, by name."""

    entry: Entry
    results: Mapping[str, Field]

    @classmethod
    def of(cls, entry: Entry) -> Called:
        names = Names({"a", "scratch", "error", entry.name, "workspace"})
        return cls(entry, {x.name: replace(x, field=names.fresh(x.field)) for x in entry.results})

    def fields(self, prefix: str) -> dict[str, str]:
        """What stands in the frame."""
        results = {x.field: f"{c_type(x.dtype)} *" for x in self.results.values()}
        return {**results, self.entry.name: f"{prefix}_{self.entry.name}_arguments ", "workspace": "void *"}

    def layout(self, entry: EntryText, kernel: Kernel) -> list[str]:
        """Memory for its results and for itself, and its arguments."""
        name, own = self.entry.name, self.entry
        lines = []
        for x in self.results.values():
            lines.append(f"    f->{x.field} = taken(w, &at, {entry.bytes(x.shape, c_type(x.dtype), kernel)});")
        by_name = {x.name: x.field for x in entry.interface.inputs}
        given = [(x, entry.size_fields[k]) for x, k in zip(own.sizes, own.symbols, strict=True)]
        given += [(x.field, by_name[x.name]) for x in own.inputs]
        given += [(x.field, x.field) for x in own.reads]
        sides = [f".{x} = f->a->{y}" for x, y in given]
        sides += [f".{x.field} = f->{self.results[x.name].field}" for x in own.results]
        lines.append(f"    f->{name} = ({entry.prefix}_{name}_arguments){{{', '.join(sides)}}};")
        lines.append(f"    f->workspace = taken(w, &at, {entry.prefix}_{name}_workspace(&f->{name}));")
        return lines

    def lines(self, prefix: str) -> list[str]:
        """Its call, before all that reads its results."""
        function, frame = f"{prefix}_{self.entry.name}", f"&f.{self.entry.name}"
        return [
            f"    const int32_t failed = {function}({frame}, f.workspace, {function}_workspace({frame}));",
            "    if (failed) return failed;",
        ]

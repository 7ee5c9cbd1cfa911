"""What a forward pass saves for its adjoint, as C text: both find it at the same places of memory of the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dslc.backends.c.checks import SAVED
from dslc.backends.c.kernel import Kernel
from dslc.backends.c.text import c_type

if TYPE_CHECKING:
    from dslc.backends.c.entry import EntryText


def saved_text(entry: EntryText) -> list[str]:
    """The function that finds saved values, and for an entry that saves them the one that tells how many bytes."""
    if not entry.interface.saved:
        return []
    kernel, name = Kernel(entry, entry.names.inner(), "f->"), entry.interface.name
    lines = []
    for x in entry.saved:
        lines.append(f"    f->{x.field} = taken(saved, &at, {entry.bytes(x.shape, c_type(x.dtype), kernel)});")
    text = [
        "// values of the forward pass that the adjoint reads",
        f"static size_t {name}_saved({entry.frame} *f, char *saved) {{",
        *kernel.declared("\n".join(lines)),
        *([] if lines else ["    (void)f, (void)saved;"]),
        "    size_t at = 0;",
        *lines,
        "    return at;",
        "}",
        "",
    ]
    if entry.interface.saved == "written":
        exported = f"{entry.prefix}_{name}"
        text += [
            f"size_t {exported}_saves(const {exported}_arguments *a) {{",
            f"    if ({name}_sizes(a)) return 0;",
            f"    {entry.frame} f = {{.a = a}};",
            f"    return {name}_saved(&f, NULL);",
            "}",
            "",
        ]
    return text


def saved_lines(entry: EntryText) -> list[str]:
    """Find the saved values, or refuse memory that is too small for them."""
    if not entry.interface.saved:
        return []
    assert entry.checks is not None
    needed = f"{entry.interface.name}_saved(&f, (char *)a->saved)"
    return [f"    if (!has_room(a->saved, a->saved_bytes, {needed})) return {entry.checks.codes.of(SAVED)};"]

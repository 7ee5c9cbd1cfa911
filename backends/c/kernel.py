"""One function of a C file: what it is handed, what it calls that, and its lines."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dslc.backends.c.runtime import code_of
from dslc.backends.c.text import Names, Types, factor, number_text, size_text

from dslc.ir import nodes as ir
from dslc.schedule.form import based
from dslc.schedule.plan import Block, Row
from dslc.sizes import Polynomial, Size, Symbol
from dslc.source import NOWHERE, Span

if TYPE_CHECKING:
    from dslc.backends.c.entry import EntryText


WORD = re.compile(r"[A-Za-z_]\w*")
#: type, name with its star, and value of a declaration
DECLARATION = re.compile(r"((?:const )?\w+) (\**\w+) = (.*);")


@dataclass
class Kernel:
    """A function that computes a step, or the part of an entry that calls them."""

    entry: EntryText
    names: Names
    #: how the struct with all pointers is reached
    frame: str = "f->"
    #: what stands at the beginning: sizes, counters and pointers under names of their own
    head: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    #: sizes by symbol
    sizes: dict[str, str] = field(default_factory=dict)
    counters: dict[int, str] = field(default_factory=dict)
    pointers: dict[ir.Node, str] = field(default_factory=dict)
    #: what the function computes: its pointers are not const
    written: set[ir.Node] = field(default_factory=set)
    last: str = ""
    #: the number of parallel axes of the region that the function computes
    depth: int = 0
    #: values of which the function has some rows at a time, and the names of their pointers
    blocks: dict[ir.Node, str] = field(default_factory=dict)
    #: in a loop over the rows of several parallel axes: their indices, their sizes, and the number of the row
    rows: tuple[list[str], list[Size], str] | None = None

    @property
    def types(self) -> Types:
        return self.entry.types

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def open(self, text: str) -> None:
        self.line(text)
        self.indent += 1

    def close(self, text: str = "}") -> None:
        self.indent -= 1
        self.line(text)

    def comment(self, span: Span) -> None:
        """The spec line that the next lines come from, once."""
        if span is not NOWHERE and span.source.text and span.comment != self.last:
            self.last = span.comment
            self.line(f"// {self.entry.shown(span.comment, 118 - 4 * self.indent)}")

    def call(self, text: str) -> str:
        return text

    # ---- what stands at the beginning

    def size(self, size: Size) -> str:
        self.symbols(size)
        return size_text(size, self.sizes)

    def size_as_float(self, size: Size, ctype: str) -> str:
        self.symbols(size)
        return number_text(size, self.sizes, ctype)

    def symbols(self, size: Size) -> None:
        """Declare the sizes that a size is made of."""
        if isinstance(size, Polynomial):
            for s in sorted(size.free_symbols, key=lambda x: x.name):
                self.symbol(s)

    def symbol(self, symbol: Symbol) -> str:
        if symbol.name not in self.sizes:
            name = self.names.fresh(symbol.name)
            self.sizes[symbol.name] = name
            self.head[name] = f"const long {name} = {self.frame}a->{self.entry.size_fields[symbol.name]};"
        return self.sizes[symbol.name]

    def counter(self, step: ir.Step) -> str:
        """The number of the step of a loop."""
        if step.scan not in self.counters:
            own = self.entry.counters[step.scan]
            name = self.names.fresh(own)
            self.counters[step.scan] = name
            self.head[name] = f"const long {name} = {self.frame}{own};"
        return self.counters[step.scan]

    def seed(self) -> str:
        if "seed" not in self.head:
            self.names.fresh("seed")
            self.head["seed"] = f"const uint64_t seed = {self.frame}a->seed;"
        return "seed"

    def pointer(self, node: ir.Node) -> str:
        """The name of a pointer to a value."""
        node = based(node)
        if node not in self.pointers:
            name = self.names.fresh(self.wish(node))
            const = "" if node in self.written else "const "
            self.pointers[node] = name
            if self.in_row(node):
                size = self.size(math.prod(node.shape[self.depth :]))  # type: ignore[union-attr]
                self.head[name] = f"{self.entry.element_type(node)} {name}[{size}] __attribute__((aligned(64)));"
                return name
            if isinstance(self.entry.plan.homes.get(node), Block):
                self.blocks[node] = name
                return name
            text = self.entry.address(node, self)
            self.head[name] = f"{const}{self.entry.element_type(node)} *{name} = {text};"
        return self.pointers[node]

    def in_row(self, node: ir.Node) -> bool:
        """Is a value kept for one row of the region at a time?"""
        return isinstance(self.entry.plan.homes.get(based(node)), Row)

    def wish(self, node: ir.Node) -> str:
        return self.entry.wish(based(node))

    # ---- elements

    def offset(self, shape: Sequence[Size], positions: Sequence[str]) -> str:
        """The place of an element in row-major order; that of a row by its number."""
        text, first = "", 0
        if self.rows is not None:
            indices, sizes, row = self.rows
            depth = len(indices)
            if list(positions[:depth]) == indices and list(shape[1:depth]) == sizes[1:]:
                text, first = row, depth
        for k, (at, size) in enumerate(zip(positions, shape, strict=True)):
            if k < first:
                continue
            if k == 0:
                text = at
                continue
            extent = factor(self.size(size))
            if extent == "1":
                text = text if at == "0" else (f"{text} + {at}" if text != "0" else at)
            elif text == "0":
                text = at
            else:
                text = f"{factor(text)} * {extent}" + ("" if at == "0" else f" + {at}")
        return text or "0"

    def element(self, tensor: ir.Tensor, places: Sequence[ir.Place], positions: Sequence[str]) -> str:
        """One element of a tensor; the arrays of layers are reached by pointers."""
        base = based(tensor)
        shape = tensor.shape
        if base in self.entry.numbers:
            return self.number(self.entry.numbers[base])
        table = self.entry.table_axes(base)
        if table:
            row = self.offset(shape[:table], positions[:table])
            rest = self.offset(shape[table:], positions[table:])
            outer = all(isinstance(x, ir.At) for x in places[:table])
            pointer = self.entry.table_address(base, self)
            if outer:
                name = self.row(base, row, pointer)
                return f"{name}[{rest}]"
            return f"{pointer}[{row}][{rest}]"
        if self.in_row(base):
            shape, positions = shape[self.depth :], positions[self.depth :]
        return f"{self.pointer(tensor)}[{self.offset(shape, positions)}]"

    def number(self, field: str) -> str:
        """A number of the arguments."""
        text = f"const double {{}} = {self.frame}a->{field};"
        for name, line in self.head.items():
            if line == text.format(name):
                return name
        name = self.names.fresh(field)
        self.head[name] = text.format(name)
        return name

    def row(self, base: ir.Node, row: str, table: str) -> str:
        """The array of one layer."""
        text = f"{table}[{row}]"
        for name, line in self.head.items():
            if line.endswith(f"= {text};"):
                return name
        name = self.names.fresh(self.wish(base))
        self.head[name] = f"const {self.entry.element_type(base)} *{name} = {text};"
        return name

    def declared(self, code: str | None = None) -> list[str]:
        """What stands at the beginning, as far as some code needs it: the lines of the function, or another text."""
        wanted = set(WORD.findall(code_of("\n".join(self.lines) if code is None else code)))
        found: list[str] = []
        for name, line in reversed(self.head.items()):
            if name in wanted:
                found.append(line)
                wanted.update(WORD.findall(line))
        return ["    " + x for x in joined(found[::-1])]


def joined(declarations: Sequence[str]) -> list[str]:
    """Declarations of one type as one, as far up as all stands that they are made of.

    >>> joined(["const long N = f->N;", "float *x = f->x;", "const long l = f->l;", "float *y = f->y + l;"])
    ['const long N = f->N, l = f->l;', 'float *x = f->x, *y = f->y + l;']
    """
    groups: list[tuple[str, list[str]]] = []
    declared: dict[str, int] = {}  # the group of each name
    for line in declarations:
        parts = DECLARATION.fullmatch(line)
        if parts is None:
            groups.append((line, []))
            declared |= {name: len(groups) - 1 for name in WORD.findall(line)[1:2]}
            continue
        ctype, name, value = parts.groups()
        after = max((declared.get(x, 0) for x in WORD.findall(value)), default=0)
        at = next((k for k, (kind, _) in enumerate(groups) if k >= after and kind == ctype), len(groups))
        if at == len(groups):
            groups.append((ctype, []))
        groups[at][1].append(f"{name} = {value}")
        declared[name.lstrip("*")] = at
    return [f"{kind} {', '.join(values)};" if values else kind for kind, values in groups]

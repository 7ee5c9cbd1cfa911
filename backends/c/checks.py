"""What an entry asks of its arguments before it reads any of them, as C text: each refusal has a code with a message.

Sizes come first, then pointers, then values, each array once: labels below their bound, `binary`, `simplex`. Messages
are those of the Python modules, without what was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dslc.backends.c.extents import bounds
from dslc.backends.c.interface import Entry, Field, Table
from dslc.backends.c.kernel import Kernel
from dslc.backends.c.text import WIDTH, factor

from dslc.check import program as p
from dslc.guards import OPPOSITE
from dslc.quoting import printable
from dslc.sizes import Size, Symbol, product, show

#: what is wrong with the workspace, whatever the entry
WORKSPACE = "workspace: expected as many bytes as the function of the sizes tells, at a multiple of 64"
#: the same of the memory for saved values
SAVED = "saved: expected as many bytes as are saved at these sizes, at a multiple of 64"
#: numbers in an array, as a power of 2: with more, the arithmetic of places in it might leave 64 bits
MOST = 47


@dataclass
class Codes:
    """The messages of a file by code: the first is for 0."""

    messages: list[str]
    #: how many arrays the pointers of a struct lead to, as text of C, and what that table is called
    counts: dict[tuple[int, ...], str] = field(default_factory=dict)
    #: the first code of messages that follow one another
    blocks: dict[tuple[str, ...], int] = field(default_factory=dict)

    def of(self, message: str) -> int:
        """The code of a message, which is a new one where the file does not have it yet."""
        if message not in self.messages:
            self.messages.append(message)
        return self.messages.index(message)

    def block(self, messages: Sequence[str]) -> int:
        """The code of the first of some messages, which have codes one after another."""
        key = tuple(messages)
        if key not in self.blocks:
            self.blocks[key] = len(self.messages)
            self.messages += messages
        return self.blocks[key]

    def arrays(self, kind: str, fields: Sequence[Field], needed: frozenset[str] | None = None) -> str:
        """The name of the table of how many arrays each pointer of a struct leads to: 0 for one that is not needed."""
        counts = tuple(math.prod(x.layers) if needed is None or x.name in needed else 0 for x in fields)
        layered = tuple(-n if x.layers else n for n, x in zip(counts, fields, strict=True))
        return self.counts.setdefault(layered, f"{kind}_arrays{len(self.counts) + 1 if self.counts else ''}")

    def text(self) -> list[str]:
        """The tables of counts, for the head of the file."""
        told = (
            "how many arrays each pointer of a struct leads to; below 0: by way of pointers to them; 0: none is needed"
        )
        lines = [f"// {told}"] if self.counts else []
        for counts, name in self.counts.items():
            lines.append(f"static const int {name}[] = {{{', '.join(map(str, counts))}}};")
        return lines


@dataclass
class Promises:
    """What the definition of an entry says of sizes and of values, in the sizes that the entry is told."""

    where: Sequence[p.SizeCondition] = ()
    tensors: Sequence[p.Tensor] = ()
    #: sizes that are checked as others are: the length of a sequence as the room for it
    instead: Mapping[Symbol, Size] = field(default_factory=dict)
    #: comparisons of sizes that hold in every call, and the messages where they do not
    more: Sequence[tuple[Size, str, Size, str]] = ()

    def size(self, size: Size) -> Size:
        return size if isinstance(size, int) else size.subs(dict(self.instead))


def c_string(text: str) -> str:
    """A text between quotes of C.

    >>> print(c_string('is "x"?'))
    "is \\"x\\"\\?"
    """
    escaped = "".join(f"\\{c}" if c in '"\\?' else c for c in printable(text))
    return f'"{escaped}"'


@dataclass
class Checks:
    """The functions that refuse the arguments of one entry."""

    prefix: str
    entry: Entry
    codes: Codes
    kernel: Callable[[], Kernel]
    promises: Promises
    #: fields of the tables that are read or written: parameters, states
    tables: Mapping[str, Sequence[Field]]
    #: the names of results that the entry writes into tables, such as gradients of trained parameters
    written: frozenset[str]

    @property
    def arguments(self) -> str:
        return f"const {self.prefix}_{self.entry.name}_arguments *a"

    def sizes(self, arrays: Iterable[Size]) -> list[str]:
        """The function that looks at sizes alone, which the workspace depends on; and at how large arrays would be."""
        kernel = self.kernel()
        fields = dict(zip(self.entry.symbols, self.entry.sizes, strict=False))  # behind them, names of numbers
        self._refuse(kernel, "!a", "arguments are missing")
        lines, kernel.lines = kernel.lines, []  # sizes are read after it
        for name in self.entry.sizes:
            self._refuse(kernel, f"a->{name} < 1", f"{self._symbol(name)}: expected at least 1")
        shapes = [product(x.shape) for x in (*self.entry.inputs, *self.entry.results)]
        for powers, factor_of_all in bounds([*arrays, *shapes]).items():
            sides = [f"(double)a->{fields[name]}" for name, k in powers for _ in range(k)]
            names = ", ".join(self._symbol(fields[name]) for name, _ in powers)
            message = f"{names}: expected arrays of at most 2^{MOST} numbers"
            self._refuse(kernel, f"{' * '.join([repr(factor_of_all), *sides])} > 0x1p{MOST}", message)
        for left, op, right, message in self._conditions():
            if op == "%":
                wrong = f"{factor(kernel.size(left))} % {factor(kernel.size(right))} != 0"
            else:
                wrong = f"{kernel.size(left)} {OPPOSITE[op]} {kernel.size(right)}"
            self._refuse(kernel, wrong, message)
        for x in self.entry.inputs:
            for size in x.shape:
                if not isinstance(size, int) and not isinstance(size, Symbol):
                    message = f"{x.name}: expected at least one entry along each axis"
                    self._refuse(kernel, f"{kernel.size(size)} < 1", message)
        head = f"static int32_t {self.entry.name}_sizes({self.arguments}) {{"
        return [head, *lines, *kernel.declared(), *kernel.lines, "    return 0;", "}"]

    def given(self) -> list[str]:
        """The function that looks at all arguments."""
        kernel, entry = self.kernel(), self.entry
        for x in entry.inputs:
            self._pointer(kernel, x)
        for table in entry.reads:
            if table.field != "grads":
                self._table(kernel, table, "")
        for x in entry.results:
            self._pointer(kernel, x)
        for table in entry.writes if "grads" not in {t.field for t in entry.reads} else ():
            self._table(kernel, table, f"{table.field}.", self.written)
        if "grads" in {t.field for t in entry.reads}:
            self._updated(kernel)
        self._values(kernel)
        head = f"static int32_t {entry.name}_refused({self.arguments}) {{"
        first = [f"    const int32_t wrong = {entry.name}_sizes(a);", "    if (wrong) return wrong;"]
        return [head, *first, *kernel.declared(), *kernel.lines, "    return 0;", "}"]

    def text(self, arrays: Iterable[Size] = ()) -> list[str]:
        """Both functions; the sizes of arrays of the workspace must not be too large either."""
        return [
            f"// sizes that {self.entry.name} cannot work with: 0, or a code",
            *self.sizes(arrays),
            "",
            f"// arguments that {self.entry.name} cannot work with: 0, or a code",
            *self.given(),
        ]

    # ---- single checks

    def _refuse(self, kernel: Kernel, wrong: str, message: str) -> None:
        line = f"if ({wrong}) return {self.codes.of(message)};"
        told = "" if message.endswith("missing") else f" // {printable(message)}".replace("\\", "/")
        kernel.line(line + told if len(line + told) < WIDTH - 4 else line)

    def _symbol(self, name: str) -> str:
        found = dict(zip(self.entry.sizes, self.entry.symbols, strict=False))
        return found.get(name, name) if found.get(name, name).isidentifier() else name

    def _known(self, *sizes: Size) -> bool:
        """Is the entry told all that these sizes are made of?"""
        return {s.name for x in sizes if not isinstance(x, int) for s in x.free_symbols} <= {*self.entry.symbols}

    def _conditions(self) -> Iterable[tuple[Size, str, Size, str]]:
        for condition in self.promises.where:
            left, right = self.promises.size(condition.left), self.promises.size(condition.right)
            if self._known(left, right) and not (isinstance(left, int) and isinstance(right, int)):
                text = f"{condition.span.place} needs {' '.join(condition.span.text.split())}"
                yield left, condition.op, right, text
        yield from self.promises.more

    def _pointer(self, kernel: Kernel, x: Field) -> None:
        wrong = f"!a->{x.field}"
        if x.layers:
            wrong += f" || one_missing(a->{x.field}, {math.prod(x.layers)})"
        self._refuse(kernel, wrong, f"{x.name if x.name.isidentifier() else x.field} is missing")

    def _table(self, kernel: Kernel, table: Table, of: str, needed: frozenset[str] | None = None) -> None:
        """A struct of pointers: all of them, or those that are needed."""
        self._refuse(kernel, f"!a->{table.field}", f"{table.field} is missing")
        self._pointers(kernel, table, of, self.codes.arrays(table.kind, self.tables[table.kind], needed), "NULL")

    def _pointers(self, kernel: Kernel, table: Table, of: str, arrays: str, beside: str) -> None:
        fields = self.tables[table.kind]
        first = self.codes.block([f"{of}{x.name} is missing" for x in fields])
        kernel.line(f"missing = first_missing(a->{table.field}, {arrays}, {len(fields)}, {beside});")
        kernel.line(f"if (missing >= 0) return {first} + missing;")
        kernel.head["missing"] = "int missing;"

    def _updated(self, kernel: Kernel) -> None:
        """Parameters and slots of an optimiser, where there is a gradient."""
        for table in (*self.entry.reads, *self.entry.writes):
            self._refuse(kernel, f"!a->{table.field}", f"{table.field} is missing")
        arrays = self.codes.arrays("params", self.tables["params"])
        for table in self.entry.writes:
            of = "" if table.field == "params" else f"opt.{table.field}."
            self._pointers(kernel, table, of, arrays, "a->grads")

    def _values(self, kernel: Kernel) -> None:
        fields = {x.name: x for x in self.entry.inputs}
        for tensor in self.promises.tensors:
            x = fields.get(tensor.name)
            if x is None or (tensor.below is None and tensor.refinement is None):
                continue
            count = kernel.size(product(x.shape))
            if tensor.below is not None:
                below = self.promises.size(tensor.below)
                if self._known(below):
                    call = f"below_{x.dtype}(a->{x.field}, {count}, {kernel.size(below)})"
                    self._refuse(kernel, f"!{call}", f"{x.name}: expected 0 <= value < {show(below)}")
            if tensor.refinement is None:
                continue
            if tensor.refinement == "binary":
                self._refuse(kernel, f"!binary_{x.dtype}(a->{x.field}, {count})", f"{x.name}: expected 0 or 1")
            else:
                last = kernel.size(x.shape[-1])
                call = f"none_below_0_{x.dtype}(a->{x.field}, {count})"
                self._refuse(kernel, f"!{call}", f"{x.name}: expected no entry below 0")
                call = f"add_up_to_1_{x.dtype}(a->{x.field}, {kernel.size(product(x.shape[:-1]))}, {last})"
                self._refuse(kernel, f"!{call}", f"{x.name}: expected a sum of 1 along the last axis")

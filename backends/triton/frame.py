"""Where the lines of a kernel are written: names, open loops, tile axes and their variables."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

from dslc.backends.triton.scalars import DEVICE
from dslc.backends.triton.text import ATOM, TIMES, Text, atom, identifier, name_of, size_code, symbols, unused

from dslc.ir import nodes as ir
from dslc.sizes import Size, product

#: names that a kernel may not use for its own values
RESERVED = DEVICE | {
    "tl", "triton", "torch", "math", "seed", "device", "params", "state", "entry", "below", "PARAMS", "STATE", "DTYPE",
    "FLOAT", "program",
    "pid", "in", "is", "if", "or", "and", "not", "as", "for", "def", "int", "float", "range", "min", "max", "sum",
    "len", "print", "lambda", "return", "abs", "round", "pow", "exp",
}  # fmt: skip


#: what the open sizes of the module at hand are called: no value of a kernel may have such a name
OPEN_SIZES: ContextVar[frozenset[str]] = ContextVar("OPEN_SIZES", default=frozenset())


@dataclass
class Axis:
    """A tile axis: some variables of the kernel, flattened; `number` is its place among the axes of a tile."""

    number: int
    name: str
    variables: tuple[int, ...]
    sizes: tuple[Size, ...]
    depth: int = 0
    #: is the last block cut off?
    ragged: bool = True
    #: one value in each program
    single: bool = False

    @property
    def extent(self) -> Size:
        return product(self.sizes)


@dataclass
class Scope:
    """The lines of a kernel, or of an open loop of it, and what is known in them."""

    header: str = ""
    lines: list[str] = field(default_factory=list)
    #: values of formulas
    done: dict[ir.Scalar, Text] = field(default_factory=dict)
    #: indices, masks, values as they are kept
    memo: dict[object, Text] = field(default_factory=dict)


@dataclass
class Counters:
    """The steps of scans that a kernel is in."""

    #: given by the host
    given: dict[ir.Step, str] = field(default_factory=dict)
    #: counted by a loop of the kernel itself
    counted: dict[ir.Step, str] = field(default_factory=dict)
    #: the tile axes of those, where a kernel works on several steps at a time
    axes: tuple[int, ...] = ()


@dataclass
class Layers:
    """Tensors of which the host passes one layer."""

    #: how many leading places it has looked up
    depths: dict[ir.Node, int] = field(default_factory=dict)
    #: the scans whose steps these places are
    steps: dict[ir.Node, tuple[int, ...]] = field(default_factory=dict)


@dataclass
class Formulas:
    """What is known of the formulas of a kernel before they are written."""

    uses: dict[ir.Scalar, int] = field(default_factory=dict)
    #: what the values of nodes are called
    wishes: dict[ir.Scalar, str] = field(default_factory=dict)
    #: operations on numbers that are known
    constants: dict[ir.Scalar, ir.Const] = field(default_factory=dict)
    #: members that are computed where they are read
    lazy: dict[ir.Node, ir.Scalar] = field(default_factory=dict)


@dataclass
class Frame:
    """Lines of one kernel, and what is known at this point of it.

    Fields are what a kernel takes (pointers, numbers, counters, layers, seed), what it has (axes, values, names), and
    where it is being written (scopes).
    """

    dtype: str  # what floats are: "f32" or "f64", or "f16" or "bf16", which are computed with in float32
    node: ir.Node
    axes: list[Axis] = field(default_factory=list)
    #: the kernel and its open loops, outermost first
    scopes: list[Scope] = field(default_factory=lambda: [Scope()])
    values: dict[ir.Node, Text] = field(default_factory=dict)
    #: blocks of tiles, written when they are first read
    tiles: dict[ir.Node, Callable[[], Text]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=lambda: {*RESERVED, *OPEN_SIZES.get()})
    pointers: dict[ir.Node, str] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    layers: Layers = field(default_factory=Layers)
    formulas: Formulas = field(default_factory=Formulas)
    helpers: set[str] = field(default_factory=set)
    random: bool = False
    #: is the read at hand one that may be outside?
    guarded: bool = False

    # ---- names and lines

    @property
    def float_type(self) -> str:
        return "tl.float64" if self.dtype == "f64" else "tl.float32"

    def float_of(self, *values: ir.Scalar | ir.Tensor) -> str:
        """The type of a float that these are made of."""
        return self.type_of(*(x.dtype for x in values))

    def type_of(self, *dtypes: str) -> str:
        """The type of floats among which these are."""
        return "tl.float64" if "f64" in (self.dtype, *dtypes) else "tl.float32"

    def fresh(self, wish: str) -> str:
        return unused(identifier(wish), self.taken)

    def line(self, text: str, depth: int | None = None) -> None:
        self.scopes[-1 if depth is None else depth].lines.append(text)

    def open(self, header: str) -> None:
        """Start a loop; lines that do not depend on it may still be written before it."""
        self.scopes.append(Scope(header))

    def close(self) -> None:
        inner = self.scopes.pop()
        self.scopes[-1].lines += [inner.header, *(f"    {x}" for x in inner.lines)]

    def named(self, wish: str, text: Text) -> Text:
        name = self.fresh(wish)
        self.line(f"{name} = {bare(self.exact(text).code)}", text.depth)
        return Text(name, text.axes, ATOM, text.depth)

    def exact(self, text: Text, dtype: str = "float") -> Text:
        """A literal as a number of its dtype: by itself it would be a float32."""
        return self.block(text, dtype) if "f64" in (self.dtype, dtype) else text

    def block(self, text: Text, dtype: str = "float") -> Text:
        """A literal, or a formula of literals, as a tensor; any other text as it is."""
        if re.fullmatch(r"(?:[-+*/ ().\d]|(?<=[\d.])e(?=[-+\d]))+", text.code) and re.search(r"[.e]", text.code):
            return Text(f"tl.full((), {text.code}, {self.type_of(dtype)})", text.axes, ATOM, text.depth)
        return text

    def size(self, size: Size) -> str:
        """A size inside the kernel; its symbols become arguments."""
        for name in sorted(symbols(size)):
            self.numbers.setdefault(name, name)
            self.taken.add(name)
        return size_code(size)

    def pointer(self, tensor: ir.Node) -> str:
        if tensor not in self.pointers:
            self.pointers[tensor] = self.fresh(f"{name_of(tensor)}_ptr")
        return self.pointers[tensor]

    def step_depth(self, step: ir.Step) -> int:
        """The loop of the kernel that counts a step; 0 if the host counts it."""
        return 1 if step in self.counters.counted else 0

    def axes_of_step(self, step: ir.Step) -> tuple[int, ...]:
        return self.counters.axes if step in self.counters.counted else ()

    def step(self, step: ir.Step) -> str:
        if step in self.counters.counted:
            return self.counters.counted[step]
        if step not in self.counters.given:
            self.counters.given[step] = self.fresh(step.name or "t")
        return self.counters.given[step]

    # ---- variables

    def axis_of(self, variable: int) -> Axis:
        return next(a for a in self.axes if variable in a.variables)

    def on(self, axis: Axis, code: str, level: int = ATOM) -> Text:
        return Text(code, () if axis.single else (axis.number,), level, axis.depth)

    def recall(self, key: object) -> Text | None:
        for table in (x.memo for x in reversed(self.scopes)):
            if key in table:
                return table[key]
        return None

    def run(self, axis: Axis, first: int, last: int) -> Text:
        """Variables first .. last of an axis as one number."""
        count = len(axis.variables)
        if axis.name == "0":
            return Text("0")
        if first == 0 and last == count - 1:
            return self.on(axis, axis.name)
        key = (axis.name, first, last)
        known = self.recall(key)
        if known is not None:
            return known
        code = axis.name
        after = product(axis.sizes[last + 1 :])
        here = product(axis.sizes[first : last + 1])
        if after != 1:
            code = f"{code} // {atom(self.size(after))}"
        if first > 0:
            code = f"({code}) % {atom(self.size(here))}" if after != 1 else f"{code} % {atom(self.size(here))}"
        name = index_name(axis, first, last)
        if name in self.taken:
            name = next((x for x in "ijklm" if x not in self.taken), name)
        made = self.named(name, self.on(axis, code, TIMES))
        self.scopes[axis.depth].memo[key] = made
        return made

    def variable(self, number: int) -> Text:
        axis = self.axis_of(number)
        place = axis.variables.index(number)
        return self.run(axis, place, place)

    def scalar(self, root: ir.Scalar) -> Text:
        """A scalar as text; written by those who know operations."""
        raise NotImplementedError

    def converted(self, s: ir.Scalar, dtype: str) -> Text:
        raise NotImplementedError


def bare(code: str) -> str:
    """An expression without parentheses around the whole of it.

    >>> bare("(a < b)"), bare("(a) * (b)")
    ('a < b', '(a) * (b)')
    """
    depth = 0
    for k, c in enumerate(code):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return code[1:-1] if code.startswith("(") and k == len(code) - 1 else code
    return code


def index_name(axis: Axis, first: int, last: int) -> str:
    """A name for some variables of an axis: after the symbols of their sizes."""
    letters = [str(s).lower() if getattr(s, "is_Symbol", False) else "i" for s in axis.sizes[first : last + 1]]
    return "".join(letters) if len(letters) == 1 else "_".join(letters)

"""Pieces of NumPy text: expressions with their axes, sizes, constants."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dslc.backends.numpy.names import argument

from dslc.ir import nodes as ir
from dslc.ir.interning import table
from dslc.sizes import Polynomial, Size, show, tidy

ATOM, POWER, UNARY, TIMES, PLUS, COMPARE = 9, 8, 7, 6, 5, 4

DTYPES = {"f16": "np.float32", "bf16": "np.float32", "f32": "np.float32", "f64": "np.float64", "i32": "np.int64",
          "i64": "np.int64", "bool": "np.bool_"}  # fmt: skip


#: what results of these dtypes are returned in; they are computed with as above
RESULTS = {"i32": "np.int32", "f16": "np.float16", "bf16": "np.float32"}


@dataclass(frozen=True)
class Text:
    """An array expression whose axes are comprehension variables in ascending order."""

    code: str
    axes: tuple[int, ...]
    level: int = ATOM
    #: the same array before its axes were brought into order
    raw: tuple[str, tuple[int, ...]] | None = None
    #: how tightly that binds
    raw_level: int = ATOM
    #: the windows of an array that the code is
    windows: ir.Read | None = None
    #: how the sum that the code is, divided by this size, is written
    mean: tuple[Size, str] | None = None
    #: the same array without the minus that the code begins with, or that a factor has
    positive: Text | None = None
    #: the condition of which the code makes 1 and 0
    condition: Text | None = None
    #: what the code is one over
    inverse: Text | None = None

    def at(self, level: int) -> str:
        return self.code if self.level >= level else f"({self.code})"

    @property
    def negative(self) -> Text:
        """The array with the other sign."""
        return self.positive or Text(f"-{self.at(UNARY)}", self.axes, UNARY, positive=self)

    def over(self, variables: Mapping[int, int]) -> Text:
        """The same array over other variables, whose order is the same."""
        positive = None if self.positive is None else self.positive.over(variables)
        return Text(self.code, tuple(variables[a] for a in self.axes), self.level, mean=self.mean, positive=positive)


#: the size of an axis, or the sizes of several that are one
Extent = Size | tuple[Size, ...]


def size_code(size: Extent) -> str:
    """A size as Python, by the names that the spec has: exact quotients are whole-number divisions. A product of sums
    is not multiplied out.

    >>> from dslc.sizes import symbol
    >>> N, T = symbol("N"), symbol("T"); size_code((N, T)), size_code((N, T - 1))
    ('N*T', 'N * (T - 1)')
    """
    if isinstance(size, tuple):
        whole = tidy(math.prod(map(named, size)))
        if isinstance(whole, Polynomial) and len(whole.terms) > 1:
            return " * ".join(atom(size_code(s)) for s in size)
        size = whole
    return float_code(size).replace(" / ", " // ")


def float_code(size: Size) -> str:
    """A size as Python, with quotients of floats."""
    return re.sub(r"\b[A-Za-z_]\w*\b(?!\()", lambda m: argument(m[0]), show(named(size)).replace("^", "**"))


def named(size: Size) -> Size:
    """A size by the names that the spec has for it and for its parts, where the function around it has them."""
    names = table().size_names
    return size if names is None else names(size)


def shape_code(shape: Sequence[Extent]) -> str:
    """A shape as Python.

    >>> shape_code(()), shape_code((3,)), shape_code((3, 4))
    ('()', '(3,)', '(3, 4)')
    """
    return f"({', '.join(map(size_code, shape))}{',' if len(shape) == 1 else ''})"


def atom(text: str) -> str:
    return text if re.fullmatch(r"[\w.]+", text) else f"({text})"


def transposed(code: str, given: Sequence[int], wanted: Sequence[int]) -> str:
    return code + transposition(given, wanted)


def transposition(given: Sequence[int], wanted: Sequence[int]) -> str:
    """What brings axes into another order."""
    if len(wanted) == 2:
        return ".T"
    if len(wanted) > 2 and list(wanted[:-2]) == list(given[:-2]):
        return ".swapaxes(-1, -2)"
    return f".transpose({', '.join(str(list(given).index(n)) for n in wanted)})"


def bare(code: str) -> str:
    """Without brackets around the whole.

    >>> bare("((a @ b))"), bare("(a) + (b)")
    ('a @ b', '(a) + (b)')
    """
    while _enclosed(code):
        code = code[1:-1]
    return code


def _enclosed(code: str) -> bool:
    depth = 0
    for k, c in enumerate(code):
        depth += c == "("
        depth -= c == ")"
        if depth == 0:
            return k == len(code) - 1 and code.startswith("(")
    return False


def atom_code(code: str) -> str:
    """Code to which `.T` can be added.

    >>> atom_code("x[i]"), atom_code("f(g(x), 2)[:, None]"), atom_code("f(x) + g(y)")
    ('x[i]', 'f(g(x), 2)[:, None]', '(f(x) + g(y))')
    """
    if _enclosed(code):
        return f"({bare(code)})"
    depth = 0
    for c in code:
        depth += (c in "([") - (c in ")]")
        if depth == 0 and not (c.isalnum() or c in "_.)]"):
            return f"({code})"
    return code


def constant(s: ir.Const) -> str:
    value = s.value
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        if value != value:
            return "np.nan"
        if value in (float("inf"), float("-inf")):
            return "np.inf" if value > 0 else "-np.inf"
        if value.is_integer() and abs(value) < 1e6:
            return f"{int(value)}"
    return repr(value)

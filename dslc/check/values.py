"""What names and expressions stand for while a definition is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Union

from dslc.check.program import Affine, Constant, Dtype, Expr, Index, Instance, Read, SharedLayer, SizeValue, Tensor
from dslc.dtypes import DTYPES as DTYPES
from dslc.dtypes import FLOATS as FLOATS
from dslc.dtypes import INTS as INTS
from dslc.dtypes import is_float as is_float
from dslc.dtypes import is_int as is_int
from dslc.dtypes import promote as promote
from dslc.resolve.files import Defined
from dslc.sizes import Polynomial, Size
from dslc.source import Span


@dataclass(frozen=True)
class Ratio:
    """A number made by dividing whole numbers: a float, whatever its value, that is kept exact and can be a size."""

    value: Size


#: A value that is known when the spec is compiled: numbers (exact ones as int, Polynomial or Ratio), switches, words.
StaticValue = Union[int, float, bool, str, Polynomial, Ratio]


def exact(value: StaticValue | None) -> Size | None:
    """The number that a static value is exactly; None for floats, switches and words."""
    value = value.value if isinstance(value, Ratio) else value
    return value if isinstance(value, int | Polynomial) and not isinstance(value, bool) else None


@dataclass(frozen=True)
class Static:
    """A hyper-parameter or a size."""

    value: StaticValue
    span: Span = field(compare=False, repr=False)
    #: how a message calls it: "size", "argument", "loop variable"
    what: str = field(default="size", compare=False)


@dataclass(frozen=True)
class FunctionValue:
    """A function or layer as a value, with some of its arguments already given."""

    defined: Defined | None
    builtin: str | None = None
    bound: tuple[tuple[str, object], ...] = ()

    @property
    def name(self) -> str:
        return self.builtin or (self.defined.node.name if self.defined else "?")


@dataclass(eq=False)
class Shared:
    """One layer with one set of parameters, named with `use` (or the model inside its `train`)."""

    function: FunctionValue
    path: str
    frozen: bool
    span: Span
    #: where its parameters are, seen from any instance that it is passed to
    home: SharedLayer
    instance: Instance | None = None
    #: the call that fixed the sizes of its parameters
    first_call: Span | None = None


def shared_layers(value: object) -> list[SharedLayer]:
    """The layers named with `use` that a static argument is, or has among its own arguments."""
    if isinstance(value, Shared):
        return [value.home, *shared_layers(value.function)]
    if isinstance(value, FunctionValue):
        return [home for _, argument in value.bound for home in shared_layers(argument)]
    return []


@dataclass(frozen=True)
class Results:
    """All results of one call under one name, `r = f(x)`: `r.loss` is one of them."""

    tensors: Mapping[str, Tensor]
    span: Span


class Poison:
    """Stands for something that already has an error, so that nothing is said about it twice."""

    def __repr__(self) -> str:
        return "POISON"


POISON = Poison()

Binding = Union[Tensor, Static, FunctionValue, Shared, Results, "Val", Poison]


@dataclass(eq=False)
class Val:
    """The outcome of checking an expression.

    `axes` are its positional axes (a whole tensor, slices), `free` all indices it depends on and that are not
    bound inside it. Exactly one of `expr`, `static`, `function` is set; none for a value that has an error.
    """

    expr: Expr | None = None
    axes: tuple[Index, ...] = ()
    free: Mapping[Index, None] = field(default_factory=dict)
    static: StaticValue | None = None
    function: FunctionValue | Shared | None = None
    #: several results of one call
    several: tuple[Val, ...] = ()
    #: the names of the results of a call, by which one of them can be taken: `f(x).loss`
    results: tuple[str, ...] = ()

    @property
    def poisoned(self) -> bool:
        return self.expr is None and self.static is None and self.function is None and not self.several

    @property
    def dtype(self) -> Dtype:
        if self.expr is not None:
            return self.expr.dtype
        return static_dtype(self.static)


#: The value of an expression with an error.
NOTHING = Val()


def static_dtype(value: StaticValue | None) -> Dtype:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, float | Ratio):
        return "float"
    return "i64"


def lower(val: Val) -> Expr:
    """The expression of a value; static ones become constants."""
    if val.expr is not None:
        return val.expr
    static, dtype = val.static, static_dtype(val.static)
    if isinstance(static, Ratio | Polynomial):
        return SizeValue(static.value if isinstance(static, Ratio) else static, dtype)
    assert isinstance(static, int | float), static
    return Constant(static, dtype)


def whole_tensor(val: Val) -> Tensor | None:
    """The tensor itself when a value is exactly `name` or `name[:, :]`, else None."""
    expr = val.expr
    if not isinstance(expr, Read) or expr.outside is not None or len(expr.positions) != len(val.axes):
        return None
    for position, axis, size in zip(expr.positions, val.axes, expr.tensor.shape, strict=True):
        plain = isinstance(position, Affine) and position.offset == 0 and len(position.terms) == 1
        if not plain or position.terms[0] != (axis, 1) or axis.size != size:  # type: ignore[union-attr]
            return None
    return expr.tensor

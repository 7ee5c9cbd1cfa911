"""The checked program: every value sized and typed, every index resolved, every name bound.

    expression = Constant | SizeValue | IndexValue | Read | Apply | Reduce | Draw
    position   = Affine | Data                                  (one per axis of a Read or Scatter)
    statement  = Define | Scatter | AlongAxis | Join | CallFunction | External | Derivative | Update | Scan
               | Modes | Remat | Loop

Layers and functions are *instances*: one definition at particular sizes, types and static arguments, checked
once however often it is called. Calls refer to instances, and name the parameters below them by a path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar, Union

from dslc.sizes import Size
from dslc.source import NOWHERE, Span

Dtype = str  # "f16" "bf16" "f32" "f64" "float" (the module's default) "i32" "i64" "bool"


@dataclass(eq=False)
class Index:
    """One index of one statement: its name in the spec (empty for a positional axis) and its range 0..size."""

    name: str
    size: Size | None = None
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(eq=False)
class Tensor:
    """A named value with its axes."""

    name: str
    dtype: Dtype
    shape: tuple[Size, ...]
    role: Literal["input", "param", "state", "slot", "value"] = "value"
    span: Span = field(default=NOWHERE, repr=False)
    #: for whole numbers: 0 <= value < below
    below: Size | None = None
    #: entries in {0, 1}, or the last axis on the simplex; checked at entry
    refinement: str | None = None
    #: where each axis got its size: (place, the size as it is written there)
    origins: tuple[tuple[Span, str], ...] = field(default=(), repr=False)
    #: an input of the module itself, whose values are checked when it is called
    entry: bool = False


# ---- expressions ---------------------------------------------------------------------------------


@dataclass(eq=False)
class Constant:
    value: int | float | bool
    dtype: Dtype


@dataclass(eq=False)
class SizeValue:
    """A size, or arithmetic on sizes, used as a number."""

    size: Size
    dtype: Dtype = "i64"


@dataclass(eq=False)
class IndexValue:
    index: Index
    dtype: Dtype = "i64"


@dataclass(eq=False)
class Affine:
    """`offset + sum of coefficient * index`."""

    terms: tuple[tuple[Index, Size], ...]
    offset: Size
    mode: Literal["inside", "wrap", "clamp"] = "inside"


@dataclass(eq=False)
class Data:
    """A position read from whole-number data."""

    value: Expr
    mode: Literal["inside", "wrap", "clamp"] = "inside"


Position = Union[Affine, Data]


@dataclass(eq=False)
class Read:
    """`tensor[positions]`, or `outside` where a position leaves its axis."""

    tensor: Tensor
    positions: tuple[Position, ...]
    dtype: Dtype
    outside: Expr | None = None
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(eq=False)
class Apply:
    """A scalar operation: `+ - * / ^ // % neg`, comparisons, `and or not select`, casts, `stop_grad`, functions."""

    op: str
    args: tuple[Expr, ...]
    dtype: Dtype
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(eq=False)
class Reduce:
    op: str
    indices: tuple[Index, ...]
    body: Expr
    dtype: Dtype
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(eq=False)
class Draw:
    """A random value for each element of `indices`; `site` tells the draws of a definition apart."""

    op: str
    indices: tuple[Index, ...]
    args: tuple[Expr, ...]
    dtype: Dtype
    site: int
    span: Span = field(default=NOWHERE, repr=False)


Expr = Union[Constant, SizeValue, IndexValue, Read, Apply, Reduce, Draw]


# ---- statements ----------------------------------------------------------------------------------


@dataclass(eq=False)
class Define:
    """`tensor[axes] = value`; an axis is one index, or a group of them with the last one fastest."""

    tensor: Tensor
    axes: tuple[tuple[Index, ...], ...]
    value: Expr
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(eq=False)
class Scatter:
    """`tensor = base, then for all indices tensor[positions] op= value`."""

    tensor: Tensor
    base: Tensor | None
    op: str
    indices: tuple[Index, ...]
    positions: tuple[Position, ...]
    value: Expr
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(eq=False)
class AlongAxis:
    """`cumsum`, `sort`, `top_k`, `prefix`, `fft`... along one axis of their arguments."""

    op: str
    outputs: tuple[Tensor, ...]
    args: tuple[Tensor, ...]
    axis: int
    function: Instance | None = None
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(eq=False)
class Join:
    """Arguments laid one after the other along an axis."""

    output: Tensor
    args: tuple[Tensor, ...]
    axis: int
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(eq=False)
class CallFunction:
    """Apply an instance; the first `mapped` axes of all arguments that have them are mapped over.

    `lifted[i]` tells whether argument i carries the mapped axes.
    """

    instance: Instance
    outputs: tuple[Tensor, ...]
    args: tuple[Tensor, ...]
    path: str
    mapped: int = 0
    lifted: tuple[bool, ...] = ()
    frozen: bool = False
    span: Span = field(default=NOWHERE, repr=False)
    #: the layer that is called, where an instance around this one has named it with `use`
    shared: SharedLayer | None = None
    #: the layers named with `use` that are passed on
    passed: tuple[SharedLayer, ...] = ()


@dataclass(eq=False)
class SharedLayer:
    """A layer with one set of parameters: their path in the instance that names it."""

    path: str
    owner: Instance


@dataclass(eq=False)
class External:
    op: str
    outputs: tuple[Tensor, ...]
    args: tuple[Tensor, ...]
    mapped: int
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(eq=False)
class Derivative:
    kind: str
    output: Tensor
    of: Tensor
    wrt: Tensor
    direction: Tensor | None
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(eq=False)
class UpdateState:
    state: Tensor
    value: Tensor
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(eq=False)
class Carried:
    """A sequence built by a scan: its scanned axis and what stands before its first step."""

    tensor: Tensor
    axis: int
    start: Tensor | None


@dataclass(eq=False)
class Scan:
    index: Index
    reversed: bool
    body: tuple[Stmt, ...]
    carried: tuple[Carried, ...]
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(eq=False)
class Modes:
    """Two bodies; `joined` lists (value after, in training, in inference)."""

    training: tuple[Stmt, ...]
    inference: tuple[Stmt, ...]
    joined: tuple[tuple[Tensor, Tensor, Tensor], ...]
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(eq=False)
class Remat:
    """`checkpoint:`: what is inside is computed again in the backward pass."""

    body: tuple[Stmt, ...]
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(eq=False)
class Loop:
    """`for name in first..`: the statements of each pass, which differ in the layers and sizes that they use."""

    name: str
    first: int
    passes: tuple[tuple[Stmt, ...], ...]
    span: Span = field(default=NOWHERE, repr=False)


Stmt = Union[
    Define, Scatter, AlongAxis, Join, CallFunction, External, Derivative, UpdateState, Scan, Modes, Remat, Loop
]  # fmt: skip


# ---- instances and programs ----------------------------------------------------------------------


@dataclass(eq=False)
class ParamDecl:
    tensor: Tensor
    initializer: str
    init_args: tuple[Expr, ...] = ()
    #: for a given initial value: its indices and formula
    indices: tuple[Index, ...] = ()
    value: Expr | None = None
    frozen: bool = False


@dataclass(eq=False)
class StateDecl:
    tensor: Tensor
    value: Expr


@dataclass(eq=False)
class SizeCondition:
    """A `where` of a definition: `left op right`, where `%` means that the right side divides the left one."""

    left: Size
    op: str
    right: Size
    span: Span = field(default=NOWHERE, repr=False)

    def holds(self, sizes: Mapping[str, int]) -> bool | None:
        """Whether it holds at given sizes; None when they do not tell.

        >>> SizeCondition(6, "%", 4).holds({}), SizeCondition(3, "<=", 4).holds({})
        (False, True)
        """
        values = []
        for side in (self.left, self.right):
            value = side if isinstance(side, int) else side.subs({s: sizes.get(s.name, s) for s in side.free_symbols})
            if not isinstance(value, int):
                return None
            values.append(value)
        return COMPARE[self.op](*values)


#: what the conditions on sizes mean
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<=": lambda a, b: a <= b, "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b, ">": lambda a, b: a > b, "%": lambda a, b: b != 0 and a % b == 0,
}  # fmt: skip


@dataclass(eq=False)
class CustomBackward:
    cotangents: tuple[Tensor, ...]
    adjoints: tuple[Tensor, ...]
    body: tuple[Stmt, ...]


@dataclass(eq=False)
class Instance:
    """A definition at particular sizes, types and static arguments.

    Its fields are all that a definition can declare, hold and be passed: later stages read nothing else.
    """

    name: str
    word: str  # fn, layer, model, train, optimizer
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    params: list[ParamDecl] = field(default_factory=list)
    states: list[StateDecl] = field(default_factory=list)
    body: list[Stmt] = field(default_factory=list)
    #: inner values that are results too, by their names: `seen`, and `seen.0`, `seen.1` for passes of a `for`
    exposed: dict[str, Tensor] = field(default_factory=dict)
    statics: dict[str, object] = field(default_factory=dict)
    #: what its `where` says of open sizes: to be checked when the module is called
    where: list[SizeCondition] = field(default_factory=list)
    backward: CustomBackward | None = None
    #: open sizes that it names in its outputs or by `size`
    sizes: dict[str, Size] = field(default_factory=dict)
    #: instances below, by the path that names their parameters
    children: dict[str, Instance] = field(default_factory=dict)
    #: parameters of instances below that the body reads itself (tied weights), by path
    member_params: dict[str, Tensor] = field(default_factory=dict)
    #: parameters below that a formula or `freeze` names, each alone: those of equal layers are not one then
    named: set[str] = field(default_factory=set)
    #: those of layers that it was passed: the layer, and the path below it
    passed_params: dict[Tensor, tuple[SharedLayer, str]] = field(default_factory=dict)
    #: the layers that it was passed and calls
    borrowed: list[Instance] = field(default_factory=list)
    span: Span = field(default=NOWHERE, repr=False)
    #: tensors in this instance and below it, parameters counted as often as they are made
    param_count: int = 0


Value = TypeVar("Value")


def add_result(results: dict[str, Value], name: str, value: Value) -> None:
    """One more exposed value; several of one name are numbered in their order.

    >>> results = {}
    >>> for value in "abc": add_result(results, "seen", value)
    >>> results
    {'seen.0': 'a', 'seen.1': 'b', 'seen.2': 'c'}
    """
    if name in results:
        results[f"{name}.0"] = results.pop(name)
    count = sum(x.rpartition(".")[0] == name and x.rpartition(".")[2].isdigit() for x in results)
    results[f"{name}.{count}" if count else name] = value


@dataclass(eq=False)
class TrainProgram:
    instance: Instance
    model: Instance
    loss: Tensor | None = None
    maximize: bool = False
    metrics: list[tuple[str, Tensor]] = field(default_factory=list)
    optimizer: Instance | None = None
    optimizer_args: dict[str, Expr] = field(default_factory=dict)
    frozen: list[str] = field(default_factory=list)
    #: inputs by which the loss is differentiated as well
    wrt: tuple[str, ...] = ()


@dataclass(eq=False)
class Program:
    models: dict[str, Instance] = field(default_factory=dict)
    trains: list[TrainProgram] = field(default_factory=list)
    definitions: dict[str, Instance] = field(default_factory=dict)

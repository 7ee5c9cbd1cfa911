"""The syntax tree: what a spec says, before any name is looked up.

    definition = Import | Fn | Layer | Optimizer | Train
    statement  = Parameter | State | Slots | Use | Size | Equation | Accumulate | Update | For | Scan
               | Start | If | Mode | Checkpoint | Backward | Objective | Using | Metric | Freeze | Expose
    expression = Number | String | Bool | Name | Access | Call | Member | Negative | Not | Sum | Product
               | Binary | Compare | Logic | Choose | OrElse | Pipe
    item       = Rest | Group | Slice | Into | expression          (between the brackets of an access)

Chains of `+ -`, of `* /`, of `and`, of `or` and of `|>` are flat, so depth measures nesting and not length.
Parentheses are not kept: the printer puts back the ones that the tree needs. Positions do not take part in
equality: two trees are equal when they say the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from typing import Literal, Union

from dslc.source import NOWHERE, Span


@dataclass(frozen=True, eq=False, repr=False)
class Node:
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)

    # Comparison and text are written once: to generate them for each kind of node takes as long as to read a spec.

    def _values(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in _parts(type(self))}  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Node) and type(self) is type(other) and self._values() == other._values()

    @cached_property
    def _hash(self) -> int:
        return hash((type(self), *self._values().values()))

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._values().items())})"

    def children(self) -> Iterator[Node]:
        """The nodes directly below this one, in source order."""
        for name in _parts(type(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            if isinstance(value, Node):
                yield value
            elif isinstance(value, tuple):
                for part in value:
                    if isinstance(part, Node):
                        yield part
                    elif isinstance(part, tuple):
                        yield from (p for p in part if isinstance(p, Node))

    def walk(self) -> Iterator[Node]:
        """This node and all below it, each before its children (without recursion)."""
        stack: list[Node] = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(list(node.children())))


@cache
def _parts(node: type[Node]) -> tuple[str, ...]:
    """The fields of a kind of node that may hold further nodes."""
    return tuple(f.name for f in fields(node) if f.name != "span")


# ---- expressions ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Number(Node):
    text: str

    @property
    def value(self) -> int | float:
        return int(self.text) if self.text.isdigit() else float(self.text)


@dataclass(frozen=True, eq=False, repr=False)
class String(Node):
    value: str


@dataclass(frozen=True, eq=False, repr=False)
class Bool(Node):
    value: bool


@dataclass(frozen=True, eq=False, repr=False)
class Name(Node):
    id: str


@dataclass(frozen=True, eq=False, repr=False)
class Access(Node):
    """`base[items]`: a read of a tensor, or the bound indices of `max[i](...)`."""

    base: Expr
    items: tuple[Item, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Argument(Node):
    value: Expr
    name: str | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Call(Node):
    callee: Expr
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Member(Node):
    """`base.name`: a parameter or sub-layer of a layer that was named with `use`, or one result of a call."""

    base: Expr
    name: str

    @property
    def path(self) -> list[Member]:
        """All members on the way, the innermost first: `f.a` and `f.a.b` of `f.a.b`."""
        found = [self]
        while isinstance(found[0].base, Member):
            found.insert(0, found[0].base)
        return found

    @property
    def root(self) -> Expr:
        """What stands before the first dot."""
        return self.path[0].base


@dataclass(frozen=True, eq=False, repr=False)
class Negative(Node):
    operand: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Not(Node):
    operand: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Sum(Node):
    """`a + b - c`: signs and terms."""

    terms: tuple[tuple[Literal["+", "-"], Expr], ...]


@dataclass(frozen=True, eq=False, repr=False)
class Product(Node):
    """`a * b / c`: operators (the first is `*`) and factors."""

    factors: tuple[tuple[Literal["*", "/"], Expr], ...]


@dataclass(frozen=True, eq=False, repr=False)
class Binary(Node):
    op: Literal["^", "//", "%"]
    left: Expr
    right: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Compare(Node):
    op: Literal["<", "<=", ">", ">=", "==", "!="]
    left: Expr
    right: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Logic(Node):
    op: Literal["and", "or"]
    operands: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Choose(Node):
    """`then if condition else otherwise`."""

    then: Expr
    condition: Expr
    otherwise: Expr


@dataclass(frozen=True, eq=False, repr=False)
class OrElse(Node):
    """`(read else value)`: the value that stands for what lies outside the range."""

    read: Expr
    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Pipe(Node):
    """`value |> stage |> stage`."""

    value: Expr
    stages: tuple[Expr, ...]


# ---- items of an access --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Rest(Node):
    """`...`: the axes that are not named."""


@dataclass(frozen=True, eq=False, repr=False)
class Group(Node):
    """`(h w)`: several indices that make up one axis, the last one fastest."""

    names: tuple[Name, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Slice(Node):
    """`low:high:step`; on a left-hand side and in a reduction, `index: bound`."""

    low: Expr | None
    high: Expr | None
    step: Expr | None


@dataclass(frozen=True, eq=False, repr=False)
class Into(Node):
    """`v -> j: 5`: an axis that is replaced by another one."""

    source: Name
    target: Name
    bound: Expr | None


Expr = Union[
    Number, String, Bool, Name, Access, Call, Member, Negative, Not, Sum, Product, Binary, Compare, Logic,
    Choose, OrElse, Pipe,
]  # fmt: skip
Item = Union[Rest, Group, Slice, Into, Expr]

# ---- types, parameters of definitions ------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class NamedDim(Node):
    """`D = E / heads`: a size with a name."""

    name: str
    value: Expr


Dim = Union[Rest, NamedDim, Expr]


@dataclass(frozen=True, eq=False, repr=False)
class Type(Node):
    """`simplex f32[N, K]`, `i32[N] < V`."""

    refinement: str | None
    dtype: str | None
    dims: tuple[Dim, ...]
    below: Expr | None = None


@dataclass(frozen=True, eq=False, repr=False)
class KindWord(Node):
    """`size`, `int`, `float`, `bool`, `string`, `fn` or `layer`."""

    word: str


@dataclass(frozen=True, eq=False, repr=False)
class Formal(Node):
    """A declared argument: `x: [N, I]`, `out: size`, `heads = 8`."""

    name: str
    kind: Type | KindWord | None
    default: Expr | None


@dataclass(frozen=True, eq=False, repr=False)
class Output(Node):
    name: str
    type: Type | None


@dataclass(frozen=True, eq=False, repr=False)
class IndexSize(Node):
    """`a = 8` in the `where` of an equation."""

    name: str
    value: Expr


Condition = Union[IndexSize, Expr]

# ---- statements ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Target(Node):
    """The left-hand side of an equation: `h`, `y[n, o]`, `y[dst[m], o]`. `items` is None without brackets."""

    name: str
    items: tuple[Item, ...] | None


@dataclass(frozen=True, eq=False, repr=False)
class Parameter(Node):
    targets: tuple[Target, ...]
    type: Type
    drawn: Expr | None = None
    given: Expr | None = None
    frozen: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class State(Node):
    name: str
    type: Type
    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class SlotValue(Node):
    name: str
    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Slots(Node):
    values: tuple[SlotValue, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Use(Node):
    name: str
    value: Expr
    frozen: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Size(Node):
    name: str
    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Equation(Node):
    targets: tuple[Target, ...]
    value: Expr
    where: tuple[Condition, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Accumulate(Node):
    """`y[dst[m], o] += ...`; `op` is `+`, `max` or `min`."""

    target: Target
    op: str
    value: Expr
    where: tuple[Condition, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Update(Node):
    """`mean <- ...`: the next value of a state, a slot or the parameter."""

    target: Target
    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class For(Node):
    name: str
    low: Expr
    high: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Scan(Node):
    name: str
    low: Expr | None
    high: Expr | None
    reversed: bool
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Start(Node):
    target: Target
    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Branch(Node):
    condition: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class If(Node):
    branches: tuple[Branch, ...]
    otherwise: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Mode(Node):
    mode: Literal["training", "inference"]
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Checkpoint(Node):
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Backward(Node):
    """`backward (dy) -> dx, dw:`: the adjoint of a function, given by hand."""

    cotangents: tuple[str, ...]
    adjoints: tuple[str, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Objective(Node):
    sense: Literal["minimize", "maximize"]
    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Using(Node):
    optimizer: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Metric(Node):
    name: str
    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Freeze(Node):
    paths: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Expose(Node):
    names: tuple[str, ...]


Statement = Union[
    Parameter, State, Slots, Use, Size, Equation, Accumulate, Update, For, Scan, Start, If, Mode, Checkpoint,
    Backward, Objective, Using, Metric, Freeze, Expose,
]  # fmt: skip

# ---- definitions ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Imported(Node):
    name: str
    alias: str | None


@dataclass(frozen=True, eq=False, repr=False)
class Import(Node):
    """`import "f.dsl"` (all of it, `names` is None) or `from "f.dsl" import a, b as c`."""

    path: str
    names: tuple[Imported, ...] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Fn(Node):
    """A function without parameters: `fn f(x) = body`, or with a block and named outputs.

    `axis` is the name that stands for the bound indices of `softmax[k](x)`.
    """

    name: str
    axis: str | None
    formals: tuple[Formal, ...]
    expression: Expr | None
    outputs: tuple[Output, ...] = ()
    where: tuple[Condition, ...] = ()
    body: tuple[Statement, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Layer(Node):
    """A layer, or with `word` "model" an entry point."""

    word: Literal["layer", "model"]
    name: str
    formals: tuple[Formal, ...]
    outputs: tuple[Output, ...]
    where: tuple[Condition, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Optimizer(Node):
    name: str
    formals: tuple[Formal, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Train(Node):
    model: str
    formals: tuple[Formal, ...]
    where: tuple[Condition, ...]
    body: tuple[Statement, ...]


Definition = Union[Import, Fn, Layer, Optimizer, Train]


@dataclass(frozen=True, eq=False, repr=False)
class Module(Node):
    """One spec file."""

    definitions: tuple[Definition, ...]

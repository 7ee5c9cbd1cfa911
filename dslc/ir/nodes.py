"""The IR: tensors defined by comprehensions over index variables, closed under differentiation.

    tensor = Input | Comp | Scatter | Reshape | Along | External | Scan | Custom | Part | Step
    scalar = Const | SizeOf | Var | Read | Op | Rand                      (the body of a Comp or Scatter)
    place  = Affine | Data | At                                        (where a Read or Scatter touches one axis)

A comprehension  y[v0 .. vn] = reduce over vn+1 .. vm of body  numbers its variables: first the axes of the result,
then the reduced ones. Bodies hold no reductions; those are comprehensions of their own. Axes are told apart by
number only, so transposition, broadcasting and reshaping are not operations but ways of reading.

Nodes are immutable and hash-consed (`interning.py`): equal nodes of a compilation are one object, and identity is
equality.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Union

from dslc.dtypes import alike
from dslc.ir.interning import compilation as compilation
from dslc.ir.interning import fresh_number as fresh_number
from dslc.ir.interning import intern as intern
from dslc.ir.interning import remembered as remembered
from dslc.sizes import Size
from dslc.source import NOWHERE, Span

Dtype = str

# ---- scalars ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Const:
    value: float | int | bool
    dtype: Dtype
    #: so that -0.0, 0.0, 0 and False stay apart when nodes are compared
    text: str = ""


@dataclass(frozen=True, eq=False)
class SizeOf:
    """A size used as a number."""

    size: Size
    dtype: Dtype = "i64"


@dataclass(frozen=True, eq=False)
class Var:
    """The value of variable `number` of the comprehension around it."""

    number: int
    dtype: Dtype = "i64"


@dataclass(frozen=True, eq=False)
class Affine:
    """`(offset + sum of coefficient * variable) / divisor`; exact, or else outside."""

    terms: tuple[tuple[int, Size], ...]
    offset: Size
    mode: str = "inside"
    divisor: Size = 1


@dataclass(frozen=True, eq=False)
class Data:
    """A position given by whole-number data."""

    value: Scalar
    mode: str = "inside"


@dataclass(frozen=True, eq=False)
class At:
    """The current step of a scan, or one at a fixed distance from it."""

    step: Step
    offset: Size = 0


Place = Union[Affine, Data, At]


@dataclass(frozen=True, eq=False)
class Read:
    """`tensor[places]`, or `outside` where a place leaves its axis (None: it never does)."""

    tensor: Tensor
    places: tuple[Place, ...]
    dtype: Dtype
    outside: Scalar | None = None


@dataclass(frozen=True, eq=False)
class Op:
    name: str
    args: tuple[Scalar, ...]
    dtype: Dtype


@dataclass(frozen=True, eq=False)
class Rand:
    """A uniform 32-bit draw for each element: keyed by the seed, the site and the number of the element.

    `places` and `sizes` give the element: row-major over the indices of the draw.
    """

    site: int
    places: tuple[Scalar, ...]
    sizes: tuple[Size, ...]
    lane: int = 0
    dtype: Dtype = "float"


Scalar = Union[Const, SizeOf, Var, Read, Op, Rand]

# ---- tensors ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Input:
    """An argument of the program: data, a parameter, a state, the seed."""

    name: str
    role: str
    dtype: Dtype
    shape: tuple[Size, ...]


@dataclass(frozen=True, eq=False)
class Comp:
    """`result[0 .. n-1] = op over n .. m-1 of body`; without `op` there are no reduced variables."""

    shape: tuple[Size, ...]
    reduced: tuple[Size, ...]
    op: str | None
    body: Scalar
    dtype: Dtype
    name: str = field(default="", compare=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class Scatter:
    """`result = base; for all variables: result[places] op= body`. Without a base: 0, or the neutral of `op`."""

    shape: tuple[Size, ...]
    ranges: tuple[Size, ...]
    places: tuple[Place, ...]
    op: str
    body: Scalar
    base: Tensor | None
    dtype: Dtype
    name: str = field(default="", compare=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class Reshape:
    """The same elements in row-major order under another shape: how grouped axes are read and written."""

    of: Tensor
    shape: tuple[Size, ...]
    dtype: Dtype
    name: str = field(default="", compare=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class Along:
    """An operation along one axis: cumsum, cumprod, cummax, cummin, sort, argsort, top_k, fft, ifft.

    `reverse` runs it from the end. Several results are taken apart by Part.
    """

    op: str
    args: tuple[Tensor, ...]
    axis: int
    shapes: tuple[tuple[Size, ...], ...]
    dtypes: tuple[Dtype, ...]
    reverse: bool = False
    name: str = field(default="", compare=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class External:
    """A matrix operation on the last axes of its arguments, for every element of the first `mapped` ones."""

    op: str
    args: tuple[Tensor, ...]
    mapped: int
    shapes: tuple[tuple[Size, ...], ...]
    dtypes: tuple[Dtype, ...]
    name: str = field(default="", compare=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class Step:
    """What the body of a scan reads: the number of the step, or a carried value."""

    kind: str  # "number" or "carry"
    scan: int
    place: int
    dtype: Dtype
    shape: tuple[Size, ...]
    name: str = field(default="", compare=False)

    @property
    def role(self) -> str:
        return "step"


@dataclass(frozen=True, eq=False)
class Scan:
    """Steps 0 .. length-1 (or the other way round): carries are fed back, results are stacked along a first axis.

    `results[i]` and `carries[i]` are tensors of one step, made of Step nodes with the number of this scan;
    a sequence is read inside at the position of the Step that is the step number.
    The values of the scan are the stacked results, then the last carries.
    `kind` is "layers" for equal layers that are built once, "steps" for a scan of the spec; it follows from the number.
    """

    number: int
    length: Size
    reverse: bool
    starts: tuple[Tensor, ...]
    carries: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    kind: str = field(default="steps", compare=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class Custom:
    """Values with a derivative of their own: `rule` says how cotangents of `values` become adjoints of `args`."""

    args: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    rule: Rule


@dataclass(frozen=True, eq=False)
class Part:
    """One of several values of a node."""

    of: Along | External | Scan | Custom
    number: int
    dtype: Dtype
    shape: tuple[Size, ...]
    name: str = field(default="", compare=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class Apart:
    """The rule of a value that is kept apart from values that are equal to it: derivatives pass unchanged."""

    def __call__(self, cotangents: Sequence[Tensor]) -> dict[int, Tensor]:
        return {0: cotangents[0]}


@dataclass(frozen=True, eq=False)
class Recompute:
    """The rule of values that the backward pass computes again from the arguments (`checkpoint:`)."""

    def __call__(self, cotangents: Sequence[Tensor]) -> dict[int, Tensor]:
        raise AssertionError("a checkpoint is differentiated through its values")


Tensor = Union[Input, Comp, Scatter, Reshape, Part, Step]
#: from the cotangents of all values to the adjoints of arguments, by their number
Rule = Callable[[Sequence[Tensor]], dict[int, Tensor]]
Node = Union[Input, Comp, Scatter, Reshape, Along, External, Scan, Custom, Part, Step]


# ---- construction -----------------------------------------------------------------------------------


def const(value: float | int | bool, dtype: Dtype) -> Const:
    return intern(Const(value, dtype, repr(value)))


def op(name: str, args: tuple[Scalar, ...], dtype: Dtype) -> Op:
    return intern(Op(name, args, dtype))


def cast(s: Scalar, dtype: Dtype) -> Scalar:
    """A scalar in a dtype; one that is kept alike stays as it is."""
    return s if alike(s.dtype, dtype) else op("cast", (s,), dtype)


def var(number: int) -> Var:
    return intern(Var(number))


def affine(terms: tuple[tuple[int, Size], ...], offset: Size = 0, mode: str = "inside", divisor: Size = 1) -> Affine:
    if len(terms) > 1 or (terms and terms[0][1] == 0):
        terms = tuple(sorted(((n, c) for n, c in terms if c != 0), key=lambda term: term[0]))
    return intern(Affine(terms, offset, mode, divisor))


def plain(number: int) -> Affine:
    return affine(((number, 1),))


def read(tensor: Tensor, places: tuple[Place, ...], outside: Scalar | None = None) -> Read:
    return intern(Read(tensor, places, tensor.dtype, outside))


def apart(tensor: Tensor) -> Part:
    """The same value as a node of its own, equal to no other."""
    made = intern(Custom((tensor,), (tensor,), Apart()))
    return intern(Part(made, 0, tensor.dtype, tensor.shape, tensor.name))


def whole(tensor: Tensor) -> Read:
    """`tensor[v0, v1, ...]`."""
    return read(tensor, tuple(plain(i) for i in range(len(tensor.shape))))


def comp(
    shape: tuple[Size, ...],
    body: Scalar,
    reduce: str | None = None,
    reduced: tuple[Size, ...] = (),
    name: str = "",
    span: Span = NOWHERE,
    dtype: Dtype | None = None,
) -> Tensor:
    """A comprehension; one that only reads a whole tensor is that tensor."""
    if reduce is None and isinstance(body, Read) and body.outside is None and body.tensor.shape == shape:
        if all(p is plain(i) for i, p in enumerate(body.places)) and dtype in (None, body.tensor.dtype):
            return body.tensor
    result = dtype or ("i64" if reduce in ("argmax", "argmin") else body.dtype)
    return intern(Comp(shape, reduced, reduce, body, result, name, span))


def rename(node: Node, name: str) -> None:
    """Call a node something else, for printers: what it is called is no part of what it is."""
    object.__setattr__(node, "name", name)


def slice_of_input(node: Node) -> bool:
    """Is a node just an input read at the step of a scan: the parameter of one layer?"""
    return (
        isinstance(node, Comp)
        and node.op is None
        and isinstance(node.body, Read)
        and isinstance(node.body.tensor, Input)
        and all(isinstance(x, At) or x is plain(i) for i, x in enumerate(node.body.places, -_steps(node.body)))
    )


def _steps(read: Read) -> int:
    return sum(isinstance(x, At) for x in read.places)


# ---- walking ----------------------------------------------------------------------------------------


def operands(s: Scalar) -> tuple[Scalar, ...]:
    """The scalars directly below a scalar (data places and outside values count)."""
    match s:
        case Op():
            return s.args
        case Rand():
            return s.places
        case Read():
            below = tuple(p.value for p in s.places if isinstance(p, Data))
            return below if s.outside is None else (*below, s.outside)
    return ()


@remembered
def scalars(root: Scalar) -> tuple[Scalar, ...]:
    """All scalars of a body, each once, operands first."""
    done: dict[Scalar, None] = {}
    stack: list[tuple[Scalar, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if node in done:
            continue
        below = () if ready else operands(node)
        if not below:
            done[node] = None
        else:
            stack.append((node, True))
            stack.extend([(x, False) for x in below if x not in done])
    return tuple(done)


@remembered
def variables(s: Scalar) -> frozenset[int]:
    """The variables that a scalar depends on, in places too.

    >>> sorted(variables(op("+", (var(0), var(2)), "i64")))
    [0, 2]
    """
    found: set[int] = set()
    for x in scalars(s):
        if isinstance(x, Var):
            found.add(x.number)
        elif isinstance(x, Read):
            for place in x.places:
                if isinstance(place, Affine):
                    found.update(n for n, _ in place.terms)
    return frozenset(found)


def rebuild(s: Scalar, below: Callable[[Scalar], Scalar], tensor: Callable[[Tensor], Tensor] | None = None) -> Scalar:
    """The same scalar on changed operands (and, for reads, a changed tensor)."""
    match s:
        case Op():
            args = tuple([below(a) for a in s.args])
            return s if all(map(is_, args, s.args)) else op(s.name, args, s.dtype)
        case Rand():
            return intern(Rand(s.site, tuple(below(a) for a in s.places), s.sizes, s.lane, s.dtype))
        case Read():
            places = tuple([intern(Data(below(p.value), p.mode)) if isinstance(p, Data) else p for p in s.places])
            outside = None if s.outside is None else below(s.outside)
            target = s.tensor if tensor is None else tensor(s.tensor)
            if target is s.tensor and outside is s.outside and all(map(is_, places, s.places)):
                return s
            return intern(Read(target, places, s.dtype, outside))
    return s


def with_reads(root: Scalar, change: Callable[[Read], Scalar]) -> Scalar:
    """A formula with something else in the place of its reads, those in the places of other reads first."""
    done: dict[Scalar, Scalar] = {}
    for s in scalars(root):
        new = rebuild(s, done.__getitem__)
        done[s] = change(new) if isinstance(new, Read) else new
    return done[root]


def bodies(node: Node) -> tuple[Scalar, ...]:
    match node:
        case Comp():
            return (node.body,)
        case Scatter():
            return (node.body, *(p.value for p in node.places if isinstance(p, Data)))
    return ()


@remembered
def arguments(node: Node) -> tuple[Node, ...]:
    """The nodes that a node is computed from (for a scan also those of its body)."""
    match node:
        case Comp() | Scatter():
            found: dict[Node, None] = {}
            places: list[Place] = list(node.places) if isinstance(node, Scatter) else []
            for body in bodies(node):
                for s in scalars(body):
                    if isinstance(s, Read):
                        found[s.tensor] = None
                        places += s.places
            found.update({p.step: None for p in places if isinstance(p, At)})
            if isinstance(node, Scatter) and node.base is not None:
                found[node.base] = None
            return tuple(found)
        case Along() | External():
            return node.args
        case Part() | Reshape():
            return (node.of,)
        case Custom():
            return (*node.args, *node.values)
        case Scan():
            return (*node.starts, *inside(node)[1])
    return ()


@remembered
def inside(scan: Scan) -> tuple[list[Node], list[Node]]:
    """The nodes that a scan computes in each step, in order, and those from outside that they use."""
    order: list[Node] = []
    outside: dict[Node, None] = {}
    depends: dict[Node, bool] = {}
    stack: list[tuple[Node, bool]] = [(r, False) for r in reversed((*scan.carries, *scan.results))]
    while stack:
        node, ready = stack.pop()
        if node in depends:
            continue
        if not ready:
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(arguments(node)) if a not in depends)
            continue
        below = arguments(node)
        own = isinstance(node, Step) and node.scan == scan.number
        depends[node] = own or any(depends[a] for a in below)
        if depends[node]:
            order.append(node)
            outside.update({a: None for a in below if not depends[a]})
    outside.update({r: None for r in (*scan.carries, *scan.results) if not depends[r]})
    return order, list(outside)


def counter_of(scan: Scan) -> str:
    """What counts the steps of a scan: the index of the spec's loop, or else `l` for layers and `t` for time."""
    steps = (x for x in inside(scan)[0] if isinstance(x, Step) and x.scan == scan.number and x.kind == "number")
    return next((x.name for x in steps if x.name), "l" if scan.kind == "layers" else "t")


def schedule(roots: tuple[Node, ...]) -> list[Node]:
    """All nodes that the roots need, each once, arguments first."""
    order: list[Node] = []
    done: set[int] = set()
    stack: list[tuple[Node, bool]] = [(r, False) for r in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        if ready:
            done.add(id(node))
            order.append(node)
        else:
            stack.append((node, True))
            stack.extend([(a, False) for a in reversed(arguments(node)) if id(a) not in done])
    return order


def every_node(roots: Iterable[Node]) -> list[Node]:
    """All nodes that the roots need, those inside scans too, each once, arguments first."""
    found: dict[Node, None] = {}
    stack: list[tuple[Node, bool]] = [(x, False) for x in reversed(schedule(tuple(roots)))]
    while stack:
        node, ready = stack.pop()
        if ready or not isinstance(node, Scan):
            found[node] = None
        else:
            stack.append((node, True))
            stack.extend((x, False) for x in reversed(inside(node)[0]))
    return list(found)

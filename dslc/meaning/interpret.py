"""The meaning of the IR: a plain evaluator in float64, one node at a time, everything broadcast over all variables."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dslc.ir import nodes as ir
from dslc.ir.philox import uniform
from dslc.ops import values
from dslc.ops.table import RECORDS
from dslc.sizes import Size

Array = np.ndarray[Any, np.dtype[Any]]

NUMPY = {"bool": np.bool_, "i32": np.int64, "i64": np.int64}


def numpy_dtype(dtype: str) -> Any:
    return NUMPY.get(dtype, np.float64)


def rounded(value: Any, dtype: str) -> Any:
    """Numbers as a dtype of the language has them: f16 and bf16 round, to even; other floats are float64."""
    value = np.asarray(value).astype(numpy_dtype(dtype))
    if dtype == "f16":
        return value.astype(np.float32).astype(np.float16).astype(np.float64)
    if dtype == "bf16":  # the upper half of the bits of a float32
        bits = value.astype(np.float32).view(np.uint32).astype(np.uint64)
        bits = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)
        return np.where(np.isnan(value), value, bits.astype(np.uint32).view(np.float32).astype(np.float64))
    return value


class Interpreter:
    """Evaluates nodes for given inputs (by name) and sizes (by symbol name).

    >>> x = ir.intern(ir.Input("x", "input", "f32", (3,)))
    >>> total = ir.comp((), ir.whole(x), "sum", (3,))
    >>> float(Interpreter({"x": np.arange(3.0)}, {}).tensor(total))
    3.0
    """

    def __init__(self, inputs: Mapping[str, Array], sizes: Mapping[str, int], seed: int = 0):
        self.inputs = inputs
        self.sizes = sizes
        self.seed = seed
        self.done: dict[int, Any] = {}
        self.steps: dict[int, tuple[int, list[Array]]] = {}

    def size(self, size: Size) -> int:
        value = self.number(size)
        assert value == int(value), f"{size} is not whole at {self.sizes}"
        return int(value)

    def number(self, size: Size) -> float:
        """Arithmetic on sizes; as a number it need not be whole."""
        if isinstance(size, int):
            return size
        value = size.subs({s: self.sizes[s.name] for s in size.free_symbols})
        return value if isinstance(value, int) else float(value)

    def shape(self, shape: tuple[Size, ...]) -> tuple[int, ...]:
        return tuple(self.size(s) for s in shape)

    def run(self, outputs: Mapping[str, ir.Tensor]) -> dict[str, Array]:
        return {name: self.tensor(node) for name, node in outputs.items()}

    def tensor(self, root: ir.Node) -> Any:
        for node in ir.schedule((root,)):
            if id(node) not in self.done:
                self.done[id(node)] = self.evaluate(node)
        return self.done[id(root)]

    def evaluate(self, node: ir.Node) -> Any:
        match node:
            case ir.Input():
                return rounded(self.input(node), node.dtype)
            case ir.Comp():
                return self.comp(node)
            case ir.Scatter():
                return self.scatter(node)
            case ir.Reshape():
                return self.done[id(node.of)].reshape(self.shape(node.shape))
            case ir.Part():
                return self.done[id(node.of)][node.number]
            case ir.Custom():
                return [self.done[id(v)] for v in node.values]
            case ir.Along():
                return along(node, [self.done[id(a)] for a in node.args], self.shape(node.shapes[0]))
            case ir.External():
                return external(node.op, [self.done[id(a)] for a in node.args])
            case ir.Step():
                number, carries = self.steps[node.scan]
                return np.asarray(number) if node.kind == "number" else carries[node.place]
            case ir.Scan():
                return self.scan(node)

    def input(self, node: ir.Input) -> Any:
        """An input by its name; one with a value for each layer may be given as separate arrays."""
        if node.name in self.inputs or "*" not in node.name:
            return self.inputs[node.name]
        pattern = re.compile(re.escape(node.name).replace(r"\*", r"(\d+)"))
        found = {tuple(map(int, m.groups())): x for name, x in self.inputs.items() if (m := pattern.fullmatch(name))}
        return np.stack([found[k] for k in sorted(found)]).reshape(self.shape(node.shape))

    def scan(self, node: ir.Scan) -> list[Array]:
        """Step by step; what is computed inside is forgotten after each step."""
        length = self.size(node.length)
        inner, _ = ir.inside(node)
        carries = [self.done[id(s)] for s in node.starts]
        stacked: list[list[Array]] = [[] for _ in node.results]
        for number in reversed(range(length)) if node.reverse else range(length):
            self.steps[node.number] = number, carries
            for x in inner:
                self.done[id(x)] = self.evaluate(x)
            for rows, result in zip(stacked, node.results, strict=True):
                rows.append(self.done[id(result)])
            carries = [self.done[id(c)] for c in node.carries]
        return [np.stack(v[::-1] if node.reverse else v) for v in stacked] + carries

    # ---- comprehensions

    def grid(self, sizes: tuple[Size, ...]) -> tuple[list[Array], tuple[int, ...]]:
        shape = self.shape(sizes)
        rank = len(shape)
        return [np.arange(n).reshape((-1,) + (1,) * (rank - 1 - k)) for k, n in enumerate(shape)], shape

    def comp(self, node: ir.Comp) -> Array:
        variables, shape = self.grid((*node.shape, *node.reduced))
        value = np.broadcast_to(self.scalar(node.body, variables), shape)
        if node.op is None:
            return np.array(value, numpy_dtype(node.dtype))
        kept = len(node.shape)
        flat = value.reshape((*shape[:kept], -1))
        return np.asarray(self.reduced(node.op, flat), numpy_dtype(node.dtype))

    def reduced(self, op: str, terms: Array) -> Any:
        """Terms along the last axis, as one."""
        return REDUCE[op](terms)

    def scatter(self, node: ir.Scatter) -> Array:
        variables, shape = self.grid(node.ranges)
        out_shape = self.shape(node.shape)
        dtype = numpy_dtype(node.dtype)
        if node.base is not None:
            result = np.array(self.done[id(node.base)], dtype)
        else:
            limits = np.iinfo(np.int32 if node.dtype == "i32" else dtype) if dtype is np.int64 else None
            low, high = (limits.min, limits.max) if limits else (-np.inf, np.inf)
            result = np.full(out_shape, {"+": 0, "max": low, "min": high}[node.op], dtype)
        value = np.broadcast_to(self.scalar(node.body, variables), shape)
        places = []
        for place, size in zip(node.places, out_shape, strict=True):
            at, inside = self.place(place, size, variables)
            assert np.all(inside), "a scatter to a place outside"
            places.append(np.broadcast_to(at, shape))
        function: Any = {"+": np.add, "max": np.maximum, "min": np.minimum}[node.op]
        function.at(result, tuple(places), value)
        return result

    # ---- bodies

    def scalar(self, root: ir.Scalar, variables: list[Array]) -> Any:
        done: dict[int, Any] = {}
        for s in ir.scalars(root):
            done[id(s)] = self.one(s, variables, done)
        return done[id(root)]

    def one(self, s: ir.Scalar, variables: list[Array], done: Mapping[int, Any]) -> Any:
        match s:
            case ir.Const():
                return np.asarray(s.value, numpy_dtype(s.dtype))
            case ir.SizeOf():
                return np.asarray(self.number(s.size), numpy_dtype(s.dtype))
            case ir.Var():
                return variables[s.number]
            case ir.Op():
                return np.asarray(apply(s.name, [done[id(a)] for a in s.args], s.dtype))
            case ir.Rand():
                return self.rand(s, done)
            case ir.Read():
                return self.read(s, variables, done)

    def place(
        self, place: ir.Place, size: int, variables: list[Array], done: Mapping[int, Any] | None = None
    ) -> tuple[Any, Any]:
        """Positions along one axis, and where they are inside."""
        good: Any = True
        if isinstance(place, ir.Affine):
            at: Any = self.size(place.offset)
            for number, coefficient in place.terms:
                at = at + self.size(coefficient) * variables[number]
            divisor = self.size(place.divisor)
            if divisor != 1:
                good = at % divisor == 0
                at = at // divisor
            mode = place.mode
        elif isinstance(place, ir.At):
            at = self.steps[place.step.scan][0] + self.size(place.offset)
            mode = "inside"
        else:
            at = done[id(place.value)] if done is not None else self.scalar(place.value, variables)
            mode = place.mode
        at = np.asarray(at)
        if mode == "wrap":
            return at % size, True
        if mode == "clamp":
            return np.clip(at, 0, size - 1), True
        inside = good & (at >= 0) & (at < size)
        return np.clip(at, 0, size - 1), inside

    def read(self, s: ir.Read, variables: list[Array], done: Mapping[int, Any]) -> Any:
        value = self.done[id(s.tensor)]
        positions = []
        inside: Any = True
        for place, size in zip(s.places, value.shape, strict=True):
            at, good = self.place(place, size, variables, done)
            positions.append(at)
            inside = inside & good
        found = value[tuple(positions)]
        if s.outside is not None:
            return np.where(inside, found, done[id(s.outside)])
        assert np.all(inside), "a read that was proved inside is not"
        return found

    def rand(self, s: ir.Rand, done: Mapping[int, Any]) -> Any:
        number: Any = 0
        for place, size in zip(s.places, s.sizes, strict=True):
            number = number * self.size(size) + done[id(place)]
        return uniform(self.seed, s.site, np.asarray(number), s.lane).astype(np.float64)


REDUCE: dict[str, Callable[[Array], Any]] = {
    "sum": lambda x: x.sum(-1),
    "prod": lambda x: x.prod(-1),
    "max": lambda x: x.max(-1),
    "min": lambda x: x.min(-1),
    "any": lambda x: x.any(-1),
    "all": lambda x: x.all(-1),
    "argmax": lambda x: np.argmax(x, -1),
    "argmin": lambda x: np.argmin(x, -1),
}


@functools.cache
def function_of(text: str, arguments: int) -> Callable[..., Any]:
    """The function that a text of a record stands for.

    >>> float(function_of("{0} - np.sqrt({1})", 2)(1.0, 4.0))
    -1.0
    """
    names = [f"x{k}" for k in range(arguments)]
    function: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {text.format(*names)}", vars(values))
    return function


def apply(name: str, args: list[Any], dtype: str) -> Any:
    """The value of an operation, by its record."""
    if name == "cast":
        return rounded(args[0], dtype)
    record = RECORDS[name]
    given = [np.asarray(a) for a in args]
    if name == "^" and dtype not in ("i32", "i64"):
        given[0] = given[0].astype(np.float64)
    function = function_of(record.value or record.numpy, record.arity or 2)
    with np.errstate(all="ignore"):
        return np.asarray(function(*given) if record.arity else functools.reduce(function, given))


def along(node: ir.Along, args: list[Array], shape: tuple[int, ...]) -> list[Any]:
    axis = node.axis
    x = np.flip(args[0], axis) if node.reverse else args[0]
    match node.op:
        case "cumsum" | "cumprod":
            result = getattr(np, node.op)(x, axis=axis)
        case "cummax":
            result = np.maximum.accumulate(x, axis=axis)
        case "cummin":
            result = np.minimum.accumulate(x, axis=axis)
        case "sort":
            result = np.sort(x, axis=axis, kind="stable")
        case "argsort":
            result = np.argsort(x, axis=axis, kind="stable")
        case "top_k":
            order = np.argsort(-x, axis=axis, kind="stable")
            order = np.take(order, np.arange(shape[axis]), axis)
            return [np.take_along_axis(x, order, axis), order]
        case _:
            z = x + (1j * args[1] if len(args) == 2 else 0)
            f = np.fft.fft(z, axis=axis) if node.op == "fft" else np.fft.ifft(z, axis=axis)
            return [f.real, f.imag]
    return [np.flip(result, axis) if node.reverse else result]


def external(op: str, args: list[Array]) -> list[Any]:
    match op:
        case "solve":
            a, b = args
            return [np.linalg.solve(a, b) if b.ndim == a.ndim else np.linalg.solve(a, b[..., None])[..., 0]]
        case "inv":
            return [np.linalg.inv(args[0])]
        case "det":
            return [np.linalg.det(args[0])]
        case "logdet":
            return [np.linalg.slogdet(args[0])[1]]
        case "cholesky":
            return [np.linalg.cholesky(args[0])]
        case "eigh":
            values, vectors = np.linalg.eigh(args[0])
            return [values, vectors]
    assert op == "matexp", op
    return [matexp(args[0])]


def matexp(a: Array) -> Array:
    """Scaling and squaring of the power series; each squaring doubles the error."""
    scale = max(0, int(np.ceil(np.log2(max(float(np.abs(a).sum(-1).max()), 1e-30)))))
    x = a / 2.0**scale
    term = np.broadcast_to(np.eye(a.shape[-1]), a.shape)
    total = term.copy()
    for k in range(1, 20):
        term = term @ x / k
        total = total + term
    for _ in range(scale):
        total = total @ total
    return total

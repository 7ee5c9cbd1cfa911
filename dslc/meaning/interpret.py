"""The meaning of the IR: a plain evaluator in float64, one node at a time, everything broadcast over all variables."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dslc.ir import nodes as ir
from dslc.ir.philox import uniform
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
            for values, result in zip(stacked, node.results, strict=True):
                values.append(self.done[id(result)])
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
        return np.asarray(REDUCE[node.op](flat), numpy_dtype(node.dtype))

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


def _each(function: Callable[..., float]) -> Callable[..., Any]:
    """A function of numbers, applied to every element."""
    return np.vectorize(function, otypes=[np.float64])


def _lgamma(x: float) -> float:
    return math.inf if x <= 0 and (math.isinf(x) or x == math.floor(x)) else math.lgamma(x)


def _polygamma(order: int) -> Callable[[float], float]:
    """The first (digamma) or second (trigamma) derivative of lgamma."""

    def value(x: float) -> float:
        if x == math.inf:
            return x if order == 1 else 0.0
        if math.isnan(x) or x == -math.inf or (x <= 0 and x == math.floor(x)):
            return math.nan if math.isnan(x) else math.inf if order == 2 else -math.inf if x == 0 else math.nan
        if x < 0.5:  # reflection
            cot = 1 / math.tan(math.pi * x)
            if order == 1:
                return value(1 - x) - math.pi * cot
            return math.pi**2 * (1 + cot * cot) - value(1 - x)
        shifted = 0.0
        while x < 12:  # recurrence, up to where the asymptotic series is exact
            shifted += -1 / x if order == 1 else 1 / (x * x)
            x += 1
        even = [(-1) ** k * b for k, b in enumerate(BERNOULLI)]
        if order == 1:
            series = math.log(x) - 0.5 / x - sum(b / ((2 * k + 2) * x ** (2 * k + 2)) for k, b in enumerate(even))
        else:
            series = 1 / x + 0.5 / (x * x) + sum(b / x ** (2 * k + 3) for k, b in enumerate(even))
        return float(shifted + series)

    return value


def _zeta(s: float, x: float) -> float:
    """The sum of (x + k)^-s: twenty terms, the rest by Euler and Maclaurin."""
    if not x > 0:
        return math.inf if x == 0 else math.nan
    total = sum((x + k) ** -s for k in range(20))
    x += 20
    total += x ** (1 - s) / (s - 1) + x**-s / 2
    rising = s * x ** (-s - 1)
    for k, b in enumerate(BERNOULLI, 1):
        total += (-1) ** (k + 1) * b / math.factorial(2 * k) * rising
        rising *= (s + 2 * k - 1) * (s + 2 * k) / (x * x)
    return float(total)


#: absolute values of the Bernoulli numbers B2, B4, ...; their signs alternate
BERNOULLI = (1 / 6, 1 / 30, 1 / 42, 1 / 30, 5 / 66, 691 / 2730, 7 / 6)


def _erfcx(x: float) -> float:
    """e^(x^2) erfc(x); far out Laplace's continued fraction."""
    if math.isnan(x) or x < -27:
        return math.inf if x < 0 else x
    if x < 10:
        return math.exp(x * x) * math.erfc(x)
    tail = x
    for k in range(20, 0, -1):
        tail = x + k / 2 / tail
    return 1 / (math.sqrt(math.pi) * tail)


def _erfinv(y: float) -> float:
    """Newton's method on erf, from Winitzki's approximation; on erfc in the tails."""
    if not -1 < y < 1:
        return math.copysign(math.inf, y) if abs(y) == 1 else math.nan
    if y == 0:
        return y
    a = 0.147
    log = math.log1p(-y * y)
    middle = 2 / (math.pi * a) + log / 2
    x = math.copysign(math.sqrt(math.sqrt(middle * middle - log / a) - middle), y)
    for _ in range(4):
        error = math.erf(x) - y if abs(y) < 0.5 else math.copysign(1, y) * (1 - abs(y) - math.erfc(abs(x)))
        x -= error * math.sqrt(math.pi) / 2 * math.exp(x * x)
    return x


SCALAR: dict[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "^": np.power,
    "//": np.floor_divide, "%": np.mod, "neg": np.negative, "<": np.less, "<=": np.less_equal, ">": np.greater,
    ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
    "and": lambda *a: np.logical_and.reduce(np.broadcast_arrays(*a)),
    "or": lambda *a: np.logical_or.reduce(np.broadcast_arrays(*a)), "not": np.logical_not, "select": np.where,
    "stop_grad": lambda x: x, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "abs": np.abs,
    "sign": np.sign, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0), "softplus": lambda x: np.logaddexp(0, x), "erf": _each(math.erf),
    "erfc": _each(math.erfc), "erfcx": _each(_erfcx), "erfinv": _each(_erfinv),
    "lgamma": _each(_lgamma), "digamma": _each(_polygamma(1)), "trigamma": _each(_polygamma(2)), "zeta": _each(_zeta),
    "floor": np.floor, "ceil": np.ceil, "round": np.round, "trunc": np.trunc, "min": np.minimum, "max": np.maximum,
    "clip": lambda x, a, b: np.minimum(np.maximum(x, a), b), "square": np.square, "pow": np.power, "hypot": np.hypot,
    "isnan": np.isnan,
    "isinf": np.isinf, "isfinite": np.isfinite,
}  # fmt: skip


def apply(name: str, args: list[Any], dtype: str) -> Any:
    with np.errstate(all="ignore"):
        if name == "cast":
            return rounded(args[0], dtype)
        if name == "^" and dtype not in ("i32", "i64"):
            return np.power(np.asarray(args[0], np.float64), args[1])
        return np.asarray(SCALAR[name](*args))


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

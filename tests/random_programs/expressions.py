"""Random scalar expressions over indices. Bounds of their values are tracked, so that no function leaves its domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from writer import Axis, Value, Writer, letters


@dataclass(frozen=True)
class Expr:
    """A text and bounds of its value."""

    text: str
    low: float
    high: float

    @property
    def size(self) -> float:
        return max(abs(self.low), abs(self.high))


Indices = dict[str, Axis]
Rule = tuple[str, Callable[[Expr], bool], Callable[[float, float], tuple[float, float]]]


def _rising(f: Callable[[float], float]) -> Callable[[float, float], tuple[float, float]]:
    return lambda low, high: (f(low), f(high))


def _falling(f: Callable[[float], float]) -> Callable[[float, float], tuple[float, float]]:
    return lambda low, high: (f(high), f(low))


def _any(_: Expr) -> bool:
    return True


def _within(low: float, high: float) -> Callable[[Expr], bool]:
    return lambda e: low <= e.low and e.high <= high


def _constant(low: float, high: float) -> Callable[[float, float], tuple[float, float]]:
    return lambda *_: (low, high)


def _even(f: Callable[[float], float]) -> Callable[[float, float], tuple[float, float]]:
    """f falls up to 0 and rises from there."""
    return lambda low, high: (f(0.0) if low <= 0 <= high else min(f(low), f(high)), max(f(low), f(high)))


#: text with `x` for the argument, where it may be used, its image; smooth ones first
#: constant but for jumps: their derivative is none
STEPS = ("sign(x)", "floor(x)", "round(x)")
UNARY: list[Rule] = [
    ("tanh(x)", _any, _rising(math.tanh)),
    ("sigmoid(x)", _any, _rising(lambda v: 1 / (1 + math.exp(-v)))),
    ("sin(x)", _any, _constant(-1, 1)),
    ("cos(x)", _any, _constant(-1, 1)),
    ("atan(x)", _any, _rising(math.atan)),
    ("erf(x)", _any, _rising(math.erf)),
    ("erfc(x)", _any, _falling(math.erfc)),
    ("asinh(x)", _any, _rising(math.asinh)),
    ("exp(x)", _within(-8, 2), _rising(math.exp)),
    ("exp2(x)", _within(-8, 2), _rising(lambda v: 2**v)),
    ("expm1(x)", _within(-8, 2), _rising(math.expm1)),
    ("(exp(x) - 1)", _within(-8, 2), _rising(math.expm1)),
    ("log(x)", _within(0.1, 50), _rising(math.log)),
    ("log2(x)", _within(0.1, 50), _rising(math.log2)),
    ("log10(x)", _within(0.1, 50), _rising(math.log10)),
    ("log1p(x)", _within(-0.8, 50), _rising(math.log1p)),
    ("log(1 + x)", _within(-0.8, 50), _rising(math.log1p)),
    ("sqrt(x)", _within(0.1, 50), _rising(math.sqrt)),
    ("rsqrt(x)", _within(0.1, 50), _falling(lambda v: v**-0.5)),
    ("x^0.5", _within(0.1, 50), _rising(math.sqrt)),
    ("x^-1", _within(0.3, 50), _falling(lambda v: 1 / v)),
    ("(1 / x)", _within(0.3, 50), _falling(lambda v: 1 / v)),
    ("square(x)", _within(-3, 3), _even(lambda v: v * v)),
    ("x^2", _within(-3, 3), _even(lambda v: v * v)),
    ("x^3", _within(-2, 2), _rising(lambda v: v**3)),
    ("sinh(x)", _within(-2, 2), _rising(math.sinh)),
    ("cosh(x)", _within(-2, 2), _even(math.cosh)),
    ("tan(x)", _within(-1.2, 1.2), _rising(math.tan)),
    ("asin(x)", _within(-0.9, 0.9), _rising(math.asin)),
    ("acos(x)", _within(-0.9, 0.9), _falling(math.acos)),
    ("atanh(x)", _within(-0.9, 0.9), _rising(math.atanh)),
    ("erfinv(x)", _within(-0.9, 0.9), _constant(-1.3, 1.3)),
    ("acosh(x)", _within(1.2, 50), _rising(math.acosh)),
    ("lgamma(x)", _within(0.5, 10), _constant(-0.2, 13)),
    ("digamma(x)", _within(0.5, 10), _constant(-2, 2.3)),
    ("gelu(x)", _any, lambda low, high: (-0.2, max(high, 0.0))),
    ("silu(x)", _any, lambda low, high: (-0.3, max(high, 0.0))),
    ("softplus(x)", _any, lambda low, high: (0.0, max(high, 0.0) + 0.7)),
    ("log(1 + exp(x))", _any, lambda low, high: (0.0, max(high, 0.0) + 0.7)),
    ("log(sigmoid(x))", _any, lambda low, high: (min(low, 0.0) - 0.7, 0.0)),
    ("(1 / (1 + exp(-x)))", _any, _constant(0, 1)),
    ("(1 - sigmoid(x))", _any, _constant(0, 1)),
    ("relu(x)", _any, lambda low, high: (max(low, 0.0), max(high, 0.0))),
    ("abs(x)", _any, _even(abs)),
    ("leaky_relu(x)", _any, lambda low, high: (min(low, 0.0), max(high, 0.0))),
    ("elu(x)", _any, lambda low, high: (-1.0, max(high, 0.0))),
    ("sign(x)", _any, _constant(-1, 1)),
    ("floor(x)", _any, lambda low, high: (math.floor(low), math.floor(high))),
    ("round(x)", _any, lambda low, high: (low - 0.5, high + 0.5)),
]


class Writing:
    """Writes expressions; the limits of depth keep programs small."""

    def __init__(self, writer: Writer, indices: Indices):
        self.w = writer
        self.own = indices
        self.indices = {**writer.scanned, **indices}

    def bounded(self, e: Expr) -> Expr:
        """The same expression, or one that does not grow."""
        if e.size <= 6:
            return e
        if self.w.chance(2):
            return Expr(f"tanh({e.text})", -1, 1)
        by = round(e.size / 2)
        return Expr(f"({e.text} / {by})", e.low / by, e.high / by)

    def expr(self, depth: int) -> Expr:
        if depth <= 0:
            return self.leaf()
        kinds = ["unary", "binary", "leaf", "unary", "binary", "select", "reduction", "special"]
        return self.bounded(getattr(self, self.w.choose(kinds))(depth - 1))

    # ---- leaves

    def leaf(self, _: int = 0) -> Expr:
        w = self.w
        floats = w.floats()
        if not floats or w.chance(8):
            if self.indices and w.chance(2):
                name = w.pick(sorted(self.indices))
                w.tag("index as a number")
                return Expr(f"({name} / 4)", 0, self.indices[name].value / 4)
            value = w.constant()
            return Expr(str(value) if value > 0 else f"({value})", value, value)
        return self.read(w.pick(floats[::-1]))

    def read(self, value: Value) -> Expr:
        """A tensor at places that are drawn axis by axis."""
        w = self.w
        w.uses(value)
        if not value.shape:
            return Expr(value.name, value.low, value.high)
        places, loose = [], False
        for axis in value.shape:
            text, may_leave = self.place(axis)
            places.append(text)
            loose |= may_leave
        text = f"{value.name}[{', '.join(places)}]"
        if not loose:
            return Expr(text, value.low, value.high)
        w.tag("affine index with else")
        scalars = [v for v in w.floats(0, 0) if v is not value]
        if scalars and w.chance(3):
            other = w.pick(scalars)
            w.uses(other)
            outside = Expr(other.name, other.low, other.high)
        else:
            number = w.pick([0, 0, 0.5])
            outside = Expr(str(number), number, number)
        return Expr(f"({text} else {outside.text})", min(value.low, outside.low), max(value.high, outside.high))

    def place(self, axis: Axis) -> tuple[str, bool]:
        """A position along an axis, and whether it may lie outside."""
        w = self.w
        fitting = sorted(n for n, a in self.indices.items() if a == axis)
        if fitting and not w.wishes and not w.chance(4):
            return w.pick(fitting), False
        data = [v for v in w.values if v.kind == "int" and v.below == axis and self.reachable(v)]
        loose = [v for v in w.values if v.kind == "int" and v.below is None and self.reachable(v)]
        options = ["first", "last"]
        if self.indices:
            options += ["wrap", "clamp", "else", "skewed"]
        if fitting:
            options.append("flip")
        if data:
            options += ["gather", "gather"]
        if loose:
            options += ["clamped gather", "wrapped gather", "loose gather"]
        kind = w.choose(options)
        if kind in ("first", "last"):
            return "0" if kind == "first" else axis.less(1).text, False
        if kind == "flip":
            w.tag("flip")
            return f"{axis.text} - 1 - {w.pick(fitting)}", False
        if kind == "gather":
            w.tag("gather")
            return self.at(w.pick(data)), False
        if kind.endswith("gather"):
            text = self.at(w.pick(loose))
            w.tag("gather that may miss")
            return {"clamped": f"clamp({text})", "wrapped": f"wrap({text})", "loose": text}[kind.split()[0]], (
                kind == "loose gather"
            )
        text = self.affine(kind == "skewed")
        if kind in ("wrap", "clamp"):
            w.tag(kind)
            return f"{kind}({text})", False
        return text, True

    def reachable(self, v: Value) -> bool:
        """Can whole numbers be read here, with plain indices for all their axes?"""
        return all(any(a == axis for a in self.indices.values()) for axis in v.shape)

    def at(self, v: Value) -> str:
        if not v.shape:
            return v.name
        places = [self.w.pick(sorted(n for n, a in self.indices.items() if a == axis)) for axis in v.shape]
        return f"{v.name}[{', '.join(places)}]"

    def affine(self, skewed: bool) -> str:
        w = self.w
        names = sorted(self.indices)
        text = w.pick(names)
        factor = w.pick(["", "", "2*", "3*"])
        text = factor + text
        if skewed and len(names) > 1:
            other = w.pick([n for n in names if n != text[-1]])
            text = f"{text} {w.pick(['+', '-'])} {w.pick(['', '2*'])}{other}"
        offset = w.pick([" - 1", " + 1", " - 2", " + 2"])
        return text + offset

    # ---- operations

    def unary(self, depth: int) -> Expr:
        before = set(self.w.sources)
        inner = self.expr(depth)
        allowed = [rule for rule in UNARY if rule[1](inner)]
        text, _, image = self.w.pick(allowed)
        if text in STEPS:
            self.w.sources = before
        low, high = image(inner.low, inner.high)
        return Expr(_put(text, f"({inner.text})"), low, high)

    def binary(self, depth: int) -> Expr:
        w = self.w
        a, b = self.expr(depth), self.expr(depth)
        kind = w.choose(["+", "*", "-", "/", "min", "max", "hypot", "atan2", "^"])
        if kind == "+":
            return Expr(f"({a.text} + {b.text})", a.low + b.low, a.high + b.high)
        if kind == "-":
            return Expr(f"({a.text} - {b.text})", a.low - b.high, a.high - b.low)
        if kind == "*":
            ends = [p * q for p in (a.low, a.high) for q in (b.low, b.high)]
            return Expr(f"({a.text} * {b.text})", min(ends), max(ends))
        if kind == "^":
            w.tag("power")
            base = a if a.low >= 0.2 and a.high <= 4 else Expr(f"(1.5 + sin({a.text}))", 0.5, 2.5)
            ends = [base.low**1.5, base.high**1.5, base.low**-1.5, base.high**-1.5]
            exponent = f"(1.5 * tanh({b.text}))" if b.size > 1.5 else b.text
            return Expr(f"({base.text})^({exponent})", min(ends), max(ends))
        if kind == "/":
            safe = f"(1.5 + abs({b.text}))" if b.low < 0.3 else b.text
            size = a.size / (1.5 if b.low < 0.3 else b.low)
            return Expr(f"({a.text} / {safe})", -size, size)
        if kind in ("min", "max"):
            choose = min if kind == "min" else max
            return Expr(f"{kind}({a.text}, {b.text})", choose(a.low, b.low), choose(a.high, b.high))
        if kind == "hypot":
            return Expr(f"hypot({a.text}, 0.5 + abs({b.text}))", 0.5, a.size + b.size + 0.5)
        return Expr(f"atan2({a.text}, 0.5 + abs({b.text}))", -1.6, 1.6)

    def select(self, depth: int) -> Expr:
        w = self.w
        a, b = self.expr(depth), self.expr(depth)
        w.tag("select")
        return Expr(f"({a.text} if {self.condition()} else {b.text})", min(a.low, b.low), max(a.high, b.high))

    def condition(self, depth: int = 1) -> str:
        w = self.w
        masks = [v for v in w.values if v.kind == "bool" and self.reachable(v)]
        options = ["data", "data"]
        if self.indices:
            options += ["index", "order", "index", "parity"]
        if masks:
            options += ["mask", "mask"]
        if depth:
            options += ["and", "or", "not"]
        kind = w.choose(options)
        names = sorted(self.indices)
        match kind:
            case "index":
                w.tag("condition on indices")
                return f"{w.pick(names)} {w.pick(['<', '<=', '==', '>', '>=', '!='])} {w.number(0, 2)}"
            case "order":
                w.tag("condition on indices")
                return f"{w.pick(names)} {w.pick(['<', '<=', '==', '>'])} {w.pick(names)}"
            case "parity":
                w.tag("condition on indices")
                return f"{w.pick(names)} % 2 == {w.number(0, 1)}"
            case "mask":
                w.tag("bool data")
                return self.at(w.pick(masks))
            case "and" | "or":
                return f"({self.condition(0)} {kind} {self.condition(0)})"
            case "not":
                return f"not {self.condition(0)}"
        before = set(w.sources)
        text = f"{self.leaf().text} > {w.pick([0.13, -0.21, 0.57])}"
        w.sources = before  # a condition has no derivative
        return text

    def reduction(self, depth: int) -> Expr:
        w = self.w
        name = letters(1, list(self.indices))[0]
        axis = w.pick(w.axes)
        inner = Writing(w, {**self.own, name: axis})
        kind = w.choose(["sum", "mean", "max", "min", "prod", "logsumexp", "naive logsumexp", "softmax", "var"])
        e = inner.expr(depth)
        n = axis.value
        bound = f"{name}: {axis.text}"
        w.tag(kind)
        match kind:
            case "sum":
                return Expr(f"sum[{bound}]({e.text})", n * e.low, n * e.high)
            case "prod":
                return (
                    Expr(f"prod[{bound}]({e.text})", *_powers(self.bounded(e), n))
                    if e.size <= 2
                    else Expr(f"prod[{bound}](sin({e.text}))", -1, 1)
                )
            case "var":
                return Expr(f"var[{bound}]({e.text})", 0, e.size**2)
            case "logsumexp":
                return Expr(f"logsumexp[{bound}]({e.text})", e.low, e.high + math.log(n))
            case "naive logsumexp":
                return Expr(f"log(sum[{bound}](exp({e.text})))", e.low, e.high + math.log(n))
            case "softmax":
                # weights over one index and values over the same one
                other = inner.expr(0)
                return Expr(f"sum[{bound}](softmax[{name}]({e.text}) * {other.text})", other.low, other.high)
        return Expr(f"{kind}[{bound}]({e.text})", e.low, e.high)

    def special(self, depth: int) -> Expr:
        w = self.w
        options = ["stop_grad", "cast"]
        if w.functions:
            options += ["function"] * 3
        if self.own:
            options += ["draw", "softmax"]
        kind = w.choose(options)
        if kind == "function":
            name, arity = w.pick(w.functions)
            w.tag("scalar function of the user")
            arguments = [self.expr(depth) for _ in range(arity)]
            return Expr(f"{name}({', '.join(a.text for a in arguments)})", -3, 3)
        if kind == "draw":
            names = [n for n in sorted(self.own) if w.chance(2)] or sorted(self.own)[:1]
            bracket = ", ".join(f"{n}: {self.indices[n].text}" for n in names)
            text, low, high = w.pick(
                [("normal[{}]()", -5.7, 5.7), ("uniform[{}](-1, 2)", -1, 2), ("bernoulli[{}](0.6)", 0, 1)]
            )
            w.tag("random draw")
            return Expr(text.format(bracket), low, high)
        if kind == "softmax":
            name = w.pick(sorted(self.own))
            e = self.expr(depth)
            fn = w.choose(["softmax", "log_softmax"])
            w.tag(fn)
            bound = f"{name}: {self.indices[name].text}"
            n = self.indices[name].value
            return Expr(f"{fn}[{bound}]({e.text})", *((0, 1) if fn == "softmax" else (e.low - e.high - math.log(n), 0)))
        before = set(w.sources)
        e = self.expr(depth)
        if kind == "stop_grad":
            w.sources = before
            w.tag("stop_grad")
            return Expr(f"stop_grad({e.text})", e.low, e.high)
        w.tag("cast")
        return Expr(f"f64({e.text})", e.low, e.high)


def _powers(e: Expr, n: int) -> tuple[float, float]:
    return -(e.size**n), e.size**n


def _put(text: str, argument: str) -> str:
    """The text with its argument for the single `x` that is no part of a word."""
    out = []
    for k, c in enumerate(text):
        before, after = text[k - 1 : k], text[k + 1 : k + 2]
        alone = c == "x" and not (before.isalnum() or before == "_") and not (after.isalnum() or after == "_")
        out.append(argument if alone else c)
    return "".join(out)

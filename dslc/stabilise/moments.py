"""Roots of sums of squares, and variances: squares overflow where their roots do not, and means cancel."""

from __future__ import annotations

from dataclasses import dataclass

from dslc.ir import nodes as ir
from dslc.ir.algebra import choose, div, mul, sub
from dslc.ops.elementary import is_square
from dslc.sizes import Size, product, quotient, tidy
from dslc.stabilise.exponential_sums import op_bool
from dslc.stabilise.matching import axes_at, constant, head, op, renumbered, see, seen


def _radicand(s: ir.Op) -> ir.Scalar | None:
    """x of sqrt(x) and of x^(1/2)."""
    if s.name == "sqrt":
        return s.args[0]
    return s.args[0] if constant(s.args[1]) == 0.5 else None


def hypotenuse(s: ir.Op) -> ir.Scalar | None:
    """sqrt(x^2 + y^2) = hypot(x, y); sqrt(x^2) = |x|"""
    inside = _radicand(s)
    if not isinstance(inside, ir.Op):
        return None
    squares: list[ir.Scalar] = []
    stack: list[ir.Scalar] = [inside]
    while stack:
        x = stack.pop()
        if is_square(x):
            assert isinstance(x, ir.Op)
            squares.append(x.args[0])
        elif isinstance(x, ir.Op) and x.name == "+":
            stack += reversed(x.args)
        else:
            return None
    if len(squares) == 1:
        return op("abs", squares[0])
    result = squares[0]
    for x in squares[1:]:
        result = op("hypot", result, x)
    return result


def norm(s: ir.Op) -> ir.Scalar | None:
    """sqrt(sum of x^2) = m sqrt(sum of (x / m)^2), m = max |x|"""
    inside = _radicand(s)
    if inside is None:
        return None
    quotient = seen(inside, "/")
    below = None
    if quotient is not None and isinstance(quotient.args[1], ir.Const | ir.SizeOf):
        inside, below = quotient.args
    if not isinstance(inside, ir.Read) or inside.outside is not None:
        return None
    node = inside.tensor
    if not isinstance(node, ir.Comp) or node.op != "sum" or not is_square(node.body):
        return None
    assert isinstance(node.body, ir.Op)
    x = node.body.args[0]
    if is_scaled(x):
        return None
    peak = ir.comp(node.shape, op("abs", x), "max", node.reduced, span=node.span)
    inner = _scale(ir.read(peak, tuple(ir.plain(i) for i in range(len(node.shape)))))
    scaled = ir.op("^", (div(x, inner), ir.const(2, "i64")), node.dtype)
    total: ir.Scalar = ir.read(ir.comp(node.shape, scaled, "sum", node.reduced, span=node.span), inside.places)
    root = op("sqrt", total if below is None else div(total, below))
    return mul(_scale(ir.read(peak, inside.places)), root)


def root_by_quotient(s: ir.Op) -> ir.Scalar | None:
    """a / rsqrt(x) = a / x^(-1/2) = a sqrt(x)"""
    inner = seen(s.args[1], "rsqrt", "^", "pow")
    if inner is None or (inner.name != "rsqrt" and constant(inner.args[1]) != -0.5):
        return None
    return mul(s.args[0], ir.op("sqrt", inner.args[:1], inner.dtype))


def root_by_logarithm(s: ir.Op) -> ir.Scalar | None:
    """exp(log(x) / 2) = sqrt(x)"""
    half = seen(s.args[0], "/", "*")
    if half is None:
        return None
    pairs = [(half.args, 2.0)] if half.name == "/" else [(half.args, 0.5), (half.args[::-1], 0.5)]
    for (a, b), factor in pairs:
        log = seen(a, "log")
        if log is not None and constant(b) == factor:
            return ir.op("sqrt", log.args, log.dtype)
    return None


def _scale(m: ir.Scalar) -> ir.Scalar:
    """The largest size, where it is a number that one can divide by."""
    m = op("stop_grad", m)
    usable = ir.op("and", (op_bool("isfinite", m), op_bool(">", m, ir.const(0.0, m.dtype))), "bool")
    return choose(usable, m, ir.const(1.0, m.dtype))


def is_scale(m: ir.Scalar) -> bool:
    """Is this what a sum of squares is scaled by: a number that is finite and not 0?

    >>> x = ir.read(ir.Input("x", "input", "f32", ()), ())
    >>> is_scale(_scale(x)), is_scale(x)
    (True, False)
    """
    return (
        isinstance(m, ir.Op) and m.name == "select" and isinstance(m.args[1], ir.Op) and m.args[1].name == "stop_grad"
    )


def is_scaled(x: ir.Scalar) -> bool:
    """x / m, which neither overflows nor vanishes in a square: it must not be taken apart."""
    return isinstance(x, ir.Op) and x.name == "/" and is_scale(x.args[1])


# ---- variances --------------------------------------------------------------------------------------


@dataclass
class Monomial:
    """factor * product of sums over indices."""

    factor: Size
    sums: list[ir.Read]


def _monomial(s: ir.Scalar, depth: int = 5) -> Monomial | None:
    if depth == 0 or head(s) not in ("", "*", "/", "^", "cast"):
        return None
    s = see(s)
    match s:
        case ir.Const() if isinstance(s.value, int) and not isinstance(s.value, bool):
            return Monomial(s.value, [])
        case ir.SizeOf():
            return Monomial(s.size, [])
        case ir.Read() if s.outside is None and isinstance(s.tensor, ir.Comp) and s.tensor.op == "sum":
            return Monomial(1, [s])
        case ir.Op("cast") if isinstance(s.args[0], ir.SizeOf | ir.Const):
            return _monomial(s.args[0], depth - 1)
        case ir.Op("^") if constant(s.args[1]) == 2:
            base = _monomial(s.args[0], depth - 1)
            return None if base is None else Monomial(tidy(base.factor**2), base.sums * 2)
        case ir.Op("*"):
            a, b = (_monomial(x, depth - 1) for x in s.args)
            return None if a is None or b is None else Monomial(tidy(a.factor * b.factor), a.sums + b.sums)
        case ir.Op("/"):
            a, b = (_monomial(x, depth - 1) for x in s.args)
            if a is None or b is None or b.sums:
                return None
            return Monomial(quotient(a.factor, b.factor), a.sums)
    return None


def covariance(s: ir.Op) -> ir.Scalar | None:
    """mean(x y) - mean(x) mean(y) = mean((x - mean x) (y - mean y))"""
    a, b = (_monomial(x) for x in s.args)
    if a is None or b is None or len(a.sums) != 1 or len(b.sums) != 2:
        return None
    (top,), (left, right) = a.sums, b.sums
    node = top.tensor
    assert isinstance(node, ir.Comp)
    pair = _two_factors(node.body)
    if pair is None:
        return None
    count = product(node.reduced)
    if tidy(b.factor * count - a.factor) != 0:
        return None
    for x, y in (pair, pair[::-1]):
        if _sums(left, top, x) and _sums(right, top, y):
            total = ir.comp(node.shape, mul(_centred(x, node, count), _centred(y, node, count)), "sum", node.reduced,
                            node.name, node.span)  # fmt: skip
            value: ir.Scalar = ir.read(total, top.places)
            return _times(value, a.factor)
    return None


def _two_factors(body: ir.Scalar) -> tuple[ir.Scalar, ir.Scalar] | None:
    if not isinstance(body, ir.Op):
        return None
    if body.name == "*":
        return body.args[0], body.args[1]
    return (body.args[0], body.args[0]) if is_square(body) else None


def _sums(read: ir.Read, like: ir.Read, factor: ir.Scalar) -> bool:
    """Does this read the sum of the factor over the same indices, at the same places?"""
    node, other = read.tensor, like.tensor
    assert isinstance(node, ir.Comp) and isinstance(other, ir.Comp)
    outer = axes_at(read.places, like.places)
    if outer is None or len(node.reduced) != len(other.reduced):
        return False
    kept = len(other.shape)
    return renumbered(node.body, (*outer, *(kept + k for k in range(len(node.reduced))))) is factor


def _centred(x: ir.Scalar, node: ir.Comp, count: Size) -> ir.Scalar:
    """x less its mean over the indices that the node sums over."""
    total = ir.comp(node.shape, x, "sum", node.reduced, span=node.span)
    mean = div(ir.read(total, tuple(ir.plain(i) for i in range(len(node.shape)))), ir.intern(ir.SizeOf(count)))
    return sub(x, mean)


def _times(value: ir.Scalar, factor: Size) -> ir.Scalar:
    """A value times a number made of sizes, as a quotient where that is shorter."""
    if factor == 1:
        return value
    inverse = quotient(1, factor)
    if isinstance(inverse, int) or (not inverse.is_Add and inverse.as_numer_denom()[1] == 1):
        return div(value, ir.intern(ir.SizeOf(inverse)))
    return mul(value, ir.intern(ir.SizeOf(factor, "float")))

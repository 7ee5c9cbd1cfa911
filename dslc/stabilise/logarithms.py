"""Logarithms: of 1 plus or minus something small, of what comes close to 0, and of products that leave the range."""

from __future__ import annotations

import math

from dslc.ir import nodes as ir
from dslc.ir.algebra import add, choose, is_one, mul, neg, number, sub
from dslc.stabilise.complements import complement, difference_of_exponentials, is_bounded, secant_of, supplement
from dslc.stabilise.exponential_sums import exponent_of, exponential_sum, op_bool, product_of
from dslc.stabilise.matching import constant, head, negative, nonnegative, one_of, op, see, seen

#: products and quotients of this size have not lost digits, in any dtype
SMALL, LARGE = 1e-37, 1e37


def log_one_plus(s: ir.Op) -> ir.Scalar | None:
    """log(1 + f(x)) with 1 + f(x) in closed form; else log(1 + x) = log1p(x)"""
    inner = seen(s.args[0], "+")
    other = None if inner is None else one_of(inner)
    if other is None:
        return None
    closed = supplement(other, through_names=True)
    return op("log1p", other) if closed is None else op("log", closed)


def log_one_minus(s: ir.Op) -> ir.Scalar | None:
    """log(1 - f(x)) with 1 - f(x) in closed form; else log(1 - x) = log1p(-x)"""
    inner = seen(s.args[0], "-")
    if inner is None or not is_one(inner.args[0]):
        return None
    rest = complement(inner.args[1], through_names=True)
    return op("log1p", negative(inner.args[1])) if rest is None else op("log", rest)


def log1p_of_negative(s: ir.Op) -> ir.Scalar | None:
    """log1p(-f(x)) = log(1 - f(x)) with 1 - f(x) in closed form"""
    inner = seen(s.args[0], "neg")
    if inner is None or is_bounded(seen(inner.args[0], "exp")):
        return None
    rest = complement(inner.args[0], through_names=True)
    return None if rest is None else op("log", rest)


def log_sigmoid(s: ir.Op) -> ir.Scalar | None:
    """log(sigmoid(x)) = -softplus(-x)"""
    inner = seen(s.args[0], "sigmoid")
    return None if inner is None else neg(op("softplus", negative(inner.args[0])))


def log_exp(s: ir.Op) -> ir.Scalar | None:
    """log(exp x) = x; log(c^x) = x log c"""
    inner = seen(s.args[0], "exp", "exp2", "^", "pow")
    return None if inner is None else exponent_of(inner)


def log1p_expm1(s: ir.Op) -> ir.Scalar | None:
    """log1p(expm1 x) = x"""
    inner = seen(s.args[0], "expm1")
    return None if inner is None else inner.args[0]


def exp_log(s: ir.Op) -> ir.Scalar | None:
    """exp(log x) = x for x >= 0, NaN below"""
    inner = seen(s.args[0], "log")
    if inner is None:
        return None
    x = inner.args[0]
    if nonnegative(x):
        return x
    return choose(op_bool("<", x, ir.const(0.0, x.dtype)), ir.const(math.nan, x.dtype), x)


def log_of_difference(s: ir.Op) -> ir.Scalar | None:
    """log(exp a - exp b) = a + log(1 - exp(b - a))"""
    pair = difference_of_exponentials(s.args[0])
    if pair is None:
        return None
    a, b = pair
    if constant(a) == 0:
        return _log_one_minus_exp(b)
    gap = negative(a) if constant(b) == 0 else sub(b, a)
    if constant(b) is None:
        low = ir.const(-math.inf, gap.dtype)
        gap = choose(op_bool("==", b, low), low, gap)
    return add(a, _log_one_minus_exp(gap))


def _log_one_minus_exp(x: ir.Scalar) -> ir.Scalar:
    """log(1 - exp x) = log(-expm1(x)) above -log 2, log1p(-exp(x)) below"""
    edge = ir.const(-math.log(2), x.dtype)
    near = op_bool(">", x, edge)
    upper = op("log", neg(op("expm1", choose(near, x, edge))))
    lower = op("log1p", neg(op("exp", choose(near, edge, x))))
    return choose(near, upper, lower)


def log_erfc(s: ir.Op) -> ir.Scalar | None:
    """log(erfc(x)) = log(erfcx(x)) - x^2 above 1"""
    inner = seen(s.args[0], "erfc")
    if inner is None or is_bounded(inner):
        return None
    x = inner.args[0]
    one = ir.const(1.0, x.dtype)
    far = op_bool(">", x, one)
    tail = sub(op("log", op("erfcx", choose(far, x, one))), mul(x, x))
    return choose(far, tail, op("log", op("erfc", choose(far, one, x))))


def log_cosh(s: ir.Op) -> ir.Scalar | None:
    """log(cosh(x)) = |x| + softplus(-2 |x|) - log 2; log(1 / cosh(x)) = -log(cosh(x))"""
    inner = seen(s.args[0], "cosh")
    x = secant_of(s.args[0]) if inner is None else inner.args[0]
    if x is None:
        return None
    size = choose(op_bool(">=", x, ir.const(0.0, x.dtype)), x, negative(x))
    log = sub(add(size, op("softplus", mul(number(-2.0), size))), number(math.log(2)))
    return neg(log) if inner is None else log


def log_power(s: ir.Op) -> ir.Scalar | None:
    """log(x^n) = n log |x| for even n, n log x for others; log(sqrt x) = log(x) / 2;
    log(x^t) = t log x, 0 for 0^0, where log(x) has a form of its own"""
    inner = seen(s.args[0], "^", "pow", "sqrt", "*")
    if inner is None:
        return None
    if inner.name == "*":
        return None if inner.args[0] is not inner.args[1] else mul(number(2.0), op("log", op("abs", inner.args[0])))
    n = 0.5 if inner.name == "sqrt" else constant(inner.args[1])
    x = closed(inner.args[0])
    if n is None:
        return _log_of_power(x, inner.args[1])
    if n == 0:
        return None
    if n % 2 == 0 and not nonnegative(x):
        x = op("abs", x)
    return mul(number(n), op("log", x))


def _log_of_power(x: ir.Scalar, t: ir.Scalar) -> ir.Scalar | None:
    """log(x^t) = t log x for x >= 0, with x^0 = 1 for all x"""
    if not nonnegative(x) or not has_own_logarithm(x):
        return None
    log = _log(x)
    zero = ir.const(0.0, log.dtype)
    counts = ir.op("or", (op_bool("!=", t, ir.const(0.0, t.dtype)), op_bool("isfinite", log)), "bool")
    return mul(t, ir.op("select", (counts, log, zero), log.dtype))


def closed(s: ir.Scalar) -> ir.Scalar:
    """1 - f(x) and 1 + f(x) in closed form, and all else as it is."""
    inner = seen(s, "+", "-")
    if inner is None:
        return s
    if inner.name == "-":
        found = complement(inner.args[1], through_names=True) if is_one(inner.args[0]) else None
    else:
        other = one_of(inner)
        found = None if other is None else supplement(other, through_names=True)
    return s if found is None else found


def is_nonnegative(s: ir.Scalar, depth: int = 4) -> bool:
    """Is it known to be 0 or more, also by the closed forms of its factors?"""
    if nonnegative(s) or nonnegative(closed(s)):
        return True
    inner = seen(s, "*", "/", "^", "pow") if depth else None
    if inner is None:
        return False
    return all(is_nonnegative(x, depth - 1) for x in (inner.args if inner.name in ("*", "/") else inner.args[:1]))


def log_root(s: ir.Op) -> ir.Scalar | None:
    """log(rsqrt(x)) = -log(x) / 2"""
    inner = seen(s.args[0], "rsqrt")
    return None if inner is None else mul(number(-0.5), op("log", inner.args[0]))


#: functions whose logarithm has a form of its own
TRANSPARENT = ("exp", "exp2", "sigmoid", "erfc", "cosh")


def has_own_logarithm(s: ir.Scalar, depth: int = 4) -> bool:
    """Is the logarithm of this better taken apart?"""
    if depth == 0:
        return False
    name = head(s)
    if name in ("*", "/"):
        inner = see(s)
        return isinstance(inner, ir.Op) and any(has_own_logarithm(x, depth - 1) for x in inner.args)
    if name in TRANSPARENT or closed(s) is not s or secant_of(s) is not None:
        return True
    if name in ("^", "pow"):
        power = see(s)
        if not isinstance(power, ir.Op) or exponent_of(power) is not None:
            return isinstance(power, ir.Op)
        base = closed(power.args[0])
        return nonnegative(base) and has_own_logarithm(base, depth - 1)
    return product_of(s) is not None or determinant_of(s) is not None or exponential_sum(s) is not None


def log_to_base(s: ir.Op) -> ir.Scalar | None:
    """log2(x) = log(x) / log 2, log10(x) = log(x) / log 10, where log(x) has a form of its own"""
    x = s.args[0]
    shifted = seen(x, "+", "-")
    near_one = shifted is not None and any(is_one(a) for a in shifted.args)
    if not near_one and not has_own_logarithm(x) and difference_of_exponentials(x) is None:
        return None
    return mul(number(1 / math.log(2 if s.name == "log2" else 10)), op("log", x))


def log_of_product(s: ir.Op) -> ir.Scalar | None:
    """log(a b) = log a + log b; log(a / b) = log a - log b"""
    inner = seen(s.args[0], "*", "/")
    if inner is None:
        return None
    a, b = inner.args
    join = add if inner.name == "*" else sub
    if has_own_logarithm(a) or has_own_logarithm(b):
        if is_nonnegative(a) or is_nonnegative(b):
            return join(_log(a), _log(b))
        return _of_equal_signs(a, b, join(_log(op("abs", a)), _log(op("abs", b))))
    if any(isinstance(x, ir.Const | ir.SizeOf) for x in (a, b)) or a is b:
        return None
    if not isinstance(s.args[0], ir.Op):  # its value is at hand under a name, and a test of it would be another rule
        return None
    size = op("abs", inner)
    plain = ir.op("and", (op_bool(">=", size, number(SMALL)), op_bool("<=", size, number(LARGE))), "bool")
    safe = choose(plain, inner, ir.const(1.0, inner.dtype))
    apart = _of_equal_signs(a, b, join(op("log", op("abs", a)), op("log", op("abs", b))))
    return choose(plain, op("log", safe), apart)


def _log(x: ir.Scalar) -> ir.Scalar:
    value = constant(x)
    if value is not None and value > 0:
        return ir.const(math.log(value), x.dtype if x.dtype not in ("i32", "i64") else "float")
    return ir.op("log", (x,), x.dtype if x.dtype not in ("i32", "i64") else "float")


def _of_equal_signs(a: ir.Scalar, b: ir.Scalar, value: ir.Scalar) -> ir.Scalar:
    """A value where a b is not negative, NaN elsewhere."""
    opposite = op_bool("<", mul(op("sign", a), op("sign", b)), ir.const(0.0, a.dtype))
    return choose(opposite, ir.const(math.nan, value.dtype), value)


def log_prod(s: ir.Op) -> ir.Scalar | None:
    """log(prod x) = sum(log |x|), NaN where an odd number of factors is negative"""
    read = product_of(s.args[0])
    if read is None:
        return None
    node = read.tensor
    assert isinstance(node, ir.Comp)
    x = node.body
    safe = is_nonnegative(x)
    logs = ir.comp(node.shape, op("log", x if safe else op("abs", x)), "sum", node.reduced, span=node.span)
    total: ir.Scalar = ir.read(logs, read.places)
    if safe:
        return total
    signs = ir.comp(node.shape, op("sign", x), "prod", node.reduced, span=node.span)
    odd = op_bool("<", op("stop_grad", ir.read(signs, read.places)), ir.const(0.0, node.dtype))
    return choose(odd, ir.const(math.nan, total.dtype), total)


def determinant_of(s: ir.Scalar) -> ir.Read | None:
    """The determinant of a matrix."""
    s = see(s) if isinstance(s, ir.Read) and head(s) == "" else s
    if not isinstance(s, ir.Read) or s.outside is not None or not isinstance(s.tensor, ir.Part):
        return None
    of = s.tensor.of
    return s if isinstance(of, ir.External) and of.op == "det" else None


def log_det(s: ir.Op) -> ir.Scalar | None:
    """log |det A| = logdet A by a factorisation; log(det A) is NaN where det A is negative"""
    inner = seen(s.args[0], "abs")
    read = determinant_of(s.args[0] if inner is None else inner.args[0])
    if read is None:
        return None
    part = read.tensor
    assert isinstance(part, ir.Part) and isinstance(part.of, ir.External)
    of = part.of
    made = ir.intern(ir.External("logdet", of.args, of.mapped, of.shapes, of.dtypes, of.name, of.span))
    value = ir.read(ir.intern(ir.Part(made, 0, part.dtype, part.shape, part.name, part.span)), read.places)
    if inner is not None:
        return value
    return choose(op_bool("<", read, ir.const(0.0, read.dtype)), ir.const(math.nan, value.dtype), value)

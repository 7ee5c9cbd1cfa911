"""Functions that generated modules may need: their source text is copied into the module, so it stands alone.

This file is read as text; to compile a spec, neither torch nor triton has to be there.
"""

import triton
import triton.language as tl


@triton.jit
def draw(seed, site, element, lane: tl.constexpr):
    """Uniform numbers in [0, 1): Philox 4x32-10 keyed by the seed, counted by element and site."""
    element = element.to(tl.int64)
    low = (element & 0xFFFFFFFF).to(tl.uint32)
    high = ((element >> 32) & 0xFFFFFFFF).to(tl.uint32)
    zero = low * 0
    a, b, c, d = tl.philox(seed, low, high, zero + site, zero)
    if lane == 0:
        word = a
    elif lane == 1:
        word = b
    elif lane == 2:
        word = c
    else:
        word = d
    return tl.uint_to_uniform_float(word)


@triton.jit
def maximum(x, axis: tl.constexpr):
    """The largest value along an axis; NaN where there is one."""
    bad = tl.max((x != x).to(tl.int32), axis=axis)
    return tl.where(bad > 0, float("nan"), tl.max(x, axis=axis))


@triton.jit
def minimum(x, axis: tl.constexpr):
    """The smallest value along an axis; NaN where there is one."""
    bad = tl.max((x != x).to(tl.int32), axis=axis)
    return tl.where(bad > 0, float("nan"), tl.min(x, axis=axis))


@triton.jit
def multiplied(a, b):
    return a * b


@triton.jit
def larger(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def smaller(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def then(a, b, c, d):
    """h -> a h + b, then h -> c h + d."""
    return c * a, c * b + d


@triton.jit
def then_pair(axx, axy, ayx, ayy, bx, by, cxx, cxy, cyx, cyy, dx, dy):
    """(x, y) -> A (x, y) + b, then (x, y) -> C (x, y) + d."""
    return (
        cxx * axx + cxy * ayx, cxx * axy + cxy * ayy, cyx * axx + cyy * ayx, cyx * axy + cyy * ayy,
        cxx * bx + cxy * by + dx, cyx * bx + cyy * by + dy,
    )  # fmt: skip


@triton.jit
def as_f16(x):
    """Rounded to half precision."""
    return x.to(tl.float32).to(tl.float16).to(x.dtype)


@triton.jit
def as_bf16(x):
    """Rounded to bfloat16, ties to even: its bits are the upper half of those of a float32."""
    bits = x.to(tl.float32).to(tl.uint32, bitcast=True)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    y = rounded.to(tl.float32, bitcast=True).to(x.dtype)
    return tl.where(x == x, y, x)


@triton.jit
def expm1(x):
    """exp(x) - 1 = (u - 1) x / log(u) with u = exp(x), in which the errors of u cancel."""
    u = tl.exp(x)
    near = tl.abs(x) < 1.0
    v = tl.where(near, tl.where(u == 1.0, 2.0, u), 2.0)
    small = (v - 1.0) * (x / tl.log(v))
    return tl.where(near, tl.where(u == 1.0, x, small), u - 1.0)


@triton.jit
def log1p(x):
    """log(1 + x) = log(u) x / (u - 1) with u = 1 + x, in which the error of u cancels."""
    u = 1.0 + x
    d = u - 1.0
    value = tl.log(u) * (x / tl.where(d == 0.0, 1.0, d))
    return tl.where(d == 0.0, x, tl.where(tl.abs(u) < float("inf"), value, tl.log(u)))


@triton.jit
def softplus(x):
    """log(1 + exp(x)) without overflow."""
    return tl.where(x > 0.0, x, 0.0) + log1p(tl.exp(-tl.abs(x)))


@triton.jit
def tanh(x):
    """tanh(x) = -e / (e + 2) with e = expm1(-2 |x|), and the sign of x."""
    e = expm1(-2.0 * tl.abs(x))
    y = -e / (e + 2.0)
    return tl.where(x < 0.0, -y, y)


@triton.jit
def sinh(x):
    e = expm1(tl.abs(x))
    y = tl.where(e < float("inf"), 0.5 * (e + e / (e + 1.0)), e)
    return tl.where(x < 0.0, -y, y)


@triton.jit
def cosh(x):
    return 0.5 * (tl.exp(x) + tl.exp(-x))


@triton.jit
def asinh(x):
    a = tl.abs(x)
    big = a > 1e9
    b = tl.where(big, 1.0, a)
    y = tl.where(big, tl.log(a) + 0.6931471805599453, log1p(b + b * b / (1.0 + tl.sqrt(1.0 + b * b))))
    return tl.where(x < 0.0, -y, y)


@triton.jit
def acosh(x):
    d = x - 1.0
    return log1p(d + tl.sqrt(d * (x + 1.0)))


@triton.jit
def atanh(x):
    return 0.5 * log1p(2.0 * x / (1.0 - x))


@triton.jit
def atan(x):
    """Reduced to |y| < 0.2 by 1/x and by atan(x) = 2 atan(x / (1 + sqrt(1 + x^2))) twice; then the series."""
    a = tl.abs(x)
    flipped = a > 1.0
    y = tl.where(flipped, 1.0 / a, a)
    y = y / (1.0 + tl.sqrt(1.0 + y * y))
    y = y / (1.0 + tl.sqrt(1.0 + y * y))
    z = y * y
    s = -1.0 / 23.0 + z * 0.04
    s = 1.0 / 21.0 + z * s
    s = -1.0 / 19.0 + z * s
    s = 1.0 / 17.0 + z * s
    s = -1.0 / 15.0 + z * s
    s = 1.0 / 13.0 + z * s
    s = -1.0 / 11.0 + z * s
    s = 1.0 / 9.0 + z * s
    s = -1.0 / 7.0 + z * s
    s = 0.2 + z * s
    s = -1.0 / 3.0 + z * s
    r = 4.0 * (y + y * z * s)
    r = tl.where(flipped, 1.5707963267948966 - r, r)
    return tl.where(x < 0.0, -r, r)


@triton.jit
def asin(x):
    return atan(x / tl.sqrt((1.0 - x) * (1.0 + x)))


@triton.jit
def acos(x):
    return 2.0 * atan(tl.sqrt((1.0 - x) / (1.0 + x)))


@triton.jit
def atan2(y, x):
    """The angle of the point (x, y)."""
    r = atan(tl.abs(y) / tl.abs(x))
    r = tl.where(x == 0.0, tl.where(y == 0.0, 0.0, r), r)
    r = tl.where(x < 0.0, 3.141592653589793 - r, r)
    return tl.where(y < 0.0, -r, r)


@triton.jit
def hypot(x, y):
    a = tl.maximum(tl.abs(x), tl.abs(y))
    b = tl.minimum(tl.abs(x), tl.abs(y))
    r = b / tl.where(a == 0.0, 1.0, a)
    value = tl.where(x != x, x, tl.where(y != y, y, a * tl.sqrt(1.0 + r * r)))
    return tl.where(a == float("inf"), a, value)


@triton.jit
def round_even(x):
    """The nearest whole number, ties to the even one."""
    f = tl.floor(x)
    d = x - f
    odd = f - 2.0 * tl.floor(0.5 * f)
    return tl.where(d > 0.5, f + 1.0, tl.where(d == 0.5, f + odd, f))


@triton.jit
def power(x, y):
    """x^y = exp(y log |x|), in double precision so that no digits are lost; the sign of odd powers is that of x."""
    a = tl.abs(x).to(tl.float64)
    b = y.to(tl.float64)
    value = tl.exp(b * tl.log(tl.where(a == 0.0, 1.0, a)))
    value = tl.where(a == 0.0, tl.where(b > 0.0, 0.0, float("inf")), value)
    whole = tl.floor(b) == b
    odd = b - 2.0 * tl.floor(0.5 * b) == 1.0
    value = tl.where(x < 0.0, tl.where(whole, tl.where(odd, -value, value), float("nan")), value)
    return tl.where(b == 0.0, 1.0, value).to(x.dtype)


@triton.jit
def tail(a):
    """exp(a^2) erfc(a) for a >= 0; (1 + 2 a) times that is a smooth function of t = (a - 3.75) / (a + 3.75)."""
    t = tl.where(a == float("inf"), 1.0, (a - 3.75) / (a + 3.75))
    s = t * 2.619897143942714e-08 + 1.4410568976517352e-08
    s = s * t - 1.5271256055038726e-07
    s = s * t - 8.151435915738804e-08
    s = s * t + 4.0693525258902327e-07
    s = s * t + 2.0912582775195527e-07
    s = s * t - 7.8483026206335e-07
    s = s * t - 3.0947647840802284e-07
    s = s * t + 2.2265856884659687e-06
    s = s * t - 7.594290572560935e-07
    s = s * t - 1.1726181916969023e-05
    s = s * t + 2.2266228620622698e-05
    s = s * t + 5.176034488235401e-05
    s = s * t - 0.00029011164141463415
    s = s * t + 0.00029368491310427346
    s = s * t + 0.0017556160992596688
    s = s * t - 0.00974657487045007
    s = s * t + 0.028362278781233544
    s = s * t - 0.058693399038107885
    s = s * t + 0.09230432105527978
    s = s * t - 0.10880393011971327
    s = s * t + 0.08227673849386362
    s = s * t + 0.003585415485043165
    s = s * t - 0.14024059858558555
    s = s * t + 1.2375126308378288
    return s / (1.0 + 2.0 * a)


@triton.jit
def erfc(x):
    a = tl.abs(x)
    y = tail(a) * tl.exp(-a * a)
    return tl.where(x < 0.0, 2.0 - y, y)


@triton.jit
def erfcx(x):
    """exp(x^2) erfc(x), where neither factor may overflow."""
    y = tail(tl.abs(x))
    return tl.where(x < 0.0, 2.0 * tl.exp(x * x) - y, y)


@triton.jit
def erfinv(y):
    """Newton's method on erf, on erfc in the tails, from Winitzki's approximation."""
    inside = tl.abs(y) < 1.0
    v = tl.where(inside, y, 0.0)
    a = tl.abs(v)
    log = log1p(-v * v)
    middle = 4.330746750799873 + 0.5 * log
    x = tl.sqrt(tl.sqrt(middle * middle - log / 0.147) - middle)
    for _ in tl.static_range(3):
        error = tl.where(a < 0.5, tl.erf(x) - a, (1.0 - a) - erfc(x))
        x -= error * 0.886226925452758 * tl.exp(x * x)
    x = tl.where(a == 0.0, a, x)
    x = tl.where(y < 0.0, -x, x)
    return tl.where(inside, x, tl.where(tl.abs(y) == 1.0, y * float("inf"), float("nan")))


@triton.jit
def lgamma(x):
    """Shifted up to 8 and more by the recurrence, then Stirling's series; reflected for negative numbers."""
    low = x < 0.5
    z = tl.where(low, 1.0 - x, x)
    shift = tl.zeros_like(z) + 1.0
    for _ in tl.static_range(8):
        small = z < 8.0
        shift = tl.where(small, shift * z, shift)
        z = tl.where(small, z + 1.0, z)
    r = 1.0 / (z * z)
    s = 0.0833333333333333333 + r * (
        -0.00277777777777777778
        + r
        * (
            0.000793650793650793651
            + r * (-0.000595238095238095238 + r * (0.000841750841750841751 + r * -0.00191752691752691753))
        )
    )
    y = (z - 0.5) * tl.log(z) - z + 0.9189385332046727 + s / z - tl.log(shift)
    turn = tl.sin(3.141592653589793 * (x - tl.floor(x)))
    reflected = 1.1447298858494002 - tl.log(tl.abs(turn)) - y
    value = tl.where(low, reflected, y)
    return tl.where(tl.abs(x) == float("inf"), float("inf"), value)


@triton.jit
def digamma(x):
    """The derivative of lgamma: recurrence, asymptotic series, reflection."""
    low = x < 0.5
    z = tl.where(low, 1.0 - x, x)
    shift = tl.zeros_like(z)
    for _ in tl.static_range(12):
        small = z < 12.0
        shift = tl.where(small, shift - 1.0 / z, shift)
        z = tl.where(small, z + 1.0, z)
    r = 1.0 / (z * z)
    s = r * (
        0.0833333333333333333
        - r
        * (
            0.00833333333333333333
            - r
            * (
                0.00396825396825396825
                - r * (0.00416666666666666667 - r * (0.00757575757575757576 - r * 0.0210927960927960928))
            )
        )
    )
    y = tl.log(z) - 0.5 / z - s + shift
    turn = 3.141592653589793 * (x - tl.floor(x))
    value = tl.where(low, y - 3.141592653589793 * tl.cos(turn) / tl.sin(turn), y)
    return tl.where(x < 0.0, tl.where(tl.floor(x) == x, float("nan"), value), value)


@triton.jit
def trigamma(x):
    """The second derivative of lgamma."""
    low = x < 0.5
    z = tl.where(low, 1.0 - x, x)
    shift = tl.zeros_like(z)
    for _ in tl.static_range(12):
        small = z < 12.0
        shift = tl.where(small, shift + 1.0 / (z * z), shift)
        z = tl.where(small, z + 1.0, z)
    r = 1.0 / (z * z)
    s = r * (
        0.166666666666666667
        - r
        * (
            0.0333333333333333333
            - r
            * (
                0.0238095238095238095
                - r * (0.0333333333333333333 - r * (0.0757575757575757576 - r * 0.253113553113553114))
            )
        )
    )
    y = 1.0 / z + 0.5 * r + s / z + shift
    turn = tl.sin(3.141592653589793 * (x - tl.floor(x)))
    return tl.where(low, 9.869604401089358 / (turn * turn) - y, y)


@triton.jit
def zeta(s, x):
    """The sum of (x + k)^-s over k = 0, 1, ...: twelve terms, the rest by Euler and Maclaurin."""
    z = x
    total = tl.zeros_like(x)
    for _ in tl.static_range(12):
        total += tl.exp(-s * tl.log(z))
        z += 1.0
    last = tl.exp(-s * tl.log(z))
    r = 1.0 / (z * z)
    a = s * last / z
    b = a * (s + 1.0) * (s + 2.0) * r
    c = b * (s + 3.0) * (s + 4.0) * r
    d = c * (s + 5.0) * (s + 6.0) * r
    e = d * (s + 7.0) * (s + 8.0) * r
    f = e * (s + 9.0) * (s + 10.0) * r
    g = f * (s + 11.0) * (s + 12.0) * r
    h = g * (s + 13.0) * (s + 14.0) * r
    total += last * z / (s - 1.0) + 0.5 * last
    total += a / 12.0 - b / 720.0 + c / 30240.0 - d / 1209600.0 + e / 47900160.0
    total += g / 74724249600.0 - f / 1892437580.3183792 - h / 2950130727918.1642
    return tl.where(x < 0.0, float("nan"), total)


@triton.jit(do_not_specialize=["seed", "number", "count"])
def uniform_values(out_ptr, seed, number, count: tl.int64, offset, scale, BLOCK: tl.constexpr):
    """offset + scale * u, u uniform in [-1, 1)."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    u = 2.0 * draw(seed, number, i, 0) - 1.0
    tl.store(out_ptr + i, offset + scale * u, mask=i < count)


@triton.jit(do_not_specialize=["seed", "number", "count"])
def normal_values(out_ptr, seed, number, count: tl.int64, offset, scale, BLOCK: tl.constexpr):
    """offset + scale * z, z standard normal."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    u, v = draw(seed, number, i, 0), draw(seed, number, i, 1)
    z = tl.sqrt(-2.0 * tl.log(tl.maximum(u, 1e-7))) * tl.cos(6.283185307179586 * v)
    tl.store(out_ptr + i, offset + scale * z, mask=i < count)


@triton.jit(do_not_specialize=["rows", "columns"])
def orthonormal(q_ptr, rows: tl.int64, columns: tl.int64, gain, BLOCK: tl.constexpr):
    """Gram and Schmidt on the columns of a matrix, each one twice for the sake of rounding; one program."""
    i = tl.arange(0, BLOCK)
    inside = i < rows
    for _ in tl.static_range(2):
        for j in range(0, columns):
            q = tl.load(q_ptr + i * columns + j, mask=inside, other=0.0)
            for k in range(0, j):
                p = tl.load(q_ptr + i * columns + k, mask=inside, other=0.0)
                q -= p * tl.sum(p * q, axis=0)
            q = q / tl.sqrt(tl.sum(q * q, axis=0))
            tl.store(q_ptr + i * columns + j, q, mask=inside)
            tl.debug_barrier()
    for j in range(0, columns):
        q = tl.load(q_ptr + i * columns + j, mask=inside, other=0.0)
        tl.store(q_ptr + i * columns + j, gain * q, mask=inside)


@triton.jit
def own_block(table_ptr, kinds: tl.constexpr, tensors, TENSORS: tl.constexpr, BLOCK: tl.constexpr):
    """The tensor of a program among those of a table, the entries of its block, and which of them there are."""
    pid = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, TENSORS)
    first = tl.load(table_ptr + kinds * tensors + k, mask=k < tensors, other=pid + 1)
    tensor = tl.sum((first <= pid).to(tl.int64), axis=0) - 1
    first = tl.max(tl.where(first <= pid, first, 0), axis=0)
    i = (pid - first) * BLOCK + tl.arange(0, BLOCK)
    return tensor, i, i < tl.load(table_ptr + (kinds + 1) * tensors + tensor)


@triton.jit(do_not_specialize=["tensors"])
def squares(table_ptr, out_ptr, tensors: tl.int64, TENSORS: tl.constexpr, BLOCK: tl.constexpr):
    """The sum of squares of each block of the tensors of a table."""
    tensor, i, inside = own_block(table_ptr, 1, tensors, TENSORS, BLOCK)
    x_ptr = tl.load(table_ptr + tensor).to(tl.pointer_type(out_ptr.dtype.element_ty))
    x = tl.load(x_ptr + i, mask=inside, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x * x, axis=0))


@triton.jit(do_not_specialize=["count"])
def length(x_ptr, out_ptr, count: tl.int64, BLOCK: tl.constexpr):
    """The root of the sum of all entries; one program."""
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), x_ptr.dtype.element_ty)
    for start in range(0, count, BLOCK):
        total += tl.load(x_ptr + start + i, mask=start + i < count, other=0.0)
    tl.store(out_ptr, tl.sqrt(tl.sum(total, axis=0)))

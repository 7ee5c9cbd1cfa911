"""Functions that generated modules may need: their source text is copied into the module, so it stands alone."""

from __future__ import annotations

import math

import numpy as np


def entry(name, value, dtype, shape, limit=None):
    """An argument as an array of this dtype and shape, where names stand for any size; positions are below a limit."""
    value = np.asarray(value)
    if value.dtype != dtype and value.dtype.kind not in ("iub" if np.dtype(dtype).kind in "ib" else "fiu"):
        raise TypeError(f"{name}: expected {np.dtype(dtype).name}, found {value.dtype}")
    if value.ndim != len(shape) or not value.size:
        raise ValueError(
            f"{name}: expected {len(shape)} axes {shape}, none of them empty, found the shape {value.shape}"
        )
    for axis, (found, wanted) in enumerate(zip(value.shape, shape, strict=True)):
        if found != wanted and isinstance(wanted, int):
            raise ValueError(f"{name}: expected {wanted} along axis {axis}, found {found}")
    for at in map(tuple, np.argwhere((value < 0) | (value >= limit)).tolist() if limit else ()):
        raise ValueError(f"{name}: expected 0 <= value < {limit}, found {value[at]} at {at}")
    return value.astype(dtype, copy=False)


def refuse(name, value, wrong, expected):
    """Say where an argument is not as expected, if it is anywhere."""
    for at in map(tuple, np.argwhere(wrong).tolist()):
        raise ValueError(f"{name}: expected {expected}, found {value[at]} at {at}")


def below(name, value, limit):
    """Whole numbers used as positions must be in range."""
    for at in map(tuple, np.argwhere((value < 0) | (value >= limit)).tolist()):
        raise ValueError(f"{name}: expected 0 <= value < {limit}, found {value[at]} at {at}")


def binary(name, value):
    """Entries must be 0 or 1."""
    refuse(name, value, (value != 0) & (value != 1), "0 or 1")


def simplex(name, value, off=1e-3):
    """Entries must be probabilities that add up to 1 along the last axis."""
    refuse(name, value, ~(value >= 0), "no entry below 0")
    total = value.sum(-1, dtype=np.float64)
    refuse(name, total, ~(abs(total - 1) <= off), "a sum of 1 along the last axis")


def fitting(values, table, dtype, of=""):
    """Parameters, states or slots `of` an optimiser must have the names, shapes and dtype of their table."""
    if not isinstance(values, dict):
        raise ValueError(f"{of[:-1] or 'params'}: expected a dict of arrays by name, found {type(values).__name__}")
    for name in {**table, **values}:
        if name not in values or name not in table:
            raise ValueError(f"{of}{name} is {'missing' if name in table else 'unknown: expected ' + ', '.join(table)}")
        x = values[name] = np.asarray(values[name])  # w - 0.1 * d_w is no array where w has no axes
        if x.dtype != dtype or x.shape != table[name][0]:
            raise ValueError(f"{of}{name}: expected {np.dtype(dtype)} {table[name][0]}, found {x.dtype} {x.shape}")


def masked(x, condition):
    """x where a condition holds, else 0, also where x is infinite: its bits times 1 or 0, quicker than np.where."""
    return (x.view(f"i{x.itemsize}") * condition).view(x.dtype)


def as_f16(x):
    """Rounded to half precision."""
    return x.astype(np.float16).astype(x.dtype)


def as_bf16(x):
    """Rounded to bfloat16, ties to even: its bits are the upper half of those of a float32."""
    bits = x.astype(np.float32).view(np.uint32)
    bits = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(x == x, bits.view(np.float32).astype(x.dtype), x)


def shifted(x, axis, start, count, step, fill):
    """Entries start, start + step, ... of one axis, `fill` where they lie outside."""
    size = x.shape[axis]
    shape = list(x.shape)
    shape[axis] = count
    out = np.full(shape, fill, x.dtype)
    first = max(0, -(start // step)) if step > 0 else max(0, -((size - 1 - start) // -step))
    last = min(count, (size - 1 - start) // step + 1) if step > 0 else min(count, start // -step + 1)
    if first < last:
        begin = start + first * step
        end = start + (last - 1) * step
        stop = end + (1 if step > 0 else -1)
        source = slice(begin, stop if stop >= 0 else None, step)
        lead = (slice(None),) * axis
        out[(*lead, slice(first, last))] = x[(*lead, source)]
    return out


def windows(x, axis, start, count, step, width, dilation, fill):
    """Entry (p, a) of two axes in place of one is entry start + step * p + dilation * a, `fill` outside."""
    back = min(0, step * (count - 1)) + min(0, dilation * (width - 1))
    reach = abs(step) * (count - 1) + abs(dilation) * (width - 1) + 1
    x = shifted(x, axis, start + back, reach, 1, fill)
    x = x[(slice(None),) * axis + (slice(-back, None),)]
    shape = (*x.shape[:axis], count, width, *x.shape[axis + 1 :])
    strides = (*x.strides[:axis], step * x.strides[axis], dilation * x.strides[axis], *x.strides[axis + 1 :])
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)


def gather(x, places, fill, good=True):
    """Entries at given positions, `fill` where a position is outside or not `good`."""
    inside = good
    for place, size in zip(places, x.shape, strict=True):
        inside = inside & (place >= 0) & (place < size)
    places = tuple(np.clip(place, 0, size - 1) for place, size in zip(places, x.shape, strict=True))
    return np.where(inside, x[places], np.asarray(fill, x.dtype))


def sigmoid(x):
    """1 / (1 + exp(-x)): where exp overflows the quotient is 0, as it should be."""
    return 1 / (1 + np.exp(-x))


def softplus(x):
    """log(1 + exp(x)) without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def erf(x):
    """The error function: x times a polynomial in x^2, 1 - erfc(x) from 1 on."""
    a = np.abs(x)
    near = x * np.polyval(np.array((
        -7.795898827002142e-10, 1.3720064546777686e-08, -1.6208483801871705e-07, 1.6447424703317362e-06,
        -1.492473690741966e-05, 1.2055294904839707e-04, -8.548325975389692e-04, 5.2239776071164225e-03,
        -2.686617064323777e-02, 1.1283791670945006e-01, -3.7612638903183543e-01, 1.1283791670955126,
    ), x.dtype), np.minimum(a, 1) ** 2)  # fmt: skip
    return np.where(a < 1, near, np.copysign(1 - erfc(a), x))


def erfcx(x):
    """exp(x^2) erfc(x): for x >= 0 a polynomial in (x - 4) / (x + 4), divided by x + 4."""
    a = np.abs(x, dtype=np.float64)
    y = np.polyval((
        1.25216923e-09, 2.6471770e-10, -1.552206279e-08, 8.2764876e-10, 1.2311607423e-07, -7.597760875e-08,
        -8.4444151385e-07, 1.42495728038e-06, 4.69304379932e-06, -1.886148177798e-05, -3.63455803744e-06,
        1.7681308475720e-04, -4.5505284950489e-04, -2.8095893719456e-04, 0.0061120556821152, -0.0263700533289499,
        0.0763815149070086, -0.1740109372409157, 0.3308515878781034, -0.5408538313131965, 0.7732087022652361,
        -0.9765487290808824, 1.095995661000491,
    ), 1 - 8 / (a + 4)) / (a + 4)  # fmt: skip
    return np.where(x < 0, 2 * np.exp(a * a) - y, y).astype(x.dtype)


def erfc(x):
    """1 - erf(x) with all its digits in the tail."""
    a = np.minimum(np.abs(x), 30)
    high = np.round(64 * a) / 64  # a^2 = high^2 + (a - high) (a + high), the first term exact
    y = erfcx(a) * np.exp(-high * high) * np.exp((high - a) * (high + a))
    return np.where(x < 0, 2 - y, y)


def normal_cdf(x):
    """The chance of a normal number below x, erfc(-x / sqrt(2)) / 2."""
    a = np.abs(x, dtype=np.float64)
    tail = erfcx(a / math.sqrt(2)) * np.exp(-a * a / 2) / 2
    return np.where(x < 0, tail, 1 - tail).astype(np.result_type(x))


def normal_cdf_single(x):
    """The chance of a normal number below x: t times a polynomial in 1 - t, t = 8 / (|x| + 4), times exp(-x^2 / 2)."""
    t = 8 / (np.abs(x) + 4)
    factors = np.array([-1.9316038e-05, 1.5901491e-05, 0.00019481579, -0.00043404466, -0.00093864335, 0.0075491522,
                        -0.023315912, 0.04839224, -0.075987048, 0.094410643], t.dtype)  # fmt: skip
    tail = np.polyval(factors, 1 - t) * t * np.exp(np.square(x, dtype=np.float64) / -2).astype(t.dtype)
    return np.where(x < 0, tail, 1 - tail)


def erfinv(x):
    """The inverse of erf: Halley's method on erf, or in the tails on erfc, from Winitzki's approximation."""
    y = np.asarray(x, np.float64)
    c = 1 - np.abs(y)
    log = np.log(c) + np.log1p(np.abs(y))
    middle = 2 / (math.pi * 0.147) + log / 2
    a = np.sqrt(np.sqrt(middle * middle - log / 0.147) - middle)
    for _ in range(3):
        error = np.where(c > 0.5, erf(a) - np.abs(y), c - erfc(a))
        a = a - error / (2 / math.sqrt(math.pi) * np.exp(-a * a) + a * error)
    return np.where(c == 0, np.copysign(np.inf, y), np.copysign(a, y)).astype(x.dtype)


def lgamma(x):
    """log |gamma(x)|: s times a polynomial in s at 2 + s, Stirling's series far out, reflection below 1/2."""
    y = np.asarray(x, np.float64)
    a = np.where(y < 0.5, 1 - y, y)
    s = np.clip(np.where(a < 1.5, a - 1, a - 2), -0.5, 0.5)
    near = s * np.polyval((
        2.7475390051909663e-07, -5.811277768921246e-07, 9.242852225162277e-07, -1.9743106888421067e-06,
        4.3828545383846665e-06, -9.45628851510172e-06, 2.050601970174762e-05, -4.4923727564247656e-05,
        9.945761692157133e-05, -2.2315497746292723e-04, 5.096695196526673e-04, -1.1927539009983087e-03,
        2.890510330865901e-03, -7.385551028935545e-03, 2.058080842778338e-02, -6.735230105319563e-02,
        3.224670334241132e-01, 4.2278433509846713e-01,
    ), s)  # fmt: skip
    near = np.where(a < 1.5, near - np.log(a), near)
    product = np.ones_like(a)
    b = a
    for _ in range(8):
        product = np.where(b < 10, product * b, product)
        b = np.where(b < 10, b + 1, b)
    r = 1 / b
    series = r * np.polyval((-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12), r * r)
    far = (b - 0.5) * (np.log(b) - 1) + (series - np.log(product) + (0.5 * math.log(2 * math.pi) - 0.5))
    right = np.where(a < 2.5, near, far)
    turned = np.log(math.pi / np.abs(np.sin(math.pi * (y - np.round(y))))) - right
    return np.where(np.isinf(y), np.inf, np.where(y < 0.5, turned, right)).astype(x.dtype)


def digamma(x):
    """The derivative of lgamma: an asymptotic series from 10 on, the recurrence below, reflection below 1/2."""
    y = np.asarray(x, np.float64)
    a = np.where(y < 0.5, 1 - y, y)
    shift = np.zeros_like(a)
    for _ in range(10):
        shift = np.where(a < 10, shift + 1 / a, shift)
        a = np.where(a < 10, a + 1, a)
    r = 1 / (a * a)
    series = r * np.polyval((1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12), r)
    right = np.log(a) - 0.5 / a - series - shift
    turned = right - math.pi / np.tan(math.pi * (y - np.round(y)))
    poles = np.where(y == 0, -np.copysign(np.inf, y), np.nan)
    return np.where((y <= 0) & (y == np.round(y)), poles, np.where(y < 0.5, turned, right)).astype(x.dtype)


def trigamma(x):
    """The derivative of digamma, by the same three steps."""
    y = np.asarray(x, np.float64)
    a = np.where(y < 0.5, 1 - y, y)
    shift = np.zeros_like(a)
    for _ in range(10):
        shift = np.where(a < 10, shift + 1 / (a * a), shift)
        a = np.where(a < 10, a + 1, a)
    r = 1 / (a * a)
    series = np.polyval((7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6), r)
    right = 1 / a + r * (0.5 + series / a) + shift
    turned = (math.pi / np.sin(math.pi * (y - np.round(y)))) ** 2 - right
    return np.where(y < 0.5, np.where(y == -np.inf, np.inf, turned), right).astype(x.dtype)


def zeta(s, x):
    """The sum of (x + k)^-s over k = 0, 1, ...: ten terms, the rest by Euler and Maclaurin."""
    a = np.asarray(x, np.float64)
    s = np.asarray(s, np.float64)
    total = np.zeros_like(a)
    for _ in range(10):
        total = total + a**-s
        a = a + 1
    total += a ** (1 - s) / (s - 1) + a**-s / 2
    rising = s * a ** (-s - 1)
    for k, divisor in enumerate((
        12, -720, 30240, -1209600, 47900160, -1892437580.3183792, 74724249600.0, -2950130727918.1642,
        116467828143500.67, -4597978722407472.6, 181521054019435460.0, -7166165256175667000.0,
    ), 1):  # fmt: skip
        total += rising / divisor
        rising = rising * (s + 2 * k - 1) * (s + 2 * k) / (a * a)
    return np.where(np.asarray(x) < 0, np.nan, total).astype(x.dtype)


def top_k(x, axis, count):
    """The largest entries along an axis, largest first, and where they stand; ties keep their order."""
    order = np.take(np.argsort(-x, axis=axis, kind="stable"), np.arange(count), axis)
    return np.take_along_axis(x, order, axis), order


def fourier(inverse, axis, re, im=None):
    """The discrete Fourier transform of re + i im, as two real arrays."""
    z = re if im is None else re + 1j * im
    f = np.fft.ifft(z, axis=axis) if inverse else np.fft.fft(z, axis=axis)
    return f.real.astype(re.dtype), f.imag.astype(re.dtype)


def solve(a, b):
    """Solutions of a x = b, b one vector or several columns for each matrix."""
    return np.linalg.solve(a, b) if b.ndim == a.ndim else np.linalg.solve(a, b[..., None])[..., 0]


def logdet(a):
    return np.linalg.slogdet(a)[1]


def matexp(a):
    """The matrix exponential, by scaling and squaring of its series; each squaring doubles the error."""
    scale = max(0, math.ceil(math.log2(max(float(np.abs(a).sum(-1).max()), 1e-30))))
    x = a / 2.0**scale
    term = np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
    total = term.copy()
    for k in range(1, 20):
        term = term @ x / k
        total = total + term
    for _ in range(scale):
        total = total @ total
    return total


def draw(seed, site, element, lane=0):
    """Uniform numbers in [0, 1): Philox 4x32-10 keyed by the seed, counted by element and site."""
    seed, mask, element = int(seed), 0xFFFFFFFF, np.asarray(element, np.int64).astype(np.uint64)
    a, b, c, d = element & mask, element >> 32, np.uint64(site), np.uint64(0)
    for k in range(10):
        first, second = (seed + k * 0x9E3779B9) & mask, ((seed >> 32) + k * 0xBB67AE85) & mask
        p, q = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = q >> 32 ^ b ^ first, q & mask, p >> 32 ^ d ^ second, p & mask
    word = (a, b, c, d)[lane]
    return np.minimum(word, mask - word).astype(np.float32) * np.float32(4.6566127342e-10)


def normal_draws(seed, site, shape):
    """Numbers of the normal distribution, by the method of Box and Muller."""
    element = np.arange(math.prod(shape)).reshape(shape)
    radius = np.sqrt(-2.0 * np.log(np.maximum(draw(seed, site, element), 1e-7)))
    return radius * np.cos(2.0 * np.pi * draw(seed, site, element, 1))

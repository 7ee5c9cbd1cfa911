"""Functions that generated modules may need: their source text is copied into the module, so it stands alone."""

from __future__ import annotations

import math

import numpy as np


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
    reach = start + step * (count - 1) + dilation * (width - 1) + 1
    x = shifted(x, axis, start, reach - start, 1, fill)
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
    """1 / (1 + exp(-x)) without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def softplus(x):
    """log(1 + exp(x)) without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def erf(x):
    """The error function: a rational form for float32, exact term by term otherwise."""
    if x.dtype != np.float32:
        return np.vectorize(math.erf, otypes=[np.float64])(x)
    t = 1.0 / (1.0 + 0.3275911 * np.abs(x))
    p = ((((1.061405429 * t - 1.453152027) * t) + 1.421413741) * t - 0.284496736) * t + 0.254829592
    return np.sign(x) * (1.0 - p * t * np.exp(-x * x))


def erfc(x):
    return np.vectorize(math.erfc, otypes=[np.float64])(x).astype(x.dtype)


def erfinv(x):
    """The inverse of erf, from the quantile of the normal distribution."""
    from statistics import NormalDist

    quantile = NormalDist(0.0, math.sqrt(0.5)).inv_cdf
    ends = np.where(np.abs(x) == 1, np.sign(x) * np.inf, np.nan)
    inside = np.abs(x) < 1
    value = np.vectorize(quantile, otypes=[np.float64])(0.5 + 0.5 * np.where(inside, x, 0).astype(np.float64))
    return np.where(inside, value, ends).astype(x.dtype)


def lgamma(x):
    return np.vectorize(math.lgamma, otypes=[np.float64])(x).astype(x.dtype)


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
    """The matrix exponential, by scaling and squaring of its series."""
    scale = max(0, math.ceil(math.log2(max(float(np.abs(a).sum(-1).max()), 1e-30))) + 4)
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
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    element = np.asarray(element, np.int64).astype(np.uint64)
    zero = np.zeros_like(element)
    c = [element & mask, element >> half, zero + np.uint64(site), zero]
    k0, k1 = seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF
    for _ in range(10):
        high, low = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(low >> half) ^ c[1] ^ np.uint64(k0), low & mask, (high >> half) ^ c[3] ^ np.uint64(k1), high & mask]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    word = c[lane].astype(np.uint32).view(np.int32)
    return np.where(word < 0, ~word, word).astype(np.float32) * np.float32(4.6566127342e-10)

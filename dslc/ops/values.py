"""What functions mean that NumPy does not have: slow, exact, and not those that modules carry.

They have the names that texts of records call them by, where a module has functions of its runtime.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def each(function: Callable[..., float]) -> Callable[..., Any]:
    """A function of numbers, applied to every element."""
    return np.vectorize(function, otypes=[np.float64])


def lgamma_at(x: float) -> float:
    return math.inf if x <= 0 and (math.isinf(x) or x == math.floor(x)) else math.lgamma(x)


def polygamma(order: int) -> Callable[[float], float]:
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


def zeta_at(s: float, x: float) -> float:
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


def erfcx_at(x: float) -> float:
    """e^(x^2) erfc(x); far out Laplace's continued fraction."""
    if math.isnan(x) or x < -27:
        return math.inf if x < 0 else x
    if x < 10:
        return math.exp(x * x) * math.erfc(x)
    tail = x
    for k in range(20, 0, -1):
        tail = x + k / 2 / tail
    return 1 / (math.sqrt(math.pi) * tail)


def erfinv_at(y: float) -> float:
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


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softplus(x: Any) -> Any:
    return np.logaddexp(0, x)


erf, erfc, erfcx, erfinv = each(math.erf), each(math.erfc), each(erfcx_at), each(erfinv_at)
normal_cdf = each(lambda x: math.erfc(-x / math.sqrt(2)) / 2)
lgamma, digamma, trigamma = each(lgamma_at), each(polygamma(1)), each(polygamma(2))
zeta = each(zeta_at)

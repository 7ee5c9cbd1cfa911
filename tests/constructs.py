"""Every construct of the language as a small program, with its meaning written in NumPy, independently of dslc."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special

Values = dict[str, Any]


@dataclass(frozen=True)
class Construct:
    name: str
    text: str
    values: Values
    #: from the inputs by name to the output, or to the outputs by name
    meaning: Callable[..., Any]
    rows: tuple[str, ...] = ()
    mode: str = "inference"
    #: how often its outputs may be differentiated by finite differences here
    order: int = 2
    settings: Values = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


_rng = np.random.default_rng(7)
CONSTRUCTS: list[Construct] = []


def floats(*shape: int) -> Any:
    """Numbers away from the kinks at 0 and from one another."""
    count = int(np.prod(shape))
    spread = np.linspace(-1.8, 1.9, count) + _rng.uniform(-0.2, 0.2, count) / max(count, 1)
    return _rng.permutation(spread).reshape(shape)


def positive(*shape: int) -> Any:
    return _rng.uniform(0.4, 1.8, shape)


def ints(high: int, *shape: int) -> Any:
    return _rng.integers(0, high, shape)


def add(
    name: str,
    text: str,
    meaning: Callable[..., Any],
    *rows: str,
    mode: str = "inference",
    order: int = 2,
    settings: Values | None = None,
    **values: Any,
) -> None:
    CONSTRUCTS.append(Construct(name, text.strip() + "\n", values, meaning, rows, mode, order, settings or {}))


def softmax(x: Any, axis: int = -1) -> Any:
    return scipy.special.softmax(x, axis)


# ---- implied sums ---------------------------------------------------------------------------------------

add(
    "an absent index is summed in its term only",
    """
fn f(x: f64[N, I], W: f64[I, O], b: f64[O]) -> y: [N, O]:
    y[n, o] = x[n, i] * W[i, o] + b[o]
""",
    lambda x, W, b: x @ W + b,
    "P14",
    "P15",
    x=floats(3, 4),
    W=floats(4, 2),
    b=floats(2),
)
add(
    "each term has its own sum",
    """
fn f(x: f64[N, K], y: f64[N, K]) -> z: [N]:
    z[n] = x[n, k] * y[n, k] - 2 * x[n, k] + y[n, k] * y[n, k]
""",
    lambda x, y: (x * y).sum(1) - 2 * x.sum(1) + (y * y).sum(1),
    x=floats(3, 4),
    y=floats(3, 4),
)
add(
    "a contraction goes into a function",
    """
fn f(x: f64[N, I], W: f64[I, O]) -> y: [N, O]:
    y[n, o] = sigmoid(x[n, i] * W[i, o])
""",
    lambda x, W: scipy.special.expit(x @ W),
    x=floats(3, 4),
    W=floats(4, 2),
)
add(
    "several factors and several sums",
    """
fn f(a: f64[I, J], b: f64[J, K], c: f64[K, L]) -> y: [I, L]:
    y[i, l] = a[i, j] * b[j, k] * c[k, l]
""",
    lambda a, b, c: a @ b @ c,
    "P14",
    a=floats(2, 3),
    b=floats(3, 4),
    c=floats(4, 2),
)
add(
    "a trace, a diagonal and an outer product",
    """
fn f(A: f64[K, K], x: f64[K], y: f64[M]) -> (t: [], d: [K], o: [K, M], q: []):
    t = A[k, k]
    d[k] = A[k, k]
    o[k, m] = x[k] * y[m]
    q = x[i] * A[i, j] * x[j]
""",
    lambda A, x, y: {"t": np.trace(A), "d": np.diag(A), "o": np.outer(x, y), "q": x @ A @ x},
    "P08",
    A=floats(3, 3),
    x=floats(3),
    y=floats(2),
)
add(
    "an absent index broadcasts",
    """
fn f(x: f64[N, K], b: f64[K], c: f64[N]) -> (y: [N, K], r: [4, K]):
    y[n, k] = x[n, k] + b[k] * c[n]
    r[m: 4, k] = b[k]
""",
    lambda x, b, c: {"y": x + np.outer(c, b), "r": np.tile(b, (4, 1))},
    "P05",
    x=floats(2, 3),
    b=floats(3),
    c=floats(2),
)
add(
    "whole tensors",
    """
fn f(x: f64[N, K], y: f64[N, K], s: f64[]) -> (z: [N, K], w: [N, K]):
    z = s * x + tanh(y) / 2 - 1
    w[n, :] = x[n, :] * exp(y[n, :])
""",
    lambda x, y, s: {"z": s * x + np.tanh(y) / 2 - 1, "w": x * np.exp(y)},
    "P06",
    "P17",
    "P18",
    x=floats(2, 3),
    y=floats(2, 3),
    s=floats(1)[0],
)
add(
    "einsum",
    """
fn f(A: f64[B, I, K], C: f64[B, K, I]) -> (p: [B, I, I], t: [B]):
    p = einsum("bik,bkj->bij", A, C)
    t = einsum("bik,bki->b", A, C)
""",
    lambda A, C: {"p": A @ C, "t": np.trace(A @ C, axis1=1, axis2=2)},
    "P27",
    "P29",
    A=floats(2, 3, 4),
    C=floats(2, 4, 3),
)

# ---- reductions -----------------------------------------------------------------------------------------

add(
    "sum, mean, prod, max, min",
    """
fn f(x: f64[N, H, W]) -> (s: [N], m: [N], p: [N, H], top: [N], low: [W], all_of_it: []):
    s[n] = sum[h, w](x[n, h, w]^2)
    m[n] = mean[h, w](x[n, h, w])
    p[n, h] = prod[w](x[n, h, w])
    top[n] = max[...](x[n, ...])
    low[w] = min[n, h](x[n, h, w])
    all_of_it = sum(x)
""",
    lambda x: {
        "s": (x**2).sum((1, 2)),
        "m": x.mean((1, 2)),
        "p": x.prod(2),
        "top": x.max((1, 2)),
        "low": x.min((0, 1)),
        "all_of_it": x.sum(),
    },
    "P21",
    x=floats(2, 3, 4),
)
add(
    "prod with zeros",
    """
fn f(x: f64[N, K]) -> y: [N]:
    y[n] = prod[k](x[n, k])
""",
    lambda x: x.prod(1),
    x=np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [1.0, 2.0, -3.0]]),
)
add(
    "argmax, argmin, any, all",
    """
fn f(x: f64[N, K]) -> (a: i64[N], b: i64[N], c: bool[N], d: bool[]):
    a[n] = argmax[k](x[n, k])
    b[n] = argmin[k](x[n, k])
    c[n] = any[k](x[n, k] > 1.5)
    d = all[n, k](x[n, k] > -5)
""",
    lambda x: {"a": x.argmax(1), "b": x.argmin(1), "c": (x > 1.5).any(1), "d": (x > -5).all()},
    order=0,
    x=floats(3, 4),
)
add(
    "argmax of ties takes the first",
    """
fn f(x: f64[N, K]) -> y: i64[N]:
    y[n] = argmax[k](x[n, k])
""",
    lambda x: [1, 0],
    order=0,
    x=np.array([[0.0, 3.0, 3.0], [1.0, 1.0, 1.0]]),
)
add(
    "a reduction inside a reduction",
    """
fn f(x: f64[N, K]) -> y: []:
    y = sum[n](max[k](x[n, k]) * mean[k](x[n, k]^2))
""",
    lambda x: (x.max(1) * (x**2).mean(1)).sum(),
    x=floats(3, 4),
)
add(
    "a reduction before its argument",
    """
fn centred[k](x) = mean[k](x) - x

fn f(x: f64[N, K]) -> (y: [N, K], z: []):
    y[n, k] = centred[k](x[n, k])
    z = sum[n, k](centred[k](x[n, k]) * n)
""",
    lambda x: {"y": x.mean(1, keepdims=True) - x, "z": ((x.mean(1, keepdims=True) - x) * np.arange(3)[:, None]).sum()},
    x=floats(3, 4),
)
add(
    "functions with an axis",
    """
fn share[k](x) = abs(x) / sum[k](abs(x))

fn f(x: f64[N, K]) -> (p: [N, K], l: [N, K], z: [N], v: [N], s: [N, K]):
    p[n, k] = softmax[k](x[n, k])
    l[n, k] = log_softmax[k](x[n, k])
    z[n] = logsumexp[k](x[n, k])
    v[n] = var[k](x[n, k])
    s[n, k] = share[k](x[n, k])
""",
    lambda x: {
        "p": softmax(x),
        "l": scipy.special.log_softmax(x, -1),
        "z": scipy.special.logsumexp(x, -1),
        "v": x.var(1),
        "s": abs(x) / abs(x).sum(1, keepdims=True),
    },
    "L27",
    "L41",
    x=floats(3, 4),
)

# ---- index expressions ----------------------------------------------------------------------------------

add(
    "affine reads take the largest range",
    """
fn f(x: f64[N, T]) -> (next: [N, T - 1], valid: [N], late: [N, 2]) where T >= 2:
    next[n, t] = x[n, t + 1]
    valid[n] = mean[t](x[n, t + 1]^2)
    late[n, t] = x[n, T - 2 + t] where t = 2
""",
    lambda x: {"next": x[:, 1:], "valid": (x[:, 1:] ** 2).mean(1), "late": x[:, -2:]},
    "P02",
    x=floats(2, 5),
)
for _length in (6, 7):
    add(
        f"pooling over an axis of {_length}",
        """
fn f(x: f64[N, T]) -> y: [N, T // 2] where T >= 2:
    y[n, p] = max[a: 2](x[n, 2*p + a])
""",
        lambda x: np.stack([x[:, 2 * p : 2 * p + 2].max(1) for p in range(x.shape[1] // 2)], 1),
        x=floats(2, _length),
    )
add(
    "a convolution",
    """
fn f(x: f64[N, T, C], K: f64[3, C, O]) -> y: [N, T - 2, O] where T > 2:
    y[n, t, o] = x[n, t + a, c] * K[a, c, o]
""",
    lambda x, K: sum(x[:, a : a + 4] @ K[a] for a in range(3)),
    "7.17",
    "8.07",
    x=floats(2, 6, 2),
    K=floats(3, 2, 3),
)
add(
    "outside: else, wrap, clamp",
    """
fn f(x: f64[N, T], b: f64[N]) -> (shifted: [N, T], other: [N, T], ring: [N, T], edge: [N, T]):
    shifted[n, t] = (x[n, t - 1] else 0)
    other[n, t] = exp((x[n, t + 2] else b[n]))
    ring[n, t] = x[n, wrap(t + 2)] * x[n, wrap(t - 1)]
    edge[n, t] = (x[n, clamp(t - 1)]^2 + x[n, t] + x[n, clamp(t + 1)]) / 3
""",
    lambda x, b: {
        "shifted": np.pad(x, ((0, 0), (1, 0)))[:, :-1],
        "other": np.exp(np.concatenate([x[:, 2:], b[:, None], b[:, None]], 1)),
        "ring": np.roll(x, -2, 1) * np.roll(x, 1, 1),
        "edge": (np.pad(x, ((0, 0), (1, 1)), "edge")[:, :-2] ** 2 + x + np.pad(x, ((0, 0), (1, 1)), "edge")[:, 2:]) / 3,
    },
    x=floats(2, 5),
    b=floats(2),
)
add(
    "ends and flips",
    """
fn f(x: f64[N, T]) -> (first: [N], last: [N], back: [N, T], also: [N, T]):
    first[n] = x[n, 0]^2
    last[n] = x[n, T-1]
    back[n, t] = x[n, T-1-t] * x[n, t]
    also = x[:, ::-1]
""",
    lambda x: {"first": x[:, 0] ** 2, "last": x[:, -1], "back": x[:, ::-1] * x, "also": x[:, ::-1]},
    "P02",
    x=floats(2, 5),
)
add(
    "slices",
    """
fn f(x: f64[N, T]) -> (tail: [N, T - 1], second: [N, (T + 1) // 2], dot: [], middle: [N, 2]) where T >= 4:
    tail = x[:, 1:T] * x[:, 0:T-1]
    second = x[:, ::2]
    dot = sum(x[:, 0:T-1] * x[:, 0:T-1])
    middle = x[:, 1:3]
""",
    lambda x: {"tail": x[:, 1:] * x[:, :-1], "second": x[:, ::2], "dot": (x[:, :-1] ** 2).sum(), "middle": x[:, 1:3]},
    "P02",
    x=floats(2, 5),
)
add(
    "a sum over part of an axis",
    """
fn f(x: f64[T], w: f64[T]) -> y: [] where T >= 2:
    y = sum(x[0:T-1] * w[0:T-1])
""",
    lambda x, w: (x * w)[:-1].sum(),
    x=floats(5),
    w=floats(5),
)
add(
    "groups",
    """
fn f(x: f64[N, C, H, W]) -> (patch: [N, (H / 2) * (W / 2), 4 * C], back: [N, C, H, W]) where H % 2 == 0, W % 2 == 0:
    patch[n, (h w), (a b c)] = x[n, c, (h a), (w b)]^2 where a = 2, b = 2
    back[n, c, (h a), (w b)] = patch[n, (h w), (a b c)] where a = 2, b = 2, h = H / 2
""",
    lambda x: {"patch": (x**2).reshape(2, 3, 2, 2, 3, 2).transpose(0, 2, 4, 3, 5, 1).reshape(2, 6, 12), "back": x**2},
    "P30",
    x=floats(2, 3, 4, 6),
)
add(
    "a gather",
    """
fn f(E: f64[V, K], token: i32[N, T] < V) -> y: [N, T, K]:
    y[n, t, k] = E[token[n, t], k]^2
""",
    lambda E, token: E[token] ** 2,
    "P02",
    "8.22",
    "10.37",
    E=floats(4, 3),
    token=ints(4, 2, 5),
)
add(
    "a gather that may miss",
    """
fn f(E: f64[V, K], place: i32[N]) -> (y: [N, K], c: [N, K], w: [N, K]):
    y[n, k] = (E[place[n], k] else 0)^2
    c[n, k] = E[clamp(place[n]), k]
    w[n, k] = E[wrap(place[n]), k]
""",
    lambda E, place: {
        "y": np.where(((place >= 0) & (place < 4))[:, None], E[place.clip(0, 3)], 0) ** 2,
        "c": E[place.clip(0, 3)],
        "w": E[place % 4],
    },
    E=floats(4, 3),
    place=np.array([-2, 0, 3, 4, 9, 3]),
)
add(
    "a gather from a matrix",
    """
fn f(x: f64[N, K], label: i32[N] < K) -> y: []:
    y = mean[n](logsumexp[k](x[n, k]) - x[n, label[n]])
""",
    lambda x, label: (scipy.special.logsumexp(x, 1) - x[np.arange(3), label]).mean(),
    x=floats(3, 4),
    label=ints(4, 3),
)


def _scattered(z: Any, src: Any, dst: Any, w: Any) -> Values:
    y, top, low = np.zeros_like(z), np.full_like(z, -np.inf), np.full_like(z, np.inf)
    for m in range(len(src)):
        y[dst[m]] += w[m] * z[src[m]]
        top[dst[m]] = np.maximum(top[dst[m]], z[src[m]] * w[m])
        low[dst[m]] = np.minimum(low[dst[m]], z[src[m]] * w[m])
    return {"y": y, "top": np.where(np.isinf(top), 0, top), "low": np.where(np.isinf(low), 0, low)}


add(
    "scatter +=, max=, min=",
    """
fn f(z: f64[V, O], src: i32[M] < V, dst: i32[M] < V, w: f64[M]) -> (y: [V, O], top: [V, O], low: [V, O]):
    y[dst[m], o] += w[m] * z[src[m], o]
    t[dst[m], o] max= w[m] * z[src[m], o]
    l[dst[m], o] min= w[m] * z[src[m], o]
    top[v, o] = t[v, o] if isfinite(t[v, o]) else 0
    low[v, o] = l[v, o] if isfinite(l[v, o]) else 0
""",
    _scattered,
    "12.44",
    z=floats(4, 2),
    src=np.array([0, 1, 1, 3, 0]),
    dst=np.array([2, 2, 0, 2, 0]),
    w=positive(5),
)
add(
    "+= onto an earlier value",
    """
fn f(x: f64[V, K], y: f64[V, K], at: i32[M] < V, d: f64[M, K]) -> z: [V, K]:
    z = 2 * x
    z += y
    z[at[m], k] += d[m, k]^2
""",
    lambda x, y, at, d: 2 * x + y + np.eye(3)[at].T @ d**2,
    x=floats(3, 2),
    y=floats(3, 2),
    at=np.array([0, 2, 2, 0]),
    d=floats(4, 2),
)
add(
    "indices and sizes as numbers",
    """
fn f(x: f64[T, S]) -> (past: [T, S], ramp: [T], scaled: [T, S]):
    past[t, s] = x[t, s] if s <= t else -1
    ramp[t: T] = t / T
    scaled[t, s] = x[t, s] * t / (S + T) + s^2
""",
    lambda x: {
        "past": np.where(np.tri(4, 3) > 0, x, -1),
        "ramp": np.arange(4) / 4,
        "scaled": x * np.arange(4)[:, None] / 7 + np.arange(3) ** 2,
    },
    x=floats(4, 3),
)

# ---- along an axis --------------------------------------------------------------------------------------

add(
    "cumsum, cumprod, cummax, cummin",
    """
fn f(x: f64[N, T]) -> (s: [N, T], p: [N, T], a: [N, T], b: [N, T]):
    s[n, t] = cumsum[t](x[n, t]^2)
    p[n, t] = cumprod[t](x[n, t])
    a[n, t] = cummax[t](x[n, t])
    b[n, t] = cummin[t](x[n, t])
""",
    lambda x: {
        "s": (x**2).cumsum(1),
        "p": x.cumprod(1),
        "a": np.maximum.accumulate(x, 1),
        "b": np.minimum.accumulate(x, 1),
    },
    x=floats(2, 5),
)
add(
    "sort, argsort, top_k",
    """
fn f(x: f64[N, T]) -> (s: [N, T], o: i64[N, T], v: [N, 2], p: i64[N, 2]) where T >= 2:
    s[n, t] = sort[t](x[n, t]^2)
    o[n, t] = argsort[t](x[n, t])
    v[n, j], p[n, j] = top_k[t -> j: 2](x[n, t])
""",
    lambda x: {
        "s": np.sort(x**2, 1),
        "o": np.argsort(x, 1),
        "v": -np.sort(-x, 1)[:, :2],
        "p": np.argsort(-x, 1)[:, :2],
    },
    x=floats(2, 5),
)
add(
    "concat and stacking",
    """
fn f(a: f64[N, S], b: f64[N, T], c: f64[]) -> (long: [N, 1 + S + T], pair: [N, 2]):
    long[n, t] = concat[t](c, a[n, t], b[n, t]^2)
    pair[n, r] = concat[r](sum[s](a[n, s]), sum[t](b[n, t]))
""",
    lambda a, b, c: {
        "long": np.concatenate([np.full((2, 1), c), a, b**2], 1),
        "pair": np.stack([a.sum(1), b.sum(1)], 1),
    },
    a=floats(2, 3),
    b=floats(2, 4),
    c=floats(1)[0],
)
add(
    "one_hot",
    """
fn f(x: f64[K], label: i32[N] < K) -> y: [N, K]:
    y[n, k] = one_hot[k: K](label[n]) * x[k]
""",
    lambda x, label: np.eye(4)[label] * x,
    "L23",
    "8.21",
    x=floats(4),
    label=ints(4, 3),
)


def _linear(decay: Any, x: Any) -> Any:
    h = np.zeros_like(x)
    for t in range(x.shape[1]):
        h[:, t] = x[:, t] + (decay[:, t] * h[:, t - 1] if t else 0)
    return h


add(
    "prefix with an operator",
    """
fn after(a1, b1, a2, b2) -> (a, b):
    a = a1 * a2
    b = a2 * b1 + b2

fn f(decay: f64[N, T, K], x: f64[N, T, K]) -> h: [N, T, K]:
    d[n, t, :], h[n, t, :] = prefix[t](after, decay[n, t, :], x[n, t, :])
""",
    _linear,
    "13.38",
    decay=positive(2, 4, 3),
    x=floats(2, 4, 3),
)
add(
    "prefix that would divide by 0 before the start",
    """
fn ratio(a, b) -> c:
    c = b / a + a

fn f(x: f64[T]) -> y: [T]:
    y[t] = prefix[t](ratio, x[t])
""",
    lambda x: np.array([x[0], x[1] / x[0] + x[0], x[2] / (x[1] / x[0] + x[0]) + x[1] / x[0] + x[0]]),
    x=positive(3),
)
add(
    "fft and ifft",
    """
fn f(x: f64[N, T]) -> (re: [N, T], im: [N, T], y: [N, T]):
    re[n, f], im[n, f] = fft[t -> f](x[n, t])
    y[n, t], rest[n, t] = ifft[f -> t](re[n, f] * f, im[n, f]^2)
""",
    lambda x: {
        "re": np.fft.fft(x).real,
        "im": np.fft.fft(x).imag,
        "y": np.fft.ifft(np.fft.fft(x).real * np.arange(5) + 1j * np.fft.fft(x).imag ** 2).real,
    },
    x=floats(2, 5),
)

# ---- selects --------------------------------------------------------------------------------------------

add(
    "selects and logic",
    """
fn f(x: f64[N], y: f64[N]) -> z: [N]:
    inside[n] = x[n] >= -1 and x[n] <= 1 or not y[n] < 0
    z[n] = x[n] * y[n] if inside[n] else x[n]^2 if y[n] > -1 else y[n]
""",
    lambda x, y: np.where(((x >= -1) & (x <= 1)) | ~(y < 0), x * y, np.where(y > -1, x**2, y)),
    x=floats(7),
    y=floats(7),
)

# ---- scans ----------------------------------------------------------------------------------------------


def _cell(x: Any, W: Any, U: Any) -> Any:
    h = np.zeros((x.shape[0], x.shape[1], U.shape[0]))
    for t in range(x.shape[1]):
        h[:, t] = np.tanh(x[:, t] @ W + (h[:, t - 1] if t else 0 * h[:, 0]) @ U)
    return h


add(
    "a recurrence",
    """
fn f(x: f64[N, T, I], W: f64[I, K], U: f64[K, K]) -> h: [N, T, K]:
    scan t:
        z[n, k] = x[n, t, i] * W[i, k] + h[n, t-1, j] * U[j, k]
        h[n, t, k] = tanh(z[n, k])
    start h = 0
""",
    _cell,
    "13.10",
    x=floats(2, 4, 3),
    W=floats(3, 2),
    U=floats(2, 2),
)


def _backwards(x: Any, h0: Any) -> Any:
    back, h = np.zeros_like(x), h0
    for t in reversed(range(x.shape[1])):
        h = back[:, t] = np.sin(h) * x[:, t] + 0.1 * x[:, t] * t
    return back


add(
    "a reversed recurrence with a start",
    """
fn f(x: f64[N, T, K], h0: f64[N, K]) -> back: [N, T, K]:
    scan t reversed:
        back[n, t, k] = sin(back[n, t+1, k]) * x[n, t, k] + 0.1 * x[n, t, k] * t
    start back[n, k] = h0[n, k]
""",
    _backwards,
    x=floats(2, 4, 3),
    h0=floats(2, 3),
)


def _pair(x: Any, a0: Any, b0: Any) -> Values:
    a, b = [a0], [b0]
    for t in range(len(x)):
        a.append(a[-1] * b[-1] + x[t])
        b.append(np.cos(a[-1]) + 0.5 * b[-1])
    return {"a": np.array(a[1:]), "b": np.array(b[1:])}


add(
    "several carried values",
    """
fn f(x: f64[T], a0: f64[], b0: f64[]) -> (a: [T], b: [T]):
    scan t:
        a[t] = a[t-1] * b[t-1] + x[t]
        b[t] = cos(a[t]) + 0.5 * b[t-1]
    start a = a0
    start b = b0
""",
    _pair,
    x=floats(4),
    a0=floats(1)[0],
    b0=floats(1)[0],
)


def _fibonacci(x: Any, w: Any) -> Any:
    y = [0.5] * 3
    for t in range(len(x)):
        y.append(w[0] * y[-1] + w[1] * y[-3] * x[t])
    return np.array(y[3:])


add(
    "lags of more than one step",
    """
fn f(x: f64[T], w: f64[2]) -> y: [T]:
    scan t:
        y[t] = w[0] * y[t-1] + w[1] * y[t-3] * x[t]
    start y = 0.5
""",
    _fibonacci,
    x=floats(6),
    w=positive(2),
)


def _nested(x: Any) -> Any:
    total, before = [], 0.3
    for t in range(x.shape[0]):
        inner, now = [], before
        for s in range(x.shape[1]):
            now = np.tanh(now * x[t, s]) + x[t, s] * s
            inner.append(now)
        before = np.sin(before + sum(inner))
        total.append(before)
    return np.array(total)


add(
    "a scan inside a scan",
    """
fn inner(x: [S], h: []) -> y: []:
    scan s:
        z[s] = tanh(z[s-1] * x[s]) + x[s] * s
    start z = h
    y = sum(z)

fn f(x: f64[T, S]) -> y: [T]:
    scan t:
        r = x[t, :]
        b = y[t-1]
        y[t] = sin(b + inner(r, b))
    start y = 0.3
""",
    _nested,
    x=floats(3, 4),
)
add(
    "a scan over a given range, and shifted reads",
    """
fn f(x: f64[T]) -> (p: [4], y: [T]):
    scan s in 0..4:
        p[s] = p[s-1] * x[0] + s
    start p = 1
    scan t:
        y[t] = 0.5 * y[t-1] + (x[t-1] else 0) * x[t] + (x[t+1] else 2)
    start y = 0
""",
    lambda x: _powers(x),
    x=floats(5),
)


def _powers(x: Any) -> Values:
    p, y = [1.0], [0.0]
    for s in range(4):
        p.append(p[-1] * x[0] + s)
    for t in range(len(x)):
        before = x[t - 1] if t else 0.0
        after = x[t + 1] if t + 1 < len(x) else 2.0
        y.append(0.5 * y[-1] + before * x[t] + after)
    return {"p": np.array(p[1:]), "y": np.array(y[1:])}


add(
    "an affine read of the scanned axis",
    """
fn f(x: f64[T], w: f64[2]) -> y: [T // 2] where T >= 2:
    scan t in 0..T // 2:
        y[t] = 0.5 * y[t-1] + sum[a: 2](x[2*t + a] * w[a])
    start y = 0
""",
    lambda x, w: np.array([x[0:2] @ w, 0.5 * (x[0:2] @ w) + x[2:4] @ w]),
    x=floats(5),
    w=floats(2),
)
add(
    "a gather inside a scan",
    """
fn f(E: f64[V, K], token: i32[T] < V) -> h: [T, K]:
    scan t:
        h[t, k] = tanh(h[t-1, k] + E[token[t], k])
    start h = 0
""",
    lambda E, token: _chain(E[token]),
    E=floats(3, 2),
    token=np.array([0, 2, 2, 1]),
)


def _chain(x: Any) -> Any:
    h = [np.zeros(x.shape[1])]
    for row in x:
        h.append(np.tanh(h[-1] + row))
    return np.array(h[1:])


add(
    "a guarded gather inside a scan",
    """
fn f(E: f64[V, K], token: i32[T]) -> h: [T, K]:
    scan t:
        h[t, k] = tanh(h[t-1, k] + (E[token[t] - 1, k] else 0))
    start h = 0
""",
    lambda E, token: _chain(np.where(((token >= 1) & (token < 4))[:, None], E[(token - 1).clip(0, 2)], 0)),
    E=floats(3, 2),
    token=np.array([0, 2, 9, 1]),
)

# ---- functions and mapping ------------------------------------------------------------------------------

add(
    "a function mapped over indices",
    """
fn inner(x: [T, E], s: []) -> y: [E]:
    y[e] = s * sum[t](x[t, e] * softmax[t](x[t, e]))

fn f(x: f64[N, V, T, E], s: f64[V]) -> y: [N, V, E]:
    y[n, v, :] = inner(x[n, v, :, :], s[v])
""",
    lambda x, s: s[None, :, None] * (x * softmax(x, 2)).sum(2),
    x=floats(2, 3, 4, 2),
    s=floats(3),
)
add(
    "a scan mapped over indices",
    """
fn inner(x: [T, E]) -> y: [T, E]:
    scan t:
        y[t, e] = tanh(y[t-1, e] + x[t, e])
    start y = 0

fn f(x: f64[N, T, E]) -> y: [N, T, E]:
    y[n, :, :] = inner(x[n, :, :])
""",
    lambda x: np.stack([_chain(row) for row in x]),
    x=floats(2, 4, 3),
)
add(
    "a derivative by hand",
    """
fn scaled_tanh(x, a) -> y:
    s = tanh(a * x)
    y = s
    backward (dy) -> (dx, da):
        dx = dy * a * (1 - s^2)
        da = dy * x * (1 - s^2)

fn f(x: f64[N], a: f64[N]) -> y: [N]:
    y[n] = scaled_tanh(x[n], a[n])
""",
    lambda x, a: np.tanh(a * x),
    "A55",
    x=floats(4),
    a=floats(4),
)
add(
    "a derivative by hand inside a scan",
    """
fn bent(x) -> y:
    s = tanh(x)
    y = s * x
    backward (dy) -> dx:
        dx = dy * (s + x * (1 - s^2))

fn f(x: f64[T], w: f64[]) -> h: [T]:
    scan t:
        h[t] = bent(w * h[t-1] + x[t])
    start h = 0.2
""",
    lambda x, w: _bent(x, w),
    "A55",
    x=floats(4),
    w=floats(1)[0],
)


def _bent(x: Any, w: Any) -> Any:
    h = [0.2]
    for value in x:
        z = w * h[-1] + value
        h.append(np.tanh(z) * z)
    return np.array(h[1:])


add(
    "derivatives inside a spec",
    """
fn f(x: f64[K], W: f64[K, O], v: f64[K]) -> (slope: [K], along: [O], back: [K], full: [O, K], second: [K, K]):
    y[o] = tanh(x[k] * W[k, o])
    energy = sum[o](y[o]^2)
    slope = grad(energy, x)
    along = jvp(y, x, v)
    back = vjp(y, x, y)
    full = jacobian(y, x)
    second = hessian(energy, x)
""",
    lambda x, W, v: _derivatives(x, W, v),
    "P35",
    "P37",
    "A26",
    "A27",
    "A29",
    "A34",
    "A35",
    "A37",
    x=floats(3),
    W=floats(3, 2),
    v=floats(3),
)


def _derivatives(x: Any, W: Any, v: Any) -> Values:
    y = np.tanh(x @ W)
    slope = 1 - y**2
    full = slope[:, None] * W.T
    curvature = 2 * slope**2 - 4 * y**2 * slope
    return {"slope": 2 * y @ full, "along": full @ v, "back": y @ full, "full": full, "second": (W * curvature) @ W.T}


# ---- matrices -------------------------------------------------------------------------------------------

_A = floats(2, 3, 3) + 4 * np.eye(3)
_S = np.eye(3) + 0.3 * (lambda m: m @ np.swapaxes(m, -1, -2))(floats(2, 3, 3))

add(
    "solve, inv, det, logdet",
    """
fn f(A: f64[N, K, K], b: f64[N, K], B: f64[N, K, M]) -> (x: [N, K], X: [N, K, M], i: [N, K, K], d: [N], l: [N]):
    x[n, :] = solve(A[n, :, :], b[n, :])
    X[n, :, :] = solve(A[n, :, :], B[n, :, :])
    i[n, :, :] = inv(A[n, :, :])
    d[n] = det(A[n, :, :])
    l[n] = logdet(A[n, :, :])
""",
    lambda A, b, B: {
        "x": np.linalg.solve(A, b[..., None])[..., 0],
        "X": np.linalg.solve(A, B),
        "i": np.linalg.inv(A),
        "d": np.linalg.det(A),
        "l": np.log(np.linalg.det(A)),
    },
    "P20",
    A=_A,
    b=floats(2, 3),
    B=floats(2, 3, 2),
)
add(
    "matexp",
    """
fn f(A: f64[N, K, K]) -> y: [N, K, K]:
    y[n, :, :] = matexp(A[n, :, :])
""",
    lambda A: np.stack([scipy.linalg.expm(a) for a in A]),
    "P19",
    A=floats(2, 3, 3),
)
add(
    "cholesky of a symmetric matrix",
    """
fn f(R: f64[N, K, K]) -> y: [N, K, K]:
    S[n, i, j] = R[n, i, k] * R[n, j, k] + (3 if i == j else 0)
    y[n, :, :] = cholesky(S[n, :, :])
""",
    lambda R: np.linalg.cholesky(R @ R.swapaxes(1, 2) + 3 * np.eye(3)),
    R=floats(2, 3, 3),
)
add(
    "eigh of a symmetric matrix",
    """
fn f(R: f64[K, K]) -> (value: [K], projection: [K, K]):
    S[i, j] = R[i, j] + R[j, i]
    value, vector = eigh(S)
    projection[i, j] = vector[i, 0] * vector[j, 0]
""",
    lambda R: {"value": np.linalg.eigvalsh(R + R.T), "projection": _first_projection(R + R.T)},
    R=floats(3, 3),
)


def _first_projection(S: Any) -> Any:
    v = np.linalg.eigh(S)[1][:, 0]
    return np.outer(v, v)


def _passes(x: Any, w: Any) -> Any:
    for _ in range(3):
        x = np.sin(x @ w) + 0.5 * x
    return x


add(
    "equal passes of a loop",
    """
fn f(x: f64[N, K], w: f64[K, K]) -> y: [N, K]:
    y = x
    for l in 0..3:
        h[n, j] = sin(y[n, i] * w[i, j])
        y = h + 0.5 * y
""",
    _passes,
    x=floats(2, 3),
    w=floats(3, 3),
)
add(
    "a checkpoint",
    """
fn f(x: f64[T], w: f64[2]) -> y: [T]:
    u[t] = exp(x[t])
    checkpoint:
        a[t] = sin(w[0] * u[t])
        y[t] = a[t] * cumsum[t](a[t]) * w[1]
""",
    lambda x, w: np.sin(w[0] * np.exp(x)) * np.cumsum(np.sin(w[0] * np.exp(x))) * w[1],
    x=floats(4),
    w=positive(2),
)


def _lattice(e: Any, a: Any) -> Any:
    p = np.full(e.shape[1], 0.1)
    for row in e:
        p = (
            row
            + a * np.concatenate([[0.5], p[:-1]]) * p
            + np.roll(p, -1) * 0.3
            + p[np.maximum(np.arange(len(p)) - 2, 0)]
        )
    return p


add(
    "reads outside of an earlier step",
    """
fn f(e: f64[T, L], a: f64[]) -> y: [L]:
    scan t:
        p[t, l] = e[t, l] + a * (p[t-1, l-1] else 0.5) * p[t-1, l] + p[t-1, wrap(l+1)] * 0.3 + p[t-1, clamp(l-2)]
    start p = 0.1
    y[l] = p[T-1, l]
""",
    _lattice,
    e=floats(3, 4),
    a=positive(),
)
add(
    "a fraction outside of whole numbers",
    """
fn f(k: i32[T], x: f64[T]) -> y: [T]:
    y[t] = (k[t-1] else 0.5) * x[t]
""",
    lambda k, x: np.concatenate([[0.5], k[:-1]]) * x,
    k=ints(5, 4),
    x=floats(4),
)
add(
    "one_hot of a known number",
    """
fn f(x: f64[N, 3], c = 1) -> y: [N, 3]:
    y[n, k] = x[n, k] * one_hot[k: 3](c) + one_hot[k: 3](0)
""",
    lambda x: x * np.eye(3)[1] + np.eye(3)[0],
    x=floats(2, 3),
)

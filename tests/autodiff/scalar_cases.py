"""For every scalar operation: how torch computes it, and points inside its domain and away from its kinks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from dslc.autodiff import scalar as d
from dslc.autodiff.reverse import NoDerivative, gradients, ones
from dslc.ir import nodes as ir
from dslc.ir.interpret import Interpreter
from dslc.ir.verify import verify

torch.set_num_threads(1)

Points = tuple[list[float], ...]


@dataclass(frozen=True)
class Case:
    """An operation as IR, as a torch function, and where to compare them."""

    make: Callable[..., ir.Scalar]
    oracle: Callable[..., Any]
    points: Points
    dtype: str = "f64"
    #: relative; torch's trigamma has some nine digits
    tolerance: float = 1e-9


ANY = [-2.3, -0.7, 0.4, 1.9]
OTHER = [0.8, -1.6, 2.7, -0.3]
POSITIVE = [0.2, 0.9, 1.6, 4.2]
UNIT = [-0.9, -0.3, 0.2, 0.8]
ABOVE = [1.2, 1.9, 3.1, 7.0]
GAMMA = [-1.3, -0.4, 0.7, 5.6]


def _op(name: str, oracle: Callable[..., Any], *points: list[float]) -> tuple[str, list[Case]]:
    return name, [Case(lambda *args: ir.op(name, args, "f64"), oracle, points)]


def _power(exponent: float | int) -> Case:
    dtype = "i64" if isinstance(exponent, int) else "f64"
    points = ANY if isinstance(exponent, int) else POSITIVE
    return Case(lambda x: ir.op("^", (x, ir.const(exponent, dtype)), "f64"), lambda x: x**exponent, (points,))


def _less(x: ir.Scalar, y: ir.Scalar) -> ir.Scalar:
    return ir.op("<", (x, y), "bool")


CASES: dict[str, list[Case]] = dict(
    [
        _op("+", torch.add, ANY, OTHER),
        _op("-", torch.sub, ANY, OTHER),
        _op("*", torch.mul, ANY, OTHER),
        _op("/", torch.div, ANY, OTHER),
        _op("neg", torch.neg, ANY),
        _op("exp", torch.exp, ANY),
        _op("exp2", torch.exp2, ANY),
        _op("expm1", torch.expm1, ANY),
        _op("log", torch.log, POSITIVE),
        _op("log2", torch.log2, POSITIVE),
        _op("log10", torch.log10, POSITIVE),
        _op("log1p", torch.log1p, UNIT),
        _op("sqrt", torch.sqrt, POSITIVE),
        _op("rsqrt", torch.rsqrt, POSITIVE),
        _op("abs", torch.abs, ANY),
        _op("sin", torch.sin, ANY),
        _op("cos", torch.cos, ANY),
        _op("tan", torch.tan, UNIT),
        _op("asin", torch.asin, UNIT),
        _op("acos", torch.acos, UNIT),
        _op("atan", torch.atan, ANY),
        _op("atan2", torch.atan2, ANY, OTHER),
        _op("sinh", torch.sinh, ANY),
        _op("cosh", torch.cosh, ANY),
        _op("tanh", torch.tanh, ANY),
        _op("asinh", torch.asinh, ANY),
        _op("acosh", torch.acosh, ABOVE),
        _op("atanh", torch.atanh, UNIT),
        _op("sigmoid", torch.sigmoid, ANY),
        _op("softplus", lambda x: -torch.nn.functional.logsigmoid(-x), ANY),
        _op("relu", torch.relu, ANY),
        _op("erf", torch.erf, ANY),
        _op("erfc", torch.erfc, ANY),
        _op("erfinv", torch.erfinv, UNIT),
        _op("lgamma", torch.lgamma, GAMMA),
        _op("digamma", torch.digamma, GAMMA),
        _op("min", torch.minimum, ANY, OTHER),
        _op("max", torch.maximum, ANY, OTHER),
        _op(
            "clip",
            lambda x, low, high: torch.minimum(torch.maximum(x, low), high),
            [-2.0, 0.3, 2.5, 1.0],
            [-1.0, 0.1, -1.5, 2.0],
            [1.0, 0.9, 1.5, 3.0],
        ),
        _op("pow", torch.pow, POSITIVE, OTHER),
        _op("hypot", torch.hypot, ANY, OTHER),
        _op("stop_grad", lambda x: x.detach(), ANY),
        *(_op(name, getattr(torch, name), ANY) for name in ("sign", "floor", "ceil", "round", "trunc")),
    ]
)
CASES["^"] = [
    *(_power(n) for n in (0, 1, 2, 3, -1, 0.5, -1.5, 2.5)),
    Case(lambda x, y: ir.op("^", (x, y), "f64"), torch.pow, (POSITIVE, OTHER)),
]
CASES["lgamma"] = [replace(case, tolerance=1e-7) for case in CASES["lgamma"]]
CASES["digamma"] = [replace(case, tolerance=1e-7) for case in CASES["digamma"]]
CASES["cast"] = [Case(lambda x: ir.op("cast", (x,), "f64"), lambda x: x * 1, (ANY,), "f32")]
CASES["select"] = [
    Case(
        lambda x, y: ir.op("select", (_less(x, y), ir.op("*", (x, y), "f64"), y), "f64"),
        lambda x, y: torch.where(x < y, x * y, y),
        (ANY, OTHER),
    )
]

Wrap = tuple[Callable[[ir.Scalar], ir.Scalar], Callable[[Any], Any]]

#: functions to compose with: as IR and in torch
OUTER: list[Wrap] = [
    (lambda y: y, lambda y: y),
    (lambda y: ir.op("tanh", (y,), "f64"), torch.tanh),
    (lambda y: ir.op("*", (y, y), "f64"), lambda y: y * y),
]
INNER: list[Wrap] = [
    (lambda u: u, lambda u: u),
    (lambda u: ir.op("sin", (u,), "f64"), torch.sin),
    (lambda u: ir.op("exp", (u,), "f64"), torch.exp),
]


def mismatches(case: Case) -> list[str]:
    """Where value, first and second derivatives of an operation and of its compositions differ from torch's."""
    found: list[str] = []
    for k, (outer, torch_outer) in enumerate(OUTER):
        for j, (inner, torch_inner) in enumerate(INNER):
            if k and j:
                continue
            found += [
                f"outer {k}, inner {j}: {text}" for text in _compare(case, outer, torch_outer, inner, torch_inner)
            ]
    return found


def _compare(case: Case, outer: Any, torch_outer: Any, inner: Any, torch_inner: Any) -> list[str]:
    """Arguments are inner(u) + c, with u anywhere and c such that they lie at the points."""
    count = len(case.points[0])
    rng = np.random.default_rng(1)
    values: dict[str, Any] = {}
    arguments: list[ir.Scalar] = []
    wrt: list[ir.Tensor] = []
    torch_args = []
    torch_wrt = []
    for k, points in enumerate(case.points):
        u = np.asarray(points) if inner is INNER[0][0] else rng.uniform(-1, 1, count)
        shift = np.asarray(points) - torch_inner(torch.tensor(u)).numpy()
        x = ir.intern(ir.Input(f"u{k}", "input", case.dtype, (count,)))
        c = ir.intern(ir.Input(f"c{k}", "input", case.dtype, (count,)))
        values |= {f"u{k}": u, f"c{k}": shift}
        arguments.append(ir.op("+", (inner(ir.whole(x)), ir.whole(c)), case.dtype))
        wrt.append(x)
        variable = torch.tensor(u, requires_grad=True)
        torch_wrt.append(variable)
        torch_args.append(torch_inner(variable) + torch.tensor(shift))
    y = ir.comp((count,), outer(case.make(*arguments)))
    expected = torch_outer(case.oracle(*torch_args))
    machine = Interpreter(values, {})
    found = _differs(case, "value", machine.tensor(y), expected)
    first = gradients({y: ones((count,), "f64")}, wrt)
    verify(first)
    torch_first = _torch_gradients(expected, torch_wrt)
    for k, (mine, theirs) in enumerate(zip(first, torch_first, strict=True)):
        found += _differs(case, f"derivative by argument {k}", machine.tensor(mine), theirs)
        try:
            second = gradients({mine: ones((count,), "f64")}, wrt)
        except NoDerivative as refusal:
            found += [] if refusal.what == "`trigamma`" else [str(refusal)]
            continue
        torch_second = _torch_gradients(theirs, torch_wrt)
        for j, (m, t) in enumerate(zip(second, torch_second, strict=True)):
            found += _differs(case, f"second derivative by arguments {k}, {j}", machine.tensor(m), t)
    return found


def _torch_gradients(y: Any, wrt: list[Any]) -> list[Any]:
    if not y.requires_grad:
        return [torch.zeros_like(x) for x in wrt]
    parts = torch.autograd.grad(y.sum(), wrt, create_graph=True, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(wrt, parts, strict=True)]


def _differs(case: Case, what: str, mine: Any, theirs: Any) -> list[str]:
    expected = theirs.detach().numpy(force=True)
    if np.allclose(mine, expected, rtol=case.tolerance, atol=1e-10):
        return []
    return [f"{what}: {np.asarray(mine).tolist()} instead of {expected.tolist()}"]


def broken(rule: d.Rule) -> d.Rule:
    """A rule that is wrong by a thousandth; one without adjoints gets some."""

    def wrong(y: ir.Op, a: ir.Scalar) -> d.Adjoints:
        parts = rule(y, a)
        if all(part is None for part in parts):
            return tuple(a for _ in parts)
        return tuple(None if part is None else d.mul(part, d.number(1.001)) for part in parts)

    return wrong

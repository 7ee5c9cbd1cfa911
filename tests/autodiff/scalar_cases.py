"""For every scalar operation: it and its derivatives, alone and composed with others, compared with torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dslc.autodiff import scalar as d
from dslc.autodiff.reverse import gradients, ones
from dslc.ir import nodes as ir
from dslc.meaning.interpret import Interpreter
from dslc.ops.record import ScalarOp
from dslc.ops.table import RECORDS
from dslc.passes.verify import verify

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


def _torch(record: ScalarOp) -> Callable[..., Any]:
    """The function of torch that a record names."""
    found: Any = torch
    for part in record.oracle.split(".")[1:]:
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def _case(record: ScalarOp) -> Case:
    name = record.name
    points = tuple(list(p) for p in record.samples)
    # torch's digamma and trigamma have some nine digits
    tolerance = 1e-7 if name in ("lgamma", "digamma") else 1e-9
    return Case(lambda *args: ir.op(name, args, "f64"), _torch(record), points, tolerance=tolerance)


def _power(exponent: float | int) -> Case:
    dtype = "i64" if isinstance(exponent, int) else "f64"
    points = ANY if isinstance(exponent, int) else POSITIVE
    return Case(lambda x: ir.op("^", (x, ir.const(exponent, dtype)), "f64"), lambda x: x**exponent, (points,))


def _less(x: ir.Scalar, y: ir.Scalar) -> ir.Scalar:
    return ir.op("<", (x, y), "bool")


ANY, OTHER, POSITIVE = ([*RECORDS["atan2"].samples[0]], [*RECORDS["atan2"].samples[1]], [*RECORDS["log"].samples[0]])
UNIT, GAMMA = [*RECORDS["atanh"].samples[0]], [*RECORDS["lgamma"].samples[0]]

#: every operation whose result is a float
CASES: dict[str, list[Case]] = {
    name: [_case(r)]
    for name, r in RECORDS.items()
    if r.gives in ("float", "same") and name not in ("cast", "select", "trigamma", "zeta")
}
CASES["^"] = [
    *(_power(n) for n in (0, 1, 2, 3, -1, 0.5, -1.5, 2.5)),
    Case(lambda x, y: ir.op("^", (x, y), "f64"), torch.pow, (POSITIVE, OTHER)),
]
CASES["trigamma"] = [
    Case(lambda x: ir.op("trigamma", (x,), "f64"), lambda x: torch.special.polygamma(1, x), (GAMMA,), tolerance=1e-7)
]
CASES["zeta"] = [
    Case(
        lambda x, s=s: ir.op("zeta", (ir.const(s, "float"), x), "f64"),
        lambda x, s=s: torch.special.zeta(torch.tensor(s, dtype=torch.float64), x),
        (POSITIVE,),
    )
    for s in (2.0, 3.5)
]
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
        second = gradients({mine: ones((count,), "f64")}, wrt)
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

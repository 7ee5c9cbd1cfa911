"""Break each derivative, adjoint and stabilisation in turn, and see that a check notices: `python tests/mutation.py`.

    rule              broken how          noticed by
    derivative of *   1.001 times         value and derivatives against torch
    ...

Exits with 1 if a broken rule goes unnoticed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
for folder in (HERE, HERE / "autodiff", HERE / "stabilise"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import numpy as np  # noqa: E402
from constructs import CONSTRUCTS, Construct  # noqa: E402
from programs import check_gradient, evaluate, unit  # noqa: E402
from scalar_cases import CASES, mismatches  # noqa: E402
from scipy.linalg import hilbert  # noqa: E402
from spelling_table import SPELLINGS  # noqa: E402
from spellings import mistakes  # noqa: E402

from dslc.autodiff import scalar as d  # noqa: E402
from dslc.autodiff.reverse import Reverse  # noqa: E402
from dslc.ir import nodes as ir  # noqa: E402
from dslc.passes.transform import everything  # noqa: E402
from dslc.stabilise import rewriter  # noqa: E402


@dataclass(frozen=True)
class Mutant:
    """A rule, broken in one way, and the check that should notice."""

    rule: str
    how: str
    broken: Callable[[], Any]
    check: Callable[[], str]

    def noticed(self) -> str:
        """What the check says while the rule is broken; empty if it goes unnoticed."""
        with self.broken():
            try:
                return self.check()
            except Exception as failure:  # a program that cannot be made any more is noticed too
                return f"{type(failure).__name__}: {failure}"


# ---- derivatives ------------------------------------------------------------------------------------


def _scaled(parts: d.Adjoints, a: ir.Scalar) -> d.Adjoints:
    return tuple(None if p is None else d.mul(p, d.number(1.001)) for p in parts)


def _turned(parts: d.Adjoints, a: ir.Scalar) -> d.Adjoints:
    return tuple(None if p is None else d.neg(p) for p in parts)


def _moved(parts: d.Adjoints, a: ir.Scalar) -> d.Adjoints:
    return tuple(None if p is None else d.add(p, d.mul(a, d.number(0.001))) for p in parts)


def _leaking(parts: d.Adjoints, a: ir.Scalar) -> d.Adjoints:
    return tuple(a for _ in parts)


def _without(k: int) -> Callable[[d.Adjoints, ir.Scalar], d.Adjoints]:
    return lambda parts, a: tuple(None if i == k else p for i, p in enumerate(parts))


def _ways(name: str) -> dict[str, Callable[[d.Adjoints, ir.Scalar], d.Adjoints]]:
    """How to break the derivative of an operation."""
    if name == "stop_grad":
        return {"lets pass": _leaking}
    ways = {"1.001 times": _scaled, "other sign": _turned, "0.001 more": _moved}
    count = max(len(case.points) for case in CASES[name])
    first = name in ("select", "zeta")  # their first argument has none
    return ways | {f"none by argument {k}": _without(k + first) for k in range(count)}


def derivatives() -> Iterator[Mutant]:
    for name, rule in d.RULES.items():
        for how, change in _ways(name).items():

            @contextmanager
            def broken(name: str = name, rule: d.Rule = rule, change: Any = change) -> Iterator[None]:
                d.RULES[name] = lambda y, a: change(rule(y, a), a)
                try:
                    yield
                finally:
                    d.RULES[name] = rule

            def check(name: str = name) -> str:
                return next((m for case in CASES[name] for m in mismatches(case)), "")

            yield Mutant(f"derivative of {name}", how, broken, check)


# ---- adjoints of nodes ------------------------------------------------------------------------------


def kind_of(node: ir.Node) -> str:
    """What the adjoint of a node is the rule of; empty where there is none, or where a spec gives it by hand."""
    match node:
        case ir.Comp():
            return node.op or "formula"
        case ir.Scatter():
            return f"scatter {node.op}="
        case ir.Reshape():
            return "grouped axes"
        case ir.Along() | ir.External():
            return node.op
        case ir.Scan():
            return "layers" if node.kind == "layers" else "scan"
        case ir.Custom(rule=ir.Recompute()):
            return "checkpoint"
    return ""


def _kinds() -> dict[str, list[Construct]]:
    """The kinds of nodes that have adjoints, and the constructs that are made of them."""
    found: dict[str, list[Construct]] = {}
    for construct in (c for c in CONSTRUCTS if c.order):
        program = unit(construct.text, construct.mode, **construct.settings)
        for kind in {kind_of(x) for x in everything(program.outputs)}:
            found.setdefault(kind, []).append(construct)
    return {k: found[k] for k in sorted(found) if k not in ("", "any", "all", "argmax", "argmin", "argsort")}


def _larger(part: ir.Tensor) -> ir.Tensor:
    return ir.comp(part.shape, d.mul(ir.whole(part), d.number(1.001)), dtype=part.dtype)


def adjoints() -> Iterator[Mutant]:
    """What each kind of node contributes to its arguments, made wrong and left out."""
    real = Reverse.visit
    for kind, constructs in _kinds().items():
        for how, change in (("1.001 times", _larger), ("left out", None)):

            @contextmanager
            def broken(kind: str = kind, change: Any = change) -> Iterator[None]:
                def visit(self: Reverse, node: ir.Node) -> None:
                    if kind_of(node) != kind:
                        real(self, node)
                        return
                    contribute = self.contribute
                    changed = (lambda x, part: contribute(x, change(part))) if change else (lambda x, part: None)
                    self.contribute = changed  # type: ignore[method-assign]
                    try:
                        real(self, node)
                    finally:
                        del self.contribute  # type: ignore[method-assign]

                Reverse.visit = visit  # type: ignore[method-assign]
                try:
                    yield
                finally:
                    Reverse.visit = real  # type: ignore[method-assign]

            def check(constructs: list[Construct] = constructs) -> str:
                return next(filter(None, map(_slopes, constructs)), "")

            yield Mutant(f"adjoint of {kind}", how, broken, check)


def _slopes(construct: Construct) -> str:
    """What is wrong with the derivatives of a construct."""
    program = unit(construct.text, construct.mode, **construct.settings)
    try:
        check_gradient(program, construct.values, construct.order)
    except AssertionError as failure:
        return f"{construct}: {failure}"
    return ""


# ---- stabilisations ---------------------------------------------------------------------------------


def _absent(rule: rewriter.Rule) -> rewriter.Rule:
    return lambda s: None


def _off(rule: rewriter.Rule) -> rewriter.Rule:
    def changed(s: ir.Op) -> ir.Scalar | None:
        found = rule(s)
        return None if found is None else ir.op("*", (found, ir.const(1.001, found.dtype)), found.dtype)

    return changed


def _constant(rule: rewriter.Rule) -> rewriter.Rule:
    def changed(s: ir.Op) -> ir.Scalar | None:
        found = rule(s)
        return None if found is None else ir.op("stop_grad", (found,), found.dtype)

    return changed


def stabilisations(everything: bool = True) -> Iterator[Mutant]:
    """Each rule left out, made wrong, and without a derivative; on all its spellings, or on the first that notices."""
    names = {rule.__name__ for group in rewriter.RULES.values() for rule in group}
    for name in sorted(names):
        for how, change in (("left out", _absent), ("1.001 times", _off), ("no derivative", _constant)):

            @contextmanager
            def broken(name: str = name, change: Any = change) -> Iterator[None]:
                before = dict(rewriter.RULES)
                for key, group in before.items():
                    rewriter.RULES[key] = tuple(change(r) if r.__name__ == name else r for r in group)
                try:
                    yield
                finally:
                    rewriter.RULES.update(before)

            if name == "log_det":
                yield Mutant(name, how, broken, _determinant)
                continue

            def check(name: str = name) -> str:
                mine = [s for s in SPELLINGS if name in s.rules]
                return next((m for s in mine for m in mistakes(s)), "")

            yield Mutant(name, how, broken, check)
    yield Mutant("solve_for_inverse", "left out", _no_solutions, _residual)


@contextmanager
def _no_solutions() -> Iterator[None]:
    before = rewriter.NODE_RULES
    rewriter.NODE_RULES = ()
    try:
        yield
    finally:
        rewriter.NODE_RULES = before


def _residual() -> str:
    """inv(A) b solves A x = b up to rounding, also for an ill-conditioned matrix."""
    program = unit("fn f(A: f64[I, I], b: f64[I]) -> r: [I]:\n    B = inv(A)\n    r[i] = B[i, j] * b[j]\n")
    a, b = hilbert(9), np.ones(9)
    x = evaluate(program, {"A": a, "b": b}, rewriter.stabilise(program.outputs))["r"]
    error = float(np.abs(a @ x - b).max() / (np.abs(a).max() * np.abs(x).max()))
    return "" if error < 1e-15 else f"a residual of {error:.1e}"


def _determinant() -> str:
    """log(det A) of a matrix whose determinant underflows, and its gradient."""
    from dslc.autodiff.reverse import gradients, ones

    program = unit("fn f(A: f64[I, I]) -> r: []:\n    r = log(det(A))\n")
    out = rewriter.stabilise(program.outputs)
    (slope,) = gradients({out["r"]: ones(())}, [program.inputs["A"]])
    found = evaluate(program, {"A": np.diag([1e-200, 1e-200])}, {**out, "dA": slope})
    right = np.isclose(found["r"], -400 * np.log(10), rtol=1e-12) and np.isclose(found["dA"][0, 0], 1e200, rtol=1e-12)
    return "" if right else f"{found['r']} instead of {-400 * np.log(10)}"


def main() -> int:
    """Print a table of all mutants."""
    unnoticed = 0
    for mutant in (*derivatives(), *adjoints(), *stabilisations()):
        found = mutant.noticed()
        unnoticed += not found
        print(f"{mutant.rule:28} {mutant.how:22} {'noticed' if found else 'NOT NOTICED':12} {found[:90]}", flush=True)
    print(f"{unnoticed} unnoticed")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Stabilisation: every formula of a program rewritten by a table of rules, each with its line of mathematics.

Applied before differentiation, so that gradients are made from the stable forms, and again after it. No rule changes
a value where the plain formula neither overflows nor cancels, none hides a NaN, and none changes a derivative at a
kink. What is stable already stays the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dslc.ir import nodes as ir
from dslc.ir.rewrite import Substitute
from dslc.source import NOWHERE, Span
from dslc.stabilise import complements, logarithms, matrices, moments, softmax

Rule = Callable[[ir.Op], ir.Scalar | None]
NodeRule = Callable[[ir.Comp], ir.Tensor | None]

#: operation -> the rules that look at it, tried in order
RULES: dict[str, tuple[Rule, ...]] = {
    "log": (
        softmax.log_sum_exp, logarithms.log_exp, logarithms.log_sigmoid, logarithms.log_erfc, logarithms.log_cosh,
        logarithms.log_of_difference, logarithms.log_one_plus, logarithms.log_one_minus, logarithms.log_prod,
        logarithms.log_det, logarithms.log_power, logarithms.log_root, logarithms.log_of_product,
    ),
    "log2": (logarithms.log_to_base,),
    "log10": (logarithms.log_to_base,),
    "log1p": (softmax.softplus, logarithms.log1p_expm1, logarithms.log1p_of_negative),
    "exp": (logarithms.exp_log, softmax.exp_of_log_share, moments.root_by_logarithm),
    "+": (complements.one_plus,),
    "-": (
        complements.one_minus, complements.exp_minus_one, complements.centred_sigmoid, complements.hyperbolic_sine,
        softmax.minus_log_sum, moments.covariance,
    ),
    "*": (
        complements.product_of_exponentials, softmax.softmax_by_product, complements.half_of_twice,
        complements.tangent_by_product,
    ),
    "/": (
        complements.hyperbolic_tangent, softmax.logistic, complements.quotient_of_exponentials,
        complements.hyperbolic_secant, softmax.softmax, softmax.softmax_over_product, moments.root_by_quotient,
        complements.half_of_twice,
    ),
    "^": (moments.hypotenuse, moments.norm, softmax.logistic_power, complements.hyperbolic_secant),
    "pow": (moments.hypotenuse, moments.norm, softmax.logistic_power, complements.hyperbolic_secant),
    "sqrt": (moments.hypotenuse, moments.norm),
}  # fmt: skip

#: rules for whole comprehensions
NODE_RULES: tuple[NodeRule, ...] = (matrices.solve_for_inverse,)

#: a rule may make work for another one, but not for ever
ROUNDS = 50


@dataclass(frozen=True)
class Fired:
    """A rule that was used: its name, its line of mathematics, and the part of the spec that it was used on."""

    rule: str
    meaning: str
    span: Span


def stabilise(
    outputs: Mapping[str, ir.Tensor], fired: list[Fired] | None = None, fixed: Sequence[ir.Node] = ()
) -> dict[str, ir.Tensor]:
    """The same outputs in stable form; `fired` collects which rules were used where, `fixed` nodes stay as they are."""
    rewriter = Stabiliser(fired, fixed)
    return {name: rewriter.tensor(node) for name, node in outputs.items()}


class Stabiliser(Substitute):
    """All rules on all bodies, arguments first."""

    def __init__(self, fired: list[Fired] | None = None, fixed: Sequence[ir.Node] = ()) -> None:
        super().__init__({}, plain={x: x for x in fixed}, everywhere=True)
        self.fired = [] if fired is None else fired
        self.stable: dict[ir.Scalar, ir.Scalar] = {}
        self.span: Span = NOWHERE

    def _one(self, node: ir.Node) -> ir.Node:
        outer, made = self.span, self._stable_node(node)
        self.span = outer
        return made

    def _stable_node(self, node: ir.Node) -> ir.Node:
        new = super()._one(node)
        if isinstance(new, ir.Comp):
            self.span = new.span
            body = self.scalar(new.body)
            if body is not new.body:
                made = ir.comp(new.shape, body, new.op, new.reduced, new.name, new.span, new.dtype)
                return self._whole(made) if isinstance(made, ir.Comp) else made
            return self._whole(new)
        if isinstance(new, ir.Scatter):
            self.span = new.span
            body = self.scalar(new.body)
            if body is not new.body:
                return ir.intern(replace(new, body=body))
        return new

    def _whole(self, node: ir.Comp) -> ir.Tensor:
        for rule in NODE_RULES:
            found = rule(node)
            if found is not None:
                self._note(rule)
                return found
        return node

    def scalar(self, root: ir.Scalar) -> ir.Scalar:
        """A body with all rules applied, operands first."""
        stack = [(root, False)]
        while stack:
            s, ready = stack.pop()
            if s in self.stable:
                continue
            if ready:
                self.stable[s] = self._settled(ir.rebuild(s, lambda x: self.stable[x]))
            else:
                stack.append((s, True))
                stack.extend((x, False) for x in ir.operands(s) if x not in self.stable)
        return self.stable[root]

    def _settled(self, s: ir.Scalar, rounds: int = ROUNDS) -> ir.Scalar:
        """Rules until none applies, on what they make too."""
        if not isinstance(s, ir.Op):
            return s
        for rule in RULES.get(s.name, ()):
            found = rule(s)
            if found is not None:
                assert rounds, f"rules run in circles at `{s.name}`: {rule.__name__}"
                self._note(rule)
                return self._made(found, rounds - 1)
        return s

    def _made(self, root: ir.Scalar, rounds: int) -> ir.Scalar:
        """What a rule made: its new parts may be the work of other rules."""
        done: dict[ir.Scalar, ir.Scalar] = {}
        stack = [(root, False)]
        while stack:
            s, ready = stack.pop()
            if s in done:
                continue
            known = self.stable.get(s)
            if known is not None:
                done[s] = known
            elif ready:
                done[s] = self._settled(ir.rebuild(s, lambda x: done[x], self._made_tensor), rounds)
                self.stable[s] = done[s]
            else:
                stack.append((s, True))
                stack.extend((x, False) for x in ir.operands(s) if x not in done)
        return done[root]

    def _made_tensor(self, tensor: ir.Tensor) -> ir.Tensor:
        """A tensor that a rule reads: one of the program, stable already, or a new one."""
        new = self.tensor(tensor)
        self.done.setdefault(new, new)
        return new

    def _note(self, rule: Rule | NodeRule) -> None:
        meaning = " ".join((rule.__doc__ or "").split())
        self.fired.append(Fired(rule.__name__, meaning, self.span))

"""A plan from a seed: some statements of random kinds, outputs, an optimiser."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.pairs import blocks, calculus, networks, positions, recurrences
from tests.pairs.plan import Maker, Plan, Statement, Value, optimizer
from tests.pairs.statements import KINDS
from tests.pairs.switches import on

#: the kinds of before, whose seeds stand for programs that were wrong once
FIRST = tuple(
    k for k, (make, _) in KINDS.items() if make.__module__.rpartition(".")[2] in ("statements", "blocks", "calculus")
)


def plan_of(seed: int, only: str = "", kinds: Sequence[str] = tuple(KINDS)) -> Plan:
    m = Maker(seed)
    rng = m.rng
    chosen = rng.choices(kinds, [KINDS[k][1] for k in kinds], k=rng.choice([1, 1, 2, 2, 3]))
    if only:
        chosen[0] = only
    for name in chosen:
        KINDS[name][0](m)
    if not m.plan.statements:
        KINDS["equation"][0](m)
    p = m.plan
    if not p.all_params() and not on("no train"):
        m.plan.params.append(Value("spare", ("2",)))
        m.add(
            Statement(
                "spare",
                ["extra = sin(spare)"],
                ["extra = torch.sin(spare)"],
                [Value("extra", ("2",))],
                reads=frozenset(["spare"]),
            )
        )
    read = frozenset().union(*(s.needs() for s in p.statements))
    defined = [v for s in p.statements for v in s.defines]
    drawn = set(p.draws())
    p.outputs = [v for v in defined if v.name not in read or v.name in drawn or v.kind != "f" or rng.random() < 0.3]
    p.typed = frozenset(v.name for v in p.outputs if rng.random() < 0.6)
    p.optimizer = rng.choice(["sgd", "sgd", "momentum", "adam", "adamw", "keeper", "ball"])
    p.loss = rng.choice(
        [
            ("mean(sin({}))", "torch.sin({}).mean()"),
            ("sum(cos({}))", "torch.cos({}).sum()"),
            ("mean(tanh({})^2)", "(torch.tanh({}) ** 2).mean()"),
            ("sum(sigmoid({})) / 3", "torch.sigmoid({}).sum() / 3"),
        ]
    )
    p = p.trimmed(p.statements, p.outputs)
    floats = [v.name for v in p.inputs if v.kind == "f" and v.name in p.smooth_needs()]
    if floats and p.float_outputs() and not drawn and rng.random() < 0.3:
        p.by_input = rng.choice(floats)
    p.by_inputs = rng.random() < 0.4
    return p


@optimizer("sgd(lr = 0.1)")
def sgd(w, g, slots, step, norm):
    return w - 0.1 * g, None


@optimizer("momentum(lr = 0.1, decay = 0.8)")
def momentum(w, g, slots, step, norm):
    v = 0.8 * (0 if slots is None else slots) - 0.1 * g
    return w + v, v


@optimizer("adam(lr = 0.01, eps = 1e-3)")
def adam(w, g, slots, step, norm, decay=0.0):
    m, v = (0 * w, 0 * w) if slots is None else slots
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
    m_hat, v_hat = m / (1 - 0.9**step), v / (1 - 0.999**step)
    return w - 0.01 * (m_hat / (np.sqrt(v_hat) + 1e-3) + decay * w), (m, v)


@optimizer("adamw(lr = 0.01, eps = 1e-3, weight_decay = 0.1)")
def adamw(w, g, slots, step, norm):
    return adam(w, g, slots, step, norm, 0.1)


@optimizer(
    "keeper(lr = 0.05 / step)",
    """optimizer keeper(lr = 0.1):
    slot last = 0
    param <- param - lr * grad - lr * last
    last <- grad""",
)
def keeper(w, g, slots, step, norm):
    last = 0 if slots is None else slots
    return w - 0.05 / step * (g + last), g.copy()


@optimizer(
    "ball(lr = 0.1, longest = 0.5)",
    """optimizer ball(lr = 0.01, decay = 0.9, longest = 1.0):
    slot v = 0
    g = grad * min(1, longest / max(grad_norm, 1e-12))
    v <- decay * v - lr * g
    param <- param + v""",
)
def ball(w, g, slots, step, norm):
    v = 0.9 * (0 if slots is None else slots) - 0.1 * g * min(1, 0.5 / max(norm, 1e-12))
    return w + v, v


__all__ = ["blocks", "calculus", "networks", "plan_of", "positions", "recurrences"]

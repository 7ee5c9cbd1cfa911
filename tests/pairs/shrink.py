"""Makes a failing plan small: takes statements out, puts parts of expressions in their place, while it still fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.pairs.compare import Failure, NotComparable, compare
from tests.pairs.expressions import constant
from tests.pairs.plan import Node, Plan


def smaller(plan: Plan) -> Iterator[Plan]:
    for o in plan.outputs:
        if len(plan.outputs) > 1:
            yield plan.trimmed(plan.statements, [p for p in plan.outputs if p is not o])
    for s in plan.statements:
        if len(plan.statements) > 1:
            kept = plan.without(s)
            if kept.outputs:
                yield kept
    if plan.by_input:
        yield replace(plan, by_input="")
    for s in plan.statements:
        for v in s.defines:
            if v not in plan.outputs and v.kind == "f":
                yield plan.trimmed(plan.statements[: plan.statements.index(s) + 1], [v])
        for node in (n for top in s.nodes for n in every(top)):
            for part in node.parts:
                if not node.whole and not part.whole:
                    yield plan.with_node(s, node, part)
            if node.parts and not node.whole:
                yield plan.with_node(s, node, constant("1"))
            elif not node.whole and node.reads:
                yield plan.with_node(s, node, constant("2"))
    for name, values in plan.sizes.items():
        for less in ([1, 1], [values[0], values[0]], [2, 2]):
            if less != values and less[0] >= plan.least[name] and sum(less) < sum(values):
                yield replace(plan, sizes={**plan.sizes, name: less})
    if plan.optimizer != "sgd":
        yield replace(plan, optimizer="sgd")
    if plan.loss[0] != "sum({})":
        yield replace(plan, loss=("sum({})", "{}.sum()"))
    if plan.typed:
        yield replace(plan, typed=frozenset())


def every(node: Node) -> Iterator[Node]:
    yield node
    for part in node.parts:
        yield from every(part)


def shrunk(plan: Plan, failure: Failure, backend: str, dtype: str, tries: int = 400) -> tuple[Plan, Failure]:
    """The smallest plan that was found to fail in the same way."""
    again = True
    while again and tries > 0:
        again = False
        for candidate in smaller(plan):
            tries -= 1
            if tries <= 0:
                break
            try:
                new = compare(candidate, backend, dtype)
            except (NotComparable, Exception):
                continue
            if new is not None and new.kind == failure.kind:
                plan, failure, again = candidate, new, True
                break
    return plan, failure


def report(plan: Plan, failure: Failure, seed: int, backend: str, dtype: str) -> str:
    rule = "-" * 30
    where = (
        f"seed {seed}, {backend}, {dtype}, sizes { ({k: v for k, v in plan.sizes.items() if k in plan.open_sizes()}) }"
    )
    return "\n".join([f"{rule} {where}", plan.spec(), rule, plan.torch(), rule, str(failure), ""])

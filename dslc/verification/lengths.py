"""Checks at a size so long that modules compute in blocks, and on several threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dslc.backends.registry import BACKENDS
from dslc.builder.build import build, build_train
from dslc.ir import nodes as ir
from dslc.meaning.contracting import Contracting, as_product
from dslc.verification import checks
from dslc.verification.allowed import declared
from dslc.verification.backends import Loaded
from dslc.verification.sample import open_sizes

#: operations on single numbers that the interpreter may do for a step, and what a value costs it at least
MOST_WORK, EACH = 2e7, 2e4
TITLE = "the same at a long size"


def work(roots: Sequence[ir.Tensor], sizes: Mapping[str, int]) -> float:
    """About how many operations on single numbers the interpreter does."""
    machine, total = Contracting({}, sizes), 0.0
    stack: list[tuple[ir.Node, float]] = [(node, 1.0) for node in ir.schedule(tuple(roots))]
    while stack:
        node, times = stack.pop()
        if isinstance(node, ir.Scan):
            stack += [(x, times * machine.number(node.length)) for x in ir.inside(node)[0]]
        ranges = (*node.shape, *node.reduced) if isinstance(node, ir.Comp) else getattr(node, "ranges", ())
        elements = 1.0
        for size in ranges:
            elements *= machine.number(size)
        operations = 0.02 if as_product(node) is not None else sum(len(list(ir.scalars(b))) for b in ir.bodies(node))
        total += times * (elements * operations + EACH)
    return total


def long_sizes(subject: checks.Subject, given: Mapping[str, int], lengths: Sequence[int]) -> dict[str, int] | None:
    """The sizes of a subject with one of them as long as the interpreter can do; rows of data before others."""
    model, train = subject.model, subject.train
    units = [build(model, "inference"), *([build_train(train)] if train is not None else [])]
    unit = subject.unit("outputs" if train is None else "training")
    roots = list((unit.outputs if train is None else checks.of_a_step(subject)).values())
    rows = [str(x.shape[0]) for x in unit.inputs.values() if x.role == "input" and x.shape]
    names = sorted((n for n in open_sizes(units) if n not in given), key=lambda n: n not in rows)
    for length in lengths:
        for name in names:
            sizes = {**subject.sizes, name: length}
            longer = checks.Subject(model, train, sizes, subject.seed)
            if work(roots, sizes) > MOST_WORK or not declared(model, train, units, sizes):
                continue
            if longer.makes_sense() and longer.infinite() <= subject.infinite() and longer.is_finite():
                return sizes
    return None


def at_length(subject: checks.Subject, loaded: Loaded, given: Mapping[str, int]) -> list[checks.Check]:
    """Outputs, losses, states and gradients at a long size, as one row: that of the worst."""
    sizes = long_sizes(subject, given, BACKENDS[loaded.name].lengths)
    if sizes is None:
        return []
    longer = checks.Subject(subject.model, subject.train, sizes, subject.seed, subject.dtype, at_once=True)
    rows = [checks.outputs(longer, loaded)]
    if subject.train is not None:
        rows += [*checks.training(longer, loaded), checks.evaluation(longer, loaded)]
    worst = max(rows, key=lambda row: row.badness)
    shown = ", ".join(f"{name}={value}" for name, value in sizes.items())
    return [checks.Check(loaded.name, TITLE, worst.error, worst.tolerance, f"{worst.name}, {worst.note}; {shown}")]

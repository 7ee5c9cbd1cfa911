"""Which parameters the loss of a training has a slope by: the others keep their values, however long one trains.

mean[n](0.0 if sign(x[n, i] * w[i]) == s[n] else 1.0)        a loss of steps: its gradient by w is 0 everywhere
"""

from __future__ import annotations

from collections.abc import Iterable

from dslc.autodiff.scalar import FLAT, RULES
from dslc.builder.build import Refusal, build_train
from dslc.check import program as p
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Diagnostic, Label
from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.ir.interning import compilation
from dslc.pipeline import trained

#: reductions that have a derivative
SMOOTH = (None, "sum", "prod", "max", "min")
#: operations along an axis whose results are places
PLACES = ("argsort",)
#: names in a message
SHOWN = 3


def without_slope(train: p.TrainProgram) -> list[Diagnostic]:
    """A warning where the gradient of the loss is 0 by all parameters that are trained, or by some of them."""
    assert train.loss is not None
    try:
        with compilation():
            unit = build_train(train)
            wanted = trained(unit, train)
            reached = reaching(unit.outputs["loss"])
            still = [path for path in wanted if unit.inputs[path] not in reached]
            # the last pass of a loop may make what nothing reads
            learned = {_any_pass(path) for path in wanted if path not in still}
            still = [path for path in still if _any_pass(path) not in learned]
    except Refusal:  # what cannot be built is told where it is compiled
        return []
    if not still:
        return []
    label = Label(train.loss.span)
    if len(still) == len(wanted):
        return [kinds.FLAT_LOSS(label, model=train.instance.name)]
    declared = Label(unit.params[still[0]].tensor.span, "declared here")
    shown = ", ".join(f"`{path}`" for path in still[:SHOWN])
    others = f" and {len(still) - SHOWN} more" if len(still) > SHOWN else ""
    return [kinds.STILL_PARAMETERS(label, declared, names=shown + others)]


def _any_pass(path: str) -> str:
    """A path without the numbers of passes.

    >>> _any_pass("block.7.dense2.W")
    'block.*.dense2.W'
    """
    return ".".join("*" if part.isdigit() else part for part in path.split("."))


def reaching(root: ir.Node) -> set[ir.Node]:
    """The nodes that a node has a derivative by that is not 0 everywhere, as far as its formulas tell."""
    scans = {x.number: x for x in ir.every_node([root]) if isinstance(x, ir.Scan)}
    found: set[ir.Node] = set()
    stack: list[ir.Node] = [root]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += _steps(node, scans)
    return found


def _steps(node: ir.Node, scans: dict[int, ir.Scan]) -> Iterable[ir.Node]:
    """What the slope of a node goes on to."""
    match node:
        case ir.Comp():
            return passing(node.body) if node.op in SMOOTH else ()
        case ir.Scatter():
            return (*passing(node.body), *(() if node.base is None else (node.base,)))
        case ir.Reshape():
            return (node.of,)
        case ir.Step() if node.kind == "carry":
            scan = scans[node.scan]
            return scan.starts[node.place], scan.carries[node.place]
        case ir.Part(of=ir.Scan() as scan):
            count = len(scan.results)
            if node.number < count:
                return (scan.results[node.number],)
            return scan.starts[node.number - count], scan.carries[node.number - count]
        case ir.Part(of=ir.Custom(rule=ir.Recompute()) as of):
            return (of.values[node.number],)
        case ir.Part():  # a derivative by hand may be by any argument
            return node.of.args if is_float(node.dtype) else ()  # type: ignore[union-attr]
    return ()


def passing(body: ir.Scalar) -> list[ir.Tensor]:
    """The tensors in a formula by which it has a derivative; a factor that is set to 0 is no step."""
    reached: set[ir.Scalar] = {body}
    for s in reversed(ir.scalars(body)):
        if s not in reached or not is_float(s.dtype):
            continue
        if isinstance(s, ir.Read) and s.outside is not None:
            reached.add(s.outside)
        if isinstance(s, ir.Op) and s.name not in FLAT:
            parts = RULES[s.name](s, ir.const(1.0, s.dtype)) if s.name in RULES else s.args
            reached |= {x for x, part in zip(s.args, parts, strict=True) if part is not None}
    return [s.tensor for s in reached if isinstance(s, ir.Read) and is_float(s.dtype)]

"""The adjoint of a scan is a scan the other way: adjoints of the carries are carried back.

Values of the forward steps that the backward steps need are kept, stacked along the steps. What the steps contribute to
a tensor from outside (a weight, a sequence) is not added up step by step: the adjoints inside are stacked too, and one
comprehension over all steps makes the contribution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dslc.autodiff.reverse import NoDerivative, Reverse, derived, zeros
from dslc.autodiff.transpose import transposed
from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, Substitute, identity
from dslc.ops.table import COSTLY
from dslc.passes.reuse import Reuse
from dslc.passes.sums import Sums
from dslc.sizes import Size


def visit(reverse: Reverse, node: ir.Scan, cotangents: Mapping[int, ir.Tensor]) -> None:
    lead = reverse.lead
    number = ir.fresh_number()
    order, outside = ir.inside(node)
    forward_step = next((x for x in order if isinstance(x, ir.Step) and x.kind == "number"), None)
    step = ir.intern(ir.Step("number", number, 0, "i64", (), ir.counter_of(node)))
    carried = [x for x in order if isinstance(x, ir.Step) and x.kind == "carry"]
    floats = [j for j, c in enumerate(node.carries) if is_float(c.dtype)]
    names = {x.place: f"d_{x.name}" for x in carried if x.name}
    incoming = {
        j: ir.intern(
            ir.Step("carry", number, k, node.carries[j].dtype, (*lead, *node.carries[j].shape), names.get(j, ""))
        )
        for k, j in enumerate(floats)
    }

    # adjoints within one step
    inner = Reverse(lead)
    roots: list[ir.Tensor] = []
    for j in floats:
        inner.contribute(node.carries[j], incoming[j])
        roots.append(node.carries[j])
    at_step = ir.intern(ir.At(step))
    for k, result in enumerate(node.results):
        if k in cotangents:
            here: tuple[ir.Place, ...] = tuple(ir.plain(i) for i in range(len(lead) + len(result.shape)))
            places = (*here[: len(lead)], at_step, *here[len(lead) :])
            part = ir.comp(
                (*lead, *result.shape), ir.read(cotangents[k], places), name=f"d_{result.name}" if result.name else ""
            )
            inner.contribute(result, part)
            roots.append(result)
    wanted = [x for x in outside if x in reverse.needed]
    inner.run(tuple(roots), [*carried, *wanted])

    # which forward values the backward steps read, and where they are kept
    by_place = {x.place: x for x in carried}
    new_carries = [
        (inner.total(by_place[j]) if j in by_place else None)
        or zeros((*lead, *node.carries[j].shape), node.carries[j].dtype)
        for j in floats
    ]
    contributions = [(x, part) for x in wanted for part in inner.parts.get(x, [])]
    forward = {x for x in order if x is not forward_step}
    known = [*outside, *order]
    tidied = tidy([*new_carries, *(part for _, part in contributions)], known, (node.number, number))
    new_carries = tidied[: len(new_carries)]
    contributions = [(x, part) for (x, _), part in zip(contributions, tidied[len(new_carries) :], strict=True)]
    kept = _read_from([*new_carries, *(p for _, p in contributions)], forward)
    extra = [x for x in kept if x not in node.results]
    full = ir.intern(replace(node, results=(*node.results, *extra)))
    stacked = {
        x: ir.intern(ir.Part(full, k, x.dtype, (node.length, *x.shape), x.name))
        for k, x in enumerate((*node.results, *extra))
        if x in kept
    }

    def rebase(place: ir.Place) -> ir.Place:
        if isinstance(place, ir.At) and place.step is forward_step:
            return ir.intern(ir.At(step, place.offset))
        return place

    plain: dict[ir.Node, ir.Node] = {} if forward_step is None else {forward_step: step}
    substitute = Substitute({x: (y, (at_step,)) for x, y in stacked.items()}, rebase, plain)
    carries = [_cast(substitute.tensor(c), node.carries[j].dtype) for c, j in zip(new_carries, floats, strict=True)]
    parts = [(x, substitute.tensor(p)) for x, p in contributions]

    # contributions over all steps at once, from stacked adjoints
    lift = _Lift(step, node.length, number, stacked)
    totals = [(x, lift.total(p)) for x, p in parts]
    count = len(node.results)
    starts = tuple(
        _cast(cotangents[count + j], node.carries[j].dtype)
        if count + j in cotangents
        else zeros((*lead, *node.carries[j].shape), node.carries[j].dtype)
        for j in floats
    )
    results = tuple(lift.results)
    back = ir.intern(
        ir.Scan(number, node.length, not node.reverse, starts, tuple(carries), results, node.kind, derived(node))
    )
    values: dict[ir.Node, ir.Node] = {
        x: ir.intern(ir.Part(back, k, x.dtype, x.shape)) for k, x in enumerate(lift.placeholders)
    }
    finish = Substitute({}, plain=values)
    for x, total in totals:
        reverse.contribute(x, finish.tensor(total))
    for k, j in enumerate(floats):
        if node.starts[j] in reverse.needed:
            shape = (*lead, *node.carries[j].shape)
            last = ir.intern(ir.Part(back, len(lift.results) + k, node.carries[j].dtype, shape))
            reverse.contribute(node.starts[j], last)


def tidy(tensors: list[ir.Tensor], known: Sequence[ir.Node], scans: tuple[int, int]) -> list[ir.Tensor]:
    """The backward step with what it can read of the forward step read, so that less of that step must be kept.

    What depends on the steps of neither scan stays as it is, and so does a loop of the forward step: a second form of
    it would round in another way, and a value that is compared with its maximum would not be found.
    """
    inside: set[ir.Node] = set()
    shared: list[ir.Node] = list(known)
    loops = {x.number for x in known if isinstance(x, ir.Scan)}
    for x in ir.schedule(tuple(tensors)):
        if (isinstance(x, ir.Step) and x.scan in scans) or any(a in inside for a in ir.arguments(x)):
            inside.add(x)
        if x not in inside or (isinstance(x, ir.Scan) and x.number in loops):
            shared.append(x)
    return Reuse().within(Sums().within(tensors, shared), shared)


def _cast(x: ir.Tensor, dtype: str) -> ir.Tensor:
    return x if x.dtype == dtype else ir.comp(x.shape, ir.op("cast", (ir.whole(x),), dtype), name=x.name)


def _read_from(roots: list[ir.Tensor], forward: set[ir.Node]) -> list[ir.Tensor]:
    """The nodes of `forward` that the roots read, without looking behind them; parameters of layers are read again."""
    found: dict[ir.Tensor, None] = {}
    seen: set[ir.Node] = set()
    scans = {x.number for x in forward if isinstance(x, ir.Scan)}
    stack: list[ir.Node] = list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        # a scan inside, with more results than in the forward step: there it will have them too
        if node not in forward and isinstance(node, ir.Comp) and _only_from(node, forward):
            found[node] = None
            continue
        more = isinstance(node, ir.Part) and isinstance(node.of, ir.Scan) and node.of.number in scans
        if (node in forward or more) and not ir.slice_of_input(node):
            if isinstance(node, ir.Along | ir.External | ir.Scan | ir.Custom):
                raise NoDerivative("an operation with several results inside a scan", node)
            found[node] = None
        else:
            stack.extend(ir.arguments(node))
    return list(found)


def _only_from(node: ir.Comp, forward: set[ir.Node]) -> bool:
    """Is a value of the backward step a costly function of values of the forward step? Then that step computes it."""
    if node.op is not None or not any(isinstance(s, ir.Op) and s.name in COSTLY for s in ir.scalars(node.body)):
        return False
    read = [a for a in ir.arguments(node) if not isinstance(a, ir.Input)]
    return bool(read) and all(a in forward for a in read)


class _Lift:
    """Turns a contribution of one step into the sum over all steps.

    What it reads of the backward step is stacked: `results` lists those tensors, `placeholders` stand for the stacked
    values until the backward scan exists.
    """

    def __init__(self, step: ir.Step, length: Size, number: int, stacked: Mapping[ir.Tensor, ir.Part]):
        self.step = step
        self.length = length
        self.number = number
        self.forward = set(stacked.values())
        self.results: list[ir.Tensor] = []
        self.placeholders: list[ir.Input] = []
        self.depends: dict[ir.Node, bool] = {}

    def step_dependent(self, node: ir.Node) -> bool:
        for x in ir.schedule((node,)):
            if x not in self.depends:
                own = isinstance(x, ir.Step) and x.scan == self.number
                self.depends[x] = own or any(self.depends[a] for a in ir.arguments(x))
        return self.depends[node]

    def stack(self, tensor: ir.Tensor) -> ir.Input:
        if tensor not in self.results:
            shape = (self.length, *tensor.shape)
            self.results.append(tensor)
            name = f"stacked {self.number} {len(self.results)}"
            self.placeholders.append(ir.intern(ir.Input(name, "stacked", tensor.dtype, shape)))
        return self.placeholders[self.results.index(tensor)]

    def total(self, part: ir.Tensor) -> ir.Tensor:
        if isinstance(part, ir.Comp) and part.op in (None, "sum"):
            count = len(part.shape) + len(part.reduced)
            body = self.change(count).scalar(part.body)
            return ir.comp(part.shape, body, "sum", (*part.reduced, self.length), part.name, part.span, part.dtype)
        if isinstance(part, ir.Scatter) and part.op == "+" and part.base is None:
            count = len(part.ranges)
            change = self.change(count)
            body = change.scalar(part.body)
            places = tuple(change.place(x) for x in part.places)
            loose = any(isinstance(x, ir.At) for x in part.places)
            return transposed(part.shape, places, body, (*part.ranges, self.length), part.name, loose)
        stacked: ir.Tensor = self.stack(part) if self.step_dependent(part) else part
        if stacked is part:
            return ir.comp(part.shape, ir.whole(part), "sum", (self.length,))
        rank = len(part.shape)
        places = (ir.plain(rank), *(ir.plain(i) for i in range(rank)))
        return ir.comp(part.shape, ir.read(stacked, places), "sum", (self.length,))

    def change(self, count: int) -> Change:
        """Variable `count` is the step."""

        def look(tensor: ir.Tensor) -> tuple[ir.Tensor, tuple[ir.Place, ...]] | None:
            slice_of = _slice_of(tensor, self.step)
            if slice_of is not None and slice_of in self.forward:
                return slice_of, (ir.plain(count),)
            if isinstance(tensor, ir.Step) and tensor.kind == "number":
                return None
            return (self.stack(tensor), (ir.plain(count),)) if self.step_dependent(tensor) else None

        def places(place: ir.Place) -> ir.Place:
            if isinstance(place, ir.At) and place.step is self.step:
                return ir.affine(((count, 1),), place.offset)
            return place

        def scalars(tensor: ir.Tensor) -> ir.Scalar | None:
            return ir.var(count) if tensor is self.step else None

        return Change(identity(count), look, places, scalars)


def _slice_of(tensor: ir.Tensor, step: ir.Step) -> ir.Tensor | None:
    """The stacked tensor of which this is the slice at the current step."""
    if isinstance(tensor, ir.Comp) and tensor.op is None and isinstance(tensor.body, ir.Read):
        places = tensor.body.places
        if places and isinstance(places[0], ir.At) and places[0].step is step and places[0].offset == 0:
            if all(x is ir.plain(i) for i, x in enumerate(places[1:])):
                return tensor.body.tensor
    return None

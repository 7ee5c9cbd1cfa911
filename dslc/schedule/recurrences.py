"""Scans as one kernel each, whose steps are elementwise in what they carry: the state stays in registers.

Many are linear in what they carry, `h' = A h + b`, with A and b free of carried values.

Two steps of one are one step of the same kind, `(A, b)` then `(C, d)` is `(C A, C b + d)`: any number of steps can be
put together in a tree instead of a chain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from dslc.ir import nodes as ir
from dslc.ir.rewrite import plain_variable
from dslc.schedule.form import Affine, Kernel, Linear, Loop, Member, Recurrence, Step, View

Change = Callable[[ir.Scalar], ir.Scalar]

#: a larger system has more entries than a tile of each can be held in registers
LARGEST = 2
#: how many values may be carried
MOST = 4


def with_recurrences(steps: Sequence[Step], apart: Collection[ir.Node] = ()) -> list[Step]:
    """The same steps with scans as one kernel each where that can be.

    `apart` are parameters of layers that lie each somewhere else: no kernel reads those of several steps.
    """
    read: dict[ir.Node, set[int]] = {}
    for step in steps:
        if isinstance(step, View) and isinstance(step.node, ir.Part):
            read.setdefault(step.node.of, set()).add(step.node.number)
    found: list[Step] = []
    for step in steps:
        if isinstance(step, Loop):
            members = elementwise(step, apart)
            if members is None:
                step = Loop(step.scan, with_recurrences(step.steps, apart))
            else:
                parts = frozenset(read.get(step.scan, ()))
                step = Recurrence(step.scan, members, linear(step.scan, members), parts)
        found.append(step)
    return found


def elementwise(loop: Loop, apart: Collection[ir.Node]) -> dict[ir.Node, Member] | None:
    """The members of all kernels of a scan, if each element of the state depends on itself alone."""
    scan = loop.scan
    if not scan.carries or not all(isinstance(step, Kernel) and step.kind == "map" for step in loop.steps):
        return None
    kernels = [step for step in loop.steps if isinstance(step, Kernel)]
    members = {n: m for kernel in kernels for n, m in kernel.members.items()}
    shape = scan.carries[0].shape
    state = {x for x in ir.inside(scan)[0] if isinstance(x, ir.Step) and x.kind == "carry"}
    if any(x.shape != shape for x in (*scan.carries, *scan.results, *state)) or not shape:
        return None
    if any(m.node.shape != shape or m.axes != tuple(range(len(shape))) for m in members.values()):
        return None
    if any(x not in members and x not in state for x in (*scan.carries, *scan.results)):
        return None
    for m in members.values():
        for s in ir.scalars(m.body):
            if not isinstance(s, ir.Read):
                continue
            if s.tensor in apart:
                return None
            own = [plain_variable(place) for place in s.places] == list(range(len(shape)))
            if (s.tensor in members or s.tensor in state) and not own:
                return None
    return members


def linear(scan: ir.Scan, members: Mapping[ir.Node, Member]) -> Linear | None:
    """A scan as a linear recurrence, where it is one; its members must be elementwise in the state."""
    if len(scan.carries) > MOST or any(c.dtype in ("i32", "i64", "bool") for c in scan.carries):
        return None
    whole: dict[ir.Node, ir.Scalar] = {}
    for node, m in members.items():
        whole[node] = put_in(m.body, whole)
    forms = []
    for carry in scan.carries:
        form = affine(whole.get(carry) or ir.whole(carry), scan.number)
        if form is None:
            return None
        forms.append(form)
    groups = grouped([set(f.coefficients) for f in forms])
    return None if any(len(g) > LARGEST for g in groups) else Linear(forms, groups)


def put_in(body: ir.Scalar, values: Mapping[ir.Node, ir.Scalar]) -> ir.Scalar:
    """A formula with the formulas of what it reads in their place: all of them range over the same variables."""
    return ir.with_reads(body, lambda s: values.get(s.tensor, s))


def affine(root: ir.Scalar, scan: int) -> Affine | None:
    """A formula as a linear one of the values that a scan carries, each at its own place; None if it is not."""
    forms: dict[ir.Scalar, Affine | None] = {}
    for s in ir.scalars(root):
        forms[s] = _one(s, forms, scan)
    return forms[root]


def _one(s: ir.Scalar, forms: Mapping[ir.Scalar, Affine | None], scan: int) -> Affine | None:
    if isinstance(s, ir.Read) and isinstance(s.tensor, ir.Step) and s.tensor.kind == "carry" and s.tensor.scan == scan:
        return Affine({s.tensor.place: ir.const(1.0, s.dtype)}, None)
    parts = [forms[x] for x in ir.operands(s)]
    known = [p for p in parts if p is not None]
    if len(known) < len(parts):
        return None
    bound = [bool(p.coefficients) for p in known]
    if not any(bound):
        return Affine({}, s)
    if not isinstance(s, ir.Op):
        return None
    match s.name:
        case "+" | "-":
            total = known[0]
            for p in known[1:]:
                total = _added(total, p, s.name, s.dtype)
            return total
        case "neg":
            return _scaled(known[0], lambda x: ir.op("neg", (x,), s.dtype))
        case "*" if sum(bound) == 1:
            place = bound.index(True)
            rest = [a for k, a in enumerate(s.args) if k != place]
            return _scaled(known[place], lambda x: times(x, rest, s.dtype))
        case "/" if bound == [True, False]:
            return _scaled(known[0], lambda x: ir.op("/", (x, s.args[1]), s.dtype))
        case "select" if not bound[0]:
            return _chosen(s, known[1], known[2])
        case "stop_grad":
            return known[0]
        case "cast" if s.dtype not in ("i32", "i64", "bool", "f16", "bf16"):
            return known[0]
    return None


def times(x: ir.Scalar, factors: list[ir.Scalar], dtype: str) -> ir.Scalar:
    for f in factors:
        x = f if is_one(x) else ir.op("*", (x, f), dtype)
    return x


def is_one(s: ir.Scalar) -> bool:
    return isinstance(s, ir.Const) and s.value == 1


def _added(a: Affine, b: Affine, name: str, dtype: str) -> Affine:
    def both(x: ir.Scalar | None, y: ir.Scalar | None) -> ir.Scalar | None:
        if x is None or y is None:
            return x if y is None else y if name == "+" else ir.op("neg", (y,), dtype)
        return ir.op(name, (x, y), dtype)

    keys = sorted({*a.coefficients, *b.coefficients})
    found = {k: both(a.coefficients.get(k), b.coefficients.get(k)) for k in keys}
    return Affine({k: x for k, x in found.items() if x is not None}, both(a.shift, b.shift))


def _scaled(form: Affine, change: Change) -> Affine:
    shift = None if form.shift is None else change(form.shift)
    return Affine({k: change(x) for k, x in form.coefficients.items()}, shift)


def _chosen(s: ir.Op, yes: Affine, no: Affine) -> Affine:
    def either(x: ir.Scalar | None, y: ir.Scalar | None) -> ir.Scalar | None:
        if x is None and y is None:
            return None
        zero = ir.const(0.0, s.dtype)
        return x if x is y else ir.op("select", (s.args[0], x or zero, y or zero), s.dtype)

    keys = sorted({*yes.coefficients, *no.coefficients})
    found = {k: either(yes.coefficients.get(k), no.coefficients.get(k)) for k in keys}
    return Affine({k: x for k, x in found.items() if x is not None}, either(yes.shift, no.shift))


def grouped(needs: list[set[int]]) -> list[tuple[int, ...]]:
    """Numbers that need one another together, those that a group needs before it.

    >>> grouped([{0, 1}, {0}, {2}, {1, 3}])
    [(0, 1), (2,), (3,)]
    """
    count = len(needs)
    reach = [set(x) for x in needs]
    for k in range(count):
        for i in range(count):
            if k in reach[i]:
                reach[i] |= reach[k]
    groups: list[tuple[int, ...]] = []
    for i in range(count):
        group = tuple(j for j in range(count) if j == i or (j in reach[i] and i in reach[j]))
        if group not in groups:
            groups.append(group)
    order: list[tuple[int, ...]] = []
    while groups:
        done = {k for g in order for k in g}
        first = next(g for g in groups if all(reach[k] <= done | set(g) for k in g))
        order.append(first)
        groups.remove(first)
    return order

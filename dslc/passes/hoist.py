"""What does not depend on carried values leaves a scan: it is computed for all steps at once, before the loop.

scan t: z[n, k] = sigmoid(x[n, t, i] * W[i, k] + h[n, j] * U[j, k])   gives
a[t, n, k] = x[n, t, i] * W[i, k];   scan t: z[n, k] = sigmoid(a[t, n, k] + h[n, j] * U[j, k])
"""

from __future__ import annotations

from dataclasses import replace

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, Form, Substitute, keep
from dslc.passes.products import variables
from dslc.passes.transform import Outputs, Transform
from dslc.passes.views import is_view


def hoist(outputs: Outputs) -> dict[str, ir.Tensor]:
    return _Hoist().outputs(outputs)


class _Hoist(Transform):
    def visit(self, node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Scan) and node.kind != "layers":
            return _Scan(node).hoisted()
        return node


class _Scan:
    """One scan, and what leaves it."""

    def __init__(self, scan: ir.Scan):
        self.scan = scan
        self.inner = ir.inside(scan)[0]
        self.step = next((x for x in self.inner if isinstance(x, ir.Step) and x.kind == "number"), None)
        self.free: set[ir.Node] = set()
        inside = set(self.inner)
        for node in self.inner:
            known = all(a in self.free or a is self.step or a not in inside for a in ir.arguments(node))
            if isinstance(node, ir.Comp) and known:
                self.free.add(node)
        self.inside = inside
        self.lifted: dict[ir.Tensor, ir.Tensor] = {}

    def hoisted(self) -> ir.Scan:
        if self.step is None:
            return self.scan
        changed: dict[ir.Node, ir.Node] = {}
        slices: dict[ir.Node, tuple[ir.Tensor, tuple[ir.Place, ...]]] = {}
        place = self.here()
        for node in self.inner:
            if node in self.free:
                assert isinstance(node, ir.Comp)
                if not is_view(node) and not ir.slice_of_input(node):
                    slices[node] = (self.lift(node), (place,))
            elif isinstance(node, ir.Comp) and node.op is None:
                body = self.split(node)
                if body is not node.body:
                    changed[node] = ir.comp(node.shape, body, None, (), node.name, node.span, node.dtype)
        if not slices and not changed:
            return self.scan
        substitute = _Replace(slices, changed)
        carries, results = (tuple(substitute.tensor(x) for x in g) for g in (self.scan.carries, self.scan.results))
        return ir.intern(replace(self.scan, carries=carries, results=results))

    def here(self) -> ir.Place:
        assert self.step is not None
        return ir.intern(ir.At(self.step))

    def lift(self, node: ir.Tensor) -> ir.Tensor:
        """A value of one step for all steps, along a first axis."""
        if node not in self.lifted:
            assert isinstance(node, ir.Comp)
            count = len(node.shape) + len(node.reduced)
            body = self.change(count).scalar(node.body)
            shape = (self.scan.length, *node.shape)
            self.lifted[node] = ir.comp(shape, body, node.op, node.reduced, node.name, node.span, node.dtype)
        return self.lifted[node]

    def change(self, count: int) -> Change:
        """Variable 0 is the step, the others follow."""

        def look(tensor: ir.Tensor) -> tuple[ir.Tensor, tuple[ir.Place, ...]] | None:
            return (self.lift(tensor), (ir.plain(0),)) if tensor in self.free else None

        def places(place: ir.Place) -> ir.Place:
            if isinstance(place, ir.At) and place.step is self.step:
                return ir.affine(((0, 1),), place.offset)
            return place

        def scalars(tensor: ir.Tensor) -> ir.Scalar | None:
            return ir.var(0) if tensor is self.step else None

        forms: dict[int, Form] = {n: keep(n + 1) for n in range(count)}
        return Change(forms, look, places, scalars)

    def split(self, node: ir.Comp) -> ir.Scalar:
        """The body with the largest parts that do not depend on carried values read from outside."""
        everything = frozenset(range(len(node.shape)))
        free: dict[ir.Scalar, bool] = {}
        for s in ir.scalars(node.body):
            match s:
                case ir.Read():
                    own = s.tensor in self.inside and s.tensor not in self.free
                    free[s] = not own and s.outside is None and all(free[x] for x in ir.operands(s))
                case ir.Rand():
                    free[s] = False
                case _:
                    free[s] = all(free[x] for x in ir.operands(s))
        if all(free.values()):
            return node.body
        done: dict[ir.Scalar, ir.Scalar] = {}
        for s in ir.scalars(node.body):
            done[s] = ir.rebuild(s, lambda x: done[x])
            if isinstance(s, ir.Op) and free[s] and is_float(s.dtype) and variables(s) == everything and _varies(s):
                if not any(isinstance(x, ir.Rand) for x in ir.scalars(s)):
                    name = f"{node.name}_factor" if node.name else ""
                    whole = ir.comp(node.shape, s, name=name, span=node.span, dtype=s.dtype)
                    lifted = self.lift(whole)
                    places = tuple(ir.plain(n) for n in range(len(node.shape)))
                    done[s] = ir.read(lifted, (self.here(), *places))
        return done[node.body]


def _varies(s: ir.Op) -> bool:
    """Does a scalar read anything that changes from step to step?"""
    return any(isinstance(x, ir.Read) and any(isinstance(p, ir.At) for p in x.places) for x in ir.scalars(s)) or any(
        isinstance(x, ir.Read) and isinstance(x.tensor, ir.Comp) for x in ir.scalars(s)
    )


class _Replace(Substitute):
    """Values of a scan replaced by slices of values for all steps, or by other values."""

    def __init__(
        self,
        slices: dict[ir.Node, tuple[ir.Tensor, tuple[ir.Place, ...]]],
        changed: dict[ir.Node, ir.Node],
    ):
        super().__init__(slices)
        self.changed = changed

    def _one(self, node: ir.Node) -> ir.Node:
        new = self.changed.get(node, node)
        for argument in ir.arguments(new) if new is not node else ():
            self.node(argument)
        return super()._one(new)

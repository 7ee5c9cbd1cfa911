"""Long matrices that are read in other ways than as a whole: entries picked by data, and sums of them that are padded.

A loss over a large vocabulary reads  z[n, v] = sum[c](h[n, c] * W[c, v])  along v, and at the label of each row. The
picked entry is a short sum of its own,

    z[n, label[n]] = sum[c](h[n, c] * W[c, label[n]])

and its matrix need not be stored for it. Where only some rows count, as in predictions of the next token, the adjoint
is padded with 0, and

    sum[t]((x[t] else 0) * y[t])  goes over the rows of x,      sum[v]((x[t, v] else 0) * w[v])  is 0 beyond them.

Both are done only where they let the matrix be computed block by block.
"""

from __future__ import annotations

from collections.abc import Sequence

from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, NotAffine, Put, keep, plain_variable, zero
from dslc.passes.contract import factors
from dslc.passes.tiles import candidates, tile_roles, tiles_of
from dslc.passes.transform import Outputs, Transform, everything, with_body
from dslc.sizes import Size, tidy


class Picked(Transform):
    """A graph in which long matrices are read as a whole, or not at all."""

    def __init__(self, outputs: Outputs, only: frozenset[ir.Node] | None = None) -> None:
        super().__init__()
        order = everything(outputs)
        self.roles = candidates(order)
        #: the matrices that a map is made of
        self.made_of: dict[ir.Node, frozenset[ir.Node]] = {}
        for node in order:
            if node in self.roles:
                found = [self.made_of.get(a, frozenset()) for a in ir.arguments(node)]
                own = {node} if tile_roles(node) is not None else ()
                self.made_of[node] = frozenset(own).union(*found)
        if only is not None:
            self.roles = {k: v for k, v in self.roles.items() if self.made_of[k] <= only}
        #: matrices of which an entry was picked, or a padded sum made
        self.touched: set[ir.Node] = set()

    def _one(self, node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Comp):
            made = self.padded(node) or self.picked(node)
            if made is not None:
                for a in ir.arguments(made):
                    self.node(a)
                return super()._one(made)
        return super()._one(node)

    # ---- entries

    def picked(self, node: ir.Comp) -> ir.Tensor | None:
        """A formula that reads short sums instead of entries of long matrices."""
        sizes = (*node.shape, *node.reduced)
        body = ir.with_reads(node.body, lambda s: (self.entry(s, sizes) if self.is_pick(s) else None) or s)
        return None if body is node.body else with_body(node, body)

    def is_pick(self, s: ir.Read) -> bool:
        """Does a read take few entries of a matrix, at places that are data?"""
        return (
            s.tensor in self.roles
            and s.outside is None
            and any(isinstance(p, ir.Data) for p in s.places)
            and len(ir.variables(s)) < len(s.places)
        )

    def entry(self, s: ir.Read, sizes: Sequence[Size]) -> ir.Scalar | None:
        """What a read of a matrix, or of a map of one, stands for."""
        node = s.tensor
        assert isinstance(node, ir.Comp)
        try:
            if tile_roles(node) is not None:
                return self.short_sum(s, node, sizes)
            body = Put(dict(enumerate(s.places)), node.shape).scalar(node.body)
        except NotAffine:
            return None
        body = ir.with_reads(body, lambda x: (self.entry(x, sizes) if x.tensor in self.roles else None) or x)
        if any(isinstance(x, ir.Read) and x.tensor in self.roles for x in ir.scalars(body)):
            return None
        self.touched |= self.made_of[node]
        return ir.cast(body, s.dtype)

    def short_sum(self, s: ir.Read, tile: ir.Comp, sizes: Sequence[Size]) -> ir.Scalar:
        """One entry of a sum of products, as a sum of its own over the variables that its places have."""
        own = sorted(ir.variables(s))
        here = Change({v: keep(k) for k, v in enumerate(own)}).scalar(s)
        assert isinstance(here, ir.Read)
        inner = [ir.plain(len(own) + k) for k in range(len(tile.reduced))]
        body = Put(dict(enumerate([*here.places, *inner])), tile.shape).scalar(tile.body)
        shape = tuple(sizes[v] for v in own)
        made = ir.comp(shape, body, tile.op, tile.reduced, f"{tile.name}_picked", tile.span, tile.dtype)
        self.touched.add(tile)
        return ir.cast(ir.read(made, tuple(ir.plain(v) for v in own)), s.dtype)

    # ---- sums

    def padded(self, node: ir.Comp) -> ir.Tensor | None:
        """A sum over what there is of a padded matrix; padded itself, where rows of it stay."""
        if node.op != "sum":
            return None
        ranges = [*node.shape, *node.reduced]
        instead: dict[ir.Scalar, ir.Scalar] = {}
        for f in factors(node.body, len(node.shape)):
            read = self.unpadded(f.scalar) if not f.below else None
            if read is None:
                continue
            for place, size in zip(read.places, read.tensor.shape, strict=True):
                variable = plain_variable(place)
                assert variable is not None
                more = tidy(ranges[variable] - size)
                if not isinstance(more, int) or more < 0:
                    return None
                ranges[variable] = size
            instead[f.scalar] = ir.read(read.tensor, read.places)
        if not instead:
            return None
        done: dict[ir.Scalar, ir.Scalar] = {}
        for s in ir.scalars(node.body):
            done[s] = instead.get(s) or ir.rebuild(s, lambda x: done[x])
        rank = len(node.shape)
        shape, reduced = tuple(ranges[:rank]), tuple(ranges[rank:])
        self.touched |= {tile for s in instead.values() for tile in self.made_of[s.tensor]}  # type: ignore[union-attr]
        if shape == node.shape:
            return ir.comp(shape, done[node.body], "sum", reduced, node.name, node.span, node.dtype)
        part = ir.comp(shape, done[node.body], "sum", reduced, f"{node.name}_part", node.span, node.dtype)
        whole = ir.read(part, tuple(ir.plain(k) for k in range(rank)), zero(node.dtype))
        return ir.comp(node.shape, whole, None, (), node.name, node.span, node.dtype)

    def unpadded(self, s: ir.Scalar) -> ir.Read | None:
        """The read of a map of a long matrix, 0 outside, that a read of its padded copy stands for."""
        if not isinstance(s, ir.Read) or s.outside is not None or not isinstance(s.tensor, ir.Comp):
            return None
        body = s.tensor.body
        if s.tensor.op is not None or not isinstance(body, ir.Read) or body.tensor not in self.roles:
            return None
        outside = body.outside
        if not isinstance(outside, ir.Const) or outside.value != 0 or body.dtype != s.dtype:
            return None
        made = Put(dict(enumerate(s.places)), s.tensor.shape).scalar(body)
        assert isinstance(made, ir.Read)
        variables = [plain_variable(p) for p in made.places]
        return made if None not in variables and len(set(variables)) == len(variables) else None


def picked(outputs: Outputs) -> dict[str, ir.Tensor]:
    """The same results, with fewer long matrices in memory."""
    trial = Picked(outputs)
    made = trial.outputs(outputs)
    kept = frozenset(trial.touched & tiles_of(made.values()).keys()) if trial.touched else frozenset()
    return Picked(outputs, kept).outputs(outputs) if kept else dict(outputs)


class OfRows(Transform):
    """A graph in which sums of what rows come to, such as losses, read one value of each row.

        loss = sum[n](log(s[n]) - z[n, label[n]])   becomes   y[n] = log(s[n]) - z[n, label[n]],   loss = sum[n](y[n])

    where s is a reduction of z: y is computed in its kernel, and z may be written over there.
    """

    def visit(self, node: ir.Node) -> ir.Node:
        if not isinstance(node, ir.Comp) or node.op != "sum":
            return node
        reads = [s for s in ir.scalars(node.body) if isinstance(s, ir.Read)]
        picked = {s.tensor for s in reads if any(isinstance(p, ir.Data) for p in s.places)}
        found = [s.tensor for s in reads if isinstance(s.tensor, ir.Comp) and s.tensor.op is not None]
        if not any(picked & {*ir.arguments(x)} for x in found):
            return node
        sizes = (*node.shape, *node.reduced)
        row = ir.comp(sizes, node.body, name=node.name, span=node.span)
        return with_body(node, ir.read(row, tuple(map(ir.plain, range(len(sizes))))))


def of_rows(outputs: Outputs) -> dict[str, ir.Tensor]:
    return OfRows().outputs(outputs)

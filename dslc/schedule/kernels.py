"""Which nodes run in one kernel: maps with the sums before and after them, contractions with what follows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, keep, plain_variable
from dslc.passes.narrow import HALVES
from dslc.passes.sides import contraction_sides, inner_order, is_contraction
from dslc.passes.tiles import Ending, Roles, ending, read_roles, tile_roles, tiles_of
from dslc.schedule.form import Dot, Kernel, Member, Step, View, aligned, all_reads
from dslc.schedule.grouping import Grouping
from dslc.schedule.runs import runs_of
from dslc.schedule.target import Target
from dslc.sizes import Size


def scheduled(roots: Sequence[ir.Tensor], target: Target) -> list[Step]:
    """The steps that compute the roots, in order."""
    tiles = {k: v for k, v in tiles_of(roots).items() if tile_roles(k) is not None}
    return Kernels(target, tiles).grouped(ir.schedule(tuple(roots)), roots)


def round_at_once(kernel: Kernel) -> None:
    """Let members read what others find in memory: values that are kept in 16 bits round before they are used.

    The adjoint of a maximum looks for it among the values. One of numbers that are not rounded yet is none of them.
    """
    for node in kernel.stored:
        member = kernel.members[node]
        if node.op is None and node.dtype in HALVES:
            kernel.members[node] = replace(member, body=ir.op("cast", (member.body,), node.dtype))


class Kernels(Grouping):
    """Steps for a target whose programs have tiles: nodes with the same tiles share a kernel."""

    def __init__(self, target: Target, tiles: dict[ir.Node, Roles]) -> None:
        super().__init__()
        self.target = target
        #: contractions that are never stored
        self.tiles = tiles
        self.users: dict[ir.Node, list[ir.Node]] = {}

    def ordered(self, order: Sequence[ir.Node]) -> Iterable[ir.Node]:
        for node in order:
            for a in ir.arguments(node):
                self.users.setdefault(a, []).append(node)
        return (node for node in self.delayed(order) if node not in self.tiles)

    def inside(self) -> Kernels:
        return Kernels(self.target, self.tiles)

    def view(self, node: ir.Part | ir.Reshape) -> None:
        self.step(node, View(node))

    def comprehension(self, node: ir.Comp) -> None:
        end = ending(node, self.tiles)
        if end is not None:
            self.streamed(node, end)
        elif not self.joined(node):
            self.step(node, kernel_of(node))

    def delayed(self, order: Sequence[ir.Node]) -> list[ir.Node]:
        """The same nodes with reductions of tiles as late as can be: then all that one kernel needs is there."""
        late = [x for x in order if ending(x, self.tiles) is not None]
        if not late:
            return list(order)
        inside = set(order)
        waiting = {x: {a for a in ir.arguments(x) if a in inside} for x in order}
        turns = {x: self.turns(x) for x in late}
        before = {x: ancestors(x, waiting) for x in late}
        out: list[ir.Node] = []
        done: set[ir.Node] = set()
        left = list(order)
        while left:
            ready = [x for x in left if waiting[x] <= done]
            now = [x for x in ready if x not in turns][:1]
            if not now:  # those that no other is worth waiting for, so that those of one kind come together
                waits = {
                    x for x in ready for y in turns
                    if y not in done and y not in ready and x not in before[y] and turns[x] & turns[y]
                }  # fmt: skip
                # all of them: what follows may need several, as the adjoint of what queries and keys are made of does
                now = [x for x in ready if x not in waits] or ready[:1]
            out += now
            done.update(now)
            left = [x for x in left if x not in done]
        return out

    def turns(self, node: ir.Node) -> set[tuple[ir.Node, bool]]:
        """The tiles that a reduction reads, each with the side that stays."""
        end = ending(node, self.tiles)
        found: set[tuple[ir.Node, bool]] = set()
        for body in ir.bodies(node):
            for s in ir.scalars(body):
                if isinstance(s, ir.Read) and s.tensor in self.tiles and end is not None:
                    roles = read_roles(s, self.tiles[s.tensor])
                    found.add((s.tensor, roles is not None and set(roles.first) == set(end.stays)))
        return found

    def finish(self, results: set[ir.Node]) -> None:
        """Mark what must be in memory: results, and what a step other than its own reads."""
        for k, step in enumerate(self.steps):
            results.update(a for a in all_reads(step) if self.where.get(a, k) != k)
        for step in self.steps:
            if isinstance(step, Kernel):
                step.stored = [x for x in step.members if x in results]  # type: ignore[misc]
                if any(m.node.op in ("max", "min") for m in step.members.values()):
                    round_at_once(step)
                if step.kind == "stream" or (
                    step.kind == "rows" and not self.target.holds([step.sizes[v] for v in step.columns])
                ):
                    step.runs = runs_of(step)

    # ---- joining

    def joined(self, node: ir.Comp) -> bool:
        """Put a node into the last kernel that it needs, or into one that reads the same, where the axes agree."""
        last = self.needed(node)
        if last >= 0:
            kernel = self.steps[last]
            if isinstance(kernel, Kernel) and self.put(node, kernel, last):
                return True
        if is_contraction(node):
            return self.beside(node, last)
        if node.op is None:
            return False
        reads = {s for s in ir.scalars(node.body) if isinstance(s, ir.Read) and s.tensor.shape}
        for k in range(len(self.steps) - 1, last, -1):
            kernel = self.steps[k]
            if not isinstance(kernel, Kernel) or kernel.kind != "rows":
                continue
            shared = any(s in reads for m in kernel.members.values() for s in ir.scalars(m.body))
            if (
                shared
                or self.meet(node, kernel)
                or (len(kernel.members) < self.target.accumulators and not self.target.holds(node.reduced))
            ):
                sizes = tuple(kernel.sizes[v] for v in (*kernel.rows, *kernel.columns))
                if (*node.shape, *node.reduced) == sizes and len(node.shape) == len(kernel.rows):
                    if self.put(node, kernel, k, dict(enumerate((*kernel.rows, *kernel.columns)))):
                        return True
        return False

    def meet(self, node: ir.Node, kernel: Kernel) -> bool:
        """Is there a formula that reads a node and a member of a kernel?"""
        users = set(self.users.get(node, ()))
        return any(u in users for x in kernel.members for u in self.users.get(x, ()))

    def beside(self, node: ir.Comp, last: int) -> bool:
        """Put a contraction into a kernel with another one that shares a side with it, or is added to it."""
        for k in range(len(self.steps) - 1, last, -1):
            kernel = self.steps[k]
            if isinstance(kernel, Kernel) and kernel.kind == "dot" and len(kernel.dots) < self.target.accumulators:
                if dot_joined(node, kernel, self.added(node, kernel)):
                    self.where[node] = k
                    return True
        return False

    def added(self, node: ir.Comp, kernel: Kernel) -> bool:
        """Is a contraction read by one map only, the same that reads the contractions of a kernel?"""
        users = [self.users.get(x, []) for x in (node, *(d.node for d in kernel.dots))]
        return all(len(u) == 1 and u[0] is users[0][0] for u in users) and getattr(users[0][0], "op", "") is None

    def needed(self, node: ir.Node) -> int:
        """The last step that a node needs."""
        return self.last(b for a in ir.arguments(node) for b in (ir.arguments(a) if a in self.tiles else (a,)))

    def streamed(self, node: ir.Comp, end: Ending) -> None:
        """Put a reduction of tiles into a kernel that runs over the same ones, or start one."""
        for k in range(len(self.steps) - 1, max(self.needed(node), 0) - 1, -1):
            kernel = self.steps[k]
            if isinstance(kernel, Kernel) and kernel.kind == "stream" and stream_joined(node, end, kernel, self.tiles):
                self.where[node] = k
                return
        self.step(node, stream_kernel(node, end, self.tiles))

    def put(self, node: ir.Comp, kernel: Kernel, place: int, mapping: dict[int, int] | None = None) -> bool:
        if is_contraction(node):
            return False
        found = alignment(node, kernel) if mapping is None else mapping
        if found is None or not fits(node, kernel, found, self.target):
            return False
        if node.op is not None and kernel.kind == "map":
            kept = tuple(found[v] for v in range(len(node.shape)))
            kernel.kind = "rows"
            kernel.columns = tuple(found[len(node.shape) + k] for k in range(len(node.reduced)))
            kernel.rows = tuple(v for v in kernel.rows if v in kept)
        kernel.members[node] = member(node, found)
        self.where[node] = place
        return True


def ancestors(node: ir.Node, arguments: dict[ir.Node, set[ir.Node]]) -> set[ir.Node]:
    """All nodes that a node needs."""
    found: set[ir.Node] = set()
    pending = [node]
    while pending:
        for a in arguments[pending.pop()]:
            if a not in found:
                found.add(a)
                pending.append(a)
    return found


def member(node: ir.Comp, mapping: dict[int, int]) -> Member:
    rank = len(node.shape)
    body = Change({v: keep(w) for v, w in mapping.items()}).scalar(node.body)
    axes = tuple(mapping[v] for v in range(rank))
    return Member(node, axes, tuple(mapping[rank + k] for k in range(len(node.reduced))), body)


def alignment(node: ir.Comp, kernel: Kernel) -> dict[int, int] | None:
    """The variables of a node as variables of a kernel: every read of a member must be at its own axes."""
    found = aligned(node, {x: m.axes for x, m in kernel.members.items()})
    sizes = (*node.shape, *node.reduced)
    if found is None or any(sizes[v] != kernel.sizes[w] for v, w in found.items()):
        return None
    missing = [v for v in range(len(sizes)) if v not in found]
    spare = [v for v in kernel.columns if v not in found.values()]
    if missing:
        if kernel.kind != "rows" or [sizes[v] for v in missing] != [kernel.sizes[v] for v in spare]:
            return None
        found.update(zip(missing, spare, strict=True))
    return found


def fits(node: ir.Comp, kernel: Kernel, mapping: dict[int, int], target: Target) -> bool:
    """Does a node range over the rows, or over the full elements, of a kernel?"""
    kept = {mapping[v] for v in range(len(node.shape))}
    reduced = {mapping[len(node.shape) + k] for k in range(len(node.reduced))}
    rows, everything = set(kernel.rows), set(kernel.space)
    match kernel.kind:
        case "map":
            if node.op is None:
                return kept == everything
            return kept | reduced == everything and bool(reduced) and target.holds([kernel.sizes[v] for v in reduced])
        case "rows":
            if node.op is None:
                return kept == rows or (kept == everything and target.holds([kernel.sizes[v] for v in kernel.columns]))
            return kept == rows and reduced == set(kernel.columns) and by_position(node, mapping, kernel)
        case "dot":
            return node.op is None and kept == everything
        case "stream":
            ends = [set(m.axes) for m in kernel.members.values() if m.node.op is not None]
            return node.op is None and any(kept == axes for axes in ends)
    return False


def by_position(node: ir.Comp, mapping: dict[int, int], kernel: Kernel) -> bool:
    """The position of a maximum is counted in the order of the node's own variables."""
    if node.op not in ("argmax", "argmin"):
        return True
    return tuple(mapping[len(node.shape) + k] for k in range(len(node.reduced))) == kernel.columns


# ---- kernels of one node -----------------------------------------------------------------------------


def kernel_of(node: ir.Comp) -> Kernel:
    """The kernel that a node starts."""
    sides = contraction_sides(node)
    count = len(node.shape) + len(node.reduced)
    sizes: list[Size] = [*node.shape, *node.reduced]
    rank = len(node.shape)
    own = member(node, {v: v for v in range(count)})
    if sides is not None:
        left, right, batch, rows, columns = sides
        inner = inner_order(node)
        return Kernel("dot", sizes, rows, columns, batch, {node: own}, dots=[Dot(node, left, right, inner)])
    if node.op is not None:
        return Kernel("rows", sizes, tuple(range(rank)), tuple(range(rank, count)), members={node: own})
    return Kernel("map", sizes, tuple(range(rank)), members={node: own})


def dot_joined(node: ir.Comp, kernel: Kernel, added: bool) -> bool:
    """Put a contraction into a kernel of the same tiles; False if they differ or there is nothing to share."""
    sides = contraction_sides(node)
    assert sides is not None
    left, right, batch, rows, columns = sides
    inner = inner_order(node)
    for turned in (False, True):
        a, b, r, c = (right, left, columns, rows) if turned else (left, right, rows, columns)
        pairs = [(batch, kernel.batch), (r, kernel.rows), (c, kernel.columns)]
        sizes = [*node.shape, *node.reduced]
        if any([sizes[v] for v in mine] != [kernel.sizes[w] for w in theirs] for mine, theirs in pairs):
            continue
        found = {v: w for mine, theirs in pairs for v, w in zip(mine, theirs, strict=True)}
        for dot in kernel.dots:
            if [sizes[v] for v in inner] != [kernel.sizes[w] for w in dot.inner]:
                continue
            mapping = {**found, **dict(zip(inner, dot.inner, strict=True))}
            change = Change({v: keep(w) for v, w in mapping.items()})
            first, second = change.scalar(a), change.scalar(b)
            if first is dot.left or second is dot.right:
                kernel.dots.append(Dot(node, first, second, dot.inner))
                kernel.members[node] = member(node, mapping)
                return True
        if added:
            wanted = [sizes[v] for v in inner]
            same = (d.inner for d in kernel.dots if [kernel.sizes[w] for w in d.inner] == wanted)
            new = next(same, tuple(range(len(kernel.sizes), len(kernel.sizes) + len(inner))))
            kernel.sizes += wanted if new[0] == len(kernel.sizes) else []
            mapping = {**found, **dict(zip(inner, new, strict=True))}
            change = Change({v: keep(w) for v, w in mapping.items()})
            kernel.dots.append(Dot(node, change.scalar(a), change.scalar(b), new))
            kernel.members[node] = member(node, mapping)
            return True
    return False


# ---- streaming kernels -----------------------------------------------------------------------------------


def stream_kernel(node: ir.Comp, end: Ending, tiles: dict[ir.Node, Roles]) -> Kernel:
    """The kernel that a reduction of tiles starts."""
    count = len(node.shape) + len(node.reduced)
    batch = tuple(v for v in range(len(node.shape)) if v not in end.stays and v not in end.new)
    kernel = Kernel("stream", [*node.shape, *node.reduced], end.stays, end.goes, batch=batch)
    kernel.short = [end.new] if end.new else []
    mapping = {v: v for v in range(count)}
    add_tiles(kernel, node, mapping, tiles)
    kernel.members[node] = member(node, mapping)
    return kernel


def add_tiles(kernel: Kernel, node: ir.Comp, mapping: dict[int, int], tiles: dict[ir.Node, Roles]) -> None:
    for s in ir.scalars(node.body):
        if isinstance(s, ir.Read) and s.tensor in tiles and s.tensor not in kernel.tiles:
            tile = s.tensor
            assert isinstance(tile, ir.Comp)
            axes = {k: mapping[v] for k, p in enumerate(s.places) if (v := plain_variable(p)) is not None}
            axes |= {len(tile.shape) + k: v for k, v in enumerate(kernel.short_axis(tile.reduced))}
            kernel.tiles[tile] = member(tile, axes)


def stream_joined(node: ir.Comp, end: Ending, kernel: Kernel, tiles: dict[ir.Node, Roles]) -> bool:
    """Put a reduction of tiles into a kernel with the same long sides; False if they differ."""
    found = aligned(node, {x: m.axes for x, m in (*kernel.members.items(), *kernel.tiles.items())})
    if found is None or not any(isinstance(s, ir.Read) and s.tensor in kernel.tiles for s in ir.scalars(node.body)):
        return False
    sizes = (*node.shape, *node.reduced)
    if any(sizes[v] != kernel.sizes[w] for v, w in found.items()):
        return False  # the rows of a part of the matrix
    if {found[v] for v in end.stays} != set(kernel.rows) or {found[v] for v in end.goes} != set(kernel.columns):
        return False
    batch = {v for v in range(len(node.shape)) if v not in end.stays and v not in end.new}
    if not batch <= found.keys() or {found[v] for v in batch} != set(kernel.batch):
        return False
    fresh = [s.tensor for s in ir.scalars(node.body) if isinstance(s, ir.Read) and s.tensor in tiles]
    if any(a in kernel.members for tile in fresh for a in ir.arguments(tile)):
        return False  # a tile is made of what is in memory
    if any(v in found for v in end.new):
        return False
    if end.new:
        new = kernel.short_axis([node.shape[v] for v in end.new], found.values())
        found |= dict(zip(end.new, new, strict=True))
    add_tiles(kernel, node, found, tiles)
    kernel.members[node] = member(node, found)
    return True

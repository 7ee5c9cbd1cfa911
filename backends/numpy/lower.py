"""Comprehensions as NumPy text, and what all parts of a lowering know: names, lines, memory, blocks of rows."""

from __future__ import annotations

import builtins
import keyword
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from dslc.backends.numpy.blocks import Block, contents, extent, is_large, is_worth_a_line, plan
from dslc.backends.numpy.body import Body, is_plain
from dslc.backends.numpy.in_place import in_place
from dslc.backends.numpy.memory import Memory
from dslc.backends.numpy.names import HELPERS, TAKEN
from dslc.backends.numpy.stores import Store
from dslc.backends.numpy.sums import Sums, natural
from dslc.backends.numpy.text import ATOM, DTYPES, PLUS, RESULTS, Text, atom, bare, size_code

from dslc.autodiff.reverse import COSTLY
from dslc.ir import nodes as ir
from dslc.ir.namespace import slope_of_mean
from dslc.ir.naming import name_lines
from dslc.ops.dtypes import is_float
from dslc.passes.products import split
from dslc.sizes import Size, symbol
from dslc.source import NOWHERE, Span


@dataclass
class Line:
    text: str
    comment: str = ""
    span: Span | None = None


def references(node: ir.Node) -> list[ir.Read]:
    """The reads of a node, each as often as its formulas use it."""
    found: list[ir.Read] = []
    for body in ir.bodies(node):
        uses = [body, *(x for s in ir.scalars(body) for x in ir.operands(s))]
        found += [x for x in uses if isinstance(x, ir.Read)]
    return found


def identifier(wish: str) -> str:
    """A name of Python near to a wish.

    >>> identifier("block.h"), identifier("id")
    ('block_h', 'id_')
    """
    base = re.sub(r"\W+", "_", wish).strip("_") or "value"
    base = f"v_{base}" if base[0].isdigit() else base
    return f"{base}_" if keyword.iskeyword(base) or hasattr(builtins, base) else base


def common(nodes: Sequence[ir.Comp | ir.Scatter]) -> set[ir.Scalar]:
    """The costly scalars that several nodes contain, without those inside of others that are as common."""
    counts: dict[ir.Scalar, int] = {}
    costly: set[ir.Scalar] = set()
    reading: set[ir.Scalar] = set()  # tests of positions alone cost nothing
    above: dict[ir.Scalar, set[ir.Scalar]] = {}
    for node in nodes:
        for s in ir.scalars(natural(node)[0] if isinstance(node, ir.Comp) else node.body):
            if isinstance(s, ir.Read) or any(x in reading for x in ir.operands(s)):
                reading.add(s)
            if isinstance(s, ir.Op):
                counts[s] = counts.get(s, 0) + 1
                shared = s.name in ("select", "==", "sqrt") and s in reading
                if s.name in COSTLY or shared or any(x in costly for x in s.args):
                    costly.add(s)
            for x in ir.operands(s):
                above.setdefault(x, set()).add(s)
    found = {s for s in costly if counts[s] > 1}
    return {s for s in found if not any(p in found and counts[p] == counts[s] for p in above.get(s, ()))}


def given(order: Sequence[ir.Node]) -> list[ir.Node]:
    """What members of a team give to each other: no later value may take its memory while another reads it."""
    inner = [x for node in order if isinstance(node, ir.Scan) for x in given(ir.inside(node)[0])]
    return [*inner, *(node.args[0] for node in order if isinstance(node, ir.External) and is_together(node))]


def is_together(node: ir.Node) -> bool:
    """Do the members of a team compute a value together?"""
    return isinstance(node, ir.External) and node.op.startswith("team ")


def together_late(order: Sequence[ir.Node]) -> list[ir.Node]:
    """The same nodes, with what members of a team do together just before it is needed: until then none waits."""
    out: list[ir.Node] = []
    waiting: dict[ir.Node, None] = {}
    for node in order:
        if is_together(node) or (isinstance(node, ir.Part) and node.of in waiting):
            waiting[node] = None
            continue
        if any(a in waiting for a in ir.arguments(node)):
            out += waiting
            waiting.clear()
        out.append(node)
    return out + list(waiting)


def beside(order: Sequence[ir.Node]) -> list[ir.Node]:
    """The same nodes with each slope next to the value with which it shares work."""
    slopes = [x for x in order if isinstance(x, ir.Comp) and x.name.endswith("_slope")]
    if not slopes:
        return list(order)
    out = list(order)
    for slope in slopes:
        mine = {s for s in ir.scalars(slope.body) if isinstance(s, ir.Op) and s.name in COSTLY}
        needed = set(ir.arguments(slope))
        last = max((i for i, x in enumerate(out) if x in needed), default=-1)
        for i, x in enumerate(out):
            if x is slope:
                break
            if isinstance(x, ir.Comp) and i > last and mine & set(ir.scalars(x.body)):
                out.remove(slope)
                out.insert(i + 1, slope)
                break
    return out


@dataclass
class Comprehensions(ABC):
    """The part of a lowering that writes comprehensions, on which the others are built."""

    dtype: str = "np.float32"
    taken: set[str] = field(default_factory=set)
    lines: list[Line] = field(default_factory=list)
    names: dict[ir.Node, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    indent: int = 0
    counts: dict[ir.Node, int] = field(default_factory=dict)
    steps: dict[int, str] = field(default_factory=dict)
    roots: set[ir.Node] = field(default_factory=set)
    #: has the gradient begun?
    turned: bool = False
    #: parameters and states that are one for each layer: how the one of a layer is written
    stars: dict[ir.Node, str] = field(default_factory=dict)
    #: values of all layers that leave the function: where the one of a layer is put, at several places if equal
    sinks: dict[ir.Node, list[str]] = field(default_factory=dict)
    #: values that layers leave for their gradients, and the name that one has inside
    kept: dict[ir.Node, tuple[str, str]] = field(default_factory=dict)
    #: lists in which loops over layers keep all that only the loop back reads, and what their items are
    bundles: dict[str, list[ir.Part]] = field(default_factory=dict)
    #: what stands for the slice of a value at the current step
    slices: dict[ir.Node, ir.Input] = field(default_factory=dict)
    #: scalars that several statements need, and those that have a name already
    common: set[ir.Scalar] = field(default_factory=set)
    shared: dict[tuple[ir.Scalar, tuple[Size, ...]], Text] = field(default_factory=dict)
    #: in a block: the name of its rows, and the values that exist for these rows only
    rows: str = ""
    count: str = ""
    local: set[ir.Node] = field(default_factory=set)
    members: dict[ir.Comp | ir.Reshape, int] = field(default_factory=dict)
    #: in a block: where its loop begins, and what is computed before it
    loop_at: int = 0
    fixed: dict[tuple[ir.Scalar, tuple[Size, ...]], Text] = field(default_factory=dict)
    #: in a block: scalars that have a name outside of it
    around: dict[tuple[ir.Scalar, tuple[Size, ...]], Text] = field(default_factory=dict)
    #: in a block: the shapes of the floats that it computes for its rows
    row_shapes: dict[str, tuple[Size, ...]] = field(default_factory=dict)
    may_block: bool = True
    forward: set[ir.Node] | None = None
    parts: dict[ir.Node, dict[int, ir.Part]] = field(default_factory=dict)
    #: the number of the scan that a node is computed in
    scopes: dict[ir.Node, int] = field(default_factory=dict)
    #: values that nothing reads after the present line, and those whose axes lie in another order
    ending: set[ir.Node] = field(default_factory=set)
    turned_round: set[ir.Node] = field(default_factory=set)
    #: in a scan: values of a step that are kept, and where
    kept_at: dict[ir.Node, str] = field(default_factory=dict)
    #: windows that lie side by side already, by their text
    windows: dict[str, str] = field(default_factory=dict)
    #: the variables of the loops over layers around the present line
    loops: list[str] = field(default_factory=list)
    #: the value that is being written, and where it comes from
    target: str = ""
    writing: Span | None = None
    users: dict[ir.Node, dict[ir.Node, None]] = field(default_factory=dict)
    readers: dict[ir.Node, list[ir.Read | None]] = field(default_factory=dict)
    #: values of all layers of an inner loop that leave the function there, and are read around it as well
    read_around: set[ir.Node] = field(default_factory=set)
    #: sinks of values that are to be added up over the members of a team
    partial: set[ir.Node] = field(default_factory=set)
    #: results with a row for each row of the batch, which members of a team fill
    results: dict[ir.Node, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.taken |= TAKEN
        self.memory = Memory(self.inlined, self.dtype)

    # ---- names and lines

    def fresh(self, *wishes: str) -> str:
        """The first of the wishes that is not taken; if all are, the first one with a number."""
        names = [identifier(wish) for wish in wishes]
        name, k = next((x for x in names if x not in self.taken), names[0]), 2
        while name in self.taken:
            name, k = f"{names[0]}_{k}", k + 1
        self.taken.add(name)
        return name

    def line(self, text: str, comment: str = "", span: Span | None = None) -> None:
        if span is not None and span.derived and self.forward is not None and not self.turned:
            span = replace(span, derived=False)  # the loss itself needs it, too
        self.lines.append(Line("    " * self.indent + text, comment, span))

    def helper(self, name: str) -> str:
        if name in HELPERS:
            self.used.add(name)
        return name

    def numpy_dtype(self, dtype: str) -> str:
        return self.dtype if dtype in ("float", "f32") else DTYPES[dtype]

    # ---- nodes

    def count_uses(self, order: Sequence[ir.Node], roots: Sequence[ir.Node], scope: int = -1) -> None:
        for node in order:
            self.scopes[node] = scope
            if isinstance(node, ir.Part):
                self.parts.setdefault(node.of, {})[node.number] = node
            if isinstance(node, ir.Scan):
                self.count_uses(ir.inside(node)[0], (), node.number)
                for x in (*node.starts, *node.carries, *node.results):
                    self.users.setdefault(x, {})[node] = None
                for x in node.starts:
                    self.counts[x] = self.counts.get(x, 0) + 1
                    self.readers.setdefault(x, []).append(None)
            else:
                for a in ir.arguments(node):
                    self.users.setdefault(a, {})[node] = None
                reads = [s for b in ir.bodies(node) for s in ir.scalars(b) if isinstance(s, ir.Read)]
                tensors = {s.tensor for s in reads}
                others = [a for a in ir.arguments(node) if a not in tensors]
                for r in reads:
                    self.readers.setdefault(r.tensor, []).append(r)
                for a in others:
                    self.readers.setdefault(a, []).append(None)
                for a in (*(s.tensor for s in references(node)), *others):
                    self.counts[a] = self.counts.get(a, 0) + 1
            if isinstance(node, ir.Scan):
                for a in (*node.carries, *node.results):
                    self.counts[a] = self.counts.get(a, 0) + 2
        for root in roots:
            self.counts[root] = self.counts.get(root, 0) + 2
            self.readers.setdefault(root, []).append(None)

    def run(self, forward: Sequence[ir.Node], backward: Sequence[ir.Node] = ()) -> None:
        """Write what the roots need, those of the forward pass first."""
        roots = (*forward, *backward)
        self.roots = set(roots)
        name_lines(roots)
        order = ir.schedule(roots)
        self.count_uses(order, roots)
        self.memory.leave(forward)
        self.memory.leave(given(order))
        for root in backward:
            self.memory.pin(root)
        self.forward = set(ir.schedule(tuple(forward))) if backward else None
        self.statements(order)

    def statements(self, order: Sequence[ir.Node]) -> None:
        order = [x for x in together_late(beside(order)) if x not in self.names]
        items = plan(order, self.inlined) if self.may_block else list(order)
        blocks = [x for x in items if isinstance(x, Block)]
        blocked = {y for block in blocks for x in block.members for y in contents(x, self.inlined)}
        plain = [x for x in order if isinstance(x, ir.Comp | ir.Scatter) and x not in blocked]
        outer = self.common, self.shared, self.windows
        self.common, self.shared, self.windows = common(plain), dict(self.shared), dict(self.windows)
        for item, ended in zip(items, self.memory.ends(items), strict=True):
            first = next(iter(item.members)) if isinstance(item, Block) else item
            if self.forward is not None and self.indent == 0:
                self.turn(first)
            self.memory.now += 1
            self.ending = set(ended)
            if isinstance(item, Block):
                self.block(item)
            elif item not in self.names and not self.inlined(item):
                self.statement(item)
            self.memory.release(ended)
        self.common, self.shared, self.windows = outer

    def turn(self, node: ir.Node) -> None:
        """At the first value that the forward pass does not need, the gradient begins."""
        assert self.forward is not None
        slope = str(getattr(node, "name", "")).endswith("_slope")
        if node not in self.forward and not slope and not self.inlined(node) and not self.turned:
            self.turned = True
            self.line("grads = {}")

    def block(self, block: Block) -> None:
        """A loop over blocks of rows; what is used after it goes to arrays that exist before it."""
        self.members = dict(block.members)
        shown = [x for x in block.members if isinstance(x, ir.Comp) or self.used_inside(x, block)]
        outer = [x for x in shown if isinstance(x, ir.Comp) and (x in self.roots or self.used_outside(x, block))]
        for value in outer:
            name = self.names[value] = self.fresh(*self.wishes(value))
            self.line(f"{name} = {self.zeros(value) if block.is_total(value) else self.empty(value, name)}")
        before, taken = set(self.names), set(self.taken)
        self.rows = self.fresh("rows")
        self.count = self.fresh("count", "row_count")
        inside = list(dict.fromkeys(y for x in block.members for y in contents(x, self.inlined)))
        widest = max(shown, key=lambda x: len(extent(x)))
        sizes = [s for n, s in enumerate(extent(widest)) if n != block.members[widest]]
        width = " * ".join(atom(size_code(s)) for s in sizes) or "1"
        self.loop_at, self.fixed, self.row_shapes = len(self.lines), {}, {}
        self.line(f"for {self.rows} in {self.helper('row_blocks')}({size_code(block.rows)}, {width}):")
        self.indent += 1
        outer_common, self.around = self.common, self.shared
        self.common, self.shared = common([x for x in inside if isinstance(x, ir.Comp)]), {}
        for x in shown:
            self.member(x, block, x in outer)
        self.common, self.shared = outer_common, self.around
        space = "    " * self.indent
        start = self.loop_at + 1
        self.lines[start:] = self.computed_in_place(self.lines[start:])
        if any(re.search(rf"\b{self.count}\b", line.text) for line in self.lines[start:]):
            text = f"{space}{self.count} = {self.rows}.stop - {self.rows}.start"
            self.lines.insert(start, Line(text))
        self.indent -= 1
        for node in set(self.names) - before:
            if node not in outer:
                del self.names[node]
        self.taken = taken  # what exists for these rows only is forgotten, what stands before them is not
        for key, known in self.fixed.items():
            if re.fullmatch(r"\w+", known.code):
                self.shared[key] = known
                self.taken.add(known.code)
        self.rows = ""
        self.local, self.members = set(), {}
        for x in block.members:
            if isinstance(x, ir.Reshape) and (x in self.roots or self.used_outside(x, block)):
                self.statement(x)

    def computed_in_place(self, lines: Sequence[Line]) -> list[Line]:
        found = in_place([x.text for x in lines], self.row_shapes)
        out: list[Line] = []
        for line, texts in zip(lines, found, strict=True):
            out.append(replace(line, text=texts[0]))
            out += [Line(text) for text in texts[1:]]
        return out

    def before_rows(self, body: Body, s: ir.Scalar) -> Text:
        """A part of a formula that is the same in all rows: a line before the loop."""
        key = body.key(s)
        if key in self.around:
            return self.around[key]
        if key not in self.fixed:
            lines, self.lines = self.lines, []
            indent, self.indent = self.indent, self.indent - 1
            rows, self.rows = self.rows, ""
            common, shared = self.common, self.shared
            self.common, self.shared = set(), {}
            outside = Body(self, body.sizes)
            self.fixed[key] = outside.named(s, outside.scalar(s)) if isinstance(s, ir.Op) else outside.scalar(s)
            found, self.lines = self.lines, lines
            self.lines[self.loop_at : self.loop_at] = found
            self.loop_at += len(found)
            self.indent, self.rows, self.common, self.shared = indent, rows, common, shared
        return self.fixed[key]

    def member(self, x: ir.Comp | ir.Reshape, block: Block, outer: bool) -> None:
        """One value of a block, for some rows."""
        self.writing = x.span
        if isinstance(x, ir.Reshape):
            base = self.tensor(x.of) + ("" if x.of in self.local else f"[{self.rows}]")
            sizes = ", ".join([self.count, *(size_code(s) for s in x.shape[1:])])
            self.local.add(x)
            self.assign(x, f"{base}.reshape({sizes})")
            return
        total = block.is_total(x)
        if outer and not total and x.op is None:
            self.target = self.wish(x)
            code = Store(self, self.row_sizes(x, block.members[x]), row=block.members[x]).last(
                x.body, f"{self.names[x]}[{self.rows}]"
            )
            if code is not None:
                self.line(code, "", x.span)
                return
        code = self.full(self.comp(x), x.shape if total else (symbol(self.count), *x.shape[1:]), x.dtype)
        if total:
            self.line(f"{self.names[x]} += {bare(code)}", "", x.span)
        elif outer:
            self.line(f"{self.names[x]}[{self.rows}] = {bare(code)}", "", x.span)
        else:
            self.local.add(x)
            self.assign(x, code)
            if is_float(x.dtype):
                self.row_shapes[self.names[x]] = (symbol(self.count), *x.shape[1:])

    def zeros(self, node: ir.Tensor) -> str:
        shape = ", ".join(size_code(s) for s in node.shape) + ("," if len(node.shape) == 1 else "")
        return f"np.zeros(({shape}), {self.numpy_dtype(node.dtype)})"

    def used_inside(self, node: ir.Node, block: Block) -> bool:
        users = self.users.get(node, ())
        return any(x in block.members if not self.inlined(x) else self.used_inside(x, block) for x in users)

    def used_outside(self, node: ir.Node, block: Block) -> bool:
        """Is a member of a block used by anything else than its members, or what they contain?"""
        if node in block.members and block.is_total(node):
            return True
        for user in self.users.get(node, ()):
            if self.inlined(user) or (isinstance(user, ir.Reshape) and user in block.members):
                if self.used_outside(user, block):
                    return True
            elif user not in block.members:
                return True
        return False

    def inlined(self, node: ir.Node) -> bool:
        """A value without a name of its own that is used once goes into the expression that uses it."""
        if isinstance(node, ir.Part | ir.Input | ir.Step):
            return False
        if isinstance(node, ir.Comp):
            if node.op is None and not any(isinstance(s, ir.Read) for s in ir.scalars(node.body)):
                is_formula = not node.shape and isinstance(node.body, ir.Op)
                return node not in self.roots and not (is_formula and self.counts.get(node, 0) > 1)
            if node.name or self.counts.get(node, 0) != 1:
                return False
            if any(self.scopes.get(x) != self.scopes.get(node) for x in self.users.get(node, ())):
                return False  # a loop would compute it again and again
            if node.op == "sum" and is_large(node) and any(is_together(x) for x in self.users.get(node, ())):
                return False  # a block may add it up
            return not (node.op == "sum" and (self.is_factor(node) or is_worth_a_line(node)))
        return False

    def is_factor(self, node: ir.Comp) -> bool:
        """A matrix product that goes into another one has a line of its own."""
        users = self.users.get(node, {})
        return len(split(node.body).above) > 1 and any(isinstance(x, ir.Comp) and x.op is not None for x in users)

    @abstractmethod
    def statement(self, node: ir.Node) -> None:
        """Write one node, of whatever kind."""

    def stored(self, node: ir.Comp) -> bool:
        """Write a value to a slot of the space, if it is large and can be computed there."""
        memory = self.memory
        if node in self.kept_at and node.op in (None, "sum"):
            return self.computed_at(node, self.kept_at[node])
        target = memory.target(node)
        if target is not None and node.op is None:
            lines = Store(self, node.shape).over(node.body, target, self.names[target])
            if lines is not None:
                for k, line in enumerate(lines):
                    self.line(line, "", node.span if k == 0 else None)
                self.names[node] = self.names[target]
                return True
        if node.op not in (None, "sum") or not memory.fits(node):
            return False
        name = self.fresh(*self.wishes(node))
        comment = f"[{', '.join(size_code(s) for s in node.shape)}]"
        place = partial(memory.place, node, name)
        dying = self.overwritten(node)
        if dying is not None:
            old = self.names[dying]
            lines = Store(self, node.shape).into(node.body, name, lambda shape: old, dying)
            if lines is not None:
                memory.slots[node] = memory.slots.pop(dying)
        elif node.op is None:
            lines = Store(self, node.shape).into(node.body, name, place)
        else:
            text = self.comp(node)
            lines = None
            if text.product is not None and len(text.axes) == len(node.shape):
                lines = [f"{name} = {text.product.text(place(text.product.shape))}"]
                if not re.fullmatch(r"(\.reshape\([^()]*\))?", text.product.views):
                    self.turned_round.add(node)
        if lines is None:
            self.taken.discard(name)
            if node.op is not None:
                self.assign(node, self.full(text, node.shape, node.dtype))
            return node.op is not None
        self.line(lines[0], comment, node.span)
        for line in lines[1:]:
            self.line(line)
        self.names[node] = name
        return True

    def overwritten(self, node: ir.Comp) -> ir.Tensor | None:
        """An operand of an elementwise formula that nothing reads after it, and whose place is as good as another."""
        memory = self.memory
        if node.op is not None or node in memory.pinned:
            return None
        whole = tuple(ir.plain(i) for i in range(len(node.shape)))
        reads = [s for s in ir.scalars(node.body) if isinstance(s, ir.Read)]
        for s in reads:
            x = s.tensor
            fits = x in memory.slots and x in self.ending and x.shape == node.shape and x.dtype == node.dtype
            views = [y for y in self.users.get(x, ()) if isinstance(y, ir.Reshape)]
            if fits and any(self.inlined(r.tensor) and x in memory.needs(r.tensor) for r in reads):
                continue  # a part of the formula without a line of its own reads it, too
            if fits and any(r.tensor is not x and x in memory.owners(r.tensor) for r in reads):
                continue  # another operand may be a view of it
            if fits and x not in self.turned_round and not views and not memory.slots[x].at:
                if all(r.places == whole for r in reads if r.tensor is x) and re.fullmatch(r"\w+", self.names[x]):
                    return x
        return None

    def computed_at(self, node: ir.Comp, place: str) -> bool:
        """Write a value of a step to the place where the steps are kept, if it can be computed there."""
        name = self.fresh(*self.wishes(node))
        if node.op is None:
            lines = Store(self, node.shape, views=False).into(node.body, name, lambda shape: place)
        else:
            text = self.comp(node)
            plain = text.product is not None and not text.product.views and len(text.axes) == len(node.shape)
            lines = [f"{name} = {text.product.text(place)}"] if plain and text.product is not None else None
        if lines is None:
            self.taken.discard(name)
            if node.op is not None:
                self.assign(node, self.full(text, node.shape))
            return node.op is not None
        self.line(lines[0], f"[{', '.join(size_code(s) for s in node.shape)}]", node.span)
        for line in lines[1:]:
            self.line(line)
        self.names[node] = name
        self.kept_at.pop(node)
        return True

    def side_by_side(self, code: str, sizes: list[str]) -> str:
        """Windows as the rows of a matrix: a copy, made once for a convolution and its gradient."""
        shape = ", ".join(sizes)
        if not self.memory.on or self.rows:
            return f"{code}.reshape({shape})"
        known = self.windows.get(f"{code} {shape}")
        if known is None:
            of = next(x for x in re.findall(r"[A-Za-z_]\w*", code) if x != "windows")
            name = self.fresh(f"{of}_windows", f"{of}_windows_for_{self.target}")
            slot = self.memory.reserve(name, identifier(self.target))
            wide = any(n == of and getattr(x, "dtype", "") == "f64" for x, n in self.names.items())
            place = slot.text(sizes, "np.float64" if wide and self.dtype != "np.float64" else "")
            self.line(f"{name} = {self.helper('columns')}({bare(code)}, {place})")
            known = self.windows[f"{code} {shape}"] = name
        return known

    def empty(self, node: ir.Tensor, name: str) -> str:
        """Memory for a value that is filled piece by piece."""
        if self.memory.fits(node):
            return self.memory.place(node, name, node.shape)
        shape = ", ".join(size_code(s) for s in node.shape)
        shape = f"({shape}{',' if len(node.shape) == 1 else ''})"
        if node in self.results:  # of some rows, among those of all members of a team
            dtype = RESULTS.get(node.dtype) or self.numpy_dtype(node.dtype)
            return f'team.empty("{self.results[node]}", {shape}, {dtype})'
        return f"np.empty({shape}, {self.numpy_dtype(node.dtype)})"

    def assign(self, node: ir.Node, code: str) -> None:
        if re.fullmatch(r"[A-Za-z_]\w*", code):
            self.names[node] = code
            return
        name = self.fresh(*self.wishes(node))
        self.names[node] = name
        shape = ", ".join(size_code(s) for s in getattr(node, "shape", ()))
        self.line(f"{name} = {bare(code)}", f"[{shape}]", getattr(node, "span", None))

    def place(self, node: ir.Node) -> str:
        span = getattr(node, "span", NOWHERE)
        if not span.source.text:
            return ""
        return f"  {span.place}"

    def wish(self, node: ir.Node) -> str:
        name = getattr(node, "name", "")
        if name:
            return str(name)
        if isinstance(node, ir.Reshape):
            return f"{self.wish(node.of)}_grouped"
        if isinstance(node, ir.Part) and isinstance(node.of, ir.External) and is_together(node.of):
            users = list(self.users.get(node, ()))
            last = node.of.op.removeprefix("team ")
            known = [str(name) for x in users if (name := getattr(x, "name", ""))]
            return f"{known[0]}_{last}" if known else f"{last}_of_all"
        if isinstance(node, ir.Comp):
            if slope_of_mean(node):
                return slope_of_mean(node)
            users = list(self.users.get(node, ()))
            if len(users) == 1 and is_together(users[0]):
                return f"{self.wish(next(iter(self.users[users[0]])))}_here"
            user = getattr(users[0], "name", "") if len(users) == 1 else ""
            if node.op == "sum" and user:
                return f"{user}_sum"
            read = next((self.names.get(s.tensor) for s in ir.scalars(node.body) if isinstance(s, ir.Read)), None)
            word = node.op or (node.body.name if isinstance(node.body, ir.Op) and node.body.name.isidentifier() else "")
            return f"{word}_{read}" if read and word else read or word or "value"
        return "value"

    def wishes(self, node: ir.Node) -> list[str]:
        """Names for a value, the best first: what it is, and what it is computed from."""
        read = [self.names[x] for x in ir.arguments(node) if re.fullmatch(r"\w+", self.names.get(x, ""))]
        return [self.wish(node), *(f"{self.wish(node)}_of_{x}" for x in read)]

    def tensor(self, node: ir.Tensor, row: int | None = None) -> str:
        """The text of a whole tensor in its own order of axes; in a block, of the rows of one without a name."""
        if node in self.names:
            return self.names[node]
        if isinstance(node, ir.Comp):
            return Text(self.full(self.comp(node, row), node.shape, node.dtype), (), PLUS).at(ATOM)
        raise AssertionError(f"{type(node).__name__} {getattr(node, 'name', '')} is not computed yet")

    def full(self, text: Text, shape: tuple[Size, ...], dtype: str = "float") -> str:
        """An expression with all axes of a result."""
        if len(text.axes) == len(shape):
            return text.code
        sizes = ", ".join(size_code(s) for s in shape) + ("," if len(shape) == 1 else "")
        if not text.axes:
            if shape and text.code == "0":
                return f"np.zeros(({sizes}), {self.numpy_dtype(dtype)})"
            return f"np.full(({sizes}), {text.code}, {self.numpy_dtype(dtype)})" if shape else text.code
        expanded = self.expand(text, tuple(range(len(shape)))).code
        if all(shape[n] == 1 and n > text.axes[0] for n in range(len(shape)) if n not in text.axes):
            return expanded
        return f"np.broadcast_to({expanded}, ({sizes}))"

    # ---- comprehensions

    def comp(self, node: ir.Comp, row: int | None = None) -> Text:
        """The text of a comprehension; in a block, `row` is the variable that counts its rows."""
        self.target = self.wish(node)
        if self.rows and node in self.members:
            row = self.members[node]
        sizes = self.row_sizes(node, row)
        body = Body(self, sizes, row=row)
        if node.op is None:
            text = body.scalar(node.body)
            if not text.axes and not node.shape and all(is_plain(x) for x in ir.scalars(node.body)):
                return Text(f"np.asarray({text.code}, {self.numpy_dtype(node.dtype)})", (), ATOM)
            return text
        return Sums(self, sizes, row=row).node(node)

    def row_sizes(self, node: ir.Comp, row: int | None) -> tuple[Size, ...]:
        """The sizes of the variables of a comprehension; in a block, only some rows."""
        sizes = (*node.shape, *node.reduced)
        return sizes if row is None else (*sizes[:row], symbol(self.count), *sizes[row + 1 :])

    def expand(self, text: Text, axes: tuple[int, ...]) -> Text:
        """Insert new axes so that the text lines up with `axes` from the right."""
        if not text.axes or text.axes == axes:
            return text
        if text.positive is not None:
            return self.expand(text.positive, axes).negative
        first = axes.index(text.axes[0])
        items = [":" if a in text.axes else "None" for a in axes[first:]]
        if "None" not in items:
            return text
        while items and items[0] == ":" and len(items) > 1 and items.count(":") == len(items):
            items.pop()
        if items[-1] == ":" and "None" in items:
            last_none = len(items) - 1 - items[::-1].index("None")
            tail = items[last_none + 1 :]
            if all(i == ":" for i in tail):
                items = items[: last_none + 1]
        return Text(f"{text.at(ATOM)}[{', '.join(items)}]", text.axes, ATOM)

    several: dict[ir.Node, list[str]] = field(default_factory=dict)
    scan_names: dict[ir.Node, list[str]] = field(default_factory=dict)

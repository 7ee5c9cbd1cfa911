"""From IR nodes to lines of NumPy: a statement for each node that needs one, all others as parts of formulas.

What a statement of one kind looks like is a rule in `STATEMENTS`; the rules stand in `statement.py`, `loops.py` and
`others.py`.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dslc.backends.numpy.body import Body, is_plain
from dslc.backends.numpy.names import HELPERS, TAKEN
from dslc.backends.numpy.sums import Sums, natural
from dslc.backends.numpy.text import ATOM, DTYPES, PLUS, Text, bare, shape_code, size_code

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.ir.namespace import slope_of_mean
from dslc.ir.naming import name_lines
from dslc.ops.table import COSTLY
from dslc.passes.products import split
from dslc.sizes import Facts, Size
from dslc.source import Span


@dataclass
class Line:
    text: str
    comment: str = ""
    span: Span | None = None


def identifier(wish: str) -> str:
    """A name of Python near to a wish.

    >>> identifier("block.h"), identifier("id")
    ('block_h', 'id_')
    """
    base = re.sub(r"\W+", "_", wish).strip("_") or "value"
    base = f"v_{base}" if base[0].isdigit() else base
    return f"{base}_" if keyword.iskeyword(base) or hasattr(builtins, base) else base


def references(node: ir.Node) -> list[ir.Read]:
    """The reads of a node, each as often as its formulas use it."""
    found: list[ir.Read] = []
    for body in ir.bodies(node):
        uses = [body, *(x for s in ir.scalars(body) for x in ir.operands(s))]
        found += [x for x in uses if isinstance(x, ir.Read)]
    return found


def is_count(node: ir.Node) -> bool:
    """Is a value the number of entries for which something holds?"""
    match node:
        case ir.Comp(op="sum", body=ir.Op("select", (_, ir.Const(value=1), ir.Const(value=0)))):
            return bool(node.shape)
    return False


def is_another_name(node: ir.Node) -> bool:
    """May the text of a value be that of another one, without a line of its own?"""
    if isinstance(node, ir.Comp) and node.op is None:
        body = node.body
        while isinstance(body, ir.Op) and body.name in ("stop_grad", "cast"):
            body = body.args[0]
        return isinstance(body, ir.Read)
    return isinstance(node, ir.Along | ir.External | ir.Custom | ir.Part | ir.Reshape)


def waits(node: ir.Node) -> bool:
    """Is a value best written just before the first that needs it?"""
    return is_count(node) or (isinstance(node, ir.Comp) and is_another_name(node))


@dataclass
class Uses:
    """Who reads what in a program, in loops too: found before anything is written."""

    roots: frozenset[ir.Node] = frozenset()
    #: how often a node is used in formulas; what has a line in any case counts twice
    counts: Counter[ir.Node] = field(default_factory=Counter)
    users: dict[ir.Node, dict[ir.Node, None]] = field(default_factory=dict)
    #: the reads of a node; None where it is used as a whole
    readers: dict[ir.Node, list[ir.Read | None]] = field(default_factory=dict)
    parts: dict[ir.Node, dict[int, ir.Part]] = field(default_factory=dict)
    #: the number of the scan that a node is computed in
    scopes: dict[ir.Node, int] = field(default_factory=dict)
    #: all that is computed: what only a derivative by hand is given is not
    needed: set[ir.Node] = field(default_factory=set)

    @classmethod
    def of(cls, roots: Sequence[ir.Node]) -> Uses:
        made = cls(frozenset(roots))
        stack = list(roots)
        while stack:
            node = stack.pop()
            if node not in made.needed:
                made.needed.add(node)
                match node:
                    case ir.Custom():
                        stack += node.values
                    case ir.Scan():
                        stack += (*node.starts, *node.carries, *node.results)
                    case _:
                        stack += ir.arguments(node)
        made.add(ir.schedule(tuple(roots)))
        made.counts.update(2 * list(roots))
        for root in roots:
            made.readers.setdefault(root, []).append(None)
        return made

    def inside(self, scan: ir.Scan) -> list[ir.Node]:
        """What a scan computes in each step, in order."""
        return [x for x in ir.inside(scan)[0] if x in self.needed]

    def add(self, order: Sequence[ir.Node], scope: int = -1) -> None:
        for node in order:
            if node not in self.needed:
                continue
            self.scopes[node] = scope
            if isinstance(node, ir.Part):
                self.parts.setdefault(node.of, {})[node.number] = node
            if isinstance(node, ir.Scan):
                self.add(ir.inside(node)[0], node.number)
                self.use(node, (*node.starts, *node.carries, *node.results))
                self.counts.update([*node.starts, *(2 * [*node.carries, *node.results])])
                for x in node.starts:
                    self.readers.setdefault(x, []).append(None)
                continue
            self.use(node, ir.arguments(node))
            reads = [s for b in ir.bodies(node) for s in ir.scalars(b) if isinstance(s, ir.Read)]
            tensors = {s.tensor for s in reads}
            others = [a for a in ir.arguments(node) if a not in tensors]
            for r in reads:
                self.readers.setdefault(r.tensor, []).append(r)
            for a in others:
                self.readers.setdefault(a, []).append(None)
            self.counts.update([*(s.tensor for s in references(node)), *others])

    def use(self, node: ir.Node, used: Iterable[ir.Node]) -> None:
        for a in used:
            self.users.setdefault(a, {})[node] = None


#: an array of windows, and which of its axes are the rows of a matrix, and which its columns
Rows = tuple[str, tuple[int, ...], tuple[int, ...]]


@dataclass
class Formulas:
    """Parts of formulas that have a name of their own, where a scope is written."""

    #: scalars that several statements need
    common: set[ir.Scalar] = field(default_factory=set)
    #: those that are written, by their sizes
    shared: dict[tuple[ir.Scalar, tuple[Size, ...]], Text] = field(default_factory=dict)
    #: windows that lie side by side as a matrix already
    windows: dict[tuple[ir.Node, Rows], str] = field(default_factory=dict)


@dataclass
class Layers:
    """What loops over layers take from outside, and what they leave."""

    #: parameters and states that are one for each layer: how the one of a layer is written
    stars: dict[ir.Node, str] = field(default_factory=dict)
    #: values of all layers that leave the function: where the one of a layer is put, at several places if equal
    sinks: dict[ir.Node, list[str]] = field(default_factory=dict)
    #: values that layers keep for their gradients: the list that holds them, and the name that one has inside
    kept: dict[ir.Node, tuple[str, str]] = field(default_factory=dict)
    #: lists in which loops over layers keep all that only the loop back reads, and what their items are
    bundles: dict[str, list[ir.Part]] = field(default_factory=dict)
    #: what stands for the slice of a value at the current step
    slices: dict[ir.Node, ir.Input] = field(default_factory=dict)
    #: values of all layers of an inner loop that leave the function there, and are read around it as well
    read_around: set[ir.Node] = field(default_factory=set)
    #: paths of layers, and the variables that hold them
    paths: dict[str, str] = field(default_factory=dict)

    def entry(self, code: str) -> str:
        """An entry of a table of parameters, by the variable that holds the path of the layer."""
        for path, name in self.paths.items():
            code = code.replace(f'f"{path}.', f'f"{{{name}}}.')
        return code


def common(nodes: Sequence[ir.Comp | ir.Scatter]) -> set[ir.Scalar]:
    """The costly scalars that several nodes contain, and differences that three do, without those inside of others that
    are as common."""
    counts: Counter[ir.Scalar] = Counter()
    costly: set[ir.Scalar] = set()
    gaps: set[ir.Scalar] = set()
    reading: set[ir.Scalar] = set()  # tests of positions alone cost nothing
    above: dict[ir.Scalar, set[ir.Scalar]] = {}
    for node in nodes:
        for s in ir.scalars(natural(node)[0] if isinstance(node, ir.Comp) else node.body):
            if isinstance(s, ir.Read) or any(x in reading for x in ir.operands(s)):
                reading.add(s)
            if isinstance(s, ir.Op):
                counts[s] += 1
                shared = s.name in ("select", "==", "sqrt") and s in reading
                if s.name in COSTLY or shared or any(x in costly for x in s.args):
                    costly.add(s)
                elif s.name == "-" and is_float(s.dtype) and all(isinstance(x, ir.Read) for x in s.args):
                    gaps.add(s)
            for x in ir.operands(s):
                above.setdefault(x, set()).add(s)
    found = {s for s in costly if counts[s] > 1} | {s for s in gaps if counts[s] > 2}
    return {s for s in found if not any(p in found and counts[p] == counts[s] for p in above.get(s, ()))}


def beside(order: Sequence[ir.Node]) -> tuple[list[ir.Node], set[ir.Node]]:
    """The same nodes with each formula next to the first one with which it shares a costly function, if it can stand
    there, and those that were moved: the slope of an activation is computed with the activation."""
    place = {x: k for k, x in enumerate(order)}
    first: dict[ir.Scalar, ir.Comp] = {}
    after: dict[ir.Node, list[ir.Node]] = {}
    for node in order:
        if not isinstance(node, ir.Comp) or node.op is not None:
            continue
        costly = [s for s in ir.scalars(node.body) if isinstance(s, ir.Op) and s.name in COSTLY]
        partner = next((first[s] for s in costly if s in first), None)
        if partner is not None and all(place.get(a, -1) <= place[partner] for a in ir.arguments(node)):
            after.setdefault(partner, []).append(node)
        else:
            first.update({s: node for s in costly if s not in first})
    moved = {x for group in after.values() for x in group}
    return [y for x in order if x not in moved for y in (x, *after.get(x, ()))], moved


def late(order: Sequence[ir.Node], waits: Callable[[ir.Node], bool]) -> list[ir.Node]:
    """The same nodes with each that waits just before the first that needs it: what is computed again is soon used."""
    out: list[ir.Node] = []
    waiting: dict[ir.Node, None] = {}

    def take(node: ir.Node) -> None:
        stack = [(node, False)]
        while stack:
            x, ready = stack.pop()
            if ready:
                out.append(x)
            else:
                stack.append((x, True))
                below = [a for a in dict.fromkeys(ir.arguments(x)) if a in waiting]
                for a in below:
                    del waiting[a]
                stack += [(a, False) for a in reversed(below)]

    for node in order:
        if waits(node):
            waiting[node] = None
        else:
            take(node)
    for node in list(waiting):
        if node in waiting:
            del waiting[node]
            take(node)
    return out


@dataclass
class Lowering:
    """The text of one function body."""

    dtype: str = "np.float32"
    taken: set[str] = field(default_factory=set)
    lines: list[Line] = field(default_factory=list)
    #: what a node that is computed is called, or the text that stands for it
    names: dict[ir.Node, str] = field(default_factory=dict)
    #: names that nodes are to have, whoever has them already
    given: dict[ir.Node, str] = field(default_factory=dict)
    #: functions of the runtime that the text calls
    used: set[str] = field(default_factory=set)
    indent: int = 0
    uses: Uses = field(default_factory=Uses)
    formulas: Formulas = field(default_factory=Formulas)
    layers: Layers = field(default_factory=Layers)
    #: the variables that count the steps of the scans around the present line
    steps: dict[int, str] = field(default_factory=dict)
    #: the texts of the values of a node with several of them
    several: dict[ir.Node, list[str]] = field(default_factory=dict)
    #: what is known of the sizes of inputs
    facts: Facts = field(default_factory=Facts)
    #: what the forward pass needs, where there is a gradient; and has that begun?
    forward: set[ir.Node] | None = None
    turned: bool = False
    #: what gradients are put into, and what is written before that
    gradients: str = "{}"
    between: Callable[[], None] = lambda: None
    #: the value that is being written, and where it comes from
    writing: tuple[str, Span | None] = ("", None)

    def __post_init__(self) -> None:
        self.taken |= TAKEN

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
        if span is not None and self.forward is not None and (not self.turned or self.indent == 0):
            span = replace(span, derived=self.turned)  # in loops back, values are computed again
        self.lines.append(Line("    " * self.indent + text, comment, span))

    def helper(self, name: str) -> str:
        if name in HELPERS:
            self.used.add(name)
        return name

    def numpy_dtype(self, dtype: str) -> str:
        return self.dtype if dtype in ("float", "f32") else DTYPES[dtype]

    # ---- nodes

    def run(self, forward: Sequence[ir.Node], backward: Sequence[ir.Node] = ()) -> None:
        """Write what the roots need, those of the forward pass first."""
        roots = (*forward, *backward)
        name_lines(roots)
        self.uses = Uses.of(roots)
        self.forward = set(ir.schedule(tuple(forward))) if backward else None
        needed = [x for x in ir.schedule(roots) if x in self.uses.needed]
        if self.forward is None:
            self.statements(late(needed, waits))
            return
        first = late([x for x in needed if x in self.forward], waits)
        then = [x for x in needed if x not in self.forward]
        self.statements([*first, *late(then, lambda x: waits(x) or self.is_slope(x))])

    def is_slope(self, node: ir.Node) -> bool:
        """Is a value of the gradient a formula of values of the forward pass, for one other value?"""
        if not isinstance(node, ir.Comp) or node.op is not None or len(self.uses.users.get(node, ())) != 1:
            return False
        assert self.forward is not None
        return all(x in self.forward for x in ir.arguments(node))

    def statements(self, order: Sequence[ir.Node], before: Mapping[ir.Node, Callable[[], None]] | None = None) -> None:
        """Write nodes in order; `before` are things to do just before some of them."""
        outer = self.formulas
        formulas = common([x for x in order if isinstance(x, ir.Comp | ir.Scatter) and x not in self.names])
        self.formulas = Formulas(formulas, dict(outer.shared), dict(outer.windows))
        for node in order:
            if self.forward is not None and self.indent == 0:
                self.turn(node)
            if before and node in before:
                before[node]()
            if node not in self.names and not self.inlined(node):
                self.writing = self.wish(node), getattr(node, "span", None)
                STATEMENTS[type(node)](self, node)
        self.formulas = outer

    def turn(self, node: ir.Node) -> None:
        """At the first value that the forward pass does not need, the gradient begins."""
        assert self.forward is not None
        if node not in self.forward and not self.inlined(node) and not self.turned:
            self.turned = True
            self.between()
            self.line(f"grads = {self.gradients}")

    def inlined(self, node: ir.Node) -> bool:
        """A value without a name of its own that is used once goes into the expression that uses it."""
        if not isinstance(node, ir.Comp):
            return False
        uses = self.uses
        if node.op is None and not any(isinstance(s, ir.Read) for s in ir.scalars(node.body)):
            is_formula = not node.shape and isinstance(node.body, ir.Op)
            return node not in uses.roots and not (is_formula and uses.counts[node] > 1)
        if uses.counts[node] != 1 or (node.name and not self.is_reshaped(node)):
            return False
        if any(uses.scopes.get(x) != uses.scopes.get(node) for x in uses.users.get(node, ())):
            return False  # a loop would compute it again and again
        return not (node.op == "sum" and (is_count(node) or self.is_factor(node)))

    def is_reshaped(self, node: ir.Comp) -> bool:
        """Is a value of the gradient only there for one of another shape, which is what the spec names?"""
        (user,) = self.uses.users[node]
        return node.op is None and isinstance(user, ir.Reshape) and node.span.derived and user.name.startswith("d_")

    def is_factor(self, node: ir.Comp) -> bool:
        """A matrix product that goes into another one has a line of its own."""
        users = self.uses.users.get(node, {})
        return len(split(node.body).above) > 1 and any(isinstance(x, ir.Comp) and x.op is not None for x in users)

    def reads(self, node: ir.Node) -> set[ir.Node]:
        """The values that the text of a statement speaks of: those in formulas without a line of their own, too."""
        found: set[ir.Node] = set()
        stack = list(ir.arguments(node))
        while stack:
            x = stack.pop()
            if x not in found:
                found.add(x)
                if self.inlined(x) or is_another_name(x):
                    stack += ir.arguments(x)
        return found

    def side_by_side(self, read: ir.Read, key: Rows, code: str) -> str:
        """Windows as the rows of a matrix: a copy, made once for a convolution and its gradient."""
        known = self.beside_already(read, key)
        if known:
            return known
        target, span = self.writing
        of = self.names.get(read.tensor, "")
        of = of if of.isidentifier() else self.wish(read.tensor)
        name = self.formulas.windows[read.tensor, key] = self.fresh(f"{of}_windows", f"{of}_windows_for_{target}")
        self.line(f"{name} = {code}", "", span)
        return name

    def beside_already(self, read: ir.Read, key: Rows) -> str:
        """The matrix that has these windows as its rows, or as its columns; nothing if there is none."""
        windows, rows, columns = key
        known = self.formulas.windows.get((read.tensor, key), "")
        turned = self.formulas.windows.get((read.tensor, (windows, columns, rows)), "")
        return known or (f"{turned}.T" if turned else "")

    def empty(self, shape: tuple[Size, ...], dtype: str) -> str:
        """Memory for a value that is filled piece by piece."""
        return f"np.empty({shape_code(shape)}, {self.numpy_dtype(dtype)})"

    def assign(self, node: ir.Node, code: str) -> None:
        if re.fullmatch(r"[A-Za-z_]\w*", code) and node not in self.given:
            self.names[node] = code
            return
        name = self.given.get(node) or self.fresh(*self.wishes(node))
        self.names[node] = name
        shape = ", ".join(size_code(s) for s in getattr(node, "shape", ()))
        told = code.startswith(("np.zeros(", "np.full(", "np.broadcast_to(")) or code.endswith(f".reshape({shape})")
        shown = bool(shape) and not told and not name.startswith("grads[")  # a gradient has the shape of its parameter
        self.line(f"{name} = {bare(code)}", f"[{shape}]" if shown else "", getattr(node, "span", None))

    def wish(self, node: ir.Node) -> str:
        """What a value is called best: as in the spec, or after what is done to the first named value in it."""
        name = getattr(node, "name", "")
        if name:
            return str(name)
        if isinstance(node, ir.Reshape):
            return f"{self.wish(node.of)}_grouped"
        if not isinstance(node, ir.Comp):
            return "value"
        if slope_of_mean(node):
            return slope_of_mean(node)
        users = list(self.uses.users.get(node, ()))
        user = getattr(users[0], "name", "") if len(users) == 1 and not is_count(node) else ""
        if node.op == "sum" and user:
            return f"{user}_sum"
        read = next((self.names.get(s.tensor) for s in ir.scalars(node.body) if isinstance(s, ir.Read)), None)
        word = (
            "count"
            if is_count(node)
            else node.op or (node.body.name if isinstance(node.body, ir.Op) and node.body.name.isidentifier() else "")
        )
        return f"{word}_{read}" if read and word else read or word or "value"

    def wishes(self, node: ir.Node) -> list[str]:
        """Names for a value, the best first: what it is, and what it is computed from."""
        read = [self.names[x] for x in ir.arguments(node) if re.fullmatch(r"\w+", self.names.get(x, ""))]
        return [self.wish(node), *(f"{self.wish(node)}_of_{x}" for x in read)]

    # ---- values as text

    def tensor(self, node: ir.Tensor) -> str:
        """The text of a whole tensor in its own order of axes."""
        if node in self.names:
            return self.names[node]
        if isinstance(node, ir.Comp):
            return Text(self.full(self.comp(node), node.shape, node.dtype), (), PLUS).at(ATOM)
        raise AssertionError(f"{type(node).__name__} {getattr(node, 'name', '')} is not computed yet")

    def full(self, text: Text, shape: tuple[Size, ...], dtype: str = "float") -> str:
        """An expression with all axes of a result."""
        if len(text.axes) == len(shape):
            return text.code
        if not text.axes:
            if shape and text.code == "0":
                return f"np.zeros({shape_code(shape)}, {self.numpy_dtype(dtype)})"
            return f"np.full({shape_code(shape)}, {text.code}, {self.numpy_dtype(dtype)})"
        expanded = self.expand(text, tuple(range(len(shape)))).code
        if all(shape[n] == 1 and n > text.axes[0] for n in range(len(shape)) if n not in text.axes):
            return expanded
        return f"np.broadcast_to({expanded}, {shape_code(shape)})"

    def comp(self, node: ir.Comp) -> Text:
        """The text of a comprehension."""
        sizes = (*node.shape, *node.reduced)
        if node.op is not None:
            return Sums(self, sizes).node(node)
        text = Body(self, sizes).scalar(node.body)
        if not text.axes and not node.shape and all(is_plain(x) for x in ir.scalars(node.body)):
            return Text(f"{self.numpy_dtype(node.dtype)}({text.code})", (), ATOM)
        return text

    def expand(self, text: Text, axes: tuple[int, ...]) -> Text:
        """Insert new axes so that the text lines up with `axes` from the right."""
        if not text.axes or text.axes == axes:
            return text
        if text.positive is not None:
            return self.expand(text.positive, axes).negative
        items = [":" if a in text.axes else "None" for a in axes[axes.index(text.axes[0]) :]]
        if "None" not in items:
            return text
        while items[-1] == ":":
            items.pop()
        return Text(f"{text.at(ATOM)}[{', '.join(items)}]", text.axes, ATOM)


#: how a node of each kind is written
STATEMENTS: dict[type, Callable[[Lowering, ir.Node], None]] = {}


def statement(*kinds: type) -> Callable[[Callable[[Lowering, ir.Node], None]], Callable[[Lowering, ir.Node], None]]:
    """Make a function the rule for nodes of some kinds."""

    def rule(function: Callable[[Lowering, ir.Node], None]) -> Callable[[Lowering, ir.Node], None]:
        STATEMENTS.update(dict.fromkeys(kinds, function))
        return function

    return rule

"""One function as a namespace: values without a name get one, and values of one name a word that tells them apart.

Names say what a value is, never how many there were before it: what is done to the first named value in it
(`max_logits`), what it is for (`d_lstm_c_factor`), through what an adjoint depends on the result (`d_q_via_score`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from dslc.ir import nodes as ir

#: what the value of an operation is called
OPERATIONS = {"+": "sum", "-": "difference", "*": "product", "/": "ratio", "^": "power", "select": "chosen",
              "neg": "minus", "cast": "rounded"}  # fmt: skip

#: what the values of an operation with several of them are
PARTS = {"top_k": ("top", "top_at"), "fft": ("re", "im"), "ifft": ("re", "im"), "eigh": ("values", "vectors")}

#: a name that would be longer is not made: in a chain of values of one name, each would hold the name before it;
#: values that still share a name are told apart by the backend
LONGEST = 80


def tell_apart(outputs: Mapping[str, ir.Tensor]) -> None:
    """Give values that share a name with a later one a word for what they are. Names are no part of what a node is.

    Only that word: backends share kernels of one text, and what a value is computed from would tell equal ones apart.
    """
    space = _Namespace(tuple(outputs.values()), _is_formula)
    space.tell_apart(lambda node: [f"{_name(node)}_{_word(node)}"] if _word(node) else [])


def name_lines(roots: Sequence[ir.Node]) -> None:
    """Name values without a name that need a line of their own, and tell all values of one name apart.

    For backends: in a message such a name would say nothing, and before the last pass it would keep a value from
    becoming part of a formula.
    """
    space = _Namespace(roots)
    space.describe()
    space.tell_apart(space.wishes)


def line_names(roots: Sequence[ir.Node], statement: Callable[[ir.Node], str]) -> dict[ir.Node, str]:
    """The names that `name_lines` would give, while the values keep theirs.

    A formula without a name that is a part of a statement is called after that: `statement` says how.

    For functions that launch kernels: inside of a kernel values have the short names of their statements, so that equal
    kernels of two layers have one text; the lines of the function tell the layers apart.
    """
    before = {node: _name(node) for node in _Namespace(roots).around if hasattr(node, "name")}
    for node, name in before.items():
        if isinstance(node, ir.Comp) and not name and statement(node):
            ir.rename(node, statement(node))
    name_lines(roots)
    found = {node: identifier(_name(node)) for node in before}
    for node, name in before.items():
        ir.rename(node, name)
    return found


def identifier(name: str) -> str:
    """A name as a module writes it.

    >>> identifier("block.*.norm.y")
    'block_norm_y'
    """
    return re.sub(r"\W+", "_", name).strip("_")


class _Namespace:
    """The values of one function with their names.

    What a loop over layers names is forgotten after it, so values of two such loops can have one name.
    """

    def __init__(self, roots: Sequence[ir.Node], counts: Callable[[ir.Node], bool] = lambda node: True) -> None:
        #: all values in order, those of scans too, with the scans around them
        self.around: dict[ir.Node, tuple[ir.Scan, ...]] = {}
        self._walk(ir.schedule(tuple(roots)), ())
        self.users: dict[ir.Node, list[ir.Node]] = {}
        self.scans = {x.number: x for x in self.around if isinstance(x, ir.Scan)}
        for node in self.around:
            for x in node.starts if isinstance(node, ir.Scan) else ir.arguments(node):
                self.users.setdefault(x, []).append(node)
        self.roots = set(roots)
        self.kept = {x for scan in self.scans.values() for x in scan.results if self.around.get(x, ())[-1:] == (scan,)}
        #: values of time steps whose stacks loops over layers keep
        parts = [(x.of, x.number) for x in self.kept if isinstance(x, ir.Part) and isinstance(x.of, ir.Scan)]
        self.stacked = {x for scan, number in parts for x in scan.results[number : number + 1]}
        #: who has a name, and the loops that it is forgotten after
        self.taken: dict[str, dict[ir.Node, tuple[ir.Scan, ...]]] = {}
        for node in filter(counts, self.around):
            self.take(node, _name(node))

    def _walk(self, order: Sequence[ir.Node], around: tuple[ir.Scan, ...]) -> None:
        for node in order:
            self.around[node] = around
            if isinstance(node, ir.Scan):
                self._walk(ir.inside(node)[0], (*around, node))

    def claims(self, node: ir.Node, name: str) -> dict[str, tuple[ir.Scan, ...]]:
        """What a module writes for a value of this name, and in which loops: the value, and where its steps go."""
        name, around = identifier(name), self.around[node]
        found: dict[str, tuple[ir.Scan, ...]] = {}
        match node:
            case ir.Scan() | ir.Custom() | ir.Along() | ir.External() | ir.Part(of=ir.Scan() | ir.Custom()):
                pass
            case ir.Step(kind="number") | ir.Input() if not isinstance(node, ir.Input) or "*" in node.name:
                pass  # of parameters that are one for each layer only the slices are written
            case ir.Step() if _is_layers(around[-1]):
                if not self.goes_on(around[-1].starts[node.place]):
                    found[name] = around[:-1]
            case ir.Step():
                found[f"{name}_before"] = around[:-1]
            case _:
                found[name] = around
        if node in self.kept and _is_layers(around[-1]):
            found = dict.fromkeys((*found, f"{name}_kept"), around[:-1])  # the loop back takes both names up again
        elif node in self.kept:
            found[f"{name}_steps"] = around[: -2 if node in self.stacked else -1]
        return {x: tuple(filter(_is_layers, scans)) for x, scans in found.items()} if name else {}

    def goes_on(self, start: ir.Node) -> bool:
        """Does a loop over layers go on with the name of its first value? It does if nobody else needs that value."""
        return isinstance(start, ir.Comp) and len(self.users[start]) == 1 and not _is_constant(start)

    def take(self, node: ir.Node, name: str) -> None:
        for claim, scans in self.claims(node, name).items():
            self.taken.setdefault(claim, {})[node] = scans

    def rivals(self, node: ir.Node, claim: str, scans: tuple[ir.Scan, ...]) -> list[ir.Node]:
        """Other values of that name at a place where it would be ambiguous."""
        others = self.taken.get(claim, {}).items()
        return [x for x, loops in others if x is not node and all(a is b for a, b in zip(loops, scans, strict=False))]

    def give(self, node: ir.Node, names: Iterable[str]) -> None:
        """The first of these names that nobody has, if there is one."""
        for name in (x for x in names if len(x) <= LONGEST):
            if not any(self.rivals(node, claim, scans) for claim, scans in self.claims(node, name).items()):
                for claim in self.claims(node, _name(node)):
                    del self.taken[claim][node]
                self.take(node, name)
                ir.rename(node, name)
                return

    # ---- values without a name

    def describe(self) -> None:
        """Name what has no name, or in the middle of a formula only that of an operation: `logdet`."""
        lines = self.with_lines()
        for node in self.around:
            if node in lines and _last(_name(node)) in ("", _operation(node)):
                self.give(node, self.descriptions(node))

    def with_lines(self) -> set[ir.Node]:
        """The values that no backend can put into the one formula that uses them."""
        uses: Counter[ir.Node] = Counter()
        for node in self.around:
            uses.update(node.args if isinstance(node, ir.Along | ir.External) else ())
            for body in ir.bodies(node):
                operands = (x for s in ir.scalars(body) for x in ir.operands(s))
                uses.update(x.tensor for x in (body, *operands) if isinstance(x, ir.Read))
        found = {x for x in (*self.kept, *uses) if isinstance(x, ir.Comp)}
        found |= {x for x in self.roots if isinstance(x, ir.Comp)}
        always = {x for x in self.around if isinstance(x, ir.Scatter) or _operation(x)}
        return always | {x for x in found if x in self.kept | self.roots or uses[x] > 1 or self.is_used_elsewhere(x)}

    def is_used_elsewhere(self, node: ir.Node) -> bool:
        """Is a value used in a loop that it is not computed in?"""
        return any(self.around[x] != self.around[node] for x in self.users.get(node, ()))

    def descriptions(self, node: ir.Node) -> Iterator[str]:
        """Names for a value without one: by what is done to the first named value in it, or by what it is for."""
        users = [_name(x) for x in self.users.get(node, ()) if not isinstance(x, ir.Scan)]
        if len(users) == 1 and users[0] and self.is_used_elsewhere(node):
            yield f"{users[0]}_factor"
        if isinstance(node, ir.Comp) and slope_of_mean(node):
            yield slope_of_mean(node)
        if isinstance(node, ir.Comp) and _described(node):
            yield _described(node)
        if isinstance(node, ir.Scatter):
            yield from (f"{x}_scattered" for x in self.named_arguments(node))
        if isinstance(node, ir.Part) and isinstance(node.of, ir.Along | ir.External):
            words = PARTS.get(node.of.op, ("",))
            of = self.named_arguments(node.of)
            yield "_".join(filter(None, (node.of.op, *of[:1], words[node.number])))
        yield from (f"{user}_term" for user in users if user)

    # ---- values of one name

    def tell_apart(self, wishes: Callable[[ir.Node], Iterable[str]]) -> None:
        for claim in list(self.taken):
            group = [x for x, scans in self.taken[claim].items() if self.rivals(x, claim, scans)]
            for node in self.others(group):
                self.give(node, wishes(node))

    def others(self, group: Sequence[ir.Node]) -> list[ir.Node]:
        """All values of one name but the one that keeps it.

        That is an input, what a loop goes on with, or the last one that is no view of another.
        """
        fixed: list[ir.Node] = [x for x in group if isinstance(x, ir.Input)]
        fixed = fixed or [x for x in group if self.is_carried_on(x)]
        own = fixed or [x for x in group if not any(_viewed(x) is y for y in group)] or list(group)
        kept = own[:1] if fixed else own[-1:]
        return [x for x in group if x not in kept and not isinstance(x, ir.Input)]

    def is_carried_on(self, node: ir.Node) -> bool:
        """Does a loop over layers carry a value, or begin with it?"""
        if isinstance(node, ir.Step):
            return _is_layers(self.scans[node.scan])
        scans = [x for x in self.users.get(node, ()) if isinstance(x, ir.Scan) and node in x.starts]
        return any(_is_layers(x) for x in scans) and self.goes_on(node)

    def wishes(self, node: ir.Node) -> Iterator[str]:
        """Names for a value whose name another one keeps, the plainest first."""
        name = _name(node)
        if isinstance(node, ir.Step):
            label = layer_of(self.scans[node.scan])
            first, last = ("d_", name[2:]) if name.startswith("d_") else ("", name)
            yield from (f"{first}{label}.{word}{_last(last)}" for word in ("", "past_") if label)
            return
        around = self.around[node]
        if around and node in around[-1].carries and _is_layers(around[-1]):
            yield f"{name}_next"
        word = _word(node)
        if word:
            yield f"{name}_{word}"
        yield from self.sources(node, name)
        if word:
            yield from self.sources(node, f"{name}_{word}")
        users = [_name(user) for user in self.users.get(node, ()) if not isinstance(user, ir.Scan)]
        yield from (f"{name}_for_{_last(user)}" for user in users if user and not user.startswith(name))

    def sources(self, node: ir.Node, name: str) -> Iterator[str]:
        """A name by what a value is computed from: for an adjoint the value through which it depends on the result."""
        reads = self.named_arguments(node)
        if name.startswith("d_"):
            yield from (f"{name}_via_{_last(x.removeprefix('d_'))}" for x in reads if x.startswith("d_"))
        yield from (f"{name}_of_{_last(x)}" for x in reads)

    def named_arguments(self, node: ir.Node) -> list[str]:
        """The names of what a value is computed from, through values without a name."""
        found: dict[str, None] = {}
        seen: set[ir.Node] = set()
        stack = list(reversed(ir.arguments(node)))
        while stack:
            x = stack.pop()
            if x not in seen and not isinstance(x, ir.Scan):
                seen.add(x)
                if _name(x):
                    found[_name(x)] = None
                else:
                    stack += reversed(ir.arguments(x))
        return list(found)


def layer_of(scan: ir.Scan) -> str:
    """The layer that most values of a scan belong to."""
    names = [_name(x).removeprefix("d_") for x in ir.inside(scan)[0] if not isinstance(x, ir.Step)]
    labels = Counter(x.partition(".")[0] for x in names if "." in x)
    return max(labels, key=labels.__getitem__, default="")


def _name(node: ir.Node) -> str:
    return str(getattr(node, "name", ""))


def _is_formula(node: ir.Node) -> bool:
    """Formulas and inputs; a sequence and its step have one name, inside of a scan and outside."""
    return isinstance(node, ir.Input | ir.Comp | ir.Scatter | ir.Reshape) and not isinstance(_viewed(node), ir.Part)


def _is_layers(scan: ir.Scan) -> bool:
    return scan.kind == "layers"


def _operation(node: ir.Node) -> str:
    """The operation on axes or matrices that a node is a value of, if it is one."""
    return node.of.op if isinstance(node, ir.Part) and isinstance(node.of, ir.Along | ir.External) else ""


def _is_constant(node: ir.Comp) -> bool:
    return not any(isinstance(s, ir.Read) for s in ir.scalars(node.body))


def slope_of_mean(node: ir.Comp) -> str:
    """What 1 / N is called: how much a mean grows with each of its terms. Empty for any other value.

    >>> mean = ir.op("/", (ir.const(1.0, "f32"), ir.SizeOf(8, "f32")), "f32")
    >>> bodies = mean, ir.op("neg", (mean,), "f32"), ir.SizeOf(8, "f32")
    >>> [slope_of_mean(ir.Comp((), (), None, body, "f32")) for body in bodies]
    ['d_mean', 'd_minus_mean', '']
    """
    body, name = node.body, "d_mean"
    if isinstance(body, ir.Op) and body.name == "neg":
        body, name = body.args[0], "d_minus_mean"
    match body:
        case ir.Op(name="/", args=(ir.Const(value=1), ir.SizeOf())):
            return name
    return ""


def _last(name: str) -> str:
    """A name without the layer that it belongs to."""
    return name.rpartition(".")[2]


def _described(node: ir.Comp) -> str:
    """What is done to the first named value in a formula. Empty where there is none."""
    reads = [s.tensor for s in _from_the_left(node.body) if isinstance(s, ir.Read)]
    of = next((x.name for x in reads if x.name and not isinstance(x, ir.Step)), "")
    body = node.body
    if not of or isinstance(body, ir.Const | ir.SizeOf | ir.Var | ir.Rand):
        return ""
    if node.op is not None and isinstance(body, ir.Op) and body.name.isidentifier() and body.name not in OPERATIONS:
        return f"{node.op}_{body.name}_{of}"
    if node.op is not None:
        return f"{node.op}_{of}"
    if isinstance(body, ir.Read):
        return f"{of}_{_word(node)}"
    if body.name in ("*", "/") and len(reads) == 1 and not any(isinstance(x, ir.Op) for x in body.args):
        return f"{of}_scaled"
    return f"{OPERATIONS.get(body.name, body.name)}_{of}"


def _from_the_left(root: ir.Scalar) -> Iterator[ir.Scalar]:
    """The scalars of a formula as one reads it, each once."""
    seen: set[ir.Scalar] = set()
    stack = [root]
    while stack:
        s = stack.pop()
        if s not in seen:
            seen.add(s)
            yield s
            stack += reversed(ir.operands(s))


def _viewed(node: ir.Node) -> ir.Tensor | None:
    """The tensor that a node only shows in another way."""
    if isinstance(node, ir.Reshape):
        return node.of
    if isinstance(node, ir.Comp) and node.op is None and isinstance(node.body, ir.Read):
        return node.body.tensor
    return None


def _word(node: ir.Node) -> str:
    match node:
        case ir.Reshape():
            return "grouped"
        case ir.Scatter():
            return "scattered"
        case ir.Comp(op=str() as op):
            return op
        case ir.Comp(body=ir.Read() as read):
            if isinstance(read.tensor, ir.Part) and isinstance(read.tensor.of, ir.Scan):
                return "sequence"
            axes = [ir.plain(i) for i in range(len(node.shape))]
            if (
                read.outside is None
                and sorted(map(id, read.places)) == sorted(map(id, axes))
                and [*read.places] != axes
            ):
                return "transposed"
            return "part" if read.outside is None else "padded"
    return "" if _name(node).startswith("d_") else "before"

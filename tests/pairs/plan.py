"""A plan of a program, and the two texts that are written from it: a spec and a torch program.

A plan is a list of statements. A statement has lines for the spec and lines for torch; both may have slots, which
expressions fill. A statement can be taken out, which makes inputs of the values that it defined, and an expression can
be replaced by a part of itself: that is how a failure is made small.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from random import Random

from tests.pairs.switches import on

NAMES = [
    "u", "v", "w", "h", "q", "r", "score", "gate", "mix", "sums", "part", "level", "mood", "signal", "code", "drift",
    "heat", "flow", "mass", "power", "phase", "edge", "tone", "field",
]  # fmt: skip
INDICES = ["n", "t", "k", "i", "j", "l", "m", "o", "p", "s", "c", "d", "e", "f", "a", "b"]
#: weakest to strongest: select, comparison, sum, product, sign, power, atom
SELECT, COMPARE, SUM, PRODUCT, SIGN, POWER, ATOM = range(7)


@dataclass(frozen=True)
class Value:
    """A tensor that both programs know under one name."""

    name: str
    shape: tuple[str, ...]
    kind: str = "f"  # f, i32, i64, bool
    bound: str = ""  # of whole numbers that are positions
    sure: bool = True  # all elements differ, so that nothing ties


@dataclass(frozen=True)
class Index:
    """An index of an equation: its name in the spec, its variable and axis in torch."""

    name: str
    var: str
    axis: int
    size: str


@dataclass(eq=False)
class Node:
    """An expression: a template for each text, with a slot for each part."""

    spec: str
    torch: str
    parts: list[Node] = field(default_factory=list)
    strength: int = ATOM
    slots: tuple[int, ...] = ()  # the least strength that each slot takes without brackets
    plain: frozenset[str] = frozenset()  # indices with a plain use here
    binds: tuple[Index, ...] = ()  # indices that `{bind}` of the spec writes, with a bound where they need one
    reads: frozenset[str] = frozenset()
    whole: bool = False  # a whole number or a condition: no float to put in its place

    def plain_uses(self) -> frozenset[str]:
        return self.plain.union(*(part.plain_uses() for part in self.parts))

    def names_read(self) -> frozenset[str]:
        return self.reads.union(*(part.names_read() for part in self.parts))

    def smooth_reads(self) -> frozenset[str]:
        """What has a derivative here: nothing that only conditions read."""
        parts = (part.smooth_reads() for part in self.parts if not part.whole)
        return frozenset() if self.whole else self.reads.union(*parts)

    def to_spec(self, least: int = SELECT) -> str:
        slots = self.slots or (SELECT,) * len(self.parts)
        texts = [part.to_spec(slot) for part, slot in zip(self.parts, slots, strict=True)]
        uses = self.plain_uses()
        bind = ", ".join(i.name if i.var in uses else f"{i.name}: {i.size}" for i in self.binds)
        text = fill(self.spec, texts).replace("{bind}", bind)
        return f"({text})" if self.strength < least else text

    def to_torch(self, least: int = SELECT) -> str:
        text = fill(self.torch, [part.to_torch(ATOM) for part in self.parts])
        return text if least == SELECT or single(text) else f"({text})"


def single(text: str) -> bool:
    """Whether a Python text is one operand: a name, a number, a call, something in brackets."""
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign in "([") - (sign in ")]")
        if depth == 0 and (sign in " +-*/<>=&|" or (sign == ")" and text[0] == "(" and place < len(text) - 1)):
            return False
    return True


def fill(template: str, texts: list[str]) -> str:
    return re.sub(r"\{(\d+)\}", lambda m: texts[int(m[1])], template)


@dataclass(eq=False)
class Statement:
    """Lines of both texts, and what they define and need."""

    kind: str
    spec: list[str]
    torch: list[str]
    defines: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    left: dict[str, tuple[Index, ...]] = field(default_factory=dict)  # `{left}` of the spec: what a node must bound
    definitions: list[str] = field(default_factory=list)  # fn and layer of the spec
    params: list[Value] = field(default_factory=list)  # of layers, under their paths
    states: list[Value] = field(default_factory=list)
    reads: frozenset[str] = frozenset()
    draws: tuple[str, ...] = ()  # values that torch takes from the module, since they are drawn
    facts: tuple[str, ...] = ()

    def lines(self) -> tuple[list[str], list[str]]:
        spec_texts = [node.to_spec() for node in self.nodes]
        torch_texts = [node.to_torch() for node in self.nodes]
        uses = frozenset().union(*(node.plain_uses() for node in self.nodes))
        spec = []
        for line in self.spec:
            for slot, indices in self.left.items():
                bound = ", ".join(i.name if i.var in uses else f"{i.name}: {i.size}" for i in indices)
                line = line.replace(slot, bound)
            spec.append(fill(line, spec_texts))
        return spec, [fill(line, torch_texts) for line in self.torch]

    def needs(self) -> frozenset[str]:
        return self.reads.union(*(node.names_read() for node in self.nodes))

    def smooth_needs(self) -> frozenset[str]:
        return self.reads.union(*(node.smooth_reads() for node in self.nodes))


@dataclass(eq=False)
class Plan:
    """Leaves, statements and outputs, and the sizes at which the program is run."""

    seed: int
    sizes: dict[str, list[int]] = field(default_factory=dict)  # open sizes and their values in each run
    least: dict[str, int] = field(default_factory=dict)
    facts: list[str] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    params: list[Value] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    typed: frozenset[str] = frozenset()  # outputs whose type is written
    loss: tuple[str, str] = ("mean(sin({}))", "torch.sin({}).mean()")
    optimizer: str = "sgd"
    by_input: str = ""  # an input by which the loss of the outputs is derived in the spec
    by_inputs: bool = False  # whether the module gives gradients by all inputs

    @property
    def rng(self) -> Random:
        return Random(self.seed)

    # ---- making a plan smaller

    def without(self, statement: Statement) -> Plan:
        """The plan without a statement: what others read of it becomes an input."""
        kept = [s for s in self.statements if s is not statement]
        return self.trimmed(kept, [o for o in self.outputs if o not in statement.defines])

    def with_node(self, statement: Statement, node: Node, other: Node) -> Plan:
        def swapped(n: Node) -> Node:
            return other if n is node else replace(n, parts=[swapped(part) for part in n.parts])

        changed = replace(statement, nodes=[swapped(n) for n in statement.nodes])
        return self.trimmed([changed if s is statement else s for s in self.statements], self.outputs)

    def trimmed(self, statements: list[Statement], outputs: list[Value]) -> Plan:
        """Only what the outputs need; values that nothing defines are inputs."""
        needed = {o.name for o in outputs}
        kept: list[Statement] = []
        for s in reversed(statements):
            if needed & {v.name for v in s.defines}:
                kept.insert(0, s)
                needed |= s.needs()
        given = {v.name: v for s in self.statements for v in s.defines}
        defined = {v.name for s in kept for v in s.defines}
        inputs = [v for v in self.inputs if v.name in needed]
        params = [v for v in self.params if v.name in needed]
        leaves = {v.name for v in [*inputs, *params]}
        inputs += [v for name, v in given.items() if name in needed and name not in defined | leaves]
        by_input = self.by_input if self.by_input in {v.name for v in inputs} else ""
        return replace(self, statements=kept, outputs=outputs, inputs=inputs, params=params, by_input=by_input)

    # ---- what the texts need

    def all_params(self) -> list[Value]:
        return self.params + [v for s in self.statements for v in s.params]

    def all_states(self) -> list[Value]:
        return [v for s in self.statements for v in s.states]

    def draws(self) -> list[str]:
        return [name for s in self.statements for name in s.draws]

    def open_sizes(self) -> list[str]:
        text = " ".join(" ".join(v.shape) + " " + v.bound for v in [*self.inputs, *self.outputs])
        text += " " + " ".join(line for s in self.statements for part in s.lines() for line in part)
        words = set(re.findall(r"[A-Za-z_]\w*", text))
        return [name for name in self.sizes if name in words]

    def leaves(self) -> list[Value]:
        """The inputs, and one for each open size that has no axis of its own."""
        axes = {size for v in self.inputs for size in v.shape}
        lone = [name for name in self.open_sizes() if name not in axes]
        return self.inputs + [Value(f"rows_{name}", (name,)) for name in lone]

    def spec(self) -> str:
        blocks = list(dict.fromkeys(d for s in self.statements for d in s.definitions))
        arguments = ", ".join(f"{v.name}: {type_of(v)}" for v in self.leaves())
        outputs = list(self.outputs)
        extra = [f"d_{self.by_input}"] if self.by_input else []
        results = [f"{o.name}: {type_of(o)}" if o.name in self.typed else o.name for o in outputs] + extra
        result = results[0] if len(results) == 1 else "(" + ", ".join(results) + ")"
        facts = [f"{name} >= {self.least[name]}" for name in self.open_sizes() if self.least.get(name, 1) > 1]
        facts += [f for s in self.statements for f in s.facts]
        where = f" where {', '.join(dict.fromkeys(facts))}" if facts else ""
        lines = [f"model m({arguments}) -> {result}{where}:"]
        lines += [f"    param {v.name}: {type_of(v)}" for v in self.params]
        lines += ["    " + line for s in self.statements for line in s.lines()[0]]
        if self.by_input:
            lines.append(f"    whole = {self.objective(0)}")
            lines.append(f"    d_{self.by_input} = grad(whole, {self.by_input})")
        blocks.append("\n".join(lines))
        if self.all_params() and self.float_outputs():
            names = ", ".join([o.name for o in outputs] + extra)
            given = ", ".join(v.name for v in self.leaves())
            train = [f"train m({given}){where}:", f"    {names} = m({given})"]
            train += [f"    expose {name}" for name in self.draws()]
            train += [f"    minimize {self.objective(0)}"]
            optimizer = OPTIMIZERS[self.optimizer]
            blocks.append("\n".join([*train, f"    using {optimizer[0]}"]))
            if optimizer[1]:
                blocks.append(optimizer[1])
        return "\n\n".join(blocks) + "\n"

    def wrt(self) -> list[str]:
        """The inputs by which the module differentiates."""
        if not (self.by_inputs and self.all_params() and self.float_outputs()):
            return []
        needed = self.smooth_needs()
        return [v.name for v in self.inputs if v.kind == "f" and v.name in needed]

    def smooth_needs(self) -> set[str]:
        """What the float outputs depend on."""
        needed = {o.name for o in self.float_outputs()}
        for s in reversed(self.statements):
            if needed & {v.name for v in s.defines if v.kind == "f"}:
                needed |= s.smooth_needs()
        return needed

    def float_outputs(self) -> list[Value]:
        return [o for o in self.outputs if o.kind == "f"]

    def objective(self, text: int) -> str:
        scalar = ("sin({})", "torch.sin({})")
        terms = [(self.loss if o.shape else scalar)[text].format(o.name) for o in self.float_outputs()]
        return " + ".join(terms) or "0"

    def torch(self) -> str:
        lines = ["def program(given, params, states, draws, training):"]
        lines += [f"    {v.name} = given[{v.name!r}]" for v in self.leaves()]
        for size in self.open_sizes():
            lines.append(
                next(f"    {size} = {v.name}.shape[{v.shape.index(size)}]" for v in self.leaves() if size in v.shape)
            )
        lines += [f"    {v.name} = params[{v.name!r}]" for v in self.params]
        lines += [f"    {name} = draws[{name!r}]" for name in self.draws()]
        lines += ["    next_states = dict(states)"]
        lines += ["    " + line for s in self.statements for line in s.lines()[1]]
        outputs = ", ".join(f"{o.name}={o.name}" for o in self.outputs)
        if self.float_outputs():
            lines.append(f"    loss = {self.objective(1)}")
        else:
            lines.append("    loss = None")
        if self.by_input:
            name = self.by_input
            lines.append(f"    d_{name} = torch.autograd.grad(loss, {name}, create_graph=True)[0]")
            outputs += f", d_{name}=d_{name}"
        lines.append(f"    return dict({outputs}), next_states, loss")
        return "\n".join(lines) + "\n"


#: how a train says it, its definition in the spec, and the update in torch of (param, grad, slots, step)
OPTIMIZERS: dict[str, tuple[str, str, Callable[..., tuple]]] = {}


def optimizer(using: str, definition: str = "") -> Callable:
    def keep(update: Callable[..., tuple]) -> Callable[..., tuple]:
        OPTIMIZERS[update.__name__] = (using, definition, update)
        return update

    return keep


def type_of(v: Value) -> str:
    dtype = "" if v.kind == "f" else v.kind
    return f"{dtype}[{', '.join(v.shape)}]" + (f" < {v.bound}" if v.bound else "")


def size_of(text: str, values: dict[str, int]) -> int:
    """The value of a size: numbers, names and arithmetic only."""
    return int(eval(text, {"__builtins__": {}}, values))


def fixed(text: str) -> bool:
    return not re.search(r"[A-Za-z]", text)


def tidy(text: str) -> str:
    """A size of numbers alone as one number."""
    return str(eval(text)) if fixed(text) else text


class Maker:
    """Makes a plan from a seed: gives names, sizes and leaves to the statements that it is asked for."""

    def __init__(self, seed: int, kinds: Iterable[str] = ()):
        self.rng = Random(seed)
        self.plan = Plan(seed)
        self.taken: set[str] = set()
        self.values: list[Value] = []
        self.count = 0
        self.make_sizes()

    def make_sizes(self) -> None:
        rng, pool = self.rng, ["N", "T", "K", "M", "B", "rows", "width", "S", "L", "C"]
        for _ in range(rng.choice([0, 1, 1, 2, 2, 3])):
            name = pool.pop(rng.randrange(len(pool)))
            least = rng.choice([1, 1, 1, 2, 3])
            low = [least if rng.random() < 0.3 else rng.randint(least, 5) for _ in range(2)]
            self.plan.sizes[name] = low
            self.plan.least[name] = least

    def size(self, least: int = 1) -> str:
        """A size that is at least so large: an open one or a number."""
        names = [name for name in self.plan.sizes if self.plan.least[name] >= least]
        if names and self.rng.random() < 0.55:
            return self.rng.choice(names)
        return str(max(least, self.rng.choice([1, 2, 2, 3, 3, 4, 5])))

    def surely(self, size: str, least: int) -> bool:
        """Whether a size is known to be at least so large."""
        if fixed(size):
            return int(size) >= least
        if size in self.plan.sizes:
            return self.plan.least[size] >= least
        values = {name: self.plan.least[name] for name in self.plan.sizes}
        return "-" not in size and "%" not in size and size_of(size, values) >= least

    def name(self, stem: str = "") -> str:
        self.count += 1
        stem = stem or self.rng.choice(NAMES)
        while stem in self.taken:
            stem = f"{stem.rstrip('0123456789')}{self.count}"
        self.taken.add(stem)
        return stem

    def leaf(
        self, shape: Iterable[str], kind: str = "f", bound: str = "", stem: str = "", param: bool | None = None
    ) -> Value:
        """A new input, or a new parameter where all sizes are numbers."""
        shape = tuple(shape)
        able = kind == "f" and all(map(fixed, shape))
        if able and (param if param is not None else self.rng.random() < 0.5):
            v = Value(self.name(stem or self.rng.choice(["W", "V", "U", "A", "gain", "bias", "theta"])), shape)
            self.plan.params.append(v)
        else:
            stem = stem or {"f": self.rng.choice(["x", "y", "z"]), "bool": "keep"}.get(
                kind, self.rng.choice(["id" if on("the name id") else "at_row", "place"])
            )
            v = Value(self.name(stem), shape, kind, bound)
            self.plan.inputs.append(v)
        self.values.append(v)
        return v

    def value(self, shape: Iterable[str], fresh: float = 0.4, sure: bool = False) -> Value:
        """A float value of that shape: one that is there, or a new leaf."""
        shape = tuple(shape)
        there = [v for v in self.values if v.shape == shape and v.kind == "f" and (v.sure or not sure)]
        if there and self.rng.random() > fresh:
            return self.rng.choice(there[-6:])
        return self.leaf(shape)

    def pick(self, ranks: Iterable[int], sure: bool = False) -> Value:
        """Any float value of such a rank, preferably a late one."""
        ranks = list(ranks)
        there = [v for v in self.values if len(v.shape) in ranks and v.kind == "f" and (v.sure or not sure)]
        if there and self.rng.random() < 0.75:
            return self.rng.choice(there[-5:])
        return self.leaf(self.size() for _ in range(self.rng.choice(ranks)))

    def add(self, statement: Statement) -> Statement:
        self.plan.statements.append(statement)
        self.values += statement.defines
        return statement

    def define(self, shape: Iterable[str], kind: str = "f", stem: str = "", sure: bool = True) -> Value:
        return Value(self.name(stem), tuple(shape), kind, sure=sure)


def entropy(*words: object) -> int:
    """A number that depends on words alone, whatever else a program has."""
    return zlib.crc32(" ".join(map(str, words)).encode())

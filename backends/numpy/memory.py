"""Where large values lie: in slots of a space that one call of the module leaves to the next.

Fresh memory costs a page fault for every 4096 bytes, more than most operations on them. A slot serves several values,
one after the other: when nothing reads a value any more, its slot is free for the next value with as many elements.
What leaves the function (its results) never lies in a space, gradients aside: they have slots of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from dslc.backends.numpy.blocks import Item, members
from dslc.backends.numpy.text import DTYPES, Extent, size_code

from dslc.ir import nodes as ir
from dslc.ops.dtypes import is_float
from dslc.passes.sums import estimate
from dslc.quoting import quoted
from dslc.sizes import Size, tidy

#: values with fewer elements than this (sizes that are not known count 256) take what memory they get
LEAST_ELEMENTS = 16_384


@dataclass
class Slot:
    """A stretch of the space: its name, what tells its copies apart in a loop, and how many elements it has."""

    name: str
    count: Size
    dtype: str
    at: str = ""

    def text(self, shape: Sequence[str], dtype: str) -> str:
        rest = [f"at={self.at}"] if self.at else []
        rest += [f"dtype={dtype}"] if dtype else []
        return f"space({', '.join([quoted(self.name), *shape, *rest])})"


def shown(node: ir.Tensor) -> ir.Tensor | None:
    """The tensor whose memory a value is only another view of."""
    match node:
        case ir.Reshape():
            return node.of
        case ir.Part(of=ir.Custom() as custom):
            return custom.values[node.number]
        case ir.Comp(op=None):
            body = node.body
            while isinstance(body, ir.Op) and body.name in ("stop_grad", "cast"):
                body = body.args[0]
            if isinstance(body, ir.Read):
                return body.tensor
    return None


def count(node: ir.Tensor) -> Size:
    """How many elements a tensor has."""
    return tidy(math.prod(node.shape))


@dataclass
class Memory:
    """The slots of one function while it is written."""

    inlined: Callable[[ir.Node], bool]
    dtype: str
    #: written as a slot at all?
    on: bool = False
    #: values whose memory leaves the function
    leaving: set[ir.Node] = field(default_factory=set)
    #: values whose slot is never given to others
    pinned: set[ir.Node] = field(default_factory=set)
    #: values of which a loop needs several at a time: the key that tells them apart
    keys: dict[ir.Node, str] = field(default_factory=dict)
    slots: dict[ir.Node, Slot] = field(default_factory=dict)
    free: list[Slot] = field(default_factory=list)
    #: values that take the place of an argument, and when it is read for the last time
    targets: dict[ir.Node, ir.Input] = field(default_factory=dict)
    last_reads: dict[ir.Node, int] = field(default_factory=dict)
    #: values of layers that a loop back takes one by one: their slots, which gradients of the same layer may have next
    lent: dict[ir.Node, Slot] = field(default_factory=dict)
    now: int = -1
    reserved: list[Slot] = field(default_factory=list)
    #: the layer that a loop is about
    layer: str = ""
    names: set[str] = field(default_factory=set)

    # ---- what shares memory

    def owners(self, node: ir.Node) -> list[ir.Node]:
        """The value, and those whose memory it may be a view of; views without a line of their own lead on to others.

        NumPy decides by the sizes: of a batch of one, `x.T.reshape(N*T)` is no copy.
        """
        found = [node]
        while not isinstance(node, ir.Along | ir.External | ir.Scan | ir.Custom):
            other = shown(node)
            if other is None:
                break
            if not self.inlined(other):
                found.append(other)
            node = other
        return found

    def leave(self, roots: Iterable[ir.Node]) -> None:
        """These values are results: their memory, and all that may be theirs, is not of the space."""
        stack = [x for root in roots for x in self.owners(root)]
        while stack:
            node = stack.pop()
            if node not in self.leaving:
                self.leaving.add(node)
                if isinstance(node, ir.Part) and isinstance(node.of, ir.Scan):
                    scan = node.of
                    last = node.number - len(scan.results)
                    given = [scan.carries[last], scan.starts[last]] if last >= 0 else [scan.results[node.number]]
                    stack += [x for root in given for x in self.owners(root)]

    def pin(self, node: ir.Node, key: str = "") -> None:
        """A value that lives on: its slot is its own, one for each value of the key."""
        self.pinned.update(self.owners(node))
        if key:
            self.keys.update(dict.fromkeys(self.owners(node), key))

    # ---- how long values live

    def needs(self, item: Item) -> dict[ir.Node, None]:
        """The values that the text of an item speaks of."""
        found: dict[ir.Node, None] = {}
        stack: list[ir.Node] = list(members(item))
        while stack:
            node = stack.pop()
            for a in ir.arguments(node):
                if a not in found:
                    found[a] = None
                    if self.inlined(a) or isinstance(a, ir.Along | ir.External | ir.Custom):
                        stack.append(a)
        return found

    def ends(self, items: Sequence[Item]) -> list[list[ir.Node]]:
        """For each item the values of this sequence that nothing needs after it."""
        last: dict[ir.Node, int] = {}
        own: set[ir.Node] = set()
        for item in items:
            if isinstance(item, ir.Scan):  # a loop gives these to its first step, and may keep them
                self.pinned.update(x for start in item.starts for x in self.owners(start))
        for i, item in enumerate(items):
            own.update(members(item))
            for node in (*members(item), *self.needs(item)):
                last.update(dict.fromkeys(self.owners(node), i))
                if isinstance(node, ir.Part) and node.of in own:
                    own.add(node)
        self.last_reads = {node: i for node, i in last.items() if isinstance(node, ir.Input)}
        found: list[list[ir.Node]] = [[] for _ in items]
        for node, i in last.items():
            if node in self.lent or (node in own and node not in self.pinned and node not in self.leaving):
                found[i].append(node)
        return found

    def release(self, nodes: Iterable[ir.Node]) -> None:
        for node in nodes:
            slot = self.lent.pop(node, None) or self.slots.pop(node, None)
            if slot is not None:
                self.free.append(slot)

    def lend(self, part: ir.Part, step: str) -> None:
        """A loop back takes a value of each layer for the last time: then its slot is free for others of that layer."""
        scan = part.of
        assert isinstance(scan, ir.Scan)
        owners = self.owners(scan.results[part.number])
        slots = [self.slots[x] for x in owners if x in self.slots]
        carried = {x for carry in scan.carries for x in self.owners(carry)}
        if len(slots) == 1 and slots[0].at == step and not carried & set(owners):
            self.lent[part] = slots[0]

    # ---- slots

    def target(self, node: ir.Tensor) -> ir.Input | None:
        """The argument whose place a value takes, if nothing reads the old value after this."""
        target = self.targets.get(node)
        return target if target is not None and self.last_reads.get(target, -1) <= self.now else None

    def fits(self, node: ir.Tensor) -> bool:
        """Does a value go to a slot? Otherwise it takes what memory it gets."""
        if not self.on or not is_float(node.dtype) or node in self.leaving:
            return False
        return estimate(count(node), 256) >= LEAST_ELEMENTS

    def place(self, node: ir.Tensor, name: str, shape: Sequence[Extent]) -> str:
        """The text of memory for a value, under a shape: in a free slot, or in a new one of this name."""
        slot = self.slots[node] = self.free_slot(node) or self.new_slot(node, name)
        plain = slot.dtype in ("float", "f32") or DTYPES[slot.dtype] == self.dtype
        return slot.text([size_code(s) for s in shape], "" if plain else DTYPES[slot.dtype])

    def free_slot(self, node: ir.Tensor) -> Slot | None:
        key = self.keys.get(node, "")
        if node in self.pinned and not key:
            return None
        elements = count(node)
        fits = [x for x in reversed(self.free) if x.at == key and x.dtype == node.dtype]
        if key:  # it grows when it must
            found = max(fits, key=lambda x: estimate(x.count, 256), default=None)
        else:
            found = next((x for x in fits if x.count == elements), None)
        if found is not None:
            self.free.remove(found)
        return found

    def new_slot(self, node: ir.Tensor, name: str) -> Slot:
        other = f"{name} of {self.layer}" if name.startswith("d_") and self.layer else f"{name} again"
        return Slot(self.label(name, other), count(node), node.dtype, self.keys.get(node, ""))

    def reserve(self, name: str, user: str) -> Slot:
        """A slot for something that is no value of the program, but of use to one; never given to others."""
        self.reserved.append(Slot(self.label(name, f"{name} for {user}", f"{name} again"), 0, "float"))
        return self.reserved[-1]

    def label(self, *wishes: str) -> str:
        """The first of the wishes that no slot has; if all are taken, the last one with a number."""
        label, k = next((x for x in wishes if x not in self.names), wishes[-1]), 2
        while label in self.names:
            label, k = f"{wishes[-1]} ({k})", k + 1
        self.names.add(label)
        return label

    @property
    def used(self) -> bool:
        return bool(self.names)

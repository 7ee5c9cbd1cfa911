"""Loops whose passes are equal: they are built, differentiated and printed once, as a scan over the layers.

    for l in 0..4:                      scan l:4
        h = h |> block()      gives         carry h,   parameters block.*.W of shape [4, ...] read at l

Two passes are equal when their statements are the same but for the tensors that they define themselves, the values that
the pass before has left them, and the number in the paths of their parameters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache

from dslc.check import program as p
from dslc.check.dependence import depends, every_statement, sources_of
from dslc.dtypes import alike
from dslc.source import Span


@dataclass
class Layers:
    """A loop that can be built once."""

    loop: p.Loop
    #: a value from before the loop, and what a pass leaves in its place for the next one
    carried: list[tuple[p.Tensor, p.Tensor]] = field(default_factory=list)
    #: values of the first pass that are used after the loop, and their likes in the last pass
    after: list[tuple[p.Tensor, p.Tensor]] = field(default_factory=list)
    #: where the number of the pass stands in the path of a call
    calls: dict[p.CallFunction, int] = field(default_factory=dict)
    #: parameters and states that the loop declares itself: that of the first pass, and where the number stands
    declared: dict[p.Tensor, int] = field(default_factory=dict)
    #: the likes of these in later passes
    repeated: set[p.Tensor] = field(default_factory=set)


class Differ(Exception):
    """Two passes are not equal."""


def tensors_of(node: object) -> Iterator[p.Tensor]:
    """All tensors that statements or expressions mention, as often as they do."""
    stack = [node]
    while stack:
        x = stack.pop()
        if isinstance(x, p.Tensor):
            yield x
        elif isinstance(x, list | tuple):
            stack.extend(x)
        else:
            stack.extend([getattr(x, name) for name in _parts(type(x))])  # type: ignore[arg-type]


@cache
def _parts(kind: type) -> tuple[str, ...]:
    """The fields of a kind of statement or expression that may mention tensors."""
    if not is_dataclass(kind) or issubclass(kind, p.Instance | p.Index | Span):
        return ()
    return tuple(f.name for f in fields(kind))


#: so many passes may differ from the others: the first ones, which start from other values
MOST_BEFORE = 3


def equal_passes(
    instance: p.Instance, loop: p.Loop, everywhere: Counter[p.Tensor], fixed: Sequence[str]
) -> tuple[int, Layers | None]:
    """The passes from some pass on as layers, and how many come before: what starts as a constant has another dtype."""
    for count in range(min(MOST_BEFORE, len(loop.passes) - 2) + 1):
        rest = loop if count == 0 else replace(loop, first=loop.first + count, passes=loop.passes[count:])
        found = find(instance, rest, everywhere, fixed)
        if found is not None:
            return count, found
    return len(loop.passes), None


def one_by_one(instance: p.Instance) -> list[p.Loop]:
    """The loops of a model, and of all that it calls, whose passes are built one after the other."""
    found: list[p.Loop] = []
    waiting, seen = [instance], {instance}
    for each in waiting:
        mentions = Counter(tensors_of((each.body, each.outputs, each.exposed, each.backward)))
        loops = loops_in(each.body)
        found += [x for x in loops if equal_passes(each, x, mentions, [*each.named])[1] is None]
        for child in each.children.values():
            if child not in seen:
                seen.add(child)
                waiting.append(child)
    return found


def find(instance: p.Instance, loop: p.Loop, everywhere: Counter[p.Tensor], fixed: Sequence[str]) -> Layers | None:
    """The loop as layers, or None when its passes must be built one by one.

    `everywhere` counts the mentions of tensors in the whole instance, `fixed` lists paths that are named from outside.
    """
    if len(loop.passes) < 2 or _separate(loop.passes[0]) or _reaches_back(instance, loop):
        return None
    found = Layers(loop)
    declared: dict[p.Tensor, p.ParamDecl | p.StateDecl] = {}
    declared.update({d.tensor: d for d in instance.params})
    declared.update({d.tensor: d for d in instance.states})
    try:
        match = _Match(found, declared)
        for number, body in enumerate(loop.passes[1:], 1):
            match.next_pass(number, body)
    except Differ:
        return None
    mentions = [Counter(tensors_of(body)) for body in loop.passes]
    for first, others in match.likes.items():
        for number, tensor in enumerate([first, *others]):
            inside = mentions[number][tensor]
            if number + 1 < len(mentions):
                inside += mentions[number + 1][tensor]
            if everywhere[tensor] > inside:
                if tensor is not others[-1]:
                    return None
                found.after.append((first, tensor))
    if _shares_state(loop.passes[0], found):
        return None
    paths = {c.path.split(".")[0] for c in found.calls} | {d.name.split(".")[0] for d in found.declared}
    if any(name.split(".")[0] in paths for name in fixed):
        return None
    return found


def _separate(body: Sequence[p.Stmt]) -> bool:
    """Values with names outside stay apart."""
    for statement in body:
        match statement:
            case p.CallFunction():
                if _exposes(statement.instance):
                    return True
            case p.Remat():
                if _separate(statement.body):
                    return True
            case p.Modes():
                if _separate(statement.training) or _separate(statement.inference):
                    return True
            case p.Loop():
                if any(_separate(x) for x in statement.passes):
                    return True
    return False


def _reaches_back(instance: p.Instance, loop: p.Loop) -> bool:
    """Does a derivative in a pass go through earlier passes, or through what stands before the loop?

    A pass as the step of a scan has what comes from outside as it is. In the first pass and in the second that is the
    value from before the loop and the one that a pass has left; what depends on either does so in the last one, too.
    """
    for body in (*loop.passes[:2], loop.passes[-1]):
        own = set(defined(body))
        for taken in every_statement(body):
            if isinstance(taken, p.Derivative):
                given = {x for x in sources_of(body, taken.of) if x not in own and x is not taken.wrt}
                if any(depends(instance.body, x, taken.wrt) for x in given):
                    return True
    return False


def _shares_state(body: Sequence[p.Stmt], found: Layers) -> bool:
    """Is a state updated that is not one for each pass?"""
    for statement in body:
        match statement:
            case p.UpdateState():
                if statement.state not in found.declared:
                    return True
            case p.CallFunction():
                if (statement not in found.calls and _has_state(statement.instance)) or _borrows(statement.instance):
                    return True
            case p.Remat():
                if _shares_state(statement.body, found):
                    return True
            case p.Modes():
                if _shares_state((*statement.training, *statement.inference), found):
                    return True
            case p.Loop():
                if any(_shares_state(x, found) for x in statement.passes):
                    return True
    return False


def _has_state(instance: p.Instance) -> bool:
    return bool(instance.states) or any(_has_state(x) for x in instance.children.values())


def _borrows(instance: p.Instance) -> bool:
    """Does a layer call one with a state that it was passed?"""
    return any(map(_has_state, instance.borrowed)) or any(_borrows(x) for x in instance.children.values())


def _exposes(instance: p.Instance) -> bool:
    return bool(instance.exposed) or any(_exposes(x) for x in (*instance.children.values(), *instance.borrowed))


class _Match:
    """Compares each pass with the first one."""

    def __init__(self, found: Layers, declared: Mapping[p.Tensor, p.ParamDecl | p.StateDecl]):
        self.found = found
        self.declared = declared
        self.first = found.loop.passes[0]
        self.own = dict.fromkeys(defined(self.first))
        #: for each tensor of the first pass, its likes in the later ones
        self.likes: dict[p.Tensor, list[p.Tensor]] = {x: [] for x in self.own}
        self.carried: dict[p.Tensor, p.Tensor] = {}
        self.unchanged: set[p.Tensor] = set()
        self.now: dict[p.Tensor, p.Tensor] = {}
        self.before: dict[p.Tensor, p.Tensor] = {}
        self.indices: dict[p.Index, p.Index] = {}
        self.number = 0

    def next_pass(self, number: int, body: Sequence[p.Stmt]) -> None:
        self.number = number
        self.before = self.now if number > 1 else {x: x for x in self.own}
        mine, theirs = defined(self.first), defined(body)
        if len(mine) != len(theirs):
            raise Differ
        self.now = dict(zip(mine, theirs, strict=True))
        self.indices = {}
        self.same(list(self.first), list(body))
        for x, y in self.now.items():
            self.likes[x].append(y)

    def same(self, a: object, b: object) -> None:
        match a, b:
            case p.Tensor(), p.Tensor():
                self.tensor(a, b)
            case p.Index(), p.Index():
                if self.indices.setdefault(a, b) is not b or a.size != b.size:
                    raise Differ
            case p.Instance(), p.Instance():
                if a is not b:
                    raise Differ
            case Span(), Span():
                pass
            case (list() | tuple(), list() | tuple()):
                if len(a) != len(b):
                    raise Differ
                for x, y in zip(a, b, strict=True):
                    self.same(x, y)
            case _ if type(a) is not type(b):
                raise Differ
            case _ if a is b:
                pass
            case _ if is_dataclass(a):
                self.fields(a, b)
            case _ if a != b:
                raise Differ

    def fields(self, a: object, b: object) -> None:
        for f in fields(a):  # type: ignore[arg-type]
            if isinstance(a, p.CallFunction) and f.name == "path":
                assert isinstance(b, p.CallFunction)
                self.path(a, b)
            elif f.name == "dtype":
                if not alike(getattr(a, f.name), getattr(b, f.name)):
                    raise Differ
            elif not (isinstance(a, p.Draw) and f.name == "site"):
                self.same(getattr(a, f.name), getattr(b, f.name))

    def path(self, a: p.CallFunction, b: p.CallFunction) -> None:
        if a.path == b.path:
            if a in self.found.calls:
                raise Differ
            return
        place = self.place(a.path, b.path)
        if self.number > 1 and a not in self.found.calls:
            raise Differ
        if self.found.calls.setdefault(a, place) != place:
            raise Differ

    def place(self, a: str, b: str) -> int:
        """Where two paths differ: in the number of the pass, and there only."""
        mine, theirs = a.split("."), b.split(".")
        if len(mine) != len(theirs):
            raise Differ
        places = [k for k, (x, y) in enumerate(zip(mine, theirs, strict=True)) if x != y]
        first = self.found.loop.first
        if len(places) != 1 or mine[places[0]] != str(first) or theirs[places[0]] != str(first + self.number):
            raise Differ
        return places[0]

    def tensor(self, a: p.Tensor, b: p.Tensor) -> None:
        if not alike(a.dtype, b.dtype) or a.shape != b.shape:
            raise Differ
        if a in self.own:
            if self.now[a] is not b:
                raise Differ
            return
        if a in self.declared and a is not b and b in self.declared:
            place = self.place(a.name, b.name)
            if a in self.carried or self.found.declared.setdefault(a, place) != place:
                raise Differ
            if b not in self.found.repeated:
                self.found.repeated.add(b)
                self.same(replace(self.declared[a], tensor=a), replace(self.declared[b], tensor=a))
            return
        if a is b and a not in self.carried:
            self.unchanged.add(a)
            return
        if a not in self.carried and a not in self.unchanged and self.number == 1 and b in self.before:
            self.carried[a] = b
            self.found.carried.append((a, b))
        left = self.carried.get(a)
        if left is None or self.before[left] is not b:
            raise Differ


def defined(body: Sequence[p.Stmt]) -> list[p.Tensor]:
    """The tensors that statements define, in order."""
    out: list[p.Tensor] = []
    for statement in body:
        match statement:
            case p.Define() | p.Scatter():
                out.append(statement.tensor)
            case p.AlongAxis() | p.CallFunction() | p.External():
                out += statement.outputs
            case p.Join() | p.Derivative():
                out.append(statement.output)
            case p.Scan():
                out += [*defined(statement.body), *(c.tensor for c in statement.carried)]
            case p.Modes():
                out += [*defined(statement.training), *defined(statement.inference)]
                out += [after for after, _, _ in statement.joined]
            case p.Remat():
                out += defined(statement.body)
            case p.Loop():
                for each in statement.passes:
                    out += defined(each)
    return out


def loops_in(body: Sequence[p.Stmt]) -> list[p.Loop]:
    """The loops of an instance, those in the passes of others too, but none inside a scan."""
    out: list[p.Loop] = []
    for statement in body:
        match statement:
            case p.Loop():
                out.append(statement)
                for each in statement.passes:
                    out += loops_in(each)
            case p.Remat():
                out += loops_in(statement.body)
            case p.Modes():
                out += loops_in((*statement.training, *statement.inference))
    return out

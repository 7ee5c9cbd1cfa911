"""The state of checking: one Checker per run, one Frame per definition at particular sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from dslc.check.program import Index, Instance, Stmt, Tensor
from dslc.check.values import POISON, Binding, FunctionValue, Poison, Shared, Static, Val
from dslc.diagnostics import kinds
from dslc.diagnostics.report import MAX_SHOWN, Diagnostic, Label, Reporter
from dslc.ops.table import BUILTIN_NAMES, CONSTANTS, INITIALIZERS
from dslc.resolve.files import Callable_, File, did_you_mean
from dslc.resolve.foreign import FOREIGN
from dslc.sizes import Facts, Size, show, symbol
from dslc.source import NOWHERE, Span
from dslc.syntax import tree as t

#: Bounds on the work that one spec may ask for.
MAX_STEPS = 60_000
MAX_CALLS = 40
MAX_ITERATIONS = 1_000
MAX_PARAMETERS = 100_000

#: What other work costs, in steps (of some 50 microseconds): an equation, the use of a definition.
EQUATION_STEPS = 5
INSTANCE_STEPS = 5

#: Calls that an error inside a definition is shown with: the outermost one and the innermost ones.
MAX_CALLS_SHOWN = 3


class GiveUp(Exception):
    """The work bound is reached; the reason is already reported."""


class CheckedAtCall(Exception):
    """A definition depends on a static argument without a default, so it can only be checked where it is called."""


@dataclass
class Checker:
    reporter: Reporter
    instances: dict[object, Instance | None] = field(default_factory=dict)
    #: definitions whose own check found errors: their instances are not complained about again
    faulty: set[Callable_] = field(default_factory=set)
    #: of definitions that are being checked: one that is asked for again calls itself
    making: set[object] = field(default_factory=set)
    steps: int = 0
    #: where the last step was
    place: Span = NOWHERE
    #: counts independent checks: instances are not shared between them, their sizes mean different things
    root: int = 0

    def new_root(self) -> None:
        self.root += 1

    def step(self, span: Span, cost: int = 1) -> None:
        self.place = span
        self.steps += cost
        if self.steps > MAX_STEPS:
            self.reporter.add(kinds.TOO_MUCH_WORK(Label(span), what="steps of checking", limit=MAX_STEPS))
            raise GiveUp


@dataclass
class Types:
    """What the types of a definition fix, and what they leave open."""

    #: the sizes that `...` stands for in the signature
    rest: tuple[Size, ...] | None = None
    #: the argument that fixed them: its name, where it is given, where its axes come from
    rest_evidence: Any = None
    #: size name -> (the argument that fixed it, where that argument's axis came from)
    size_evidence: dict[str, Any] = field(default_factory=dict)
    #: the types that the signature declares for outputs
    outputs: dict[str, Any] = field(default_factory=dict)
    #: sizes that the body names, by their text: types cannot use them
    body_sizes: dict[str, str] = field(default_factory=dict)
    #: symbols that stand for static arguments while a definition is checked by itself
    open_statics: set[Any] = field(default_factory=set)


@dataclass
class Code:
    """What a definition has become so far."""

    body: list[Stmt] = field(default_factory=list)
    #: the bodies around the current one, outermost first
    enclosing: list[list[Stmt]] = field(default_factory=list)
    indices: list[Index] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    #: how many sizes are to be found out later
    fresh: int = 0
    #: the sequences of scans inside of scans: all sizes are known when the outermost one is closed
    carried: list[Any] = field(default_factory=list)
    #: numbers of the random draws of this definition, whatever stands in others
    draws: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    #: the derivative that is given by hand
    backward: t.Backward | None = None


@dataclass
class Paths:
    """Names of layers and loops in the paths of parameters."""

    #: loop variables around the current statement
    loop: list[str] = field(default_factory=list)
    #: call site -> its name
    sites: dict[int, str] = field(default_factory=dict)
    #: names that no call may have: of layers named by `use`, of the parts of a trained model
    taken: set[str] = field(default_factory=set)


@dataclass
class Reserved:
    """Names that cannot be declared, or not be read, and where that comes from."""

    #: sizes that a name was rebound to may not be declared again
    taken: dict[str, Span] = field(default_factory=dict)
    #: values whose only definition was in one mode
    one_mode: dict[str, tuple[str, Span]] = field(default_factory=dict)
    #: values that were local to a step of a scan: (place, scanned index)
    step_locals: dict[str, tuple[Span, str]] = field(default_factory=dict)


@dataclass
class States:
    """States and slots that were updated."""

    #: what a read now gives
    latest: dict[Tensor, Tensor] = field(default_factory=dict)
    updated: set[str] = field(default_factory=set)


@dataclass
class Training:
    """What the statements of a `train` say."""

    objective: t.Objective | None = None
    loss: Tensor | None = None
    metrics: list[tuple[str, Tensor]] = field(default_factory=list)
    freezes: list[t.Freeze] = field(default_factory=list)
    using: t.Using | None = None
    optimizer: Instance | None = None
    #: those of the optimizer
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass
class Frame:
    """Names, facts and the statements so far of one instance."""

    checker: Checker
    file: File
    word: str
    instance: Instance
    facts: Facts = field(default_factory=Facts)
    names: dict[str, Binding] = field(default_factory=dict)
    #: the calls that led here, outermost first
    calls: tuple[tuple[str, Span], ...] = ()
    #: how many errors were found so far
    errors: int = 0
    #: the scans around the current statement, outermost first
    scans: list[Any] = field(default_factory=list)
    types: Types = field(default_factory=Types)
    code: Code = field(default_factory=Code)
    paths: Paths = field(default_factory=Paths)
    reserved: Reserved = field(default_factory=Reserved)
    states: States = field(default_factory=States)
    training: Training = field(default_factory=Training)

    @property
    def had_error(self) -> bool:
        return self.errors > 0

    def report(self, diagnostic: Diagnostic) -> None:
        if diagnostic.severity == "error":
            self.errors += 1
            outer, inner = self.calls[:1], self.calls[1:]
            shown = (*outer, *inner[1 - MAX_CALLS_SHOWN :])
            chain = tuple(Label(span, f"in this call of `{name}`") for name, span in reversed(shown))
            diagnostic = replace(diagnostic, labels=(*diagnostic.labels, *chain))
        self.checker.reporter.add(diagnostic)

    def inside(self, name: str, span: Span) -> tuple[tuple[str, Span], ...]:
        """The calls that lead into a further one; there is a bound on their number."""
        if len(self.calls) >= MAX_CALLS:
            self.checker.reporter.add(kinds.TOO_MUCH_WORK(Label(span), what="calls inside calls", limit=MAX_CALLS))
            raise GiveUp
        return (*self.calls, (name, span))

    def lookup(self, name: str) -> Binding | None:
        """What a name means here: a local value, a definition, or a built-in function."""
        local = self.names.get(name)
        if local is not None:
            return local
        if name in self.file.broken and name not in self.file.names:
            return POISON
        defined = self.file.lookup(name)
        if defined is not None:
            return FunctionValue(defined)
        if name in CONSTANTS:
            return Static(CONSTANTS[name], self.instance.span, "constant")
        if name in BUILTIN_NAMES:
            return FunctionValue(None, builtin=name)
        return None

    def lookup_function(self, name: str) -> Binding | None:
        """What a name means where it is called: a value of the same name does not hide a function."""
        local = self.names.get(name)
        if isinstance(local, FunctionValue | Shared | Poison) or (
            isinstance(local, Val) and local.function is not None
        ):
            return local
        hidden = self.names.pop(name, None)
        try:
            found = self.lookup(name)
        finally:
            if hidden is not None:
                self.names[name] = hidden
        return found if isinstance(found, FunctionValue | Poison) else hidden

    def unknown(self, name: str, span: Span, what: str = "value") -> None:
        """Report a name that means nothing here."""
        if name in self.reserved.one_mode:
            mode, place = self.reserved.one_mode[name]
            other = "inference" if mode == "training" else "training"
            self.report(kinds.ONE_MODE(Label(span), Label(place, f"defined only in {mode}"), name=name, other=other))
            return
        if name in self.reserved.step_locals:
            place, index = self.reserved.step_locals[name]
            label = Label(place, "defined here, in a step")
            left = f"{place.text[:-1]}, {index}]" if place.text.endswith("]") else f"{name}[{index}]"
            keep = f"to keep all steps, give it the index: `{left}`"
            self.report(kinds.STEP_LOCAL(Label(span), label, name=name, index=index, help=keep))
            return
        if self.file.incomplete:  # it may be defined in a file that could not be imported
            self.errors += 1
            return
        inside = self.types.body_sizes.get(name)
        if inside is not None:
            there = f"a size of the body is not known in the types; name it there: `{name} = {inside}`"
            self.report(kinds.UNKNOWN_NAME(Label(span), what=what, name=name, help=there))
            return
        if name in INITIALIZERS and name not in BUILTIN_NAMES:
            help: str | None = f"`{name}` is an initialiser; write it after `~` in a `param`"
        elif name in FOREIGN:
            help = FOREIGN[name]
        else:
            known = {*self.names, *self.file.known_names(), *BUILTIN_NAMES}
            # looking for near names takes long, and nobody reads so many messages
            help = did_you_mean(name, known) if len(self.checker.reporter.diagnostics) < MAX_SHOWN else None
            if help is None and what == "value" and self.word in ("layer", "model"):
                help = f"what is trained is declared, as in `param {name}: [4] ~ normal`; what is given is an argument"
        self.report(kinds.UNKNOWN_NAME(Label(span), what=what, name=name, help=help))

    def settle_at_call(self, node: t.Expr) -> None:
        """Give up checking a definition by itself when a choice depends on an argument that only calls know."""
        for inner in node.walk():
            binding = self.names.get(inner.id) if isinstance(inner, t.Name) else None
            if isinstance(binding, Static) and getattr(binding.value, "free_symbols", set()) & self.types.open_statics:
                raise CheckedAtCall

    def new_index(self, name: str, size: Size | None, span: Span) -> Index:
        index = Index(name, size, span)
        self.code.indices.append(index)
        return index

    def new_tensor(self, *args: Any, **kwargs: Any) -> Tensor:
        tensor = Tensor(*args, **kwargs)
        self.code.tensors.append(tensor)
        return tensor

    def placeholder(self, name: str) -> Size:
        """A size to be found out later (the axes of a value that a scan carries)."""
        self.code.fresh += 1
        return symbol(f"?{name}{self.code.fresh}")

    def emit(self, statement: Stmt) -> None:
        self.code.body.append(statement)

    def show(self, size: Size) -> str:
        return show(self.facts.normal(size))

    def show_shape(self, sizes: Iterable[Size | None]) -> str:
        """`[N, 2*K]`"""
        return "[" + ", ".join("?" if size is None else self.show(size) for size in sizes) + "]"

    def same_shape(self, a: Sequence[Size], b: Sequence[Size]) -> bool:
        """Are two shapes provably equal?"""
        return len(a) == len(b) and all(self.facts.equal(x, y) is True for x, y in zip(a, b, strict=True))

    @contextmanager
    def collecting(self) -> Iterator[list[Stmt]]:
        """Statements emitted inside go to a list of their own."""
        outer, self.code.body = self.code.body, []
        self.code.enclosing.append(outer)
        try:
            yield self.code.body
        finally:
            self.code.body = self.code.enclosing.pop()

    def so_far(self) -> list[Stmt]:
        """All statements before this point, those of the blocks around it too."""
        return [x for body in (*self.code.enclosing, self.code.body) for x in body]

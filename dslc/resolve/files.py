"""Which definition a name means: the files of a spec, their imports, and the standard library below them all."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Union

from dslc.diagnostics import kinds
from dslc.diagnostics.report import Diagnostic, Label, Reporter
from dslc.ops.table import BUILTIN_NAMES, SCALAR_OPS
from dslc.source import Source, Span
from dslc.syntax import tree as t
from dslc.syntax.parser import Parsed, load, named_chunks, parse, parse_definition

MAX_FILES = 100

Callable_ = Union[t.Fn, t.Layer, t.Optimizer]


@dataclass(eq=False)
class Defined:
    """A definition and the file whose names it sees."""

    node: Callable_
    file: File

    @property
    def name_span(self) -> Span:
        return self.node.span.word(self.node.name)


@dataclass(eq=False)
class File:
    """One spec file and the names that its definitions can use."""

    parsed: Parsed
    names: dict[str, Defined] = field(default_factory=dict)
    own: list[Defined] = field(default_factory=list)
    #: names whose definition has a syntax error: they exist, so they are not unknown
    broken: set[str] = field(default_factory=set)
    #: a name that is not known may be that of a definition without one, or be in an import that cannot be read
    incomplete: bool = False

    @property
    def trains(self) -> Iterator[t.Train]:
        return (d for d in self.parsed.module.definitions if isinstance(d, t.Train))

    def lookup(self, name: str) -> Defined | None:
        return self.names.get(name) or standard_library().lookup(name)

    def known_names(self) -> set[str]:
        return {*self.names, *standard_library().known_names()}


@dataclass(eq=False)
class Library(File):
    """The standard library: all files of dslc/std as one namespace, each definition parsed when it is first used."""

    texts: dict[str, tuple[Source, int, int]] = field(default_factory=dict)

    def lookup(self, name: str) -> Defined | None:
        if name not in self.names and name in self.texts:
            source, start, end = self.texts[name]
            outcome = parse_definition(source, start, end)
            assert isinstance(outcome, list), outcome  # the library's own files are checked by the tests
            for node in outcome:
                assert isinstance(node, t.Fn | t.Layer | t.Optimizer)
                self.names[name] = Defined(node, self)
        return self.names.get(name)

    def known_names(self) -> set[str]:
        return set(self.texts)


def library_sources() -> Iterator[Source]:
    """The files of the standard library, by name."""
    for file in sorted(resources.files("dslc.std").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".dsl"):
            yield Source(f"std/{file.name}", file.read_text(encoding="utf-8"))


@cache
def standard_library() -> Library:
    library = Library(Parsed(Source("std", ""), t.Module(())))
    for source in library_sources():
        for name, start, end in named_chunks(source):
            library.texts[name] = (source, start, end)
    return library


def load_files(path: Path, reporter: Reporter) -> File | None:
    """Load a spec and all that it imports."""
    source = load(path, str(path), reporter)
    return None if source is None else resolve_source(source, path.parent, reporter, path)


def resolve_source(source: Source, folder: Path, reporter: Reporter, path: Path | None = None) -> File:
    """Resolve a spec that is already read; its imports are looked up in `folder`."""
    loading = _Loading(Path(os.path.realpath(folder)), reporter)
    return loading.read(source, folder, () if path is None else (Path(os.path.realpath(path)),))


@dataclass
class _Loading:
    root: Path
    reporter: Reporter
    files: dict[Path, File] = field(default_factory=dict)

    def read(self, source: Source, folder: Path, chain: tuple[Path, ...]) -> File:
        file = File(parse(source, self.reporter))
        file.broken = set(file.parsed.broken)
        file.incomplete = file.parsed.unread or file.parsed.nameless
        if chain:
            self.files[chain[-1]] = file
        for node in file.parsed.module.definitions:
            if isinstance(node, t.Import) and not self.follow(node, file, folder, chain):
                file.incomplete = file.incomplete or node.names is None
                file.broken.update(part.alias or part.name for part in node.names or ())
        _define(file, file.parsed.module.definitions, self.reporter)
        return file

    def follow(self, node: t.Import, file: File, folder: Path, chain: tuple[Path, ...]) -> bool:
        """Bring the names of an imported file into `file`; False when it cannot be read."""
        start = node.span.start + node.span.text.find('"')
        here = Label(Span(node.span.source, start, start + len(node.path) + 2))
        if "\\" in node.path or "\x00" in node.path or os.path.isabs(node.path):
            self.reporter.add(kinds.IMPORT_OUTSIDE(here, path=node.path))
            return False
        shown = folder / node.path
        real = Path(os.path.realpath(shown))
        if not real.is_relative_to(self.root):
            self.reporter.add(kinds.IMPORT_OUTSIDE(here, path=node.path))
        elif real in chain:
            steps = " -> ".join(p.name for p in (*chain[chain.index(real) :], real))
            self.reporter.add(kinds.IMPORT_CYCLE(here, steps=steps))
        elif real not in self.files and not _is_file(real):
            near = difflib.get_close_matches(real.name, [p.name for p in _specs_beside(real)], 1)
            help = f'write `"{Path(node.path).parent / near[0]}"`' if near else None
            self.reporter.add(kinds.IMPORT_MISSING(here, path=node.path, help=help))
        elif real not in self.files and len(self.files) >= MAX_FILES:
            self.reporter.add(kinds.TOO_MUCH_WORK(here, what="imported files", limit=MAX_FILES))
        else:
            if real not in self.files:
                source = load(real, str(shown), self.reporter)
                if source is None:
                    return False
                self.read(source, shown.parent, (*chain, real))
            if self.files[real].parsed.unread:
                return False
            _import_names(node, file, self.files[real], self.reporter)
            return True
        return False


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # its name is too long, for example
        return False


def _specs_beside(path: Path) -> list[Path]:
    try:
        return sorted(path.parent.glob("*.dsl"))[:1000]
    except OSError:
        return []


def _import_names(node: t.Import, file: File, imported: File, reporter: Reporter) -> None:
    own = {d.node.name: d for d in imported.own}
    if node.names is None:
        file.broken |= imported.broken
        for name, defined in own.items():
            _bind(file, name, defined, node.span, reporter)
        return
    for part in node.names:
        if part.name in own:
            _bind(file, part.alias or part.name, own[part.name], part.span, reporter)
        elif part.name in imported.broken:
            file.broken.add(part.alias or part.name)
        else:
            help = did_you_mean(part.name, own) or "it has " + (
                ", ".join(f"`{n}`" for n in sorted(own)) or "no definitions"
            )
            reporter.add(kinds.IMPORT_NAME(Label(part.span), name=part.name, path=node.path, help=help))
            file.broken.add(part.alias or part.name)


def _define(file: File, nodes: Iterable[t.Definition], reporter: Reporter) -> None:
    for node in nodes:
        if isinstance(node, t.Fn | t.Layer | t.Optimizer):
            defined = Defined(node, file)
            file.own.append(defined)
            if node.name in BUILTIN_NAMES and (node.name not in SCALAR_OPS or node.name in ("min", "max")):
                reporter.add(kinds.SHADOWS_BUILTIN(Label(defined.name_span), name=node.name))
            else:
                _bind(file, node.name, defined, defined.name_span, reporter)


def _bind(file: File, name: str, defined: Defined, span: Span, reporter: Reporter) -> None:
    other = file.names.get(name)
    if other is not None and other is not defined:
        first = Label(other.name_span, "first defined here")
        reporter.add(kinds.DEFINED_TWICE(Label(span), first, name=name))
        return
    file.names[name] = defined


def did_you_mean(name: str, names: Iterable[str]) -> str | None:
    """A help text with the nearest known name, if one is near.

    >>> did_you_mean("sofmax", ["softmax", "relu"])
    'did you mean `softmax`?'
    """
    near = difflib.get_close_matches(name, sorted(set(names)), 1, cutoff=0.7)
    if not near:
        near = [n for n in sorted(set(names)) if n.lower() == name.lower()][:1]
    return f"did you mean `{near[0]}`?" if near else None


#: A call: the definition that is called, and where.
Use = tuple["Defined", Span]


def find_recursion(file: File, reporter: Reporter) -> set[Callable_]:
    """Report definitions that call themselves, directly or through others; returns those that do."""
    recursive: set[Callable_] = set()
    done: set[int] = set()
    for root in file.own:
        stack: list[tuple[Use, Iterator[Use]]] = [((root, root.name_span), _calls(root))]
        on_path = {id(root.node): 0}
        while stack:
            (defined, _), calls = stack[-1]
            following = next(calls, None)
            if following is None:
                stack.pop()
                on_path.pop(id(defined.node), None)
                done.add(id(defined.node))
            elif id(following[0].node) in on_path:
                cycle = [use for use, _ in stack[on_path[id(following[0].node)] :]]
                recursive.update(d.node for d, _ in cycle)
                reporter.add(_recursion(cycle, following))
            elif id(following[0].node) not in done:
                on_path[id(following[0].node)] = len(stack)
                stack.append((following, _calls(following[0])))
    return recursive


def _recursion(cycle: list[Use], last: Use) -> Diagnostic:
    """`cycle` leads from a definition through calls to the `last` one, of that definition again."""
    first = cycle[0][0]
    name = first.node.name
    labels = [Label(last[1], f"calls `{name}` again"), Label(first.name_span, f"`{name}` is defined here")]
    labels += [Label(span, f"calls `{d.node.name}`") for d, span in cycle[1:]]
    steps = " -> ".join([*(d.node.name for d, _ in cycle), name])
    return kinds.RECURSION(*labels, name=name, steps=steps)


def _calls(defined: Defined) -> Iterator[Use]:
    """The definitions that the body of one mentions."""
    seen = {f.name for f in defined.node.formals}
    for node in defined.node.walk():
        callees: tuple[t.Node, ...] = ()
        if isinstance(node, t.Call):
            callees = (node.callee.base if isinstance(node.callee, t.Access) else node.callee,)
        elif isinstance(node, t.Pipe):
            callees = node.stages
        for callee in callees:
            if isinstance(callee, t.Name) and callee.id not in seen:
                seen.add(callee.id)
                found = defined.file.lookup(callee.id)
                if found is not None:
                    yield found, callee.span

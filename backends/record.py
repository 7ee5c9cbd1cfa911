"""What dslc knows about a backend: its record, and what the parts of it are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dslc.dtypes import KEPT
from dslc.ir import nodes as ir
from dslc.source import NOWHERE, Span

if TYPE_CHECKING:
    from dslc.meaning.interpret import Array
    from dslc.passes.transform import Outputs, Stages
    from dslc.schedule.plan import Schedule
    from dslc.schedule.target import Target


class CannotLower(Exception):
    """Something that a backend cannot do; the caller shows the spec line."""

    def __init__(self, what: str, node: ir.Node):
        self.what = what
        self.span: Span = getattr(node, "span", NOWHERE)
        super().__init__(what)


class Unavailable(Exception):
    """A backend whose modules cannot run on this machine; the message says what is missing."""


@dataclass(frozen=True)
class Printer:
    """The code of a backend, which is imported when it is first asked for."""

    #: the text of a module, from a Program, the name of the spec's file, the dtype of parameters, and options by name
    generate: Callable[..., str]
    #: what it raises for a spec that it cannot do, with the attributes of a CannotLower
    cannot: type[Any] = CannotLower
    #: the schedule of outputs for a dtype of parameters; the stages get the program after each pass of the backend
    schedule: Callable[[Outputs, str, Stages], Schedule] | None = None
    #: the kernels in the text of a module
    kernels: Callable[[str], list[str]] | None = None
    #: the files of a module that consists of several, by name, from what `generate` takes
    files: Callable[..., dict[str, str]] | None = None


@dataclass(frozen=True)
class Arrays:
    """How NumPy arrays become arguments of a module and results become NumPy arrays."""

    #: an array as one of the module, of a dtype or as it is
    pack: Callable[..., Any]
    unpack: Callable[[Any], Array]
    #: what functions of the module are called in
    running: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass(frozen=True)
class Backend:
    """One backend. It has a field for everything that the compiler, the commands and the verification ask of it."""

    name: str
    #: what its modules compute with, in messages: they take memory from it
    library: str
    printer: Callable[[], Printer]
    #: packages that must be installed for its modules to run
    needs: tuple[str, ...] = ()
    #: for `dslc verify`; raises Unavailable; None if its modules do not run in Python
    arrays: Callable[[], Arrays] | None = None
    #: what its modules run with on this machine, in a few words; raises Unavailable with a cure
    runs_with: Callable[[], str] = str
    #: do its modules take NumPy arrays and give them?
    on_arrays: bool = False
    #: dtypes that its parameters cannot have: why, and what to take instead
    lacks: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    #: facts of the machine that it schedules programs for
    target: Target | None = None
    #: options of its own that `generate` takes
    options: frozenset[str] = frozenset()
    #: long sizes that `dslc verify` tries, none of them a multiple of a block
    lengths: tuple[int, ...] = (67,)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """What its parameters can be kept in."""
        return tuple(dtype for dtype in KEPT if dtype not in self.lacks)

"""What building the IR gives, and what it keeps in mind: the program, its layers, its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Union

from dslc.check import program as p
from dslc.ir import nodes as ir
from dslc.ir.interning import Refusal as Refusal
from dslc.ir.naming import Names
from dslc.sizes import Polynomial, Size

#: what an index of the checked program is here: a variable, or the step of a scan
Place = Union[int, ir.Step]


@dataclass
class Unit:
    """A program in the IR: named results of named inputs."""

    inputs: dict[str, ir.Input] = field(default_factory=dict)
    #: inputs whose entries are promised to be 0 or 1, or on the simplex
    refinements: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, ir.Tensor] = field(default_factory=dict)
    #: next values of states
    updates: dict[str, ir.Tensor] = field(default_factory=dict)
    #: outputs of the model, for each call of it by the training whose arguments are inputs of the same names
    model_calls: list[dict[str, ir.Tensor]] = field(default_factory=list)
    #: declarations of parameters and states by path
    params: dict[str, p.ParamDecl] = field(default_factory=dict)
    states: dict[str, p.StateDecl] = field(default_factory=dict)
    frozen: set[str] = field(default_factory=set)
    #: inputs that hold one parameter or state for each pass of loops, `block.*.W`: first number and count, outer first
    layers: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    #: open sizes that definitions have names for
    sizes: dict[Size, str] = field(default_factory=dict)
    #: how deep in calls a value got its name; an outer name for the same value is the better one
    depths: dict[ir.Node, int] = field(default_factory=dict)
    names: Names = field(default_factory=Names)

    def note_sizes(self, sizes: Mapping[str, Size]) -> None:
        """Sizes that a definition names; that of a caller is the better name for the same size."""
        for name, size in sizes.items():
            if isinstance(size, Polynomial) and not size.is_Symbol:
                self.sizes.setdefault(size, name)

    def paths(self, name: str) -> list[str]:
        """The names that stand behind one with stars, in row-major order.

        >>> Unit(layers={"block.*.W": ((0, 2),)}).paths("block.*.W")
        ['block.0.W', 'block.1.W']
        """
        out = [name]
        for first, count in self.layers.get(name, ()):
            out = [path.replace("*", str(first + k), 1) for path in out for k in range(count)]
        return out


@dataclass(frozen=True)
class Layer:
    """One loop around a part of the program that is built once: its step, the first number, the count of passes."""

    step: ir.Step
    first: int
    count: int


@dataclass(frozen=True)
class Value:
    """A tensor of the checked program in the IR; `lifted`: it has the mapped axes in front."""

    tensor: ir.Tensor
    lifted: bool


@dataclass
class CarriedSequence:
    """A value that a scan builds: its scanned axis, and the carried values for each lag that is read."""

    axis: int
    reverse: bool
    carries: list[ir.Step] = field(default_factory=list)

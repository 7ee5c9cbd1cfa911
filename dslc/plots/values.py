"""All values that a model names, for some rows of data: the interpreter computes them one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dslc.arrays import Array, Arrays
from dslc.builder.build import build
from dslc.builder.paths import together
from dslc.check import program as p
from dslc.ir import nodes as ir
from dslc.meaning.contracting import Contracting
from dslc.run_errors import RunError
from dslc.sizes import Symbol


class Noting(Contracting):
    """The interpreter, which keeps what has a name and follows from the inputs of the model."""

    def __init__(self, inputs: Mapping[str, Array], sizes: Mapping[str, int], seed: int):
        super().__init__(inputs, sizes, seed)
        #: of a recurrence an array for each step; passes of a loop over layers have names of their own
        self.kept: dict[str, tuple[ir.Node, list[Array]]] = {}
        #: names without the numbers of passes
        self.plain: set[str] = set()
        #: loops over layers that are going on
        self.layers: list[ir.Scan] = []
        self.follows: dict[int, bool] = {}

    def evaluate(self, node: ir.Node) -> Any:
        value = super().evaluate(node)
        carried = isinstance(node, ir.Step) and node.kind == "carry"
        given = isinstance(node, ir.Input) and node.role == "input"
        follows = carried or given or any(self.follows.get(id(x), False) for x in ir.arguments(node))
        self.follows[id(node)] = follows
        name = str(getattr(node, "name", ""))
        again = isinstance(node, ir.Part) and isinstance(node.of, ir.Scan) and name in self.plain
        if (
            name
            and follows
            and not again
            and isinstance(node, ir.Comp | ir.Scatter | ir.Part)
            and value.dtype.kind == "f"
        ):
            self.plain.add(name)
            name += "".join(f".{self.steps[scan.number][0]}" for scan in self.layers)
            before, parts = self.kept.get(name, (None, []))
            if before is not node:  # of values of one name the last one counts
                self.kept.pop(name, None)
                self.kept[name] = node, parts = node, []
            parts.append(np.array(value))
        return value

    def scan(self, node: ir.Scan) -> list[Array]:
        if node.kind != "layers":
            return super().scan(node)
        self.layers.append(node)
        try:
            return super().scan(node)
        finally:
            self.layers.pop()


def named_values(model: p.Instance, weights: Mapping[str, Array], inputs: Mapping[str, Array], seed: int = 0) -> Arrays:
    """Values for inference by name, in order of computation: `attention.a.2` is that of the third pass of a loop.

    Of a recurrence all steps are stacked along a first axis.
    """
    unit = build(model, "inference")
    values = together(unit, {**weights, **inputs}, unit.inputs)
    sizes = {
        size.name: length
        for name, x in unit.inputs.items()
        for size, length in zip(x.shape, values[name].shape, strict=True)
        if isinstance(size, Symbol)
    }
    noting = Noting(values, sizes, seed)
    try:
        with np.errstate(all="ignore"):
            noting.run(unit.outputs)
    except MemoryError as error:
        raise RunError("there is not enough memory for these values", help="take fewer rows with --rows") from error
    return {name: parts[0] if len(parts) == 1 else np.stack(parts) for name, (_, parts) in noting.kept.items()}

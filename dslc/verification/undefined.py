"""Where formulas as they are written have no value, and which results depend on that.

A softmax over nothing is 0 / 0. What is made of such a value need not be NaN: `relu` and comparisons make a number of
it. So the interpreter puts other numbers in the place of NaN each time, and what changes with them has no value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dslc.ir import nodes as ir
from dslc.meaning.interpret import Array, Interpreter

#: what stands in the place of NaN, one time after the other: random numbers, and the same with the other sign, so that
#: they come to lie on both sides of a kink
FILLINGS = (1.0, -1.0, 30.0, -30.0)


def filling(kind: type[Interpreter], scale: float, seed: int, met: list[ir.Node]) -> type[Interpreter]:
    """An interpreter that goes on with random numbers where it meets NaN, and notes the nodes where it did."""
    rng = np.random.default_rng((seed, int(abs(scale))))

    class Filling(kind):  # type: ignore[valid-type, misc]
        node: ir.Node

        def evaluate(self, node: ir.Node) -> Any:
            self.node = node
            value = super().evaluate(node)
            self.node = node
            return [self.filled(x) for x in value] if isinstance(value, list) else self.filled(value)

        def one(self, s: ir.Scalar, variables: list[Array], done: Mapping[int, Any]) -> Any:
            return self.filled(super().one(s, variables, done))

        def filled(self, value: Any) -> Any:
            value = np.asarray(value)
            if value.dtype.kind != "f" or not np.isnan(value).any():
                return value
            met.append(self.node)
            return np.where(np.isnan(value), scale * rng.uniform(0.3, 1.7, value.shape), value)

    return Filling


def changing(runs: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Where results differ between runs.

    >>> changing([{"y": np.array([1.0, 2.0])}, {"y": np.array([1.0, 3.0])}])
    {'y': array([False,  True])}
    """
    first, *others = runs
    return {name: np.any([x[name] != value for x in others], axis=0) for name, value in first.items()}


def undefined(results: Mapping[str, Array]) -> bool:
    return any(np.isnan(x).any() for x in results.values())


def defined(plain: Mapping[str, Array], stable: Mapping[str, Array], without: Mapping[str, Array]) -> dict[str, Array]:
    """Results of formulas as they are written; where those have no value, of their stable forms."""
    return {name: np.where(np.isnan(x) | without.get(name, False), stable[name], x) for name, x in plain.items()}

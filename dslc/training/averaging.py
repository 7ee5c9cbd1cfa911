"""Averages of the weights over a run, which are evaluated and kept in the place of the last ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dslc.arrays import Array, Arrays
from dslc.training.checkpoint import fill


class Average:
    """A running mean of weights: with a decay an exponential one, else one in which all count alike.

    Parameters and states are averaged in float32 at least; whole numbers are those of the last weights.

    >>> mean = Average(None)
    >>> for w in (1.0, 2.0, 6.0):
    ...     mean.add({"w": np.array([w])})
    >>> mean.weights({"w": np.zeros(1)})["w"]
    array([3.])
    """

    def __init__(self, decay: float | None):
        self.decay = decay
        #: how many weights were added
        self.count = 0
        self.arrays: Arrays = {}

    def add(self, weights: Mapping[str, Array]) -> None:
        """Average with further weights; the first ones are taken as they are."""
        self.count += 1
        if not self.arrays:
            self.arrays = {name: _wide(x) for name, x in weights.items() if x.dtype.kind == "f"}
            return
        share = 1 / self.count if self.decay is None else 1 - self.decay
        for name, mean in self.arrays.items():
            mean += share * (weights[name] - mean)

    def weights(self, last: Arrays) -> Arrays:
        """The average in the dtypes of the last weights; those themselves where nothing was added yet."""
        return {name: self.arrays[name].astype(x.dtype) if name in self.arrays else x for name, x in last.items()}

    def restore(self, arrays: Arrays, count: int, last: Mapping[str, Array], origin: str) -> None:
        """Go on from what a checkpoint holds."""
        self.count = count
        self.arrays = {name: _wide(x) for name, x in last.items() if count and x.dtype.kind == "f"}
        fill(self.arrays, arrays, "the average of", origin)


def _wide(x: Array) -> Array:
    return np.array(x, np.float64 if x.dtype == np.float64 else np.float32, order="C")

"""Averages of the weights over a run, which are evaluated and kept in the place of the last ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dslc.arrays import Array, Arrays, as_kept, as_numbers
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
            self.arrays = wide(weights)
            return
        share = 1 / self.count if self.decay is None else 1 - self.decay
        for name, mean in self.arrays.items():
            mean += share * (as_numbers(weights[name]) - mean)

    def weights(self, last: Arrays) -> Arrays:
        """The average in the dtypes of the last weights; those themselves where nothing was added yet."""
        return {name: as_kept(self.arrays[name], x.dtype) if name in self.arrays else x for name, x in last.items()}

    def restore(self, arrays: Arrays, count: int, last: Mapping[str, Array], origin: str) -> None:
        """Go on from what a checkpoint holds."""
        self.count = count
        self.arrays = wide(last) if count else {}
        fill(self.arrays, arrays, "the average of", origin)


def wide(arrays: Mapping[str, Array]) -> Arrays:
    """Those of some arrays that hold floats, as numbers of at least 32 bits."""
    floats = ((name, as_numbers(x)) for name, x in arrays.items())
    return {
        name: np.array(x, np.float64 if x.dtype == np.float64 else np.float32, order="C")
        for name, x in floats
        if x.dtype.kind == "f"
    }

"""Rows of data: which inputs are taken apart into rows, in which order, in batches, for training and for validation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dslc.arrays import Array, Arrays
from dslc.data.fields import Field
from dslc.run_errors import RunError
from dslc.sizes import Size
from dslc.sizes import show as show_size


@dataclass(frozen=True)
class Rows:
    """Which inputs are taken apart into rows, along their first axis; the others are given whole at each step.

    When the data are one whole (a graph, whose edges name nodes), there is no row to take: `whole` says why.
    """

    count: int
    sliced: frozenset[str]
    whole: str = ""

    def take(self, data: Mapping[str, Array], rows: Array) -> list[Array]:
        """The arguments of a step, in order."""
        return [x[rows] if name in self.sliced else x for name, x in data.items()]


def row_size(fields: Sequence[Field]) -> Size | None:
    """What the axis of the rows is called: the first one of the first input that has an open size there."""
    return next((f.shape[0] for f in fields if f.shape and not isinstance(f.shape[0], int)), None)


def rows_of(fields: Sequence[Field], data: Mapping[str, Array]) -> Rows:
    """Rows lie along the first axis of the first input, and of all inputs that have the same size there.

    >>> from dslc.sizes import symbol
    >>> N = symbol("N"); fields = [Field("x", (N, 2)), Field("w", (2,))]
    >>> rows_of(fields, {"x": np.zeros((5, 2)), "w": np.zeros(2)})
    Rows(count=5, sliced=frozenset({'x'}), whole='')
    """
    first = row_size(fields)
    if first is None:
        return Rows(1, frozenset(), "no input has a first axis of open length")
    for field in fields:
        if field.below is not None and not isinstance(field.below, int) and first in field.below.free_symbols:
            return Rows(1, frozenset(), f"`{field.name}` holds positions along the axis `{show_size(first)}`")
        for size in field.shape[1:]:
            if not isinstance(size, int) and first in size.free_symbols:
                return Rows(1, frozenset(), f"`{field.name}` has the axis `{show_size(first)}` in another place too")
    sliced = frozenset(f.name for f in fields if f.shape and f.shape[0] == first)
    name = next(f.name for f in fields if f.name in sliced)
    return Rows(len(data[name]), sliced)


def split(data: Arrays, rows: Rows, fraction: float, seed: int) -> tuple[Arrays, Arrays]:
    """Rows for training and rows for validation, chosen by the seed."""
    if rows.whole:
        raise _cannot_split(fraction, rows.whole)
    parts = [
        {name: x[chosen] if name in rows.sliced else x for name, x in data.items()}
        for chosen in parts_of(rows.count, fraction, seed)
    ]
    return parts[0], parts[1]


def parts_of(count: int, fraction: float, seed: int) -> tuple[Array, Array]:
    """The numbers of the rows for training, and of those for validation.

    >>> [len(part) for part in parts_of(10, 0.3, 0)]
    [7, 3]
    """
    kept = count - max(1, round(count * fraction))
    if kept < 1:
        raise _cannot_split(fraction, f"there are {count} rows")
    order = permutation(count, seed, SPLIT)
    return np.sort(order[:kept]), np.sort(order[kept:])


def _cannot_split(fraction: float, reason: str) -> RunError:
    help = "leave out --validation, or store val_ arrays in the data"
    return RunError(f"cannot set {fraction:g} of the data apart for validation: {reason}", help=help)


#: stands where the number of an epoch does, for the split into training and validation rows
SPLIT = 2**64 - 1


def permutation(count: int, seed: int, epoch: int) -> Array:
    """The order of the rows in an epoch: it depends on the seed and the epoch alone."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, epoch], np.uint64))).permutation(count)


def batches(
    data: Mapping[str, Array], size: int, seed: int = 0, epoch: int = 0,
    transform: Callable[[Arrays, np.random.Generator], Arrays] | None = None,
) -> Iterator[Arrays]:  # fmt: skip
    """All rows once, in the order of an epoch of `dslc train`, `size` at a time; the last batch may be smaller.

    `transform` changes a batch, as augmentations do; it gets a generator that follows from seed, epoch and batch.

    >>> [len(part["x"]) for part in batches({"x": np.arange(10)}, 4)]
    [4, 4, 2]
    """
    lengths = {name: len(x) for name, x in data.items()}
    if len(set(lengths.values())) != 1 or size < 1:
        raise ValueError(f"expected arrays with as many rows each, and a size from 1 on; found {lengths} and {size}")
    order = permutation(next(iter(lengths.values())), seed, epoch)
    for start in range(0, len(order), size):
        part = {name: x[order[start : start + size]] for name, x in data.items()}
        yield part if transform is None else transform(part, np.random.default_rng((seed, epoch, start)))


def digests(data: Mapping[str, Array]) -> dict[str, list[object]]:
    """Shape, dtype and a hash of each array: whether data are the same as in an earlier run."""
    return {
        name: [
            list(x.shape),
            str(x.dtype),
            hashlib.blake2b(np.ascontiguousarray(x).tobytes(), digest_size=16).hexdigest(),
        ]
        for name, x in data.items()
    }

"""Arrays under the paths that users see, and under the inputs of a program, where those of equal layers are one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from dslc.builder.unit import Unit
from dslc.meaning.interpret import Array


def separate(unit: Unit, arrays: Mapping[str, Array], names: Iterable[str]) -> dict[str, Array]:
    """The arrays of equal layers one by one.

    >>> unit = Unit(layers={"block.*.W": ((0, 2),)})
    >>> separate(unit, {"block.*.W": np.array([3.0, 4.0])}, ["block.*.W"])
    {'block.0.W': array(3.), 'block.1.W': array(4.)}
    """
    found: dict[str, Array] = {}
    for name in names:
        loops = len(unit.layers.get(name, ()))
        parts = arrays[name].reshape(-1, *arrays[name].shape[loops:]) if loops else [arrays[name]]
        found.update(zip(unit.paths(name), map(np.asarray, parts), strict=True))
    return found


def together(unit: Unit, arrays: Mapping[str, Array], names: Iterable[str]) -> dict[str, Array]:
    """The arrays of equal layers in one.

    >>> unit = Unit(layers={"block.*.W": ((0, 2),)})
    >>> together(unit, {"block.0.W": np.array(3.0), "block.1.W": np.array(4.0)}, ["block.*.W"])
    {'block.*.W': array([3., 4.])}
    """
    found: dict[str, Array] = {}
    for name in names:
        counts = [count for _, count in unit.layers.get(name, ())]
        parts = [arrays[path] for path in unit.paths(name)]
        found[name] = np.stack(parts).reshape(*counts, *parts[0].shape) if counts else parts[0]
    return found

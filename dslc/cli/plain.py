"""A module of any backend as one that takes NumPy arrays and gives them."""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np

from dslc.backends.record import Arrays


class Plain(ModuleType):
    """What another module has; its functions get arrays as they want them, and what they give is NumPy's.

    Memory is shared where it can be, so that a training step changes the arrays that it is given.
    """

    def __init__(self, module: ModuleType, arrays: Arrays):
        super().__init__(module.__name__)
        self.__dict__["of"], self.__dict__["arrays"] = module, arrays

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.of, name)
        if not callable(found) or isinstance(found, type):
            return found

        @wraps(found)
        def call(*given: Any, **options: Any) -> Any:
            with self.arrays.running():
                return self.plain(found(*self.packed(given), **self.packed(options)))

        return call

    def packed(self, value: Any) -> Any:
        match value:
            case dict():
                return {name: self.packed(x) for name, x in value.items()}
            case tuple():
                return tuple(map(self.packed, value))
            case np.ndarray() | np.generic():
                return self.arrays.pack(value)
        return value

    def plain(self, value: Any) -> Any:
        match value:
            case dict():
                return {name: self.plain(x) for name, x in value.items()}
            case tuple():
                return tuple(map(self.plain, value))
        return self.arrays.unpack(value) if hasattr(value, "shape") else value

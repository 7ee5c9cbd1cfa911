"""Triton's interpreter made several times quicker, with the same results bit by bit; whole numbers may not overflow.

The interpreter runs one program of a kernel after another, each operation on whole blocks by NumPy. Its time goes into
what it makes anew for every operation (types, tables, casts to see whether whole numbers overflow), into the language,
which it patches anew for every call of a device function, and into scans, which it does number by number. This is for
the triton that dslc asks for; any other one is left as it is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton.language import core
from triton.runtime import interpreter

from dslc.meaning.interpret import Array

VERSION = "3.9.0"


class Changes:
    """Attributes that are set for a while."""

    def __init__(self) -> None:
        self.old: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        self.old.append((owner, name, vars(owner).get(name)))
        setattr(owner, name, value)

    def undo(self) -> None:
        for owner, name, value in reversed(self.old):
            if value is None:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


@contextmanager
def quick() -> Iterator[None]:
    """Kernels that are launched inside run quickly."""
    if triton.__version__ != VERSION or isinstance(interpreter._get_np_dtype, NumpyTypes):  # it is quick already
        yield
        return
    changes = Changes()
    # patched once for kernels and for what they call, not again for every call
    language = interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": core}))
    try:
        changes.set(interpreter, "_patch_lang", lambda function: SimpleNamespace(restore=lambda: None))
        changes.set(interpreter, "_get_np_dtype", NumpyTypes(interpreter._get_np_dtype))
        changes.set(interpreter.ReduceOps, "generic_reduce", reduced)
        changes.set(interpreter.ScanOps, "generic_scan", scanned)
        types_made_once(changes)
        semantic = interpreter.interpreter_semantic
        changes.set(semantic, "broadcast_impl_value", broadcast(semantic, semantic.broadcast_impl_value))
        changes.set(semantic, "load", load(semantic, semantic.load))
        for name, kind in OPERATORS.items():
            changes.set(core.tensor, name, kind(name))
        changes.set(core.tensor, "__getitem__", new_axes(core.tensor.__getitem__))
        yield
    finally:
        changes.undo()
        language.restore()


# ---- types


class NumpyTypes:
    """NumPy's dtype of a dtype of Triton, by its name."""

    def __init__(self, plain: Callable[[Any], Any]) -> None:
        self.plain = plain
        self.known: dict[str, Any] = {}

    def __call__(self, kind: Any) -> Any:
        name = kind.scalar.name
        if name not in self.known:
            self.known[name] = self.plain(kind)
        return self.known[name]


def types_made_once(changes: Changes) -> None:
    """The same object for each block type and for each shape of a tensor."""
    make, types = core.block_type.__init__, dict[tuple[str, tuple[int, ...]], Any]()
    shapes = dict[tuple[int, ...], Any]()

    def find(cls: Any, element_ty: Any, shape: Any) -> Any:
        key = element_ty.name, tuple([getattr(n, "value", n) for n in shape])
        if key not in types:
            made = object.__new__(cls)
            make(made, element_ty, list(key[1]))
            types[key] = made
        return types[key]

    def new_tensor(self: Any, handle: Any, type: Any) -> None:
        lengths = tuple(type.shape.values) if type.is_block() else ()
        if lengths not in shapes:
            made = core.tuple([core.constexpr(n) for n in lengths])
            shapes[lengths] = made, core.constexpr(int(np.prod(lengths, dtype=int)))
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = shapes[lengths]

    if "__new__" not in vars(core.block_type):  # a class cannot go back to having none
        core.block_type.__new__ = lambda cls, *arguments: object.__new__(cls)
    changes.set(core.block_type, "__new__", find)
    changes.set(core.block_type, "__init__", lambda self, element_ty, shape: None)
    changes.set(core.tensor, "__init__", new_tensor)


def broadcast(semantic: Any, plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Blocks of equal shapes are left as they are, and those of equal rank stretched at once."""

    def stretched(value: Any, shape: list[int]) -> Any:
        if value.type.shape.values == shape:
            return value
        handle = semantic.builder.create_broadcast(value.handle, shape)
        return core.tensor(handle, core.block_type(value.dtype, shape))

    def apply(left: Any, right: Any) -> Any:
        if not (is_block(left) and is_block(right)):
            return plain(left, right) if is_block(left) or is_block(right) else (left, right)
        a, b = left.type.shape.values, right.type.shape.values
        if a == b:
            return left, right
        if len(a) != len(b) or any(m != n and 1 not in (m, n) for m, n in zip(a, b, strict=True)):
            return plain(left, right)
        shape = [max(m, n) for m, n in zip(a, b, strict=True)]
        return stretched(left, shape), stretched(right, shape)

    return apply


def load(semantic: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
    """What stands outside of a mask, a number, is cast before it is stretched to a block and not after."""

    def apply(pointer: Any, mask: Any, other: Any, *options: Any) -> Any:
        if other is not None and not is_block(other) and pointer.dtype.is_ptr():
            inside = pointer.dtype.element_ty
            other = other if inside.name == "int1" else semantic.cast(other, inside)
        return plain(pointer, mask, other, *options)

    return apply


# ---- operators on values whose types say at once what is computed; others go the long way

FLOATS = {"fp32": np.float32, "fp64": np.float64}
WHOLE = {"int32": np.int32, "int64": np.int64}
LIMITS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def made(data: Array, kind: Any, block: bool) -> Any:
    return core.tensor(interpreter.TensorHandle(data, kind), core.block_type(kind, data.shape) if block else kind)


def other_side(self: Any, other: Any, numbers: dict[str, Any]) -> Any:
    """The data of an operand whose type is that of this tensor or mixes with it as in NumPy, or None."""
    name = self.dtype.name
    if name not in numbers:
        return None
    if isinstance(other, core.tensor):
        return other.handle.data if other.dtype.name in numbers else None
    if type(other) is int or (type(other) is float and numbers is FLOATS):
        fits = numbers is FLOATS or LIMITS[name][0] <= other <= LIMITS[name][1]
        return numbers[name](other) if fits else None
    return None


def is_block(x: Any) -> bool:
    return isinstance(x, core.tensor) and x.type.is_block()


def within_32_bits(data: Array, name: str) -> Array:
    """Whole numbers of 32 bits from those of 64; Triton's own interpreter lets those that do not fit go around."""
    least, most = LIMITS["int32"]
    assert data.min() >= least and data.max() <= most, f"int32 overflow detected for operation {name}"
    return data.astype(np.int32)


def arithmetic(name: str) -> Callable[[Any, Any], Any]:
    """`+`, `-`, `*` of floats and of whole numbers, `/` of floats, and pointers with what is added to them."""
    plain, reverse = getattr(core.tensor, name), name.startswith("__r")
    action = name.strip("_").removeprefix("r")
    function = getattr(operator, action)

    def apply(self: Any, other: Any) -> Any:
        numbers = FLOATS if self.dtype.name in FLOATS else WHOLE
        if self.dtype.is_ptr() and action == "add" and isinstance(other, core.tensor) and other.dtype.name in WHOLE:
            handle = interpreter.interpreter_builder.create_addptr(self.handle, other.handle)
            return made(handle.data, self.dtype, is_block(self) or is_block(other))
        if self.dtype.is_ptr() and name in ("__add__", "__sub__") and type(other) is int:
            steps = other if action == "add" else -other
            offset = interpreter.TensorHandle(np.array([steps], np.int64), tl.int64)
            handle = interpreter.interpreter_builder.create_addptr(self.handle, offset)
            return made(handle.data, self.dtype, is_block(self))
        right = None if action == "truediv" and numbers is WHOLE else other_side(self, other, numbers)
        if right is None:
            return plain(self, other)
        left = self.handle.data
        short = numbers is WHOLE and left.itemsize == right.itemsize == 4
        if short:
            left, right = left.astype(np.int64), right.astype(np.int64)
        data = function(right, left) if reverse else function(left, right)
        if short:
            data = within_32_bits(data, action)
        kind = other.dtype if isinstance(other, core.tensor) and right.itemsize > left.itemsize else self.dtype
        return made(data, kind, is_block(self) or is_block(other))

    return apply


def division(name: str) -> Callable[[Any, Any], Any]:
    """`//` and `%` of whole numbers; both round towards zero, which is down where nothing is negative."""
    plain, rest = getattr(core.tensor, name), name == "__mod__"

    def apply(self: Any, other: Any) -> Any:
        right = other_side(self, other, WHOLE)
        left = self.handle.data
        if right is None or left.min() < 0 or right.min() <= 0:
            return plain(self, other)
        data = left % right if rest else left // right
        kind = other.dtype if isinstance(other, core.tensor) and right.itemsize > left.itemsize else self.dtype
        return made(data, kind, is_block(self) or is_block(other))

    return apply


def comparison(name: str) -> Callable[[Any, Any], Any]:
    plain, function = getattr(core.tensor, name), getattr(operator, name.strip("_"))

    def apply(self: Any, other: Any) -> Any:
        right = other_side(self, other, FLOATS if self.dtype.name in FLOATS else WHOLE)
        if right is None:
            return plain(self, other)
        return made(function(self.handle.data, right), tl.int1, is_block(self) or is_block(other))

    return apply


def logical(name: str) -> Callable[[Any, Any], Any]:
    plain, function = getattr(core.tensor, name), getattr(operator, name)

    def apply(self: Any, other: Any) -> Any:
        if not (isinstance(other, core.tensor) and self.dtype.name == other.dtype.name == "int1"):
            return plain(self, other)
        return made(function(self.handle.data, other.handle.data), tl.int1, is_block(self) or is_block(other))

    return apply


#: operator of tensors -> the function that makes its quick form
OPERATORS: dict[str, Callable[[str], Callable[[Any, Any], Any]]] = {
    **dict.fromkeys(("__add__", "__sub__", "__mul__", "__truediv__"), arithmetic),
    **dict.fromkeys(("__radd__", "__rsub__", "__rmul__", "__rtruediv__"), arithmetic),
    **dict.fromkeys(("__floordiv__", "__mod__"), division),
    **dict.fromkeys(("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"), comparison),
    **dict.fromkeys(("__and__", "__or__"), logical),
}


def new_axes(plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`x[:, None]` of a block."""
    all_of = slice(None)

    def apply(self: Any, places: Any) -> Any:
        if not (is_block(self) and isinstance(places, tuple) and all(p is None or p == all_of for p in places)):
            return plain(self, places)
        return made(self.handle.data[places], self.dtype, True)

    return apply


# ---- reductions and scans by a function of the module: slice by slice, not number by number


def slices(self: Any, values: Any, axis: int) -> Iterator[tuple[Any, ...]]:
    for k in range(values[0].handle.data.shape[axis]):
        yield tuple(self.to_tensor(np.take(x.handle.data, k, axis), x.dtype) for x in values)


def combined(self: Any, total: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:
    result = self.combine_fn.fn(*total, *new)
    return tuple(result) if isinstance(result, (tuple, core.tuple)) else (result,)


def reduced(self: Any, values: Any) -> list[Any]:
    values, axis = self.unravel(values, self.axis)
    total: tuple[Any, ...] = ()
    for new in slices(self, values, axis):
        total = combined(self, total, new) if total else new
    results: list[Any] = []
    for x, value in zip(total, values, strict=True):
        rank = value.handle.data.ndim
        data = x.handle.data if rank > 1 else x.handle.data.reshape(())
        if self.keep_dims:
            data = np.expand_dims(data, axis) if self.axis is not None else data.reshape((1,) * rank)
        results.append(self.to_tensor(data, value.dtype))
    return results


def scanned(self: Any, values: Any) -> list[Any]:
    shape = values[0].handle.data.shape
    flat = (*shape[: self.axis], *shape[self.axis + 1 :])
    total: tuple[Any, ...] = ()
    found: list[list[Array]] = [[] for _ in values]
    for new in slices(self, values, self.axis):
        total = combined(self, total, new) if total else new
        for parts, x in zip(found, total, strict=True):
            parts.append(x.handle.data.reshape(flat))
    return [self.to_tensor(np.stack(parts, self.axis), x.dtype) for parts, x in zip(found, values, strict=True)]

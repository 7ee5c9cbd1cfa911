"""A repair of Triton's interpreter: it keeps bfloat16 as bits, cuts off where it should round, and multiplies the bits.

With it, conversions are those of torch and the products of `tl.dot` are taken of the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

from dslc.meaning.interpret import Array


def numbers(handle: Any) -> Array:
    """The values of a tensor of the interpreter, bfloat16 as float32."""
    data: Array = handle.data
    if handle.dtype.scalar != tl.bfloat16:
        return data
    return (data.astype(np.uint32) << np.uint32(16)).view(np.float32)


def rounded(values: Array) -> Array:
    """Floats as the bits of bfloat16."""
    single = torch.as_tensor(np.asarray(values, np.float32))
    bits: Array = single.to(torch.bfloat16).view(torch.int16).numpy()
    return bits.view(np.uint16)


@contextmanager
def as_on_a_device() -> Iterator[None]:
    builder, handle = interpreter.InterpreterBuilder, interpreter.TensorHandle
    cast, convert, dot = builder.cast_impl, builder.create_fp_to_fp, builder.create_dot

    def new_cast(self: Any, source: Any, target: Any) -> Any:
        if source.dtype.scalar == target.scalar:
            return source
        if target.scalar == tl.bfloat16:
            return handle(rounded(numbers(source)), tl.bfloat16)
        if source.dtype.scalar == tl.bfloat16:
            wide = handle(numbers(source), tl.float32)
            return wide if target.scalar == tl.float32 else cast(self, wide, target)
        return cast(self, source, target)

    def new_convert(self: Any, source: Any, target: Any, mode: Any) -> Any:
        if tl.bfloat16 in (source.dtype.scalar, target.scalar):
            return new_cast(self, source, target)
        return convert(self, source, target, mode)

    def new_dot(self: Any, a: Any, b: Any, total: Any, *options: Any) -> Any:
        if a.dtype.scalar == tl.bfloat16:
            a, b = (handle(numbers(x), tl.float32) for x in (a, b))
        return dot(self, a, b, total, *options)

    builder.cast_impl, builder.create_fp_to_fp, builder.create_dot = new_cast, new_convert, new_dot
    try:
        yield
    finally:
        builder.cast_impl, builder.create_fp_to_fp, builder.create_dot = cast, convert, dot

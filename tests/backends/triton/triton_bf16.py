"""A repair of Triton's interpreter for tests: it keeps bfloat16 as bits, cuts off where it should round, and multiplies
the bits in `tl.dot`. With it, conversions are those of torch and products are taken of the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter


def numbers(handle: Any) -> Any:
    """The values of a tensor of the interpreter, bfloat16 as float32."""
    if handle.dtype.scalar != tl.bfloat16:
        return handle.data
    return torch.from_numpy(handle.data.view(np.int16)).view(torch.bfloat16).float().numpy()


def rounded(values: Any) -> Any:
    """Floats as the bits of bfloat16."""
    single = torch.as_tensor(np.asarray(values, np.float32))
    return single.to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)


@contextmanager
def bfloat16_as_on_a_device() -> Iterator[None]:
    builder = interpreter.InterpreterBuilder
    cast, convert, dot = builder.cast_impl, builder.create_fp_to_fp, builder.create_dot

    def new_cast(self: Any, source: Any, target: Any) -> Any:
        if source.dtype.scalar == target.scalar:
            return source
        if target.scalar == tl.bfloat16:
            return interpreter.TensorHandle(rounded(numbers(source)), tl.bfloat16)
        if source.dtype.scalar == tl.bfloat16:
            wide = interpreter.TensorHandle(numbers(source), tl.float32)
            return wide if target.scalar == tl.float32 else cast(self, wide, target)
        return cast(self, source, target)

    def new_convert(self: Any, source: Any, target: Any, mode: Any) -> Any:
        if tl.bfloat16 in (source.dtype.scalar, target.scalar):
            return new_cast(self, source, target)
        return convert(self, source, target, mode)

    def new_dot(self: Any, a: Any, b: Any, total: Any, *options: Any) -> Any:
        if a.dtype.scalar == tl.bfloat16:
            a, b = (interpreter.TensorHandle(numbers(x), tl.float32) for x in (a, b))
        return dot(self, a, b, total, *options)

    builder.cast_impl, builder.create_fp_to_fp, builder.create_dot = new_cast, new_convert, new_dot
    try:
        yield
    finally:
        builder.cast_impl, builder.create_fp_to_fp, builder.create_dot = cast, convert, dot

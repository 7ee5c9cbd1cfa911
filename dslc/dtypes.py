"""The dtypes of the language, and how they mix."""

from __future__ import annotations

Dtype = str

FLOATS = ("float", "f16", "bf16", "f32", "f64")
INTS = ("i32", "i64")
DTYPES = (*FLOATS, *INTS, "bool")
#: the floats in which a module can keep its parameters; NumPy lacks the last
KEPT = ("f32", "f64", "f16", "bf16")


def is_float(dtype: Dtype) -> bool:
    return dtype in FLOATS


def is_int(dtype: Dtype) -> bool:
    return dtype in INTS


def alike(a: Dtype, b: Dtype) -> bool:
    """Are values of these dtypes kept and computed alike? A float32 is, in every module, what it calls a float.

    >>> alike("f32", "float"), alike("f64", "float")
    (True, False)
    """
    return a == b or {a, b} == {"f32", "float"}


def promote(a: Dtype, b: Dtype) -> Dtype:
    """The dtype of `x + y`: floats win over whole numbers, wider over narrower, f16 with bf16 is f32.

    >>> promote("f16", "bf16"), promote("i64", "float"), promote("i32", "i64")
    ('f32', 'float', 'i64')
    """
    if a == b:
        return a
    if is_float(a) != is_float(b):
        return a if is_float(a) else b
    if {a, b} == {"f16", "bf16"}:
        return "f32"
    if "float" in (a, b):
        other = b if a == "float" else a
        return other if other == "f64" else "float"
    order = ("bool", "i32", "i64", "f16", "bf16", "f32", "f64")
    return max(a, b, key=order.index)

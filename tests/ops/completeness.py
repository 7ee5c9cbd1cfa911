"""What a record lacks: fields that are empty, and texts that name functions which do not exist."""

from __future__ import annotations

import builtins
import importlib.util
import math
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from dslc.backends.c.runtime import FUNCTIONS
from dslc.backends.numpy.names import HELPERS
from dslc.backends.numpy.operations import INFIX
from dslc.backends.triton.scalars import DEVICE

from dslc.ops import values
from dslc.ops.record import ScalarOp

#: operations on conditions, and on whole numbers
LOGICAL, WHOLE = ("and", "or", "not"), ("//", "%")
#: operations whose arguments the printers put in themselves
PRINTED = {*INFIX, "^", "neg", "and", "or", "cast", "stop_grad"}


def language() -> set[str]:
    """The names of triton.language, from its text: importing it would choose how kernels run."""
    found = importlib.util.find_spec("triton")
    assert found is not None and found.origin is not None
    text = (Path(found.origin).parent / "language" / "__init__.py").read_text(encoding="utf-8")
    return set(re.findall(r"\w+", text))


def missing(record: ScalarOp) -> list[str]:
    """What a stage would not find in a record.

    >>> from dslc.ops.table import RECORDS
    >>> missing(RECORDS["exp"])
    []
    """
    count = record.arity or 2
    optional = ("kinks", "value", "whole")
    found = [f.name for f in fields(record) if getattr(record, f.name) == "" and f.name not in optional]
    if (record.derivative is None) != record.flat:
        found.append("derivative")
    if not len(record.domain) == len(record.samples) == count or len({len(x) for x in record.samples} | {0}) != 2:
        found.append("samples")
    if not record.edges and record.name not in (*WHOLE, *LOGICAL):
        found.append("edges")
    texts = {"numpy": record.numpy, "plain": record.plain, "triton": record.triton, "c": record.c}
    found += [f for f, text in texts.items() if any(f"{{{k}}}" not in text for k in range(count))]
    whole = re.findall(r"(?<=[( ])\{\d\}(?=[,)])", record.numpy)
    if record.name not in PRINTED and len(whole) != count:
        found.append("numpy: arguments are put in as they are, so each stands once, between brackets or commas")
    known: dict[str, tuple[str, Callable[[str], bool]]] = {
        "value": (record.value or record.numpy, lambda name: hasattr(values, name)),
        "numpy": (record.numpy, lambda name: name in HELPERS),
        "plain": (record.plain, lambda name: name in HELPERS or hasattr(builtins, name)),
        "triton": (record.triton, lambda name: name in DEVICE or name in ("floor_divide", "remainder", "float")),
        "c": (record.c.replace("{f}", "_i64" if record.name in WHOLE else "_f64"), lambda name: name in FUNCTIONS),
        "oracle": (record.oracle, lambda name: False),
    }
    language_names = language()
    modules: dict[str, Callable[[str], bool]] = {
        "np": lambda name: hasattr(np, name), "math": lambda name: hasattr(math, name),
        "tl": lambda name: name in language_names, "torch": lambda name: _in_torch(name),
    }  # fmt: skip
    for field, (text, own) in known.items():
        for path in re.findall(r"(?<![\w.}])[A-Za-z][\w.]*(?=\()" if field != "oracle" else r"torch\.[\w.]+", text):
            module, _, name = path.partition(".")
            if not (modules[module](name) if name else own(path)):
                found.append(f"{field}: there is no {path}")
    return found


def _in_torch(path: str) -> bool:
    found: Any = torch
    for part in path.split("."):
        found = getattr(found, part, None)
    return found is not None

"""Scalar operations as NumPy text, from their records."""

from __future__ import annotations

import re

from dslc.backends.numpy.text import ATOM, COMPARE, PLUS, TIMES

from dslc.ops.table import RECORDS

_LEVELS = {"+": PLUS, "-": PLUS, "*": TIMES, "/": TIMES, "//": TIMES, "%": TIMES}

#: operations between their operands: the symbol, and how tightly it binds
INFIX = {
    name: (m[1], _LEVELS.get(m[1], COMPARE))
    for name, r in RECORDS.items()
    if (m := re.fullmatch(r"\{0\} ([-+*/%<>=!]+) \{1\}", r.numpy)) and m[1] != "**"
}

#: operations that are calls of a function, of NumPy or of the runtime
FUNCTIONS = {
    name: m[1] for name, r in RECORDS.items() if (m := re.fullmatch(r"([\w.]+)\(\{0\}(?:, \{\d\})*\)", r.numpy))
} | {"normal_cdf": "normal_cdf"}  # which only `normal.py` writes

#: other texts, and how tightly they bind
TEMPLATES = {name: (RECORDS[name].numpy, level) for name, level in (("relu", ATOM), ("clip", ATOM), ("rsqrt", TIMES))}

#: operations on numbers that are known when the module is printed
PLAIN = {name: r.plain for name, r in RECORDS.items()} | {"normal_cdf": "(0.5 * math.erfc(({0}) / -math.sqrt(2)))"}

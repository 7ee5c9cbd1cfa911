"""The results of a generated function as a caller gets them: in their dtypes, and in memory of their own."""

from __future__ import annotations

from collections.abc import Mapping

from dslc.backends.numpy.sharing import copied
from dslc.backends.numpy.statement import Lowering
from dslc.backends.numpy.text import RESULTS, atom_code

from dslc.ir import nodes as ir


def result(node: ir.Tensor, code: str) -> str:
    """A value as a caller gets it: in the dtype that it has in the spec."""
    dtype = RESULTS.get(node.dtype)
    if dtype is None:
        return code
    return f"{atom_code(code)}.astype({dtype})" if node.shape else f"{dtype}({code})"


def given_away(low: Lowering, results: Mapping[str, ir.Tensor], half: bool = False) -> dict[str, str]:
    """The texts of results; loops have left theirs already."""
    left = [x.of.results[x.number] for x in low.layers.sinks if isinstance(x, ir.Part) and isinstance(x.of, ir.Scan)]
    found: dict[str, str] = {}
    for (name, x), copy in zip(results.items(), copied(results.values(), left), strict=True):
        code = low.tensor(x)
        in_half = half and x.dtype in ("float", "f32") and x.shape
        made = f"{atom_code(code)}.astype(DTYPE)" if in_half else result(x, code)
        found[name] = f"{atom_code(code)}.copy()" if made == code and copy else made
    return found


def dictionary(items: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'"{k}": {v}' for k, v in items.items()) + "}"

"""Arrays matched to the inputs of a spec by name, and checked before anything is computed with them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dslc.arrays import Array, Arrays
from dslc.check import program as p
from dslc.run_errors import RunError
from dslc.sizes import Size, Symbol
from dslc.sizes import show as show_size
from dslc.source import NOWHERE, Span

#: of the names of arrays that are not trained on
PREFIXES = ("val_", "test_")

#: how far the entries of a probability vector may be from adding up to 1
SIMPLEX_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Field:
    """An input as the spec declares it."""

    name: str
    shape: tuple[Size, ...] = ()
    dtype: str = "float"
    below: Size | None = None
    refinement: str | None = None
    span: Span = NOWHERE

    @property
    def declared(self) -> str:
        """As it is written: `i32[N] < 10`.

        >>> Field("label", (3,), "i32", 10).declared
        'i32[3] < 10'
        """
        words = " ".join(w for w in (self.refinement, self.dtype) if w)
        bound = "" if self.below is None else f" < {show_size(self.below)}"
        return f"{words}[{', '.join(map(show_size, self.shape))}]{bound}"


def fields_of(instance: p.Instance) -> list[Field]:
    """The inputs of a model or a training."""
    return [Field(t.name, t.shape, t.dtype, t.below, t.refinement, t.span) for t in instance.inputs]


# ---- matching arrays to inputs -----------------------------------------------------------------------


def matched(
    path: Path, found: Mapping[str, Array], fields: Sequence[Field], prefix: str = "",
    where: Sequence[p.SizeCondition] = (),
) -> Arrays:  # fmt: skip
    """The arrays of a file that the inputs ask for (named with a prefix), each of the right shape, kind and range."""
    sizes: dict[str, tuple[int, str]] = {}
    chosen: Arrays = {}
    for field in fields:
        name = prefix + field.name
        if name not in found:
            raise _missing(path, field, name, fields, found)
        chosen[field.name] = found[name]
        _check_kind(path, field, name, found[name])
        _check_shape(path, field, name, found[name], sizes)
    known = {symbol: size for symbol, (size, _) in sizes.items()}
    _check_conditions(path, where, known)
    for field in fields:
        _check_values(path, field, prefix + field.name, chosen[field.name], known)
    return chosen


def group(
    path: Path, found: Mapping[str, Array], fields: Sequence[Field], prefix: str, where: Sequence[p.SizeCondition]
) -> Arrays:
    """The arrays with a prefix such as `test_`: those of all inputs, or none; a part of them is an error."""
    if not any(prefix + f.name in found for f in fields):
        return {}
    return matched(path, found, fields, prefix, where)


def _missing(path: Path, field: Field, name: str, fields: Sequence[Field], found: Mapping[str, Array]) -> RunError:
    wanted = {prefix + f.name for f in fields for prefix in ("", *PREFIXES)}
    unused = {n.lower(): n for n in found if n not in wanted}
    near = difflib.get_close_matches(name.lower(), unused, 1, 0.5)
    have = ", ".join(f"`{n}`" for n in sorted(found)) or "no arrays"
    help = f"store an array {field.declared} as `{name}`"
    if near:
        help = f"did you mean `{unused[near[0]]}`? Store it as `{name}`"
    return RunError(f"{path} has no array `{name}`; it has {have}", field.span, help)


#: what an array may hold where an input is declared so: kinds of NumPy, and in words
KINDS = {"float": ("fiu", "numbers"), "int": ("iu", "whole numbers"), "bool": ("biu", "truth values")}


def _kind(dtype: str) -> str:
    return "bool" if dtype == "bool" else "int" if dtype in ("i32", "i64") else "float"


def _check_kind(path: Path, field: Field, name: str, value: Array) -> None:
    kinds, words = KINDS[_kind(field.dtype)]
    if value.dtype.kind in kinds:
        return
    help = f"declared {field.declared}"
    if value.dtype.kind == "f" and _kind(field.dtype) != "float":
        target = "bool" if field.dtype == "bool" else "numpy.int32"
        help += f"; if they are {words}, store `{name}.astype({target})`"
    raise RunError(f"{path}: expected {words} in `{name}`, found {value.dtype}", field.span, help)


def _check_shape(path: Path, field: Field, name: str, value: Array, sizes: dict[str, tuple[int, str]]) -> None:
    help = f"declared {field.declared}"
    if value.ndim != len(field.shape):
        axes = "1 axis" if len(field.shape) == 1 else f"{len(field.shape)} axes"
        raise RunError(f"{path}: expected {axes} in `{name}`, found the shape {value.shape}", field.span, help)
    if value.size == 0:
        help = "a run needs at least one row"
        raise RunError(f"{path}: `{name}` is empty: its shape is {value.shape}", field.span, help)
    for axis, (size, given) in enumerate(zip(field.shape, value.shape, strict=True)):
        expected: int
        if isinstance(size, int):
            expected, source = size, ""
        elif isinstance(size, Symbol):
            expected, source = sizes.setdefault(size.name, (given, name))
        elif all(s.name in sizes for s in size.free_symbols):
            expected = int(size.subs({s: sizes[s.name][0] for s in size.free_symbols}))
            source = sizes[next(iter(size.free_symbols)).name][1]
        else:
            continue
        if given != expected:
            because = f", as in `{source}`" if source else ""
            words = f"{show_size(size)} = {expected}" if source else str(expected)
            message = f"{path}: expected {words} along axis {axis} of `{name}`{because}, found {given}"
            raise RunError(message, field.span, help)


def _check_values(path: Path, field: Field, name: str, value: Array, sizes: Mapping[str, int]) -> None:
    if value.dtype.kind == "f":
        _refuse(path, field, name, value, ~np.isfinite(value), "finite numbers", "remove or replace it")
    if field.below is not None:
        limit = field.below if isinstance(field.below, int) else _number(field.below, sizes)
        if limit is not None:
            wrong = (value < 0) | (value >= limit)
            help = f"declared {field.declared}: numbers start from 0"
            _refuse(path, field, name, value, wrong, f"whole numbers from 0 to {limit - 1}", help)
    if field.dtype == "bool" or field.refinement == "binary":
        _refuse(path, field, name, value, (value != 0) & (value != 1), "0 and 1 alone", f"declared {field.declared}")
    if field.refinement == "simplex":
        help = f"declared {field.declared}"
        _refuse(path, field, name, value, value < 0, "probabilities", help)
        total = value.sum(-1)
        wrong = np.abs(total - 1) > SIMPLEX_TOLERANCE
        _refuse(path, field, f"sum of {name}", total, wrong, "1 along the last axis", help)


def _check_conditions(path: Path, where: Sequence[p.SizeCondition], sizes: Mapping[str, int]) -> None:
    """The `where` of the spec must hold for the sizes of the data."""
    for condition in where:
        if condition.holds(sizes) is False:
            sides = (x for x in (condition.left, condition.right) if not isinstance(x, int))
            names = sorted({s.name for x in sides for s in x.free_symbols})
            found = ", ".join(f"{name} = {sizes[name]}" for name in names)
            message = f"{path}: the spec needs `{' '.join(condition.span.text.split())}`, found {found}"
            raise RunError(message, condition.span, "choose other data, or other values with --set")


def _number(size: Size, sizes: Mapping[str, int]) -> int | None:
    if isinstance(size, int):
        return size
    if not all(s.name in sizes for s in size.free_symbols):
        return None
    return int(size.subs({s: sizes[s.name] for s in size.free_symbols}))


def _refuse(path: Path, field: Field, name: str, value: Array, wrong: Array, expected: str, help: str) -> None:
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        count = int(wrong.sum())
        more = "" if count == 1 else f" ({count} such entries)"
        where = f" at {list(at)}" if at else ""
        message = f"{path}: expected {expected} in `{name}`, found {value[at]}{where}{more}"
        raise RunError(message, field.span, help)

"""Tables from CSV files: columns of numbers and of categories, encoded as arrays."""

from __future__ import annotations

import csv
import difflib
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dslc.arrays import Array
from dslc.run_errors import RunError

#: a number as it stands in a cell: Python takes `1_0` and `nan`, too
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
#: what stands in many tables where a number is not known
MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "nil", "missing", "unknown", "?", "-", "--", "."))
#: a column of texts with more categories than this, and than half of the rows, is no category
CATEGORIES = 100


@dataclass(frozen=True)
class Table:
    """Columns of a file by name: numbers in float64, or texts."""

    path: Path
    columns: dict[str, Array]
    #: the line of the file that each row begins in
    lines: list[int] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(next(iter(self.columns.values())))

    def is_text(self, name: str) -> bool:
        return self.columns[name].dtype.kind == "U"


def read_table(path: Path | str) -> Table:
    """A CSV file with a line of names at its head. What cannot be read is told with its line."""
    path = Path(path)
    if not os.path.isfile(path):
        raise RunError(f"there is no file {path}", help="check the path")
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            names = [name.strip() for name in next(reader, [])]
            _check_names(path, names)
            rows, lines, start = [], [], reader.line_num + 1
            for cells in reader:
                if cells:
                    rows.append([cell.strip() for cell in cells])
                    lines.append(start)
                    if len(cells) != len(names):
                        message = (
                            f"{path}:{start}: expected {len(names)} cells, as in the first line, found {len(cells)}"
                        )
                        raise RunError(message, help="put cells with commas in them in double quotes")
                start = reader.line_num + 1
    except csv.Error as error:
        help = "a cell with commas, quotes or line breaks is put in double quotes"
        raise RunError(f"{path}:{reader.line_num}: {error}", help=help) from error
    except UnicodeDecodeError as error:
        raise RunError(f"{path} is not text in UTF-8", help="save it as UTF-8") from error
    except OSError as error:
        raise RunError(f"cannot read {path}: {(error.strerror or '').lower()}", help="check the path") from error
    if not rows:
        raise RunError(f"{path} has no rows below its first line", help="a run needs at least one row")
    columns = zip(*rows, strict=True)
    return Table(path, {n: _column(path, n, list(c), lines) for n, c in zip(names, columns, strict=True)}, lines)


def _check_names(path: Path, names: Sequence[str]) -> None:
    if not names:
        raise RunError(f"{path} is empty", help="its first line holds the names of the columns")
    for mark, word in (";", "semicolons"), ("\t", "tabs"):
        if len(names) == 1 and mark in names[0]:
            help = "save it with commas; cells with commas in them, as in 1,5, are put in double quotes or written 1.5"
            raise RunError(f"{path}:1: expected commas between the names of columns, found {word}", help=help)
    if all(NUMBER.fullmatch(name) for name in names):
        raise RunError(f"{path}:1: expected names of columns, found numbers", help="put a line of names above them")
    for k, name in enumerate(names):
        if not name:
            raise RunError(f"{path}:1: column {k + 1} has no name", help="give it one")
        if name in names[:k]:
            raise RunError(f"{path}:1: two columns are called `{name}`", help="rename one of them")


def _column(path: Path, name: str, cells: list[str], lines: Sequence[int]) -> Array:
    """Numbers where most of the cells are, or all that are not missing; then all of them must be."""
    are_numbers = [NUMBER.fullmatch(cell) is not None for cell in cells]
    missing = sum(cell.lower() in MISSING for cell in cells)
    numeric = 2 * sum(are_numbers) > len(cells) - cells.count("") or 0 < sum(are_numbers) == len(cells) - missing
    for cell, is_number, line in zip(cells, are_numbers, lines, strict=True):
        if not cell or (numeric and cell.lower() in MISSING):
            help = f"fill it, remove the row, or leave the column out with --drop {name}"
            found = f"expected a finite number in column `{name}`, found `{cell}`"
            raise RunError(f"{path}:{line}: {found if cell else f'the cell of column `{name}` is empty'}", help=help)
        if numeric and not (is_number and math.isfinite(float(cell))):
            help = f"most cells of the column are numbers; correct this one, or leave the column out with --drop {name}"
            raise RunError(
                f"{path}:{line}: expected a finite number in column `{name}`, found `{cell[:40]}`", help=help
            )
    return np.array([float(cell) for cell in cells]) if numeric else np.array(cells, np.str_)


@dataclass(frozen=True)
class Column:
    """How a column becomes features: a number less its mean, by its deviation, or one 0 or 1 for each category."""

    name: str
    mean: float = 0.0
    deviation: float = 1.0
    categories: tuple[str, ...] = ()


@dataclass(frozen=True)
class Encoding:
    """How a table becomes arrays; what is measured is that of the rows that it was fitted to.

    Numbers are standardised, categories become columns of 0 and 1 in the order of their texts. The texts of a target
    become the numbers of their classes; the numbers of a target stay as they are.

    >>> table = Table(Path("t.csv"), {"size": np.array([1.0, 3.0]), "hue": np.array(["red", "blue"])})
    >>> encoding = Encoding.fit(table, target="hue")
    >>> encoding.features(table).tolist(), encoding.target_of(table).tolist(), encoding.classes
    ([[-1.0], [1.0]], [1, 0], ('blue', 'red'))
    """

    columns: tuple[Column, ...]
    target: str | None = None
    #: the texts of the target, none where it holds numbers
    classes: tuple[str, ...] = ()
    #: columns that inputs of their names take as they are, with their categories
    alone: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def fit(
        cls, table: Table, target: str | None = None, rows: Array | None = None, drop: Sequence[str] = (),
        alone: Sequence[str] = (),
    ) -> Encoding:  # fmt: skip
        """The encoding of a table, with means and deviations of some of its rows (all, unless told otherwise)."""
        for name in (*drop, *alone, *([target] if target else [])):
            _check_known(table, name)
        columns = []
        for name, values in table.columns.items():
            if name == target or name in drop or name in alone:
                continue
            if table.is_text(name):
                columns.append(Column(name, categories=_categories(table, name)))
            else:
                chosen = values if rows is None else values[rows]
                spread = float(chosen.std()) if np.ptp(chosen) else 0.0  # that of equal values is not 0 but rounding
                columns.append(Column(name, float(chosen.mean()), spread or 1.0))
        classes = _texts(table, target) if target else ()
        return cls(tuple(columns), target, classes, {name: _texts(table, name) for name in alone})

    @property
    def names(self) -> list[str]:
        """What the features are called: a column, or a column and a category."""
        return [name for c in self.columns for name in ([f"{c.name}={x}" for x in c.categories] or [c.name])]

    def features(self, table: Table) -> Array:
        """A float32 matrix with a row for each row of the table."""
        parts = []
        for column in self.columns:
            values = self._values(table, column.name, bool(column.categories))
            if column.categories:
                numbers = _numbers(table, column.name, column.categories)
                parts.append(numbers[:, None] == np.arange(len(column.categories)))
            else:
                parts.append(((values - column.mean) / column.deviation)[:, None])
        if not parts:
            raise RunError(f"{table.path} has no columns for features", help="its first line names them")
        return np.concatenate(parts, axis=1).astype(np.float32)

    def target_of(self, table: Table) -> Array:
        """Numbers of classes in int32, or the numbers of the target in float64 (whole ones in int64)."""
        assert self.target is not None
        return self.column(table, self.target, self.classes)

    def column(self, table: Table, name: str, classes: Sequence[str] | None = None) -> Array:
        """A column by itself, not standardised."""
        classes = self.alone.get(name, ()) if classes is None else classes
        values = self._values(table, name, bool(classes))
        if classes:
            return _numbers(table, name, classes)
        whole = bool((values == np.round(values)).all() and np.abs(values).max() < 2**53)
        return values.astype(np.int64) if whole else values

    def _values(self, table: Table, name: str, texts: bool) -> Array:
        _check_known(table, name)
        if table.is_text(name) != texts:
            words = ("texts", "numbers") if texts else ("numbers", "texts")
            message = f"{table.path}: expected {words[0]} in column `{name}`, as in training, found {words[1]}"
            raise RunError(message, help="give the columns that the weights were trained on")
        return table.columns[name]

    def to_json(self) -> dict[str, Any]:
        """As it stands in the folder of a run."""
        columns = [
            {"name": c.name, "categories": c.categories}
            if c.categories
            else {"name": c.name, "mean": c.mean, "deviation": c.deviation}
            for c in self.columns
        ]
        return {"columns": columns, "target": self.target, "classes": self.classes, "alone": self.alone}

    @classmethod
    def from_json(cls, about: Mapping[str, Any]) -> Encoding:
        """
        >>> encoding = Encoding((Column("size", 2.0, 3.0), Column("hue", categories=("blue", "red"))), "is", ("a", "b"))
        >>> Encoding.from_json(encoding.to_json()) == encoding
        True
        """
        columns = tuple(
            Column(
                str(c["name"]), float(c.get("mean", 0)), float(c.get("deviation", 1)), tuple(c.get("categories", ()))
            )
            for c in about["columns"]
        )
        alone = {str(name): tuple(texts) for name, texts in about["alone"].items()}
        return cls(columns, about["target"], tuple(about["classes"]), alone)


def _check_known(table: Table, name: str) -> None:
    if name not in table.columns:
        have = ", ".join(f"`{x}`" for x in table.columns)
        near = difflib.get_close_matches(name, table.columns, 1, 0.5)
        help = f"did you mean `{near[0]}`?" if near else f"it has {have}"
        raise RunError(f"{table.path} has no column `{name}`", help=help)


def _texts(table: Table, name: str) -> tuple[str, ...]:
    """The different texts of a column in their order; none where it holds numbers."""
    return tuple(map(str, np.unique(table.columns[name]))) if table.is_text(name) else ()


def _categories(table: Table, name: str) -> tuple[str, ...]:
    found = _texts(table, name)
    if len(found) > CATEGORIES and 2 * len(found) > table.count:
        message = f"{table.path}: column `{name}` has {len(found)} different texts in {table.count} rows"
        raise RunError(message, help=f"leave it out with --drop {name}")
    return found


def _numbers(table: Table, name: str, categories: Sequence[str]) -> Array:
    """The place of each text of a column among the categories."""
    place = {text: k for k, text in enumerate(categories)}
    for row, text in enumerate(table.columns[name]):
        if str(text) not in place:
            where = f":{table.lines[row]}" if table.lines else ""
            have = ", ".join(f"`{x}`" for x in categories[:8])
            message = f"{table.path}{where}: column `{name}` has `{text}`, which did not occur in training"
            raise RunError(message, help=f"it had {have}{', ...' if len(categories) > 8 else ''}")
    return np.array([place[str(text)] for text in table.columns[name]], np.int32)

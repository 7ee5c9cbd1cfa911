"""Files and folders of data as the arrays that the inputs of a spec take: .npz, .csv, and folders of images."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dslc.arrays import Arrays, read_arrays
from dslc.check import program as p
from dslc.data.fields import Field, group, matched
from dslc.data.images import ENDINGS, image_files, read_images, stacked
from dslc.data.rows import Rows, parts_of, rows_of, split
from dslc.data.table import Encoding, Table, read_table
from dslc.run_errors import RunError

#: how a run became arrays from its data, in its folder; `dslc run` and `dslc plot` encode others in the same way
ENCODING = "encoding.json"
#: folders for rows of training, validation and test, where there are any
PARTS = {"train": "", "val": "val_", "test": "test_"}


@dataclass
class Dataset:
    """The arrays of a run by input: rows for training, for validation after each epoch and for a test at the end."""

    training: Arrays
    rows: Rows
    validation: Arrays = field(default_factory=dict)
    test: Arrays = field(default_factory=dict)
    #: how files became arrays, if they were not arrays before
    encoding: dict[str, Any] | None = None


@dataclass(frozen=True)
class Source:
    """Where data are, and how they are read."""

    path: Path
    #: another file or folder of the same kind, for the test at the end
    test: Path | None = None
    #: of a table: the column to predict, and columns to leave out
    target: str | None = None
    drop: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """`images`, `table` or `arrays`."""
        if os.path.isdir(self.path):
            return "images"
        return "table" if self.path.suffix.lower() == ".csv" else "arrays"

    def load(
        self, fields: Sequence[Field], where: Sequence[p.SizeCondition] = (), fraction: float = 0.0, seed: int = 0
    ) -> Dataset:
        """The data for the inputs of a spec, checked; a fraction of the rows is set apart for validation."""
        if self.kind != "table" and (self.target or self.drop):
            option = "--target" if self.target else "--drop"
            raise RunError(
                f"{option} names a column of a .csv file, and {self.path} is none", help=f"leave out {option}"
            )
        parts, encoding = READERS[self.kind](self, fields, fraction, seed)
        chosen = matched(self.path, parts, fields, where=where)
        validation, test = (group(self.path, parts, fields, prefix, where) for prefix in ("val_", "test_"))
        if self.test is not None:
            if test:
                raise RunError(f"{self.path} has rows for the test, and --test names others", help="leave out --test")
            test = matched(self.test, inputs_of(self.test, fields, encoding), fields, where=where)
        rows = rows_of(fields, chosen)
        if fraction:
            if validation:
                message = f"{self.path} has rows for validation, and --validation asks for a part of the others"
                raise RunError(message, help="leave out --validation")
            chosen, validation = split(chosen, rows, fraction, seed)
            rows = rows_of(fields, chosen)
        return Dataset(chosen, rows, validation, test, encoding)


def _arrays(source: Source, *_: Any) -> tuple[Arrays, None]:
    return read_arrays(source.path), None


# ---- tables ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Roles:
    """Which input takes the features of a table, which its target, and which take columns of their names."""

    features: Field | None
    target: Field | None
    alone: tuple[Field, ...]


def _roles(table: Table, fields: Sequence[Field], target: str | None) -> Roles:
    alone = tuple(f for f in fields if f.name in table.columns and f.name != target)
    rest = [f for f in fields if f not in alone]
    aim = None
    if target is not None:
        single = [f for f in rest if len(f.shape) == 1 or f.shape[1:] == (1,)]
        aim = next((f for f in rest if f.name == target), single[0] if len(single) == 1 else None)
        if aim is None:
            names = ", ".join(f"{f.name}: {f.declared}" for f in rest)
            help = f"call the column as the input; the inputs are {names}"
            raise RunError(f"no input takes the column `{target}` of {table.path}", help=help)
        rest.remove(aim)
    matrices = [f for f in rest if len(f.shape) == 2 and f.dtype not in ("i32", "i64", "bool")]
    others = [f for f in rest if f not in matrices]
    if others or len(matrices) > 1:
        name = (others or matrices)[0].name
        have = ", ".join(f"`{x}`" for x in table.columns)
        help = f"name the column with --target, or call one `{name}`; there are {have}"
        raise RunError(f"no column of {table.path} is for the input `{name}`", (others or matrices)[0].span, help)
    return Roles(matrices[0] if matrices else None, aim, alone)


def _table(source: Source, fields: Sequence[Field], fraction: float, seed: int) -> tuple[Arrays, dict[str, Any]]:
    table = read_table(source.path)
    if source.target is not None and source.target not in table.columns:
        Encoding.fit(table, source.target)  # which tells what there is
    roles = _roles(table, fields, source.target)
    kept = parts_of(table.count, fraction, seed)[0] if fraction else None
    encoding = Encoding.fit(table, source.target, kept, source.drop, [f.name for f in roles.alone])
    width = roles.features.shape[1] if roles.features else None
    if roles.features and isinstance(width, int) and width != len(encoding.names):
        names = ", ".join(encoding.names[:20]) + (", ..." if len(encoding.names) > 20 else "")
        message = f"{source.path} has {len(encoding.names)} features, and `{roles.features.name}` takes {width}"
        help = f"they are {names}; --drop leaves a column out, and a name in place of {width} takes any number"
        raise RunError(message, roles.features.span, help)
    about = {
        "kind": "table", "features": roles.features and roles.features.name,
        "aim": roles.target and roles.target.name, **encoding.to_json(),
    }  # fmt: skip
    return _encoded(table, fields, about), about


def _encoded(table: Table, fields: Sequence[Field], about: Mapping[str, Any]) -> Arrays:
    """The arrays of a table for those of the inputs that are asked for."""
    encoding = Encoding.from_json(about)
    found: Arrays = {}
    for one in fields:
        if one.name == about["features"]:
            found[one.name] = encoding.features(table)
        elif one.name == about["aim"]:
            values = encoding.target_of(table)
            found[one.name] = values.reshape(-1, 1) if len(one.shape) == 2 else values
        elif one.name in encoding.alone:
            found[one.name] = encoding.column(table, one.name)
    return found


# ---- images ------------------------------------------------------------------------------------------


def _images(source: Source, fields: Sequence[Field], *_: Any) -> tuple[Arrays, dict[str, Any]]:
    about = _layout(source.path, fields)
    folders = {prefix: source.path / name for name, prefix in PARTS.items() if (source.path / name).is_dir()}
    if "" not in folders:
        folders = {"": source.path}
    found: Arrays = {}
    for prefix, folder in folders.items():
        found |= {prefix + name: x for name, x in _pictures(folder, fields, about).items()}
    return found, about


def _layout(path: Path, fields: Sequence[Field]) -> dict[str, Any]:
    """How images become the input that has axes for height and width, and which input takes the classes."""
    for one in fields:
        shape = one.shape
        channels, axes = 0, (1, 2)
        if len(shape) == 4 and shape[3] in (1, 3, 4):
            channels = int(str(shape[3]))
        elif len(shape) == 4 and shape[1] in (1, 3, 4):
            channels, axes = int(str(shape[1])), (2, 3)
        elif len(shape) == 3:
            channels = 1
        if channels and one.dtype not in ("i32", "i64", "bool"):
            height, width = (shape[k] if isinstance(shape[k], int) else None for k in axes)
            size = [height, width] if height is not None and width is not None else None
            layout = "flat" if len(shape) == 3 else "last" if axes == (1, 2) else "first"
            labels = [f for f in fields if f is not one and len(f.shape) == 1]
            others = [f for f in fields if f is not one and f not in labels]
            if others or len(labels) > 1:
                extra = (others or labels[1:])[0]
                message = f"{path} holds images of classes, and the input `{extra.name}` is neither"
                raise RunError(message, extra.span, "store the data as an .npz file with an array for each input")
            label = labels[0].name if labels else None
            return {
                "kind": "images",
                "input": one.name,
                "label": label,
                "size": size,
                "channels": channels,
                "layout": layout,
            }
    have = ", ".join(f"{f.name}: {f.declared}" for f in fields)
    help = f"declare one as f32[N, 32, 32, 3], f32[N, 3, 32, 32] or f32[N, 32, 32]; there are {have}"
    raise RunError(f"no input takes the images of {path}", fields[0].span, help)


def _pictures(folder: Path, fields: Sequence[Field], about: dict[str, Any]) -> Arrays:
    """The images of a folder and their classes; images alone where there is no input for classes."""
    size, label = about["size"], about["label"]
    options = (tuple(size) if size else None, about["channels"])
    found: Arrays = {}
    if label is not None and any(f.name == label for f in fields):
        images, found[label], classes = read_images(folder, *options, about.get("classes"))
        about.setdefault("classes", classes)
    else:
        inside = sorted(x for x in folder.iterdir() if not x.name.startswith("."))
        files = [x for y in inside if y.is_dir() for x in image_files(y)]
        files += [x for x in inside if x.suffix.lower() in ENDINGS and x.is_file()]
        images = stacked(folder, files, *options)
    if about["layout"] == "flat":
        images = images[..., 0]
    elif about["layout"] == "first":
        images = np.ascontiguousarray(np.moveaxis(images, 3, 1))
    found[about["input"]] = images
    return found


#: kind of a source -> its arrays, and how they are encoded
READERS: dict[str, Callable[[Source, Sequence[Field], float, int], tuple[Arrays, dict[str, Any] | None]]] = {
    "images": _images, "table": _table, "arrays": _arrays,
}  # fmt: skip


# ---- further data of a run ---------------------------------------------------------------------------


def inputs_of(path: Path, fields: Sequence[Field], encoding: Mapping[str, Any] | None) -> Arrays:
    """Arrays for inputs from a file or folder, encoded as the data of the training were."""
    kind = Source(path).kind
    if kind == "arrays":
        return read_arrays(path)
    if encoding is None or encoding["kind"] != kind:
        what = "a folder of images" if kind == "images" else "a table"
        message = f"{path} is {what}, and the weights were not trained on one"
        raise RunError(message, help=f"`dslc train` leaves {ENCODING} beside the weights, which says how it is encoded")
    return _encoded(read_table(path), fields, encoding) if kind == "table" else _pictures(path, fields, dict(encoding))


def read_encoding(folder: Path) -> dict[str, Any] | None:
    """How the data of a run were encoded, or None where they were arrays."""
    path = folder / ENCODING
    if not path.exists():
        return None
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        kind = about["kind"]
        if kind == "table":
            Encoding.from_json(about)
        known = {"table": {"features", "aim"}, "images": {"input", "label", "size", "channels", "layout"}}[kind]
        if not known <= about.keys():
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f"{path} cannot be used: it is not what `dslc train` writes"
        raise RunError(message, help="train anew, or give the data as an .npz file") from error
    return dict(about)


def classes_of(encoding: Mapping[str, Any] | None) -> list[str]:
    """The names of the classes in their order, where they are known."""
    return [str(name) for name in (encoding or {}).get("classes") or ()]

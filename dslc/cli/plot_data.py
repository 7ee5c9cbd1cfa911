"""What `dslc plot` needs of a run beyond its history: its spec compiled, its weights, and rows of its data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dslc.arrays import Arrays
from dslc.plots.predictions import Predictions, label_of, predictions_of
from dslc.plots.runs import RunFolder, record_of, snapshot_of
from dslc.run_errors import RunError

if TYPE_CHECKING:
    from dslc.check import program as p
    from dslc.cli.compiled import Compiled
    from dslc.cli.plot import Drawing
    from dslc.data.fields import Field


@dataclass(frozen=True)
class Trained:
    """The model of a run as it was trained."""

    run: RunFolder
    program: Compiled
    record: Mapping[str, Any]
    params: Arrays
    state: Arrays

    @property
    def folder(self) -> Path:
        return self.run.folders[0]

    @property
    def train(self) -> p.Instance:
        assert self.program.train is not None
        return self.program.train.instance


def trained(run: RunFolder, backend: str) -> Trained:
    """The spec of a run, which must still say the same, and its weights."""
    from dslc.cli.compiled import compiled
    from dslc.training.checkpoint import WEIGHTS
    from dslc.training.weights import read_weights

    (folder,) = run.folders
    record, snapshot = record_of(folder), snapshot_of(folder)
    spec = Path(record["spec"])
    if not spec.is_file():
        help = "put the spec back there, or train anew"
        raise RunError(f"{spec}, the spec of {folder}, is no longer there", help=help)
    program = compiled(spec, dict(record["set"]), record["dtype"], record["model"], backend, quiet=True)
    if program.fingerprint != snapshot.about["spec"] or program.train is None:
        raise RunError(f"{spec} has changed since {folder} was trained on it", help="undo the change, or train anew")
    return Trained(run, program, record, *read_weights(program.module, folder / WEIGHTS))


def rows_for(one: Trained, fields: Sequence[Field], drawing: Drawing) -> tuple[Arrays, str]:
    """Arrays for inputs from --data or from the data of the run, and which rows they are, in words."""
    if drawing.data is not None:
        return given_rows(one, fields, drawing)
    from dslc.data.fields import fields_of
    from dslc.data.files import Source
    from dslc.data.rows import digests

    record = one.record
    test = record["test"] and Path(record["test"])
    source = Source(Path(record["data"]), test, record["target"], tuple(record["drop"]))
    data = source.load(fields_of(one.train), one.train.where, record["validation"], record["seed"])
    before = snapshot_of(one.folder).about["data"]
    for name, digest in digests(data.training).items():
        if before.get(name) != digest:
            help = "train anew, or name data with --data"
            raise RunError(f"{source.path} has changed since {one.folder} was trained on it", help=help)
    parts = {"test": data.test, "validation": data.validation, "training": data.training}
    part = drawing.part or next(name for name, arrays in parts.items() if arrays)
    if not parts[part]:
        there = " and ".join(name for name, arrays in parts.items() if arrays)
        raise RunError(f"{one.folder} has no rows for {part}", help=f"there are those for {there}; --data names others")
    missing = [field.name for field in fields if field.name not in parts[part]]
    if missing:
        message = f"the data of {one.folder} have no array for the input `{missing[0]}` of the model"
        raise RunError(message, fields[0].span, "give one with --data")
    return {field.name: parts[part][field.name] for field in fields}, f"{part} rows"


def given_rows(one: Trained, fields: Sequence[Field], drawing: Drawing) -> tuple[Arrays, str]:
    """Those of --data, encoded as the data of the run were; --part chooses `val_` or `test_` arrays."""
    from dslc.data.fields import matched
    from dslc.data.files import inputs_of, read_encoding

    assert drawing.data is not None
    found = inputs_of(drawing.data, fields, read_encoding(one.folder))
    prefix = {"validation": "val_", "test": "test_"}.get(drawing.part or "", "")
    return matched(drawing.data, found, fields, prefix, one.train.where), f"rows of {drawing.data.name}"


def predictions(runs: Sequence[RunFolder], drawing: Drawing) -> list[Predictions]:
    """What each run, and each seed of one, says about its rows."""
    return [predicted(trained(seed, drawing.backend), drawing) for run in runs for seed in run.alone()]


def predicted(one: Trained, drawing: Drawing) -> Predictions:
    from dslc.data.fields import fields_of
    from dslc.data.files import read_encoding
    from dslc.training.run import outputs_of

    model = one.program.model
    label, fields = label_of(one.train, model, drawing.labels), fields_of(model)
    arrays, words = rows_for(one, [*fields, label], drawing)
    inputs = {field.name: arrays[field.name] for field in fields}
    found = outputs_of(one.program.module, model, one.params, one.state, inputs)
    encoding = read_encoding(one.folder)
    return predictions_of(one.run.name, words, found, arrays[label.name], label, model, drawing.scores, encoding)


def values(run: RunFolder, drawing: Drawing) -> tuple[Arrays, str]:
    """Values that the model names, for the first rows, and which rows they are, in words."""
    import numpy as np

    from dslc.data.fields import fields_of
    from dslc.data.rows import rows_of
    from dslc.plots.values import named_values

    one = trained(run, "numpy")
    fields = fields_of(one.program.model)
    arrays, words = rows_for(one, fields, drawing)
    rows = rows_of(fields, arrays)
    if not rows.whole:
        arrays = dict(zip(arrays, rows.take(arrays, np.arange(min(drawing.rows, rows.count))), strict=True))
        words = f"the first {min(drawing.rows, rows.count)} {words}"
    return named_values(one.program.model, {**one.params, **one.state}, arrays), words

"""From a checked spec and the place of its data to a run that can begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from dslc.arrays import Arrays
from dslc.builder.build import build_train
from dslc.check import program as p
from dslc.data.fields import fields_of
from dslc.data.files import Dataset, Source
from dslc.data.rows import row_size, rows_of
from dslc.ir import nodes as ir
from dslc.open_sizes import needed, sizes_of, untold_sizes
from dslc.row_means import means
from dslc.run_errors import RunError
from dslc.training.loop import Job, Outcome
from dslc.training.run import Settings
from dslc.training.stopping import Watched
from dslc.training.weights import read_old_weights, read_weights


def sizes_of_data(train: p.TrainProgram, source: Source) -> dict[str, int]:
    """The open sizes that must be known before, as the data have them."""
    wanted = {*needed(train.instance), *untold_sizes(train.model)}
    if not wanted:
        return {}
    data = source.load(fields_of(train.instance), train.instance.where)
    return sizes_of(train.instance, {name: x.shape for name, x in data.training.items()}, wanted)


def metrics_of(train: p.TrainProgram) -> list[str]:
    """What `--watch` can name: the loss, and metrics that are single numbers."""
    return ["loss", *(name for name, tensor in train.metrics if not tensor.shape)]


@dataclass(frozen=True)
class Beginning:
    """Where a run gets its first weights from, but for fresh ones."""

    weights: Path | None = None
    #: paths of parameters that begin anew all the same
    new: Sequence[str] = ()

    def arrays(self, module: ModuleType) -> Arrays | None:
        """Parameters and states of the file, without those that begin anew."""
        if self.weights is None:
            return None
        if self.new:
            return read_old_weights(module, self.weights, self.new)
        params, state = read_weights(module, self.weights, new=True)
        return {**params, **state}


def job_of(
    train: p.TrainProgram, module: ModuleType, data: Dataset, settings: Settings, folder: Path,
    beginning: Beginning = Beginning(), batch_given: bool = False,
) -> Job:  # fmt: skip
    """What to train, with what the settings ask of the data made sure of."""
    rows = data.rows
    for option, given in (("--batch", batch_given and settings.batch != 1), ("--accumulate", settings.accumulate != 1)):
        if rows.whole and given:
            help = f"leave out {option}: each step then has all the data"
            raise RunError(f"the data cannot be taken apart into rows: {rows.whole}", help=help)
    rules = settings.rules
    for option, needs in (
        ("--patience", rules.patience is not None), ("--plateau", rules.plateau is not None),
        ("--watch" if rules.watched != Watched() else "--keep best", settings.keep_best),
    ):  # fmt: skip
        if needs and not data.validation:
            help = "add --validation 0.1, or val_ arrays to the data"
            raise RunError(f"{option} needs validation rows, and there are none", help=help)
    job = Job(module, data.training, rows, folder, data.validation, start=beginning.arrays(module))
    job.encoding = data.encoding
    job.in_parts = in_parts(train)
    if data.validation:
        job.validation_rows = rows_of(fields_of(train.instance), data.validation)
    return job


def tested(train: p.TrainProgram, job: Job, outcome: Outcome, test: Mapping[str, Any]) -> dict[str, float]:
    """Loss and metrics of the rows for the test, none where there are no such rows."""
    if not test:
        return {}
    return job.evaluate(outcome.weights, dict(test), rows_of(fields_of(train.instance), test))


def in_parts(train: p.TrainProgram) -> bool:
    """Whether the loss and all metrics that are single numbers are means over rows."""
    rows = row_size(fields_of(train.instance))
    if rows is None:
        return True
    with ir.compilation():
        outputs = build_train(train, "inference").outputs
        return means([x for x in outputs.values() if not x.shape], rows)

"""What `dslc train` was asked for, and the run that this makes: spec compiled, data loaded, settings checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from dslc.cli.compiled import Compiled
    from dslc.data.files import Dataset
    from dslc.training.loop import Job
    from dslc.training.run import Settings


@dataclass(frozen=True)
class Wanted:
    """A run as options give it; what is None is as the spec says, or not asked for."""

    spec: Path
    data: Path
    output: Path | None = None
    test: Path | None = None
    target: str | None = None
    drop: Sequence[str] = ()
    epochs: int | None = None
    steps: int | None = None
    batch: int | None = None
    validation: float | None = None
    watch: str | None = None
    patience: int | None = None
    plateau: int | None = None
    min_step: float | None = None
    min_change: float | None = None
    keep: str | None = None
    accumulate: int = 1
    clip: float | None = None
    norms: bool = False
    ema: float | None = None
    swa: int | None = None
    seed: int = 0
    checkpoint_every: int | None = None
    every_epoch: bool = False
    roll_back: int | None = None
    weights: Path | None = None
    new: Sequence[str] = ()
    fresh: bool = False
    backend: str = "auto"
    settings: dict[str, object] = field(default_factory=dict)
    dtype: str = "f32"
    model: str | None = None

    @property
    def folder(self) -> Path:
        return self.output or Path("runs") / self.spec.stem

    def of_seed(self, seed: int) -> Wanted:
        """The same with another seed, in a folder of its own below this one's."""
        return replace(self, seed=seed, output=self.folder / f"seed-{seed}")


def compiled_for(wanted: Wanted, quiet: bool) -> Compiled:
    """The spec, with the open sizes that parameters need as the data have them, on the backend of the checkpoint."""
    from dslc.cli.compiled import chosen, compiled
    from dslc.cli.output import tell
    from dslc.slopes import without_slope
    from dslc.training.start import sizes_of_data

    backend = wanted.backend
    if backend == "auto" and not wanted.fresh:
        backend = recorded(wanted.folder) or backend
    if wanted.new and wanted.weights is None:
        raise click.UsageError("--new is for --weights: without it all parameters begin anew")
    if wanted.roll_back is not None and wanted.fresh:
        raise click.UsageError("--roll-back goes on from a checkpoint, --fresh deletes them: give one of the two")
    if wanted.ema is not None and wanted.swa is not None:
        raise click.UsageError("--ema and --swa are two averages of the weights: give one of the two")
    *_, train = chosen(wanted.spec, wanted.settings, wanted.model)
    if train is None:
        raise click.UsageError(f"{wanted.spec} has no `train`; add one to say what to minimise")
    sizes = sizes_of_data(train, source_of(wanted))
    made = compiled(wanted.spec, {**sizes, **wanted.settings}, wanted.dtype, wanted.model, backend, quiet)
    if not quiet and made.train is not None:
        tell(without_slope(made.train))
    return made


def begin(wanted: Wanted, program: Compiled) -> tuple[Job, Settings, Dataset]:
    """The run: data loaded and checked, settings made sure of."""
    from dslc.data.fields import fields_of
    from dslc.training.start import Beginning, job_of

    assert program.train is not None
    settings = settings_of(wanted, program)
    instance = program.train.instance
    data = source_of(wanted).load(fields_of(instance), instance.where, settings.validation, settings.seed)
    beginning = Beginning(wanted.weights, wanted.new)
    job = job_of(program.train, program.module, data, settings, wanted.folder, beginning, wanted.batch is not None)
    job.fingerprint, job.backend = program.fingerprint, program.backend
    job.about = {
        "spec": str(wanted.spec.absolute()), "set": program.settings, "dtype": wanted.dtype,
        "model": program.model.name,
        "data": str(wanted.data.absolute()), "test": wanted.test and str(wanted.test.absolute()),
        "target": wanted.target, "drop": list(wanted.drop), "validation": settings.validation,
        "seed": settings.seed,
    }  # fmt: skip
    return job, settings, data


def source_of(wanted: Wanted) -> Any:
    from dslc.data.files import Source

    return Source(wanted.data, wanted.test, wanted.target, tuple(wanted.drop))


def settings_of(wanted: Wanted, program: Compiled) -> Settings:
    """The settings of a run, with what the `train` of the spec says where no option does."""
    from dslc.training.run import Settings
    from dslc.training.start import metrics_of
    from dslc.training.stopping import Rules, watched

    assert program.train is not None
    stated = defaults(program)
    by = watched(wanted.watch or "loss", metrics_of(program.train))
    rules = Rules(wanted.patience, wanted.plateau, wanted.min_step, wanted.min_change, by)
    picks = wanted.watch is not None or wanted.patience is not None or wanted.plateau is not None
    return Settings(
        wanted.batch or stated.get("batch", 64), wanted.epochs or stated.get("epochs", 10), wanted.seed, wanted.steps,
        wanted.validation or 0.0, wanted.checkpoint_every, wanted.fresh, wanted.every_epoch, wanted.roll_back, rules,
        picks if wanted.keep is None else wanted.keep == "best", wanted.accumulate, wanted.clip, wanted.norms,
        wanted.ema, wanted.swa,
    )  # fmt: skip


def recorded(folder: Path) -> str | None:
    """The backend of the run that a folder has a checkpoint of: another one would end with other last bits."""
    from dslc.backends.registry import BACKENDS
    from dslc.run_errors import RunError
    from dslc.training.checkpoint import backend_of_run, read_checkpoint

    try:
        snapshot = read_checkpoint(folder)
    except RunError:
        return None  # which is told where it is read for good
    found = None if snapshot is None else backend_of_run(snapshot)
    return found if found in BACKENDS else None


def defaults(program: Compiled) -> dict[str, int]:
    """`batch` and `epochs` as the `train` of the spec gives them."""
    from dslc.run_errors import RunError
    from dslc.syntax import tree as t

    found: dict[str, int] = {}
    for node in program.checked.parsed.module.definitions if program.checked.parsed else ():
        if isinstance(node, t.Train) and node.model == program.model.name:
            for formal in node.formals:
                if formal.name in ("batch", "epochs") and formal.default is not None:
                    value = formal.default.value if isinstance(formal.default, t.Number) else 0
                    if value < 1 or not float(value).is_integer():
                        raise RunError(f"expected a whole number from 1 on for `{formal.name}`", formal.default.span)
                    found[formal.name] = int(value)
    return found

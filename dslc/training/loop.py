"""The training loop: steps, epochs, validation, early stopping, averages, checkpoints, and stopping when asked to."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from dslc.arrays import Arrays, locked
from dslc.data.files import ENCODING
from dslc.data.rows import Rows, digests
from dslc.run_errors import RunError, Stopped
from dslc.training.averaging import Average
from dslc.training.checkpoint import (
    RECORD,
    Best,
    Snapshot,
    backend_of_run,
    cannot_write,
    clear,
    keep_epoch,
    read_checkpoint,
    read_epoch,
    roll_back,
    write_checkpoint,
    write_json,
    write_weights,
)
from dslc.training.run import Epoch, Run, Settings, evaluate

#: an epoch that took less time than the first is not worth a checkpoint; more time than the second is too much to lose
SHORTEST_SECONDS, LONGEST_SECONDS = 1.0, 60.0
#: rows that are evaluated at a time
EVALUATED = 256


@dataclass
class Job:
    """A compiled spec and the data to train it on."""

    module: ModuleType
    data: Arrays
    rows: Rows
    folder: Path
    validation: Arrays = field(default_factory=dict)
    validation_rows: Rows | None = None
    #: stands for the spec, its settings and its dtype: a checkpoint of another one is refused
    fingerprint: str = ""
    #: weights to begin with in place of fresh ones
    start: Arrays | None = None
    #: whether the loss and the metrics of rows are means over them, so that a part of the rows at a time is enough
    in_parts: bool = True
    #: what the module computes with: another backend would end with other last bits
    backend: str = "numpy"
    #: how files became the data, for the folder
    encoding: dict[str, Any] | None = None
    #: spec, settings and data, for the folder: what draws pictures of the run needs them
    about: dict[str, Any] = field(default_factory=dict)

    def evaluate(self, weights: Arrays, data: Arrays, rows: Rows, part: int = EVALUATED) -> dict[str, float]:
        """Loss and metrics of all rows together, for inference."""
        return evaluate(self.module, weights, data, rows, part if self.in_parts else rows.count)


@dataclass
class Watch:
    """What a run tells while it goes, and how it is asked to stop."""

    on_start: Callable[[int, int], None] = lambda step, total: None
    on_step: Callable[[int, float], None] = lambda step, loss: None
    on_epoch: Callable[[Epoch], None] = lambda epoch: None
    should_stop: Callable[[], bool] = lambda: False
    #: says why a step gave no finite loss or parameters; gets the run before that step
    explain: Callable[[Run, str], RunError] | None = None


@dataclass
class Outcome:
    """What a run leaves: weights by dotted name (which ones, `kept` says), and its history."""

    weights: Arrays
    steps: int
    history: list[Epoch]
    #: the epoch that the weights are of, where they are those of the best one
    best_epoch: int | None = None
    #: why the run stopped before its last step, if it did
    reason: str = ""
    #: which weights are left, in words
    kept: str = ""
    #: steps that were done before this process began
    resumed_at: int = 0
    #: validation values of the weights, where there are validation rows
    validation: dict[str, float] = field(default_factory=dict)
    #: means over the rows of an epoch that is not finished
    unfinished: dict[str, float] = field(default_factory=dict)


def train(job: Job, settings: Settings, watch: Watch | None = None) -> Outcome:
    """Train to the end, from the checkpoint of the folder when there is one: the same bits as without the stop."""
    return Training(job, settings, watch or Watch()).run_to_end()


class Training:
    """One process's part of a run."""

    def __init__(self, job: Job, settings: Settings, watch: Watch):
        self.job, self.settings, self.watch = job, settings, watch
        self.run = Run(job.module, job.data, job.rows, settings, job.start)
        self.history: list[Epoch] = []
        self.best: Best | None = None
        #: of the weights, where they are averaged
        self.average = Average(settings.ema)
        self.saved_step = -1
        self.saved_at = time.monotonic()
        #: stands for the weights that the run began with, if they were given
        self.start = None if job.start is None else digests(job.start)
        self.data_digests = {**digests(job.data), **{f"val_{k}": v for k, v in digests(job.validation).items()}}

    @property
    def total(self) -> int:
        spe = self.run.steps_per_epoch
        return self.settings.steps if self.settings.steps is not None else self.settings.epochs * spe

    def reason(self) -> str:
        """Why to stop early; empty to go on."""
        if not self.settings.rules.early:
            return ""
        losses = [entry.training["loss"] for entry in self.history if "loss" in entry.training]
        validation = [entry.validation for entry in self.history]
        return self.settings.rules.reason(losses, validation, self.run.moved) or ""

    def run_to_end(self) -> Outcome:
        """Resume if there is a checkpoint, and train until the steps are done or a rule stops it."""
        try:
            self.job.folder.mkdir(parents=True, exist_ok=True)
            with locked(self.job.folder):
                clear(self.job.folder, self.settings.fresh)
                return self.work()
        except OSError as error:
            raise cannot_write(self.job.folder, error) from error

    def work(self) -> Outcome:
        back = self.settings.roll_back
        self.resume(read_checkpoint(self.job.folder) if back is None else read_epoch(self.job.folder, back))
        if back is not None:  # only now: a checkpoint of other settings is refused before anything is deleted
            roll_back(self.job.folder, back)
        first = self.run.step_number
        self.watch.on_start(first, self.total)
        while self.run.step_number < self.total and not self.reason():
            self.step()
            if self.watch.should_stop():
                self.save()
                raise Stopped(self.run.step_number, self.run.epoch, self.job.folder)
        if self.saved_step != self.run.step_number:
            self.save()
        elif first == self.run.step_number:
            write_weights(self.job.folder, self.kept())
        weights = self.kept()
        validation = self.evaluate(weights) if self.job.validation else {}
        early = self.reason() if self.run.step_number < self.total else ""
        chosen = self.best.epoch if self.best is not None and weights is self.best.arrays else None
        return Outcome(
            weights, self.run.step_number, self.history, chosen, early, self.kept_in_words(), first, validation,
            self.run.means(),
        )  # fmt: skip

    def step(self) -> None:
        loss = self.run.step()
        if not math.isfinite(loss):
            raise self.explanation(f"the loss is {loss} at step {self.run.step_number}")
        self.watch.on_step(self.run.step_number, loss)
        if self.settings.ema is not None:
            self.average.add(self.run.weights())
        ended = self.run.at_end_of_epoch
        if ended:
            self.end_epoch()
        if self.is_time_to_save(ended):
            self.save()

    def end_epoch(self) -> None:
        gradient = self.run.gradient()
        means = self.run.next_epoch()
        if self.settings.swa is not None and self.run.epoch >= self.settings.swa:
            self.average.add(self.run.weights())
        found = self.evaluate(self.weights()) if self.job.validation else {}
        entry = Epoch(self.run.epoch, self.run.step_number, means, found, gradient)
        self.history.append(entry)
        by = self.settings.rules.watched
        if found and by.better(found[by.name], self.best.value if self.best else None) and self.run.finite():
            copies = {name: x.copy() for name, x in self.weights().items()}
            self.best = Best(self.run.epoch, found[by.name], copies)
        self.watch.on_epoch(entry)

    def evaluate(self, weights: Arrays) -> dict[str, float]:
        assert self.job.validation_rows is not None
        return self.job.evaluate(weights, self.job.validation, self.job.validation_rows, max(self.run.batch, EVALUATED))

    def is_time_to_save(self, ended: bool) -> bool:
        if ended and self.settings.every_epoch:
            return True
        every = self.settings.checkpoint_every
        if every is not None:
            return self.run.step_number % every == 0
        waited = time.monotonic() - self.saved_at
        return waited >= (SHORTEST_SECONDS if ended else LONGEST_SECONDS)

    def weights(self) -> Arrays:
        """The weights of the run, or their average."""
        return self.average.weights(self.run.weights())

    def kept(self) -> Arrays:
        """The weights to leave: where it was asked for those of the best epoch, else the last ones."""
        return self.best.arrays if self.settings.keep_best and self.best is not None else self.weights()

    def kept_in_words(self) -> str:
        if not self.settings.keep_best or self.best is None:
            return f"weights of the last step{self.averaged(self.run.epoch)}"
        by, averaged = self.settings.rules.watched.name, self.averaged(self.best.epoch)
        return f"weights of epoch {self.best.epoch}{averaged}, the best validation {by} ({self.best.value:.4f})"

    def averaged(self, epoch: int) -> str:
        """Whether the weights that there were after an epoch are an average, in words."""
        first = self.settings.swa
        if first is not None and epoch < first:
            return f" (not averaged before the end of epoch {first})"
        return "" if self.settings.ema is first is None else " (averaged)"

    # ---- checkpoints

    def save(self) -> None:
        if not self.run.finite():
            raise self.explanation(f"a parameter or a state is not finite after step {self.run.step_number}")
        snapshot = self.run.snapshot()
        snapshot.about |= {
            "spec": self.job.fingerprint, "backend": self.job.backend, "data": self.data_digests,
            "validation": self.settings.validation,
            "history": [asdict(e) for e in self.history], "settings": self.settings.decisive,
            "averaged": self.average.count,
        }  # fmt: skip
        snapshot.groups["average"] = self.average.arrays
        if self.start is not None:
            snapshot.about["start"] = self.start
        snapshot.best = self.best
        write_checkpoint(self.job.folder, snapshot)
        if self.settings.every_epoch and self.run.epoch and not self.run.position:
            keep_epoch(self.job.folder, self.run.epoch)
        write_weights(self.job.folder, self.kept())
        write_json(self.job.folder / ENCODING, self.job.encoding)
        write_json(self.job.folder / RECORD, self.job.about)
        self.saved_step, self.saved_at = self.run.step_number, time.monotonic()

    def resume(self, snapshot: Snapshot | None) -> None:
        if snapshot is None:
            return
        self.check_same(snapshot)
        self.run.restore(snapshot)
        self.history = [Epoch(**e) for e in snapshot.about["history"]]
        self.best = snapshot.best
        averaged = snapshot.groups.get("average", {})
        self.average.restore(averaged, snapshot.about.get("averaged", 0), self.run.weights(), snapshot.origin)
        self.start = snapshot.about.get("start")
        self.saved_step = self.run.step_number

    def check_same(self, snapshot: Snapshot) -> None:
        """A run may go on with the spec, the data and the settings of its beginning, and no others."""
        about, anew = snapshot.about, "to train anew, use --fresh, or another folder with -o"
        for name, mine in (
            ("seed", self.run.seed),
            ("batch", self.run.batch),
            ("validation", self.settings.validation),
        ):
            if about[name] != mine:
                message = f"{snapshot.origin} was made with --{name} {about[name]}, not {mine}"
                raise RunError(message, help=f"use the same --{name} to go on; {anew}")
        before = {**Settings().decisive, **about.get("settings", {})}
        for name, mine in self.settings.decisive.items():
            if before.get(name) != mine:
                then, now = ("without it" if x is None else str(x) for x in (before.get(name), mine))
                message = f"{snapshot.origin} was made with other settings: --{name} was {then}, and is now {now}"
                raise RunError(message, help=f"use the same --{name} to go on; {anew}")
        if (backend := backend_of_run(snapshot)) != self.job.backend:
            message = f"{snapshot.origin} was made with --backend {backend}, not {self.job.backend}"
            raise RunError(message, help=f"use the same --backend to go on; {anew}")
        for name, digest in self.data_digests.items():
            _check_array(snapshot.origin, name, about["data"].get(name), digest, anew)
        if about["spec"] != self.job.fingerprint:
            message = f"the spec, its settings or its dtype have changed since {snapshot.origin} was written"
            raise RunError(message, help=f"undo the change to go on; {anew}")
        if self.start not in (None, about.get("start")):
            message = f"{snapshot.origin} is of a run that did not begin with the weights of --weights"
            raise RunError(message, help=f"leave out --weights to go on from the checkpoint; {anew}")

    # ---- when numbers are not finite

    def explanation(self, message: str) -> RunError:
        """Go back to the last checkpoint and repeat the steps up to the first bad one, to see what went wrong in it."""
        last = read_checkpoint(self.job.folder)
        bad = self.run.step_number
        if last is None:
            self.run.begin()
        else:
            self.run.restore(last)
        while self.run.step_number < bad:
            before = self.run.snapshot()
            before.groups = {k: {n: x.copy() for n, x in v.items()} for k, v in before.groups.items()}
            loss = self.run.step()
            if not math.isfinite(loss) or not self.run.finite():
                break
            if self.run.at_end_of_epoch:
                self.run.next_epoch()
        else:
            return RunError(f"{message}, but not when the step is repeated", help="check the machine's memory")
        self.run.restore(before)
        error = self.watch.explain(self.run, message) if self.watch.explain else RunError(message)
        kept = "" if last is None else f"; weights and checkpoint of step {last.about['step']} are in {self.job.folder}"
        return RunError(error.message + kept, error.place, error.help)


def _check_array(origin: str, name: str, before: list[object] | None, now: list[object], anew: str) -> None:
    if before == now:
        return
    if before is None:
        raise RunError(f"{origin} was made without the array `{name}`", help=f"use the same data to go on; {anew}")
    words = "the shape", "the dtype", "other values"
    k = next(k for k in range(3) if before[k] != now[k])
    if k == 2:
        message = f"`{name}` has other values than when {origin} was made"
    else:
        old, new = (tuple(x[k]) if k == 0 else x[k] for x in (before, now))  # type: ignore[arg-type]
        message = f"`{name}` had {words[k]} {old} when {origin} was made, now {new}"
    raise RunError(message, help=f"use the same data to go on; {anew}")

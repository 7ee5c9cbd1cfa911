"""A run between two steps: parameters, optimiser, states, and the place in the data; steps, snapshots, evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from dslc.arrays import Array, Arrays
from dslc.run_errors import RunError
from dslc.training.checkpoint import Snapshot, fill
from dslc.training.data import Rows, permutation


@dataclass
class Settings:
    """What a run is asked to do; `steps` counts all steps since the start and goes before `epochs`."""

    batch: int = 64
    epochs: int = 10
    seed: int = 0
    steps: int | None = None
    validation: float = 0.0
    #: epochs without a better validation loss after which to stop
    patience: int | None = None
    checkpoint_every: int | None = None
    #: whether to begin anew where there is a checkpoint
    fresh: bool = False


@dataclass
class Epoch:
    """What is known after an epoch: means over its steps, and the values of the validation rows."""

    epoch: int
    steps: int
    training: dict[str, float]
    validation: dict[str, float] = field(default_factory=dict)


class Run:
    """Steps through the data. The order of the rows follows from the seed and the epoch alone."""

    def __init__(
        self, module: ModuleType, data: Arrays, rows: Rows, batch: int, seed: int, start: Arrays | None = None
    ):
        self.module = module
        self.data = data
        self.rows = rows
        self.batch = min(batch, rows.count)
        self.seed = seed
        self.start = start
        self.order: tuple[int, Array] = (-1, np.zeros(0, np.int64))
        self.begin()

    def begin(self) -> None:
        """Back to the state before the first step."""
        self.params: Arrays = self.module.init(self.seed)
        start = self.start or {}
        for name in self.params.keys() & start.keys():  # before `init_opt`, which may keep copies of them
            self.params[name][...] = start[name]
        self.opt: dict[str, Any] = self.module.init_opt(self.params, self.seed)
        for name in self.state.keys() & start.keys():
            self.state[name][...] = start[name]
        self.epoch = 0
        self.position = 0
        #: sums over the rows of this epoch, and how many they are
        self.sums: dict[str, float] = {}
        self.seen = 0

    @property
    def step_number(self) -> int:
        return int(self.opt["step"])

    @property
    def state(self) -> Arrays:
        return dict(self.opt.get("state", {}))

    @property
    def steps_per_epoch(self) -> int:
        return -(-self.rows.count // self.batch)

    def batch_rows(self) -> Array:
        """The rows of the next step."""
        if self.order[0] != self.epoch:
            self.order = self.epoch, permutation(self.rows.count, self.seed, self.epoch)
        return self.order[1][self.position : self.position + self.batch]

    def step(self) -> float:
        """One step; gives its loss."""
        rows = self.batch_rows()
        try:
            with np.errstate(all="ignore"):  # what is not finite is found in the loss
                self.params, self.opt = self.module.train_step(self.params, self.opt, *self.rows.take(self.data, rows))
        except (ValueError, TypeError) as error:
            raise RunError(str(error)) from error
        if "state" in self.opt:  # laid out as after a resume, so that both compute the same bits
            self.opt["state"] = {name: np.asarray(x, order="C") for name, x in self.opt["state"].items()}
        loss = float(self.opt["loss"])
        for name, value in numbers({"loss": loss, **self.opt["metrics"]}).items():
            self.sums[name] = self.sums.get(name, 0.0) + float(value) * len(rows)
        self.seen += len(rows)
        self.position += self.batch
        return loss

    @property
    def at_end_of_epoch(self) -> bool:
        return self.position >= self.rows.count

    def means(self) -> dict[str, float]:
        """Loss and metrics of this epoch so far."""
        return {name: total / self.seen for name, total in self.sums.items()}

    def next_epoch(self) -> dict[str, float]:
        """Close an epoch; gives the means over its rows."""
        means = self.means()
        self.epoch, self.position, self.sums, self.seen = self.epoch + 1, 0, {}, 0
        return means

    def finite(self) -> bool:
        return all(np.isfinite(x).all() for x in (*self.params.values(), *self.state.values()))

    # ---- snapshots

    def weights(self) -> Arrays:
        """Parameters and states under their dotted names."""
        return {**self.params, **self.state}

    def snapshot(self) -> Snapshot:
        groups = {"params": self.params}
        groups |= {f"opt.{name}": value for name, value in self.opt.items() if _is_slot(name, value)}
        about = {
            "step": self.step_number, "opt_seed": self.opt["seed"], "epoch": self.epoch, "position": self.position,
            "sums": self.sums, "seen": self.seen, "seed": self.seed, "batch": self.batch,
        }  # fmt: skip
        return Snapshot(groups, about)

    def restore(self, snapshot: Snapshot) -> None:
        """Go to where the snapshot was taken."""
        about = snapshot.about
        steps = about["epoch"] * self.steps_per_epoch + about["position"] / self.batch
        if about["step"] != steps or not about["seen"] == about["position"] < self.rows.count:
            message = f"the checkpoint {snapshot.origin} cannot be used: its place in the data is not one of a run"
            raise RunError(message, help="choose another folder with -o, or --fresh to start anew")
        self.begin()
        slots = {name: value for name, value in self.opt.items() if _is_slot(name, value)}
        stored = {name[4:]: value for name, value in snapshot.groups.items() if name.startswith("opt.")}
        fill(self.params, snapshot.groups.get("params", {}), "the parameter", snapshot.origin)
        for name, value in slots.items():
            fill(value, stored.get(name, {}), f"`{name}` of", snapshot.origin)
        if snapshot.best is not None:
            fill(
                {name: x.copy() for name, x in self.weights().items()},
                snapshot.best.arrays,
                "the best",
                snapshot.origin,
            )
        self.opt["step"], self.opt["seed"] = about["step"], about["opt_seed"]
        self.epoch, self.position = about["epoch"], about["position"]
        self.sums, self.seen = dict(about["sums"]), about["seen"]


def _is_slot(name: str, value: object) -> bool:
    return isinstance(value, dict) and name != "metrics"


def numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of some results that have a mean over batches: exposed tensors have none."""
    return {name: value for name, value in values.items() if not np.ndim(value)}


def evaluate(
    module: ModuleType, weights: Mapping[str, Array], data: Arrays, rows: Rows, batch: int
) -> dict[str, float]:
    """Loss and metrics of data for inference: means over parts, each weighted with its number of rows."""
    params = {name: weights[name] for name in module.PARAMS}
    more = [{name: weights[name] for name in module.STATE}] if hasattr(module, "STATE") else []
    sums: dict[str, float] = {}
    for start in range(0, rows.count, batch):
        part = np.arange(start, min(start + batch, rows.count))
        try:
            loss, metrics = module.evaluate(params, *rows.take(data, part), *more)
        except (ValueError, TypeError) as error:
            raise RunError(str(error)) from error
        for name, value in numbers({"loss": loss, **metrics}).items():
            sums[name] = sums.get(name, 0.0) + float(value) * len(part)
    return {name: total / rows.count for name, total in sums.items()}


def is_better(loss: float, best: float | None) -> bool:
    return math.isfinite(loss) and (best is None or loss < best)

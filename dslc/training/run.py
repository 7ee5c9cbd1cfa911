"""A run between two steps: parameters, optimiser, states, and the place in the data; steps, snapshots, evaluation."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from dslc.arrays import Array, Arrays, as_numbers
from dslc.check import program as p
from dslc.data.rows import Rows, permutation
from dslc.run_errors import RunError
from dslc.training.checkpoint import Snapshot, fill
from dslc.training.stopping import Rules


@dataclass
class Settings:
    """What a run is asked to do; `steps` counts all steps since the start and goes before `epochs`."""

    batch: int = 64
    epochs: int = 10
    seed: int = 0
    steps: int | None = None
    validation: float = 0.0
    checkpoint_every: int | None = None
    #: whether to begin anew where there is a checkpoint
    fresh: bool = False
    #: whether to keep the checkpoint of each epoch
    every_epoch: bool = False
    #: epoch whose checkpoint to go back to
    roll_back: int | None = None
    #: when to stop before the last step, and by which value of the validation rows epochs are compared
    rules: Rules = field(default_factory=Rules)
    #: whether the weights of the best epoch are left in place of the last ones
    keep_best: bool = False
    #: batches whose gradients are added up for one step
    accumulate: int = 1
    #: how long the gradient of a step may be; a longer one is shortened to that
    clip: float | None = None
    #: whether to measure gradients that are not clipped, too
    norms: bool = False
    #: decay of an exponential average of the weights, over steps
    ema: float | None = None
    #: epoch from whose end on weights are averaged, over epochs
    swa: int | None = None

    @property
    def by_hand(self) -> bool:
        """Whether a step needs the gradients themselves."""
        return self.accumulate > 1 or self.clip is not None or self.norms

    @property
    def decisive(self) -> dict[str, Any]:
        """What the bits of a run depend on beside its data: a checkpoint is of a run with the same."""
        return {
            "accumulate": self.accumulate, "clip": self.clip, "ema": self.ema, "swa": self.swa,
            "watch": self.rules.watched.text,
        }  # fmt: skip


@dataclass
class Epoch:
    """What is known after an epoch: means over its steps, and the values of the validation rows."""

    epoch: int
    steps: int
    training: dict[str, float]
    validation: dict[str, float] = field(default_factory=dict)
    #: lengths of the gradients of its steps before they were clipped, where they were measured: `mean` and `largest`
    gradient: dict[str, float] = field(default_factory=dict)


class Run:
    """Steps through the data. The order of the rows follows from the seed and the epoch alone."""

    def __init__(self, module: ModuleType, data: Arrays, rows: Rows, settings: Settings, start: Arrays | None = None):
        self.module = module
        self.data = data
        self.rows = rows
        self.settings = settings
        self.batch = min(settings.batch, rows.count)
        self.seed = settings.seed
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
        #: sum and largest of the lengths of gradients in this epoch, and of how many steps
        self.norms = {"sum": 0.0, "largest": 0.0, "steps": 0}
        #: how far the last step moved the parameters, where a rule asks for that
        self.moved: float | None = None

    @property
    def step_number(self) -> int:
        return int(self.opt["step"])

    @property
    def state(self) -> Arrays:
        return dict(self.opt.get("state", {}))

    @property
    def stride(self) -> int:
        """Rows of a step, in all of its batches."""
        return self.batch * self.settings.accumulate

    @property
    def steps_per_epoch(self) -> int:
        return -(-self.rows.count // self.stride)

    def batches(self) -> Iterator[tuple[Array, int]]:
        """The rows of each batch of the next step, and the seed of its draws."""
        if self.order[0] != self.epoch:
            self.order = self.epoch, permutation(self.rows.count, self.seed, self.epoch)
        rows = self.order[1][self.position : self.position + self.stride]
        seed = int(self.opt["seed"]) + self.step_number * self.settings.accumulate + 1
        for k, start in enumerate(range(0, len(rows), self.batch)):
            yield rows[start : start + self.batch], seed + k

    def step(self) -> float:
        """One step; gives its loss."""
        wants_length = self.settings.rules.min_step is not None
        before = {name: x.copy() for name, x in self.params.items()} if wants_length else {}
        try:
            with np.errstate(all="ignore"):  # what is not finite is found in the loss
                loss = self.step_by_hand() if self.settings.by_hand else self.step_at_once()
        except (ValueError, TypeError) as error:
            raise RunError(str(error)) from error
        if "state" in self.opt:  # laid out as after a resume, so that both compute the same bits
            self.opt["state"] = {name: np.asarray(x, order="C") for name, x in self.opt["state"].items()}
        if wants_length:
            self.moved = length({name: as_numbers(self.params[name]) - as_numbers(x) for name, x in before.items()})
        self.position += self.stride
        return loss

    def step_at_once(self) -> float:
        ((rows, _),) = self.batches()
        self.params, self.opt = self.module.train_step(self.params, self.opt, *self.rows.take(self.data, rows))
        return self.count(self.opt["loss"], self.opt["metrics"], len(rows))

    def step_by_hand(self) -> float:
        """Gradients of the batches, weighted by their rows and added up; then the optimiser's part of a step."""
        batches = list(self.batches())
        whole = sum(len(rows) for rows, _ in batches)
        accepted = inspect.signature(self.module.loss_grad_metrics).parameters
        total: Arrays = {}
        mean = 0.0
        for rows, seed in batches:
            more = {"state": self.opt.get("state"), "seed": seed}
            loss, grads, metrics, state = self.module.loss_grad_metrics(
                self.params, *self.rows.take(self.data, rows), **{k: v for k, v in more.items() if k in accepted}
            )
            if state:
                self.opt["state"].update(state)
            share = len(rows) / whole
            parts = grads if share == 1 else {name: share * grad for name, grad in grads.items()}
            total = {name: total[name] + grad for name, grad in parts.items()} if total else parts
            mean += share * self.count(loss, metrics, len(rows))
        self.params, self.opt = self.module.update(self.params, self.opt, self.clipped(total))
        return mean

    def clipped(self, grads: Arrays) -> Arrays:
        """The gradient, no longer than it may be; its length before that is noted."""
        norm, clip = length(grads), self.settings.clip
        before = self.norms
        largest = max(before["largest"], norm)
        self.norms = {"sum": before["sum"] + norm, "largest": largest, "steps": before["steps"] + 1}
        return grads if clip is None or not norm > clip else {name: clip / norm * x for name, x in grads.items()}

    def count(self, loss: Any, metrics: Mapping[str, Any], rows: int) -> float:
        """Add the values of a batch to the sums over the epoch; gives its loss."""
        for name, value in numbers({"loss": loss, **metrics}).items():
            self.sums[name] = self.sums.get(name, 0.0) + float(value) * rows
        self.seen += rows
        return float(loss)

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
        self.norms = {"sum": 0.0, "largest": 0.0, "steps": 0}
        return means

    def gradient(self) -> dict[str, float]:
        """Mean and largest length of the gradients of this epoch so far, where they are measured."""
        steps = self.norms["steps"]
        return {"mean": self.norms["sum"] / steps, "largest": self.norms["largest"]} if steps else {}

    def finite(self) -> bool:
        return all(np.isfinite(as_numbers(x)).all() for x in (*self.params.values(), *self.state.values()))

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
            "norms": self.norms,
        }  # fmt: skip
        if self.moved is not None:
            about["moved"] = self.moved
        return Snapshot(groups, about)

    def restore(self, snapshot: Snapshot) -> None:
        """Go to where the snapshot was taken."""
        about = snapshot.about
        steps = about["epoch"] * self.steps_per_epoch + about["position"] / self.stride
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
        self.norms, self.moved = dict(about.get("norms", self.norms)), about.get("moved")


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


def outputs_of(
    module: ModuleType, model: p.Instance, params: Arrays, state: Arrays, inputs: Mapping[str, Array], seed: int = 0
) -> Arrays:
    """The outputs of a model by name, with what it exposes."""
    accepted = inspect.signature(module.forward).parameters
    options: dict[str, Any] = {"state": state, "seed": seed}
    try:
        result = module.forward(params, *inputs.values(), **{k: v for k, v in options.items() if k in accepted})
    except (ValueError, TypeError) as error:
        raise RunError(str(error)) from error
    named = result if isinstance(result, dict) else {model.outputs[0].name: result}
    return {name: np.asarray(x) for name, x in named.items()}


def length(arrays: Mapping[str, Array]) -> float:
    """The Euclidean norm of all arrays together, in float64.

    >>> length({"a": np.array([3.0]), "b": np.array([[4.0]])})
    5.0
    """
    return math.sqrt(sum(float(np.sum(np.square(x, dtype=np.float64))) for x in arrays.values()))

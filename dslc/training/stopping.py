"""When a run stops before its last step, and which of two epochs was the better one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dslc.run_errors import RunError

#: names of metrics that are better when they are higher, or lower; of others it must be said
HIGHER = frozenset(
    {"accuracy", "top_accuracy", "binary_accuracy", "precision", "recall", "f1", "macro_f1", "auc", "r2", "iou"}
)
LOWER = frozenset({"loss", "error", "mse", "mae", "rmse", "perplexity", "nll", "brier", "ece", "calibration_error"})


@dataclass(frozen=True)
class Watched:
    """A value of the validation rows that tells which epoch is best."""

    name: str = "loss"
    higher: bool = False

    @property
    def text(self) -> str:
        """As `--watch` takes it."""
        return f"{self.name}:{'max' if self.higher else 'min'}"

    def better(self, value: float, than: float | None) -> bool:
        """Whether a value is finite and better than another, or than none.

        >>> Watched().better(0.4, 0.5), Watched("accuracy", True).better(0.4, 0.5), Watched().better(math.nan, None)
        (True, False, False)
        """
        return math.isfinite(value) and (than is None or (value > than if self.higher else value < than))


def watched(text: str, known: Sequence[str]) -> Watched:
    """What `--watch` names: a metric of the spec, with `:max` or `:min` where its name does not say which is better.

    >>> watched("accuracy", ["loss", "accuracy"])
    Watched(name='accuracy', higher=True)
    >>> watched("score:min", ["loss", "score"])
    Watched(name='score', higher=False)
    """
    name, _, way = text.partition(":")
    if name not in known:
        have = ", ".join(f"`{x}`" for x in known)
        raise RunError(f"--watch {text}: the `train` has no metric `{name}`", help=f"it has {have}")
    if way not in ("", "min", "max"):
        raise RunError(f"--watch {text}: expected max or min behind the colon", help=f"such as {name}:max")
    if not way and name not in HIGHER | LOWER:
        help = f"write {name}:max where higher is better, {name}:min where lower is"
        raise RunError(f"--watch {text} does not say which values of `{name}` are better", help=help)
    return Watched(name, way == "max" or (not way and name in HIGHER))


@dataclass(frozen=True)
class Rules:
    """When to stop early; what is None or not asked for never stops a run."""

    #: epochs without a better value than the best one
    patience: int | None = None
    #: stop when an epoch is no better than any of so many before it
    plateau: int | None = None
    #: stop when a step moves the parameters by no more than this length
    min_step: float | None = None
    #: stop when the loss of an epoch differs from that of the one before by no more than this
    min_change: float | None = None
    watched: Watched = Watched()

    @property
    def early(self) -> bool:
        """Whether there is a rule at all."""
        return any(x is not None for x in (self.patience, self.plateau, self.min_step, self.min_change))

    def reason(
        self, losses: Sequence[float], validation: Sequence[Mapping[str, float]], moved: float | None
    ) -> str | None:
        """Why to stop, in words, or None: from the epochs so far, and the length of the last step."""
        values = [x[self.watched.name] for x in validation if self.watched.name in x]
        if self.patience is not None and (count := since_best(values, self.watched)) >= self.patience:
            return f"no better validation {self.watched.name} for {_epochs(count)}"
        if self.plateau is not None and at_plateau(values, self.plateau, self.watched):
            return f"validation {self.watched.name} no better than in any of the {_epochs(self.plateau)} before"
        if self.min_step is not None and moved is not None and moved <= self.min_step:
            return f"a step of length {moved:.3g}"
        if self.min_change is not None and len(losses) > 1:
            change = abs(losses[-1] - losses[-2])
            if change <= self.min_change:
                return f"the loss of an epoch changed by {change:.3g}"
        return None


def _epochs(count: int) -> str:
    return f"{count} epoch{'s' if count != 1 else ''}"


def since_best(values: Sequence[float], by: Watched) -> int:
    """How many values came after the best one.

    >>> since_best([0.5, 0.6, 0.7, 0.65, 0.68], Watched("accuracy", True))
    2
    """
    best, count = None, 0
    for value in values:
        if by.better(value, best):
            best, count = value, 0
        else:
            count += 1
    return count


def at_plateau(values: Sequence[float], length: int, by: Watched) -> bool:
    """Whether the last value is no better than each of so many before it, which other than `since_best` forgets.

    >>> accuracy = Watched("accuracy", True)
    >>> at_plateau([0.5, 0.6, 0.7, 0.69, 0.68], 2, accuracy), at_plateau([0.5, 0.6, 0.7, 0.65, 0.68], 2, accuracy)
    (True, False)
    """
    before = values[-length - 1 : -1]
    return len(before) == length and not any(by.better(values[-1], x) for x in before)

"""Curves of losses and metrics over the epochs of runs: a panel for each, a colour for each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dslc.arrays import Array
from dslc.plots.figure import DASHED, DOTTED, GREY, PALETTE, STEPS, chosen, colours, grid, legend, plain_log
from dslc.plots.runs import RunFolder
from dslc.quoting import printable
from dslc.run_errors import RunError

#: part of a history -> how its lines are drawn
PARTS: dict[str, Any] = {"training": "-", "validation": DASHED, "mean": "-", "largest": DOTTED}
#: the panel of lengths of gradients, which have other parts
GRADIENT = "gradient"


@dataclass(frozen=True)
class Curve:
    """The values of one metric over the epochs of a run: of each seed a row, NaN where it was not measured."""

    run: str
    metric: str
    part: str
    epochs: Array
    values: Array

    @property
    def mean(self) -> Array:
        return np.asarray(self.values.mean(0))

    @property
    def spread(self) -> Array | None:
        """The standard deviation of the seeds as a sample; None for one."""
        return np.asarray(self.values.std(0, ddof=1)) if len(self.values) > 1 else None


def curves_of(runs: Sequence[RunFolder], only: Sequence[str] = ()) -> list[Curve]:
    """All curves of runs, by metric; of several seeds the epochs that all of them have."""
    found = []
    for run in runs:
        histories = run.histories()
        length = min(map(len, histories))
        epochs = np.array([entry["epoch"] for entry in histories[0][:length]])
        for part in PARTS:
            key, gradient = ("gradient", True) if part in ("mean", "largest") else (part, False)
            entries = [[entry.get(key, {}) for entry in history[:length]] for history in histories]
            for name in dict.fromkeys(name for rows in entries for row in rows for name in row):
                if gradient and name != part:
                    continue
                values = np.array([[row.get(name, np.nan) for row in rows] for rows in entries], float)
                found.append(Curve(run.label, GRADIENT if gradient else name, part, epochs, values))
    metrics = chosen(list(dict.fromkeys(c.metric for c in found)), only, "metric")
    return [c for name in metrics for c in found if c.metric == name]


def smoothed(values: Array, weight: float) -> Array:
    """Each value averaged with those before it, which count `weight` times less for each epoch that they lie back.

    >>> smoothed(np.array([0.0, 1.0, 1.0]), 0.5).round(3).tolist()
    [0.0, 0.667, 0.857]
    """
    total, weights, found = 0.0, 0.0, []
    for value in values:
        if np.isfinite(value):
            total, weights = weight * total + value, weight * weights + 1
        found.append(total / weights if weights and np.isfinite(value) else np.nan)
    return np.array(found)


def draw_curves(curves: Sequence[Curve], title: str = "", logy: bool = False, smooth: float = 0.0) -> Any:
    """The figure: solid lines for training, dashed ones for validation, bands of one deviation around means."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    runs = list(dict.fromkeys(c.run for c in curves))
    metrics = list(dict.fromkeys(c.metric for c in curves))
    figure, panels = grid(len(metrics), title or (runs[0] if len(runs) == 1 else ""), extra=0.4)
    by_run = dict(zip(runs, colours(len(runs)), strict=True))
    by_part = dict(zip(PARTS, (PALETTE[0], PALETTE[1], PALETTE[2], PALETTE[2]), strict=True))
    for metric, panel in zip(metrics, panels, strict=True):
        for curve in (c for c in curves if c.metric == metric):
            colour = by_run[curve.run] if len(runs) > 1 else by_part[curve.part]
            draw_curve(panel, curve, colour, logy, smooth)
        panel.set_title("gradient: mean, and largest (dotted)" if metric == GRADIENT else printable(metric))
        panel.set_xlabel("epoch")
        panel.xaxis.set_major_locator(MaxNLocator(7, integer=True, min_n_ticks=1, steps=STEPS))
        if logy:
            panel.set_yscale("log")
            plain_log(panel.yaxis)
    parts = [part for part in ("training", "validation") if any(c.part == part for c in curves)]
    if len(runs) > 1:
        handles = [Line2D([], [], color=by_run[run], linewidth=3, label=printable(run)) for run in runs]
        if len(parts) > 1:
            handles += [Line2D([], [], color=GREY, linestyle=PARTS[part], label=part) for part in parts]
    else:
        handles = [Line2D([], [], color=by_part[part], linestyle=PARTS[part], label=part) for part in parts]
    legend(figure, handles)
    return figure


def draw_curve(panel: Any, curve: Curve, colour: Any, logy: bool, smooth: float) -> None:
    mean, spread = curve.mean, curve.spread
    bad = np.flatnonzero(mean <= 0)
    if logy and bad.size:
        message = f"`{curve.metric}` of {curve.run} is {mean[bad[0]]:g} at epoch {curve.epochs[bad[0]]}"
        raise RunError(f"{message}: it has no logarithm", help="leave out --logy, or choose others with --only")
    name = f"{curve.metric}:{curve.part}:{curve.run}"
    style = {"color": colour, "linestyle": PARTS[curve.part], "gid": f"curve:{name}"}
    if len(mean) <= 20:
        style |= {"marker": "o", "markersize": 3.5}
    if smooth:
        panel.plot(curve.epochs, mean, color=colour, alpha=0.25, linewidth=1, gid=f"raw:{name}")
        mean, spread = smoothed(mean, smooth), None if spread is None else smoothed(spread, smooth)
    panel.plot(curve.epochs, mean, **style)
    if spread is not None:
        # on a logarithmic axis a band that reaches 0 would have no end
        low = np.maximum(mean - spread, mean / 10) if logy else mean - spread
        band = {"color": colour, "alpha": 0.15, "linewidth": 0, "gid": f"spread:{name}"}
        panel.fill_between(curve.epochs, low, mean + spread, **band)

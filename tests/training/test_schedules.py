"""The schedules of the library give the learning rates of torch, at every step and on every backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dslc.backends.registry import BACKENDS
from torch.optim import lr_scheduler as peers

from dslc.cli.compiled import compiled
from dslc.frontend import check_file

SPEC = """
model line(x: f32[N]) -> y: [N]:
    param w: [] ~ zeros
    y[n] = w * x[n]

train line(x, lr = 0.5):
    minimize mean(line(x))
    using sgd(lr = lr * {schedule})
"""

#: as the spec writes it, and what torch calls it
SCHEDULES: dict[str, Any] = {
    "linear_warmup(step, 4)": lambda o: peers.LinearLR(o, 1 / 4, 1, 3),
    "linear_decay(step, 6, last = 0.2)": lambda o: peers.LinearLR(o, 1, 0.2, 6),
    "cosine_decay(step, 6, last = 0.2)": lambda o: peers.CosineAnnealingLR(o, 6, 0.1),
    "step_decay(step, 3)": lambda o: peers.StepLR(o, 3, 0.1),
    "exponential_decay(step, 0.7)": lambda o: peers.ExponentialLR(o, 0.7),
    "inverse_sqrt_decay(step, 3)": lambda o: peers.LambdaLR(o, lambda t: min((t + 1) / 3, (3 / (t + 1)) ** 0.5)),
    "linear_warmup(step, 2) * exponential_decay(step, 0.9)": lambda o: peers.ChainedScheduler(
        [peers.LinearLR(o, 1 / 2, 1, 1), peers.ExponentialLR(o, 0.9)]
    ),
    "1": lambda o: peers.ConstantLR(o, 1),
}


def rates_of_torch(make: Any, steps: int) -> list[float]:
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(()))], lr=0.5)
    schedule, found = make(optimiser), []
    for _ in range(steps):
        found.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        schedule.step()
    return found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_schedule_gives_the_rates_of_torch(schedule: str, backend: str, tmp_path: Path) -> None:
    spec = tmp_path / "line.dsl"
    spec.write_text(SPEC.replace("{schedule}", schedule), encoding="utf-8")
    dtype = "f32" if "f64" in BACKENDS[backend].lacks else "f64"
    module = compiled(spec, {}, dtype, None, backend).module
    params = module.init()
    opt, before, rates = module.init_opt(params), 0.0, []
    steps = 6 if "cosine" in schedule else 9  # torch turns back where half a cosine has ended
    for _ in range(steps):  # the gradient is 1, so that each step is as long as its rate
        params, opt = module.train_step(params, opt, np.ones(2))
        rates.append(before - float(params["w"]))
        before = float(params["w"])
    expected = rates_of_torch(SCHEDULES[schedule], steps)
    np.testing.assert_allclose(rates, expected, rtol=1e-12 if dtype == "f64" else 2e-5)


def test_a_decay_keeps_its_last_rate(tmp_path: Path) -> None:
    spec = tmp_path / "line.dsl"
    spec.write_text(SPEC.replace("{schedule}", "cosine_decay(step, 3, last = 0.1)"), encoding="utf-8")
    module = compiled(spec, {"lr": 1.0}, "f64", None, "numpy").module
    params = module.init()
    opt, seen = module.init_opt(params), [0.0]
    for _ in range(6):
        params, opt = module.train_step(params, opt, np.ones(2))
        seen.append(float(params["w"]))
    np.testing.assert_allclose(-np.diff(seen)[3:], 0.1)


def test_set_changes_the_hyper_parameters_of_a_training_but_not_what_has_an_option(tmp_path: Path) -> None:
    spec = tmp_path / "line.dsl"
    spec.write_text(SPEC.replace("{schedule}", "1").replace("lr = 0.5", "lr = 0.5, epochs = 3"), encoding="utf-8")
    assert check_file(spec, {"lr": 0.25}).program is not None
    (error,) = check_file(spec, {"epochs": 4}).errors
    assert error.message == "`line` has no argument `epochs`" and error.help == "it has `N`, `lr`"

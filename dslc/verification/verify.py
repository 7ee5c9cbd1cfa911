"""A whole spec verified: sizes are drawn, every backend is compiled, every check is made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dslc.check import program as p
from dslc.diagnostics.report import SpecError
from dslc.ir.build import build, build_train
from dslc.training.errors import RunError
from dslc.verification import checks
from dslc.verification.backends import BACKENDS, Loaded, Unavailable
from dslc.verification.sample import draw_sizes, fits, open_sizes
from dslc.verification.steps import has_step, steps

#: how often sizes are drawn before giving up
ATTEMPTS = 50


def choose_sizes(
    model: p.Instance, train: p.TrainProgram | None, given: Mapping[str, int], seed: int
) -> dict[str, int]:
    """Small sizes at which all axes of the spec are whole and not empty."""
    units = [build(model, "inference"), *([build_train(train)] if train is not None else [])]
    names = open_sizes(units)
    unknown = [n for n in given if n not in names]
    if unknown:
        raise RunError(
            f"{unknown[0]} is not an open size of the spec", help=f"open sizes: {', '.join(names) or 'none'}"
        )
    where = [*model.where, *(train.instance.where if train is not None else [])]
    rng = np.random.default_rng(seed)
    for _ in range(ATTEMPTS):
        sizes = draw_sizes(names, given, rng)
        allowed = all(c.holds(sizes) is not False for c in where)
        if allowed and fits(units, sizes) and checks.Subject(model, train, sizes, seed).makes_sense():
            return sizes
    raise RunError(
        "no small sizes fit the spec", help=f"give them, for example --sizes {','.join(f'{n}=8' for n in names)}"
    )


def verify(
    path: Path, settings: Mapping[str, object], model: p.Instance, train: p.TrainProgram | None,
    sizes: Mapping[str, int], seed: int, backends: list[str],
) -> list[checks.Check]:  # fmt: skip
    """All checks of a spec at given sizes."""
    subject = checks.Subject(model, train, sizes, seed)
    rows: list[checks.Check] = []
    roots = tuple(subject.unit("outputs" if train is None else "training").outputs.values())
    large = checks.too_large(roots, sizes)
    loaded: list[Loaded] = []
    for name in backends:
        try:
            loaded.append(BACKENDS[name](path, settings, model.name))
        except Unavailable as reason:
            rows.append(checks.Check(name, "all", None, checks.EXACT, str(reason)))
            continue
        except SpecError as error:
            rows.append(checks.Check(name, "all", None, checks.EXACT, error.diagnostics[0].message))
            continue
        if large:
            note = "too large for the interpreter; use --set or --sizes"
            rows.append(checks.Check(name, "all", None, checks.EXACT, note))
            continue
        rows += of_backend(subject, loaded[-1], loaded[0])
    if train is not None and not large:
        rows.append(checks.second_order(subject))
    return rows


def of_backend(subject: checks.Subject, loaded: Loaded, first: Loaded) -> list[checks.Check]:
    """The checks of one backend; others than the first must also train as the first does."""
    rows = [checks.outputs(subject, loaded)]
    if has_step(loaded):
        rows.append(steps(subject, loaded))
    if subject.train is not None:
        rows += checks.training(subject, loaded)
        rows.append(checks.evaluation(subject, loaded))
        rows.append(checks.differences(subject, loaded))
        if loaded is not first:
            rows.append(checks.same_training(subject, loaded, first))
    return rows

"""A whole spec verified: sizes are drawn, every backend is compiled, every check is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from dslc.backends.record import Unavailable
from dslc.builder.build import build, build_train
from dslc.check import program as p
from dslc.diagnostics.spec_error import SpecError
from dslc.run_errors import RunError
from dslc.verification import checks
from dslc.verification.allowed import allowed
from dslc.verification.backends import LOADERS, Loaded
from dslc.verification.guards import at_guards
from dslc.verification.lengths import at_length
from dslc.verification.memory import undisturbed
from dslc.verification.optimizing import Rule, train_steps
from dslc.verification.sample import draw_sizes, open_sizes
from dslc.verification.steps import has_step, steps

#: how often sizes are drawn before giving up
ATTEMPTS = 50
#: the backend that the others train like
REFERENCE = "numpy"


def reference_dtype(dtype: str) -> str:
    """The dtype in which the reference trains; it has no bfloat16."""
    return "f32" if dtype == "bf16" else dtype


def choose_sizes(
    model: p.Instance, train: p.TrainProgram | None, given: Mapping[str, int], seed: int
) -> dict[str, int]:
    """Small sizes at which all axes of the spec are whole and not empty; if there are some, with a finite loss and
    matrices that can be divided by."""
    units = [build(model, "inference"), *([build_train(train)] if train is not None else [])]
    names = open_sizes(units)
    unknown = [n for n in given if n not in names]
    if unknown:
        raise RunError(
            f"{unknown[0]} is not an open size of the spec", help=f"open sizes: {', '.join(names) or 'none'}"
        )
    rng = np.random.default_rng(seed)
    possible: dict[str, int] | None = None
    for _ in range(ATTEMPTS):
        sizes = draw_sizes(names, given, rng)
        if sizes != possible and allowed(model, train, units, sizes, seed):
            subject = checks.Subject(model, train, sizes, seed)
            if subject.is_finite() and subject.is_regular():
                return sizes
            possible = possible or sizes
    if possible is not None:
        return possible
    raise RunError(
        "no small sizes fit the spec", help=f"give them, for example --sizes {','.join(f'{n}=8' for n in names)}"
    )


#: lengths at which blocks of kernels are cut off in all ways: one entry, part of a block, a block and a bit, several
RAGGED = (1, 3, 17, 65, 130)
#: all open sizes have a length at once where an array along all of them has at most so many entries then
TOGETHER = 400


def ragged_sizes(
    model: p.Instance,
    train: p.TrainProgram | None,
    given: Mapping[str, int],
    seed: int,
    lengths: Sequence[int] = RAGGED,
) -> list[dict[str, int]]:
    """Sizes that a spec allows, with its open sizes of the given lengths; those that cannot have one are drawn.

    Short lengths are those of all open sizes at once. A size that is long alone has others of 2, and where there are
    several, one is long at 65, the next at 130, and so on.
    """
    units = [build(model, "inference"), *([build_train(train)] if train is not None else [])]
    names = open_sizes(units)
    found: dict[tuple[int, ...], dict[str, int]] = {}
    for length in lengths:
        alone = [[n] for n in names]
        if length > RAGGED[2]:
            choices = alone[length != RAGGED[3] :: 2] or alone
        else:
            choices = [names, *alone] if length ** len(names) <= TOGETHER else alone
        for chosen in choices:
            sizes = {**dict.fromkeys(names, 2), **dict.fromkeys(chosen, length), **given}
            if not (
                allowed(model, train, units, sizes, seed) and checks.Subject(model, train, sizes, seed).is_regular()
            ):
                try:
                    sizes = choose_sizes(model, train, {**dict.fromkeys(chosen, length), **given}, seed)
                except RunError:
                    continue
            found.setdefault(tuple(sizes.values()), sizes)
            if chosen is names:
                break
    return list(found.values())


def verify(
    path: Path, settings: Mapping[str, object], model: p.Instance, train: p.TrainProgram | None,
    sizes: Mapping[str, int], seed: int, backends: list[str], dtype: str = "f64",
    modules: dict[tuple[str, str], Loaded] | None = None, optimizer: p.Instance | None = None,
    given: Mapping[str, int] | None = None,
) -> list[checks.Check]:  # fmt: skip
    """All checks of a spec at given sizes, with parameters of a dtype; those by differences need float64.

    Modules are kept in the dictionary, if one is given, for the next sizes. With `given`, what is right is checked at a
    long size too, which is not one of those.
    """
    subject = checks.Subject(model, train, sizes, seed, dtype)
    rows: list[checks.Check] = []
    roots = tuple(subject.unit("outputs" if train is None else "training").outputs.values())
    large = checks.too_large(roots, sizes)
    modules = {} if modules is None else modules

    def module(backend: str, kind: str) -> Loaded:
        if (backend, kind) not in modules:
            modules[backend, kind] = LOADERS[backend](path, settings, model.name, kind)
        return modules[backend, kind]

    for name in backends:
        reference: Loaded | None = None
        try:
            loaded = module(name, dtype)
            if name != REFERENCE and train is not None and not large:
                reference = module(REFERENCE, reference_dtype(dtype))
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
        if overflow := subject.overflow():
            rows.append(checks.Check(name, "all", None, checks.EXACT, overflow))
            continue
        try:
            found = of_backend(subject, loaded, reference, optimizer)
        except ValueError as reason:  # modules refuse matrices that have no inverse
            if subject.is_regular():
                raise
            rows.append(checks.Check(name, "all", None, checks.EXACT, f"no solution at these sizes: {reason}"))
            continue
        if given is not None and dtype == "f64" and all(check.ok for check in found):
            found += at_length(subject, loaded, given)
        rows += found
    if train is not None and not large and dtype == "f64":
        rows.append(checks.second_order(subject))
    return rows


def of_backend(
    subject: checks.Subject, loaded: Loaded, reference: Loaded | None, optimizer: p.Instance | None = None
) -> list[checks.Check]:
    """The checks of one backend; others than the reference must also train as that one does."""
    rows = [checks.outputs(subject, loaded), *at_guards(subject, loaded), undisturbed(subject, loaded)]
    if has_step(loaded):
        rows.append(steps(subject, loaded))
    if subject.train is not None:
        rows += checks.training(subject, loaded)
        rows.append(checks.evaluation(subject, loaded))
        if subject.dtype == "f64":
            rows.append(checks.differences(subject, loaded))
            if optimizer is not None and all(row.ok for row in rows):  # a step cannot be better than its gradients
                rows.append(train_steps(subject, loaded, Rule(subject.train, optimizer)))
        if reference is not None:
            rows.append(checks.same_training(subject, loaded, reference))
    return rows


def merged(runs: Sequence[tuple[Mapping[str, int], list[checks.Check]]]) -> list[checks.Check]:
    """The checks of several runs: of each the worst result, and the sizes at which it was found."""
    rows: dict[tuple[str, str], checks.Check] = {}
    for sizes, found in runs:
        shown = ", ".join(f"{name}={value}" for name, value in sizes.items())
        for check in found:
            key = (check.backend, check.name)
            if key not in rows or check.badness > rows[key].badness:
                rows[key] = replace(check, note=f"{check.note}; {shown}" if shown else check.note)
    return list(rows.values())

"""The check that calls leave each other alone: arguments stay as they are, and results do when others are computed."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from dslc.meaning.interpret import Array
from dslc.verification.backends import Loaded
from dslc.verification.checks import Check, Subject

#: function -> the program whose values it is called with
FUNCTIONS = {"forward": "outputs", "loss_grad_metrics": "training", "evaluate": "inference"}


def undisturbed(subject: Subject, loaded: Loaded) -> Check:
    """No call changes its arguments, or the results of the call before it."""
    for function, mode in FUNCTIONS.items():
        if mode != "outputs" and subject.train is None:
            continue
        unit, values = subject.unit(mode), subject.inputs(mode)
        arguments, options = loaded.arguments(function, unit, values, subject.seed)
        given = deepcopy(loaded.plain((tuple(arguments), options)))
        with np.errstate(all="ignore"), loaded.running():
            result = loaded.plain(getattr(loaded.module, function)(*arguments, **options))
        kept = deepcopy(result)
        loaded.call(function, unit, replace(subject, seed=subject.seed + 1).inputs(mode), subject.seed + 1)
        after = loaded.plain((tuple(arguments), options))
        if not same(given, after):
            return Check(loaded.name, TITLE, np.inf, 0.0, f"`{function}` changes its arguments")
        if not same(kept, result):
            return Check(loaded.name, TITLE, np.inf, 0.0, f"results of `{function}` change with the next call")
    return Check(loaded.name, TITLE, 0.0, 0.0, "")


TITLE = "arguments and results stay"


def same(before: Any, after: Any) -> bool:
    """Whether arrays in tuples and dictionaries are bit by bit the same."""
    pairs = zip(leaves(before), leaves(after), strict=True)
    return all(np.array_equal(x, y, equal_nan=x.dtype.kind == "f") for x, y in pairs)


def leaves(value: Any) -> Iterator[Array]:
    if isinstance(value, dict | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from leaves(each)
    else:
        yield np.asarray(value)

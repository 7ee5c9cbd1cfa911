"""Weights from a file, with clear words when they do not fit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from dslc.arrays import Arrays
from dslc.resolve.files import did_you_mean
from dslc.run_errors import RunError
from dslc.training.checkpoint import WEIGHTS
from dslc.weights.files import read_headers, refuse_others

SAME = "give the same --set and --model as for `dslc train`; `dslc weights` brings in the weights of another framework"


def read_weights(module: ModuleType, path: Path, new: bool = False) -> tuple[Arrays, Arrays]:
    """Parameters and states (none for a model without them) from a safetensors or .npz file.

    What does not fit is told before anything is unpacked; with `new`, also that some of it may begin anew.
    """
    known = {**module.PARAMS, **getattr(module, "STATE", {})}
    with _in_words(path), open(path, "rb") as file:
        found, _ = read_headers(path, file)
    wrong = [name for name, entry in known.items() if name not in found or found[name][0] != entry[0]]
    help = f"{_begins_anew(wrong[0])}, if it is a new one; else {SAME}" if new and wrong else SAME
    with _in_words(path, help):
        refuse_others(path, found, known)
        return module.load(str(path)), module.load_state(str(path)) if hasattr(module, "load_state") else {}


def _begins_anew(name: str) -> str:
    """
    >>> _begins_anew("head.W")
    '`--new head` lets it begin anew'
    """
    return f"`--new {name.rpartition('.')[0] or name}` lets it begin anew"


def read_old_weights(module: ModuleType, path: Path, new: Sequence[str]) -> Arrays:
    """Parameters and states from a file but for those below the paths in `new`, which need not be in it."""
    wanted = {name: entry[0] for name, entry in {**module.PARAMS, **getattr(module, "STATE", {})}.items()}
    old = dict(wanted)
    for path_of in new:
        below = [name for name in wanted if name == path_of or name.startswith(path_of + ".")]
        if not below:
            heads = sorted({name.split(".")[0] for name in wanted})
            help = did_you_mean(path_of, [*wanted, *heads]) or "it has " + ", ".join(f"`{x}`" for x in heads[:8])
            raise RunError(f"--new {path_of}: the model has no parameter of that path", help=help)
        for name in below:
            old.pop(name, None)
    with _in_words(path), open(path, "rb") as file:
        found, read = read_headers(path, file)
        for name, shape in old.items():
            if name not in found:
                raise RunError(f"{path} has no `{name}`", help=_begins_anew(name))
            if found[name][0] != shape or found[name][1].kind not in "fiub":
                message = f"{path}: {name} has the shape {found[name][0]}, expected {shape}"
                raise RunError(message, help=_begins_anew(name))
        return {name: read(name) for name in old}


@contextmanager
def _in_words(path: Path, misfit: str = SAME) -> Iterator[None]:
    if not os.path.isfile(path):  # as that of a Path, but for a name that is too long
        what = "is a folder" if os.path.isdir(path) else "does not exist"
        raise RunError(f"{path} {what}", help="`dslc train` leaves weights.safetensors in its folder")
    try:
        yield
    except ValueError as error:
        damaged = "is damaged, or no" in str(error)
        help = f"`dslc train` leaves {WEIGHTS} in its folder" if damaged else misfit
        raise RunError(str(error), help=help) from error
    except OSError as error:
        raise RunError(
            f"cannot read {path}: {(error.strerror or str(error)).lower()}", help="check the path"
        ) from error

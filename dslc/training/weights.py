"""Weights from a file, with clear words when they do not fit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from dslc.resolve.files import did_you_mean
from dslc.training.checkpoint import WEIGHTS
from dslc.training.errors import RunError
from dslc.training.files import Arrays
from dslc.weights.files import read_arrays

SAME = "give the same --set and --model as for `dslc train`; `dslc weights` brings in the weights of another framework"


def read_weights(module: ModuleType, path: Path) -> tuple[Arrays, Arrays]:
    """Parameters and states (none for a model without them) from a safetensors or .npz file."""
    with _in_words(path):
        return module.load(str(path)), module.load_state(str(path)) if hasattr(module, "load_state") else {}


def read_old_weights(module: ModuleType, path: Path, new: Sequence[str]) -> Arrays:
    """Parameters and states from a file but for those below the paths in `new`, which need not be in it."""
    with _in_words(path):
        found = read_arrays(path)
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
    for name, shape in old.items():
        help = f"`--new {name.rpartition('.')[0] or name}` lets it begin anew"
        if name not in found:
            raise RunError(f"{path} has no `{name}`", help=help)
        if found[name].shape != shape or found[name].dtype.kind not in "fiub":
            message = f"{path}: {name} has the shape {found[name].shape}, expected {shape}"
            raise RunError(message, help=help)
    return {name: found[name] for name in old}


@contextmanager
def _in_words(path: Path) -> Iterator[None]:
    if not os.path.isfile(path):  # as that of a Path, but for a name that is too long
        what = "is a folder" if os.path.isdir(path) else "does not exist"
        raise RunError(f"{path} {what}", help="`dslc train` leaves weights.safetensors in its folder")
    try:
        yield
    except ValueError as error:
        damaged = "is damaged, or no" in str(error)
        help = f"`dslc train` leaves {WEIGHTS} in its folder" if damaged else SAME
        raise RunError(str(error), help=help) from error
    except OSError as error:
        raise RunError(
            f"cannot read {path}: {(error.strerror or str(error)).lower()}", help="check the path"
        ) from error

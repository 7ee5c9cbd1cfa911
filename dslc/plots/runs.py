"""Runs as their folders tell them: histories of one or of several seeds, weights, and what a run was of."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dslc.arrays import Arrays
from dslc.quoting import printable
from dslc.run_errors import RunError
from dslc.training.checkpoint import CHECKPOINT, PREVIOUS, RECORD, WEIGHTS, Snapshot, read_checkpoint
from dslc.weights.files import read_arrays

SEED = re.compile(r"seed-(\d+)")


@dataclass(frozen=True)
class RunFolder:
    """A run, or runs that differ in their seed: their folders, and what they are called in pictures."""

    name: str
    folders: tuple[Path, ...]

    @property
    def label(self) -> str:
        return self.name if len(self.folders) == 1 else f"{self.name} ({len(self.folders)} seeds)"

    def histories(self) -> list[list[dict[str, Any]]]:
        """The epochs of each seed."""
        found = [snapshot_of(folder).about["history"] for folder in self.folders]
        for folder, history in zip(self.folders, found, strict=True):
            if not history:
                help = "a history has an entry for each epoch that was finished: train on"
                raise RunError(f"{folder} has no finished epoch", help=help)
        return found

    def alone(self) -> list[RunFolder]:
        """Each seed as a run of its own."""
        if len(self.folders) == 1:
            return [self]
        return [RunFolder(f"{self.name}/{folder.name}", (folder,)) for folder in self.folders]


def runs_of(paths: Sequence[Path]) -> list[RunFolder]:
    """The runs in these folders, each once, under the shortest names that tell them apart."""
    unique = {path.resolve(): path for path in reversed(paths)}
    parts = [seeds_of(path) for path in reversed(unique.values())]
    names = names_of(list(reversed(unique)))
    return [RunFolder(name, tuple(found)) for name, found in zip(names, parts, strict=True)]


def seeds_of(path: Path) -> list[Path]:
    """The folder of a run itself, or those of its seeds."""
    if not os.path.isdir(path):
        what = "is a file" if os.path.exists(path) else "does not exist"
        raise RunError(f"{path} {what}", help="give the folder of a run, which `dslc train -o` names")
    if is_run(path):
        return [path]
    seeds = {int(m[1]): x for x in path.iterdir() if (m := SEED.fullmatch(x.name)) and is_run(x)}
    if not seeds:
        inside = sorted(x.name for x in path.iterdir() if x.is_dir() and is_run(x))
        help = "give the folder that `dslc train -o` wrote"
        if inside:
            help = f"give folders in it: {', '.join(str(path / name) for name in inside[:3])}"
        raise RunError(f"{path} is not the folder of a run: it has no {CHECKPOINT}", help=help)
    return [seeds[k] for k in sorted(seeds)]


def is_run(path: Path) -> bool:
    return (path / CHECKPOINT).exists() or (path / PREVIOUS).exists()


def names_of(folders: Sequence[Path]) -> list[str]:
    """The last words of paths, as many as it takes to tell them apart; of a seed, those of its run too.

    >>> names_of([Path("/r/mlp"), Path("/r/cnn/seed-0"), Path("/s/mlp")])
    ['r/mlp', 'cnn/seed-0', 's/mlp']
    """
    counts = [2 if SEED.fullmatch(folder.name) else 1 for folder in folders]
    while True:
        names = ["/".join(folder.parts[-count:]) for folder, count in zip(folders, counts, strict=True)]
        same = [k for k, name in enumerate(names) if names.count(name) > 1 and counts[k] < len(folders[k].parts)]
        if not same:
            # the legend of a figure leaves out what begins with a line
            return [printable(f"./{name}" if name.startswith("_") else name) for name in names]
        counts = [count + (k in same) for k, count in enumerate(counts)]


def snapshot_of(folder: Path) -> Snapshot:
    try:
        found = read_checkpoint(folder)
    except RunError as error:
        raise RunError(error.message, help=error.help.replace("--fresh", "`dslc train --fresh`")) from error
    assert found is not None, "the folder of a run"
    return found


def weights_of(folder: Path) -> Arrays:
    """Parameters and states as the run left them."""
    path = folder / WEIGHTS
    try:
        return dict(read_arrays(path))
    except FileNotFoundError as error:
        raise RunError(f"{folder} has no {WEIGHTS}", help="train on until the first checkpoint is written") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RunError(f"cannot read {path}: {reason}", help="check the path") from error
    except ValueError as error:
        raise RunError(str(error), help="the same `dslc train` writes them again") from error


#: what `run.json` says, and of which types
FIELDS: Mapping[str, tuple[type, ...]] = {
    "spec": (str,), "set": (dict,), "dtype": (str,), "model": (str,), "data": (str,), "test": (str, type(None)),
    "target": (str, type(None)), "drop": (list,), "validation": (int, float), "seed": (int,),
}  # fmt: skip


def record_of(folder: Path) -> dict[str, Any]:
    """Spec, settings and data of a run."""
    path = folder / RECORD
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        if not all(isinstance(about[name], kinds) for name, kinds in FIELDS.items()):
            raise ValueError
    except FileNotFoundError as error:
        message = f"{folder} has no {RECORD}, which says what spec and data the run is of"
        raise RunError(message, help="the same `dslc train` writes it again") from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        help = "the same `dslc train` writes it again"
        raise RunError(f"{path} cannot be used: it is not what `dslc train` writes", help=help) from error
    return dict(about)

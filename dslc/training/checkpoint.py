"""Checkpoints: all that a run needs to go on exactly where it was, in one file that is whole or not there."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dslc.arrays import Array, Arrays, as_numbers, read_arrays, write_arrays
from dslc.run_errors import RunError
from dslc.weights.files import write_parts
from dslc.writing import remove_leftovers, write_atomically

FORMAT = 1
CHECKPOINT = "checkpoint.npz"
PREVIOUS = "checkpoint.previous.npz"
WEIGHTS = "weights.safetensors"
#: what a run is of: its spec, settings and data
RECORD = "run.json"
#: what a file system says that has no links, or not so many
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK)


@dataclass
class Best:
    """The weights of the best epoch so far, and the value of the validation rows that made it so."""

    epoch: int
    value: float
    arrays: Arrays


@dataclass
class Snapshot:
    """A run between two steps: arrays by dotted name within their group, and numbers."""

    groups: dict[str, Arrays]
    about: dict[str, Any]
    best: Best | None = None
    #: how the file is called in messages
    origin: str = field(default="", compare=False)


def write_checkpoint(folder: Path, snapshot: Snapshot) -> None:
    """Write a checkpoint; the one before it stays beside it, and a failure leaves both as they were."""
    arrays: dict[str, Array] = {}
    for group, values in snapshot.groups.items():
        arrays |= {f"{group}/{name}": value for name, value in values.items()}
    about = {"format": FORMAT, **snapshot.about}
    if snapshot.best is not None:
        about["best"] = {"epoch": snapshot.best.epoch, "value": snapshot.best.value}
        arrays |= {f"best/{name}": value for name, value in snapshot.best.arrays.items()}
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    path = folder / CHECKPOINT
    try:
        write_arrays(path, arrays, lambda: keep_previous(path, folder / PREVIOUS))
    except OSError as error:
        raise cannot_write(path, error) from error


def clear(folder: Path, fresh: bool) -> None:
    """Delete what a killed run left half written, and to begin anew the checkpoints; the folder must be locked."""
    for name in (CHECKPOINT, PREVIOUS, WEIGHTS, RECORD):
        remove_leftovers(folder / name)
    for path in (folder / CHECKPOINT, folder / PREVIOUS, *epochs_of(folder).values()) if fresh else ():
        path.unlink(missing_ok=True)


def epochs_of(folder: Path) -> dict[int, Path]:
    """The checkpoints that were kept of epochs."""
    found = ((re.fullmatch(r"checkpoint\.epoch-(\d+)\.npz", x.name), x) for x in folder.iterdir())
    return dict(sorted((int(match[1]), x) for match, x in found if match))


def keep_epoch(folder: Path, epoch: int) -> None:
    """Give the checkpoint at the end of an epoch a name that the next one does not take."""
    also_called(folder / CHECKPOINT, folder / f"checkpoint.epoch-{epoch}.npz")


def read_epoch(folder: Path, epoch: int) -> Snapshot:
    """The checkpoint that was kept of an epoch."""
    kept = epochs_of(folder)
    if epoch not in kept:
        have = f"it has those of {', '.join(map(str, kept))}" if kept else "--every-epoch keeps them"
        raise RunError(f"--roll-back {epoch}: {folder} has no checkpoint of that epoch", help=have)
    return read_snapshot(kept[epoch])


def roll_back(folder: Path, epoch: int) -> None:
    """Put the checkpoint of an epoch in the place of the last one; those of later epochs are deleted."""
    kept = epochs_of(folder)
    also_called(kept[epoch], folder / CHECKPOINT)
    for path in (folder / PREVIOUS, *(x for number, x in kept.items() if number > epoch)):
        path.unlink(missing_ok=True)


def also_called(path: Path, name: Path) -> None:
    """Give a file a second name, in one step; where there are no links, to a copy."""
    link = name.with_name(f".{name.name}.part")
    link.unlink(missing_ok=True)
    try:
        os.link(path, link)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        shutil.copyfile(path, link)
    os.replace(link, name)


def keep_previous(path: Path, previous: Path) -> None:
    """Give the last checkpoint a second name, so that it is still there when the next one takes its place."""
    if path.exists():
        link = previous.with_name(f".{previous.name}.part")
        link.unlink(missing_ok=True)
        try:
            os.link(path, link)
        except OSError as error:  # a file system without links: the checkpoint alone must do
            if error.errno not in NO_LINKS:
                raise
            return
        os.replace(link, previous)


def write_weights(folder: Path, arrays: Mapping[str, Array]) -> None:
    """Parameters and states as a safetensors file, which `dslc run` and the module's own `load` read."""
    path, whole = folder / WEIGHTS, {name: np.asarray(value, order="C") for name, value in arrays.items()}
    for name, value in whole.items():
        if not np.isfinite(as_numbers(value)).all():
            raise RunError(f"{path} is not written: `{name}` is not finite", help="--fresh starts anew")
    try:
        write_atomically(path, lambda file: write_parts(file, whole, npz=False))
    except OSError as error:
        raise cannot_write(path, error) from error


def write_json(path: Path, about: Mapping[str, Any] | None) -> None:
    """A small file about a run; none where there is nothing to say, and then an old one goes."""
    if not about:
        path.unlink(missing_ok=True)
        return
    text = json.dumps(about, indent=1).encode()
    try:
        write_atomically(path, lambda file: file.writelines([text]))
    except OSError as error:
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError, after: str = "then the same command goes on from there") -> RunError:
    """What a person needs to know when the disk is full or read-only."""
    reason = (error.strerror or str(error)).lower()
    cure = {
        errno.ENOSPC: "free some space on that disk",
        errno.EDQUOT: "free some of your quota",
        errno.EROFS: "choose a folder on another disk with -o",
        errno.EACCES: "make the folder writable, or choose another with -o",
    }.get(error.errno or 0, "choose another folder with -o")
    last = path.with_name(CHECKPOINT)
    kept = f"; the last checkpoint is whole: {last}" if last.exists() else ""
    return RunError(f"cannot write {path}: {reason}{kept}", help=f"{cure}; {after}")


def read_checkpoint(folder: Path) -> Snapshot | None:
    """The last checkpoint of a folder, or None when there is none."""
    path, previous = folder / CHECKPOINT, folder / PREVIOUS
    if not path.exists() and not previous.exists():
        return None
    try:
        return read_snapshot(path)
    except RunError as error:
        raise RunError(error.message, help=_way_out(path, previous)) from error


def _way_out(path: Path, previous: Path) -> str:
    """How a run can go on whose checkpoint cannot be used."""
    anew = "--fresh starts anew"
    if previous.exists() and not path.is_dir():
        try:
            read_snapshot(previous)
        except RunError:
            return f"{previous} cannot be used, either; {anew}"
        return f"`mv {previous} {path}` goes on from the checkpoint before it; {anew}"
    return anew


def _count(x: Any) -> bool:
    return type(x) is int and 0 <= x < 2**63


def _means(x: Any) -> bool:
    return isinstance(x, dict) and all(isinstance(v, int | float) for v in x.values())


def _epoch(x: Any) -> bool:
    fields = {"epoch": _count, "steps": _count, "training": _means, "validation": _means}
    if not isinstance(x, dict) or x.keys() - {"gradient"} != fields.keys():
        return False
    return all(is_one(x[k]) for k, is_one in fields.items()) and _means(x.get("gradient", {}))


def _settings(x: Any) -> bool:
    return isinstance(x, dict) and all(v is None or isinstance(v, int | float | str) for v in x.values())


def _digest(x: Any) -> bool:
    return isinstance(x, list) and [type(v) for v in x] == [list, str, str] and all(map(_count, x[0]))


def _digests(x: Any) -> bool:
    return isinstance(x, dict) and all(map(_digest, x.values()))


#: what a checkpoint says beside its arrays, and what that must be; those in OPTIONAL may be missing
ABOUT: dict[str, Callable[[Any], bool]] = {
    "step": _count, "opt_seed": _count, "epoch": _count, "position": _count, "seen": _count, "seed": _count,
    "batch": lambda x: _count(x) and x > 0, "sums": _means, "spec": lambda x: isinstance(x, str),
    "backend": lambda x: isinstance(x, str), "validation": lambda x: isinstance(x, int | float), "data": _digests,
    "start": _digests,
    "history": lambda x: isinstance(x, list) and all(map(_epoch, x)),
    "best": lambda x: isinstance(x, dict) and _count(x.get("epoch")) and isinstance(_value_of_best(x), float),
    "norms": lambda x: _means(x) and x.keys() == {"sum", "largest", "steps"}, "settings": _settings, "averaged": _count,
    "moved": lambda x: isinstance(x, float) and x >= 0,
}  # fmt: skip
OPTIONAL = ("start", "best", "backend", "norms", "settings", "averaged", "moved")


def _value_of_best(best: dict[str, Any]) -> Any:
    """What made an epoch the best one: the loss, before there was a choice."""
    return best.get("value", best.get("loss"))


def backend_of_run(snapshot: Snapshot) -> str:
    """What a run computes with; checkpoints say so since there is a choice."""
    return str(snapshot.about.get("backend", "numpy"))


def read_snapshot(path: Path) -> Snapshot:
    """The checkpoint in a file, with all of its fields."""
    try:
        arrays = read_arrays(path)
        text = arrays.pop("about")
        about = json.loads(text.tobytes().decode()) if text.dtype == np.uint8 and text.ndim == 1 else None
        if not isinstance(about, dict):
            raise ValueError
    except (RunError, KeyError, ValueError, RecursionError) as error:
        reason = error.message if isinstance(error, RunError) else "it is not a checkpoint of dslc"
        raise RunError(f"the checkpoint {path} cannot be used: {reason}") from error
    if about.get("format") != FORMAT:
        found = about.get("format")
        raise RunError(f"the checkpoint {path} has the format {found} of another version of dslc, expected {FORMAT}")
    groups: dict[str, Arrays] = {}
    for key, value in arrays.items():
        group, _, name = key.partition("/")
        groups.setdefault(group, {})[name] = value
    best = groups.pop("best", None)
    for weights in (groups.get("params", {}), groups.get("opt.state", {}), groups.get("average", {}), best or {}):
        for name, value in weights.items():
            found = as_numbers(value)
            if found.dtype.kind == "f" and not np.isfinite(found).all():
                raise RunError(f"the checkpoint {path} cannot be used: `{name}` is not finite")
    for field_, is_one in ABOUT.items():
        needed = best is not None if field_ == "best" else field_ not in OPTIONAL
        if field_ not in about and not needed:
            continue
        if field_ not in about or not is_one(about[field_]):
            what = "is not what dslc writes" if field_ in about else "is missing"
            raise RunError(f"the checkpoint {path} cannot be used: `{field_}` {what}")
    kept = Best(about["best"]["epoch"], _value_of_best(about["best"]), best) if best is not None else None
    return Snapshot(groups, about, kept, str(path))


def fill(target: Mapping[str, Array], source: Mapping[str, Array], what: str, origin: str) -> None:
    """Copy arrays into those of the same names and shapes, whose layout stays: it decides the last bits of products."""
    help = "choose another folder with -o, or --fresh to start anew"
    if target.keys() != source.keys():
        names = sorted(target.keys() ^ source.keys())
        raise RunError(f"{origin} belongs to another model: {what} `{names[0]}` is in one of them only", help=help)
    for name, value in source.items():
        if target[name].shape != value.shape:
            message = f"{origin} belongs to another model: {what} `{name}` has the shape {value.shape}"
            raise RunError(f"{message}, expected {target[name].shape}", help=help)
        if target[name].dtype.kind != value.dtype.kind:
            message = f"{origin} belongs to another model: {what} `{name}` is stored as {value.dtype}"
            raise RunError(f"{message}, expected {target[name].dtype}", help=help)
        target[name][...] = value

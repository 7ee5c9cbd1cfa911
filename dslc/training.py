"""The training driver: batches, epochs, metrics, and checkpoints from which a run resumes exactly."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray[Any, Any]]


class TrainingError(Exception):
    """Something about the data, the checkpoint or the run that a person can mend."""


@dataclass
class Settings:
    batch: int = 64
    epochs: int = 10
    seed: int = 0


@dataclass
class Progress:
    """What is known after an epoch."""

    epoch: int
    steps: int
    loss: float
    metrics: dict[str, float] = field(default_factory=dict)


def load_data(path: Path, names: list[str]) -> tuple[Arrays, Arrays]:
    """Arrays for training, and those whose name begins with `test_`, from an .npz file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
    except (OSError, ValueError) as error:
        raise TrainingError(f"cannot read {path} as a .npz file of arrays: {error}") from error
    missing = [n for n in names if n not in found]
    if missing:
        have = ", ".join(sorted(found)) or "nothing"
        raise TrainingError(
            f"{path} has no array `{missing[0]}`; the training needs {', '.join(names)}, the file has {have}"
        )
    lengths = {n: len(found[n]) for n in names if found[n].ndim}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{n}: {k}" for n, k in lengths.items())
        raise TrainingError(f"the arrays of {path} differ in length along the first axis: {shown}")
    for name in names:
        if found[name].dtype.kind == "f" and not np.isfinite(found[name]).all():
            at = tuple(int(i) for i in np.argwhere(~np.isfinite(found[name]))[0])
            raise TrainingError(f"{path}: `{name}` holds {found[name][at]} at {at}; remove or replace it")
    test = {n: found[f"test_{n}"] for n in names if f"test_{n}" in found}
    return {n: found[n] for n in names}, test if len(test) == len(names) else {}


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Write beside the target and move it there in one step, so that a crash leaves the old file."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    os.close(handle)
    try:
        write(Path(name))
        with open(name, "rb") as file:
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        if os.path.exists(name):
            os.unlink(name)
        raise


def save_checkpoint(path: Path, params: Mapping[str, Any], opt: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    arrays = {f"params/{k}": v for k, v in params.items()}
    for name, value in opt.items():
        if isinstance(value, dict) and name not in ("metrics",):
            arrays.update({f"{name}/{k}": v for k, v in value.items()})
    text = json.dumps({**about, "step": opt["step"], "seed": opt["seed"]})
    arrays["about"] = np.frombuffer(text.encode(), np.uint8)

    def write(target: Path) -> None:
        with target.open("wb") as file:
            np.savez(file, **arrays)

    write_atomically(path, write)


def save_weights(path: Path, module: ModuleType, params: Arrays) -> None:
    write_atomically(path, lambda target: module.save(params, str(target)))


def load_checkpoint(path: Path, params: Arrays, opt: dict[str, Any]) -> dict[str, Any]:
    """Put a checkpoint back into `params` and `opt`; gives what it says about itself."""
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
        about = json.loads(bytes(found.pop("about")).decode())
    except Exception as error:
        raise TrainingError(f"the checkpoint {path} is damaged ({error}); delete it to start anew") from error
    for key, value in found.items():
        group, _, name = key.partition("/")
        target = params if group == "params" else opt.get(group, {})
        if name not in target or target[name].shape != value.shape:
            raise TrainingError(
                f"the checkpoint {path} belongs to another model (`{key}`); choose another folder with -o"
            )
        target[name][...] = value
    if any(f"params/{name}" not in found for name in params):
        raise TrainingError(f"the checkpoint {path} belongs to another model; choose another folder with -o")
    opt["step"], opt["seed"] = about["step"], about["seed"]
    return dict(about)


def train(
    module: ModuleType,
    data: Arrays,
    settings: Settings,
    folder: Path,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
    on_epoch: Callable[[Progress], None] = lambda progress: None,
) -> tuple[Arrays, dict[str, Any]]:
    """Train, leaving a checkpoint after every epoch; a run that was stopped goes on after the last one.

    The order of the rows depends on the seed and the epoch alone, so a resumed run ends with the same bits.
    """
    folder.mkdir(parents=True, exist_ok=True)
    params = module.init(settings.seed)
    opt = module.init_opt(params, settings.seed)
    checkpoint = folder / "checkpoint.npz"
    first = 0
    if checkpoint.exists():
        about = load_checkpoint(checkpoint, params, opt)
        first = int(about["epoch"])
        if about["settings_seed"] != settings.seed or about["batch"] != settings.batch:
            raise TrainingError(
                f"{checkpoint} was made with --seed {about['settings_seed']} --batch {about['batch']}; "
                "use the same ones, or another folder with -o"
            )
    count = len(next(iter(data.values())))
    for epoch in range(first, settings.epochs):
        order = np.random.Generator(np.random.Philox(key=[settings.seed, epoch])).permutation(count)
        losses: list[float] = []
        metrics: dict[str, list[float]] = {}
        for start in range(0, count, settings.batch):
            rows = order[start : start + settings.batch]
            try:
                params, opt = module.train_step(params, opt, *(x[rows] for x in data.values()))
            except (ValueError, TypeError) as error:
                raise TrainingError(str(error)) from error
            loss = float(opt["loss"])
            if not np.isfinite(loss):
                bad = next((k for k, v in params.items() if not np.isfinite(v).all()), "the loss itself")
                raise TrainingError(
                    f"the loss is {loss} at step {opt['step']} (epoch {epoch + 1}); "
                    f"first value that is not finite: {bad}. "
                    f"The last good weights are in {folder}"
                )
            losses.append(loss)
            for name, value in opt["metrics"].items():
                metrics.setdefault(name, []).append(float(value))
            on_step(opt["step"], loss)
        about = {"epoch": epoch + 1, "settings_seed": settings.seed, "batch": settings.batch}
        save_checkpoint(checkpoint, params, opt, about)
        save_weights(folder / "weights.safetensors", module, params)
        mean = {k: float(np.mean(v)) for k, v in metrics.items()}
        on_epoch(Progress(epoch + 1, opt["step"], float(np.mean(losses)), mean))
    return params, opt


def evaluate(module: ModuleType, params: Arrays, opt: Mapping[str, Any], data: Arrays) -> dict[str, float]:
    """Loss and metrics of given rows, all at once."""
    more = [opt["state"]] if "state" in opt else []
    loss, _, metrics, _ = module.loss_grad_metrics(params, *data.values(), *more)
    return {"loss": float(loss), **{k: float(v) for k, v in metrics.items()}}

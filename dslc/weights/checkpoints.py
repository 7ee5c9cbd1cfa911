"""Checkpoints of other frameworks as arrays: safetensors, .npz, and torch's files of weights alone."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from dslc.training.errors import RunError
from dslc.training.files import Arrays
from dslc.training.files import read_arrays as read_npz
from dslc.weights.files import read_arrays

#: where torch checkpoints keep their weights, if these are a part of them
INSIDE = ("state_dict", "model_state_dict", "model", "weights")
TORCH = (".pt", ".pth", ".bin", ".ckpt")


def read_checkpoint(path: Path) -> Arrays:
    """All arrays of a checkpoint, by name; its ending says what it is."""
    if not path.is_file():
        raise RunError(f"{path} {'is a folder' if path.is_dir() else 'does not exist'}", help="give the file itself")
    try:
        if path.suffix == ".npz":
            return read_npz(path)
        if path.suffix == ".safetensors":
            return dict(read_arrays(path))
        if path.suffix in TORCH:
            return _torch_arrays(path)
    except ValueError as error:
        raise RunError(str(error), help="write the file anew") from error
    except OSError as error:
        raise RunError(
            f"cannot read {path}: {(error.strerror or str(error)).lower()}", help="check the path"
        ) from error
    expected = ", ".join((".safetensors", ".npz", *TORCH))
    raise RunError(f"{path}: expected a file that ends in {expected}", help="save the weights in one of these forms")


def _torch_arrays(path: Path) -> Arrays:
    """A state dict, loaded without running any code that may be in the file."""
    try:
        import torch
    except ImportError as error:
        help = "install torch, or save the weights there with safetensors.torch.save_file"
        raise RunError(f"{path} is a file of torch, which is not installed", help=help) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged or hostile pickle leads torch to
        reason = str(error).split("\n")[0][:200]
        help = "save `model.state_dict()` alone: dslc reads weights and never code"
        raise RunError(f"cannot read {path} as weights alone: {reason}", help=help) from error
    for name in INSIDE:
        if isinstance(found, dict) and isinstance(found.get(name), dict):
            found = found[name]
    if not isinstance(found, dict):
        raise RunError(f"{path} holds no state dict", help="save `model.state_dict()`")
    arrays: Arrays = {}
    for name, value in found.items():
        if isinstance(value, torch.Tensor):
            plain = value.detach().float() if value.dtype == torch.bfloat16 else value.detach()
            arrays[str(name)] = plain.to_dense().contiguous().numpy()
    return arrays

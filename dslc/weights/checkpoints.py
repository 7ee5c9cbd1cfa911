"""Checkpoints of other frameworks as arrays: safetensors, .npz, and torch's files of weights alone."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

from dslc.arrays import Array, Arrays
from dslc.run_errors import RunError
from dslc.weights.files import read_arrays, refuse_bomb

#: where torch checkpoints keep their weights, if these are a part of them
INSIDE = ("state_dict", "model_state_dict", "model", "weights")
TORCH = (".pt", ".pth", ".bin", ".ckpt")


def read_checkpoint(path: Path) -> Arrays:
    """All arrays of a checkpoint, by name; its ending says what it is."""
    if not path.is_file():
        raise RunError(f"{path} {'is a folder' if path.is_dir() else 'does not exist'}", help="give the file itself")
    try:
        if path.suffix in (".safetensors", ".npz"):
            return dict(read_arrays(path))
        if path.suffix in TORCH:
            return _torch_arrays(path)
    except ValueError as error:
        raise RunError(str(error), help="write the file anew, uncompressed") from error
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
        help = "save `model.state_dict()` alone: dslc reads weights and never code"
        raise RunError(f"{path} {_refusal(path, str(error))}", help=help) from error
    for name in INSIDE:
        if isinstance(found, dict) and isinstance(found.get(name), dict):
            found = found[name]
    if not isinstance(found, dict):
        raise RunError(f"{path} holds no state dict", help="save `model.state_dict()`")
    tensors = {str(name): value.detach() for name, value in found.items() if isinstance(value, torch.Tensor)}
    refuse_bomb(path, sum(value.numel() * value.element_size() for value in tensors.values()))
    return {name: _array(path, name, value) for name, value in tensors.items()}


def _refusal(path: Path, told: str) -> str:
    """What a file is that torch does not read as weights alone."""
    with open(path, "rb") as file:
        first = file.read(2)
    if not first:
        return "is empty: expected what torch.save writes"
    if first != b"PK" and first[:1] != b"\x80":
        return "is no file of torch: expected what torch.save writes"
    if code := re.search(r"GLOBAL ([\w.]+)", told):
        return f"cannot be read as weights alone: it needs the code of `{code[1]}`"
    if "TorchScript" in told:
        return "cannot be read as weights alone: it is a program of TorchScript"
    return "is damaged, or holds something else than weights: expected a state dict, as torch.save writes it"


def _array(path: Path, name: str, value: Any) -> Array:
    """The entries of a tensor; bfloat16, which NumPy lacks, becomes float32."""
    import torch

    dtype = str(value.dtype).removeprefix("torch.")
    reasons = {
        "it has a shape and no entries: it was saved from the device `meta`": value.is_meta,
        f"it is quantised, as {dtype}; save `{name}.dequantize()` in its place": value.is_quantized,
        f"it is conjugated, as {dtype}; save `{name}.resolve_conj()` in its place": value.is_conj(),
        f"NumPy has no dtype {dtype}; save `{name}.float()` in its place": dtype.startswith("float8"),
    }
    try:
        if not any(reasons.values()):
            plain = value.float() if value.dtype == torch.bfloat16 else value
            made: Array = plain.to_dense().contiguous().numpy()
            return made
        reason = next(text for text, holds in reasons.items() if holds)
    except (TypeError, RuntimeError):
        reason = f"NumPy has no array for {dtype} in the layout {value.layout}"
    help = "save it as a plain float32 tensor, or leave it out"
    raise RunError(f"{path}: cannot read the tensor `{name}`: {reason}", help=help)

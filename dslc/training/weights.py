"""Weights from a file, with clear words when they do not fit."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from dslc.training.errors import RunError
from dslc.training.files import Arrays


def read_weights(module: ModuleType, path: Path) -> tuple[Arrays, Arrays]:
    """Parameters and states (none for a model without them) from a safetensors file."""
    from safetensors import SafetensorError

    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise RunError(f"{path} {what}", help="`dslc train` leaves weights.safetensors in its folder")
    try:
        return module.load(str(path)), module.load_state(str(path)) if hasattr(module, "load_state") else {}
    except SafetensorError as error:
        help = "`dslc train` leaves weights.safetensors in its folder"
        raise RunError(f"{path} is damaged, or no safetensors file: {error}", help=help) from error
    except ValueError as error:
        help = "give the same --set and --model as for `dslc train`"
        raise RunError(str(error), help=help) from error
    except OSError as error:
        raise RunError(
            f"cannot read {path}: {(error.strerror or str(error)).lower()}", help="check the path"
        ) from error

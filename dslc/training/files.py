"""Files of arrays: read without running code."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from dslc.training.errors import RunError
from dslc.writing import write_atomically

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = dict[str, Array]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for one process; the system lets go of it when the process ends, however it ends."""
    try:
        import fcntl
    except ImportError:  # a system without such locks
        yield
        return
    with open(folder / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            help = "wait for it, or choose another folder with -o"
            raise RunError(f"another run of dslc is writing to {folder}", help=help) from error
        yield


def remove_leftovers(folder: Path) -> None:
    """Delete what a killed process left half written."""
    for file in folder.glob(".*.part"):
        file.unlink(missing_ok=True)


def write_arrays(path: Path, arrays: Mapping[str, Any], before: Callable[[], None] | None = None) -> None:
    """An .npz file; other than numpy.savez, this takes any names."""

    def write(file: IO[bytes]) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, value in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(value), allow_pickle=False)

    write_atomically(path, write, before)


def read_arrays(path: Path) -> Arrays:
    """All arrays of an .npz file."""
    how = "write it with numpy.savez(path, name=array, ...)"
    if not path.exists():
        raise RunError(f"there is no file {path}", help="check the path")
    if path.is_dir():
        raise RunError(f"{path} is a folder", help="give the .npz file itself")
    try:
        file = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise RunError(f"cannot read {path} as an .npz file: {_reason(error)}", help=how) from error
    if not isinstance(file, np.lib.npyio.NpzFile):
        raise RunError(f"{path} holds one array without a name", help=how)
    found: Arrays = {}
    with file:
        for name in file.files:
            try:
                found[name] = file[name]
            except ValueError as error:
                if "allow_pickle" not in str(error):
                    raise RunError(
                        f"{path}: `{name}` is damaged: {_reason(error)}", help="write the file anew"
                    ) from error
                help = "such files can run code when they are read; make it an array of numbers"
                raise RunError(f"{path}: `{name}` holds Python objects", help=help) from error
            except (OSError, EOFError, zipfile.BadZipFile) as error:
                raise RunError(f"{path}: `{name}` is damaged: {_reason(error)}", help="write the file anew") from error
    return found


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "it is cut short or of another kind" if "pickle" in str(error) or not str(error) else str(error)

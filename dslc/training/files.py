"""Files of arrays: read without running code, written so that a crash leaves the old file whole."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from dslc.training.errors import RunError

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = dict[str, Array]


def write_atomically(path: Path, write: Callable[[IO[bytes]], None], before: Callable[[], None] | None = None) -> None:
    """Write beside the target, force it to the disk, and move it there in one step; `before` runs just before that."""
    path = path.absolute()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        if before is not None:
            before()
        os.replace(name, path)
    except BaseException:
        if os.path.exists(name):
            os.unlink(name)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk, where the system can do that."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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


def write_bytes(path: Path, data: bytes) -> None:
    """A file with this content, in one step."""

    def write(file: IO[bytes]) -> None:
        file.write(data)

    write_atomically(path, write)


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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

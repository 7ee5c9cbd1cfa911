"""Files of arrays: read without running code."""

from __future__ import annotations

import math
import os
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from dslc.run_errors import RunError
from dslc.writing import write_atomically

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = dict[str, Array]

#: bfloat16, which NumPy lacks, as modules in C keep it: the upper half of the bits of a float32
BFLOAT16 = np.dtype("V2")


def as_numbers(x: Any) -> Array:
    """An array that NumPy can compute with.

    >>> as_numbers(as_kept(np.array([1.0, 1.001]), BFLOAT16)), as_numbers(3)
    (array([1., 1.], dtype=float32), array(3))
    """
    found: Array = np.asarray(x)
    return (found.view(np.uint16).astype(np.uint32) << 16).view(np.float32) if found.dtype == BFLOAT16 else found


def as_kept(x: Array, dtype: Any) -> Array:
    """An array of numbers in a dtype, which may be bfloat16: rounded to it, ties to even."""
    if dtype != BFLOAT16:
        return x.astype(dtype)
    floats = np.asarray(x, np.float32, order="C")
    bits = floats.view(np.uint32)
    upper = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(floats == floats, upper, 0x7FC0).astype(np.uint16).view(BFLOAT16)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for one process; the system lets go of it when the process ends, however it ends.

    Whatever `.lock` is, nothing is written to it: a link is not followed, and what is in a file stays.
    """
    try:
        import fcntl
    except ImportError:  # a system without such locks
        yield
        return
    path = folder / ".lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if not path.is_symlink() and not path.is_dir():
            raise
        raise _no_lock(path) from error
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _no_lock(path)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            help = "wait for it, or choose another folder with -o"
            raise RunError(f"another run of dslc is writing to {folder}", help=help) from error
        yield
    finally:
        os.close(handle)


def _no_lock(path: Path) -> RunError:
    help = "remove it, or choose another folder with -o"
    return RunError(f"{path} is no plain file, and dslc locks a folder by a file of that name", help=help)


def write_arrays(path: Path, arrays: Mapping[str, Any], before: Callable[[], None] | None = None) -> None:
    """An .npz file; other than numpy.savez, this takes any names."""

    def write(file: IO[bytes]) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, value in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(value), allow_pickle=False)

    write_atomically(path, write, before)


#: how NumPy compresses, and how much smaller that makes bytes at most; others know no bound
LARGEST_RATIO = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1100}


def read_arrays(path: Path) -> Arrays:
    """All arrays of an .npz file; what its headers claim is believed only as far as the file is long enough for it."""
    how = "write it with numpy.savez(path, name=array, ...)"
    if not os.path.exists(path):  # as that of a Path, but for a name that is too long
        raise RunError(f"there is no file {path}", help="check the path")
    if not path.is_file():
        raise RunError(
            f"{path} is {'a folder' if path.is_dir() else 'no plain file'}", help="give the .npz file itself"
        )
    try:
        with open(path, "rb") as file:
            single = file.read(6) == np.lib.format.MAGIC_PREFIX
        archive = None if single else zipfile.ZipFile(path)
    except Exception as error:  # whatever a file of unknown content leads zipfile to
        raise RunError(f"cannot read {path} as an .npz file: {_reason(error)}", help=how) from error
    if archive is None:
        raise RunError(f"{path} holds one array without a name", help=how)
    found: Arrays = {}
    with archive:
        members = [x for x in archive.infolist() if x.filename.endswith(".npy")]
        if sum(x.compress_size for x in members) > path.stat().st_size:
            raise RunError(f"{path} is damaged: its parts are longer than the file", help="write the file anew")
        for member in members:
            name = member.filename.removesuffix(".npy")
            try:
                if name in found:
                    raise ValueError("there are two of that name")
                found[name] = _read_array(archive, member)
            except Objects as error:
                help = "such files can run code when they are read; make it an array of numbers"
                raise RunError(f"{path}: `{name}` holds Python objects", help=help) from error
            except Exception as error:  # whatever damaged bytes lead zipfile, zlib and NumPy to
                raise RunError(f"{path}: `{name}` is damaged: {_reason(error)}", help="write the file anew") from error
    return found


class Objects(ValueError):
    """An array of Python objects, which only code can read."""


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    """One array; its memory is taken once its shape is known to agree with the length of its part of the file."""
    if member.flag_bits & 1:
        raise ValueError("it is encrypted")
    if member.file_size > LARGEST_RATIO.get(member.compress_type, 0) * (member.compress_size + 16):
        raise ValueError("it is compressed otherwise than NumPy does")
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in headers:
            raise ValueError(f"it has the version {version[0]}.{version[1]} of NumPy's format, expected 1.0 or 2.0")
        shape, transposed, dtype = headers[version](file)
        if dtype.hasobject:
            raise Objects
        length = math.prod(shape) * dtype.itemsize
        if min(shape, default=1) < 0 or dtype.itemsize == 0 or file.tell() + length != member.file_size:
            raise ValueError(f"its shape {shape} and dtype {dtype} do not agree with its length")
        array = np.empty(shape[::-1] if transposed else shape, dtype)
        content = array.reshape(-1).view(np.uint8)
        for start in range(0, length, BLOCK):
            part = content[start : start + BLOCK]
            data = file.read(len(part))
            if len(data) != len(part):
                raise ValueError("it ends early")
            part[:] = np.frombuffer(data, np.uint8)
        file.read(1)  # reaching the end compares the checksum
    return (array.T if transposed else array).astype(dtype.newbyteorder("="), copy=False)


#: bytes that are read at a time
BLOCK = 2**20


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split())[:200] or "it is cut short or of another kind"

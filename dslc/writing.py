"""Files written so that a crash leaves the old file whole."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

#: bytes of a name that the part beside it begins with: a name has at most 255
SHORT = 200


def write_atomically(path: Path, write: Callable[[IO[bytes]], None], before: Callable[[], None] | None = None) -> None:
    """Write beside the target, force it to the disk, and move it there in one step; `before` runs just before that.

    A file that was there leaves its permissions. What is no regular file, such as /dev/null, is written to and stays.
    """
    path = path.absolute()
    if path.exists() and not path.is_file() and not path.is_dir():
        with open(path, "wb") as device:
            write(device)
        return
    short = os.fsdecode(os.fsencode(path.name)[:SHORT])
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{short}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~_umask())
        if before is not None:
            before()
        os.replace(name, path)
    except BaseException:  # an interrupt too must not leave the part behind
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def remove_leftovers(path: Path) -> None:
    """Delete what a process that was killed while it wrote this file left beside it, and nothing else."""
    own = re.compile(re.escape(f".{path.name}.") + r"(\w{8}\.)?part")  # as tempfile calls them
    for file in path.parent.iterdir():
        if own.fullmatch(file.name) and file.is_file() and not file.is_symlink():
            file.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk, where the system can do that."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_bytes(path: Path, data: bytes) -> None:
    """A file with this content, in one step."""

    def write(file: IO[bytes]) -> None:
        file.write(data)

    write_atomically(path, write)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

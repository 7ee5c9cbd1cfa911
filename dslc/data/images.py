"""Folders of images as arrays: a folder for each class, or images without classes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dslc.arrays import Array
from dslc.run_errors import RunError

#: endings of files that are read
ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
#: how Pillow calls images with so many channels
MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def read_images(
    folder: Path | str, size: tuple[int, int] | None = None, channels: int = 3, classes: Sequence[str] | None = None
) -> tuple[Array, Array, list[str]]:
    """Images in [0, 1] of shape [N, height, width, channels], the numbers of their classes, and the classes' names.

    Each folder below is a class, in the order of the names, unless `classes` gives them. Images are made as large as
    `size` (height, width); without it they must be equally large.
    """
    folder = Path(folder)
    inside = _entries(folder)
    named = [x.name for x in inside if x.is_dir()] if classes is None else list(classes)
    if not named:
        raise RunError(f"{folder} holds no folders", help="put the images of each class into a folder of its name")
    if extra := sorted({x.name for x in inside if x.is_dir()} - set(named)):
        help = f"it had {', '.join(f'`{x}`' for x in named[:8])}"
        raise RunError(f"{folder} has the class `{extra[0]}`, which did not occur in training", help=help)
    files, labels = [], []
    for number, name in enumerate(named):
        found = image_files(folder / name) if classes is None or (folder / name).is_dir() else []
        if not found and classes is None:
            raise RunError(f"the folder {folder / name} holds no images", help="remove it, or put some into it")
        files += found
        labels += [number] * len(found)
    return stacked(folder, files, size, channels), np.array(labels, np.int32), named


def image_files(folder: Path) -> list[Path]:
    """The images of a folder in the order of their names; hidden files apart, there may be nothing else."""
    found = _entries(folder)
    for path in found:
        if path.suffix.lower() not in ENDINGS:
            what = "a folder" if path.is_dir() else "no image that is read"
            raise RunError(f"{path} is {what}", help=f"images end with {', '.join(ENDINGS)}; move it elsewhere")
    return found


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(x for x in folder.iterdir() if not x.name.startswith("."))
    except OSError as error:
        raise RunError(f"cannot read {folder}: {(error.strerror or '').lower()}", help="check the path") from error


def stacked(folder: Path, files: Sequence[Path], size: tuple[int, int] | None, channels: int) -> Array:
    """The images of some files as one array."""
    if not files:
        raise RunError(f"{folder} holds no images", help="a run needs at least one")
    first = read_image(files[0], size, channels)
    found = np.empty((len(files), *first.shape), np.float32)
    for k, path in enumerate(files):
        image = first if k == 0 else read_image(path, size, channels)
        if image.shape != first.shape:
            (h, w), (h0, w0) = image.shape[:2], first.shape[:2]
            message = f"{path} has {h} x {w} pixels, and {files[0]} has {h0} x {w0}"
            raise RunError(
                message, help="fix the height and width in the spec, or with --set: images are then made that large"
            )
        found[k] = image
    return found


def read_image(path: Path, size: tuple[int, int] | None, channels: int) -> Array:
    """One image in [0, 1], of shape [height, width, channels]."""
    pillow = _pillow()
    if channels not in MODES:
        raise RunError(f"images have 1, 3 or 4 channels, not {channels}", help="change the input of the spec")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            with pillow.open(os.fspath(path)) as image:
                image = _oriented(image).convert(MODES[channels])
                if size is not None and image.size != size[::-1]:
                    image = image.resize(size[::-1], pillow.Resampling.BILINEAR)
                values = np.asarray(image, np.float32) / 255
    except Exception as error:  # whatever damaged bytes lead Pillow to
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise RunError(f"cannot read {path} as an image: {reason}", help="remove it, or write it anew") from error
    return values.reshape(*values.shape[:2], channels)


def _oriented(image: Any) -> Any:
    """An image turned as its camera says."""
    from PIL import ImageOps

    return ImageOps.exif_transpose(image)


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise RunError(
            "images are read with Pillow, which is not installed", help="pip install 'dslc[images]'"
        ) from error
    return Image

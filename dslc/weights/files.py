"""Files of weights, safetensors and .npz, read and written with NumPy and Python alone; modules carry this text."""

import json
import math
import os
import zipfile

import numpy as np

# ---- copied into modules ----

#: dtypes in safetensors files; NumPy lacks bfloat16, which is the upper half of a float32
FILE_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "<i1", "U8": "<u1", "BOOL": "|b1",
}  # fmt: skip


def read_arrays(path):
    """The arrays of a safetensors or .npz file; bfloat16 becomes float32. Nothing in a file can run code."""
    if os.fspath(path).endswith(".npz"):
        with open(path, "rb") as file:
            try:
                return dict(np.load(file, allow_pickle=False).items())
            except Exception as error:  # whatever damaged bytes lead zipfile and NumPy to
                raise ValueError(f"{path} is damaged, or no .npz file: {error}") from error
    found, data = read_header(path)
    arrays = {}
    for name, (kind, shape, start, end) in found.items():
        array = np.frombuffer(data[start:end], FILE_DTYPES[kind]).reshape(shape)
        arrays[name] = (array.astype("<u4") << 16).view("<f4") if kind == "BF16" else array
    return arrays


def read_header(path):
    """The tensors of a safetensors file (dtype, shape, first and last byte), and its bytes."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        known = size >= 8 and length <= min(size - 8, 100_000_000)
        header = file.read(length) if known else b""
        data = memoryview(file.read()) if known else b""

    def once(pairs):
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a name stands there twice")
        return dict(pairs)

    def whole(numbers):
        return isinstance(numbers, list) and all(type(n) is int and n >= 0 for n in numbers)

    try:
        if not known:
            raise ValueError("its header is longer than the file")
        entries = json.loads(header.decode(), object_pairs_hook=once)
        entries.pop("__metadata__", None)
        found = {name: (x["dtype"], x["shape"], *x["data_offsets"]) for name, x in entries.items()}
        for name, (_, shape, *offsets) in found.items():
            if not (whole(shape) and len(shape) <= 32 and whole(offsets) and len(offsets) == 2):
                raise ValueError(f"{name} has no proper shape and place")
        at = 0  # tensors lie one behind the other
        for name, (kind, shape, start, end) in sorted(found.items(), key=lambda entry: entry[1][2:]):
            if kind in FILE_DTYPES and end - start != math.prod(shape) * np.dtype(FILE_DTYPES[kind]).itemsize:
                raise ValueError(f"{name} has {end - start} bytes, which is not {kind} of shape {shape}")
            if start != at or end < start:
                raise ValueError(f"{name} overlaps another tensor, or there is a gap before it")
            at = end
        if at != len(data):
            raise ValueError(f"its tensors need {at} bytes, and {len(data)} are there")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged, or no safetensors file: {error}") from error
    for name, (kind, *_) in found.items():
        if kind not in FILE_DTYPES:
            raise ValueError(f"{path}: {name} is stored as {kind}, expected one of {', '.join(FILE_DTYPES)}")
    return found, data


def write_arrays(path, arrays):
    """Write a safetensors or .npz file, in one step: a crash leaves the file whole that was there before."""
    arrays = {name: np.asarray(x, order="C") for name, x in arrays.items()}
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        raise ValueError(f"cannot write {path}: it is no plain file")
    part = os.path.join(os.path.dirname(target), f".{os.urandom(8).hex()}.part")
    try:
        with open(part, "xb") as file:
            (write_npz if target.endswith(".npz") else write_safetensors)(file, arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    finally:
        if os.path.exists(part):
            os.remove(part)


def write_npz(file, arrays):
    with zipfile.ZipFile(file, "w") as archive:
        for name, x in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, x, allow_pickle=False)


def write_safetensors(file, arrays):
    kinds = {np.dtype(code): kind for kind, code in FILE_DTYPES.items()}
    header, end = {}, 0
    # each at a multiple of its size
    arrays = dict(sorted(arrays.items(), key=lambda entry: -entry[1].dtype.itemsize))
    for name, x in arrays.items():
        place = [end, end + x.nbytes]
        kind = kinds[x.dtype.newbyteorder("<")]
        header[name] = {"dtype": kind, "shape": list(x.shape), "data_offsets": place}
        end += x.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for x in arrays.values():
        file.write(x.astype(x.dtype.newbyteorder("<"), copy=False).tobytes())

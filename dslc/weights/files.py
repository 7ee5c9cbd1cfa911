"""Files of weights, safetensors and .npz, read and written with NumPy and Python alone; modules carry the second half.

What a module reads must be its own weights, as a table has them. The first half is for files of others, where headers
alone tell what is there, and for more words about files that do not fit.
"""

import io
import json
import math
import os
import tempfile
import zipfile

import numpy as np


def read_arrays(path):
    """All arrays of a safetensors or .npz file, whatever they are."""
    with open(path, "rb") as file:
        found, read = read_headers(path, file)
        refuse_bomb(path, sum(math.prod(shape) * dtype.itemsize for shape, dtype in found.values()))
        return {name: read(name) for name in found}


def refuse_bomb(path, length):
    """A few bytes may unpack to very many: where nothing tells how many to expect, there is a bound."""
    if length > max(2**28, 100 * os.path.getsize(path)):
        raise ValueError(f"{path}: its arrays would take {length} bytes, more than 100 times its length")


def read_headers(path, file):
    """Shape and dtype of each array in an open file, and the function that reads one of them."""
    return (npz_headers if os.fspath(path).endswith(".npz") else safetensors_headers)(path, file)


def refuse_others(path, found, known):
    """The arrays of a file must have the names and shapes of a table, and be numbers."""
    if found.keys() != known.keys():
        missing, extra = sorted(known.keys() - found.keys()), sorted(found.keys() - known.keys())
        wrong = f"missing {missing[:3]}, unknown {extra[:3]}"
        raise ValueError(f"{path} holds the weights of another model: {wrong}")
    for name, (shape, dtype) in found.items():
        if shape != known[name][0]:
            raise ValueError(f"{path}: {name} has the shape {shape}, expected {known[name][0]}")
        if dtype.kind not in "fiub":
            raise ValueError(f"{path}: {name} holds {dtype}, expected numbers")


def npz_headers(path, file):
    damaged = f"{path} is damaged, or no .npz file: "
    found = {}

    def read(name):
        try:
            with archive.open(f"{name}.npy") as part:
                return np.lib.format.read_array(part, allow_pickle=False)
        except Exception as error:  # whatever damaged bytes lead zipfile and NumPy to
            raise ValueError(f"{damaged}{name} cannot be unpacked") from error

    try:
        archive = zipfile.ZipFile(file)
    except Exception as error:
        raise ValueError(f"{damaged}expected an archive of arrays, as numpy.savez writes it") from error
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        try:
            with archive.open(f"{name}.npy") as part:
                head = io.BytesIO(part.read(2**14))
            major, _ = np.lib.format.read_magic(head)
            shape, _, dtype = getattr(np.lib.format, f"read_array_header_{major}_0")(head)
        except Exception as error:
            raise ValueError(f"{damaged}{name} is no array as NumPy writes it") from error
        if name in found or dtype.hasobject:
            raise ValueError(f"{damaged}{name} {'is there twice' if name in found else 'holds Python objects'}")
        if min(shape, default=0) < 0 or head.tell() + math.prod(shape) * dtype.itemsize != member.file_size:
            raise ValueError(f"{damaged}{name} has {member.file_size} bytes, which is not {dtype} of shape {shape}")
        found[name] = shape, dtype
    return found, read


def safetensors_headers(path, file):
    damaged = f"{path} is damaged, or no safetensors file: "
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(size - 8, 100_000_000):
        raise ValueError(f"{damaged}its header is longer than the file")

    def once(pairs):
        return dict(pairs) if len(dict(pairs)) == len(pairs) else None

    def whole(numbers):
        return isinstance(numbers, list) and all(type(n) is int and n >= 0 for n in numbers)

    def read(name):
        kind, shape, (start, end) = (entries[name][field] for field in fields)
        file.seek(8 + length + start)
        array = np.frombuffer(file.read(end - start), FILE_DTYPES[kind]).reshape(shape)
        return (array.view("<u2").astype("<u4") << 16).view("<f4") if kind == "BF16" else array

    try:
        entries = json.loads(file.read(length).decode(), object_pairs_hook=once)
    except (ValueError, RecursionError):
        entries = None
    if not isinstance(entries, dict):
        raise ValueError(f"{damaged}expected a table of tensors as its header, with each name once")
    entries.pop("__metadata__", None)
    fields = "dtype", "shape", "data_offsets"
    for name, x in entries.items():
        kind, shape, place = (x.get(field) if isinstance(x, dict) else None for field in fields)
        if not (isinstance(kind, str) and whole(shape) and len(shape) <= 32 and whole(place) and len(place) == 2):
            raise ValueError(f"{damaged}{name} has no proper dtype, shape and place")
    at = 0  # tensors lie one behind the other
    for name, x in sorted(entries.items(), key=lambda entry: entry[1]["data_offsets"]):
        kind, shape, (start, end) = (x[field] for field in fields)
        if kind in FILE_DTYPES and end - start != math.prod(shape) * np.dtype(FILE_DTYPES[kind]).itemsize:
            raise ValueError(f"{damaged}{name} has {end - start} bytes, which is not {kind} of shape {shape}")
        if start != at or end < start:
            raise ValueError(f"{damaged}{name} overlaps another tensor, or there is a gap before it")
        at = end
    if at != size - 8 - length:
        raise ValueError(f"{damaged}its tensors need {at} bytes, and {size - 8 - length} are there")
    found = {}
    for name, x in entries.items():
        if x["dtype"] not in FILE_DTYPES:
            raise ValueError(f"{path}: {name} is stored as {x['dtype']}, expected one of {', '.join(FILE_DTYPES)}")
        found[name] = tuple(x["shape"]), np.dtype("<f4" if x["dtype"] == "BF16" else FILE_DTYPES[x["dtype"]])
    return found, read


# ---- copied into modules ----

#: dtypes of safetensors files; NumPy lacks bfloat16, which is the upper half of a float32
FILE_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "|V2", "I64": "<i8", "I32": "<i4",
               "I16": "<i2", "I8": "|i1", "U8": "|u1", "BOOL": "|b1"}  # fmt: skip


def read_known(path, known):
    """The arrays of a file, each compared with a table before it is unpacked; nothing in a file can run code."""
    arrays, left = {}, {name: shape for name, (shape, *_) in known.items()}
    with open(path, "rb") as file:
        try:
            for name, shape, order, code, part, size in file_parts(file, os.fspath(path).endswith(".npz")):
                wanted, number = left.pop(name, "no more"), code.replace(">", "<") in FILE_DTYPES.values()
                if shape != wanted or not number or size != math.prod(shape) * int(code[2:]):
                    raise ValueError(f"{name} is {code} {shape} in {size} bytes, expected numbers {wanted}")
                x = np.frombuffer(part.read(size), code).reshape(shape, order=order)
                arrays[name] = (x.view("<u2").astype("<u4") << 16).view("<f4") if code == "|V2" else x
            if left:
                raise ValueError(f"missing {', '.join(left)}")
        except Exception as error:  # whatever damaged bytes lead Python and NumPy to
            raise ValueError(f"{path} is damaged, or holds the weights of another model: {error}") from error
    return {name: arrays[name] for name in known}


def file_parts(file, npz):
    """Name, shape, order, dtype, stream and length of each array in a file, to be read in this order."""
    if npz:
        for member in (archive := zipfile.ZipFile(file)).infolist():
            name, part = member.filename.removesuffix(".npy"), archive.open(member)
            np.lib.format.read_magic(part)
            shape, turned, dtype = np.lib.format.read_array_header_1_0(part)
            yield name, shape, "F" if turned else "C", dtype.str, part, member.file_size - part.tell()
        return
    end, first = os.fstat(file.fileno()).st_size, 8 + int.from_bytes(file.read(8), "little")
    table = json.loads(file.read(min(end, first) - 8), object_pairs_hook=tuple)
    entries = sorted((dict(x)["data_offsets"], n, dict(x), len(x)) for n, x in table if n != "__metadata__")
    places = [first + at for place, *_ in entries for at in place]
    if [first, *places[1::2]] != [*places[::2], end] or any(fields != 3 for *_, fields in entries):
        raise ValueError(f"its arrays do not fill the bytes from {first} to {end}, each described once")
    for (start, stop), name, x, _ in entries:
        yield name, tuple(x["shape"]), "C", FILE_DTYPES.get(x["dtype"], x["dtype"]), file, stop - start


def write_arrays(path, arrays):
    """Write a safetensors or .npz file, in one step: a crash leaves the file whole that was there before."""
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        raise ValueError(f"cannot write {path}: it is no plain file")
    with tempfile.TemporaryDirectory(prefix=".", dir=os.path.dirname(target)) as folder:
        with open(os.path.join(folder, "part"), "xb") as file:
            write_parts(file, arrays, target.endswith(".npz"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, target)


def write_parts(file, arrays, npz):
    if npz:
        with zipfile.ZipFile(file, "w") as archive:
            for name, x in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as part:
                    np.save(part, x, allow_pickle=False)
        return
    kinds, header, end = {code: kind for kind, code in FILE_DTYPES.items()}, {}, 0
    for name, x in sorted(arrays.items(), key=lambda item: -item[1].itemsize):  # each at a multiple of its size
        header[name] = {"dtype": kinds[x.dtype.str], "shape": x.shape, "data_offsets": [end, end := end + x.nbytes]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    file.writelines(arrays[name].tobytes() for name in header)

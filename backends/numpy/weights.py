"""Texts of the functions of a module that keep its weights on disk: without states, and with them."""

from __future__ import annotations

FILE_ARRAYS = '''
def file_arrays(path):
    """The arrays of a safetensors file; NumPy lacks bfloat16, which is the upper half of a float32."""
    from safetensors import deserialize

    with open(path, "rb") as file:
        entries = deserialize(file.read())
    kinds = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "BOOL": "?"}
    found = {}
    for name, entry in entries:
        if entry["dtype"] not in kinds:
            raise ValueError(f"{path}: {name} is stored as {entry['dtype']}, expected one of {', '.join(kinds)}")
        array = np.frombuffer(entry["data"], kinds[entry["dtype"]]).reshape(entry["shape"])
        found[name] = (array.astype("<u4") << 16).view("<f4") if entry["dtype"] == "BF16" else array
    return found
'''

SAVE = '''
def save(params, path):
    """Write parameters to a safetensors file."""
    from safetensors.numpy import save_file

    save_file({name: np.asarray(value, order="C") for name, value in params.items()}, path)


def load(path):
    """Read parameters from a safetensors file; names and shapes must be those of this model."""
    found = file_arrays(path)
    if found.keys() != PARAMS.keys():
        missing, extra = sorted(PARAMS.keys() - found.keys()), sorted(found.keys() - PARAMS.keys())
        raise ValueError(f"{path} holds the weights of another model: missing {missing[:3]}, unknown {extra[:3]}")
    for name, (shape, *_) in PARAMS.items():
        if found[name].shape != shape:
            raise ValueError(f"{path}: {name} has the shape {found[name].shape}, expected {shape}")
    return {name: found[name].astype(DTYPE) for name in PARAMS}
'''

SAVE_WITH_STATE = '''
def save(params, path, state=None):
    """Write parameters and states to a safetensors file; without `state`, those before the first step."""
    from safetensors.numpy import save_file

    arrays = {**params, **(init_state() if state is None else state)}
    save_file({name: np.asarray(value, order="C") for name, value in arrays.items()}, path)


def load(path):
    """Read parameters from a safetensors file; names and shapes must be those of this model."""
    return stored(path, PARAMS)


def load_state(path):
    """Read the states that stand beside the parameters in a safetensors file."""
    return stored(path, STATE)


def stored(path, wanted):
    """Some arrays of a safetensors file that must hold all parameters and states, and nothing else."""
    found = file_arrays(path)
    known = PARAMS.keys() | STATE.keys()
    if found.keys() != known:
        missing, extra = sorted(known - found.keys()), sorted(found.keys() - known)
        raise ValueError(f"{path} holds the weights of another model: missing {missing[:3]}, unknown {extra[:3]}")
    for name, (shape, *_) in wanted.items():
        if found[name].shape != shape:
            raise ValueError(f"{path}: {name} has the shape {found[name].shape}, expected {shape}")
    return {name: found[name].astype(DTYPE) for name in wanted}
'''

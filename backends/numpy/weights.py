"""Texts of the functions of a module that keep its weights on disk: without states, and with them."""

from __future__ import annotations

from dslc.weights.text import FILES as _FILES

#: the functions for files, as a module joins them: those that read, and those that write
STORED, FILES = _FILES[: _FILES.index("def write_arrays(")], _FILES[_FILES.index("def write_arrays(") :]

SAVE = '''
def save(params, path):
    """Write parameters to a safetensors file, or to an .npz file."""
    fitting(params, PARAMS, DTYPE)
    write_arrays(path, params)


def load(path):
    """Read parameters from a safetensors or .npz file; names and shapes must be those of this model."""
    return {name: x.astype(DTYPE) for name, x in read_known(path, PARAMS).items()}
'''

SAVE_WITH_STATE = '''
def save(params, path, state=None):
    """Write parameters and states as safetensors or .npz; without `state`, those before the first step."""
    fitting(params, PARAMS, DTYPE)
    write_arrays(path, {**params, **(init_state() if state is None else state)})


def load(path):
    """Read parameters from a safetensors or .npz file; names and shapes must be those of this model."""
    found = read_known(path, {**PARAMS, **STATE})
    return {name: found[name].astype(DTYPE) for name in PARAMS}


def load_state(path):
    """Read the states that stand beside the parameters in a file."""
    found = read_known(path, {**PARAMS, **STATE})
    return {name: found[name].astype(FLOAT) for name in STATE}
'''

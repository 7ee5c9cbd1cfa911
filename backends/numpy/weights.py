"""Texts of the functions of a module that keep its weights on disk: without states, and with them."""

from __future__ import annotations

from dslc.weights.text import FILES as FILES

SAVE = '''
def save(params, path):
    """Write parameters to a safetensors file, or to an .npz file."""
    fitting(params, PARAMS, DTYPE)
    write_arrays(path, params)


def load(path):
    """Read parameters from a safetensors or .npz file; names and shapes must be those of this model."""
    return stored(path, PARAMS, PARAMS, DTYPE)
'''

SAVE_WITH_STATE = '''
def save(params, path, state=None):
    """Write parameters and states as safetensors or .npz; without `state`, those before the first step."""
    fitting(params, PARAMS, DTYPE)
    write_arrays(path, {**params, **(init_state() if state is None else state)})


def load(path):
    """Read parameters from a safetensors or .npz file; names and shapes must be those of this model."""
    return stored(path, PARAMS, {**PARAMS, **STATE}, DTYPE)


def load_state(path):
    """Read the states that stand beside the parameters in a file."""
    return stored(path, STATE, {**PARAMS, **STATE}, FLOAT)
'''

STORED = '''
def stored(path, wanted, known, dtype):
    """Some arrays of a file that must hold all that are known, and nothing else."""
    found = read_known(path, known)
    return {name: found[name].astype(dtype) for name in wanted}
'''

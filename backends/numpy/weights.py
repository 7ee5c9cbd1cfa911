"""Texts of the functions of a module that keep its weights on disk: without states, and with them."""

from __future__ import annotations

import re

from dslc.weights.text import FILES as _FILES


def _changed(text: str, changes: dict[str, str]) -> str:
    """A text with other words in the place of some, each of which it has."""
    for old, new in changes.items():
        assert old in text, f"the functions for files have no {old!r}"
        text = text.replace(old, new)
    return text.strip("\n")


#: the functions for files, as a module with states joins them: those that read, and those that write
STORED, FILES = _FILES[: _FILES.index("def write_arrays(")], _FILES[_FILES.index("def write_arrays(") :]

_DTYPES, _READ, _PARTS = re.split(r"\n(?=def )", STORED)
_WRITE, _KINDS = FILES.split("\ndef ", 1)

#: a module without states has no other arrays in its files than its parameters: `save` and `load` are these functions
SAVE = _changed(
    _WRITE,
    {
        "def write_arrays(path, arrays):": "def save(params, path):",
        "Write a safetensors or .npz file, in one step: a crash leaves the file whole that was there before.": (
            "Write parameters to a safetensors or .npz file, in one step: a crash leaves the old file whole."
        ),
        "    target = ": "    fitting(params, PARAMS, DTYPE)\n    target = ",
        "(file, arrays, t": "(file, params, t",
    },
)
LOAD = _changed(
    _READ,
    {
        "def read_known(path, known):": "def load(path):",
        "The arrays of a file, each compared with a table before it is unpacked; nothing in a file can run code.": (
            "Read parameters from a safetensors or .npz file, each compared with `PARAMS` before it is unpacked."
        ),
        "arrays[name] for name in known": "arrays[name].astype(DTYPE) for name in PARAMS",
        "known.items()": "PARAMS.items()",
    },
)

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


def functions(states: bool) -> tuple[str, str]:
    """The functions for weights that users call, and those that these call."""
    if states:
        return SAVE_WITH_STATE, f"{STORED.strip()}\n\n\n{FILES.strip()}"
    return f"{SAVE}\n\n\n{LOAD}", "\n\n\n".join(x.strip("\n") for x in (_DTYPES, _PARTS, f"def {_KINDS}"))

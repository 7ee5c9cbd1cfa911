"""Names that mean something in a module: inputs and sizes that are called so get another one there."""

from __future__ import annotations

import ast
from pathlib import Path


def _definitions(file: str) -> dict[str, str]:
    """What a file defines, by name and as text: nothing of it is run here."""
    text = (Path(__file__).parent / file).read_text(encoding="utf-8")
    lines = text.splitlines()
    found: dict[str, str] = {}
    for node in ast.parse(text).body:
        match node:
            case ast.FunctionDef(name=name):
                found[name] = "\n".join(lines[node.lineno - 1 : node.end_lineno]).replace("  # fmt: skip", "")
    return found


#: functions and constants that a module may contain, by name
HELPERS = _definitions("runtime.py")

#: shorter ones of the same names, for modules that have no float64
SINGLE = {x: HELPERS.pop(f"{x}_single").replace(f"{x}_single", x) for x in ("normal_cdf",)}

#: what functions of a module read or write that is no value of the spec, so that no value is called so
TAKEN = frozenset({
    "np", "math", "sliding_window_view", "seed", "params", "state", "states", "grads", "forward",
    "PARAMS", "STATE", "DTYPE", "FLOAT", *HELPERS,
})  # fmt: skip

#: what inputs and sizes are not called either: names of the training step, and of Python, for which values have a rule
OWN = TAKEN | {
    "opt", "step", "loss_grad_metrics", "init_state", "update",
    "ValueError", "dict", "enumerate", "float", "int", "len", "list", "max", "min", "range", "reversed", "slice", "sum",
    "tuple", "zip",
}  # fmt: skip


def argument(name: str) -> str:
    """What functions of a module call an input or a size: its own name, unless that means something there.

    >>> argument("x"), argument("np"), argument("np_")
    ('x', 'np_', 'np__')
    """
    return f"{name}_" if name.rstrip("_") in OWN or name.rstrip("_").endswith("_update") else name

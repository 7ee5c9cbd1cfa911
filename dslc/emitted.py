"""Generated text looked at before anyone gets it: it is Python, and every name in it means something."""

from __future__ import annotations

import builtins
import symtable


class Fault(Exception):
    """dslc made a module that cannot be right: never the fault of a spec."""


def sound(text: str) -> str:
    """The text itself, when it parses and no function reads a global name that nothing defines.

    >>> sound("def f(x):\\n    return len(x)\\n")[:3]
    'def'
    >>> sound("def f(x):\\n    return threading.Lock()\\n")
    Traceback (most recent call last):
    dslc.emitted.Fault: a fault of dslc: the module reads `threading`, which nothing in it defines
    """
    try:
        table = symtable.symtable(text, "<module>", "exec")  # which parses all of it
    except (SyntaxError, ValueError) as error:
        raise Fault(f"a fault of dslc: the module is not Python: {error}") from error
    defined = {x.get_name() for x in table.get_symbols() if x.is_assigned() or x.is_imported()}
    known = defined | set(dir(builtins)) | {"__file__", "__name__", "__source__"}
    known.add("__class__")  # which Python lists where anything is called `super`
    below = list(table.get_children())
    while below:
        scope = below.pop()
        below += scope.get_children()
        free = {x.get_name() for x in scope.get_symbols() if x.is_global() and x.is_referenced()} - known
        if free:
            raise Fault(f"a fault of dslc: the module reads `{min(free)}`, which nothing in it defines")
    return text

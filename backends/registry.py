"""All backends: a new one is a folder or file with its record, and an entry here."""

from __future__ import annotations

from dslc.backends.c.backend import BACKEND as C
from dslc.backends.numpy.backend import BACKEND as NUMPY
from dslc.backends.record import Backend
from dslc.backends.triton.backend import BACKEND as TRITON

#: name -> record, in the order in which commands list them
BACKENDS: dict[str, Backend] = {
    backend.name: backend
    for backend in (
        NUMPY,
        C,
        TRITON,
    )
}


def backend_of(name: str) -> Backend:
    """The backend of that name; raises ValueError with the names that there are."""
    if name not in BACKENDS:
        *others, last = map(repr, BACKENDS)
        raise ValueError(f"there is no backend {name!r}; expected {', '.join(others)} or {last}")
    return BACKENDS[name]

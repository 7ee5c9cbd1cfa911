"""What the C file of a module offers, as data: its header and its Python module are written from it.

    typedef struct { int64_t N; const float *x; const mlp_params *params; float *logits; } mlp_forward_arguments;
    size_t mlp_forward_workspace(const mlp_forward_arguments *a);      bytes that `forward` works in, at these sizes
    int32_t mlp_forward(const mlp_forward_arguments *a, void *workspace, size_t bytes);   0, or a code for mlp_message

An entry is a function with one struct of arguments, whose fields are in this order: sizes, numbers, inputs, tables that
are read, the seed, results, tables that are written, saved values. A table is a struct of pointers, with a field for
each parameter (or state): parameters, gradients and the slots of an optimiser are tables of one type.
"""

from __future__ import annotations

from dataclasses import dataclass

from dslc.sizes import Size

#: entries that torch asks for alone: a C file has them where it is compiled with -DNAME_ADJOINTS
ADJOINTS = ("forward_saving", "adjoint", "forward_training", "adjoint_training")


def adjoints_macro(prefix: str) -> str:
    """What is defined where a C file is compiled with its adjoints.

    >>> adjoints_macro("mlp")
    'MLP_ADJOINTS'
    """
    return f"{prefix.upper()}_ADJOINTS"


@dataclass(frozen=True)
class Field:
    """One array of a struct: an argument, a result, a parameter, a state."""

    #: as a spec or a user of the module calls it: `x`, `block.*.W`, `loss`
    name: str
    #: as the struct calls it
    field: str
    #: f16, bf16, f32, f64, i32, i64 or bool (bytes)
    dtype: str
    shape: tuple[Size, ...]
    #: a parameter that each layer of a loop has: the field points to as many pointers as the product of these counts
    layers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Table:
    """A field that points to a struct of arrays: `const mlp_params *params`."""

    field: str
    #: params, state or wide_params
    kind: str


@dataclass(frozen=True)
class Entry:
    """One function of the C file."""

    name: str
    #: int64_t fields: the open sizes
    sizes: tuple[str, ...]
    #: double fields: hyper-parameters of an optimiser
    numbers: tuple[str, ...]
    inputs: tuple[Field, ...]
    reads: tuple[Table, ...]
    #: is there a field `uint64_t seed`?
    seed: bool
    results: tuple[Field, ...]
    #: params: gradients (null where a parameter is not trained) or what an update changes; state: next values
    writes: tuple[Table, ...]
    #: as a spec calls the sizes and the numbers
    symbols: tuple[str, ...]
    #: "written" or "read", where there are fields `void *saved` and `size_t saved_bytes`
    saved: str = ""


@dataclass(frozen=True)
class Interface:
    """All that a C file offers."""

    #: what its names begin with
    prefix: str
    params: tuple[Field, ...]
    state: tuple[Field, ...]
    entries: tuple[Entry, ...]
    #: messages by code: the first is for 0
    messages: tuple[str, ...]
    #: where parameters are kept in 16 bits, the arrays of a table of their gradients, which are wider
    wide: tuple[Field, ...] = ()

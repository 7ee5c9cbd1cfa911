"""The header of a C file: its structs and functions, from what the file offers as data."""

from __future__ import annotations

from collections.abc import Iterable

from dslc.backends.c.interface import ADJOINTS, Entry, Field, Interface, Table, adjoints_macro
from dslc.backends.c.text import TYPES as OWN

from dslc.quoting import printable
from dslc.sizes import show

#: types that C and C++ have in common; numbers of 16 bits are given as their bits
TYPES = {**OWN, "f16": "uint16_t"}
BITS = {"f16": ", the bits of f16", "bf16": ", the bits of bf16"}


def header(interface: Interface, source: str) -> str:
    """The text of NAME.h, for C and C++."""
    guard = f"{interface.prefix.upper()}_H"
    return f"""\
/* {comment(interface.prefix)}, compiled by dslc from {comment(source)} */
#ifndef {guard}
#define {guard}

#ifdef __cplusplus
extern "C" {{
#endif

{declarations(interface).strip()}

#ifdef __cplusplus
}}
#endif

#endif
"""


def declarations(interface: Interface) -> str:
    """The structs and prototypes that NAME.h and NAME.c have in common.

    >>> made = Interface("m", (Field("b", "b", "f32", (3,)),), (), (), ("no error",))
    >>> print(declarations(made).split("*/")[1].split("/*")[0].strip())
    typedef struct m_params {
        float *b;
    """
    prefix = interface.prefix
    blocks = ["#include <stddef.h>\n#include <stdint.h>"]
    for kind, fields, what in (
        ("params", interface.params, "Parameters." if interface.wide else f"Parameters; {WIDE} in the same struct."),
        ("wide_params", interface.wide, f"Parameters as the optimiser changes them; {WIDE} in it, too."),
        ("state", interface.state, "The states of the model."),
    ):
        if fields:
            blocks.append(f"/* {what} */\n{struct(f'{prefix}_{kind}', map(stored, fields))}")
    if interface.entries:
        blocks.append(CALLED.replace("PREFIX", prefix))
    blocks += [declared(interface, entry) for entry in interface.entries]
    blocks.append(
        "/* What a code of the functions above means: a text that stays. */\n"
        f"const char *{prefix}_message(int32_t code);"
    )
    blocks.append(
        "/* How many threads the functions above work with: 0 for as many as there are processors. */\n"
        f"void {prefix}_threads(int count);"
    )
    return "\n\n".join(blocks) + "\n"


#: what is kept in the same struct as parameters, where these are floats
WIDE = "gradients and the slots of an optimiser are kept"

#: what is said of all functions once
CALLED = """\
/* Each function below takes a struct of arguments and memory to work in, at a multiple of 64, of as many bytes as its
   _workspace tells for the sizes in the struct. It returns 0, or a code for PREFIX_message. */"""


def declared(interface: Interface, entry: Entry) -> str:
    """The struct of arguments of one function, and its prototypes."""
    name = f"{interface.prefix}_{entry.name}"
    given = f"const {name}_arguments *a"
    only = f"\n   Compiled with -D{adjoints_macro(interface.prefix)} alone." if entry.name in ADJOINTS else ""
    saves = f"size_t {name}_saves({given}); /* bytes that it saves */"
    return "\n".join([
        f"/* {comment(purpose(entry))}{only} */",
        struct(f"{name}_arguments", arguments(interface, entry)),
        *([saves] if entry.saved == "written" else []),
        f"size_t {name}_workspace({given});",
        f"int32_t {name}({given}, void *workspace, size_t bytes);",
    ])  # fmt: skip


#: what the functions of a module do, by name
PURPOSES = {
    "forward": "The outputs of the model for inference.",
    "loss_grad_metrics": "The loss of a batch, the metrics, the gradients of the loss, and the next values of states.",
    "evaluate": "The loss and the metrics of data, for inference.",
    "update": "One step of the optimiser: new parameters and slots, in place.",
    "init_cache": "The cache of a sequence before its first position.",
    "step": "The outputs at one more position of a sequence; the cache is changed in place.",
    "forward_saving": "The outputs of the model for inference; what their adjoints read is saved.",
    "adjoint": "The adjoints of parameters and inputs, from those of the outputs and what forward_saving has saved.",
    "forward_training": "The outputs of the model as it is trained, and the next values of states; what their adjoints"
    " read is saved.",
    "adjoint_training": "The adjoints of parameters and inputs, from those of the outputs and what forward_training has"
    " saved.",
}


def purpose(entry: Entry) -> str:
    return PURPOSES.get(entry.name, entry.name)


def arguments(interface: Interface, entry: Entry) -> list[tuple[str, str]]:
    """The fields of a struct of arguments in order: as C writes them, and what is said beside them."""
    prefix = interface.prefix
    lines = [(f"int64_t {name};", "") for name in entry.sizes]
    lines += [(f"double {name};", "") for name in entry.numbers]
    lines += [stored(field) if field.layers else array(field, "const ") for field in entry.inputs]
    lines += [table(prefix, x, "const ") for x in entry.reads]
    lines += [("uint64_t seed;", "of the random draws")] * entry.seed
    lines += [stored(field) for field in entry.results]
    lines += [table(prefix, x) for x in entry.writes]
    if entry.saved:
        const = "const " * (entry.saved == "read")
        lines += [(f"{const}void *saved;", "at a multiple of 64"), ("size_t saved_bytes;", "")]
    return lines


def array(field: Field, const: str = "") -> tuple[str, str]:
    return f"{const}{TYPES[field.dtype]} *{field.field};", described(field)


def table(prefix: str, x: Table, const: str = "") -> tuple[str, str]:
    return f"{const}{prefix}_{x.kind} *{x.field};", ""


def stored(field: Field) -> tuple[str, str]:
    """A parameter or state as a field of its table; of layers, a pointer to one pointer for each."""
    if not field.layers:
        return array(field)
    counts = " * ".join(map(str, field.layers))
    return f"{TYPES[field.dtype]} **{field.field};", f"{described(field)}: {counts} arrays, one for each layer"


def described(field: Field) -> str:
    """The name of an array in the spec, and its shape.

    >>> described(Field("dense.W", "dense_W", "f32", (64, 10)))
    'dense.W [64, 10]'
    """
    return f"{field.name} [{', '.join(show(size) for size in field.shape)}]{BITS.get(field.dtype, '')}"


def struct(name: str, fields: Iterable[tuple[str, str]]) -> str:
    """A struct with its comments below each other."""
    rows = list(fields)
    width = max((len(code) for code, told in rows if told), default=0)
    lines = [f"    {code:{width}} /* {comment(told)} */" if told else f"    {code}" for code, told in rows]
    return "\n".join([f"typedef struct {name} {{", *lines, f"}} {name};"])


def comment(text: str) -> str:
    """A text that cannot end the comment that it stands in."""
    return printable(text).replace("*/", "* /").replace("/*", "/ *")

"""How the functions of a C file are called from Python, as a part of the module: pointers, workspace, errors."""

import ctypes
import operator
import struct
import threading

import numpy as np
from dslc.backends.numpy.runtime import fitting

# ---- copied into modules ----


class Function:
    """A function of the C file: all fields of its struct of arguments take 8 bytes, which `layout` tells."""

    def __init__(self, library, prefix, name, layout):
        self.pack = struct.Struct(f"@{layout}").pack
        self.run, self.room = library[f"{prefix}_{name}"], library[f"{prefix}_{name}_workspace"]
        self.run.argtypes, self.run.restype = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t], ctypes.c_int32
        self.room.argtypes, self.room.restype = [ctypes.c_char_p], ctypes.c_size_t
        self.message = library[f"{prefix}_message"]
        self.message.argtypes, self.message.restype = [ctypes.c_int32], ctypes.c_char_p

    def __call__(self, *fields):
        given = self.pack(*fields)
        room = self.room(given)
        code = self.run(given, workspace(room), room)
        if code:
            raise ValueError(self.message(code).decode())


class Saving(Function):
    """A function that saves values for another one, in memory that it gives back."""

    def __init__(self, library, prefix, name, layout):
        super().__init__(library, prefix, name, layout)
        self.saves = library[f"{prefix}_{name}_saves"]
        self.saves.argtypes, self.saves.restype = [ctypes.c_char_p], ctypes.c_size_t

    def __call__(self, *fields):
        size = self.saves(self.pack(*fields, 0, 0))
        saved = place_of(size)
        super().__call__(*fields, address(saved), size)
        return saved


def place_of(size):
    """So many bytes at a multiple of 64."""
    memory = np.empty(size + 64, np.uint8)
    first = -address(memory) % 64
    return memory[first : first + size]


def in_place(saved):
    """Saved values at a multiple of 64: hooks of torch may have brought them to another place."""
    if address(saved) % 64 == 0:
        return saved
    placed = place_of(saved.size)
    placed[:] = saved
    return placed


#: what a thread has of its own
LOCAL = threading.local()


def workspace(size):
    """The address of so many bytes, which a thread keeps for its next call."""
    at, room, _ = getattr(LOCAL, "workspace", (0, -1, None))
    if room < size:
        memory = np.empty(size + 64, np.uint8)
        at = -(-address(memory) // 64) * 64
        LOCAL.workspace = at, size, memory
    return at


def address(array, first=ctypes.c_char.from_buffer, of=ctypes.addressof):
    """Where the entries of an array begin."""
    try:
        return of(first(array))
    except (TypeError, ValueError):  # that way is quicker, but not for memory that is read only, or empty
        return array.__array_interface__["data"][0]


class Pointers:
    """A struct of pointers to the arrays of a dict: the memory they point to lives as long as it does.

    Arrays that are not in rows are copied, and copied back by `leave`.
    """

    def __init__(self, table, arrays):
        self.names, self.arrays = tuple(arrays), tuple(arrays.values())
        held = {name: array if array.flags.carray else np.array(array, order="C") for name, array in arrays.items()}
        self.copies = [(arrays[name], copy) for name, copy in held.items() if copy is not arrays[name]]
        self.memory = table.struct()
        self.at = at = ctypes.addressof(self.memory)
        self.memory[:] = [
            address(held[name]) if name in held else 0 if isinstance(name, str) else at + 8 * name
            for name in table.places
        ]

    def leave(self):
        """Write into the arrays of the dict what the C code has written into copies."""
        for array, copy in self.copies:
            array[...] = copy


class Table:
    """A C struct of pointers to named arrays: `fields` are names, or for arrays of layers lists of them."""

    def __init__(self, known, fields, dtype, of=""):
        self.known, self.fields, self.dtype, self.of = known, fields, dtype, of
        #: what stands in the struct, and behind it the pointers of layers: names, or places further on
        self.places, below = [], []
        for name in fields:
            self.places.append(name if isinstance(name, str) else len(fields) + len(below))
            below += [] if isinstance(name, str) else name
        self.places += below
        self.struct = ctypes.c_uint64 * len(self.places)
        self.last = None

    def __call__(self, values):
        """Pointers to the arrays of a dict, which are compared with the table where they are others than before."""
        last = self.last
        if (
            last is not None
            and type(values) is dict
            and tuple(values) == last.names
            and all(map(operator.is_, values.values(), last.arrays))
        ):
            return last
        fitting(values, self.known, self.dtype, self.of)
        made = Pointers(self, values)
        if not made.copies:  # what a copy holds is out of date at the next call
            self.last = made
        return made

    def fresh(self, names):
        """New arrays, with pointers to them; those that are not named have none."""
        arrays = {name: np.empty(self.known[name][0], self.dtype) for name in names}
        return arrays, Pointers(self, arrays)

    def kept(self, names):
        """The same as `fresh`, in memory that a thread keeps for its next call."""
        held = LOCAL.__dict__.setdefault("kept", {})
        if id(self) not in held:
            held[id(self)] = self.fresh(names)
        return held[id(self)]

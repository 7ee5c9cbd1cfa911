"""The C functions of a module run by a program of another processor: what a call reads and writes is carried over."""

from __future__ import annotations

import ctypes
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from dslc.backends.c.text import identifier

#: reads blocks of memory, puts their new addresses into those that hold pointers, calls a function, writes them back
PROGRAM = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
DECLARED
typedef struct { uint64_t was, size, pointers; char *now; } block;
static void *room(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!p) exit(1);
    return p;
}
int main(int count, char **words) {
    FILE *in = fopen(words[1], "rb"), *out = fopen(words[2], "wb");
    uint64_t number, blocks;
    if (count != 3 || !in || !out || !fread(&number, 8, 1, in) || !fread(&blocks, 8, 1, in)) return 1;
    block *b = room(blocks * sizeof *b);
    for (uint64_t k = 0; k < blocks; k++) {
        if (fread(b + k, 8, 3, in) != 3) return 1;
        b[k].now = room(b[k].size);
        if (fread(b[k].now, 1, b[k].size, in) != b[k].size) return 1;
    }
    for (uint64_t k = 0; k < blocks; k++)
        for (uint64_t i = 0; b[k].pointers && i + 8 <= b[k].size; i += 8) {
            uint64_t p;
            memcpy(&p, b[k].now + i, 8);
            for (uint64_t j = 1; j < blocks; j++)
                if (p >= b[j].was && p < b[j].was + b[j].size) {
                    char *now = b[j].now + (p - b[j].was);
                    memcpy(b[k].now + i, &now, 8);
                    break;
                }
        }
    int32_t code = 0;
    const void *a = b[0].now;
    switch (number) {
CALLED
    }
    fwrite(&code, 4, 1, out);
    for (uint64_t k = 1; k < blocks; k++)
        if (!b[k].pointers) fwrite(b[k].now, 1, b[k].size, out);
    return fclose(out);
}
"""


class Carried:
    """The functions of the C code of a module in a program, and the memory that Python has told addresses of."""

    def __init__(self, module: ModuleType, prefix: str, compiler: list[str], runner: list[str], folder: Path) -> None:
        self.folder, self.runner = folder, runner
        self.names = [x[2:] for x, f in vars(module).items() if type(f) is vars(module)["Function"]]
        self.held: dict[int, tuple[int, bool]] = {}
        self.calls = 0
        declared = [
            f"size_t {prefix}_{x}_workspace(const void *);\nint32_t {prefix}_{x}(const void *, void *, size_t);"
            for x in self.names
        ]
        called = [
            f"case {k}: {{ size_t n = {prefix}_{x}_workspace(a); code = {prefix}_{x}(a, room(n), n); break; }}"
            for k, x in enumerate(self.names)
        ]
        text = PROGRAM.replace("DECLARED", "\n".join(declared)).replace("CALLED", "\n".join(called))
        (folder / "main.c").write_text(text, encoding="utf-8")
        (folder / "module.c").write_text(module.C_TEXT, encoding="utf-8")
        subprocess.run([*compiler, "main.c", "module.c", "-o", "carried", "-pthread", "-lm"], cwd=folder, check=True)
        self.watch(module)

    def watch(self, module: ModuleType) -> None:
        """Note what each address stands for, and run the functions of the program instead of those of the library."""
        address, pointers = module.address, module.Pointers

        def noted(array: Any) -> int:
            at = int(address(array))
            self.held[at] = array.nbytes, array.dtype == np.uint64
            return at

        class Noted(pointers):  # type: ignore[misc, valid-type]
            def __init__(made, *given: Any) -> None:
                super().__init__(*given)
                self.held[made.at] = ctypes.sizeof(made.memory), True

        module.address, module.Pointers = noted, Noted
        for number, name in enumerate(self.names):
            layout = getattr(module, f"c_{name}").pack.__self__.format
            setattr(module, f"c_{name}", self.function(number, layout, module))

    def function(self, number: int, layout: str, module: ModuleType) -> Callable[..., None]:
        def call(*fields: Any) -> None:
            given = struct.pack(layout, *fields)
            blocks = [(0, given, True), *self.reached(given)]
            head = struct.pack("QQ", number, len(blocks))
            parts = [struct.pack("QQQ", at, len(data), held) + data for at, data, held in blocks]
            (self.folder / "call").write_bytes(b"".join([head, *parts]))
            command = [*self.runner, str(self.folder / "carried"), "call", "back"]
            subprocess.run(command, cwd=self.folder, check=True)
            back = (self.folder / "back").read_bytes()
            code, first = int.from_bytes(back[:4], "little"), 4
            if code:
                raise ValueError(f"the program gave back {code}")
            for at, data, held in blocks[1:]:
                if not held:
                    ctypes.memmove(at, back[first : first + len(data)], len(data))
                    first += len(data)
            assert first == len(back)
            self.calls += 1

        return call

    def reached(self, given: bytes) -> list[tuple[int, bytes, bool]]:
        """The blocks of memory that a struct leads to, by way of pointers: where they are, and what is in them."""
        found: dict[int, tuple[bytes, bool]] = {}
        waiting = [given]
        while waiting:
            block = waiting.pop()
            for at in np.frombuffer(block, np.uint64).tolist():
                if at in self.held and at not in found:
                    size, pointers = self.held[at]
                    found[at] = ctypes.string_at(at, size), pointers
                    waiting += [found[at][0]] if pointers else []
        return [(at, data, pointers) for at, (data, pointers) in found.items()]


def carried(module: ModuleType, path: Path, compiler: list[str], runner: list[str], folder: Path) -> Carried:
    """Let the functions of a module run in a program that a compiler makes, and another program runs."""
    return Carried(module, identifier(path.stem), compiler, runner, folder)

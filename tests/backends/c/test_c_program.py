"""The program of docs/c.md trains the digits MLP and runs it, without Python; a program in C++ calls a model."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dslc.compiler import compile_files, compile_module

ROOT = Path(__file__).parents[3]
MLP = ROOT / "specs/mlp/mlp.dsl"


def test_a_c_program_trains_the_digits_mlp(tmp_path: Path) -> None:
    page = (ROOT / "docs/c.md").read_text(encoding="utf-8")
    _, program = re.findall(r"```c\n(.*?)```", page, re.DOTALL)
    (command,) = re.findall(r"^cc .*program\.c.*$", page, re.MULTILINE)
    for name, text in compile_files(MLP, "c").items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "digits.c").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [*command.replace("program.c", "digits.c").split(), "-Wall", "-o", "digits"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "digits.c" not in done.stderr

    data = np.load(ROOT / "specs/data/digits.npz")
    x, label = data["x"].astype(np.float32), data["label"].astype(np.int64)
    (files,) = re.findall(r"```python\n(\"{3}files\.py.*?)```", page, re.DOTALL)
    (tmp_path / "files.py").write_text(files.replace("specs/", f"{ROOT}/specs/"), encoding="utf-8")
    subprocess.run([sys.executable, "files.py"], cwd=tmp_path, check=True)
    numpy = compile_module(MLP)
    given = ["data.safetensors", "start.safetensors", str(len(x))]
    told = subprocess.run(["./digits", *given, "10"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    right, rows = map(int, re.findall(r"\d+", told))
    params = numpy.init(0)
    opt = numpy.init_opt(params)
    for _ in range(10):
        for first in range(0, len(x) - 63, 64):
            numpy.train_step(params, opt, x[first : first + 64], label[first : first + 64])
    wanted = int((numpy.forward(params, x).argmax(1) == label).sum())
    assert rows == len(x) and right > 0.97 * rows and abs(right - wanted) <= 3

    done = subprocess.run(["./digits", *given[:2], "7", "1"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr == "x is not in the file, or not of 448 entries\n"


SPEC = """
model m(virtual: f32[N, 2], new: i32[N] < 4, this: f16[N, 2]) -> template: [N]:
    param delete: [4] ~ ones
    template[n] = (virtual[n, i] + f32(this[n, i])) * delete[new[n]]
"""
PROGRAM = """
#include "m.h"
#include <cstdio>
#include <vector>
int main() {
    float x[] = {1, 2, 3, 4}, scale[] = {1, 10, 100, 1000}, y[2];
    int32_t at[] = {1, 3};
    uint16_t half[] = {0x3C00, 0, 0, 0xC000};
    m_params params{};
    params.delete_ = scale;
    m_forward_arguments a{};
    a.N = 2, a.virtual_ = x, a.new_ = at, a.this_ = half, a.params = &params, a.template_ = y;
    std::vector<char> memory(m_forward_workspace(&a) + 64);
    char *first = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    const int32_t code = m_forward(&a, first, memory.size() - 64);
    std::printf("%s: %g %g\\n", m_message(code), y[0], y[1]);
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ on this machine")
def test_a_program_in_cpp_calls_a_model(tmp_path: Path) -> None:
    (tmp_path / "m.dsl").write_text(SPEC, encoding="utf-8")
    for name, text in {**compile_files(tmp_path / "m.dsl", "c"), "main.cpp": PROGRAM}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for command in (
        "gcc -O1 -Wno-psabi -c m.c -o m.o",
        "g++ -std=c++11 -Wall -Wextra -pedantic -Werror main.cpp m.o -o main -pthread -lm",
    ):
        subprocess.run(command.split(), cwd=tmp_path, check=True)
    told = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert told == "no error: 40 5000\n"

"""C modules agree with the interpreter whichever compiler made them, and for which processor.

All specs: `pytest -m "" tests/backends/c/test_c_compilers.py`. What this machine lacks is skipped, and said.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
from carried import carried
from cases import SPECS
from test_c_half import MODELS, test_modules_give_what_those_of_numpy_give
from test_c_specs import agrees, trains

OPTIONS = "-O1 -fopenmp-simd -fno-math-errno -fno-trapping-math -ffp-contract=fast"
#: a compiler, what it is told about the processor, and what the processor must have
COMPILERS = {
    "gcc, AVX-512": ("gcc", "-march=x86-64-v4", "avx512f"),
    "gcc, AVX2": ("gcc", "-march=x86-64-v3", "avx2"),
    "gcc, baseline": ("gcc", "-march=x86-64", "sse2"),
    "gcc, native": ("gcc", "-march=native", ""),
    "clang, native": ("clang", "-march=native", ""),
    "clang, baseline": ("clang", "-march=x86-64", "sse2"),
    "zig, native": (f"{sys.executable} -m ziglang cc", "-march=native", ""),
}
#: those that the other tests do not use by default
OTHERS = [x for x in COMPILERS if x != "gcc, native"]
SOME = ("specs/mlp/mlp.dsl",)


@pytest.fixture
def chosen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A compiler that modules are made with during a test."""
    command, machine, needed = COMPILERS[request.param]
    if (shutil.which("gcc") if command == "gcc" else shutil.which(command.split()[0])) is None:
        pytest.skip(f"there is no {command} on this machine")
    if "ziglang" in command and importlib.util.find_spec("ziglang") is None:
        pytest.skip("there is no zig beside this Python: pip install ziglang")
    about = Path("/proc/cpuinfo")
    if needed and (not about.exists() or needed not in about.read_text(encoding="utf-8")):
        pytest.skip(f"this processor has no {needed}")
    monkeypatch.setenv("CC", command)
    monkeypatch.setenv("DSLC_CFLAGS", f"{OPTIONS} {machine}")
    return str(request.param)


@pytest.mark.parametrize("chosen", ["gcc, baseline", "clang, native"], indirect=True)
def test_another_compiler_makes_a_module_that_agrees_with_the_interpreter(chosen: str) -> None:
    agrees(SOME[0], "f32", 17)


@pytest.mark.long
@pytest.mark.parametrize("path", SPECS)
@pytest.mark.parametrize("chosen", OTHERS, indirect=True)
def test_modules_of_each_compiler_agree_with_the_interpreter(path: str, chosen: str) -> None:
    agrees(path, "f32", 17)
    if path in SOME:
        trains(path)


@pytest.mark.wide(11)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("chosen", OTHERS, indirect=True)
def test_numbers_of_16_bits_need_no_type_of_the_compiler(chosen: str, kind: str, name: str, tmp_path: Path) -> None:
    test_modules_give_what_those_of_numpy_give(name, kind, "f32", tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("path", SPECS)
def test_modules_for_arm_agree_with_the_interpreter(path: str, tmp_path: Path) -> None:
    """Compiled for aarch64 and run by an emulator: `apt install gcc-aarch64-linux-gnu qemu-user`."""
    for tool in ("aarch64-linux-gnu-gcc", "qemu-aarch64"):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool} on this machine")

    def emulated(module: ModuleType, path: Path) -> None:
        folder = tmp_path / str(len(os.listdir(tmp_path)))
        folder.mkdir()
        carried(module, path, ["aarch64-linux-gnu-gcc", "-static", *OPTIONS.split()], ["qemu-aarch64"], folder)

    agrees(path, "f64", 3, emulated)
    if path in SOME:
        agrees(path, "f32", 17, emulated)
        trains(path, emulated)

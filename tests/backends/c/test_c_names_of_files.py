"""What stands in a C file beside formulas: names of files and folders, settings and comments, which run no code."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from compiled import compiler

import dslc
from dslc.cli.arguments import setting
from dslc.compiler import compile_files, compile_text, imported

CODE = "int ran_in_c = 1;"
#: ends of comments and strings, of lines, and trigraphs, which are other signs to a compiler that is asked for them
HOSTILE = [
    "*", "* {}", "\n{}\n", "\r{}\r", '"; {} ', '"\n{}\n"', "??", "a\\\n{}", "\\", "a \\", "%s%n{}", "\x0c{}",
    "\u2028{}", "é\udcff", "\x1b[2J", "??'{}??'", "#define double float", "\n#define double float\n#define float int\n",
]  # fmt: skip
SPEC = """
from "{parts}" import scaled   # a comment \\
# another ??/
model m(x: f32[N, 3], gain = 2.0, kind = "a") -> y: [N, 3] where N < 9:   # */ int ran_in_c = 1; /* ??/
    z = scaled(x) * gain   # ends with \\
    y = exp(z) + 1         # a trigraph ??/
    # "quoted" \\
    y = y + z if kind != "*/ int ran_in_c = 1; /*" else y # */ int ran_in_c = 1; /*

train m(x: f32[N, 3], target: f32[N, 3]):
    minimize mean((m(x) - target)^2)    # \\
    using sgd(lr = 0.1)
"""
PARTS = """
layer scaled(x: [N, 3]) -> y: [N, 3]:
    param w: [3]   # \\
    y[n, k] = tanh(x[n, k] * w[k]) # ??/
"""
X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def bare(text: str, folder: Path, *flags: str) -> str:
    """The text of a C file without comments and strings."""
    file = folder / "bare.c"
    file.write_text(text, encoding="utf-8")
    command = [compiler(), "-E", "-P", "-fpreprocessed", *flags, str(file)]
    found = subprocess.run(command, capture_output=True, check=True).stdout.decode(errors="replace")
    return re.sub(r'"(\\.|[^"\\\n])*"', '""', found)


@pytest.mark.point("F")
@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_the_name_of_a_file_or_folder_is_no_code(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = name.replace("{}", CODE)
    folder = tmp_path / name
    folder.mkdir()
    parts = f"{name}.dsl" if name.isprintable() and not set(name) & {'"', "\\"} else "parts.dsl"
    (folder / parts).write_text(PARTS, encoding="utf-8")
    spec = folder / f"{name} spec.dsl"
    spec.write_text(SPEC.replace("{parts}", parts), encoding="utf-8")
    for file, text in compile_files(spec, "c").items():
        if file.endswith((".c", ".h")):
            for flags in ([], ["-trigraphs"]):
                code = bare(text, tmp_path, *flags)
                assert not re.search(r"\bran_in_c\b|define (double|float)", code)
    monkeypatch.setenv("DSLC_CFLAGS", "-O0 -march=native -fopenmp-simd -trigraphs")
    module, wanted = dslc.compile(spec, backend="c"), imported(compile_text(spec, "numpy"), "wanted")
    params = wanted.init(0)
    np.testing.assert_allclose(module.forward(params, X), wanted.forward(params, X), rtol=1e-5)
    np.testing.assert_allclose(module.loss_and_grad(params, X, X)[0], wanted.loss_and_grad(params, X, X)[0], rtol=1e-5)
    with pytest.raises(ValueError, match=r"spec.dsl:4 needs N < 9, found N = 9"):
        module.forward(params, np.zeros((9, 3), np.float32))


@pytest.mark.point("F")
@pytest.mark.parametrize("value", ["*/ {} /*", '"; {} //', "\n{}\n", "a\\", "??/\n{}"], ids=ascii)
def test_the_value_of_a_setting_is_no_code(value: str, tmp_path: Path) -> None:
    (tmp_path / "parts.dsl").write_text(PARTS, encoding="utf-8")
    spec = tmp_path / "m.dsl"
    spec.write_text(SPEC.replace("{parts}", "parts.dsl"), encoding="utf-8")
    _, given = setting(f"kind={value.replace('{}', CODE)}")
    for file, text in compile_files(spec, "c", {"kind": given}).items():
        if file.endswith((".c", ".h")):
            assert "ran_in_c" not in bare(text, tmp_path, "-trigraphs")

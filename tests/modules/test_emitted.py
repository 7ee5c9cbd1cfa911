"""What modules are made of beside formulas: names of files and folders, which anyone may choose, run no code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dslc.cli.arguments import setting
from dslc.cli.main import main
from dslc.compiler import compile_text, imported
from dslc.diagnostics.spec_error import SpecError
from dslc.emitted import Fault, sound

SPEC = """
from "{parts}" import scaled

model m(x: f32[N, 3], gain = 2.0, kind = "a") -> y: [N, 3] where N < 9:
    y = scaled(x) * gain

train m(x: f32[N, 3], target: f32[N, 3]):
    minimize mean((m(x) - target)^2)
    using sgd(lr = 0.1)
"""
PARTS = """
layer scaled(x: [N, 3]) -> y: [N, 3]:
    param w: [3]
    y[n, k] = tanh(x[n, k] * w[k])
"""
RUN = "__import__('sys').modules.update(RAN=__import__('sys'))"
HOSTILE = [
    '"""\n{}\n"""', '"\n{}\n"', "\n{}\n", "\r{}\r", "\x0c{}\x0c", "\u2028{}\u2028", "\x85{}", "\\", '\\"', "'", '"',
    "{{{}}}", "#  # {}",
    '", {}, "', "', {}, '", "%s{}", "é\udcff\udc80", "\x1b[2J", '"""', "it's \"{}\"",
]  # fmt: skip


@pytest.fixture
def nothing_ran() -> Iterator[None]:
    yield
    assert sys.modules.pop("RAN", None) is None, "code in the name of a file ran"


@pytest.mark.point("F")
@pytest.mark.usefixtures("nothing_ran")
@pytest.mark.parametrize("backend", ["numpy", "triton"])
@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_the_name_of_a_file_or_folder_runs_no_code(name: str, backend: str, tmp_path: Path) -> None:
    name = name.replace("{}", RUN)
    folder = tmp_path / name
    folder.mkdir()
    parts = f"{name}.dsl" if name.isprintable() and not set(name) & {'"', "\\"} else "parts.dsl"
    (folder / parts).write_text(PARTS, encoding="utf-8")
    spec = folder / f"{name} spec.dsl"
    spec.write_text(SPEC.format(parts=parts), encoding="utf-8")
    text = compile_text(spec, backend)
    assert text.encode()
    module = imported(text, spec.stem)
    assert module.__doc__.startswith("m, compiled by dslc from ")
    assert any(":4" in line for line in lines_of(module.MANIFEST))
    with pytest.raises(ValueError, match=r"spec.dsl:4 needs N < 9, found N = 9"):
        module.forward(module.init(), np.zeros((9, 3), np.float32))


def lines_of(manifest: dict[str, Any]) -> list[str]:
    """The spec lines that a manifest speaks of."""
    if "kernels" in manifest:
        return [line for about in manifest["kernels"].values() for line in about["lines"]]
    files = [item for about in manifest.values() for item in about["lines"].items()]
    return [f"{file}:{line}" for file, lines in files for line in lines]


@pytest.mark.point("F")
@pytest.mark.usefixtures("nothing_ran")
@pytest.mark.parametrize("backend", ["numpy", "triton"])
@pytest.mark.parametrize("name", ["gain", "kind"])
@pytest.mark.parametrize("value", HOSTILE[:4], ids=ascii)
def test_the_value_of_a_setting_runs_no_code(value: str, name: str, backend: str, tmp_path: Path) -> None:
    (tmp_path / "parts.dsl").write_text(PARTS)
    spec = tmp_path / "m.dsl"
    spec.write_text(SPEC.format(parts="parts.dsl"))
    _, given = setting(f"{name}={value.replace('{}', RUN)}")
    try:
        text = compile_text(spec, backend, {name: given})
    except SpecError:
        return
    imported(text, "m").init()


@pytest.mark.parametrize("text", ["def f(:\n", "def f():\n    return threading.Lock()\n", "x = 'a\nb'\n", "y = \0"])
def test_a_module_that_is_not_python_is_a_fault_of_dslc(text: str) -> None:
    with pytest.raises(Fault, match="a fault of dslc"):
        sound(text)


def test_the_compiler_writes_no_broken_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.dsl").write_text("model m(x: f32[N]) -> y: [N]:\n    y = x + 1\n")
    monkeypatch.setattr("dslc.backends.numpy.module.generate", lambda *given: "def f(:\n")
    with pytest.raises(SystemExit) as end:
        main(["compile", str(tmp_path / "m.dsl"), "-o", str(tmp_path / "m.py")])
    assert end.value.code == 70 and not (tmp_path / "m.py").exists()
    said = capsys.readouterr().err
    assert "a fault of dslc: the module is not Python" in said and "please attach" in said

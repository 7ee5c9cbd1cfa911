"""Names of specs that are as long as a file system allows, or not UTF-8: every command takes them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from dslc.cli.main import main

SPEC = """
model line(x: f32[N, 3]) -> y: [N]:
    param w: [3] ~ ones
    y[n] = x[n,i]*w[i]

train line(x):
    minimize mean((line(x) - 1)^2)
    using sgd(lr = 0.1)
"""

NAMES = {"248 bytes": b"a" * 244, "248 bytes of others": "\u00e4".encode() * 122, "not UTF-8": b"a\xff\xfe\x80"}


def run(*arguments: object) -> object:
    """The exit status of a command."""
    with pytest.raises(SystemExit) as end:
        main([str(a) for a in arguments])
    return end.value.code


@pytest.mark.point("L")
@pytest.mark.parametrize("name", NAMES)
def test_every_command_takes_the_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stem = os.fsdecode(NAMES[name])
    spec, data = Path(f"{stem}.dsl"), Path(f"{stem}.npz")
    spec.write_text(SPEC, encoding="utf-8")
    np.savez(data, x=np.ones((4, 3), np.float32))
    weights = Path("runs") / stem / "weights.safetensors"
    for command in (
        ("check", spec), ("check", "--json", spec), ("fmt", spec), ("show", spec, "--stage", "code"), ("cost", spec),
        ("compile", spec, "-o", f"{stem}.py"), ("compile", spec, "-b", "triton", "-o", f"{stem}.py"),
        ("train", spec, "--data", data, "--steps", 1), ("train", spec, "--data", data, "--steps", 2, "--json"),
        ("run", spec, "--weights", weights, "--inputs", data, "-o", f"{stem}.out"),
        ("verify", spec, "-b", "numpy", "--sizes", "N=2", "--json"),
    ):  # fmt: skip
        assert run(*command) == 0, command
    assert Path(f"{stem}.py").stat().st_size and Path(f"{stem}.out").stat().st_size
    assert "x[n, i] * w[i]" in spec.read_text(encoding="utf-8")
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.point("F")
@pytest.mark.parametrize("options", [(), ("-b", "triton")])
def test_a_name_with_escapes_is_shown_without_them(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a\x1b[31m[red].dsl").write_text(SPEC, encoding="utf-8")
    assert run("cost", "a\x1b[31m[red].dsl", *options) == 0
    told = capsys.readouterr().out
    assert "\x1b" not in told and "a\ufffd[31m[red].dsl:4" in told
    np.savez("x.npz", x=np.ones((4, 3), np.float32))
    assert run("train", "a\x1b[31m[red].dsl", "--data", "x.npz", "--steps", 1) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.point("L")
@pytest.mark.parametrize("stem", ["b" * 300, os.fsdecode(b"b\xff")])
def test_files_that_cannot_be_there_are_named(stem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("line.dsl").write_text(SPEC, encoding="utf-8")
    np.savez("x.npz", x=np.ones((4, 3)))
    for command in (
        ("check", f"{stem}.dsl"),
        ("train", "line.dsl", "--data", f"{stem}.npz"),
        ("train", "line.dsl", "--data", "x.npz", "--weights", f"{stem}.safetensors"),
        ("run", "line.dsl", "--weights", f"{stem}.safetensors", "--inputs", "x.npz", "-o", "y.npz"),
    ):
        assert run(*command) == 1, command

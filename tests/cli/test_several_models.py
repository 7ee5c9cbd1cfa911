"""A spec with several models: each command asks which one is meant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import dslc
from dslc.cli.main import cli

SPEC = """
model first(x: f32[N, 4]) -> y: [N, 2]:
    y = dense(x, 2)

model second(x: f32[N, 4]) -> y: [N, 3]:
    y = dense(x, 3)

train second(x, t: f32[N, 3], batch = 4, epochs = 1):
    y = second(x)
    minimize mean_squared_error(y, t)
    using sgd
"""

COMMANDS = {
    "compile": ("-o", "out.py"),
    "show": ("--stage", "code"),
    "cost": (),
    "train": ("--data", "data.npz", "-o", "run"),
    "run": ("--weights", "data.npz", "--inputs", "data.npz", "-o", "out.npz"),
    "verify": (),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "two.dsl").write_text(SPEC, encoding="utf-8")
    np.savez(tmp_path / "data.npz", x=np.ones((8, 4), np.float32), t=np.ones((8, 3), np.float32))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.point("8")
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_lists_them(command: str, folder: Path) -> None:
    found = CliRunner().invoke(cli, [command, "two.dsl", *COMMANDS[command]])
    assert found.exit_code == 2
    assert "several models: first, second" in found.output and "--model first" in found.output


@pytest.mark.point("8")
def test_compile_takes_the_name_of_one(folder: Path) -> None:
    with pytest.raises(ValueError, match="several models: first, second"):
        dslc.compile("two.dsl")
    shapes = [dslc.compile("two.dsl", model=name).PARAMS["dense.W"][0] for name in ("first", "second")]
    assert shapes == [(4, 2), (4, 3)]
    with pytest.raises(ValueError, match="no model third; it has first, second"):
        dslc.compile("two.dsl", model="third")


@pytest.mark.point("8")
def test_a_named_model_is_compiled_and_trained(folder: Path) -> None:
    for command in ("compile", "train"):
        found = CliRunner().invoke(cli, [command, "two.dsl", "--model", "second", *COMMANDS[command]])
        assert found.exit_code == 0, found.output

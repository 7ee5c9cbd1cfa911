"""A parameter with the size of an input that is left open: the size is given, or the data tell it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.numpy import load_file

import dslc
from dslc.cli.main import cli
from dslc.diagnostics.spec_error import SpecError

SPEC = """model m(x: f32[N, K]) -> y: [N, 3]:
    y = dense(x, 3)

train m(x, target: f32[N, 3], weight: f32[M], batch = 4, epochs = 1):
    y = m(x)
    minimize mean_squared_error(y, target) + 0 * sum(weight)
    using sgd(lr = 0.1)
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "open.dsl"
    path.write_text(SPEC, encoding="utf-8")
    return path


@pytest.mark.point("14")
def test_check_and_compile_refuse_it_with_the_cure(spec: Path) -> None:
    found = CliRunner().invoke(cli, ["check", str(spec)])
    assert found.exit_code == 1
    assert "error[E0348]" in found.output and "--set K=8" in found.output
    with pytest.raises(SpecError, match=r"dense\.W"):
        dslc.compile(spec)
    assert CliRunner().invoke(cli, ["check", str(spec), "--set", "K=8"]).exit_code == 0


@pytest.mark.point("14")
@pytest.mark.parametrize("settings", [{"K": 8}, {"K": 8, "N": 2}, {"K": 8, "M": 5}])
def test_a_setting_fixes_any_open_size(spec: Path, settings: dict[str, int]) -> None:
    module = dslc.compile(spec, **settings)
    params = module.init()
    assert params["dense.W"].shape == (8, 3)
    x = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)
    wanted = torch.tensor(x) @ torch.tensor(params["dense.W"]) + torch.tensor(params["dense.b"])
    np.testing.assert_allclose(module.forward(params, x), wanted, 1e-5, 1e-6)
    with pytest.raises(ValueError, match="expected 8 along axis 1"):
        module.forward(params, x[:, :7])


@pytest.mark.point("14")
@pytest.mark.parametrize("value", ["0", "-1", "2.5", "true", "many"])
def test_a_setting_of_a_size_is_a_whole_number(spec: Path, value: str) -> None:
    found = CliRunner().invoke(cli, ["check", str(spec), "--set", f"K={value}"])
    assert found.exit_code == 1 and "error[E03" in found.output


@pytest.mark.point("14")
def test_training_takes_the_sizes_that_parameters_need_from_the_data(spec: Path, tmp_path: Path) -> None:
    data = tmp_path / "data.npz"
    np.savez(data, x=np.ones((16, 5), np.float32), target=np.ones((16, 3), np.float32), weight=np.ones(2, np.float32))
    found = CliRunner().invoke(cli, ["train", str(spec), "--data", str(data), "-o", str(tmp_path / "run")])
    assert found.exit_code == 0, found.output
    assert load_file(tmp_path / "run" / "weights.safetensors")["dense.W"].shape == (5, 3)

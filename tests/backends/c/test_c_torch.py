"""`Module` of a C module is a torch.nn.Module on the CPU, also where several processes train it together."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import dense
import numpy as np
import pytest
import torch

import dslc

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return dense.dense(tmp_path_factory.mktemp("dense"))


def batch(rows: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(rows, 3, generator=generator), torch.randint(0, 2, (rows,), generator=generator)


def reference(made: Any, x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    state = dict(made.named_parameters())
    return x @ state["W"] + state["b"] * c[:, None]


def test_values_and_gradients_are_those_of_torch(module: ModuleType) -> None:
    made, (x, c) = module.Module(seed=3), batch()
    x.requires_grad_()
    assert {name: tuple(p.shape) for name, p in made.named_parameters()} == {"W": (3, 2), "b": (2,)}
    wanted = reference(made, x, c)
    found = made(x, c)
    torch.testing.assert_close(found, wanted)
    leaves = [x, *made.parameters()]
    weight = torch.randn(6, 2)
    for ours, theirs in zip(
        torch.autograd.grad(found, leaves, weight), torch.autograd.grad(wanted, leaves, weight), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_adjoints_are_compiled_when_they_are_called(tmp_path: Path) -> None:
    made = dense.dense(tmp_path)
    made.threads(2)
    made.forward(made.init(), *batch())
    assert made.Adjoint.library is None
    made.Module()(*batch()).sum().backward()
    assert made.Adjoint.library is not None
    made.threads(0)


def test_an_optimiser_of_torch_trains_it(module: ModuleType) -> None:
    made, (x, c) = module.Module(), batch(50)
    target = x @ torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, 3.0]]) + c[:, None]
    optimiser = torch.optim.Adam(made.parameters(), lr=0.1)
    for _ in range(300):
        optimiser.zero_grad()
        loss = ((made(x, c) - target) ** 2).mean()
        loss.backward()
        optimiser.step()
    assert loss.item() < 1e-4


def test_its_state_moves_to_the_functions_of_the_module(module: ModuleType) -> None:
    made, (x, c) = module.Module(seed=5), batch()
    params = {name: value.numpy() for name, value in made.state_dict().items()}
    np.testing.assert_array_equal(module.forward(params, x.numpy(), c.numpy()), made(x, c).detach().numpy())
    other = module.Module(seed=1)
    other.load_state_dict(made.state_dict())
    torch.testing.assert_close(other(x, c), made(x, c))


def test_what_the_functions_refuse_it_refuses(module: ModuleType) -> None:
    made, (x, c) = module.Module(), batch()
    with pytest.raises(ValueError, match="c: expected 0 <= value < 2"):
        made(x, c + 2)
    with pytest.raises(ValueError, match="runs on the CPU, not on cuda"):
        module.Module(device="cuda")
    with pytest.raises(AttributeError, match="has no attribute 'Modul'"):
        _ = module.Modul


def test_torch_is_imported_where_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "dense.py").write_text(dense.text_of(tmp_path), encoding="utf-8")
    script = "import sys, dense; assert 'torch' not in sys.modules; dense.Module(); assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)


def test_two_processes_have_the_gradients_of_one(tmp_path: Path) -> None:
    """What docs/distributed.md says, in an empty folder, for one step."""
    page = (ROOT / "docs/distributed.md").read_text(encoding="utf-8")
    (spec,) = re.findall(r"```dsl file=dense.dsl\n(.*?)```", page, re.DOTALL)
    data, script = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    commands = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)[0].splitlines()
    for name, text in (("dense.dsl", spec), ("data.py", data), ("train.py", script)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert commands[-1] == "torchrun --nproc_per_node=2 train.py 100"
    commands[-1] = "-m torch.distributed.run --standalone --nproc_per_node=2 train.py 1"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    for command in commands:
        words = command.replace("dslc ", "-m dslc ").removeprefix("python ").split()
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    made = dslc.compile(tmp_path / "dense.dsl", backend="c").Module(seed=0)
    given = np.load(tmp_path / "data.npz")
    x, c, target = (torch.from_numpy(given[name]) for name in ("x", "c", "target"))
    torch.nn.functional.mse_loss(made(x, c), target).backward()
    after = torch.load(tmp_path / "weights.pt", weights_only=True)
    for name, p in made.named_parameters():  # one step of SGD with lr 0.1 on the whole batch
        torch.testing.assert_close(after[name], p.detach() - 0.1 * p.grad)

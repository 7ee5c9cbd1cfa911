"""docs/weights.md brings in checkpoints of torch, Keras and Hugging Face: each way is run, and compared with torch."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file
from torch.nn import functional as F

import dslc
from dslc.cli.main import cli

PAGE = (Path(__file__).parents[2] / "docs" / "weights.md").read_text(encoding="utf-8")
SMALL = {"vocabulary": 11, "context": 9, "width": 12, "depth": 2, "heads": 3}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The specs and maps of the page."""
    for name, text in re.findall(r"^```\w+ file=(\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_command(spec: str, **settings: int) -> None:
    """The command that the page gives for a spec."""
    (line,) = [x for x in re.findall(r"^dslc (weights .*)$", PAGE, re.MULTILINE) if f" {spec} " in x and "--map" in x]
    more = [x for name, value in settings.items() for x in ("--set", f"{name}={value}")]
    result = CliRunner().invoke(cli, [*shlex.split(line), *more], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "missing" not in result.output and "left over" not in result.output


def outputs(spec: str, weights: str, *inputs: Any, **settings: int) -> Any:
    module = dslc.compile(spec, **settings)
    state = [module.load_state(weights)] if hasattr(module, "load_state") else []
    return module.forward(module.load(weights), *inputs, *state)


class Digits(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.BatchNorm2d(4)
        self.fc = torch.nn.Linear(36, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.max_pool2d(torch.relu(self.bn(self.conv(x))), 2)
        found: torch.Tensor = self.fc(h.flatten(1))
        return found


@pytest.mark.point("weights")
def test_a_checkpoint_of_torch_gives_the_same_outputs(folder: Path) -> None:
    torch.manual_seed(0)
    net = Digits()
    net(torch.randn(16, 2, 6, 6))  # the running statistics move
    torch.save(net.state_dict(), "digits.pt")
    run_command("digits.dsl")
    x = torch.randn(3, 2, 6, 6)
    wanted = net.eval()(x).detach().numpy()
    found = outputs("digits.dsl", "digits.safetensors", x.permute(0, 2, 3, 1).numpy())
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.point("weights")
def test_a_checkpoint_laid_out_as_keras_does_gives_the_same_outputs(folder: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = {
        "conv2d/kernel": (3, 3, 2, 4), "conv2d/bias": (4,), "batch_normalization/gamma": (4,),
        "batch_normalization/beta": (4,), "batch_normalization/moving_mean": (4,),
        "batch_normalization/moving_variance": (4,), "dense/kernel": (36, 5), "dense/bias": (5,),
    }  # fmt: skip
    kept = {name: np.abs(rng.standard_normal(shape)).astype(np.float32) - 0.2 for name, shape in shapes.items()}
    kept["batch_normalization/moving_variance"] += 0.3
    np.savez("keras.npz", **{f"sequential/{name}": x for name, x in kept.items()})
    run_command("keras.dsl")
    x = rng.standard_normal((3, 6, 6, 2)).astype(np.float32)
    t = {name: torch.tensor(value) for name, value in kept.items()}
    h = F.conv2d(
        torch.tensor(x).permute(0, 3, 1, 2), t["conv2d/kernel"].permute(3, 2, 0, 1), t["conv2d/bias"], padding=1
    )
    norm = [t[f"batch_normalization/{name}"] for name in ("moving_mean", "moving_variance", "gamma", "beta")]
    h = F.max_pool2d(torch.relu(F.batch_norm(h, *norm, eps=1e-3)), 2)
    wanted = h.permute(0, 2, 3, 1).flatten(1) @ t["dense/kernel"] + t["dense/bias"]
    np.testing.assert_allclose(outputs("keras.dsl", "keras.safetensors", x), wanted.numpy(), rtol=1e-4, atol=1e-5)


def gpt2_checkpoint() -> dict[str, torch.Tensor]:
    """Names and layouts of a GPT-2 checkpoint: matrices [in, out], queries, keys and values in one."""
    E = SMALL["width"]
    found = {"wte.weight": (SMALL["vocabulary"], E), "wpe.weight": (SMALL["context"], E)}
    for k in range(SMALL["depth"]):
        found |= {f"h.{k}.{n}": s for n, s in {
            "ln_1.weight": (E,), "ln_1.bias": (E,), "attn.c_attn.weight": (E, 3 * E), "attn.c_attn.bias": (3 * E,),
            "attn.c_proj.weight": (E, E), "attn.c_proj.bias": (E,), "ln_2.weight": (E,), "ln_2.bias": (E,),
            "mlp.c_fc.weight": (E, 4 * E), "mlp.c_fc.bias": (4 * E,), "mlp.c_proj.weight": (4 * E, E),
            "mlp.c_proj.bias": (E,), "attn.bias": (1, 1, SMALL["context"], SMALL["context"]),
        }.items()}  # fmt: skip
    found |= {"ln_f.weight": (E,), "ln_f.bias": (E,)}
    return {f"transformer.{name}": 0.4 * torch.randn(shape) for name, shape in found.items()}


def gpt2(p: dict[str, torch.Tensor], token: torch.Tensor) -> torch.Tensor:
    """GPT-2 as its authors compute it."""
    E, H, T = SMALL["width"], SMALL["heads"], token.shape[1]
    p = {name.removeprefix("transformer."): x for name, x in p.items()}
    h = p["wte.weight"][token] + p["wpe.weight"][:T]
    for k in range(SMALL["depth"]):
        q = {name.removeprefix(f"h.{k}."): x for name, x in p.items() if name.startswith(f"h.{k}.")}
        x = F.layer_norm(h, (E,), q["ln_1.weight"], q["ln_1.bias"])
        parts = (x @ q["attn.c_attn.weight"] + q["attn.c_attn.bias"]).split(E, dim=2)
        heads = [x.view(*x.shape[:2], H, E // H).transpose(1, 2) for x in parts]
        x = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2)
        h = h + x @ q["attn.c_proj.weight"] + q["attn.c_proj.bias"]
        x = F.layer_norm(h, (E,), q["ln_2.weight"], q["ln_2.bias"])
        x = F.gelu(x @ q["mlp.c_fc.weight"] + q["mlp.c_fc.bias"], approximate="tanh")
        h = h + x @ q["mlp.c_proj.weight"] + q["mlp.c_proj.bias"]
    return F.layer_norm(h, (E,), p["ln_f.weight"], p["ln_f.bias"]) @ p["wte.weight"].T


@pytest.mark.point("weights")
def test_a_checkpoint_of_gpt2_gives_the_same_outputs(folder: Path) -> None:
    torch.manual_seed(1)
    kept = gpt2_checkpoint()
    save_file({**kept, "lm_head.weight": kept["transformer.wte.weight"].clone()}, "model.safetensors")
    run_command("gpt2.dsl", **SMALL)
    token = torch.randint(0, SMALL["vocabulary"], (2, 7))
    found = outputs("gpt2.dsl", "gpt2.safetensors", token.numpy(), **SMALL)
    np.testing.assert_allclose(found, gpt2(kept, token).numpy(), rtol=1e-3, atol=1e-4)

"""Suggested maps: numbers in paths go up together, roles stay, and what is unclear is left to the reader."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

import dslc
from dslc.cli.main import cli
from dslc.weights.suggest import suggested

PAGE = (Path(__file__).parents[2] / "docs" / "weights.md").read_text(encoding="utf-8")
Linear, Norm = torch.nn.Linear, torch.nn.LayerNorm


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def weights(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["weights", "net.dsl", *arguments], catch_exceptions=False)


def net(*lines: str, inputs: str = "N, 4", outputs: str = "N, 4") -> None:
    body = "".join(f"    {line}\n" for line in lines)
    Path("net.dsl").write_text(f"model net(x: [{inputs}]) -> y: [{outputs}]:\n{body}", encoding="utf-8")


def rules(**settings: int) -> dict[str, str]:
    """The suggestion for net.dsl and c.pt: by parameter, the array and what is done to it."""
    told = json.loads(weights("--from", "c.pt", "--json", *(f"--set={n}={x}" for n, x in settings.items())).output)
    found = (re.fullmatch(r"(\S+) -> ([^\s:]+)(.*)", line) for line in (told["map"] or "").splitlines())
    return {match[2]: match[1] + match[3] for match in found if match is not None}


@pytest.mark.point("weights")
def test_a_sequential_of_torch_is_taken_in_the_order_of_its_numbers() -> None:
    torch.manual_seed(0)
    net("h = x", "for l in 0..12:", "    h = h |> dense(4) |> tanh", "y = h")
    model = torch.nn.Sequential(*(layer for _ in range(12) for layer in (Linear(4, 4), torch.nn.Tanh())))
    torch.save(dict(sorted(model.state_dict().items())), "c.pt")  # as text, 10 comes before 2
    told = weights("--from", "c.pt")
    assert told.exit_code == 1 and "unclear" not in told.output
    Path("net.map").write_text(told.output, encoding="utf-8")
    assert weights("--from", "c.pt", "--map", "net.map", "-o", "w.npz").exit_code == 0
    x = torch.randn(3, 4)
    module = dslc.compile("net.dsl")
    found = module.forward(module.load("w.npz"), x.numpy())
    np.testing.assert_allclose(found, model(x).detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.point("weights")
def test_layers_of_gpt2_are_not_crossed() -> None:
    text = re.search(r"file=gpt2.dsl\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert text is not None
    Path("net.dsl").write_text(text[1], encoding="utf-8")
    parts = {
        "ln_1.weight": (8,), "ln_1.bias": (8,), "attn.c_attn.weight": (8, 24), "attn.c_attn.bias": (24,),
        "attn.c_proj.weight": (8, 8), "attn.c_proj.bias": (8,), "ln_2.weight": (8,), "ln_2.bias": (8,),
        "mlp.c_fc.weight": (8, 32), "mlp.c_fc.bias": (32,), "mlp.c_proj.weight": (32, 8), "mlp.c_proj.bias": (8,),
        "attn.bias": (1, 1, 9, 9),
    }  # fmt: skip
    shapes = {"wte.weight": (11, 8), "wpe.weight": (9, 8), "ln_f.weight": (8,), "ln_f.bias": (8,)}
    shapes |= {f"h.{k}.{name}": shape for k in range(12) for name, shape in parts.items()}
    kept = {f"transformer.{name}": torch.randn(shape) for name, shape in sorted(shapes.items())}
    torch.save({**kept, "lm_head.weight": kept["transformer.wte.weight"].clone()}, "c.pt")
    right = {"layer_norm.scale": "ln_f.weight", "layer_norm.shift": "ln_f.bias", "position": "wpe.weight"}
    layer = {
        "layer_norm.scale": "ln_1.weight", "layer_norm.shift": "ln_1.bias", "layer_norm2.scale": "ln_2.weight",
        "layer_norm2.shift": "ln_2.bias", "dense.W": "mlp.c_fc.weight", "dense.b": "mlp.c_fc.bias",
        "dense2.W": "mlp.c_proj.weight", "dense2.b": "mlp.c_proj.bias", "self_attention.bo": "attn.c_proj.bias",
    }  # fmt: skip
    right |= {f"block.{k}.{target}": f"h.{k}.{name}" for k in range(12) for target, name in layer.items()}
    found = rules(vocabulary=11, context=9, width=8, heads=2)
    assert found.pop("words.W") in ("transformer.wte.weight", "lm_head.weight")  # the same entries
    assert found == {target: f"transformer.{name}" for target, name in right.items()}


@pytest.mark.point("weights")
def test_layers_of_a_transformer_of_torch_are_not_crossed() -> None:
    net("h = x", "for l in 0..11:", "    h = transformer_block(h, 2)", "y = h", inputs="N, T, 8", outputs="N, T, 8")
    layer = torch.nn.TransformerEncoderLayer(8, 2, 32, batch_first=True)
    torch.save(torch.nn.TransformerEncoder(layer, 11).state_dict(), "c.pt")
    parts = {
        "layer_norm.scale": "norm1.weight", "layer_norm.shift": "norm1.bias", "layer_norm2.scale": "norm2.weight",
        "layer_norm2.shift": "norm2.bias", "feed_forward.dense.W": "linear1.weight: transpose",
        "feed_forward.dense.b": "linear1.bias", "feed_forward.dense2.W": "linear2.weight: transpose",
        "feed_forward.dense2.b": "linear2.bias",
    }  # fmt: skip
    assert rules() == {f"transformer_block.{k}.{t}": f"layers.{k}.{n}" for k in range(11) for t, n in parts.items()}
    told = weights("--from", "c.pt").output
    assert "# unclear: transformer_block.10.attention.Wo [2, 4, 8] may be layers.10.self_attn.out_proj.weight" in told


@pytest.mark.point("weights")
def test_equal_shapes_without_an_order_are_unclear() -> None:
    net("y = x |> dense(4) |> tanh |> dense(4)")
    torch.save(torch.nn.ModuleDict({"encoder": Linear(4, 4), "decoder": Linear(4, 4)}).state_dict(), "c.pt")
    told = weights("--from", "c.pt")
    assert told.exit_code == 1 and "->" not in told.output
    assert "# unclear: dense.W [4, 4] may be encoder.weight or decoder.weight\n" in told.output
    assert "# 4 unclear" in told.output
    assert json.loads(weights("--from", "c.pt", "--json").output)["unclear"]["dense2.b"] == [
        "encoder.bias", "decoder.bias",
    ]  # fmt: skip
    net("use decoder = dense(4)", "y = x |> dense(4) |> tanh |> decoder")  # one word is enough
    assert rules() == {
        "dense.W": "encoder.weight: transpose", "dense.b": "encoder.bias",
        "decoder.W": "decoder.weight: transpose", "decoder.b": "decoder.bias",
    }  # fmt: skip


def test_numbers_of_other_things_are_not_taken_for_an_order() -> None:
    wanted = {f"norm{j}.{k}.scale": (4,) for j in ("", "2") for k in range(3)}  # one loop with two norms, or two loops
    flat = suggested({f"{k}.weight": np.ones(4) for k in range(6)}, wanted, True)
    assert not flat.map.rules and flat.unclear.keys() == wanted.keys()
    nested = suggested({f"h.{k}.ln_{j}.weight": np.ones(4) for k in range(3) for j in (1, 2)}, wanted, True)
    assert {r.targets[0]: r.pattern for r in nested.map.rules} == {
        f"norm{name}.{k}.scale": f"h.{k}.ln_{j}.weight" for j, name in ((1, ""), (2, "2")) for k in range(3)
    }
    turned = {"0.weight": (4, 8), "0.bias": (4,), "2.weight": (8, 4), "2.bias": (8,)}
    wanted = {"dense.W": (4, 8), "dense.b": (8,), "dense2.W": (8, 4), "dense2.b": (4,)}
    assert not suggested({n: np.ones(s) for n, s in turned.items()}, wanted, True).map.rules  # 0 to 2, and 2 to 0


def test_a_bias_goes_with_its_weight() -> None:
    kept = {"lin.weight": np.ones((8, 6)), "ln.weight": np.ones(8), "ln.bias": np.ones(8)}
    made = suggested(kept, {"dense.W": (6, 8), "dense.b": (8,)}, True)
    assert [str(rule) for rule in made.map.rules] == ["lin.weight -> dense.W: transpose"]


def test_words_decide_between_equals() -> None:
    kept = {f"h.{k}.self_attn.{x}_proj.weight": np.ones((8, 8)) for k in range(2) for x in "qkv"}
    made = suggested(kept, {f"attention.{k}.W{x}": (8, 2, 4) for k in range(2) for x in "qkv"}, True)
    assert [str(rule) for rule in made.map.rules] == [
        f"h.{k}.self_attn.{x}_proj.weight -> attention.{k}.W{x}: transpose, reshape" for k in range(2) for x in "qkv"
    ]
    ends = {"out.weight": np.ones((9, 4)), "embed.weight": np.zeros((9, 4))}
    made = suggested(ends, {"embedding.W": (9, 4), "dense.W": (4, 9)}, True)
    assert [str(rule) for rule in made.map.rules] == ["embed.weight -> embedding.W", "out.weight -> dense.W: transpose"]

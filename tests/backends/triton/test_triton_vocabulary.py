"""A loss over a large vocabulary, and other sums over long axes of a product, need no memory for all of the product."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from dslc.backends.triton.quick_triton import quick
from dslc.backends.triton.registry import Registry
from triton_modules import check_spec, triton_module

from dslc.compiler import compile_text

WORDS = 4100

HEAD = f"model m(token: i32[N, T] < {WORDS}, width = 8) -> logits: [N, T, {WORDS}]:\n"
EMBED = f"    use embed = embedding({WORDS}, width)\n    h = tanh(embed(token))\n"
TAIL = "    minimize loss\n    metric perplexity = exp(loss)\n    using sgd(lr = 0.1)\n"
NEXT = "    loss = cross_entropy(logits[:, 0:T-1, :], token[:, 1:T])\n"
SAME = "    loss = cross_entropy(logits, token)\n"
TRAIN = "train m(token) where T >= 2:\n    logits = m(token)\n"

SPECS = {
    "tied, next token": f"{HEAD}{EMBED}    logits[n, t, v] = h[n, t, c] * embed.W[v, c]\n\n{TRAIN}{NEXT}{TAIL}",
    "biased, next token": f"{HEAD}{EMBED}    logits = h |> dense({WORDS})\n\n{TRAIN}{NEXT}{TAIL}",
    "biased, every token": f"{HEAD}{EMBED}    logits = h |> dense({WORDS})\n\n{TRAIN}{SAME}{TAIL}",
    "with accuracy": (
        f"{HEAD}{EMBED}    logits = h |> dense({WORDS})\n\n{TRAIN}{SAME}"
        f"{TAIL.replace('    using', '    metric accuracy = accuracy(logits, token)' + chr(10) + '    using')}"
    ),
    "scaled, naive": (
        f"{HEAD}{EMBED}    param W: [width, {WORDS}] ~ glorot\n    logits[n, t, v] = h[n, t, c] * W[c, v] / 3\n\n"
        f"{TRAIN}    p[n, t, v] = exp(logits[n, t, v]) / sum[u: {WORDS}](exp(logits[n, t, u]))\n"
        f"    loss = -mean[n, t](log(p[n, t, token[n, t]]))\n{TAIL}"
    ),
}


def spec_of(name: str, folder: Path) -> Path:
    spec = folder / f"{re.sub(r'[ ,]+', '_', name)}.dsl"
    spec.write_text(SPECS[name], encoding="utf-8")
    return spec


def buffers(text: str, function: str) -> list[str]:
    """The shapes that a host function allocates."""
    body = text[text.index(f"def {function}(") :].split("\ndef ")[0]
    return re.findall(r"torch\.(?:empty|zeros)\(\((.*?)\),? dtype", body)


@pytest.mark.parametrize("name", SPECS)
def test_a_loss_over_a_large_vocabulary_stores_no_logits(name: str, tmp_path: Path) -> None:
    text = compile_text(spec_of(name, tmp_path), "triton")
    for function in ("loss_grad_metrics", "evaluate"):
        shapes = buffers(text, function) if f"def {function}(" in text else []
        assert not [s for s in shapes if str(WORDS) in s and re.search(r"\b[NT]\b", s)], function
    assert "_segments_kernel" in text.split("def loss_grad_metrics")[1]  # the gradient of the embedding
    registry = Registry("f32")
    compile_text(spec_of(name, tmp_path), "triton", registry=registry)
    assert any(name.endswith("_stream_kernel") for name in registry.texts)


@pytest.mark.wide(5)
@pytest.mark.parametrize("name", SPECS)
def test_it_agrees_with_the_interpreter(name: str, tmp_path: Path) -> None:
    with quick():
        check_spec(spec_of(name, tmp_path), tmp_path, 3, width=3)


def test_it_agrees_with_torch(tmp_path: Path) -> None:
    module = triton_module(spec_of("biased, next token", tmp_path), tmp_path, "f64")
    params = module.init(0)
    token = torch.randint(0, WORDS, (3, 13), generator=torch.Generator().manual_seed(0))
    with quick():
        loss, grads = module.loss_and_grad(params, token)
    theirs = {k: v.clone().requires_grad_() for k, v in params.items()}
    h = torch.tanh(theirs["embed.W"][token])
    logits = h @ theirs["dense.W"] + theirs["dense.b"]
    expected = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, WORDS), token[:, 1:].reshape(-1))
    expected.backward()
    torch.testing.assert_close(loss, expected.detach(), rtol=1e-12, atol=0)
    for k, v in theirs.items():
        torch.testing.assert_close(grads[k], v.grad, rtol=1e-9, atol=1e-12)


def test_logits_that_are_wanted_are_stored_once(tmp_path: Path) -> None:
    spec = tmp_path / "outputs.dsl"
    spec.write_text(
        SPECS["biased, every token"].replace(
            "    metric perplexity = exp(loss)\n", "    metric top = max[n, t, v](logits[n, t, v])\n"
        ),
        encoding="utf-8",
    )
    with quick():
        check_spec(spec, tmp_path, 3, width=3)


def test_the_adjoint_of_a_pick_is_a_choice_however_many_there_are_to_pick_from(tmp_path: Path) -> None:
    spec = tmp_path / "pick.dsl"
    spec.write_text(
        f"model m(x: f32[N, {WORDS}], label: i32[N] < {WORDS}) -> y: [N]:\n    param s: [] ~ normal\n"
        "    y[n] = sin(s * x[n, label[n]])\n\n"
        "train m(x, label):\n    minimize sum[n](m(x, label)[n])\n    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    assert "torch.sort" not in compile_text(spec, "triton")
    with quick():
        check_spec(spec, tmp_path, 5)

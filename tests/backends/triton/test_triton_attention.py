"""Attention never stores its weights: one streaming kernel forward, for every spelling, and right gradients."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from dslc.backends.triton.resources import kernels_of
from triton_modules import triton_module
from triton_spellings import SPELLINGS

from dslc.compiler import compile_text


def text_of(name: str, folder: Path) -> str:
    spec = folder / "attention.dsl"
    spec.write_text(SPELLINGS[name], encoding="utf-8")
    return compile_text(spec, "triton")


@pytest.mark.parametrize("name", SPELLINGS)
def test_no_buffer_is_quadratic(name: str, tmp_path: Path) -> None:
    text = text_of(name, tmp_path)
    shapes = re.findall(r"torch\.empty\(\((.*?)\)", text)
    assert shapes
    assert not [s for s in shapes if s.count("T") > 1]


@pytest.mark.parametrize("name", SPELLINGS)
def test_the_forward_pass_is_one_kernel(name: str, tmp_path: Path) -> None:
    text = text_of(name, tmp_path)
    assert '"launches": {"forward": 1,' in text


@pytest.mark.parametrize("name", SPELLINGS)
def test_training_runs_over_keys_and_over_queries_once_in_each_kernel(name: str, tmp_path: Path) -> None:
    text = text_of(name, tmp_path)
    functions = {x.name: x for x in ast.parse(text).body if isinstance(x, ast.FunctionDef)}
    names = {x.id for x in ast.walk(functions["loss_grad_metrics"]) if isinstance(x, ast.Name)}
    streams = [functions[x] for x in names if "_stream_" in x]
    assert len(streams) == 3
    assert [sum(isinstance(x, ast.For) for x in ast.walk(kernel)) for kernel in streams] == [1, 1, 1]


@pytest.mark.wide(5)
@pytest.mark.parametrize("width", [16, 24])
@pytest.mark.parametrize("name", SPELLINGS)
def test_all_spellings_are_the_same_kernels_forward_and_backward(name: str, width: int, tmp_path: Path) -> None:
    def kernels(spelling: str) -> list[str]:
        spec = tmp_path / f"{spelling.replace(' ', '_')}.dsl"
        spec.write_text(SPELLINGS[spelling].replace("16", str(width)), encoding="utf-8")
        text = compile_text(spec, "triton")
        functions = {x.name: x for x in ast.parse(text).body if isinstance(x, ast.FunctionDef)}
        of_a_step = {x.id for x in ast.walk(functions.pop("step")) if isinstance(x, ast.Name)}
        others = {x.id for f in functions.values() for x in ast.walk(f) if isinstance(x, ast.Name)}
        return [k.key for k in kernels_of(text) if k.name in others or k.name not in of_a_step]

    assert kernels(name) == kernels("divided")


def test_the_keys_of_kernels_tell_them_apart(tmp_path: Path) -> None:
    text = text_of("divided", tmp_path)
    keys = [k.key for k in kernels_of(text)]
    assert len(set(keys)) > 10
    assert [k.key for k in kernels_of(text.replace("0.25", "0.26"))] != keys


@pytest.mark.wide(2)
@pytest.mark.parametrize("name", ["divided", "naive softmax", "other order of axes", "normalised last"])
def test_values_and_gradients_agree_with_torch(name: str, tmp_path: Path) -> None:
    spec = tmp_path / "attention.dsl"
    spec.write_text(SPELLINGS[name], encoding="utf-8")
    module = triton_module(spec, tmp_path, "f64")
    rng = np.random.default_rng(0)
    x, target = (torch.as_tensor(rng.normal(size=(1, 2, 19, 16))) for _ in range(2))
    params = {k: torch.as_tensor(rng.normal(size=16)) for k in "abc"}
    loss, grads = module.loss_and_grad(params, x, target)

    own = {k: v.clone().requires_grad_() for k, v in params.items()}
    q, k, v = (x * own[name] for name in "abc")
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    wanted = ((y - target) ** 2).mean()
    wanted.backward()
    np.testing.assert_allclose(loss.item(), wanted.item(), rtol=1e-10)
    for key, value in own.items():
        np.testing.assert_allclose(grads[key].numpy(), value.grad.numpy(), rtol=1e-8, atol=1e-12, err_msg=key)

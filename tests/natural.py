"""A function of the language against a function of torch: values, and gradients by its arguments, on a backend."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from samples import load

from dslc.compiler import compile_text

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"

HEADER = re.compile(r"fn f\((?P<args>.*?)\) -> y: (?P<type>\[.*?\])(?P<where> where .*?)?:\n", re.DOTALL)
BACKENDS = ("numpy", "triton", pytest.param("c", marks=pytest.mark.wide(8)))


def model_of(text: str) -> str:
    """A model with the results of `fn f(...) -> y: [...]`, and the gradients of their sum with given weights."""
    header = HEADER.search(text)
    assert header is not None, text
    args = re.findall(r"(\w+): ((?:\w+ )?\w*\[[^\]]*\](?: < [^,]+)?)", header["args"])
    slopes = [(name, re.sub(r"^\w+", "", kind)) for name, kind in args if not re.match(r"i32|i64|bool", kind)]
    outputs = "".join(f", d_{name}: {kind}" for name, kind in slopes)
    derivatives = "".join(f"    d_{name} = grad(total, {name})\n" for name, _ in slopes)
    return (
        f"{text}\nmodel m({header['args']}, weight: f32{header['type']}) -> (y: {header['type']}{outputs})"
        f"{header['where'] or ''}:\n    y = f({', '.join(name for name, _ in args)})\n"
        f"    total = {'y * weight' if header['type'] == '[]' else 'sum(y * weight)'}\n{derivatives}"
    )


def agree(
    text: str, meaning: Callable[..., Any], values: dict[str, Any], folder: Path, backend: str, tolerance: float = 1e-10
) -> None:
    """Values and gradients of a spec in f64 are those of torch."""
    spec = folder / f"natural_{backend}.dsl"
    spec.write_text(model_of(text), encoding="utf-8")
    module = load(compile_text(spec, backend, {}, "f64"), folder, f"natural_{backend}_{abs(hash(text))}")
    given = {name: torch.as_tensor(np.asarray(value)) for name, value in values.items()}
    floats = [x.requires_grad_() for x in given.values() if x.is_floating_point()]
    wanted = meaning(*given.values())
    weight = torch.as_tensor(np.random.default_rng(7).normal(size=tuple(wanted.shape)))
    slopes = torch.autograd.grad((wanted * weight).sum(), floats, allow_unused=True)
    arrays = [x.detach() if backend == "triton" else x.detach().numpy() for x in (*given.values(), weight)]
    found = module.forward({}, *arrays)
    np.testing.assert_allclose(np.asarray(found["y"]), wanted.detach(), rtol=tolerance, atol=tolerance)
    names = [name for name, x in given.items() if x.is_floating_point()]
    for name, slope in zip(names, slopes, strict=True):
        expected = np.zeros_like(values[name]) if slope is None else slope.numpy()
        np.testing.assert_allclose(
            np.asarray(found[f"d_{name}"]), expected, rtol=tolerance, atol=tolerance, err_msg=f"gradient of {name}"
        )


def normal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng([seed, *shape]).normal(size=shape)

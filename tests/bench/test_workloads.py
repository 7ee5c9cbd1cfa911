"""Each workload computes what its peers compute: values and gradients agree with torch, and with jax if it is there."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from bench.candidates import Candidate, Compiled, build_peer, differences, load_module, missing
from bench.compile_time import compile_spec
from bench.worker import Worker
from bench.workloads import WORKLOADS, Named, Workload
from dslc.compiler import compile_text

TRAINED = [w for w in WORKLOADS.values() if w.trains]


@cache
def text_of(name: str) -> str:
    workload = WORKLOADS[name]
    return compile_text(workload.path, settings=workload.settings_at(workload.tiny))


def module_of(workload: Workload, folder: Path) -> ModuleType:
    file = folder / f"{workload.name}_module.py"
    file.write_text(text_of(workload.name), encoding="utf-8")
    return load_module(file)


def scattered(params: Named) -> Named:
    """Parameters without zeros and ones, so that none can hide in the place of another."""
    rng = np.random.default_rng(1)
    return {k: (x + 0.3 * rng.standard_normal(x.shape)).astype(np.float32) for k, x in params.items()}


def candidates(workload: Workload, peer: str, folder: Path) -> tuple[Compiled, Candidate]:
    module = module_of(workload, folder)
    params, data = scattered(module.init(0)), workload.data_at(workload.tiny)
    other = build_peer(peer, workload, workload.tiny, {k: x.copy() for k, x in params.items()}, data, 1)
    return Compiled(workload, module, params, data), other


@pytest.mark.parametrize("peer", ["torch", "jax"])
@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_the_peer_computes_the_same(workload: Workload, peer: str, tmp_path: Path) -> None:
    if missing(peer):
        pytest.skip(str(missing(peer)))
    ours, other = candidates(workload, peer, tmp_path)
    gaps = differences(other.matching(ours.first()), other.first())
    assert max(gaps.values()) < 1e-4, gaps


@pytest.mark.wide(4)
@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_the_c_module_computes_what_the_numpy_module_does(workload: Workload, tmp_path: Path) -> None:
    numpy = module_of(workload, tmp_path)
    params, data = scattered(numpy.init(0)), workload.data_at(workload.tiny)
    file = tmp_path / f"{workload.name}_c.py"
    compile_spec(workload.path, file, "c", workload.settings_at(workload.tiny), runs=1)
    with Worker("dslc", 2) as worker:
        worker("load", str(file))
        worker("build", workload.name, workload.tiny, data, params)
        found = worker("first")
        worker("block", 2)
    assert max(differences(found, Compiled(workload, numpy, params, data).first()).values()) < 1e-4


def weights(peer: Any) -> Named:
    """The parameters of a peer, copied."""
    if hasattr(peer, "model"):
        return {name: x.detach().numpy().copy() for name, x in peer.model.named_parameters()}
    return {name: np.array(x) for name, x in peer.params.items()}


def flat(values: Named) -> np.ndarray:
    return np.concatenate([values[name].astype(np.float64).ravel() for name in sorted(values)])


@pytest.mark.parametrize("peer", ["torch", "jax"])
@pytest.mark.parametrize("workload", TRAINED, ids=lambda w: w.name)
def test_three_steps_change_the_parameters_alike(workload: Workload, peer: str, tmp_path: Path) -> None:
    if missing(peer):
        pytest.skip(str(missing(peer)))
    ours, other = candidates(workload, peer, tmp_path)
    start = flat(weights(other))
    for _ in range(3):
        ours.step()
        other.step()
    found = other.matching({"loss": np.zeros(()), **ours.params})
    found.pop("loss")
    moved, wanted = flat(found) - start, flat(weights(other)) - start
    assert np.linalg.norm(moved - wanted) < 1e-3 * np.linalg.norm(wanted)


# torch does not look inside of nn.GRU and nn.LSTM, and counts the short convolution of a Mamba block
UNCOUNTED = ("gru", "lstm", "mamba")


@pytest.mark.parametrize("workload", [w for w in WORKLOADS.values() if w.name not in UNCOUNTED], ids=lambda w: w.name)
def test_the_counted_work_is_that_of_torch(workload: Workload, tmp_path: Path) -> None:
    _, other = candidates(workload, "torch", tmp_path)
    # torch counts attention in its plain form only
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        other.step()
    wanted, sizes = workload.flops(workload.tiny), workload.tiny
    if workload.name in ("gpt", "wide"):
        # torch counts attention to all tokens, we to earlier ones
        square = 2.0 * sizes["batch"] * sizes["context"] ** 2 * sizes["width"] * sizes["depth"]
        wanted += 6 * square - 3 * square * (sizes["context"] + 1) / sizes["context"]
    assert counter.get_total_flops() == wanted


@pytest.mark.parametrize(("name", "flops"), [("mlp", 0.616e9), ("gpt", 20.5e9), ("cnn", 2.05e9), ("gru", 1.61e9)])
def test_the_work_at_full_size_is_known(name: str, flops: float) -> None:
    workload = WORKLOADS[name]
    assert workload.flops(workload.sizes) == pytest.approx(flops, rel=5e-3)

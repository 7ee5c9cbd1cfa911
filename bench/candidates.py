"""A candidate runs one workload: the compiled module, or a peer. Peers are imported only when they are asked for."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Protocol

import numpy as np

from bench.workloads import Array, Data, Named, Sizes, Workload

OURS = "dslc"

#: peer -> the package that it needs
PEERS = {"torch": "torch", "torch-compile": "torch", "jax": "jax"}


class Candidate(Protocol):
    """What is measured."""

    def step(self) -> object:
        """One training step, or one forward pass."""

    def first(self) -> Named:
        """At the present parameters: the loss and its gradients by name, or the output."""

    def matching(self, ours: Named) -> Named:
        """What the compiled module's `first` gave, under this candidate's names and in its layouts."""


class Compiled:
    """The module that dslc wrote. It needs NumPy alone, so that dslc is not even imported here."""

    def __init__(self, workload: Workload, module: ModuleType, params: Named | None, data: Data) -> None:
        self.workload = workload
        self.module = module
        self.params: Named = module.init(0) if params is None else params
        self.data = list(data.values())
        state = [module.init_state()] if hasattr(module, "init_state") else []
        self.inputs = [*self.data, *state]
        self.opt = module.init_opt(self.params) if workload.trains else None

    def step(self) -> object:
        if self.workload.trains:
            self.params, self.opt = self.module.train_step(self.params, self.opt, *self.data)
            return self.params
        return self.module.forward(self.params, *self.inputs)

    def first(self) -> Named:
        if not self.workload.trains:
            return {"output": np.asarray(self.module.forward(self.params, *self.inputs))}
        loss, grads = self.module.loss_and_grad(self.params, *self.inputs)
        return {"loss": np.asarray(loss), **{name: np.array(grad) for name, grad in grads.items()}}

    def matching(self, ours: Named) -> Named:
        return ours


def load_module(file: Path) -> ModuleType:
    """The compiled module in a file."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def missing(peer: str) -> str | None:
    """Why a peer cannot be measured here, or None."""
    if importlib.util.find_spec(PEERS[peer]) is None:
        return f"{PEERS[peer]} is not installed: pip install 'dslc[bench]'"
    return None


def build_peer(
    peer: str, workload: Workload, sizes: Sizes, params: Mapping[str, Array], data: Data, threads: int
) -> Candidate:
    """The peer for a workload, at the given parameters of the compiled module."""
    build: Callable[..., Candidate]
    if peer == "jax":
        from bench.jax_models import JaxPeer as build
    else:
        from bench.torch_models import TorchPeer as build
    candidate = build(workload, sizes, params, data, threads, compiled=peer == "torch-compile")
    return candidate


def differences(found: Named, wanted: Named) -> dict[str, float]:
    """For each name the largest difference, relative to the largest value; names must be the same."""
    if found.keys() != wanted.keys():
        raise ValueError(f"the names differ: {sorted(found.keys() ^ wanted.keys())}")
    result = {}
    for name, value in found.items():
        ours, theirs = np.asarray(value, np.float64), np.asarray(wanted[name], np.float64)
        if ours.shape != theirs.shape:
            raise ValueError(f"{name}: the shapes {ours.shape} and {theirs.shape} differ")
        gap = float(np.max(np.abs(ours - theirs)))
        scale = float(np.max(np.abs(theirs)))
        result[name] = gap / scale if scale > 0 else gap
    return result

"""`--tune`: the quickest of a few configurations is written as constants; without a GPU it is refused."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from dslc.backends.triton.kernels import Along, Choice
from dslc.backends.triton.registry import Registry
from samples import load
from triton_modules import ROOT
from triton_spellings import SPELLINGS

from dslc.cli.main import cli
from dslc.compiler import compile_text
from dslc.sizes import symbol
from dslc.tuning import WARPS_AND_STAGES, candidates, quickest, tuned

SPEC = ROOT / "specs/linear/softmax_regression.dsl"


def countdown() -> Callable[[Callable[[], object]], float]:
    """A clock by which every launch is quicker than the one before."""
    times = iter(range(10**6, 0, -1))
    return lambda run: float(next(times))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to tune on")
def test_without_a_gpu_it_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["compile", str(SPEC), "-b", "triton", "--tune", "1", "-o", str(tmp_path / "m.py")])
    assert done.exit_code == 1 and "torch finds none here" in done.output
    assert not (tmp_path / "m.py").exists()


def test_it_is_for_triton_alone() -> None:
    done = CliRunner().invoke(cli, ["compile", str(SPEC), "--tune", "1"])
    assert done.exit_code == 2 and "backend triton" in done.output


def launches(text: str) -> dict[str, list[dict[str, object]]]:
    """The constants of each launch of each kernel, as the module has them."""
    found: dict[str, list[dict[str, object]]] = {}
    for call in ast.walk(ast.parse(text)):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Subscript)
            and isinstance(call.func.value, ast.Name)
        ):
            constants = {k.arg or "": k.value.value for k in call.keywords if isinstance(k.value, ast.Constant)}
            found.setdefault(call.func.value.id, []).append(constants)
    return found


def compiled(spec: Path, folder: Path, choices: Mapping[str, Choice] | None = None) -> tuple[Any, Registry, str]:
    registry = Registry("f32", choices=choices or {})
    text = compile_text(spec, "triton", registry=registry)
    return load(text, folder, f"module{len(list(folder.iterdir()))}"), registry, text


def test_the_quickest_constants_are_written_at_every_launch(tmp_path: Path) -> None:
    module, registry, text = compiled(SPEC, tmp_path)
    rng = np.random.default_rng(0)
    data = rng.normal(size=(5, 64)), np.eye(10)[rng.integers(0, 10, 5)]
    calls = [lambda: module.loss_grad_metrics(module.init(0), *data)]
    chosen = quickest(module, calls, 60, registry.launched, {"N": 5}, countdown())
    assert chosen and {(c.warps, c.stages) for c in chosen.values()} == {WARPS_AND_STAGES[-1]}
    assert any(c.blocks for c in chosen.values())
    after, _, new = compiled(SPEC, tmp_path, chosen)
    assert new != text
    constants = launches(new)
    for name, choice in chosen.items():
        wanted = {**choice.blocks, "num_warps": choice.warps, "num_stages": choice.stages}
        assert all(one.items() >= wanted.items() for one in constants[name])
    for name, about in after.MANIFEST["kernels"].items():
        for one in constants.get(name, []) if "num_warps" in constants.get(name, [{}])[0] else []:
            assert one == {**about["blocks"], "num_warps": about["warps"], "num_stages": about["stages"]}
    a, b = (m.loss_grad_metrics(m.init(0), *data)[0] for m in (module, after))
    torch.testing.assert_close(a, b, rtol=1e-6, atol=0)


def test_every_choice_of_blocks_computes_the_same(tmp_path: Path) -> None:
    spec = tmp_path / "attention.dsl"
    spec.write_text(SPELLINGS["divided"], encoding="utf-8")
    module, registry, _ = compiled(spec, tmp_path)
    rng = np.random.default_rng(0)
    x, target = (rng.normal(size=(1, 2, 37, 16)).astype(np.float32) for _ in range(2))
    wanted = module.loss_grad_metrics(module.init(0), x, target)
    options = {name: candidates(found) for name, found in registry.launched.items()}
    kinds = {registry.launched[name][0].form.kind for name, found in options.items() if found}  # type: ignore[union-attr]
    assert {"map", "stream"} <= kinds
    for k in range(max(map(len, options.values()))):
        chosen = {name: Choice(found[k], 4, 1) for name, found in options.items() if k < len(found)}
        other, _, _ = compiled(spec, tmp_path, chosen)
        found = other.loss_grad_metrics(module.init(0), x, target)
        torch.testing.assert_close(found[0], wanted[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(found[1], wanted[1], rtol=1e-4, atol=1e-6)


def test_contractions_have_other_tiles_to_try(tmp_path: Path) -> None:
    _, registry, _ = compiled(ROOT / "specs/mlp/mlp.dsl", tmp_path)
    forms = {name: found[0].form for name, found in registry.launched.items()}
    tiles = [b for n, form in forms.items() if form and form.kind == "dot" for b in candidates(registry.launched[n])]
    assert {"BLOCK_ROWS": 128, "BLOCK_COLUMNS": 64} in tiles and {"BLOCK_INNER": 32} in tiles


def test_blocks_without_a_mask_must_divide_what_they_are_along() -> None:
    assert Along(96, False).allows(32) and not Along(96, False).allows(64)
    assert Along(96, True).allows(64) and not Along(96, True).allows(256)
    assert Along(symbol("N"), True).allows(2048)


def test_nothing_is_tried_after_the_deadline(tmp_path: Path) -> None:
    module, registry, _ = compiled(SPEC, tmp_path)
    data = np.zeros((3, 64)), np.full((3, 10), 0.1)

    def never(run: Callable[[], object]) -> float:
        raise AssertionError("timed after the deadline")

    calls = [lambda: module.loss_grad_metrics(module.init(0), *data)]
    assert quickest(module, calls, -1, registry.launched, {"N": 3}, never) == {}


def test_a_spec_is_tuned_on_data_of_its_own(tmp_path: Path) -> None:
    text = compile_text(SPEC, "triton")
    found = tuned(SPEC, {}, "f32", None, False, 60, lambda run: 1.0)  # all are as quick: what was there stays
    assert found == text
    assert tuned(SPEC, {}, "f32", None, False, 60, countdown()) != text

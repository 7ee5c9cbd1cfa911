"""The specs of the documentation run: all they define is compiled, imported and called on all backends at small sizes.

A model runs as it is. A function, a layer or an optimiser is called by a model that is written here from its signature.
Results are those of the reference interpreter before any pass, those of a train with its gradients.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_snippets import SPECS, Block, blocks

from dslc import pipeline
from dslc.builder.build import Unit, build, build_train
from dslc.compiler import choose
from dslc.diagnostics.report import Reporter
from dslc.frontend import check_file
from dslc.meaning.interpret import Interpreter
from dslc.open_sizes import needed
from dslc.source import Source
from dslc.syntax import tree as t
from dslc.syntax.parser import parse
from dslc.verification.backends import LOADERS, Loaded
from dslc.verification.sample import draw_inputs, fits, open_sizes

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"

#: hyper-parameters whose defaults are large
SMALL = {"hidden": 8, "depth": 2, "vocabulary": 7, "context": 8, "width": 4, "heads": 2}
#: what open sizes may be; sizes of one model differ where its `where` allows that
LENGTHS = (3, 2, 4, 5, 8, 16)
SEED = 5
#: the model of the README is that of the language page, too
FIRST = SPECS[0]


def wrapper(node: t.Fn | t.Layer) -> str:
    """A model that calls a function or a layer with its own inputs: numbers without axes become vectors."""
    plain = all(f.kind is None for f in node.formals)
    index = "[n]" if plain else ""
    formals, given = [], []
    for formal in node.formals:
        if isinstance(formal.kind, t.Type):
            formals.append(formal.span.text.replace("...", "rest"))
            given.append(formal.name)
        elif isinstance(formal.kind, t.KindWord) or (formal.default is not None and not plain):
            value = "0.5" if getattr(formal.kind, "word", "") == "float" else "3"
            formals.append(f"{formal.name} = {value if formal.default is None else formal.default.span.text}")
            given.append(f"{formal.name} = {formal.name}")
        else:
            formals.append(f"{formal.name}: [N]")
            given.append(f"{formal.name}[n]")
    names = [x.name for x in node.outputs] or ["result"]
    types = [x.type.span.text.replace("...", "rest") if x.type is not None else "[N]" for x in node.outputs] or ["[N]"]
    where = f" where {', '.join(c.span.text for c in node.where)}" if node.where else ""
    outputs = ", ".join(f"{name}: {kind}" for name, kind in zip(names, types, strict=True))
    text = f"model called_{node.name}({', '.join(formals)}) -> ({outputs}){where}:\n"
    text += f"    {', '.join(name + index for name in names)} = {node.name}({', '.join(given)})\n"
    if any(isinstance(x, t.Parameter | t.Use) for x in node.body):
        inputs = ", ".join(f.name for f in node.formals if isinstance(f.kind, t.Type))
        text += f"\ntrain called_{node.name}({inputs}):\n    {', '.join(names)} = called_{node.name}({inputs})\n"
        text += f"    minimize {' + '.join(f'mean({name}^2)' for name in names)}\n    using sgd(lr = 0.1)\n"
    return text


OPTIMISED = """
model called_{name}(x: f32[N, 3]) -> y: [N]:
    param w: [3] ~ normal
    y[n] = x[n, i] * w[i]

train called_{name}(x):
    minimize mean(called_{name}(x)^4)
    using {name}()
"""


def runnable(block: Block) -> list[tuple[str, str]]:
    """The models of a block, and for what no model can call directly what a model needs: (name, text to add)."""
    found = []
    for node in parse(Source(str(block), block.text), Reporter()).module.definitions:
        if isinstance(node, t.Layer) and node.word == "model":
            found.append((node.name, ""))
        elif isinstance(node, t.Optimizer):
            found.append((f"called_{node.name}", OPTIMISED.format(name=node.name)))
        elif isinstance(node, t.Fn | t.Layer):
            taken = {getattr(f.kind, "word", None) for f in node.formals} & {"fn", "layer"}
            if taken or (isinstance(node, t.Fn) and node.axis is not None):
                assert block.text.count(f"{node.name}(") + block.text.count(f"{node.name}[") > 1, "nothing calls it"
            else:
                found.append((f"called_{node.name}", wrapper(node)))
    return found


#: the pages of the book run their specs themselves
OTHERS = [x for x in SPECS if x.expected_error is None and x is not FIRST and x.page.parent.name != "book"]
CASES = [(block, *case) for block in OTHERS for case in runnable(block)]


@pytest.fixture
def spec(case: tuple[Block, str, str], tmp_path: Path) -> Path:
    block, _, added = case
    for other in blocks(block.page):
        if other.file is not None:
            (tmp_path / other.file).write_text(other.text, encoding="utf-8")
    path = tmp_path / "snippet.dsl"
    path.write_text(f"{block.text}\n{added}", encoding="utf-8")
    return path


def settings_of(path: Path, name: str) -> dict[str, object]:
    """Small hyper-parameters, and values for the open sizes that parameters need."""
    checked = check_file(path)
    assert checked.program is not None, [d.message for d in checked.errors]
    model, train = choose(checked, name)
    small = {k: v for k, v in SMALL.items() if k in model.statics}
    return {**small, **dict.fromkeys(needed(train.instance if train else model), 4)}


def sizes_for(units: list[Unit], conditions: Any) -> dict[str, int]:
    names = open_sizes(units)
    choices = sorted(itertools.product(LENGTHS, repeat=len(names)), key=lambda xs: (-len(set(xs)), sum(xs)))
    for choice in choices:
        sizes = dict(zip(names, choice, strict=True))
        if all(c.holds(sizes) is not False for c in conditions) and fits(units, sizes):
            return sizes
    raise AssertionError(f"no sizes for {names}")


def agree(found: Mapping[str, Any], wanted: Mapping[str, Any], what: str) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert np.shape(found[name]) == np.shape(value), name
        sign = np.sign(found[name][0] * value[0]) if name == "vector" else 1  # that of an eigenvector is free
        np.testing.assert_allclose(found[name] * sign, value, rtol=1e-9, atol=1e-11, err_msg=f"{what} {name}")


@pytest.mark.point("emitted")
@pytest.mark.parametrize("backend", LOADERS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}:{case[1]}")
def test_what_the_documentation_defines_runs(case: tuple[Block, str, str], backend: str, spec: Path) -> None:
    settings = settings_of(spec, case[1])
    checked = check_file(spec, settings)
    model, train = choose(checked, case[1])
    loaded = LOADERS[backend](spec, settings, case[1])
    rng = np.random.default_rng(SEED)
    unit = build(model, "inference")
    sizes = sizes_for([unit], model.where)
    values = draw_inputs(unit, model.inputs, sizes, rng)
    wanted = Interpreter(values, sizes, SEED).run(unit.outputs)
    found = loaded.call("forward", unit, values, SEED)
    agree(found if isinstance(found, dict) else dict.fromkeys(wanted, found), wanted, "output")
    if train is not None:
        trained(loaded, train, sizes, rng)


def trained(loaded: Loaded, train: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> None:
    unit = build_train(train)
    sizes = sizes_for([unit], train.instance.where)
    values = draw_inputs(unit, train.instance.inputs, sizes, rng)
    program = pipeline.training(train)
    wanted = Interpreter(values, sizes, SEED).run(dict(program.stages)["differentiate"])
    loss, grads, metrics, _ = loaded.call("loss_grad_metrics", unit, values, SEED)
    agree({"loss": loss, **metrics}, {k: wanted[k] for k in program.values()}, "value")
    agree(grads, {k: wanted[f"gradient {k}"] for k in program.gradients()}, "gradient of")
    before = {k: v.copy() for k, v in values.items()}
    after, losses = loaded.train(unit, values, SEED, 2)
    np.testing.assert_allclose(losses[0], loss, rtol=1e-9)
    assert losses[1] != losses[0] and all(np.isfinite(x).all() for x in after.values())
    agree(values, before, "argument")

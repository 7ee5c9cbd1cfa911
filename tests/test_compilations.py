"""Compilations in one process have nothing to do with each other."""

from __future__ import annotations

import gc
import json
import linecache
import os
import subprocess
import sys
import threading
import traceback
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import dslc
from dslc.compiler import compile_text
from dslc.diagnostics.spec_error import SpecError

ROOT = Path(__file__).parents[1]
SPECS = sorted(str(p) for p in (ROOT / "specs").glob("*/*.dsl"))


@pytest.mark.parametrize("backend", ["numpy", "triton"])
def test_an_unknown_dtype_is_refused_with_those_that_there_are(backend: str) -> None:
    with pytest.raises(ValueError, match="no dtype 'f8' for parameters; expected 'f32', 'f64', 'f16' or 'bf16'"):
        dslc.compile(ROOT / "specs/mlp/mlp.dsl", backend, "f8")


@pytest.mark.parametrize("declared", ["param W: f64[3] ~ ones", "state W: f64[3] = 1"])
@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
def test_a_parameter_with_more_digits_than_a_module_keeps_is_refused(
    tmp_path: Path, backend: str, declared: str
) -> None:
    """C read its float32 numbers as float64, past their end."""
    path = tmp_path / "wide.dsl"
    path.write_text(f"model m(x: [N, 3]) -> y: [N]:\n    {declared}\n    y[n] = x[n, i] * W[i]\n", "utf-8")
    with pytest.raises(
        SpecError, match=r"`W` in f64 in a module whose parameters are in f32(.|\n)*wide.dsl:2(.|\n)*--dtype f64"
    ):
        compile_text(path, backend)
    assert compile_text(path, backend, dtype="f64")


def test_an_unknown_backend_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="no backend 'jax'; expected 'numpy', 'c' or 'triton'"):
        dslc.compile(ROOT / "specs/mlp/mlp.dsl", "jax")


#: compiles specs in processes of their own and in one process in both orders; prints which texts differ
DIFFERENT = """
import hashlib, json, os, sys
from pathlib import Path
from dslc.compiler import compile_text
from dslc.diagnostics.spec_error import SpecError

backend, *specs = sys.argv[1:]

def digest(spec):
    try:
        text = compile_text(Path(spec), backend)
    except (SpecError, ValueError) as refused:  # by a backend, or for want of a model
        text = str(refused)
    return hashlib.sha256(text.encode()).hexdigest()

def in_a_process(specs):
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, json.dumps({spec: digest(spec) for spec in specs}).encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as answer:
        found = json.load(answer)
    os.wait()
    return found

alone = {}
for spec in specs:
    alone |= in_a_process([spec])
together = [in_a_process(specs), in_a_process(specs[::-1])]
print(json.dumps(sorted({spec for found in together for spec in specs if found[spec] != alone[spec]})))
"""


def different(backend: str, specs: list[str]) -> list[str]:
    run = subprocess.run([sys.executable, "-c", DIFFERENT, backend, *specs], capture_output=True, text=True, check=True)
    found: list[str] = json.loads(run.stdout)
    return found


@pytest.mark.wide(2)
@pytest.mark.parametrize("backend", ["numpy", "triton"])
def test_the_text_of_a_module_does_not_depend_on_what_was_compiled_before(backend: str) -> None:
    assert different(backend, SPECS[:: 10 if backend == "numpy" else 20]) == []


@pytest.mark.long
@pytest.mark.parametrize("backend", ["numpy", "triton"])
def test_no_text_of_a_spec_depends_on_what_was_compiled_before(backend: str) -> None:
    assert different(backend, SPECS) == []


#: prints a digest of the text of each spec
DIGESTS = """
import hashlib, json, sys
from pathlib import Path
from dslc.compiler import compile_text

backend, *specs = sys.argv[1:]
print(json.dumps([hashlib.sha256(compile_text(Path(spec), backend).encode()).hexdigest() for spec in specs]))
"""

LOOPS = """
model m(x: f32[N, 4]) -> y: [N, 4]:
    h = x
    for l in 0..3:
        param a, b: [4] ~ normal
        state s: [4] = 0
        state t: [4] = 0
        u[k] = tanh(mean[n](h[n, k]))
        training:
            s <- u
            t <- u
        h[n, k] = tanh(h[n, k] * u[k] + a[k] + b[k]) + s[k]
    y = h

train m(x):
    minimize sum[n, k](m(x)[n, k]^2)
    using sgd(lr = 0.1)
"""

#: sizes that are products of two quotients
POOLS = """
model m(x: f32[N, H, W, 4]) -> y: [N, 4] where H >= 2, W >= 2:
    h = x |> max_pool2d
    y[n, c] = mean[p, q](exp(h[n, p, q, c]))
"""


@pytest.mark.wide(2)
@pytest.mark.point("B")
@pytest.mark.parametrize("backend", ["c", "numpy", "triton"])
def test_the_text_of_a_module_is_the_same_in_every_process(tmp_path: Path, backend: str) -> None:
    """Sets of texts have another order in each process: nothing may follow it."""
    (tmp_path / "loops.dsl").write_text(LOOPS, encoding="utf-8")
    (tmp_path / "pools.dsl").write_text(POOLS, encoding="utf-8")
    specs = [
        str(tmp_path / "loops.dsl"),
        str(tmp_path / "pools.dsl"),
        *(x for x in SPECS if Path(x).stem in ("glu", "gcn")),
    ]
    command = [sys.executable, "-c", DIGESTS, backend, *specs]
    runs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in "123"
    ]
    digests = [json.loads(run.communicate()[0]) for run in runs]
    assert [spec for spec, *found in zip(specs, *digests, strict=True) if len(set(found)) > 1] == []


MODES = """
model m(x: f32[N, 4]) -> y: [N, 4]:
    state scale: [4] = 1
    training:
        bent = tanh(x)
    inference:
        curved = tanh(x)
        bent[n, i] = curved[n, i] * scale[i]
    y = bent * 2

train m(x, t: f32[N, 4]):
    y = m(x)
    minimize mean[n, i]((y[n, i] - t[n, i])^2)
    using sgd(lr = 0.1)
"""


def test_each_function_names_a_value_by_its_own_statement(tmp_path: Path) -> None:
    file = tmp_path / "modes.dsl"
    file.write_text(MODES, encoding="utf-8")
    text = compile_text(file)
    forward, gradient, evaluate = (text.split(f"def {f}(")[1].split("\ndef ")[0] for f in FUNCTIONS)
    assert "modes.dsl:7  curved = tanh(x)" in forward
    assert "y = forward(params, x, state)" in evaluate
    for inference in (forward, evaluate):
        assert "bent = tanh(x)" not in inference
    assert "modes.dsl:5  bent = tanh(x)" in gradient
    assert "curved" not in gradient


FUNCTIONS = ("forward", "loss_grad_metrics", "evaluate")


def test_threads_compile_apart(tmp_path: Path) -> None:
    specs = [Path(x) for x in SPECS if x.endswith(("/mlp.dsl", "/glu.dsl"))]
    expected = {spec: compile_text(spec) for spec in specs}
    found: dict[Path, str] = {}

    def work(spec: Path) -> None:
        found[spec] = compile_text(spec)

    threads = [threading.Thread(target=work, args=(spec,)) for spec in specs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


NUMBERED = """
model m{k}(x{k}: f32[N{k}, 5]) -> y: [N{k}, 4]:
    h{k} = x{k} |> dense(4) |> gelu
    y[n, i] = softmax[i](h{k}[n, i] * {k}.5)

train m{k}(x{k}, label: i32[N{k}] < 4):
    y = m{k}(x{k})
    minimize cross_entropy(y, label)
    using adamw(lr = 1e-3)
"""


def test_a_process_keeps_nothing_of_what_it_compiled(tmp_path: Path) -> None:
    """Not a node, a position or a source: what dslc makes for a compilation goes with it."""
    held: list[Counter[str]] = []
    before = set(linecache.cache)  # other tests may keep modules
    rng = np.random.default_rng(0)
    for k in range(6):
        file = tmp_path / f"m{k}.dsl"
        file.write_text(NUMBERED.format(k=k), encoding="utf-8")
        module = dslc.compile(file)
        batch = {f"x{k}": rng.normal(size=(8, 5)).astype(np.float32), "label": np.arange(8, dtype=np.int32) % 4}
        module.loss_and_grad(module.init(0), **batch)
        del module
        gc.collect()
        kinds = [type(x) for x in gc.get_objects() if str(type(x).__module__).startswith("dslc")]
        # sizes are in a cache of bounded length
        held.append(Counter(k.__qualname__ for k in kinds if k.__module__ != "dslc.polynomials"))
    assert held[-1] == held[1]
    assert not [x for x in set(linecache.cache) - before if "_compiled.py" in x]


def test_a_module_in_memory_needs_no_room_on_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/there/is/no/such/folder")
    module = dslc.compile(ROOT / "specs/mlp/mlp.dsl")
    with pytest.raises(ValueError, match="expected 64 along axis 1") as raised:
        module.forward(module.init(), np.zeros((1, 3)))
    last = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert last.line is not None and last.line.startswith("raise ValueError")

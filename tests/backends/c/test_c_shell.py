"""The Python side of a C module takes, refuses and gives what NumPy's module of the same spec does."""

from __future__ import annotations

import inspect
import re
import threading
import timeit
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import dense
import numpy as np
import pytest
from dslc.backends.c.shell import copied, python_text

from dslc.compiler import compile_text, imported
from dslc.emitted import sound
from dslc.ir.interning import compilation


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return dense.dense(tmp_path_factory.mktemp("dense"))


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    folder = tmp_path_factory.mktemp("numpy")
    (folder / "dense.dsl").write_text(dense.SPEC, encoding="utf-8")
    return imported(compile_text(folder / "dense.dsl", "numpy"), "dense")


def batch(rows: int = 5) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(rows)
    x, t = rng.normal(size=(rows, 3)).astype(np.float32), rng.normal(size=(rows, 2)).astype(np.float32)
    return x, rng.integers(0, 2, rows), t


def same(found: Any, expected: Any) -> None:
    """Equal types, names and dtypes, and values up to rounding."""
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            same(found[name], expected[name])
    elif isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif isinstance(expected, np.ndarray | np.generic):
        assert found.dtype == expected.dtype and found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    else:
        assert found == expected


@pytest.mark.parametrize("rows", [1, 3, 17, 130])
def test_the_functions_give_what_those_of_numpy_give(rows: int, module: ModuleType, oracle: ModuleType) -> None:
    x, c, t = batch(rows)
    params = module.init(3)
    same(params, oracle.init(3))
    same(module.forward(params, x, c), oracle.forward(params, x, c))
    for name in ("loss_grad_metrics", "evaluate", "loss_and_grad"):
        same(getattr(module, name)(params, x, c, t), getattr(oracle, name)(params, x, c, t))
    ours, theirs = module.init_opt(params), oracle.init_opt(params)
    same(ours, theirs)
    other = {k: v.copy() for k, v in params.items()}
    for _ in range(4):
        made, opt = module.train_step(params, ours, x, c, t)
        oracle.train_step(other, theirs, x, c, t)
        assert made is params and opt is ours
        same(ours, theirs)
        same(params, other)


def signature(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The arguments of a function, but for the one by which `evaluate` of a NumPy module leaves the gradient out."""
    found = inspect.signature(function).parameters.values()
    return [x for x in found if (x.name, x.default) != ("gradient", True)]


def test_the_functions_have_the_signatures_of_numpy(module: ModuleType, oracle: ModuleType) -> None:
    shared = ("init", "forward", "loss_grad_metrics", "evaluate", "loss_and_grad", "init_opt", "train_step", "save")
    for name in (*shared, "load"):
        assert signature(getattr(module, name)) == signature(getattr(oracle, name)), name
    assert module.PARAMS == oracle.PARAMS and module.MANIFEST == oracle.MANIFEST and module.DTYPE is oracle.DTYPE


def test_files_of_weights_move_between_backends(module: ModuleType, oracle: ModuleType, tmp_path: Path) -> None:
    for name in ("w.safetensors", "w.npz"):
        module.save(module.init(1), tmp_path / name)
        same(oracle.load(tmp_path / name), module.init(1))
        oracle.save(module.init(2), tmp_path / name)
        same(module.load(tmp_path / name), module.init(2))


#: what is wrong with parameters, x, c, t
WRONG: dict[str, Callable[[dict[str, Any], Any, Any, Any], tuple[Any, ...]]] = {
    "no dict": lambda p, x, c, t: (None, x, c, t),
    "missing": lambda p, x, c, t: ({"W": p["W"]}, x, c, t),
    "unknown": lambda p, x, c, t: (p | {"V": p["W"]}, x, c, t),
    "other name": lambda p, x, c, t: ({"W": p["W"], "bias": p["b"]}, x, c, t),
    "shape": lambda p, x, c, t: (p | {"W": p["W"].T}, x, c, t),
    "wide": lambda p, x, c, t: (p | {"W": p["W"].astype(np.float64)}, x, c, t),
    "swapped bytes": lambda p, x, c, t: (p | {"W": p["W"].astype(">f4")}, x, c, t),
    "no array": lambda p, x, c, t: (p | {"b": [0.0, 0.0]}, x, c, t),
    "axes": lambda p, x, c, t: (p, x[0], c, t),
    "size": lambda p, x, c, t: (p, x[:, :2], c, t),
    "empty": lambda p, x, c, t: (p, x[:0], c[:0], t[:0]),
    "agreement": lambda p, x, c, t: (p, x, c[:2], t),
    "whole": lambda p, x, c, t: (p, x, c * 1.0, t),
    "complex": lambda p, x, c, t: (p, x * 1j, c, t),
    "above": lambda p, x, c, t: (p, x, c + 2, t),
    "below 0": lambda p, x, c, t: (p, x, c - 2**40, t),
    "far above": lambda p, x, c, t: (p, x, c + 2**32, t),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_numpy_refuses_is_refused_in_the_same_words(what: str, module: ModuleType, oracle: ModuleType) -> None:
    def told(call: Callable[..., Any], *given: Any) -> tuple[type[BaseException], str]:
        with pytest.raises((ValueError, TypeError)) as raised:
            call(*given)
        return raised.type, str(raised.value)

    params = module.init()
    module.forward(params, *batch()[:2])  # pointers to these are known now
    given = WRONG[what](params, *batch())
    assert told(module.forward, *given[:3]) == told(oracle.forward, *given[:3])
    for name in ("loss_grad_metrics", "evaluate"):
        assert told(getattr(module, name), *given) == told(getattr(oracle, name), *given)
    ours, theirs = module.init_opt(params), oracle.init_opt(params)
    assert told(module.train_step, given[0], ours, *given[1:]) == told(oracle.train_step, given[0], theirs, *given[1:])


def test_slots_are_checked_before_the_step_counts(module: ModuleType) -> None:
    params = module.init()
    for slot, message in ((None, "^opt.v: expected a dict"), ({}, "^opt.v.W is missing")):
        opt = module.init_opt(params) | {"v": slot}
        with pytest.raises(ValueError, match=message):
            module.train_step(params, opt, *batch())
        assert opt["step"] == 0


def test_results_have_memory_of_their_own(module: ModuleType) -> None:
    params, (x, c, t) = module.init(), batch()
    first, second = module.forward(params, x, c), module.forward(params, x, c)
    assert first.flags.owndata and first.flags.writeable and not np.shares_memory(first, second)
    _, grads, _, _ = module.loss_grad_metrics(params, x, c, t)
    kept = {k: v.copy() for k, v in grads.items()}
    module.train_step(params, module.init_opt(params), x, c, t)
    module.loss_grad_metrics(params, x, c, t)
    same(grads, kept)


def test_parameters_are_read_as_they_are_now(module: ModuleType, oracle: ModuleType) -> None:
    params, (x, c, _) = module.init(), batch()
    module.forward(params, x, c)
    params["W"][...] = 1  # in place
    same(module.forward(params, x, c), oracle.forward(params, x, c))
    params["W"] = np.full((3, 2), 2, np.float32)  # another array
    same(module.forward(params, x, c), oracle.forward(params, x, c))
    params = dict(reversed(params.items()))  # another order
    same(module.forward(params, x, c), oracle.forward(params, x, c))
    params["b"] = params.pop("b")
    with pytest.raises(ValueError, match=r"^b is missing"):
        module.forward({"c" if k == "b" else k: v for k, v in params.items()}, x, c)


def test_arrays_may_lie_in_memory_as_they_like(module: ModuleType, oracle: ModuleType) -> None:
    x, c, t = batch(6)
    raw = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(6, 3)
    assert not raw.flags.aligned and not raw.flags.writeable
    params = module.init()
    wanted = oracle.forward(params, x, c)
    turned = {k: np.array(v, order="F") for k, v in params.items()}
    for given in (np.array(x, order="F"), np.repeat(x, 2, 0)[::2], x[::-1][::-1], raw, x.astype(">f4"), x.tolist()):
        same(module.forward(params, given, c), wanted)
        same(module.forward(turned, given, c.astype(np.uint8)), wanted)
    rows, columns = module.init_opt(params), module.init_opt(turned)
    columns["v"] = {k: np.array(v, order="F") for k, v in columns["v"].items()}
    held = turned["W"]
    for _ in range(3):
        module.train_step(params, rows, x, c, t)
        module.train_step(turned, columns, x, c, t)
    assert turned["W"] is held and not held.flags.c_contiguous
    for name in params:
        np.testing.assert_array_equal(params[name], turned[name])
        np.testing.assert_array_equal(rows["v"][name], columns["v"][name])


def test_arrays_that_are_read_only_are_read_and_not_written(module: ModuleType) -> None:
    params, data = module.init(), batch()
    for array in (*params.values(), *data):
        array.flags.writeable = False
    before = {k: v.copy() for k, v in params.items()}
    module.loss_grad_metrics(params, *data)
    with pytest.raises(ValueError, match="read-only"):
        module.train_step(params, module.init_opt(params), *data)
    same(params, before)


def test_threads_call_a_module_at_once(module: ModuleType) -> None:
    failures: list[str] = []

    def work(rows: int) -> None:
        params, (x, c, t) = module.init(rows), batch(rows)
        opt, wanted = module.init_opt(params), module.forward(params, x, c)
        start = {k: v.copy() for k, v in params.items()}
        for _ in range(100):
            if not np.array_equal(module.forward(start, x, c), wanted):
                failures.append(f"forward of {rows}")
            module.train_step(params, opt, x, c, t)
            if not all(np.isfinite(v).all() for v in params.values()) and rows < 3:
                failures.append(f"step of {rows}")

    threads = [threading.Thread(target=work, args=(rows,)) for rows in (1, 2, 3, 50, 1, 400, 5, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_an_error_of_the_c_code_is_raised_with_its_message(module: ModuleType) -> None:
    a = module.address(np.zeros(8, np.float32))
    with pytest.raises(ValueError, match=r"^N: expected at least 1$"):
        module.c_forward(0, a, a, module.PARAMETERS(module.init()).at, a)


@pytest.mark.parametrize("name", ["address", "gradients_into", "PARAMETERS", "SLOTS", "y", "c_forward", "TRAINED"])
def test_inputs_have_any_name(name: str, tmp_path: Path) -> None:
    spec = re.sub(r"\bx\b", name, re.sub(r"\by\b", "out", dense.SPEC))

    def renamed(fields: Any) -> Any:
        new = {"x": name, "gradient x": f"gradient {name}", "d_y": "d_out"}
        return tuple(replace(f, name=new.get(f.name, f.name)) for f in fields)

    entries = tuple(replace(e, inputs=renamed(e.inputs), results=renamed(e.results)) for e in dense.INTERFACE.entries)
    interface = replace(dense.INTERFACE, entries=entries)
    with compilation():
        text = python_text(dense.program_of(tmp_path, spec), interface, "dense.dsl", "f32", dense.c_text())
    module = imported(sound(text), "dense")
    params, data = module.init(), batch()
    module.forward(params, *data[:2])
    module.train_step(params, module.init_opt(params), *data)


def test_a_call_costs_little(module: ModuleType) -> None:
    """A bound that a busy machine keeps too; on a quiet one the minimum is a quarter of it."""
    params, (x, c, _) = module.init(), batch(1)
    seconds = min(timeit.repeat(lambda: module.forward(params, x, c), number=1000, repeat=20)) / 1000
    assert seconds < 50e-6


def test_layers_have_a_pointer_each(module: ModuleType) -> None:
    table = {f"l.{k}": ((2,), "zeros") for k in range(3)} | {"a": ((2,), "zeros"), "z": ((), "zeros")}
    made = module.Table(table, ["z", [f"l.{k}" for k in range(3)], "a"], np.float32)
    arrays = {name: np.full(shape, k, np.float32) for k, (name, (shape, _)) in enumerate(table.items())}
    words = [*made(arrays).memory]
    where = {name: module.address(array) for name, array in arrays.items()}
    assert words == [where["z"], made(arrays).at + 24, where["a"], *(where[f"l.{k}"] for k in range(3))]
    assert [*made.fresh(("a",))[1].memory][0::2][:1] == [0]


@pytest.mark.parametrize("name", ["build", "calling"])
def test_parts_that_modules_carry_need_what_they_say(name: str) -> None:
    part = copied(name)
    heads = [f"import {x}" for x in part.imports] + ["import numpy as np", "fitting = None"]
    assert part.text and sound("\n".join([*heads, part.text, ""]))

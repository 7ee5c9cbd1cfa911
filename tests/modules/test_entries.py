"""Every entry of a module makes the same checks: shapes, dtypes, bounds, promises, `where`, parameters, states."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from both_backends import BACKENDS, given, module_of

SPEC = """
model m(
    x: f32[N, T, 3], c: i32[N, T] < 4, coin: binary f32[N, T], p: simplex f32[N, T, 2],
) -> y: [N, T, 3] where T <= 5:
    param w: [4, 3] ~ normal
    param b: [3]
    state seen: [3] = 0
    h[n, t, i] = x[n, t, i] * w[c[n, t], i] + b[i] * coin[n, t] + seen[i] + p[n, t, 0]
    y[n, t, i] = h[n, t, i] + (x[n, t-1, i] else 0)
    training:
        seen[i] <- mean[n, t](h[n, t, i])

train m(x: f32[N, T, 3], c: i32[N, T] < 4, coin: binary f32[N, T], p: simplex f32[N, T, 2]):
    minimize mean(m(x, c, coin, p)^2)
    using sgd(lr = 0.1)
"""


def good(backend: str) -> dict[str, Any]:
    """Arguments that every entry takes."""
    rng = np.random.default_rng(0)
    made = {"x": rng.normal(size=(2, 4, 3)).astype(np.float32), "c": rng.integers(0, 4, (2, 4))}
    made |= {"coin": np.ones((2, 4), np.float32), "p": np.full((2, 4, 2), 0.5, np.float32)}
    return {k: given(v, backend) for k, v in made.items()}


def stepped(module: ModuleType, params: Any, state: Any, data: dict[str, Any]) -> Any:
    cache = module.init_cache(params, N=data["x"].shape[0], length=data["x"].shape[1])
    for t in range(data["x"].shape[1]):
        module.step(params, cache, *(v[:, t] for v in data.values()), state)


def as_module(training: bool) -> Callable[..., Any]:
    def call(module: ModuleType, params: Any, state: Any, data: dict[str, Any]) -> Any:
        made = module.Module()
        made.train(training)
        made(*data.values())

    return call


#: every way to hand inputs to a module
ENTRIES: dict[str, Callable[..., Any]] = {
    "forward": lambda m, params, state, data: m.forward(params, *data.values(), state),
    "loss_and_grad": lambda m, params, state, data: m.loss_and_grad(params, *data.values(), state),
    "loss_grad_metrics": lambda m, params, state, data: m.loss_grad_metrics(params, *data.values(), state),
    "evaluate": lambda m, params, state, data: m.evaluate(params, *data.values(), state),
    "train_step": lambda m, params, state, data: m.train_step(
        params, m.init_opt(params) | {"state": state}, *data.values()
    ),
    "step": stepped,
    "Module, training": as_module(True),
    "Module, inference": as_module(False),
}


def changed(name: str, change: Callable[[Any], Any]) -> Callable[[Any, Any, dict[str, Any]], None]:
    def apply(params: Any, state: Any, data: dict[str, Any]) -> None:
        data[name] = change(data[name])

    return apply


def at_first(value: float) -> Callable[[Any], Any]:
    def put(x: Any) -> Any:
        x[(0,) * len(x.shape)] = value
        return x

    return put


def expected(name: str, shape: str, found: str) -> str:
    return "^" + re.escape(f"{name}: expected float32 {shape}, found {found}")


#: what is wrong, and what the message says
WRONG: dict[str, tuple[Callable[[Any, Any, dict[str, Any]], None], str]] = {
    "where": (lambda params, state, data: data.update({k: longer(v) for k, v in data.items()}), r"needs T <= 5|T = 8"),
    "bound": (changed("c", at_first(4)), r"c: expected 0 <= value < 4, found 4 at \(0, 0\)|at \(0,\)"),
    "negative": (changed("c", at_first(-1)), r"c: expected 0 <= value < 4, found -1"),
    "binary": (changed("coin", at_first(0.5)), r"coin: expected 0 or 1, found 0\.5 at \(0,"),
    "simplex": (changed("p", at_first(0.6)), r"p: expected a sum of 1 along the last axis, found 1\.1"),
    "simplex below 0": (changed("p", at_first(-0.5)), r"p: expected no entry below 0, found -0\.5"),
    "NaN on the simplex": (changed("p", at_first(float("nan"))), r"p: expected no entry below 0, found nan"),
    "axes": (changed("x", lambda x: x[..., 0]), r"x: expected \d axes .*, found the shape"),
    "size": (changed("x", lambda x: x[..., :2]), r"x: expected 3 along axis \d, found 2"),
    "agreement": (changed("c", lambda c: c[:1]), r"c: expected (N = )?2 along axis 0"),
    "dtype": (changed("c", lambda c: c * 1.0), r"c: expected int64, found float"),
}
#: the same for parameters and states, which a `Module` has itself
WRONG_TABLES: dict[str, tuple[Callable[[Any, Any, dict[str, Any]], None], str]] = {
    "missing": (lambda params, *_: params.pop("b"), "^b is missing"),
    "unknown": (lambda params, *_: params.update(bias=params["b"]), "^bias is unknown: expected w, b"),
    "shape": (lambda params, *_: params.update(b=params["b"][:1]), expected("b", "(3,)", "float32 (1,)")),
    "layout": (
        lambda params, *_: params.update(w=params["w"].reshape(3, 4)),
        expected("w", "(4, 3)", "float32 (3, 4)"),
    ),
    "wide": (lambda params, *_: params.update(b=wide(params["b"])), expected("b", "(3,)", "float64 (3,)")),
    "state missing": (lambda params, state, _: state.clear(), "^seen is missing"),
    "state shape": (
        lambda params, state, _: state.update(seen=state["seen"][:1]),
        expected("seen", "(3,)", "float32 (1,)"),
    ),
}


def wide(x: Any) -> Any:
    return x.astype(np.float64) if isinstance(x, np.ndarray) else x.double()


def longer(x: Any) -> Any:
    """Twice as many steps."""
    if isinstance(x, np.ndarray):
        return np.concatenate([x, x], 1)
    import torch

    return torch.cat([x, x], 1)


@pytest.fixture(scope="module", params=BACKENDS)
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ModuleType]:
    return request.param, module_of(SPEC, request.param, tmp_path_factory.mktemp("entries"))


@pytest.mark.point("4")
@pytest.mark.point("5")
@pytest.mark.point("9")
@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_makes_the_same_checks(entry: str, compiled: tuple[str, ModuleType]) -> None:
    backend, module = compiled
    if entry.startswith("Module") and backend == "numpy":
        return
    tables = {} if entry.startswith("Module") else WRONG_TABLES
    wrong = {k: v for k, v in (WRONG | tables).items() if entry != "step" or k not in ("state missing",)}
    for what, (change, message) in {"": (lambda *_: None, ""), **wrong}.items():
        params, state, data = module.init(), module.init_state(), good(backend)
        change(params, state, data)
        if not what:
            ENTRIES[entry](module, params, state, data)
            continue
        with pytest.raises((ValueError, TypeError), match=message) as raised:
            ENTRIES[entry](module, params, state, data)
        assert raised.type is not KeyError, what


#: entries that take no data
TABLES: dict[str, Callable[..., Any]] = {
    "init_opt": lambda m, params, folder: m.init_opt(params),
    "save": lambda m, params, folder: m.save(params, folder / "w.safetensors"),
}


@pytest.mark.point("4")
@pytest.mark.parametrize("entry", TABLES)
def test_entries_without_data_check_parameters(entry: str, compiled: tuple[str, ModuleType], tmp_path: Path) -> None:
    _, module = compiled
    TABLES[entry](module, module.init(), tmp_path)
    for what, (change, message) in WRONG_TABLES.items():
        if not what.startswith("state"):
            params = module.init()
            change(params, {}, {})
            with pytest.raises(ValueError, match=message):
                TABLES[entry](module, params, tmp_path)
    for value in (None, [1.0]):
        with pytest.raises(ValueError, match=r"^params: expected a dict of .* by name, found"):
            TABLES[entry](module, value, tmp_path)
        with pytest.raises(ValueError, match=r"^b: expected float32 \(3,\), found"):
            TABLES[entry](module, module.init() | {"b": value}, tmp_path)


#: what is wrong with the slots of an optimiser, and what the message says
WRONG_SLOTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "none": (lambda opt: opt.pop("v"), "^opt.v: expected a dict"),
    "missing": (lambda opt: opt["v"].pop("b"), "^opt.v.b is missing"),
    "shape": (lambda opt: opt["v"].update(b=opt["v"]["b"][:1]), expected("opt.v.b", "(3,)", "float32 (1,)")),
    "layout": (
        lambda opt: opt["v"].update(w=opt["v"]["w"].reshape(3, 4)),
        expected("opt.v.w", "(4, 3)", "float32 (3, 4)"),
    ),
    "wide": (lambda opt: opt["v"].update(b=wide(opt["v"]["b"])), expected("opt.v.b", "(3,)", "float64 (3,)")),
}


@pytest.mark.point("4")
@pytest.mark.parametrize("backend", BACKENDS)
def test_slots_of_an_optimiser_are_checked(backend: str, tmp_path: Path) -> None:
    module = module_of(SPEC.replace("sgd(lr", "momentum(lr"), backend, tmp_path)
    params, data = module.init(), good(backend)
    module.train_step(params, module.init_opt(params), *data.values())
    for change, message in WRONG_SLOTS.values():
        opt = module.init_opt(params)
        change(opt)
        with pytest.raises(ValueError, match=message):
            module.train_step(params, opt, *data.values())
        assert opt["step"] == 0


def test_the_table_knows_every_entry(compiled: tuple[str, ModuleType]) -> None:
    """A function of a module that takes inputs is one of the table, or is called by one of it."""
    known = {name.split(",")[0] for name in ENTRIES} | {"init_cache"}
    torch = {"forward_saving", "forward_training", "adjoint", "adjoint_training"}  # which a Module calls
    inside = {*torch, "gradients_into"}
    _, module = compiled
    arguments = {
        name: f.__code__.co_varnames[: f.__code__.co_argcount]
        for name, f in vars(module).items()
        if hasattr(f, "__code__")
    }
    takes = {name for name, given in arguments.items() if {"params", "x"} <= {*given}}
    assert takes - {f"{name}_of_rows" for name in known} <= known | inside


@pytest.mark.point("L")
def test_parameters_in_fortran_order_are_trained(tmp_path: Path) -> None:
    module = module_of(SPEC, "numpy", tmp_path)
    data = good("numpy")
    rows = module.init()
    columns = {k: np.array(v, order="F") for k, v in rows.items()}
    held = columns["w"]
    one, other = module.init_opt(rows), module.init_opt(columns)
    for _ in range(3):
        module.train_step(rows, one, *data.values())
        module.train_step(columns, other, *data.values())
    assert columns["w"] is held and not held.flags.c_contiguous
    for name, value in rows.items():
        np.testing.assert_allclose(columns[name], value, rtol=1e-5, atol=1e-6)

"""Faults planted in modules, derivatives and passes: `dslc verify` finds each of them, and says where."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dslc import pipeline
from dslc.autodiff import scalar as d
from dslc.autodiff import transpose
from dslc.check import program as p
from dslc.compiler import choose, optimizer_of
from dslc.frontend import check_file
from dslc.ir import nodes as ir
from dslc.ir.interning import compilation
from dslc.verification import optimizing
from dslc.verification.backends import LOADERS, Loaded
from dslc.verification.checks import Subject
from dslc.verification.lengths import at_length
from dslc.verification.verify import of_backend

#: states, random draws, a loop of layers, a parameter that stays, a schedule, an optimiser with two slots
NET = """
model net(x: f32[N, 4]) -> y: [N, 3]:
    param gain: [4] ~ ones
    g[n, i] = gain[i] * x[n, i]
    h = g |> dense(6) |> batch_norm |> tanh |> dropout(0.2)
    for l in 0..2:
        h = h + (h |> dense(6) |> tanh)
    y = h |> dense(3)

train net(x, label: i32[N] < 3):
    freeze gain
    y = net(x)
    minimize cross_entropy(y, label)
    metric accuracy = accuracy(y, label)
    using adamw(lr = 1e-2 / sqrt(step), weight_decay = 0.1)
"""

#: a recurrence, which can be done step by step
WALK = """
model walk(x: f32[N, T, 3]) -> y: [N, T, 2]:
    param w: [3, 2] ~ normal
    param u: [2, 2] ~ normal
    scan t in 0..T:
        h[n, t, k] = tanh(x[n, t, i] * w[i, k] + h[n, t-1, j] * u[j, k])
    start h = 0
    y = h

train walk(x):
    minimize mean((walk(x) - x[:, :, 0:2])^2)
    using sgd(lr = 0.1)
"""

#: what rules of derivatives and of stable forms are made for
FORMULAS = """
model formulas(x: f32[N, 5], at: i32[N] < 7) -> y: [N]:
    param table: [7, 5] ~ normal
    param s: [5] ~ ones
    z[n, k] = x[n, k] * s[k] + table[at[n], k]
    top[n] = max[k](z[n, k])
    near = z[:, 0:4] - z[:, 1:5]
    a[n, k] = softmax[k](z[n, k])
    r[n] = sqrt(1 + sum[k](near[n, k]^2)) / exp(s[0])
    y[n] = log(sum[k](exp(z[n, k]))) + r[n] + top[n] * sum[k](a[n, k] * sin(x[n, k]))

train formulas(x, at):
    minimize mean(formulas(x, at)^2)
    using sgd(lr = 0.1)
"""


@dataclass
class Spec:
    path: Path
    model: p.Instance
    train: p.TrainProgram | None
    optimizer: p.Instance | None
    subject: Subject

    def found(self, loaded: Loaded, long: bool = False) -> dict[str, str]:
        """The checks that fail, and what they say."""
        rows = of_backend(self.subject, loaded, None, self.optimizer)
        if long:
            rows += at_length(self.subject, loaded, {})
        return {row.name: row.note for row in rows if not row.ok}


def made(folder: Path, text: str, sizes: Mapping[str, int]) -> Spec:
    path = folder / f"{text.split('(')[0].split()[-1]}.dsl"
    path.write_text(text, encoding="utf-8")
    checked = check_file(path, {})
    model, train = choose(checked)
    return Spec(path, model, train, optimizer_of(checked, train), Subject(model, train, sizes, 0))


@pytest.fixture(autouse=True)
def few_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong is wrong by far more than roundings, however often they are tried."""
    monkeypatch.setattr(optimizing, "TRIED", 2)
    monkeypatch.setattr(optimizing, "OFTEN", 2)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Spec, Loaded]]:
    with compilation():
        spec = made(tmp_path_factory.mktemp("net"), NET, {"N": 5})
        yield spec, LOADERS["numpy"](spec.path, {}, spec.model.name)


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Spec, Loaded]]:
    with compilation():
        spec = made(tmp_path_factory.mktemp("walk"), WALK, {"N": 3, "T": 4})
        yield spec, LOADERS["numpy"](spec.path, {}, spec.model.name)


# ---- modules ---------------------------------------------------------------------------------------------------

Plant = Callable[[ModuleType, Callable[[str, Any], None]], None]
#: name of a fault -> how it is planted, and the check that must find it
MODULE_FAULTS: dict[str, tuple[Plant, str]] = {}


def fault(check: str) -> Callable[[Plant], Plant]:
    def note(plant: Plant) -> Plant:
        MODULE_FAULTS[plant.__name__] = plant, check
        return plant

    return note


def around(function: Any, change: Callable[..., Any]) -> Any:
    """A function with another result: `change` gets the first one, and the arguments."""

    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        return change(function(*arguments, **options), *arguments, **options)

    return wrapped


@fault("outputs")
def an_output_is_a_millionth_off(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    put("forward", around(module.forward, lambda y, *_, **__: y * (1 + 1e-6)))


@fault("outputs")
def one_row_is_left_out(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    put("forward", around(module.forward, lambda y, *_, **__: np.concatenate([y[:-1], 0 * y[-1:]])))


@fault("loss and metrics")
def a_metric_is_that_of_other_rows(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    real = module.loss_grad_metrics
    put("loss_grad_metrics", around(real, lambda r, *_, **__: (*r[:2], {"accuracy": 1 - r[2]["accuracy"]}, r[3])))


def with_gradients(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Plant:
    def plant(module: ModuleType, put: Callable[[str, Any], None]) -> None:
        real = module.loss_grad_metrics
        put("loss_grad_metrics", around(real, lambda r, *_, **__: (r[0], {**r[1], **change(r[1])}, *r[2:])))

    return plant


@fault("gradients")
def a_gradient_is_dropped(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    with_gradients(lambda g: {"dense2.1.b": 0 * g["dense2.1.b"]})(module, put)


@fault("gradients")
def two_layers_have_each_other_s_gradients(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    with_gradients(lambda g: {"dense2.0.W": g["dense2.1.W"], "dense2.1.W": g["dense2.0.W"]})(module, put)


@fault("gradients")
def a_gradient_is_transposed(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    with_gradients(lambda g: {"dense2.0.W": g["dense2.0.W"].T.copy()})(module, put)


@fault("next states")
def a_state_does_not_go_on(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    def stale(result: Any, params: Any, x: Any, label: Any, state: Any, **options: Any) -> Any:
        return *result[:3], {**result[3], "batch_norm.running_var": state["batch_norm.running_var"].copy()}

    put("loss_grad_metrics", around(module.loss_grad_metrics, stale))


@fault("loss for inference")
def the_loss_for_inference_is_that_of_training(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    def other(result: Any, params: Any, x: Any, label: Any, state: Any, **options: Any) -> Any:
        return module.loss_grad_metrics(params, x, label, state, seed=0)[0], result[1]

    put("evaluate", around(module.evaluate, other))


TRAINED = "3 steps of training"


@fault(TRAINED)
def a_step_does_not_keep_the_states(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    def forgetful(result: Any, *_: Any, **__: Any) -> Any:
        return result[0], {**result[1], "state": module.init_state()}

    put("train_step", around(module.train_step, forgetful))


@fault(TRAINED)
def states_begin_with_other_values(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    put("init_state", around(module.init_state, lambda s: {k: np.zeros_like(x) for k, x in s.items()}))


@fault(TRAINED)
def steps_are_not_counted(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    put("train_step", around(module.train_step, lambda r, *_, **__: (r[0], {**r[1], "step": 0})))


@fault(TRAINED)
def all_steps_draw_the_same_numbers(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    real = module.loss_grad_metrics
    put("loss_grad_metrics", functools.wraps(real)(lambda *a, seed=0, **o: real(*a, seed=min(seed, 1), **o)))


@fault(TRAINED)
def a_parameter_is_not_moved(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    real = module.train_step

    @functools.wraps(real)
    def step(params: Any, *rest: Any, **options: Any) -> Any:
        before = params["batch_norm.scale"].copy()
        params, opt = real(params, *rest, **options)
        params["batch_norm.scale"][...] = before
        return params, opt

    put("train_step", step)


@fault(TRAINED)
def a_frozen_parameter_is_moved(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    def melt(result: Any, *_: Any, **__: Any) -> Any:
        result[0]["gain"][0] -= 1e-6
        return result

    put("train_step", around(module.train_step, melt))


def with_options(**changed: Any) -> Plant:
    def plant(module: ModuleType, put: Callable[[str, Any], None]) -> None:
        real = module.update
        put("update", lambda *arguments, **options: real(*arguments, **{**options, **changed}))

    return plant


@fault(TRAINED)
def weights_do_not_decay(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    with_options(weight_decay=0.0)(module, put)


@fault(TRAINED)
def the_learning_rate_stays_that_of_the_first_step(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    space, text = dict(vars(module)), inspect.getsource(module.update)
    assert "    lr = " in text
    exec(re.sub(r"    lr = .*", "    lr = 1e-2", text), space)
    put("update", space["update"])


@fault(TRAINED)
def a_constant_of_the_optimiser_is_another(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    with_options(eps=1e-6)(module, put)


@fault(TRAINED)
def a_slot_begins_with_another_value(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    def other(opt: Any, *_: Any, **__: Any) -> Any:
        return {**opt, "v": {k: x + 1e-3 for k, x in opt["v"].items()}}

    put("init_opt", around(module.init_opt, other))


@fault(TRAINED)
def a_slot_is_the_memory_of_a_gradient(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    """From the second step on it holds what the next gradient left there."""
    real = module.train_step

    @functools.wraps(real)
    def step(params: Any, opt: Any, *data: Any, **options: Any) -> Any:
        if opt["step"]:
            opt["m"]["dense3.b"][...] = module.loss_grad_metrics(params, *data, opt["state"])[1]["dense3.b"]
        return real(params, opt, *data, **options)

    put("train_step", step)


@fault(TRAINED)
def the_loss_is_that_of_the_step_before(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    past: list[Any] = [1.0]

    def late(result: Any, *_: Any, **__: Any) -> Any:
        past.append(result[1]["loss"])
        return result[0], {**result[1], "loss": past[-2]}

    put("train_step", around(module.train_step, late))


STAY = "arguments and results stay"


@fault(STAY)
def an_input_is_overwritten(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    def overwrite(y: Any, params: Any, x: Any, *_: Any, **__: Any) -> Any:
        x *= 0.5
        return y

    put("forward", around(module.forward, overwrite))


@fault(STAY)
def results_lie_in_memory_that_is_used_again(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    memory: dict[Any, Any] = {}

    def reuse(y: Any, *_: Any, **__: Any) -> Any:
        kept = memory.setdefault(y.shape, np.empty_like(y))
        kept[...] = y
        return kept

    put("forward", around(module.forward, reuse))


@pytest.mark.wide(3)
@pytest.mark.point("K")
@pytest.mark.parametrize("name", MODULE_FAULTS)
def test_a_fault_of_a_module_is_found(name: str, net: tuple[Spec, Loaded], monkeypatch: pytest.MonkeyPatch) -> None:
    spec, loaded = net
    plant, check = MODULE_FAULTS[name]
    plant(loaded.module, functools.partial(monkeypatch.setattr, loaded.module))
    assert check in spec.found(loaded)


# ---- long sizes --------------------------------------------------------------------------------------------------

LONG = "the same at a long size"


def beyond(limit: int, x: Any) -> Any:
    return np.concatenate([x[:limit], 0 * x[limit:]]) if np.ndim(x) and len(x) > limit else x


def rows_past_a_block(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    put("forward", around(module.forward, lambda y, *_, **__: beyond(4096, y)))


def sums_past_a_block(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    class Wrong:
        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

        def sum(self, x: Any, **options: Any) -> Any:
            return np.sum(beyond(1024, x), **options)

    put("np", Wrong())


def a_gradient_of_many_rows(module: ModuleType, put: Callable[[str, Any], None]) -> None:
    def wrong(result: Any, params: Any, x: Any, *_: Any, **__: Any) -> Any:
        return result[0], {**result[1], "dense3.b": result[1]["dense3.b"] + 1e-3 * (len(x) > 1000)}, *result[2:]

    put("loss_grad_metrics", around(module.loss_grad_metrics, wrong))


@pytest.mark.point("K")
@pytest.mark.parametrize("plant", [rows_past_a_block, sums_past_a_block, a_gradient_of_many_rows])
def test_a_fault_at_long_sizes_alone_is_found(
    plant: Plant, net: tuple[Spec, Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, loaded = net
    plant(loaded.module, functools.partial(monkeypatch.setattr, loaded.module))
    assert set(spec.found(loaded, long=True)) == {LONG}


@pytest.mark.point("K")
def test_without_a_fault_nothing_is_found(net: tuple[Spec, Loaded], walk: tuple[Spec, Loaded]) -> None:
    for spec, loaded in (net, walk):
        assert spec.found(loaded, long=True) == {}


# ---- steps -------------------------------------------------------------------------------------------------------


@pytest.mark.point("K")
def test_a_cache_that_does_not_go_on_is_found(walk: tuple[Spec, Loaded], monkeypatch: pytest.MonkeyPatch) -> None:
    spec, loaded = walk

    real = loaded.module.step

    @functools.wraps(real)
    def stuck(params: Any, cache: Any, *now: Any, **options: Any) -> Any:
        before = {k: np.copy(x) for k, x in cache.items()}
        result, after = real(params, cache, *now, **options)
        return result, {k: before[k] if np.ndim(x) else x for k, x in after.items()}

    monkeypatch.setattr(loaded.module, "step", stuck)
    assert "step by step" in spec.found(loaded)


# ---- rules and passes --------------------------------------------------------------------------------------------


def derivative_of(name: str, change: Callable[[d.Adjoints], d.Adjoints]) -> Callable[[pytest.MonkeyPatch], None]:
    rule = d.RULES[name]
    return lambda patch: patch.setitem(d.RULES, name, lambda y, a: change(rule(y, a)))


def scaled(parts: d.Adjoints) -> d.Adjoints:
    return tuple(x if x is None else d.mul(x, d.number(1.001)) for x in parts)


def passed(name: str, change: Callable[[dict[str, ir.Tensor]], dict[str, ir.Tensor]]) -> Callable[..., None]:
    real = pipeline.LATE[name]
    return lambda patch: patch.setitem(pipeline.LATE, name, lambda results: change(real(results)))


def doubled(results: dict[str, ir.Tensor], which: str) -> dict[str, ir.Tensor]:
    """Results of which one is a ten-thousandth too large."""
    x = results.get(which)
    if x is None:
        return results
    return {**results, which: ir.comp(x.shape, ir.op("*", (ir.whole(x), ir.const(1.0001, "float")), "float"))}


def a_scatter_that_overwrites(patch: pytest.MonkeyPatch) -> None:
    """The gradient of a gather counts rows that are read once alone: the others are divided by two."""
    real = transpose.transposed

    def wrong(*arguments: Any, **options: Any) -> Any:
        node = real(*arguments, **options)
        if isinstance(node, ir.Scatter):
            half = ir.op("*", (ir.whole(node), ir.const(0.5, "float")), "float")
            return ir.comp(node.shape, half)
        return node

    patch.setattr(transpose, "transposed", wrong)
    for name, value in list(vars(__import__("dslc.autodiff.reverse", fromlist=["x"])).items()):
        if value is real:
            patch.setattr(f"dslc.autodiff.reverse.{name}", wrong)


DIFFERENCES, GRADIENTS = "gradient against differences", "gradients"

#: what is broken, the spec that shows it, how, and the check that must find it
RULE_FAULTS: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None], str]] = {
    "the derivative of tanh": (WALK, derivative_of("tanh", scaled), DIFFERENCES),
    "the derivative of sqrt": (FORMULAS, derivative_of("sqrt", scaled), DIFFERENCES),
    "the derivative of exp": (FORMULAS, derivative_of("exp", scaled), DIFFERENCES),
    "one side of a product": (WALK, derivative_of("*", lambda parts: (parts[0], *scaled(parts[1:]))), DIFFERENCES),
    "the derivative of a quotient": (FORMULAS, derivative_of("/", lambda parts: (parts[0], None)), DIFFERENCES),
    "the gradient of a gather": (FORMULAS, a_scatter_that_overwrites, DIFFERENCES),
    "a pass and the loss": (WALK, passed("simplify again", lambda r: doubled(r, "loss")), "loss and metrics"),
    "a pass and a gradient": (WALK, passed("gather factors", lambda r: doubled(r, "gradient u")), GRADIENTS),
    "a pass and an output": (FORMULAS, passed("inline", lambda r: doubled(r, "y")), "outputs"),
}


@pytest.mark.point("K")
@pytest.mark.parametrize("name", RULE_FAULTS)
def test_a_fault_of_a_rule_or_a_pass_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, plant, check = RULE_FAULTS[name]
    with compilation():
        spec = made(tmp_path, text, {"N": 3, **({"T": 3} if text is WALK else {})})
        plant(monkeypatch)
        found = spec.found(LOADERS["numpy"](spec.path, {}, spec.model.name))
    assert check in found


@pytest.mark.point("K")
def test_there_are_enough_faults() -> None:
    assert len(MODULE_FAULTS) + len(RULE_FAULTS) >= 30

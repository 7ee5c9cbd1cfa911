"""Compiles a spec, runs its torch program, compares: names, shapes, dtypes, values, gradients, steps of training."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

import dslc
from tests.pairs import prelude
from tests.pairs.plan import OPTIMIZERS, Plan, Value, entropy, size_of

NUMPY = {"i32": "int32", "i64": "int64", "bool": "bool"}
FLOATS = {"f32": (np.float32, torch.float32), "f64": (np.float64, torch.float64)}
Arrays = dict[str, Any]
#: kinds of failures that are numbers which differ
NUMBERS = ("value", "loss", "gradient", "state", "training")


class NotComparable(Exception):
    """The torch program itself has no finite result here, so there is nothing to compare with."""


@dataclass
class Failure:
    """How a pair differs: a word for the kind of failure, and what was seen."""

    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


def data(plan: Plan, values: list[Value], run: int) -> Arrays:
    """Numbers for leaves: they depend on the seed and the name of each alone, and are exact in float32."""
    sizes = {name: values[run] for name, values in plan.sizes.items()}
    made = {}
    for v in values:
        rng = np.random.default_rng(entropy(plan.seed, v.name, run))
        shape = tuple(size_of(s, sizes) for s in v.shape)
        if v.kind == "f":
            made[v.name] = rng.normal(0, 0.8, shape).astype(np.float32)
            if v.name.endswith("_var"):  # of what training has seen
                made[v.name] = np.abs(made[v.name])
        elif v.kind == "bool":
            made[v.name] = rng.random(shape) < 0.6
        elif v.bound:
            made[v.name] = rng.integers(0, size_of(v.bound, sizes), shape).astype(NUMPY[v.kind])
        else:
            made[v.name] = rng.integers(-3, 6, shape).astype(NUMPY[v.kind])
    return made


def module(plan: Plan, backend: str, dtype: str) -> ModuleType:
    with tempfile.TemporaryDirectory(prefix="pairs-") as folder:
        file = Path(folder) / "pair.dsl"
        file.write_text(plan.spec(), encoding="utf-8")
        with contextlib.redirect_stdout(io.StringIO()):
            return dslc.compile(file, backend=backend, dtype=dtype, wrt=plan.wrt())


class Shaken(TorchFunctionMode):
    """Each result of torch moved by up to a rounding, which tells how far roundings go in any order of terms."""

    def __init__(self, rounding: float, seed: int):
        super().__init__()
        self.rounding, self.random = rounding, torch.Generator().manual_seed(seed)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if not isinstance(result, torch.Tensor) or not result.is_floating_point():
            return result
        with torch._C.DisableTorchFunction():
            return result * (1 + self.rounding * (2 * torch.rand(result.shape, generator=self.random) - 1))


@dataclass(frozen=True)
class Run:
    """One way to run a torch program: in which float, and by how much its results are moved."""

    dtype: str
    rounding: float = 0.0
    seed: int = 0


def runs_of(dtype: str, shaken: bool) -> list[Run]:
    """The exact run, a rough one, and those that tell how far roundings go."""
    rounding = 2.0**-24 if dtype == "f32" else 2.0**-53
    return [Run("f64"), Run("f32"), *(Run("f64", rounding, seed) for seed in range(4 if shaken else 0))]


def torch_results(
    plan: Plan, run: Run, leaves: Arrays, params: Arrays, states: Arrays, draws: Arrays, training: bool
) -> tuple[Arrays, Arrays, Arrays, Any]:
    """Outputs, next states, the gradients of the loss by all parameters, and the loss."""
    kind = FLOATS[run.dtype][1]
    torch.set_default_dtype(kind)
    try:

        def tensor(a: Any) -> torch.Tensor:
            t = torch.as_tensor(np.array(a))
            return t.to(kind).requires_grad_() if t.is_floating_point() else t

        space: dict[str, Any] = {name: getattr(prelude, name) for name in prelude.__all__}
        exec(compile(plan.torch(), "<torch program>", "exec"), space)
        given, weights = ({k: tensor(a) for k, a in arrays.items()} for arrays in (leaves, params))
        kept, drawn = ({k: tensor(a).detach() for k, a in arrays.items()} for arrays in (states, draws))
        with Shaken(run.rounding, run.seed) if run.rounding else contextlib.nullcontext():
            outputs, next_states, loss = space["program"](given, weights, kept, drawn, training)
        grads: Arrays = {}
        leaves_of = weights | {name: given[name] for name in plan.wrt()}
        if loss is not None and leaves_of:
            smooth = loss.requires_grad
            found = (
                torch.autograd.grad(loss, list(leaves_of.values()), allow_unused=True)
                if smooth
                else [None] * len(leaves_of)
            )
            grads = {
                k: torch.zeros_like(w) if g is None else g for (k, w), g in zip(leaves_of.items(), found, strict=True)
            }
        numbers = [
            {k: torch.as_tensor(v).detach().numpy() for k, v in part.items()} for part in (outputs, next_states, grads)
        ]
        return *numbers, None if loss is None else loss.detach().numpy()
    finally:
        torch.set_default_dtype(torch.float32)


def differs(name: str, got: Any, references: Sequence[Any], dtype: str) -> str | None:
    """How a result differs from torch in float64; torch in float32, and shaken, tells how far roundings go."""
    exact, rough, *shaken = references
    got, exact = np.asarray(got), np.asarray(exact)
    if got.shape != exact.shape:
        return f"{name} has shape {got.shape}, expected {exact.shape}"
    if exact.dtype.kind in "bi":
        return None if np.array_equal(got, exact) else f"{name} is\n{got}\nexpected\n{exact}"
    if not np.isfinite(exact).all() or not np.isfinite(rough).all():
        raise NotComparable(name)
    if exact.size == 0:
        return None
    scale = float(np.abs(exact).max())
    moved = float(np.abs(np.asarray(rough, np.float64) - exact).max())
    allowed = 1e-10 * scale + 1e-6 * moved + 1e-13 if dtype == "f64" else 3e-6 * scale + 30 * moved + 1e-7
    moved = max([0.0, *(float(np.abs(np.asarray(x) - exact).max()) for x in shaken)])
    allowed = max(allowed, 30 * moved)
    found = float(np.abs(got.astype(np.float64) - exact).max()) if np.isfinite(got).all() else np.inf
    if found <= allowed:
        return None
    return f"{name} is off by {found:.3g} (allowed {allowed:.3g}):\n{got}\nexpected\n{exact}"


def expected_dtype(v: Value, dtype: str) -> str:
    return NUMPY.get(v.kind, "float64" if dtype == "f64" else "float32")


def compare(plan: Plan, backend: str = "numpy", dtype: str = "f64", steps: int = 2) -> Failure | None:
    """What is wrong with the module of a plan, or None."""
    try:
        m = module(plan, backend, dtype)
    except Exception as error:
        text = str(error)
        code = re.search(r"E\d{4}", text)
        if code and code[0] == "E0349":
            raise NotComparable("a product with two meanings") from error
        if code:
            return Failure(f"refused {code[0]}", text)
        return Failure(f"crash in compile: {type(error).__name__}", traceback.format_exc()[-1500:])
    wanted = {v.name for v in plan.all_params()}
    if set(m.PARAMS) != wanted:
        return Failure("parameters", f"{sorted(m.PARAMS)}, expected {sorted(wanted)}")
    runs = 2 if plan.open_sizes() else 1
    for run in range(runs):
        failure = compare_run(plan, m, backend, dtype, run, steps)
        if failure and failure.kind in NUMBERS:  # or only roundings that torch was spared?
            failure = compare_run(plan, m, backend, dtype, run, steps, shaken=True)
        if failure:
            return failure
    return None


def compare_run(
    plan: Plan, m: ModuleType, backend: str, dtype: str, run: int, steps: int, shaken: bool = False
) -> Failure | None:
    leaves, states = data(plan, plan.leaves(), run), data(plan, plan.all_states(), run)
    params = data(plan, plan.all_params(), 0)
    as_given = converter(backend, dtype)
    arguments = [as_given(a) for a in leaves.values()]
    weights = {k: as_given(a) for k, a in params.items()}
    kept = [{k: as_given(a) for k, a in states.items()}] if states else []

    def call(function: str, *head: Any) -> Any:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return getattr(m, function)(*head, *arguments, *kept)

    try:
        got = call("forward", weights)
    except Exception as error:
        return Failure(f"crash in forward: {type(error).__name__}", traceback.format_exc()[-1500:])
    outputs = plan.outputs + ([Value(f"d_{plan.by_input}", ())] if plan.by_input else [])
    if len(outputs) == 1:
        got = {outputs[0].name: got}
    got = {k: to_numpy(a) for k, a in got.items()}
    draws = {name: got[name] for name in plan.draws()}
    ways = runs_of(dtype, shaken)
    found = [torch_results(plan, way, leaves, params, states, draws, False) for way in ways]
    for o in outputs:
        if o.name not in got:
            return Failure("outputs", f"{sorted(got)}, expected {o.name}")
        if str(got[o.name].dtype) != expected_dtype(o, dtype):
            return Failure(
                f"dtype {got[o.name].dtype} of a result",
                f"{o.name} is {got[o.name].dtype}, expected {expected_dtype(o, dtype)}",
            )
        wrong = differs(o.name, got[o.name], [x[0][o.name] for x in found], dtype)
        if wrong:
            return Failure("value", wrong)
    if not (plan.all_params() and plan.float_outputs()):
        return None
    return compare_training(plan, m, call, as_given, (leaves, params, states, draws), dtype, steps, ways)


def compare_training(
    plan: Plan, m: ModuleType, call: Any, as_given: Any, numbers: tuple, dtype: str, steps: int, ways: Sequence[Run]
) -> Failure | None:
    leaves, params, states, draws = numbers
    weights = {k: as_given(a) for k, a in params.items()}
    try:
        loss, grads, seen, next_states = call("loss_grad_metrics", weights)
    except Exception as error:
        return Failure(f"crash in gradient: {type(error).__name__}", traceback.format_exc()[-1500:])
    draws = {name: to_numpy(seen[name]) for name in draws}
    found = [torch_results(plan, way, leaves, params, states, draws, True) for way in ways]
    loss, grads, next_states = to_numpy(loss), {k: to_numpy(g) for k, g in grads.items()}, next_states or {}
    wanted = expected_dtype(Value("", ()), dtype)
    if str(np.asarray(loss).dtype) != wanted:
        return Failure("dtype of the loss", f"the loss is {np.asarray(loss).dtype}, expected {wanted}")
    wrong = differs("loss", loss, [x[3] for x in found], dtype)
    if wrong:
        return Failure("loss", wrong)
    for name in [*params, *plan.wrt()]:
        if name not in grads:
            return Failure("gradient", f"there is none by {name}")
        if str(grads[name].dtype) != wanted:
            return Failure("dtype of a gradient", f"the gradient by {name} is {grads[name].dtype}, expected {wanted}")
        wrong = differs(f"gradient by {name}", grads[name], [x[2][name] for x in found], dtype)
        if wrong:
            return Failure("gradient", wrong)
    for name in states:
        wrong = differs(f"next {name}", to_numpy(next_states[name]), [x[1][name] for x in found], dtype)
        if wrong:
            return Failure("state", wrong)
    if steps and not states:
        return compare_steps(plan, m, call, as_given, (leaves, params, states, draws), dtype, steps, ways)
    return None


def compare_steps(
    plan: Plan, m: ModuleType, call: Any, as_given: Any, numbers: tuple, dtype: str, steps: int, ways: Sequence[Run]
) -> Failure | None:
    leaves, params, states, draws = numbers
    if draws:
        return None  # each step draws anew
    update = OPTIMIZERS[plan.optimizer][2]
    moved: list[Arrays] = []
    for way in ways:
        now = {k: a.astype(FLOATS[way.dtype][0]) for k, a in params.items()}
        slots: dict[str, Any] = {}
        for step in range(1, steps + 1):
            grads = torch_results(plan, way, leaves, now, states, draws, True)[2]
            norm = np.sqrt(sum(float((g**2).sum()) for name, g in grads.items() if name in params))
            for name in now:
                now[name], slots[name] = update(now[name], grads[name], slots.get(name), step, norm)
        moved.append(now)
    try:
        weights = {k: as_given(a) for k, a in params.items()}
        opt = m.init_opt(weights)
        for _ in range(steps):
            weights, opt = call("train_step", weights, opt)
    except Exception as error:
        return Failure(f"crash in train_step: {type(error).__name__}", traceback.format_exc()[-1500:])
    for name in params:
        wrong = differs(f"{name} after {steps} steps", to_numpy(weights[name]), [x[name] for x in moved], dtype)
        if wrong:
            return Failure("training", wrong)
    return None


def converter(backend: str, dtype: str) -> Any:
    kind = FLOATS[dtype][0]

    def numpy(a: Any) -> Any:
        a = np.array(a)
        return a.astype(kind) if a.dtype.kind == "f" else a

    return numpy if backend != "triton" else lambda a: torch.as_tensor(numpy(a))


def to_numpy(a: Any) -> Any:
    return a.detach().cpu().numpy() if isinstance(a, torch.Tensor) else np.asarray(a)

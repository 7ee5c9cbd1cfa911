"""One program, computed in all ways that there are: each must agree with the others."""

from __future__ import annotations

import inspect
import re
import tempfile
from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch_program
from generator import Program
from programs import Held, by_path, is_float

from dslc import pipeline
from dslc.autodiff.reverse import gradients, ones
from dslc.builder.build import build, build_train
from dslc.compiler import choose, compile_text
from dslc.frontend import check_text
from dslc.ir import nodes as ir
from dslc.meaning.interpret import Interpreter
from dslc.passes.verify import verify

Array = np.ndarray[Any, np.dtype[Any]]

torch.set_num_threads(1)

#: what was not compared, and why
SKIPPED: Counter[str] = Counter()


def compare(program: Program, second_order: bool = True) -> None:
    """Raise where two ways disagree; the message names the two."""
    with ir.compilation(), np.errstate(all="ignore"):
        case = Case(program)
        case.check_stabilised()
        case.check_passes()
        case.check_torch()
        case.check_differences()
        case.check_module()
        if program.seed % 3 == 0:
            case.check_dtypes()
        case.check_scaled()
        if second_order:
            case.check_second_order()


def compare_backend(program: Program, backend: str) -> None:
    """Raise where the modules of a backend and the interpreter disagree."""
    with ir.compilation(), np.errstate(all="ignore"):
        case = Case(program)
        case.check_module(backend)
        case.check_scaled(backend)


#: what modules of float32 give for the dtypes of the language
RESULTS = {"float": "f4", "f32": "f4", "f64": "f8", "f16": "f2", "bf16": "f4", "i32": "i4", "i64": "i8", "bool": "?"}


class Case:
    """A program with its data, and its loss in the IR."""

    def __init__(self, program: Program):
        self.program = program
        checked = check_text(program.text)
        assert not checked.errors, [(d.code, d.message) for d in checked.errors]
        assert checked.program is not None
        self.model, train = choose(checked)
        assert train is not None
        self.train = train
        self.unit = build_train(train)
        verify([*self.unit.outputs.values(), *self.unit.updates.values()])
        self.inputs = dict(self.unit.inputs)
        self.wrt = [n for n, x in self.inputs.items() if is_float(x) and x.role != "state"]
        self.sources = [self.inputs[n] for n in self.wrt]
        self.values = {n: self.data(x) for n, x in self.inputs.items()}
        rng = np.random.default_rng(program.seed)
        self.directions = {n: rng.standard_normal(np.shape(self.values[n])) for n in self.wrt}

    def data(self, x: ir.Input) -> Any:
        shape = Interpreter({}, self.program.sizes).shape(x.shape)
        return self.program.data(x.name, shape, x.dtype, x.role)

    def machine(self, values: Mapping[str, Any] | None = None) -> Interpreter:
        return Interpreter({**self.values, **(values or {})}, self.program.sizes, self.program.seed)

    @cached_property
    def loss(self) -> ir.Tensor:
        return pipeline.EARLY["stabilise"]({"loss": self.unit.outputs["loss"]})["loss"]

    @cached_property
    def slopes(self) -> list[ir.Tensor]:
        found = gradients({self.loss: ones(())}, self.sources)
        verify(found)
        return found

    @cached_property
    def expected(self) -> dict[str, Array]:
        """The loss and its gradients by the interpreter, on the stable form."""
        machine = self.machine()
        found = {n: machine.tensor(g) for n, g in zip(self.wrt, self.slopes, strict=True)}
        return {"": machine.tensor(self.loss), **found}

    @cached_property
    def scale(self) -> float:
        """The size of the largest number that matters: rounding errors are measured by it."""
        found = [np.abs(x).max(initial=0.0) for x in self.expected.values()]
        size = float(max(found))
        assert np.isfinite(size), "a value or gradient is not finite"
        return max(size, 1e-3)

    def same(self, found: Any, name: str, who: str, rtol: float = 1e-9) -> None:
        what = f"gradient by {name}" if name else "loss"
        np.testing.assert_allclose(found, self.expected[name], rtol=0, atol=rtol * self.scale, err_msg=f"{what}: {who}")

    # ---- the ways

    def check_stabilised(self) -> None:
        """Stabilising changes neither values nor gradients."""
        machine = self.machine()
        loss = self.unit.outputs["loss"]
        self.same(machine.tensor(loss), "", "before stabilising")
        for name, slope in zip(self.wrt, gradients({loss: ones(())}, self.sources), strict=True):
            self.same(machine.tensor(slope), name, "before stabilising")

    def check_passes(self) -> None:
        """No pass changes a value or a gradient."""
        machine = self.machine()
        for stage, outputs in pipeline.training(self.train).stages:
            verify(outputs.values())
            for name, node in outputs.items():
                if name == "loss" or name.startswith(pipeline.GRADIENT):
                    key = name.removeprefix("loss").removeprefix(pipeline.GRADIENT)
                    self.same(machine.tensor(node), key, f"after the pass `{stage}`")

    @cached_property
    def torch_tensors(self) -> dict[str, torch.Tensor]:
        return torch_program.as_tensors(self.values, self.wrt)

    @cached_property
    def torch_loss(self) -> torch.Tensor:
        tensors = by_path(self.unit, self.torch_tensors)
        return torch_program.train(self.train, tensors, self.program.sizes, self.program.seed)[0]

    @cached_property
    def torch_slopes(self) -> list[torch.Tensor]:
        if not self.torch_loss.requires_grad:
            return [torch.zeros_like(self.torch_tensors[n]) for n in self.wrt]
        given = [self.torch_tensors[n] for n in self.wrt]
        return list(torch.autograd.grad(self.torch_loss, given, create_graph=True, materialize_grads=True))

    def check_torch(self) -> None:
        """torch on the checked program gives the same values and gradients."""
        self.same(self.torch_loss.detach().numpy(), "", "torch")
        for name, slope in zip(self.wrt, self.torch_slopes, strict=True):
            self.same(slope.detach().numpy(), name, "torch")

    def check_differences(self) -> None:
        """The slope along a random direction is that of the loss; where the loss has a kink there, it is skipped."""
        held: dict[int, list[Any]] = {}
        loss = self.unit.outputs["loss"]

        def at(distance: float) -> float:
            moved = {n: self.values[n] + distance * self.directions[n] for n in self.wrt}
            return float(Held({**self.values, **moved}, self.program.sizes, self.program.seed, held).tensor(loss))

        found = sum(float((self.expected[n] * self.directions[n]).sum()) for n in self.wrt)
        here, step = at(0.0), 1e-5
        after, before = (at(step) - here) / step, (here - at(-step)) / step
        size = max(abs(found), self.scale)
        if abs(after - before) > 1e-2 * size:
            SKIPPED["finite differences: a kink or a jump"] += 1
            return
        half = (at(step / 2) - at(-step / 2)) / step
        difference = (4 * half - (after + before) / 2) / 3  # the error of second order cancels
        assert abs(found - difference) <= 1e-6 * size, f"slope {found}, finite difference {difference}"

    def check_module(self, backend: str = "numpy") -> None:
        """A module gives the loss and the gradients by parameters, and the outputs for inference."""
        expected = by_path(self.unit, {n: x for n, x in self.expected.items() if n})
        self.check_calls(f"{backend} module", compiled(self.program.text, backend=backend), {}, expected)

    def check_dtypes(self) -> None:
        """In a module of float32, results have the dtypes that the spec gives them, whatever numbers met on the way."""
        module = compiled(self.program.text, "f32")
        data = [self.values[n] for n, x in self.inputs.items() if x.role == "input"]
        data = [x.astype(np.float32) if x.dtype == np.float64 else x for x in map(np.asarray, data)]
        params, states = (
            {k: np.asarray(x, np.float32) for k, x in by_path(self.unit, {n: self.values[n] for n in names}).items()}
            for names in ([n for n, x in self.inputs.items() if x.role == role] for role in ("param", "state"))
        )
        given = [params, *data, *([states] if states else [])]
        loss, grads, _, next_states = called(module.loss_grad_metrics, *given, seed=self.program.seed)
        found = called(module.forward, *given, seed=self.program.seed)
        outputs = build(self.model).outputs
        found = found if isinstance(found, dict) else dict.fromkeys(outputs, found)
        declared = {n: x.dtype for n, x in outputs.items()} | {"the loss": self.unit.outputs["loss"].dtype}
        given_back = {**found, "the loss": loss}
        for name, dtype in declared.items():
            assert np.asarray(given_back[name]).dtype == RESULTS[dtype], f"{name}: {given_back[name].dtype} for {dtype}"
        for name, value in {**grads, **next_states}.items():
            assert value.dtype == np.float32, f"{name}: {value.dtype}"

    def check_scaled(self, backend: str = "numpy") -> None:
        """So does that of the program whose inputs are multiplied by parameters, which are 1.

        Modules have gradients by parameters alone, and the losses of many programs depend on inputs alone.
        """
        text, slopes = self.scaled()
        units = {name: np.array(1.0) for name in slopes}
        expected = by_path(self.unit, {n: x for n, x in self.expected.items() if n}) | slopes
        self.check_calls(f"{backend} module, inputs scaled", compiled(text, backend=backend), units, expected)

    def scaled(self) -> tuple[str, dict[str, Any]]:
        """The program whose inputs are multiplied by parameters, and the gradients by these where they are 1."""
        dtypes = {n: self.inputs[n].dtype for n in self.wrt if self.inputs[n].role == "input"}
        slopes = {scale_of(n): (self.values[n] * self.expected[n]).sum() for n in dtypes}
        return scaled(self.program.text, dtypes), slopes

    def check_calls(self, whose: str, module: ModuleType, more: Mapping[str, Array], slopes: Mapping[str, Any]) -> None:
        """The calls of a module; its arguments are spoilt after each of them, in which no result may lie."""
        data = [self.values[n] for n, x in self.inputs.items() if x.role == "input"]
        params = by_path(self.unit, {n: self.values[n] for n, x in self.inputs.items() if x.role == "param"})
        states = by_path(self.unit, {n: self.values[n] for n, x in self.inputs.items() if x.role == "state"})
        given = [{**params, **more}, *data, *([states] if states else [])]
        updates = by_path(self.unit, self.machine().run(self.unit.updates))
        outputs = self.machine().run(build(self.model).outputs)
        before = deepcopy(given)
        loss, grads, _, next_states = called(module.loss_grad_metrics, *before, seed=self.program.seed)
        spoil(before)
        self.same(loss, "", whose)
        assert grads.keys() == given[0].keys(), whose
        for name, slope in grads.items():
            close(slope, slopes[name], 1e-9 * self.scale, f"gradient by {name}: {whose}")
        for name, value in updates.items():
            np.testing.assert_allclose(next_states[name], value, rtol=1e-9, atol=1e-9, err_msg=f"{name}: {whose}")
        before = deepcopy(given)
        found = called(module.forward, *before, seed=self.program.seed)
        spoil(before)
        found = found if isinstance(found, dict) else dict.fromkeys(outputs, found)
        for name, value in outputs.items():
            size = float(np.abs(value).max(initial=1.0))
            close(found[name], value, 1e-9 * size, f"{name} of forward: {whose}")

    def check_second_order(self) -> None:
        """The derivative of the gradient along a direction is that of torch."""
        seeds: dict[ir.Tensor, ir.Tensor] = {}
        for name, slope, source in zip(self.wrt, self.slopes, self.sources, strict=True):
            along: ir.Tensor = ir.intern(ir.Input(f"along {name}", "input", source.dtype, source.shape))
            if slope in seeds:
                along = ir.comp(source.shape, ir.op("+", (ir.whole(seeds[slope]), ir.whole(along)), source.dtype))
            seeds[slope] = along
        curved = gradients(seeds, self.sources)
        verify(curved)
        along_direction = torch.tensor(0.0, dtype=torch.float64)
        for name, slope in zip(self.wrt, self.torch_slopes, strict=True):
            along_direction = along_direction + (slope * torch.tensor(self.directions[name])).sum()
        given = [self.torch_tensors[n] for n in self.wrt]
        if not along_direction.requires_grad:
            second = [torch.zeros_like(x) for x in given]
        else:
            try:
                second = list(torch.autograd.grad(along_direction, given, materialize_grads=True))
            except (NotImplementedError, RuntimeError) as reason:
                if "not implemented" not in str(reason) and "not differentiable" not in str(reason):
                    raise
                SKIPPED["second order: not in torch"] += 1
                return
        machine = self.machine({f"along {n}": x for n, x in self.directions.items()})
        size = max([self.scale, *(float(x.abs().max()) for x in second if x.numel())])
        for name, mine, theirs in zip(self.wrt, curved, second, strict=True):
            found = machine.tensor(mine)
            np.testing.assert_allclose(
                found, theirs.numpy(), rtol=0, atol=1e-8 * size, err_msg=f"second derivative by {name}: torch"
            )


def compiled(text: str, dtype: str = "f64", backend: str = "numpy") -> ModuleType:
    """The module of a spec, in float64 and of NumPy unless told otherwise."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.dsl"
        path.write_text(text, encoding="utf-8")
        code = compile_text(path, backend, dtype=dtype)
    module = ModuleType("compiled")
    exec(compile(code, "compiled.py", "exec"), module.__dict__)
    return module


def scale_of(name: str) -> str:
    return f"scale_of_{name}"


def scaled(text: str, dtypes: Mapping[str, str]) -> str:
    """The program with some inputs multiplied by a parameter each; they keep their dtypes, on which draws depend."""
    if not dtypes:
        return text

    def given(part: str) -> str:
        return re.sub(rf"\b({'|'.join(dtypes)})\b", r"given_\1", part)

    head = re.search(r"^model .*\n", text, re.MULTILINE)
    assert head is not None
    train = text.index("\ntrain ")
    lines = ""
    for name, dtype in dtypes.items():
        product = f"given_{name} * {scale_of(name)}"
        product = product if dtype == "float" else f"{dtype}({product})"
        lines += f"    param {scale_of(name)}: [] ~ normal\n    {name} = {product}\n"
    return text[: head.start()] + given(head[0]) + lines + text[head.end() : train] + given(text[train:])


def spoil(given: Any) -> None:
    """Fill arrays in lists and dictionaries with what cannot be right."""
    for value in given.values() if isinstance(given, dict) else given:
        if isinstance(value, np.ndarray):
            value.fill(np.nan if value.dtype.kind == "f" else -1)
        else:
            spoil(value)


def close(found: Any, expected: Any, atol: float, what: str) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol, err_msg=what)


def called(function: Any, *args: Any, seed: int, **options: Any) -> Any:
    """A function of a module, with the seed where it takes one."""
    options |= {"seed": seed} if "seed" in inspect.signature(function).parameters else {}
    return function(*args, **options)

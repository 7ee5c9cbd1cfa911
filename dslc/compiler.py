"""A spec compiled: the text of a standalone module, or the module itself in memory."""

from __future__ import annotations

import gc
import linecache
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dslc.autodiff.reverse import NoDerivative
from dslc.backends.record import Printer
from dslc.backends.registry import BACKENDS, backend_of
from dslc.builder.build import Refusal
from dslc.builder.layers import one_by_one
from dslc.check import program as p
from dslc.check.frame import Checker
from dslc.check.lint import parameter_paths
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Diagnostic, Label, Reporter
from dslc.diagnostics.spec_error import SpecError
from dslc.dtypes import KEPT, is_float
from dslc.emitted import sound
from dslc.frontend import Checked, check_file
from dslc.ir.interning import TooLarge, compilation
from dslc.open_sizes import refusals, untold
from dslc.program import Program
from dslc.resolve.files import did_you_mean
from dslc.source import NOWHERE, Span

if TYPE_CHECKING:
    from dslc.backends.triton.registry import Registry


#: from so many lines on, a module whose loops are written pass by pass is worth a warning
LONG_MODULE = 2_000


def compile_text(
    path: Path, backend: str = "numpy", settings: Mapping[str, object] | None = None, dtype: str = "f32",
    model: str | None = None, atomic: bool = False, registry: Registry | None = None, wrt: Iterable[str] = (),
    warn: Callable[[Diagnostic], None] | None = None, march: str | None = None, name: str | None = None,
    folded: bool = False,
) -> str:  # fmt: skip
    """The text of the module that a spec compiles to; raises SpecError with all diagnostics, and calls `warn` with a
    warning where a loop makes a long module.

    With `atomic`, Triton kernels may add what is scattered in any order; `registry` is one of Triton kernels to fill;
    `wrt` are inputs by which the loss is differentiated beside the parameters. `march` and `name` are for C: the
    processor that its code is for, and what its names begin with. `folded`: `forward` has its linear maps merged.
    """
    options = {"atomic": atomic or None, "registry": registry, "march": march, "name": name}
    return sound(
        _compiled(path, backend, settings, dtype, model, wrt, warn, options, lambda printer: printer.generate, folded)
    )


def compile_files(
    path: Path, backend: str, settings: Mapping[str, object] | None = None, dtype: str = "f32",
    model: str | None = None, wrt: Iterable[str] = (), warn: Callable[[Diagnostic], None] | None = None,
    march: str | None = None, name: str | None = None, folded: bool = False,
) -> dict[str, str]:  # fmt: skip
    """The files of the module that a spec compiles to, by name, for a backend whose modules consist of several."""
    options = {"march": march, "name": name}
    if backend_of(backend).printer().files is None:
        raise ValueError(f"a module of the backend {backend} is one file")
    made: dict[str, str]
    made = _compiled(path, backend, settings, dtype, model, wrt, warn, options, lambda printer: printer.files, folded)
    return made


#: what options of a backend are called in messages
OPTIONS = {
    "atomic": "atomic additions are", "march": "a processor (march) is", "name": "the name of what it offers is",
    "registry": "a registry of kernels is",
}  # fmt: skip


def _compiled(
    path: Path, backend: str, settings: Mapping[str, object] | None, dtype: str, model: str | None,
    wrt: Iterable[str], warn: Callable[[Diagnostic], None] | None, options: Mapping[str, object],
    function: Callable[[Printer], Any], folded: bool,
) -> Any:  # fmt: skip
    """What a function of a backend gives for the program of a spec."""
    given = {key: value for key, value in options.items() if value is not None}
    for key in given:
        those = [x.name for x in BACKENDS.values() if key in x.options]
        if backend not in those:
            raise ValueError(f"{OPTIONS[key]} a choice of the backend {' and '.join(those)} alone")
    chosen = backend_of(backend)
    if dtype in chosen.lacks:
        raise ValueError(": ".join(chosen.lacks[dtype]))
    if dtype not in KEPT:
        *others, last = map(repr, KEPT)
        raise ValueError(f"there is no dtype {dtype!r} for parameters; expected {', '.join(others)} or {last}")
    printer = chosen.printer()
    with uncollected():
        checked = check_file(path, settings)
        if checked.program is None:
            raise SpecError(checked.errors)
        instance, train = choose(checked, model)
        if open_ := refusals(instance if train is None else train.instance) + untold(instance):
            raise SpecError(open_)
        train = differentiated(instance, train, wrt)
        try:
            with compilation():
                program = Program(instance, train, optimizer_of(checked, train), folded)
                refuse_wide(program, dtype, backend)
                made = function(printer)(program, path.name, dtype, **given)
        except (Refusal, NoDerivative, printer.cannot) as reason:
            span = reason.span if reason.span is not None and reason.span.source.text else instance.span
            raise SpecError([refusal(reason, span or NOWHERE, backend)]) from reason

    if warn is not None:
        lines = max(text.count("\n") for text in ([made] if isinstance(made, str) else made.values()))
        for warning in long_loops(instance if train is None else train.instance, lines):
            warn(warning)
    return made


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for cycles of objects: all that a compilation makes lives about as long as it, a tenth of whose time
    the search would be."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def refuse_wide(program: Program, dtype: str, backend: str) -> None:
    """Raises SpecError for a parameter or state that is declared with more digits than the module keeps."""
    unit = (program.gradient or program.forward).lowered.unit
    kept = {k: x.tensor for k, x in unit.params.items()} | {k: x.tensor for k, x in unit.states.items()}
    for path, tensor in kept.items():
        if tensor.dtype == "f64" and dtype != "f64":
            what = f"`{path}` in f64 in a module whose parameters are in {dtype}"
            help = f"compile with `--dtype f64`, or declare `{path}` without a dtype"
            raise SpecError([kinds.NOT_COMPILED(Label(tensor.span), what=what, backend=backend, help=help)])


def long_loops(instance: p.Instance, lines: int) -> list[Diagnostic]:
    """A warning for the loop with the most passes that are written one by one, if the module is a long one."""
    loops = one_by_one(instance) if lines > LONG_MODULE else []
    longest = max(loops, key=lambda x: len(x.passes), default=None)
    if longest is None or len(longest.passes) < 2:
        return []
    return [kinds.LOOP_ONE_BY_ONE(Label(longest.span), passes=len(longest.passes), lines=f"{lines:,}")]


def refusal(reason: Refusal | NoDerivative | Any, span: Span, backend: str) -> Diagnostic:
    """What the user is told about a spec that is checked but not compiled."""
    if isinstance(reason, TooLarge):
        return kinds.TOO_MANY_OPERATIONS(Label(span), limit=reason.limit)
    return kinds.NOT_COMPILED(Label(span), what=reason.what, backend=backend)


def choose(checked: Checked, name: str | None = None) -> tuple[p.Instance, p.TrainProgram | None]:
    """The model to compile, by its name; a spec with a single model needs none."""
    program = checked.program
    assert program is not None
    if not program.models or (name is not None and name not in program.models):
        known = f"; it has {', '.join(program.models)}" if program.models else ""
        raise ValueError(f"the spec has no model{f' {name}' if name else ''}{known}")
    if name is None and len(program.models) > 1:
        models = ", ".join(program.models)
        first = next(iter(program.models))
        raise ValueError(f"the spec has several models: {models}; name one: --model {first}, in Python model={first!r}")
    chosen = name or next(iter(program.models))
    return program.models[chosen], {t.instance.name: t for t in program.trains}.get(chosen)


def differentiated(model: p.Instance, train: p.TrainProgram | None, wrt: Iterable[str]) -> p.TrainProgram | None:
    """The training with the gradients of its loss by inputs; raises ValueError for what has no such gradient."""
    names = tuple(dict.fromkeys([wrt] if isinstance(wrt, str) else wrt))
    if not names:
        return train
    if train is None:
        raise ValueError(f"there is no gradient by {_listed(names)}: the spec has no `train` for `{model.name}`")
    inputs = {tensor.name: tensor for tensor in train.instance.inputs}
    sizes = {str(s) for tensor in inputs.values() for size in tensor.shape for s in getattr(size, "free_symbols", ())}
    for name in names:
        what = f"cannot differentiate by `{name}`"
        if name in inputs and not is_float(inputs[name].dtype):
            held = "truth values" if inputs[name].dtype == "bool" else f"whole numbers ({inputs[name].dtype})"
            raise ValueError(f"{what}: it holds {held}")
        if name in inputs:
            continue
        if name in sizes:
            raise ValueError(f"{what}: it is a size")
        if name in model.statics:
            raise ValueError(f"{what}: it is a number that is fixed when the spec is compiled, not an input")
        if name in parameter_paths(train.model):
            raise ValueError(f"{what}: it is a parameter, whose gradient is always there")
        floats = [n for n, tensor in inputs.items() if is_float(tensor.dtype)]
        near = did_you_mean(name, floats)
        raise ValueError(f"{what}: it is no input; {near or f'inputs with a gradient are {_listed(floats)}'}")
    return replace(train, wrt=names)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def optimizer_of(checked: Checked, train: p.TrainProgram | None) -> p.Instance | None:
    """The checked body of the optimiser that a training uses."""
    from dslc.check.training import check_optimizer

    if train is None or train.optimizer is None or checked.file is None:
        return None
    defined = checked.file.lookup(train.optimizer.name)
    assert defined is not None
    return check_optimizer(Checker(Reporter()), defined)


class KeptSource:
    """Lives as long as the names of a module: until then its source can be read."""


def compile_module(
    path: str | Path, backend: str = "numpy", dtype: str = "f32", model: str | None = None, atomic: bool = False,
    wrt: Iterable[str] = (), fold: bool = False, **settings: object,
) -> ModuleType:  # fmt: skip
    """Compile a spec and import the result.

    `m = dslc.compile("mlp.dsl", hidden=512)` gives the module that `dslc compile` writes; with `wrt=["x"]`, the loss is
    differentiated by the input `x` too, with `fold=True` linear maps are merged in `forward`.
    """
    text = compile_text(Path(path), backend, settings, dtype, model, atomic, wrt=wrt, folded=fold)
    return imported(text, Path(path).stem)


def imported(text: str, name: str) -> ModuleType:
    """A module from its text, in memory: no file is written."""
    module = ModuleType(f"{name}_compiled")
    kept = module.__dict__["__source__"] = KeptSource()
    file = f"<{module.__name__} {id(kept)}>"
    # tracebacks show the source, and triton reads that of a kernel when it first runs
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    weakref.finalize(kept, linecache.cache.pop, file, None)
    exec(compile(text, file, "exec"), module.__dict__)
    return module

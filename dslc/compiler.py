"""A spec compiled: the text of a standalone module, or the module itself in memory."""

from __future__ import annotations

import linecache
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dslc.autodiff.reverse import NoDerivative
from dslc.check import program as p
from dslc.check.frame import Checker
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Diagnostic, Label, Reporter, SpecError
from dslc.frontend import Checked, check_file
from dslc.ir.build import Refusal
from dslc.ir.interning import compilation
from dslc.ops.dtypes import KEPT
from dslc.source import NOWHERE, Span

if TYPE_CHECKING:
    from dslc.backends.triton.host import Registry


def compile_text(
    path: Path, backend: str = "numpy", settings: Mapping[str, object] | None = None, dtype: str = "f32",
    model: str | None = None, atomic: bool = False, registry: Registry | None = None,
) -> str:  # fmt: skip
    """The text of the module that a spec compiles to; raises SpecError with all diagnostics.

    With `atomic`, Triton kernels may add what is scattered in any order; `registry` is one of Triton kernels to fill.
    """
    if atomic and backend != "triton":
        raise ValueError("atomic additions are a choice of the backend triton alone")
    if backend == "numpy" and dtype == "bf16":
        raise ValueError("NumPy has no bfloat16: take the dtype f32 or f16, or the backend triton")
    generate, cannot_lower = backend_of(backend)
    if dtype not in KEPT:
        *others, last = map(repr, KEPT)
        raise ValueError(f"there is no dtype {dtype!r} for parameters; expected {', '.join(others)} or {last}")
    checked = check_file(path, settings)
    if checked.program is None:
        raise SpecError(checked.errors)
    instance, train = choose(checked, model)
    try:
        options: dict[str, object] = {"atomic": True} if atomic else {}
        options |= {} if registry is None else {"registry": registry}
        with compilation():
            return str(generate(instance, train, optimizer_of(checked, train), path.name, dtype, **options))
    except (Refusal, NoDerivative, cannot_lower) as reason:
        span = reason.span if reason.span is not None and reason.span.source.text else instance.span
        raise SpecError([refusal(reason.what, span or NOWHERE, backend)]) from reason


def backend_of(name: str) -> tuple[Callable[..., str], type[Any]]:
    """The function that makes the text of a module, and what it raises for a spec that it cannot do."""
    if name == "numpy":
        from dslc.backends.numpy import module as numpy_module
        from dslc.backends.numpy import text as numpy_text

        return numpy_module.generate, numpy_text.CannotLower
    if name == "triton":
        from dslc.backends.triton import body as triton_body
        from dslc.backends.triton import module as triton_module

        return triton_module.generate, triton_body.CannotLower
    raise ValueError(f"there is no backend {name!r}; expected 'numpy' or 'triton'")


def refusal(what: str, span: Span, backend: str) -> Diagnostic:
    return kinds.NOT_COMPILED(Label(span), what=what, backend=backend)


def choose(checked: Checked, name: str | None = None) -> tuple[p.Instance, p.TrainProgram | None]:
    """The model to compile: the named one, the one that is trained, or the last."""
    program = checked.program
    assert program is not None
    if not program.models or (name is not None and name not in program.models):
        known = f"; it has {', '.join(program.models)}" if program.models else ""
        raise ValueError(f"the spec has no model{f' {name}' if name else ''}{known}")
    trains = {t.instance.name: t for t in program.trains}
    chosen = name or next((n for n in reversed(program.models) if n in trains), None) or list(program.models)[-1]
    return program.models[chosen], trains.get(chosen)


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
    **settings: object,
) -> ModuleType:  # fmt: skip
    """Compile a spec and import the result.

    `m = dslc.compile("mlp.dsl", hidden=512)` gives the module that `dslc compile` writes.
    """
    return imported(compile_text(Path(path), backend, settings, dtype, model, atomic), Path(path).stem)


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

"""A spec as the commands need it that run it: checked, compiled, and known by a fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from types import ModuleType

    from dslc.backends.record import Backend
    from dslc.check import program as p
    from dslc.frontend import Checked


@dataclass
class Compiled:
    """A spec, the model of it that was chosen, its training if it has one, and the module in memory."""

    checked: Checked
    model: p.Instance
    train: p.TrainProgram | None
    module: ModuleType
    fingerprint: str
    #: what the module computes with
    backend: str
    #: hyper-parameters and sizes that were set
    settings: Mapping[str, object] = field(default_factory=dict)


@contextmanager
def spec_errors(as_json: bool, version: int) -> Iterator[None]:
    """Errors of the spec as an object on standard output, where a command was asked for JSON."""
    from dslc.diagnostics.render import to_json
    from dslc.diagnostics.spec_error import SpecError

    try:
        yield
    except SpecError as error:
        if not as_json:
            raise
        told = [to_json(diagnostic) for diagnostic in error.diagnostics]
        click.echo(json.dumps({"version": version, "ok": False, "diagnostics": told}, indent=2))
        click.get_current_context().exit(1)


def chosen(
    spec: Path, settings: Mapping[str, object], model: str | None
) -> tuple[Checked, p.Instance, p.TrainProgram | None]:
    """A spec without errors and the model in it that is meant; raises SpecError or a usage error."""
    from dslc.compiler import choose
    from dslc.diagnostics.spec_error import SpecError
    from dslc.frontend import check_file

    checked = check_file(spec, settings)
    if checked.program is None:
        raise SpecError(checked.errors)
    try:
        return checked, *choose(checked, model)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


#: what `--backend auto` tries, one after the other
AUTO = ("c", "numpy")


def compiled(
    spec: Path, settings: dict[str, object], dtype: str, model: str | None, backend: str = "auto", quiet: bool = False
) -> Compiled:
    """Check and compile a spec; raises SpecError with its diagnostics. What `auto` means is told in a line."""
    from dslc.backends.record import Unavailable
    from dslc.backends.registry import BACKENDS
    from dslc.diagnostics.kinds import NOT_COMPILED
    from dslc.diagnostics.spec_error import SpecError

    checked, instance, train = chosen(spec, settings, model)
    names = [name for name in AUTO if name in BACKENDS] if backend == "auto" else [backend]
    told = ""
    for name in names:
        try:
            module, tool = module_of(BACKENDS[name], spec, settings, dtype, model)
        except Unavailable as reason:
            if name == names[-1]:
                raise click.ClickException(f"the backend {name} cannot be used: {reason}") from reason
            told = f", since {name} cannot be used: {reason}"
            continue
        except SpecError as error:
            (first, *_) = error.diagnostics
            if name == names[-1] or first.code != NOT_COMPILED.code:
                raise
            told = f", since {name} cannot be used: {first.message}"
            continue
        if backend == "auto" and not quiet:
            click.echo(f"backend: {name}{f' ({tool})' if tool else ''}{told}", err=True)
        print_of = fingerprint(checked, settings, dtype, instance.name)
        return Compiled(checked, instance, train, module, print_of, name, settings)
    raise AssertionError("there is a backend to try")


def module_of(
    backend: Backend, spec: Path, settings: Mapping[str, object], dtype: str, model: str | None
) -> tuple[ModuleType, str]:
    """The module of a spec, which takes NumPy arrays, and what it runs with; raises Unavailable."""
    import importlib.util

    from dslc.backends.record import Unavailable
    from dslc.cli.plain import Plain
    from dslc.compiler import compile_module

    if dtype in backend.lacks:
        raise Unavailable(": ".join(backend.lacks[dtype]))
    if dtype == "bf16" and not backend.on_arrays:
        raise Unavailable("NumPy has no bfloat16, and this command keeps parameters in arrays: take the backend c")
    if missing := [name for name in backend.needs if importlib.util.find_spec(name) is None]:
        raise Unavailable(f"{' and '.join(missing)} not installed")
    if backend.arrays is None:
        raise Unavailable("its modules do not run in Python")
    tool = backend.runs_with()
    arrays = backend.arrays()
    try:
        module = compile_module(spec, backend.name, dtype, model, False, (), False, **settings)
    except RuntimeError as error:  # of a compiler
        raise click.ClickException(f"{error}\n(--backend numpy needs no compiler)") from error
    return module if backend.on_arrays else Plain(module, arrays), tool


def fingerprint(checked: Checked, settings: Mapping[str, object], dtype: str, model: str) -> str:
    """A hash of what a spec and its imports say, layout and comments apart, and of how it is compiled."""
    from dslc.syntax.printer import print_module, print_node

    assert checked.file is not None
    own = print_module(checked.file.parsed.module)
    imported = sorted(f"{name}:{print_node(d.node)}" for name, d in checked.file.names.items())
    text = json.dumps([own, imported, sorted(settings.items()), dtype, model])
    return hashlib.sha256(text.encode()).hexdigest()

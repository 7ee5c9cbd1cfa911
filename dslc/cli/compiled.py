"""A spec as the commands need it that run it: checked, compiled, and known by a fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from types import ModuleType

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


def compiled(spec: Path, settings: dict[str, object], dtype: str, model: str | None) -> Compiled:
    """Check and compile a spec; raises SpecError with its diagnostics."""
    from dslc.compiler import compile_module

    checked, instance, train = chosen(spec, settings, model)
    module = compile_module(spec, "numpy", dtype, model, False, (), **settings)
    return Compiled(checked, instance, train, module, fingerprint(checked, settings, dtype, instance.name))


def fingerprint(checked: Checked, settings: Mapping[str, object], dtype: str, model: str) -> str:
    """A hash of what a spec and its imports say, layout and comments apart, and of how it is compiled."""
    from dslc.syntax.printer import print_module, print_node

    assert checked.file is not None
    own = print_module(checked.file.parsed.module)
    imported = sorted(f"{name}:{print_node(d.node)}" for name, d in checked.file.names.items())
    text = json.dumps([own, imported, sorted(settings.items()), dtype, model])
    return hashlib.sha256(text.encode()).hexdigest()
